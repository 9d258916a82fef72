/* lib/connect/rpc.c: the life of a call and its answers: unary bodies, envelopes, end frames,
 * deadlines (envd.md 4). The request's body is rpc_body.c. Loop thread. */
#include "lib/connect/rpc_priv.h"

#include "lib/base/assert.h"
#include "lib/base/parse.h"
#include "lib/connect/pbjson.h"
#include "lib/json/json.h"
#include "lib/wire/multipart.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum {
    DEFAULT_MESSAGE = 4 << 20,
    MAX_ANSWER = 64 << 20,
    ERROR_BYTES = 2048, /* a message of 240 bytes, each written as six at worst */
    ARENA_SLACK = 65536,
};

/* What a request's media type says; published clients send unary calls as connect+json too. */
static const struct codec {
    const char *type;
    bool is_json, unary, stream, can_envelope;
} codecs[] = {
    {"application/json", .is_json = true, .unary = true},
    {"application/proto", .unary = true},
    {"application/connect+json", .is_json = true, .unary = true, .stream = true,
     .can_envelope = true},
    {"application/connect+proto", .unary = true, .stream = true, .can_envelope = true},
};

/* ---- answers ---- */

struct headers {
    struct abx_http_extra rows[ABX_RPC_EXTRA_MAX + 4];
    size_t count;
};

static void add_header(struct headers *h, const char *name, const char *value)
{
    ABX_ASSERT(h->count + 1 < ABX_COUNTOF(h->rows));
    h->rows[h->count++] = (struct abx_http_extra){name, abx_str(value)};
}

static void add_extra(struct headers *h, const struct abx_rpc_server *s, struct abx_http_req *req)
{
    const struct abx_http_extra *row = s->extra ? s->extra(req) : NULL;
    for (size_t i = 0; row && row[i].name; i++) {
        ABX_ASSERT(i < ABX_RPC_EXTRA_MAX);
        h->rows[h->count++] = row[i];
    }
    h->rows[h->count].name = NULL;
}

static void answer(const struct abx_rpc_server *s, struct abx_http_req *req, int status,
                   const char *type, struct abx_str body)
{
    struct headers h = {0};
    if (type)
        add_header(&h, "Content-Type", type);
    add_extra(&h, s, req);
    abx_http_answer(req, status, h.rows, body);
}

static void write_error(struct abx_buf *b, const struct abx_error *err, bool in_end_frame)
{
    struct abx_json_writer w;
    abx_json_writer_init(&w, b);
    if (in_end_frame) {
        abx_json_begin_object(&w);
        abx_json_key(&w, ABX_STR("error"));
    }
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "code", abx_code_name(err->code));
    abx_json_kv_c(&w, "message", err->msg);
    abx_json_end_object(&w);
    if (in_end_frame)
        abx_json_end_object(&w);
}

static void answer_error(const struct abx_rpc_server *s, struct abx_http_req *req, int status,
                         const struct abx_error *err)
{
    ABX_AUTO_BUF body;
    abx_buf_init(&body, ERROR_BYTES);
    write_error(&body, err, false);
    answer(s, req, status, "application/json", abx_buf_str(&body));
}

static bool is_stream(const struct abx_rpc *rpc)
{
    return rpc->method->kind != ABX_RPC_UNARY;
}

static bool write_frame(struct abx_rpc *rpc, uint8_t flags, struct abx_str payload)
{
    if (!rpc->has_begun) {
        struct headers h = {0};
        add_header(&h, "Content-Type",
                   rpc->is_json ? "application/connect+json" : "application/connect+proto");
        add_header(&h, "Cache-Control", "no-transform"); /* case T31: proxies that buffer or pack */
        add_header(&h, "X-Accel-Buffering", "no");
        add_extra(&h, rpc->server, rpc->req);
        rpc->has_begun = true;
        abx_http_begin(rpc->req, 200, h.rows, ABX_HTTP_CHUNKED);
    }
    unsigned char head[ABX_ENVELOPE_HEAD];
    abx_envelope_head(flags, (uint32_t)payload.len, head);
    return abx_http_write2(rpc->req, head, sizeof(head), payload.ptr, payload.len);
}

