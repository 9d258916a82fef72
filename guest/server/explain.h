/* guest/server/explain.h: the answer of check-config --explain and POST /capabilities/check.
 * Blocking: lstat(), readlink(), /etc/passwd. Spec: policy.md A18, A19. */
#pragma once
#include "lib/policy/policy.h"

struct abx__explain {
    struct abx_str endpoint;
    const struct abx_policy_identity *who;
    struct abx_str path; /* ptr NULL: not asked */
    int op;              /* enum abx_path_op; -1: the endpoint's own */
    struct abx_str user; /* as whom; ptr NULL: not asked */
};
/** Appends {"endpoint","allowed","code","reason"[,"rule"]} to @w. Whether it is allowed. */
bool abx__explain_write(const struct abx_policy *p, const struct abx__explain *ask,
                        struct abx_json_writer *w);
