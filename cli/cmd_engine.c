/* cli/cmd_engine.c: abx engine status and gc. */
#include "cli/cli.h"
#include "lib/base/fd.h"

#include <signal.h>
#include <time.h>

#include "lib/base/banned.h"

enum { STOP_POLLS = 500, POLL_NS = 20000000 };

static int run_status(struct cli *cli)
{
    ABX_AUTO_FREE char *state = cli_state_dir(cli);
    ABX_AUTO_FREE char *body = NULL;
    pid_t pid = state ? cli_engine_pid(state) : 0;
    int status;
    if (pid == 0) {
        fprintf(stderr, "abx: no engine runs with state in %s\n", state ? state : "");
        fputs("     next: abx up --detach\n", stderr);
        return 4;
    }
    if (cli_local_client(cli) < 0 ||
        abx_client_request(cli->client, "GET", "/abx/v1/info", NULL, &status, &body, &cli->err) < 0)
        return cli_fail(cli);
    if (!cli->v.json)
        printf("engine at %s, pid %d, state in %s\n", abx_client_url(cli->client), (int)pid, state);
    puts(body);
    return status == 200 ? 0 : 1;
}

const struct cli_command cmd_status = {.name = "engine status",
                                       .args = "",
                                       .help =
                                           "Show whether the engine runs and what it isolates by",
                                       .run = run_status};

/* A start collects what a crash left; without an engine one is started and stopped for that. */
static int collect_offline(struct cli *cli, const char *state)
{
    struct abx_error err;
    if (cli_engine_start(cli, &err) < 0)
        return cli_fail_base(&err);
    pid_t pid = cli_engine_pid(state);
    if (pid > 0)
        kill(pid, SIGTERM);
    for (int i = 0; i < STOP_POLLS && cli_engine_pid(state) != 0; i++) {
        struct timespec nap = {.tv_nsec = POLL_NS};
        nanosleep(&nap, NULL);
    }
    return cli_engine_pid(state) == 0 ? 0 : 5;
}

static int run_gc(struct cli *cli)
{
    ABX_AUTO_FREE char *state = cli_state_dir(cli);
    ABX_AUTO_FREE char *body = NULL;
    int status;
    if (state == NULL || cli_engine_pid(state) == 0) {
        int r = state ? collect_offline(cli, state) : 1;
        if (r == 0)
            puts("collected; living sandboxes were kept");
        return r;
    }
    if (cli_local_client(cli) < 0 ||
        abx_client_request(cli->client, "POST", "/abx/v1/gc", "{}", &status, &body, &cli->err) < 0)
        return cli_fail(cli);
    puts(status == 200 && !cli->v.json ? "collected; living sandboxes were kept" : body);
    return status == 200 ? 0 : 1;
}

const struct cli_command cmd_gc = {
    .name = "engine gc",
    .args = "",
    .help = "Remove what a crash left in the state folder; living sandboxes stay",
    .run = run_gc};
