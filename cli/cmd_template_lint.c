/* cli/cmd_template_lint.c: abx template lint: the findings of a template's folder. */
#include "cli/project.h"

#include <stdlib.h>

#include "lib/base/banned.h"

static const struct cli_option options[] = {
    {"--format", 0, CLI_STR, CLI_VALUE(format), 0, "text|json|sarif|github",
     "how findings are printed"},
    {"--fix", 0, CLI_FLAG, CLI_VALUE(fix), 0, NULL,
     "mend in the Dockerfile what is safe to mend, then print what is left"},
    {"--build-arg", 0, CLI_PAIR, CLI_VALUE(build_args), CLI_VALUE(build_arg_count), "KEY=VALUE",
     "a value for an ARG of the Dockerfile"},
    {"--envd-inject", 0, CLI_STR, CLI_VALUE(envd_inject), 0, "auto|true|false",
     "as for template build"},
    {0}};

static bool is_format(const char *name)
{
    for (const struct cli_findings_format *f = cli_findings_formats; f->name; f++)
        if (strcmp(f->name, name) == 0)
            return true;
    return false;
}

static int look(struct cli *cli, struct cli_project *p, struct abx_error *err)
{
    if (cli_project_open(cli, cli->arg_count ? cli->args[0] : ".", p, err) < 0)
        return -1;
    cli_lint(p);
    return 0;
}

/* Mends, and looks again. */
static int fix(struct cli *cli, struct cli_project *p, struct abx_error *err)
{
    size_t count;
    if (cli_project_fix(p, &count, err) < 0)
        return -1;
    if (!cli->v.quiet)
        fprintf(stderr, "abx: %zu mended in %s\n", count, p->dockerfile.name);
    if (count == 0)
        return 0;
    cli_project_close(p);
    return look(cli, p, err);
}

static int run(struct cli *cli)
{
    struct abx_error err;
    struct cli_project *p;
    int code = 1;
    if (cli->v.format && !is_format(cli->v.format))
        return cli_usage(&cmd_template_lint, "--format is text, json, sarif or github, not '%s'",
                         cli->v.format);
    if ((p = calloc(1, sizeof(*p))) == NULL)
        return 1;
    if (look(cli, p, &err) < 0 || (cli->v.fix && fix(cli, p, &err) < 0))
        code = cli_fail_base(&err);
    else {
        code = cli_project_report(cli, p);
        if (!cli->v.quiet)
            fprintf(stderr, "abx: %zu errors, %zu warnings\n", p->findings.by_level[CLI_ERROR],
                    p->findings.by_level[CLI_WARNING]);
    }
    cli_project_close(p);
    free(p);
    return code;
}

const struct cli_command cmd_template_lint = {
    .name = "template lint",
    .args = "[DIR]",
    .help = "Check a template's Dockerfile, template.yaml and policy",
    .options = options,
    .min_args = 0,
    .max_args = 1,
    .run = run,
};
