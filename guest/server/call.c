/* guest/server/call.c: one request from its head to its handler, in the order of server-api.md 3.
 * Loop thread.
 *
 * Route, credential, endpoint and scopes, rate and concurrency, query, body, handler. Every refusal
 * is answered where it is found; the slot is given back and the audit line written when the
 * exchange ends. */
#include "guest/server/server_priv.h"

#include "guest/server/cut.h"
#include "guest/server/terminals.h"
#include "guest/server/view.h"
#include "lib/base/assert.h"
#include "lib/base/time.h"
#include "lib/contract/contract.h"

#include <jansson.h>

#include "lib/base/banned.h"

enum { CREDENTIALS_MAX = 16, METHODS_MAX = 64 };

/* ---- what handlers ask ---- */

static struct abx_str find(const struct abx__pair *pairs, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (abx_str_is(pairs[i].name, name))
            return pairs[i].value;
    return (struct abx_str){0};
}

struct abx_str abx__call_query(const struct abx__call *c, const char *name)
{
    return find(c->query, c->query_count, name);
}

struct abx_str abx__call_peer(const struct abx__call *c)
{
    bool is_ours = c->req->listener_tag == ABX__TAG_SELF;
    return is_ours ? abx__call_header(c, ABX__HEADER_PEER) : abx_http_peer(c->req);
}

struct abx_str abx__call_header(const struct abx__call *c, const char *name)
{
    const struct abx_http_head *head = c->req->head;
    for (size_t i = 0; i < head->header_count; i++)
        if (abx_str_is_nocase(head->headers[i].name, name))
            return head->headers[i].value;
    return (struct abx_str){0};
}

struct abx_str abx__call_param(const struct abx__call *c, const char *name)
{
    return find(c->params, c->param_count, name);
}

struct json_t *abx__call_field(const struct abx__call *c, const char *name)
{
    return json_object_get(c->body, name);
}

bool abx__call_string(struct abx__call *c, const char *name, struct abx_str *ret)
{
    const json_t *v = abx__call_field(c, name);
    if (!json_is_string(v) || json_string_length(v) == 0) {
        abx__call_fail(c, 400, "ValueError", "'%s' must be a string that is not empty", name);
        return false;
    }
    *ret = abx_str_n(json_string_value(v), json_string_length(v));
    return true;
}

void abx__call_note_path(struct abx__call *c, struct abx_str path)
{
    enum { SHOWN = 512 };
    if (c->audit_path_count == ABX__AUDIT_PATHS)
        return;
    struct abx_str copy = abx_arena_str(c->req->arena, abx_str_sub(path, 0, SHOWN));
    if (copy.ptr)
        c->audit_paths[c->audit_path_count++] = copy;
}

/* ---- the end ---- */

static void on_close(struct abx_http_req *req, bool aborted)
{
    struct abx__call *c = req->data;
    if (c->match_number)
        abx__custom_match_cancel(&c->server->custom[c->next_custom - 1], c->match_number);
    if (c->on_close)
        c->on_close(c, aborted);
    abx__audit_call(c);
    if (c->has_slot)
        abx_policy_meter_leave(c->meter, c->rule, &c->who);
    c->server->body_bytes -= c->body_buf.len;
    abx_buf_done(&c->body_buf);
    json_decref(c->body);
    abx_list_remove(&c->node);
    abx_policy_meter_unref(c->meter);
    abx_policy_unref(c->policy);
    abx__server_rest(c->server);
}

static void on_drain(struct abx_http_req *req)
{
    struct abx__call *c = req->data;
    if (c->on_drain)
        c->on_drain(c);
}

void abx__calls_sweep(struct abx__server *s)
{
    struct abx_list *node, *next;
    int64_t now = abx_time_mono_ms();
    for (node = s->calls.next; node != &s->calls; node = next) {
        struct abx__call *c = ABX_CONTAINER_OF(node, struct abx__call, node);
        next = node->next;
        if (c->is_reading && c->status == 0 && now - c->fed_ms > ABX__BODY_IDLE_MS)
            abx__call_fail(c, 408, "TimeoutError", "the body did not come in time");
    }
}

