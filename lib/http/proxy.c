/* lib/http/proxy.c: one request through to an upstream: bodies both ways, and how either end ends.
 * Heads are in proxy_head.c, tunnels in proxy_tunnel.c. Loop thread. */
#include "lib/http/proxy_priv.h"

#include "lib/base/assert.h"

#include <stdlib.h>
#include <sys/uio.h>

#include "lib/base/banned.h"

enum { HEAD_MAX = 256 * 1024, CHUNK_HEAD_MAX = 20 };

static const struct abx_http_call_ops call_ops;

void abx__exchange_unref(struct abx__exchange *x)
{
    if (--x->refs)
        return;
    abx_list_remove(&x->node);
    abx_buf_done(&x->head);
    abx__upstream_unref(x->up);
    free(x);
}

/* @x lets go of its request. */
static void release(struct abx__exchange *x)
{
    x->req = NULL;
    abx_defer_cancel(&x->later);
    if (x->o.on_done)
        x->o.on_done(x->o.arg);
    abx__exchange_unref(x);
}

static struct iovec part(const void *data, size_t len)
{
    return (struct iovec){(void *)(uintptr_t)data, len};
}

/* @data as one chunk: its head, itself, its end. */
static void make_chunk(const char *data, size_t len, char head[CHUNK_HEAD_MAX],
                       struct iovec parts[3])
{
    parts[0] = part(head, abx_http_chunk_head(len, head));
    parts[1] = part(data, len);
    parts[2] = part("\r\n", 2);
}

static void on_request_body(struct abx_http_req *req, const char *data, size_t len)
{
    struct abx__exchange *x = req->data;
    if (x->call == NULL)
        return; /* answered already: the server bounds what still comes */
    char head[CHUNK_HEAD_MAX];
    struct iovec parts[3] = {part(data, len)};
    if (req->head->is_chunked)
        make_chunk(data, len, head, parts);
    if (!abx_http_call_writev(x->call, parts, req->head->is_chunked ? 3 : 1))
        abx_http_pause_body(req);
}

static void on_request_end(struct abx_http_req *req)
{
    struct abx__exchange *x = req->data;
    if (x->call == NULL)
        return;
    if (req->head->is_chunked) {
        size_t count;
        const struct abx_http_header *trailers = abx_http_trailers(req, &count);
        abx__exchange_put_trailers(x, trailers, count);
        abx_http_call_write(x->call, x->head.ptr, x->head.len);
    }
    abx_http_call_finish(x->call);
}

static void on_request_eof(struct abx_http_req *req)
{
    struct abx__exchange *x = req->data;
    if (x->call)
        abx_http_call_shutdown(x->call);
}

static void on_request_drain(struct abx_http_req *req)
{
    struct abx__exchange *x = req->data;
    if (x->call)
        abx_http_call_resume(x->call);
}

static void on_request_close(struct abx_http_req *req, bool aborted)
{
    (void)aborted;
    struct abx__exchange *x = req->data;
    if (x->call) {
        abx_http_call_cancel(x->call);
        x->call = NULL;
    }
    release(x);
}

/* Nothing has been sent to the client: the caller answers. */
static void hand_back(struct abx__exchange *x, const struct abx_error *err)
{
    struct abx_http_req *req = x->req;
    req->data = NULL;
    req->on_body = NULL;
    req->on_body_end = req->on_drain = req->on_eof = NULL;
    req->on_close = NULL;
    req->manual_continue = false;
    abx_http_pause_body(req);
    void (*on_unreachable)(struct abx_http_req *, void *, const struct abx_error *) =
        x->o.on_unreachable;
    void *arg = x->o.arg;
    release(x);
    on_unreachable(req, arg, err);
}

static void on_answer_head(struct abx_http_call *c, const struct abx_http_head *head)
{
    struct abx__exchange *x = abx_http_call_owner(c);
    if (head->status == 100) {
        abx_http_continue(x->req);
        return;
    }
    if (head->status == 101 && !(x->is_upgrade && x->is_request_over))
        return; /* nobody asked: the client fails the call */
    abx__exchange_put_answer(x, head);
    if (abx_buf_failed(&x->head)) {
        abx_http_call_cancel(c);
        x->call = NULL;
        const struct abx_error err = {.code = ABX_UNAVAILABLE, .msg = "answer head too large"};
        hand_back(x, &err);
        return;
    }
    if (head->status < 200 && head->status != 101) {
        abx_http_interim(x->req, abx_buf_str(&x->head));
        return;
    }
    x->is_begun = true;
    abx_http_raw_begin(x->req, abx_buf_str(&x->head), x->is_delimited);
    if (head->status == 101)
        abx__exchange_start_tunnel(x);
}

static void on_answer_body(struct abx_http_call *c, const char *data, size_t len)
{
    struct abx__exchange *x = abx_http_call_owner(c);
    char head[CHUNK_HEAD_MAX];
    struct iovec parts[3] = {part(data, len)};
    if (x->is_chunked_out)
        make_chunk(data, len, head, parts);
    if (!abx_http_raw_writev(x->req, parts, x->is_chunked_out ? 3 : 1))
        abx_http_call_pause(c);
}

