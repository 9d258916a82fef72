/* guest/server/custom.c: calls that user code answers: commands and custom routes. Loop thread.
 *
 * Values go both ways as they came; credentials stay here (hand_over.c). */
#include "guest/server/commands_priv.h"
#include "guest/server/rule_json.h"
#include "lib/base/assert.h"
#include "lib/base/log.h"
#include "lib/base/parse.h"
#include "lib/json/scan.h"

#include <ctype.h>

#include "lib/base/banned.h"

enum { TEXT_BYTES = 1 << 20, HEADERS_MAX = 64, ERROR_BYTES = 4096 };

/* ---- what the host is told of a call ---- */

static const char *audit_name(enum abx_audit audit)
{
    static const char *const names[] = {
        [ABX_AUDIT_OFF] = "off", [ABX_AUDIT_DENY] = "deny", [ABX_AUDIT_ALL] = "all"};
    return names[audit];
}

static void put_rule(struct abx_json_writer *w, const struct abx_policy_rule *r)
{
    abx_json_key(w, ABX_STR("rule"));
    abx_json_begin_object(w);
    abx_json_kv_bool(w, "enabled", r->enabled);
    abx__put_list(w, "scopes", r->scopes);
    abx__put_list(w, "allow", r->paths.allow);
    abx__put_list(w, "deny", r->paths.deny);
    abx_json_kv_bool(w, "read_only", r->paths.read_only);
    abx_json_kv_c(w, "symlinks", r->paths.never_links ? "never" : "within");
    abx__put_limits(w, r);
    abx__put_params(w, r);
    abx_json_kv_c(w, "audit", audit_name(r->audit));
    abx_json_end_object(w);
}

void abx__call_context(struct abx_buf *out, const struct abx__call *c)
{
    struct abx_json_writer w;
    abx_json_writer_init(&w, out);
    abx_json_begin_object(&w);
    abx_json_kv_str(&w, "endpoint", c->rule->id);
    abx_json_key(&w, ABX_STR("identity"));
    abx_json_begin_object(&w);
    abx_json_kv_str(&w, "id", c->who.id);
    abx__put_list(&w, "scopes", c->who.scopes);
    abx_json_end_object(&w);
    put_rule(&w, c->rule);
    abx_json_end_object(&w);
}

/* The body as JSON: as it came, without a byte order mark. */
static struct abx_str body_json(const struct abx__call *c)
{
    struct abx_str s = c->body_text;
    return abx_str_starts(s, "\xEF\xBB\xBF") ? abx_str_sub(s, 3, s.len) : s;
}

/* ---- what comes back ---- */

static struct abx__call *take(void *arg)
{
    struct abx__call *c = arg;
    return c;
}

static void over(struct abx__call *c)
{
    c->data = NULL; /* the host has forgotten it */
}

static void on_close(struct abx__call *c, bool aborted)
{
    (void)aborted;
    abx_host_call_cancel(c->data);
    c->data = NULL;
}

static void on_drain(struct abx__call *c)
{
    if (c->data)
        abx_host_call_resume(c->data);
}

/* The members of an error's `extra`, in their order, as PolicyDenied has them; error, type and code
 * are the message's own. Tells whether `endpoint` was among them; *ret_retry: 0, or the seconds of
 * `retry_after` (RFC 9110 10.2.3 knows whole ones). -1: no object. */
