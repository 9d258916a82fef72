/* guest/server/mcp.c: POST, GET and DELETE /mcp: streamable HTTP of the Model Context Protocol:
 * JSON-RPC messages, sessions, the stream that a client may listen on. server.md 5, security S12,
 * S20, S24. Loop thread. */
#include "guest/server/mcp_priv.h"

#include "lib/base/assert.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "lib/contract/contract.h"
#include "lib/policy/confine.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum {
    SESSIONS_MAX = 256,
    STREAMS_MAX = 4, /* of one session */
    IDLE_MS = 30 * 60 * 1000,
    SWEEP_MS = 60 * 1000,
    PING_MS = 15 * 1000,
    ID_BYTES = 16,
    CONNECTIONS_KEPT = 8,
};

/* The first one is what is offered to clients of other versions. */
static const char *const versions[] = {"2025-06-18", "2025-03-26", "2024-11-05"};

struct session {
    struct abx_list node;
    char id[2 * ID_BYTES + 1];
    char *owner; /* identity */
    struct abx_list streams;
    size_t stream_count;
    int64_t used_ms;
};
struct stream { /* a GET that listens */
    struct abx_list node;
    struct session *session;
    struct abx__call *call;
    struct abx_timer ping;
};

/* ---- sessions ---- */

static void end_stream(struct stream *st)
{
    abx__call_sse_end(st->call);
}

static void session_free(struct abx__mcp *m, struct session *s)
{
    struct abx_list *node, *next;
    for (node = s->streams.next; node != &s->streams; node = next) {
        struct stream *st = ABX_CONTAINER_OF(node, struct stream, node);
        next = node->next;
        abx_list_remove(&st->node);
        st->session = NULL;
        end_stream(st);
    }
    abx_list_remove(&s->node);
    m->count--;
    free(s->owner);
    free(s);
}

static void on_sweep(struct abx_timer *t)
{
    struct abx__mcp *m = t->owner;
    struct abx_list *node, *next;
    int64_t now = abx_time_mono_ms();
    for (node = m->sessions.next; node != &m->sessions; node = next) {
        struct session *s = ABX_CONTAINER_OF(node, struct session, node);
        next = node->next;
        if (s->stream_count == 0 && now - s->used_ms > IDLE_MS)
            session_free(m, s);
    }
}

