/* lib/policy/policy_path_fuzz.c: globs and path rules. The input is PATTERN, PATH, WORD separated
 * by newlines. The quick matchers agree with slow ones that follow the text of policy.md A10; one
 * more deny pattern, read_only or "never" never allows more. */
#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "lib/policy/paths.h"
#include "lib/policy/policy_priv.h"

#include "lib/base/banned.h"

enum { PART_MAX = 48 };

/* "glob over the path or any ancestor" word by word; @anywhere: "* /TAIL" or TAIL, "/" counts too.
 */
static bool slow_ancestors(struct abx_str pattern, struct abx_str path, bool anywhere)
{
    char star[PART_MAX + 3] = "*/";
    memcpy(star + 2, pattern.ptr, pattern.len);
    struct abx_str tail = abx_str_n(star, pattern.len + 2);
    for (size_t end = path.len; end > 0; end--) {
        bool is_top = end == 1 && path.ptr[0] == '/';
        if (is_top || (end < path.len && path.ptr[end] != '/'))
            continue;
        struct abx_str up = abx_str_sub(path, 0, end);
        if (abx_glob_match(pattern, up) || (anywhere && abx_glob_match(tail, up)))
            return true;
    }
    return false;
}

static void check_globs(struct abx_str pattern, struct abx_str path)
{
    ABX_ASSERT(abx_glob_match(ABX_STR("*"), path));
    ABX_AUTO_BUF escaped;
    abx_buf_init(&escaped, 4 * PART_MAX);
    abx_policy_glob_escape(&escaped, path);
    if (escaped.len > 0)
        ABX_ASSERT(abx_glob_match(abx_buf_str(&escaped), path));
    if (path.len == 0 || path.ptr[0] != '/' || pattern.len == 0)
        return;
    ABX_ASSERT(abx__glob_match_ancestors(pattern, path, true) ==
               slow_ancestors(pattern, path, true));
    ABX_ASSERT(abx__glob_match_ancestors(pattern, path, false) ==
               slow_ancestors(pattern, path, false));
}

static enum abx_policy_code judge(const struct abx_policy_rule *rule, struct abx_str lexical,
                                  struct abx_str resolved, enum abx_path_op op)
{
    static const struct abx_policy_root roots[] = {{{"/r/w", 4}, {"/real/w", 7}},
                                                   {{"/s", 2}, {"/s", 2}}};
    const struct abx_policy_path_facts facts = {.roots = roots,
                                                .root_count = ABX_COUNTOF(roots),
                                                .lexical = lexical,
                                                .resolved = resolved,
                                                .op = op};
    struct abx_policy_verdict v = {0};
    size_t root = 99;
    bool ok = abx_policy_path_judge(rule, &facts, &v, &root);
    ABX_ASSERT(ok == (v.code == ABX_POLICY_OK) && ok == (root != 99));
    return v.code;
}

/* @lexical may have gone through a link of /r, so it is also judged as another place. */
static void check_rules(struct abx_str pattern, struct abx_str lexical, struct abx_str resolved)
{
    struct abx_policy_rule plain = {.id = ABX_STR("files_stat")}, deny = plain, read_only = plain,
                           never = plain;
    deny.paths.deny = (struct abx_str_list){&pattern, 1};
    read_only.paths.read_only = true;
    never.paths.never_links = true;
    for (int op = 0; op < ABX_OP__COUNT; op++) {
        bool allowed = judge(&plain, lexical, resolved, (enum abx_path_op)op) == ABX_POLICY_OK;
        const struct abx_policy_rule *narrower[] = {&deny, &read_only, &never};
        for (size_t i = 0; i < ABX_COUNTOF(narrower); i++)
            ABX_ASSERT(allowed || judge(narrower[i], lexical, resolved, (enum abx_path_op)op) !=
                                      ABX_POLICY_OK);
        bool changes = op == ABX_OP_WRITE || op == ABX_OP_DELETE;
        ABX_ASSERT(!changes ||
                   judge(&read_only, lexical, resolved, (enum abx_path_op)op) != ABX_POLICY_OK);
    }
    if (judge(&plain, lexical, resolved, ABX_OP_READ) == ABX_POLICY_OK)
        ABX_ASSERT(abx_str_starts(resolved, "/real/w") || abx_str_starts(resolved, "/s"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct abx_str rest = abx_str_n((const char *)data, size), pattern = {0}, path = {0},
                   word = {0};
    if (size > 3 * PART_MAX)
        return 0;
    (void)(abx_str_split(&rest, '\n', &pattern) && abx_str_split(&rest, '\n', &path) &&
           abx_str_split(&rest, '\n', &word));
    if (pattern.len > PART_MAX || path.len > PART_MAX)
        return 0;
    check_globs(pattern, path);
    ABX_AUTO_BUF lexical;
    ABX_AUTO_BUF again;
    abx_buf_init(&lexical, 4096);
    abx_buf_init(&again, 4096);
    const struct abx_policy_rule rule = {.id = ABX_STR("files_stat")};
    struct abx_policy_verdict v = {0};
    if (!abx_policy_path_lexical(&rule, path, ABX_STR("/real/w"), &lexical, &v)) {
        ABX_ASSERT(v.code == ABX_POLICY_INVALID_PATH);
        return 0;
    }
    struct abx_str normal = abx_buf_str(&lexical);
    ABX_ASSERT(normal.ptr[0] == '/' && (normal.len == 1 || !abx_str_ends(normal, "/")));
    ABX_ASSERT(abx_policy_path_normalise(normal, ABX_STR("/x"), &again) &&
               abx_str_eq(normal, abx_buf_str(&again)));
    check_rules(pattern, normal, normal);
    ABX_AUTO_BUF moved;
    abx_buf_init(&moved, 4096);
    if (word.len > 0 && abx_policy_path_normalise(word, ABX_STR("/s"), &moved))
        check_rules(pattern, normal, abx_buf_str(&moved));
    return 0;
}
