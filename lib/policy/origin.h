/* lib/policy/origin.h: which names a server without tokens answers to, and which pages may call it
 * (security S20). Pure. Holds with `confine` only: the published server looks at neither. */
#pragma once
#include "lib/policy/policy.h"

/** Whether the rules of S20 apply: `confine` is on and no token is configured. */
bool abx_policy_guards_origin(const struct abx_policy *p);
/** @host: the Host header as it came. Without confine.hosts: localhost, addresses, and the names
 *  "PORT-..." of the server's own @ports, which a gateway gives. */
bool abx_policy_host_is_allowed(const struct abx_policy *p, struct abx_str host,
                                const uint16_t *ports, size_t port_count);
/** @origin: the Origin header; its own pages (the same @host) and those of confine.origins. */
bool abx_policy_origin_is_allowed(const struct abx_policy *p, struct abx_str origin,
                                  struct abx_str host);
/** Whether a page of another site can not send this without asking first: JSON, or bytes or a form
 *  of files. */
bool abx_policy_is_asked_content(struct abx_str content_type);
