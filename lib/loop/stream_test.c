/* lib/loop/stream_test.c: streams over pipes, socketpairs, TCP and ptys. */
#include "lib/loop/stream.h"

#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "tests/unit/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { NOT_YET = 1000, TURNS = 200000 };

/* One end under test: counts what happens to it. */
struct end {
    struct abx_stream s;
    size_t bytes, pause_after;
    int end, error, drains, hangups, closed;
    bool close_on_data;
};

static void on_data(struct abx_stream *s, const char *data, size_t len)
{
    struct end *e = s->owner;
    for (size_t i = 0; i < len; i++) /* the pattern tells loss and reordering */
        assert_int_equal((unsigned char)data[i], (unsigned char)((e->bytes + i) * 7));
    e->bytes += len;
    if (e->pause_after && e->bytes >= e->pause_after)
        abx_stream_pause(s);
    if (e->close_on_data)
        abx_stream_close(s);
}
static void on_end(struct abx_stream *s, int err)
{
    struct end *e = s->owner;
    if (err == 0)
        e->end++;
    else
        e->error = err;
}
static void on_drain(struct abx_stream *s)
{
    ((struct end *)s->owner)->drains++;
}
static void on_hangup(struct abx_stream *s)
{
    ((struct end *)s->owner)->hangups++;
}
static void on_closed(struct abx_stream *s)
{
    ((struct end *)s->owner)->closed++;
}
static const struct abx_stream_ops ops = {on_data, on_end, on_drain, on_hangup, on_closed};

struct pair {
    struct abx_loop loop;
    struct end a, b;
    unsigned char pattern[256 * 1024];
    int fds_before;
};

static int count_fds(void)
{
    int n = 0;
    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void tcp_pair(int fds[2])
{
    int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    assert_int_equal(bind(l, (struct sockaddr *)&at, len), 0);
    assert_int_equal(listen(l, 1), 0);
    getsockname(l, (struct sockaddr *)&at, &len);
    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fds[0], (struct sockaddr *)&at, len), 0);
    fds[1] = accept4(l, NULL, NULL, SOCK_CLOEXEC);
    close(l);
}

static void pair_open(struct pair *p, bool is_tcp)
{
    struct abx_error err;
    assert_int_equal(abx_loop_init(&p->loop, &err), 0); /* libuv's own descriptors, made once */
    abx_loop_done(&p->loop);
    *p = (struct pair){.fds_before = count_fds()};
    for (size_t i = 0; i < sizeof(p->pattern); i++)
        p->pattern[i] = (unsigned char)(i * 7);
    int fds[2];
    if (is_tcp)
        tcp_pair(fds);
    else
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(abx_loop_init(&p->loop, &err), 0);
    assert_int_equal(abx_stream_open(&p->a.s, &p->loop, fds[0], &ops, &p->a, &err), 0);
    assert_int_equal(abx_stream_open(&p->b.s, &p->loop, fds[1], &ops, &p->b, &err), 0);
    abx_stream_resume(&p->a.s);
    abx_stream_resume(&p->b.s);
}

static void pair_close(struct pair *p)
{
    abx_stream_close(&p->a.s);
    abx_stream_close(&p->b.s);
    abx_stream_close(&p->b.s); /* idempotent */
    abx_loop_run(&p->loop);
    assert_int_equal(p->a.closed, 1);
    assert_int_equal(p->b.closed, 1);
    abx_loop_done(&p->loop);
    assert_int_equal(count_fds(), p->fds_before);
}

/* Runs the loop until the condition holds; a bounded number of turns is the hang guard. */
#define RUN_UNTIL(loop, condition)                                                                 \
    do {                                                                                           \
        for (int turn_ = 0; !(condition); turn_++) {                                               \
            assert_true(turn_ < TURNS);                                                            \
            uv_run(&(loop)->uv, UV_RUN_NOWAIT);                                                    \
        }                                                                                          \
    } while (0)

