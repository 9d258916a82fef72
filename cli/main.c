/* cli/main.c: abx: finds the command, runs it, ends with its exit code. */
#include "cli/cli.h"
#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/contract/contract.h"
#include "lib/proc/proc.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "lib/base/banned.h"

/* Flags go before the environment: what exports name is not the engine that --state means. */
static void follow_state(const struct cli_values *v)
{
    static const char *const exports[] = {"ABX_SANDBOX_BASE_URL", "ABX_SANDBOX_API_KEY",
                                          "ABX_SANDBOX_DOMAIN",   "E2B_API_URL",
                                          "E2B_API_KEY",          "E2B_DOMAIN"};
    if (v->state == NULL)
        return;
    setenv(ABX_ENV_STATE, v->state, 1);
    for (size_t i = 0; v->url == NULL && i < ABX_COUNTOF(exports); i++)
        unsetenv(exports[i]);
}

/* Output that did not arrive is a failure; a reader that has gone is not. */
static int end_output(int code)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    if (errno == EPIPE)
        return code;
    fprintf(stderr, "abx: write the output: %s\n", strerror(errno ? errno : EIO));
    return code ? code : 1;
}

int main(int argc, char **argv)
{
    static struct cli cli;
    const struct cli_command *cmd;
    (void)abx_fd_open_standard();
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
        cli_help(cmd, cli.group, stdout);
        return 0;
    }
    follow_state(&cli.v);
    r = cmd->run(&cli);
    abx_client_close(cli.client);
    return end_output(r);
}
