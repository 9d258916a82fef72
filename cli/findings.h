/* cli/findings.h: what is wrong in the files of a template, with places and how to mend it; as
 * text, JSON, SARIF 2.1.0 or lines of GitHub Actions. */
#pragma once
#include "lib/base/arena.h"

#include <stdio.h>

enum { CLI_FINDINGS_MAX = 200 };

enum cli_level { CLI_ERROR, CLI_WARNING, CLI_NOTE, CLI_LEVEL__COUNT };
struct cli_source {
    const char *name; /* as the user would open it */
    struct abx_str text;
};
/* What --fix does about a finding: on each line of line..last_line, @width bytes at @column give
 * way to @text. */
enum { CLI_EDIT_AT_END = 0 }; /* a column: after the line's last byte */
struct cli_edit {
    unsigned line, last_line, column, width; /* 1-based; last_line 0: of that line alone */
    const char *text;                        /* NULL: there is nothing that is safe to do */
};
struct cli_finding {
    const char *rule; /* "B002", "Y" (template.yaml), "D" (Dockerfile), "L1" (policy) */
    enum cli_level level;
    const struct cli_source *source;
    unsigned line, column, width; /* 1-based; line 0: the file as a whole */
    const char *text;
    const char *advice; /* what to write instead; may be NULL */
    struct cli_edit edit;
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
/** Line @line of a source, without its end; 1-based. */
struct abx_str cli_source_line(const struct cli_source *s, unsigned line);
/** The column of byte column @column of @line, in characters; both 1-based. */
unsigned cli_source_column(struct abx_str line, unsigned column);

typedef void cli_findings_fn(const struct cli_findings *f, FILE *out);
struct cli_findings_format {
    const char *name;
    cli_findings_fn *print;
};
extern const struct cli_findings_format cli_findings_formats[]; /* text first; NULL ends */
extern const char *const cli_level_names[];

/** "file:3:5: error: text [B002]", the line, a caret below it, "next: advice". */
cli_findings_fn cli_findings_print;
/** One object: {"findings":[...],"errors":n,"warnings":n}. */
cli_findings_fn cli_findings_print_json;
/** A SARIF 2.1.0 log of one run. */
cli_findings_fn cli_findings_print_sarif;
/** "::error file=...,line=...::text" per finding. */
cli_findings_fn cli_findings_print_github;
