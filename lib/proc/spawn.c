/* lib/proc/spawn.c: a child of a daemon, from clone to reap. Loop thread only.
 *
 * The child shares memory with the stopped parent until its exec (no page tables to copy), unless
 * its ids change or it is confined: then it would be open to others while it holds our memory
 * (security S06). */
#include "lib/proc/proc_priv.h"

#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { CHILD_STACK_BYTES = 64 * 1024, MAX_PATHS = 64, MAX_PATH_BYTES = 64 * 1024 };
enum { ROUND_MS = 5, STOPS_MAX = 20, ROUNDS_MAX = 4000 }; /* of the wait for an exec */

static const char *const stage_texts[] = {
    [ABX__STAGE_SESSION] = "new session",
    [ABX__STAGE_STDIO] = "standard streams",
    [ABX__STAGE_TTY] = "controlling terminal",
    [ABX__STAGE_GROUP] = "cgroup",
    [ABX__STAGE_MOUNTS] = "hidden files",
    [ABX__STAGE_GROUPS] = "setgroups",
    [ABX__STAGE_GID] = "setgid",
    [ABX__STAGE_UID] = "setuid",
    [ABX__STAGE_CWD] = "cwd",
    [ABX__STAGE_LIMITS] = "resource limits",
    [ABX__STAGE_PRIVILEGES] = "give up privileges",
    [ABX__STAGE_LANDLOCK] = "confinement by Landlock",
    [ABX__STAGE_SECCOMP] = "confinement by seccomp",
    [ABX__STAGE_CLOSE] = "close descriptors",
    [ABX__STAGE_EXEC] = "exec",
};
_Static_assert(ABX_COUNTOF(stage_texts) == ABX__STAGE__COUNT, "one text per stage");

struct abx_proc {
    struct abx_poll poll; /* of pidfd */
    pid_t pid;
    int pidfd;
    bool running;
    bool released; /* abx_proc_close() was called */
    bool busy;     /* in on_exit */
    abx_proc_exit_fn *on_exit;
    void *arg;
    struct abx_confine_scope *scope; /* counts it until it is reaped; NULL: none */
};

/* The candidates of one exec, in one block of memory. */
struct candidates {
    struct abx_buf text;
    char *paths[MAX_PATHS + 1];
};

static void candidates_done(struct candidates *c)
{
    abx_buf_done(&c->text);
}

static int find_candidates(const struct abx_proc_spec *spec, struct candidates *c,
                           struct abx_error *err)
{
    abx_buf_init(&c->text, MAX_PATH_BYTES);
    size_t starts[MAX_PATHS], count = 0;
    if (strchr(spec->path, '/') != NULL || spec->search_path == NULL) {
        starts[count++] = 0;
        abx_buf_put(&c->text, spec->path, strlen(spec->path) + 1);
    } else {
        struct abx_str rest = abx_str(spec->search_path), dir;
        while (abx_str_split(&rest, ':', &dir)) {
            if (count == MAX_PATHS)
                return abx_err_set(err, ABX_INVALID_ARGUMENT, "PATH has over %d entries",
                                   MAX_PATHS);
            starts[count++] = c->text.len;
            abx_buf_put_str(&c->text, dir.len > 0 ? dir : ABX_STR("."));
            abx_buf_put_byte(&c->text, '/');
            abx_buf_put(&c->text, spec->path, strlen(spec->path) + 1);
        }
    }
    if (abx_buf_failed(&c->text))
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED,
                           "%s: PATH takes more than %d bytes, or memory is short", spec->path,
                           MAX_PATH_BYTES);
    for (size_t i = 0; i < count; i++)
        c->paths[i] = c->text.ptr + starts[i];
    c->paths[count] = NULL;
    return 0;
}

static pid_t clone_child(struct abx__proc_start *start, void *stack, int *ret_pidfd)
{
    const struct abx_confine *confine = start->spec->confine;
    struct abx_confine_scope *scope = confine ? abx__confine_scope(confine) : NULL;
    if (scope != NULL)
        return abx__scope_clone(scope, start, ret_pidfd);
    int flags = SIGCHLD | CLONE_PIDFD;
    /* A child of other ids, or one that others of its view may signal, can be stopped by its own
     * kind before its exec: we may not stand still until then, nor may our memory be in its hands
     * (S06). */
    bool is_shared = !start->spec->set_ids && !start->spec->no_privileges && start->confine == NULL;
    char *top = (char *)stack + CHILD_STACK_BYTES;
    sigset_t old;
    abx__proc_block_signals(&old); /* no handler of ours may run in the child */
    pid_t pid = is_shared ? abx__clone_vm(abx__proc_child, top, flags | CLONE_VM | CLONE_VFORK,
                                          start, ret_pidfd)
                          : clone(abx__proc_child, top, flags, start, ret_pidfd);
    int saved = errno;
    abx__proc_restore_signals(&old);
    return pid < 0 ? -saved : pid;
}

