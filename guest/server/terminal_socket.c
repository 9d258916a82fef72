/* guest/server/terminal_socket.c: the WebSocket of a terminal session. server-api.md 5.2, server.md
 * 5, D51-D53, D56, D69, D70, D82, D83, D109.
 *
 * Two protocols. As published: JSON texts both ways; whoever attaches is first shown what nobody
 * has seen yet (`?replay=N`: the last N bytes). Under the subprotocol abx.pty.v1: binary frames are
 * the bytes of the terminal both ways, texts are the same JSON for all else, and the last 64 KiB
 * are shown first. Every viewer gets everything. One alone sets the pace; of several the fastest
 * does, the others read from the journal when they come to it. */
#include "guest/server/terminals.h"
#include "guest/server/terminals_priv.h"
#include "guest/server/text.h"

#include "lib/base/assert.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "lib/http/websocket.h"
#include "lib/policy/confine.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum {
    MESSAGE_MAX = 1 << 20,
    FRAME_MAX = 1 << 20, /* of a frame that we make: a control byte becomes six */
    WRITES_MAX = 32,     /* of a viewer that wait */
    CODE_UNAUTHORIZED = 4001,
    CODE_FORBIDDEN = 4003,
    CODE_LIMIT = 4029, /* P17 */
    CODE_TRY_LATER = 1013,
};
#define PROTOCOL "abx.pty.v1"

struct viewer {
    struct abx_list node; /* of terminal->viewers */
    struct abx__call *call;
    struct abx__terminal *terminal; /* counted; NULL: refused */
    struct abx_ws *ws;
    struct abx_process_sub *sub;
    struct abx__text_rest rest;
    struct abx_list writes; /* struct written: on their way */
    size_t write_count;
    uint64_t next; /* offset of what comes next */
    bool is_binary, is_paused, is_blocked, skips_rest, has_ended;
};

/* Input on its way; outlives its viewer. */
struct written {
    struct abx_list node; /* of viewer->writes, in none without it */
    struct viewer *viewer;
    struct abx__terminal *terminal; /* counted */
    size_t len;
};

/* ---- to the client ---- */

static bool send_text(struct viewer *v, const struct abx_buf *text)
{
    if (!abx_buf_failed(text))
        return abx_ws_send(v->ws, ABX_WS_TEXT, abx_buf_str(text));
    abx_ws_close(v->ws, ABX_WS_INTERNAL, ABX_STR("out of memory"));
    return false;
}

static bool send_output(struct viewer *v, struct abx_str data)
{
    ABX_AUTO_BUF out = {0};
    struct abx_json_writer w;
    abx_buf_init(&out, FRAME_MAX);
    abx_json_writer_init(&w, &out);
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "type", "output");
    abx_json_kv_str(&w, "data", data);
    abx_json_end_object(&w);
    return send_text(v, &out);
}

static void send_event(struct viewer *v, const char *event, const char *key, int64_t value)
{
    ABX_AUTO_BUF out = {0};
    struct abx_json_writer w;
    abx_buf_init(&out, FRAME_MAX);
    abx_json_writer_init(&w, &out);
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "type", "event");
    abx_json_kv_c(&w, "event", event);
    abx_json_kv_c(&w, "session_id", v->terminal->id);
    abx_json_kv_i64(&w, key, value);
    abx_json_end_object(&w);
    send_text(v, &out);
}

/* A replay may begin in the middle of a character. */
static struct abx_str without_rest(struct viewer *v, struct abx_str data)
{
    size_t n = 0;
    if (!v->skips_rest)
        return data;
    v->skips_rest = false;
    while (n < 3 && n < data.len && ((unsigned char)data.ptr[n] & 0xC0) == 0x80)
        n++;
    return abx_str_sub(data, n, data.len);
}

static const struct abx_process_sub_ops sub_ops; /* below */

static void subscribe(struct viewer *v)
{
    struct abx_error err = {0};
    if (abx_process_subscribe(v->terminal->process, v->next, &sub_ops, v, &v->sub, &err) < 0)
        abx_ws_close(v->ws, ABX_WS_INTERNAL, abx_str(err.msg));
}

