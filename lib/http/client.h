/* lib/http/client.h: an HTTP/1.1 client on the loop: one exchange per call, kept-alive pool.
 *
 * An upstream is connected to by a function of the caller (unix path, socketpair channel, TCP), so
 * that the client knows no addresses. Loop thread only. */
#pragma once
#include "lib/loop/stream.h"
#include "lib/wire/http.h"

struct abx_http_pool;
struct abx_http_call;

/** Makes a new connection to upstream @target: must call abx_http_connected() once, now or later,
 *  with a connected descriptor (taken) or a -errno. */
typedef void abx_http_connect_fn(void *arg, struct abx_str target, struct abx_http_call *call);
void abx_http_connected(struct abx_http_call *call, int take_fd_or_error);

/** @idle_max: kept-alive connections per target; 0 = none are kept. */
int abx_http_pool_open(struct abx_loop *l, abx_http_connect_fn *connect, void *arg, size_t idle_max,
                       struct abx_http_pool **ret, struct abx_error *err);
void abx_http_pool_close(struct abx_http_pool *p);
/** Forgets and closes the idle connections of @target (a sandbox died). */
void abx_http_pool_forget(struct abx_http_pool *p, struct abx_str target);

struct abx_http_call_ops {
    /** The response head (1xx other than 101 are passed too, before the final one). */
    void (*on_head)(struct abx_http_call *c, const struct abx_http_head *head);
    void (*on_body)(struct abx_http_call *c, const char *data, size_t len);
    /** Response complete; @c is gone after. trailers may be read from abx_http_call_trailers(). */
    void (*on_end)(struct abx_http_call *c);
    /** Failed: @err->code UNAVAILABLE when nothing was sent or no byte came back. @c is gone after.
     *  `head_seen` tells whether on_head (final) ran. */
    void (*on_error)(struct abx_http_call *c, const struct abx_error *err, bool head_seen);
    void (*on_drain)(struct abx_http_call *c); /* after abx_http_call_write() returned false */
};

/** Starts an exchange. @head: a complete written request head (copied). The body follows by
 *  call_write(), framed by the caller as the head says, then call_finish(). A stale kept-alive
 *  connection that dies before any byte came back is replaced once if no body was written. */
int abx_http_call_start(struct abx_http_pool *p, struct abx_str target, struct abx_str head,
                        bool is_head_method, const struct abx_http_call_ops *ops, void *owner,
                        struct abx_http_call **ret, struct abx_error *err);
void *abx_http_call_owner(const struct abx_http_call *c);
bool abx_http_call_write(struct abx_http_call *c, const void *data, size_t len);
void abx_http_call_finish(struct abx_http_call *c);
void abx_http_call_pause(struct abx_http_call *c); /* of the response body */
void abx_http_call_resume(struct abx_http_call *c);
/** Drops the exchange and its connection; no callback runs after. */
void abx_http_call_cancel(struct abx_http_call *c);
const struct abx_http_header *abx_http_call_trailers(const struct abx_http_call *c, size_t *count);
/** After a 101 in on_head: the connection becomes a plain stream of the caller. @c is gone. */
struct abx_stream *abx_http_call_take_stream(struct abx_http_call *c,
                                             const struct abx_stream_ops *ops, void *owner);
