/* lib/http/client_test.c: the client against a scripted upstream. */
#include "lib/http/client.h"
#include "lib/http/testkit_priv.h"

#include "lib/base/banned.h"

enum { PEERS_MAX = 8 };
#define GET  "GET / HTTP/1.1\r\nHost: u\r\n\r\n"
#define POST "POST / HTTP/1.1\r\nHost: u\r\nContent-Length: 4\r\n\r\n"

/* The loop, a pool, the other ends of its connections, and what a call told. */
static struct world {
    struct kit kit; /* only its loop is used */
    struct abx_http_pool *pool;
    int peers[PEERS_MAX], connects, connect_error;
    struct abx_http_call *waiting; /* a connect to be finished by the test */
    bool is_slow;
    struct abx_http_call *call;
    struct abx_buf body;
    int status, interim, ends, errors, drains, connected;
    bool head_seen, pause_on_body;
    size_t trailers;
    struct abx_error error;
} w;

static void finish_connect(struct abx_http_call *call)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    assert_true(w.connects <= PEERS_MAX);
    w.peers[w.connects - 1] = fds[1];
    abx_http_connected(call, fds[0]);
}

static void do_connect(void *arg, struct abx_str target, struct abx_http_call *call)
{
    assert_ptr_equal(arg, &w);
    assert_true(abx_str_is(target, "up"));
    w.connects++;
    if (w.connect_error)
        abx_http_connected(call, w.connect_error);
    else if (w.is_slow)
        w.waiting = call;
    else
        finish_connect(call);
}

static void on_head(struct abx_http_call *c, const struct abx_http_head *head)
{
    assert_ptr_equal(abx_http_call_owner(c), &w);
    if (head->status < 200)
        w.interim = head->status;
    else
        w.status = head->status;
}
static void on_body(struct abx_http_call *c, const char *data, size_t len)
{
    abx_buf_put(&w.body, data, len);
    if (w.pause_on_body)
        abx_http_call_pause(c);
}
static void on_end(struct abx_http_call *c)
{
    abx_http_call_trailers(c, &w.trailers);
    w.ends++;
}
static void on_error(struct abx_http_call *c, const struct abx_error *err, bool head_seen)
{
    (void)c;
    w.errors++;
    w.error = *err;
    w.head_seen = head_seen;
}
static void on_drain(struct abx_http_call *c)
{
    (void)c;
    w.drains++;
}
static void on_connected(struct abx_http_call *c)
{
    (void)c;
    w.connected++;
}
static const struct abx_http_call_ops call_ops = {on_head,  on_body,  on_end,
                                                  on_error, on_drain, on_connected};

static void open_world(void)
{
    struct abx_error err;
    w = (struct world){0};
    assert_int_equal(abx_loop_init(&w.kit.loop, &err), 0);
    abx_loop_done(&w.kit.loop);
    w.kit.fds_before = kit_count_fds();
    assert_int_equal(abx_loop_init(&w.kit.loop, &err), 0);
    assert_int_equal(abx_http_pool_open(&w.kit.loop, do_connect, &w, 4, &w.pool, &err), 0);
    abx_buf_init(&w.body, 16 << 20);
}

static void close_world(void)
{
    abx_http_pool_close(w.pool);
    abx_loop_run(&w.kit.loop);
    for (int i = 0; i < PEERS_MAX; i++)
        if (w.peers[i] > 0)
            close(w.peers[i]);
    abx_buf_done(&w.body);
    abx_loop_done(&w.kit.loop);
    assert_int_equal(kit_count_fds(), w.kit.fds_before);
}

static void start(const char *head)
{
    struct abx_error err;
    w.status = 0;
    abx_buf_clear(&w.body);
    assert_int_equal(abx_http_call_start(w.pool, ABX_STR("up"), abx_str(head), false, &call_ops, &w,
                                         &w.call, &err),
                     0);
}

/* The upstream reads until @until, then says @answer. */
static void serve(int peer, const char *until, const char *answer)
{
    ABX_AUTO_BUF got;
    abx_buf_init(&got, 1 << 20);
    assert_int_equal(kit_receive(&w.kit, w.peers[peer], &got, until), 1);
    kit_send(&w.kit, w.peers[peer], abx_str(answer));
}

