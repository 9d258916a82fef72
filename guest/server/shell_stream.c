/* guest/server/shell_stream.c: POST /shell/stream: a program without a shell, its output as events
 * while it runs. server-api.md 4.5, D41-D44, D77.
 *
 * A slow client holds the program up; its deadline passes all the same. A client that leaves ends
 * the program, unless the request said "detach". */
#include "guest/server/as_user.h"
#include "guest/server/exec.h"
#include "guest/server/text.h"

#include "lib/base/assert.h"

#include <jansson.h>
#include <signal.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum {
    STREAMS = 2,
    LINE_MAX_BYTES = 65536, /* longer ones are split */
    EVENTS_MAX = 16 << 20,  /* bytes of the events of one piece of output */
    PING_MS = 15000,
    FLUSH_MS = 100,  /* until an unfinished line is sent, on request */
    GRACE_MS = 2000, /* from SIGTERM to SIGKILL when the client has left */
};

static const char *const names[STREAMS] = {"stdout", "stderr"};

struct stream {
    struct abx__running running;
    struct abx__call *call;       /* NULL: the client has left */
    struct abx_buf line[STREAMS]; /* unfinished */
    struct abx_timer ping, flush, grace;
    unsigned handles;
    uint64_t left; /* of max_output_bytes */
    bool wants_flush, is_detached, is_over, is_full;
};

static void on_timer_closed(void *owner)
{
    struct stream *s = owner;
    if (--s->handles > 0)
        return;
    for (int i = 0; i < STREAMS; i++)
        abx_buf_done(&s->line[i]);
    free(s);
}

static void stream_free(struct stream *s)
{
    struct abx_timer *timers[] = {&s->ping, &s->flush, &s->grace};
    abx__running_remove(&s->running);
    for (size_t i = 0; i < ABX_COUNTOF(timers); i++)
        abx_timer_close(timers[i], on_timer_closed);
}

/* ---- events ---- */

static void put_text(struct abx_buf *out, const char *name, struct abx_str text, bool is_partial)
{
    struct abx_json_writer w;
    abx_buf_putf(out, "event: %s\ndata: ", name);
    abx_json_writer_init(&w, out);
    abx_json_begin_object(&w);
    abx_json_kv_str(&w, "data", text);
    if (is_partial) /* the line goes on in the next event of the stream */
        abx_json_kv_bool(&w, "partial", true);
    abx_json_end_object(&w);
    abx_buf_put_c(out, "\n\n");
}

static void put_error(struct abx_buf *out, const char *text)
{
    struct abx_json_writer w;
    abx_buf_put_c(out, "event: error\ndata: ");
    abx_json_writer_init(&w, out);
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "error", text);
    abx_json_end_object(&w);
    abx_buf_put_c(out, "\n\n");
}

static void put_exit(struct abx_buf *out, int code, bool is_out_of_memory)
{
    abx_buf_putf(out, "event: exit\ndata: {\"exit_code\": %d%s}\n\n", code,
                 is_out_of_memory ? ", \"out_of_memory\": true, \"hint\": \"" ABX__MEMORY_HINT "\""
                                  : "");
}

/* False: the client is behind, or gone. */
static bool send_events(struct stream *s, const struct abx_buf *out)
{
    if (s->call == NULL || out->len == 0)
        return true;
    if (abx_buf_failed(out)) {
        abx_http_abort(s->call->req);
        return false;
    }
    return abx_http_write(s->call->req, out->ptr, out->len);
}

/* ---- lines ---- */

/* The line counts with its end. What is beyond the limit is not sent, and ends the program. */
static void put_line(struct stream *s, struct abx_buf *out, int i, struct abx_str line,
                     bool is_partial)
{
    if (s->is_full)
        return;
    if (line.len + 1 > s->left) {
        s->is_full = true;
        put_error(out, "output_limit");
        abx_run_signal(s->running.run, SIGKILL);
        return;
    }
    s->left -= line.len + 1;
    put_text(out, names[i], line, is_partial);
}

/* What is kept of the line, without a character that has only begun when it is to go on. */
static void put_kept(struct stream *s, struct abx_buf *out, int i, bool is_end)
{
    struct abx_buf *line = &s->line[i];
    size_t whole = is_end || line->len == 0 ? line->len : abx__text_whole(abx_buf_str(line));
    if (whole == 0 && !is_end)
        return;
    put_line(s, out, i, abx_str_sub(abx_buf_str(line), 0, whole), !is_end);
    abx_buf_consume(line, whole);
}

static void put_part(struct stream *s, struct abx_buf *out, int i, struct abx_str part)
{
    while (part.len) {
        size_t room = LINE_MAX_BYTES - s->line[i].len;
        size_t n = part.len < room ? part.len : room;
        abx_buf_put(&s->line[i], part.ptr, n);
        part = abx_str_sub(part, n, part.len);
        if (s->line[i].len == LINE_MAX_BYTES)
            put_kept(s, out, i, false);
    }
}

static void put_data(struct stream *s, struct abx_buf *out, int i, struct abx_str data)
{
    while (data.len && !s->is_full) {
        ptrdiff_t end = abx_str_chr(data, '\n');
        struct abx_str part = abx_str_sub(data, 0, end < 0 ? data.len : (size_t)end);
        data = abx_str_sub(data, end < 0 ? data.len : (size_t)end + 1, data.len);
        if (end >= 0 && s->line[i].len == 0 && part.len <= LINE_MAX_BYTES) {
            put_line(s, out, i, part, false);
            continue;
        }
        put_part(s, out, i, part);
        if (end >= 0 && s->line[i].len)
            put_kept(s, out, i, true);
    }
}

