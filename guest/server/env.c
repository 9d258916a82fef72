/* guest/server/env.c: GET and POST /env. server-api.md 4.6, policy.md A9, C3. Loop thread. */
#include "guest/server/server_priv.h"

#include "lib/base/assert.h"
#include "lib/policy/guards.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum { DOCUMENT_MAX = 16 << 20, ARENA_MAX = 4 << 20 };

/* ---- GET ---- */

/* Whether the comma list has the name; blanks around an item do not count. No list has all. */
static bool is_asked_for(struct abx_str list, struct abx_str name)
{
    struct abx_str item;
    if (list.ptr == NULL)
        return true;
    while (abx_str_split(&list, ',', &item))
        if (abx_str_eq(abx_str_trim(item), name))
            return true;
    return false;
}

static void env_get(struct abx__call *c)
{
    ABX_AUTO_BUF body;
    struct abx_json_writer w;
    struct abx_str filter = abx__call_query(c, "filter");
    struct abx_arena a;
    abx_arena_init(&a, ARENA_MAX);
    char **vars = abx__environment_of(&c->who, NULL, 0, &a);
    abx_buf_init(&body, vars ? DOCUMENT_MAX : 0); /* without memory it fails at the first byte */
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_key(&w, ABX_STR("variables"));
    abx_json_begin_object(&w);
    for (; vars && *vars; vars++) {
        struct abx_str value = abx_str(*vars), name;
        if (!abx_str_split(&value, '=', &name) || !is_asked_for(filter, name) ||
            !abx_policy_env_visible(c->policy, c->rule, name) ||
            abx_policy_env_value_is_secret(value))
            continue;
        abx_json_key(&w, name);
        abx_json_str(&w, value);
    }
    abx_json_end_object(&w);
    abx_json_end_object(&w);
    abx__call_answer(c, &body);
    abx_arena_done(&a);
}

/* ---- POST ---- */

static bool deny(struct abx__call *c, struct abx_policy_verdict *v)
{
    v->endpoint = c->rule->id;
    abx__call_deny(c, v);
    return false;
}

/* `vars` as pairs, borrowed from the body, each guarded by its form. */
static bool read_vars(struct abx__call *c, struct abx__pair **ret, size_t *ret_count)
{
    struct json_t *vars = abx__call_field(c, "vars"), *value;
    struct abx_policy_verdict v = {0};
    const char *name;
    size_t n = 0;
    if (vars && !json_is_object(vars)) {
        abx__call_fail(c, 400, "ValueError", "'vars' must be an object of strings");
        return false;
    }
    struct abx__pair *pairs =
        abx_arena_array(c->req->arena, json_object_size(vars) + 1, sizeof(*pairs));
    if (pairs == NULL) {
        abx__call_fail(c, 500, "MemoryError", "out of memory");
        return false;
    }
    json_object_foreach(vars, name, value)
    {
        if (!json_is_string(value)) {
            abx_policy_deny(&v, ABX_POLICY_ENV_INVALID, "'%.80s' must have a string", name);
            return deny(c, &v);
        }
        pairs[n].name = abx_str(name);
        pairs[n].value = abx_str_n(json_string_value(value), json_string_length(value));
        if (!abx_policy_env_check(c->rule, pairs[n].name, pairs[n].value, &v))
            return deny(c, &v);
        n++;
    }
    *ret = pairs;
    *ret_count = n;
    return true;
}

static bool is_protected(struct abx_str name)
{
    static const char *const names[] = {"PATH", "HOME", "USER", "SHELL"};
    for (size_t i = 0; i < ABX_COUNTOF(names); i++)
        if (abx_str_is(name, names[i]))
            return true;
    return false;
}

static bool check_vars(struct abx__call *c, const struct abx__pair *pairs, size_t count)
{
    struct abx_policy_verdict v = {0};
    for (size_t i = 0; i < count; i++)
        if (is_protected(pairs[i].name)) {
            abx__call_fail(c, 403, "PermissionError", "the variable %.*s can not be changed",
                           ABX_STR_FMT(pairs[i].name));
            return false;
        }
    for (size_t i = 0; i < count; i++)
        if (!abx_policy_env_set_check(c->policy, c->rule, pairs[i].name, &v) ||
            !abx_policy_env_overlay_check(c->rule, &c->who, pairs[i].name, &v) ||
            !abx_policy_env_base_check(c->policy, c->rule, &c->who, pairs[i].name, &v))
            return deny(c, &v);
    return true;
}

static int compare_names(const void *left, const void *right)
{
    const struct abx__pair *a = left, *b = right;
    return strcmp(a->name.ptr, b->name.ptr); /* names of variables are C strings */
}

static void env_set(struct abx__call *c)
{
    struct abx__pair *pairs = NULL;
    size_t count = 0;
    if (!read_vars(c, &pairs, &count) || !check_vars(c, pairs, count))
        return;
    int rc = abx__environment_set(&c->who, pairs, count);
    if (rc == -E2BIG)
        abx__call_fail(c, 400, "ValueError", "the environment would be larger than 1 MiB");
    else if (rc < 0)
        abx__call_fail(c, 500, "MemoryError", "out of memory");
    if (rc < 0)
        return;
    qsort(pairs, count, sizeof(*pairs), compare_names);
    ABX_AUTO_BUF body;
    struct abx_json_writer w;
    abx_buf_init(&body, DOCUMENT_MAX);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_key(&w, ABX_STR("updated"));
    abx_json_begin_array(&w);
    for (size_t i = 0; i < count; i++)
        abx_json_str(&w, pairs[i].name);
    abx_json_end_array(&w);
    abx_json_end_object(&w);
    abx__call_answer(c, &body);
}

const struct abx__route abx__env_routes[] = {{"env_get", env_get}, {"env_set", env_set}, {0}};
