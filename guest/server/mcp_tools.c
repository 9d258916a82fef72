/* guest/server/mcp_tools.c: tools/list and tools/call: the caller's commands and endpoints. A call
 * becomes a request to this server with the caller's credentials (mcp_priv.h). Loop thread. */
#include "guest/server/commands_priv.h"
#include "guest/server/describe.h"
#include "guest/server/mcp_priv.h"

#include "lib/base/assert.h"
#include "lib/contract/contract.h"
#include "lib/wire/url.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum { NAME_MAX_BYTES = 64, REQUEST_MAX = 24 << 20, HEAD_MAX = 262144 };

/* ---- which tools there are ---- */

/* Of no use in a conversation: the document of all endpoints, and a credential for a socket that is
 * no tool. */
static bool is_left_out(const struct abx_endpoint *e)
{
    static const char *const ids[] = {"openapi", "pty_ticket"};
    for (size_t i = 0; i < ABX_COUNTOF(ids); i++)
        if (strcmp(e->id, ids[i]) == 0)
            return true;
    return false;
}

/* What a tool can carry: one answer in JSON. */
static bool is_tool(const struct abx_policy_rule *r)
{
    const struct abx_endpoint *e = r->endpoint;
    const struct abx_endpoint_media *m = e ? abx_endpoint_media_of(e->id) : NULL;
    return e && !(e->flags & (ABX_EP_STREAMING | ABX_EP_VIRTUAL)) && e->group != ABX_GROUP_AGENTS &&
           m == NULL && !abx_str_starts(r->id, "mcp") && !is_left_out(e);
}

static bool may_call(const struct abx__call *c, const struct abx_policy_rule *r)
{
    struct abx_policy_verdict v = {0};
    return is_tool(r) && abx_policy_judge(c->policy, r, &c->who, &v);
}

/* Clients take letters, digits, '_' and '-'; a command of another name is called by run_command. */
static bool is_tool_name(const struct abx__call *c, struct abx_str name)
{
    for (size_t i = 0; i < name.len; i++) {
        char b = name.ptr[i];
        if (!((b >= 'a' && b <= 'z') || (b >= 'A' && b <= 'Z') || (b >= '0' && b <= '9') ||
              b == '_' || b == '-'))
            return false;
    }
    return name.len > 0 && name.len <= NAME_MAX_BYTES && abx_policy_rule(c->policy, name) == NULL;
}

static bool may_run_commands(const struct abx__call *c)
{
    const struct abx_policy_rule *r = abx_policy_rule(c->policy, ABX_STR("run_command"));
    return r && may_call(c, r);
}

static bool find_command(const struct abx__call *c, struct abx_str name,
                         struct abx__command_view *ret)
{
    if (!may_run_commands(c) || !is_tool_name(c, name))
        return false;
    for (size_t i = 0; abx__command_visible_at(c, i, ret); i++)
        if (abx_str_eq(ret->name, name))
            return true;
    return false;
}

/* ---- tools/list ---- */

static void put_hints(struct abx_json_writer *w, bool is_read_only)
{
    abx_json_key(w, ABX_STR("annotations"));
    abx_json_begin_object(w);
    abx_json_kv_bool(w, "readOnlyHint", is_read_only);
    abx_json_end_object(w);
}

static void begin_schema(struct abx_json_writer *w)
{
    abx_json_key(w, ABX_STR("inputSchema"));
    abx_json_begin_object(w);
    abx_json_kv_c(w, "type", "object");
    abx_json_key(w, ABX_STR("properties"));
    abx_json_begin_object(w);
}

