/* guest/caps/process.c: one process from start to `end` (decisions.md "Behaviour", envd.md 5).
 *
 * RUNNING until the leader is reaped, REAPED until the rule for `end` holds, then ENDED; pipes that
 * a grandchild keeps open are drained into the journal for as long as it lives. */
#include "guest/caps/process_priv.h"

#include "lib/base/assert.h"
#include "lib/base/time.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include "lib/base/banned.h"

static const struct {
    const char *name;
    unsigned next; /* set of legal successors */
} states[] = {
    [ABX__RUNNING] = {"running", 1u << ABX__REAPED},
    [ABX__REAPED] = {"reaped", 1u << ABX__ENDED},
    [ABX__ENDED] = {"ended", 0},
};
_Static_assert(ABX_COUNTOF(states) == ABX__STATE_COUNT, "one row per state");

static void enter_ended(struct abx_process *p)
{
    p->end_offset = p->journal.end_offset;
    p->ended_at = abx_time_mono_ms();
    abx__process_limit_subs(p);
    if (p->io) {
        abx__input_end(p->io, "process has ended");
        abx_timer_stop(&p->io->timer);
        if (p->io->eof[0] && p->io->eof[1])
            abx__process_close_io(p);
    }
    if (p->tap && p->tap->on_ended)
        p->tap->on_ended(p->tap_arg);
    abx__procs_on_ended(p->table, p);
    abx__process_update_reading(p);
    abx__process_kick_subs(p);
}

static void set_state(struct abx_process *p, enum abx__process_state next)
{
    ABX_ASSERT(states[p->state].next & 1u << next);
    p->state = next;
    if (next == ABX__ENDED)
        enter_ended(p);
}

/* --- the rule for `end` --- */

static int unread_bytes(const struct abx__process_io *io)
{
    int total = 0;
    for (int i = 0; i < 2; i++) {
        int bytes = 0;
        if (!io->eof[i] && ioctl(abx_stream_fd(&io->out[i]), FIONREAD, &bytes) == 0)
            total += bytes;
    }
    return total;
}

/* Called at the reap, at each EOF, and when the timer fires. */
static void check_end(struct abx_process *p)
{
    struct abx__process_io *io = p->io;
    if (p->state != ABX__REAPED || io->is_paused) /* our own pause is not the child's silence */
        return;
    if (io->eof[0] && io->eof[1]) {
        set_state(p, ABX__ENDED);
        return;
    }
    int64_t now = abx_time_mono_ms();
    int64_t silent_from = io->data_at > io->reaped_at ? io->data_at : io->reaped_at;
    if (now >= silent_from + ABX__QUIET_MS && now < io->tail_until && unread_bytes(io) > 0)
        silent_from = io->data_at = now; /* the loop was late, not the child silent */
    int64_t due = silent_from + ABX__QUIET_MS;
    if (due > io->tail_until)
        due = io->tail_until;
    if (now >= due)
        set_state(p, ABX__ENDED);
    else
        abx_timer_start(&io->timer, (uint64_t)(due - now), 0);
}

static void on_timer(struct abx_timer *t)
{
    struct abx_process *p = t->owner;
    if (p->state != ABX__RUNNING) {
        check_end(p);
        return;
    }
    p->end.by_deadline = true;
    abx_proc_signal_group(p->proc, SIGKILL);
}

void abx__process_on_reaped(struct abx_process *p, const struct abx_proc_status *st)
{
    p->end.exited = st->exited;
    p->end.exit_code = st->exited ? st->exit_code : -1;
    p->end.signum = st->exited ? 0 : st->signum;
    abx_proc_status_text(st, p->end.status);
    set_state(p, ABX__REAPED);
    if (p->io == NULL) { /* never ran */
        set_state(p, ABX__ENDED);
        return;
    }
    abx_timer_stop(&p->io->timer);
    p->io->reaped_at = abx_time_mono_ms();
    p->io->tail_until = p->io->reaped_at + ABX__TAIL_MS;
    check_end(p);
}

/* --- output --- */

void abx__process_on_output(struct abx_process *p, enum abx_output kind, const char *data,
                            size_t len)
{
    if (p->io)
        p->io->data_at = abx_time_mono_ms();
    if (p->tap && p->tap->on_output)
        p->tap->on_output(p->tap_arg, kind, abx_str_n(data, len));
    if (p->discards)
        return;
    size_t piece = kind == ABX_OUTPUT_PTY ? ABX__PTY_CHUNK : ABX_PROCESS_CHUNK;
    for (size_t done = 0; done < len; done += piece)
        abx_journal_append(&p->journal, (uint8_t)kind, data + done,
                           len - done < piece ? len - done : piece);
    if (p->journal.is_unheard && p->journal.fd >= 0 && p->io)
        abx__procs_throttle(p->table, p);
    abx__process_update_reading(p);
    abx__process_kick_subs(p);
}

