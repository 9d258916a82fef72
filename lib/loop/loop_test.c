/* lib/loop/loop_test.c: timers, polls, deferred calls, signals, pool work. */
#include "lib/loop/loop.h"

#include "tests/unit/test.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/banned.h"

struct count {
    int fired, closed, limit;
    unsigned events;
};

static void on_timer(struct abx_timer *t)
{
    struct count *c = t->owner;
    if (++c->fired == c->limit)
        abx_timer_stop(t);
}
static void on_closed(void *owner)
{
    ((struct count *)owner)->closed++;
}

TEST(loop_timer_repeats_until_stopped_and_closes)
{
    struct abx_loop l;
    struct abx_error err;
    struct count c = {.limit = 3};
    struct abx_timer t;
    assert_int_equal(abx_loop_init(&l, &err), 0);
    abx_timer_init(&t, &l, on_timer, &c);
    abx_timer_start(&t, 1, 1);
    abx_loop_run(&l);
    assert_int_equal(c.fired, 3);
    abx_timer_close(&t, on_closed);
    abx_timer_close(&t, on_closed);
    abx_loop_run(&l);
    assert_int_equal(c.closed, 1);
    abx_loop_done(&l);
    abx_loop_done(&l);
}

static struct abx_loop loop;

static void on_deferred(struct abx_defer *d)
{
    struct count *c = d->owner;
    if (++c->fired < c->limit)
        abx_defer_start(d, &loop, on_deferred, c);
}

TEST(loop_deferred_calls_run_later_once_and_can_be_cancelled)
{
    struct abx_error err;
    struct count again = {.limit = 3}, once = {0}, never = {0};
    struct abx_defer a = {0}, b = {0}, c = {0};
    assert_int_equal(abx_loop_init(&loop, &err), 0);
    abx_defer_start(&a, &loop, on_deferred, &again);
    abx_defer_start(&b, &loop, on_deferred, &once);
    abx_defer_start(&b, &loop, on_deferred, &once);
    abx_defer_start(&c, &loop, on_deferred, &never);
    abx_defer_cancel(&c);
    abx_defer_cancel(&c);
    assert_int_equal(again.fired, 0);
    abx_loop_run(&loop);
    assert_int_equal(again.fired, 3);
    assert_int_equal(once.fired, 1);
    assert_int_equal(never.fired, 0);
    abx_loop_done(&loop);
}

static void on_poll(struct abx_poll *p, unsigned events)
{
    struct count *c = p->owner;
    c->fired++;
    c->events = events;
    abx_poll_set(p, 0);
}

TEST(loop_poll_tells_readiness_and_hangup_as_readable)
{
    struct abx_loop l;
    struct abx_error err;
    struct count c = {0};
    struct abx_poll p;
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(abx_loop_init(&l, &err), 0);
    assert_int_equal(abx_poll_init(&p, &l, fds[0], on_poll, &c, &err), 0);
    abx_poll_set(&p, ABX_POLL_OUT);
    abx_loop_run(&l);
    assert_int_equal(c.events, ABX_POLL_OUT);
    abx_poll_set(&p, ABX_POLL_IN);
    close(fds[1]);
    abx_loop_run(&l);
    assert_int_equal(c.fired, 2);
    assert_true(c.events & ABX_POLL_IN);
    abx_poll_close(&p, on_closed);
    close(fds[0]);
    abx_loop_run(&l);
    assert_int_equal(c.closed, 1);
    abx_loop_done(&l);
}

static void on_signal(struct abx_signal *s, int signum)
{
    struct count *c = s->owner;
    c->fired = signum;
    abx_signal_close(s, on_closed);
}

TEST(loop_signal_arrives_on_the_loop)
{
    struct abx_loop l;
    struct abx_error err;
    struct count c = {0}, tick = {.limit = 500};
    struct abx_signal s;
    struct abx_timer guard;
    assert_int_equal(abx_loop_init(&l, &err), 0);
    assert_int_equal(abx_signal_init(&s, &l, SIGUSR1, on_signal, &c, &err), 0);
    abx_timer_init(&guard, &l, on_timer, &tick);
    abx_timer_start(&guard, 10, 10);
    kill(getpid(), SIGUSR1);
    while (c.closed == 0 && tick.fired < tick.limit)
        uv_run(&l.uv, UV_RUN_ONCE);
    assert_int_equal(c.fired, SIGUSR1);
    abx_timer_close(&guard, NULL);
    abx_loop_done(&l);
}

static void run_work(struct abx_work *w)
{
    ((struct count *)w->owner)->fired = 41;
}
static void work_done(struct abx_work *w)
{
    ((struct count *)w->owner)->fired++;
}

TEST(loop_work_runs_in_the_pool_and_reports_on_the_loop)
{
    struct abx_loop l;
    struct abx_error err;
    struct count c = {0};
    struct abx_work w = {0};
    assert_int_equal(abx_loop_init(&l, &err), 0);
    assert_int_equal(abx_work_start(&w, &l, run_work, work_done, &c, &err), 0);
    abx_loop_run(&l);
    assert_int_equal(c.fired, 42);
    abx_loop_done(&l);
}
