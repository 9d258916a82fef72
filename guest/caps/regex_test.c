/* guest/caps/regex_test.c: what matches where, what is refused, and that no pattern takes long. */
#include "guest/caps/regex.h"
#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "tests/unit/test.h"

#include <stdlib.h>

static const struct {
    const char *pattern, *text;
    int from, to; /* -1: no match */
    bool ignores_case;
} rows[] = {
    {"abc", "xxabcxx", 2, 5},
    {"abc", "ab", -1, 0},
    {"", "x", 0, 0},
    {"a*", "baaa", 0, 0},
    {"a+", "baaa", 1, 4},
    {"a|ab", "xab", 1, 3}, /* the longest */
    {"(a|b)*c", "ababc", 0, 5},
    {"(?:ab)+", "xababx", 1, 5},
    {"a?b", "aab", 1, 3},
    {"a{2}", "caaa", 1, 3},
    {"a{2,}", "caaaa", 1, 5},
    {"a{1,2}b", "aaab", 1, 4},
    {"a{0}b", "ab", 1, 2},
    {"(a*)*b", "aaab", 0, 4},
    {"(a?){3}b", "aab", 0, 3},
    {"^a", "ba", -1, 0},
    {"^b", "ba", 0, 1},
    {"a$", "ba", 1, 2},
    {"^$", "", 0, 0},
    {"b$", "ba", -1, 0},
    {"\\bfoo\\b", "a foo b", 2, 5},
    {"\\bfoo\\b", "afoo", -1, 0},
    {"\\Boo", "foo", 1, 3},
    {"[a-c]+", "xxabcd", 2, 5},
    {"[^a-c]+", "abxyc", 2, 4},
    {"[]a]+", "x]a", 1, 3},
    {"[a\\]]+", "x]a", 1, 3},
    {"[-a]+", "x-a", 1, 3},
    {"[a-]+", "x-a", 1, 3},
    {"\\d+\\.\\d", "v12.5", 1, 5},
    {"\\w+", "!foo_1!", 1, 6},
    {"\\s\\S", "a b", 1, 3},
    {"\\.\\*\\{", "x.*{", 1, 4},
    {"\\t", "a\tb", 1, 2},
    {".", "\xc5\xbc", 0, 2}, /* a whole character */
    {"^.{3}$", "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e", 0, 9},
    {"[^a]", "\xf0\x9f\x98\x80", 0, 4},
    {"\xc5\xbc+", "x\xc5\xbc\xc5\xbc", 1, 5},
    {".", "\xff", -1, 0}, /* no character at all */
    {"\\W", "\xc5\xbc", 0, 2},
    {"ABC", "xabc", 1, 4, true},
    {"[A-C]+", "xabC", 1, 4, true},
    {"[^a]", "A", -1, 0, true},
    {"a.*?b", "aXbYb", 0, 5}, /* no difference: the longest */
};

static int compile(const char *pattern, bool ignores_case, struct abx_arena *a,
                   struct abx_regex_run **ret, struct abx_error *err)
{
    struct abx_regex *re;
    if (abx_regex_compile(abx_str(pattern), ignores_case, a, &re, err) < 0)
        return -1;
    *ret = abx_regex_run_new(re, a);
    assert_non_null(*ret);
    return 0;
}

TEST(the_first_match_is_found_and_the_longest_there)
{
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_arena a;
        struct abx_error err = {0};
        struct abx_regex_run *run;
        struct abx_regex_match m = {0};
        abx_arena_init(&a, 1 << 20);
        if (compile(rows[i].pattern, rows[i].ignores_case, &a, &run, &err) < 0)
            fail_msg("%s: %s", rows[i].pattern, err.msg);
        for (int again = 0; again < 2; again++) { /* a run can be used again */
            int rc = abx_regex_search(run, abx_str(rows[i].text), NULL, &m);
            if (rc != (rows[i].from >= 0) ||
                (rc && (m.from != (size_t)rows[i].from || m.to != (size_t)rows[i].to)))
                fail_msg("%s in %s: %d %zu-%zu", rows[i].pattern, rows[i].text, rc, m.from, m.to);
        }
        abx_arena_done(&a);
    }
}

TEST(what_is_no_pattern_is_refused)
{
    static const char *const bad[] = {
        "(",   ")",          "[",        "[a",     "*a",    "a|*",     "\\",
        "\\1", "(?=a)",      "(?P<n>a)", "a{2,1}", "a{",    "a{1001}", "[b-a]",
        "\\q", "[\xc5\xbc]", "a{x}",     "((((a",  "[\\q]",
    };
    for (size_t i = 0; i < ABX_COUNTOF(bad); i++) {
        struct abx_arena a;
        struct abx_error err = {0};
        struct abx_regex_run *run;
        abx_arena_init(&a, 1 << 20);
        if (compile(bad[i], false, &a, &run, &err) == 0)
            fail_msg("'%s' was taken", bad[i]);
        assert_int_equal(err.code, ABX_INVALID_ARGUMENT);
        abx_arena_done(&a);
    }
}

static bool count_turns(void *ctx)
{
    return ++*(int *)ctx < 400;
}

/* Patterns that take years where every way is tried. */
TEST(no_pattern_takes_long)
{
    static const char *const evil[] = {
        "(a*)*b", "(a|a)*b", "(a|aa)+$", "(.*a){20}b", "(x+x+)+y", "^(([a-z])+.)+[A-Z]([a-z])+$",
    };
    struct abx_buf text;
    abx_buf_init(&text, 1 << 20);
    for (int i = 0; i < 100000; i++)
        abx_buf_put_byte(&text, 'a');
    for (size_t i = 0; i < ABX_COUNTOF(evil); i++) {
        struct abx_arena a;
        struct abx_error err = {0};
        struct abx_regex_run *run;
        struct abx_regex_match m;
        int turns = 0;
        const struct abx_regex_patience patience = {count_turns, &turns};
        abx_arena_init(&a, 16 << 20);
        assert_int_equal(compile(evil[i], false, &a, &run, &err), 0);
        if (abx_regex_search(run, abx_buf_str(&text), &patience, &m) < 0)
            fail_msg("%s takes more than linear time", evil[i]);
        abx_arena_done(&a);
    }
    abx_buf_done(&text);
}

TEST(a_pattern_that_becomes_too_large_is_refused)
{
    static const char *const large[] = {
        "(a{1000}){1000}",
        "((a{100}){100}){100}",
        "(((((a{9}){9}){9}){9}){9}){9}",
        "(.{1000}){2}",
    };
    for (size_t i = 0; i < ABX_COUNTOF(large); i++) {
        struct abx_arena a;
        struct abx_error err = {0};
        struct abx_regex_run *run;
        abx_arena_init(&a, 1 << 20);
        assert_int_equal(compile(large[i], false, &a, &run, &err), -1);
        abx_arena_done(&a);
    }
}

TEST(patience_ends_a_search)
{
    struct abx_arena a;
    struct abx_error err = {0};
    struct abx_regex_run *run;
    struct abx_regex_match m;
    struct abx_buf text;
    int turns = 399; /* the first question is answered with no */
    const struct abx_regex_patience patience = {count_turns, &turns};
    abx_arena_init(&a, 16 << 20);
    abx_buf_init(&text, 8 << 20);
    for (int i = 0; i < 1000000; i++)
        abx_buf_put_byte(&text, 'a');
    assert_int_equal(compile("(a|a|a|a)*b", false, &a, &run, &err), 0);
    assert_int_equal(abx_regex_search(run, abx_buf_str(&text), &patience, &m), -1);
    abx_buf_done(&text);
    abx_arena_done(&a);
}
