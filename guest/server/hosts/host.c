/* guest/server/hosts/host.c: a command host from its start to its end. Loop thread. */
#include "guest/server/hosts/host_priv.h"
#include "guest/server/hosts/unpack.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/time.h"
#include "lib/proc/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum {
    TICK_MS = 50,
    HEIR_TICKS = 20,
    LINGER_MS = 500, /* from the exit to the end of its socket */
    LOG_BYTES_S = 1 << 20,
};

static const struct {
    const char *name;
    unsigned next;
} states[] = {
    [ABX__HOST_STARTING] = {"starting", 1u << ABX__HOST_READY | 1u << ABX__HOST_ENDING},
    [ABX__HOST_READY] = {"ready", 1u << ABX__HOST_ENDING},
    [ABX__HOST_ENDING] = {"ending", 1u << ABX__HOST_BACKOFF | 1u << ABX__HOST_GONE},
    [ABX__HOST_BACKOFF] = {"backoff", 1u << ABX__HOST_STARTING | 1u << ABX__HOST_BACKOFF |
                                          1u << ABX__HOST_GONE},
    [ABX__HOST_GONE] = {"gone", 0},
};
_Static_assert(ABX_COUNTOF(states) == ABX__HOST__STATES, "one row per state");

static void set_state(struct abx_host *h, enum abx__host_state to)
{
    ABX_ASSERT(states[h->state].next & 1u << to);
    abx_log(ABX_LOG_DEBUG, "command host %s: %s -> %s", h->name, states[h->state].name,
            states[to].name);
    h->state = to;
    h->since_ms = abx_time_mono_ms();
}

/* ---- sending ---- */

void abx__host_send(struct abx_host *h, const struct abx_buf *line)
{
    if (abx_buf_failed(line))
        abx__host_kill(h, "no memory for a message");
    else if (h->has_stream)
        abx_stream_write(&h->stream, line->ptr, line->len);
}

void abx_host_answer(struct abx_host *h, uint64_t q, bool ok, struct abx_str json)
{
    ABX_AUTO_BUF line;
    abx_buf_init(&line, 1 << 20);
    abx_buf_putf(&line, "{\"op\":\"answer\",\"q\":%llu,\"ok\":%s", (unsigned long long)q,
                 ok ? "true" : "false");
    if (json.len > 0)
        abx_buf_put_c(&line, ok ? ",\"value\":" : ",");
    abx_buf_put_str(&line, json);
    abx_buf_put_c(&line, "}\n");
    abx__host_send(h, &line);
}

/* ---- the end of a process ---- */

void abx__host_kill(struct abx_host *h, const char *why)
{
    if (h->state != ABX__HOST_STARTING && h->state != ABX__HOST_READY)
        return;
    abx_log(ABX_LOG_ERROR, "command host ended by the server name=%s reason=%s", h->name, why);
    snprintf(h->why, sizeof(h->why), "%s", why);
    h->was_killed = true;
    h->was_ready = h->state == ABX__HOST_READY;
    set_state(h, ABX__HOST_ENDING);
    if (h->proc)
        abx_proc_signal_group(h->proc, SIGKILL);
    if (h->has_stream)
        abx_stream_close(&h->stream);
}

static void free_host(struct abx_host *h)
{
    if (h->has_stream || h->proc || h->timer.open || h->state != ABX__HOST_GONE)
        return;
    const struct abx_host_ops *ops = h->ops;
    void *arg = h->arg;
    abx_confine_unref(h->o.confine);
    abx_arena_done(&h->arena);
    abx_host_lines_done(&h->lines);
    abx_buf_done(&h->hello);
    abx_fd_close(&h->archive_fd);
    free(h);
    if (ops->closed)
        ops->closed(arg);
}

static void on_timer_closed(void *owner)
{
    free_host(owner);
}

static void gone(struct abx_host *h)
{
    set_state(h, ABX__HOST_GONE);
    if (h->timer.open)
        abx_timer_close(&h->timer, on_timer_closed);
    else
        free_host(h);
}