static void put_endpoint(struct abx_json_writer *w, const struct abx_endpoint *e)
{
    size_t count;
    const struct abx_endpoint_field *f = abx_endpoint_fields_of(e->id, &count);
    bool is_command = strcmp(e->id, "run_command") == 0;
    abx_json_begin_object(w);
    abx_json_kv_c(w, "name", e->id);
    abx_json_kv_c(w, "description", e->summary);
    begin_schema(w);
    for (size_t i = 0; i < count; i++) {
        abx_json_key(w, abx_str(f[i].name));
        abx__put_schema(w, &f[i]);
    }
    if (is_command) {
        abx_json_key(w, ABX_STR("arguments"));
        abx_json_raw(w,
                     ABX_STR("{\"type\":\"object\",\"description\":\"Arguments of the command\"}"));
    }
    abx_json_end_object(w);
    abx_json_key(w, ABX_STR("required"));
    abx_json_begin_array(w);
    for (size_t i = 0; i < count; i++)
        if (f[i].is_required)
            abx_json_str(w, abx_str(f[i].name));
    abx_json_end_array(w);
    abx_json_end_object(w);
    put_hints(w, strcmp(abx__effect(e), "read") == 0);
    abx_json_end_object(w);
}

/* An argument's type as JSON schema has it. */
static void put_argument(struct abx_json_writer *w, const struct json_t *arg)
{
    static const struct {
        const char *type, *schema;
    } types[] = {{"string", "string"},
                 {"integer", "integer"},
                 {"float", "number"},
                 {"boolean", "boolean"},
                 {"string_array", "array"}};
    const char *type = json_string_value(json_object_get(arg, "type")),
               *text = json_string_value(json_object_get(arg, "description"));
    abx_json_begin_object(w);
    for (size_t i = 0; type && i < ABX_COUNTOF(types); i++)
        if (strcmp(type, types[i].type) == 0)
            abx_json_kv_c(w, "type", types[i].schema);
    if (type && strcmp(type, "string_array") == 0) {
        abx_json_key(w, ABX_STR("items"));
        abx_json_raw(w, ABX_STR("{\"type\":\"string\"}"));
    }
    if (text && text[0])
        abx_json_kv_c(w, "description", text);
    abx_json_end_object(w);
}

static void put_command(struct abx_json_writer *w, const struct abx__command_view *command)
{
    const struct json_t *arg;
    size_t i;
    abx_json_begin_object(w);
    abx_json_kv_str(w, "name", command->name);
    if (command->description.len)
        abx_json_kv_str(w, "description", command->description);
    begin_schema(w);
    json_array_foreach(command->args, i, arg)
    {
        const char *name = json_string_value(json_object_get(arg, "name"));
        if (name) {
            abx_json_key(w, abx_str(name));
            put_argument(w, arg);
        }
    }
    abx_json_end_object(w);
    abx_json_key(w, ABX_STR("required"));
    abx_json_begin_array(w);
    json_array_foreach(command->args, i, arg)
    {
        const char *name = json_string_value(json_object_get(arg, "name"));
        if (name && json_is_true(json_object_get(arg, "required")))
            abx_json_str(w, abx_str(name));
    }
    abx_json_end_array(w);
    abx_json_end_object(w);
    abx_json_end_object(w);
}

void abx__tools_list(const struct abx__rpc *r)
{
    ABX_AUTO_BUF out;
    struct abx_json_writer w;
    struct abx__command_view command;
    size_t count;
    const struct abx_policy_rule *rules = abx_policy_rules(r->call->policy, &count);
    abx_buf_init(&out, ABX__MCP_MESSAGE_MAX);
    abx_json_writer_init(&w, &out);
    abx_json_begin_object(&w);
    abx_json_key(&w, ABX_STR("tools"));
    abx_json_begin_array(&w);
    for (size_t i = 0; may_run_commands(r->call) && abx__command_visible_at(r->call, i, &command);
         i++)
        if (is_tool_name(r->call, command.name))
            put_command(&w, &command);
    for (size_t i = 0; i < count; i++)
        if (may_call(r->call, &rules[i]))
            put_endpoint(&w, rules[i].endpoint);
    abx_json_end_array(&w);
    abx_json_end_object(&w);
    abx__rpc_result(r, &out);
}

/* ---- tools/call: the request ---- */

struct tool_call {
    struct abx__rpc rpc;
    struct abx_http_call *request; /* NULL: over */
    struct abx_buf answer;
    int status;
    bool is_cut;
};

