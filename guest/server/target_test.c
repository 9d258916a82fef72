/* guest/server/target_test.c: targets and queries as the published server reads them. */
#include "guest/server/target.h"
#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "tests/unit/test.h"

static const char *const paths[][2] = {
    {"/health", "/health"},
    {"/health///", "/health"},
    {"//health", "/health"},
    {"///a//b//", "/a//b"},
    {"/health;v=1", "/health"},
    {"/a;x/b;y", "/a;x/b"},
    {"/health/;x", "/health"},
    {"/", "/"},
    {"", "/"},
    {"//", "/"},
    {";x", "/"},
    {"/a#b", "/a"},
    {"/%68ealth", "/%68ealth"},
    {"/./a", "/./a"},
};

TEST(paths_are_normalised_as_published)
{
    for (size_t i = 0; i < ABX_COUNTOF(paths); i++) {
        struct abx_str got = abx__target_path(abx_str(paths[i][0]));
        if (!abx_str_is(got, paths[i][1]))
            fail_msg("%s: %.*s, not %s", paths[i][0], ABX_STR_FMT(got), paths[i][1]);
    }
}

/* "name=value|" for each pair; "twice:name" when one is repeated; "!-1" */
static void read_query(const char *text, struct abx_arena *a, char out[256])
{
    struct abx__pair pairs[4];
    struct abx_buf b = {.ptr = out, .cap = 256, .max = 255};
    out[0] = '\0';
    int n = abx__target_pairs(abx_str(text), a, pairs, 4);
    if (n < 0) {
        abx_buf_putf(&b, "!%d", n);
        return;
    }
    for (int i = 0; i < n; i++)
        abx_buf_putf(&b, "%.*s=%.*s|", ABX_STR_FMT(pairs[i].name), ABX_STR_FMT(pairs[i].value));
    struct abx_str twice = abx__target_double(pairs, (size_t)n);
    if (twice.ptr)
        abx_buf_putf(&b, "twice:%.*s", ABX_STR_FMT(twice));
}

static const char *const queries[][2] = {
    {"", ""},
    {"a=1&b=2", "a=1|b=2|"},
    {"a=1&a=2", "a=1|a=2|twice:a"},
    {"a=&a=1", "a=1|"},
    {"a&b=&=c", "=c|"},
    {"a=x+y%20z", "a=x y z|"},
    {"a=%2Fno%20where+at", "a=/no where at|"},
    {"a=%", "a=%|"},
    {"a=%4", "a=%4|"},
    {"a=%zz&b=100%", "a=%zz|b=100%|"},
    {"a=1;b=2", "a=1;b=2|"},
    {"a=%ff", "a=\xff|"},
    {"%61=1&a=2", "a=1|a=2|twice:a"},
    {"a=b=c", "a=b=c|"},
    {"a=1#b=2", "a=1|"},
    {"a=1&b=2&c=3&d=4&e=5", "!-1"},
};

TEST(queries_are_read_by_form_rules)
{
    for (size_t i = 0; i < ABX_COUNTOF(queries); i++) {
        struct abx_arena a;
        char got[256];
        abx_arena_init(&a, 65536);
        read_query(queries[i][0], &a, got);
        if (strcmp(got, queries[i][1]) != 0)
            fail_msg("%s: %s, not %s", queries[i][0], got, queries[i][1]);
        abx_arena_done(&a);
    }
    struct abx_arena small;
    char got[256];
    abx_arena_init(&small, 8);
    read_query("a=123456789012345678901234567890", &small, got);
    assert_string_equal(got, "!-2");
    abx_arena_done(&small);
}

static const struct {
    const char *pattern, *path, *want; /* NULL: no match */
} matches[] = {
    {"/health", "/health", ""},
    {"/health", "/healthy", NULL},
    {"/process/{pid}", "/process/12", "pid=12|"},
    {"/process/{pid}", "/process/", NULL},
    {"/process/{pid}", "/process/1/2", NULL},
    {"/process/{pid}/stdin", "/process/a%20b/stdin", "pid=a b|"},
    {"/commands/{name}", "/commands/a%2Fb", "name=a%2Fb|"},
    {"/commands/{name}", "/commands/%2e%2e", "name=..|"},
    {"/{a}/{b}", "/1/2", "a=1|b=2|"},
    {"/{a}/{b}/{c}/{d}/{e}", "/1/2/3/4/5", NULL},
    {"/a/{}", "/a/{}", ""},
};

TEST(patterns_match_segment_by_segment)
{
    for (size_t i = 0; i < ABX_COUNTOF(matches); i++) {
        struct abx_arena a;
        struct abx__pair pairs[4];
        size_t count = 4;
        char text[256] = "";
        struct abx_buf b = {.ptr = text, .cap = sizeof(text), .max = sizeof(text) - 1};
        abx_arena_init(&a, 65536);
        bool yes = abx__target_match(abx_str(matches[i].pattern), abx_str(matches[i].path), &a,
                                     pairs, &count);
        for (size_t k = 0; yes && k < count; k++)
            abx_buf_putf(&b, "%.*s=%.*s|", ABX_STR_FMT(pairs[k].name), ABX_STR_FMT(pairs[k].value));
        if (yes != (matches[i].want != NULL) || (yes && strcmp(text, matches[i].want) != 0))
            fail_msg("%s, %s: %s", matches[i].pattern, matches[i].path, yes ? text : "no");
        abx_arena_done(&a);
    }
}
