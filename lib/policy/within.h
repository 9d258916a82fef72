/* lib/policy/within.h: whether one policy allows nothing that another one does not (security S23).
 *
 * Sound, not complete: what it calls within is within, whatever is asked (within_fuzz.c looks for
 * the contrary); what it can not tell it refuses, and says why. Pure. */
#pragma once
#include "lib/policy/policy.h"

/** Both loaded with the same routes. False: @why says what is wider, in one sentence. */
bool abx_policy_is_within(const struct abx_policy *narrow, const struct abx_policy *wide,
                          char why[240]);
