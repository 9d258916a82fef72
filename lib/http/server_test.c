/* lib/http/server_test.c: the server against a raw peer. */
#include "lib/http/testkit_priv.h"
#include "tests/unit/alloc.h"

#include <sys/resource.h>
#include <time.h>

#include "lib/base/banned.h"

#define HOST "Host: h\r\n"

static struct kit k;
static const struct abx_http_server_options defaults;

static struct abx_buf receive_all(int fd, int *ret_end)
{
    struct abx_buf got;
    abx_buf_init(&got, 64 << 20);
    *ret_end = kit_receive(&k, fd, &got, NULL);
    return got;
}

TEST(server_answers_and_keeps_the_connection)
{
    kit_open(&k, defaults);
    int fd = kit_connect(&k);
    for (int i = 0; i < 3; i++)
        kit_expect(&k, fd, "GET /hello?x=1 HTTP/1.1\r\n" HOST "\r\n",
                   "X-Kit: yes\r\nContent-Length: 5\r\n\r\nhello");
    assert_int_equal(k.closes, 3);
    assert_int_equal(k.aborts, 0);
    char date[64]; /* as strftime() has it in the C locale */
    time_t now = time(NULL);
    strftime(date, sizeof(date), "Date: %a, %d %b %Y %H:", gmtime(&now));
    kit_expect(&k, fd, "GET /hello HTTP/1.1\r\n" HOST "\r\n", date);
    close(fd);
    RUN_UNTIL(&k.loop, abx_http_server_conns(k.server) == 0);
    kit_close(&k);
}

TEST(server_reads_heads_split_at_every_byte)
{
    static const char request[] =
        "POST /upload HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    kit_open(&k, defaults);
    for (size_t at = 1; at < sizeof(request) - 1; at++) {
        int fd = kit_connect(&k);
        kit_send(&k, fd, abx_str_n(request, at));
        kit_expect(&k, fd, request + at, "Content-Length: 3\r\n\r\nabc");
        close(fd);
    }
    kit_close(&k);
}

TEST(server_answers_pipelined_requests_in_order)
{
    kit_open(&k, defaults);
    int fd = kit_connect(&k);
    kit_send(&k, fd,
             ABX_STR("GET /late HTTP/1.1\r\n" HOST "\r\n"
                     "POST /upload HTTP/1.1\r\n" HOST "Content-Length: 4\r\n\r\nbody"
                     "GET /gone HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n"));
    RUN_UNTIL(&k.loop, k.held != NULL);
    for (int i = 0; i < 50; i++)
        uv_run(&k.loop.uv, UV_RUN_NOWAIT);
    assert_int_equal(k.requests, 1);
    abx_http_answer(k.held, 200, NULL, ABX_STR("first"));
    assert_int_equal(k.closes, 0); /* no callback from inside a call */
    int end;
    ABX_AUTO_BUF got = receive_all(fd, &end);
    assert_int_equal(end, 0);
    const char *a = strstr(got.ptr, "\r\n\r\nfirst"), *b = strstr(got.ptr, "\r\n\r\nbody"),
               *c = strstr(got.ptr, "404 Not Found");
    assert_true(a && b && c && a < b && b < c);
    close(fd);
    kit_close(&k);
}

