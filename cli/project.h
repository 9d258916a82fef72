/* cli/project.h: the folder of a template: template.yaml, Dockerfile, and what they come to. */
#pragma once
#include "cli/cli.h"
#include "cli/template_yaml.h"
#include "host/image/dockerfile.h"

/* fc-e2b-registry.REGION.cr.aliyuncs.com/runtime/NAME:TAG */
struct cli_official {
    bool is_official;
    struct abx_str region, name, tag; /* tag.len 0: none */
};
struct cli_project {
    char *dir;
    int dir_fd;
    struct abx_arena arena;
    struct cli_findings findings;
    struct cli_source yaml, dockerfile;
    const char *dockerfile_name; /* below dir */
    size_t dockerfile_len;       /* of its text as the file has it; the rest was added */
    struct cli_template t;
    struct abx_dockerfile df;
    struct abx_df_plan plan;
    struct cli_official base;
    bool has_template, has_dockerfile, has_plan; /* read without an error */
    bool envd_inject;
    bool wheel_lines_added; /* the Dockerfile had none for the server */
};

struct cli_official cli_official_parse(struct abx_str image);
/** Reads the folder @dir. What is wrong is in p->findings; -1 only when it can not be read at all.
 *  Done by cli_project_close() in any case. @cli: --build-arg, --envd-inject. */
int cli_project_open(struct cli *cli, const char *dir, struct cli_project *p,
                     struct abx_error *err);
void cli_project_close(struct cli_project *p);
/** Adds the findings of the rules B001 to B012. */
void cli_lint(struct cli_project *p);
/** Mends what the findings say how to, in the Dockerfile itself; *ret_count: findings that are over
 *  by that. @p is of the file as it was. */
int cli_project_fix(struct cli_project *p, size_t *ret_count, struct abx_error *err);
/** Prints all findings as the options ask; the exit code: 1 with errors. */
int cli_project_report(const struct cli *cli, const struct cli_project *p);