/* A value as the query has it: text as it is, all else as JSON. */
static void put_query_value(struct abx_buf *out, const struct json_t *v)
{
    if (json_is_string(v)) {
        abx_url_encode(out, abx_str_n(json_string_value(v), json_string_length(v)), "");
        return;
    }
    ABX_AUTO_BUF text;
    struct abx_json_writer w;
    abx_buf_init(&text, REQUEST_MAX);
    abx_json_writer_init(&w, &text);
    abx_json_value(&w, v);
    abx_url_encode(out, abx_buf_str(&text), "");
    out->failed = out->failed || text.failed;
}

static void put_target(struct abx_buf *out, const struct abx_endpoint *e, const struct json_t *args)
{
    size_t count;
    const struct abx_endpoint_field *f = abx_endpoint_fields_of(e->id, &count);
    struct abx_str path = abx_str(e->path);
    while (path.len) {
        ptrdiff_t open = abx_str_chr(path, '{'), shut = abx_str_chr(path, '}');
        abx_buf_put_str(out, abx_str_sub(path, 0, open < 0 ? path.len : (size_t)open));
        if (open < 0 || shut < open)
            break;
        char name[NAME_MAX_BYTES];
        if (abx_str_to_c(abx_str_sub(path, (size_t)open + 1, (size_t)(shut - open - 1)), name,
                         sizeof(name)) == 0)
            put_query_value(out, json_object_get(args, name));
        path = abx_str_sub(path, (size_t)shut + 1, path.len);
    }
    char separator = '?';
    for (size_t i = 0; i < count; i++) {
        const struct json_t *v = json_object_get(args, f[i].name);
        if (f[i].in != ABX_FIELD_QUERY || v == NULL)
            continue;
        abx_buf_put_byte(out, separator);
        abx_buf_put_c(out, f[i].name);
        abx_buf_put_byte(out, '=');
        put_query_value(out, v);
        separator = '&';
    }
}

/* All that does not stand in the path or the query. */
static void put_rest(struct abx_buf *out, const struct abx_endpoint *e, struct json_t *args)
{
    struct abx_json_writer w;
    struct json_t *v;
    const char *name;
    size_t count;
    const struct abx_endpoint_field *f = abx_endpoint_fields_of(e->id, &count);
    abx_json_writer_init(&w, out);
    abx_json_begin_object(&w);
    json_object_foreach(args, name, v)
    {
        bool is_elsewhere = false;
        for (size_t i = 0; i < count; i++)
            is_elsewhere =
                is_elsewhere || (f[i].in != ABX_FIELD_BODY && strcmp(name, f[i].name) == 0);
        if (is_elsewhere)
            continue;
        abx_json_key(&w, abx_str(name));
        abx_json_value(&w, v);
    }
    abx_json_end_object(&w);
}

static void put_object(struct abx_buf *out, const struct json_t *args)
{
    struct abx_json_writer w;
    abx_json_writer_init(&w, out);
    if (json_is_object(args))
        abx_json_value(&w, args);
    else
        abx_buf_put_c(out, "{}");
}

/* Headers that say who calls and where: the same as of the message. */
static void put_headers(struct abx_buf *out, const struct abx__call *c)
{
    static const char *const same[] = {"Host", "Authorization", ABX_HEADER_ACCESS_TOKEN};
    const struct abx_http_head *h = c->req->head;
    bool has_host = false;
    for (size_t i = 0; i < h->header_count; i++)
        for (size_t k = 0; k < ABX_COUNTOF(same); k++)
            if (abx_str_is_nocase(h->headers[i].name, same[k])) {
                abx_buf_putf(out, "%s: %.*s\r\n", same[k], ABX_STR_FMT(h->headers[i].value));
                has_host = has_host || k == 0;
            }
    if (!has_host)
        abx_buf_put_c(out, "Host: localhost\r\n");
    abx_buf_putf(out, ABX__HEADER_PEER ": %.*s\r\n", ABX_STR_FMT(abx__call_peer(c)));
}

