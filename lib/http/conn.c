/* lib/http/conn.c: one connection of the server: requests in, in order, and how each exchange ends.
 * Loop thread. RFC 9112 9. */
#include "lib/http/server_priv.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include "lib/base/banned.h"

enum {
    DISCARD_MAX = 256 * 1024, /* of a body that nobody wants */
    ARENA_MAX = 1 << 20,
    OUT_MAX = 256 * 1024, /* heads */
    KEEP_BYTES = 8192,    /* memory that an idle connection holds on to, per buffer */
    LINGER_MS = 2000,
};

static uint64_t now_ms(const struct abx_http_conn *c)
{
    return uv_now(&c->server->loop->uv);
}

static bool is_open(const struct abx_http_conn *c)
{
    return abx_stream_is_open(&c->stream) && !c->is_tunnel;
}

static void recycle(struct abx_buf *b)
{
    if (b->cap > KEEP_BYTES)
        abx_buf_done(b);
    else
        abx_buf_clear(b);
}

static void end_exchange(struct abx_http_conn *c, bool aborted)
{
    c->in_flight = false;
    if (c->req.on_close)
        c->req.on_close(&c->req, aborted);
    if (c->arena.head)
        abx_arena_done(&c->arena);
}

/* No more requests: what is queued goes out, then the connection ends. */
static void finish_connection(struct abx_http_conn *c)
{
    bool is_input_left = c->is_cut || (c->in != ABX__IN_DONE && c->in != ABX__IN_HEAD);
    abx__http_out_flush(c);
    c->in = ABX__IN_STOP;
    c->deadline_ms = 0;
    if (is_input_left || c->pending.len)
        abx_stream_close_lingering(&c->stream, LINGER_MS);
    else
        abx_stream_close_after_flush(&c->stream, c->server->o.idle_timeout_ms);
}

static void next_request(struct abx_http_conn *c)
{
    abx_http_parser_reset(&c->parser, false);
    recycle(&c->out);
    abx_stream_trim(&c->stream);
    c->in = ABX__IN_HEAD;
    c->out_state = ABX__OUT_NONE;
    c->discarded = 0;
    c->body_paused = c->told_eof = c->wants_100 = false;
    c->deadline_ms = now_ms(c) + c->server->o.idle_timeout_ms;
}

/* The answer is complete or cut; the request may not be complete. */
static void settle(struct abx_http_conn *c)
{
    const struct abx_http_head *head = &c->parser.head;
    abx__http_out_flush(c);
    if (c->in == ABX__IN_BODY && !head->is_chunked && head->content_length == 0)
        c->in = ABX__IN_DONE; /* answered before the parser told the end of nothing */
    end_exchange(c, c->is_cut);
    if (!c->keep_alive || c->server->closing)
        finish_connection(c);
    else if (c->in == ABX__IN_DONE)
        next_request(c);
    else {
        c->in = ABX__IN_DRAIN;
        c->deadline_ms = now_ms(c) + c->server->o.head_timeout_ms;
    }
}

static void split_target(struct abx_http_req *req)
{
    struct abx_str t = req->head->target;
    ptrdiff_t scheme = abx_str_find(t, ABX_STR("://"));
    if (t.len && t.ptr[0] != '/' && scheme > 0) { /* absolute-form: the authority is Host's */
        t = abx_str_sub(t, (size_t)scheme + 3, t.len);
        size_t n = 0;
        while (n < t.len && t.ptr[n] != '/' && t.ptr[n] != '?')
            n++;
        t = abx_str_sub(t, n, t.len);
    }
    ptrdiff_t mark = abx_str_chr(t, '?');
    req->path = mark < 0 ? t : abx_str_sub(t, 0, (size_t)mark);
    req->query = mark < 0 ? (struct abx_str){0} : abx_str_sub(t, (size_t)mark + 1, t.len);
    if (req->path.len == 0)
        req->path = ABX_STR("/");
}