TEST(server_holds_a_bounded_amount_of_pipelined_input)
{
    kit_open(&k, defaults);
    int fd = kit_connect(&k);
    kit_send(&k, fd, ABX_STR("GET /late HTTP/1.1\r\n" HOST "\r\n"));
    RUN_UNTIL(&k.loop, k.held != NULL);
    static const char more[] = "GET /hello HTTP/1.1\r\n" HOST "\r\n";
    size_t sent = 0;
    int blocked = 0;
    for (int i = 0; i < 200000 && blocked < 100; i++) {
        ssize_t n = send(fd, more + sent % (sizeof(more) - 1),
                         sizeof(more) - 1 - sent % (sizeof(more) - 1), MSG_NOSIGNAL);
        blocked = n < 0 ? blocked + 1 : 0;
        sent += n > 0 ? (size_t)n : 0;
        uv_run(&k.loop.uv, UV_RUN_NOWAIT);
    }
    assert_int_equal(blocked, 100);
    assert_true(sent < 1 << 20);
    abx_http_answer(k.held, 200, NULL, ABX_STR("first"));
    ABX_AUTO_BUF got;
    abx_buf_init(&got, 64 << 20);
    int whole = (int)(sent / (sizeof(more) - 1));
    for (int i = 0; k.requests < 1 + whole && i < 10000; i++) {
        abx_buf_clear(&got);
        kit_receive(&k, fd, &got, "hello");
    }
    assert_int_equal(k.requests, 1 + whole);
    close(fd);
    kit_close(&k);
}

TEST(server_streams_an_echo_with_back_pressure)
{
    enum { TOTAL = 24 << 20 };
    static char block[65536], in[65536];
    kit_open(&k, defaults);
    int fd = kit_connect(&k);
    kit_send(&k, fd, ABX_STR("POST /stream HTTP/1.1\r\n" HOST "Content-Length: 25165824\r\n\r\n"));
    size_t sent = 0, got = 0, stuck = 0;
    while (sent < TOTAL && stuck < 1000) { /* a peer that does not read must be stopped */
        ssize_t n = send(fd, block, sizeof(block), MSG_NOSIGNAL);
        stuck = n > 0 ? 0 : stuck + 1;
        sent += n > 0 ? (size_t)n : 0;
        uv_run(&k.loop.uv, UV_RUN_NOWAIT);
    }
    assert_true(sent < 2 << 20);
    bool ended = false;
    for (int turn = 0; !ended && turn < KIT_TURNS; turn++) {
        size_t n = TOTAL - sent < sizeof(block) ? TOTAL - sent : sizeof(block);
        ssize_t w = n ? send(fd, block, n, MSG_NOSIGNAL) : 0;
        sent += w > 0 ? (size_t)w : 0;
        ssize_t r = read(fd, in, sizeof(in));
        got += r > 0 ? (size_t)r : 0;
        ended = r >= 5 && memcmp(in + r - 5, "0\r\n\r\n", 5) == 0;
        uv_run(&k.loop.uv, UV_RUN_NOWAIT);
    }
    assert_true(ended);
    assert_true(got > TOTAL);
    close(fd);
    kit_close(&k);
}

TEST(server_waits_for_a_slow_reader)
{
    static char in[65536];
    kit_open(&k, defaults);
    k.total = 32 << 20;
    int fd = kit_connect(&k);
    kit_send(&k, fd, ABX_STR("GET /big HTTP/1.1\r\n" HOST "\r\n"));
    for (int i = 0; i < 1000; i++)
        uv_run(&k.loop.uv, UV_RUN_NOWAIT);
    assert_true(k.left > (size_t)31 << 20);
    size_t got = 0;
    for (int turn = 0; k.closes == 0 && turn < KIT_TURNS; turn++) {
        ssize_t r = read(fd, in, sizeof(in));
        got += r > 0 ? (size_t)r : 0;
        uv_run(&k.loop.uv, UV_RUN_NOWAIT);
    }
    assert_int_equal(k.closes, 1);
    assert_int_equal(k.aborts, 0);
    assert_true(got > (size_t)31 << 20);
    close(fd);
    kit_close(&k);
}

/* A connection over TCP, where a reset differs from an end. */
static int connect_tcp(void)
{
    uint16_t port;
    struct abx_error err;
    assert_int_equal(abx_http_server_listen(k.server, kit_listen_tcp(&port), 3, &err), 0);
    return kit_connect_tcp(port);
}

/* What is cut of /cut, which a peer may still be sending to: the end of the stream, and all of what
 * had been written before it. */
