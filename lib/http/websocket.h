/* lib/http/websocket.h: the server side of a WebSocket (RFC 6455) over a request of server.h:
 * handshake, messages both ways with back-pressure, pings, the closing handshake. Loop thread only.
 *
 * No callback runs from inside a call of the owner, but for what abx_ws_resume() releases: that
 * comes from the loop too. on_close is the last one. */
#pragma once
#include "lib/http/server.h"
#include "lib/wire/ws.h"

struct abx_ws; /* opaque */
struct abx_ws_ops {
    /** TEXT (well-formed UTF-8) or BINARY; the memory is valid during the call. */
    void (*on_message)(struct abx_ws *ws, const struct abx_ws_message *m);
    /** After a send answered false: the queue is empty again. May be NULL. */
    void (*on_drain)(struct abx_ws *ws);
    /** Over. @code: the peer's close code, else what we closed with; ABX_WS_ABNORMAL: it broke. */
    void (*on_close)(struct abx_ws *ws, unsigned code, struct abx_str reason);
};
struct abx_ws_options {
    size_t max_message;   /* 0: 1 MiB. More closes with 1009 */
    uint32_t ping_ms;     /* 0: 20 s between pings; the same time for a pong, else it broke */
    const char *protocol; /* the chosen subprotocol, one the client offers; NULL: none */
};

/** Whether the request is a WebSocket handshake: 0, or the status to refuse it with (426: no
 * upgrade or another version, send Sec-WebSocket-Version: 13 beside it; 400: malformed) and
 * *ret_why. */
int abx_ws_check(const struct abx_http_req *req, const char **ret_why);
/** Answers 101 and takes the connection over; the request must have passed abx_ws_check().
 * req->on_close follows on_close. -1: no memory, the request is as before. */
int abx_ws_open(struct abx_loop *l, struct abx_http_req *req, const struct abx_ws_options *o,
                const struct abx_ws_ops *ops, void *owner, struct abx_ws **ret,
                struct abx_error *err);
void *abx_ws_owner(const struct abx_ws *ws);
/** One message. False: the queue is above its mark, stop until on_drain (it was taken all the
 * same). Nothing is sent once closing has begun. */
bool abx_ws_send(struct abx_ws *ws, enum abx_ws_opcode opcode, struct abx_str data);
/** Stops and restarts on_message; the peer then blocks. Pings are not answered meanwhile. */
void abx_ws_pause(struct abx_ws *ws);
void abx_ws_resume(struct abx_ws *ws);
/** Sends what is queued and a close frame, waits at most 2 s for the peer's. Idempotent. */
void abx_ws_close(struct abx_ws *ws, unsigned code, struct abx_str reason);