void abx__process_apply_reading(struct abx_process *p)
{
    struct abx__process_io *io = p->io;
    bool is_stopped = io->is_paused || !abx_list_empty(&p->throttle);
    for (int i = 0; i < 2; i++) {
        if (io->eof[i])
            continue;
        if (is_stopped)
            abx_stream_pause(&io->out[i]);
        else
            abx_stream_resume(&io->out[i]);
    }
}

static void pause_reading(struct abx_process *p)
{
    struct abx__process_io *io = p->io;
    io->is_paused = true;
    io->paused_at = abx_time_mono_ms();
    if (p->state == ABX__REAPED)
        abx_timer_stop(&io->timer);
    abx__process_apply_reading(p);
}

static void resume_reading(struct abx_process *p)
{
    struct abx__process_io *io = p->io;
    int64_t now = abx_time_mono_ms();
    int64_t from = io->paused_at > io->reaped_at ? io->paused_at : io->reaped_at;
    io->is_paused = false;
    io->data_at = now;
    io->tail_until += now - from;
    abx__process_apply_reading(p);
    check_end(p);
}

void abx__process_update_reading(struct abx_process *p)
{
    if (p->io == NULL || p->table->closing)
        return;
    if (!p->io->is_paused && abx__process_lags(p, ABX_PROCESS_LAG))
        pause_reading(p);
    else if (p->io->is_paused && !abx__process_lags(p, ABX_PROCESS_LAG / 2))
        resume_reading(p);
}

static size_t index_of(const struct abx__process_io *io, const struct abx_stream *s)
{
    return s == &io->out[1] ? 1 : 0;
}

static void on_output_data(struct abx_stream *s, const char *data, size_t len)
{
    struct abx__process_io *io = s->owner;
    static const enum abx_output kinds[] = {ABX_OUTPUT_STDOUT, ABX_OUTPUT_STDERR};
    struct abx_process *p = io->process;
    abx__process_on_output(p, p->config.has_pty ? ABX_OUTPUT_PTY : kinds[index_of(io, s)], data,
                           len);
}

static void on_output_end(struct abx_stream *s, int error)
{
    (void)error; /* a broken pipe and an ended one are the same to readers */
    struct abx__process_io *io = s->owner;
    struct abx_process *p = io->process;
    io->eof[index_of(io, s)] = true;
    if (p->config.has_pty)
        abx__input_end(io, "terminal is closed");
    abx_stream_close(s);
    if (p->state == ABX__ENDED && io->eof[0] && io->eof[1])
        abx__process_close_io(p);
    else
        check_end(p);
}

static void on_output_drain(struct abx_stream *s)
{
    abx__input_on_drain(s->owner);
}

static void on_output_closed(struct abx_stream *s)
{
    abx__io_unref(s->owner);
}

const struct abx_stream_ops abx__output_ops = {
    .on_data = on_output_data,
    .on_end = on_output_end,
    .on_drain = on_output_drain,
    .on_closed = on_output_closed,
};

static void on_timer_closed(void *owner)
{
    struct abx_process *p = owner;
    abx__io_unref(p->io);
}

void abx__process_close_io(struct abx_process *p)
{
    struct abx__process_io *io = p->io;
    if (io == NULL)
        return;
    io->eof[0] = io->eof[1] = true;
    abx__procs_unthrottle(p);
    abx__input_end(io, "process has ended");
    abx_stream_close(&io->out[0]);
    abx_stream_close(&io->out[1]);
    abx_timer_close(&io->timer, on_timer_closed);
}

/* --- start --- */

static int errno_exit_code(int errnum)
{
    return errnum == ENOENT || errnum == ENOTDIR ? 127 : 126;
}

/* What a shell's exec would have said, and its exit code. */
static void on_failed(struct abx_defer *d)
{
    struct abx_process *p = d->owner;
    char text[512], why[128];
    int code = errno_exit_code(p->failed_errno);
    snprintf(text, sizeof(text), "/bin/sh: 1: exec: %.*s: %s\n",
             (int)(p->config.cmd.len < 300 ? p->config.cmd.len : 300), p->config.cmd.ptr,
             code == 127 ? "not found" : strerror_r(p->failed_errno, why, sizeof(why)));
    abx__process_on_output(p, ABX_OUTPUT_STDERR, text, strlen(text));
    abx__process_on_reaped(p, &(struct abx_proc_status){.exited = true, .exit_code = code});
    abx_process_unref(p);
}

static struct abx_process *process_new(struct abx_procs *t, const struct abx_process_spec *spec)
{
    struct abx_process *p = calloc(1, sizeof(*p));
    if (p == NULL)
        return NULL;
    p->io = calloc(1, sizeof(*p->io));
    if (p->io == NULL) {
        free(p);
        return NULL;
    }
    p->table = t;
    t->refs++;
    p->refs = 1;
    abx_list_init(&p->subs);
    abx_list_init(&p->throttle);
    abx_list_init(&p->io->writes);
    abx_journal_init(&p->journal, t->spill_dir, NULL);
    abx_journal_set_heard(&p->journal, false);
    p->tap = spec->tap;
    p->tap_arg = spec->tap_arg;
    p->io->process = p;
    p->io->handles = 1; /* ours, until the start is complete */
    return p;
}