/* ---- tools/call: the answer ---- */

static void put_result(struct abx_buf *out, const struct tool_call *t)
{
    struct abx_json_writer w;
    struct json_t *doc = NULL;
    struct abx_str text = abx_buf_str(&t->answer);
    const struct abx_json_limits limits = {.max_bytes = SIZE_MAX,
                                           .max_depth = ABX__BODY_DEPTH,
                                           .allow_nul = true,
                                           .wide_numbers = true};
    abx_json_writer_init(&w, out);
    abx_json_begin_object(&w);
    abx_json_key(&w, ABX_STR("content"));
    abx_json_begin_array(&w);
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "type", "text");
    abx_json_kv_str(&w, "text", t->is_cut ? ABX_STR("the answer is too long for a message") : text);
    abx_json_end_object(&w);
    abx_json_end_array(&w);
    if (!t->is_cut && abx_json_parse(text, &limits, &doc, NULL) == 0 && json_is_object(doc)) {
        abx_json_key(&w, ABX_STR("structuredContent"));
        abx_json_raw(&w, text);
    }
    abx_json_free(doc);
    abx_json_kv_bool(&w, "isError", t->status >= 400 || t->is_cut);
    abx_json_end_object(&w);
}

static void tool_call_free(struct tool_call *t)
{
    if (t->request)
        abx_http_call_cancel(t->request);
    abx_buf_done(&t->answer);
    free(t);
}

static void on_close(struct abx__call *c, bool aborted)
{
    (void)aborted;
    tool_call_free(c->data);
}

static void on_head(struct abx_http_call *request, const struct abx_http_head *head)
{
    struct tool_call *t = abx_http_call_owner(request);
    t->status = head->status;
}

static void on_body(struct abx_http_call *request, const char *data, size_t len)
{
    struct tool_call *t = abx_http_call_owner(request);
    if (t->answer.len + len > REQUEST_MAX / 2)
        t->is_cut = true;
    else
        abx_buf_put(&t->answer, data, len);
}

static void on_end(struct abx_http_call *request)
{
    struct tool_call *t = abx_http_call_owner(request);
    struct abx__rpc rpc = t->rpc;
    ABX_AUTO_BUF out;
    t->request = NULL;
    abx_buf_init(&out, ABX__MCP_MESSAGE_MAX);
    out.failed = t->answer.failed;
    put_result(&out, t);
    abx__rpc_result(&rpc, &out);
}

static void on_error(struct abx_http_call *request, const struct abx_error *err, bool head_seen)
{
    struct tool_call *t = abx_http_call_owner(request);
    struct abx__rpc rpc = t->rpc;
    (void)head_seen;
    t->request = NULL;
    abx__rpc_error(&rpc, ABX__RPC_INTERNAL, "the endpoint did not answer: %s", err->msg);
}

static const struct abx_http_call_ops ops = {
    .on_head = on_head, .on_body = on_body, .on_end = on_end, .on_error = on_error};

static void start(const struct abx__rpc *r, const struct abx_buf *head, const struct abx_buf *body)
{
    struct abx_error err = {0};
    struct abx__call *c = r->call;
    struct tool_call *t = calloc(1, sizeof(*t));
    if (t == NULL || abx_buf_failed(head) || abx_buf_failed(body)) {
        free(t);
        abx__rpc_error(r, ABX__RPC_INTERNAL, "the arguments do not fit into memory");
        return;
    }
    t->rpc = *r;
    abx_buf_init(&t->answer, REQUEST_MAX);
    if (abx_http_call_start(c->server->mcp->pool, ABX_STR("self"), abx_buf_str(head), false, &ops,
                            t, &t->request, &err) < 0) {
        tool_call_free(t);
        abx__rpc_error(r, ABX__RPC_INTERNAL, "%s", err.msg);
        return;
    }
    c->data = t;
    c->on_close = on_close;
    if (body->len)
        abx_http_call_write(t->request, body->ptr, body->len);
    abx_http_call_finish(t->request);
}