static int put_extra(struct abx_json_writer *w, struct abx_str extra, bool *ret_has_endpoint,
                     uint64_t *ret_retry)
{
    static const char *const own[] = {"error", "type", "code"};
    ABX_AUTO_BUF name;
    struct abx_scan_object o;
    struct abx_str key, value;
    abx_buf_init(&name, ABX_HOST_LINE_MAX);
    abx_scan_object_init(&o, extra);
    while (abx_scan_object_next(&o, &key, &value)) {
        bool is_own = false;
        abx_buf_clear(&name);
        if (abx_host_text(abx_str_n(key.ptr - 1, key.len + 2), &name) < 0)
            return -1;
        for (size_t i = 0; i < ABX_COUNTOF(own); i++)
            is_own |= abx_str_is(abx_buf_str(&name), own[i]);
        if (is_own)
            continue;
        *ret_has_endpoint |= abx_str_is(abx_buf_str(&name), "endpoint");
        if (abx_str_is(abx_buf_str(&name), "retry_after") && abx_parse_u64(value, ret_retry) < 0)
            *ret_retry = 0;
        abx_json_key(w, abx_buf_str(&name));
        abx_json_raw(w, value);
    }
    return o.failed ? -1 : 0;
}

/* {"error": ..., "type": ...} of JSON strings, as user code made them. */
static void answer_error(struct abx__call *c, int status, struct abx_str message,
                         struct abx_str type, const struct abx_host_message *more)
{
    ABX_AUTO_BUF body;
    struct abx_json_writer w;
    char seconds[24];
    bool has_endpoint = false;
    uint64_t retry_s = 0;
    abx_buf_init(&body, (size_t)ABX_HOST_LINE_MAX + ERROR_BYTES);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_key(&w, ABX_STR("error"));
    abx_json_raw(&w, message.len ? message : ABX_STR("\"\""));
    abx_json_key(&w, ABX_STR("type"));
    abx_json_raw(&w, type.len ? type : ABX_STR("\"RuntimeError\""));
    if (more && more->code.len) {
        abx_json_key(&w, ABX_STR("code"));
        abx_json_raw(&w, more->code);
    }
    if (more && more->extra.len && put_extra(&w, more->extra, &has_endpoint, &retry_s) < 0) {
        abx__call_fail(c, 500, "TypeError", "the 'extra' of the command's error is no object");
        return;
    }
    if (more && more->code.len && !has_endpoint)
        abx_json_kv_str(&w, "endpoint", c->rule->id);
    abx_json_end_object(&w);
    snprintf(seconds, sizeof(seconds), "%llu", (unsigned long long)retry_s);
    const struct abx_http_extra head[] = {{retry_s ? "Retry-After" : NULL, abx_str(seconds)}, {0}};
    if (abx_buf_failed(&body))
        abx__call_fail(c, 500, "MemoryError", "the answer does not fit into memory");
    else
        abx__call_answer_status(c, status, head, abx_buf_str(&body));
}

static void on_result(void *arg, struct abx_str value)
{
    struct abx__call *c = take(arg);
    ABX_AUTO_BUF body;
    over(c);
    abx_buf_init(&body, (size_t)ABX_HOST_LINE_MAX + 64);
    abx_buf_put_c(&body, "{\"result\": ");
    abx_buf_put_str(&body, value);
    abx_buf_put_byte(&body, '}');
    abx__call_answer(c, &body);
}

static void on_error(void *arg, const struct abx_host_message *m)
{
    struct abx__call *c = take(arg);
    over(c);
    if (c->status)
        abx_http_abort(c->req);
    else
        answer_error(c, (int)m->status, m->message, m->type, m);
}

static void on_failed(void *arg, int status, const char *type, const char *text)
{
    struct abx__call *c = take(arg);
    over(c);
    if (c->status)
        abx_http_abort(c->req);
    else
        abx__call_fail(c, status, type, "%s", text);
}

/* ---- headers of an answer ---- */

static const char *const framing[] = {"Content-Length", "Connection", "Transfer-Encoding",
                                      "Keep-Alive", "Upgrade"};

struct answer_head {
    struct abx_http_extra extra[HEADERS_MAX + 2];
    size_t count;
};

