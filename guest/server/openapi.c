/* guest/server/openapi.c: the OpenAPI 3.1 document of what a caller may call. Pure. server.md 5. */
#include "guest/server/describe.h"

#include "lib/base/assert.h"
#include "lib/contract/contract.h"

#include "lib/base/banned.h"

static bool is_allowed(const struct abx_policy_rule *r, const struct abx_policy_identity *who)
{
    return r->enabled && r->group != ABX_GROUP_AGENTS &&
           abx_scope_missing(who->scopes, r->scopes).ptr == NULL;
}

/* A route that HTTP has: no WebSocket, no pattern that is not literal. */
static bool is_shown(const struct abx_policy_rule *r, const struct abx_policy_identity *who)
{
    if (r->endpoint)
        return !(r->endpoint->flags & ABX_EP_VIRTUAL) && is_allowed(r, who);
    for (size_t i = 0; i < r->route->path.len; i++)
        if (strchr("\\^$*+?()[]|", r->route->path.ptr[i]) != NULL)
            return false;
    return is_allowed(r, who);
}

static struct abx_str path_of(const struct abx_policy_rule *r)
{
    return r->endpoint ? abx_str(r->endpoint->path) : r->route->path;
}

static struct abx_str method_of(const struct abx_policy_rule *r)
{
    return r->endpoint ? abx_str(r->endpoint->method) : r->route->method;
}

static void kv_ref(struct abx_json_writer *w, const char *target)
{
    abx_json_begin_object(w);
    abx_json_kv_c(w, "$ref", target);
    abx_json_end_object(w);
}

/* ---- parameters ---- */

static void put_parameter(struct abx_json_writer *w, struct abx_str name, const char *in,
                          bool is_required)
{
    abx_json_begin_object(w);
    abx_json_kv_str(w, "name", name);
    abx_json_kv_c(w, "in", in);
    abx_json_kv_bool(w, "required", is_required);
    abx_json_key(w, ABX_STR("schema"));
}

static void put_custom_parameters(struct abx_json_writer *w, struct abx_str path)
{
    for (;;) {
        ptrdiff_t open = abx_str_chr(path, '{'), shut = abx_str_chr(path, '}');
        if (open < 0 || shut < open)
            return;
        put_parameter(w, abx_str_sub(path, (size_t)open + 1, (size_t)(shut - open - 1)), "path",
                      true);
        abx_json_begin_object(w);
        abx_json_kv_c(w, "type", "string");
        abx_json_end_object(w);
        abx_json_end_object(w);
        path = abx_str_sub(path, (size_t)shut + 1, path.len);
    }
}

static void put_parameters(struct abx_json_writer *w, const struct abx_policy_rule *r)
{
    size_t count = 0;
    const struct abx_endpoint_field *f =
        r->endpoint ? abx_endpoint_fields_of(r->endpoint->id, &count) : NULL;
    abx_json_key(w, ABX_STR("parameters"));
    abx_json_begin_array(w);
    for (size_t i = 0; i < count; i++) {
        if (f[i].in == ABX_FIELD_BODY)
            continue;
        put_parameter(w, abx_str(f[i].name), f[i].in == ABX_FIELD_PATH ? "path" : "query",
                      f[i].is_required);
        abx__put_schema(w, &f[i]);
        abx_json_end_object(w);
    }
    if (r->endpoint == NULL)
        put_custom_parameters(w, r->route->path);
    abx_json_end_array(w);
}

/* ---- bodies ---- */

static void begin_content(struct abx_json_writer *w, const char *media)
{
    abx_json_key(w, ABX_STR("content"));
    abx_json_begin_object(w);
    abx_json_key(w, abx_str(media));
    abx_json_begin_object(w);
    abx_json_key(w, ABX_STR("schema"));
}

static void end_content(struct abx_json_writer *w)
{
    abx_json_end_object(w);
    abx_json_end_object(w);
}

static void put_fields(struct abx_json_writer *w, const struct abx_endpoint_field *f, size_t count)
{
    abx_json_begin_object(w);
    abx_json_kv_c(w, "type", "object");
    abx_json_key(w, ABX_STR("properties"));
    abx_json_begin_object(w);
    for (size_t i = 0; i < count; i++)
        if (f[i].in == ABX_FIELD_BODY) {
            abx_json_key(w, abx_str(f[i].name));
            abx__put_schema(w, &f[i]);
        }
    abx_json_end_object(w);
    abx_json_key(w, ABX_STR("required"));
    abx_json_begin_array(w);
    for (size_t i = 0; i < count; i++)
        if (f[i].in == ABX_FIELD_BODY && f[i].is_required)
            abx_json_str(w, abx_str(f[i].name));
    abx_json_end_array(w);
    abx_json_end_object(w);
}

