/* lib/wire/envelope_test.c: Connect's envelope at every split. */
#include "lib/wire/envelope.h"

#include "tests/unit/alloc.h"
#include "tests/unit/test.h"

#include <stdlib.h>

#include "lib/base/banned.h"

static const char stream[] = "\0\0\0\0\3abc\2\0\0\0\0\1\0\0\0\2{}";
static const char stream_log[] = "0<abc>2<>1<{}>";

static int feed(struct abx_envelope_reader *r, struct abx_str in, struct abx_buf *log,
                struct abx_error *err)
{
    uint8_t flags;
    struct abx_str payload;
    int got;
    while ((got = abx_envelope_read(r, &in, &flags, &payload, err)) > 0)
        abx_buf_putf(log, "%u<%.*s>", flags, ABX_STR_FMT(payload));
    return got;
}

static int feed_exact(struct abx_envelope_reader *r, const char *data, size_t len,
                      struct abx_buf *log)
{
    char *fit = malloc(len); /* exact, so that a sanitizer sees an over-read */
    struct abx_error err = {0};
    assert_non_null(fit);
    memcpy(fit, data, len);
    int got = feed(r, abx_str_n(fit, len), log, &err);
    free(fit);
    return got;
}

TEST(envelope_reads_the_same_at_every_split)
{
    const size_t len = sizeof(stream) - 1;
    for (size_t first = 1; first < len; first++) {
        for (size_t step = 1; step <= len; step += len - 1) {
            struct abx_envelope_reader r;
            ABX_AUTO_BUF log;
            abx_buf_init(&log, 1000);
            abx_envelope_reader_init(&r, 3);
            for (size_t at = 0, n = first; at < len; at += n, n = step) {
                if (n > len - at)
                    n = len - at;
                assert_int_equal(feed_exact(&r, stream + at, n, &log), 0);
            }
            assert_true(abx_envelope_reader_idle(&r));
            assert_string_equal(log.ptr, stream_log);
            abx_envelope_reader_done(&r);
        }
    }
}

TEST(envelope_refuses_what_it_does_not_know_and_stays_so)
{
    static const struct {
        const char *bytes;
        enum abx_code code;
    } rows[] = {{"\4\0\0\0\1a", ABX_INVALID_ARGUMENT},
                {"\200\0\0\0\1a", ABX_INVALID_ARGUMENT},
                {"\0\0\0\0\4a", ABX_RESOURCE_EXHAUSTED},
                {"\0\377\377\377\377a", ABX_RESOURCE_EXHAUSTED}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct abx_envelope_reader r;
        ABX_AUTO_BUF log;
        abx_buf_init(&log, 100);
        abx_envelope_reader_init(&r, 3);
        for (int again = 0; again < 2; again++) {
            struct abx_error err = {0};
            assert_int_equal(feed(&r, abx_str_n(rows[i].bytes, 6), &log, &err), -1);
            assert_int_equal(err.code, rows[i].code);
        }
        assert_int_equal(log.len, 0);
        assert_false(abx_envelope_reader_idle(&r));
        abx_envelope_reader_done(&r);
    }
}

TEST(envelope_allocates_only_what_came)
{
    struct abx_envelope_reader r;
    ABX_AUTO_BUF log;
    abx_buf_init(&log, 100);
    abx_envelope_reader_init(&r, UINT32_MAX);
    assert_int_equal(feed_exact(&r, "\0\377\377\377\377abc", 8, &log), 0);
    assert_true(r.payload.cap < 1024);
    assert_false(abx_envelope_reader_idle(&r));
    abx_envelope_reader_done(&r);
}

TEST(envelope_head_is_big_endian)
{
    unsigned char head[ABX_ENVELOPE_HEAD];
    abx_envelope_head(ABX_ENVELOPE_END, 0x01020304, head);
    assert_memory_equal(head, "\2\1\2\3\4", 5);
}

TEST(envelope_reports_that_there_is_no_memory)
{
    struct abx_envelope_reader r;
    struct abx_error err;
    ABX_AUTO_BUF log;
    abx_buf_init(&log, 100);
    abx_envelope_reader_init(&r, 100);
    abx_alloc_fail(1);
    assert_int_equal(feed(&r, abx_str_n("\0\0\0\0\3ab", 7), &log, &err), -1);
    assert_int_equal(err.code, ABX_RESOURCE_EXHAUSTED);
    assert_true(abx_alloc_failed());
    abx_envelope_reader_done(&r);
}
