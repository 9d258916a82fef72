/* guest/kernels/kernel.c: the process of a kernel. */
#include "guest/kernels/kernel.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/loop/stream.h"
#include "lib/proc/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum {
    START_MS = 60000,
    LINGER_MS = 500,       /* from the exit to the end of the line, or the other way round */
    DRAIN_BYTES = 1 << 20, /* of one pipe, at one line: a child in the background may never pause */
    TAIL_MAX = 4,
};

struct pipe_end {
    struct abx_poll poll;
    struct abx_kernel *kernel;
    int fd;
    bool is_stderr, is_open;
    char tail[TAIL_MAX]; /* the beginning of a character */
    size_t tail_len;
};

struct abx_kernel {
    const struct abx_language *language;
    const struct abx_kernel_ops *ops;
    void *arg;
    struct abx_loop *loop;
    struct abx_proc *proc;
    struct abx_stream stream;
    struct pipe_end pipes[2];
    struct abx_timer timer; /* until READY; then of the end */
    struct abx_buf lines;   /* bytes of a line that is not complete, or those being handled */
    struct abx_buf out;     /* a line made here */
    size_t scanned;         /* of lines: no newline before */
    int handles;            /* still known to the loop */
    bool is_ready, is_paused, is_closed, is_gone, has_ended, has_exited;
    char why[96];
};

/* ---- the end ---- */

static void release(struct abx_kernel *k)
{
    if (--k->handles > 0)
        return;
    abx_buf_done(&k->lines);
    abx_buf_done(&k->out);
    free(k);
}

static void on_handle_closed(void *owner)
{
    release(owner);
}

static void on_pipe_closed(void *owner)
{
    struct pipe_end *p = owner;
    release(p->kernel);
}

static void on_stream_closed(struct abx_stream *s)
{
    release(s->owner);
}

static void close_pipe(struct pipe_end *p)
{
    if (!p->is_open)
        return;
    p->is_open = false;
    abx_poll_close(&p->poll, on_pipe_closed);
    abx_fd_close(&p->fd);
}

void abx_kernel_close(struct abx_kernel *k)
{
    if (k == NULL || k->is_closed)
        return;
    k->is_closed = true;
    k->handles++; /* ours, until all are told */
    if (k->proc != NULL)
        abx_proc_signal_group(k->proc, SIGKILL); /* and stays until it is reaped */
    abx_stream_close(&k->stream);
    close_pipe(&k->pipes[0]);
    close_pipe(&k->pipes[1]);
    abx_timer_close(&k->timer, on_handle_closed);
    release(k);
}

static void tell_gone(struct abx_kernel *k, const char *why)
{
    if (k->is_closed || k->is_gone)
        return;
    k->is_gone = true;
    k->ops->gone(k->arg, why);
}

static void on_timer(struct abx_timer *t)
{
    struct abx_kernel *k = t->owner;
    if (k->has_exited || k->has_ended)
        tell_gone(k, k->why);
    else
        tell_gone(k, "it was not ready in time");
}

static void on_exit_status(struct abx_proc *p, const struct abx_proc_status *st, void *arg)
{
    struct abx_kernel *k = arg;
    char text[64];
    abx_proc_status_text(st, text);
    snprintf(k->why, sizeof(k->why), "%s", text);
    k->has_exited = true;
    abx_proc_close(p);
    k->proc = NULL;
    if (k->has_ended)
        tell_gone(k, k->why);
    else if (!k->is_closed)
        abx_timer_start(&k->timer, LINGER_MS, 0); /* its last lines may be on the way */
    release(k);
}

static void on_stream_end(struct abx_stream *s, int error)
{
    struct abx_kernel *k = s->owner;
    (void)error;
    k->has_ended = true;
    if (k->has_exited)
        tell_gone(k, k->why);
    else
        abx_timer_start(&k->timer, LINGER_MS, 0);
}

/* ---- output by the pipes ---- */

static void emit_text(struct abx_kernel *k, bool is_stderr, struct abx_str text)
{
    if (text.len == 0 || !k->is_ready)
        return; /* what a program says while it starts is nobody's output */
    abx_buf_clear(&k->out);
    abx_kernel_write_output(&k->out, is_stderr, text);
    if (abx_buf_failed(&k->out))
        tell_gone(k, "no memory for its output");
    else
        k->ops->event(k->arg, is_stderr ? ABX_KERNEL_STDERR : ABX_KERNEL_STDOUT,
                      abx_buf_str(&k->out));
}