static void put_any_object(struct abx_json_writer *w)
{
    abx_json_begin_object(w);
    abx_json_kv_c(w, "type", "object");
    abx_json_end_object(w);
}

static bool has_body(const struct abx_policy_rule *r, const struct abx_endpoint_field *f,
                     size_t count)
{
    if (r->endpoint == NULL)
        return abx_str_is(r->route->method, "POST") || abx_str_is(r->route->method, "PUT");
    for (size_t i = 0; i < count; i++)
        if (f[i].in == ABX_FIELD_BODY)
            return true;
    return strcmp(r->endpoint->id, "run_command") == 0;
}

static void put_bytes_schema(struct abx_json_writer *w)
{
    abx_json_begin_object(w);
    abx_json_kv_c(w, "type", "string");
    abx_json_end_object(w);
}

static void put_body(struct abx_json_writer *w, const struct abx_policy_rule *r)
{
    size_t count = 0;
    const struct abx_endpoint_field *f =
        r->endpoint ? abx_endpoint_fields_of(r->endpoint->id, &count) : NULL;
    const struct abx_endpoint_media *m =
        r->endpoint ? abx_endpoint_media_of(r->endpoint->id) : NULL;
    bool is_bytes = m && m->body;
    if (!is_bytes && !has_body(r, f, count))
        return;
    abx_json_key(w, ABX_STR("requestBody"));
    abx_json_begin_object(w);
    begin_content(w, is_bytes ? m->body : "application/json");
    if (is_bytes)
        put_bytes_schema(w);
    else if (f && count)
        put_fields(w, f, count);
    else
        put_any_object(w);
    end_content(w);
    abx_json_end_object(w);
}

/* ---- answers ---- */

static void put_answer(struct abx_json_writer *w, const char *status, const char *text,
                       const char *media, const char *schema)
{
    abx_json_key(w, abx_str(status));
    abx_json_begin_object(w);
    abx_json_kv_c(w, "description", text);
    begin_content(w, media);
    if (schema)
        kv_ref(w, schema);
    else if (strcmp(media, "application/json") == 0)
        put_any_object(w);
    else
        put_bytes_schema(w);
    end_content(w);
    abx_json_end_object(w);
}

static void put_answers(struct abx_json_writer *w, const struct abx_policy_rule *r)
{
    static const char error[] = "#/components/schemas/Error";
    const struct abx_endpoint_media *m =
        r->endpoint ? abx_endpoint_media_of(r->endpoint->id) : NULL;
    const char *media = m && m->answer ? m->answer : "application/json";
    abx_json_key(w, ABX_STR("responses"));
    abx_json_begin_object(w);
    put_answer(w, "200", "Done", media, NULL);
    put_answer(w, "4XX", "Refused: the body says why", "application/json", error);
    put_answer(w, "5XX", "Failed: the body says what", "application/json", error);
    abx_json_end_object(w);
}

/* ---- operations ---- */

static void put_security(struct abx_json_writer *w, const struct abx_policy *p,
                         const struct abx_policy_rule *r)
{
    static const char *const schemes[] = {"bearer", "accessToken"};
    abx_json_key(w, ABX_STR("security"));
    abx_json_begin_array(w);
    for (size_t i = 0; i < ABX_COUNTOF(schemes) && abx_policy_has_tokens(p) && !r->is_open; i++) {
        abx_json_begin_object(w);
        abx_json_key(w, abx_str(schemes[i]));
        abx_json_begin_array(w);
        abx_json_end_array(w);
        abx_json_end_object(w);
    }
    abx_json_end_array(w);
}

/* "get" for "GET": the keys of OpenAPI. */
static void key_method(struct abx_json_writer *w, struct abx_str method)
{
    char lower[16];
    size_t n = 0;
    for (; n < method.len && n < sizeof(lower); n++)
        lower[n] = (char)(method.ptr[n] >= 'A' && method.ptr[n] <= 'Z' ? method.ptr[n] | 0x20
                                                                       : method.ptr[n]);
    abx_json_key(w, abx_str_n(lower, n));
}