/* ---- the handler ---- */

/* Until the group is built it is answered as switched off (decisions.md). */
static void deny_agents(struct abx__call *c)
{
    struct abx_policy_verdict v = {.endpoint = c->rule->id, .rule = ABX_STR("build:agents")};
    abx_policy_deny(&v, ABX_POLICY_ENDPOINT_DISABLED, "%.*s: the agents group is not built yet",
                    ABX_STR_FMT(c->rule->id));
    abx__call_deny(c, &v);
}

/* What it starts would run beside those of others, uncounted: rather not (S22). */
static bool has_room(struct abx__call *c)
{
    int r = abx__view_reserve(c->policy, c->rule, &c->who);
    if (r < 0)
        abx__call_fail_errno(c, -r, "the group of this caller's processes");
    return r >= 0;
}

static void serve(struct abx__call *c)
{
    c->is_reading = false;
    if (c->custom) {
        c->custom->serve(c, c->custom->arg);
        return;
    }
    if (!has_room(c))
        return;
    if (c->route)
        c->route->serve(c);
    else if (c->rule->group == ABX_GROUP_AGENTS)
        deny_agents(c);
    else
        abx__call_not_built(c);
}

/* ---- the body ---- */

static bool is_falsy(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_FALSE:
        return true;
    case JSON_INTEGER:
        return json_integer_value(v) == 0;
    case JSON_REAL:
        return !(json_real_value(v) < 0) && !(json_real_value(v) > 0);
    case JSON_STRING:
        return json_string_length(v) == 0;
    case JSON_ARRAY:
        return json_array_size(v) == 0;
    case JSON_OBJECT:
    case JSON_TRUE:
    case JSON_NULL: /* refused, for none could tell it from a mistake */
        break;
    }
    return false;
}

static void bad_body(struct abx__call *c, const char *why)
{
    c->audit_code = "bad_body";
    abx__call_fail(c, 400, "ValueError", "the body is no JSON object: %s", why);
}

/* Commands and custom routes take any JSON; what it means is their host's business. */
static bool takes_any(const struct abx__call *c)
{
    return c->custom != NULL || abx_str_is(c->rule->id, "run_command");
}

static const struct abx_json_limits body_limits = {
    .max_bytes = SIZE_MAX, .max_depth = ABX__BODY_DEPTH, .allow_nul = true, .wide_numbers = true};

static const char *long_field(const struct abx__call *c)
{
    return c->route ? c->route->long_field : NULL;
}

/* The long member aside: the parser sees a marker in its place, which nobody can guess. */
static bool parse_without_long(struct abx__call *c, struct abx_str text, const char *field)
{
    struct abx_str value, marker = abx_str(c->server->long_marker);
    ABX_AUTO_BUF rest;
    abx_buf_init(&rest, text.len + marker.len);
    if (!abx__cut_member(text, field, marker, &rest, &value) ||
        abx_json_parse(abx_buf_str(&rest), &body_limits, &c->body, NULL) < 0)
        return false;
    const json_t *v = json_object_get(c->body, field);
    if (json_is_string(v) && abx_str_is(marker, json_string_value(v))) {
        c->long_value = value;
        return true;
    }
    json_decref(c->body);
    c->body = NULL;
    return false;
}

static int parse_text(struct abx__call *c, struct abx_str text, struct abx_error *err)
{
    const char *field = long_field(c);
    if (field && parse_without_long(c, text, field))
        return 0;
    return abx_json_parse(text, &body_limits, &c->body, err);
}

static struct abx_str without_mark(struct abx_str text)
{
    return abx_str_starts(text, "\xEF\xBB\xBF") ? abx_str_sub(text, 3, text.len) : text;
}

