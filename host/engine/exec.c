/* host/engine/exec.c: the engine's own commands in a sandbox: a Start stream of its envd, and GET
 * /files. What comes back is a sandbox's word: bounded, decoded by tables. Loop thread. */
#include "host/engine/exec_priv.h"

#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/contract/contract.h"
#include "lib/json/json.h"
#include "lib/wire/url.h"

#include <signal.h>
#include <stdio.h>

#include "lib/base/banned.h"

enum { MESSAGE_MAX = 1024 * 1024, REQUEST_MAX = 512 * 1024, REFUSAL_MAX = 4096, HEAD_MAX = 4096 };

static void write_head(struct abx_buf *head, const struct abx__sandbox *sb, const char *method,
                       const char *target)
{
    abx_http_write_request(head, abx_str(method), abx_str(target));
    abx_http_write_header(head, ABX_STR("Host"), abx_str(sb->id));
    abx_http_write_headerf(head, ABX_HEADER_PORT, "%d", ABX_PORT_ENVD);
    if (sb->token[0] != '\0')
        abx_http_write_header(head, ABX_STR(ABX_HEADER_ACCESS_TOKEN), abx_str(sb->token));
}

/* One request with a body to the gateway. */
struct outgoing {
    struct abx__sandbox *sb;
    const struct abx_http_call_ops *ops;
    void *owner;
    struct abx_str head, body;
};

static int send_call(const struct outgoing *o, struct abx_http_call **ret, struct abx_error *err)
{
    if (abx_http_call_start(o->sb->engine->pool, abx_str(o->sb->id), o->head, false, o->ops,
                            o->owner, ret, err) < 0)
        return -1;
    if (o->body.len != 0)
        abx_http_call_write(*ret, o->body.ptr, o->body.len);
    abx_http_call_finish(*ret);
    return 0;
}

/* Events of the stream; the members of the oneof share one struct. */

struct event {
    uint32_t pid; /* first: offset 0 means "no flag" to the tables */
    bool has_start, has_end, has_code;
    struct abx_str out, err_out, status, code, message;
    int64_t exit_code;
};
#define AT(field) offsetof(struct event, field)
static const struct abx_json_field data_fields[] = {
    {"stdout", ABX_JSON_STR, AT(out), 0}, {"stderr", ABX_JSON_STR, AT(err_out), 0}, {0}};
static const struct abx_json_field end_fields[] = {
    {"exitCode", ABX_JSON_I64, AT(exit_code), 0}, {"status", ABX_JSON_STR, AT(status), 0}, {0}};
static const struct abx_json_field start_fields[] = {{"pid", ABX_JSON_U32, AT(pid), 0}, {0}};
static const struct abx_json_field event_fields[] = {
    {"start", ABX_JSON_OBJECT, 0, 0, start_fields, sizeof(struct event), 0, AT(has_start)},
    {"data", ABX_JSON_OBJECT, 0, 0, data_fields, sizeof(struct event)},
    {"end", ABX_JSON_OBJECT, 0, 0, end_fields, sizeof(struct event), 0, AT(has_end)},
    {0}};
static const struct abx_json_field message_fields[] = {
    {"event", ABX_JSON_OBJECT, 0, 0, event_fields, sizeof(struct event)}, {0}};
static const struct abx_json_field error_fields[] = {
    {"code", ABX_JSON_STR, AT(code), 0}, {"message", ABX_JSON_STR, AT(message), 0}, {0}};
static const struct abx_json_field last_fields[] = {
    {"error", ABX_JSON_OBJECT, 0, 0, error_fields, sizeof(struct event), 0, AT(has_code)}, {0}};

static void over(struct abx__exec *x, const struct abx_error *err)
{
    x->call = NULL;
    x->ops->on_end(x, x->exit_code, err);
}

static void give_up(struct abx__exec *x, const struct abx_error *err)
{
    abx_http_call_cancel(ABX_TAKE(x->call));
    over(x, err);
}

static void pass_output(struct abx__exec *x, bool is_stderr, struct abx_str text)
{
    ABX_AUTO_BUF raw = {.max = MESSAGE_MAX};
    if (text.len != 0 && abx_base64_decode(text, &raw) == 0)
        x->ops->on_output(x, is_stderr, abx_buf_str(&raw));
}

/* envd says "exit status N" or "signal: NAME" with the code -1. */
static int code_of(const struct event *ev)
{
    if (ev->exit_code >= 0 && ev->exit_code <= 255)
        return (int)ev->exit_code;
    return 128 + SIGKILL;
}

static enum abx_code code_named(struct abx_str name)
{
    char text[32];
    int code = abx_str_to_c(name, text, sizeof(text)) < 0 ? -1 : abx_code_parse(text);
    return code > 0 ? (enum abx_code)code : ABX_INTERNAL;
}

