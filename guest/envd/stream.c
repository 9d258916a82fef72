/* guest/envd/stream.c: the events of a process to one client (Start, Connect): start, data,
 * keepalive, end (envd.md 5.5). A slow client stops its subscription, which in turn stops the
 * child. */
#include "guest/envd/envd_priv.h"

#include "lib/base/assert.h"
#include "lib/base/parse.h"
#include "lib/connect/process.pb-c.h"

#include <stdlib.h>

#include "lib/base/banned.h"

enum { KEEPALIVE_S = 20, KEEPALIVE_MAX_S = 3600 };

struct stream {
    struct abx__envd *envd;
    struct abx_rpc *rpc; /* NULL once the call is over */
    struct abx_process_sub *sub;
    struct abx_timer keepalive;
    uint64_t keepalive_ms;
    bool is_start, is_blocked;
};

static bool send_event(struct stream *s, Process__ProcessEvent *event)
{
    if (s->is_start) {
        Process__StartResponse r = PROCESS__START_RESPONSE__INIT;
        r.event = event;
        return abx_rpc_send(s->rpc, &r.base);
    }
    Process__ConnectResponse r = PROCESS__CONNECT_RESPONSE__INIT;
    r.event = event;
    return abx_rpc_send(s->rpc, &r.base);
}

static void send_start(struct stream *s, uint32_t pid)
{
    Process__ProcessEvent__StartEvent start = PROCESS__PROCESS_EVENT__START_EVENT__INIT;
    Process__ProcessEvent event = PROCESS__PROCESS_EVENT__INIT;
    start.has_pid = true;
    start.pid = pid;
    event.event_case = PROCESS__PROCESS_EVENT__EVENT_START;
    event.start = &start;
    s->is_blocked = !send_event(s, &event);
}

static void on_keepalive(struct abx_timer *t)
{
    struct stream *s = t->owner;
    Process__ProcessEvent__KeepAlive keepalive = PROCESS__PROCESS_EVENT__KEEP_ALIVE__INIT;
    Process__ProcessEvent event = PROCESS__PROCESS_EVENT__INIT;
    if (s->rpc == NULL || s->is_blocked)
        return;
    event.event_case = PROCESS__PROCESS_EVENT__EVENT_KEEPALIVE;
    event.keepalive = &keepalive;
    s->is_blocked = !send_event(s, &event);
}

static const char *const kind_names[] = {
    [ABX_OUTPUT_STDOUT] = "stdout", [ABX_OUTPUT_STDERR] = "stderr", [ABX_OUTPUT_PTY] = "pty"};

/* The hot path: one buffer, no message objects. */
void abx__event_data_json(struct abx_buf *out, enum abx_output kind, struct abx_str data)
{
    abx_buf_put_c(out, "{\"event\":{\"data\":{\"");
    abx_buf_put_c(out, kind_names[kind]);
    abx_buf_put_c(out, "\":\"");
    abx_base64_encode(data.ptr, data.len, true, out);
    abx_buf_put_c(out, "\"}}}");
}

static bool send_data_binary(struct stream *s, enum abx_output kind, struct abx_str data)
{
    Process__ProcessEvent__DataEvent payload;
    Process__ProcessEvent event = PROCESS__PROCESS_EVENT__INIT;
    ProtobufCBinaryData bytes = {data.len, (uint8_t *)(uintptr_t)data.ptr};
    process__process_event__data_event__init(&payload);
    switch (kind) {
    case ABX_OUTPUT_STDOUT:
        payload.output_case = PROCESS__PROCESS_EVENT__DATA_EVENT__OUTPUT_STDOUT;
        payload.stdout = bytes;
        break;
    case ABX_OUTPUT_STDERR:
        payload.output_case = PROCESS__PROCESS_EVENT__DATA_EVENT__OUTPUT_STDERR;
        payload.stderr = bytes;
        break;
    case ABX_OUTPUT_PTY:
        payload.output_case = PROCESS__PROCESS_EVENT__DATA_EVENT__OUTPUT_PTY;
        payload.pty = bytes;
        break;
    }
    event.event_case = PROCESS__PROCESS_EVENT__EVENT_DATA;
    event.data = &payload;
    return send_event(s, &event);
}

