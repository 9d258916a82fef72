/* cli/cmd_template_lint.c: abx template lint: the findings of a template's folder. */
#include "cli/project.h"

#include <stdlib.h>

#include "lib/base/banned.h"

static const struct cli_option options[] = {
    {"--format", 0, CLI_STR, CLI_VALUE(format), 0, "text|json", "how findings are printed"},
    {"--build-arg", 0, CLI_PAIR, CLI_VALUE(build_args), CLI_VALUE(build_arg_count), "KEY=VALUE",
     "a value for an ARG of the Dockerfile"},
    {"--envd-inject", 0, CLI_STR, CLI_VALUE(envd_inject), 0, "auto|true|false",
     "as for template build"},
    {0}};

static int run(struct cli *cli)
{
    struct abx_error err;
    struct cli_project *p;
    int code = 1;
    if (cli->v.format && strcmp(cli->v.format, "text") != 0 && strcmp(cli->v.format, "json") != 0)
        return cli_usage(&cmd_template_lint, "--format is text or json, not '%s'", cli->v.format);
    if ((p = calloc(1, sizeof(*p))) == NULL)
        return 1;
    if (cli_project_open(cli, cli->arg_count ? cli->args[0] : ".", p, &err) < 0)
        code = cli_fail_base(&err);
    else {
        cli_lint(p);
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
