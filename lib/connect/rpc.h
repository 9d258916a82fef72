/* lib/connect/rpc.h: Connect RPC v1 on lib/http: unary and server streaming, JSON and protobuf from
 * one protobuf-c descriptor (envd.md 4). Never compresses. Loop thread only.
 *
 * A service is a table of methods. Bodies may be enveloped or bare in every RPC (a body whose first
 * byte is '{' is bare JSON), unary also as application/connect+json: the published client does so.
 */
#pragma once
#include "lib/http/server.h"
#include "lib/loop/loop.h"

#include <protobuf-c/protobuf-c.h>

struct abx_rpc; /* one call */
/** Starts the call: answer now or later. @in belongs to the call. */
typedef void abx_rpc_fn(struct abx_rpc *rpc, const ProtobufCMessage *in);

enum abx_rpc_kind { ABX_RPC_UNARY, ABX_RPC_SERVER_STREAM, ABX_RPC_CLIENT_STREAM };
struct abx_rpc_method {
    const char *name; /* "Start"; NULL ends the table */
    enum abx_rpc_kind kind;
    const ProtobufCMessageDescriptor *in, *out;
    abx_rpc_fn *start;
    /** Client stream only: each further message, then NULL at the client's end of stream. */
    abx_rpc_fn *message;
};
struct abx_rpc_service {
    const char *path; /* "/process.Process/" */
    const struct abx_rpc_method *methods;
    size_t max_message; /* default 4 MiB */
};

/* Memory that the requests of all calls hold together: bodies that are being read, and messages. */
struct abx_rpc_budget {
    size_t max, used; /* bytes; a call that would go beyond @max fails with resource_exhausted */
};

enum { ABX_RPC_EXTRA_MAX = 8 };
struct abx_rpc_server {
    struct abx_loop *loop;
    const struct abx_rpc_service *const *services; /* ends with NULL */
    /** Headers for every answer (CORS, say): at most ABX_RPC_EXTRA_MAX, ended by a NULL name, alive
     *  as long as @req. May be NULL. */
    const struct abx_http_extra *(*extra)(struct abx_http_req *req);
    struct abx_rpc_budget *budget; /* may be NULL: bounded for each call only */
};
/** Serves @req if its path is one of the services: true. Unknown method of a known service: 404
 * with a Connect error unimplemented. @s must outlive the call. Uses req->data and its callbacks.
 */
bool abx_rpc_serve(const struct abx_rpc_server *s, struct abx_http_req *req);

/* A call ends inside abx_rpc_finish(), abx_rpc_fail() and, if unary, abx_rpc_send(): its on_close
 * runs in there, and the caller returns without touching @rpc or what on_close has freed. */
struct abx_http_req *abx_rpc_req(struct abx_rpc *rpc);
struct abx_arena *abx_rpc_arena(struct abx_rpc *rpc);
/** From Connect-Timeout-Ms; 0 = none. The call itself ends with deadline_exceeded then. */
uint64_t abx_rpc_timeout_ms(const struct abx_rpc *rpc);
void abx_rpc_set_data(struct abx_rpc *rpc, void *data);
void *abx_rpc_data(const struct abx_rpc *rpc);
/** The call is over (finished, failed, client gone or deadline): forget @rpc. Once. The message and
 *  the arena are still there. */
void abx_rpc_on_close(struct abx_rpc *rpc, void (*fn)(struct abx_rpc *rpc));
void abx_rpc_on_drain(struct abx_rpc *rpc, void (*fn)(struct abx_rpc *rpc));

/** Unary: the answer. Stream: one message, flushed at once; false: above the mark, wait for drain.
 */
bool abx_rpc_send(struct abx_rpc *rpc, const ProtobufCMessage *out);
/** As send, for a hot path whose message the caller has encoded: JSON or protobuf bytes as
 *  abx_rpc_is_json() says. */
bool abx_rpc_send_encoded(struct abx_rpc *rpc, struct abx_str payload);
bool abx_rpc_is_json(const struct abx_rpc *rpc);
/** Orderly end of a stream (unary: after send, implied). */
void abx_rpc_finish(struct abx_rpc *rpc);
/** Ends with an error: unary as its HTTP status, stream as 200 and an end frame. */
void abx_rpc_fail(struct abx_rpc *rpc, const struct abx_error *err);
void abx_rpc_failf(struct abx_rpc *rpc, enum abx_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