TEST(server_cuts_are_never_a_clean_end)
{
    static const struct {
        const char *request;
        int end;
    } rows[] = {
        {"GET /cut HTTP/1.1\r\n" HOST "\r\n", 0},
        {"POST /cut HTTP/1.1\r\n" HOST "Content-Length: 1000000\r\n\r\n", 0},
        /* the end of the connection is the end of its body */
        {"GET /cut HTTP/1.0\r\n\r\n", -ECONNRESET},
        /* nothing was said: a client would send it again */
        {"GET /late HTTP/1.1\r\n" HOST "\r\n", -ECONNRESET},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        kit_open(&k, defaults);
        int fd = connect_tcp();
        ABX_AUTO_BUF got;
        abx_buf_init(&got, 1 << 20);
        kit_send(&k, fd, abx_str(rows[i].request));
        RUN_UNTIL(&k.loop, k.held != NULL);
        if (rows[i].request[0] == 'P') /* unread when the cut comes, and more of it after */
            assert_int_equal(send(fd, "unread", 6, MSG_NOSIGNAL), 6);
        abx_http_abort(k.held);
        RUN_UNTIL(&k.loop, k.aborts == 1); /* the exchange does not wait for its peer */
        if (rows[i].request[0] == 'P')
            assert_int_equal(send(fd, "late", 4, MSG_NOSIGNAL), 4);
        assert_int_equal(kit_receive(&k, fd, &got, NULL), rows[i].end);
        if (rows[i].end == 0)
            assert_non_null(strstr(got.ptr, "\r\n5\r\nbegin\r\n"));
        assert_true(got.len == 0 || strstr(got.ptr, "0\r\n\r\n") == NULL);
        close(fd);
        kit_close(&k);
    }
}

TEST(server_ends_a_declared_length_that_was_not_reached)
{
    kit_open(&k, defaults);
    int fd = connect_tcp();
    ABX_AUTO_BUF got;
    abx_buf_init(&got, 1 << 20);
    kit_send(&k, fd, ABX_STR("GET /short HTTP/1.1\r\n" HOST "\r\n"));
    assert_int_equal(kit_receive(&k, fd, &got, NULL), 0);
    assert_non_null(strstr(got.ptr, "Content-Length: 10\r\n"));
    assert_non_null(strstr(got.ptr, "\r\n\r\nonly"));
    assert_int_equal(k.aborts, 1);
    close(fd);
    kit_close(&k);
}

/* Neither holds on to a connection that was cut: who does not read, and who does not stop sending.
 */
TEST(server_lets_go_of_a_peer_that_outlives_a_cut)
{
    static const char *const requests[] = {"GET /big HTTP/1.1\r\n" HOST "\r\n",
                                           "POST /cut HTTP/1.1\r\n" HOST
                                           "Transfer-Encoding: chunked\r\n\r\n"};
    static const char block[16384];
    for (size_t i = 0; i < ABX_COUNTOF(requests); i++) {
        kit_open(&k, defaults);
        k.total = 64 << 20;
        int fd = connect_tcp();
        kit_send(&k, fd, abx_str(requests[i]));
        RUN_UNTIL(&k.loop, k.held != NULL);
        for (int turn = 0; turn < 200; turn++)
            uv_run(&k.loop.uv, UV_RUN_NOWAIT);
        abx_http_abort(k.held);
        uint64_t from = uv_hrtime(), guard = from + 20 * UINT64_C(1000000000);
        while (abx_http_server_conns(k.server) && uv_hrtime() < guard) {
            if (i == 1 && send(fd, block, sizeof(block), MSG_NOSIGNAL) < 0)
                assert_true(errno == EAGAIN || errno == EPIPE || errno == ECONNRESET);
            uv_run(&k.loop.uv, UV_RUN_NOWAIT);
        }
        assert_int_equal(abx_http_server_conns(k.server), 0);
        assert_int_equal(k.aborts, 1);
        close(fd);
        kit_close(&k);
    }
}

