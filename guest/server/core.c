/* guest/server/core.c: /health, /capabilities and /capabilities/check. policy.md A19,
 * server-api.md 4.1. */
#include "guest/server/as_user.h"
#include "guest/server/chromium.h"
#include "guest/server/rule_json.h"
#include "guest/server/server_priv.h"
#include "guest/server/view.h"

#include "lib/base/assert.h"
#include "lib/contract/contract.h"
#include "lib/proc/confine.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum { API_VERSION = 2, DOCUMENT_MAX = 4 << 20, PATHS_MAX = 1000 };

static void health_get(struct abx__call *c)
{
    abx__call_answer_status(c, 200, NULL, ABX_STR("{\"status\": \"ok\"}"));
}

/* ---- /capabilities ---- */

static void put_paths(struct abx_json_writer *w, const struct abx_policy_rule *r)
{
    abx_json_key(w, ABX_STR("paths"));
    abx_json_begin_object(w);
    abx__put_list(w, "allow", r->paths.allow);
    abx_json_kv_bool(w, "read_only", r->paths.read_only);
    abx_json_kv_i64(w, "deny_count", (int64_t)r->paths.deny.count);
    abx_json_kv_c(w, "symlinks", r->paths.never_links ? "never" : "within");
    abx_json_end_object(w);
}

static const char *reason_of(const struct abx_policy_rule *r, const struct abx_policy_identity *who)
{
    if (!r->enabled)
        return "endpoint_disabled";
    return abx_scope_missing(who->scopes, r->scopes).ptr ? "missing_scope" : NULL;
}

static void put_text_or_null(struct abx_json_writer *w, const char *key, struct abx_str text)
{
    abx_json_key(w, abx_str(key));
    if (text.ptr)
        abx_json_str(w, text);
    else
        abx_json_null(w);
}

static void put_rule(struct abx_json_writer *w, const struct abx_policy_rule *r,
                     const struct abx_policy_identity *who)
{
    const struct abx_endpoint *e = r->endpoint;
    const struct abx_policy_route *route = r->route;
    const char *reason = reason_of(r, who);
    abx_json_key(w, r->id);
    abx_json_begin_object(w);
    abx_json_kv_str(w, "method", e ? abx_str(e->method) : route->method);
    abx_json_kv_str(w, "path", e ? abx_str(e->path) : route->path);
    abx_json_kv_c(w, "group", abx_group_name(r->group));
    abx_json_kv_str(w, "summary", e ? abx_str(e->summary) : route->summary);
    abx_json_kv_bool(w, "streaming", e ? e->flags & ABX_EP_STREAMING : route->is_streaming);
    abx_json_kv_bool(w, "enabled", r->enabled);
    abx_json_kv_bool(w, "allowed", reason == NULL);
    put_text_or_null(w, "reason", abx_str(reason));
    put_text_or_null(w, "rule", r->enabled ? (struct abx_str){0} : r->disabled_by);
    abx__put_list(w, "scopes", r->scopes);
    if (reason == NULL) {
        abx__put_limits(w, r);
        abx__put_params(w, r);
        if (r->takes_paths)
            put_paths(w, r);
    }
    abx_json_end_object(w);
}

/* A custom route shows itself only to those who hold its scopes (D110). */
static bool is_listed(const struct abx_policy_rule *r, const struct abx_policy_identity *who)
{
    return r->endpoint != NULL || r->is_open ||
           abx_scope_missing(who->scopes, r->scopes).ptr == NULL;
}