/* Whether somebody has stopped the child since the last look. */
static bool is_stopped(int pidfd)
{
    siginfo_t info = {0};
    return waitid(P_PIDFD, (id_t)pidfd, &info, WSTOPPED | WNOHANG) == 0 && info.si_pid != 0;
}

/* Waits until the child has become its program or failed. SIGSTOP can neither be blocked nor
 * ignored, and whoever sends it may go on: a few times the child is sent on its way again, which
 * takes STOPS_MAX * ROUND_MS at most; then there is no child. */
static int await_exec(int fd, int pidfd)
{
    int stops = 0;
    for (int round = 0; round < ROUNDS_MAX && stops < STOPS_MAX; round++) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, ROUND_MS) > 0)
            return 0;
        if (!is_stopped(pidfd))
            continue;
        stops++;
        (void)pidfd_send_signal(pidfd, SIGCONT, NULL, 0);
    }
    (void)pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
    return -EAGAIN;
}

/* What the child wrote, if anything: 1 with *ret filled, 0 when the exec happened. */
static int read_failure(int fd, struct abx__proc_failure *ret)
{
    ssize_t n = abx_fd_read_all(fd, ret, sizeof(*ret));
    return n == (ssize_t)sizeof(*ret) && ret->stage >= 0 && ret->stage < ABX__STAGE__COUNT;
}

static int failure_error(const struct abx_proc_spec *spec, const struct abx__proc_failure *f,
                         struct abx_error *err)
{
    switch ((enum abx__proc_stage)f->stage) {
    case ABX__STAGE_EXEC:
        abx_err_sys(err, -f->errnum, "%s", spec->path);
        if (err != NULL && (f->errnum == EACCES || f->errnum == ENOEXEC))
            err->code = ABX_INVALID_ARGUMENT;
        return -1;
    case ABX__STAGE_CWD:
        abx_err_sys(err, -f->errnum, "cwd %s", spec->cwd);
        if (err != NULL)
            err->code = ABX_INVALID_ARGUMENT;
        return -1;
    case ABX__STAGE_SESSION:
    case ABX__STAGE_STDIO:
    case ABX__STAGE_TTY:
    case ABX__STAGE_GROUP:
    case ABX__STAGE_MOUNTS:
    case ABX__STAGE_GROUPS:
    case ABX__STAGE_GID:
    case ABX__STAGE_UID:
    case ABX__STAGE_LIMITS:
    case ABX__STAGE_PRIVILEGES:
    case ABX__STAGE_LANDLOCK:
    case ABX__STAGE_SECCOMP:
    case ABX__STAGE_CLOSE:
    case ABX__STAGE__COUNT:
        break;
    }
    return abx_err_sys(err, -f->errnum, "start %s: %s", spec->path, stage_texts[f->stage]);
}

static int start_child(const struct abx_proc_spec *spec, pid_t *ret_pid, int *ret_pidfd,
                       struct abx_error *err)
{
    struct candidates c __attribute__((cleanup(candidates_done))) = {0};
    if (find_candidates(spec, &c, err) < 0)
        return -1;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return abx_err_sys(err, -errno, "start %s: pipe", spec->path);
    ABX_AUTO_FD read_end = ends[0];
    ABX_AUTO_FD write_end = ends[1];
    void *stack = mmap(NULL, CHILD_STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED)
        return abx_err_sys(err, -errno, "start %s: stack", spec->path);
    struct abx__proc_start start = {
        .spec = spec, .paths = c.paths, .error_fd = write_end, .parent = getpid()};
    struct abx__confine_child confine;
    ABX_AUTO_FD ruleset_fd = -1;
    if (spec->confine != NULL) {
        int r = abx__confine_prepare(spec->confine, spec->tty_fd, &confine, &ruleset_fd);
        if (r < 0) {
            munmap(stack, CHILD_STACK_BYTES);
            return abx_err_sys(err, r, "start %s: confinement", spec->path);
        }
        start.confine = &confine;
    }
    int pidfd = -1;
    pid_t pid = clone_child(&start, stack, &pidfd);
    munmap(stack, CHILD_STACK_BYTES);
    abx_fd_close(&write_end);
    if (pid < 0)
        return abx_err_sys(err, pid, "start %s: clone", spec->path);
    struct abx__proc_failure f;
    int waited = await_exec(read_end, pidfd);
    if (waited < 0 || read_failure(read_end, &f)) {
        abx_fd_close(&pidfd);
        abx_proc_wait(pid, NULL);
        return waited < 0 ? abx_err_sys(err, waited, "start %s: stopped before it ran", spec->path)
                          : failure_error(spec, &f, err);
    }
    abx__proc_usual_slice(pid);
    *ret_pid = pid;
    *ret_pidfd = pidfd;
    return 0;
}