TEST(server_hears_of_a_vanished_peer)
{
    static const char *const requests[] = {
        "GET /late HTTP/1.1\r\n" HOST "\r\n",
        "GET /late HTTP/1.1\r\n" HOST "\r\nGET /hello HTTP/1.1\r\n" HOST "\r\n", /* paused */
        "POST /late HTTP/1.1\r\n" HOST "Content-Length: 9\r\n\r\nabc",
        "GET /cut HTTP/1.1\r\n" HOST "\r\n",
    };
    for (size_t i = 0; i < ABX_COUNTOF(requests); i++) {
        kit_open(&k, defaults);
        uint16_t port;
        struct abx_error err;
        assert_int_equal(abx_http_server_listen(k.server, kit_listen_tcp(&port), 3, &err), 0);
        int fd = kit_connect_tcp(port);
        kit_send(&k, fd, abx_str(requests[i]));
        RUN_UNTIL(&k.loop, k.held != NULL);
        for (int turn = 0; turn < 20; turn++)
            uv_run(&k.loop.uv, UV_RUN_NOWAIT);
        assert_int_equal(k.closes, 0);
        close(fd);
        RUN_UNTIL(&k.loop, k.aborts == 1);
        assert_int_equal(k.requests, 1);
        kit_close(&k);
    }
}

TEST(server_serves_a_half_closed_peer_when_the_handler_wants_that)
{
    kit_open(&k, defaults);
    int fd = kit_connect(&k);
    kit_send(&k, fd, ABX_STR("GET /late-eof HTTP/1.1\r\n" HOST "\r\n"));
    shutdown(fd, SHUT_WR);
    RUN_UNTIL(&k.loop, k.eofs == 1);
    abx_http_answer(k.held, 200, NULL, ABX_STR("still here"));
    int end;
    ABX_AUTO_BUF got = receive_all(fd, &end);
    assert_int_equal(end, 0);
    assert_non_null(strstr(got.ptr, "still here"));
    close(fd);
    fd = kit_connect(&k); /* a full close of a unix socket is told all the same */
    kit_send(&k, fd, ABX_STR("GET /late-eof HTTP/1.1\r\n" HOST "\r\n"));
    close(fd);
    RUN_UNTIL(&k.loop, k.aborts == 1);
    kit_close(&k);
}

TEST(server_tells_a_cut_upload_from_a_half_close_while_paused)
{
    static const struct {
        const char *request;
        int aborts;
    } rows[] = {
        {"POST /late-eof HTTP/1.1\r\n" HOST "Content-Length: 9\r\n\r\n", 1},
        {"POST /late-eof HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n", 1},
        {"POST /late-eof HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\n", 0},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        kit_open(&k, defaults);
        uint16_t port;
        struct abx_error err;
        assert_int_equal(abx_http_server_listen(k.server, kit_listen_tcp(&port), 3, &err), 0);
        int fd = kit_connect_tcp(port);
        kit_send(&k, fd, abx_str(rows[i].request));
        RUN_UNTIL(&k.loop, k.held != NULL);
        abx_http_pause_body(k.held);
        if (rows[i].request[strlen(rows[i].request) - 5] != 'd')
            kit_send(&k, fd, ABX_STR("abc"));
        shutdown(fd, SHUT_WR);
        for (int turn = 0; turn < 50; turn++)
            uv_run(&k.loop.uv, UV_RUN_NOWAIT);
        assert_int_equal(k.aborts, rows[i].aborts);
        if (k.held) {
            abx_http_resume_body(k.held);
            RUN_UNTIL(&k.loop, k.eofs == 1);
        }
        close(fd);
        kit_close(&k);
    }
}

TEST(server_discards_a_small_unwanted_body_and_goes_on)
{
    static char body[200000];
    kit_open(&k, defaults);
    int fd = kit_connect(&k);
    kit_expect(&k, fd, "POST /hello HTTP/1.1\r\n" HOST "Content-Length: 200000\r\n\r\n", "hello");
    kit_send(&k, fd, abx_str_n(body, sizeof(body)));
    kit_expect(&k, fd, "GET /hello HTTP/1.1\r\n" HOST "\r\n", "hello");
    close(fd);
    kit_close(&k);
}

