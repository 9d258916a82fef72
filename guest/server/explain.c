/* guest/server/explain.c: would this call be allowed? Unknown, disabled, scope, path: in this
 * order.
 */
#include "guest/server/explain.h"

#include "guest/server/as_user.h"
#include "guest/server/server_priv.h"

#include "lib/base/banned.h"

enum { ARENA_BYTES = 1 << 22 };

static bool judge_path(const struct abx_policy *p, const struct abx_policy_rule *rule,
                       const struct abx__explain *ask, struct abx_policy_verdict *v)
{
    enum abx_path_op own = rule->endpoint != NULL ? rule->endpoint->op : ABX_OP_READ;
    const struct abx__path_ask path = {.path = ask->path,
                                       .op = ask->op < 0 ? own : (enum abx_path_op)ask->op};
    struct abx__bounds bounds;
    struct abx_arena a;
    struct abx_str resolved;
    abx_arena_init(&a, ARENA_BYTES);
    bool ok = abx__bounds_init(&bounds, p, rule, &a) == 0
                  ? abx__bounds_judge(&bounds, &path, &resolved, v)
                  : abx_policy_deny(v, ABX_POLICY_INVALID_PATH, "the rule's paths are too long");
    abx_arena_done(&a);
    return ok;
}

/* ---- the answer ---- */

static bool judge(const struct abx_policy *p, const struct abx__explain *ask,
                  struct abx_policy_verdict *v)
{
    const struct abx_policy_rule *rule = abx_policy_rule(p, ask->endpoint);
    if (rule == NULL)
        return abx_policy_deny(v, ABX_POLICY_UNKNOWN_ENDPOINT, "There is no endpoint of this name");
    if (!abx_policy_judge(p, rule, ask->who, v))
        return false;
    return (ask->path.ptr == NULL || judge_path(p, rule, ask, v)) &&
           (ask->user.ptr == NULL || abx__user_permits(p, rule, ask->user, v));
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