/* Text of a header as its bytes: Latin-1. -1: it does not fit, or would break the head. */
static int latin1(struct abx_arena *a, struct abx_str utf8, struct abx_str *ret)
{
    char *out = abx_arena_alloc(a, utf8.len + 1);
    size_t n = 0;
    for (size_t i = 0; out && i < utf8.len; i++) {
        unsigned char b = (unsigned char)utf8.ptr[i];
        if (b < 0x20 ? b != '\t' : b == 0x7f || b > 0xC3)
            return -1;
        if (b >= 0xC2) /* two bytes, and well-formed: checked by the scanner */
            b = (unsigned char)((b & 3u) << 6 | ((unsigned char)utf8.ptr[++i] & 0x3Fu));
        out[n++] = (char)b;
    }
    *ret = abx_str_n(out, n);
    return out ? 0 : -1;
}

static bool is_header_name(struct abx_str s)
{
    static const char odd[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < s.len; i++) {
        char b = s.ptr[i];
        bool is_word = (b >= 'a' && b <= 'z') || (b >= 'A' && b <= 'Z') || (b >= '0' && b <= '9');
        if (!is_word && (b == '\0' || strchr(odd, b) == NULL))
            return false;
    }
    return s.len > 0;
}

static int take_header(struct abx_arena *a, struct abx_str key, struct abx_str value,
                       struct answer_head *h)
{
    ABX_AUTO_BUF text = {0};
    struct abx_str bytes;
    for (size_t i = 0; i < ABX_COUNTOF(framing); i++)
        if (abx_str_is_nocase(key, framing[i]))
            return 0;
    abx_buf_init(&text, 65536);
    const char *name = abx_arena_c(a, key);
    if (h->count == HEADERS_MAX || name == NULL || !is_header_name(key) ||
        abx_host_text(value, &text) < 0 || latin1(a, abx_buf_str(&text), &bytes) < 0)
        return -1;
    h->extra[h->count++] = (struct abx_http_extra){name, bytes};
    return 0;
}

static int read_head(struct abx__call *c, struct abx_str headers, struct answer_head *h)
{
    struct abx_scan_object o;
    struct abx_str key, value;
    h->count = 0;
    abx_scan_object_init(&o, headers.ptr ? headers : ABX_STR("{}"));
    while (abx_scan_object_next(&o, &key, &value))
        if (take_header(c->req->arena, key, value, h) < 0)
            return -1;
    h->extra[h->count++] = (struct abx_http_extra){"X-Request-Id", abx_str(c->id)};
    h->extra[h->count] = (struct abx_http_extra){0};
    return o.failed ? -1 : 0;
}

/* The body as it is sent: JSON, or the bytes that stand in the line as base64 (D66). */
static int read_answer(const struct abx_host_message *m, struct abx_buf *bytes, struct abx_str *ret)
{
    ABX_AUTO_BUF text = {0};
    *ret = m->body;
    if (m->base64.ptr == NULL)
        return 0;
    abx_buf_init(&text, (size_t)ABX_HOST_LINE_MAX);
    abx_buf_init(bytes, (size_t)ABX_HOST_LINE_MAX);
    if (abx_host_text(m->base64, &text) < 0 || abx_base64_decode(abx_buf_str(&text), bytes) < 0)
        return -1;
    *ret = abx_buf_str(bytes);
    return abx_buf_failed(bytes) ? -1 : 0;
}

static void on_response(void *arg, const struct abx_host_message *m)
{
    struct abx__call *c = take(arg);
    struct answer_head h;
    struct abx_str body;
    ABX_AUTO_BUF bytes = {0};
    over(c);
    if (read_head(c, m->headers, &h) < 0) {
        answer_error(c, 500, ABX_STR("\"a header of the answer is not well-formed\""),
                     ABX_STR("\"ValueError\""), NULL);
        return;
    }
    if (read_answer(m, &bytes, &body) < 0) {
        answer_error(c, 500, ABX_STR("\"the body of the answer is no base64\""),
                     ABX_STR("\"ValueError\""), NULL);
        return;
    }
    c->status = (int)m->status;
    abx__audit_call(c);
    abx_http_answer(c->req, c->status, h.extra, body);
}

