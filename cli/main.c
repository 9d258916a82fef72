/* cli/main.c: abx: finds the command, runs it, ends with its exit code. */
#include "cli/cli.h"
#include "lib/base/log.h"
#include "lib/contract/contract.h"
#include "lib/proc/proc.h"

#include <signal.h>
#include <stdlib.h>

#include "lib/base/banned.h"

int main(int argc, char **argv)
{
    static struct cli cli;
    const struct cli_command *cmd;
    abx_proc_init_title(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    int r = cli_parse(argc, argv, &cli, &cmd);
    if (r != 0)
        return r;
    abx_log_init("abx", cli.v.verbose ? ABX_LOG_DEBUG : ABX_LOG_INFO);
    if (cli.v.is_version)
        cmd = &cmd_version;
    if (cli.v.man) {
        cli_man(stdout);
        return 0;
    }
    if (cli.v.help || cmd == NULL) {
        cli_help(cmd, stdout);
        return 0;
    }
    if (cli.v.state)
        setenv(ABX_ENV_STATE, cli.v.state, 1);
    r = cmd->run(&cli);
    abx_client_close(cli.client);
    return r;
}