/* A value that says nothing becomes an object without members; false: it is another one. */
static bool become_object(json_t **inout)
{
    if (*inout && !json_is_object(*inout) && is_falsy(*inout)) {
        json_decref(*inout);
        *inout = NULL;
    }
    if (*inout == NULL)
        *inout = json_object();
    return *inout == NULL || json_is_object(*inout);
}

int abx__body_parse(struct abx_str text, struct json_t **ret, struct abx_error *err)
{
    text = without_mark(text);
    if (text.len && abx_json_parse(text, &body_limits, ret, err) < 0)
        return -1;
    if (!become_object(ret))
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "it is another value");
    return *ret ? 0 : abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
}

/* False: answered. */
static bool parse_body(struct abx__call *c)
{
    struct abx_error err = {0};
    c->body_text = abx_buf_str(&c->body_buf);
    struct abx_str text = without_mark(c->body_text);
    if (text.len && parse_text(c, text, &err) < 0) {
        bad_body(c, err.msg);
        return false;
    }
    if (takes_any(c))
        return true;
    if (!become_object(&c->body)) {
        bad_body(c, "it is another value");
        return false;
    }
    if (c->body == NULL) {
        abx__call_fail(c, 500, "MemoryError", "out of memory");
        return false;
    }
    return true;
}

static void on_body_end(struct abx_http_req *req)
{
    struct abx__call *c = req->data;
    if (c->status == 0 && parse_body(c))
        serve(c);
}

static void too_large(struct abx__call *c)
{
    struct abx_policy_verdict v = {.limit_bytes = c->body_limit};
    abx_policy_deny(&v, ABX_POLICY_PAYLOAD_TOO_LARGE, "the body is larger than %llu bytes",
                    (unsigned long long)c->body_limit);
    abx__call_deny(c, &v);
}

static void on_body(struct abx_http_req *req, const char *data, size_t len)
{
    struct abx__call *c = req->data;
    if (c->status)
        return; /* refused: the rest is thrown away */
    c->fed_ms = abx_time_mono_ms();
    if (c->body_buf.len + len > c->body_limit) {
        too_large(c);
        return;
    }
    if (c->server->body_bytes + len > ABX__BODIES_MAX) {
        abx__call_fail(c, 503, "ResourceError", "too many bodies are held, try again later");
        return;
    }
    abx_buf_put(&c->body_buf, data, len);
    if (abx_buf_failed(&c->body_buf)) {
        abx__call_fail(c, 500, "MemoryError", "out of memory");
        return;
    }
    c->server->body_bytes += len;
}

static bool takes_body(const struct abx__call *c)
{
    struct abx_str m = c->req->head->method;
    return abx_str_is(m, "POST") || abx_str_is(m, "PUT") || abx_str_is(m, "DELETE") ||
           abx_str_is(m, "PATCH");
}

/* Where a file travels in the body, room for as much as the file may have (D21). */
static uint64_t default_limit(const struct abx__call *c)
{
    enum { AROUND = 65536 };
    if (long_field(c) == NULL)
        return ABX__BODY_MAX;
    uint64_t file = abx_policy_limit_u64(c->rule, ABX_LIMIT_MAX_BYTES, c->server->upload_cap);
    uint64_t text = file < UINT64_MAX / 2 ? file / 3 * 4 + AROUND : UINT64_MAX;
    return text > ABX__BODY_MAX ? text : ABX__BODY_MAX;
}

static void read_body(struct abx__call *c)
{
    const struct abx_http_head *head = c->req->head;
    if (!takes_body(c) || (c->route && c->route->takes_bytes)) {
        serve(c);
        return;
    }
    c->body_limit = abx_policy_limit_u64(c->rule, ABX_LIMIT_MAX_REQUEST_BYTES, default_limit(c));
    if (head->content_length > c->body_limit) {
        too_large(c);
        return;
    }
    if (!head->is_chunked && head->content_length == 0) {
        if (parse_body(c))
            serve(c);
        return;
    }
    if (c->route && c->route->serve_large &&
        (head->is_chunked || head->content_length > ABX__BODY_MAX)) {
        c->route->serve_large(c);
        return;
    }
    abx_buf_init(&c->body_buf, c->body_limit < SIZE_MAX / 2 ? (size_t)c->body_limit : SIZE_MAX / 2);
    c->is_reading = true;
    c->fed_ms = c->began_ms;
    c->req->on_body = on_body;
    c->req->on_body_end = on_body_end;
}

