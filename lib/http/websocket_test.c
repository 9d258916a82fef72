/* lib/http/websocket_test.c: a raw client against the server side of a WebSocket. */
#include "lib/http/testkit_priv.h"
#include "lib/http/websocket.h"

#define HANDSHAKE                                                                                  \
    "GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"                 \
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

struct rig {
    struct abx_loop loop;
    struct abx_http_server *server;
    struct abx_ws *ws;
    struct abx_ws_options o;
    struct abx_buf log;
    int messages, drains, closes, exchanges, server_closed;
    unsigned code;
    bool pauses;
};

static void on_message(struct abx_ws *ws, const struct abx_ws_message *m)
{
    struct rig *r = abx_ws_owner(ws);
    r->messages++;
    abx_buf_put_str(&r->log, m->data);
    if (abx_str_is(m->data, "bye"))
        abx_ws_close(ws, 4001, ABX_STR("told"));
    else if (!r->pauses)
        abx_ws_send(ws, m->opcode, m->data);
    if (r->pauses)
        abx_ws_pause(ws);
}

static void on_drained(struct abx_ws *ws)
{
    ((struct rig *)abx_ws_owner(ws))->drains++;
}

static void on_close(struct abx_ws *ws, unsigned code, struct abx_str reason)
{
    struct rig *r = abx_ws_owner(ws);
    r->closes++;
    r->code = code;
    abx_buf_put_str(&r->log, reason);
    r->ws = NULL;
}

static const struct abx_ws_ops ops = {on_message, on_drained, on_close};

static void on_exchange_over(struct abx_http_req *req, bool aborted)
{
    (void)aborted;
    ((struct rig *)req->user)->exchanges++;
}

static void on_request(struct abx_http_req *req)
{
    struct rig *r = req->user;
    const char *why = "";
    int status = abx_ws_check(req, &why);
    if (status) {
        abx_http_answer(req, status, NULL, abx_str(why));
        return;
    }
    req->on_close = on_exchange_over;
    assert_int_equal(abx_ws_open(&r->loop, req, &r->o, &ops, r, &r->ws, NULL), 0);
}

static int rig_connect(struct rig *r)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    assert_int_equal(abx_http_server_adopt(r->server, fds[0], 0, NULL), 0);
    return fds[1];
}

static void rig_open(struct rig *r)
{
    *r = (struct rig){0};
    struct abx_http_server_options http = {.on_request = on_request, .user = r};
    assert_int_equal(abx_loop_init(&r->loop, NULL), 0);
    assert_int_equal(abx_http_server_open(&r->loop, &http, &r->server, NULL), 0);
    abx_buf_init(&r->log, 1 << 20);
}

static void on_server_closed(void *arg)
{
    ((struct rig *)arg)->server_closed++;
}

static void rig_close(struct rig *r)
{
    abx_http_server_close(r->server, true, on_server_closed, r);
    RUN_UNTIL(&r->loop, r->server_closed);
    abx_loop_run(&r->loop);
    abx_loop_done(&r->loop);
    abx_buf_done(&r->log);
}

static void put(struct rig *r, int fd, const void *data, size_t len)
{
    const char *p = data;
    for (int turn = 0; len; turn++) {
        assert_true(turn < KIT_TURNS);
        ssize_t n = send(fd, p, len, MSG_NOSIGNAL);
        if (n > 0) {
            p += n;
            len -= (size_t)n;
        }
        uv_run(&r->loop.uv, UV_RUN_NOWAIT);
    }
}

static void put_frame(struct rig *r, int fd, enum abx_ws_opcode opcode, struct abx_str data)
{
    static const unsigned char mask[] = {9, 8, 7, 6};
    ABX_AUTO_BUF out;
    abx_buf_init(&out, 4 << 20);
    abx_ws_write(&out, opcode, data, mask);
    put(r, fd, out.ptr, out.len);
}

/* Reads until @len bytes came or EOF; what came. */
static size_t get(struct rig *r, int fd, char *to, size_t len)
{
    size_t n = 0;
    for (int turn = 0; n < len; turn++) {
        assert_true(turn < KIT_TURNS);
        uv_run(&r->loop.uv, UV_RUN_NOWAIT);
        ssize_t got = read(fd, to + n, len - n);
        if (got == 0)
            break;
        if (got > 0)
            n += (size_t)got;
    }
    return n;
}

static void expect(struct rig *r, int fd, const char *bytes, size_t len)
{
    char got[512];
    size_t n = get(r, fd, got, len);
    assert_int_equal(n, len);
    assert_memory_equal(got, bytes, len);
}
#define EXPECT(r, fd, text) expect(r, fd, text, sizeof(text) - 1)

static int shake_hands(struct rig *r)
{
    int fd = rig_connect(r);
    put(r, fd, HANDSHAKE, sizeof(HANDSHAKE) - 1);
    EXPECT(r, fd,
           "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
           "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n");
    return fd;
}

