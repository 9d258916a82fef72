/* lib/http/testkit_priv.h: for the tests of this folder: a raw peer on the loop of the server, and
 * handlers to talk to. */
#pragma once
#include "lib/base/fd.h"
#include "lib/http/server.h"
#include "tests/unit/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { KIT_TURNS = 400000 };

/* Runs the loop until the condition holds; a bounded number of turns is the hang guard. */
#define RUN_UNTIL(loop, condition)                                                                 \
    do {                                                                                           \
        for (int turn_ = 0; !(condition); turn_++) {                                               \
            assert_true(turn_ < KIT_TURNS);                                                        \
            uv_run(&(loop)->uv, UV_RUN_NOWAIT);                                                    \
        }                                                                                          \
    } while (0)

struct kit {
    struct abx_loop loop;
    struct abx_http_server *server;
    struct abx_http_req *held; /* of /late */
    struct abx_buf got;        /* the body as on_body gave it */
    size_t total, left;        /* of /big: to send, still to send */
    int requests, closes, aborts, bodies, eofs, servers_closed;
    int fds_before;
};

static inline int kit_count_fds(void)
{
    int n = 0;
    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static inline int kit_listen_tcp(uint16_t *ret_port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, len), 0);
    assert_int_equal(listen(fd, 4096), 0);
    getsockname(fd, (struct sockaddr *)&at, &len);
    *ret_port = ntohs(at.sin_port);
    return fd;
}

static inline int kit_connect_tcp(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    abx_fd_set_nonblock(fd, true);
    return fd;
}

/* A raw connection to the server; the returned end is the test's, non-blocking. */
static inline int kit_connect(struct kit *k)
{
    int fds[2];
    struct abx_error err;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    assert_int_equal(abx_http_server_adopt(k->server, fds[0], 7, &err), 0);
    return fds[1];
}

static inline void kit_send(struct kit *k, int fd, struct abx_str bytes)
{
    for (int turn = 0; bytes.len; turn++) {
        assert_true(turn < KIT_TURNS);
        ssize_t n = send(fd, bytes.ptr, bytes.len, MSG_NOSIGNAL);
        if (n > 0)
            bytes = abx_str_sub(bytes, (size_t)n, bytes.len);
        uv_run(&k->loop.uv, UV_RUN_NOWAIT);
    }
}

/* Reads until EOF, an error, or until @until stands in what came. 0 EOF, 1 found, -errno. */
static inline int kit_receive(struct kit *k, int fd, struct abx_buf *out, const char *until)
{
    for (int turn = 0; turn < KIT_TURNS; turn++) {
        uv_run(&k->loop.uv, UV_RUN_NOWAIT);
        char *to = abx_buf_room(out, 16384);
        assert_non_null(to);
        ssize_t n = read(fd, to, 16384);
        if (n == 0)
            return 0;
        if (n < 0 && errno != EAGAIN)
            return -errno;
        if (n > 0)
            abx_buf_wrote(out, (size_t)n);
        if (until && out->len && abx_str_find(abx_buf_str(out), abx_str(until)) >= 0)
            return 1;
    }
    fail_msg("no answer: %.*s", (int)out->len, out->ptr ? out->ptr : "");
    return -1;
}

/* Sends, then checks that the answer has @expect in it. */
static inline void kit_expect(struct kit *k, int fd, const char *request, const char *expect)
{
    ABX_AUTO_BUF got;
    abx_buf_init(&got, 1 << 20);
    kit_send(k, fd, abx_str(request));
    int r = kit_receive(k, fd, &got, expect);
    if (r != 1)
        fail_msg("after \"%s\": %d, not \"%s\" in \"%s\"", request, r, expect,
                 got.ptr ? got.ptr : "");
}

static inline void kit_on_close(struct abx_http_req *req, bool aborted)
{
    struct kit *k = req->user;
    k->closes++;
    k->aborts += aborted;
    if (k->held == req)
        k->held = NULL;
}
static inline void kit_collect(struct abx_http_req *req, const char *data, size_t len)
{
    abx_buf_put(&((struct kit *)req->user)->got, data, len);
}
static inline void kit_answer_got(struct abx_http_req *req)
{
    struct kit *k = req->user;
    k->bodies++;
    abx_http_answer(req, 200, NULL, abx_buf_str(&k->got));
    abx_buf_clear(&k->got);
}
static inline void kit_echo(struct abx_http_req *req, const char *data, size_t len)
{
    if (!abx_http_write(req, data, len))
        abx_http_pause_body(req);
}
static inline void kit_push_big(struct abx_http_req *req)
{
    static char block[32768];
    struct kit *k = req->user;
    while (k->left) {
        size_t n = k->left < sizeof(block) ? k->left : sizeof(block);
        k->left -= n;
        if (!abx_http_write(req, block, n))
            return;
    }
    abx_http_end(req);
}
static inline void kit_on_eof(struct abx_http_req *req)
{
    ((struct kit *)req->user)->eofs++;
}

