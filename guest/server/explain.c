/* guest/server/explain.c: would this call be allowed? Unknown, disabled, scope, path: in this
 * order.
 */
#include "guest/server/explain.h"

#include "lib/base/arena.h"
#include "lib/base/buf.h"
#include "lib/json/json.h"
#include "lib/policy/paths.h"

#include <unistd.h>

#include "lib/base/banned.h"

enum { LINKS_MAX = 40, PATH_BYTES = 32768, ARENA_BYTES = 1 << 22 };

/* ---- links ---- */

/* The target of the link @path, or ptr NULL for anything else. */
static struct abx_str link_target(const char *path, char *buffer, size_t cap)
{
    ssize_t len = readlink(path, buffer, cap);
    return len > 0 && (size_t)len < cap ? abx_str_n(buffer, (size_t)len) : (struct abx_str){0};
}

/* Takes the last part off a resolved path. */
static void pop(struct abx_buf *out)
{
    ptrdiff_t slash = out->len ? abx_str_rchr(abx_buf_str(out), '/') : -1;
    size_t len = slash > 0 ? (size_t)slash : 0;
    struct abx_buf kept = *out;
    kept.len = len;
    if (kept.ptr != NULL)
        kept.ptr[len] = '\0';
    *out = kept;
}

static void put_part(struct abx_buf *out, struct abx_str part)
{
    abx_buf_put_byte(out, '/');
    abx_buf_put_str(out, part);
}

/* Puts one part behind the resolved @out. Where it is a link, *todo becomes its target and what was
 * still to do. False when that can not be held. */
static bool push(struct abx_buf *out, struct abx_str part, struct abx_str rest,
                 struct abx_buf *todo, bool *ret_link)
{
    char target[4097];
    put_part(out, part);
    if (out->failed)
        return false;
    struct abx_str to = link_target(out->ptr, target, sizeof(target));
    *ret_link = to.ptr != NULL;
    if (!*ret_link)
        return true;
    if (to.ptr[0] == '/')
        abx_buf_clear(out);
    else
        pop(out);
    ABX_AUTO_BUF joined;
    abx_buf_init(&joined, PATH_BYTES);
    abx_buf_put_str(&joined, to);
    abx_buf_put_byte(&joined, '/');
    abx_buf_put_str(&joined, rest);
    abx_buf_clear(todo);
    abx_buf_put_str(todo, abx_buf_str(&joined));
    return !joined.failed && !todo->failed;
}

/* All links of the absolute @path followed; missing parts are kept, a loop is left as it is. ptr
 * NULL when it grows too long. */
static struct abx_str resolve(struct abx_str path, struct abx_arena *a)
{
    ABX_AUTO_BUF out;
    ABX_AUTO_BUF todo;
    abx_buf_init(&out, PATH_BYTES);
    abx_buf_init(&todo, PATH_BYTES);
    abx_buf_put_str(&todo, path);
    struct abx_str rest = abx_buf_str(&todo), part;
    for (int links = 0; abx_str_split(&rest, '/', &part);) {
        bool is_link = false;
        if (part.len == 0 || abx_str_is(part, "."))
            continue;
        if (abx_str_is(part, ".."))
            pop(&out);
        else if (links < LINKS_MAX && !push(&out, part, rest, &todo, &is_link))
            return (struct abx_str){0};
        else if (links == LINKS_MAX) /* the kernel goes no further either */
            put_part(&out, part);
        if (is_link) {
            links++;
            rest = abx_buf_str(&todo);
        }
    }
    return abx_arena_str(a, out.len ? abx_buf_str(&out) : ABX_STR("/"));
}

/* ---- the path's verdict ---- */

struct paths {
    const struct abx_policy *policy;
    const struct abx_policy_rule *rule;
    struct abx_arena *a;
};

static bool gather_roots(const struct paths *w, struct abx_policy_path_facts *facts)
{
    struct abx_str given;
    size_t count = 0;
    while (abx_policy_root_at(w->policy, w->rule, count, &given))
        count++;
    struct abx_policy_root *roots = abx_arena_array(w->a, count + 1, sizeof(*roots));
    for (size_t i = 0; roots != NULL && i < count; i++) {
        ABX_AUTO_BUF normal;
        abx_buf_init(&normal, PATH_BYTES);
        if (!abx_policy_root_at(w->policy, w->rule, i, &given) ||
            !abx_policy_path_normalise(given, ABX_STR("/"), &normal))
            return false;
        roots[i].given = abx_arena_str(w->a, abx_buf_str(&normal));
        roots[i].real = resolve(roots[i].given, w->a);
        if (roots[i].given.ptr == NULL || roots[i].real.ptr == NULL)
            return false;
    }
    facts->roots = roots;
    facts->root_count = count;
    return roots != NULL;
}