TEST(messages_go_both_ways_and_the_peer_closes)
{
    struct rig r;
    rig_open(&r);
    int fd = shake_hands(&r);
    put_frame(&r, fd, ABX_WS_TEXT, ABX_STR("hello"));
    EXPECT(&r, fd, "\x81\x05hello");
    put_frame(&r, fd, ABX_WS_PING, ABX_STR("p"));
    EXPECT(&r, fd, "\x8A\x01p");
    put_frame(&r, fd, ABX_WS_CLOSE, ABX_STR("\x03\xE8"));
    EXPECT(&r, fd, "\x88\x02\x03\xE8");
    char more;
    assert_int_equal(get(&r, fd, &more, 1), 0);
    RUN_UNTIL(&r.loop, r.exchanges == 1);
    assert_int_equal(r.closes, 1);
    assert_int_equal(r.code, ABX_WS_NORMAL);
    close(fd);
    rig_close(&r);
}

TEST(our_close_waits_for_the_peers)
{
    struct rig r;
    rig_open(&r);
    int fd = shake_hands(&r);
    put_frame(&r, fd, ABX_WS_TEXT, ABX_STR("bye"));
    EXPECT(&r, fd, "\x88\x06\x0F\xA1told");
    put_frame(&r, fd, ABX_WS_TEXT, ABX_STR("late"));
    assert_int_equal(r.messages, 1);
    assert_int_equal(r.closes, 0);
    put_frame(&r, fd, ABX_WS_CLOSE, ABX_STR("\x0F\xA1"));
    RUN_UNTIL(&r.loop, r.closes == 1);
    assert_int_equal(r.code, 4001);
    close(fd);
    rig_close(&r);
}

TEST(what_breaks_the_protocol_is_told_its_code)
{
    struct rig r;
    rig_open(&r);
    r.o.max_message = 10;
    int fd = shake_hands(&r);
    put_frame(&r, fd, ABX_WS_TEXT, ABX_STR("eleven bytes"));
    EXPECT(&r, fd, "\x88"); /* and the reason */
    char code[3];
    assert_int_equal(get(&r, fd, code, 3), 3);
    assert_int_equal((unsigned char)code[1] << 8 | (unsigned char)code[2], ABX_WS_TOO_LARGE);
    close(fd);
    RUN_UNTIL(&r.loop, r.closes == 1);
    assert_int_equal(r.code, ABX_WS_TOO_LARGE);
    rig_close(&r);
}

TEST(a_paused_peer_waits_and_loses_nothing)
{
    struct rig r;
    rig_open(&r);
    r.pauses = true;
    int fd = shake_hands(&r);
    for (int i = 0; i < 3; i++)
        put_frame(&r, fd, ABX_WS_TEXT, ABX_STR("ab"));
    RUN_UNTIL(&r.loop, r.messages == 1);
    for (int i = 0; i < 100; i++)
        uv_run(&r.loop.uv, UV_RUN_NOWAIT);
    assert_int_equal(r.messages, 1);
    for (int i = 2; i <= 3; i++) {
        abx_ws_resume(r.ws);
        RUN_UNTIL(&r.loop, r.messages == i);
    }
    assert_string_equal(r.log.ptr, "ababab");
    abx_ws_resume(r.ws);
    close(fd);
    RUN_UNTIL(&r.loop, r.closes == 1);
    assert_int_equal(r.code, ABX_WS_ABNORMAL);
    rig_close(&r);
}

TEST(a_slow_reader_fills_the_queue_until_it_reads)
{
    static char block[65536];
    struct rig r;
    rig_open(&r);
    int fd = shake_hands(&r), sent = 0;
    while (abx_ws_send(r.ws, ABX_WS_BINARY, abx_str_n(block, sizeof(block))))
        assert_true(++sent < 1000);
    assert_int_equal(r.drains, 0);
    size_t left = ((size_t)sent + 1) * (sizeof(block) + 10);
    while (left) {
        size_t n = get(&r, fd, block, left < sizeof(block) ? left : sizeof(block));
        left -= n;
    }
    RUN_UNTIL(&r.loop, r.drains == 1);
    close(fd);
    RUN_UNTIL(&r.loop, r.closes == 1);
    rig_close(&r);
}

TEST(a_peer_that_answers_no_ping_is_gone)
{
    struct rig r;
    rig_open(&r);
    r.o.ping_ms = 5;
    int fd = shake_hands(&r);
    EXPECT(&r, fd, "\x89\x00");
    put_frame(&r, fd, ABX_WS_PONG, ABX_STR(""));
    EXPECT(&r, fd, "\x89\x00");
    RUN_UNTIL(&r.loop, r.closes == 1);
    assert_int_equal(r.code, ABX_WS_ABNORMAL);
    close(fd);
    rig_close(&r);
}

static const struct {
    const char *request, *status;
} refused[] = {
    {"GET /ws HTTP/1.1\r\nHost: x\r\n\r\n", "426"},
    {"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n", "426"},
    {"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
     "Sec-WebSocket-Version: 8\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
     "426"},
    {"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
     "Sec-WebSocket-Version: 13\r\n\r\n",
     "400"},
    {"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
     "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short\r\n\r\n",
     "400"},
    {"POST /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
     "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
     "400"},
};

TEST(what_is_no_handshake_is_refused)
{
    struct rig r;
    rig_open(&r);
    for (size_t i = 0; i < ABX_COUNTOF(refused); i++) {
        char got[12];
        int fd = rig_connect(&r);
        put(&r, fd, refused[i].request, strlen(refused[i].request));
        assert_int_equal(get(&r, fd, got, sizeof(got)), sizeof(got));
        assert_memory_equal(got + 9, refused[i].status, 3);
        close(fd);
    }
    assert_int_equal(r.closes, 0);
    rig_close(&r);
}
