/* guest/caps/process_spawn.c: from a spec to a running child with its pipes (envd.md 5.3).
 *
 * No shell stands between: the child is the command itself, and what the wrapper of the original
 * would have said about a missing executable is said by process.c. */
#include "guest/caps/process_priv.h"
#include "guest/caps/run.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { TTY_GROUP = 5, PTY_COLS = 80, PTY_ROWS = 24, ARGS_MAX = 65536 };

/* Everything that must go once the child runs or failed to. */
struct launch {
    struct abx_environ env;
    char **argv;
    size_t argc;
    int child[3];  /* the child's ends */
    int ours[3];   /* stdin's write end, stdout, stderr */
    int script_fd; /* of a script too long for an argument */
    int tty_fd, master_fd;
    char cwd[4096];
};

static void launch_done(struct launch *l)
{
    abx_environ_done(&l->env);
    for (size_t i = 0; i < l->argc; i++)
        free(l->argv[i]);
    free(l->argv);
    for (int i = 0; i < 3; i++) {
        abx_fd_close(&l->child[i]);
        abx_fd_close(&l->ours[i]);
    }
    abx_fd_close(&l->script_fd);
    abx_fd_close(&l->tty_fd);
    abx_fd_close(&l->master_fd);
}

static int no_memory(struct abx_error *err)
{
    return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "start process: out of memory");
}

/* "error starting process 'cmd args': why" */
static int start_error(const struct abx_process_spec *spec, const struct abx_error *why,
                       struct abx_error *err)
{
    char text[120];
    size_t len = (size_t)snprintf(text, sizeof(text), "%.*s",
                                  (int)(spec->cmd.len < 100 ? spec->cmd.len : 100), spec->cmd.ptr);
    for (size_t i = 0; i < spec->arg_count && len < sizeof(text); i++) {
        int arg_len = (int)(spec->args[i].len < 100 ? spec->args[i].len : 100);
        len +=
            (size_t)snprintf(text + len, sizeof(text) - len, " %.*s", arg_len, spec->args[i].ptr);
    }
    enum abx_code code =
        why->code == ABX_RESOURCE_EXHAUSTED ? ABX_RESOURCE_EXHAUSTED : ABX_INVALID_ARGUMENT;
    if (spec->has_pty)
        return abx_err_set(err, code,
                           "error starting pty with command '%s' in dir '%.*s' with '%d' cols and "
                           "'%d' rows: %s",
                           text, (int)(spec->cwd.len < 60 ? spec->cwd.len : 60), spec->cwd.ptr,
                           spec->cols ? spec->cols : PTY_COLS, spec->rows ? spec->rows : PTY_ROWS,
                           why->msg);
    return abx_err_set(err, code, "error starting process '%s': %s", text, why->msg);
}

static int check_cwd(const struct abx_process_spec *spec, struct launch *l, struct abx_error *err)
{
    struct stat st;
    if (abx_str_to_c(spec->cwd, l->cwd, sizeof(l->cwd)) < 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "cwd is not a usable path");
    if (stat(l->cwd, &st) < 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "cwd '%.200s' does not exist", l->cwd);
    struct abx_error why = {0};
    if (!S_ISDIR(st.st_mode)) {
        abx_err_sys(&why, -ENOTDIR, "cwd %.100s", l->cwd);
        return start_error(spec, &why, err);
    }
    return 0;
}

/* --- arguments, with long scripts by memfd (case T20) --- */

/* "-c", "-lc": the argument that makes a shell run the next one as a script. */
static bool is_script_option(struct abx_str arg)
{
    return arg.len >= 2 && arg.ptr[0] == '-' && arg.ptr[1] != '-' && arg.ptr[arg.len - 1] == 'c';
}

static bool is_shell(struct abx_str cmd)
{
    static const char *const names[] = {"bash", "sh", "dash", "ash", "zsh", "ksh"};
    ptrdiff_t slash = abx_str_rchr(cmd, '/');
    struct abx_str base = abx_str_sub(cmd, (size_t)(slash + 1), cmd.len);
    for (size_t i = 0; i < ABX_COUNTOF(names); i++)
        if (abx_str_is(base, names[i]))
            return true;
    return false;
}

