/* lib/http/websocket.c: the server side of a WebSocket (websocket.h). Loop thread. RFC
 * 6455 4.2, 5.5, 7. */
#include "lib/http/websocket.h"

#include "lib/base/assert.h"

#include <stdlib.h>
#include <sys/uio.h>

#include "lib/base/banned.h"

enum {
    MESSAGE_MAX = 1 << 20,
    PING_MS = 20000,
    CLOSE_MS = 2000,
    HEAD_BYTES = 1024,
    PONGS_MAX = 64 * 1024, /* queued bytes beyond which a ping is passed over */
};

struct abx_ws {
    struct abx_stream *stream; /* NULL once it is gone */
    struct abx_ws_parser parser;
    const struct abx_ws_ops *ops;
    void *owner;
    struct abx_loop *loop;
    struct abx_timer ping, closing;
    struct abx_defer later; /* reads on after a resume */
    struct abx_buf pending; /* read, not yet wanted */
    uint32_t ping_ms;
    unsigned code;
    char reason[ABX_WS_CONTROL_MAX];
    size_t reason_len;
    unsigned handles;
    bool is_paused, awaits_pong, has_sent_close, has_code, is_over;
};

/* ---- the handshake ---- */

int abx_ws_check(const struct abx_http_req *req, const char **ret_why)
{
    const struct abx_http_head *h = req->head;
    struct abx_str key = abx_http_header(h, "Sec-WebSocket-Key");
    if (!h->is_upgrade || !abx_str_is_nocase(h->upgrade, "websocket")) {
        *ret_why = "this is a WebSocket endpoint: send Upgrade: websocket";
        return 426;
    }
    if (!abx_str_is(abx_http_header(h, "Sec-WebSocket-Version"), "13")) {
        *ret_why = "only version 13 of the WebSocket protocol is spoken";
        return 426;
    }
    if (!abx_str_is(h->method, "GET") || h->minor < 1 || h->is_chunked || h->content_length) {
        *ret_why = "a WebSocket handshake is a GET of HTTP/1.1 without a body";
        return 400;
    }
    if (abx_http_header_count(h, "Sec-WebSocket-Key") != 1 || !abx_ws_is_key(key)) {
        *ret_why = "Sec-WebSocket-Key is missing or malformed";
        return 400;
    }
    return 0;
}

static void put_head(struct abx_buf *out, struct abx_str key, const char *protocol)
{
    char accept[ABX_WS_ACCEPT_TEXT + 1];
    abx_ws_accept(key, accept);
    abx_http_write_status(out, 101, ABX_STR("Switching Protocols"));
    abx_http_write_header(out, ABX_STR("Upgrade"), ABX_STR("websocket"));
    abx_http_write_header(out, ABX_STR("Connection"), ABX_STR("Upgrade"));
    abx_http_write_header(out, ABX_STR("Sec-WebSocket-Accept"), abx_str(accept));
    if (protocol)
        abx_http_write_header(out, ABX_STR("Sec-WebSocket-Protocol"), abx_str(protocol));
    abx_http_write_end(out);
}

/* ---- the end ---- */

static void release(struct abx_ws *ws)
{
    if (ws->handles > 0 || ws->stream)
        return;
    abx_ws_parser_done(&ws->parser);
    abx_buf_done(&ws->pending);
    free(ws);
}

static void on_timer_closed(void *owner)
{
    struct abx_ws *ws = owner;
    ws->handles--;
    release(ws);
}

static void on_stream_closed(struct abx_stream *s)
{
    struct abx_ws *ws = s->owner;
    ws->is_over = true;
    abx_defer_cancel(&ws->later);
    ws->ops->on_close(ws, ws->has_code ? ws->code : ABX_WS_ABNORMAL,
                      abx_str_n(ws->reason, ws->reason_len));
    ws->stream = NULL;
    abx_timer_close(&ws->ping, on_timer_closed);
    abx_timer_close(&ws->closing, on_timer_closed);
}

