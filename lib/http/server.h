/* lib/http/server.h: an HTTP/1.1 server on the loop: streaming both ways, with back-pressure.
 *
 * Life of a request: @on_request(req) when the head is complete. The handler answers at once, or
 * keeps @req and answers later. Body bytes go to req->on_body (set it in on_request, or pause the
 * body there and set it later; without it the body is discarded, at most 256 KiB of it). req->
 * on_close is called exactly once, when the exchange is over (answered completely, or cut:
 * `aborted`); after it @req is gone. A handler that holds @req must drop it then. No callback runs
 * from inside a call of the handler. Loop thread only.
 *
 * A peer that sends EOF while its answer is in flight counts as gone (the SDKs abort like that),
 * unless the handler sets req->on_eof. Requests that can not be parsed are answered with the
 * parser's status as {"code":N,"message":"..."} and the connection ends. */
#pragma once
#include "lib/base/arena.h"
#include "lib/loop/stream.h"
#include "lib/wire/http.h"

struct abx_http_server;
struct abx_http_conn;

struct abx_http_req {
    const struct abx_http_head *head;
    struct abx_str path, query; /* raw (not decoded) parts of the target */
    struct abx_arena *arena;    /* 1 MiB, lives as long as the request */
    struct abx_http_conn *conn;
    void *user;       /* of the server */
    int listener_tag; /* which listener it came by (abx_http_server_listen) */
    /* set by the handler: */
    void *data;
    void (*on_body)(struct abx_http_req *req, const char *data, size_t len);
    void (*on_body_end)(struct abx_http_req *req); /* complete; never called for a cut body */
    void (*on_drain)(struct abx_http_req *req);    /* after a write returned false */
    /** The peer has sent EOF after a complete body (half-close). NULL: that is an abort. */
    void (*on_eof)(struct abx_http_req *req);
    void (*on_close)(struct abx_http_req *req, bool aborted);
    bool manual_continue; /* "100 Continue" is sent by abx_http_continue() only */
};

struct abx_http_server_options {
    void (*on_request)(struct abx_http_req *req);
    void *user;
    uint32_t head_timeout_ms;  /* from first byte to complete head; default 30 s */
    uint32_t idle_timeout_ms;  /* between requests; default 640 s */
    uint32_t max_conns;        /* beyond: the listener pauses; default 2,000 */
    uint32_t first_timeout_ms; /* from the accept to the first byte; default: the idle one */
    /* Beyond max_conns: one that waits makes room; where none does, 503 and the end, 64 of them at
     * a time. */
    bool turns_away;
    size_t high_water; /* write queue per connection; default 64 KiB */
    /** The tag of a connection that a listener has accepted, -1 to refuse it. NULL: the listener's.
     */
    int (*on_accept)(void *user, int fd, int listener_tag);
    /** The most fields in the head of a request that comes by connections of that tag, 1 to
     *  ABX_HTTP_HEADERS_MAX. NULL: that. */
    size_t (*headers_max)(void *user, int tag);
    /** Writes the JSON body that says why a request was not parsed. NULL: {"code","message"}. */
    void (*refusal)(void *user, int status, const char *message, struct abx_buf *out);
};

int abx_http_server_open(struct abx_loop *l, const struct abx_http_server_options *o,
                         struct abx_http_server **ret, struct abx_error *err);
/** Takes @take_fd, a listening socket (also on failure). */
int abx_http_server_listen(struct abx_http_server *s, int take_fd, int tag, struct abx_error *err);
/** On all IPv4 addresses of the machine. */
int abx_http_server_listen_any(struct abx_http_server *s, uint16_t port, int tag,
                               struct abx_error *err);
/** Takes @take_fd, an already connected socket (gateway channel, loopback tests), also on failure.
 */
int abx_http_server_adopt(struct abx_http_server *s, int take_fd, int tag, struct abx_error *err);
/** Stops accepting; resets open connections when @now, else lets exchanges finish within 1 s. The
 *  server is gone when @closed (may be NULL) is called. Accepts NULL. */
