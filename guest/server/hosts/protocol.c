/* guest/server/hosts/protocol.c: lines to messages and back. Pure. */
#include "guest/server/hosts/protocol.h"

#include "lib/base/assert.h"
#include "lib/base/parse.h"
#include "lib/json/json.h"
#include "lib/json/scan.h"

#include <stddef.h>

#include "lib/base/banned.h"

enum { KEPT_BYTES = 1 << 20 };

/* ---- lines ---- */

void abx_host_lines_init(struct abx_host_lines *l)
{
    *l = (struct abx_host_lines){0};
    abx_buf_init(&l->buf, (size_t)ABX_HOST_LINE_MAX + (1 << 20));
}

void abx_host_lines_done(struct abx_host_lines *l)
{
    abx_buf_done(&l->buf);
    l->taken = l->scanned = 0;
}

static void drop_taken(struct abx_host_lines *l)
{
    if (l->taken == 0)
        return;
    abx_buf_consume(&l->buf, l->taken);
    l->scanned -= l->taken;
    l->taken = 0;
    if (l->buf.len == 0 && l->buf.cap > KEPT_BYTES)
        abx_buf_done(&l->buf);
}

int abx_host_lines_feed(struct abx_host_lines *l, const char *data, size_t len)
{
    drop_taken(l);
    abx_buf_put(&l->buf, data, len);
    return abx_buf_failed(&l->buf) ? -1 : 0;
}

bool abx_host_lines_next(struct abx_host_lines *l, struct abx_str *ret_line)
{
    const char *from = l->buf.ptr;
    if (l->buf.len == l->scanned)
        return false;
    const char *end = memchr(from + l->scanned, '\n', l->buf.len - l->scanned);
    if (end == NULL) {
        l->scanned = l->buf.len;
        return false;
    }
    *ret_line = abx_str_n(from + l->taken, (size_t)(end - from) - l->taken);
    l->taken = l->scanned = (size_t)(end - from) + 1;
    return true;
}

/* ---- reading ---- */

static const char *const ops[] = {
    [ABX_HOST_HELLO] = "\"hello\"",   [ABX_HOST_RESULT] = "\"result\"",
    [ABX_HOST_ERROR] = "\"error\"",   [ABX_HOST_RESPONSE] = "\"response\"",
    [ABX_HOST_HEAD] = "\"head\"",     [ABX_HOST_CHUNK] = "\"chunk\"",
    [ABX_HOST_END] = "\"end\"",       [ABX_HOST_ASK] = "\"ask\"",
    [ABX_HOST_ANSWER] = "\"answer\"", [ABX_HOST_GROUPS] = "\"groups\"",
    [ABX_HOST_STOP] = "\"stop\"",     [ABX_HOST_LOG] = "\"log\"",
    [ABX_HOST_UNKNOWN] = "",
};
_Static_assert(ABX_COUNTOF(ops) == ABX_HOST__OPS, "one text per op");

struct field {
    const char *name;
    bool is_number;
    size_t offset;
};
#define SLICE(name)                                                                                \
    {                                                                                              \
#name, false, offsetof(struct abx_host_message, name)                                      \
    }
#define NUMBER(name)                                                                               \
    {                                                                                              \
#name, true, offsetof(struct abx_host_message, name)                                       \
    }
static const struct field fields[] = {
    NUMBER(id),      NUMBER(q),      NUMBER(status),
    NUMBER(n),       SLICE(value),   SLICE(body),
    SLICE(headers),  SLICE(type),    SLICE(message),
    SLICE(code),     SLICE(extra),   SLICE(data),
    SLICE(base64),   SLICE(what),    SLICE(ok),
    SLICE(level),    SLICE(disable), SLICE(document),
    SLICE(endpoint), SLICE(scopes),  SLICE(path),
    SLICE(access),   SLICE(field),   {"do", false, offsetof(struct abx_host_message, ask_do)},
};

static enum abx_host_op op_of(struct abx_str text)
{
    for (int op = 0; op < ABX_HOST_UNKNOWN; op++)
        if (abx_str_is(text, ops[op]))
            return (enum abx_host_op)op;
    return ABX_HOST_UNKNOWN;
}

static int take_field(struct abx_host_message *m, struct abx_str key, struct abx_str value,
                      struct abx_error *err)
{
    for (size_t i = 0; i < ABX_COUNTOF(fields); i++) {
        if (!abx_str_is(key, fields[i].name))
            continue;
        char *at = (char *)m + fields[i].offset;
        if (!fields[i].is_number)
            memcpy(at, &value, sizeof(value));
        else if (abx_parse_u64(value, (uint64_t *)(void *)at) < 0)
            return abx_err_set(err, ABX_INVALID_ARGUMENT, "%s is no number", fields[i].name);
        return 0;
    }
    return 0;
}