/* The kernel takes no argument of 128 KiB: the shell reads such a script from descriptor 3. */
static int script_from_memory(struct abx_str text, struct launch *l, struct abx_error *err)
{
    l->script_fd = memfd_create("script", MFD_CLOEXEC);
    if (l->script_fd < 0)
        return abx_err_sys(err, -errno, "script of %zu bytes: memfd", text.len);
    int rc = abx_fd_write_all(l->script_fd, text.ptr, text.len);
    if (rc < 0)
        return abx_err_sys(err, rc, "script of %zu bytes", text.len);
    return 0;
}

static int add_arg(struct launch *l, struct abx_str arg, struct abx_error *err)
{
    if (arg.len > 0 && abx_str_chr(arg, '\0') >= 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "argument %zu holds a NUL byte", l->argc);
    l->argv[l->argc] = arg.len ? abx_str_dup(arg) : calloc(1, 1);
    if (l->argv[l->argc] == NULL)
        return no_memory(err);
    l->argc++;
    return 0;
}

static int make_argv(const struct abx_process_spec *spec, struct launch *l, struct abx_error *err)
{
    if (spec->cmd.len == 0 || spec->arg_count > ARGS_MAX)
        return abx_err_set(err, ABX_INVALID_ARGUMENT,
                           spec->cmd.len ? "too many arguments" : "command is empty");
    l->argv = calloc(spec->arg_count + 4, sizeof(*l->argv)); /* room for /bin/sh and the end */
    if (l->argv == NULL)
        return no_memory(err);
    if (add_arg(l, spec->cmd, err) < 0)
        return -1;
    for (size_t i = 0; i < spec->arg_count; i++) {
        struct abx_str arg = spec->args[i];
        if (arg.len >= ABX__ARG_MAX) {
            if (l->script_fd >= 0 || i == 0 || !is_shell(spec->cmd) ||
                !is_script_option(spec->args[i - 1]))
                return abx_err_set(err, ABX_INVALID_ARGUMENT,
                                   "argument %zu has %zu bytes, the system takes %d", i + 1,
                                   arg.len, ABX__ARG_MAX - 1);
            if (script_from_memory(arg, l, err) < 0)
                return -1;
            arg = ABX_STR(". /proc/self/fd/3");
        }
        if (add_arg(l, arg, err) < 0)
            return -1;
    }
    return 0;
}

/* --- pipes and terminals --- */

static int make_pipe(int *read_end, int *write_end, struct abx_error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return abx_err_sys(err, -errno, "pipe");
    *read_end = ends[0];
    *write_end = ends[1];
    return 0;
}

static int make_pipes(const struct abx_process_spec *spec, struct launch *l, struct abx_error *err)
{
    if (spec->has_stdin && make_pipe(&l->child[0], &l->ours[0], err) < 0)
        return -1;
    if (make_pipe(&l->ours[1], &l->child[1], err) < 0)
        return -1;
    return make_pipe(&l->ours[2], &l->child[2], err);
}

