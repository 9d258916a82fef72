/* lib/http/proxy_test.c: peer - proxy - upstream, all on one loop. */
#include "lib/http/proxy.h"
#include "lib/http/testkit_priv.h"
#include "tests/unit/alloc.h"

#include "lib/base/banned.h"

enum { RAW_MAX = 8 };
#define HOST           "Host: h\r\n"
#define CHUNKED_ANSWER "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

/* The upstream is the kit's server, or raw sockets of the test when `is_raw`. */
static struct world {
    struct kit k;
    struct abx_http_server *front;
    struct abx_http_pool *pool;
    struct abx_http_proxy_options o;
    bool is_raw;
    int refuse; /* so many connects fail */
    int raw[RAW_MAX], connects, unreachable, done, requests, fronts_closed;
    bool retry;
    int error_sys;
} w;

static void do_connect(void *arg, struct abx_str target, struct abx_http_call *call)
{
    (void)arg;
    assert_true(abx_str_is(target, "up"));
    w.connects++;
    if (w.refuse) {
        w.refuse--;
        abx_http_connected(call, -ECONNREFUSED);
        return;
    }
    int fds[2];
    struct abx_error err;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    if (w.is_raw) {
        assert_true(w.connects <= RAW_MAX);
        w.raw[w.connects - 1] = fds[1];
    } else {
        abx_http_server_adopt(w.k.server, fds[1], 7, &err); /* a failure shows as its end */
    }
    abx_http_connected(call, fds[0]);
}

static void on_unreachable(struct abx_http_req *req, void *arg, const struct abx_error *err)
{
    assert_ptr_equal(arg, &w);
    w.unreachable++;
    w.error_sys = err->sys;
    if (w.retry && err->sys)
        abx_http_proxy(req, &w.o);
    else
        abx_http_answer(req, 502, NULL, abx_str(err->msg));
}
static void on_done(void *arg)
{
    assert_ptr_equal(arg, &w);
    w.done++;
}
static void on_front_request(struct abx_http_req *req)
{
    w.requests++;
    abx_http_proxy(req, &w.o);
}
static void on_front_closed(void *arg)
{
    ((struct world *)arg)->fronts_closed++;
}

static void open_world(bool is_raw)
{
    struct abx_error err;
    w = (struct world){.is_raw = is_raw};
    kit_open(&w.k, (struct abx_http_server_options){0});
    const struct abx_http_server_options o = {.on_request = on_front_request};
    assert_int_equal(abx_http_server_open(&w.k.loop, &o, &w.front, &err), 0);
    assert_int_equal(abx_http_pool_open(&w.k.loop, do_connect, &w, 4, &w.pool, &err), 0);
    w.o = (struct abx_http_proxy_options){.pool = w.pool,
                                          .target = ABX_STR("up"),
                                          .arg = &w,
                                          .on_unreachable = on_unreachable,
                                          .on_done = on_done};
}

static void close_world(void)
{
    for (int i = 0; i < RAW_MAX; i++)
        if (w.raw[i] > 0)
            close(w.raw[i]);
    abx_http_server_close(w.front, true, on_front_closed, &w);
    RUN_UNTIL(&w.k.loop, w.fronts_closed);
    abx_http_pool_close(w.pool);
    assert_int_equal(w.done, w.requests + (w.retry ? w.unreachable : 0));
    kit_close(&w.k);
}

/* A peer of the proxy: unix, or TCP where a reset must show. */
static int front_peer(bool is_tcp)
{
    struct abx_error err;
    if (is_tcp) {
        uint16_t port;
        assert_int_equal(abx_http_server_listen(w.front, kit_listen_tcp(&port), 1, &err), 0);
        return kit_connect_tcp(port);
    }
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    assert_int_equal(abx_http_server_adopt(w.front, fds[0], 1, &err), 0);
    return fds[1];
}