/* ---- life ---- */

void abx__rpc_ref(struct abx_rpc *rpc)
{
    rpc->refs++;
}

void abx__rpc_unref(struct abx_rpc *rpc)
{
    ABX_ASSERT(rpc->refs > 0);
    if (--rpc->refs > 0)
        return;
    if (rpc->server->budget)
        rpc->server->budget->used -= rpc->charged;
    abx_arena_done(&rpc->arena);
    abx_arena_done(&rpc->further);
    abx_buf_done(&rpc->bare);
    abx_envelope_reader_done(&rpc->reader);
    free(rpc);
}

static void on_timer_closed(void *owner)
{
    abx__rpc_unref(owner);
}

/* The one place where a call stops being live. */
static void end_call(struct abx_rpc *rpc)
{
    if (!rpc->is_live)
        return;
    rpc->is_live = false;
    if (rpc->deadline.open)
        abx_timer_close(&rpc->deadline, on_timer_closed);
    if (rpc->on_close)
        rpc->on_close(rpc);
}

static void on_http_close(struct abx_http_req *req, bool aborted)
{
    (void)aborted;
    struct abx_rpc *rpc = req->data;
    end_call(rpc);
    rpc->req = NULL;
    abx__rpc_unref(rpc);
}

static void on_http_drain(struct abx_http_req *req)
{
    struct abx_rpc *rpc = req->data;
    if (!rpc->is_live || !rpc->on_drain)
        return;
    abx__rpc_ref(rpc);
    rpc->on_drain(rpc);
    abx__rpc_unref(rpc);
}

static void on_deadline(struct abx_timer *t)
{
    struct abx_rpc *rpc = t->owner;
    abx_rpc_failf(rpc, ABX_DEADLINE_EXCEEDED, "the call did not end within its %llu ms",
                  (unsigned long long)rpc->timeout_ms);
}

/* ---- for handlers ---- */

bool abx_rpc_send_encoded(struct abx_rpc *rpc, struct abx_str payload)
{
    if (!rpc->is_live)
        return true;
    abx__rpc_ref(rpc);
    bool below_mark = true;
    if (is_stream(rpc))
        below_mark = write_frame(rpc, 0, payload);
    else {
        answer(rpc->server, rpc->req, 200, rpc->is_json ? "application/json" : "application/proto",
               payload);
        end_call(rpc);
    }
    abx__rpc_unref(rpc);
    return below_mark;
}

bool abx_rpc_send(struct abx_rpc *rpc, const ProtobufCMessage *out)
{
    ABX_ASSERT(out->descriptor == rpc->method->out);
    ABX_AUTO_BUF body;
    abx_buf_init(&body, MAX_ANSWER);
    if (rpc->is_json)
        abx_pb_to_json(out, &body);
    else {
        size_t len = protobuf_c_message_get_packed_size(out);
        void *to = abx_buf_room(&body, len);
        if (to)
            abx_buf_wrote(&body, protobuf_c_message_pack(out, to));
    }
    if (!abx_buf_failed(&body))
        return abx_rpc_send_encoded(rpc, abx_buf_str(&body));
    abx_rpc_failf(rpc, ABX_RESOURCE_EXHAUSTED, "the answer is larger than %d bytes",
                  (int)MAX_ANSWER);
    return true;
}

void abx_rpc_finish(struct abx_rpc *rpc)
{
    ABX_ASSERT(is_stream(rpc));
    if (!rpc->is_live)
        return;
    abx__rpc_ref(rpc);
    write_frame(rpc, ABX_ENVELOPE_END, ABX_STR("{}"));
    if (rpc->req)
        abx_http_end(rpc->req);
    end_call(rpc);
    abx__rpc_unref(rpc);
}

