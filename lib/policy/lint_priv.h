/* lib/policy/lint_priv.h: between the two files of lint. */
#pragma once
#include "lib/policy/paths.h"
#include "lib/policy/policy_priv.h"

struct abx__lint {
    const struct abx_policy *policy;
    struct abx_report *report;
};

/* @node: where in the document, NULL = nowhere in particular. */
void abx__warn(const struct abx__lint *l, const char *rule, const struct abx_json_node *node,
               const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* The LX findings. */
void abx__lint_more(const struct abx__lint *l);
