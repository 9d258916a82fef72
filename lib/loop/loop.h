/* lib/loop/loop.h: one event loop per daemon thread: timers, descriptors, signals, deferred calls.
 *
 * A thin idiom over libuv. Every object belongs to the thread of its loop. Objects are embedded in
 * their owner; x_close() is idempotent, and the owner's memory may go only from the close callback
 * (libuv keeps a handle until the end of the turn). */
#pragma once
#include "lib/base/err.h"
#include "lib/base/list.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

enum { ABX_LOOP_SCRATCH = 65536 };

struct abx_loop {
    uv_loop_t uv;
    uv_idle_t idle;           /* runs the deferred calls; active only while there are some */
    uv_prepare_t prepare;     /* the same for those that come last */
    struct abx_list deferred; /* struct abx_defer */
    struct abx_list last;
    char *scratch; /* ABX_LOOP_SCRATCH bytes: what streams read into */
    bool stopping;
};

int abx_loop_init(struct abx_loop *l, struct abx_error *err);
/** Runs until abx_loop_stop() or until nothing is active. May be called again. */
void abx_loop_run(struct abx_loop *l);
void abx_loop_stop(struct abx_loop *l);
/** Closes what is left open (without telling its owners) and frees. Accepts a zeroed loop. */
void abx_loop_done(struct abx_loop *l);

struct abx_defer;
typedef void abx_defer_fn(struct abx_defer *d);

/* One call to be made from the loop, before it next waits; never from within the caller. Zero it
 * before the first start. */
struct abx_defer {
    struct abx_list node;
    abx_defer_fn *fn;
    void *owner;
};
/** A second start before the call is made changes nothing; nor does one in abx_loop_done(). */
void abx_defer_start(struct abx_defer *d, struct abx_loop *l, abx_defer_fn *fn, void *owner);
/** As above, but after all the others, right before the loop waits; @fn defers nothing. */
void abx_defer_start_last(struct abx_defer *d, struct abx_loop *l, abx_defer_fn *fn, void *owner);
/** After it the call is not made and the memory is the owner's. */
void abx_defer_cancel(struct abx_defer *d);

struct abx_timer;
typedef void abx_timer_fn(struct abx_timer *t);
typedef void abx_closed_fn(void *owner);

/* One-shot or repeating timer. Zero it before the first start. */
struct abx_timer {
    uv_timer_t uv;
    abx_timer_fn *fn;
    abx_closed_fn *closed;
    void *owner;
    bool open;
};
/** Must precede start; registers with the loop. */
void abx_timer_init(struct abx_timer *t, struct abx_loop *l, abx_timer_fn *fn, void *owner);
/** (Re)arms: fires after @after_ms, then every @repeat_ms (0: once). */
void abx_timer_start(struct abx_timer *t, uint64_t after_ms, uint64_t repeat_ms);
void abx_timer_stop(struct abx_timer *t);
/** Whether it will fire. */
bool abx_timer_is_active(const struct abx_timer *t);
/** @closed (may be NULL) is called with the owner once the loop has let go; not when the timer is
 *  not open. */
void abx_timer_close(struct abx_timer *t, abx_closed_fn *closed);
/** Does not keep the loop alive. */
void abx_timer_unref(struct abx_timer *t);

struct abx_poll;
/** @events: ABX_POLL_IN|OUT; errors and hang-ups arrive as readable. */
typedef void abx_poll_fn(struct abx_poll *p, unsigned events);
enum { ABX_POLL_IN = 1, ABX_POLL_OUT = 2 };

/* Readiness of a descriptor that the owner keeps (pidfd, inotify, listening or seqpacket socket).
 * Level-triggered: it is called again until the owner reads, pauses or closes. */
struct abx_poll {
    uv_poll_t uv;
    abx_poll_fn *fn;
    abx_closed_fn *closed;
    void *owner;
    int fd;
    unsigned events;
    bool open;
};
/** Makes @fd non-blocking. Watches nothing until abx_poll_set(). */
int abx_poll_init(struct abx_poll *p, struct abx_loop *l, int fd, abx_poll_fn *fn, void *owner,
                  struct abx_error *err);
void abx_poll_set(struct abx_poll *p, unsigned events); /* 0 pauses */
/** Stops watching; does not close the descriptor, which the caller may do right after. */
void abx_poll_close(struct abx_poll *p, abx_closed_fn *closed);

struct abx_signal;
typedef void abx_signal_fn(struct abx_signal *s, int signum);
struct abx_signal {
    uv_signal_t uv;
    abx_signal_fn *fn;
    abx_closed_fn *closed;
    void *owner;
    bool open;
};
/** Handles @signum on the loop. Never SIGCHLD: lib/proc owns it. Does not keep the loop alive. */
int abx_signal_init(struct abx_signal *s, struct abx_loop *l, int signum, abx_signal_fn *fn,
                    void *owner, struct abx_error *err);
void abx_signal_close(struct abx_signal *s, abx_closed_fn *closed);

struct abx_work;
typedef void abx_work_fn(struct abx_work *w);
/* Blocking work on the pool (4 threads). Zero it; it must live until @done ran. */
struct abx_work {
    uv_work_t uv;
    abx_work_fn *run;  /* pool thread: touches nothing but its own request */
    abx_work_fn *done; /* loop thread */
    void *owner;
};
int abx_work_start(struct abx_work *w, struct abx_loop *l, abx_work_fn *run, abx_work_fn *done,
                   void *owner, struct abx_error *err);
