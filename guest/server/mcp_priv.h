/* guest/server/mcp_priv.h: the Model Context Protocol: sessions (mcp.c) and tools (mcp_tools.c).
 * Each tool call is an HTTP request of this server to itself, over a socket pair and with the
 * caller's own credentials: it is judged, bounded and audited as the endpoint it stands for
 * (security S24). Loop thread. */
#pragma once
#include "guest/server/server_priv.h"
#include "lib/http/client.h"

enum { ABX__MCP_MESSAGE_MAX = 32 << 20 };

struct abx__mcp {
    struct abx_list sessions;
    size_t count;
    struct abx_http_pool *pool; /* to this server */
    struct abx_timer sweep;
};

/* A JSON-RPC request that waits for its answer. */
struct abx__rpc {
    struct abx__call *call;
    const struct json_t *id;     /* of the body, which lives as long as the call */
    const struct json_t *params; /* an object, or NULL */
};
/** The "result" member, already JSON; ends the call. */
void abx__rpc_result(const struct abx__rpc *r, const struct abx_buf *result);
void abx__rpc_error(const struct abx__rpc *r, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

enum {
    ABX__RPC_INVALID = -32600,
    ABX__RPC_NO_METHOD = -32601,
    ABX__RPC_PARAMS = -32602,
    ABX__RPC_INTERNAL = -32603
};

/* mcp_tools.c */
void abx__tools_list(const struct abx__rpc *r);
void abx__tools_call(const struct abx__rpc *r);

/* commands.c: what GET /commands would list to the caller. */
struct abx__command_view {
    struct abx_str name, description;
    const struct json_t *args; /* array of {name, type, required, default, description} */
};
/** The @index-th command that the caller of @c sees; false at the end. */
bool abx__command_visible_at(const struct abx__call *c, size_t index,
                             struct abx__command_view *ret);
