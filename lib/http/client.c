/* lib/http/client.c: one exchange: connecting, sending, a second try, how it ends. Loop thread. */
#include "lib/http/client.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/http/client_priv.h"

#include <stdlib.h>
#include <sys/uio.h>

#include "lib/base/banned.h"

enum {
    HEAD_MAX = 256 * 1024,
    QUEUE_MAX = 1 << 20, /* of body bytes before the connection; high water is 64 KiB */
    HIGH_WATER = 65536,
    FRESH_MS = 2000, /* servers close idle connections after 5 s and more */
    PARTS_MAX = 4,
    KEPT_MAX = 16384, /* a peer reads at least as much at once */
};

static void call_free(struct abx_http_call *c)
{
    struct abx__upstream *up = c->up;
    abx_list_remove(&c->node);
    abx_defer_cancel(&c->later);
    abx_buf_done(&c->head);
    abx_buf_done(&c->queue);
    abx_buf_done(&c->kept);
    free(c);
    abx__upstream_unref(up);
}

/* Out of every list and callback; the memory stays while a connect is under way. */
static void call_drop(struct abx_http_call *c)
{
    if (!c->is_connecting) {
        call_free(c);
        return;
    }
    c->is_cancelled = true;
    abx_list_remove(&c->node);
    abx_defer_cancel(&c->later);
}

static struct iovec part(const void *data, size_t len)
{
    return (struct iovec){(void *)(uintptr_t)data, len};
}

static size_t length_of(const struct iovec *parts, int count)
{
    size_t len = 0;
    for (int i = 0; i < count; i++)
        len += parts[i].iov_len;
    return len;
}

/* Remembers the body of a small request for a second try: of one that goes in one write; of any
 * while its peer does nothing before it has the whole. */
static void keep(struct abx_http_call *c, const struct iovec *parts, int count)
{
    if (!c->head_sent) {
        abx_buf_done(&c->kept);
        abx_buf_init(&c->kept, KEPT_MAX);
    }
    size_t len = c->head.len + c->kept.len + c->queue.len + length_of(parts, count);
    bool can_keep = c->head_sent ? c->is_kept && c->takes_whole && !c->link->has_answered : true;
    c->is_kept = can_keep && len <= KEPT_MAX;
    if (!c->is_kept) {
        abx_buf_done(&c->kept);
        return;
    }
    abx_buf_put_str(&c->kept, abx_buf_str(&c->queue));
    for (int i = 0; i < count; i++)
        abx_buf_put(&c->kept, parts[i].iov_base, parts[i].iov_len);
    c->is_kept = !abx_buf_failed(&c->kept);
}

/* Sends what has not gone yet, then @parts. */
static bool send_parts(struct abx_http_call *c, const struct iovec *parts, int count)
{
    struct iovec all[2 + PARTS_MAX];
    int n = 0;
    if (!c->head_sent)
        all[n++] = part(c->head.ptr, c->head.len);
    if (c->queue.len)
        all[n++] = part(c->queue.ptr, c->queue.len);
    for (int i = 0; i < count; i++)
        all[n++] = parts[i];
    if (n == 0)
        return true;
    keep(c, parts, count);
    bool more = abx_stream_writev(&c->link->stream, all, n);
    c->is_unread = (!c->head_sent || c->takes_whole) && c->link->stream.write_error != 0;
    c->head_sent = true;
    if (c->queue.len)
        abx_buf_done(&c->queue);
    c->wants_drain = c->wants_drain || !more;
    return more;
}

static void tell_error(struct abx_http_call *c)
{
    struct abx_error err = c->error;
    c->ops->on_error(c, &err, c->head_seen);
    call_drop(c);
}

static void on_later(struct abx_defer *d);

static void wake(struct abx_http_call *c)
{
    abx_defer_start(&c->later, c->up->pool->loop, on_later, c);
}

static void on_later(struct abx_defer *d)
{
    struct abx_http_call *c = d->owner;
    if (c->error.code != ABX_OK) {
        tell_error(c);
        return;
    }
    if (c->link == NULL)
        return;
    if (!c->told_connected) {
        c->told_connected = true;
        if (c->ops->on_connected)
            c->ops->on_connected(c);
        wake(c); /* after the body that this lets in, so that the head goes with it */
        return;
    }
    send_parts(c, NULL, 0);
    if (c->wants_drain && c->link->stream.queued == 0) {
        c->wants_drain = false;
        if (c->ops->on_drain)
            c->ops->on_drain(c);
    }
}

static void attach(struct abx_http_call *c, struct abx__link *link)
{
    c->link = link;
    link->call = c;
    link->has_answered = false;
    abx_http_parser_reset(&link->parser, c->is_head_method);
    if (c->paused)
        abx_stream_pause(&link->stream);
    else
        abx_stream_resume(&link->stream);
    wake(c);
}

static void connect_anew(struct abx_http_call *c)
{
    c->is_connecting = true;
    c->up->pool->connect(c->up->pool->arg, c->up->target, c);
}

void abx_http_connected(struct abx_http_call *c, int take_fd_or_error)
{
    ABX_ASSERT(c->is_connecting);
    c->is_connecting = false;
    if (c->is_cancelled) {
        abx_fd_close(&take_fd_or_error);
        call_free(c);
        return;
    }
    struct abx__link *link = NULL;
    if (take_fd_or_error < 0) {
        abx_err_sys(&c->error, take_fd_or_error, "connect to upstream");
        c->error.code = ABX_UNAVAILABLE;
    } else {
        link = abx__link_new(c->up, take_fd_or_error, &c->error);
    }
    if (link == NULL) {
        wake(c);
        return;
    }
    attach(c, link);
    if (c->finished || c->shut || c->queue.len)
        send_parts(c, NULL, 0);
    if (c->shut)
        abx_stream_shutdown(&link->stream);
}