/* This server as its own upstream. */
static void connect_self(void *arg, struct abx_str target, struct abx_http_call *call)
{
    struct abx__server *s = arg;
    struct abx_error err = {0};
    int pair[2];
    (void)target;
    if (s->http == NULL ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        abx_http_connected(call, -ECONNREFUSED);
    else if (abx_http_server_adopt(s->http, pair[0], ABX__TAG_SELF, &err) < 0) {
        close(pair[1]);
        abx_http_connected(call, -ECONNREFUSED);
    } else
        abx_http_connected(call, pair[1]);
}

static struct abx__mcp *mcp_of(struct abx__server *s)
{
    struct abx_error err = {0};
    if (s->mcp || s->is_stopping)
        return s->mcp;
    struct abx__mcp *m = calloc(1, sizeof(*m));
    if (m == NULL ||
        abx_http_pool_open(&s->loop, connect_self, s, CONNECTIONS_KEPT, &m->pool, &err) < 0) {
        free(m);
        return NULL;
    }
    abx_list_init(&m->sessions);
    abx_timer_init(&m->sweep, &s->loop, on_sweep, m);
    abx_timer_start(&m->sweep, SWEEP_MS, SWEEP_MS);
    abx_timer_unref(&m->sweep);
    s->mcp = m;
    return m;
}

static void on_sweep_closed(void *owner)
{
    free(owner);
}

void abx__mcp_stop(struct abx__server *s)
{
    struct abx__mcp *m = s->mcp;
    if (m == NULL)
        return;
    s->mcp = NULL;
    while (!abx_list_empty(&m->sessions))
        session_free(m, ABX_CONTAINER_OF(m->sessions.next, struct session, node));
    abx_http_pool_close(m->pool);
    abx_timer_close(&m->sweep, on_sweep_closed);
}

static struct session *session_new(struct abx__call *c)
{
    unsigned char random[ID_BYTES];
    struct abx__mcp *m = mcp_of(c->server);
    if (m == NULL || m->count >= SESSIONS_MAX)
        return NULL;
    struct session *s = calloc(1, sizeof(*s));
    char *owner = s ? abx_str_dup(c->who.id) : NULL;
    if (owner == NULL || getrandom(random, sizeof(random), 0) != sizeof(random)) {
        free(owner);
        free(s);
        return NULL;
    }
    abx_hex_encode(random, sizeof(random), s->id);
    s->owner = owner;
    s->used_ms = abx_time_mono_ms();
    abx_list_init(&s->streams);
    abx_list_push(&m->sessions, &s->node);
    m->count++;
    return s;
}

static struct abx_str header(const struct abx__call *c, const char *name)
{
    const struct abx_http_head *h = c->req->head;
    for (size_t i = 0; i < h->header_count; i++)
        if (abx_str_is_nocase(h->headers[i].name, name))
            return h->headers[i].value;
    return (struct abx_str){0};
}

/* The version that was agreed on, if the client says it: an unknown one is 400 by the protocol. */
static bool is_spoken(struct abx_str version)
{
    for (size_t i = 0; i < ABX_COUNTOF(versions); i++)
        if (abx_str_is(version, versions[i]))
            return true;
    return version.len == 0;
}

/* The session that the request names, if it is the caller's. NULL: answered. */
static struct session *session_of(struct abx__call *c)
{
    struct abx_str id = header(c, "Mcp-Session-Id");
    struct abx__mcp *m = c->server->mcp;
    if (id.len == 0) {
        abx__call_fail(c, 400, "ValueError",
                       "the header Mcp-Session-Id is missing: initialize first");
        return NULL;
    }
    if (!is_spoken(header(c, "MCP-Protocol-Version"))) {
        abx__call_fail(c, 400, "ValueError", "this MCP-Protocol-Version is not spoken here: %s is",
                       versions[0]);
        return NULL;
    }
    for (struct abx_list *node = m ? m->sessions.next : NULL; m && node != &m->sessions;
         node = node->next) {
        struct session *s = ABX_CONTAINER_OF(node, struct session, node);
        if (abx_str_is(id, s->id) && abx_str_is(c->who.id, s->owner)) {
            s->used_ms = abx_time_mono_ms();
            return s;
        }
    }
    abx__call_fail(c, 404, "NotFoundError", "there is no such session: initialize again");
    return NULL;
}

/* A browser's page does not speak for its user, unless the document lists it (S20). */
static bool is_from_page(struct abx__call *c)
{
    struct abx_str origin = header(c, "Origin");
    const struct abx_str_list *listed = &abx_policy_confinement(c->policy)->origins;
    for (size_t i = 0; i < listed->count; i++)
        if (abx_str_eq(listed->items[i], origin))
            return false;
    if (origin.len == 0)
        return false;
    c->audit_code = "origin_not_allowed";
    abx__call_answer_status(c, 403, NULL,
                            ABX_STR("{\"error\":\"pages may not use this endpoint\",\"type\":"
                                    "\"PolicyDenied\",\"code\":\"origin_not_allowed\"}"));
    return true;
}

/* ---- JSON-RPC ---- */

static void begin_answer(struct abx_json_writer *w, struct abx_buf *out, const struct abx__rpc *r)
{
    abx_buf_init(out, ABX__MCP_MESSAGE_MAX);
    abx_json_writer_init(w, out);
    abx_json_begin_object(w);
    abx_json_kv_c(w, "jsonrpc", "2.0");
    abx_json_key(w, ABX_STR("id"));
    if (r->id)
        abx_json_value(w, r->id);
    else
        abx_json_null(w);
}

void abx__rpc_result(const struct abx__rpc *r, const struct abx_buf *result)
{
    ABX_AUTO_BUF out;
    struct abx_json_writer w;
    begin_answer(&w, &out, r);
    abx_json_key(&w, ABX_STR("result"));
    abx_json_raw(&w, abx_buf_str(result));
    abx_json_end_object(&w);
    out.failed = out.failed || result->failed;
    abx__call_answer(r->call, &out);
}

void abx__rpc_error(const struct abx__rpc *r, int code, const char *fmt, ...)
{
    char text[512];
    ABX_AUTO_BUF out;
    struct abx_json_writer w;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    begin_answer(&w, &out, r);
    abx_json_key(&w, ABX_STR("error"));
    abx_json_begin_object(&w);
    abx_json_kv_i64(&w, "code", code);
    abx_json_kv_c(&w, "message", text);
    abx_json_end_object(&w);
    abx_json_end_object(&w);
    abx__call_answer(r->call, &out);
}

/* ---- methods ---- */

static const char *version_for(const struct json_t *params)
{
    const char *asked = json_string_value(json_object_get(params, "protocolVersion"));
    for (size_t i = 0; asked && i < ABX_COUNTOF(versions); i++)
        if (strcmp(asked, versions[i]) == 0)
            return versions[i];
    return versions[0];
}

static void initialize(const struct abx__rpc *r)
{
    ABX_AUTO_BUF out = {0};
    ABX_AUTO_BUF result = {0};
    struct abx_json_writer w;
    struct session *s = session_new(r->call);
    if (s == NULL) {
        abx__call_fail(r->call, 429, "ResourceError", "%d sessions are open already",
                       (int)SESSIONS_MAX);
        return;
    }
    abx_buf_init(&result, 4096);
    abx_json_writer_init(&w, &result);
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "protocolVersion", version_for(r->params));
    abx_json_key(&w, ABX_STR("capabilities"));
    abx_json_raw(&w, ABX_STR("{\"tools\":{\"listChanged\":false}}"));
    abx_json_key(&w, ABX_STR("serverInfo"));
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "name", "agent-sandbox-server");
    abx_json_kv_c(&w, "version", ABX_SERVER_COMPAT);
    abx_json_end_object(&w);
    abx_json_kv_c(&w, "instructions",
                  "Commands of the sandbox, and its files, programs and facts, as tools. What is "
                  "refused says which rule refuses it.");
    abx_json_end_object(&w);
    begin_answer(&w, &out, r);
    abx_json_key(&w, ABX_STR("result"));
    abx_json_raw(&w, abx_buf_str(&result));
    abx_json_end_object(&w);
    const struct abx_http_extra extra[] = {{"Mcp-Session-Id", abx_str(s->id)}, {0}};
    if (out.failed || result.failed)
        abx__call_fail(r->call, 500, "MemoryError", "out of memory");
    else
        abx__call_answer_status(r->call, 200, extra, abx_buf_str(&out));
}