static void put_groups(struct abx_json_writer *w, const struct abx_policy *p)
{
    size_t count, enabled[ABX_GROUP__COUNT] = {0}, total[ABX_GROUP__COUNT] = {0};
    const struct abx_policy_rule *rules = abx_policy_rules(p, &count);
    for (size_t i = 0; i < count; i++) {
        if (abx_policy_is_extension(&rules[i]))
            continue;
        total[rules[i].group]++;
        enabled[rules[i].group] += rules[i].enabled;
    }
    abx_json_key(w, ABX_STR("groups"));
    abx_json_begin_object(w);
    for (int g = 0; g < ABX_GROUP__COUNT; g++)
        abx_json_kv_bool(w, abx_group_name((enum abx_group)g), enabled[g] || total[g] == 0);
    abx_json_end_object(w);
    abx_json_key(w, ABX_STR("group_summary"));
    abx_json_begin_object(w);
    for (int g = 0; g < ABX_GROUP__COUNT; g++) {
        abx_json_key(w, abx_str(abx_group_name((enum abx_group)g)));
        abx_json_begin_object(w);
        abx_json_kv_i64(w, "enabled", (int64_t)enabled[g]);
        abx_json_kv_i64(w, "total", (int64_t)total[g]);
        abx_json_end_object(w);
    }
    abx_json_end_object(w);
}

static int compare_strs(const void *a, const void *b)
{
    const struct abx_str *x = a, *y = b;
    size_t n = x->len < y->len ? x->len : y->len;
    int c = memcmp(x->ptr, y->ptr, n);
    return c ? c : (x->len > y->len) - (x->len < y->len);
}

static void put_identity(struct abx_json_writer *w, const struct abx__call *c)
{
    size_t n = c->who.scopes.count;
    struct abx_str *sorted = abx_arena_array(c->req->arena, n + 1, sizeof(*sorted));
    abx_json_key(w, ABX_STR("identity"));
    abx_json_begin_object(w);
    abx_json_kv_str(w, "id", c->who.id);
    if (sorted) {
        if (n)
            memcpy(sorted, c->who.scopes.items, n * sizeof(*sorted));
        qsort(sorted, n, sizeof(*sorted), compare_strs);
        abx__put_list(w, "scopes", (struct abx_str_list){sorted, n});
    } else {
        w->out->failed = true;
    }
    abx_json_end_object(w);
}

static void put_policy(struct abx_json_writer *w, const struct abx_policy *p)
{
    abx_json_key(w, ABX_STR("policy"));
    abx_json_begin_object(w);
    abx_json_kv_c(w, "preset", abx_policy_preset(p));
    abx_json_kv_c(w, "revision", abx_policy_revision(p));
    abx_json_kv_bool(w, "configured", abx_policy_is_configured(p));
    abx_json_end_object(w);
}

/* The layers as they hold for what this caller starts. */
static void put_confine(struct abx_json_writer *w, const struct abx__call *c)
{
    const struct abx_policy_rule *shell = abx_policy_rule(c->policy, ABX_STR("shell"));
    const struct abx_confine *view = abx__view_of(c->policy, shell, &c->who);
    unsigned applied = view ? abx_confine_layers(view) : 0;
    abx_json_key(w, ABX_STR("confine"));
    abx_json_begin_object(w);
    abx_json_kv_c(w, "mode", abx_confine_mode_name(abx_policy_confine(c->policy)));
    abx_json_kv_i64(w, "abi", abx_confine_abi());
    abx_json_kv_c(w, "deny",
                  abx__view_deny(c->policy, shell, &c->who) == ABX__DENY_HELD ? "held"
                                                                              : "advisory");
    abx_json_kv_c(w, "server", abx__self_level());
    abx_json_kv_c(w, "processes", abx__callers_are_counted() ? "by caller" : "by user");
    abx_json_kv_c(w, "memory", abx__views_memory(c->policy));
    abx_json_kv_c(w, "chromium", abx__chromium_level(c->policy));
    abx__put_list(w, "users",
                  abx_policy_confinement(c->policy)->users); /* beside the server's own */
    abx_json_key(w, ABX_STR("layers"));
    abx_json_begin_object(w);
    for (unsigned i = 0; i < ABX_CONFINE_LAYERS; i++)
        abx_json_kv_c(w, abx_confine_layer_name(1U << i),
                      applied & 1U << i                   ? "on"
                      : abx_confine_supported() & 1U << i ? "off"
                                                          : "unsupported");
    abx_json_end_object(w);
    abx_json_end_object(w);
}

