/* guest/server/owner.h: whose a thing is that lives longer than a request (security S12). */
#pragma once
#include "lib/policy/policy.h"

/** Whether @who sees what the identity @owner made: its own; a wide identity sees all. */
static inline bool abx__owner_lets(struct abx_str owner, const struct abx_policy_identity *who)
{
    return who->is_wide || abx_str_eq(owner, who->id);
}