/* One read. The bytes, 0: nothing there now, or closed. */
static size_t read_pipe(struct pipe_end *p)
{
    struct abx_kernel *k = p->kernel;
    char *at = k->loop->scratch;
    if (!p->is_open || k->is_closed || k->is_gone)
        return 0;
    memcpy(at, p->tail, p->tail_len);
    ssize_t n = read(p->fd, at + p->tail_len, ABX_LOOP_SCRATCH - p->tail_len);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0) {
        close_pipe(p);
        return 0;
    }
    struct abx_str text = abx_str_n(at, p->tail_len + (size_t)n);
    p->tail_len = abx_kernel_utf8_tail(text);
    text.len -= p->tail_len;
    memcpy(p->tail, text.ptr + text.len, p->tail_len);
    emit_text(k, p->is_stderr, text);
    return (size_t)n;
}

static void on_readable(struct abx_poll *poll, unsigned events)
{
    (void)events;
    read_pipe(poll->owner);
}

static void drain(struct pipe_end *p)
{
    size_t total = 0, n;
    while (total < DRAIN_BYTES && (n = read_pipe(p)) > 0)
        total += n;
}

static void flush_tail(struct pipe_end *p)
{
    emit_text(p->kernel, p->is_stderr, abx_str_n(p->tail, p->tail_len));
    p->tail_len = 0;
}

/* ---- the line ---- */

static void take_event(struct abx_kernel *k, enum abx_kernel_event e, struct abx_str line)
{
    static const char go[] = "{\"go\":true}\n";
    if (e == ABX_KERNEL_SYNC) {
        abx_stream_write(&k->stream, go, sizeof(go) - 1);
        return;
    }
    if (e == ABX_KERNEL_READY && !k->is_ready) {
        k->pipes[0].tail_len = k->pipes[1].tail_len = 0;
        k->is_ready = true;
        abx_timer_stop(&k->timer);
    } else if (e == ABX_KERNEL_READY) {
        tell_gone(k, "it said twice that it is ready");
        return;
    }
    if (e == ABX_KERNEL_DONE)
        for (int i = 0; i < 2; i++)
            flush_tail(&k->pipes[i]);
    if (!k->is_closed && !k->is_gone)
        k->ops->event(k->arg, e, line);
}

static void take_line(struct abx_kernel *k, struct abx_str line)
{
    enum abx_kernel_event e;
    struct abx_error err = {0};
    if (abx_kernel_line_parse(line, &e, &err) < 0) {
        tell_gone(k, err.msg);
        return;
    }
    drain(&k->pipes[0]);
    drain(&k->pipes[1]);
    if (!k->is_closed && !k->is_gone)
        take_event(k, e, line);
}

static void on_data(struct abx_stream *s, const char *data, size_t len)
{
    struct abx_kernel *k = s->owner;
    size_t taken = 0;
    abx_buf_put(&k->lines, data, len);
    if (abx_buf_failed(&k->lines)) {
        tell_gone(k, "a line of it is too long");
        return;
    }
    k->handles++; /* a callback may close it */
    while (!k->is_closed && !k->is_gone) {
        char *from = k->lines.ptr + taken;
        char *end = memchr(from + k->scanned, '\n', k->lines.len - taken - k->scanned);
        if (end == NULL)
            break;
        size_t line = (size_t)(end - from);
        take_line(k, abx_str_n(from, line));
        taken += line + 1;
        k->scanned = 0;
    }
    abx_buf_consume(&k->lines, taken);
    k->scanned = k->lines.len;
    release(k);
}

static const struct abx_stream_ops stream_ops = {
    .on_data = on_data, .on_end = on_stream_end, .on_closed = on_stream_closed};

int abx_kernel_run(struct abx_kernel *k, const struct abx_cell *cell)
{
    ABX_AUTO_BUF text;
    abx_buf_init(&text, ABX_KERNEL_CELL_MAX);
    k->language->write(&text, cell);
    if (abx_buf_failed(&text))
        return -1;
    abx_stream_write(&k->stream, text.ptr, text.len);
    return 0;
}

void abx_kernel_interrupt(struct abx_kernel *k)
{
    if (k->proc != NULL)
        abx_proc_signal_group(k->proc, SIGINT);
}