static void ping(const struct abx__rpc *r)
{
    ABX_AUTO_BUF empty;
    abx_buf_init(&empty, 16);
    abx_buf_put_c(&empty, "{}");
    abx__rpc_result(r, &empty);
}

static const struct {
    const char *name;
    void (*run)(const struct abx__rpc *r);
} methods[] = {{"ping", ping}, {"tools/list", abx__tools_list}, {"tools/call", abx__tools_call}};

static void run_method(const struct abx__rpc *r, const char *name)
{
    for (size_t i = 0; i < ABX_COUNTOF(methods); i++)
        if (strcmp(name, methods[i].name) == 0) {
            methods[i].run(r);
            return;
        }
    abx__rpc_error(r, ABX__RPC_NO_METHOD, "there is no method '%.100s'", name);
}

static void mcp_post(struct abx__call *c)
{
    const char *version = json_string_value(abx__call_field(c, "jsonrpc")),
               *method = json_string_value(abx__call_field(c, "method"));
    struct abx__rpc r = {
        .call = c, .id = abx__call_field(c, "id"), .params = abx__call_field(c, "params")};
    if (is_from_page(c))
        return;
    bool is_answer = abx__call_field(c, "result") || abx__call_field(c, "error");
    if (version == NULL || strcmp(version, "2.0") != 0 || (method == NULL && !is_answer) ||
        (r.id && !json_is_string(r.id) && !json_is_integer(r.id)) ||
        (r.params && !json_is_object(r.params))) {
        r.id = NULL;
        abx__rpc_error(&r, ABX__RPC_INVALID, "this is no message of JSON-RPC 2.0");
        return;
    }
    if (method && r.id && strcmp(method, "initialize") == 0) {
        initialize(&r);
        return;
    }
    if (session_of(c) == NULL)
        return;
    if (method == NULL || r.id == NULL) /* an answer or a notification: nothing is asked of us */
        abx__call_answer_status(c, 202, NULL, ABX_STR(""));
    else
        run_method(&r, method);
}

/* ---- the stream, and the end ---- */

static void on_ping(struct abx_timer *t)
{
    struct stream *st = t->owner;
    abx__call_sse_ping(st->call);
}

static void on_ping_closed(void *owner)
{
    free(owner);
}

static void on_stream_close(struct abx__call *c, bool aborted)
{
    struct stream *st = c->data;
    (void)aborted;
    if (st->session) {
        st->session->stream_count--;
        st->session->used_ms = abx_time_mono_ms();
        abx_list_remove(&st->node);
    }
    abx_timer_close(&st->ping, on_ping_closed);
}

static void mcp_get(struct abx__call *c)
{
    if (is_from_page(c))
        return;
    struct session *s = session_of(c);
    if (s == NULL)
        return;
    if (s->stream_count >= STREAMS_MAX) {
        abx__call_fail(c, 429, "ResourceError", "%d streams of the session are open already",
                       (int)STREAMS_MAX);
        return;
    }
    struct stream *st = calloc(1, sizeof(*st));
    if (st == NULL) {
        abx__call_fail(c, 500, "MemoryError", "out of memory");
        return;
    }
    st->session = s;
    st->call = c;
    s->stream_count++;
    abx_list_push(&s->streams, &st->node);
    abx_timer_init(&st->ping, &c->server->loop, on_ping, st);
    abx_timer_start(&st->ping, PING_MS, PING_MS);
    c->data = st;
    c->on_close = on_stream_close;
    abx__call_sse_begin(c);
}

static void mcp_delete(struct abx__call *c)
{
    if (is_from_page(c))
        return;
    struct session *s = session_of(c);
    if (s == NULL)
        return;
    session_free(c->server->mcp, s);
    abx__call_answer_status(c, 200, NULL, ABX_STR("{}"));
}

const struct abx__route abx__mcp_routes[] = {
    {"mcp", mcp_post}, {"mcp_stream", mcp_get}, {"mcp_close", mcp_delete}, {0}};
