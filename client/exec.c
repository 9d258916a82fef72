/* client/exec.c: one command in a sandbox over Connect: output streamed, stdin and signals sent. */
#include "client/client_priv.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/contract/contract.h"
#include "lib/json/json.h"
#include "lib/wire/envelope.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "lib/base/assert.h"
#include "lib/base/banned.h"

enum { MESSAGE_MAX = 1 << 20, REQUEST_MAX = 8 << 20, STDIN_CHUNK = 65536, SIGNALS = 4 };
static const int forwarded[SIGNALS] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

struct exec;
/* A unary call beside the stream: one for stdin, one for signals. */
struct side {
    struct exec *x;
    struct abx_http_call *call;
    void (*done)(struct exec *x, bool ok);
};

struct exec {
    struct abx_sandbox *sb;
    struct abx_client *c;
    const struct abx_exec_options *o;
    struct abx_exec_result *ret;
    struct abx_client_error *err;
    char *basic;
    struct abx_http_call *call;
    struct abx_envelope_reader reader;
    struct abx_arena arena; /* of one message */
    struct abx_buf failure; /* body of an answer that is not 200 */
    struct side input, signals;
    struct abx_poll input_ready;
    struct abx_signal watch[SIGNALS];
    size_t handles; /* loop handles still to close */
    uint32_t pid;
    int status, pending_signal, result;
    bool input_polled, input_on, input_closing, done, ended;
};

static void finish(struct exec *x, int result)
{
    if (x->done)
        return;
    x->call = NULL;
    x->done = true;
    x->result = result;
    abx_loop_stop(&x->c->loop);
}

static void stop_stream(struct exec *x, int result)
{
    if (x->call != NULL)
        abx_http_call_cancel(x->call);
    finish(x, result);
}

/* ---- unary calls beside the stream ---- */

static void side_over(struct side *s, bool ok)
{
    s->call = NULL;
    if (!s->x->done)
        s->done(s->x, ok);
}

static void on_side_head(struct abx_http_call *call, const struct abx_http_head *head)
{
    (void)call;
    (void)head;
}

static void on_side_body(struct abx_http_call *call, const char *data, size_t len)
{
    (void)call;
    (void)data;
    (void)len;
}

static void on_side_end(struct abx_http_call *call)
{
    side_over(abx_http_call_owner(call), true);
}

static void on_side_error(struct abx_http_call *call, const struct abx_error *err, bool head_seen)
{
    (void)err;
    (void)head_seen;
    side_over(abx_http_call_owner(call), false);
}

static const struct abx_http_call_ops side_ops = {.on_head = on_side_head,
                                                  .on_body = on_side_body,
                                                  .on_end = on_side_end,
                                                  .on_error = on_side_error};

static void side_start(struct side *s, const char *method, const struct abx_buf *json)
{
    struct abx_http_extra headers[CLIENT_HEADERS];
    struct abx_error base;
    ABX_AUTO_BUF head;
    char target[64];
    abx_buf_init(&head, ABX_HTTP_HEAD_MAX);
    snprintf(target, sizeof(target), "/process.Process/%s", method);
    abx__sandbox_headers(s->x->sb, "application/json", s->x->basic, headers);
    abx__client_head(s->x->c, "POST", abx_str(target), headers, &head);
    abx_http_write_headerf(&head, "Content-Length", "%zu", json->len);
    abx_http_write_end(&head);
    if (abx_buf_failed(&head) || abx_buf_failed(json) ||
        abx_http_call_start(s->x->c->pool, s->x->c->target, abx_buf_str(&head), false, &side_ops, s,
                            &s->call, &base) < 0) {
        side_over(s, false);
        return;
    }
    if (s->call == NULL)
        return;
    abx_http_call_write(s->call, json->ptr, json->len);
    if (s->call != NULL)
        abx_http_call_finish(s->call);
}

/* Opens {"process":{"pid":N} and leaves the object open. */
static void begin_selector(struct abx_json_writer *w, struct abx_buf *b, uint32_t pid)
{
    abx_json_writer_init(w, b);
    abx_json_begin_object(w);
    abx_json_key(w, ABX_STR("process"));
    abx_json_begin_object(w);
    abx_json_kv_i64(w, "pid", pid);
    abx_json_end_object(w);
}

/* ---- signals ---- */

