/* cli/findings.h: what is wrong in the files of a template, with places, as text or JSON. */
#pragma once
#include "lib/base/arena.h"

#include <stdio.h>

enum { CLI_FINDINGS_MAX = 200 };

enum cli_level { CLI_ERROR, CLI_WARNING, CLI_NOTE, CLI_LEVEL__COUNT };
struct cli_source {
    const char *name; /* as the user would open it */
    struct abx_str text;
};
struct cli_finding {
    const char *rule; /* "B002", "Y" (template.yaml), "D" (Dockerfile), "L1" (policy) */
    enum cli_level level;
    const struct cli_source *source;
    unsigned line, column, width; /* 1-based; line 0: the file as a whole */
    const char *text;
    const char *advice; /* what to write instead; may be NULL */
};
struct cli_findings {
    struct abx_arena arena;
    struct cli_finding items[CLI_FINDINGS_MAX];
    size_t count, dropped;
    size_t by_level[CLI_LEVEL__COUNT];
};

void cli_findings_init(struct cli_findings *f);
void cli_findings_done(struct cli_findings *f);
/** Adds a copy of @base with text from @fmt. Returns -1. */
int cli_findings_add(struct cli_findings *f, const struct cli_finding *base, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/** "file:3:5: error: text [B002]", the line, a caret below it, "next: advice". */
void cli_findings_print(const struct cli_findings *f, FILE *out);
/** One object: {"findings":[...],"errors":n,"warnings":n}. */
void cli_findings_print_json(const struct cli_findings *f, FILE *out);