TEST(server_ends_after_the_answer_to_a_large_unwanted_body)
{
    static char body[1 << 20];
    kit_open(&k, defaults);
    uint16_t port;
    struct abx_error err;
    assert_int_equal(abx_http_server_listen(k.server, kit_listen_tcp(&port), 3, &err), 0);
    int fd = kit_connect_tcp(port);
    kit_send(&k, fd, ABX_STR("POST /hello HTTP/1.1\r\n" HOST "Content-Length: 1048576\r\n\r\n"));
    kit_send(&k, fd, abx_str_n(body, sizeof(body)));
    int end;
    ABX_AUTO_BUF got = receive_all(fd, &end);
    assert_int_equal(end, 0); /* not a reset: the peer must be able to read the answer */
    assert_non_null(strstr(got.ptr, "hello"));
    close(fd);
    RUN_UNTIL(&k.loop, abx_http_server_conns(k.server) == 0);
    kit_close(&k);
}

TEST(server_refuses_what_smuggles_and_closes)
{
    static const struct {
        const char *request, *status;
    } rows[] = {
        {"GET / HTTP/1.1\r\n\r\n", "400"},
        {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400"},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
         "400"},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", "400"},
        {"GET / HTTP/1.1\r\n" HOST "X: a\r\n b\r\n\r\n", "400"},
        {"GET / HTTP/1.1\nHost: h\n\n", "400"},
        {"GET / HTTP/1.1\r\nHost : h\r\n\r\n", "400"},
        {"GET / HTTP/1.1\r\n" HOST "X: \x01\r\n\r\n", "400"},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n", "501"},
        {"POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n", "400"},
        {"GET / HTTP/2.0\r\n" HOST "\r\n", "505"},
        {"\x16\x03\x01\x02", "400"},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        kit_open(&k, defaults);
        int fd = kit_connect(&k);
        kit_send(&k, fd, abx_str(rows[i].request));
        static const char next[] = "GET /hello HTTP/1.1\r\n" HOST "\r\n";
        send(fd, next, sizeof(next) - 1, MSG_NOSIGNAL);
        int end;
        ABX_AUTO_BUF got = receive_all(fd, &end);
        assert_int_equal(end, 0);
        if (strncmp(got.ptr + 9, rows[i].status, 3) != 0 || strstr(got.ptr, "hello"))
            fail_msg("row %zu: %s", i, got.ptr);
        assert_non_null(strstr(got.ptr, "Connection: close"));
        assert_non_null(strstr(got.ptr, "\r\n\r\n{\"code\":"));
        assert_int_equal(k.requests, 0);
        close(fd);
        kit_close(&k);
    }
}

TEST(server_refuses_a_bad_chunk_in_mid_body)
{
    kit_open(&k, defaults);
    int fd = kit_connect(&k);
    kit_send(&k, fd,
             ABX_STR("POST /upload HTTP/1.1\r\n" HOST
                     "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n"));
    int end;
    ABX_AUTO_BUF got = receive_all(fd, &end);
    assert_int_equal(strncmp(got.ptr, "HTTP/1.1 400 ", 13), 0);
    assert_int_equal(k.bodies, 0);
    assert_int_equal(k.aborts, 1);
    close(fd);
    kit_close(&k);
}

TEST(server_sends_100_continue_only_when_the_body_is_wanted)
{
    kit_open(&k, defaults);
    int fd = kit_connect(&k);
    kit_expect(&k, fd,
               "POST /upload HTTP/1.1\r\n" HOST "Content-Length: 3\r\nExpect: 100-continue\r\n\r\n",
               "HTTP/1.1 100 Continue\r\n\r\n");
    kit_expect(&k, fd, "abc", "\r\n\r\nabc");
    kit_send(&k, fd,
             ABX_STR("POST /hello HTTP/1.1\r\n" HOST
                     "Content-Length: 3\r\nExpect: 100-continue\r\n\r\n"));
    int end;
    ABX_AUTO_BUF got = receive_all(fd, &end);
    assert_null(strstr(got.ptr, "100 Continue"));
    assert_non_null(strstr(got.ptr, "Connection: close"));
    close(fd);
    kit_close(&k);
}