static void send_signal(struct exec *x, int signum)
{
    if (x->pid == 0 || x->signals.call != NULL) {
        /* Sent when the process is known or the last one is through; a second one that had to wait
         * ends the call, so that a stuck engine can be left. */
        if (x->pending_signal != 0)
            stop_stream(x, abx__client_fail(x->err, "E3001", "client", "interrupted"));
        x->pending_signal = signum;
        return;
    }
    ABX_AUTO_BUF json;
    struct abx_json_writer w;
    abx_buf_init(&json, 4096);
    begin_selector(&w, &json, x->pid);
    abx_json_kv_i64(&w, "signal", signum);
    abx_json_end_object(&w);
    side_start(&x->signals, "SendSignal", &json);
}

static void send_pending_signal(struct exec *x)
{
    int signum = x->pending_signal;
    x->pending_signal = 0;
    if (signum)
        send_signal(x, signum);
}

static void on_signal_sent(struct exec *x, bool ok)
{
    (void)ok; /* the process may be gone; its end event says so */
    send_pending_signal(x);
}

static void on_signal(struct abx_signal *s, int signum)
{
    send_signal(s->owner, signum);
}

/* ---- stdin ---- */

static void pump_input(struct exec *x);

static void close_input(struct exec *x)
{
    ABX_AUTO_BUF json;
    struct abx_json_writer w;
    abx_buf_init(&json, 4096);
    begin_selector(&w, &json, x->pid);
    abx_json_end_object(&w);
    x->input_closing = true;
    side_start(&x->input, "CloseStdin", &json);
}

static void send_input(struct exec *x, const char *data, size_t len)
{
    ABX_AUTO_BUF text;
    ABX_AUTO_BUF json;
    struct abx_json_writer w;
    abx_buf_init(&text, 2 * STDIN_CHUNK);
    abx_buf_init(&json, 3 * STDIN_CHUNK);
    abx_base64_encode(data, len, true, &text);
    begin_selector(&w, &json, x->pid);
    abx_json_key(&w, ABX_STR("input"));
    abx_json_begin_object(&w);
    abx_json_kv_str(&w, "stdin", abx_buf_str(&text));
    abx_json_end_object(&w);
    abx_json_end_object(&w);
    side_start(&x->input, "SendInput", &json);
}

static void on_input_sent(struct exec *x, bool ok)
{
    if (x->input_closing || !ok)
        x->input_on = false; /* the command closed its stdin or ended: nothing more to send */
    else
        pump_input(x);
}

static void read_input(struct exec *x)
{
    char data[STDIN_CHUNK];
    ssize_t n;
    do
        n = read(x->o->stdin_fd, data, sizeof(data));
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN) {
        pump_input(x);
        return;
    }
    if (n <= 0)
        close_input(x);
    else
        send_input(x, data, (size_t)n);
}

static void on_input_ready(struct abx_poll *p, unsigned events)
{
    (void)events;
    abx_poll_set(p, 0);
    read_input(p->owner);
}

/* A pipe or socket is waited for; a regular file, which epoll refuses, is read at once. */
static void pump_input(struct exec *x)
{
    if (x->input_polled)
        abx_poll_set(&x->input_ready, ABX_POLL_IN);
    else
        read_input(x);
}

static void start_input(struct exec *x)
{
    struct abx_error base;
    if (x->o->stdin_fd < 0 || x->o->argv == NULL)
        return;
    x->input_on = true;
    x->input_polled =
        abx_poll_init(&x->input_ready, &x->c->loop, x->o->stdin_fd, on_input_ready, x, &base) == 0;
    pump_input(x);
}

/* ---- events of the stream ---- */

struct event {
    uint32_t pid; /* first: an offset of 0 means "no flag" to the tables */
    bool has_start, has_data, has_end, has_code, exited;
    struct abx_str out, err_out, pty, status;
    int64_t exit_code;
    struct abx_str code, message;
};
#define AT(field) offsetof(struct event, field)
static const struct abx_json_field start_fields[] = {{"pid", ABX_JSON_U32, AT(pid), 0}, {0}};
static const struct abx_json_field data_fields[] = {{"stdout", ABX_JSON_STR, AT(out), 0},
                                                    {"stderr", ABX_JSON_STR, AT(err_out), 0},
                                                    {"pty", ABX_JSON_STR, AT(pty), 0},
                                                    {0}};
