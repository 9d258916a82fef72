/* guest/caps/run.c: one program from start to end (run.h). Loop thread. */
#include "guest/caps/run.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/loop/stream.h"
#include "lib/proc/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { SILENT_MS = 500, AFTER_MS = 2000, STREAMS = 2 };

struct output {
    struct abx_stream stream;
    struct abx_run *run;
    bool is_open; /* the handle; on_closed is to come */
    bool at_eof;
};
struct abx_run {
    struct abx_loop *loop;
    const struct abx_run_ops *ops;
    void *owner;
    struct abx_proc *proc;
    struct output outputs[STREAMS];
    struct abx_timer deadline, silence, limit;
    struct abx_defer later;
    struct abx_run_end end;
    unsigned handles;
    bool is_reaped, is_paused, has_ended, is_closed, is_busy;
};

static void release(struct abx_run *r)
{
    if (r->is_closed && r->handles == 0 && !r->is_busy)
        free(r);
}

static void on_timer_closed(void *owner)
{
    struct abx_run *r = owner;
    r->handles--;
    release(r);
}

static void finish(struct abx_run *r)
{
    if (r->has_ended || r->is_closed)
        return;
    r->has_ended = true;
    for (int i = 0; i < STREAMS; i++)
        r->end.is_output_open = r->end.is_output_open || !r->outputs[i].at_eof;
    r->is_busy = true;
    r->ops->on_end(r, &r->end);
    r->is_busy = false;
    release(r);
}

static void on_later(struct abx_defer *d)
{
    finish(d->owner);
}

/* Both pipes at EOF and the leader reaped: told from the loop, never from within a call. */
static void check_end(struct abx_run *r)
{
    if (r->is_reaped && r->outputs[0].at_eof && r->outputs[1].at_eof && !r->has_ended &&
        !r->is_closed)
        abx_defer_start(&r->later, r->loop, on_later, r);
}

static void on_limit(struct abx_timer *t)
{
    struct abx_run *r = t->owner;
    if (!r->is_paused)
        finish(r);
    else /* time in which nobody takes the output does not count */
        abx_timer_start(&r->limit, AFTER_MS, 0);
}

static void on_silence(struct abx_timer *t)
{
    struct abx_run *r = t->owner;
    if (!r->is_paused)
        finish(r);
}

static void on_deadline(struct abx_timer *t)
{
    struct abx_run *r = t->owner;
    r->end.by_deadline = true;
    if (r->proc)
        abx_proc_signal_group(r->proc, SIGKILL);
}

static void on_leader_exit(struct abx_proc *p, const struct abx_proc_status *st, void *arg)
{
    struct abx_run *r = arg;
    (void)p;
    r->is_reaped = true;
    r->end.exit_code = st->exited ? st->exit_code : -st->signum;
    if (r->is_closed)
        return;
    abx_timer_stop(&r->deadline);
    abx_timer_start(&r->silence, SILENT_MS, 0);
    abx_timer_start(&r->limit, AFTER_MS, 0);
    check_end(r);
}

static void on_data(struct abx_stream *s, const char *data, size_t len)
{
    struct output *o = s->owner;
    struct abx_run *r = o->run;
    enum abx_output kind = o == &r->outputs[0] ? ABX_OUTPUT_STDOUT : ABX_OUTPUT_STDERR;
    if (r->is_closed || r->has_ended)
        return;
    if (r->is_reaped)
        abx_timer_start(&r->silence, SILENT_MS, 0);
    r->is_busy = true;
    bool wants_more = r->ops->on_data(r, kind, abx_str_n(data, len));
    r->is_busy = false;
    if (!wants_more && !r->is_closed) {
        r->is_paused = true;
        for (int i = 0; i < STREAMS; i++)
            if (r->outputs[i].is_open)
                abx_stream_pause(&r->outputs[i].stream);
    }
    release(r);
}

static void on_stream_end(struct abx_stream *s, int err)
{
    struct output *o = s->owner;
    (void)err;
    o->at_eof = true;
    abx_stream_close(s);
    check_end(o->run);
}

static void on_stream_closed(struct abx_stream *s)
{
    struct output *o = s->owner;
    o->is_open = false;
    o->run->handles--;
    release(o->run);
}

static const struct abx_stream_ops stream_ops = {
    .on_data = on_data, .on_end = on_stream_end, .on_closed = on_stream_closed};

static int open_output(struct abx_run *r, int i, int take_fd, struct abx_error *err)
{
    struct output *o = &r->outputs[i];
    o->run = r;
    if (abx_stream_open(&o->stream, r->loop, take_fd, &stream_ops, o, err) < 0)
        return -1;
    o->is_open = true;
    r->handles++;
    return 0;
}

