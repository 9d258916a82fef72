/* guest/server/answer.c: what a call answers: documents, published error bodies, streams of events.
 * Loop thread. server-api.md 1.4, 1.5. */
#include "guest/server/server_priv.h"

#include "lib/base/assert.h"
#include "lib/proc/confine.h"
#include "lib/wire/sse.h"

#include <errno.h>
#include <stdio.h>

#include "lib/base/banned.h"

enum { ERROR_BYTES = 65536, EXTRA_MAX = 8, TEXT_MAX = 1024 };

static void put_error(struct abx_json_writer *w, const char *text, const char *type)
{
    abx_json_begin_object(w);
    abx_json_kv_c(w, "error", text);
    abx_json_kv_c(w, "type", type);
}

void abx__call_answer_media(struct abx__call *c, const char *media, struct abx_str text)
{
    const struct abx_http_extra extra[] = {{"Content-Type", abx_str(media)},
                                           {"Cache-Control", ABX_STR("no-cache")},
                                           {"X-Request-Id", abx_str(c->id)},
                                           {0}};
    ABX_ASSERT(c->status == 0);
    c->status = 200;
    abx__audit_call(c);
    abx_http_answer(c->req, 200, extra, text);
}

void abx__call_answer_status(struct abx__call *c, int status, const struct abx_http_extra *extra,
                             struct abx_str json)
{
    struct abx_http_extra all[EXTRA_MAX] = {
        {"Content-Type", ABX_STR("application/json; charset=utf-8")},
        {"X-Request-Id", abx_str(c->id)}};
    size_t n = 2;
    ABX_ASSERT(c->status == 0);
    for (; extra && extra->name; extra++) {
        ABX_ASSERT(n + 1 < EXTRA_MAX);
        all[n++] = *extra;
    }
    c->status = status;
    abx__audit_call(c);
    abx_http_answer(c->req, status, all, json);
}

void abx__call_answer(struct abx__call *c, const struct abx_buf *body)
{
    if (abx_buf_failed(body))
        abx__call_fail(c, 500, "MemoryError", "the answer does not fit into memory");
    else
        abx__call_answer_status(c, 200, NULL, abx_buf_str(body));
}

void abx__call_fail(struct abx__call *c, int status, const char *type, const char *fmt, ...)
{
    char text[TEXT_MAX];
    ABX_AUTO_BUF body;
    struct abx_json_writer w;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    abx_buf_init(&body, ERROR_BYTES);
    abx_json_writer_init(&w, &body);
    put_error(&w, text, type);
    abx_json_end_object(&w);
    abx__call_answer_status(c, status, NULL, abx_buf_str(&body));
}

/* The classes that published clients know; any other number is an OSError. */
static const struct {
    int errnum;
    const char *type;
} classes[] = {
    {ENOENT, "FileNotFoundError"}, {EACCES, "PermissionError"},     {EPERM, "PermissionError"},
    {EEXIST, "FileExistsError"},   {ENOTDIR, "NotADirectoryError"}, {EISDIR, "IsADirectoryError"},
    {ETIMEDOUT, "TimeoutError"},
};

void abx__call_fail_errno(struct abx__call *c, int errnum, const char *what)
{
    const char *type = "OSError";
    if (errnum == EUSERS) { /* abx_confine_reserve() */
        abx__call_fail(c, 503, "ResourceError",
                       "%d callers have something running, as many as there may be: try again "
                       "when one of them has nothing left",
                       (int)ABX_CONFINE_GROUPS_MAX);
        return;
    }
    for (size_t i = 0; i < ABX_COUNTOF(classes); i++)
        if (classes[i].errnum == errnum)
            type = classes[i].type;
    abx__call_fail(c, 500, type, "[Errno %d] %s: '%.700s'", errnum, strerror(errnum), what);
}

void abx__call_deny(struct abx__call *c, const struct abx_policy_verdict *v)
{
    char seconds[24];
    ABX_AUTO_BUF body;
    struct abx_json_writer w;
    struct abx_http_extra extra[2] = {0};
    if (v->retry_after_s) {
        snprintf(seconds, sizeof(seconds), "%llu", (unsigned long long)v->retry_after_s);
        extra[0] = (struct abx_http_extra){"Retry-After", abx_str(seconds)};
    }
    abx_buf_init(&body, ERROR_BYTES);
    abx_json_writer_init(&w, &body);
    abx_policy_verdict_write(&w, v);
    c->audit_code = abx_policy_code_name(v->code);
    if (v->rule.ptr)
        c->audit_rule = abx_arena_str(c->req->arena, v->rule);
    abx__call_answer_status(c, abx_policy_code_status(v->code), extra, abx_buf_str(&body));
}

void abx__call_not_built(struct abx__call *c)
{
    char text[160];
    ABX_AUTO_BUF body;
    struct abx_json_writer w;
    snprintf(text, sizeof(text),
             "endpoint '%.*s' is not built yet; GET /capabilities lists them all",
             ABX_STR_FMT(c->rule->id));
    abx_buf_init(&body, ERROR_BYTES);
    abx_json_writer_init(&w, &body);
    put_error(&w, text, "NotImplementedError");
    abx_json_kv_c(&w, "code", "not_built");
    abx_json_kv_str(&w, "endpoint", c->rule->id);
    abx_json_end_object(&w);
    c->audit_code = "not_built";
    abx__call_answer_status(c, 501, NULL, abx_buf_str(&body));
}

void abx__server_on_refusal(void *user, int status, const char *message, struct abx_buf *out)
{
    struct abx_json_writer w;
    (void)user;
    abx_json_writer_init(&w, out);
    put_error(&w, message, "ValueError");
    if (status == 413) { /* the one that published clients look at */
        abx_json_kv_c(&w, "code", abx_policy_code_name(ABX_POLICY_PAYLOAD_TOO_LARGE));
        abx_json_kv_i64(&w, "limit", ABX__BODY_MAX);
    }
    abx_json_end_object(&w);
}

/* ---- server-sent events ---- */

void abx__call_sse_begin(struct abx__call *c)
{
    const struct abx_http_extra extra[] = {{"Content-Type", ABX_STR("text/event-stream")},
                                           {"Cache-Control", ABX_STR("no-cache")},
                                           {"X-Request-Id", abx_str(c->id)},
                                           {0}};
    ABX_ASSERT(c->status == 0);
    c->status = 200;
    c->is_stream = true;
    abx_http_begin(c->req, 200, extra, ABX_HTTP_CHUNKED);
    abx_http_flush(c->req);
}

bool abx__call_sse_event(struct abx__call *c, const char *name, struct abx_str json)
{
    ABX_AUTO_BUF event;
    ABX_ASSERT(c->is_stream);
    abx_buf_init(&event, SIZE_MAX / 2);
    abx_sse_write(&event, abx_str(name), json);
    if (abx_buf_failed(&event)) {
        abx_http_abort(c->req);
        return false;
    }
    return abx_http_write(c->req, event.ptr, event.len);
}

void abx__call_sse_ping(struct abx__call *c)
{
    abx_http_write(c->req, ABX_SSE_PING, sizeof(ABX_SSE_PING) - 1);
}

void abx__call_sse_end(struct abx__call *c)
{
    abx__audit_call(c);
    abx_http_end(c->req);
}