static const struct abx_json_field end_fields[] = {{"exitCode", ABX_JSON_I64, AT(exit_code), 0},
                                                   {"exited", ABX_JSON_BOOL, AT(exited), 0},
                                                   {"status", ABX_JSON_STR, AT(status), 0},
                                                   {0}};
/* The members of the oneof are flattened into one struct: their tables share its offsets. */
static const struct abx_json_field event_fields[] = {
    {"start", ABX_JSON_OBJECT, 0, 0, start_fields, sizeof(struct event), 0, AT(has_start)},
    {"data", ABX_JSON_OBJECT, 0, 0, data_fields, sizeof(struct event), 0, AT(has_data)},
    {"end", ABX_JSON_OBJECT, 0, 0, end_fields, sizeof(struct event), 0, AT(has_end)},
    {0}};
static const struct abx_json_field message_fields[] = {
    {"event", ABX_JSON_OBJECT, 0, 0, event_fields, sizeof(struct event)}, {0}};
static const struct abx_json_field error_fields[] = {
    {"code", ABX_JSON_STR, AT(code), 0}, {"message", ABX_JSON_STR, AT(message), 0}, {0}};
static const struct abx_json_field last_fields[] = {
    {"error", ABX_JSON_OBJECT, 0, 0, error_fields, sizeof(struct event), 0, AT(has_code)}, {0}};

static void put_output(struct exec *x, struct abx_str text,
                       void (*fn)(void *arg, const char *data, size_t len))
{
    ABX_AUTO_BUF raw;
    abx_buf_init(&raw, MESSAGE_MAX);
    if (text.len && fn && abx_base64_decode(text, &raw) == 0)
        fn(x->o->arg, raw.ptr, raw.len);
}

static const struct {
    const char *text;
    int signum;
} signal_texts[] = {{"hangup", SIGHUP},
                    {"interrupt", SIGINT},
                    {"quit", SIGQUIT},
                    {"illegal instruction", SIGILL},
                    {"trace", SIGTRAP},
                    {"aborted", SIGABRT},
                    {"bus error", SIGBUS},
                    {"floating point exception", SIGFPE},
                    {"killed", SIGKILL},
                    {"user defined signal 1", SIGUSR1},
                    {"segmentation fault", SIGSEGV},
                    {"user defined signal 2", SIGUSR2},
                    {"broken pipe", SIGPIPE},
                    {"alarm clock", SIGALRM},
                    {"terminated", SIGTERM}};

static int signal_of(struct abx_str status)
{
    uint32_t number;
    if (!abx_str_starts(status, "signal: "))
        return 0;
    struct abx_str name = abx_str_sub(status, 8, status.len);
    for (size_t i = 0; i < ABX_COUNTOF(signal_texts); i++)
        if (abx_str_starts(name, signal_texts[i].text))
            return signal_texts[i].signum;
    if (abx_str_starts(name, "signal ") &&
        abx_parse_u32(abx_str_sub(name, 7, name.len), &number) == 0 && number < 128)
        return (int)number;
    return 0;
}

static void take_end(struct exec *x, const struct event *e)
{
    x->ended = true;
    x->ret->exited = e->exited;
    x->ret->exit_code = (int)e->exit_code;
    x->ret->signum = e->exited ? 0 : signal_of(e->status);
    if (abx_str_to_c(e->status, x->ret->status, sizeof(x->ret->status)) < 0)
        x->ret->status[0] = '\0';
}

static void take_event(struct exec *x, struct abx_str payload)
{
    struct event e = {0};
    if (abx_json_decode_text(payload, false, message_fields, &e, &x->arena, NULL) < 0)
        return; /* an event kind of a newer envd */
    if (e.has_start && x->pid == 0) {
        x->pid = e.pid;
        if (x->o->on_start)
            x->o->on_start(x->o->arg, e.pid);
        if (x->o->detach) {
            stop_stream(x, 0);
            return;
        }
        send_pending_signal(x);
        start_input(x);
    }
    if (e.has_data) {
        put_output(x, e.out, x->o->on_stdout);
        put_output(x, e.err_out, x->o->on_stderr);
        put_output(x, e.pty, x->o->on_stdout);
    }
    if (e.has_end)
        take_end(x, &e);
}

static const struct {
    const char *code, *id;
} codes[] = {
    {"deadline_exceeded", "E3001"}, {"unauthenticated", "E1002"}, {"unavailable", "E5001"}};

