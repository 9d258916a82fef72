/* lib/http/client_link.c: one connection to an upstream: reading and parsing what comes back.
 * Loop thread. */
#include "lib/http/client_priv.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "lib/base/banned.h"

/* The link breaks: whoever uses it hears why. */
static void lose(struct abx__link *link, const struct abx_error *why)
{
    struct abx_http_call *call = link->call;
    abx__link_close(link);
    if (call)
        abx__call_lost(call, why);
}

static void on_head(struct abx__link *link)
{
    struct abx_http_call *call = link->call;
    const struct abx_http_head *head = &link->parser.head;
    call->head_seen = head->status >= 200 || head->status == 101;
    call->ops->on_head(call, head);
}

/* A message is over: an interim one, or the answer. True: read on. */
static bool on_message_end(struct abx__link *link, bool is_input_left)
{
    struct abx_http_call *call = link->call;
    int status = link->parser.head.status;
    if (status >= 200) {
        bool is_clean = link->parser.head.keep_alive && !link->parser.until_eof && !is_input_left;
        abx__call_complete(call, is_clean);
        return false;
    }
    if (status == 101) {
        const struct abx_error err = {.code = ABX_UNAVAILABLE,
                                      .msg = "upstream switched protocols unasked"};
        lose(link, &err);
        return false;
    }
    abx_http_parser_reset(&link->parser, call->is_head_method);
    return true;
}

/* One event of the answer. False: nothing more to do now. */
static bool advance(struct abx__link *link, struct abx_str *in)
{
    if (link->call == NULL || link->call->paused)
        return false;
    struct abx_error err;
    struct abx_str body;
    switch (abx_http_parse(&link->parser, in, &body, &err)) {
    case ABX_HTTP_HEAD:
        on_head(link);
        return true;
    case ABX_HTTP_BODY:
        link->call->ops->on_body(link->call, body.ptr, body.len);
        return true;
    case ABX_HTTP_END:
        return on_message_end(link, in->len != 0);
    case ABX_HTTP_ERROR:
        lose(link, &err);
        return false;
    case ABX_HTTP_NEED_MORE:
        break;
    }
    return false;
}

static void step(struct abx__link *link, struct abx_str *in)
{
    while (abx_stream_is_open(&link->stream) && !link->is_tunnel && advance(link, in))
        ;
}

static void update_reading(struct abx__link *link)
{
    if (link->is_tunnel)
        return;
    bool is_full = link->pending.len != 0 || (link->call && link->call->paused);
    if (link->call == NULL && link->pending.len == 0)
        abx_buf_done(&link->pending); /* idle connections hold no buffer */
    if (is_full)
        abx_stream_pause(&link->stream);
    else
        abx_stream_resume(&link->stream);
}

static void on_data(struct abx_stream *s, const char *data, size_t len)
{
    struct abx__link *link = s->owner;
    ABX_ASSERT(link->pending.len == 0);
    if (link->call == NULL) { /* idle: an upstream that talks unasked is not to be trusted */
        abx__link_close(link);
        return;
    }
    if (!link->has_answered)
        abx_buf_done(&link->call->kept);
    link->has_answered = true;
    struct abx_str in = abx_str_n(data, len);
    step(link, &in);
    if (!abx_stream_is_open(s))
        return;
    abx_buf_put_str(&link->pending, in);
    if (abx_buf_failed(&link->pending)) {
        const struct abx_error err = {.code = ABX_RESOURCE_EXHAUSTED, .msg = "no memory"};
        lose(link, &err);
        return;
    }
    if (link->is_tunnel)
        abx__link_wake(link);
    update_reading(link);
}

static void give_tunnel_pending(struct abx__link *link)
{
    struct abx_buf held = link->pending;
    abx_buf_init(&link->pending, held.max);
    if (held.len)
        link->tunnel_ops->on_data(&link->stream, held.ptr, held.len);
    abx_buf_done(&held);
}

