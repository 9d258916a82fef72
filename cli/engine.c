/* cli/engine.c: where the local engine lives, whether it runs, and starting it. */
#include "host/engine/engine.h"
#include "cli/cli.h"
#include "cli/embed.h"
#include "client/config.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "lib/contract/contract.h"
#include "lib/proc/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum {
    START_TIMEOUT_MS = 20000,
    POLL_MS = 20,
    LOG_TAIL = 2048,
    GUEST_MAX = 64 << 20,
    EXIT_TAKEN = 2 /* of the engine's process: another one has the state folder */
};

char *cli_state_dir(const struct cli *cli)
{
    struct abx_buf b;
    abx_buf_init(&b, PATH_MAX);
    const char *state = cli->v.state ? cli->v.state : getenv(ABX_ENV_STATE);
    const char *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (state && state[0] == '/')
        abx_buf_put_c(&b, state);
    else if (state && *state) {
        char cwd[PATH_MAX];
        abx_buf_putf(&b, "%s/%s", getcwd(cwd, sizeof(cwd)) ? cwd : "", state);
    } else if (geteuid() == 0)
        abx_buf_put_c(&b, "/var/lib/abx");
    else if (xdg && *xdg)
        abx_buf_putf(&b, "%s/abx", xdg);
    else
        abx_buf_putf(&b, "%s/.local/state/abx", home && *home ? home : "");
    return abx_buf_take(&b);
}

struct engine_file {
    int64_t pid;
};
static const struct abx_json_field engine_fields[] = {
    {"pid", ABX_JSON_I64, offsetof(struct engine_file, pid), 0}, {0}};

pid_t cli_engine_pid(const char *state)
{
    char path[PATH_MAX];
    struct engine_file f = {0};
    struct abx_arena arena;
    ABX_AUTO_FREE char *text = NULL;
    snprintf(path, sizeof(path), "%s/abxd.json", state);
    if (abx_fd_read_file(AT_FDCWD, path, 65536, &text, NULL) < 0)
        return 0;
    abx_arena_init(&arena, 65536);
    (void)abx_json_decode_text(abx_str(text), true, engine_fields, &f, &arena, NULL);
    abx_arena_done(&arena);
    if (f.pid <= 0 || f.pid > INT_MAX || (kill((pid_t)f.pid, 0) < 0 && errno == ESRCH))
        return 0;
    snprintf(path, sizeof(path), "%s/abxd.lock", state);
    ABX_AUTO_FD lock = open(path, O_RDONLY | O_CLOEXEC);
    if (lock < 0 || flock(lock, LOCK_SH | LOCK_NB) == 0)
        return 0; /* nobody holds it: the pid is a stranger's */
    return (pid_t)f.pid;
}

/* A value of the state's client.yaml; heap, NULL if absent. */
static char *state_value(const char *state, const char *key)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/client.yaml", state);
    return abx_config_value(path, key);
}

int cli_local_client(struct cli *cli)
{
    ABX_AUTO_FREE char *state = cli_state_dir(cli);
    ABX_AUTO_FREE char *url = state_value(state ? state : "", "url");
    ABX_AUTO_FREE char *key = state_value(state ? state : "", "api_key");
    if (url == NULL || key == NULL) {
        cli->err = (struct abx_client_error){.id = "E8002", .hop = "client"};
        snprintf(cli->err.message, sizeof(cli->err.message), "%s/client.yaml names no engine",
                 state ? state : "");
        snprintf(cli->err.next, sizeof(cli->err.next), "abx up --detach");
        return -1;
    }
    abx_client_close(cli->client);
    cli->client = NULL;
    struct abx_client_options o = {.url = url, .api_key = key};
    return abx_client_open(&o, &cli->client, &cli->err);
}

char *cli_local_domain(const struct cli *cli)
{
    ABX_AUTO_FREE char *state = cli_state_dir(cli);
    return state_value(state ? state : "", "domain");
}

/* ---- the guest and the shim: beside this program, or carried in it ---- */

static int unpack(const char *dir, const char *name, struct abx_str data, struct abx_error *err)
{
    ABX_AUTO_FD at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ABX_AUTO_FREE char *old = NULL;
    size_t len = 0;
    if (at < 0)
        return abx_err_sys(err, -errno, "open %s", dir);
    if (abx_fd_read_file(at, name, GUEST_MAX, &old, &len) == 0 &&
        abx_str_eq(abx_str_n(old, len), data))
        return 0;
    int r = abx_fd_replace_file(at, name, data, 0755);
    return r < 0 ? abx_err_sys(err, r, "write %s/%s", dir, name) : 0;
}