static bool has_body(const struct abx_endpoint *e)
{
    return strcmp(e->method, "POST") == 0 || strcmp(e->method, "PUT") == 0;
}

/* @args: of the command itself for run_command (its name is in the path), else the tool's. */
static void call_endpoint(const struct abx__rpc *r, const struct abx_endpoint *e,
                          struct json_t *args, const struct json_t *command_args)
{
    ABX_AUTO_BUF head, body;
    abx_buf_init(&head, HEAD_MAX);
    abx_buf_init(&body, REQUEST_MAX);
    abx_buf_putf(&head, "%s ", e->method);
    put_target(&head, e, args);
    abx_buf_put_c(&head, " HTTP/1.1\r\n");
    put_headers(&head, r->call);
    if (has_body(e)) {
        if (strcmp(e->id, "run_command") == 0)
            put_object(&body, command_args);
        else
            put_rest(&body, e, args);
        abx_buf_put_c(&head, "Content-Type: application/json\r\n");
        abx_buf_putf(&head, "Content-Length: %zu\r\n", body.len);
    }
    abx_buf_put_c(&head, "\r\n");
    start(r, &head, &body);
}

static bool has_required(const struct abx__rpc *r, const struct abx_endpoint *e,
                         const struct json_t *args)
{
    size_t count;
    const struct abx_endpoint_field *f = abx_endpoint_fields_of(e->id, &count);
    for (size_t i = 0; i < count; i++) {
        const struct json_t *v = json_object_get(args, f[i].name);
        bool is_empty = json_is_string(v) && json_string_length(v) == 0;
        if (f[i].is_required && f[i].in == ABX_FIELD_PATH && (v == NULL || is_empty)) {
            abx__rpc_error(r, ABX__RPC_PARAMS, "'%s' is missing", f[i].name);
            return false;
        }
    }
    return true;
}

/* Why a command that is there is no tool of this caller, as its endpoint would say; else that the
 * name is none. */
static const char *refusal_code(const struct abx__call *c, struct abx_str name)
{
    struct abx_policy_verdict v = {0};
    const struct abx_policy_rule *run = abx_policy_rule(c->policy, ABX_STR("run_command"));
    const struct abx__command *command = abx__command_find(c->server->commands, name);
    if (command && run && !abx_policy_judge(c->policy, run, &c->who, &v))
        return abx_policy_code_name(v.code);
    if (command && abx_scope_missing(c->who.scopes, command->scopes).ptr)
        return abx_policy_code_name(ABX_POLICY_MISSING_SCOPE);
    return "unknown_tool";
}

void abx__tools_call(const struct abx__rpc *r)
{
    struct abx__command_view command;
    struct json_t *name = json_object_get(r->params, "name"),
                  *args = json_object_get(r->params, "arguments");
    if (!json_is_string(name) || (args && !json_is_object(args))) {
        abx__rpc_error(r, ABX__RPC_PARAMS, "'name' must be a string, 'arguments' an object");
        return;
    }
    struct abx_str text = abx_str_n(json_string_value(name), json_string_length(name));
    const struct abx_policy_rule *rule = abx_policy_rule(r->call->policy, text),
                                 *run = abx_policy_rule(r->call->policy, ABX_STR("run_command"));
    if (rule && is_tool(rule)) { /* it is judged there, and a refusal is audited */
        if (has_required(r, rule->endpoint, args))
            call_endpoint(r, rule->endpoint, args, json_object_get(args, "arguments"));
    } else if (find_command(r->call, text, &command)) {
        call_endpoint(r, run->endpoint, r->params ? (struct json_t *)(uintptr_t)r->params : args,
                      args);
    } else { /* nobody judges it: the line of this call tells */
        r->call->audit_code = refusal_code(r->call, text);
        abx__rpc_error(r, ABX__RPC_PARAMS, "there is no tool '%.*s' for this caller",
                       (int)(text.len < 100 ? text.len : 100), text.ptr);
    }
}