/* ---- query ---- */

static bool read_query(struct abx__call *c)
{
    int n = abx__target_pairs(c->req->query, c->req->arena, c->query, ABX__QUERY_MAX);
    if (n == -2)
        abx__call_fail(c, 500, "MemoryError", "out of memory");
    else if (n == -1)
        abx__call_fail(c, 400, "ValueError", "more than %d query parameters", (int)ABX__QUERY_MAX);
    if (n < 0)
        return false;
    c->query_count = (size_t)n;
    struct abx_str twice = abx__target_double(c->query, c->query_count);
    if (twice.ptr == NULL)
        return true;
    struct abx_policy_verdict v = {.endpoint = c->rule->id};
    abx_policy_deny(&v, ABX_POLICY_DUPLICATE_PARAMETER, "query parameter '%.*s' occurs twice",
                    (int)(twice.len < 64 ? twice.len : 64), twice.ptr);
    abx__call_deny(c, &v);
    return false;
}

/* ---- who calls, and whether it may ---- */

static size_t values_of(const struct abx_http_head *head, const char *name,
                        struct abx_str out[CREDENTIALS_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < head->header_count && n < CREDENTIALS_MAX; i++)
        if (abx_str_is_nocase(head->headers[i].name, name))
            out[n++] = head->headers[i].value;
    return n;
}

/* An open route asks for no credential; a good one names its owner all the same. */
static void name_owner(struct abx__call *c, const struct abx_policy_credentials *given)
{
    struct abx_policy_identity who;
    struct abx_policy_verdict v = {0};
    const struct abx_policy_rule *closed = abx_policy_rule(c->policy, ABX_STR("capabilities"));
    if (abx_policy_identify(c->policy, closed, given, &who, &v) &&
        who.index != ABX_POLICY_ANONYMOUS)
        c->who = who;
}

bool abx__call_judge_code(const struct abx__call *c, struct abx_policy_verdict *v)
{
    const struct abx_policy *p = c->server->code_policy;
    const struct abx_policy_rule *rule = p ? abx_policy_rule(p, c->rule->id) : NULL;
    return rule == NULL || abx_policy_judge(p, rule, &c->who, v);
}

static bool admit(struct abx__call *c)
{
    struct abx_str authorization[CREDENTIALS_MAX], access_token[CREDENTIALS_MAX];
    struct abx_policy_credentials given = {.authorization = authorization,
                                           .access_token = access_token};
    struct abx_policy_verdict v = {0};
    given.authorization_count = values_of(c->req->head, "Authorization", authorization);
    given.access_token_count = values_of(c->req->head, ABX_HEADER_ACCESS_TOKEN, access_token);
    bool known = abx_policy_identify(c->policy, c->rule, &given, &c->who, &v);
    if (!known) {
        abx__call_refuse(c, &v);
        return false;
    }
    if (c->custom && c->rule->is_open)
        name_owner(c, &given);
    if (!abx_policy_judge(c->policy, c->rule, &c->who, &v) || !abx__call_judge_code(c, &v) ||
        !abx_policy_meter_enter(c->meter, c->rule, &c->who, c->began_ms, &v)) {
        abx__call_deny(c, &v);
        return false;
    }
    c->has_slot = true;
    return true;
}

/* ---- the route ---- */

/* HEAD is GET without the bytes of the body (D6). */
static bool is_method(const struct abx__call *c, struct abx_str method)
{
    struct abx_str m = c->req->head->method;
    return abx_str_eq(m, method) || (abx_str_is(m, "HEAD") && abx_str_is(method, "GET"));
}