/* 0, or -1: the exec is over. */
static int on_message(struct abx__exec *x, uint8_t flags, struct abx_str payload)
{
    struct event ev = {0};
    struct abx_error err = {0};
    bool is_last = (flags & ABX_ENVELOPE_END) != 0;
    abx_arena_done(&x->arena);
    if (abx_json_decode_text(payload, true, is_last ? last_fields : message_fields, &ev, &x->arena,
                             &err) < 0) {
        give_up(x, &err);
        return -1;
    }
    if (is_last && ev.has_code) {
        abx_err_set(&err, ABX_INTERNAL, "%.*s: %.*s", ABX_STR_FMT(ev.code),
                    (int)(ev.message.len < 160 ? ev.message.len : 160), ev.message.ptr);
        err.code = code_named(ev.code);
        give_up(x, &err);
        return -1;
    }
    if (ev.has_start && !x->has_started) {
        x->has_started = true;
        if (x->ops->on_started != NULL)
            x->ops->on_started(x);
        return x->call == NULL ? -1 : 0;
    }
    pass_output(x, false, ev.out);
    if (x->call != NULL)
        pass_output(x, true, ev.err_out);
    if (ev.has_end) {
        x->has_ended = true;
        x->exit_code = code_of(&ev);
    }
    return x->call == NULL ? -1 : 0;
}

static void on_head(struct abx_http_call *c, const struct abx_http_head *head)
{
    struct abx__exec *x = abx_http_call_owner(c);
    if (head->status >= 200)
        x->status = head->status;
}

static void on_body(struct abx_http_call *c, const char *data, size_t len)
{
    struct abx__exec *x = abx_http_call_owner(c);
    struct abx_str in = abx_str_n(data, len), payload;
    struct abx_error err = {0};
    uint8_t flags;
    int r = 0;
    if (x->status != 200) {
        abx_buf_put(&x->refusal, data, len); /* sticky: a long one is not told */
        return;
    }
    while (x->call != NULL &&
           (r = abx_envelope_read(&x->reader, &in, &flags, &payload, &err)) > 0) {
        if (on_message(x, flags, payload) < 0)
            return;
    }
    if (r < 0 && x->call != NULL)
        give_up(x, &err);
}

static void on_end(struct abx_http_call *c)
{
    struct abx__exec *x = abx_http_call_owner(c);
    struct abx_error err = {0};
    if (x->status != 200)
        abx_err_set(&err, ABX_INTERNAL, "the sandbox answered %d: %.*s", x->status,
                    (int)(x->refusal.len < 160 ? x->refusal.len : 160),
                    x->refusal.len == 0 ? "" : x->refusal.ptr);
    else if (!x->has_ended)
        abx_err_set(&err, ABX_INTERNAL, "the sandbox did not say how the command ended");
    over(x, err.code == ABX_OK ? NULL : &err);
}

static void on_error(struct abx_http_call *c, const struct abx_error *err, bool head_seen)
{
    struct abx__exec *x = abx_http_call_owner(c);
    struct abx_error copy = *err;
    (void)head_seen;
    over(x, &copy);
}

static const struct abx_http_call_ops exec_ops = {
    .on_head = on_head, .on_body = on_body, .on_end = on_end, .on_error = on_error};

static void write_start(const struct abx__exec_spec *spec, struct abx_buf *json)
{
    struct abx_json_writer w;
    abx_json_writer_init(&w, json);
    abx_json_begin_object(&w);
    abx_json_key(&w, ABX_STR("process"));
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "cmd", "/bin/bash");
    abx_json_key(&w, ABX_STR("args"));
    abx_json_begin_array(&w);
    abx_json_str(&w, ABX_STR("-l"));
    abx_json_str(&w, ABX_STR("-c"));
    abx_json_str(&w, abx_str(spec->command));
    abx_json_end_array(&w);
    if (spec->envs.ptr != NULL) {
        abx_json_key(&w, ABX_STR("envs"));
        abx_json_raw(&w, spec->envs);
    }
    abx_json_end_object(&w);
    abx_json_kv_bool(&w, "stdin", false);
    abx_json_end_object(&w);
}

