/* lib/policy/lint_priv.h: between the files of lint. */
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
/* As abx__warn(), of error level. */
void abx__fault(const struct abx__lint *l, const char *rule, const struct abx_json_node *node,
                const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* Of callers side by side. */
void abx__lint_confine(const struct abx__lint *l);
/* The LX findings. */
void abx__lint_more(const struct abx__lint *l);
