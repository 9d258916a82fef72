/* guest/caps/process_input.c: stdin and pty input: writes wait in order, bounded (envd.md 5.8). */
#include "guest/caps/process_priv.h"

#include "lib/base/assert.h"

#include <poll.h>
#include <stdlib.h>

#include "lib/base/banned.h"

struct input_write {
    struct abx_list node;
    abx_process_written_fn *fn; /* NULL: cancelled */
    void *arg;
    size_t len;
    bool is_submitted; /* the stream has it and is not empty yet */
    char data[];
};

static struct abx_stream *target(struct abx__process_io *io)
{
    return io->process->config.has_pty ? &io->out[0] : &io->in;
}

static void finish_first(struct abx__process_io *io, const struct abx_error *err)
{
    struct input_write *w = abx_list_first(&io->writes, struct input_write, node);
    ABX_ASSERT(w != NULL);
    abx_list_remove(&w->node);
    io->write_count--;
    io->write_bytes -= w->len;
    if (w->fn)
        w->fn(w->arg, err);
    free(w);
}

static bool is_broken(const struct abx__process_io *io, const struct abx_stream *s)
{
    struct pollfd p = {.fd = abx_stream_fd(s), .events = POLLOUT};
    return io->in_broken || p.fd < 0 || (poll(&p, 1, 0) > 0 && (p.revents & (POLLERR | POLLNVAL)));
}

static void close_input(struct abx__process_io *io)
{
    io->in_open = false;
    if (!io->process->config.has_pty)
        abx_stream_close(&io->in);
}

static void fail_writes(struct abx__process_io *io, const char *why)
{
    struct abx_error err = {0};
    abx_err_set(&err, ABX_INTERNAL, "error writing to %s: %s",
                io->process->config.has_pty ? "tty" : "stdin", why);
    while (!abx_list_empty(&io->writes))
        finish_first(io, &err);
}

void abx__input_end(struct abx__process_io *io, const char *why)
{
    if (!io->in_open)
        return;
    close_input(io);
    abx_defer_cancel(&io->flush);
    fail_writes(io, why);
}

/* Submits in order; stops at the first write that the kernel does not take whole. */
static void flush_writes(struct abx__process_io *io)
{
    struct input_write *w;
    while (io->in_open && (w = abx_list_first(&io->writes, struct input_write, node)) != NULL) {
        struct abx_stream *s = target(io);
        if (w->is_submitted)
            return;
        if (is_broken(io, s)) {
            abx__input_end(io, "broken pipe");
            return;
        }
        w->is_submitted = true;
        if (!abx_stream_write(s, w->data, w->len))
            return; /* on_drain goes on */
        finish_first(io, NULL);
    }
    if (io->in_open && io->in_closing)
        close_input(io);
}

static void on_flush(struct abx_defer *d)
{
    struct abx__process_io *io = d->owner;
    struct abx_process *p = abx_process_ref(io->process);
    flush_writes(io);
    abx_process_unref(p);
}

void abx__input_on_drain(struct abx__process_io *io)
{
    struct abx_process *p = abx_process_ref(io->process);
    struct input_write *w = abx_list_first(&io->writes, struct input_write, node);
    if (w != NULL && w->is_submitted)
        finish_first(io, NULL);
    flush_writes(io);
    abx_process_unref(p);
}

static void on_input_data(struct abx_stream *s, const char *data, size_t len)
{
    (void)s, (void)data, (void)len; /* the write end of a pipe: nothing comes */
}

static void on_input_end(struct abx_stream *s, int error)
{
    (void)error;
    struct abx__process_io *io = s->owner;
    io->in_broken = true;
    abx__input_end(io, "broken pipe");
}

static void on_input_drain(struct abx_stream *s)
{
    abx__input_on_drain(s->owner);
}

static void on_input_closed(struct abx_stream *s)
{
    abx__io_unref(s->owner);
}

const struct abx_stream_ops abx__input_ops = {
    .on_data = on_input_data,
    .on_end = on_input_end,
    .on_drain = on_input_drain,
    .on_closed = on_input_closed,
};

static int check_kind(const struct abx_process *p, bool to_pty, struct abx_error *err)
{
    if (to_pty && !p->config.has_pty)
        return abx_err_set(err, ABX_INTERNAL,
                           "error writing to tty: tty not assigned to process \u2014 input should "
                           "be written to the stdin, not the tty");
    if (!to_pty && p->config.has_pty)
        return abx_err_set(err, ABX_INTERNAL,
                           "error writing to stdin: tty assigned to process \u2014 input should "
                           "be written to the pty, not the stdin");
    if (p->io == NULL || !p->io->in_open || p->io->in_closing)
        return abx_err_set(err, ABX_INTERNAL, "error writing to %s",
                           to_pty ? "tty: terminal is closed"
                                  : "stdin: stdin not enabled or closed");
    return 0;
}

int abx_process_write(struct abx_process *p, bool to_pty, struct abx_str data,
                      abx_process_written_fn *fn, void *arg, struct abx_error *err)
{
    if (check_kind(p, to_pty, err) < 0)
        return -1;
    struct abx__process_io *io = p->io;
    if (data.len > ABX_PROCESS_INPUT || io->write_bytes > ABX_PROCESS_INPUT - data.len ||
        io->write_count == ABX__INPUT_WRITES)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED,
                           "process %u: %zu bytes of input wait already", p->pid, io->write_bytes);
    struct input_write *w = malloc(sizeof(*w) + data.len);
    if (w == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "process %u: out of memory", p->pid);
    *w = (struct input_write){.fn = fn, .arg = arg, .len = data.len};
    if (data.len > 0)
        memcpy(w->data, data.ptr, data.len);
    abx_list_push(&io->writes, &w->node);
    io->write_count++;
    io->write_bytes += data.len;
    abx_defer_start(&io->flush, p->table->loop, on_flush, io);
    return 0;
}

void abx_process_write_cancel(struct abx_process *p, const void *arg)
{
    struct input_write *w;
    if (p->io == NULL)
        return;
    abx_list_foreach(w, &p->io->writes, struct input_write, node)
    {
        if (w->arg == arg)
            w->fn = NULL;
    }
}

int abx_process_close_stdin(struct abx_process *p, struct abx_error *err)
{
    if (p->config.has_pty)
        return abx_err_set(err, ABX_UNKNOWN,
                           "error closing stdin: cannot close stdin for PTY process \u2014 send "
                           "Ctrl+D (0x04) instead");
    if (p->io == NULL || !p->io->in_open)
        return 0;
    p->io->in_closing = true;
    abx_defer_start(&p->io->flush, p->table->loop, on_flush, p->io);
    return 0;
}
