/* cli/lint_priv.h: what the files of the lint rules share. */
#pragma once
#include "cli/project.h"

struct cli__place {
    const char *rule;
    enum cli_level level;
    const struct cli_source *source;
    struct abx_df_place at;
    const char *advice;
    struct cli_edit edit;
};
struct cli__place cli__in_dockerfile(struct cli_project *p, const char *rule, enum cli_level level,
                                     struct abx_df_place at);
struct cli__place cli__in_yaml(struct cli_project *p, const char *rule, enum cli_level level,
                               const struct abx_yaml *node);
/** Adds the finding unless the line above silences it. */
void cli__report(struct cli_project *p, const struct cli__place *x, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/** A whole line before the instruction at @line, and before what silences a rule for it. */
struct cli_edit cli__edit_before(const struct cli_project *p, unsigned line, const char *text);
/** Whether @word stands in the command as a word of its own. */
bool cli__has_word(struct abx_str text, const char *word);

/** B006, B007, B009: what the Dockerfile's steps make. */
void cli__lint_image(struct cli_project *p);
/** B008: secrets that would lie in the image. */
void cli__lint_secrets(struct cli_project *p);
/** B010, B011, B012: commands and name in template.yaml. */
void cli__lint_start(struct cli_project *p);
