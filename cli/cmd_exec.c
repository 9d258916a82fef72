/* cli/cmd_exec.c: abx exec ID -- COMMAND: runs it in the sandbox as if it ran here.
 *
 * Exit code: the command's; 128+N when signal N ended it; 125 when abx itself failed. */
#include "cli/cli.h"
#include "lib/base/fd.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

static const struct cli_option options[] = {
    {"--shell", 'c', CLI_STR, CLI_VALUE(shell), 0, "TEXT", "run TEXT by bash -l -c"},
    {"--no-stdin", 'n', CLI_FLAG, CLI_VALUE(no_stdin), 0, NULL, "stdin is /dev/null"},
    {"--user", 'u', CLI_STR, CLI_VALUE(user), 0, "NAME", "as this user of the sandbox"},
    {"--cwd", 'w', CLI_STR, CLI_VALUE(cwd), 0, "DIR", "working directory"},
    {"--env", 'e', CLI_PAIR, CLI_VALUE(env), CLI_VALUE(env_count), "KEY=VALUE", "environment"},
    {"--timeout-ms", 0, CLI_U32, CLI_VALUE(timeout_ms), 0, "MS", "kill it after this long"},
    {"--detach", 'd', CLI_FLAG, CLI_VALUE(detach), 0, NULL, "print its pid and leave it running"},
    {"--attach", 0, CLI_COUNT, CLI_VALUE(attach_pid), 0, "PID", "join a running or just ended one"},
    {"--from", 0, CLI_I64, CLI_VALUE(replay_from), 0, "BYTE",
     "with --attach: replay its output from this byte"},
    {0}};

static void put(int fd, const char *data, size_t len)
{
    int r = abx_fd_write_all(fd, data, len);
    if (r == 0)
        return;
    if (r == -EPIPE)
        _exit(128 + SIGPIPE); /* our reader has gone: end as the signal would */
    fprintf(stderr, "abx: write the output: %s\n", strerror(-r));
    _exit(CLI_ERROR_OF_ABX);
}

static void on_stdout(void *arg, const char *data, size_t len)
{
    (void)arg;
    put(STDOUT_FILENO, data, len);
}

static void on_stderr(void *arg, const char *data, size_t len)
{
    (void)arg;
    put(STDERR_FILENO, data, len);
}

static void on_start(void *arg, uint32_t pid)
{
    const struct cli *cli = arg;
    if (cli->v.detach)
        printf("%u\n", pid);
    else if (cli->v.verbose)
        fprintf(stderr, "abx: pid %u\n", pid);
}

/* Streamed when it is a pipe, socket or file; a terminal is not (that is a shell's business). */
static int stdin_of(const struct cli *cli)
{
    struct stat st;
    if (cli->v.no_stdin || cli->v.detach || fstat(STDIN_FILENO, &st) < 0 || S_ISCHR(st.st_mode))
        return -1;
    return STDIN_FILENO;
}

static int run(struct cli *cli)
{
    const char *shell[] = {"/bin/bash", "-l", "-c", cli->v.shell, NULL};
    bool has_rest = cli->rest && cli->rest[0];
    if (has_rest + (cli->v.shell != NULL) + (cli->v.attach_pid != 0) != 1)
        return cli_usage(&cmd_exec, "give one of: -- COMMAND, -c TEXT, --attach PID");
    if (cli->v.replay_from >= 0 && cli->v.attach_pid == 0)
        return cli_usage(&cmd_exec, "--from belongs to --attach");
    struct abx_exec_options o = {.cwd = cli->v.cwd,
                                 .user = cli->v.user,
                                 .env = cli->v.env,
                                 .timeout_ms = cli->v.timeout_ms,
                                 .attach_pid = cli->v.attach_pid,
                                 .replay_from = cli->v.replay_from,
                                 .stdin_fd = stdin_of(cli),
                                 .forward_signals = true,
                                 .detach = cli->v.detach,
                                 .on_start = on_start,
                                 .on_stdout = on_stdout,
                                 .on_stderr = on_stderr,
                                 .arg = cli};
    if (cli->v.shell)
        o.argv = shell;
    else if (has_rest)
        o.argv = (const char *const *)cli->rest;
    struct abx_exec_result r;
    struct abx_sandbox *sb;
    if (cli_client(cli) < 0 ||
        abx_sandbox_connect(cli->client, cli->args[0], 1, &sb, &cli->err) < 0) {
        cli_fail(cli);
        return CLI_ERROR_OF_ABX;
    }
    int result = abx_sandbox_exec(sb, &o, &r, &cli->err);
    abx_sandbox_free(sb);
    if (result < 0) {
        cli_fail(cli);
        return CLI_ERROR_OF_ABX;
    }
    if (cli->v.detach)
        return 0;
    if (r.exited)
        return r.exit_code & 0xFF;
    fprintf(stderr, "abx: %s\n", r.status);
    return r.signum ? 128 + r.signum : CLI_ERROR_OF_ABX;
}

const struct cli_command cmd_exec = {.name = "exec",
                                     .args = "ID -- COMMAND [ARG...]",
                                     .help = "Run a command in a sandbox; its exit code is ours",
                                     .options = options,
                                     .min_args = 1,
                                     .max_args = 1,
                                     .takes_rest = true,
                                     .run = run};