TEST(server_frames_by_method_version_and_status)
{
    static const struct {
        const char *request, *has, *has_not;
    } rows[] = {
        {"HEAD /hello HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", "Content-Length: 5\r\n",
         "\r\n\r\nhello"},
        {"GET /empty HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", "204 No Content",
         "Content-Length"},
        {"POST /stream HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc", "\r\n\r\nabc",
         "Transfer-Encoding"},
        {"GET /hello HTTP/1.0\r\n\r\n", "Connection: close\r\n", "keep-alive"},
        {"GET http://h/hello HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", "\r\n\r\nhello",
         "404"},
        {"GET /evil HTTP/1.1\r\n" HOST "\r\n", "500 Internal Server Error", "X-C"},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        kit_open(&k, defaults);
        int fd = kit_connect(&k);
        kit_send(&k, fd, abx_str(rows[i].request));
        int end;
        ABX_AUTO_BUF got = receive_all(fd, &end);
        assert_int_equal(end, 0);
        if (!strstr(got.ptr, rows[i].has) || strstr(got.ptr, rows[i].has_not))
            fail_msg("row %zu: %s", i, got.ptr);
        close(fd);
        kit_close(&k);
    }
    kit_open(&k, defaults);
    int fd = kit_connect(&k);
    for (int i = 0; i < 2; i++)
        kit_expect(&k, fd, "GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "keep-alive");
    close(fd);
    kit_close(&k);
}

TEST(server_times_out_slow_heads_and_idle_connections)
{
    kit_open(&k, (struct abx_http_server_options){.head_timeout_ms = 60, .idle_timeout_ms = 40});
    int idle = kit_connect(&k), slow = kit_connect(&k);
    kit_send(&k, slow, ABX_STR("GET /hello HT"));
    for (int i = 0; abx_http_server_conns(k.server) > 1 && i < 1000; i++)
        uv_run(&k.loop.uv, UV_RUN_ONCE);
    char c;
    assert_int_equal(read(idle, &c, 1), 0);
    char answer[1024];
    ssize_t n = -1;
    for (int i = 0; n < 0 && i < 1000; i++) {
        n = read(slow, answer, sizeof(answer) - 1);
        if (n < 0)
            uv_run(&k.loop.uv, UV_RUN_ONCE);
    }
    assert_true(n > 0);
    answer[n] = '\0';
    assert_int_equal(strncmp(answer, "HTTP/1.1 408 ", 13), 0);
    close(idle);
    close(slow);
    kit_close(&k);
}

TEST(server_pauses_accepting_at_its_limit)
{
    kit_open(&k, (struct abx_http_server_options){.max_conns = 2});
    uint16_t port;
    struct abx_error err;
    assert_int_equal(abx_http_server_listen(k.server, kit_listen_tcp(&port), 3, &err), 0);
    int fds[3];
    for (int i = 0; i < 3; i++)
        fds[i] = kit_connect_tcp(port);
    for (int i = 0; i < 50; i++)
        uv_run(&k.loop.uv, UV_RUN_NOWAIT);
    assert_int_equal(abx_http_server_conns(k.server), 2);
    close(fds[0]);
    kit_expect(&k, fds[2], "GET /hello HTTP/1.1\r\n" HOST "\r\n", "hello");
    close(fds[1]);
    close(fds[2]);
    kit_close(&k);
}

/* Two at work, one more. */
TEST(server_turns_away_beyond_its_limit_where_it_shall)
{
    static const char late[] = "GET /late HTTP/1.1\r\n" HOST "\r\n";
    kit_open(&k, (struct abx_http_server_options){.max_conns = 2, .turns_away = true});
    uint16_t port;
    struct abx_error err;
    char answer[1024] = {0};
    assert_int_equal(abx_http_server_listen(k.server, kit_listen_tcp(&port), 3, &err), 0);
    int fds[3];
    for (int i = 0; i < 2; i++) {
        fds[i] = kit_connect_tcp(port);
        kit_send(&k, fds[i], ABX_STR(late));
        RUN_UNTIL(&k.loop, k.requests == i + 1);
    }
    fds[2] = kit_connect_tcp(port);
    RUN_UNTIL(&k.loop, recv(fds[2], answer, sizeof(answer) - 1, MSG_DONTWAIT | MSG_PEEK) > 0);
    assert_true(recv(fds[2], answer, sizeof(answer) - 1, 0) > 0);
    assert_memory_equal(answer, "HTTP/1.1 503 ", 13);
    assert_non_null(strstr(answer, "Connection: close\r\n"));
    close(fds[2]);
    RUN_UNTIL(&k.loop, abx_http_server_conns(k.server) == 2);
    close(fds[1]);
    RUN_UNTIL(&k.loop, abx_http_server_conns(k.server) == 1);
    fds[1] = kit_connect_tcp(port);
    kit_expect(&k, fds[1], "GET /hello HTTP/1.1\r\n" HOST "\r\n", "hello");
    close(fds[0]);
    close(fds[1]);
    kit_close(&k);
}

static bool is_ended(int fd)
{
    char byte;
    ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
    return n == 0 || (n < 0 && errno == ECONNRESET);
}

/* First who never asked for anything, be it in the midst of a head; then who came first. */
TEST(server_beyond_its_limit_lets_go_of_who_asks_for_nothing)
{
    static const char hello[] = "GET /hello HTTP/1.1\r\n" HOST "\r\n";
    kit_open(&k, (struct abx_http_server_options){.max_conns = 2, .turns_away = true});
    uint16_t port;
    struct abx_error err;
    assert_int_equal(abx_http_server_listen(k.server, kit_listen_tcp(&port), 3, &err), 0);
    int asked = kit_connect_tcp(port);
    kit_expect(&k, asked, hello, "hello");
    int slow = kit_connect_tcp(port);
    kit_send(&k, slow, ABX_STR("GET /hello HTTP/1.1\r\nX: "));
    RUN_UNTIL(&k.loop, abx_http_server_conns(k.server) == 2);
    int next = kit_connect_tcp(port);
    kit_expect(&k, next, hello, "hello");
    RUN_UNTIL(&k.loop, is_ended(slow));
    kit_expect(&k, asked, hello, "hello");
    int last = kit_connect_tcp(port);
    kit_expect(&k, last, hello, "hello");
    RUN_UNTIL(&k.loop, is_ended(asked));
    assert_false(is_ended(next));
    close(asked);
    close(slow);
    close(next);
    close(last);
    kit_close(&k);
}

TEST(server_ends_who_never_says_anything)
{
    kit_open(&k, (struct abx_http_server_options){.first_timeout_ms = 40});
    int fd = kit_connect(&k);
    char byte;
    RUN_UNTIL(&k.loop, abx_http_server_conns(k.server) == 0);
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    close(fd);
    kit_close(&k);
}

TEST(server_survives_running_out_of_descriptors)
{
    kit_open(&k, defaults);
    uint16_t port;
    struct abx_error err;
    assert_int_equal(abx_http_server_listen(k.server, kit_listen_tcp(&port), 3, &err), 0);
    int fd = kit_connect_tcp(port);
    struct rlimit old, low;
    getrlimit(RLIMIT_NOFILE, &old);
    low = old;
    low.rlim_cur = (rlim_t)fd + 1;
    setrlimit(RLIMIT_NOFILE, &low);
    for (int i = 0; i < 20; i++)
        uv_run(&k.loop.uv, UV_RUN_NOWAIT);
    assert_int_equal(abx_http_server_conns(k.server), 0);
    setrlimit(RLIMIT_NOFILE, &old);
    kit_send(&k, fd, ABX_STR("GET /hello HTTP/1.1\r\n" HOST "\r\n"));
    for (int i = 0; k.requests == 0 && i < 1000; i++) /* the back-off is a timer */
        uv_run(&k.loop.uv, UV_RUN_ONCE);
    assert_int_equal(k.requests, 1);
    close(fd);
    kit_close(&k);
}

TEST(server_lets_exchanges_finish_when_it_closes_gently)
{
    kit_open(&k, defaults);
    int idle = kit_connect(&k), busy = kit_connect(&k);
    kit_send(&k, busy, ABX_STR("GET /late HTTP/1.1\r\n" HOST "\r\n"));
    RUN_UNTIL(&k.loop, k.held != NULL);
    abx_http_server_close(k.server, false, kit_on_closed, &k);
    RUN_UNTIL(&k.loop, abx_http_server_conns(k.server) == 1);
    assert_int_equal(k.servers_closed, 0);
    abx_http_answer(k.held, 200, NULL, ABX_STR("bye"));
    int end;
    ABX_AUTO_BUF got = receive_all(busy, &end);
    assert_non_null(strstr(got.ptr, "Connection: close"));
    assert_non_null(strstr(got.ptr, "bye"));
    close(idle);
    close(busy);
    k.server = NULL;
    abx_loop_run(&k.loop);
    abx_buf_done(&k.got);
    assert_int_equal(k.servers_closed, 1);
    abx_loop_done(&k.loop);
}

TEST(server_holds_two_thousand_connections)
{
    enum { COUNT = 2000 };
    static int fds[COUNT];
    struct rlimit old, high;
    getrlimit(RLIMIT_NOFILE, &old);
    high = old;
    high.rlim_cur = old.rlim_max < 8192 ? old.rlim_max : 8192;
    setrlimit(RLIMIT_NOFILE, &high);
    if (high.rlim_cur < 2 * COUNT + 100) {
        print_message("only %lu descriptors: skipped\n", (unsigned long)high.rlim_cur);
        skip();
    }
    kit_open(&k, (struct abx_http_server_options){.max_conns = COUNT + 1});
    for (int i = 0; i < COUNT; i++)
        fds[i] = kit_connect(&k);
    static const char request[] = "GET /hello HTTP/1.1\r\n" HOST "\r\n";
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(send(fds[i], request, sizeof(request) - 1, MSG_NOSIGNAL),
                             sizeof(request) - 1);
        RUN_UNTIL(&k.loop, k.closes == (round + 1) * COUNT);
        char answer[512];
        for (int i = 0; i < COUNT; i++)
            assert_true(read(fds[i], answer, sizeof(answer)) > 5);
    }
    for (int i = 0; i < COUNT; i++)
        close(fds[i]);
    RUN_UNTIL(&k.loop, abx_http_server_conns(k.server) == 0);
    kit_close(&k);
    setrlimit(RLIMIT_NOFILE, &old);
}

/* One exchange, whatever becomes of it: an answer, or the end of the connection. */
static bool exchange_once(void)
{
    static const char request[] = "POST /stream HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc";
    int fds[2];
    struct abx_error err;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    abx_http_server_adopt(k.server, fds[0], 7, &err);
    send(fds[1], request, sizeof(request) - 1, MSG_NOSIGNAL);
    char got[1024];
    ssize_t n = -1;
    for (int turn = 0; n < 0 && turn < 100; turn++) {
        uv_run(&k.loop.uv, UV_RUN_NOWAIT);
        n = read(fds[1], got, sizeof(got));
    }
    close(fds[1]);
    assert_true(n >= 0 || errno == ECONNRESET);
    return n > 0 && strncmp(got, "HTTP/1.1 200", 12) == 0;
}

TEST(server_survives_any_failed_allocation)
{
    unsigned ok = 0, failed = 0;
    kit_open(&k, defaults);
    for (unsigned n = 1; abx_alloc_fail(n); n++) {
        bool is_ok = exchange_once();
        ok += is_ok;
        failed += !is_ok;
    }
    assert_true(ok >= 1 && failed >= 3);
    kit_close(&k);
}
