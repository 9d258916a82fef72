/* guest/server/process_journal.c: GET /process/{pid}/journal: everything a process has written, by
 * byte offset, also what came while nobody listened; as one document or followed as events.
 * server.md 5.
 *
 * Text goes out as "data", bytes that are no UTF-8 as "data_base64": nothing is lost or replaced. A
 * follower that does not keep up holds the process up. */
#include "guest/server/processes_priv.h"

#include "lib/base/assert.h"
#include "lib/base/parse.h"

#include <stdlib.h>

#include "lib/base/banned.h"

enum {
    ONCE_BYTES = 1 << 20, /* of output in one document; the rest begins at "next" */
    BODY_MAX = 16 << 20,
    EVENT_MAX = 1 << 20,
    PING_MS = 15000,
};

static const char *const names[] = {
    [ABX_OUTPUT_STDOUT] = "stdout", [ABX_OUTPUT_STDERR] = "stderr", [ABX_OUTPUT_PTY] = "pty"};

struct reader {
    struct abx_list node; /* of server->followers, while events are sent */
    struct abx__call *call;
    struct abx_process *process; /* counted */
    struct abx_process_sub *sub;
    uint64_t next, lost, until; /* until: where a document ends */
    size_t taken;
    bool is_over;
    struct abx_timer ping;
    struct abx_buf body; /* of a document */
    struct abx_json_writer w;
};

static void on_timer_closed(void *owner)
{
    struct reader *r = owner;
    abx_buf_done(&r->body);
    abx_process_unref(r->process);
    free(r);
}

static void on_close(struct abx__call *c, bool aborted)
{
    struct reader *r = c->data;
    (void)aborted;
    abx_list_remove(&r->node);
    abx_process_unsubscribe(r->sub);
    abx_timer_close(&r->ping, on_timer_closed);
}

static void put_data(struct abx_json_writer *w, struct abx_str data)
{
    ABX_AUTO_BUF coded = {0};
    if (abx_str_is_utf8(data)) {
        abx_json_kv_str(w, "data", data);
        return;
    }
    abx_buf_init(&coded, 2 * data.len + 4);
    abx_base64_encode(data.ptr, data.len, true, &coded);
    abx_json_kv_str(w, "data_base64", abx_buf_str(&coded));
    if (abx_buf_failed(&coded))
        w->out->failed = true;
}

static void put_state(struct abx_json_writer *w, const struct abx_process *p)
{
    const struct abx_process_end *end = abx_process_end_info(p);
    abx_json_kv_c(w, "state", abx_process_has_ended(p) ? "exited" : "running");
    abx_json_key(w, ABX_STR("exit_code"));
    if (abx_process_has_ended(p))
        abx_json_i64(w, end->exited ? end->exit_code : -end->signum);
    else
        abx_json_null(w);
}

/* ---- one document ---- */

static void finish_document(struct reader *r)
{
    if (r->is_over)
        return;
    r->is_over = true;
    abx_json_end_array(&r->w);
    abx_json_kv_i64(&r->w, "next", (int64_t)r->next);
    abx_json_kv_i64(&r->w, "end", (int64_t)abx_process_journal_end(r->process));
    abx_json_kv_i64(&r->w, "lost", (int64_t)r->lost);
    put_state(&r->w, r->process);
    abx_json_end_object(&r->w);
    abx__call_answer(r->call, &r->body);
}

static bool on_document_data(struct abx_process_sub *s, enum abx_output kind, uint64_t offset,
                             struct abx_str data)
{
    struct reader *r = abx_process_sub_owner(s);
    abx_json_begin_object(&r->w);
    abx_json_kv_i64(&r->w, "offset", (int64_t)offset);
    abx_json_kv_c(&r->w, "stream", names[kind]);
    put_data(&r->w, data);
    abx_json_end_object(&r->w);
    r->next = offset + data.len;
    r->taken += data.len;
    if (r->next < r->until && r->taken < ONCE_BYTES)
        return true;
    finish_document(r);
    return false;
}

static void on_document_gap(struct abx_process_sub *s, uint64_t offset, uint64_t lost)
{
    struct reader *r = abx_process_sub_owner(s);
    r->lost += lost;
    r->next = offset + lost;
    if (r->next >= r->until)
        finish_document(r);
}

static void on_document_end(struct abx_process_sub *s, const struct abx_process_end *end)
{
    (void)end;
    finish_document(abx_process_sub_owner(s));
}

static const struct abx_process_sub_ops document_ops = {on_document_data, on_document_gap,
                                                        on_document_end};

static void begin_document(struct reader *r)
{
    abx_json_begin_object(&r->w);
    abx_json_kv_i64(&r->w, "pid", abx_process_pid(r->process));
    abx_json_key(&r->w, ABX_STR("chunks"));
    abx_json_begin_array(&r->w);
    r->until = abx_process_journal_end(r->process);
    if (r->next >= r->until)
        finish_document(r);
}

/* ---- events ---- */

