/* guest/server/bounds.c: which path a call may use: facts are gathered here, lib/policy decides.
 * Blocking: pool threads. policy.md A10, security S17. */
#include "guest/caps/tree.h"
#include "guest/server/server_priv.h"
#include "lib/policy/paths.h"

#include "lib/base/banned.h"

enum { PATH_BYTES = 32768 };

/* Links followed, in the arena; ptr NULL without memory. */
static struct abx_str resolve(struct abx_arena *a, struct abx_str path, bool keep_last)
{
    ABX_AUTO_BUF out;
    abx_buf_init(&out, PATH_BYTES);
    if (abx_tree_resolve(path, keep_last, &out) < 0)
        return (struct abx_str){0};
    return abx_arena_str(a, abx_buf_str(&out));
}

static struct abx_str normalise(struct abx_arena *a, struct abx_str path)
{
    ABX_AUTO_BUF out;
    abx_buf_init(&out, PATH_BYTES);
    if (!abx_policy_path_normalise(path, ABX_STR("/"), &out))
        return (struct abx_str){0};
    return abx_arena_str(a, abx_buf_str(&out));
}

static int gather_roots(struct abx__bounds *b)
{
    struct abx_str given;
    size_t n = 0;
    while (abx_policy_root_at(b->policy, b->rule, n, &given))
        n++;
    b->roots = abx_arena_array(b->arena, n, sizeof(*b->roots));
    if (b->roots == NULL)
        return -1;
    for (size_t i = 0; abx_policy_root_at(b->policy, b->rule, i, &given); i++) {
        b->roots[i].given = normalise(b->arena, given);
        if (b->roots[i].given.ptr == NULL)
            return -1;
        b->roots[i].real = resolve(b->arena, b->roots[i].given, false);
        if (b->roots[i].real.ptr == NULL)
            return -1;
    }
    b->root_count = n;
    return 0;
}

/* The pattern with the links of its literal head followed (P5); ptr NULL: none. */
static struct abx_str resolve_deny(struct abx_arena *a, struct abx_str pattern)
{
    struct abx_str head, tail;
    if (!abx_policy_deny_head(pattern, &head, &tail))
        return (struct abx_str){0};
    struct abx_str real = resolve(a, head, false);
    if (real.ptr == NULL)
        return real;
    ABX_AUTO_BUF out;
    abx_buf_init(&out, PATH_BYTES * 3);
    abx_policy_glob_escape(&out, real);
    abx_buf_put_str(&out, tail);
    return abx_buf_failed(&out) ? (struct abx_str){0} : abx_arena_str(a, abx_buf_str(&out));
}

int abx__bounds_init(struct abx__bounds *b, const struct abx_policy *policy,
                     const struct abx_policy_rule *rule, struct abx_arena *a)
{
    *b = (struct abx__bounds){.policy = policy, .rule = rule, .arena = a};
    const struct abx_str_list *deny = &rule->paths.deny;
    b->resolved_deny = abx_arena_array(a, deny->count + 1, sizeof(*b->resolved_deny));
    if (b->resolved_deny == NULL || gather_roots(b) < 0)
        return -1;
    for (size_t i = 0; i < deny->count; i++)
        b->resolved_deny[i] = resolve_deny(a, deny->items[i]);
    return 0;
}

bool abx__bounds_init_plain(struct abx__bounds *b, const struct abx_policy *policy,
                            const struct abx_policy_rule *rule, struct abx_arena *a)
{
    struct abx_str root, other, head, tail;
    *b = (struct abx__bounds){.policy = policy, .rule = rule, .arena = a, .is_plain = true};
    for (size_t i = 0; i < rule->paths.deny.count; i++)
        if (abx_policy_deny_head(rule->paths.deny.items[i], &head, &tail))
            return false;
    if (!abx_policy_root_at(policy, rule, 0, &root) || abx_policy_root_at(policy, rule, 1, &other))
        return false;
    b->roots = abx_arena_array(a, 1, sizeof(*b->roots));
    if (b->roots == NULL)
        return false;
    b->root_count = 1;
    b->roots[0].given = b->roots[0].real = normalise(a, root);
    return b->roots[0].given.ptr != NULL;
}

