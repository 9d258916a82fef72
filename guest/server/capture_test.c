/* guest/server/capture_test.c: what is kept, under which number, whatever the pieces. */
#include "guest/server/capture.h"
#include "lib/base/assert.h"
#include "tests/unit/test.h"

#include <stdio.h>

/* Numbers, streams and texts as "0o[text]1e[text]". */
static const char *shown(const struct abx__capture *c, uint64_t since)
{
    static char text[8192];
    size_t n = 0;
    struct abx__capture_cursor cur;
    struct abx__capture_event e;
    text[0] = '\0';
    abx__capture_seek(c, since, &cur);
    while (abx__capture_next(c, &cur, &e))
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%llu%c[%.*s]", (unsigned long long)e.seq,
                              "oe"[e.stream], ABX_STR_FMT(e.data));
    return text;
}

TEST(capture_numbers_pieces_from_zero)
{
    struct abx__capture c;
    abx__capture_init(&c, 100);
    abx__capture_put(&c, 0, ABX_STR("a"));
    abx__capture_put(&c, 1, ABX_STR("b"));
    abx__capture_put(&c, 0, ABX_STR(""));
    abx__capture_put(&c, 0, ABX_STR("c"));
    assert_string_equal(shown(&c, 0), "0o[a]1e[b]2o[c]");
    assert_string_equal(shown(&c, 2), "2o[c]");
    assert_string_equal(shown(&c, 3), "");
    assert_string_equal(shown(&c, 99), "");
    assert_false(c.is_dropped);
    abx__capture_done(&c);
}

TEST(capture_keeps_the_newest)
{
    struct abx__capture c;
    abx__capture_init(&c, 5);
    for (int i = 0; i < 1000; i++)
        abx__capture_put(&c, 0, ABX_STR("ab"));
    assert_string_equal(shown(&c, 0), "998o[ab]999o[ab]");
    assert_int_equal(c.text_bytes, 4);
    assert_true(c.is_dropped);
    abx__capture_put(&c, 1, ABX_STR("longer than five"));
    assert_string_equal(shown(&c, 0), "");
    assert_int_equal(c.next_seq, 1001);
    abx__capture_put(&c, 1, ABX_STR("new"));
    assert_string_equal(shown(&c, 0), "1001e[new]");
    abx__capture_done(&c);
}

TEST(capture_cuts_between_characters)
{
    struct abx__capture c;
    struct abx__capture_cursor cur;
    struct abx__capture_event e;
    struct abx_buf in;
    abx__capture_init(&c, 1 << 20);
    abx_buf_init(&in, 1 << 20);
    for (int i = 0; i < 6000; i++)
        abx_buf_put_c(&in, "\xE2\x82\xAC");
    abx__capture_put(&c, 0, abx_str_sub(abx_buf_str(&in), 0, 7000));
    abx__capture_put(&c, 0, abx_str_sub(abx_buf_str(&in), 7000, in.len));
    size_t total = 0;
    abx__capture_seek(&c, 0, &cur);
    while (abx__capture_next(&c, &cur, &e)) {
        assert_true(e.data.len <= ABX__CAPTURE_PIECE && abx_str_is_utf8(e.data));
        total += e.data.len;
    }
    assert_int_equal(total, in.len);
    abx_buf_done(&in);
    abx__capture_done(&c);
}

TEST(capture_gives_the_beginning_of_a_character_at_the_end)
{
    struct abx__capture c;
    abx__capture_init(&c, 100);
    abx__capture_put(&c, 1, ABX_STR("x\xE2\x82"));
    assert_string_equal(shown(&c, 0), "0e[x]");
    abx__capture_put(&c, 0, ABX_STR("o")); /* the other stream has its own characters */
    abx__capture_end(&c);
    assert_string_equal(shown(&c, 0), "0e[x]1o[o]2e[\xE2\x82]");
    abx__capture_done(&c);
}

TEST(capture_that_was_dropped_says_so)
{
    struct abx__capture c;
    abx__capture_init(&c, 100);
    abx__capture_drop(&c);
    assert_false(c.is_dropped);
    abx__capture_put(&c, 0, ABX_STR("a"));
    abx__capture_drop(&c);
    assert_true(c.is_dropped);
    assert_string_equal(shown(&c, 0), "");
    abx__capture_put(&c, 0, ABX_STR("b"));
    assert_string_equal(shown(&c, 0), "1o[b]");
    abx__capture_done(&c);
}