static void set_code(struct abx_ws *ws, unsigned code, struct abx_str reason)
{
    if (ws->has_code)
        return;
    ws->has_code = true;
    ws->code = code;
    ws->reason_len = reason.len < sizeof(ws->reason) ? reason.len : sizeof(ws->reason);
    if (ws->reason_len)
        memcpy(ws->reason, reason.ptr, ws->reason_len);
}

static void send_close(struct abx_ws *ws, unsigned code, struct abx_str reason)
{
    char frame[ABX_WS_HEAD_MAX + ABX_WS_CONTROL_MAX + 1];
    struct abx_buf out = {.ptr = frame, .cap = sizeof(frame), .max = sizeof(frame) - 1};
    if (ws->has_sent_close)
        return;
    ws->has_sent_close = true;
    abx_ws_write_close(&out, code, reason, NULL);
    abx_stream_write(ws->stream, out.ptr, out.len);
}

static void on_closing_late(struct abx_timer *t)
{
    struct abx_ws *ws = t->owner;
    if (ws->stream)
        abx_stream_close(ws->stream);
}

void abx_ws_close(struct abx_ws *ws, unsigned code, struct abx_str reason)
{
    if (ws->is_over || ws->has_sent_close)
        return;
    send_close(ws, code, reason);
    set_code(ws, code, reason);
    abx_timer_stop(&ws->ping);
    abx_timer_start(&ws->closing, CLOSE_MS, 0);
    if (ws->is_paused)
        abx_ws_resume(ws); /* to see the peer's close frame */
}

/* ---- what comes in ---- */

/* Both sides have said it: the server is the one that ends the connection. */
static void on_close_frame(struct abx_ws *ws, const struct abx_ws_message *m)
{
    if (!ws->has_sent_close)
        set_code(ws, m->code, m->data);
    send_close(ws, m->code, ABX_STR(""));
    abx_stream_close_after_flush(ws->stream, CLOSE_MS);
}

static void on_ping_frame(struct abx_ws *ws, struct abx_str data)
{
    char frame[ABX_WS_HEAD_MAX + ABX_WS_CONTROL_MAX + 1];
    struct abx_buf out = {.ptr = frame, .cap = sizeof(frame), .max = sizeof(frame) - 1};
    if (ws->has_sent_close || ws->stream->queued > PONGS_MAX)
        return;
    abx_ws_write(&out, ABX_WS_PONG, data, NULL);
    abx_stream_write(ws->stream, out.ptr, out.len);
}

static void on_frame(struct abx_ws *ws, const struct abx_ws_message *m)
{
    switch (m->opcode) {
    case ABX_WS_TEXT:
    case ABX_WS_BINARY:
        if (!ws->has_sent_close)
            ws->ops->on_message(ws, m);
        break;
    case ABX_WS_CLOSE:
        on_close_frame(ws, m);
        break;
    case ABX_WS_PING:
        on_ping_frame(ws, m->data);
        break;
    case ABX_WS_PONG:
        ws->awaits_pong = false;
        break;
    }
}

static bool is_reading(const struct abx_ws *ws)
{
    return !ws->is_over && !ws->is_paused && abx_stream_is_open(ws->stream);
}

/* What the owner does not want yet stays in @in. */
static void feed(struct abx_ws *ws, struct abx_str *in)
{
    struct abx_ws_message m;
    struct abx_error err = {0};
    while (is_reading(ws)) {
        switch (abx_ws_parse(&ws->parser, in, &m, &err)) {
        case ABX_WS_MESSAGE:
            on_frame(ws, &m);
            break;
        case ABX_WS_MORE:
            return;
        case ABX_WS_ERROR:
            set_code(ws, ws->parser.close_code, abx_str(err.msg));
            send_close(ws, ws->parser.close_code, abx_str(err.msg));
            abx_stream_close_lingering(ws->stream, CLOSE_MS);
            return;
        }
    }
}

static void update_reading(struct abx_ws *ws)
{
    if (ws->is_over || !abx_stream_is_open(ws->stream))
        return;
    if (ws->is_paused || ws->pending.len)
        abx_stream_pause(ws->stream);
    else
        abx_stream_resume(ws->stream);
}