static void end_text(struct abx_host *h, char *out, size_t cap)
{
    char status[64] = "connection closed";
    if (h->has_status)
        abx_proc_status_text(&h->status, status);
    snprintf(out, cap, "the command host ended: %s", h->was_killed ? h->why : status);
}

static void fail_start(struct abx_host *h)
{
    struct abx_error err = {.code = ABX_FAILED_PRECONDITION};
    int code = h->has_status && h->status.exited ? h->status.exit_code : 1;
    if (h->was_killed)
        code = 1;
    if (h->was_killed)
        snprintf(err.msg, sizeof(err.msg), "%s", h->why);
    else if (!h->has_status || !h->status.exited)
        end_text(h, err.msg, sizeof(err.msg));
    h->ops->failed(h->arg, code, &err);
}

/* Both its process and its socket are gone. */
static void ended(struct abx_host *h)
{
    char text[320];
    bool first = h->hello.len == 0;
    end_text(h, text, sizeof(text));
    abx__host_fail_calls(h, h->is_deaf ? "HostRestarted" : "HostCrashed", text);
    abx_host_lines_done(&h->lines);
    abx_host_lines_init(&h->lines);
    if (h->is_closing) {
        abx__host_fail_waiting(h, "the server is stopping", true);
        gone(h);
        return;
    }
    if (first || h->is_attached) {
        set_state(h, ABX__HOST_BACKOFF);
        h->is_failed = true;
        if (first)
            fail_start(h);
        else
            h->ops->gone(h->arg);
        return;
    }
    abx_log(ABX_LOG_ERROR, "%s name=%s", text, h->name);
    if (h->was_ready)
        h->backoff_ms = h->o.restart_min_ms;
    else
        h->backoff_ms =
            h->backoff_ms * 2 < h->o.restart_max_ms ? h->backoff_ms * 2 : h->o.restart_max_ms;
    set_state(h, ABX__HOST_BACKOFF);
}

static void check_ended(struct abx_host *h)
{
    if (h->state == ABX__HOST_ENDING && !h->has_stream && h->proc == NULL)
        ended(h);
}

static void on_proc_exit(struct abx_proc *p, const struct abx_proc_status *st, void *arg)
{
    struct abx_host *h = arg;
    h->status = *st;
    h->has_status = true;
    abx_proc_close(p);
    h->proc = NULL;
    h->exit_ms = abx_time_mono_ms();
    if (h->state == ABX__HOST_ENDING)
        check_ended(h);
}

static void on_stream_closed(struct abx_stream *s)
{
    struct abx_host *h = s->owner;
    h->has_stream = false;
    if (h->state == ABX__HOST_GONE)
        free_host(h);
    else
        check_ended(h);
}

static void stream_over(struct abx_host *h)
{
    if (h->state == ABX__HOST_STARTING || h->state == ABX__HOST_READY) {
        h->was_ready = h->state == ABX__HOST_READY;
        set_state(h, ABX__HOST_ENDING);
    }
    abx_stream_close(&h->stream);
}

static void on_end(struct abx_stream *s, int err)
{
    (void)err;
    stream_over(s->owner);
}

/* ---- messages ---- */

static void on_hello(struct abx_host *h, const struct abx_host_message *m)
{
    struct abx_error err = {0};
    ABX_AUTO_BUF line;
    abx_buf_init(&line, 65536);
    if (h->state != ABX__HOST_STARTING) {
        abx__host_kill(h, "a second hello");
        return;
    }
    bool is_first = h->hello.len == 0;
    if (is_first && h->ops->hello(h->arg, m->line, &err) < 0) {
        abx_host_write_reject(&line, abx_str(err.msg));
        abx__host_send(h, &line);
        snprintf(h->why, sizeof(h->why), "%s", err.msg);
        h->was_killed = true; /* on_proc_exit or EOF follows; the tick sees to it */
        set_state(h, ABX__HOST_ENDING);
        abx_stream_close_after_flush(&h->stream, 1000);
        return;
    }
    if (is_first) {
        abx_buf_put_str(&h->hello, m->line);
        if (abx_buf_failed(&h->hello)) {
            abx__host_kill(h, "no memory for its hello");
            return;
        }
    } else if (!abx_str_eq(abx_buf_str(&h->hello), m->line)) {
        abx_host_write_reject(&line,
                              ABX_STR("the file registers something else than at its first start"));
        abx__host_send(h, &line);
        abx__host_kill(h,
                       "it registers something else than at its first start; restart the server");
        return;
    }
    set_state(h, ABX__HOST_READY);
    abx_host_write_ready(&line, h->o.base_dir, h->o.version);
    abx__host_send(h, &line);
    abx__host_send_waiting(h);
}

