/* lib/http/answer.c: the answer side of the server: heads, framing, one system call per piece.
 * Loop thread. RFC 9112 6, 7. */
#include "lib/http/server_priv.h"

#include "lib/base/assert.h"
#include "lib/base/log.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "lib/base/banned.h"

enum { CHUNK_HEAD_MAX = 20, RAW_PARTS_MAX = 4, SMALL_MAX = 8000 };

static struct iovec part(const void *data, size_t len)
{
    return (struct iovec){(void *)(uintptr_t)data, len};
}

/* The exchange still takes an answer. */
static bool is_live(const struct abx_http_conn *c)
{
    return c->in_flight && c->out_state != ABX__OUT_DONE && !c->is_tunnel &&
           abx_stream_is_open(&c->stream);
}

static size_t length_of(const struct iovec *parts, int count)
{
    size_t len = 0;
    for (int i = 0; i < count; i++)
        len += parts[i].iov_len;
    return len;
}

/* Sends @parts after what waits in conn->out, in one call. Small ones wait too, until the end of
 * the turn: an event, its end frame and the last chunk wake the peer once. */
static bool send_parts(struct abx_http_conn *c, const struct iovec *parts, int count)
{
    if (count && c->out.len + length_of(parts, count) <= SMALL_MAX) {
        for (int i = 0; i < count; i++)
            abx_buf_put(&c->out, parts[i].iov_base, parts[i].iov_len);
        if (abx_buf_failed(&c->out))
            abx_stream_reset(&c->stream);
        abx__http_conn_wake(c);
        return true;
    }
    struct iovec all[8] = {part(c->out.ptr, c->out.len)};
    for (int i = 0; i < count; i++)
        all[i + 1] = parts[i];
    bool more = abx_stream_writev(&c->stream, all, count + 1);
    abx_buf_clear(&c->out);
    return more;
}

void abx__http_out_flush(struct abx_http_conn *c)
{
    if (c->out.len)
        send_parts(c, NULL, 0);
}

bool abx_http_can_keep_alive(const struct abx_http_req *req)
{
    const struct abx_http_conn *c = req->conn;
    return req->head->keep_alive && !c->server->closing && !c->wants_100;
}

int abx_http_req_fd(const struct abx_http_req *req)
{
    return abx_stream_fd(&req->conn->stream);
}

static bool has_no_body(const struct abx_http_req *req, int status)
{
    return status == 204 || status == 304 || abx_str_is(req->head->method, "HEAD");
}

static void put_length(struct abx_buf *b, uint64_t n)
{
    char digits[20];
    size_t at = sizeof(digits);
    do
        digits[--at] = (char)('0' + n % 10);
    while (n /= 10);
    abx_http_write_header(b, ABX_STR("Content-Length"),
                          abx_str_n(digits + at, sizeof(digits) - at));
}

static void put_framing(struct abx_http_conn *c, int status, int64_t length)
{
    const struct abx_http_head *head = c->req.head;
    c->body_left = length >= 0 ? (uint64_t)length : 0;
    c->frame = length >= 0 ? ABX__FRAME_LENGTH : ABX__FRAME_CHUNKED;
    if (length < 0 && head->minor == 0) {
        c->frame = ABX__FRAME_RAW;
        c->keep_alive = false;
    }
    if (status != 204 && status != 304 && c->frame == ABX__FRAME_LENGTH)
        put_length(&c->out, c->body_left);
    if (status != 204 && status != 304 && c->frame == ABX__FRAME_CHUNKED)
        abx_http_write_header(&c->out, ABX_STR("Transfer-Encoding"), ABX_STR("chunked"));
    c->is_delimited = c->frame != ABX__FRAME_RAW;
    if (has_no_body(&c->req, status))
        c->frame = ABX__FRAME_NONE;
}

static void put_connection(struct abx_http_conn *c)
{
    if (!c->keep_alive)
        abx_http_write_header(&c->out, ABX_STR("Connection"), ABX_STR("close"));
    else if (c->req.head->minor == 0)
        abx_http_write_header(&c->out, ABX_STR("Connection"), ABX_STR("keep-alive"));
}

/* A header of the handler's that can not be written: say so rather than send half a head. */
static void put_broken(struct abx_http_conn *c)
{
    abx_log(ABX_LOG_DEBUG, "answer has a malformed header");
    abx_buf_clear(&c->out);
    c->keep_alive = false;
    c->frame = ABX__FRAME_NONE;
    abx_http_write_status(&c->out, 500, abx_str(abx_http_reason(500)));
    put_length(&c->out, 0);
    put_connection(c);
    abx_http_write_end(&c->out);
}