static inline void kit_hello(struct abx_http_req *req)
{
    static const struct abx_http_extra extra[] = {{"X-Kit", {"yes", 3}}, {NULL}};
    abx_http_answer(req, 200, extra, ABX_STR("hello"));
}
static inline void kit_upload(struct abx_http_req *req)
{
    req->on_body = kit_collect;
    req->on_body_end = kit_answer_got;
}
static inline void kit_stream(struct abx_http_req *req)
{
    req->on_body = kit_echo;
    req->on_body_end = abx_http_end;
    req->on_drain = abx_http_resume_body;
    abx_http_begin(req, 200, NULL, ABX_HTTP_CHUNKED);
}
static inline void kit_late(struct abx_http_req *req)
{
    ((struct kit *)req->user)->held = req;
}
static inline void kit_late_eof(struct abx_http_req *req)
{
    req->on_eof = kit_on_eof;
    kit_late(req);
}
static inline void kit_big(struct abx_http_req *req)
{
    struct kit *k = req->user;
    k->left = k->total;
    k->held = req;
    req->on_drain = kit_push_big;
    abx_http_begin(req, 200, NULL, ABX_HTTP_CHUNKED);
    kit_push_big(req);
}
static inline void kit_cut(struct abx_http_req *req)
{
    abx_http_begin(req, 200, NULL, ABX_HTTP_CHUNKED);
    abx_http_write(req, "begin", 5);
    ((struct kit *)req->user)->held = req;
}
static inline void kit_short(struct abx_http_req *req)
{
    abx_http_begin(req, 200, NULL, 10);
    abx_http_write(req, "only", 4);
    abx_http_end(req);
}
static inline void kit_evil(struct abx_http_req *req)
{
    static const struct abx_http_extra extra[] = {{"X-A", {"b\r\nX-C: d", 9}}, {NULL}};
    abx_http_answer(req, 200, extra, ABX_STR("hello"));
}
static inline void kit_empty(struct abx_http_req *req)
{
    abx_http_answer(req, 204, NULL, (struct abx_str){0});
}

static const struct {
    const char *path;
    void (*fn)(struct abx_http_req *req);
} kit_routes[] = {
    {"/hello", kit_hello}, {"/upload", kit_upload},     {"/stream", kit_stream},
    {"/late", kit_late},   {"/late-eof", kit_late_eof}, {"/big", kit_big},
    {"/cut", kit_cut},     {"/short", kit_short},       {"/evil", kit_evil},
    {"/empty", kit_empty},
};

static inline void kit_on_request(struct abx_http_req *req)
{
    struct kit *k = req->user;
    k->requests++;
    req->on_close = kit_on_close;
    for (size_t i = 0; i < ABX_COUNTOF(kit_routes); i++)
        if (abx_str_is(req->path, kit_routes[i].path)) {
            kit_routes[i].fn(req);
            return;
        }
    abx_http_answer(req, 404, NULL, req->path);
}

static inline void kit_on_closed(void *arg)
{
    ((struct kit *)arg)->servers_closed++;
}

static inline void kit_open(struct kit *k, struct abx_http_server_options o)
{
    struct abx_error err;
    *k = (struct kit){0};
    assert_int_equal(abx_loop_init(&k->loop, &err), 0); /* libuv's own descriptors, made once */
    abx_loop_done(&k->loop);
    k->fds_before = kit_count_fds();
    assert_int_equal(abx_loop_init(&k->loop, &err), 0);
    abx_buf_init(&k->got, 64 << 20);
    if (o.on_request == NULL)
        o.on_request = kit_on_request;
    o.user = k;
    assert_int_equal(abx_http_server_open(&k->loop, &o, &k->server, &err), 0);
}

/* Everything must be gone after: connections, descriptors, exchanges. */
static inline void kit_close(struct kit *k)
{
    abx_http_server_close(k->server, true, kit_on_closed, k);
    abx_loop_run(&k->loop);
    assert_int_equal(k->servers_closed, 1);
    assert_int_equal(k->requests, k->closes);
    abx_buf_done(&k->got);
    abx_loop_done(&k->loop);
    assert_int_equal(kit_count_fds(), k->fds_before);
}