static struct pair p;

/* Writes @total bytes of the pattern from @e, waiting for drain when told to. */
static void send_pattern(struct end *from, size_t total)
{
    size_t sent = 0;
    bool open = true;
    int drains = from->drains;
    while (sent < total) {
        size_t at = sent % (128 * 1024), n = 100 * 1024;
        if (n > total - sent)
            n = total - sent;
        if (!open) {
            RUN_UNTIL(&p.loop, from->drains > drains);
            drains = from->drains;
        }
        open = abx_stream_write(&from->s, p.pattern + at, n);
        assert_true(from->s.queued < 64 * 1024 + 100 * 1024);
        sent += n;
    }
}

static const bool transports[] = {false, true};

TEST(stream_carries_bytes_in_order_with_a_bounded_queue)
{
    for (size_t i = 0; i < 2; i++) {
        pair_open(&p, transports[i]);
        send_pattern(&p.a, 20 << 20);
        RUN_UNTIL(&p.loop, p.b.bytes == 20 << 20);
        assert_int_equal(p.a.s.queued, 0);
        pair_close(&p);
    }
}

TEST(stream_pause_blocks_the_writer_and_resume_lets_it_go_on)
{
    pair_open(&p, false);
    p.b.pause_after = 1;
    while (abx_stream_write(&p.a.s, p.pattern, 65536))
        uv_run(&p.loop.uv, UV_RUN_NOWAIT);
    size_t queued = p.a.s.queued, got = p.b.bytes;
    for (int i = 0; i < 100; i++)
        uv_run(&p.loop.uv, UV_RUN_NOWAIT);
    assert_int_equal(p.b.bytes, got);
    assert_int_equal(p.a.s.queued, queued);
    assert_int_equal(p.a.drains, 0);
    p.b.pause_after = 0;
    abx_stream_resume(&p.b.s);
    RUN_UNTIL(&p.loop, p.a.drains == 1 && p.a.s.queued == 0);
    pair_close(&p);
}

TEST(stream_half_close_still_reads)
{
    for (size_t i = 0; i < 2; i++) {
        pair_open(&p, transports[i]);
        abx_stream_write(&p.a.s, p.pattern, 1000);
        abx_stream_shutdown(&p.a.s);
        RUN_UNTIL(&p.loop, p.b.end == 1);
        assert_int_equal(p.b.bytes, 1000);
        abx_stream_write(&p.b.s, p.pattern, 500);
        RUN_UNTIL(&p.loop, p.a.bytes == 500);
        assert_int_equal(p.b.error, 0);
        assert_int_equal(p.a.end, 0);
        pair_close(&p);
    }
}

TEST(stream_shutdown_waits_for_the_queue)
{
    pair_open(&p, false);
    send_pattern(&p.a, 4 << 20);
    abx_stream_shutdown(&p.a.s);
    RUN_UNTIL(&p.loop, p.b.end == 1);
    assert_int_equal(p.b.bytes, 4 << 20);
    pair_close(&p);
}

TEST(stream_tells_a_full_hangup_of_a_socketpair_after_eof)
{
    pair_open(&p, false);
    abx_stream_shutdown(&p.a.s);
    RUN_UNTIL(&p.loop, p.b.end == 1);
    for (int i = 0; i < 20; i++)
        uv_run(&p.loop.uv, UV_RUN_NOWAIT);
    assert_int_equal(p.b.error, 0);
    abx_stream_close(&p.a.s);
    RUN_UNTIL(&p.loop, p.b.error == -EPIPE);
    pair_close(&p);
}