/* P5: an absolute pattern counts with the links of its literal head followed, too. */
static bool resolve_deny(const struct paths *w, struct abx_policy_path_facts *facts)
{
    const struct abx_str_list *deny = &w->rule->paths.deny;
    struct abx_str *resolved = abx_arena_array(w->a, deny->count + 1, sizeof(*resolved));
    for (size_t i = 0; resolved != NULL && i < deny->count; i++) {
        struct abx_str head, tail;
        if (!abx_policy_deny_head(deny->items[i], &head, &tail))
            continue;
        ABX_AUTO_BUF pattern;
        abx_buf_init(&pattern, PATH_BYTES);
        struct abx_str real = resolve(head, w->a);
        if (real.ptr == NULL)
            return false;
        abx_policy_glob_escape(&pattern, real);
        abx_buf_put_str(&pattern, tail);
        resolved[i] = abx_arena_str(w->a, abx_buf_str(&pattern));
        if (pattern.failed || resolved[i].ptr == NULL)
            return false;
    }
    facts->resolved_deny = resolved;
    return resolved != NULL;
}

static bool judge_path(const struct paths *w, const struct abx__explain *ask,
                       struct abx_policy_verdict *v)
{
    enum abx_path_op own = w->rule->endpoint != NULL ? w->rule->endpoint->op : ABX_OP_READ;
    struct abx_policy_path_facts facts = {.op = ask->op < 0 ? own : (enum abx_path_op)ask->op};
    ABX_AUTO_BUF lexical;
    abx_buf_init(&lexical, PATH_BYTES);
    if (!gather_roots(w, &facts) || !resolve_deny(w, &facts))
        return abx_policy_deny(v, ABX_POLICY_INVALID_PATH, "the rule's paths are too long");
    if (!abx_policy_path_lexical(w->rule, ask->path, facts.roots[0].real, &lexical, v))
        return false;
    facts.lexical = abx_buf_str(&lexical);
    facts.resolved = resolve(facts.lexical, w->a);
    if (facts.resolved.ptr == NULL)
        return abx_policy_deny(v, ABX_POLICY_INVALID_PATH, "the path can not be resolved");
    return abx_policy_path_judge(w->rule, &facts, v, NULL);
}

/* ---- the answer ---- */

static bool judge(const struct abx_policy *p, const struct abx__explain *ask,
                  struct abx_policy_verdict *v)
{
    const struct abx_policy_rule *rule = abx_policy_rule(p, ask->endpoint);
    struct abx_arena a;
    if (rule == NULL)
        return abx_policy_deny(v, ABX_POLICY_UNKNOWN_ENDPOINT, "There is no endpoint of this name");
    if (!abx_policy_judge(p, rule, ask->who, v))
        return false;
    if (ask->path.ptr == NULL)
        return true;
    const struct paths w = {p, rule, &a};
    abx_arena_init(&a, ARENA_BYTES);
    bool ok = judge_path(&w, ask, v);
    abx_arena_done(&a);
    return ok;
}

bool abx__explain_write(const struct abx_policy *p, const struct abx__explain *ask,
                        struct abx_json_writer *w)
{
    struct abx_policy_verdict v = {0};
    bool allowed = judge(p, ask, &v);
    const char *code = abx_policy_code_name(v.code);
    abx_json_begin_object(w);
    abx_json_kv_str(w, "endpoint", ask->endpoint);
    abx_json_kv_bool(w, "allowed", allowed);
    abx_json_key(w, ABX_STR("code"));
    if (code != NULL)
        abx_json_str(w, abx_str(code));
    else
        abx_json_null(w);
    abx_json_key(w, ABX_STR("reason"));
    if (allowed)
        abx_json_null(w);
    else
        abx_json_str(w, abx_str(v.text));
    if (v.code == ABX_POLICY_ENDPOINT_DISABLED || v.code == ABX_POLICY_CONFINEMENT_UNAVAILABLE)
        abx_json_kv_str(w, "rule", v.rule);
    else if (v.code == ABX_POLICY_MISSING_SCOPE) {
        abx_json_key(w, ABX_STR("rule"));
        abx_json_null(w);
    }
    abx_json_end_object(w);
    return allowed;
}