int abx_host_message_parse(struct abx_str line, struct abx_host_message *ret, struct abx_error *err)
{
    struct abx_scan_object o;
    struct abx_str whole, rest, key, value;
    if (abx_scan_value(line, &whole, &rest) < 0 || rest.len > 0 || whole.ptr[0] != '{')
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "a line is no JSON object");
    struct abx_host_message m = {.op = ABX_HOST_UNKNOWN, .line = line};
    abx_scan_object_init(&o, whole);
    while (abx_scan_object_next(&o, &key, &value)) {
        if (abx_str_is(key, "op"))
            m.op = op_of(value);
        else if (take_field(&m, key, value, err) < 0)
            return -1;
        m.has_id |= abx_str_is(key, "id");
        m.has_q |= abx_str_is(key, "q");
    }
    *ret = m;
    return 0;
}

/* ---- writing ---- */

static void begin(struct abx_json_writer *w, struct abx_buf *out, const char *op)
{
    abx_json_writer_init(w, out);
    abx_json_begin_object(w);
    abx_json_kv_c(w, "op", op);
}

static void end(struct abx_json_writer *w, struct abx_buf *out)
{
    abx_json_end_object(w);
    abx_buf_put_byte(out, '\n');
}

static void kv_u64(struct abx_json_writer *w, const char *key, uint64_t v)
{
    abx_json_key(w, abx_str(key));
    abx_json_u64(w, v);
}

/* A value that may stand on several lines in what the caller sent: blanks outside of strings become
 * spaces, or the line would end in it. */
static void kv_json(struct abx_json_writer *w, const char *key, struct abx_str json)
{
    if (json.len == 0)
        return;
    abx_json_key(w, abx_str(key));
    size_t at = w->out->len;
    abx_json_raw(w, json);
    if (abx_buf_failed(w->out))
        return;
    for (; at < w->out->len; at++)
        if (w->out->ptr[at] == '\n' || w->out->ptr[at] == '\r')
            w->out->ptr[at] = ' ';
}

void abx_host_write_call(struct abx_buf *out, const struct abx_host_call_text *call)
{
    struct abx_json_writer w;
    bool is_request = call->method.ptr != NULL;
    begin(&w, out, is_request ? "request" : "call");
    kv_u64(&w, "id", call->id);
    if (is_request) {
        kv_u64(&w, "n", call->n);
        abx_json_kv_str(&w, "method", call->method);
        abx_json_kv_str(&w, "path", call->path);
        kv_json(&w, "query", call->query);
        kv_json(&w, "headers", call->headers);
        kv_json(&w, "path_params", call->path_params);
        kv_json(&w, "body", call->body);
    } else {
        abx_json_kv_str(&w, "command", call->command);
        kv_json(&w, "args", call->args);
        abx_json_kv_bool(&w, "stream", call->stream);
    }
    kv_json(&w, "ctx", call->ctx);
    if (call->deadline_ms)
        kv_u64(&w, "deadline_ms", call->deadline_ms);
    end(&w, out);
}

void abx_host_write_ready(struct abx_buf *out, struct abx_str base_dir, struct abx_str version)
{
    struct abx_json_writer w;
    begin(&w, out, "ready");
    abx_json_kv_str(&w, "base_dir", base_dir);
    abx_json_kv_str(&w, "version", version);
    end(&w, out);
}

void abx_host_write_reject(struct abx_buf *out, struct abx_str why)
{
    struct abx_json_writer w;
    begin(&w, out, "reject");
    abx_json_kv_str(&w, "error", why);
    end(&w, out);
}

void abx_host_write_id(struct abx_buf *out, const char *op, uint64_t id)
{
    struct abx_json_writer w;
    begin(&w, out, op);
    kv_u64(&w, "id", id);
    end(&w, out);
}

void abx_host_write_shutdown(struct abx_buf *out)
{
    struct abx_json_writer w;
    begin(&w, out, "shutdown");
    end(&w, out);
}

void abx_host_write_match(struct abx_buf *out, uint64_t q, size_t n, struct abx_str path)
{
    struct abx_json_writer w;
    begin(&w, out, "ask");
    kv_u64(&w, "q", q);
    abx_json_kv_c(&w, "what", "match");
    kv_u64(&w, "n", n);
    abx_json_kv_str(&w, "path", path);
    end(&w, out);
}