struct programs {
    char guest[PATH_MAX], shim[PATH_MAX], libs[PATH_MAX];
    bool has_libs;
};

static int unpack_programs(const char *state, struct programs *p, struct abx_error *err)
{
    char dir[PATH_MAX - 16];
    snprintf(dir, sizeof(dir), "%s/programs", state);
    int r = abx_fd_mkdir_p(dir, 0755);
    if (r < 0)
        return abx_err_sys(err, r, "make %s", dir);
    snprintf(p->guest, sizeof(p->guest), "%s/abx-guest", dir);
    snprintf(p->shim, sizeof(p->shim), "%s/abx-shim", dir);
    if (unpack(dir, "abx-guest", abx_embedded_guest(), err) < 0)
        return -1;
    return unpack(dir, "abx-shim", abx_embedded_shim(), err);
}

static int find_programs(const char *state, struct programs *p, struct abx_error *err)
{
    char self[PATH_MAX - 32];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (n < 0)
        return abx_err_sys(err, -errno, "read /proc/self/exe");
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    if (abx_embedded_guest().len > 0)
        return unpack_programs(state, p, err);
    snprintf(p->guest, sizeof(p->guest), "%s/abx-guest", self);
    snprintf(p->shim, sizeof(p->shim), "%s/abx-shim", self);
    snprintf(p->libs, sizeof(p->libs), "%s/../guest-libs", self);
    p->has_libs = access(p->libs, X_OK) == 0;
    if (access(p->guest, X_OK) < 0)
        return abx_err_sys(err, -errno, "%s", p->guest);
    if (access(p->shim, X_OK) < 0)
        return abx_err_sys(err, -errno, "%s", p->shim);
    return 0;
}

int cli_parse_listen(const char *listen, char *host, size_t cap, uint16_t *ret_port)
{
    const char *colon = strrchr(listen, ':');
    uint32_t port;
    if (abx_parse_u32(abx_str(colon ? colon + 1 : listen), &port) < 0 || port > 65535)
        return -1;
    *ret_port = (uint16_t)port;
    host[0] = '\0';
    return colon ? abx_str_to_c(abx_str_n(listen, (size_t)(colon - listen)), host, cap) : 0;
}

int cli_engine_run(struct cli *cli, int ready_fd)
{
    struct programs p = {0};
    struct abx_error err;
    char host[256] = "";
    uint16_t port = 0;
    ABX_AUTO_FREE char *state = cli_state_dir(cli);
    if (cli->v.listen && cli_parse_listen(cli->v.listen, host, sizeof(host), &port) < 0)
        return cli_usage(&cmd_up, "--listen is PORT or ADDRESS:PORT, not '%s'", cli->v.listen);
    int r = state ? abx_fd_mkdir_p(state, 0700) : -ENOMEM;
    if (r < 0) {
        abx_err_sys(&err, r, "make the state folder %s", state ? state : "");
        return cli_fail_base(&err);
    }
    if (find_programs(state, &p, &err) < 0)
        return cli_fail_base(&err);
    bool named = cli->v.state || getenv(ABX_ENV_STATE);
    ABX_AUTO_FREE char *config = named ? NULL : abx_client_config_path();
    struct abx_engine_options o = {.state_dir = state,
                                   .client_config = config,
                                   .listen_host = host[0] ? host : NULL,
                                   .listen_port = port,
                                   .listen_explicit = cli->v.listen != NULL,
                                   .insecure_listen = cli->v.insecure_listen,
                                   .no_host_template = cli->v.no_host_template,
                                   .guest_path = p.guest,
                                   .guest_libs = p.has_libs ? p.libs : NULL,
                                   .shim_path = p.shim,
                                   .ready_fd = ready_fd};
    abx_log_init("abxd", cli->v.verbose ? ABX_LOG_DEBUG : ABX_LOG_INFO);
    if (abx_engine_main(&o, &err) == 0)
        return 0;
    cli_fail_base(&err);
    return err.code == ABX_ALREADY_EXISTS ? EXIT_TAKEN : 1;
}