static void on_later(struct abx_defer *d)
{
    struct abx__link *link = d->owner;
    if (!abx_stream_is_open(&link->stream))
        return;
    struct abx_str in = abx_buf_str(&link->pending);
    size_t had = in.len;
    step(link, &in);
    if (!abx_stream_is_open(&link->stream))
        return;
    abx_buf_consume(&link->pending, had - in.len);
    if (link->is_tunnel)
        give_tunnel_pending(link);
    update_reading(link);
}

void abx__link_wake(struct abx__link *link)
{
    abx_defer_start(&link->later, link->up->pool->loop, on_later, link);
}

/* A unix socket is reset exactly when its peer closes it with something left to read. A request
 * that went in one write, and is smaller than what a peer reads at once, was not read at all then.
 */
static bool is_reset_unread(const struct abx_stream *s, int err)
{
    int domain = 0;
    socklen_t len = sizeof(domain);
    return err == -ECONNRESET && getsockopt(s->fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 &&
           domain == AF_UNIX;
}

static void on_end(struct abx_stream *s, int err)
{
    struct abx__link *link = s->owner;
    struct abx_http_call *call = link->call;
    if (call && err == 0 && call->head_seen && abx_http_parser_eof(&link->parser)) {
        abx__call_complete(call, false);
        return;
    }
    struct abx_error why;
    if (call && is_reset_unread(s, err))
        call->is_unread = true;
    const char *when = call && call->head_seen ? "in mid-answer" : "before its answer";
    if (err < 0)
        abx_err_sys(&why, err, "upstream broke off %s", when);
    else
        abx_err_set(&why, ABX_UNAVAILABLE, "upstream closed %s", when);
    why.code = ABX_UNAVAILABLE;
    why.sys = 0;
    lose(link, &why);
}

static void on_drain(struct abx_stream *s)
{
    struct abx__link *link = s->owner;
    if (link->call && link->call->wants_drain) {
        link->call->wants_drain = false;
        if (link->call->ops->on_drain)
            link->call->ops->on_drain(link->call);
    }
}

static void on_closed(struct abx_stream *s)
{
    struct abx__link *link = ABX_CONTAINER_OF(s, struct abx__link, stream);
    struct abx__upstream *up = link->up;
    if (link->is_tunnel && link->tunnel_ops->on_closed)
        link->tunnel_ops->on_closed(s);
    abx_defer_cancel(&link->later);
    abx_http_parser_done(&link->parser);
    abx_buf_done(&link->pending);
    free(link);
    abx__upstream_unref(up);
}

static const struct abx_stream_ops link_ops = {
    .on_data = on_data, .on_end = on_end, .on_drain = on_drain, .on_closed = on_closed};

struct abx__link *abx__link_new(struct abx__upstream *up, int take_fd, struct abx_error *err)
{
    struct abx__link *link = calloc(1, sizeof(*link));
    if (link == NULL) {
        abx_fd_close(&take_fd);
        abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "upstream connection: no memory");
        return NULL;
    }
    if (abx_stream_open(&link->stream, up->pool->loop, take_fd, &link_ops, link, err) < 0) {
        free(link);
        return NULL;
    }
    link->up = up;
    up->refs++;
    abx_http_parser_init(&link->parser, true);
    abx_buf_init(&link->pending, ABX_LOOP_SCRATCH);
    return link;
}

struct abx_stream *abx_http_call_take_stream(struct abx_http_call *c,
                                             const struct abx_stream_ops *ops, void *owner)
{
    struct abx__link *link = c->link;
    ABX_ASSERT(link != NULL && link->parser.head.status == 101);
    c->link = NULL;
    link->call = NULL;
    link->is_tunnel = true;
    link->tunnel_ops = ops;
    link->tunnel = *ops;
    link->tunnel.on_closed = on_closed;
    abx_stream_pause(&link->stream);
    abx_stream_set_owner(&link->stream, &link->tunnel, owner);
    abx__link_wake(link);
    abx_http_call_cancel(c); /* without a link that only frees it */
    return &link->stream;
}
