/* guest/server/process_input.c: POST /process/{pid}/stdin and /signal. server-api.md 4.5, D47, D89,
 * D90. */
#include "guest/server/processes_priv.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/policy/guards.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { ANSWER_BYTES = 256, WRITE_WAIT_MS = 2000, SIGNAL_MAX = 64, STATUS_BYTES = 8192 };

/* ---- stdin ---- */

/* Input on its way into the pipe. It is answered when it is in there, when nobody will ever read
 * it, or after WRITE_WAIT_MS: then it waits in the queue. */
struct input {
    struct abx__call *call; /* NULL: answered or gone */
    struct abx_process *process;
    struct abx_timer timer;
    size_t len;
    bool is_closing, is_written;
};

static void answer_written(struct abx__call *c, const struct abx_process *p, size_t len,
                           bool closed)
{
    ABX_AUTO_BUF body = {0};
    struct abx_json_writer w;
    abx_buf_init(&body, ANSWER_BYTES);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_kv_i64(&w, "pid", abx_process_pid(p));
    abx_json_kv_i64(&w, "written", (int64_t)len);
    abx_json_kv_bool(&w, "closed", closed);
    abx_json_end_object(&w);
    abx__call_answer(c, &body);
}

static void on_timer_closed(void *owner)
{
    struct input *in = owner;
    abx_process_unref(in->process);
    free(in);
}

static struct abx__call *take_call(struct input *in)
{
    struct abx__call *c = in->call;
    in->call = NULL;
    if (c)
        c->on_close = NULL;
    return c;
}

static void on_close(struct abx__call *c, bool aborted)
{
    (void)aborted;
    take_call(c->data); /* the bytes are written all the same */
}

static void on_written(void *arg, const struct abx_error *err)
{
    struct input *in = arg;
    struct abx__call *c = take_call(in);
    if (c && err)
        abx__call_fail(c, 409, "ConflictError", "%s", err->msg);
    else if (c)
        answer_written(c, in->process, in->len, in->is_closing);
    abx_timer_close(&in->timer, on_timer_closed);
}

static void on_time(struct abx_timer *t)
{
    struct input *in = t->owner;
    struct abx__call *c = take_call(in);
    if (c)
        answer_written(c, in->process, in->len, in->is_closing);
}

static void write_input(struct abx__call *c, struct abx__started *p, struct abx_str data, bool eof)
{
    struct abx_error err = {0};
    struct input *in = calloc(1, sizeof(*in));
    if (in == NULL) {
        abx__call_fail(c, 500, "MemoryError", "out of memory");
        return;
    }
    if (abx_process_write(p->process, false, data, on_written, in, &err) < 0) {
        free(in);
        abx__call_fail(c, 409, "ConflictError", "%s", err.msg);
        return;
    }
    in->call = c;
    in->process = abx_process_ref(p->process);
    in->len = data.len;
    in->is_closing = eof;
    abx_timer_init(&in->timer, &c->server->loop, on_time, in);
    abx_timer_start(&in->timer, WRITE_WAIT_MS, 0);
    c->data = in;
    c->on_close = on_close;
    if (eof) {
        p->is_stdin_closed = true;
        abx_process_close_stdin(p->process, NULL);
    }
}

/* `data_base64` wins. False: answered. */
static bool read_data(struct abx__call *c, struct abx_buf *out)
{
    const json_t *text = abx__call_field(c, "data"), *coded = abx__call_field(c, "data_base64");
    bool has_coded = coded && !json_is_null(coded), has_text = text && !json_is_null(text);
    if ((has_coded && !json_is_string(coded)) ||
        (!has_coded && has_text && !json_is_string(text))) {
        abx__call_fail(c, 400, "ValueError", "'%s' must be a string",
                       has_coded ? "data_base64" : "data");
        return false;
    }
    if (has_coded && abx_base64_decode(
                         abx_str_n(json_string_value(coded), json_string_length(coded)), out) < 0) {
        abx__call_fail(c, 400, "ValueError", "'data_base64' is not base64");
        return false;
    }
    if (!has_coded && has_text)
        abx_buf_put(out, json_string_value(text), json_string_length(text));
    if (abx_buf_failed(out)) {
        abx__call_fail(c, 500, "MemoryError", "out of memory");
        return false;
    }
    return true;
}

void abx__process_stdin_post(struct abx__call *c)
{
    ABX_AUTO_BUF data = {0};
    abx_buf_init(&data, ABX__BODY_MAX);
    struct abx__started *p = abx__started_find(c);
    if (p == NULL)
        return;
    if (!p->has_stdin || p->is_stdin_closed) {
        abx__call_fail(c, 409, "ConflictError", "%s",
                       p->has_stdin ? "the input is closed"
                                    : "the process was not started with 'stdin'");
        return;
    }
    if (!read_data(c, &data))
        return;
    bool eof = json_is_true(abx__call_field(c, "eof"));
    if (data.len == 0 && !eof) {
        abx__call_fail(c, 400, "ValueError", "one of 'data', 'data_base64', 'eof' is needed");
        return;
    }
    write_input(c, p, abx_buf_str(&data), eof);
}

