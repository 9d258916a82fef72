/* guest/step/run.c: one command of a build: its identity, its output, its end. When its leader is
 * gone everything else that it started is killed: a layer is never written to after its step. */
#include "guest/step/step_priv.h"

#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "lib/contract/contract.h"
#include "lib/proc/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { DRAIN_MS = 2000, STDOUT, STDERR, FAILURE, CHILD, POLLS };

/* Where the child failed before its exec. */
struct failure {
    int32_t error;
    char step[32];
};
struct command {
    const struct abx__step *s;
    struct abx__identity who;
    char **env;
    int out[2], err[2], failure[2], signal_fd;
    pid_t pid;
    bool ended;
    struct abx_proc_status status;
};

/* ---- in the child ---- */
static int fail(const struct command *c, const char *step)
{
    struct failure f = {.error = errno};
    snprintf(f.step, sizeof(f.step), "%s", step);
    (void)!write(c->failure[1], &f, sizeof(f));
    return 127;
}

static int become(void *arg)
{
    const struct command *c = arg;
    const char *dir = *c->s->workdir ? c->s->workdir : "/";
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (setsid() < 0)
        return fail(c, "session");
    if (null < 0 || dup2(null, 0) < 0 || dup2(c->out[1], 1) < 0 || dup2(c->err[1], 2) < 0)
        return fail(c, "descriptors");
    (void)abx_fd_write_file(AT_FDCWD, "/proc/self/oom_score_adj", ABX_STR("100"));
    if (setgroups(c->who.group_count, c->who.groups) < 0 ||
        setresgid(c->who.gid, c->who.gid, c->who.gid) < 0 ||
        setresuid(c->who.uid, c->who.uid, c->who.uid) < 0)
        return fail(c, "user");
    if (chdir(dir) < 0)
        return fail(c, "working directory");
    umask(022);
    signal(SIGPIPE, SIG_DFL);
    /* execvpe() reads argv and envp only; PATH is that of the image */
    union {
        const char *const *in;
        char *const *out;
    } argv = {c->s->argv};
    environ = c->env;
    execvp(argv.out[0], argv.out);
    return fail(c, "exec");
}

/* ---- its environment ---- */
static bool has_variable(char *const *env, size_t count, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < count; i++)
        if (strncmp(env[i], name, len) == 0 && env[i][len] == '=')
            return true;
    return false;
}

static char *join(const char *name, const char *value)
{
    size_t len = strlen(name) + strlen(value) + 2;
    char *text = malloc(len);
    if (text != NULL)
        snprintf(text, len, "%s=%s", name, value);
    return text;
}

static void env_free(char **env)
{
    for (size_t i = 0; env != NULL && env[i] != NULL; i++)
        free(env[i]);
    free(env);
}

/* The image's variables, and those that a login has. */
static char **make_env(const struct abx__step *s, const struct abx__identity *who)
{
    const struct {
        const char *name, *value;
    } own[] = {{"PATH", ABX_SANDBOX_PATH},
               {"HOME", who->home},
               {"USER", who->name},
               {"LOGNAME", who->name},
               {"LANG", "C.UTF-8"}};
    char **env = calloc(s->envc + ABX_COUNTOF(own) + 1, sizeof(*env));
    size_t count = 0;
    bool ok = env != NULL;
    for (size_t i = 0; ok && i < s->envc; i++)
        ok = (env[count++] = strdup(s->env[i])) != NULL;
    for (size_t i = 0; ok && i < ABX_COUNTOF(own); i++)
        if (!has_variable(env, count, own[i].name))
            ok = (env[count++] = join(own[i].name, own[i].value)) != NULL;
    if (ok)
        return env;
    env_free(env);
    return NULL;
}

/* ---- its output and its end ---- */
/* False at the end of the pipe. */
static bool forward(struct command *c, int *fd, enum abx_step_frame_type type)
{
    char data[ABX_STEP_FRAME_BYTES];
    ssize_t n = read(*fd, data, sizeof(data));
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return true;
    if (n > 0 && abx__step_send(c->s, type, data, (size_t)n) == 0)
        return true;
    abx_fd_close(fd);
    return false;
}

