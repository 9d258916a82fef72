/* lib/connect/rpc_priv.h: one call: what rpc.c (life, answers) and rpc_body.c (request) share. */
#pragma once
#include "lib/connect/rpc.h"
#include "lib/wire/envelope.h"

enum abx__rpc_form { ABX__RPC_FORM_UNKNOWN, ABX__RPC_BARE, ABX__RPC_ENVELOPED };

struct abx_rpc {
    const struct abx_rpc_server *server;
    const struct abx_rpc_method *method;
    struct abx_http_req *req; /* NULL once the exchange is over */
    struct abx_arena arena;   /* the (first) message */
    struct abx_arena further; /* a later message of a client stream */
    size_t max_message;
    unsigned refs; /* the exchange, the timer, a running callback */
    bool is_json, is_live, has_begun, has_started;
    /* the request's body */
    bool can_envelope;
    enum abx__rpc_form form;
    struct abx_buf bare;
    struct abx_envelope_reader reader;
    ProtobufCMessage *in;
    size_t charged; /* to the server's budget */
    /* the deadline */
    uint64_t timeout_ms;
    struct abx_timer deadline;
    /* the handler's */
    void *data;
    void (*on_close)(struct abx_rpc *rpc);
    void (*on_drain)(struct abx_rpc *rpc);
};

void abx__rpc_ref(struct abx_rpc *rpc);
void abx__rpc_unref(struct abx_rpc *rpc);
/** Tells the server's budget what the request holds now; false, and nothing changes, when that is
 *  more than it has. */
bool abx__rpc_charge(struct abx_rpc *rpc);
/** Body callbacks of the exchange. */
void abx__rpc_on_body(struct abx_http_req *req, const char *data, size_t len);
void abx__rpc_on_body_end(struct abx_http_req *req);
