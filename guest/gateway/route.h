/* guest/gateway/route.h: where a request goes, from its head and the socket it came by. Pure.
 * base-image.md 3, security S40, S41, S43, S45, S03. */
#pragma once
#include "lib/base/arena.h"
#include "lib/wire/http.h"

#include <stdint.h>

enum abx_gateway_source {
    ABX_GATEWAY_ENGINE,    /* the engine's socket: one X-Sandbox-Port, set by the edge */
    ABX_GATEWAY_TCP,       /* port 5000, from elsewhere */
    ABX_GATEWAY_TCP_LOCAL, /* port 5000, from a process of this sandbox */
};
enum abx_gateway_dest {
    ABX_GATEWAY_REFUSE,      /* answer `status` and `message` */
    ABX_GATEWAY_ENVD,        /* by the channel */
    ABX_GATEWAY_INTERPRETER, /* the code interpreter */
    ABX_GATEWAY_PORT,        /* `port` on loopback */
    ABX_GATEWAY_HEALTH,      /* own: alive */
    ABX_GATEWAY_STATE,       /* own: services, restarts, versions */
};
struct abx_gateway_route {
    enum abx_gateway_dest dest;
    uint16_t port;
    int status;
    const char *message;
};
struct abx_gateway_rules {
    uint16_t own_port, envd_port, interpreter_port;
    bool locked;         /* /init comes by the engine's socket only */
    bool loopback_guard; /* S03 */
    const char *via;     /* our pseudonym in Via */
};
/** Decides; @arena is scratch memory. */
struct abx_gateway_route abx_gateway_route(const struct abx_gateway_rules *r,
                                           enum abx_gateway_source source,
                                           const struct abx_http_head *head,
                                           struct abx_arena *arena);
/** Whether errors for this client are pages (control-plane.md 12.2). */
bool abx_gateway_wants_html(const struct abx_http_head *head);
