/* lib/policy/report.h: what was found in a policy document, mistakes and warnings, with places. */
#pragma once
#include "lib/base/arena.h"

enum abx_finding_kind {
    ABX_FINDING_DOCUMENT,      /* the document itself is wrong */
    ABX_FINDING_CONFIGURATION, /* it does not fit the routes or the environment */
    ABX_FINDING_WARNING,       /* lint: L1.. (published), LX6.. (ours) */
};

struct abx_finding {
    enum abx_finding_kind kind;
    const char *rule;      /* of a warning: "L1", "LX9"; else NULL */
    const char *place;     /* "policy.endpoints.shell.limits.max_bytes"; NULL when there is none */
    const char *pointer;   /* JSON pointer "/endpoints/shell/limits/max_bytes"; NULL as above */
    const char *text;      /* what is wrong and what to write instead, no place in it */
    unsigned line, column; /* 1-based; 0 = not in the text (variables, flags) */
    bool is_error_level;   /* of an LX warning: worth refusing */
};

enum { ABX_REPORT_MAX = 200 };

/* All strings live in the report's arena. */
struct abx_report {
    struct abx_arena arena;
    struct abx_finding *items;
    size_t count, errors;
    size_t dropped; /* findings beyond ABX_REPORT_MAX, or without memory */
};

void abx_report_init(struct abx_report *r);
void abx_report_done(struct abx_report *r);
/** The first mistake, or NULL. */
const struct abx_finding *abx_report_first_error(const struct abx_report *r);
