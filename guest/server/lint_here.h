/* guest/server/lint_here.h: findings that depend on this machine: LX10, LX17, LX18, LX26, LX27.
 * policy.md C6. */
#pragma once
#include "guest/server/policy_source.h"

/** Adds to @report. @p was loaded from @source with @args. Blocks. */
void abx__lint_here(const struct abx__policy_source *source, const struct abx__policy_args *args,
                    const struct abx_policy *p, struct abx_report *report);
