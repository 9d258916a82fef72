/* cli/cmd_up.c: abx up and abx down: the local engine's life. */
#include "cli/cli.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "lib/wire/url.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { STOP_TIMEOUT_MS = 15000, POLL_MS = 20 };

static const struct cli_option up_options[] = {
    {"--detach", 'd', CLI_FLAG, CLI_VALUE(detach), 0, NULL,
     "in the background; returns once it serves"},
    {"--listen", 0, CLI_STR, CLI_VALUE(listen), 0, "[ADDR:]PORT",
     "instead of 127.0.0.1:3000 or the next free port"},
    {"--insecure-listen", 0, CLI_FLAG, CLI_VALUE(insecure_listen), 0, NULL,
     "allow an address that is not loopback, without TLS"},
    {"--no-host-template", 0, CLI_FLAG, CLI_VALUE(no_host_template), 0, NULL,
     "refuse sandboxes over this machine's own system"},
    {0}};

static void announce(struct cli *cli, const char *state)
{
    if (cli_local_client(cli) < 0)
        cli_fail(cli);
    else
        printf("abx: engine at %s, state in %s\n", abx_client_url(cli->client), state);
}

/* The engine that runs is taken as it is, but not for one at another port. */
static int take_running(struct cli *cli, const char *state, pid_t pid)
{
    char host[64];
    uint16_t port = 0;
    if (cli->v.listen != NULL && cli_parse_listen(cli->v.listen, host, sizeof(host), &port) < 0)
        return cli_usage(&cmd_up, "--listen is PORT or ADDRESS:PORT, not '%s'", cli->v.listen);
    struct abx_url url = {0};
    struct abx_error err;
    if (cli_local_client(cli) < 0)
        return cli_fail(cli);
    const char *where = abx_client_url(cli->client);
    if (abx_url_parse(abx_str(where), &url, &err) < 0)
        return cli_fail_base(&err);
    if (port != 0 && port != url.port) {
        fprintf(stderr, "abx: the engine runs already, pid %d, at %s\n", (int)pid, where);
        fputs("     next: abx down --keep, then abx up again\n", stderr);
        return 2;
    }
    fprintf(stderr, "abx: the engine runs already, pid %d\n", (int)pid);
    announce(cli, state);
    return 0;
}

static int run_up(struct cli *cli)
{
    struct abx_error err;
    ABX_AUTO_FREE char *state = cli_state_dir(cli);
    pid_t pid = state ? cli_engine_pid(state) : 0;
    if (pid > 0 && cli->v.detach)
        return take_running(cli, state, pid);
    if (!cli->v.detach)
        return cli_engine_run(cli, -1);
    if (cli_engine_start(cli, &err) < 0) {
        cli_fail_base(&err);
        fputs("     next: abx engine doctor\n", stderr);
        return 1;
    }
    announce(cli, state);
    return 0;
}

const struct cli_command cmd_up = {.name = "up",
                                   .args = "",
                                   .help = "Start the local engine",
                                   .options = up_options,
                                   .run = run_up};

/* ---- down ---- */

static const struct cli_option down_options[] = {
    {"--keep", 0, CLI_FLAG, CLI_VALUE(keep), 0, NULL, "leave the sandboxes running"}, {0}};

static int kill_all(struct cli *cli)
{
    struct abx_sandbox_list l = {0};
    if (cli_local_client(cli) < 0 || abx_sandbox_list(cli->client, &l, &cli->err) < 0)
        return cli_fail(cli);
    int result = 0;
    for (size_t i = 0; i < l.count; i++)
        if (abx_sandbox_kill(cli->client, l.rows[i].id, &cli->err) < 0 &&
            cli->err.http_status != 404)
            result = cli_fail(cli);
    abx_sandbox_list_free(&l);
    return result;
}

static int run_down(struct cli *cli)
{
    ABX_AUTO_FREE char *state = cli_state_dir(cli);
    pid_t pid = state ? cli_engine_pid(state) : 0;
    if (pid == 0) {
        if (!cli->v.quiet)
            fprintf(stderr, "abx: no engine runs with state in %s\n", state ? state : "");
        return 0;
    }
    int r = cli->v.keep ? 0 : kill_all(cli);
    if (r != 0)
        return r;
    if (kill(pid, SIGTERM) < 0)
        return 0;
    int64_t deadline = abx_time_mono_ms() + STOP_TIMEOUT_MS;
    while (cli_engine_pid(state) == pid) {
        if (abx_time_mono_ms() > deadline) {
            fprintf(stderr, "abx: the engine (pid %d) does not end\n", (int)pid);
            return 5;
        }
        struct timespec nap = {.tv_nsec = POLL_MS * 1000000L};
        nanosleep(&nap, NULL);
    }
    if (!cli->v.quiet)
        fputs("abx: engine stopped\n", stderr);
    return 0;
}

const struct cli_command cmd_down = {.name = "down",
                                     .args = "",
                                     .help = "Kill the sandboxes and stop the local engine",
                                     .options = down_options,
                                     .run = run_down};