static void receive(int fd, struct abx_buf *got, const char *until)
{
    abx_buf_init(got, 1 << 20);
    assert_int_equal(kit_receive(&w.k, fd, got, until), 1);
}

TEST(proxy_passes_requests_and_keeps_both_connections)
{
    open_world(false);
    int fd = front_peer(false);
    for (int i = 0; i < 3; i++) {
        kit_expect(&w.k, fd, "GET /hello HTTP/1.1\r\n" HOST "\r\n",
                   "X-Kit: yes\r\nContent-Length: 5\r\n\r\nhello");
        kit_expect(&w.k, fd, "POST /upload HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc",
                   "Content-Length: 3\r\n\r\nabc");
        kit_expect(&w.k, fd,
                   "POST /stream HTTP/1.1\r\n" HOST
                   "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
                   "\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
        kit_expect(&w.k, fd, "HEAD /hello HTTP/1.1\r\n" HOST "\r\n", "Content-Length: 5\r\n\r\n");
        kit_expect(&w.k, fd, "GET /empty HTTP/1.1\r\n" HOST "\r\n", "204 No Content");
    }
    assert_int_equal(w.connects, 1);
    RUN_UNTIL(&w.k.loop, w.done == 15);
    close(fd);
    close_world();
}

static bool keep_no_b(void *arg, const struct abx_http_header *h)
{
    assert_ptr_equal(arg, &w);
    return !abx_str_is_nocase(h->name, "x-b");
}

TEST(proxy_rewrites_request_heads)
{
    static const char *const drop[] = {"x-drop", NULL};
    static const struct abx_http_extra add[] = {{"X-Add", {"1", 1}}, {NULL}};
    static const struct {
        const char *request, *has, *has_not;
    } rows[] = {
        {"GET /p?q=%20 HTTP/1.1\r\n" HOST "\r\n", "GET /p?q=%20 HTTP/1.1\r\nHost: h\r\n", "Conn"},
        {"GET http://h/p?q HTTP/1.1\r\n" HOST "\r\n", "GET /p?q HTTP/1.1\r\n", "http:"},
        {"OPTIONS * HTTP/1.1\r\n" HOST "\r\n", "OPTIONS * HTTP/1.1\r\n", "Connection"},
        {"GET / HTTP/1.1\r\n" HOST "X-Drop: 1\r\nX-B: 2\r\nX-Keep: 3\r\n\r\n", "X-Keep: 3\r\n",
         "X-Drop"},
        {"GET / HTTP/1.1\r\n" HOST "X-B: 2\r\n\r\n", "X-Add: 1\r\n", "X-B"},
        {"GET / HTTP/1.1\r\n" HOST "Connection: X-Hop, keep-alive\r\nX-Hop: 1\r\n"
         "Keep-Alive: 5\r\n\r\n",
         "X-Add", "X-Hop"},
        {"GET / HTTP/1.1\r\n" HOST "Connection: X-Access-Token, Authorization, X-Sandbox-Port\r\n"
         "X-Access-Token: t\r\nAuthorization: a\r\nX-Sandbox-Port: 3\r\n\r\n",
         "X-Access-Token: t\r\nAuthorization: a\r\nX-Sandbox-Port: 3\r\n", "Connection"},
        {"GET / HTTP/1.1\r\n" HOST "Connection: content-type, host, e2b-x\r\nE2b-X: 1\r\n\r\n",
         "E2b-X: 1", "Connection"},
        {"GET / HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n", "GET /",
         "pgrade"},
        {"GET / HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
         "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "h2c"},
        {"GET / HTTP/1.1\r\n" HOST "TE: trailers\r\nProxy-Authorization: x\r\n\r\n", "GET /",
         "Proxy"},
        {"GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.1\r\nHost: ", "Connection"},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        open_world(true);
        w.o.drop = drop;
        w.o.add = add;
        w.o.keep = keep_no_b;
        int fd = front_peer(false);
        kit_send(&w.k, fd, abx_str(rows[i].request));
        RUN_UNTIL(&w.k.loop, w.connects == 1);
        ABX_AUTO_BUF got;
        receive(w.raw[0], &got, "\r\n\r\n");
        if (!strstr(got.ptr, rows[i].has) || strstr(got.ptr, rows[i].has_not))
            fail_msg("row %zu: %s", i, got.ptr);
        close(fd);
        close_world();
    }
}

TEST(proxy_rewrites_answer_heads_and_frames)
{
    static const struct {
        const char *request, *answer, *has, *has_not;
    } rows[] = {
        {"GET / HTTP/1.1\r\n", "HTTP/1.1 200 Fine\r\nContent-Length: 2\r\nX-Up: 1\r\n\r\nhi",
         "HTTP/1.1 200 Fine\r\nContent-Length: 2\r\nX-Up: 1\r\n\r\nhi", "Connection"},
        {"GET / HTTP/1.1\r\n",
         "HTTP/1.1 200 OK\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nContent-Length: 2\r\n\r\nhi",
         "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "X-Hop"},
        {"GET / HTTP/1.1\r\n",
         "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n",
         "Location: http://127.0.0.1/\r\n", "chunked"},
        {"GET / HTTP/1.1\r\n",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 1\r\n"
         "Content-Length: 9\r\n\r\n",
         "2\r\nhi\r\n0\r\nX-Sum: 1\r\n\r\n", "Content-Length"},
        {"GET / HTTP/1.1\r\n", "HTTP/1.0 200 OK\r\n\r\nto the end",
         "chunked\r\n\r\na\r\nto the end\r\n0\r\n\r\n", "Connection"},
        {"GET / HTTP/1.0\r\n",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n"
         "0\r\n\r\n",
         "Connection: close\r\n\r\nhi", "chunked"},
        {"HEAD / HTTP/1.1\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n",
         "Content-Length: 99\r\n\r\n", "chunked"},
        {"GET / HTTP/1.1\r\n", "HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n", "ETag: x\r\n\r\n",
         "chunked"},
        {"GET / HTTP/1.1\r\n",
         "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
         "103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n", "chunked"},
        {"GET / HTTP/1.1\r\n", "nonsense\r\n\r\n", "502 Bad Gateway", "nonsense"},
        {"GET / HTTP/1.1\r\n", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
         "502 Bad Gateway", "101"},
        {"CONNECT h:1 HTTP/1.1\r\n", NULL, "501 Not Implemented", "200"},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        open_world(true);
        int fd = front_peer(false);
        kit_send(&w.k, fd, abx_str(rows[i].request));
        kit_send(&w.k, fd, ABX_STR(HOST "\r\n"));
        ABX_AUTO_BUF got;
        ABX_AUTO_BUF sent;
        if (rows[i].answer) {
            RUN_UNTIL(&w.k.loop, w.connects == 1);
            receive(w.raw[0], &sent, "\r\n\r\n");
            kit_send(&w.k, w.raw[0], abx_str(rows[i].answer));
            shutdown(w.raw[0], SHUT_WR);
        } else {
            abx_buf_init(&sent, 1); /* refused at once, and told of by on_done all the same */
        }
        receive(fd, &got, rows[i].has);
        if (strstr(got.ptr, rows[i].has_not))
            fail_msg("row %zu: %s", i, got.ptr);
        close(fd);
        close_world();
    }
}

/* What the upstream has sent and the peer has not got is all that may be held on the way. */
TEST(proxy_holds_little_of_200_mb_through_a_paused_peer)
{
    enum { TOTAL = 200 << 20, HELD_MAX = 4 << 20 };
    static char in[262144];
    for (int is_tcp = 0; is_tcp < 2; is_tcp++) {
        open_world(false);
        w.k.total = TOTAL;
        int fd = front_peer(is_tcp);
        int small = 65536;
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
        kit_send(&w.k, fd, ABX_STR("GET /big HTTP/1.1\r\n" HOST "\r\n"));
        size_t got = 0, held_most = 0;
        bool ended = false;
        for (int turn = 0; !ended && turn < KIT_TURNS; turn++) {
            for (int i = 0; turn % 500 == 0 && i < 200; i++) /* the peer pauses */
                uv_run(&w.k.loop.uv, UV_RUN_NOWAIT);
            size_t sent = w.k.requests ? w.k.total - w.k.left : 0;
            if (sent > got && sent - got > held_most)
                held_most = sent - got;
            ssize_t n = read(fd, in, sizeof(in));
            got += n > 0 ? (size_t)n : 0;
            ended = n >= 5 && memcmp(in + n - 5, "0\r\n\r\n", 5) == 0;
            uv_run(&w.k.loop.uv, UV_RUN_NOWAIT);
        }
        assert_true(ended);
        assert_true(got > TOTAL);
        if (held_most > HELD_MAX)
            fail_msg("%zu bytes were held", held_most);
        close(fd);
        close_world();
    }
}

static void drop_body(struct abx_http_req *req, const char *data, size_t len)
{
    (void)data;
    struct kit *k = req->user;
    k->left += len;
}
static void answer_done(struct abx_http_req *req)
{
    abx_http_answer(req, 200, NULL, ABX_STR("got it"));
}

TEST(proxy_holds_little_of_100_mb_sent_to_a_paused_upstream)
{
    enum { TOTAL = 100 << 20, HELD_MAX = 4 << 20 };
    static char out[262144];
    open_world(false);
    int fd = front_peer(false);
    kit_send(&w.k, fd, ABX_STR("POST /late HTTP/1.1\r\n" HOST "Content-Length: 104857600\r\n\r\n"));
    RUN_UNTIL(&w.k.loop, w.k.held != NULL);
    struct abx_http_req *req = w.k.held;
    abx_http_pause_body(req);
    req->on_body = drop_body;
    req->on_body_end = answer_done;
    size_t sent = 0, held_most = 0;
    for (int turn = 0; w.k.closes == 0 && turn < KIT_TURNS; turn++) {
        if (turn % 1000 == 0)
            abx_http_pause_body(req);
        if (turn % 1000 == 500)
            abx_http_resume_body(req);
        size_t n = TOTAL - sent < sizeof(out) ? TOTAL - sent : sizeof(out);
        ssize_t r = n ? send(fd, out, n, MSG_NOSIGNAL) : 0;
        sent += r > 0 ? (size_t)r : 0;
        if (sent - w.k.left > held_most)
            held_most = sent - w.k.left;
        uv_run(&w.k.loop.uv, UV_RUN_NOWAIT);
    }
    assert_int_equal(w.k.left, TOTAL);
    if (held_most > HELD_MAX)
        fail_msg("%zu bytes were held", held_most);
    ABX_AUTO_BUF got;
    receive(fd, &got, "got it");
    close(fd);
    close_world();
}

TEST(proxy_cuts_its_peer_when_the_upstream_dies_in_mid_answer)
{
    static const struct {
        const char *head, *request;
        int end;
    } rows[] = {
        {CHUNKED_ANSWER "5\r\nbegin\r\n", "GET / HTTP/1.1\r\n" HOST "\r\n", 0},
        {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegin", "GET / HTTP/1.1\r\n" HOST "\r\n",
         0},
        {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegin", "GET / HTTP/1.0\r\n\r\n", 0},
        /* the end of the connection is the end of its body */
        {CHUNKED_ANSWER "5\r\nbegin\r\n", "GET / HTTP/1.0\r\n\r\n", -ECONNRESET},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        open_world(true);
        int fd = front_peer(true);
        kit_send(&w.k, fd, abx_str(rows[i].request));
        RUN_UNTIL(&w.k.loop, w.connects == 1);
        ABX_AUTO_BUF got;
        ABX_AUTO_BUF sent;
        receive(w.raw[0], &sent, "\r\n\r\n");
        kit_send(&w.k, w.raw[0], abx_str(rows[i].head));
        receive(fd, &got, "begin");
        close(w.raw[0]);
        w.raw[0] = 0;
        assert_int_equal(kit_receive(&w.k, fd, &got, NULL), rows[i].end);
        assert_null(strstr(got.ptr, "\r\n0\r\n\r\n"));
        close(fd);
        close_world();
    }
}

TEST(proxy_cancels_the_upstream_when_its_peer_vanishes)
{
    static const char *const requests[] = {
        "GET /late HTTP/1.1\r\n" HOST "\r\n",
        "POST /late HTTP/1.1\r\n" HOST "Content-Length: 1000\r\n\r\nabc", /* in mid-upload */
        "GET /cut HTTP/1.1\r\n" HOST "\r\n",                              /* in mid-answer */
    };
    for (int is_tcp = 0; is_tcp < 2; is_tcp++)
        for (size_t i = 0; i < ABX_COUNTOF(requests); i++) {
            open_world(false);
            int fd = front_peer(is_tcp);
            kit_send(&w.k, fd, abx_str(requests[i]));
            RUN_UNTIL(&w.k.loop, w.k.held != NULL);
            close(fd);
            RUN_UNTIL(&w.k.loop, w.k.aborts == 1);
            RUN_UNTIL(&w.k.loop, abx_http_server_conns(w.front) == 0);
            close_world();
        }
}

TEST(proxy_passes_half_close_on)
{
    open_world(false);
    int fd = front_peer(true);
    kit_send(&w.k, fd, ABX_STR("GET /late-eof HTTP/1.1\r\n" HOST "\r\n"));
    shutdown(fd, SHUT_WR);
    RUN_UNTIL(&w.k.loop, w.k.eofs == 1);
    abx_http_answer(w.k.held, 200, NULL, ABX_STR("still here"));
    ABX_AUTO_BUF got;
    receive(fd, &got, "still here");
    assert_int_equal(kit_receive(&w.k, fd, &got, NULL), 0);
    close(fd);
    close_world();
}

TEST(proxy_hands_back_what_it_could_not_reach_and_may_try_again)
{
    static const char request[] = "POST /upload HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc";
    open_world(false);
    int fd = front_peer(false);
    w.refuse = 1;
    kit_expect(&w.k, fd, request, "502 Bad Gateway");
    assert_int_equal(w.error_sys, ECONNREFUSED);
    assert_int_equal(w.done, 1);
    w.done = w.requests = w.unreachable = 0;
    w.refuse = 3;
    w.retry = true;
    kit_expect(&w.k, fd, request, "\r\n\r\nabc");
    assert_int_equal(w.unreachable, 3);
    close(fd);
    close_world();
}

TEST(proxy_passes_expect_and_100_continue)
{
    open_world(false);
    int fd = front_peer(false);
    kit_expect(&w.k, fd,
               "POST /upload HTTP/1.1\r\n" HOST "Content-Length: 3\r\nExpect: 100-continue\r\n\r\n",
               "HTTP/1.1 100 Continue\r\n\r\n");
    kit_expect(&w.k, fd, "abc", "\r\n\r\nabc");
    kit_expect(&w.k, fd,
               "POST /hello HTTP/1.1\r\n" HOST "Content-Length: 3\r\nExpect: 100-continue\r\n\r\n",
               "Connection: close\r\n\r\nhello");
    close(fd);
    close_world();
}

TEST(proxy_survives_an_early_answer_to_an_upload)
{
    static char body[200000];
    open_world(false);
    int fd = front_peer(false);
    kit_expect(&w.k, fd, "POST /hello HTTP/1.1\r\n" HOST "Content-Length: 200000\r\n\r\n", "hello");
    kit_send(&w.k, fd, abx_str_n(body, sizeof(body)));
    kit_expect(&w.k, fd, "GET /hello HTTP/1.1\r\n" HOST "\r\n", "hello");
    close(fd);
    close_world();
}

static void open_tunnel(int *ret_fd, bool is_tcp)
{
    *ret_fd = front_peer(is_tcp);
    kit_send(&w.k, *ret_fd,
             ABX_STR("GET /ws HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: websocket\r\n"
                     "Sec-WebSocket-Key: k\r\n\r\nearly"));
    RUN_UNTIL(&w.k.loop, w.connects == 1);
    ABX_AUTO_BUF sent;
    receive(w.raw[0], &sent, "\r\n\r\n");
    assert_null(strstr(sent.ptr, "early")); /* not before the 101 */
    kit_send(&w.k, w.raw[0],
             ABX_STR("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n"
                     "Upgrade: websocket\r\nSec-WebSocket-Accept: a\r\n\r\nfirst"));
    ABX_AUTO_BUF got;
    receive(*ret_fd, &got, "first");
    assert_non_null(strstr(got.ptr, "Sec-WebSocket-Accept: a\r\n"));
    assert_non_null(strstr(got.ptr, "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\nfirst"));
    ABX_AUTO_BUF early;
    receive(w.raw[0], &early, "early");
}

TEST(proxy_tunnel_echoes_16_mib_and_half_closes)
{
    enum { TOTAL = 16 << 20 };
    static unsigned char out[65536], in[65536];
    for (size_t i = 0; i < sizeof(out); i++)
        out[i] = (unsigned char)(i * 7);
    open_world(true);
    int fd;
    open_tunnel(&fd, false);
    size_t sent = 0, got = 0, have = 0, echoed = 0;
    static unsigned char held[65536];
    for (int turn = 0; got < TOTAL && turn < KIT_TURNS; turn++) {
        size_t n =
            TOTAL - sent < sizeof(out) - sent % 256 ? TOTAL - sent : sizeof(out) - sent % 256;
        ssize_t r = n ? send(fd, out + sent % 256, n, MSG_NOSIGNAL) : 0;
        sent += r > 0 ? (size_t)r : 0;
        if (echoed == have) {
            r = read(w.raw[0], held, sizeof(held));
            have = r > 0 ? (size_t)r : 0;
            echoed = 0;
        }
        r = echoed < have ? send(w.raw[0], held + echoed, have - echoed, MSG_NOSIGNAL) : 0;
        echoed += r > 0 ? (size_t)r : 0;
        r = read(fd, in, sizeof(in));
        for (ssize_t i = 0; i < r; i++)
            assert_int_equal(in[i], (unsigned char)((got + (size_t)i) * 7));
        got += r > 0 ? (size_t)r : 0;
        uv_run(&w.k.loop.uv, UV_RUN_NOWAIT);
    }
    assert_int_equal(got, TOTAL);
    shutdown(fd, SHUT_WR);
    ABX_AUTO_BUF rest;
    abx_buf_init(&rest, 1 << 20);
    assert_int_equal(kit_receive(&w.k, w.raw[0], &rest, NULL), 0);
    kit_send(&w.k, w.raw[0], ABX_STR("bye"));
    shutdown(w.raw[0], SHUT_WR);
    assert_int_equal(kit_receive(&w.k, fd, &rest, NULL), 0);
    assert_non_null(strstr(rest.ptr, "bye"));
    assert_int_equal(w.done, 1);
    close(fd);
    close_world();
}

TEST(proxy_tunnel_ends_with_either_side)
{
    for (int i = 0; i < 2; i++) {
        open_world(true);
        int fd;
        open_tunnel(&fd, true);
        ABX_AUTO_BUF rest;
        abx_buf_init(&rest, 1 << 20);
        if (i == 0) {
            close(fd);
            assert_int_equal(kit_receive(&w.k, w.raw[0], &rest, NULL), 0);
            close(w.raw[0]);
            w.raw[0] = 0;
        } else {
            close(w.raw[0]);
            w.raw[0] = 0;
            kit_receive(&w.k, fd, &rest, NULL);
            close(fd);
        }
        RUN_UNTIL(&w.k.loop, w.done == 1);
        close_world();
    }
}

TEST(proxy_cut_ends_what_had_begun_and_answers_the_rest)
{
    open_world(true);
    int tunnel, plain = front_peer(true), waiting = front_peer(false);
    open_tunnel(&tunnel, true);
    kit_send(&w.k, plain, ABX_STR("GET / HTTP/1.1\r\n" HOST "\r\n"));
    RUN_UNTIL(&w.k.loop, w.connects == 2);
    ABX_AUTO_BUF begun;
    kit_send(&w.k, w.raw[1], ABX_STR(CHUNKED_ANSWER "1\r\na\r\n"));
    receive(plain, &begun, "1\r\na\r\n");
    kit_send(&w.k, waiting, ABX_STR("POST / HTTP/1.1\r\n" HOST "Content-Length: 9\r\n\r\npart"));
    RUN_UNTIL(&w.k.loop, w.connects == 3);
    abx_http_proxy_cut(w.pool, ABX_STR("nobody"));
    assert_int_equal(w.done, 0);
    abx_http_proxy_cut(w.pool, ABX_STR("up"));
    ABX_AUTO_BUF got;
    abx_buf_init(&got, 1 << 20);
    assert_int_equal(kit_receive(&w.k, tunnel, &got, NULL), -ECONNRESET);
    assert_int_equal(kit_receive(&w.k, plain, &got, NULL), 0);
    assert_int_equal(got.len, 0); /* no last chunk */
    kit_expect(&w.k, waiting, "", "502 Bad Gateway");
    assert_int_equal(w.unreachable, 1);
    RUN_UNTIL(&w.k.loop, w.done == 3);
    close(tunnel);
    close(plain);
    close(waiting);
    close_world();
}

TEST(proxy_may_end_before_its_exchanges)
{
    open_world(false);
    int fd = front_peer(false);
    kit_send(&w.k, fd, ABX_STR("GET /late HTTP/1.1\r\n" HOST "\r\n"));
    RUN_UNTIL(&w.k.loop, w.k.held != NULL);
    abx_http_pool_close(w.pool);
    w.pool = NULL;
    kit_expect(&w.k, fd, "", "502 Bad Gateway");
    close(fd);
    close_world();
}

TEST(proxy_survives_any_failed_allocation)
{
    unsigned ok = 0, failed = 0;
    open_world(false);
    for (unsigned n = 1; abx_alloc_fail(n); n++) {
        int fds[2];
        struct abx_error err;
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds),
                         0);
        abx_http_server_adopt(w.front, fds[0], 1, &err);
        static const char request[] =
            "POST /upload HTTP/1.1\r\n" HOST "Connection: close\r\nContent-Length: 3\r\n\r\nabc";
        send(fds[1], request, sizeof(request) - 1, MSG_NOSIGNAL);
        char got[1024];
        ssize_t r = -1;
        for (int turn = 0; r < 0 && turn < 100; turn++) {
            uv_run(&w.k.loop.uv, UV_RUN_NOWAIT);
            r = read(fds[1], got, sizeof(got));
        }
        assert_true(r >= 0 || errno == ECONNRESET);
        bool is_ok = r > 0 && strncmp(got, "HTTP/1.1 200", 12) == 0;
        ok += is_ok;
        failed += !is_ok;
        close(fds[1]);
        abx_http_pool_forget(w.pool, ABX_STR("up"));
        RUN_UNTIL(&w.k.loop,
                  abx_http_server_conns(w.front) + abx_http_server_conns(w.k.server) == 0);
        abx_buf_clear(&w.k.got);
    }
    assert_true(ok >= 1 && failed >= 5);
    w.requests = w.done; /* some were refused before there was an exchange */
    close_world();
}