static bool matches(struct abx__call *c, struct abx_str pattern)
{
    c->param_count = ABX__PARAMS_MAX;
    bool yes = abx__target_match(pattern, c->path, c->req->arena, c->params, &c->param_count);
    if (!yes)
        c->param_count = 0;
    return yes;
}

static void add_method(struct abx_buf *allow, struct abx_str method)
{
    abx_buf_put_c(allow, allow->len ? ", " : "");
    abx_buf_put_str(allow, method);
}

static bool is_offered(const struct abx__call *c, const struct abx_endpoint *e)
{
    if (c->server->has_own_table && e->group != ABX_GROUP_CORE)
        return false;
    return (e->flags & ABX_EP_VIRTUAL) == 0;
}

static bool is_place(struct abx__call *c, const struct abx__place *p)
{
    return p->literal <= c->path.len && memcmp(p->path.ptr, c->path.ptr, p->literal) == 0 &&
           is_offered(c, p->endpoint) && matches(c, p->path);
}

/* Of the table. @yields: those that a custom route goes before (S31). */
static bool find_endpoint(struct abx__call *c, bool yields)
{
    size_t count, rule_count;
    const struct abx__place *places = abx__places(&count);
    const struct abx_policy_rule *rules = abx_policy_rules(c->policy, &rule_count);
    ABX_ASSERT(count <= rule_count);
    for (size_t i = 0; i < count; i++)
        if (!(places[i].endpoint->flags & ABX_EP_YIELDS) == !yields && is_place(c, &places[i]) &&
            is_method(c, places[i].method)) {
            ABX_ASSERT(rules[i].endpoint == places[i].endpoint);
            c->rule = &rules[i];
            c->route = places[i].route;
            return true;
        }
    return false;
}

static bool is_path_of(struct abx__call *c, const struct abx__custom *custom)
{
    c->param_count = ABX__PARAMS_MAX;
    return abx__custom_path_match(custom->spec.path, c->path, c->params, &c->param_count);
}

static void on_match(void *arg, struct abx_str params);

enum found { FOUND, WAITING, NOWHERE };

/* Custom routes in their order, from c->next_custom on. WAITING: a host was asked. */
static enum found find_custom(struct abx__call *c)
{
    while (c->next_custom < c->server->custom_count) {
        const struct abx__custom *custom = &c->server->custom[c->next_custom++];
        if (!is_method(c, custom->spec.method))
            continue;
        c->custom = custom;
        c->rule = abx_policy_rule(c->policy, custom->spec.id);
        if (c->rule && custom->is_regex &&
            (c->match_number = abx__custom_match(custom, c->path, on_match, c)) != 0)
            return WAITING;
        if (c->rule && !custom->is_regex && is_path_of(c, custom))
            return FOUND;
    }
    c->custom = NULL;
    c->rule = NULL;
    return NOWHERE;
}

static const char *const methods[] = {"GET", "POST", "PUT", "DELETE", "HEAD"};

static bool is_known_method(const struct abx__call *c, struct abx_str method)
{
    for (size_t i = 0; i < ABX_COUNTOF(methods); i++)
        if (abx_str_is(method, methods[i]))
            return true;
    for (size_t i = 0; i < c->server->custom_count; i++)
        if (abx_str_eq(method, c->server->custom[i].spec.method))
            return true;
    return false;
}

/* The methods that the path would take. */
static void put_allowed(struct abx__call *c, struct abx_buf *allow)
{
    size_t count;
    const struct abx__place *places = abx__places(&count);
    for (size_t i = 0; i < count; i++)
        if (is_place(c, &places[i]))
            add_method(allow, places[i].method);
    for (size_t i = 0; i < c->server->custom_count; i++)
        if (!c->server->custom[i].is_regex && is_path_of(c, &c->server->custom[i]))
            add_method(allow, c->server->custom[i].spec.method);
}

