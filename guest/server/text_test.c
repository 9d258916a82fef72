/* guest/server/text_test.c: characters at every cut, numbers as Python reads them. */
#include "guest/server/text.h"
#include "lib/base/assert.h"
#include "tests/unit/test.h"

TEST(text_fed_in_any_pieces_is_the_text)
{
    static const char text[] = "a\xC5\xBC\xE2\x82\xAC\xF0\x9F\x98\x80z";
    struct abx_str all = abx_str(text);
    for (size_t first = 0; first <= all.len; first++)
        for (size_t second = first; second <= all.len; second++) {
            struct abx__text_rest rest = {0};
            struct abx_buf out;
            abx_buf_init(&out, 64);
            const size_t cuts[] = {0, first, second, all.len};
            for (size_t i = 0; i + 1 < ABX_COUNTOF(cuts); i++) {
                abx__text_feed(&rest, abx_str_sub(all, cuts[i], cuts[i + 1] - cuts[i]), &out);
                assert_true(abx_str_is_utf8(abx_buf_str(&out)));
            }
            assert_true(abx_str_eq(abx_buf_str(&out), all));
            assert_int_equal(rest.len, 0);
            abx_buf_done(&out);
        }
}

TEST(text_that_can_not_become_a_character_is_not_kept)
{
    static const struct {
        const char *text;
        size_t len, whole;
    } rows[] = {
        {"", 0, 0},         {"a", 1, 1},
        {"a\xC5", 2, 1},    {"a\xFF", 2, 2},
        {"a\xC0", 2, 2},    {"a\x80", 2, 2},
        {"\xE2\x82", 2, 0}, {"\xE0\x80", 2, 2},
        {"\xED\xA0", 2, 2}, {"\xF0\x9F\x98", 3, 0},
        {"\xF4\x90", 2, 2}, {"\x80\x80\x80\x80", 4, 4},
        {"\xF0\x80", 2, 2}, {"\xE2\x82\xAC", 3, 3},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++)
        assert_int_equal(abx__text_whole(abx_str_n(rows[i].text, rows[i].len)), rows[i].whole);
}

TEST(text_integers_are_pythons)
{
    static const struct {
        const char *text;
        int rc;
        int64_t value;
    } rows[] = {
        {"0", 0, 0},
        {"+5", 0, 5},
        {"-7", 0, -7},
        {"1_0", 0, 10},
        {"", -1, 0},
        {"-", -1, 0},
        {"1__0", -1, 0},
        {"_1", -1, 0},
        {"1_", -1, 0},
        {" 1", -1, 0},
        {"1.5", -1, 0},
        {"0x10", -1, 0},
        {"9223372036854775808", 0, INT64_MAX},
        {"-99999999999999999999", 0, INT64_MIN},
        {"99999999999999999999x", -1, 0},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        int64_t value = 0;
        assert_int_equal(abx__text_integer(abx_str(rows[i].text), &value), rows[i].rc);
        assert_int_equal(value, rows[i].value);
    }
}
