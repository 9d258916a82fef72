/* guest/server/shell.c: POST /shell: a program without a shell, run to its end. server-api.md 4.5.
 *
 * The checks that look at files run on the pool; the program is started on the loop. */
#include "guest/server/as_user.h"
#include "guest/server/exec.h"

#include "lib/base/assert.h"
#include "lib/base/parse.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum { OUTPUT_MAX = 16 << 20 /* of each stream, without max_output_bytes */ };

struct shell {
    struct abx__running running;
    struct abx__call *call;
    struct abx_buf out[2]; /* stdout, stderr */
    size_t max;
    bool is_truncated;
    bool is_base64; /* `encoding`: the bytes as they are */
};

static void shell_free(struct shell *s)
{
    abx__running_remove(&s->running);
    abx_buf_done(&s->out[0]);
    abx_buf_done(&s->out[1]);
    free(s);
}

/* The client has left: nobody waits for the program. */
static void on_close(struct abx__call *c, bool aborted)
{
    (void)aborted;
    shell_free(c->data);
}

static bool on_data(struct abx_run *r, enum abx_output kind, struct abx_str data)
{
    struct shell *s = abx_run_owner(r);
    struct abx_buf *out = &s->out[kind == ABX_OUTPUT_STDERR];
    size_t room = s->max - out->len;
    s->is_truncated = s->is_truncated || data.len > room;
    abx_buf_put(out, data.ptr, data.len < room ? data.len : room);
    return true; /* what is too much is read and dropped */
}

/* What the cut left of a character is no output. */
static struct abx_str whole_characters(struct abx_str s, size_t max)
{
    size_t n = s.len;
    if (s.len < max)
        return s;
    for (size_t i = 0; i < 3 && n > 0 && ((unsigned char)s.ptr[n - 1] & 0xC0) == 0x80; i++)
        n--;
    if (n == 0 || (unsigned char)s.ptr[n - 1] < 0xC0)
        return s;
    return abx_str_is_utf8(abx_str_sub(s, n - 1, s.len)) ? s : abx_str_sub(s, 0, n - 1);
}

static void put_stream(struct abx_json_writer *w, const char *key, const struct shell *s,
                       const struct abx_buf *out)
{
    ABX_AUTO_BUF coded = {0};
    if (!s->is_base64) {
        abx_json_kv_str(w, key, whole_characters(abx_buf_str(out), s->max));
        return;
    }
    abx_buf_init(&coded, out->len / 3 * 4 + 8);
    abx_base64_encode(out->ptr, out->len, true, &coded);
    abx_json_kv_str(w, key, abx_buf_str(&coded));
    if (abx_buf_failed(&coded))
        w->out->failed = true;
}

static void put_output(struct abx_json_writer *w, const struct shell *s)
{
    put_stream(w, "stdout", s, &s->out[0]);
    put_stream(w, "stderr", s, &s->out[1]);
}

static void put_end(struct abx_buf *body, const struct shell *s, const struct abx_run_end *end)
{
    struct abx_json_writer w;
    abx_json_writer_init(&w, body);
    abx_json_begin_object(&w);
    if (end->by_deadline) {
        abx_json_kv_c(&w, "error", "the command did not end in time");
        abx_json_kv_c(&w, "type", "TimeoutError");
    }
    put_output(&w, s);
    if (!end->by_deadline)
        abx_json_kv_i64(&w, "exit_code", end->exit_code);
    if (s->is_truncated)
        abx_json_kv_bool(&w, "truncated", true);
    if (!end->by_deadline && end->is_output_open)
        abx_json_kv_bool(&w, "background_output", true);
    abx__memory_put(&w, s->call->ran.is_out_of_memory);
    abx_json_end_object(&w);
}

static void on_end(struct abx_run *r, const struct abx_run_end *end)
{
    struct shell *s = abx_run_owner(r);
    struct abx__call *c = s->call;
    ABX_AUTO_BUF body;
    abx__exec_note_end(c, end);
    abx_buf_init(&body, s->max * 12 + 4096); /* a control byte becomes six */
    if (abx_buf_failed(&s->out[0]) || abx_buf_failed(&s->out[1]))
        body.failed = true;
    else
        put_end(&body, s, end);
    if (abx_buf_failed(&body))
        abx__call_fail(c, 500, "MemoryError", "the output does not fit into memory");
    else
        abx__call_answer_status(c, end->by_deadline ? 500 : 200, NULL, abx_buf_str(&body));
}

static const struct abx_run_ops ops = {.on_data = on_data, .on_end = on_end};

/* What `encoding` asks for (D39). */
static bool is_base64(const json_t *body)
{
    const char *encoding = json_string_value(json_object_get(body, "encoding"));
    return encoding && strcmp(encoding, "base64") == 0;
}

/* The judged program is started. */
static void start(struct abx__job *j)
{
    const struct abx__exec *x = j->data;
    struct abx__call *c = j->call;
    struct abx_error err = {0};
    uint64_t max = abx_policy_limit_u64(j->rule, ABX_LIMIT_MAX_OUTPUT_BYTES, OUTPUT_MAX);
    struct abx_run_spec spec = {.path = x->program,
                                .argv = x->argv,
                                .envp = x->envp,
                                .cwd = x->cwd,
                                .user = x->user,
                                .timeout_ms = x->timeout_ms};
    if (x->missing) {
        abx__call_fail_errno(c, x->missing, x->argv[0]);
        return;
    }
    struct shell *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        abx__call_fail(c, 500, "MemoryError", "out of memory");
        return;
    }
    s->call = c;
    s->is_base64 = is_base64(j->body);
    abx__running_add(&s->running, c->server);
    s->max = max < OUTPUT_MAX ? (size_t)max : (size_t)OUTPUT_MAX;
    abx_buf_init(&s->out[0], s->max + 1);
    abx_buf_init(&s->out[1], s->max + 1);
    if (abx__exec_start(c, &spec, &ops, s, &s->running.run, &err) < 0) {
        shell_free(s);
        if (err.sys)
            abx__call_fail_errno(c, err.sys, abx__user_failure(x->user, &err, x->argv[0]));
        else
            abx__call_fail(c, 500, "OSError", "%s", err.msg);
        return;
    }
    c->data = s;
    c->on_close = on_close;
}

static void shell_post(struct abx__call *c)
{
    const json_t *encoding = abx__call_field(c, "encoding");
    const char *name = json_string_value(encoding);
    if (encoding && !json_is_null(encoding) &&
        (name == NULL || (strcmp(name, "utf-8") != 0 && strcmp(name, "base64") != 0))) {
        abx__call_fail(c, 400, "ValueError", "'encoding' must be \"utf-8\" or \"base64\"");
        return;
    }
    abx__exec_post(c, 0, &c->server->shell_count, start);
}

const struct abx__route abx__shell_routes[] = {
    {"shell", shell_post}, {"shell_stream", abx__shell_stream_post}, {0}};