static void not_found(struct abx__call *c)
{
    char text[METHODS_MAX];
    struct abx_buf allow = {.ptr = text, .cap = sizeof(text), .max = sizeof(text) - 1};
    ABX_AUTO_BUF body;
    struct abx_json_writer w;
    put_allowed(c, &allow);
    struct abx_http_extra extra[2] = {{allow.len ? "Allow" : NULL, abx_buf_str(&allow)}};
    abx_buf_init(&body, 65536);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    const char *why =
        abx_arena_printf(c->req->arena, "no route for %.*s %.*s", ABX_STR_FMT(c->req->head->method),
                         (int)(c->path.len < 1024 ? c->path.len : 1024), c->path.ptr);
    abx_json_kv_c(&w, "error", why ? why : "no such route");
    abx_json_kv_c(&w, "type", "ValueError");
    abx_json_end_object(&w);
    abx__call_answer_status(c, 404, extra, abx_buf_str(&body));
}

static void take(struct abx__call *c)
{
    if (admit(c) && read_query(c))
        read_body(c);
}

static void go_on(struct abx__call *c)
{
    switch (find_custom(c)) {
    case FOUND:
        take(c);
        break;
    case WAITING:
        break;
    case NOWHERE:
        if (find_endpoint(c, true))
            take(c);
        else
            not_found(c);
        break;
    }
}

static void on_match(void *arg, struct abx_str params)
{
    struct abx__call *c = arg;
    c->match_number = 0;
    if (params.len == 0) {
        c->custom = NULL;
        c->rule = NULL;
        abx__call_fail(c, 503, "HostUnavailable", "the command host did not say whose path it is");
    } else if (abx_str_is(params, "null")) {
        go_on(c);
    } else {
        c->params_json = abx_arena_str(c->req->arena, params);
        take(c);
    }
}

static void attach(struct abx__call *c)
{
    c->rule = abx_policy_rule(c->policy, ABX_STR("pty_connect"));
    ABX_ASSERT(c->rule);
    abx__terminal_attach(c);
}

static void begin(struct abx__call *c)
{
    struct abx_str method = c->req->head->method;
    if (!abx__call_check_host(c))
        return;
    if (abx__terminal_is_socket(c))
        attach(c);
    else if (!abx__call_check_origin(c))
        return;
    else if (!is_known_method(c, method))
        abx__call_fail(c, 501, "ValueError", "method '%.*s' is not supported",
                       (int)(method.len < 32 ? method.len : 32), method.ptr);
    else if (find_endpoint(c, false))
        take(c);
    else
        go_on(c);
}

/* "PREFIX-NUMBER"; the number in hex, as much of it as there is room for. */
static void name_call(struct abx__call *c, uint64_t number)
{
    enum { PREFIX = sizeof(c->server->call_prefix) - 1, DIGITS = sizeof(c->id) - PREFIX - 2 };
    char digits[DIGITS];
    size_t at = DIGITS;
    do
        digits[--at] = "0123456789abcdef"[number & 15];
    while ((number >>= 4) && at);
    memcpy(c->id, c->server->call_prefix, PREFIX);
    c->id[PREFIX] = '-';
    memcpy(c->id + PREFIX + 1, digits + at, DIGITS - at);
    c->id[PREFIX + 1 + DIGITS - at] = '\0';
}

void abx__server_on_request(struct abx_http_req *req)
{
    struct abx__server *s = req->user;
    struct abx__call *c = abx_arena_alloc(req->arena, sizeof(*c));
    if (c == NULL) {
        abx_http_answer(req, 503, NULL, ABX_STR(""));
        return;
    }
    c->req = req;
    c->server = s;
    c->policy = abx_policy_ref(s->policy);
    c->meter = abx_policy_meter_ref(s->meter);
    c->began_ms = abx_time_mono_ms();
    c->path = abx__target_path(req->path);
    name_call(c, ++s->call_number);
    abx_buf_init(&c->body_buf, 0);
    abx_list_push(&s->calls, &c->node);
    req->data = c;
    req->on_close = on_close;
    req->on_drain = on_drain;
    begin(c);
}