void abx_rpc_fail(struct abx_rpc *rpc, const struct abx_error *err)
{
    if (!rpc->is_live)
        return;
    abx__rpc_ref(rpc);
    if (is_stream(rpc)) {
        ABX_AUTO_BUF frame;
        abx_buf_init(&frame, ERROR_BYTES);
        write_error(&frame, err, true);
        write_frame(rpc, ABX_ENVELOPE_END, abx_buf_str(&frame));
        if (rpc->req)
            abx_http_end(rpc->req);
    } else
        answer_error(rpc->server, rpc->req, abx_code_http(err->code), err);
    end_call(rpc);
    abx__rpc_unref(rpc);
}

void abx_rpc_failf(struct abx_rpc *rpc, enum abx_code code, const char *fmt, ...)
{
    struct abx_error err = {0};
    va_list ap;
    va_start(ap, fmt);
    abx_err_setv(&err, code, fmt, ap);
    va_end(ap);
    abx_rpc_fail(rpc, &err);
}

struct abx_http_req *abx_rpc_req(struct abx_rpc *rpc)
{
    return rpc->req;
}

struct abx_arena *abx_rpc_arena(struct abx_rpc *rpc)
{
    return &rpc->arena;
}

uint64_t abx_rpc_timeout_ms(const struct abx_rpc *rpc)
{
    return rpc->timeout_ms;
}

void abx_rpc_set_data(struct abx_rpc *rpc, void *data)
{
    rpc->data = data;
}

void *abx_rpc_data(const struct abx_rpc *rpc)
{
    return rpc->data;
}

void abx_rpc_on_close(struct abx_rpc *rpc, void (*fn)(struct abx_rpc *rpc))
{
    rpc->on_close = fn;
}

void abx_rpc_on_drain(struct abx_rpc *rpc, void (*fn)(struct abx_rpc *rpc))
{
    rpc->on_drain = fn;
}

bool abx_rpc_is_json(const struct abx_rpc *rpc)
{
    return rpc->is_json;
}

/* ---- serving ---- */

static const struct codec *find_codec(const struct abx_http_req *req, bool stream)
{
    char type[64];
    if (abx_media_type(abx_http_header(req->head, "Content-Type"), type, sizeof(type)) < 0)
        return NULL;
    for (size_t i = 0; i < ABX_COUNTOF(codecs); i++)
        if (strcmp(codecs[i].type, type) == 0)
            return (stream ? codecs[i].stream : codecs[i].unary) ? &codecs[i] : NULL;
    return NULL;
}

/* What is no call of ours: JSON with a numeric code, which clients take for an HTTP error; a body
 * always, since some show nothing else (case T35). */
static void answer_refusal(const struct abx_rpc_server *s, struct abx_http_req *req, int status,
                           const char *name, const char *value)
{
    char text[256];
    int len =
        snprintf(text, sizeof(text), "{\"code\":%d,\"message\":\"%s: %s\"}\n", status, name, value);
    ABX_ASSERT(len > 0 && len < (int)sizeof(text));
    struct headers h = {0};
    add_header(&h, "Content-Type", "application/json");
    add_header(&h, name, value);
    add_extra(&h, s, req);
    abx_http_answer(req, status, h.rows, abx_str_n(text, (size_t)len));
}

static void answer_405(const struct abx_rpc_server *s, struct abx_http_req *req)
{
    answer_refusal(s, req, 405, "Allow", "POST");
}

static void answer_415(const struct abx_rpc_server *s, struct abx_http_req *req, bool stream)
{
    char list[160];
    struct abx_buf b = {.ptr = list, .cap = sizeof(list), .max = sizeof(list) - 1};
    for (size_t i = 0; i < ABX_COUNTOF(codecs); i++) {
        if (!(stream ? codecs[i].stream : codecs[i].unary))
            continue;
        abx_buf_put_c(&b, b.len ? ", " : "");
        abx_buf_put_c(&b, codecs[i].type);
    }
    ABX_ASSERT(!abx_buf_failed(&b));
    answer_refusal(s, req, 415, "Accept-Post", list);
}