static void put_warnings(struct abx_json_writer *w, const struct abx__call *c)
{
    bool holds_all = false;
    for (size_t i = 0; i < c->who.scopes.count; i++)
        holds_all = holds_all || abx_str_is(c->who.scopes.items[i], "*");
    abx_json_key(w, ABX_STR("warnings"));
    abx_json_begin_array(w);
    if (holds_all && abx_policy_has_tokens(c->policy))
        abx_json_str(w, ABX_STR("this credential holds the scope '*': it may call every endpoint"));
    const struct abx_policy_rule *navigate =
        abx_policy_rule(c->policy, ABX_STR("browser_navigate"));
    if (navigate && navigate->enabled && abx__browser_is_in_sandbox())
        abx_json_str(w,
                     ABX_STR("browser: Chromium runs without its own sandbox, the one around this "
                             "server lets no user namespaces be made"));
    abx_json_end_array(w);
}

/* Published clients read `endpoints`; what only this server has stands apart (policy.md C5). */
static void put_rules(struct abx_json_writer *w, const struct abx__call *c, bool extensions)
{
    size_t count;
    const struct abx_policy_rule *rules = abx_policy_rules(c->policy, &count);
    abx_json_key(w, abx_str(extensions ? "extensions" : "endpoints"));
    abx_json_begin_object(w);
    for (size_t i = 0; i < count; i++)
        if (abx_policy_is_extension(&rules[i]) == extensions && is_listed(&rules[i], &c->who))
            put_rule(w, &rules[i], &c->who);
    abx_json_end_object(w);
}

static void capabilities_get(struct abx__call *c)
{
    ABX_AUTO_BUF body;
    struct abx_json_writer w;
    abx_buf_init(&body, DOCUMENT_MAX);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_kv_i64(&w, "api_version", API_VERSION);
    abx_json_kv_c(&w, "server_version", ABX_SERVER_COMPAT);
    put_groups(&w, c->policy);
    put_identity(&w, c);
    put_policy(&w, c->policy);
    if (abx_policy_confine(c->policy) != ABX_CONFINE_OFF ||
        abx_policy_confinement(c->policy)->users.count > 0)
        put_confine(&w, c);
    put_rules(&w, c, false);
    put_rules(&w, c, true);
    put_warnings(&w, c);
    abx_json_end_object(&w);
    abx__call_answer(c, &body);
}

/* ---- /capabilities/check ---- */

struct check {
    struct abx_str endpoint;
    const struct abx_policy_rule *rule;
    struct abx_str *paths;
    size_t path_count;
    struct abx_str user; /* ptr NULL: not asked */
    enum abx_path_op op;
};

static void put_verdict(struct abx_buf *out, struct abx_str endpoint,
                        const struct abx_policy_verdict *v)
{
    struct abx_json_writer w;
    bool allowed = v->code == ABX_POLICY_OK;
    bool has_rule = v->code == ABX_POLICY_ENDPOINT_DISABLED || v->code == ABX_POLICY_MISSING_SCOPE;
    abx_json_writer_init(&w, out);
    abx_json_begin_object(&w);
    abx_json_kv_str(&w, "endpoint", endpoint);
    abx_json_kv_bool(&w, "allowed", allowed);
    put_text_or_null(&w, "code", abx_str(allowed ? NULL : abx_policy_code_name(v->code)));
    put_text_or_null(&w, "reason", abx_str(allowed ? NULL : v->text));
    if (has_rule)
        put_text_or_null(&w, "rule", v->rule);
    abx_json_end_object(&w);
}

static void check_facts(struct abx__job *j)
{
    const struct check *k = j->data;
    struct abx__bounds bounds;
    struct abx_policy_verdict v = {0};
    if (abx__bounds_init(&bounds, j->policy, k->rule, &j->arena) < 0) {
        abx__job_fail(j, 500, "MemoryError", "out of memory");
        return;
    }
    for (size_t i = 0; i < k->path_count && v.code == ABX_POLICY_OK; i++) {
        struct abx__path_ask ask = {.path = k->paths[i], .op = k->op};
        struct abx_str resolved;
        abx__bounds_judge(&bounds, &ask, &resolved, &v);
    }
    if (v.code == ABX_POLICY_OK && k->user.ptr)
        abx__user_permits(j->policy, k->rule, k->user, &v);
    put_verdict(&j->out, k->endpoint, &v);
}