/* ---- in the background ---- */

struct background {
    struct cli *cli;
    int ready_fd, log_fd;
};

static int run_background(void *arg)
{
    struct background *b = arg;
    setsid();
    if (dup2(b->log_fd, STDOUT_FILENO) < 0 || dup2(b->log_fd, STDERR_FILENO) < 0)
        return 1;
    close(b->log_fd);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null >= 0)
        dup2(null, STDIN_FILENO);
    return cli_engine_run(b->cli, b->ready_fd);
}

/* The last line of the log, which says why the engine did not start. */
static void explain(const char *log, int status, struct abx_error *err)
{
    ABX_AUTO_FREE char *text = NULL;
    size_t len = 0;
    if (abx_fd_read_file(AT_FDCWD, log, 64 << 20, &text, &len) < 0)
        len = 0;
    while (len > 0 && text[len - 1] == '\n')
        len--;
    struct abx_str all = abx_str_n(text, len);
    ptrdiff_t line = abx_str_rchr(all, '\n');
    all = abx_str_sub(all, line < 0 ? 0 : (size_t)line + 1, LOG_TAIL);
    abx_err_set(err, ABX_UNAVAILABLE, "the engine did not start (exit %d): %.*s", status,
                ABX_STR_FMT(all));
}

/* Waits for the line that the engine writes once it serves. */
static int wait_ready(int fd)
{
    char line[512];
    size_t got = 0;
    int64_t deadline = abx_time_mono_ms() + START_TIMEOUT_MS;
    while (got < sizeof(line)) {
        int64_t left = deadline - abx_time_mono_ms();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (left <= 0 || poll(&p, 1, (int)left) <= 0)
            return -ETIMEDOUT;
        ssize_t n = read(fd, line + got, sizeof(line) - got);
        if (n <= 0)
            return -ECHILD;
        got += (size_t)n;
        if (line[got - 1] == '\n')
            return 0;
    }
    return -EPROTO;
}

static bool is_locked(const char *state)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/abxd.lock", state);
    ABX_AUTO_FD lock = open(path, O_RDONLY | O_CLOEXEC);
    return lock >= 0 && flock(lock, LOCK_SH | LOCK_NB) < 0;
}

/* Several first commands at once start one engine: the others wait until it serves. */
static bool wait_for_other(const char *state)
{
    int64_t deadline = abx_time_mono_ms() + START_TIMEOUT_MS;
    while (is_locked(state) && abx_time_mono_ms() < deadline) {
        if (cli_engine_pid(state) != 0)
            return true;
        (void)poll(NULL, 0, POLL_MS);
    }
    return false;
}

int cli_engine_start(struct cli *cli, struct abx_error *err)
{
    char log[PATH_MAX];
    int ready[2];
    ABX_AUTO_FREE char *state = cli_state_dir(cli);
    int r = state ? abx_fd_mkdir_p(state, 0700) : -ENOMEM;
    if (r < 0)
        return abx_err_sys(err, r, "make the state folder %s", state ? state : "");
    snprintf(log, sizeof(log), "%s/abxd.log", state);
    ABX_AUTO_FD log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log_fd < 0)
        return abx_err_sys(err, -errno, "open %s", log);
    if (pipe2(ready, O_CLOEXEC) < 0)
        return abx_err_sys(err, -errno, "pipe");
    ABX_AUTO_FD read_end = ready[0];
    ABX_AUTO_FD write_end = ready[1];
    struct background b = {cli, write_end, log_fd};
    const int keep[] = {write_end, log_fd};
    pid_t pid = abx_proc_fork_role("abxd", run_background, &b, keep, 2, NULL);
    if (pid < 0)
        return abx_err_sys(err, pid, "start the engine");
    abx_fd_close(&write_end);
    r = wait_ready(read_end);
    if (r == 0)
        return 0;
    if (r == -ETIMEDOUT)
        return abx_err_set(err, ABX_DEADLINE_EXCEEDED, "the engine does not answer after %d s: %s",
                           START_TIMEOUT_MS / 1000, log);
    struct abx_proc_status st = {0};
    (void)abx_proc_wait(pid, &st);
    if (st.exit_code == EXIT_TAKEN && wait_for_other(state))
        return 0;
    explain(log, st.exit_code, err);
    return -1;
}
