/* cli/cmd_server_start.c: abx server start: agent-sandbox-server in a sandbox that has none. */
#include "cli/server.h"
#include "cli/template_yaml.h"
#include "lib/base/fd.h"

#include <fcntl.h>

#include "lib/base/banned.h"

enum { POLICY_MAX = 256 * 1024 };

static const struct cli_option options[] = {
    {"--port", 'p', CLI_COUNT, CLI_VALUE(port), 0, "PORT", "where it listens (9000)"},
    {"--token", 0, CLI_STR, CLI_VALUE(token), 0, "TOKEN", "what callers must present (none)"},
    {"--policy", 0, CLI_STR, CLI_VALUE(policy), 0, "FILE", "a policy document, JSON"},
    {"--preset", 0, CLI_STR, CLI_VALUE(preset), 0, "NAME", "a preset instead"},
    {"--commands", 0, CLI_STR, CLI_VALUE(commands), 0, "FILE", "commands file in the sandbox"},
    {"--env", 'e', CLI_PAIR, CLI_VALUE(env), CLI_VALUE(env_count), "KEY=VALUE",
     "environment of the server"},
    {"--timeout", 't', CLI_COUNT, CLI_VALUE(timeout_s), 0, "SECONDS", "until it is healthy (30)"},
    {0}};

static int start(struct cli *cli, const char *policy)
{
    struct abx_sandbox *sb = NULL;
    struct abx_server *server = NULL;
    struct abx_server_options o = {.port = (uint16_t)cli->v.port,
                                   .commands = cli->v.commands,
                                   .policy_json = policy,
                                   .preset = cli->v.preset,
                                   .token = cli->v.token,
                                   .env = cli->v.env,
                                   .timeout_ms = cli->v.timeout_s * 1000};
    if (cli_client(cli) < 0 ||
        abx_sandbox_connect(cli->client, cli->args[0], 1, &sb, &cli->err) < 0)
        return cli_fail(cli);
    int code = 0;
    if (abx_sandbox_start_server(sb, &o, &server, &cli->err) < 0)
        code = cli_fail(cli);
    else {
        unsigned port = cli->v.port ? cli->v.port : 9000;
        if (!cli->v.quiet && cli->v.token == NULL)
            fputs("abx: the server asks for no token: it is open to whoever has its address\n",
                  stderr);
        printf(cli->v.json ? "{\"port\":%u}\n" : "%u\n", port);
    }
    abx_server_close(server);
    abx_sandbox_free(sb);
    return code;
}

static int run(struct cli *cli)
{
    ABX_AUTO_FREE char *policy = NULL;
    if (cli->v.port > 65535 || cli->v.timeout_s > 3600)
        return cli_usage(&cmd_server_start, "--port is at most 65535, --timeout 3600");
    if (cli->v.policy && cli->v.preset)
        return cli_usage(&cmd_server_start, "--policy or --preset, not both");
    int r =
        cli->v.policy ? abx_fd_read_file(AT_FDCWD, cli->v.policy, POLICY_MAX, &policy, NULL) : 0;
    if (r < 0) {
        fprintf(stderr, "abx: %s: %s\n", cli->v.policy, strerror(-r));
        return 1;
    }
    if (policy && !cli_policy_check(cli->v.policy, abx_str(policy)))
        return 2;
    return start(cli, policy);
}

const struct cli_command cmd_server_start = {
    .name = "server start",
    .args = "ID",
    .help = "Start agent-sandbox-server in a sandbox and wait until it is healthy",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
