/* lib/policy/url_guard.h: which page a browser may open, and which address a connection for it may
 * go to.
 *
 * Pure: names are resolved by the caller, which checks every address that it connects to. A URL is
 * read as browsers read it: numbers are addresses in all their spellings, a backslash is a slash.
 * Spec: policy.md A12, P23; security.md S19. */
#pragma once
#include "lib/base/arena.h"
#include "lib/policy/policy.h"

enum { ABX_URL_MAX = 65536 };

struct abx_policy_url {
    struct abx_str scheme; /* "http" or "https" */
    struct abx_str host;   /* lower case, without brackets; an IPv4 address in dotted form */
    struct abx_str path;   /* with the query, at least "/" */
    uint16_t port;         /* that of the scheme when the text has none */
    bool is_address;
    unsigned char address[16]; /* of is_address; IPv4 as ::ffff:a.b.c.d */
};
/** Whether @rule lets the page @text be opened; *ret (in @a) is the URL taken apart. False: 400
 *  url_invalid, 403 url_not_allowed or url_denied in @v. */
bool abx_policy_url_check(const struct abx_policy_rule *rule, struct abx_str text,
                          struct abx_arena *a, struct abx_policy_url *ret,
                          struct abx_policy_verdict *v);
/** Whether some page of the origin of @text may be opened: for connections whose pages are not seen
 *  (https through a proxy). As above; the path of @text is not looked at. */
bool abx_policy_origin_check(const struct abx_policy_rule *rule, struct abx_str text,
                             struct abx_arena *a, struct abx_policy_verdict *v);
/** Whether a connection may go to @address (IPv4 as ::ffff:a.b.c.d): with block_private_networks no
 *  private, loopback, link-local, shared, reserved, multicast or unspecified one, however embedded.
 *  Always: no loopback and no link-local one. */
bool abx_policy_address_check(const struct abx_policy_rule *rule, const unsigned char address[16],
                              struct abx_policy_verdict *v);
/** "localhost", "x.localhost", with or without a last point. */
bool abx_policy_host_is_local(struct abx_str host);
