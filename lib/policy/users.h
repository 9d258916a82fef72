/* lib/policy/users.h: as whom a program may run: the key `users` of `confine`.
 *
 * The server's own user is always allowed: it is what a request without a user gets. Anybody else
 * has to be listed, by name or by number. Pure: who somebody is the caller has looked up. Spec:
 * security.md S84, policy.md C1. */
#pragma once
#include "lib/policy/policy.h"

enum { ABX_USER_NAME_MAX = 255, ABX_UID_TEXT = 11 /* with its end */ };

/** 1 to 255 bytes, none of them a colon, a slash, a blank or a control character: what can stand in
 *  the first field of /etc/passwd. */
bool abx_policy_user_is_name(struct abx_str name);
/** A number in decimal, as a user is named where it has no name. (uid_t)-1 is nobody. */
bool abx_policy_user_is_number(struct abx_str name, uint32_t *ret_uid);

struct abx_policy_user {
    struct abx_str asked; /* as the request names it */
    bool is_known;        /* this machine has such a user; then: */
    struct abx_str name;
    uint32_t uid;
    bool is_own; /* the server's */
};
/** True = allowed. A name that nobody has is allowed where it is listed, so that only who may use
 * it hears that. False: 403 `user_not_allowed` in @v. */
bool abx_policy_user_check(const struct abx_policy *p, const struct abx_policy_rule *rule,
                           const struct abx_policy_user *user, struct abx_policy_verdict *v);
