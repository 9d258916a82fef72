/* lib/connect/rpc_body.c: a call's request: bare or enveloped bytes into messages, and the start of
 * the handler. Loop thread. Connect protocol, "Unary-Request" and "Streaming-Request". */
#include "lib/connect/rpc_priv.h"

#include "lib/base/assert.h"
#include "lib/connect/pbjson.h"

#include "lib/base/banned.h"

/* Flag bytes of an envelope; no JSON text and no protobuf message begins with one of them. */
enum { LAST_FLAG_BYTE = 3 };

static ProtobufCMessage *decode(struct abx_rpc *rpc, struct abx_arena *a, struct abx_str payload,
                                struct abx_error *err)
{
    ProtobufCMessage *m = NULL;
    if (rpc->is_json) {
        if (abx_pb_from_json(payload, rpc->method->in, a, &m, err) < 0)
            abx_err_wrap(err, "request");
        return m;
    }
    ProtobufCAllocator allocator = abx_pb_allocator(a);
    static const uint8_t none[1];
    m = protobuf_c_message_unpack(rpc->method->in, &allocator, payload.len,
                                  payload.len ? (const uint8_t *)payload.ptr : none);
    if (m == NULL)
        abx_err_set(err, ABX_INVALID_ARGUMENT, "request: not a %s message, or too large",
                    rpc->method->in->name);
    return m;
}

bool abx__rpc_charge(struct abx_rpc *rpc)
{
    struct abx_rpc_budget *b = rpc->server->budget;
    size_t held = rpc->bare.cap + rpc->reader.payload.cap + rpc->arena.used + rpc->further.used;
    if (b == NULL)
        return true;
    if (held > rpc->charged && held - rpc->charged > b->max - b->used)
        return false;
    b->used = b->used - rpc->charged + held;
    rpc->charged = held;
    return true;
}

static void charge(struct abx_rpc *rpc)
{
    if (rpc->is_live && !abx__rpc_charge(rpc))
        abx_rpc_failf(rpc, ABX_RESOURCE_EXHAUSTED,
                      "request: too much is being asked at once, try again when other calls have "
                      "ended");
}

static void start(struct abx_rpc *rpc)
{
    ABX_ASSERT(!rpc->has_started && rpc->in);
    rpc->has_started = true;
    rpc->method->start(rpc, rpc->in);
}

static void on_first(struct abx_rpc *rpc, struct abx_str payload)
{
    struct abx_error err = {0};
    rpc->in = decode(rpc, &rpc->arena, payload, &err);
    if (rpc->in == NULL)
        abx_rpc_fail(rpc, &err);
    else if (rpc->method->kind == ABX_RPC_CLIENT_STREAM)
        start(rpc);
}

static void on_further(struct abx_rpc *rpc, struct abx_str payload)
{
    struct abx_error err = {0};
    if (rpc->method->kind != ABX_RPC_CLIENT_STREAM) {
        abx_rpc_failf(rpc, ABX_INVALID_ARGUMENT, "request: more than one message");
        return;
    }
    abx_arena_done(&rpc->further);
    ProtobufCMessage *m = decode(rpc, &rpc->further, payload, &err);
    if (m == NULL)
        abx_rpc_fail(rpc, &err);
    else
        rpc->method->message(rpc, m);
}

static void on_envelope(struct abx_rpc *rpc, uint8_t flags, struct abx_str payload)
{
    if (flags & ABX_ENVELOPE_COMPRESSED)
        abx_rpc_failf(rpc, ABX_UNIMPLEMENTED,
                      "request: compressed messages are not supported; send them as they are");
    else if (flags & ABX_ENVELOPE_END)
        abx_rpc_failf(rpc, ABX_INVALID_ARGUMENT, "request: end-of-stream flag from a client");
    else if (rpc->in == NULL)
        on_first(rpc, payload);
    else
        on_further(rpc, payload);
}

static void read_envelopes(struct abx_rpc *rpc, struct abx_str input)
{
    struct abx_error err = {0};
    struct abx_str payload;
    uint8_t flags;
    int rc = 1;
    while (rc == 1 && rpc->is_live) {
        rc = abx_envelope_read(&rpc->reader, &input, &flags, &payload, &err);
        if (rc == 1)
            on_envelope(rpc, flags, payload);
    }
    if (rc < 0)
        abx_rpc_fail(rpc, &err);
}

void abx__rpc_on_body(struct abx_http_req *req, const char *data, size_t len)
{
    struct abx_rpc *rpc = req->data;
    if (!rpc->is_live || len == 0)
        return;
    abx__rpc_ref(rpc); /* the handler may end the call */
    if (rpc->form == ABX__RPC_FORM_UNKNOWN)
        rpc->form = rpc->can_envelope && (unsigned char)data[0] <= LAST_FLAG_BYTE
                        ? ABX__RPC_ENVELOPED
                        : ABX__RPC_BARE;
    if (rpc->form == ABX__RPC_ENVELOPED)
        read_envelopes(rpc, abx_str_n(data, len));
    else {
        abx_buf_put(&rpc->bare, data, len);
        if (abx_buf_failed(&rpc->bare))
            abx_rpc_failf(rpc, ABX_RESOURCE_EXHAUSTED,
                          "request: larger than the %zu bytes that are allowed", rpc->max_message);
    }
    charge(rpc);
    abx__rpc_unref(rpc);
}

static void end_bare(struct abx_rpc *rpc)
{
    bool may_be_empty = rpc->method->kind == ABX_RPC_UNARY && !rpc->is_json;
    if (rpc->bare.len == 0 && !may_be_empty) {
        abx_rpc_failf(rpc, ABX_INVALID_ARGUMENT, "request: empty body, expected a message ({})");
        return;
    }
    on_first(rpc, abx_buf_str(&rpc->bare));
    abx_buf_done(&rpc->bare);
}

void abx__rpc_on_body_end(struct abx_http_req *req)
{
    struct abx_rpc *rpc = req->data;
    if (!rpc->is_live)
        return;
    abx__rpc_ref(rpc);
    if (rpc->form != ABX__RPC_ENVELOPED)
        end_bare(rpc);
    else if (!abx_envelope_reader_idle(&rpc->reader))
        abx_rpc_failf(rpc, ABX_INVALID_ARGUMENT, "request: the body ends inside an envelope");
    abx_envelope_reader_done(&rpc->reader);
    charge(rpc);
    if (rpc->is_live && !rpc->has_started)
        start(rpc);
    if (rpc->is_live && rpc->method->kind == ABX_RPC_CLIENT_STREAM)
        rpc->method->message(rpc, NULL);
    abx__rpc_unref(rpc);
}
