/* lib/http/proxy_priv.h: one exchange of the proxy, shared by its heads, bodies and tunnels. */
#pragma once
#include "lib/http/client_priv.h"
#include "lib/http/proxy.h"

struct abx__exchange;

/* One end of a tunnel. */
struct abx__side {
    struct abx__exchange *x;
    struct abx_stream *stream; /* NULL once closed */
    struct abx__side *other;
    bool ended;
};

struct abx__exchange {
    struct abx_list node; /* of up->proxied */
    struct abx_http_proxy_options o;
    struct abx__upstream *up;
    struct abx_http_req *req;   /* NULL: over, or handed back */
    struct abx_http_call *call; /* NULL: over */
    struct abx_buf head;        /* of the head or trailers being written */
    struct abx_defer later;     /* to tell start_error */
    struct abx_error start_error;
    struct abx__side client, server;
    unsigned refs; /* the request; the upstream side of a tunnel */
    bool is_upgrade, is_request_over, is_begun, is_chunked_out, is_delimited, keep_alive;
    bool is_tunnel;
};

/* proxy.c */
void abx__exchange_unref(struct abx__exchange *x);
void abx__exchange_on_later(struct abx_defer *d);

/* proxy_head.c: each writes into x->head, whose `failed` tells. */
void abx__exchange_put_request(struct abx__exchange *x);
/** Also settles how the answer's body is framed for the client. */
void abx__exchange_put_answer(struct abx__exchange *x, const struct abx_http_head *head);
/** The last chunk, and the trailers that may pass. */
void abx__exchange_put_trailers(struct abx__exchange *x, const struct abx_http_header *trailers,
                                size_t count);

/* proxy_tunnel.c */
/** After the 101 was begun: takes both streams. x->call is gone then. */
void abx__exchange_start_tunnel(struct abx__exchange *x);
void abx__exchange_cut_tunnel(struct abx__exchange *x);