/* While somebody keeps up, those who do not let go: they would hold the program up. */
static void let_go_of_slow(struct abx__terminal *t)
{
    struct viewer *v;
    bool keeps_up = false;
    abx_list_foreach(v, &t->viewers, struct viewer, node)
    {
        keeps_up |= !v->is_blocked;
    }
    abx_list_foreach(v, &t->viewers, struct viewer, node)
    {
        if (!keeps_up || !v->is_blocked)
            continue;
        abx_process_unsubscribe(v->sub);
        v->sub = NULL;
    }
}

static bool went(struct viewer *v, bool wants_more)
{
    if (!wants_more) {
        v->is_blocked = true;
        let_go_of_slow(v->terminal);
    }
    return wants_more;
}

static bool on_output(struct abx_process_sub *s, enum abx_output kind, uint64_t offset,
                      struct abx_str data)
{
    struct viewer *v = abx_process_sub_owner(s);
    (void)kind;
    v->next = offset + data.len;
    if (v->terminal->seen < offset + data.len)
        v->terminal->seen = offset + data.len;
    if (v->is_binary)
        return went(v, abx_ws_send(v->ws, ABX_WS_BINARY, data));
    ABX_AUTO_BUF whole = {0};
    data = without_rest(v, data);
    abx_buf_init(&whole, data.len + sizeof(v->rest.bytes));
    abx__text_feed(&v->rest, data, &whole);
    return whole.len == 0 || went(v, send_output(v, abx_buf_str(&whole)));
}

static void on_gap(struct abx_process_sub *s, uint64_t offset, uint64_t lost)
{
    struct viewer *v = abx_process_sub_owner(s);
    v->next = offset + lost;
    send_event(v, "gap", "lost", (int64_t)lost);
}

static void on_process_end(struct abx_process_sub *s, const struct abx_process_end *end)
{
    struct viewer *v = abx_process_sub_owner(s);
    v->has_ended = true;
    if (v->rest.len)
        send_output(v, abx_str_n(v->rest.bytes, v->rest.len));
    send_event(v, "exited", "exit_code", end->exited ? end->exit_code : -end->signum);
    abx_ws_close(v->ws, ABX_WS_NORMAL, ABX_STR("the session has ended"));
}

static const struct abx_process_sub_ops sub_ops = {on_output, on_gap, on_process_end};

static void on_drain(struct abx_ws *ws)
{
    struct viewer *v = abx_ws_owner(ws);
    v->is_blocked = false;
    if (v->sub)
        abx_process_resume(v->sub);
    else if (v->terminal && !v->has_ended)
        subscribe(v);
    if (v->terminal)
        let_go_of_slow(v->terminal);
}

/* ---- input ---- */

static bool is_behind(const struct viewer *v)
{
    return v->write_count >= WRITES_MAX || v->terminal->input_bytes >= ABX__TERMINAL_QUEUE;
}

static void resume_viewers(struct abx__terminal *t)
{
    struct viewer *v;
    abx_list_foreach(v, &t->viewers, struct viewer, node)
    {
        if (v->is_paused && !is_behind(v)) {
            v->is_paused = false;
            abx_ws_resume(v->ws);
        }
    }
}

static void on_written(void *arg, const struct abx_error *err)
{
    struct written *w = arg;
    struct abx__terminal *t = w->terminal;
    (void)err; /* the end of the terminal is told by its output */
    t->input_bytes -= w->len;
    if (w->viewer)
        w->viewer->write_count--;
    abx_list_remove(&w->node);
    free(w);
    resume_viewers(t);
    abx__terminal_unref(t);
}

