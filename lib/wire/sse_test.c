/* lib/wire/sse_test.c: events written and read, at every split. */
#include "lib/base/assert.h"
#include "lib/wire/sse.h"
#include "tests/unit/test.h"

/* Feeds @text in two parts; each event as "[name|data|id]". */
static void collect(const char *text, size_t split, size_t max, struct abx_buf *out)
{
    struct abx_sse_parser p;
    struct abx_sse_event e;
    struct abx_str all = abx_str(text);
    abx_sse_parser_init(&p, max);
    for (int part = 0; part < 2; part++) {
        struct abx_str in = part ? abx_str_sub(all, split, all.len) : abx_str_sub(all, 0, split);
        enum abx_sse_result r;
        while ((r = abx_sse_parse(&p, &in, &e, NULL)) == ABX_SSE_EVENT)
            abx_buf_putf(out, "[%.*s|%.*s|%.*s]", ABX_STR_FMT(e.name), ABX_STR_FMT(e.data),
                         ABX_STR_FMT(e.id));
        if (r == ABX_SSE_ERROR) {
            abx_buf_put_c(out, "!");
            break;
        }
        assert_int_equal(in.len, 0);
    }
    if (p.has_retry)
        abx_buf_putf(out, "retry %d", (int)p.retry_ms);
    abx_sse_parser_done(&p);
}

static const struct {
    const char *text, *want;
} rows[] = {
    {"event: a\ndata: 1\n\n", "[a|1|]"},
    {"data: 1\ndata: 2\n\n", "[message|1\n2|]"},
    {"data:1\rdata:  2\r\n\r\n", "[message|1\n 2|]"},
    {"data\n\ndata\ndata\n\n", "[message||][message|\n|]"},
    {": ping\n\ndata: x\n\n", "[message|x|]"},
    {"event: lost\n\ndata: x\n\n", "[message|x|]"},
    {"id: 7\ndata: x\n\ndata: y\n\nid\ndata: z\n\n", "[message|x|7][message|y|7][message|z|]"},
    {"retry: 250\nretry: x\ndata: a\n\n", "[message|a|]retry 250"},
    {"\xEF\xBB\xBF"
     "data: b\n\n",
     "[message|b|]"},
    {"data: cut\n", ""},
    {"unknown: x\ndata: a\n\n", "[message|a|]"},
    {"data: a\r\r", "[message|a|]"},
    {"data: 0123456789012345678901234567890123\n\n", "!"},
    {"data: 0123456789012\ndata: 012345678901234567\n\n", "!"},
};

TEST(streams_are_read_at_every_split)
{
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++)
        for (size_t split = 0; split <= strlen(rows[i].text); split++) {
            ABX_AUTO_BUF got;
            abx_buf_init(&got, 4096);
            collect(rows[i].text, split, 30, &got);
            assert_string_equal(got.ptr ? got.ptr : "", rows[i].want);
        }
}

TEST(what_is_written_reads_back)
{
    static const char *const data[] = {"", "x", "a\nb", "a\r\nb\rc\n", "{\"a\":\"\\n\"}"};
    static const char *const back[] = {"", "x", "a\nb", "a\nb\nc\n", "{\"a\":\"\\n\"}"};
    for (size_t i = 0; i < ABX_COUNTOF(data); i++) {
        ABX_AUTO_BUF out;
        struct abx_sse_parser p;
        struct abx_sse_event e;
        abx_buf_init(&out, 4096);
        abx_sse_write(&out, ABX_STR("n"), abx_str(data[i]));
        struct abx_str in = abx_buf_str(&out);
        abx_sse_parser_init(&p, 4096);
        assert_int_equal(abx_sse_parse(&p, &in, &e, NULL), ABX_SSE_EVENT);
        assert_true(abx_str_is(e.name, "n"));
        assert_true(abx_str_is(e.data, back[i]));
        assert_int_equal(abx_sse_parse(&p, &in, &e, NULL), ABX_SSE_MORE);
        abx_sse_parser_done(&p);
    }
}

TEST(the_published_form_is_kept)
{
    ABX_AUTO_BUF out;
    abx_buf_init(&out, 4096);
    abx_sse_write(&out, ABX_STR("stdout"), ABX_STR("{\"data\": \"x\"}"));
    assert_string_equal(out.ptr, "event: stdout\ndata: {\"data\": \"x\"}\n\n");
}
