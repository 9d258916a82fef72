/* cli/cmd_version.c: abx version: one version for every program of the project. */
#include "cli/cli.h"
#include "lib/contract/contract.h"

#include "lib/base/banned.h"

static int run(struct cli *cli)
{
    if (cli->v.json)
        puts("{\"version\":\"" ABX_VERSION "\",\"envdVersion\":\"" ABX_ENVD_VERSION "\"}");
    else
        puts("abx " ABX_VERSION);
    return 0;
}

const struct cli_command cmd_version = {
    .name = "version", .args = "", .help = "Print the version", .run = run};