static void take_input(struct viewer *v, struct abx_str data)
{
    struct abx__terminal *t = v->terminal;
    if (data.len == 0 || v->has_ended || t->is_closing || abx_process_has_ended(t->process))
        return; /* nobody is there any more (D69) */
    struct abx_error err = {0};
    struct written *w = calloc(1, sizeof(*w));
    if (w == NULL || abx_process_write(t->process, true, data, on_written, w, &err) < 0) {
        free(w);
        if (w == NULL || err.code == ABX_RESOURCE_EXHAUSTED)
            abx_ws_close(v->ws, CODE_TRY_LATER, ABX_STR("the terminal does not take its input"));
        return;
    }
    w->viewer = v;
    w->terminal = t;
    w->len = data.len;
    t->refs++;
    t->input_bytes += data.len;
    v->write_count++;
    abx_list_push(&v->writes, &w->node);
    if (is_behind(v)) {
        v->is_paused = true;
        abx_ws_pause(v->ws);
    }
}

static void take_input_text(struct viewer *v, const json_t *message)
{
    const json_t *data = json_object_get(message, "data");
    if (json_is_string(data))
        take_input(v, abx_str_n(json_string_value(data), json_string_length(data)));
}

/* A side that is missing stays; one that is no size lets the message pass by. */
static void take_resize(struct viewer *v, const json_t *message)
{
    enum { CELLS_MAX = 65535 };
    struct abx__terminal *t = v->terminal;
    const json_t *cols = json_object_get(message, "cols"), *rows = json_object_get(message, "rows");
    uint16_t c = t->cols, r = t->rows;
    if ((cols && !abx__terminal_cells(cols, CELLS_MAX, &c)) ||
        (rows && !abx__terminal_cells(rows, CELLS_MAX, &r)) || t->is_closing)
        return;
    abx__terminal_resize(t, c, r);
}

static void take_signal(struct viewer *v, const json_t *message)
{
    static const struct {
        const char *name;
        int number;
    } rows[] = {{"SIGINT", SIGINT},
                {"SIGTERM", SIGTERM},
                {"SIGKILL", SIGKILL},
                {"SIGHUP", SIGHUP},
                {"SIGQUIT", SIGQUIT}};
    const json_t *given = json_object_get(message, "signal");
    const char *name = given == NULL ? rows[0].name : json_string_value(given);
    if (v->terminal->is_closing)
        return;
    for (size_t i = 0; name && i < ABX_COUNTOF(rows); i++)
        if (strcmp(name, rows[i].name) == 0)
            abx_process_signal_terminal(v->terminal->process, rows[i].number, NULL);
}

static const struct {
    const char *type;
    void (*take)(struct viewer *v, const json_t *message);
} takers[] = {{"input", take_input_text}, {"resize", take_resize}, {"signal", take_signal}};

/* What can not be understood is passed over. */
static void take_json(struct viewer *v, struct abx_str text)
{
    json_t *message = NULL;
    const struct abx_json_limits limits = {
        .max_bytes = MESSAGE_MAX, .allow_nul = true, .wide_numbers = true};
    if (abx_json_parse(text, &limits, &message, NULL) < 0)
        return;
    const char *type = json_string_value(json_object_get(message, "type"));
    for (size_t i = 0; type && i < ABX_COUNTOF(takers); i++)
        if (strcmp(type, takers[i].type) == 0)
            takers[i].take(v, message);
    json_decref(message);
}

static void on_message(struct abx_ws *ws, const struct abx_ws_message *m)
{
    struct viewer *v = abx_ws_owner(ws);
    if (v->terminal == NULL)
        return;
    if (v->is_binary && m->opcode == ABX_WS_BINARY)
        take_input(v, m->data);
    else
        take_json(v, m->data);
}

/* ---- the end ---- */

static void on_ws_close(struct abx_ws *ws, unsigned code, struct abx_str reason)
{
    struct viewer *v = abx_ws_owner(ws);
    struct abx__terminal *t = v->terminal;
    struct written *w;
    (void)code;
    (void)reason;
    abx_process_unsubscribe(v->sub);
    abx_list_foreach(w, &v->writes, struct written, node)
    {
        abx_list_remove(&w->node);
        w->viewer = NULL;
    }
    if (t) {
        abx_list_remove(&v->node);
        if (--t->viewer_count == 0)
            t->detached_ms = abx_time_mono_ms();
        abx__terminal_unref(t);
    }
    free(v);
}

static const struct abx_ws_ops ws_ops = {on_message, on_drain, on_ws_close};

/* ---- who attaches, and to what ---- */

