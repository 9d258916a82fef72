/* guest/caps/grep_test.c: lines, their numbers and what stands around them. */
#include "guest/caps/grep.h"
#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "tests/unit/test.h"

#include <stdlib.h>

static bool note(void *ctx, const struct abx_grep_line *l)
{
    struct abx_buf *out = ctx;
    for (size_t i = 0; i < l->before_count; i++)
        abx_buf_putf(out, "-%.*s", ABX_STR_FMT(l->before[i]));
    abx_buf_putf(out, "[%d %zu-%zu %.*s]", (int)l->number, l->match.from, l->match.to,
                 ABX_STR_FMT(l->text));
    for (size_t i = 0; i < l->after_count; i++)
        abx_buf_putf(out, "+%.*s", ABX_STR_FMT(l->after[i]));
    return out->len < 60;
}

static const struct {
    const char *pattern, *text, *want;
    bool is_regex, ignores_case;
    uint32_t context;
} rows[] = {
    {"b", "a\nb\nc\n", "[2 0-1 b]"},
    {"b", "a\nb", "[2 0-1 b]"},
    {"b", "", ""},
    {"b", "b\r\n\r\nb\r\n", "[1 0-1 b][3 0-1 b]"},
    {"b", "xbxb\n", "[1 1-2 xbxb]"},
    {"b\r", "b\r\nxb\rb\r\nb\r", "[2 1-3 xb\rb]"},
    {"b", "1\n2\nb\n4\n5\n", "-1-2[3 0-1 b]+4+5", false, false, 2},
    {"b", "b\n", "[1 0-1 b]", false, false, 3},
    {"b", "x\nb\nb\n", "-x[2 0-1 b]+b-x-b[3 0-1 b]", false, false, 2},
    {"a.c", "abc\na.c\n", "[2 0-3 a.c]"},
    {"a.c", "abc\nA.C\n", "[2 0-3 A.C]", false, true},
    {"a.c", "abc\na.c\n", "[1 0-3 abc][2 0-3 a.c]", true},
    {"^$", "a\n\nb\n", "[2 0-0 ]", true},
    {"a$", "a\r\nba\n", "[1 0-1 a][2 1-2 ba]", true},
};

TEST(lines_are_found_with_what_is_around_them)
{
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_arena a;
        struct abx_buf said;
        struct abx_error err = {0};
        struct abx_grep *g;
        const struct abx_grep_spec spec = {abx_str(rows[i].pattern), rows[i].is_regex,
                                           rows[i].ignores_case, rows[i].context};
        abx_arena_init(&a, 1 << 20);
        abx_buf_init(&said, 4096);
        abx_buf_put_c(&said, "");
        assert_int_equal(abx_grep_new(&spec, &a, &g, &err), 0);
        assert_int_equal(abx_grep_text(g, abx_str(rows[i].text), NULL, note, &said), 0);
        if (strcmp(said.ptr ? said.ptr : "", rows[i].want) != 0)
            fail_msg("row %zu: %s", i, said.ptr);
        abx_buf_done(&said);
        abx_arena_done(&a);
    }
}

TEST(a_pattern_has_no_newline)
{
    struct abx_arena a;
    struct abx_error err = {0};
    struct abx_grep *g;
    const struct abx_grep_spec spec = {.pattern = ABX_STR("a\nb")};
    abx_arena_init(&a, 1 << 20);
    assert_int_equal(abx_grep_new(&spec, &a, &g, &err), -1);
    assert_int_equal(err.code, ABX_INVALID_ARGUMENT);
    abx_arena_done(&a);
}

TEST(a_text_with_a_nul_is_none)
{
    assert_true(abx_grep_is_binary(abx_str_n("a\0b", 3)));
    assert_false(abx_grep_is_binary(ABX_STR("text")));
    assert_false(abx_grep_is_binary(ABX_STR("")));
}
