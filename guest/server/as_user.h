/* guest/server/as_user.h: the field `user` of a request that starts a program: as whom it runs.
 * Security S84, lib/policy/users.h. */
#pragma once
#include "guest/caps/users.h"
#include "guest/server/server_priv.h"

/** The field of the body, borrowed; ptr NULL: not asked for. False: answered. Loop thread. */
bool abx__user_read(struct abx__call *c, struct abx_str *ret);
/** Who that is, in the job's arena; NULL: the server's own user. False: the outcome is set. Pool.
 */
bool abx__user_judge(struct abx__job *j, struct abx_str asked, const struct abx_user **ret);
/** Whether the policy lets a program run as @asked on this machine. False: the refusal is in @v.
 * Blocks. */
bool abx__user_permits(const struct abx_policy *p, const struct abx_policy_rule *rule,
                       struct abx_str asked, struct abx_policy_verdict *v);
/** Whether this process may start, own the pipes of and signal programs of other users. */
bool abx__user_can_switch(void);
/** The first of `confine.users` that this process can not start programs as: nobody has the name
 * here, or it is another user and this process may not. ptr NULL: none. @ret_why is a text of a few
 * words. Blocks. */
struct abx_str abx__user_out_of_reach(const struct abx_policy *p, const char **ret_why);
/** Adds HOME, USER and LOGNAME of @u (NULL: nothing) that the @count @pairs do not name: how many
 * there are then. Room for three more. */
size_t abx__user_variables(const struct abx_user *u, struct abx__pair *pairs, size_t count);
/** What a refused start is about: of another user's the step that failed, else the program. */
const char *abx__user_failure(const struct abx_user *u, const struct abx_error *err,
                              const char *program);
