/* guest/server/terminals.h: terminals as the rest of the server sees them. */
#pragma once
#include "guest/server/server_priv.h"

enum { ABX__TERMINAL_URL = 512 };

/* What the address of a session's socket is made of. Pure. */
struct abx__terminal_address {
    struct abx_str host;         /* the Host header; ptr NULL: none */
    bool is_tls;                 /* the client came by https */
    int64_t http_port, pty_port; /* pty_port 0: the sockets are served on the HTTP port */
};
/** "ws://HOST:PORT/pty?session_id=ID"; a Host "9000-NAME" of a gateway becomes "9001-NAME". Never a
 *  credential in it. */
void abx__terminal_address(const struct abx__terminal_address *a, const char *id,
                           char out[ABX__TERMINAL_URL]);
void abx__terminal_url(const struct abx__call *c, const char *id, char out[ABX__TERMINAL_URL]);

/** Whether the request is for the socket of a session: anything on the terminals' port, a handshake
 *  for /pty on the other. */
bool abx__terminal_is_socket(const struct abx__call *c);
/** From the credential to the session: takes the call over. c->rule must be that of pty_connect. */
void abx__terminal_attach(struct abx__call *c);
