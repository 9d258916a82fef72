/* lib/http/client.h: an HTTP/1.1 client on the loop: one exchange per call, kept-alive pool.
 *
 * An upstream is connected to by a function of the caller (unix path, socketpair channel, TCP), so
 * that the client knows no addresses. A connection goes back to the pool only after a complete,
 * well-framed exchange; idle ones are closed after 60 s or when the upstream says anything. No
 * callback runs from inside a call of the owner. Loop thread only. */
#pragma once
#include "lib/loop/stream.h"
#include "lib/wire/http.h"

struct abx_http_pool;
struct abx_http_call;

/** Makes a new connection to upstream @target: must call abx_http_connected() once, now or later,
 *  with a connected descriptor (taken) or a -errno. Also when the call was cancelled meanwhile. */
typedef void abx_http_connect_fn(void *arg, struct abx_str target, struct abx_http_call *call);
void abx_http_connected(struct abx_http_call *call, int take_fd_or_error);

/** @idle_max: kept-alive connections per target; 0 = none are kept. */
int abx_http_pool_open(struct abx_loop *l, abx_http_connect_fn *connect, void *arg, size_t idle_max,
                       struct abx_http_pool **ret, struct abx_error *err);
/** Fails the open calls (on_error, CANCELED, from here) and closes all connections but the taken
 *  streams. Accepts NULL. */
void abx_http_pool_close(struct abx_http_pool *p);
/** Forgets and closes the idle connections of @target (a sandbox died). */
void abx_http_pool_forget(struct abx_http_pool *p, struct abx_str target);

struct abx_http_call_ops {
    /** The response head (1xx other than 101 are passed too, before the final one). After a 101
     *  the owner takes the stream here or the call fails. */
    void (*on_head)(struct abx_http_call *c, const struct abx_http_head *head);
    void (*on_body)(struct abx_http_call *c, const char *data, size_t len);
    /** Response complete; @c is gone after. trailers may be read from abx_http_call_trailers(). */
    void (*on_end)(struct abx_http_call *c);
    /** Failed: @err->code UNAVAILABLE when the upstream refused, vanished or made no sense; sys is
     *  the errno of a failed connect, else 0. @c is gone after. `head_seen`: on_head (final) ran.
     */
    void (*on_error)(struct abx_http_call *c, const struct abx_error *err, bool head_seen);
    void (*on_drain)(struct abx_http_call *c); /* after a write returned false; may be NULL */
    /** There is a connection (a new one after a second try); the head goes out with what is written
     *  now, or in the next turn. Does not cancel the call. May be NULL. */
    void (*on_connected)(struct abx_http_call *c);
};

/** Starts an exchange. @head: a complete written request head (copied). The body follows by
 *  call_write(), framed by the caller as the head says, then call_finish(). An idempotent request
 *  without body bytes is sent again, once, when a kept-alive connection dies before any byte came
 *  back; others take only connections that were idle for less than 2 s. */
int abx_http_call_start(struct abx_http_pool *p, struct abx_str target, struct abx_str head,
                        bool is_head_method, const struct abx_http_call_ops *ops, void *owner,
                        struct abx_http_call **ret, struct abx_error *err);
void *abx_http_call_owner(const struct abx_http_call *c);
/** For a peer that does nothing before it has the whole request, right after the start: a small one
 *  that the peer left unread in part when it died is sent again, once, in however many writes it
 *  went. Otherwise only one that went in a single write is. */
void abx_http_call_set_whole(struct abx_http_call *c);
/** False: stop until on_drain. Bytes are kept (bounded) while the connection is being made. */
bool abx_http_call_write(struct abx_http_call *c, const void *data, size_t len);
/** As write; at most 4 parts, in one system call. */
bool abx_http_call_writev(struct abx_http_call *c, const struct iovec *parts, int count);
/** The request is complete. */
void abx_http_call_finish(struct abx_http_call *c);
/** Half-closes the connection after what was written (the own peer of a proxy did so); the answer
 *  may still come. */
void abx_http_call_shutdown(struct abx_http_call *c);
void abx_http_call_pause(struct abx_http_call *c); /* of the response body */
void abx_http_call_resume(struct abx_http_call *c);
/** Drops the exchange and its connection; no callback runs after. */
void abx_http_call_cancel(struct abx_http_call *c);
/** In on_end. */
const struct abx_http_header *abx_http_call_trailers(const struct abx_http_call *c, size_t *count);
/** After a 101, in on_head: the connection becomes a plain stream of the caller; @c is gone. Bytes
 *  already read come by on_data from the loop, even before the caller resumes it. */
struct abx_stream *abx_http_call_take_stream(struct abx_http_call *c,
                                             const struct abx_stream_ops *ops, void *owner);