/* Orphans of the command are ours to reap as well. */
static void reap(struct command *c)
{
    struct signalfd_siginfo info;
    struct abx_proc_status st;
    pid_t pid;
    (void)!read(c->signal_fd, &info, sizeof(info));
    while ((pid = abx_proc_reap_any(&st)) > 0) {
        if (pid != c->pid)
            continue;
        c->ended = true;
        c->status = st;
        if (getpid() == 1)
            kill(-1, SIGKILL);
    }
}

static void serve(struct command *c)
{
    int64_t until = INT64_MAX;
    while (!c->ended || c->out[0] >= 0 || c->err[0] >= 0) {
        struct pollfd p[POLLS] = {
            [STDOUT] = {c->out[0], POLLIN, 0},
            [STDERR] = {c->err[0], POLLIN, 0},
            [FAILURE] = {-1, 0, 0},
            [CHILD] = {c->signal_fd, POLLIN, 0},
        };
        if (c->ended && until == INT64_MAX)
            until = abx_time_mono_ms() + DRAIN_MS;
        if (abx_time_mono_ms() > until)
            return;
        if (poll(p, POLLS, c->ended ? DRAIN_MS : -1) < 0)
            continue;
        if (p[STDOUT].revents)
            forward(c, &c->out[0], ABX_STEP_STDOUT);
        if (p[STDERR].revents)
            forward(c, &c->err[0], ABX_STEP_STDERR);
        if (p[CHILD].revents)
            reap(c);
    }
}

static int open_pipes(struct command *c)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    if (pipe2(c->out, O_CLOEXEC) < 0 || pipe2(c->err, O_CLOEXEC) < 0 ||
        pipe2(c->failure, O_CLOEXEC) < 0 || sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return -errno;
    c->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return c->signal_fd < 0 ? -errno : 0;
}

static void close_pipes(struct command *c)
{
    for (int i = 0; i < 2; i++) {
        abx_fd_close(&c->out[i]);
        abx_fd_close(&c->err[i]);
        abx_fd_close(&c->failure[i]);
    }
    abx_fd_close(&c->signal_fd);
    env_free(c->env);
}

static int start(struct command *c, struct abx_error *err)
{
    int r = open_pipes(c);
    if (r < 0)
        return abx_err_sys(err, r, "pipes");
    const int keep[] = {c->out[1], c->err[1], c->failure[1]};
    c->pid = abx_proc_fork_role("step", become, c, keep, ABX_COUNTOF(keep), NULL);
    if (c->pid < 0)
        return abx_err_sys(err, c->pid, "fork");
    abx_fd_close(&c->out[1]);
    abx_fd_close(&c->err[1]);
    abx_fd_close(&c->failure[1]);
    struct failure f;
    if (abx_fd_read_all(c->failure[0], &f, sizeof(f)) != (ssize_t)sizeof(f))
        return 0; /* closed by the exec */
    f.step[sizeof(f.step) - 1] = 0;
    (void)abx_proc_wait(c->pid, NULL);
    const char *what = strcmp(f.step, "exec") == 0 ? c->s->argv[0] : c->s->workdir;
    return abx_err_sys(err, -f.error, "%s %s", f.step, what);
}

int abx__step_run(const struct abx__step *s, struct abx_step_exit *ret, struct abx_error *err)
{
    struct command c = {
        .s = s, .out = {-1, -1}, .err = {-1, -1}, .failure = {-1, -1}, .signal_fd = -1};
    if (s->argc == 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "RUN: no command");
    if (abx__step_identity(s, s->user, &c.who, err) < 0)
        return -1;
    c.env = make_env(s, &c.who);
    int r = c.env == NULL ? abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory") : start(&c, err);
    if (r == 0) {
        serve(&c);
        ret->exit_code = c.status.exited ? c.status.exit_code : 128 + c.status.signum;
        ret->signum = c.status.exited ? 0 : c.status.signum;
    }
    close_pipes(&c);
    return r;
}