static void on_head(void *arg, const struct abx_host_message *m)
{
    struct abx__call *c = take(arg);
    struct answer_head h;
    if (read_head(c, m->headers, &h) < 0) {
        abx_host_call_cancel(c->data);
        over(c);
        answer_error(c, 500, ABX_STR("\"a header of the stream is not well-formed\""),
                     ABX_STR("\"ValueError\""), NULL);
        return;
    }
    c->status = (int)m->status;
    c->is_stream = true;
    abx_http_begin(c->req, c->status, h.extra, ABX_HTTP_CHUNKED);
    abx_http_flush(c->req);
}

static bool on_chunk(void *arg, const char *data, size_t len)
{
    struct abx__call *c = take(arg);
    return abx_http_write(c->req, data, len);
}

static void on_ended(void *arg)
{
    struct abx__call *c = take(arg);
    over(c);
    abx__audit_call(c);
    abx_http_end(c->req);
}

static const struct abx_host_call_ops call_ops = {on_result, on_error, on_response, on_head,
                                                  on_chunk,  on_ended, on_failed};

/* ---- calls ---- */

void abx__commands_too_many(struct abx__call *c)
{
    struct abx_policy_verdict v = {.endpoint = c->rule->id, .retry_after_s = 1};
    abx_policy_deny(&v, ABX_POLICY_CONCURRENCY_LIMITED,
                    "more than %d calls run in the command host", (int)ABX_HOST_CALLS_MAX);
    abx__call_deny(c, &v);
}

static void start(struct abx__call *c, const struct abx__commands_host *h,
                  struct abx_host_call_text *text)
{
    ABX_AUTO_BUF ctx;
    int why = 503;
    abx_buf_init(&ctx, TEXT_BYTES);
    abx__call_context(&ctx, c);
    text->ctx = abx_buf_str(&ctx);
    c->on_close = on_close;
    c->on_drain = on_drain;
    c->data = abx_buf_failed(&ctx) ? NULL : abx_host_call_start(h->host, text, &call_ops, c, &why);
    if (c->data)
        return;
    if (why == 429)
        abx__commands_too_many(c);
    else
        abx__call_fail(c, 503, "HostUnavailable", "the command host can not take the call");
}

static bool wants_events(const struct abx__call *c)
{
    const struct abx_http_head *head = c->req->head;
    for (size_t i = 0; i < head->header_count; i++)
        if (abx_str_is_nocase(head->headers[i].name, "Accept") &&
            abx_str_find(head->headers[i].value, ABX_STR("text/event-stream")) >= 0)
            return true;
    return false;
}

/* The arguments as the host gets them, converted where it does not itself. False: answered. */
static bool take_args(struct abx__call *c, const struct abx__command *command, struct abx_buf *out)
{
    struct abx_args_fault fault;
    if (command->declared == NULL)
        return true;
    if (abx_args_coerce(command->declared, body_json(c), c->req->arena, out, &fault) == 0)
        return true;
    abx__call_fail(c, strcmp(fault.type, "MemoryError") ? 400 : 500, fault.type, "%s", fault.text);
    return false;
}

void abx__command_call(struct abx__call *c, const struct abx__command *command)
{
    ABX_AUTO_BUF args;
    abx_buf_init(&args, ABX_HOST_LINE_MAX);
    if (!take_args(c, command, &args))
        return;
    if (command->row) {
        abx__table_call(c, command, abx_buf_str(&args));
        return;
    }
    struct abx_host_call_text text = {
        .command = command->name,
        .args = command->declared ? abx_buf_str(&args) : body_json(c),
        .stream = wants_events(c),
        .deadline_ms = abx__command_deadline_ms(c, command),
    };
    start(c, command->host, &text);
}