static struct abx_policy_path_facts facts_of(const struct abx__bounds *b, struct abx_str lexical,
                                             struct abx_str resolved)
{
    return (struct abx_policy_path_facts){.roots = b->roots,
                                          .root_count = b->root_count,
                                          .lexical = lexical,
                                          .resolved = resolved,
                                          .resolved_deny = b->resolved_deny};
}

/* Under `confine` a process may have given a denied file another name, here (S08). */
static bool may_be_denied(const struct abx__bounds *b, struct abx_str resolved)
{
    struct stat st;
    return abx_policy_confine(b->policy) != ABX_CONFINE_OFF && b->rule->paths.deny.count > 0 &&
           abx_tree_stat(resolved, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink > 1;
}

bool abx__bounds_judge(const struct abx__bounds *b, const struct abx__path_ask *ask,
                       struct abx_str *ret, struct abx_policy_verdict *v)
{
    ABX_AUTO_BUF lexical;
    abx_buf_init(&lexical, PATH_BYTES);
    if (!abx_policy_path_lexical(b->rule, ask->path, b->roots[0].real, &lexical, v))
        return false;
    struct abx_str resolved = b->is_plain
                                  ? abx_arena_str(b->arena, abx_buf_str(&lexical))
                                  : resolve(b->arena, abx_buf_str(&lexical), ask->keep_last);
    if (resolved.ptr == NULL)
        return abx_policy_deny(v, ABX_POLICY_INVALID_PATH, "the path can not be resolved");
    struct abx_policy_path_facts facts = facts_of(b, abx_buf_str(&lexical), resolved);
    facts.op = ask->op;
    facts.field = ask->field;
    if (!abx_policy_path_judge(b->rule, &facts, v, NULL))
        return false;
    if (may_be_denied(b, resolved))
        return abx_policy_deny(v, ABX_POLICY_PATH_DENIED,
                               "the file has several names, and one of them may be denied");
    *ret = resolved;
    return true;
}

bool abx__bounds_judge_link(const struct abx__bounds *b, struct abx_str path, struct abx_str target,
                            struct abx_policy_verdict *v)
{
    ABX_AUTO_BUF whole;
    abx_buf_init(&whole, PATH_BYTES * 2);
    if (target.len == 0 || target.ptr[0] != '/') {
        abx_buf_put_str(&whole, abx_str_sub(path, 0, (size_t)abx_str_rchr(path, '/')));
        abx_buf_put_byte(&whole, '/');
    }
    abx_buf_put_str(&whole, target);
    if (abx_buf_failed(&whole))
        return abx_policy_deny(v, ABX_POLICY_INVALID_PATH, "link: the path is too long");
    struct abx__path_ask ask = {.path = abx_buf_str(&whole), .op = ABX_OP_WRITE, .field = "link"};
    struct abx_str resolved;
    return abx__bounds_judge(b, &ask, &resolved, v);
}

bool abx__bounds_is_root(const struct abx__bounds *b, struct abx_str resolved)
{
    struct abx_policy_path_facts facts = facts_of(b, resolved, resolved);
    return abx_policy_path_is_root(&facts, resolved);
}

bool abx__bounds_shows(const struct abx__bounds *b, struct abx_str path, bool is_link)
{
    struct abx_policy_verdict v = {0};
    if (!is_link)
        return !abx_policy_path_is_denied(b->rule, path) && !may_be_denied(b, path);
    ABX_AUTO_BUF target;
    abx_buf_init(&target, PATH_BYTES);
    if (abx_tree_resolve(path, false, &target) < 0)
        return false;
    /* "never" forbids to follow a link, not to see it: the target stands for both spellings. */
    struct abx_policy_path_facts facts = facts_of(b, abx_buf_str(&target), abx_buf_str(&target));
    return !abx_policy_path_is_denied(b->rule, path) && !may_be_denied(b, abx_buf_str(&target)) &&
           abx_policy_path_judge(b->rule, &facts, &v, NULL);
}