static void get_once(int peer)
{
    int ends = w.ends;
    start(GET);
    abx_http_call_finish(w.call);
    serve(peer, "\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    RUN_UNTIL(&w.kit.loop, w.ends == ends + 1);
    assert_int_equal(w.status, 200);
    assert_string_equal(w.body.ptr, "hi");
}

TEST(client_reuses_a_clean_connection)
{
    open_world();
    for (int i = 0; i < 3; i++)
        get_once(0);
    assert_int_equal(w.connects, 1);
    abx_http_pool_forget(w.pool, ABX_STR("up"));
    abx_http_pool_forget(w.pool, ABX_STR("nobody"));
    get_once(1);
    assert_int_equal(w.connects, 2);
    close_world();
}

TEST(client_does_not_reuse_what_is_not_clean)
{
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\n",
        "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    };
    for (size_t i = 0; i < ABX_COUNTOF(answers); i++) {
        open_world();
        start(GET);
        abx_http_call_finish(w.call);
        serve(0, "\r\n\r\n", answers[i]);
        RUN_UNTIL(&w.kit.loop, w.ends == 1);
        get_once(1);
        assert_int_equal(w.connects, 2);
        close_world();
    }
}

TEST(client_closes_an_idle_connection_that_talks_or_ends)
{
    for (int i = 0; i < 2; i++) {
        open_world();
        get_once(0);
        if (i == 0)
            kit_send(&w.kit, w.peers[0], ABX_STR("HTTP/1.1 408 x\r\n\r\n"));
        else
            shutdown(w.peers[0], SHUT_WR);
        for (int turn = 0; turn < 10; turn++)
            uv_run(&w.kit.loop.uv, UV_RUN_NOWAIT);
        get_once(1);
        close_world();
    }
}

TEST(client_replaces_a_stale_connection_once)
{
    open_world();
    get_once(0);
    start(GET); /* the upstream closes at the same moment */
    abx_http_call_finish(w.call);
    close(w.peers[0]);
    w.peers[0] = 0;
    RUN_UNTIL(&w.kit.loop, w.connects == 2);
    serve(1, "\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nho");
    RUN_UNTIL(&w.kit.loop, w.ends == 2);
    assert_string_equal(w.body.ptr, "ho");
    assert_int_equal(w.errors, 0);
    start(GET);
    abx_http_call_finish(w.call);
    close(w.peers[1]);
    w.peers[1] = 0;
    RUN_UNTIL(&w.kit.loop, w.connects == 3);
    close(w.peers[2]);
    w.peers[2] = 0;
    RUN_UNTIL(&w.kit.loop, w.errors == 1);
    assert_int_equal(w.error.code, ABX_UNAVAILABLE);
    assert_int_equal(w.connects, 3);
    close_world();
}

static void post(void)
{
    start(POST);
    abx_http_call_write(w.call, "body", 4);
    abx_http_call_finish(w.call);
}

static void close_peer(int peer)
{
    close(w.peers[peer]);
    w.peers[peer] = 0;
}

/* A gateway is killed: what it had not read reaches the next one, body and all, once. */
TEST(client_repeats_a_post_that_no_peer_has_read)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nho";
    static const bool fresh[] = {false, true};
    for (int i = 0; i < 2; i++) {
        open_world();
        if (!fresh[i])
            get_once(0);
        w.ends = 0;
        post();
        RUN_UNTIL(&w.kit.loop, w.connects == 1 && w.connected > 0);
        close_peer(0); /* the request lies in its socket */
        RUN_UNTIL(&w.kit.loop, w.connects == 2);
        serve(1, "\r\n\r\nbody", answer);
        RUN_UNTIL(&w.kit.loop, w.ends == 1);
        assert_int_equal(w.errors, 0);
        post();
        close_peer(1);
        RUN_UNTIL(&w.kit.loop, w.connects == 3);
        close_peer(2);
        RUN_UNTIL(&w.kit.loop, w.errors == 1); /* one more try, not two */
        assert_int_equal(w.connects, 3);
        close_world();
    }
}

