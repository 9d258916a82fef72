/* lib/http/server_priv.h: what the listener, the connection and the answer side share. */
#pragma once
#include "lib/http/server.h"

#include <netinet/in.h>

enum abx__http_in {
    ABX__IN_HEAD, /* between requests, or a head is coming */
    ABX__IN_BODY,
    ABX__IN_DONE,  /* the request is complete; its answer is not */
    ABX__IN_DRAIN, /* answered; the rest of the body is thrown away */
    ABX__IN_STOP,  /* no more requests on this connection */
};
enum abx__http_out {
    ABX__OUT_NONE,
    ABX__OUT_OPEN, /* begun; the head may still wait in conn->out */
    ABX__OUT_DONE,
};
enum abx__http_frame { ABX__FRAME_RAW, ABX__FRAME_LENGTH, ABX__FRAME_CHUNKED, ABX__FRAME_NONE };

struct abx_http_conn {
    struct abx_list node; /* of server->conns */
    struct abx_http_server *server;
    struct abx_stream stream;
    struct abx_http_parser parser;
    struct abx_http_req req;
    struct abx_arena arena;
    struct abx_buf out;     /* of the answer: bytes that go with the next write */
    struct abx_buf pending; /* read, but not yet wanted; at most one scratch buffer */
    struct abx_defer later;
    uint64_t deadline_ms;        /* loop time; 0: none */
    uint64_t body_left;          /* of a declared answer */
    char peer[INET6_ADDRSTRLEN]; /* asked for once; empty: not yet, or it is gone */
    size_t discarded;            /* bytes of the body that nobody wanted */
    enum abx__http_in in;
    enum abx__http_out out_state;
    enum abx__http_frame frame;
    bool in_flight;     /* req is with the handler; on_close is still to come */
    bool in_step;       /* inside conn_step(): what follows is settled there */
    bool has_read_head; /* since it was set to false */
    bool body_paused;   /* by the handler */
    bool wants_100;     /* the peer waits for "100 Continue" */
    bool keep_alive;    /* after this answer */
    bool is_delimited;  /* the answer's body tells its own end */
    bool is_cut;        /* the answer ends here, incomplete */
    bool peer_eof;
    bool told_eof;
    bool is_tunnel;
    bool is_turned_away;                     /* beyond max_conns */
    bool has_asked;                          /* a request, at any time */
    const struct abx_stream_ops *tunnel_ops; /* of the caller */
    struct abx_stream_ops tunnel;            /* the same, but we end the stream */
};

struct abx_http_listener {
    struct abx_list node;
    struct abx_http_server *server;
    struct abx_poll poll;
    int fd, tag;
};

struct abx_http_server {
    struct abx_http_server_options o;
    struct abx_loop *loop;
    struct abx_list listeners, conns;
    struct abx_timer sweep, backoff; /* deadlines; accept after EMFILE */
    size_t conn_count, handles;
    size_t turned_away; /* of conn_count */
    bool is_full, is_backing_off, closing;
    void (*closed)(void *);
    void *closed_arg;
    uint64_t date_at; /* loop time of `date` */
    size_t date_len;
    char date[80]; /* the Date field, complete */
};

/* server.c */
struct abx_str abx__http_date(struct abx_http_server *s);
/** The connection is gone: frees it, lets the listeners go on. */
void abx__http_conn_gone(struct abx_http_conn *c);

/* conn.c */
int abx__http_conn_new(struct abx_http_server *s, int take_fd, int tag, struct abx_error *err);
/** Has the connection looked at from the loop: something changed outside of a step. */
void abx__http_conn_wake(struct abx_http_conn *c);
/** Nothing is being done for it: it has said no whole head yet, or is answered. */
bool abx__http_conn_is_waiting(const struct abx_http_conn *c);
/** There is no place for it: says so and ends it. */
void abx__http_conn_turn_away(struct abx_http_conn *c);
/** Its deadline has passed. */
void abx__http_conn_expire(struct abx_http_conn *c);
/** The server closes: idle ones go now, all when @now. */
void abx__http_conn_shut(struct abx_http_conn *c, bool now);

/* answer.c */
void abx__http_out_flush(struct abx_http_conn *c);
/** Answers a request that could not be parsed (or timed out), outside any exchange. */
void abx__http_refuse(struct abx_http_conn *c, int status, const char *message);
