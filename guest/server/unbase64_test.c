/* guest/server/unbase64_test.c: what is base64 and what is not, wherever the pieces are cut. */
#include "guest/server/unbase64.h"
#include "lib/base/assert.h"
#include "lib/base/parse.h"
#include "tests/unit/test.h"

enum { OUT_MAX = 4096 };

static const struct {
    const char *text, *bytes; /* NULL: it is none */
} rows[] = {
    {"", ""},           {"QQ==", "A"},          {"QUI=", "AB"},
    {"QUJD", "ABC"},    {"QUJDRA==", "ABCD"},   {"QUJDREVGR0hJSg==", "ABCDEFGHIJ"},
    {"QR==", "A"}, /* bits that stand for nothing */
    {"QUJ=", "AB"},     {"fn4+", "~~>"},        {"QQ", NULL},
    {"QQ=", NULL},      {"Q===", NULL},         {"====", NULL},
    {"=", NULL},        {"QQ==QQ==", NULL},     {"QUI=QUJD", NULL},
    {"QUJDQ=ID", NULL}, {"QUJ\n", NULL},        {"QUJDQU JD", NULL},
    {"QUJDQUJ-", NULL}, {"QUJDQUJ_QUJD", NULL}, {"QUJD\x80UJD", NULL},
};

/* True: it was base64, and @out is what it says. */
static bool decode(struct abx_str text, size_t step, struct abx_buf *out)
{
    struct abx__unbase64 u = {0};
    for (size_t at = 0; at < text.len; at += step)
        abx__unbase64_feed(&u, abx_str_sub(text, at, step), out);
    return abx__unbase64_end(&u, out);
}

TEST(base64_is_the_same_wherever_it_is_cut)
{
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++)
        for (size_t step = 1; step <= 20; step++) {
            ABX_AUTO_BUF out;
            abx_buf_init(&out, OUT_MAX);
            bool is_good = decode(abx_str(rows[i].text), step, &out);
            if (is_good != (rows[i].bytes != NULL))
                fail_msg("%s in steps of %zu: %d", rows[i].text, step, is_good);
            if (is_good && !abx_str_is(abx_buf_str(&out), rows[i].bytes))
                fail_msg("%s in steps of %zu: %.*s", rows[i].text, step,
                         ABX_STR_FMT(abx_buf_str(&out)));
        }
}

TEST(all_bytes_come_back)
{
    char bytes[257];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i * 7);
    for (size_t len = 0; len <= sizeof(bytes); len++)
        for (size_t step = 1; step < 12; step += 3) {
            ABX_AUTO_BUF text;
            ABX_AUTO_BUF out;
            abx_buf_init(&text, OUT_MAX);
            abx_buf_init(&out, OUT_MAX);
            abx_base64_encode(bytes, len, true, &text);
            assert_true(decode(abx_buf_str(&text), step, &out));
            assert_int_equal(out.len, len);
            assert_true(len == 0 || memcmp(out.ptr, bytes, len) == 0);
        }
}