static void on_head(struct abx_http_conn *c)
{
    const struct abx_http_head *head = &c->parser.head;
    c->in = ABX__IN_BODY;
    c->in_flight = c->has_asked = true;
    c->deadline_ms = 0;
    c->wants_100 = head->expects_continue && (head->is_chunked || head->content_length);
    c->req = (struct abx_http_req){.head = head,
                                   .arena = &c->arena,
                                   .conn = c,
                                   .user = c->server->o.user,
                                   .listener_tag = c->req.listener_tag};
    split_target(&c->req);
    c->server->o.on_request(&c->req);
}

static void on_body(struct abx_http_conn *c, struct abx_str body)
{
    if (c->in == ABX__IN_BODY && c->req.on_body) {
        c->req.on_body(&c->req, body.ptr, body.len);
        return;
    }
    c->discarded += body.len;
    if (c->in == ABX__IN_DRAIN && c->discarded > DISCARD_MAX)
        finish_connection(c);
}

static void on_message_end(struct abx_http_conn *c)
{
    if (c->in == ABX__IN_DRAIN) {
        next_request(c);
        return;
    }
    c->in = ABX__IN_DONE;
    c->wants_100 = false;
    if (c->req.on_body_end)
        c->req.on_body_end(&c->req);
}

static void on_parse_error(struct abx_http_conn *c, const struct abx_error *err)
{
    bool can_answer = c->in == ABX__IN_HEAD || (c->in_flight && c->out_state == ABX__OUT_NONE);
    bool was_begun = c->in_flight && !can_answer;
    if (c->in_flight)
        end_exchange(c, true);
    if (was_begun) {
        abx_stream_reset(&c->stream);
        return;
    }
    if (can_answer)
        abx__http_refuse(c, c->parser.error_status, err->msg);
    c->in = ABX__IN_BODY; /* unread input is left, whatever it is */
    finish_connection(c);
}

static void on_need_more(struct abx_http_conn *c)
{
    if (c->in == ABX__IN_BODY && c->wants_100 && c->req.on_body && !c->req.manual_continue)
        abx_http_continue(&c->req);
    if (c->in == ABX__IN_HEAD && c->peer_eof)
        finish_connection(c);
}

/* Whether parsing must wait, with or without input at hand. */
static bool is_blocked(const struct abx_http_conn *c)
{
    switch (c->in) {
    case ABX__IN_HEAD: /* earlier answers are still queued */
        return c->stream.queued >= c->stream.high_water;
    case ABX__IN_BODY:
        return c->body_paused || c->discarded > DISCARD_MAX;
    case ABX__IN_DRAIN:
        return false;
    case ABX__IN_DONE:
    case ABX__IN_STOP:
        break;
    }
    return true;
}

/* One event of the input. False: nothing more to do now. */
static bool advance(struct abx_http_conn *c, struct abx_str *in)
{
    if (c->in_flight && c->out_state == ABX__OUT_DONE) {
        settle(c);
        return true;
    }
    if (is_blocked(c))
        return false;
    struct abx_error err;
    struct abx_str body;
    bool was_idle = c->in == ABX__IN_HEAD && abx_http_parser_idle(&c->parser) && in->len;
    c->has_read_head |= c->in == ABX__IN_HEAD;
    enum abx_http_event event = abx_http_parse(&c->parser, in, &body, &err);
    if (was_idle)
        c->deadline_ms = now_ms(c) + c->server->o.head_timeout_ms;
    switch (event) {
    case ABX_HTTP_HEAD:
        on_head(c);
        return true;
    case ABX_HTTP_BODY:
        on_body(c, body);
        return true;
    case ABX_HTTP_END:
        on_message_end(c);
        return true;
    case ABX_HTTP_ERROR:
        on_parse_error(c, &err);
        return false;
    case ABX_HTTP_NEED_MORE:
        on_need_more(c);
        break;
    }
    return false;
}

/* Reads on while nothing unwanted is held. An idle exchange keeps reading: that is how EOF shows.
 */
static void update_reading(struct abx_http_conn *c)
{
    if (!is_open(c))
        return;
    if (c->in == ABX__IN_HEAD && c->pending.len == 0)
        recycle(&c->pending);
    bool is_full = c->pending.len != 0 || (c->in != ABX__IN_DONE && is_blocked(c));
    if (is_full)
        abx_stream_pause(&c->stream);
    else
        abx_stream_resume(&c->stream);
}