uint32_t abx__command_deadline_ms(const struct abx__call *c, const struct abx__command *command)
{
    double limit = abx_policy_limit_f64(c->rule, ABX_LIMIT_TIMEOUT_SECONDS, 0) * 1000;
    if (limit <= 0 || (command->timeout_ms && command->timeout_ms <= limit))
        return command->timeout_ms;
    return limit < 1 ? 1 : limit > UINT32_MAX ? UINT32_MAX : (uint32_t)limit;
}

void abx__custom_serve(struct abx__call *c, void *arg)
{
    const struct abx__custom_route *route = arg;
    ABX_AUTO_BUF query, headers, params;
    struct abx_str m = c->req->head->method;
    bool has_body = abx_str_is(m, "POST") || abx_str_is(m, "PUT") || abx_str_is(m, "DELETE") ||
                    c->body_text.len;
    abx_buf_init(&query, TEXT_BYTES);
    abx_buf_init(&headers, TEXT_BYTES);
    abx_buf_init(&params, TEXT_BYTES);
    abx__hand_over_query(&query, c);
    abx__hand_over_params(&params, c);
    abx__hand_over_headers(&headers, c);
    if (abx_buf_failed(&query) || abx_buf_failed(&headers) || abx_buf_failed(&params)) {
        abx__call_fail(c, 500, "MemoryError", "the request does not fit into memory");
        return;
    }
    struct abx_host_call_text text = {
        .n = route->n,
        .method = m,
        .path = c->path,
        .query = abx_buf_str(&query),
        .headers = abx_buf_str(&headers),
        .path_params = c->params_json.ptr ? c->params_json : abx_buf_str(&params),
        .body = body_json(c),
    };
    if (has_body && text.body.len == 0)
        text.body = ABX_STR("{}");
    start(c, route->host, &text);
}

/* ---- whose path it is ---- */

enum { MATCH_STEPS = 100000 };

struct matcher {
    struct abx__pair *out;
    size_t count, max;
    unsigned steps;
};

/* The length of "{word}" at the start of @pattern, 0: something else stands there. */
static size_t word_len(struct abx_str pattern)
{
    size_t n = 1;
    if (pattern.len == 0 || pattern.ptr[0] != '{')
        return 0;
    while (n < pattern.len && (isalnum((unsigned char)pattern.ptr[n]) || pattern.ptr[n] == '_' ||
                               (unsigned char)pattern.ptr[n] >= 0x80))
        n++;
    return n > 1 && n < pattern.len && pattern.ptr[n] == '}' ? n + 1 : 0;
}

/* Longest parts first, as a regular expression takes them. At most ABX__PARAMS_MAX deep. */
static bool match(struct matcher *m, struct abx_str pattern, struct abx_str path)
{
    size_t at = 0, n = 0;
    while (at < pattern.len && (n = word_len(abx_str_sub(pattern, at, pattern.len))) == 0) {
        if (at >= path.len || pattern.ptr[at] != path.ptr[at])
            return false;
        at++;
    }
    if (at == pattern.len)
        return at == path.len;
    struct abx_str rest = abx_str_sub(path, at, path.len);
    ptrdiff_t slash = abx_str_chr(rest, '/');
    if (m->count == m->max)
        return false;
    struct abx__pair *pair = &m->out[m->count++];
    pair->name = abx_str_sub(pattern, at + 1, n - 2);
    for (size_t len = slash < 0 ? rest.len : (size_t)slash; len > 0; len--) {
        pair->value = abx_str_sub(rest, 0, len);
        if (++m->steps > MATCH_STEPS)
            break;
        if (match(m, abx_str_sub(pattern, at + n, pattern.len), abx_str_sub(rest, len, rest.len)))
            return true;
    }
    m->count--;
    return false;
}

bool abx__custom_path_match(struct abx_str pattern, struct abx_str path, struct abx__pair *out,
                            size_t *inout_count)
{
    struct matcher m = {.out = out, .max = *inout_count};
    bool yes = match(&m, pattern, path);
    *inout_count = yes ? m.count : 0;
    return yes;
}