static void put_operation(struct abx_json_writer *w, const struct abx_policy *p,
                          const struct abx_policy_rule *r)
{
    struct abx_str summary = r->endpoint ? abx_str(r->endpoint->summary) : r->route->summary;
    key_method(w, method_of(r));
    abx_json_begin_object(w);
    abx_json_kv_str(w, "operationId", r->id);
    abx_json_kv_str(w, "summary", summary.len ? summary : r->id);
    abx_json_key(w, ABX_STR("tags"));
    abx_json_begin_array(w);
    abx_json_str(w, abx_str(abx_group_name(r->group)));
    abx_json_end_array(w);
    put_security(w, p, r);
    put_parameters(w, r);
    put_body(w, r);
    put_answers(w, r);
    abx_json_end_object(w);
}

static bool is_first_of_path(const struct abx_policy_rule *rules, size_t at,
                             const struct abx_policy_identity *who)
{
    for (size_t i = 0; i < at; i++)
        if (is_shown(&rules[i], who) && abx_str_eq(path_of(&rules[i]), path_of(&rules[at])))
            return false;
    return true;
}

/* Of several routes with one method and path the first one answers. */
static bool is_first_of_method(const struct abx_policy_rule *rules, size_t from, size_t at,
                               const struct abx_policy_identity *who)
{
    for (size_t i = from; i < at; i++)
        if (is_shown(&rules[i], who) && abx_str_eq(path_of(&rules[i]), path_of(&rules[at])) &&
            abx_str_eq(method_of(&rules[i]), method_of(&rules[at])))
            return false;
    return true;
}

static void put_paths(struct abx_json_writer *w, const struct abx_policy *p,
                      const struct abx_policy_identity *who)
{
    size_t count;
    const struct abx_policy_rule *rules = abx_policy_rules(p, &count);
    abx_json_key(w, ABX_STR("paths"));
    abx_json_begin_object(w);
    for (size_t i = 0; i < count; i++) {
        if (!is_shown(&rules[i], who) || !is_first_of_path(rules, i, who))
            continue;
        abx_json_key(w, path_of(&rules[i]));
        abx_json_begin_object(w);
        for (size_t k = i; k < count; k++)
            if (is_shown(&rules[k], who) && abx_str_eq(path_of(&rules[k]), path_of(&rules[i])) &&
                is_first_of_method(rules, i, k, who))
                put_operation(w, p, &rules[k]);
        abx_json_end_object(w);
    }
    abx_json_end_object(w);
}

/* ---- what does not depend on the caller ---- */

static const char head[] =
    "\"openapi\":\"3.1.0\",\"info\":{\"title\":\"agent-sandbox-server\",\"version\":"
    "\"" ABX_SERVER_COMPAT
    "\",\"description\":\"What this caller may call, by the policy in force.\","
    "\"license\":{\"name\":\"Apache-2.0\",\"identifier\":\"Apache-2.0\"}},"
    "\"servers\":[{\"url\":\"/\"}],\"components\":{\"securitySchemes\":{"
    "\"bearer\":{\"type\":\"http\",\"scheme\":\"bearer\"},"
    "\"accessToken\":{\"type\":\"apiKey\",\"in\":\"header\",\"name\":\"" ABX_HEADER_ACCESS_TOKEN
    "\"}},"
    "\"schemas\":{\"Error\":{\"type\":\"object\",\"required\":[\"error\",\"type\"],\"properties\":{"
    "\"error\":{\"type\":\"string\",\"description\":\"What is wrong\"},"
    "\"type\":{\"type\":\"string\",\"description\":\"Its class\"},"
    "\"code\":{\"type\":\"string\",\"description\":\"Its stable name, if it has one\"},"
    "\"endpoint\":{\"type\":\"string\"},\"rule\":{\"type\":\"string\"},\"scope\":{\"type\":"
    "\"string\"},"
    "\"retry_after\":{\"type\":\"integer\"},\"limit\":{\"type\":\"integer\"}}}}}";

void abx__openapi_write(struct abx_buf *out, const struct abx_policy *p,
                        const struct abx_policy_identity *who)
{
    struct abx_json_writer w;
    abx_json_writer_init(&w, out);
    abx_json_begin_object(&w);
    abx_json_raw(&w, abx_str(head));
    put_paths(&w, p, who);
    abx_json_end_object(&w);
}