static bool has_kept(const struct stream *s)
{
    return s->line[0].len || s->line[1].len;
}

static void on_flush(struct abx_timer *t)
{
    struct stream *s = t->owner;
    ABX_AUTO_BUF out = {0};
    abx_buf_init(&out, EVENTS_MAX);
    for (int i = 0; i < STREAMS; i++)
        put_kept(s, &out, i, false);
    send_events(s, &out);
}

static bool on_data(struct abx_run *r, enum abx_output kind, struct abx_str data)
{
    struct stream *s = abx_run_owner(r);
    ABX_AUTO_BUF out = {0};
    if (s->call == NULL)
        return true; /* nobody hears it */
    abx_buf_init(&out, EVENTS_MAX);
    put_data(s, &out, kind == ABX_OUTPUT_STDERR, data);
    if (abx_buf_failed(&s->line[0]) || abx_buf_failed(&s->line[1]))
        out.failed = true;
    if (s->wants_flush && has_kept(s))
        abx_timer_start(&s->flush, FLUSH_MS, 0);
    return send_events(s, &out);
}

/* ---- the end ---- */

static void on_end(struct abx_run *r, const struct abx_run_end *end)
{
    struct stream *s = abx_run_owner(r);
    ABX_AUTO_BUF out = {0};
    s->is_over = true;
    if (s->call == NULL) {
        stream_free(s);
        return;
    }
    abx__exec_note_end(s->call, end);
    abx_buf_init(&out, EVENTS_MAX);
    for (int i = 0; i < STREAMS; i++)
        if (s->line[i].len)
            put_kept(s, &out, i, true);
    if (end->by_deadline)
        put_error(&out, "timeout");
    put_exit(&out, end->exit_code, s->call->ran.is_out_of_memory);
    abx_timer_stop(&s->ping);
    abx_timer_stop(&s->flush);
    send_events(s, &out);
    abx__call_sse_end(s->call);
}

static const struct abx_run_ops ops = {.on_data = on_data, .on_end = on_end};

static void on_grace(struct abx_timer *t)
{
    stream_free(t->owner);
}

static void on_ping(struct abx_timer *t)
{
    struct stream *s = t->owner;
    if (s->call)
        abx__call_sse_ping(s->call);
}

static void on_drain(struct abx__call *c)
{
    struct stream *s = c->data;
    abx_run_resume(s->running.run);
}

static void on_close(struct abx__call *c, bool aborted)
{
    struct stream *s = c->data;
    (void)aborted;
    s->call = NULL;
    if (s->is_over) {
        stream_free(s);
        return;
    }
    abx_timer_stop(&s->ping);
    abx_timer_stop(&s->flush);
    abx_run_resume(s->running.run); /* what comes now is dropped */
    if (s->is_detached)
        return;
    abx_run_signal(s->running.run, SIGTERM);
    abx_timer_start(&s->grace, GRACE_MS, 0);
}

/* ---- the start ---- */

static void tell_failure(struct abx__call *c, int errnum, const char *what)
{
    char why[128];
    ABX_AUTO_BUF out = {0};
    abx_buf_init(&out, EVENTS_MAX);
    const char *text = abx_arena_printf(c->req->arena, "[Errno %d] %s: '%s'", errnum,
                                        strerror_r(errnum, why, sizeof(why)), what);
    put_error(&out, text ? text : "the program can not be executed");
    put_exit(&out, abx__exec_code(errnum), false);
    abx__call_sse_begin(c);
    abx_http_write(c->req, out.ptr, out.len);
    abx__call_sse_end(c);
}

static struct stream *stream_new(struct abx__call *c, const struct json_t *body)
{
    struct stream *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return NULL;
    struct abx_loop *l = &c->server->loop;
    s->call = c;
    s->left = abx_policy_limit_u64(c->rule, ABX_LIMIT_MAX_OUTPUT_BYTES, UINT64_MAX);
    s->wants_flush = json_is_true(json_object_get(body, "flush"));
    s->is_detached = json_is_true(json_object_get(body, "detach"));
    for (int i = 0; i < STREAMS; i++)
        abx_buf_init(&s->line[i], LINE_MAX_BYTES);
    abx_timer_init(&s->ping, l, on_ping, s);
    abx_timer_init(&s->flush, l, on_flush, s);
    abx_timer_init(&s->grace, l, on_grace, s);
    s->handles = 3;
    abx__running_add(&s->running, c->server);
    return s;
}

static void start(struct abx__job *j)
{
    const struct abx__exec *x = j->data;
    struct abx__call *c = j->call;
    struct abx_error err = {0};
    struct abx_run_spec spec = {.path = x->program,
                                .argv = x->argv,
                                .envp = x->envp,
                                .cwd = x->cwd,
                                .user = x->user,
                                .timeout_ms = x->timeout_ms};
    if (x->missing) {
        tell_failure(c, x->missing, x->argv[0]);
        return;
    }
    struct stream *s = stream_new(c, j->body);
    if (s == NULL) {
        abx__call_fail(c, 500, "MemoryError", "out of memory");
        return;
    }
    if (abx__exec_start(c, &spec, &ops, s, &s->running.run, &err) < 0) {
        stream_free(s);
        if (err.sys)
            tell_failure(c, err.sys, abx__user_failure(x->user, &err, x->argv[0]));
        else
            abx__call_fail(c, 500, "OSError", "%s", err.msg);
        return;
    }
    c->data = s;
    c->on_close = on_close;
    c->on_drain = on_drain;
    abx__call_sse_begin(c);
    abx_timer_start(&s->ping, PING_MS, PING_MS);
}

void abx__shell_stream_post(struct abx__call *c)
{
    abx__exec_post(c, 0, &c->server->shell_count, start);
}