void abx_run_describe(const struct abx_run_spec *spec, struct abx_proc_spec *ret)
{
    *ret = (struct abx_proc_spec){.path = spec->path,
                                  .search_path = spec->search_path,
                                  .argv = spec->argv,
                                  .envp = spec->envp,
                                  .cwd = spec->cwd,
                                  .stdio = {spec->stdin_fd > 0 ? spec->stdin_fd : -1, -1, -1},
                                  .oom_score_adj = INT_MIN,
                                  .new_session = true,
                                  .umask = spec->umask,
                                  .confine = spec->confine,
                                  .exec_fd = spec->exec_fd};
    if (spec->user == NULL)
        return;
    ret->set_ids = true;
    ret->uid = spec->user->uid;
    ret->gid = spec->user->gid;
    ret->groups = spec->user->groups;
    ret->group_count = spec->user->group_count;
    ret->no_privileges = !spec->keeps_privileges;
}

int abx_run_give(const struct abx_user *user, const int *fds, size_t count)
{
    for (size_t i = 0; user != NULL && i < count; i++)
        if (fds[i] >= 0 && fchown(fds[i], user->uid, user->gid) < 0)
            return -errno;
    return 0;
}

/* Whether this process has a terminal that a child could take hold of; not known counts as yes. */
static bool has_terminal(void)
{
    ABX_AUTO_FD fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    return fd >= 0 || errno != ENXIO;
}

static int spawn(struct abx_run *r, const struct abx_run_spec *spec, const int ends[STREAMS],
                 struct abx_error *err)
{
    struct abx_proc_spec p;
    abx_run_describe(spec, &p);
    p.stdio[1] = ends[0];
    p.stdio[2] = ends[1];
    /* A session is scheduled as if it were another user's (autogroup): beside other work that more
     * than doubles the time of a short program. A group is as good where there is no terminal. */
    p.new_session = spec->confine != NULL || has_terminal();
    int rc = abx_run_give(spec->user, ends, STREAMS);
    if (rc < 0)
        return abx_err_sys(err, rc, "owner of the output of %s", spec->path);
    return abx_proc_spawn(r->loop, &p, on_leader_exit, r, &r->proc, err);
}

static void begin(struct abx_run *r, uint64_t timeout_ms)
{
    abx_timer_init(&r->deadline, r->loop, on_deadline, r);
    abx_timer_init(&r->silence, r->loop, on_silence, r);
    abx_timer_init(&r->limit, r->loop, on_limit, r);
    r->handles += 3;
    if (timeout_ms)
        abx_timer_start(&r->deadline, timeout_ms, 0);
    for (int i = 0; i < STREAMS; i++)
        abx_stream_resume(&r->outputs[i].stream);
}

int abx_run_start(struct abx_loop *l, const struct abx_run_spec *spec,
                  const struct abx_run_ops *ops, void *owner, struct abx_run **ret,
                  struct abx_error *err)
{
    int out[2] = {-1, -1}, errs[2] = {-1, -1};
    struct abx_run *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "run: out of memory");
    r->loop = l;
    r->ops = ops;
    r->owner = owner;
    int rc = -1;
    if (pipe2(out, O_CLOEXEC) < 0 || pipe2(errs, O_CLOEXEC) < 0)
        abx_err_sys(err, -errno, "pipe");
    else
        rc = spawn(r, spec, (const int[STREAMS]){out[1], errs[1]}, err);
    abx_fd_close(&out[1]);
    abx_fd_close(&errs[1]);
    if (rc < 0) {
        abx_fd_close(&out[0]);
        abx_fd_close(&errs[0]);
        free(r);
        return -1;
    }
    rc = open_output(r, 0, out[0], err);
    if (rc < 0)
        abx_fd_close(&errs[0]);
    else
        rc = open_output(r, 1, errs[0], err);
    if (rc < 0) {
        abx_run_close(r);
        return -1;
    }
    begin(r, spec->timeout_ms);
    *ret = r;
    return 0;
}

void *abx_run_owner(const struct abx_run *r)
{
    return r->owner;
}

pid_t abx_run_pid(const struct abx_run *r)
{
    return abx_proc_pid(r->proc);
}

void abx_run_resume(struct abx_run *r)
{
    if (!r->is_paused || r->is_closed)
        return;
    r->is_paused = false;
    if (r->is_reaped)
        abx_timer_start(&r->silence, SILENT_MS, 0);
    for (int i = 0; i < STREAMS; i++)
        if (r->outputs[i].is_open)
            abx_stream_resume(&r->outputs[i].stream);
}

void abx_run_signal(struct abx_run *r, int signum)
{
    if (r->proc && !r->is_reaped)
        abx_proc_signal_group(r->proc, signum);
}

void abx_run_close(struct abx_run *r)
{
    if (r == NULL || r->is_closed)
        return;
    r->is_closed = true;
    if (r->proc && !r->is_reaped)
        abx_proc_signal_group(r->proc, SIGKILL);
    if (r->proc)
        abx_proc_close(r->proc);
    r->proc = NULL;
    abx_defer_cancel(&r->later);
    for (int i = 0; i < STREAMS; i++)
        if (r->outputs[i].is_open)
            abx_stream_close(&r->outputs[i].stream);
    struct abx_timer *timers[] = {&r->deadline, &r->silence, &r->limit};
    r->is_busy = true;
    for (size_t i = 0; i < ABX_COUNTOF(timers); i++)
        abx_timer_close(timers[i], on_timer_closed);
    r->is_busy = false;
    release(r);
}