/* ---- signals ---- */

static const struct {
    const char *name;
    int number;
} signals[] = {
    {"HUP", SIGHUP},   {"INT", SIGINT},   {"QUIT", SIGQUIT}, {"ABRT", SIGABRT},
    {"KILL", SIGKILL}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"PIPE", SIGPIPE},
    {"ALRM", SIGALRM}, {"TERM", SIGTERM}, {"CONT", SIGCONT}, {"STOP", SIGSTOP},
    {"TSTP", SIGTSTP}, {"TTIN", SIGTTIN}, {"TTOU", SIGTTOU}, {"WINCH", SIGWINCH},
};

static int by_name(struct abx_str name)
{
    if (abx_str_starts(name, "SIG"))
        name = abx_str_sub(name, 3, name.len);
    for (size_t i = 0; i < ABX_COUNTOF(signals); i++)
        if (abx_str_is(name, signals[i].name))
            return signals[i].number;
    return 0;
}

/* A number, its text, or a name; 0: none of them. Booleans are no numbers. */
static int64_t number_of(const json_t *v)
{
    int64_t n = 0;
    if (json_is_integer(v))
        return json_integer_value(v);
    if (json_is_real(v)) {
        double d = json_real_value(v);
        return d > -1e9 && d < 1e9 ? (int64_t)d : 0;
    }
    if (!json_is_string(v))
        return 0;
    struct abx_str text = abx_str_n(json_string_value(v), json_string_length(v));
    return abx__text_integer(abx_str_trim(text), &n) == 0 ? n : by_name(text);
}

/* False: answered. */
static bool read_signal(struct abx__call *c, int *ret)
{
    struct abx_policy_verdict v = {0};
    int64_t n = number_of(abx__call_field(c, "signal"));
    if (n < 1 || n > SIGNAL_MAX) {
        abx__call_fail(c, 400, "ValueError",
                       "'signal' must be a number from 1 to %d, or a name such as TERM",
                       (int)SIGNAL_MAX);
        return false;
    }
    if (!abx_policy_signal_check(c->rule, n, &v)) {
        abx__call_deny(c, &v);
        return false;
    }
    *ret = (int)n;
    return true;
}

/* SIGTSTP does nothing to a session without a terminal unless the program looks after it: what the
 * caller means is SIGSTOP then. */
static int effective(const struct abx_process *p, int signum)
{
    char path[64];
    size_t len;
    uint64_t caught = 0;
    ABX_AUTO_FREE char *text = NULL;
    if (signum != SIGTSTP)
        return signum;
    snprintf(path, sizeof(path), "/proc/%u/status", abx_process_pid(p));
    if (abx_fd_read_file(AT_FDCWD, path, STATUS_BYTES, &text, &len) < 0)
        return signum;
    const char *masks[] = {"\nSigCgt:\t", "\nSigIgn:\t"};
    for (size_t i = 0; i < ABX_COUNTOF(masks); i++) {
        uint64_t mask = 0;
        const char *at = strstr(text, masks[i]);
        if (at && abx_parse_hex64(abx_str_n(at + strlen(masks[i]), 16), &mask) == 0)
            caught |= mask;
    }
    return caught >> (SIGTSTP - 1) & 1 ? signum : SIGSTOP;
}

static bool is_whole_group(const struct abx__call *c)
{
    return !json_is_false(abx__call_field(c, "group"));
}

static void send_signal(struct abx__call *c, const struct abx__started *p, int signum)
{
    struct abx_error err = {0};
    ABX_AUTO_BUF body = {0};
    struct abx_json_writer w;
    int number = effective(p->process, signum);
    int rc = is_whole_group(c) ? abx_process_signal(p->process, number, &err)
                               : abx_process_signal_leader(p->process, number, &err);
    if (rc < 0) {
        if (err.sys == EPERM)
            abx__call_fail(c, 403, "PermissionError", "%s", err.msg);
        else
            abx__call_fail(c, 404, "NotFoundError", "%s", err.msg);
        return;
    }
    abx_buf_init(&body, ANSWER_BYTES);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_kv_i64(&w, "pid", abx_process_pid(p->process));
    abx_json_kv_i64(&w, "signal", signum);
    abx_json_end_object(&w);
    abx__call_answer(c, &body);
}

void abx__process_signal_post(struct abx__call *c)
{
    int64_t pid;
    int signum;
    if (!abx__started_pid(c, &pid) || !read_signal(c, &signum))
        return;
    if (pid == 1 || pid == getpid()) {
        abx__call_fail(c, 403, "PermissionError", "process %lld takes no signals from here",
                       (long long)pid);
        return;
    }
    struct abx__started *p = abx__started_by_pid(c, pid);
    if (p)
        send_signal(c, p, signum);
}