static void enter_scope(struct abx_proc *p, const struct abx_confine *confine)
{
    p->scope = confine ? abx_confine_scope_ref(abx__confine_scope(confine)) : NULL;
    abx__scope_count(p->scope, true);
}

static void leave_scope(struct abx_proc *p)
{
    abx__scope_count(p->scope, false);
    abx_confine_scope_unref(p->scope);
    p->scope = NULL;
}

static void on_poll_closed(void *owner)
{
    struct abx_proc *p = owner;
    leave_scope(p);
    abx_fd_close(&p->pidfd);
    free(p);
}

static void release(struct abx_proc *p)
{
    abx_poll_close(&p->poll, on_poll_closed);
}

static void on_pidfd(struct abx_poll *poll, unsigned events)
{
    (void)events;
    struct abx_proc *p = poll->owner;
    siginfo_t info = {0};
    if (waitid(P_PIDFD, (id_t)p->pidfd, &info, WEXITED | WNOHANG) < 0) {
        ABX_ASSERT(errno == EINTR); /* ECHILD: somebody else reaps, the status would be lost */
        return;
    }
    if (info.si_pid == 0)
        return;
    struct abx_proc_status st;
    abx__proc_status_from(&info, &st);
    p->running = false;
    leave_scope(p);
    abx_poll_set(&p->poll, 0);
    p->busy = true;
    if (p->on_exit != NULL && !p->released)
        p->on_exit(p, &st, p->arg);
    p->busy = false;
    if (p->released)
        release(p);
}

int abx_proc_spawn(struct abx_loop *l, const struct abx_proc_spec *spec, abx_proc_exit_fn *on_exit,
                   void *arg, struct abx_proc **ret, struct abx_error *err)
{
    struct abx_proc *p = calloc(1, sizeof(*p));
    if (p == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "start %s: no memory", spec->path);
    if (start_child(spec, &p->pid, &p->pidfd, err) < 0) {
        free(p);
        return -1;
    }
    p->on_exit = on_exit;
    p->arg = arg;
    p->running = true;
    if (abx_poll_init(&p->poll, l, p->pidfd, on_pidfd, p, err) < 0) {
        kill(-p->pid, SIGKILL);
        abx_proc_wait(p->pid, NULL);
        abx_fd_close(&p->pidfd);
        free(p);
        return abx_err_wrap(err, "watch %s", spec->path);
    }
    enter_scope(p, spec->confine);
    abx_poll_set(&p->poll, ABX_POLL_IN);
    *ret = p;
    return 0;
}

pid_t abx_proc_pid(const struct abx_proc *p)
{
    return p->pid;
}

bool abx_proc_is_running(const struct abx_proc *p)
{
    return p->running;
}

int abx_proc_signal_group(struct abx_proc *p, int signum)
{
    if (signum < 1 || signum > 64)
        return -EINVAL;
    if (!p->running) /* reaped: the number may belong to another group by now */
        return -ESRCH;
    return kill(-p->pid, signum) < 0 ? -errno : 0;
}

int abx_proc_signal(struct abx_proc *p, int signum)
{
    if (signum < 1 || signum > 64)
        return -EINVAL;
    if (!p->running)
        return -ESRCH;
    return pidfd_send_signal(p->pidfd, signum, NULL, 0) < 0 ? -errno : 0;
}

void abx_proc_close(struct abx_proc *p)
{
    if (p == NULL || p->released)
        return;
    p->released = true;
    if (p->running) /* reaped later, by itself; not a reason to keep the loop alive */
        uv_unref((uv_handle_t *)&p->poll.uv);
    else if (!p->busy)
        release(p);
}

void abx_proc_disown(struct abx_proc *p)
{
    if (p == NULL || p->released)
        return;
    p->released = true;
    if (!p->busy)
        release(p);
}
