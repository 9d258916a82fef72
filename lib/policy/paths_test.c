/* lib/policy/paths_test.c: the examples of policy.md A10 as facts, deny patterns, globs. */
#include "lib/policy/paths.h"

#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "tests/unit/test.h"

#include "lib/base/banned.h"

TEST(paths_are_normalised_by_text_alone)
{
    static const struct {
        const char *path, *base, *want;
    } rows[] = {
        {"/a/b", "/x", "/a/b"},       {"/a//b/./c/", "/x", "/a/b/c"}, {"/a/../..", "/x", "/"},
        {"b", "/x/y", "/x/y/b"},      {"../b", "/x/y", "/x/b"},       {".", "/x/y/", "/x/y"},
        {"//a", "/x", "/a"},          {"///a", "/x", "/a"},           {"", "/x", "/x"},
        {"../../../b", "/x/y", "/b"}, {"/a/b/../c", "/x", "/a/c"},    {"/%2e%2e", "/x", "/%2e%2e"},
    };
    ABX_AUTO_BUF out;
    abx_buf_init(&out, 256);
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        assert_true(abx_policy_path_normalise(abx_str(rows[i].path), abx_str(rows[i].base), &out));
        assert_string_equal(out.ptr, rows[i].want);
    }
}

TEST(a_path_that_is_none_is_400)
{
    const struct abx_policy_rule rule = {.id = ABX_STR("files_stat")};
    char text[ABX_POLICY_PATH_MAX + 2];
    const struct {
        struct abx_str path;
        bool ok;
    } rows[] = {{ABX_STR(""), false},
                {{"/a\0b", 4}, false},
                {{text, ABX_POLICY_PATH_MAX}, true},
                {{text, ABX_POLICY_PATH_MAX + 1}, false},
                {ABX_STR("\xff\xfe"), true}};
    ABX_AUTO_BUF out;
    abx_buf_init(&out, 1 << 16);
    memset(text, 'a', sizeof(text));
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_policy_verdict v = {0};
        assert_int_equal(abx_policy_path_lexical(&rule, rows[i].path, ABX_STR("/"), &out, &v),
                         rows[i].ok);
        assert_int_equal(v.code, rows[i].ok ? ABX_POLICY_OK : ABX_POLICY_INVALID_PATH);
    }
}

/* Roots: /w (as written) and /alias, which is a link to /real. */
static const struct abx_policy_root roots[] = {{{"/w", 2}, {"/w", 2}},
                                               {{"/alias", 6}, {"/real", 5}}};

struct judged {
    const char *deny;
    bool read_only, never;
    const char *lexical, *resolved;
    enum abx_path_op op;
    enum abx_policy_code code;
};

TEST(rules_answer_in_the_published_order)
{
    static const struct judged rows[] = {
        {NULL, false, false, "/w/a", "/w/a", ABX_OP_READ, ABX_POLICY_OK},
        {NULL, false, false, "/w", "/w", ABX_OP_READ, ABX_POLICY_OK},
        {NULL, false, false, "/w2/a", "/w2/a", ABX_OP_READ, ABX_POLICY_PATH_NOT_ALLOWED},
        {NULL, false, false, "/w/out", "/etc", ABX_OP_READ, ABX_POLICY_PATH_NOT_ALLOWED},
        {NULL, false, false, "/x/in", "/w/a", ABX_OP_READ, ABX_POLICY_OK},
        {NULL, false, true, "/w/in/b", "/w/sub/b", ABX_OP_READ, ABX_POLICY_SYMLINK_DENIED},
        {NULL, false, true, "/w/sub/b", "/w/sub/b", ABX_OP_READ, ABX_POLICY_OK},
        {NULL, false, true, "/alias/b", "/real/b", ABX_OP_READ, ABX_POLICY_OK},
        {NULL, false, true, "/real/b", "/real/b", ABX_OP_READ, ABX_POLICY_OK},
        {NULL, false, true, "/alias", "/real", ABX_OP_READ, ABX_POLICY_OK},
        {NULL, false, true, "/w/x", "/real/x", ABX_OP_READ, ABX_POLICY_SYMLINK_DENIED},
        {"b", false, true, "/w/in/b", "/w/sub/b", ABX_OP_READ, ABX_POLICY_SYMLINK_DENIED},
        {"in", false, false, "/w/in/b", "/w/sub/b", ABX_OP_READ, ABX_POLICY_PATH_DENIED},
        {"sub", false, false, "/w/in/b", "/w/sub/b", ABX_OP_READ, ABX_POLICY_PATH_DENIED},
        {"b", true, false, "/w/b", "/w/b", ABX_OP_WRITE, ABX_POLICY_PATH_DENIED},
        {NULL, true, false, "/w/b", "/w/b", ABX_OP_WRITE, ABX_POLICY_READ_ONLY},
        {NULL, true, false, "/w/b", "/w/b", ABX_OP_DELETE, ABX_POLICY_READ_ONLY},
        {NULL, true, false, "/w/b", "/w/b", ABX_OP_EXEC, ABX_POLICY_OK},
        {NULL, true, false, "/etc/b", "/etc/b", ABX_OP_WRITE, ABX_POLICY_PATH_NOT_ALLOWED},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_str deny = abx_str(rows[i].deny);
        const struct abx_policy_rule rule = {.id = ABX_STR("files_stat"),
                                             .paths = {.deny = {&deny, rows[i].deny != NULL},
                                                       .read_only = rows[i].read_only,
                                                       .never_links = rows[i].never}};
        const struct abx_policy_path_facts facts = {.roots = roots,
                                                    .root_count = ABX_COUNTOF(roots),
                                                    .lexical = abx_str(rows[i].lexical),
                                                    .resolved = abx_str(rows[i].resolved),
                                                    .op = rows[i].op,
                                                    .field = "cwd"};
        struct abx_policy_verdict v = {0};
        abx_policy_path_judge(&rule, &facts, &v, NULL);
        if (v.code != rows[i].code)
            fail_msg("row %zu: code %u, wanted %u", i, v.code, rows[i].code);
        assert_true(v.code == ABX_POLICY_OK || strncmp(v.text, "cwd: ", 5) == 0);
    }
}

