/* lib/policy/meter.h: rates and requests in flight, per (identity, endpoint). The clock is passed
 * in. Loop thread only. Spec: policy.md A11. */
#pragma once
#include "lib/policy/policy.h"

struct abx_policy_meter; /* opaque */

/** NULL without memory. Holds a reference to @p. */
struct abx_policy_meter *abx_policy_meter_new(struct abx_policy *p);
struct abx_policy_meter *abx_policy_meter_ref(struct abx_policy_meter *m);
void abx_policy_meter_unref(struct abx_policy_meter *m); /* accepts NULL */
/** Steps 5 and 6 of A8. True: the caller owns a slot and gives it back once with
 *  abx_policy_meter_leave(), when the answer is written. @now_ms: monotonic. */
bool abx_policy_meter_enter(struct abx_policy_meter *m, const struct abx_policy_rule *rule,
                            const struct abx_policy_identity *who, int64_t now_ms,
                            struct abx_policy_verdict *v);
void abx_policy_meter_leave(struct abx_policy_meter *m, const struct abx_policy_rule *rule,
                            const struct abx_policy_identity *who);
