/* guest/caps/process_rig_priv.h: loop, table and a remembering subscriber for process tests. */
#pragma once
#include "guest/caps/process.h"
#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "tests/unit/test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { GUARD_MS = 20000 };

static struct abx_loop loop;
static struct abx_procs *table;
static struct abx_user self;
static struct abx_timer guard;

/* A subscriber that remembers what it got. */
struct watcher {
    struct abx_process_sub *sub;
    struct abx_buf out[3];
    struct abx_buf order; /* one letter per chunk: o, e, p */
    uint64_t bytes, gaps, lost, next_offset;
    uint64_t pause_at; /* answers false from so many bytes on; 0: never */
    bool keeps_text, ended, stop_at_end;
    struct abx_process_end end;
    int64_t ended_at;
};

static inline bool on_data(struct abx_process_sub *s, enum abx_output kind, uint64_t offset,
                           struct abx_str data)
{
    struct watcher *w = abx_process_sub_owner(s);
    assert_int_equal(offset, w->next_offset);
    assert_true(data.len > 0 && data.len <= ABX_PROCESS_CHUNK);
    w->next_offset = offset + data.len;
    w->bytes += data.len;
    if (w->keeps_text) {
        abx_buf_put_str(&w->out[kind], data);
        abx_buf_put_byte(&w->order, "oep"[kind]);
    }
    bool goes_on = w->pause_at == 0 || w->bytes < w->pause_at;
    if (!goes_on)
        abx_loop_stop(&loop);
    return goes_on;
}

static inline void on_gap(struct abx_process_sub *s, uint64_t offset, uint64_t lost)
{
    struct watcher *w = abx_process_sub_owner(s);
    assert_int_equal(offset, w->next_offset);
    w->next_offset = offset + lost;
    w->gaps++;
    w->lost += lost;
}

static inline void on_end(struct abx_process_sub *s, const struct abx_process_end *end)
{
    struct watcher *w = abx_process_sub_owner(s);
    assert_false(w->ended);
    w->ended = true;
    w->end = *end;
    w->ended_at = abx_time_mono_ms();
    if (w->stop_at_end)
        abx_loop_stop(&loop);
}

static const struct abx_process_sub_ops ops = {on_data, on_gap, on_end};

static inline void watch(struct watcher *w, struct abx_process *p, uint64_t from)
{
    *w = (struct watcher){.keeps_text = true, .stop_at_end = true};
    for (int i = 0; i < 3; i++)
        abx_buf_init(&w->out[i], 4 * 1024 * 1024);
    abx_buf_init(&w->order, 4 * 1024 * 1024);
    w->next_offset = from == ABX_PROCESS_FROM_NOW ? abx_process_journal_end(p) : from;
    assert_int_equal(abx_process_subscribe(p, from, &ops, w, &w->sub, NULL), 0);
}

static inline void watcher_done(struct watcher *w)
{
    abx_process_unsubscribe(w->sub);
    for (int i = 0; i < 3; i++)
        abx_buf_done(&w->out[i]);
    abx_buf_done(&w->order);
}

static inline void on_guard(struct abx_timer *t)
{
    (void)t;
    fail_msg("nothing happened within %d ms", GUARD_MS);
}

static inline void run_loop(void)
{
    abx_timer_start(&guard, GUARD_MS, 0);
    abx_loop_run(&loop);
    abx_timer_stop(&guard);
}

static inline void set_up_keeping(uint64_t keep_ms)
{
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(abx_loop_init(&loop, NULL), 0);
    abx_timer_init(&guard, &loop, on_guard, NULL);
    struct abx_procs_config config = {.path = "/usr/bin:/bin", .keep_ms = keep_ms};
    assert_int_equal(abx_procs_new(&loop, &config, &table, NULL), 0);
    assert_int_equal(abx_user_by_uid("", geteuid(), &self, NULL), 0);
}

static inline void set_up(void)
{
    set_up_keeping(0);
}

static inline void tear_down(void)
{
    abx_procs_close(table);
    abx_timer_close(&guard, NULL);
    abx_user_done(&self);
    abx_loop_run(&loop);
    abx_loop_done(&loop);
}

/* The spec of `sh -c TEXT`; @args is the caller's memory. */
static inline struct abx_process_spec shell(const char *text, struct abx_str args[2])
{
    args[0] = ABX_STR("-c");
    args[1] = abx_str(text);
    return (struct abx_process_spec){.cmd = ABX_STR("/bin/sh"),
                                     .args = args,
                                     .arg_count = 2,
                                     .cwd = ABX_STR("/tmp"),
                                     .user = &self};
}

static inline struct abx_process *start(const struct abx_process_spec *spec)
{
    struct abx_process *p = NULL;
    struct abx_error err = {0};
    if (abx_process_start(table, spec, &p, &err) < 0)
        fail_msg("start: %s", err.msg);
    return p;
}

static inline struct abx_process *start_shell(const char *text)
{
    struct abx_str args[2];
    struct abx_process_spec spec = shell(text, args);
    return start(&spec);
}

/* Runs to the end and leaves what came in @w; the caller calls watcher_done(). */
static inline void run_spec(const struct abx_process_spec *spec, struct watcher *w)
{
    watch(w, start(spec), ABX_PROCESS_FROM_NOW);
    run_loop();
    assert_true(w->ended);
}

static inline void run_shell(const char *text, struct watcher *w)
{
    struct abx_str args[2];
    struct abx_process_spec spec = shell(text, args);
    run_spec(&spec, w);
}

static inline void assert_text(const struct abx_buf *b, const char *want)
{
    assert_string_equal(b->len ? b->ptr : "", want);
}

static inline int pid_in(const struct abx_buf *b)
{
    uint32_t pid = 0;
    struct abx_str line = {0}, rest = abx_buf_str(b);
    assert_true(abx_str_split(&rest, '\n', &line));
    assert_int_equal(abx_parse_u32(line, &pid), 0);
    return (int)pid;
}

/* Not there, or dead and not reaped yet (init's work, not ours). */
static inline bool is_dead(int pid)
{
    char path[64], *text = NULL;
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    if (abx_fd_read_file(AT_FDCWD, path, 4096, &text, NULL) < 0)
        return true;
    const char *state = strrchr(text, ')');
    bool dead = state != NULL && state[2] == 'Z';
    free(text);
    return dead;
}

static inline void wait_dead(int pid)
{
    int64_t until = abx_time_mono_ms() + GUARD_MS;
    while (!is_dead(pid) && abx_time_mono_ms() < until)
        usleep(1000);
    assert_true(is_dead(pid));
}

static inline void assert_between(int64_t value, int64_t low, int64_t high)
{
    if (value < low || value > high)
        fail_msg("%lld is not within %lld..%lld", (long long)value, (long long)low,
                 (long long)high);
}