int abx__exec_start(struct abx__exec *x, const struct abx__exec_spec *spec, struct abx_error *err)
{
    ABX_AUTO_BUF json = {.max = REQUEST_MAX};
    ABX_AUTO_BUF body = {.max = REQUEST_MAX + ABX_ENVELOPE_HEAD};
    ABX_AUTO_BUF head = {.max = HEAD_MAX};
    unsigned char envelope[ABX_ENVELOPE_HEAD];
    abx__exec_done(x);
    x->status = x->exit_code = 0;
    x->has_started = x->has_ended = false;
    write_start(spec, &json);
    abx_envelope_head(0, (uint32_t)json.len, envelope);
    abx_buf_put(&body, envelope, sizeof(envelope));
    abx_buf_put_str(&body, abx_buf_str(&json));
    write_head(&head, spec->sandbox, "POST", "/process.Process/Start");
    abx_http_write_header(&head, ABX_STR("Content-Type"), ABX_STR("application/connect+json"));
    abx_http_write_header(&head, ABX_STR("Connect-Protocol-Version"), ABX_STR("1"));
    if (spec->timeout_ms != 0)
        abx_http_write_headerf(&head, "Connect-Timeout-Ms", "%llu",
                               (unsigned long long)spec->timeout_ms);
    abx_http_write_headerf(&head, "Content-Length", "%zu", body.len);
    abx_http_write_end(&head);
    if (abx_buf_failed(&json) || abx_buf_failed(&body) || abx_buf_failed(&head))
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "the command is too large");
    abx_envelope_reader_init(&x->reader, MESSAGE_MAX);
    abx_arena_init(&x->arena, (size_t)2 * MESSAGE_MAX);
    abx_buf_init(&x->refusal, REFUSAL_MAX);
    struct outgoing o = {spec->sandbox, &exec_ops, x, abx_buf_str(&head), abx_buf_str(&body)};
    return send_call(&o, &x->call, err);
}

void abx__exec_done(struct abx__exec *x)
{
    if (x->call != NULL)
        abx_http_call_cancel(ABX_TAKE(x->call));
    abx_envelope_reader_done(&x->reader);
    abx_arena_done(&x->arena);
    abx_buf_done(&x->refusal);
}

/* A file. */

static void fetched(struct abx__fetch *f, const struct abx_error *err)
{
    f->call = NULL;
    f->fn(f, abx_buf_str(&f->body), err);
}

static void on_fetch_head(struct abx_http_call *c, const struct abx_http_head *head)
{
    struct abx__fetch *f = abx_http_call_owner(c);
    if (head->status >= 200)
        f->status = head->status;
}

static void on_fetch_body(struct abx_http_call *c, const char *data, size_t len)
{
    struct abx__fetch *f = abx_http_call_owner(c);
    struct abx_error err = {0};
    abx_buf_put(&f->body, data, len);
    if (!abx_buf_failed(&f->body))
        return;
    abx_http_call_cancel(ABX_TAKE(f->call));
    abx_err_set(&err, ABX_RESOURCE_EXHAUSTED, "the answer has more than %zu bytes", f->body.max);
    fetched(f, &err);
}

static void on_fetch_end(struct abx_http_call *c)
{
    struct abx__fetch *f = abx_http_call_owner(c);
    struct abx_error err = {0};
    if (f->status != 200)
        abx_err_set(&err, f->status == 404 ? ABX_NOT_FOUND : ABX_INTERNAL,
                    "the sandbox answered %d", f->status);
    fetched(f, err.code == ABX_OK ? NULL : &err);
}

static void on_fetch_error(struct abx_http_call *c, const struct abx_error *err, bool head_seen)
{
    struct abx_error copy = *err;
    (void)head_seen;
    fetched(abx_http_call_owner(c), &copy);
}

static const struct abx_http_call_ops fetch_ops = {.on_head = on_fetch_head,
                                                   .on_body = on_fetch_body,
                                                   .on_end = on_fetch_end,
                                                   .on_error = on_fetch_error};

int abx__fetch_get(struct abx__fetch *f, struct abx__sandbox *sb, const char *target,
                   size_t max_bytes, struct abx_error *err)
{
    ABX_AUTO_BUF head = {.max = HEAD_MAX};
    write_head(&head, sb, "GET", target);
    abx_http_write_end(&head);
    if (abx_buf_failed(&head))
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "the path is too long");
    abx_buf_init(&f->body, max_bytes);
    f->status = 0;
    struct outgoing o = {sb, &fetch_ops, f, abx_buf_str(&head), {0}};
    return send_call(&o, &f->call, err);
}

int abx__fetch_start(struct abx__fetch *f, struct abx__sandbox *sb, const char *path,
                     size_t max_bytes, struct abx_error *err)
{
    ABX_AUTO_BUF target = {.max = HEAD_MAX};
    abx_buf_put_c(&target, "/files?username=root&path=");
    abx_url_encode(&target, abx_str(path), "/");
    if (abx_buf_failed(&target))
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "the path is too long");
    return abx__fetch_get(f, sb, target.ptr, max_bytes, err);
}

void abx__fetch_done(struct abx__fetch *f)
{
    if (f->call != NULL)
        abx_http_call_cancel(ABX_TAKE(f->call));
    abx_buf_done(&f->body);
}