/* Whether a second try can do no harm. */
static bool may_repeat(const struct abx_http_call *c)
{
    if (!c->head_sent || (c->is_unread && c->is_kept))
        return true;
    return c->link->is_reused && c->is_idempotent && !c->body_written;
}

void abx__call_lost(struct abx_http_call *c, const struct abx_error *why)
{
    bool can_retry = c->link && !c->link->has_answered && may_repeat(c) && !c->was_retried &&
                     !c->up->pool->closing;
    if (c->link) {
        c->link->call = NULL;
        abx__link_close(c->link);
        c->link = NULL;
    }
    if (can_retry) {
        c->was_retried = true;
        if (c->kept.len) {
            abx_buf_done(&c->queue);
            c->queue = c->kept;
            c->queue.max = QUEUE_MAX;
            abx_buf_init(&c->kept, KEPT_MAX);
        }
        c->head_sent = c->told_connected = c->is_unread = false;
        connect_anew(c);
        return;
    }
    c->error = *why;
    tell_error(c);
}

void abx__call_complete(struct abx_http_call *c, bool can_reuse)
{
    struct abx__link *link = c->link;
    bool is_clean = can_reuse && c->finished && !c->shut && link->stream.queued == 0;
    c->ops->on_end(c);
    link->call = NULL;
    c->link = NULL;
    call_free(c);
    if (is_clean)
        abx__link_park(link);
    else
        abx__link_close(link);
}

static bool is_idempotent(struct abx_str head)
{
    static const char *const methods[] = {"GET ", "HEAD ", "OPTIONS ", "PUT ", "DELETE ", "TRACE "};
    for (size_t i = 0; i < ABX_COUNTOF(methods); i++)
        if (abx_str_starts(head, methods[i]))
            return true;
    return false;
}

int abx_http_call_start(struct abx_http_pool *p, struct abx_str target, struct abx_str head,
                        bool is_head_method, const struct abx_http_call_ops *ops, void *owner,
                        struct abx_http_call **ret, struct abx_error *err)
{
    if (p->closing)
        return abx_err_set(err, ABX_CANCELED, "HTTP client closed");
    struct abx__upstream *up = abx__upstream_get(p, target);
    struct abx_http_call *c = up ? calloc(1, sizeof(*c)) : NULL;
    if (c == NULL) {
        if (up)
            abx__upstream_unref(up);
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "HTTP call: no memory");
    }
    *c = (struct abx_http_call){.up = up,
                                .ops = ops,
                                .owner = owner,
                                .is_head_method = is_head_method,
                                .is_idempotent = is_idempotent(head)};
    abx_buf_init(&c->head, HEAD_MAX);
    abx_buf_init(&c->queue, QUEUE_MAX);
    abx_buf_init(&c->kept, KEPT_MAX);
    abx_list_push(&up->calls, &c->node);
    abx_buf_put_str(&c->head, head);
    if (abx_buf_failed(&c->head)) {
        call_free(c);
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "HTTP call: head too large");
    }
    *ret = c;
    struct abx__link *link = abx__link_reuse(up, c->is_idempotent ? 0 : FRESH_MS);
    if (link)
        attach(c, link);
    else
        connect_anew(c);
    return 0;
}

void *abx_http_call_owner(const struct abx_http_call *c)
{
    return c->owner;
}

void abx_http_call_set_whole(struct abx_http_call *c)
{
    c->takes_whole = true;
}

bool abx_http_call_writev(struct abx_http_call *c, const struct iovec *parts, int count)
{
    ABX_ASSERT(count <= PARTS_MAX);
    c->body_written = true;
    if (c->error.code != ABX_OK)
        return true;
    if (c->link)
        return send_parts(c, parts, count);
    for (int i = 0; i < count; i++)
        abx_buf_put(&c->queue, parts[i].iov_base, parts[i].iov_len);
    if (abx_buf_failed(&c->queue)) {
        abx_err_set(&c->error, ABX_RESOURCE_EXHAUSTED, "request body before the connection");
        wake(c);
        return true;
    }
    bool more = c->queue.len < HIGH_WATER;
    c->wants_drain = c->wants_drain || !more;
    return more;
}

bool abx_http_call_write(struct abx_http_call *c, const void *data, size_t len)
{
    struct iovec one = part(data, len);
    return abx_http_call_writev(c, &one, 1);
}

void abx_http_call_finish(struct abx_http_call *c)
{
    c->finished = true;
    if (c->link)
        send_parts(c, NULL, 0);
}

void abx_http_call_shutdown(struct abx_http_call *c)
{
    c->shut = true;
    if (c->link == NULL)
        return;
    send_parts(c, NULL, 0);
    abx_stream_shutdown(&c->link->stream);
}

void abx_http_call_pause(struct abx_http_call *c)
{
    c->paused = true;
    if (c->link)
        abx_stream_pause(&c->link->stream);
}

void abx_http_call_resume(struct abx_http_call *c)
{
    if (!c->paused)
        return;
    c->paused = false;
    if (c->link)
        abx__link_wake(c->link);
}

void abx_http_call_cancel(struct abx_http_call *c)
{
    if (c->link) {
        c->link->call = NULL;
        abx__link_close(c->link);
        c->link = NULL;
    }
    call_drop(c);
}

const struct abx_http_header *abx_http_call_trailers(const struct abx_http_call *c, size_t *count)
{
    *count = c->link ? c->link->parser.trailer_count : 0;
    return c->link ? c->link->parser.trailers : NULL;
}