static void on_answer_end(struct abx_http_call *c)
{
    struct abx__exchange *x = abx_http_call_owner(c);
    if (x->is_chunked_out) {
        size_t count;
        const struct abx_http_header *trailers = abx_http_call_trailers(c, &count);
        abx__exchange_put_trailers(x, trailers, count);
        struct iovec last = part(x->head.ptr, x->head.len);
        abx_http_raw_writev(x->req, &last, 1);
    }
    x->call = NULL;
    abx_http_raw_end(x->req, x->keep_alive);
}

static void on_answer_error(struct abx_http_call *c, const struct abx_error *err, bool head_seen)
{
    (void)head_seen;
    struct abx__exchange *x = abx_http_call_owner(c);
    x->call = NULL;
    if (x->is_begun)
        abx_http_abort(x->req);
    else
        hand_back(x, err);
}

static void on_upload_possible(struct abx_http_call *c)
{
    struct abx__exchange *x = abx_http_call_owner(c);
    abx_http_resume_body(x->req);
}

static const struct abx_http_call_ops call_ops = {
    .on_head = on_answer_head,
    .on_body = on_answer_body,
    .on_end = on_answer_end,
    .on_error = on_answer_error,
    .on_drain = on_upload_possible,
    .on_connected = on_upload_possible,
};

static void on_request_over(struct abx_http_req *req)
{
    struct abx__exchange *x = req->data;
    x->is_request_over = true;
    on_request_end(req);
}

static void take_request(struct abx__exchange *x, struct abx_http_req *req)
{
    req->data = x;
    req->on_body = on_request_body;
    req->on_body_end = on_request_over;
    req->on_drain = on_request_drain;
    req->on_eof = on_request_eof;
    req->on_close = on_request_close;
    req->manual_continue = true;
    /* Until there is a connection no body byte is taken, so that the caller may try again. */
    if (req->head->is_chunked || req->head->content_length)
        abx_http_pause_body(req);
}

static void refuse(struct abx_http_req *req, int status, struct abx_str body)
{
    static const struct abx_http_extra json[] = {
        {"Content-Type", {"application/json; charset=utf-8", 31}}, {NULL}};
    req->on_body = NULL;
    req->on_body_end = req->on_drain = req->on_eof = NULL;
    abx_http_answer(req, status, json, body);
}

static struct abx__exchange *exchange_new(const struct abx_http_proxy_options *o)
{
    struct abx__exchange *x = calloc(1, sizeof(*x));
    struct abx__upstream *up = x ? abx__upstream_get(o->pool, o->target) : NULL;
    if (up == NULL) {
        free(x);
        return NULL;
    }
    *x = (struct abx__exchange){.o = *o, .up = up, .refs = 1};
    abx_buf_init(&x->head, HEAD_MAX);
    abx_list_push(&up->proxied, &x->node);
    return x;
}

/* No exchange comes of it: over before it began. What on_done is told of may go with @req. */
static void refuse_early(struct abx_http_req *req, const struct abx_http_proxy_options *o,
                         int status, struct abx_str body)
{
    if (o->on_done)
        o->on_done(o->arg);
    refuse(req, status, body);
}

void abx_http_proxy(struct abx_http_req *req, const struct abx_http_proxy_options *o)
{
    if (abx_str_is(req->head->method, "CONNECT")) {
        refuse_early(req, o, 501,
                     ABX_STR("{\"code\":501,\"message\":\"CONNECT is not served here\"}\n"));
        return;
    }
    struct abx__exchange *x = exchange_new(o);
    if (x == NULL) {
        refuse_early(req, o, 503,
                     ABX_STR("{\"code\":503,\"message\":\"no memory for the request\"}\n"));
        return;
    }
    x->req = req;
    take_request(x, req);
    struct abx_error err;
    abx__exchange_put_request(x);
    int r = -1;
    if (abx_buf_failed(&x->head))
        abx_err_set(&err, ABX_RESOURCE_EXHAUSTED, "request head too large");
    else
        r = abx_http_call_start(o->pool, o->target, abx_buf_str(&x->head),
                                abx_str_is(req->head->method, "HEAD"), &call_ops, x, &x->call,
                                &err);
    if (r == 0 && o->takes_whole)
        abx_http_call_set_whole(x->call);
    if (r < 0) {
        x->call = NULL;
        x->start_error = err;
        abx_defer_start(&x->later, o->pool->loop, abx__exchange_on_later, x);
    }
}

void abx__exchange_on_later(struct abx_defer *d)
{
    struct abx__exchange *x = d->owner;
    struct abx_error err = x->start_error; /* goes with @x */
    hand_back(x, &err);
}

/* A peer that has seen nothing yet gets an answer; a reset would look like a broken network. */
static void cut(struct abx__exchange *x)
{
    static const struct abx_error gone = {.code = ABX_UNAVAILABLE, .msg = "the upstream was cut"};
    if (x->is_tunnel) {
        abx__exchange_cut_tunnel(x);
    } else if (x->req && (x->is_begun || x->call == NULL)) {
        abx_http_abort(x->req);
    } else if (x->req) {
        abx_http_call_cancel(x->call);
        x->call = NULL;
        hand_back(x, &gone);
    }
}

void abx_http_proxy_cut(struct abx_http_pool *pool, struct abx_str target)
{
    struct abx__upstream *up = abx_map_get(&pool->upstreams, target);
    if (up == NULL)
        return;
    up->refs++;
    struct abx__exchange *x;
    abx_list_foreach(x, &up->proxied, struct abx__exchange, node)
    {
        cut(x);
    }
    abx__upstream_unref(up);
}