static void on_data(struct abx_stream *s, const char *data, size_t len)
{
    struct abx_ws *ws = s->owner;
    struct abx_str in = abx_str_n(data, len);
    if (ws->pending.len == 0)
        feed(ws, &in);
    if (!abx_stream_is_open(s))
        return;
    abx_buf_put_str(&ws->pending, in);
    if (abx_buf_failed(&ws->pending))
        abx_stream_close(s);
    update_reading(ws);
}

static void on_later(struct abx_defer *d)
{
    struct abx_ws *ws = d->owner;
    struct abx_str in = abx_buf_str(&ws->pending);
    size_t had = in.len;
    feed(ws, &in);
    abx_buf_consume(&ws->pending, had - in.len);
    update_reading(ws);
}

static void on_end(struct abx_stream *s, int err)
{
    (void)err;
    abx_stream_close(s);
}

static void on_drain(struct abx_stream *s)
{
    struct abx_ws *ws = s->owner;
    if (ws->ops->on_drain && !ws->has_sent_close)
        ws->ops->on_drain(ws);
}

static const struct abx_stream_ops stream_ops = {
    .on_data = on_data, .on_end = on_end, .on_drain = on_drain, .on_closed = on_stream_closed};

/* A peer that the owner has paused can not show that it is alive. */
static void on_ping(struct abx_timer *t)
{
    struct abx_ws *ws = t->owner;
    if (ws->awaits_pong && !ws->is_paused) {
        abx_stream_close(ws->stream);
        return;
    }
    ws->awaits_pong = true;
    abx_stream_write(ws->stream, "\x89\x00", 2);
}

/* ---- the owner's side ---- */

int abx_ws_open(struct abx_loop *l, struct abx_http_req *req, const struct abx_ws_options *o,
                const struct abx_ws_ops *ops, void *owner, struct abx_ws **ret,
                struct abx_error *err)
{
    char text[HEAD_BYTES];
    struct abx_buf head = {.ptr = text, .cap = sizeof(text), .max = sizeof(text) - 1};
    struct abx_ws *ws = calloc(1, sizeof(*ws));
    if (ws == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "WebSocket: out of memory");
    put_head(&head, abx_http_header(req->head, "Sec-WebSocket-Key"), o->protocol);
    if (abx_buf_failed(&head)) {
        free(ws);
        return abx_err_set(err, ABX_INTERNAL, "WebSocket: the subprotocol's name is too long");
    }
    ws->ops = ops;
    ws->owner = owner;
    ws->loop = l;
    ws->ping_ms = o->ping_ms ? o->ping_ms : PING_MS;
    abx_ws_parser_init(&ws->parser, true, o->max_message ? o->max_message : MESSAGE_MAX);
    abx_buf_init(&ws->pending, ABX_LOOP_SCRATCH * 2);
    abx_timer_init(&ws->ping, l, on_ping, ws);
    abx_timer_init(&ws->closing, l, on_closing_late, ws);
    ws->handles = 2;
    abx_timer_start(&ws->ping, ws->ping_ms, ws->ping_ms);
    abx_http_raw_begin(req, abx_buf_str(&head), false);
    ws->stream = abx_http_take_stream(req, &stream_ops, ws);
    abx_stream_resume(ws->stream);
    *ret = ws;
    return 0;
}

void *abx_ws_owner(const struct abx_ws *ws)
{
    return ws->owner;
}

bool abx_ws_send(struct abx_ws *ws, enum abx_ws_opcode opcode, struct abx_str data)
{
    char head[ABX_WS_HEAD_MAX];
    if (ws->is_over || ws->has_sent_close)
        return true;
    size_t n = abx_ws_head(opcode, data.len, NULL, head);
    struct iovec parts[] = {{head, n}, {(void *)(uintptr_t)data.ptr, data.len}};
    return abx_stream_writev(ws->stream, parts, data.len ? 2 : 1);
}

void abx_ws_pause(struct abx_ws *ws)
{
    ws->is_paused = true;
    update_reading(ws);
}

void abx_ws_resume(struct abx_ws *ws)
{
    if (!ws->is_paused || ws->is_over)
        return;
    ws->is_paused = false;
    if (ws->pending.len)
        abx_defer_start(&ws->later, ws->loop, on_later, ws);
    else
        update_reading(ws);
}