static void on_log(struct abx_host *h, const struct abx_host_message *m)
{
    int64_t second = abx_time_mono_ms() / 1000;
    ABX_AUTO_BUF text;
    abx_buf_init(&text, 65536);
    if (second != h->log_second) {
        h->log_second = second;
        h->log_bytes = 0;
    }
    h->log_bytes += m->line.len;
    if (h->log_bytes > LOG_BYTES_S || abx_host_text(m->message, &text) < 0)
        return;
    while (text.len > 0 && text.ptr[text.len - 1] == '\n')
        text.len--;
    fprintf(stderr, "%.*s\n", (int)text.len, text.ptr);
}

static void take_message(struct abx_host *h, const struct abx_host_message *m)
{
    void *call_arg = NULL;
    switch (m->op) {
    case ABX_HOST_HELLO:
        on_hello(h, m);
        break;
    case ABX_HOST_RESULT:
    case ABX_HOST_ERROR:
    case ABX_HOST_RESPONSE:
    case ABX_HOST_HEAD:
    case ABX_HOST_CHUNK:
    case ABX_HOST_END:
        abx__host_take_answer(h, m);
        break;
    case ABX_HOST_ASK:
        if (m->has_id)
            call_arg = abx__host_call_arg(h, m->id);
        h->ops->ask(h->arg, m, call_arg);
        break;
    case ABX_HOST_ANSWER:
        abx__host_take_match(h, m);
        break;
    case ABX_HOST_GROUPS:
        h->ops->groups(h->arg, m->disable);
        break;
    case ABX_HOST_STOP:
        h->ops->stop(h->arg);
        break;
    case ABX_HOST_LOG:
        on_log(h, m);
        break;
    case ABX_HOST_UNKNOWN:
    case ABX_HOST__OPS:
        break;
    }
}

static void on_data(struct abx_stream *s, const char *data, size_t len)
{
    struct abx_host *h = s->owner;
    struct abx_str line;
    struct abx_host_message m;
    struct abx_error err = {0};
    if (abx_host_lines_feed(&h->lines, data, len) < 0) {
        abx__host_kill(h, "a line is too long");
        return;
    }
    while ((h->state == ABX__HOST_STARTING || h->state == ABX__HOST_READY) &&
           abx_host_lines_next(&h->lines, &line)) {
        if (abx_host_message_parse(line, &m, &err) < 0)
            abx__host_kill(h, err.msg);
        else
            take_message(h, &m);
    }
}

static const struct abx_stream_ops stream_ops = {
    .on_data = on_data,
    .on_end = on_end,
    .on_closed = on_stream_closed,
};

/* ---- start ---- */

static int open_stream(struct abx_host *h, int take_fd, struct abx_error *err)
{
    if (abx_stream_open(&h->stream, h->loop, take_fd, &stream_ops, h, err) < 0)
        return -1;
    h->has_stream = true;
    abx_stream_resume(&h->stream);
    return 0;
}