static void put_head(struct abx_http_conn *c, int status, const struct abx_http_extra *extra,
                     int64_t length)
{
    abx__http_out_flush(c); /* an interim answer */
    c->keep_alive = abx_http_can_keep_alive(&c->req);
    abx_http_write_status(&c->out, status, abx_str(abx_http_reason(status)));
    abx_buf_put_str(&c->out, abx__http_date(c->server));
    for (; extra && extra->name; extra++)
        abx_http_write_header(&c->out, abx_str(extra->name), extra->value);
    put_framing(c, status, length);
    put_connection(c);
    abx_http_write_end(&c->out);
    if (abx_buf_failed(&c->out))
        put_broken(c);
}

static void complete(struct abx_http_conn *c)
{
    c->out_state = ABX__OUT_DONE;
    abx__http_conn_wake(c);
}

void abx_http_answer(struct abx_http_req *req, int status, const struct abx_http_extra *extra,
                     struct abx_str body)
{
    struct abx_http_conn *c = req->conn;
    if (!is_live(c))
        return;
    ABX_ASSERT(c->out_state == ABX__OUT_NONE);
    put_head(c, status, extra, (int64_t)body.len);
    struct iovec data = part(body.ptr, body.len);
    send_parts(c, &data, c->frame == ABX__FRAME_LENGTH && body.len ? 1 : 0);
    complete(c);
}

void abx_http_begin(struct abx_http_req *req, int status, const struct abx_http_extra *extra,
                    int64_t length)
{
    struct abx_http_conn *c = req->conn;
    if (!is_live(c))
        return;
    ABX_ASSERT(c->out_state == ABX__OUT_NONE);
    put_head(c, status, extra, length);
    c->out_state = ABX__OUT_OPEN;
    abx__http_conn_wake(c); /* sends the head if nothing follows in this turn */
}

void abx_http_flush(struct abx_http_req *req)
{
    if (is_live(req->conn))
        abx__http_out_flush(req->conn);
}

bool abx_http_write2(struct abx_http_req *req, const void *a, size_t a_len, const void *b,
                     size_t b_len)
{
    struct abx_http_conn *c = req->conn;
    if (!is_live(c))
        return true;
    ABX_ASSERT(c->out_state == ABX__OUT_OPEN);
    size_t len = a_len + b_len;
    if (len == 0 || c->frame == ABX__FRAME_NONE)
        return true; /* the head goes at the end of the turn */
    if (c->frame == ABX__FRAME_LENGTH && len > c->body_left) {
        abx_http_abort(req);
        return true;
    }
    c->body_left -= c->frame == ABX__FRAME_LENGTH ? len : 0;
    struct iovec parts[4] = {part(a, a_len), part(b, b_len)};
    if (c->frame != ABX__FRAME_CHUNKED)
        return send_parts(c, parts, 2);
    char head[CHUNK_HEAD_MAX];
    parts[0] = part(head, abx_http_chunk_head(len, head));
    parts[1] = part(a, a_len);
    parts[2] = part(b, b_len);
    parts[3] = part("\r\n", 2);
    return send_parts(c, parts, 4);
}

bool abx_http_write(struct abx_http_req *req, const void *data, size_t len)
{
    return abx_http_write2(req, data, len, NULL, 0);
}

void abx_http_end(struct abx_http_req *req)
{
    struct abx_http_conn *c = req->conn;
    if (!is_live(c))
        return;
    ABX_ASSERT(c->out_state == ABX__OUT_OPEN);
    if (c->frame == ABX__FRAME_LENGTH && c->body_left) {
        abx_http_abort(req);
        return;
    }
    struct iovec last = part("0\r\n\r\n", 5);
    send_parts(c, &last, c->frame == ABX__FRAME_CHUNKED ? 1 : 0);
    complete(c);
}

/* A body that tells its own end is seen to be cut by the end of the connection (RFC 9112 8), and
 * what was written before it still arrives; a reset may overtake it, and clients take that for a
 * fault of the network. Where the end of the connection is the end of the body, or nothing was said
 * and a client would ask again, only a reset tells. */
void abx_http_abort(struct abx_http_req *req)
{
    struct abx_http_conn *c = req->conn;
    if (!is_live(c))
        return;
    abx__http_out_flush(c);
    if (c->out_state == ABX__OUT_OPEN && c->is_delimited && abx_stream_is_open(&c->stream)) {
        c->is_cut = true;
        c->keep_alive = false;
        complete(c);
    } else {
        abx_stream_reset(&c->stream);
    }
}

int abx_http_peer_fd(const struct abx_http_req *req)
{
    return abx_stream_fd(&req->conn->stream);
}