static int read_timeout(struct abx_rpc *rpc, struct abx_error *err)
{
    struct abx_str text = abx_http_header(rpc->req->head, "Connect-Timeout-Ms");
    if (text.ptr == NULL)
        return 0;
    if (text.len > 10 || abx_parse_u64(text, &rpc->timeout_ms) < 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT,
                           "Connect-Timeout-Ms: expected 1 to 10 digits, got \"%.*s\"",
                           (int)(text.len < 32 ? text.len : 32), text.ptr);
    if (rpc->timeout_ms == 0)
        return 0;
    abx__rpc_ref(rpc);
    abx_timer_init(&rpc->deadline, rpc->server->loop, on_deadline, rpc);
    abx_timer_start(&rpc->deadline, rpc->timeout_ms, 0);
    return 0;
}

static int check_encoding(struct abx_rpc *rpc, struct abx_error *err)
{
    const char *name = is_stream(rpc) ? "Connect-Content-Encoding" : "Content-Encoding";
    struct abx_str value = abx_http_header(rpc->req->head, name);
    if (value.len == 0 || abx_str_is_nocase(value, "identity"))
        return 0;
    return abx_err_set(err, ABX_UNIMPLEMENTED, "unknown compression \"%.*s\": send identity",
                       (int)(value.len < 32 ? value.len : 32), value.ptr);
}

static void begin_call(struct abx_rpc *rpc)
{
    struct abx_error err = {0};
    if (read_timeout(rpc, &err) < 0 || check_encoding(rpc, &err) < 0) {
        abx_rpc_fail(rpc, &err);
        return;
    }
    rpc->req->on_body = abx__rpc_on_body;
    rpc->req->on_body_end = abx__rpc_on_body_end;
    rpc->req->on_drain = on_http_drain;
}

static void serve_method(const struct abx_rpc_server *s, struct abx_http_req *req,
                         const struct abx_rpc_service *service, const struct abx_rpc_method *method)
{
    bool stream = method->kind != ABX_RPC_UNARY;
    const struct codec *codec = find_codec(req, stream);
    if (!abx_str_is(req->head->method, "POST")) {
        answer_405(s, req);
        return;
    }
    if (codec == NULL) {
        answer_415(s, req, stream);
        return;
    }
    struct abx_rpc *rpc = calloc(1, sizeof(*rpc));
    if (rpc == NULL) {
        struct abx_error err = {0};
        abx_err_set(&err, ABX_RESOURCE_EXHAUSTED, "out of memory");
        answer_error(s, req, 503, &err);
        return;
    }
    rpc->server = s;
    rpc->method = method;
    rpc->req = req;
    rpc->refs = 1;
    rpc->is_json = codec->is_json;
    rpc->can_envelope = codec->can_envelope;
    rpc->is_live = true;
    rpc->max_message = service->max_message ? service->max_message : (size_t)DEFAULT_MESSAGE;
    abx_arena_init(&rpc->arena, rpc->max_message * 4 + ARENA_SLACK);
    abx_arena_init(&rpc->further, rpc->max_message * 4 + ARENA_SLACK);
    abx_buf_init(&rpc->bare, rpc->max_message);
    abx_envelope_reader_init(&rpc->reader, rpc->max_message);
    req->data = rpc;
    req->on_close = on_http_close;
    begin_call(rpc);
}

bool abx_rpc_serve(const struct abx_rpc_server *s, struct abx_http_req *req)
{
    for (size_t i = 0; s->services[i]; i++) {
        const struct abx_rpc_service *service = s->services[i];
        if (!abx_str_starts(req->path, service->path))
            continue;
        struct abx_str name = abx_str_sub(req->path, strlen(service->path), req->path.len);
        for (const struct abx_rpc_method *m = service->methods; m->name; m++) {
            if (abx_str_is(name, m->name)) {
                serve_method(s, req, service, m);
                return true;
            }
        }
        struct abx_error err = {0};
        abx_err_set(&err, ABX_UNIMPLEMENTED, "%s has no method \"%.*s\"", service->path,
                    (int)(name.len < 64 ? name.len : 64), name.ptr);
        answer_error(s, req, 404, &err);
        return true;
    }
    return false;
}
