/* cli/cmd_info.c: abx info ID: what the engine knows of a sandbox, isolation level included. */
#include "cli/cli.h"
#include "lib/base/fd.h"

#include "lib/base/banned.h"

static int run(struct cli *cli)
{
    char path[160];
    int status;
    ABX_AUTO_FREE char *body = NULL;
    if (strspn(cli->args[0], "abcdefghijklmnopqrstuvwxyz0123456789") != strlen(cli->args[0]))
        return cli_usage(&cmd_info, "'%s' is no sandbox id", cli->args[0]);
    snprintf(path, sizeof(path), "/sandboxes/%s", cli->args[0]);
    if (cli_client(cli) < 0 ||
        abx_client_request(cli->client, "GET", path, NULL, &status, &body, &cli->err) < 0)
        return cli_fail(cli);
    if (status != 200) {
        cli->err = (struct abx_client_error){.http_status = status, .hop = "engine"};
        snprintf(cli->err.id, sizeof(cli->err.id), "%s",
                 status == 404   ? "E2009"
                 : status == 401 ? "E1001"
                                 : "E9000");
        snprintf(cli->err.message, sizeof(cli->err.message), "sandbox %s: %s", cli->args[0], body);
        return cli_fail(cli);
    }
    return cli_print_json(cli, body);
}

const struct cli_command cmd_info = {.name = "info",
                                     .args = "ID",
                                     .help = "Show a sandbox, with the isolation level it has",
                                     .min_args = 1,
                                     .max_args = 1,
                                     .run = run};