uint64_t abx__custom_match(const struct abx__custom *custom, struct abx_str path,
                           abx__custom_match_fn *done, void *arg)
{
    const struct abx__custom_route *route = custom->arg;
    return abx_host_match(route->host->host, route->n, path, done, arg);
}

void abx__custom_match_cancel(const struct abx__custom *custom, uint64_t number)
{
    const struct abx__custom_route *route = custom->arg;
    abx_host_match_cancel(route->host->host, number);
}

/* ---- questions ---- */

/* An object without its brackets. */
static struct abx_str members(const struct abx_buf *object)
{
    return object->len >= 2 ? abx_str_sub(abx_buf_str(object), 1, object->len - 2)
                            : (struct abx_str){0};
}

static void refuse(struct abx__commands_host *h, uint64_t q, const struct abx_policy_verdict *v)
{
    ABX_AUTO_BUF body;
    struct abx_json_writer w;
    abx_buf_init(&body, 65536);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_kv_i64(&w, "status", abx_policy_code_status(v->code));
    abx_json_kv_c(&w, "type", abx_policy_code_type(v->code));
    abx_json_kv_c(&w, "code", abx_policy_code_name(v->code));
    abx_json_kv_c(&w, "message", v->text);
    abx_json_end_object(&w);
    abx_host_answer(h->host, q, false, members(&body));
}

static void refuse_text(struct abx__commands_host *h, uint64_t q, const char *text)
{
    ABX_AUTO_BUF body;
    struct abx_json_writer w;
    abx_buf_init(&body, 65536);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "message", text);
    abx_json_end_object(&w);
    abx_host_answer(h->host, q, false, members(&body));
}

static void answer_path(struct abx__commands_host *h, const struct abx_host_message *m,
                        struct abx__call *c)
{
    ABX_AUTO_BUF path, field, op, json;
    struct abx__bounds bounds;
    struct abx_policy_verdict v = {0};
    struct abx_str found;
    abx_buf_init(&path, 65536);
    abx_buf_init(&field, 256);
    abx_buf_init(&op, 64);
    abx_buf_init(&json, 1 << 18);
    if (abx_host_text(m->path, &path) < 0 || abx_host_text(m->field, &field) < 0 ||
        abx_host_text(m->access, &op) < 0 ||
        abx__bounds_init(&bounds, c->policy, c->rule, c->req->arena) < 0) {
        refuse_text(h, m->q, "the path can not be read");
        return;
    }
    int access = abx_path_op_parse(abx_buf_str(&op));
    struct abx__path_ask ask = {.path = abx_buf_str(&path),
                                .op = access < 0 ? ABX_OP_READ : (enum abx_path_op)access,
                                .field = field.len ? field.ptr : NULL};
    if (!abx__bounds_judge(&bounds, &ask, &found, &v)) {
        refuse(h, m->q, &v);
        return;
    }
    abx__call_note_path(c, found);
    struct abx_json_writer w;
    abx_json_writer_init(&w, &json);
    abx_json_str(&w, found);
    abx_host_answer(h->host, m->q, true, abx_buf_str(&json));
}

static void answer_policy(struct abx__commands_host *h, const struct abx_host_message *m)
{
    ABX_AUTO_BUF json;
    struct abx_error err = {0};
    abx_buf_init(&json, 1 << 20);
    if (abx__policy_answer(m, &json, &err) < 0)
        refuse_text(h, m->q, err.msg);
    else
        abx_host_answer(h->host, m->q, true, abx_buf_str(&json));
}

void abx__commands_answer(struct abx__commands_host *h, const struct abx_host_message *m,
                          struct abx__call *c)
{
    if (!m->has_q)
        return;
    if (abx_str_is(m->what, "\"path\"") && c)
        answer_path(h, m, c);
    else if (abx_str_is(m->what, "\"policy\""))
        answer_policy(h, m);
    else
        refuse_text(h, m->q,
                    abx_str_is(m->what, "\"path\"") ? "the call is over" : "no such question");
}