static void take_last(struct exec *x, struct abx_str payload)
{
    struct event e = {0};
    int result = 0;
    if (abx_json_decode_text(payload, true, last_fields, &e, &x->arena, NULL) == 0 && e.has_code) {
        const char *id = "E3006";
        for (size_t i = 0; i < ABX_COUNTOF(codes); i++)
            if (abx_str_is(e.code, codes[i].code))
                id = codes[i].id;
        result = abx__client_fail(x->err, id, "envd", "%.*s: %.*s", ABX_STR_FMT(e.code),
                                  ABX_STR_FMT(e.message));
    } else if (!x->ended)
        result = abx__client_fail(x->err, "E3006", "envd", "the stream ended without an end event");
    stop_stream(x, result);
}

static void on_head(struct abx_http_call *call, const struct abx_http_head *head)
{
    struct exec *x = abx_http_call_owner(call);
    x->status = head->status;
}

static void on_body(struct abx_http_call *call, const char *data, size_t len)
{
    struct exec *x = abx_http_call_owner(call);
    struct abx_str rest = abx_str_n(data, len), payload;
    struct abx_error base;
    uint8_t flags;
    int r = 0;
    if (x->status != 200) {
        abx_buf_put(&x->failure, data, len);
        return;
    }
    while (!x->done && (r = abx_envelope_read(&x->reader, &rest, &flags, &payload, &base)) > 0) {
        if (flags & ABX_ENVELOPE_END)
            take_last(x, payload);
        else
            take_event(x, payload);
        abx_arena_done(&x->arena);
    }
    if (r < 0)
        stop_stream(x, abx__client_fail_base(x->err, "E9000", "envd", &base));
}

static void on_end(struct abx_http_call *call)
{
    struct exec *x = abx_http_call_owner(call);
    if (x->status != 200)
        finish(x, abx__client_fail_answer(x->err, "envd", "exec", x->status,
                                          abx_buf_str(&x->failure)));
    else
        finish(x, abx__client_fail(x->err, "E5001", "edge", "the stream was cut"));
}

static void on_error(struct abx_http_call *call, const struct abx_error *base, bool head_seen)
{
    struct exec *x = abx_http_call_owner(call);
    abx__client_fail(x->err, "E5001", head_seen ? "edge" : "client", "%s: %s",
                     head_seen ? "the stream was cut" : x->c->url, base->msg);
    abx__client_next(x->err, head_seen ? "the sandbox may have been killed: abx list"
                                       : "is the engine running? abx engine status");
    finish(x, -1);
}

static const struct abx_http_call_ops stream_ops = {
    .on_head = on_head, .on_body = on_body, .on_end = on_end, .on_error = on_error};

/* ---- the request ---- */

static void put_request(struct exec *x, struct abx_buf *json)
{
    const struct abx_exec_options *o = x->o;
    struct abx_json_writer w;
    if (o->argv == NULL) {
        begin_selector(&w, json, o->attach_pid);
        abx_json_end_object(&w);
        return;
    }
    abx_json_writer_init(&w, json);
    abx_json_begin_object(&w);
    abx_json_key(&w, ABX_STR("process"));
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "cmd", o->argv[0]);
    abx_json_key(&w, ABX_STR("args"));
    abx_json_begin_array(&w);
    for (const char *const *a = o->argv + 1; *a; a++)
        abx_json_str(&w, abx_str(*a));
    abx_json_end_array(&w);
    if (o->env && o->env->key) {
        abx_json_key(&w, ABX_STR("envs"));
        abx_json_begin_object(&w);
        for (const struct abx_pair *p = o->env; p->key; p++)
            abx_json_kv_c(&w, p->key, p->value);
        abx_json_end_object(&w);
    }
    if (o->cwd)
        abx_json_kv_c(&w, "cwd", o->cwd);
    abx_json_end_object(&w);
    abx_json_kv_bool(&w, "stdin", o->stdin_fd >= 0);
    abx_json_end_object(&w);
}

