/* guest/server/tickets.h: tickets that open the socket of one terminal once: row D13, security S12.
 *
 * What is kept of a ticket is its hash. It is gone once it was shown, whatever came of that, after
 * half a minute, with its session, and when its holder loses a power. Loop thread only. */
#pragma once
#include "lib/base/list.h"
#include "lib/policy/policy.h"

enum {
    ABX__TICKET_BYTES = 32, /* random */
    ABX__TICKET_TEXT = 2 * ABX__TICKET_BYTES,
    ABX__TICKET_LIFE_MS = 30000,
    ABX__TICKETS_OF_ONE = 64, /* outstanding, of one identity */
    ABX__TICKETS_ALL = 1024,
};

struct abx__tickets {
    struct abx_list list; /* oldest first */
    size_t count;
};
/* What a ticket is bound to. */
struct abx__ticket_bond {
    struct abx_policy *policy;      /* that names the identity */
    struct abx_policy_identity who; /* who asked for it */
    struct abx_str session;         /* at most 63 bytes */
};

void abx__tickets_init(struct abx__tickets *t);
/** A new one. 0; -EDQUOT: the identity has as many as it may; -ENOSPC: all have; -ENOMEM; -EIO: no
 *  random bytes. @now_ms: monotonic. */
int abx__tickets_issue(struct abx__tickets *t, const struct abx__ticket_bond *bond, int64_t now_ms,
                       char ret[ABX__TICKET_TEXT + 1]);
/** Takes the ticket @text, which is gone then. True: it is for bond->session and bond->who, set by
 *  this, is who holds it under bond->policy. Looks at all in constant time. */
bool abx__tickets_redeem(struct abx__tickets *t, struct abx_str text, int64_t now_ms,
                         struct abx__ticket_bond *bond);
void abx__tickets_forget_session(struct abx__tickets *t, struct abx_str session);
/** Forgets those of identities that are nobody any more under @now, or have lost a scope. */
void abx__tickets_revoke(struct abx__tickets *t, struct abx_policy *now);
/** Forgets those whose time is over. */
void abx__tickets_sweep(struct abx__tickets *t, int64_t now_ms);