static bool send_event(struct reader *r, const char *name, const struct abx_buf *json)
{
    if (!abx_buf_failed(json))
        return abx__call_sse_event(r->call, name, abx_buf_str(json));
    abx_http_abort(r->call->req);
    return false;
}

static void end_events(struct reader *r, const char *name, struct abx_buf *json)
{
    r->is_over = true;
    abx_timer_stop(&r->ping);
    send_event(r, name, json);
    abx__call_sse_end(r->call);
}

static bool on_event_data(struct abx_process_sub *s, enum abx_output kind, uint64_t offset,
                          struct abx_str data)
{
    struct reader *r = abx_process_sub_owner(s);
    struct abx_json_writer w;
    ABX_AUTO_BUF json = {0};
    abx_buf_init(&json, EVENT_MAX);
    abx_json_writer_init(&w, &json);
    abx_json_begin_object(&w);
    abx_json_kv_i64(&w, "offset", (int64_t)offset);
    put_data(&w, data);
    abx_json_end_object(&w);
    r->next = offset + data.len;
    return send_event(r, names[kind], &json);
}

static void on_event_gap(struct abx_process_sub *s, uint64_t offset, uint64_t lost)
{
    struct reader *r = abx_process_sub_owner(s);
    ABX_AUTO_BUF json = {0};
    abx_buf_init(&json, EVENT_MAX);
    abx_buf_putf(&json, "{\"offset\": %llu, \"lost\": %llu}", (unsigned long long)offset,
                 (unsigned long long)lost);
    r->next = offset + lost;
    send_event(r, "gap", &json);
}

static void on_event_end(struct abx_process_sub *s, const struct abx_process_end *end)
{
    struct reader *r = abx_process_sub_owner(s);
    ABX_AUTO_BUF json = {0};
    abx_buf_init(&json, EVENT_MAX);
    abx_buf_putf(&json, "{\"exit_code\": %d, \"next\": %llu}",
                 end->exited ? end->exit_code : -end->signum, (unsigned long long)r->next);
    end_events(r, "exit", &json);
}

static const struct abx_process_sub_ops event_ops = {on_event_data, on_event_gap, on_event_end};

static void on_drain(struct abx__call *c)
{
    struct reader *r = c->data;
    if (!r->is_over)
        abx_process_resume(r->sub);
}

static void on_ping(struct abx_timer *t)
{
    struct reader *r = t->owner;
    abx__call_sse_ping(r->call);
}

static void begin_events(struct reader *r)
{
    r->call->on_drain = on_drain;
    abx__call_sse_begin(r->call);
    abx_list_push(&r->call->server->followers, &r->node);
    abx_timer_start(&r->ping, PING_MS, PING_MS);
}

void abx__journals_leave(struct abx__server *s)
{
    struct reader *r;
    abx_list_foreach(r, &s->followers, struct reader, node)
    {
        ABX_AUTO_BUF json = {0};
        if (r->is_over)
            continue;
        abx_process_unsubscribe(r->sub);
        r->sub = NULL;
        abx_buf_init(&json, EVENT_MAX);
        abx_buf_putf(&json, "{\"reason\": \"shutdown\", \"next\": %llu}",
                     (unsigned long long)r->next);
        end_events(r, "end", &json);
    }
}

/* ---- the call ---- */

static bool is_yes(struct abx_str s)
{
    return abx_str_is_nocase(s, "true") || abx_str_is_nocase(s, "yes") || abx_str_is(s, "1");
}

static struct reader *reader_new(struct abx__call *c, struct abx_process *p, uint64_t since)
{
    struct reader *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return NULL;
    r->call = c;
    r->process = abx_process_ref(p);
    r->next = since;
    abx_list_init(&r->node);
    abx_buf_init(&r->body, BODY_MAX);
    abx_json_writer_init(&r->w, &r->body);
    abx_timer_init(&r->ping, &c->server->loop, on_ping, r);
    c->data = r;
    c->on_close = on_close;
    return r;
}

void abx__process_journal_get(struct abx__call *c)
{
    int64_t since = 0;
    struct abx_error err = {0};
    struct abx_str text = abx__call_query(c, "since");
    bool follows = is_yes(abx__call_query(c, "follow"));
    struct abx__started *p = abx__started_find(c);
    if (p == NULL)
        return;
    if (text.ptr && (abx__text_integer(text, &since) < 0 || since < 0)) {
        abx__call_fail(c, 400, "ValueError", "'since' must be a byte offset");
        return;
    }
    uint64_t end = abx_process_journal_end(p->process);
    uint64_t from = (uint64_t)since < end ? (uint64_t)since : end;
    struct reader *r = reader_new(c, p->process, from);
    if (r == NULL) {
        abx__call_fail(c, 500, "MemoryError", "out of memory");
        return;
    }
    if (abx_process_subscribe(r->process, from, follows ? &event_ops : &document_ops, r, &r->sub,
                              &err) < 0) {
        abx__call_fail(c, 500, "MemoryError", "%s", err.msg);
        return;
    }
    if (follows)
        begin_events(r);
    else
        begin_document(r);
}