struct why_not {
    unsigned code; /* of the close frame; 0: may attach */
    const char *reason;
};

static bool offers(const struct abx__call *c, const char *protocol)
{
    struct abx_str rest = abx_http_header(c->req->head, "Sec-WebSocket-Protocol"), one;
    while (abx__terminal_next_protocol(&rest, &one))
        if (abx_str_is(one, protocol))
            return true;
    return false;
}

/* A browser's page that no rule lists. It speaks for whoever looks at it, so it is refused where no
 * token tells the two apart, and wherever processes are confined (D19, S20). */
static bool is_from_page(const struct abx__call *c)
{
    struct abx_str origin = abx_http_header(c->req->head, "Origin");
    const struct abx_str_list *listed = &abx_policy_confinement(c->policy)->origins;
    for (size_t i = 0; i < listed->count; i++)
        if (abx_str_eq(listed->items[i], origin))
            return false;
    return origin.len &&
           (!abx_policy_has_tokens(c->policy) || abx_policy_confine(c->policy) != ABX_CONFINE_OFF);
}

/* In the published order: credential, endpoint and scopes; then, as for any endpoint, the rates. */
static struct why_not judge(struct abx__call *c, struct abx_policy_verdict *v)
{
    if (!abx__terminal_identify(c, v))
        return (struct why_not){CODE_UNAUTHORIZED, "Unauthorized"};
    if (is_from_page(c)) {
        c->audit_code = "origin_not_allowed";
        return (struct why_not){CODE_FORBIDDEN, "Origin not allowed"};
    }
    if (!abx_policy_judge(c->policy, c->rule, &c->who, v) || !abx__call_judge_code(c, v))
        return (struct why_not){CODE_FORBIDDEN, v->code == ABX_POLICY_ENDPOINT_DISABLED
                                                    ? "Endpoint disabled"
                                                    : "Forbidden"};
    if (!abx_policy_meter_enter(c->meter, c->rule, &c->who, c->began_ms, v))
        return (struct why_not){CODE_LIMIT, "Too many requests"};
    c->has_slot = true;
    return (struct why_not){0};
}

static struct why_not find_session(struct abx__call *c, struct abx__terminal **ret)
{
    struct abx_str id = abx__call_query(c, "session_id");
    if (id.len == 0)
        return (struct why_not){ABX_WS_POLICY, "session_id is missing"};
    *ret = abx__terminal_find(c->server, id, &c->who);
    if (*ret == NULL)
        return (struct why_not){ABX_WS_POLICY, "there is no such session"};
    if ((*ret)->viewer_count >= ABX__TERMINAL_VIEWERS) {
        *ret = NULL;
        return (struct why_not){CODE_TRY_LATER, "too many viewers"};
    }
    return (struct why_not){0};
}

/* Where the output begins for a new viewer. */
static uint64_t first_offset(const struct viewer *v)
{
    const struct abx__terminal *t = v->terminal;
    uint64_t end = abx_process_journal_end(t->process), back = 0;
    uint64_t kept = end > ABX__TERMINAL_REPLAY ? end - ABX__TERMINAL_REPLAY : 0;
    struct abx_str asked = abx__call_query(v->call, "replay");
    if (asked.ptr && abx_parse_u64(asked, &back) == 0)
        return back < end - kept ? end - back : kept;
    if (v->is_binary || t->seen < kept)
        return kept;
    return t->seen;
}

static void show(struct viewer *v)
{
    const struct abx__terminal *t = v->terminal;
    v->next = first_offset(v);
    v->skips_rest = v->next > 0;
    send_event(v, "started", "pid", abx_process_pid(t->process));
    subscribe(v);
}

