/* cli/cmd_create.c: abx create TEMPLATE: makes a sandbox and prints its id. */
#include "cli/cli.h"

#include "lib/base/banned.h"

static const struct cli_option options[] = {
    {"--timeout", 't', CLI_COUNT, CLI_VALUE(timeout_s), 0, "SECONDS", "life of the sandbox (300)"},
    {"--env", 'e', CLI_PAIR, CLI_VALUE(env), CLI_VALUE(env_count), "KEY=VALUE",
     "environment of its commands"},
    {"--metadata", 'm', CLI_PAIR, CLI_VALUE(metadata), CLI_VALUE(metadata_count), "KEY=VALUE",
     "kept with it, to find it again"},
    {0}};

static int run(struct cli *cli)
{
    struct abx_create_options o = {.template_name = cli->args[0],
                                   .timeout_s = cli->v.timeout_s,
                                   .metadata = cli->v.metadata,
                                   .env = cli->v.env};
    struct abx_sandbox *sb;
    if (cli_client(cli) < 0 || abx_sandbox_create(cli->client, &o, &sb, &cli->err) < 0)
        return cli_fail(cli);
    if (cli->v.json)
        printf("{\"sandboxID\":\"%s\"}\n", abx_sandbox_id(sb));
    else
        printf("%s\n", abx_sandbox_id(sb));
    if (!cli->v.quiet && strcmp(cli->args[0], "host") == 0)
        fputs("abx: network: loopback only\n", stderr);
    abx_sandbox_free(sb);
    return 0;
}

const struct cli_command cmd_create = {
    .name = "create",
    .args = "TEMPLATE",
    .help = "Make a sandbox ('host': this machine's own read-only system) and print its id",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