void abx_http_server_close(struct abx_http_server *s, bool now, void (*closed)(void *), void *arg);
size_t abx_http_server_conns(const struct abx_http_server *s);

struct abx_http_extra {
    const char *name;
    struct abx_str value;
};
/** The whole answer at once, in one system call. @extra ends with a NULL name, may be NULL. Date,
 *  Content-Length (not for 204 and 304) and Connection are added. For HEAD the body is not sent. */
void abx_http_answer(struct abx_http_req *req, int status, const struct abx_http_extra *extra,
                     struct abx_str body);
enum { ABX_HTTP_CHUNKED = -1 };
/** Begins an answer; then write() and end(). @length >= 0, or ABX_HTTP_CHUNKED (for a 1.0 client:
 *  close-delimited). Sent with the first write or end, at the latest before the loop waits. */
void abx_http_begin(struct abx_http_req *req, int status, const struct abx_http_extra *extra,
                    int64_t length);
void abx_http_flush(struct abx_http_req *req);
/** One chunk. Small ones of the same turn of the loop go out together, before it waits; a large one
 *  at once, in one system call. False: the queue is above its mark, stop until on_drain. */
bool abx_http_write(struct abx_http_req *req, const void *data, size_t len);
/** As write, of two parts (an envelope head and its payload) in one chunk. */
bool abx_http_write2(struct abx_http_req *req, const void *a, size_t a_len, const void *b,
                     size_t b_len);
/** Completes the answer. A declared length that was not reached aborts the connection. */
void abx_http_end(struct abx_http_req *req);
/** Cuts the exchange so that the peer can not take it for complete: no final chunk, and then the
 * end of the stream where the body has one of its own (chunked, or a length not reached), with at
 * most 2 s for what is queued; else a reset. on_close(aborted) follows from the loop. */
void abx_http_abort(struct abx_http_req *req);
/** The connection's descriptor, borrowed: for getpeername(). */
int abx_http_peer_fd(const struct abx_http_req *req);
/** The peer's address as a text, "unix" for a local socket; empty when it is gone. */
struct abx_str abx_http_peer(const struct abx_http_req *req);
/** Stops and restarts reading of the request's body (the peer blocks). */
void abx_http_pause_body(struct abx_http_req *req);
void abx_http_resume_body(struct abx_http_req *req);
/** In on_body_end and after: the trailers of a chunked request. */
const struct abx_http_header *abx_http_trailers(const struct abx_http_req *req, size_t *count);
/** Sends "100 Continue" if the peer waits for it. Done by itself once on_body is set and the body
 *  is not paused, unless req->manual_continue. */
void abx_http_continue(struct abx_http_req *req);
/** Sends an interim answer, @head a complete written 1xx head. Only before begin; not to 1.0. */
void abx_http_interim(struct abx_http_req *req, struct abx_str head);
/** For a verbatim head (proxy): @head is a complete written head; the body follows by raw_writev,
 *  already framed by the caller; raw_end(keep_alive) completes. @is_delimited: the body tells its
 *  own end, not by that of the connection. */
void abx_http_raw_begin(struct abx_http_req *req, struct abx_str head, bool is_delimited);
/** At most 4 parts, sent as by abx_http_write(). False: stop until on_drain. */
bool abx_http_raw_writev(struct abx_http_req *req, const struct iovec *parts, int count);
void abx_http_raw_end(struct abx_http_req *req, bool keep_alive);
/** True when the connection may serve another request after this answer. Fixed by begin; a proxy
 *  asks before it writes its own Connection header. */
bool abx_http_can_keep_alive(const struct abx_http_req *req);
/** The connection's descriptor, borrowed: for the addresses of a socket. */
int abx_http_req_fd(const struct abx_http_req *req);
/** Turns the connection into a tunnel after a 101 head was sent raw: bytes both ways belong to the
 *  caller through @ops on the returned stream; bytes already read come by on_data first, from the
 *  loop, even before the caller resumes it. The caller closes the stream; then @ops->on_closed, and
 *  after it on_close(not aborted). */
struct abx_stream *abx_http_take_stream(struct abx_http_req *req, const struct abx_stream_ops *ops,
                                        void *owner);
