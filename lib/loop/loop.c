/* lib/loop/loop.c: the loop, timers, polls, signals and pool work over libuv. */
#include "lib/loop/loop.h"

#include "lib/base/assert.h"
#include "lib/base/log.h"

#include <signal.h>
#include <stdlib.h>

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

#include "lib/base/banned.h"

enum { ROUNDS_MAX = 8 }; /* of calls deferred by deferred calls, before the descriptors' turn */

/* Makes the calls that are due now: one that defers itself again waits for the next round. */
static void run_deferred(struct abx_list *deferred)
{
    struct abx_list due;
    abx_list_init(&due);
    for (struct abx_defer *d; (d = abx_list_first(deferred, struct abx_defer, node));) {
        abx_list_remove(&d->node);
        abx_list_push(&due, &d->node);
    }
    for (struct abx_defer *d; (d = abx_list_first(&due, struct abx_defer, node));) {
        abx_list_remove(&d->node);
        d->fn(d);
    }
}

static void on_idle(uv_idle_t *idle)
{
    struct abx_loop *l = idle->data;
    for (int round = 0; round < ROUNDS_MAX && !abx_list_empty(&l->deferred); round++)
        run_deferred(&l->deferred);
    if (abx_list_empty(&l->deferred))
        uv_idle_stop(idle);
}

static void on_prepare(uv_prepare_t *prepare)
{
    struct abx_loop *l = prepare->data;
    run_deferred(&l->last);
    uv_prepare_stop(prepare);
}

int abx_loop_init(struct abx_loop *l, struct abx_error *err)
{
    *l = (struct abx_loop){0};
    char *scratch = malloc(ABX_LOOP_SCRATCH);
    if (scratch == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "event loop: no memory");
    int r = uv_loop_init(&l->uv);
    if (r < 0) {
        free(scratch);
        return abx_err_sys(err, r, "event loop");
    }
    l->scratch = scratch;
    abx_list_init(&l->deferred);
    abx_list_init(&l->last);
    uv_idle_init(&l->uv, &l->idle);
    uv_prepare_init(&l->uv, &l->prepare);
    l->idle.data = l->prepare.data = l;
    return 0;
}

void abx_loop_run(struct abx_loop *l)
{
    if (!l->stopping)
        uv_run(&l->uv, UV_RUN_DEFAULT);
    l->stopping = false;
}

void abx_loop_stop(struct abx_loop *l)
{
    l->stopping = true;
    uv_stop(&l->uv);
}

static void close_left_open(uv_handle_t *h, void *arg)
{
    unsigned *left = arg;
    if (uv_is_closing(h))
        return;
    uv_close(h, NULL);
    (*left)++;
}

void abx_loop_done(struct abx_loop *l)
{
    if (l->scratch == NULL)
        return;
    uv_close((uv_handle_t *)&l->idle, NULL);
    uv_close((uv_handle_t *)&l->prepare, NULL);
    uv_run(&l->uv, UV_RUN_NOWAIT); /* close callbacks of what the owners have closed */
    unsigned left = 0;
    uv_walk(&l->uv, close_left_open, &left);
    if (left)
        abx_log(ABX_LOG_DEBUG, "loop ends with open handles count=%u", left);
    uv_run(&l->uv, UV_RUN_DEFAULT);
    int r = uv_loop_close(&l->uv);
    ABX_ASSERT(r == 0);
    free(l->scratch);
    *l = (struct abx_loop){0};
}

void abx_defer_start(struct abx_defer *d, struct abx_loop *l, abx_defer_fn *fn, void *owner)
{
    if (!abx_list_empty(&d->node) || uv_is_closing((uv_handle_t *)&l->idle))
        return;
    d->fn = fn;
    d->owner = owner;
    abx_list_push(&l->deferred, &d->node);
    if (!uv_is_active((uv_handle_t *)&l->idle))
        uv_idle_start(&l->idle, on_idle);
}

void abx_defer_start_last(struct abx_defer *d, struct abx_loop *l, abx_defer_fn *fn, void *owner)
{
    if (!abx_list_empty(&d->node) || uv_is_closing((uv_handle_t *)&l->prepare))
        return;
    d->fn = fn;
    d->owner = owner;
    abx_list_push(&l->last, &d->node);
    if (!uv_is_active((uv_handle_t *)&l->prepare))
        uv_prepare_start(&l->prepare, on_prepare);
}

void abx_defer_cancel(struct abx_defer *d)
{
    abx_list_remove(&d->node);
}

static void on_timer(uv_timer_t *uv)
{
    struct abx_timer *t = uv->data;
    t->fn(t);
}

bool abx_timer_is_active(const struct abx_timer *t)
{
    return t->open && uv_is_active((const uv_handle_t *)&t->uv);
}

static void on_timer_closed(uv_handle_t *h)
{
    struct abx_timer *t = h->data;
    if (t->closed)
        t->closed(t->owner);
}

void abx_timer_init(struct abx_timer *t, struct abx_loop *l, abx_timer_fn *fn, void *owner)
{
    *t = (struct abx_timer){.fn = fn, .owner = owner, .open = true};
    uv_timer_init(&l->uv, &t->uv);
    t->uv.data = t;
}

void abx_timer_start(struct abx_timer *t, uint64_t after_ms, uint64_t repeat_ms)
{
    ABX_ASSERT(t->open);
    uv_timer_start(&t->uv, on_timer, after_ms, repeat_ms);
}