TEST(the_kernels_files_are_denied_whatever_root_names_them)
{
    static const struct abx_policy_root top[] = {{{"/", 1}, {"/", 1}}};
    static const struct {
        const char *path;
        bool ok;
    } rows[] = {{"/proc/self/environ", false},
                {"/proc", false},
                {"/sys", false},
                {"/dev/null", false},
                {"/process", true},
                {"/etc/passwd", true},
                {"/", true}};
    const struct abx_policy_rule rule = {.id = ABX_STR("files_stat")};
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_str path = abx_str(rows[i].path);
        const struct abx_policy_path_facts facts = {
            .roots = top, .root_count = 1, .lexical = path, .resolved = path};
        struct abx_policy_verdict v = {0};
        assert_int_equal(abx_policy_path_judge(&rule, &facts, &v, NULL), rows[i].ok);
    }
}

TEST(deny_patterns_mean_what_they_mean_when_published)
{
    static const struct {
        const char *pattern, *path;
        bool hit;
    } rows[] = {
        {".ssh", "/w/.ssh/id", true},
        {".ssh", "/w/x.ssh", false},
        {"*.pem", "/w/KEY.PEM", false},
        {"*.pem", "/w/x.pem/in", true},
        {"ws", "/r/ws/a", true},
        {"[a-c].txt", "/w/b.txt", true},
        {"[!a].txt", "/w/a.txt", false},
        {"[^a].txt", "/w/a.txt", true},
        {"[]a].txt", "/w/a.txt", true},
        {"[a.txt", "/w/[a.txt", true},
        {"[z-a].txt", "/w/m.txt", false},
        {"[a-].txt", "/w/-.txt", true},
        {"\\*.txt", "/w/*.txt", false},
        {"a*b", "/w/a\nb", true},
        {"", "/w/a", false},
        {"/w/sub", "/w/sub/b", true},
        {"/w/sub/", "/w/sub", true},
        {"/w/su", "/w/sub", false},
        {"/r/*/deep", "/r/a/b/deep/c", true},
        {"/w/sub/**", "/w/sub", false},
        {"/w/sub/**", "/w/sub/b", true},
        {"/w?a", "/w/a", true},
        {"/", "/w/a", false},
        {"//", "/w/a", false},
        {"/w//a", "/w/a", false},
        {"/w/x/../a", "/w/a", false},
        {"**/.env", "/w/.env/x", true},
        {"**/.env.*", "/w/.env", false},
        {"sub/b", "/w/o/sub/b/c", true},
        {"ub/b", "/w/sub/b", false},
        {"sub/", "/w/x/sub", true},
        {"*/b", "/w/sub/b", true},
        {"**/", "/w/a", true},
        {"**/", "/", false},
        {"?/", "/tmp", false},
        {"?/", "/t/x", true},
        {"./a", "/w/a", false},
        {"/w/[x]", "/w/[x]", true},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++)
        if (abx_policy_deny_matches(abx_str(rows[i].pattern), abx_str(rows[i].path)) != rows[i].hit)
            fail_msg("%s on %s", rows[i].pattern, rows[i].path);
}

TEST(a_deep_path_costs_no_more_than_its_length)
{
    enum { DEPTH = 2000 };
    char path[2 * DEPTH + 1];
    const struct abx_str patterns[] = {ABX_STR("**/*a*a*a*a*b"), ABX_STR("/*a*a*a*a*b")};
    for (size_t i = 0; i < DEPTH; i++)
        memcpy(path + 2 * i, "/a", 2);
    for (size_t i = 0; i < 50; i++) /* a minute where every ancestor is matched by itself */
        for (size_t k = 0; k < ABX_COUNTOF(patterns); k++)
            assert_false(abx_policy_deny_matches(patterns[k], abx_str_n(path, 2 * DEPTH)));
}

TEST(heads_of_patterns_are_found_and_escaped)
{
    static const struct {
        const char *pattern, *head, *tail;
    } rows[] = {
        {"/a/b/c", "/a/b", "/c"}, {"/a/b/c*", "/a/b", "/c*"}, {"/a/*/c", "/a", "/*/c"},
        {"/a", NULL, NULL},       {"/*/b", NULL, NULL},       {"b/c", NULL, NULL},
        {"/a//b", NULL, NULL},    {"/a/../b", NULL, NULL},    {"/a/b/", "/a", "/b"},
        {"/", NULL, NULL},        {"", NULL, NULL},
    };
    ABX_AUTO_BUF out;
    abx_buf_init(&out, 64);
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_str head, tail;
        bool found = abx_policy_deny_head(abx_str(rows[i].pattern), &head, &tail);
        assert_int_equal(found, rows[i].head != NULL);
        if (found)
            assert_true(abx_str_is(head, rows[i].head) && abx_str_is(tail, rows[i].tail));
    }
    abx_policy_glob_escape(&out, ABX_STR("/a*[b]?"));
    assert_string_equal(out.ptr, "/a[*][[]b][?]");
    assert_true(abx_glob_match(abx_buf_str(&out), ABX_STR("/a*[b]?")));
    assert_false(abx_glob_match(abx_buf_str(&out), ABX_STR("/axb?")));
}