static void set_reading(struct abx_kernel *k, bool is_paused)
{
    if (k->is_closed || k->is_paused == is_paused)
        return;
    k->is_paused = is_paused;
    for (int i = 0; i < 2; i++)
        if (k->pipes[i].is_open)
            abx_poll_set(&k->pipes[i].poll, is_paused ? 0 : ABX_POLL_IN);
    if (is_paused)
        abx_stream_pause(&k->stream);
    else
        abx_stream_resume(&k->stream);
}

void abx_kernel_pause(struct abx_kernel *k)
{
    set_reading(k, true);
}

void abx_kernel_resume(struct abx_kernel *k)
{
    set_reading(k, false);
}

/* ---- the start ---- */

static int make_script(const struct abx_language *l, struct abx_error *err)
{
    ABX_AUTO_FD fd = memfd_create("abx-kernel", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return abx_err_sys(err, -errno, "memfd");
    int r = abx_fd_write_all(fd, l->script, (size_t)(l->script_end - l->script));
    if (r < 0)
        return abx_err_sys(err, r, "memfd");
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
        return abx_err_sys(err, -errno, "memfd seals");
    return abx_fd_take(&fd);
}

static int open_pipe(struct abx_kernel *k, struct pipe_end *p, int *ret_theirs,
                     struct abx_error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return abx_err_sys(err, -errno, "pipe");
    *ret_theirs = ends[1];
    p->kernel = k;
    p->fd = ends[0];
    if (abx_poll_init(&p->poll, k->loop, p->fd, on_readable, p, err) < 0) {
        abx_fd_close(&p->fd);
        return -1;
    }
    p->is_open = true;
    k->handles++;
    abx_poll_set(&p->poll, ABX_POLL_IN);
    return 0;
}

static int open_stream(struct abx_kernel *k, int *ret_theirs, struct abx_error *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return abx_err_sys(err, -errno, "socketpair");
    *ret_theirs = ends[1];
    if (abx_stream_open(&k->stream, k->loop, ends[0], &stream_ops, k, err) < 0)
        return -1;
    k->handles++;
    abx_stream_resume(&k->stream);
    return 0;
}

static int start(struct abx_kernel *k, const struct abx_kernel_spec *s, struct abx_error *err)
{
    ABX_AUTO_FD line = -1, out = -1, errors = -1, script = -1;
    k->pipes[1].is_stderr = true;
    if (open_stream(k, &line, err) < 0 || open_pipe(k, &k->pipes[0], &out, err) < 0 ||
        open_pipe(k, &k->pipes[1], &errors, err) < 0)
        return -1;
    if (!s->language->is_fed && (script = make_script(s->language, err)) < 0)
        return -1;
    struct abx_proc_spec spec = {
        .path = s->program,
        .argv = s->language->argv,
        .envp = s->envp,
        .cwd = s->cwd,
        .stdio = {s->language->is_fed ? line : script, out, errors},
        .exec_fd = line,
        .confine = s->confine,
        .umask = s->umask,
        .oom_score_adj = ABX_PROC_OOM_USER,
        .new_session = true,
        .die_with_parent = true,
    };
    if (abx_proc_spawn(k->loop, &spec, on_exit_status, k, &k->proc, err) < 0)
        return abx_err_wrap(err, "kernel of %s in %s", s->language->name, s->cwd);
    k->handles++; /* the process, until it is reaped */
    if (s->language->is_fed)
        abx_stream_write(&k->stream, s->language->script,
                         (size_t)(s->language->script_end - s->language->script));
    abx_timer_start(&k->timer, s->start_ms != 0 ? s->start_ms : START_MS, 0);
    return 0;
}

int abx_kernel_open(struct abx_loop *l, const struct abx_kernel_spec *spec,
                    const struct abx_kernel_ops *ops, void *arg, struct abx_kernel **ret,
                    struct abx_error *err)
{
    struct abx_kernel *k = calloc(1, sizeof(*k));
    if (k == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "kernel: no memory");
    k->language = spec->language;
    k->ops = ops;
    k->arg = arg;
    k->loop = l;
    abx_buf_init(&k->lines, ABX_KERNEL_LINE_MAX);
    abx_buf_init(&k->out, (ABX_LOOP_SCRATCH + TAIL_MAX) * 6 + 256);
    abx_timer_init(&k->timer, l, on_timer, k);
    k->handles = 1;
    if (start(k, spec, err) < 0) {
        abx_kernel_close(k);
        return -1;
    }
    *ret = k;
    return 0;
}