static bool on_data(struct abx_process_sub *sub, enum abx_output kind, uint64_t offset,
                    struct abx_str data)
{
    struct stream *s = abx_process_sub_owner(sub);
    (void)offset;
    if (s->rpc == NULL)
        return false;
    abx_timer_start(&s->keepalive, s->keepalive_ms, s->keepalive_ms);
    if (abx_rpc_is_json(s->rpc)) {
        struct abx_buf *out = &s->envd->scratch;
        abx_buf_clear(out);
        abx__event_data_json(out, kind, data);
        if (abx_buf_failed(out)) { /* no memory: losing bytes silently is worse than an end */
            abx_rpc_failf(s->rpc, ABX_RESOURCE_EXHAUSTED, "out of memory");
            return false;
        }
        s->is_blocked = !abx_rpc_send_encoded(s->rpc, abx_buf_str(out));
    } else
        s->is_blocked = !send_data_binary(s, kind, data);
    return s->rpc != NULL && !s->is_blocked;
}

static void on_gap(struct abx_process_sub *sub, uint64_t offset, uint64_t lost)
{
    struct stream *s = abx_process_sub_owner(sub);
    if (s->rpc)
        abx_rpc_failf(s->rpc, ABX_OUT_OF_RANGE,
                      "the journal no longer has %llu bytes from offset %llu: ask from %llu on",
                      (unsigned long long)lost, (unsigned long long)offset,
                      (unsigned long long)(offset + lost));
}

static void on_end(struct abx_process_sub *sub, const struct abx_process_end *end)
{
    struct stream *s = abx_process_sub_owner(sub);
    if (s->rpc == NULL)
        return;
    if (end->by_deadline && s->is_start) {
        abx_rpc_failf(s->rpc, ABX_DEADLINE_EXCEEDED, "the process was killed at its deadline");
        return;
    }
    char status[sizeof(end->status)];
    memcpy(status, end->status, sizeof(status));
    Process__ProcessEvent__EndEvent done = PROCESS__PROCESS_EVENT__END_EVENT__INIT;
    Process__ProcessEvent event = PROCESS__PROCESS_EVENT__INIT;
    bool failed = !end->exited || end->exit_code != 0;
    done.has_exit_code = failed;
    done.exit_code = end->exit_code;
    done.has_exited = end->exited;
    done.exited = end->exited;
    done.status = status;
    done.error = failed ? status : NULL;
    event.event_case = PROCESS__PROCESS_EVENT__EVENT_END;
    event.end = &done;
    send_event(s, &event);
    if (s->rpc)
        abx_rpc_finish(s->rpc);
}

static const struct abx_process_sub_ops sub_ops = {on_data, on_gap, on_end};

static void on_rpc_drain(struct abx_rpc *rpc)
{
    struct stream *s = abx_rpc_data(rpc);
    s->is_blocked = false;
    if (s->sub)
        abx_process_resume(s->sub);
}

static void on_timer_closed(void *owner)
{
    free(owner);
}

static void on_rpc_close(struct abx_rpc *rpc)
{
    struct stream *s = abx_rpc_data(rpc);
    s->rpc = NULL;
    abx_process_unsubscribe(s->sub);
    s->sub = NULL;
    abx_timer_close(&s->keepalive, on_timer_closed);
}

uint64_t abx__keepalive_ms(const struct abx_http_req *req)
{
    uint32_t seconds;
    struct abx_str text = abx_http_header(req->head, ABX_HEADER_KEEPALIVE);
    if (abx_parse_u32(text, &seconds) < 0 || seconds == 0)
        seconds = KEEPALIVE_S;
    return (uint64_t)(seconds < KEEPALIVE_MAX_S ? seconds : KEEPALIVE_MAX_S) * 1000;
}

void abx__stream_begin(struct abx_rpc *rpc, struct abx_process *p, uint64_t from, bool is_start)
{
    struct abx_error err = {0};
    struct stream *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        abx_rpc_failf(rpc, ABX_RESOURCE_EXHAUSTED, "out of memory");
        return;
    }
    s->envd = abx__envd_of(abx_rpc_req(rpc));
    s->rpc = rpc;
    s->is_start = is_start;
    s->keepalive_ms = abx__keepalive_ms(abx_rpc_req(rpc));
    if (abx_process_subscribe(p, from, &sub_ops, s, &s->sub, &err) < 0) {
        free(s);
        abx_rpc_fail(rpc, &err);
        return;
    }
    abx_timer_init(&s->keepalive, &s->envd->loop, on_keepalive, s);
    abx_timer_start(&s->keepalive, s->keepalive_ms, s->keepalive_ms);
    abx_rpc_set_data(rpc, s);
    abx_rpc_on_close(rpc, on_rpc_close);
    abx_rpc_on_drain(rpc, on_rpc_drain);
    send_start(s, abx_process_pid(p));
}