static int make_archive(struct abx_host *h, const struct abx_host_options *o, struct abx_error *err)
{
    h->archive_fd = memfd_create("abx-host", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (h->archive_fd < 0)
        return abx_err_sys(err, -errno, "memfd");
    if (o->is_packed) {
        if (abx__host_unpack(h->archive_fd, o->archive, o->archive_len, err) < 0)
            return -1;
    } else {
        int r = abx_fd_write_all(h->archive_fd, o->archive, o->archive_len);
        if (r < 0)
            return abx_err_sys(err, r, "memfd");
    }
    if (fcntl(h->archive_fd, F_ADD_SEALS,
              F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
        return abx_err_sys(err, -errno, "memfd seals");
    return 0;
}

static int spawn(struct abx_host *h, struct abx_error *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return abx_err_sys(err, -errno, "socketpair");
    ABX_AUTO_FD theirs = ends[1];
    struct abx_proc_spec spec = {
        .path = h->o.program,
        .search_path = h->o.search_path,
        .argv = h->o.argv,
        .envp = h->o.envp,
        .stdio = {h->archive_fd, 1, 2},
        .exec_fd = theirs,
        .oom_score_adj = INT32_MIN,
        .die_with_parent = true,
        .confine = h->o.confine,
    };
    h->has_status = h->was_killed = h->is_deaf = false;
    if (h->archive_fd >= 0 && lseek(h->archive_fd, 0, SEEK_SET) < 0) /* some read, some reopen it */
        return abx_err_sys(err, -errno, "memfd");
    if (open_stream(h, ends[0], err) < 0)
        return -1;
    if (abx_proc_spawn(h->loop, &spec, on_proc_exit, h, &h->proc, err) < 0) {
        abx_stream_close(&h->stream);
        return abx_err_wrap(err, "start of the command host");
    }
    return 0;
}

static void restart(struct abx_host *h)
{
    struct abx_error err = {0};
    set_state(h, ABX__HOST_STARTING);
    if (spawn(h, &err) == 0)
        return;
    abx_log(ABX_LOG_ERROR, "command host can not be started name=%s error=%s", h->name, err.msg);
    h->was_ready = false;
    set_state(h, ABX__HOST_ENDING);
    check_ended(h);
}

static void overdue(struct abx_host *h, int64_t now)
{
    switch (h->state) {
    case ABX__HOST_STARTING:
        if (now - h->since_ms > h->o.hello_ms)
            abx__host_kill(h, "no hello in time");
        else if (h->proc == NULL && !h->is_attached && now - h->exit_ms > LINGER_MS)
            stream_over(h);
        break;
    case ABX__HOST_READY:
        if (h->proc == NULL && !h->is_attached && now - h->exit_ms > LINGER_MS)
            stream_over(h);
        break;
    case ABX__HOST_ENDING: /* its socket is closed, or it was told to go */
        if (h->proc && now - h->since_ms > (h->is_closing ? h->o.stop_ms : LINGER_MS))
            abx_proc_signal_group(h->proc, SIGKILL);
        break;
    case ABX__HOST_BACKOFF:
        if (!h->is_failed && now - h->since_ms >= h->backoff_ms)
            restart(h);
        break;
    case ABX__HOST_GONE:
    case ABX__HOST__STATES:
        break;
    }
}

/* Once a second, until it was said. */
static void look_for_heirs(struct abx_host *h)
{
    if (!h->o.warns_of_heirs || h->has_warned || h->proc == NULL || ++h->ticks % HEIR_TICKS)
        return;
    int child = abx__host_heir(abx_host_pid(h));
    if (child == 0)
        return;
    h->has_warned = true;
    abx_log(ABX_LOG_WARN,
            "a child of the command host holds its socket and could answer for it: set "
            "close-on-exec on descriptor 3 name=%s child=%d",
            h->name, child);
}

static void on_tick(struct abx_timer *t)
{
    struct abx_host *h = t->owner;
    int64_t now = abx_time_mono_ms();
    look_for_heirs(h);
    overdue(h, now);
    abx__host_sweep(h, now);
}

static uint32_t or_default(uint32_t given, uint32_t value)
{
    return given ? given : value;
}

static char *const *copy_list(struct abx_arena *a, char *const *list, const char *more)
{
    size_t n = 0;
    while (list && list[n])
        n++;
    char **out = abx_arena_array(a, n + 2, sizeof(*out));
    for (size_t i = 0; out && i < n; i++)
        if ((out[i] = abx_arena_c(a, abx_str(list[i]))) == NULL)
            return NULL;
    if (out && more && (out[n] = abx_arena_c(a, abx_str(more))) == NULL)
        return NULL;
    return out;
}

static int copy_options(struct abx_host *h, const struct abx_host_options *o, struct abx_error *err)
{
    struct abx_arena *a = &h->arena;
    h->o = *o;
    abx_confine_ref(o->confine);
    h->o.hello_ms = or_default(o->hello_ms, 30000);
    h->o.restart_min_ms = or_default(o->restart_min_ms, 100);
    h->o.restart_max_ms = or_default(o->restart_max_ms, 10000);
    h->o.wait_ms = or_default(o->wait_ms, 2000);
    h->o.deaf_ms = or_default(o->deaf_ms, 5000);
    h->o.stop_ms = or_default(o->stop_ms, 5000);
    h->backoff_ms = h->o.restart_min_ms;
    h->name = abx_arena_c(a, abx_str(o->name ? o->name : "commands"));
    h->o.base_dir = abx_arena_str(a, o->base_dir);
    h->o.version = abx_arena_str(a, o->version);
    h->o.program = o->program ? abx_arena_c(a, abx_str(o->program)) : NULL;
    h->o.search_path = o->search_path ? abx_arena_c(a, abx_str(o->search_path)) : NULL;
    h->o.argv = copy_list(a, o->argv, NULL);
    h->o.envp = copy_list(a, o->envp, "ABX_HOST_FD=3");
    if (h->name == NULL || h->o.argv == NULL || h->o.envp == NULL || h->o.base_dir.ptr == NULL ||
        h->o.version.ptr == NULL || (o->program && h->o.program == NULL) ||
        (o->search_path && h->o.search_path == NULL))
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "command host: no memory");
    return 0;
}

static void undo_open(struct abx_host *h)
{
    h->is_closing = h->is_failed = true;
    h->ops = &abx__host_no_ops;
    set_state(h, ABX__HOST_ENDING);
    gone(h);
}

int abx_host_open(struct abx_loop *l, const struct abx_host_options *o,
                  const struct abx_host_ops *ops, void *arg, struct abx_host **ret,
                  struct abx_error *err)
{
    ABX_AUTO_FD attached = o->attached_fd > 0 ? o->attached_fd : -1;
    struct abx_host *h = calloc(1, sizeof(*h));
    if (h == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "command host: no memory");
    h->loop = l;
    h->ops = ops;
    h->arg = arg;
    h->archive_fd = -1;
    h->is_attached = attached >= 0;
    h->since_ms = abx_time_mono_ms();
    abx_arena_init(&h->arena, 4 << 20);
    abx_host_lines_init(&h->lines);
    abx_buf_init(&h->hello, ABX_HOST_LINE_MAX);
    abx_list_init(&h->calls);
    abx_list_init(&h->matches);
    abx_timer_init(&h->timer, l, on_tick, h);
    abx_timer_unref(&h->timer);
    abx_timer_start(&h->timer, TICK_MS, TICK_MS);
    if (copy_options(h, o, err) < 0 || (o->archive && make_archive(h, o, err) < 0) ||
        (attached >= 0 ? open_stream(h, abx_fd_take(&attached), err) : spawn(h, err)) < 0) {
        undo_open(h);
        return -1;
    }
    *ret = h;
    return 0;
}

void abx_host_close(struct abx_host *h)
{
    ABX_AUTO_BUF line = {0};
    if (h == NULL || h->is_closing)
        return;
    h->is_closing = true;
    abx_buf_init(&line, 256);
    switch (h->state) {
    case ABX__HOST_STARTING:
    case ABX__HOST_READY:
        abx__host_fail_calls(h, "HostRestarted", "the server is stopping");
        abx_host_write_shutdown(&line);
        abx__host_send(h, &line);
        if (h->state == ABX__HOST_ENDING)
            break;
        h->was_ready = h->state == ABX__HOST_READY;
        set_state(h, ABX__HOST_ENDING);
        abx_stream_close_after_flush(&h->stream, h->o.stop_ms);
        break;
    case ABX__HOST_ENDING:
        break;
    case ABX__HOST_BACKOFF:
        abx__host_fail_waiting(h, "the server is stopping", true);
        gone(h);
        break;
    case ABX__HOST_GONE:
    case ABX__HOST__STATES:
        break;
    }
}

int abx_host_pid(const struct abx_host *h)
{
    return h->proc ? (int)abx_proc_pid(h->proc) : 0;
}