static void step(struct abx_http_conn *c, struct abx_str *in)
{
    c->in_step = true;
    while (is_open(c) && advance(c, in))
        ;
    c->in_step = false;
    if (is_open(c))
        abx__http_out_flush(c);
}

static void take_data(struct abx_http_conn *c, struct abx_str in)
{
    ABX_ASSERT(c->pending.len == 0);
    step(c, &in);
    if (!abx_stream_is_open(&c->stream))
        return;
    abx_buf_put_str(&c->pending, in);
    if (abx_buf_failed(&c->pending)) {
        abx_stream_close(&c->stream);
        return;
    }
    if (c->is_tunnel && in.len)
        abx__http_conn_wake(c);
    update_reading(c);
}

/* Heads carry credentials, which do not stay where they were read (security S15). */
static void on_stream_data(struct abx_stream *s, const char *data, size_t len)
{
    struct abx_http_conn *c = s->owner;
    c->has_read_head = false;
    take_data(c, abx_str_n(data, len));
    if (c->has_read_head)
        explicit_bzero(c->server->loop->scratch, len);
}

static void drop_pending(struct abx_http_conn *c, size_t len)
{
    size_t had = c->pending.len;
    abx_buf_consume(&c->pending, len);
    if (len)
        explicit_bzero(c->pending.ptr + c->pending.len, had - c->pending.len);
}

static void give_tunnel_pending(struct abx_http_conn *c)
{
    struct abx_buf held = c->pending;
    abx_buf_init(&c->pending, held.max);
    if (held.len)
        c->tunnel_ops->on_data(&c->stream, held.ptr, held.len);
    abx_buf_done(&held);
}

static void on_later(struct abx_defer *d)
{
    struct abx_http_conn *c = d->owner;
    if (!abx_stream_is_open(&c->stream))
        return;
    struct abx_str in = abx_buf_str(&c->pending);
    size_t had = in.len;
    if (!c->is_tunnel)
        step(c, &in);
    drop_pending(c, had - in.len);
    if (c->is_tunnel && abx_stream_is_open(&c->stream))
        give_tunnel_pending(c);
    update_reading(c);
}

void abx__http_conn_wake(struct abx_http_conn *c)
{
    if (!c->in_step)
        abx_defer_start(&c->later, c->server->loop, on_later, c);
}

/* The peer sends no more. */
static void on_peer_eof(struct abx_http_conn *c)
{
    c->peer_eof = true;
    if (!c->in_flight) {
        finish_connection(c);
    } else if (c->out_state == ABX__OUT_DONE) {
        abx__http_conn_wake(c);
    } else if (c->in != ABX__IN_DONE || c->req.on_eof == NULL) {
        abx_stream_close(&c->stream);
    } else if (!c->told_eof) {
        c->told_eof = true;
        c->req.on_eof(&c->req);
    }
}

static void on_stream_end(struct abx_stream *s, int err)
{
    struct abx_http_conn *c = s->owner;
    if (err < 0)
        abx_stream_close(s);
    else
        on_peer_eof(c);
}

static bool is_gone(const struct abx_stream *s)
{
    struct pollfd p = {.fd = abx_stream_fd(s), .events = POLLOUT};
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR));
}

/* After the peer's EOF: whether less than the rest of the body is left to read. */
static bool is_body_cut(const struct abx_http_conn *c)
{
    int unread = 0;
    if (c->in != ABX__IN_BODY || ioctl(abx_stream_fd(&c->stream), FIONREAD, &unread) < 0)
        return false;
    uint64_t held = c->pending.len + (size_t)unread;
    return held < (c->parser.head.has_length ? c->parser.left : 1);
}

static void on_stream_hangup(struct abx_stream *s)
{
    struct abx_http_conn *c = s->owner;
    if (!c->in_flight || c->out_state == ABX__OUT_DONE)
        return;
    if (c->req.on_eof == NULL || is_gone(s) || is_body_cut(c))
        abx_stream_close(s);
}

static void on_stream_drain(struct abx_stream *s)
{
    struct abx_http_conn *c = s->owner;
    if (c->in_flight && c->out_state == ABX__OUT_OPEN && c->req.on_drain)
        c->req.on_drain(&c->req);
    if (c->in == ABX__IN_HEAD)
        abx__http_conn_wake(c);
}