static int make_pty(const struct abx_process_spec *spec, struct launch *l, struct abx_error *err)
{
    l->master_fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (l->master_fd < 0)
        return abx_err_sys(err, -errno, "open /dev/ptmx");
    int unlocked = 0;
    if (ioctl(l->master_fd, TIOCSPTLCK, &unlocked) < 0)
        return abx_err_sys(err, -errno, "unlock terminal");
    l->tty_fd = ioctl(l->master_fd, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (l->tty_fd < 0)
        return abx_err_sys(err, -errno, "open terminal");
    struct winsize size = {.ws_row = spec->rows ? spec->rows : PTY_ROWS,
                           .ws_col = spec->cols ? spec->cols : PTY_COLS};
    if (ioctl(l->master_fd, TIOCSWINSZ, &size) < 0)
        return abx_err_sys(err, -errno, "size of terminal");
    if (spec->user && geteuid() == 0 &&
        (fchown(l->tty_fd, spec->user->uid, TTY_GROUP) < 0 || fchmod(l->tty_fd, 0620) < 0))
        return abx_err_sys(err, -errno, "owner of terminal");
    return 0;
}

/* --- the child --- */

static void on_child_exit(struct abx_proc *proc, const struct abx_proc_status *st, void *arg)
{
    struct abx_process *p = abx_process_ref(arg);
    p->proc = NULL;
    abx_proc_close(proc);
    if (p->table->closing)
        abx_process_unref(p); /* the ref of abx_procs_close() */
    else
        abx__process_on_reaped(p, st);
    abx_process_unref(p);
}

static int check_user(const struct abx_user *u, struct abx_error *err)
{
    uid_t self = geteuid();
    if (self == 0 || self == u->uid)
        return 0;
    return abx_err_set(
        err, ABX_FAILED_PRECONDITION,
        "user '%s' (uid %u) is not available: this sandbox has the one uid %u; "
        "add the line NAME:100000:65536 of the engine's user to /etc/subuid and to /etc/subgid",
        u->name, u->uid, self);
}

/* Whether @why is the exec's failure, not the one of a step before it. */
static bool is_exec_failure(const struct launch *l, const struct abx_error *why)
{
    char prefix[sizeof(why->msg)];
    snprintf(prefix, sizeof(prefix), "%s: ", l->argv[0]);
    return why->sys != 0 && strncmp(why->msg, prefix, strlen(prefix)) == 0;
}

/* A script without "#!": a shell would run it itself. */
static void through_sh(struct launch *l, struct abx_proc_spec *ps)
{
    static const char sh[] = "/bin/sh";
    char *name = abx_str_dup(abx_str(sh));
    if (name == NULL)
        return;
    memmove(l->argv + 1, l->argv, (l->argc + 1) * sizeof(*l->argv));
    l->argv[0] = name;
    l->argc++;
    ps->path = sh;
    ps->argv = l->argv;
}

/* What SDKs run is `/bin/bash -l -c TEXT`; the shell of a small image takes the same options. */
static bool is_missing_bash(const struct abx_process_spec *spec, int errnum)
{
    return spec->may_be_sh && errnum == ENOENT && abx_str_is(spec->cmd, "/bin/bash");
}

static void as_sh(struct launch *l, struct abx_proc_spec *ps)
{
    char *name = abx_str_dup(ABX_STR("/bin/sh"));
    if (name == NULL)
        return;
    free(l->argv[0]);
    l->argv[0] = name;
    ps->path = name;
}

/* A program whose arguments and environment are ready. */
static int run_program(struct abx_process *p, const struct abx_run_spec *program, struct launch *l,
                       struct abx_error *err)
{
    struct abx_proc_spec ps;
    abx_run_describe(program, &ps);
    memcpy(ps.stdio, l->child, sizeof(ps.stdio));
    ps.tty_fd = l->tty_fd;
    int rc = abx_run_give(program->user, l->child, ABX_COUNTOF(l->child));
    if (rc < 0)
        return abx_err_sys(err, rc, "owner of the pipes of %s", program->path);
    if (abx_proc_spawn(p->table->loop, &ps, on_child_exit, p, &p->proc, err) < 0)
        return -1;
    p->pid = (uint32_t)abx_proc_pid(p->proc);
    return 0;
}

static int run_child(struct abx_process *p, const struct abx_process_spec *spec, struct launch *l,
                     struct abx_error *err)
{
    const struct abx_user *u = spec->user;
    struct abx_proc_spec ps = {
        .path = l->argv[0],
        .search_path = abx_environ_get(&l->env, "PATH"),
        .argv = l->argv,
        .envp = l->env.vars,
        .cwd = l->cwd,
        .stdio = {l->child[0], l->child[1], l->child[2]},
        .exec_fd = l->script_fd,
        .tty_fd = l->tty_fd,
        .set_ids = geteuid() == 0,
        .uid = u->uid,
        .gid = u->gid,
        .groups = u->groups,
        .group_count = u->group_count,
        .oom_score_adj = ABX_PROC_OOM_USER,
        .reset_nice = true,
        .new_session = true,
        .confine = spec->confine,
        .die_with_parent = true, /* a killed envd leaves nothing running (fault table) */
    };
    struct abx_error why = {0};
    int rc = abx_proc_spawn(p->table->loop, &ps, on_child_exit, p, &p->proc, &why);
    if (rc < 0 && is_missing_bash(spec, why.sys) && is_exec_failure(l, &why)) {
        as_sh(l, &ps);
        rc = abx_proc_spawn(p->table->loop, &ps, on_child_exit, p, &p->proc, &why);
    }
    if (rc < 0 && why.sys == ENOEXEC && is_exec_failure(l, &why)) {
        through_sh(l, &ps);
        rc = abx_proc_spawn(p->table->loop, &ps, on_child_exit, p, &p->proc, &why);
    }
    if (rc == 0)
        p->pid = (uint32_t)abx_proc_pid(p->proc);
    else if (is_exec_failure(l, &why))
        p->failed_errno = why.sys;
    else
        return start_error(spec, &why, err);
    return 0;
}

void abx__io_unref(struct abx__process_io *io)
{
    if (--io->handles > 0)
        return;
    struct abx_process *p = io->process;
    p->io = NULL;
    free(io);
    abx_process_unref(p);
}

static int open_stream(struct abx_process *p, struct abx_stream *s, int *fd,
                       const struct abx_stream_ops *ops, struct abx_error *err)
{
    if (abx_stream_open(s, p->table->loop, abx_fd_take(fd), ops, p->io, err) < 0)
        return -1;
    p->io->handles++;
    return 0;
}

static int open_streams(struct abx_process *p, struct launch *l, struct abx_error *err)
{
    struct abx__process_io *io = p->io;
    if (p->config.has_pty) {
        io->eof[1] = true;
        if (open_stream(p, &io->out[0], &l->master_fd, &abx__output_ops, err) < 0)
            return -1;
        io->out[0].high_water = 1; /* on_drain tells when a write is in the kernel */
        io->in_open = true;
    } else if (open_stream(p, &io->out[0], &l->ours[1], &abx__output_ops, err) < 0 ||
               open_stream(p, &io->out[1], &l->ours[2], &abx__output_ops, err) < 0) {
        return -1;
    }
    if (l->ours[0] >= 0) {
        if (open_stream(p, &io->in, &l->ours[0], &abx__input_ops, err) < 0)
            return -1;
        io->in.high_water = 1;
        io->in_open = true;
    }
    io->data_at = abx_time_mono_ms();
    return 0;
}

static int launch_program(struct abx_process *p, const struct abx_process_spec *spec,
                          struct launch *l, struct abx_error *err)
{
    if ((spec->has_pty ? make_pty(spec, l, err) : make_pipes(spec, l, err)) < 0 ||
        open_streams(p, l, err) < 0)
        return -1;
    return run_program(p, spec->program, l, err);
}

static int launch_child(struct abx_process *p, const struct abx_process_spec *spec,
                        struct launch *l, struct abx_error *err)
{
    struct abx_error why = {0};
    if (check_cwd(spec, l, err) < 0 || check_user(spec->user, err) < 0)
        return -1;
    if (make_argv(spec, l, &why) < 0 ||
        abx_environ_compose(spec, p->table->path, &l->env, &why) < 0 ||
        (spec->has_pty ? make_pty(spec, l, &why) : make_pipes(spec, l, &why)) < 0)
        return start_error(spec, &why, err);
    /* The streams first: what fails after the exec could not be undone. */
    if (open_streams(p, l, &why) < 0)
        return start_error(spec, &why, err);
    return run_child(p, spec, l, err);
}

int abx__process_spawn(struct abx_process *p, const struct abx_process_spec *spec,
                       struct abx_error *err)
{
    struct launch l = {.child = {-1, -1, -1}, .ours = {-1, -1, -1}, .script_fd = -1};
    l.tty_fd = l.master_fd = -1;
    int rc = spec->program ? launch_program(p, spec, &l, err) : launch_child(p, spec, &l, err);
    launch_done(&l);
    if (rc < 0 || p->failed_errno != 0)
        return rc;
    for (int i = 0; i < 2; i++)
        if (!p->io->eof[i])
            abx_stream_resume(&p->io->out[i]);
    return 0;
}