void abx_timer_stop(struct abx_timer *t)
{
    if (t->open)
        uv_timer_stop(&t->uv);
}

void abx_timer_close(struct abx_timer *t, abx_closed_fn *closed)
{
    if (!t->open)
        return;
    t->open = false;
    t->closed = closed;
    uv_close((uv_handle_t *)&t->uv, on_timer_closed);
}

void abx_timer_unref(struct abx_timer *t)
{
    uv_unref((uv_handle_t *)&t->uv);
}

static void on_poll(uv_poll_t *uv, int status, int uv_events)
{
    struct abx_poll *p = uv->data;
    unsigned events = 0;
    if (uv_events & (UV_READABLE | UV_DISCONNECT))
        events |= ABX_POLL_IN;
    if (uv_events & UV_WRITABLE)
        events |= ABX_POLL_OUT;
    if (status < 0) { /* libuv has stopped watching: go on, the owner decides what it means */
        events |= ABX_POLL_IN;
        unsigned again = p->events;
        p->events = 0;
        abx_poll_set(p, again);
    }
    p->fn(p, events);
}

static void on_poll_closed(uv_handle_t *h)
{
    struct abx_poll *p = h->data;
    if (p->closed)
        p->closed(p->owner);
}

int abx_poll_init(struct abx_poll *p, struct abx_loop *l, int fd, abx_poll_fn *fn, void *owner,
                  struct abx_error *err)
{
    *p = (struct abx_poll){.fn = fn, .owner = owner, .fd = fd};
    int r = uv_poll_init(&l->uv, &p->uv, fd);
    if (r < 0)
        return abx_err_sys(err, r, "watch descriptor %d", fd);
    p->uv.data = p;
    p->open = true;
    return 0;
}

void abx_poll_set(struct abx_poll *p, unsigned events)
{
    if (!p->open || p->events == events)
        return;
    p->events = events;
    int want = (events & ABX_POLL_IN ? UV_READABLE : 0) | (events & ABX_POLL_OUT ? UV_WRITABLE : 0);
    if (want == 0) {
        uv_poll_stop(&p->uv);
        return;
    }
    int r = uv_poll_start(&p->uv, want, on_poll);
    ABX_ASSERT(r == 0); /* fails only for a descriptor that another handle watches */
}

void abx_poll_close(struct abx_poll *p, abx_closed_fn *closed)
{
    if (!p->open)
        return;
    p->open = false;
    p->closed = closed;
    uv_close((uv_handle_t *)&p->uv, on_poll_closed);
}

static void on_signal(uv_signal_t *uv, int signum)
{
    struct abx_signal *s = uv->data;
    s->fn(s, signum);
}

static void on_signal_closed(uv_handle_t *h)
{
    struct abx_signal *s = h->data;
    if (s->closed)
        s->closed(s->owner);
}

int abx_signal_init(struct abx_signal *s, struct abx_loop *l, int signum, abx_signal_fn *fn,
                    void *owner, struct abx_error *err)
{
    ABX_ASSERT(signum != SIGCHLD);
    *s = (struct abx_signal){.fn = fn, .owner = owner};
    int r = uv_signal_init(&l->uv, &s->uv);
    if (r < 0)
        return abx_err_sys(err, r, "signal %d", signum);
    s->uv.data = s;
    s->open = true;
    r = uv_signal_start(&s->uv, on_signal, signum);
    if (r < 0) {
        abx_signal_close(s, NULL);
        return abx_err_sys(err, r, "signal %d", signum);
    }
    uv_unref((uv_handle_t *)&s->uv);
    return 0;
}

void abx_signal_close(struct abx_signal *s, abx_closed_fn *closed)
{
    if (!s->open)
        return;
    s->open = false;
    s->closed = closed;
    uv_close((uv_handle_t *)&s->uv, on_signal_closed);
}

/* A job is the loop's, then the pool's, then the loop's again, which libuv orders by its mutexes.
 * As it is not compiled for ThreadSanitizer, that now and then loses sight of them and reports all
 * that a job touches: so the order is told. */
#ifdef __SANITIZE_THREAD__
static void give(struct abx_work *w)
{
    __tsan_release(w);
}
static void take(struct abx_work *w)
{
    __tsan_acquire(w);
}
#else
static void give(struct abx_work *w)
{
    (void)w;
}
static void take(struct abx_work *w)
{
    (void)w;
}
#endif

static void on_work(uv_work_t *uv)
{
    struct abx_work *w = ABX_CONTAINER_OF(uv, struct abx_work, uv);
    take(w);
    w->run(w);
    give(w);
}

static void on_work_done(uv_work_t *uv, int status)
{
    (void)status; /* only uv_cancel() makes it fail, and nothing here cancels */
    struct abx_work *w = ABX_CONTAINER_OF(uv, struct abx_work, uv);
    take(w);
    w->done(w);
}

int abx_work_start(struct abx_work *w, struct abx_loop *l, abx_work_fn *run, abx_work_fn *done,
                   void *owner, struct abx_error *err)
{
    w->run = run;
    w->done = done;
    w->owner = owner;
    give(w);
    int r = uv_queue_work(&l->uv, &w->uv, on_work, on_work_done);
    return r < 0 ? abx_err_sys(err, r, "work queue") : 0;
}
