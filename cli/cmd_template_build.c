/* cli/cmd_template_build.c: abx template build: a template's folder to a template. */
#include "cli/build.h"

#include "lib/base/banned.h"

static int run(struct cli *cli)
{
    struct abx_build_result r = {0};
    int code = cli_build(cli, cli->arg_count ? cli->args[0] : ".", &r);
    if (code != 0)
        return code;
    if (cli->v.json)
        printf("{\"templateID\":\"%s\",\"buildID\":\"%s\"}\n", r.template_id, r.build_id);
    else
        printf("%s\n", r.template_id);
    return 0;
}

const struct cli_command cmd_template_build = {
    .name = "template build",
    .args = "[DIR]",
    .help = "Lint a template's folder, build it step by step, and print the template's id",
    .options = cli_build_options,
    .min_args = 0,
    .max_args = 1,
    .run = run,
};