/* The end of a kept connection is seen before a byte of the next request went. */
TEST(client_leaves_a_connection_that_ended_before_it_was_used)
{
    open_world();
    get_once(0);
    close_peer(0);
    start(POST); /* its body comes when it is connected */
    RUN_UNTIL(&w.kit.loop, w.connects == 2 && w.connected > 0);
    abx_http_call_write(w.call, "body", 4);
    abx_http_call_finish(w.call);
    serve(1, "\r\n\r\nbody", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nho");
    RUN_UNTIL(&w.kit.loop, w.ends == 2);
    assert_int_equal(w.errors, 0);
    close_world();
}

/* Runs after what the loop has read, before the memory of closed connections goes. */
static void start_after_reading(uv_check_t *c)
{
    if (w.call != NULL)
        return;
    start(GET);
    abx_http_call_finish(w.call);
    uv_check_stop(c);
}

TEST(client_takes_no_idle_connection_that_has_just_ended)
{
    static const char *const ends[] = {"", "HTTP/1.1 200 OK\r\n"}; /* or one that talks unasked */
    for (size_t i = 0; i < ABX_COUNTOF(ends); i++) {
        open_world();
        get_once(0);
        w.call = NULL;
        uv_check_t check;
        uv_check_init(&w.kit.loop.uv, &check);
        uv_check_start(&check, start_after_reading);
        assert_int_equal(write(w.peers[0], ends[i], strlen(ends[i])), (ssize_t)strlen(ends[i]));
        close(w.peers[0]);
        w.peers[0] = 0;
        uv_run(&w.kit.loop.uv, UV_RUN_NOWAIT);
        assert_non_null(w.call);
        serve(1, "\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n");
        RUN_UNTIL(&w.kit.loop, w.ends == 2);
        assert_int_equal(w.errors, 0);
        uv_close((uv_handle_t *)&check, NULL);
        close_world();
    }
}

/* A peer that does nothing before it has a whole request, and died before: whatever it had read. */
TEST(client_repeats_to_a_taker_of_wholes_what_was_not_read_to_its_end)
{
    for (int was_read = 0; was_read < 2; was_read++) {
        ABX_AUTO_BUF got;
        abx_buf_init(&got, 1 << 20);
        open_world();
        get_once(0);
        start(POST);
        abx_http_call_set_whole(w.call);
        RUN_UNTIL(&w.kit.loop, w.connected == 2);
        abx_http_call_write(w.call, "bo", 2);
        if (was_read)
            assert_int_equal(kit_receive(&w.kit, w.peers[0], &got, "bo"), 1);
        abx_http_call_write(w.call, "dy", 2);
        abx_http_call_finish(w.call);
        close_peer(0);
        RUN_UNTIL(&w.kit.loop, w.connects == 2);
        serve(1, "\r\n\r\nbody", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nho");
        RUN_UNTIL(&w.kit.loop, w.ends == 2);
        assert_int_equal(w.errors, 0);
        close_world();
    }
}

/* One that is read to its end may have had an effect; one too large for us to keep is lost. */
TEST(client_never_repeats_a_whole_that_was_read_or_is_large)
{
    static char block[20000];
    ABX_AUTO_BUF got;
    abx_buf_init(&got, 1 << 20);
    open_world();
    get_once(0);
    start(POST);
    abx_http_call_set_whole(w.call);
    RUN_UNTIL(&w.kit.loop, w.connected == 2);
    abx_http_call_write(w.call, "bo", 2);
    abx_http_call_write(w.call, "dy", 2);
    abx_http_call_finish(w.call);
    assert_int_equal(kit_receive(&w.kit, w.peers[0], &got, "body"), 1);
    close_peer(0);
    RUN_UNTIL(&w.kit.loop, w.errors == 1);
    assert_int_equal(w.connects, 1);
    get_once(1);
    start("POST / HTTP/1.1\r\nHost: u\r\nContent-Length: 20004\r\n\r\n");
    abx_http_call_set_whole(w.call);
    RUN_UNTIL(&w.kit.loop, w.connected == 4);
    abx_http_call_write(w.call, block, sizeof(block));
    abx_http_call_write(w.call, "body", 4);
    abx_http_call_finish(w.call);
    close_peer(1);
    RUN_UNTIL(&w.kit.loop, w.errors == 2);
    assert_int_equal(w.connects, 2);
    close_world();
}

TEST(client_never_repeats_what_is_over_in_parts)
{
    open_world();
    get_once(0);
    start(POST);
    abx_http_call_write(w.call, "bo", 2);
    abx_http_call_write(w.call, "dy", 2); /* the first half may have been read */
    abx_http_call_finish(w.call);
    close_peer(0);
    RUN_UNTIL(&w.kit.loop, w.errors == 1);
    assert_int_equal(w.connects, 1);
    close_world();
}

TEST(client_never_repeats_what_may_have_had_an_effect)
{
    open_world();
    get_once(0);
    post();
    ABX_AUTO_BUF got;
    abx_buf_init(&got, 1 << 20);
    assert_int_equal(kit_receive(&w.kit, w.peers[0], &got, "body"), 1);
    close_peer(0);
    RUN_UNTIL(&w.kit.loop, w.errors == 1);
    assert_int_equal(w.connects, 1);
    assert_int_equal(w.error.code, ABX_UNAVAILABLE);
    assert_false(w.head_seen);
    close_world();
}

TEST(client_tells_why_it_could_not_connect)
{
    open_world();
    w.connect_error = -ECONNREFUSED;
    start(GET);
    assert_int_equal(w.errors, 0); /* not from inside the call */
    abx_http_call_finish(w.call);
    RUN_UNTIL(&w.kit.loop, w.errors == 1);
    assert_int_equal(w.error.code, ABX_UNAVAILABLE);
    assert_int_equal(w.error.sys, ECONNREFUSED);
    close_world();
}

TEST(client_tells_a_cut_from_an_end)
{
    static const struct {
        const char *answer;
        int ends, errors;
        bool head_seen;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\n\r\nuntil the end", 1, 0, false},
        {"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nshort", 0, 1, true},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n", 0, 1, true},
        {"HTTP/1.1 200 OK\r\nContent-Le", 0, 1, false},
        {"SSH-2.0-x\r\n\r\n", 0, 1, false},
        {"", 0, 1, false},
        {"HTTP/1.1 101 Switching Protocols\r\n\r\n", 0, 1, true},
        {"HTTP/1.1 100 Continue\r\n\r\n", 0, 1, false},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        open_world();
        start(GET);
        abx_http_call_finish(w.call);
        serve(0, "\r\n\r\n", rows[i].answer);
        shutdown(w.peers[0], SHUT_WR);
        RUN_UNTIL(&w.kit.loop, w.ends + w.errors == 1);
        if (w.ends != rows[i].ends || w.errors != rows[i].errors ||
            w.head_seen != rows[i].head_seen)
            fail_msg("row %zu: %d ends, %d errors, head %d", i, w.ends, w.errors, w.head_seen);
        close_world();
    }
}

TEST(client_passes_interim_answers_and_trailers)
{
    open_world();
    start(GET);
    abx_http_call_finish(w.call);
    serve(0, "\r\n\r\n",
          "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n"
          "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n");
    RUN_UNTIL(&w.kit.loop, w.ends == 1);
    assert_int_equal(w.interim, 103);
    assert_int_equal(w.status, 200);
    assert_int_equal(w.trailers, 1);
    get_once(0);
    close_world();
}

TEST(client_keeps_a_bounded_body_while_connecting)
{
    static char block[40000];
    open_world();
    w.is_slow = true;
    start("POST / HTTP/1.1\r\nHost: u\r\nContent-Length: 80000\r\n\r\n");
    assert_true(abx_http_call_write(w.call, block, sizeof(block)));
    assert_false(abx_http_call_write(w.call, block, sizeof(block)));
    abx_http_call_finish(w.call);
    assert_int_equal(w.connected, 0);
    finish_connect(w.waiting);
    size_t got = 0;
    for (int i = 0; i < 1000; i++) {
        ssize_t n = read(w.peers[0], block, sizeof(block));
        got += n > 0 ? (size_t)n : 0;
        uv_run(&w.kit.loop.uv, UV_RUN_NOWAIT);
    }
    assert_true(got > 80000);
    assert_int_equal(w.drains, 1);
    assert_int_equal(w.connected, 1);
    abx_http_call_cancel(w.call);
    close_world();
}

TEST(client_call_can_be_cancelled_at_any_time)
{
    for (int when = 0; when < 4; when++) {
        open_world();
        w.is_slow = when < 2;
        start(GET);
        abx_http_call_finish(w.call);
        if (when == 2)
            RUN_UNTIL(&w.kit.loop, w.connected == 1);
        if (when == 3) {
            serve(0, "\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc");
            RUN_UNTIL(&w.kit.loop, w.body.len == 3);
        }
        abx_http_call_cancel(w.call);
        if (when == 1) {
            abx_http_pool_close(w.pool);
            w.pool = NULL;
        }
        if (w.waiting)
            finish_connect(w.waiting);
        for (int i = 0; i < 10; i++)
            uv_run(&w.kit.loop.uv, UV_RUN_NOWAIT);
        assert_int_equal(w.ends + w.errors, 0);
        close_world();
    }
}

TEST(client_pool_close_fails_the_open_calls)
{
    for (int is_slow = 0; is_slow < 2; is_slow++) {
        open_world();
        w.is_slow = is_slow;
        start(GET);
        abx_http_pool_close(w.pool);
        assert_int_equal(w.errors, 1);
        assert_int_equal(w.error.code, ABX_CANCELED);
        w.pool = NULL;
        if (w.waiting)
            finish_connect(w.waiting);
        close_world();
    }
}

TEST(client_pause_stops_the_upstream)
{
    static char block[65536];
    open_world();
    w.pause_on_body = true;
    start(GET);
    abx_http_call_finish(w.call);
    serve(0, "\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 8388608\r\n\r\n");
    size_t sent = 0;
    for (int i = 0; i < 2000; i++) {
        ssize_t n = send(w.peers[0], block, sizeof(block), MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
        uv_run(&w.kit.loop.uv, UV_RUN_NOWAIT);
    }
    assert_true(sent < 2 << 20);
    assert_true(w.body.len <= 65536);
    w.pause_on_body = false;
    abx_http_call_resume(w.call);
    for (int i = 0; w.ends == 0 && i < KIT_TURNS; i++) {
        size_t left = 8388608 - sent;
        ssize_t n =
            send(w.peers[0], block, left < sizeof(block) ? left : sizeof(block), MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
        uv_run(&w.kit.loop.uv, UV_RUN_NOWAIT);
    }
    assert_int_equal(w.body.len, 8388608);
    close_world();
}