static void on_stream_closed(struct abx_stream *s)
{
    struct abx_http_conn *c = ABX_CONTAINER_OF(s, struct abx_http_conn, stream);
    if (c->is_tunnel && c->tunnel_ops->on_closed)
        c->tunnel_ops->on_closed(s);
    if (c->in_flight)
        end_exchange(c, c->is_cut || (!c->is_tunnel && c->out_state != ABX__OUT_DONE));
    abx_defer_cancel(&c->later);
    abx_http_parser_done(&c->parser);
    abx_arena_done(&c->arena);
    abx_buf_done(&c->out);
    drop_pending(c, c->pending.len);
    abx_buf_done(&c->pending);
    abx__http_conn_gone(c);
}

static const struct abx_stream_ops conn_ops = {
    .on_data = on_stream_data,
    .on_end = on_stream_end,
    .on_drain = on_stream_drain,
    .on_hangup = on_stream_hangup,
    .on_closed = on_stream_closed,
};

int abx__http_conn_new(struct abx_http_server *s, int take_fd, int tag, struct abx_error *err)
{
    struct abx_http_conn *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        abx_fd_close(&take_fd);
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "connection: no memory");
    }
    if (abx_stream_open(&c->stream, s->loop, take_fd, &conn_ops, c, err) < 0) {
        free(c);
        return abx_err_wrap(err, "connection");
    }
    c->server = s;
    c->stream.high_water = s->o.high_water;
    c->req.listener_tag = tag;
    abx_http_parser_init(&c->parser, false);
    if (s->o.headers_max)
        c->parser.headers_max = s->o.headers_max(s->o.user, tag);
    abx_arena_init(&c->arena, ARENA_MAX);
    abx_buf_init(&c->out, OUT_MAX);
    abx_buf_init(&c->pending, ABX_LOOP_SCRATCH);
    next_request(c);
    c->deadline_ms = now_ms(c) + s->o.first_timeout_ms;
    abx_list_push(&s->conns, &c->node);
    abx_stream_resume(&c->stream);
    return 0;
}

void abx__http_conn_expire(struct abx_http_conn *c)
{
    c->deadline_ms = 0;
    if (!is_open(c) || (c->in != ABX__IN_HEAD && c->in != ABX__IN_DRAIN))
        return;
    if (c->in == ABX__IN_HEAD && !abx_http_parser_idle(&c->parser)) {
        abx__http_refuse(c, 408, "the request head did not come in time");
        c->in = ABX__IN_BODY;
    }
    finish_connection(c);
}

bool abx__http_conn_is_waiting(const struct abx_http_conn *c)
{
    return is_open(c) && (c->in == ABX__IN_HEAD || c->in == ABX__IN_DRAIN) && !c->in_flight &&
           !c->is_turned_away && c->stream.queued == 0;
}

void abx__http_conn_turn_away(struct abx_http_conn *c)
{
    c->is_turned_away = true;
    c->server->turned_away++;
    abx__http_refuse(c, 503, "too many connections: try again later");
    c->in = ABX__IN_BODY; /* what it sends is left */
    finish_connection(c);
}

void abx__http_conn_shut(struct abx_http_conn *c, bool now)
{
    if (now)
        abx_stream_reset(&c->stream);
    else if (!c->in_flight && is_open(c))
        finish_connection(c);
}

/* Hands the caller's events to @ops of the tunnel, and keeps the end of the stream for us. */
struct abx_stream *abx_http_take_stream(struct abx_http_req *req, const struct abx_stream_ops *ops,
                                        void *owner)
{
    struct abx_http_conn *c = req->conn;
    ABX_ASSERT(c->in_flight && !c->is_tunnel);
    abx__http_out_flush(c);
    c->is_tunnel = true;
    c->in = ABX__IN_STOP;
    c->deadline_ms = 0;
    c->tunnel_ops = ops;
    c->tunnel = *ops;
    c->tunnel.on_closed = on_stream_closed;
    abx_stream_pause(&c->stream);
    abx_stream_set_owner(&c->stream, &c->tunnel, owner);
    abx__http_conn_wake(c);
    return &c->stream;
}