int abx_process_start(struct abx_procs *t, const struct abx_process_spec *spec,
                      struct abx_process **ret, struct abx_error *err)
{
    struct abx_process *p = process_new(t, spec);
    if (p == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "start process: out of memory");
    abx_timer_init(&p->io->timer, t->loop, on_timer, p);
    p->io->handles++;
    abx_process_ref(p); /* of io */
    if (abx__process_pack(p, spec, err) < 0 || abx__process_spawn(p, spec, err) < 0) {
        abx__process_close_io(p);
        abx__io_unref(p->io);
        abx_process_unref(p);
        return -1;
    }
    abx__procs_add(t, p); /* takes our ref */
    struct abx__process_io *io = p->io;
    if (p->failed_errno != 0) {
        abx__process_close_io(p);
        p->pid = t->next_made_up_pid++;
        abx_process_ref(p); /* until on_failed() */
        abx_defer_start(&p->failed, t->loop, on_failed, p);
    } else if (spec->deadline_ms > 0) {
        uv_update_time(&t->loop->uv); /* this turn may have begun long ago */
        abx_timer_start(&io->timer, spec->deadline_ms, 0);
    }
    abx__io_unref(io);
    *ret = p;
    return 0;
}

/* --- what callers ask --- */

uint32_t abx_process_pid(const struct abx_process *p)
{
    return p->pid;
}

bool abx_process_is_running(const struct abx_process *p)
{
    return p->state == ABX__RUNNING;
}

bool abx_process_has_ended(const struct abx_process *p)
{
    return p->state == ABX__ENDED;
}

const struct abx_process_end *abx_process_end_info(const struct abx_process *p)
{
    return &p->end;
}

bool abx_process_has_pty(const struct abx_process *p)
{
    return p->config.has_pty;
}

const struct abx_process_spec *abx_process_config(const struct abx_process *p)
{
    return &p->config;
}

uint64_t abx_process_journal_start(const struct abx_process *p)
{
    return p->journal.start_offset;
}

uint64_t abx_process_journal_end(const struct abx_process *p)
{
    return p->journal.end_offset;
}

static int check_signal(int signum, struct abx_error *err)
{
    if (signum < 1 || signum > 64)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "invalid signal: %d", signum);
    return 0;
}

static int signal_result(int rc, struct abx_error *err)
{
    if (rc == -ESRCH)
        return abx_err_set(err, ABX_INTERNAL, "error sending signal: process already finished");
    if (rc < 0) {
        abx_err_sys(err, rc, "error sending signal");
        if (err)
            err->code = ABX_INTERNAL;
        return -1;
    }
    return 0;
}

int abx_process_signal(struct abx_process *p, int signum, struct abx_error *err)
{
    if (check_signal(signum, err) < 0)
        return -1;
    return signal_result(p->proc ? abx_proc_signal_group(p->proc, signum) : -ESRCH, err);
}

int abx_process_signal_leader(struct abx_process *p, int signum, struct abx_error *err)
{
    if (check_signal(signum, err) < 0)
        return -1;
    return signal_result(p->proc ? abx_proc_signal(p->proc, signum) : -ESRCH, err);
}

/* A shell that got the key's signal beside its job would forget what was typed ahead. */
static bool is_of_key(int signum)
{
    return signum == SIGINT || signum == SIGQUIT || signum == SIGTSTP;
}

int abx_process_signal_terminal(struct abx_process *p, int signum, struct abx_error *err)
{
    if (!p->config.has_pty)
        return abx_err_set(err, ABX_FAILED_PRECONDITION, "the process has no terminal");
    if (check_signal(signum, err) < 0)
        return -1;
    pid_t job = -1;
    if (p->proc && p->io && !p->io->eof[0] &&
        ioctl(abx_stream_fd(&p->io->out[0]), TIOCGPGRP, &job) == 0 && job > 1 &&
        job != abx_proc_pid(p->proc) && kill(-job, signum) == 0 && is_of_key(signum))
        return 0;
    return abx_process_signal(p, signum, err);
}

void abx_process_kill_session(struct abx_process *p)
{
    if (p->pid < ABX__PID_MADE_UP)
        abx_proc_kill_session((pid_t)p->pid);
}

void abx_process_untap(struct abx_process *p)
{
    p->tap = NULL;
}

int abx_process_resize(struct abx_process *p, uint16_t cols, uint16_t rows, struct abx_error *err)
{
    if (!p->config.has_pty)
        return abx_err_set(err, ABX_INTERNAL, "error resizing tty: tty not assigned to process");
    struct winsize size = {.ws_col = cols, .ws_row = rows};
    if (p->io == NULL || p->io->eof[0] ||
        ioctl(abx_stream_fd(&p->io->out[0]), TIOCSWINSZ, &size) < 0)
        return abx_err_set(err, ABX_INTERNAL, "error resizing tty: terminal is closed");
    p->config.cols = cols;
    p->config.rows = rows;
    return 0;
}