static void open_socket(struct abx__call *c, struct abx__terminal *t, struct why_not no)
{
    struct abx_error err = {0};
    struct viewer *v = calloc(1, sizeof(*v));
    bool is_binary = offers(c, PROTOCOL);
    struct abx_ws_options o = {.max_message = MESSAGE_MAX, .protocol = is_binary ? PROTOCOL : NULL};
    if (v == NULL || abx_ws_open(&c->server->loop, c->req, &o, &ws_ops, v, &v->ws, &err) < 0) {
        free(v);
        abx__call_fail(c, 500, "MemoryError", "out of memory");
        return;
    }
    v->call = c;
    v->is_binary = is_binary;
    abx_list_init(&v->writes);
    c->status = 101;
    abx__audit_call(c);
    if (no.code) {
        abx_ws_close(v->ws, no.code, abx_str(no.reason));
        return;
    }
    v->terminal = t;
    t->refs++;
    t->viewer_count++;
    abx_list_push(&t->viewers, &v->node);
    show(v);
}

void abx__terminal_revoke_viewers(struct abx__terminal *t, const struct abx__change *c)
{
    struct abx_list *node, *next;
    struct abx_policy_identity who;
    struct abx_policy_verdict verdict;
    const struct abx_policy_rule *rule = abx_policy_rule(c->now, ABX_STR("pty_connect"));
    for (node = t->viewers.next; node != &t->viewers; node = next) {
        struct viewer *v = ABX_CONTAINER_OF(node, struct viewer, node);
        next = node->next;
        if (!abx_policy_is_still(v->call->policy, &v->call->who, c->now, &who) ||
            !abx_policy_judge(c->now, rule, &who, &verdict))
            abx_ws_close(v->ws, CODE_UNAUTHORIZED, ABX_STR("Unauthorized"));
    }
}

static bool read_pairs(struct abx__call *c)
{
    int n = abx__target_pairs(c->req->query, c->req->arena, c->query, ABX__QUERY_MAX);
    c->query_count = n > 0 ? (size_t)n : 0;
    return n >= 0;
}

/* No handshake, or a broken one. */
static void refuse(struct abx__call *c, int status, const char *why)
{
    const struct abx_http_extra extra[] = {{"Sec-WebSocket-Version", ABX_STR("13")}, {0}};
    ABX_AUTO_BUF body = {0};
    struct abx_json_writer w;
    abx_buf_init(&body, 1024);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "error", why);
    abx_json_kv_c(&w, "type", "ValueError");
    abx_json_end_object(&w);
    abx__call_answer_status(c, status, status == 426 ? extra : NULL, abx_buf_str(&body));
}

static void close_stranger(struct abx__call *c, const struct abx_policy_verdict *v)
{
    c->audit_code = abx_policy_code_name(v->code);
    open_socket(c, NULL, (struct why_not){CODE_UNAUTHORIZED, "Unauthorized"});
}

/* A token is refused by a close frame, as published; both wait as a 401 does (S16). */
static void refuse_caller(struct abx__call *c, const struct abx_policy_verdict *v)
{
    bool is_closed = v->code == ABX_POLICY_UNAUTHORIZED && !abx__terminal_has_ticket(c);
    abx__call_refuse_by(c, v, is_closed ? close_stranger : abx__call_deny);
}

void abx__terminal_attach(struct abx__call *c)
{
    const char *why = NULL;
    struct abx_policy_verdict v = {0};
    struct abx__terminal *t = NULL;
    int status = abx_ws_check(c->req, &why);
    if (status == 0 && !read_pairs(c)) {
        status = 400;
        why = "the query has too many parameters";
    }
    if (status) {
        refuse(c, status, why);
        return;
    }
    struct why_not no = judge(c, &v);
    if (v.code == ABX_POLICY_AMBIGUOUS_CREDENTIALS || v.code == ABX_POLICY_UNAUTHORIZED) {
        refuse_caller(c, &v);
        return;
    }
    if (v.code != ABX_POLICY_OK)
        c->audit_code = abx_policy_code_name(v.code);
    if (no.code == 0)
        no = find_session(c, &t);
    open_socket(c, t, no);
}

bool abx__terminal_is_socket(const struct abx__call *c)
{
    const struct abx_http_head *head = c->req->head;
    if (c->req->listener_tag == ABX__LISTENER_PTY)
        return true;
    return abx_str_is(c->path, "/pty") && abx_str_is(head->method, "GET") && head->is_upgrade &&
           abx_str_is_nocase(head->upgrade, "websocket") && !c->server->has_own_table;
}
