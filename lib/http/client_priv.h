/* lib/http/client_priv.h: what the pool and the exchanges of the client share. */
#pragma once
#include "lib/base/map.h"
#include "lib/http/client.h"

/* All that is known about one target; lives while a connection or call of it does. */
struct abx__upstream {
    struct abx_http_pool *pool;
    struct abx_str target;   /* own copy */
    struct abx_list idle;    /* struct abx__link, the freshest last */
    struct abx_list calls;   /* all of them */
    struct abx_list proxied; /* of the proxy: its exchanges to this target */
    size_t idle_count, refs;
};

/* One connection to an upstream. */
struct abx__link {
    struct abx_list idle_node; /* of up->idle */
    struct abx__upstream *up;
    struct abx_stream stream;
    struct abx_http_parser parser;
    struct abx_buf pending; /* read, but not yet wanted; at most one scratch buffer */
    struct abx_defer later;
    struct abx_http_call *call; /* NULL: idle, a tunnel, or going */
    uint64_t idle_since_ms;
    bool is_reused, has_answered; /* a byte came back for this call */
    bool is_tunnel;
    const struct abx_stream_ops *tunnel_ops;
    struct abx_stream_ops tunnel;
};

struct abx_http_call {
    struct abx_list node; /* of up->calls */
    struct abx__upstream *up;
    struct abx__link *link; /* NULL while connecting */
    const struct abx_http_call_ops *ops;
    void *owner;
    struct abx_buf head;  /* kept for a second try */
    struct abx_buf queue; /* body bytes that came before the connection */
    struct abx_buf kept;  /* the body of a small request sent whole, until an answer begins */
    struct abx_defer later;
    struct abx_error error; /* to be told from the loop */
    bool is_head_method, is_idempotent, is_connecting, is_cancelled;
    bool head_sent, body_written, finished, head_seen, paused, was_retried, wants_drain, shut;
    bool told_connected;
    bool takes_whole; /* the peer does nothing before it has the whole request */
    bool is_kept;     /* all of the body that was sent is in `kept` */
    bool is_unread;   /* the peer took no byte of it; with takes_whole: not its last one */
};

struct abx_http_pool {
    struct abx_loop *loop;
    abx_http_connect_fn *connect;
    void *arg;
    size_t idle_max, refs; /* refs: open, upstreams, the timer */
    struct abx_map upstreams;
    struct abx_timer sweep; /* closes what was idle too long */
    bool closing;
};

/* client_pool.c */
struct abx__upstream *abx__upstream_get(struct abx_http_pool *p, struct abx_str target);
void abx__upstream_unref(struct abx__upstream *up);
/** A kept-alive connection at most @max_age_ms idle (0: any), taken out of the idle list; or NULL.
 */
struct abx__link *abx__link_reuse(struct abx__upstream *up, uint64_t max_age_ms);
/** Puts a clean connection on the idle list, or closes it when there are enough. */
void abx__link_park(struct abx__link *link);
/** Out of the idle list at once, so that no call takes it while its memory waits for the loop. */
void abx__link_close(struct abx__link *link);

/* client_link.c */
struct abx__link *abx__link_new(struct abx__upstream *up, int take_fd, struct abx_error *err);
/** Has held input looked at from the loop. */
void abx__link_wake(struct abx__link *link);

/* client.c */
/** The connection ended or broke under @call: tries again where that is safe (nothing was sent, the
 *  peer read nothing, or the method may be repeated), or tells the owner. From the loop. */
void abx__call_lost(struct abx_http_call *call, const struct abx_error *why);
/** The response is complete. @can_reuse: the framing left the connection clean. */
void abx__call_complete(struct abx_http_call *call, bool can_reuse);
