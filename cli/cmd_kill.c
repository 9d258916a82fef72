/* cli/cmd_kill.c: abx kill ID...: ends sandboxes; nothing of them is left. */
#include "cli/cli.h"

#include "lib/base/banned.h"

enum { KILL_MAX = 1000 };

static const struct cli_option options[] = {
    {"--all", 'a', CLI_FLAG, CLI_VALUE(all), 0, NULL, "every sandbox"}, {0}};

static int kill_one(struct cli *cli, const char *id)
{
    if (abx_sandbox_kill(cli->client, id, &cli->err) < 0)
        return cli_fail(cli);
    if (!cli->v.quiet)
        fprintf(stderr, "abx: killed %s\n", id);
    return 0;
}

static int run(struct cli *cli)
{
    int result = 0;
    if (!cli->v.all && cli->arg_count == 0)
        return cli_usage(&cmd_kill, "name a sandbox, or --all");
    if (cli_client(cli) < 0)
        return cli_fail(cli);
    for (int i = 0; i < cli->arg_count; i++) {
        int r = kill_one(cli, cli->args[i]);
        result = result ? result : r;
    }
    struct abx_sandbox_list l = {0};
    if (cli->v.all && abx_sandbox_list(cli->client, &l, &cli->err) < 0)
        return cli_fail(cli);
    for (size_t i = 0; i < l.count; i++) {
        int r = kill_one(cli, l.rows[i].id);
        result = result ? result : r;
    }
    abx_sandbox_list_free(&l);
    return result;
}

const struct cli_command cmd_kill = {.name = "kill",
                                     .args = "ID...",
                                     .help = "End sandboxes and remove all that is theirs",
                                     .options = options,
                                     .max_args = KILL_MAX,
                                     .run = run};
