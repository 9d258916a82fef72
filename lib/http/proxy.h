/* lib/http/proxy.h: passes one request to an upstream and its answer back, streaming both ways.
 *
 * Heads are parsed and re-written, never forwarded as bytes (security S44). Hop-by-hop headers and
 * those named by Connection are dropped, except the protected ones. Upgrade: a tunnel starts only
 * after the upstream's 101. Half-close, trailers, HEAD, 1xx and Expect pass. Redirects and bodies
 * are never changed. A vanished client cancels the upstream exchange, and the reverse resets the
 * client when its answer had begun. Loop thread only. */
#pragma once
#include "lib/http/client.h"
#include "lib/http/server.h"

struct abx_http_proxy_options {
    struct abx_http_pool *pool;
    struct abx_str target; /* handed to the pool's connect */
    /** Headers of the request that are not passed on (lower case, NULL-terminated list). */
    const char *const *drop;
    /** Whether to pass one header on; may be NULL (all). For rules that look at values. */
    bool (*keep)(void *arg, const struct abx_http_header *h);
    void *arg;
    const struct abx_http_extra *add; /* appended; a NULL name ends */
    bool any_upgrade;                 /* else only websocket */
    bool takes_whole;    /* the upstream does nothing before it has a whole request (client.h) */
    struct abx_str host; /* replaces Host when ptr != NULL */
    /** No connection or no answer, and nothing sent to the client yet: @req is the caller's again
     *  (callbacks cleared, the rest of its body paused): answer it here or later. err->sys != 0
     *  (ECONNREFUSED, ENOENT...): no connection was made and no body byte was taken, so the caller
     *  may start the proxy again, after a timer of its own, say. */
    void (*on_unreachable)(struct abx_http_req *req, void *arg, const struct abx_error *err);
    /** The exchange or tunnel is over, however; once for each abx_http_proxy(), while @req's arena
     *  still lives; before on_unreachable when that is called. May be NULL. */
    void (*on_done)(void *arg); /* over, however, or refused at once; once. May be NULL */
};
/** Takes over @req (its callbacks and `data`). @o is copied; strings in it must live as long as
 * @req. */
void abx_http_proxy(struct abx_http_req *req, const struct abx_http_proxy_options *o);
/** Cuts every exchange and tunnel to @target now (sandbox killed): clients see a reset where an
 * answer had begun; where none had, on_unreachable answers (err->sys == 0), before this returns. */
void abx_http_proxy_cut(struct abx_http_pool *pool, struct abx_str target);