TEST(stream_tells_a_vanished_peer_while_paused)
{
    for (size_t i = 0; i < 2; i++) {
        pair_open(&p, transports[i]);
        p.b.pause_after = 1;
        abx_stream_write(&p.a.s, p.pattern, 65536);
        RUN_UNTIL(&p.loop, p.b.bytes > 0);
        abx_stream_write(&p.a.s, p.pattern + p.b.bytes % 256, 1000);
        abx_stream_close(&p.a.s);
        RUN_UNTIL(&p.loop, p.b.hangups == 1);
        assert_int_equal(p.b.end, 0);
        p.b.pause_after = 0;
        abx_stream_resume(&p.b.s);
        RUN_UNTIL(&p.loop, p.b.end == 1);
        assert_int_equal(p.b.bytes, 66536);
        assert_int_equal(p.b.hangups, 1);
        pair_close(&p);
    }
}

TEST(stream_reset_is_an_error_for_a_tcp_peer)
{
    pair_open(&p, true);
    abx_stream_write(&p.a.s, p.pattern, 10);
    RUN_UNTIL(&p.loop, p.b.bytes == 10);
    abx_stream_reset(&p.a.s);
    RUN_UNTIL(&p.loop, p.b.error != 0);
    assert_int_equal(p.b.error, -ECONNRESET);
    pair_close(&p);
}

TEST(stream_reads_the_last_words_of_a_peer_that_stopped_listening)
{
    pair_open(&p, false);
    p.a.pause_after = 1;
    abx_stream_pause(&p.a.s);
    while (abx_stream_write(&p.b.s, p.pattern, 65536))
        uv_run(&p.loop.uv, UV_RUN_NOWAIT);
    abx_stream_write(&p.a.s, p.pattern, 5000);
    abx_stream_close(&p.a.s); /* with unread input: a reset */
    RUN_UNTIL(&p.loop, p.b.error != 0);
    assert_int_equal(p.b.bytes, 5000);
    assert_true(abx_stream_write(&p.b.s, "x", 1)); /* dropped */
    assert_int_equal(p.b.s.queued, 0);
    pair_close(&p);
}

TEST(stream_close_after_flush_sends_everything)
{
    pair_open(&p, false);
    abx_stream_pause(&p.b.s);
    while (abx_stream_write(&p.a.s, p.pattern, 65536))
        ;
    size_t kernel = p.a.s.queued;
    assert_true(kernel > 0);
    abx_stream_close_after_flush(&p.a.s, 60000);
    assert_int_equal(p.a.closed, 0);
    abx_stream_resume(&p.b.s);
    RUN_UNTIL(&p.loop, p.a.closed == 1 && p.b.end == 1);
    assert_true(p.b.bytes > 65536);
    pair_close(&p);
}

TEST(stream_close_after_flush_gives_up_at_its_limit)
{
    pair_open(&p, false);
    abx_stream_pause(&p.b.s);
    while (abx_stream_write(&p.a.s, p.pattern, 65536))
        ;
    abx_stream_close_after_flush(&p.a.s, 20);
    for (int i = 0; p.a.closed == 0 && i < 1000; i++)
        uv_run(&p.loop.uv, UV_RUN_ONCE);
    assert_int_equal(p.a.closed, 1);
    pair_close(&p);
}

TEST(stream_close_lingering_keeps_the_answer_readable)
{
    pair_open(&p, true);
    abx_stream_pause(&p.b.s); /* the answering side has input that it never read */
    abx_stream_write(&p.a.s, p.pattern, 200000);
    for (int i = 0; i < 20; i++)
        uv_run(&p.loop.uv, UV_RUN_NOWAIT);
    abx_stream_write(&p.b.s, p.pattern, 300);
    abx_stream_close_lingering(&p.b.s, 60000);
    RUN_UNTIL(&p.loop, p.a.end == 1);
    assert_int_equal(p.a.bytes, 300);
    assert_int_equal(p.a.error, 0);
    assert_int_equal(p.b.bytes, 0);
    abx_stream_close(&p.a.s);
    RUN_UNTIL(&p.loop, p.b.closed == 1);
    pair_close(&p);
}