static bool bad_field(struct abx__call *c, const char *name, const char *want)
{
    abx__call_fail(c, 400, "ValueError", "'%s' must be %s", name, want);
    return false;
}

static struct abx_str text_of(const json_t *v)
{
    return abx_str_n(json_string_value(v), json_string_length(v));
}

/* `path` and `paths`, in this order, borrowed from the body. */
static bool read_paths(struct abx__call *c, struct check *k)
{
    const json_t *path = abx__call_field(c, "path"), *paths = abx__call_field(c, "paths"), *item;
    size_t i, n = json_array_size(paths);
    bool has_path = path && !json_is_null(path);
    if (has_path && !json_is_string(path))
        return bad_field(c, "path", "a string");
    if (paths && !json_is_null(paths) && !json_is_array(paths))
        return bad_field(c, "paths", "a list of strings");
    if (n > PATHS_MAX)
        return bad_field(c, "paths", "a list of at most 1000 strings");
    k->paths = abx_arena_array(c->req->arena, n + 1, sizeof(*k->paths));
    if (k->paths == NULL) {
        abx__call_fail(c, 500, "MemoryError", "out of memory");
        return false;
    }
    if (has_path)
        k->paths[k->path_count++] = text_of(path);
    json_array_foreach(paths, i, item)
    {
        if (!json_is_string(item))
            return bad_field(c, "paths", "a list of strings");
        k->paths[k->path_count++] = text_of(item);
    }
    return true;
}

static bool read_op(struct abx__call *c, struct check *k)
{
    const json_t *op = abx__call_field(c, "op");
    if (op == NULL || json_is_null(op)) {
        k->op = k->rule && k->rule->endpoint ? k->rule->endpoint->op : ABX_OP_READ;
        return true;
    }
    int value = json_is_string(op) ? abx_path_op_parse(text_of(op)) : -1;
    if (value < 0)
        return bad_field(c, "op", "one of read, write, delete, exec");
    k->op = (enum abx_path_op)value;
    return true;
}

/* Paths and users are judged on the pool: the job gets copies. */
static void start_check(struct abx__call *c, const struct check *k)
{
    struct abx__job *j = abx__job_new(c, check_facts, DOCUMENT_MAX);
    if (j == NULL)
        return;
    size_t bytes = k->path_count * sizeof(*k->paths);
    struct check *copy = abx__job_data(j, sizeof(*copy) + bytes);
    if (copy) { /* the texts stay in the body, which the job has */
        *copy = *k;
        copy->paths = (struct abx_str *)(void *)(copy + 1);
        memcpy(copy->paths, k->paths, bytes);
    }
    abx__job_start(j);
}

static void check_post(struct abx__call *c)
{
    struct check k = {0};
    struct abx_policy_verdict v = {0};
    if (!abx__call_string(c, "endpoint", &k.endpoint))
        return;
    k.rule = abx_policy_rule(c->policy, k.endpoint);
    if (!read_paths(c, &k) || !read_op(c, &k) || !abx__user_read(c, &k.user))
        return;
    if (k.rule == NULL)
        abx_policy_deny(&v, ABX_POLICY_UNKNOWN_ENDPOINT, "there is no such endpoint");
    else
        abx_policy_judge(c->policy, k.rule, &c->who, &v);
    if (v.code == ABX_POLICY_OK && (k.path_count || k.user.ptr)) {
        start_check(c, &k);
        return;
    }
    ABX_AUTO_BUF body;
    abx_buf_init(&body, DOCUMENT_MAX);
    put_verdict(&body, k.endpoint, &v);
    abx__call_answer(c, &body);
}

const struct abx__route abx__core_routes[] = {{"health", health_get},
                                              {"capabilities", capabilities_get},
                                              {"capabilities_check", check_post},
                                              {0}};