static int start_stream(struct exec *x)
{
    struct abx_http_extra headers[CLIENT_HEADERS];
    unsigned char envelope[ABX_ENVELOPE_HEAD];
    struct abx_error base;
    ABX_AUTO_BUF json;
    ABX_AUTO_BUF head;
    abx_buf_init(&json, REQUEST_MAX);
    abx_buf_init(&head, ABX_HTTP_HEAD_MAX);
    put_request(x, &json);
    abx__sandbox_headers(x->sb, "application/connect+json", x->basic, headers);
    abx__client_head(x->c, "POST",
                     x->o->argv ? ABX_STR("/process.Process/Start")
                                : ABX_STR("/process.Process/Connect"),
                     headers, &head);
    abx_http_write_header(&head, ABX_STR("Connect-Protocol-Version"), ABX_STR("1"));
    abx_http_write_header(&head, ABX_STR(ABX_HEADER_KEEPALIVE), ABX_STR("50"));
    if (x->o->timeout_ms)
        abx_http_write_headerf(&head, "Connect-Timeout-Ms", "%u", x->o->timeout_ms);
    if (x->o->argv == NULL && x->o->replay_from >= 0)
        abx_http_write_headerf(&head, ABX_HEADER_JOURNAL_OFFSET, "%lld",
                               (long long)x->o->replay_from);
    abx_http_write_headerf(&head, "Content-Length", "%zu", json.len + sizeof(envelope));
    abx_http_write_end(&head);
    if (abx_buf_failed(&json) || abx_buf_failed(&head))
        return abx__client_fail(x->err, "E8002", "client",
                                "the command is over %d bytes, or a "
                                "user name or header is not allowed",
                                REQUEST_MAX);
    if (abx_http_call_start(x->c->pool, x->c->target, abx_buf_str(&head), false, &stream_ops, x,
                            &x->call, &base) < 0)
        return abx__client_fail_base(x->err, "E5001", "client", &base);
    abx_envelope_head(0, (uint32_t)json.len, envelope);
    if (x->call != NULL)
        abx_http_call_write(x->call, envelope, sizeof(envelope));
    if (x->call != NULL)
        abx_http_call_write(x->call, json.ptr, json.len);
    if (x->call != NULL)
        abx_http_call_finish(x->call);
    return 0;
}

static void watch_signals(struct exec *x)
{
    struct abx_error base;
    for (size_t i = 0; x->o->forward_signals && i < SIGNALS; i++)
        (void)abx_signal_init(&x->watch[i], &x->c->loop, forwarded[i], on_signal, x, &base);
}

static void on_handle_closed(void *owner)
{
    struct exec *x = owner;
    if (--x->handles == 0)
        abx_loop_stop(&x->c->loop);
}

/* The handles are in *x: the loop must have let go before it returns to the stack. */
static void close_handles(struct exec *x)
{
    if (x->input.call)
        abx_http_call_cancel(x->input.call);
    if (x->signals.call)
        abx_http_call_cancel(x->signals.call);
    for (size_t i = 0; i < SIGNALS; i++)
        if (x->watch[i].open) {
            x->handles++;
            abx_signal_close(&x->watch[i], on_handle_closed);
        }
    if (x->input_polled) {
        x->handles++;
        abx_poll_close(&x->input_ready, on_handle_closed);
    }
    while (x->handles > 0)
        abx_loop_run(&x->c->loop);
}

int abx_sandbox_exec(struct abx_sandbox *sb, const struct abx_exec_options *o,
                     struct abx_exec_result *ret, struct abx_client_error *err)
{
    struct exec x = {.sb = sb, .c = sb->client, .o = o, .ret = ret, .err = err};
    x.input = (struct side){.x = &x, .done = on_input_sent};
    x.signals = (struct side){.x = &x, .done = on_signal_sent};
    if ((o->argv == NULL || o->argv[0] == NULL) == (o->attach_pid == 0))
        return abx__client_fail(err, "E8002", "client", "give a command or a pid to attach to");
    x.basic = o->user ? abx__sandbox_basic(o->user) : NULL;
    *ret = (struct abx_exec_result){0};
    pthread_mutex_lock(&x.c->lock);
    abx_envelope_reader_init(&x.reader, MESSAGE_MAX);
    abx_arena_init(&x.arena, 2 * MESSAGE_MAX);
    abx_buf_init(&x.failure, 65536);
    watch_signals(&x);
    int result = start_stream(&x);
    while (result == 0 && !x.done)
        abx_loop_run(&x.c->loop);
    close_handles(&x);
    abx_envelope_reader_done(&x.reader);
    abx_arena_done(&x.arena);
    abx_buf_done(&x.failure);
    pthread_mutex_unlock(&x.c->lock);
    free(x.basic);
    return result < 0 ? result : x.result;
}
