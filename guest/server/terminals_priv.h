/* guest/server/terminals_priv.h: terminal sessions: what their files share. server-api.md 5. Loop
 * thread only. */
#pragma once
#include "guest/caps/process.h"
#include "guest/server/owner.h"
#include "guest/server/server_priv.h"

enum {
    ABX__TERMINAL_ID = 32,               /* hex digits: 128 random bits (S12) */
    ABX__TERMINALS_MAX = 10,             /* living ones */
    ABX__TERMINAL_IDLE_MS = 1800 * 1000, /* without a viewer (D53) */
    ABX__TERMINAL_REPLAY = 65536,
    ABX__TERMINAL_VIEWERS = 16,
    ABX__TERMINAL_QUEUE = 1 << 20, /* bytes of input that wait, then its sockets are not read */
};

struct abx__terminal {
    struct abx_list node; /* of server->terminals, oldest first */
    struct abx__server *server;
    struct abx_process *process; /* counted */
    char id[ABX__TERMINAL_ID + 1];
    char *owner; /* heap; `shares` are texts in the same block */
    const char **shares;
    size_t share_count;
    uint16_t cols, rows;
    int64_t created_wall_ns, detached_ms;
    uint64_t seen;           /* offset up to which somebody was shown the output */
    size_t input_bytes;      /* that wait */
    struct abx_list viewers; /* terminal_socket.c */
    size_t viewer_count;
    struct abx_timer kill;
    unsigned refs; /* the list, the timer, each viewer */
    bool is_listed, is_closing;
};

/** The session that the caller may see, or NULL. */
struct abx__terminal *abx__terminal_find(const struct abx__server *s, struct abx_str id,
                                         const struct abx_policy_identity *who);
/** Into the list of its server: its timer and references begin. */
void abx__terminal_add(struct abx__terminal *t);
bool abx__terminal_is_alive(const struct abx__terminal *t);
/** 0, or -1. Remembers the size. */
int abx__terminal_resize(struct abx__terminal *t, uint16_t cols, uint16_t rows);
/** A size in cells, 0..@max: an integer, its text, or a number whose fraction is cut. */
bool abx__terminal_cells(const struct json_t *v, int64_t max, uint16_t *ret);
void abx__terminal_unref(struct abx__terminal *t);
/** Closes the sockets of those who have lost powers: 4001. */
void abx__terminal_revoke_viewers(struct abx__terminal *t, const struct abx__change *c);

/* ---- terminal_caller.c ---- */

/** Who opens the socket, by c's headers, its subprotocols and its query: c->who, or a refusal in
 * @v: 400, 401. A ticket is gone then. */
bool abx__terminal_identify(struct abx__call *c, struct abx_policy_verdict *v);
bool abx__terminal_has_ticket(const struct abx__call *c);
/** The next of the subprotocols that are offered; false: no more. */
bool abx__terminal_next_protocol(struct abx_str *rest, struct abx_str *ret);
void abx__terminal_ticket_post(struct abx__call *c);