TEST(stream_may_be_closed_from_its_callback)
{
    pair_open(&p, false);
    p.b.close_on_data = true;
    send_pattern(&p.a, 1000);
    RUN_UNTIL(&p.loop, p.b.closed == 1);
    assert_int_equal(p.b.bytes, 1000);
    assert_int_equal(p.b.end, 0);
    RUN_UNTIL(&p.loop, p.a.end == 1);
    pair_close(&p);
}

TEST(stream_pipe_ends_give_eof_and_epipe)
{
    static struct end in, out;
    in = out = (struct end){0};
    struct abx_loop loop;
    struct abx_error err;
    assert_int_equal(abx_loop_init(&loop, &err), 0);
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_int_equal(abx_stream_open(&in.s, &loop, fds[0], &ops, &in, &err), 0);
    assert_int_equal(abx_stream_open(&out.s, &loop, fds[1], &ops, &out, &err), 0);
    abx_stream_resume(&in.s);
    unsigned char zero = 0;
    abx_stream_write(&out.s, &zero, 1);
    RUN_UNTIL(&loop, in.bytes == 1);
    abx_stream_shutdown(&out.s); /* a pipe can only be closed */
    RUN_UNTIL(&loop, in.end == 1);
    abx_stream_close(&out.s);
    abx_stream_close(&in.s);
    abx_loop_run(&loop);
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    out = (struct end){0};
    close(fds[0]);
    assert_int_equal(abx_stream_open(&out.s, &loop, fds[1], &ops, &out, &err), 0);
    abx_stream_write(&out.s, &zero, 1); /* must not raise SIGPIPE */
    RUN_UNTIL(&loop, out.error == -EPIPE);
    abx_stream_close(&out.s);
    abx_loop_run(&loop);
    abx_loop_done(&loop);
}

TEST(stream_idle_pipe_writer_hears_of_its_dead_reader)
{
    static struct end out;
    out = (struct end){0};
    struct abx_loop loop;
    struct abx_error err;
    assert_int_equal(abx_loop_init(&loop, &err), 0);
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_int_equal(abx_stream_open(&out.s, &loop, fds[1], &ops, &out, &err), 0);
    close(fds[0]);
    RUN_UNTIL(&loop, out.error == -EPIPE);
    abx_stream_close(&out.s);
    abx_loop_run(&loop);
    abx_loop_done(&loop);
}

TEST(stream_pty_master_ends_orderly)
{
    static struct end m;
    m = (struct end){0};
    struct abx_loop loop;
    struct abx_error err;
    assert_int_equal(abx_loop_init(&loop, &err), 0);
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(master >= 0);
    assert_int_equal(grantpt(master), 0);
    assert_int_equal(unlockpt(master), 0);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(slave >= 0);
    struct termios raw;
    tcgetattr(slave, &raw);
    cfmakeraw(&raw);
    tcsetattr(slave, TCSANOW, &raw);
    assert_int_equal(abx_stream_open(&m.s, &loop, master, &ops, &m, &err), 0);
    abx_stream_resume(&m.s);
    const unsigned char text[3] = {0, 7, 14};
    assert_int_equal(write(slave, text, 3), 3);
    RUN_UNTIL(&loop, m.bytes == 3);
    close(slave);
    RUN_UNTIL(&loop, m.end == 1);
    assert_int_equal(m.error, 0);
    abx_stream_close(&m.s);
    abx_loop_run(&loop);
    abx_loop_done(&loop);
}

TEST(stream_refuses_a_regular_file_and_closes_it)
{
    struct abx_loop loop;
    struct abx_error err;
    struct end e = {0};
    assert_int_equal(abx_loop_init(&loop, &err), 0);
    int fd = memfd_create("x", 0);
    assert_int_equal(abx_stream_open(&e.s, &loop, fd, &ops, &e, &err), -1);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_false(abx_stream_is_open(&e.s));
    abx_loop_done(&loop);
}