struct abx_str abx_http_peer(const struct abx_http_req *req)
{
    struct abx_http_conn *c = req->conn;
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } a = {0};
    socklen_t len = sizeof(a);
    if (c->peer[0] || getpeername(abx_http_peer_fd(req), &a.any, &len) < 0)
        return abx_str(c->peer);
    if (a.any.sa_family == AF_INET)
        inet_ntop(AF_INET, &a.v4.sin_addr, c->peer, sizeof(c->peer));
    else if (a.any.sa_family == AF_INET6)
        inet_ntop(AF_INET6, &a.v6.sin6_addr, c->peer, sizeof(c->peer));
    else
        memcpy(c->peer, "unix", sizeof("unix"));
    return abx_str(c->peer);
}

void abx_http_pause_body(struct abx_http_req *req)
{
    struct abx_http_conn *c = req->conn;
    c->body_paused = true;
    if (!c->in_step && c->in == ABX__IN_BODY && is_live(c))
        abx_stream_pause(&c->stream);
}

void abx_http_resume_body(struct abx_http_req *req)
{
    req->conn->body_paused = false;
    abx__http_conn_wake(req->conn);
}

const struct abx_http_header *abx_http_trailers(const struct abx_http_req *req, size_t *count)
{
    *count = req->conn->parser.trailer_count;
    return req->conn->parser.trailers;
}

void abx_http_interim(struct abx_http_req *req, struct abx_str head)
{
    struct abx_http_conn *c = req->conn;
    if (!is_live(c) || c->out_state != ABX__OUT_NONE || req->head->minor == 0)
        return;
    abx_buf_put_str(&c->out, head);
    abx__http_conn_wake(c);
}

void abx_http_continue(struct abx_http_req *req)
{
    struct abx_http_conn *c = req->conn;
    if (!c->wants_100)
        return;
    c->wants_100 = false;
    abx_http_interim(req, ABX_STR("HTTP/1.1 100 Continue\r\n\r\n"));
}

void abx_http_raw_begin(struct abx_http_req *req, struct abx_str head, bool is_delimited)
{
    struct abx_http_conn *c = req->conn;
    if (!is_live(c))
        return;
    ABX_ASSERT(c->out_state == ABX__OUT_NONE);
    c->keep_alive = abx_http_can_keep_alive(req);
    c->frame = ABX__FRAME_RAW;
    c->is_delimited = is_delimited;
    c->out_state = ABX__OUT_OPEN;
    abx_buf_put_str(&c->out, head);
    if (abx_buf_failed(&c->out))
        abx_stream_reset(&c->stream);
    else
        abx__http_conn_wake(c);
}

bool abx_http_raw_writev(struct abx_http_req *req, const struct iovec *parts, int count)
{
    if (!is_live(req->conn))
        return true;
    ABX_ASSERT(req->conn->out_state == ABX__OUT_OPEN && count <= RAW_PARTS_MAX);
    return send_parts(req->conn, parts, count);
}

void abx_http_raw_end(struct abx_http_req *req, bool keep_alive)
{
    struct abx_http_conn *c = req->conn;
    if (!is_live(c))
        return;
    c->keep_alive = c->keep_alive && keep_alive;
    complete(c);
}

static void put_escaped(struct abx_buf *b, const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            abx_buf_put_byte(b, '\\');
        abx_buf_put_byte(b, (unsigned char)*text < ' ' ? ' ' : *text);
    }
}

static void put_refusal(struct abx_buf *body, int status, const char *message)
{
    abx_buf_putf(body, "{\"code\":%d,\"message\":\"", status);
    put_escaped(body, message);
    abx_buf_put_c(body, "\"}\n");
}

void abx__http_refuse(struct abx_http_conn *c, int status, const char *message)
{
    ABX_AUTO_BUF body;
    abx_buf_init(&body, 1024);
    if (c->server->o.refusal)
        c->server->o.refusal(c->server->o.user, status, message, &body);
    else
        put_refusal(&body, status, message);
    abx_http_write_status(&c->out, status, abx_str(abx_http_reason(status)));
    abx_buf_put_str(&c->out, abx__http_date(c->server));
    abx_http_write_header(&c->out, ABX_STR("Content-Type"),
                          ABX_STR("application/json; charset=utf-8"));
    put_length(&c->out, body.len);
    abx_http_write_header(&c->out, ABX_STR("Connection"), ABX_STR("close"));
    abx_http_write_end(&c->out);
    abx_buf_put_str(&c->out, abx_buf_str(&body));
    abx__http_out_flush(c);
}
