/* lib/proc/child.c: the life of a child between clone and exec. Only system calls, no locks, no
 * memory: it may run in the parent's address space (CLONE_VM) while the parent stands still. Ids
 * are switched by raw calls, since the C library's would signal the parent's threads; descriptors
 * are used by such, since ThreadSanitizer would take them for the parent's. */
#include "lib/proc/proc_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <linux/ioprio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { EXEC_FD = 3, LOW_FD_MIN = 10 };

CHILD_CODE _Noreturn static void fail(const struct abx__proc_start *s, int stage, int errnum)
{
    struct abx__proc_failure f = {stage, errnum};
    long ignored = syscall(SYS_write, s->error_fd, &f, sizeof(f));
    (void)ignored;
    for (;;)
        syscall(SYS_exit_group, 127);
}

CHILD_CODE static int open_file(const char *path, int flags)
{
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC);
}

/* Above the numbers that are about to be assigned, so that none is overwritten before its turn. */
CHILD_CODE static int move_up(const struct abx__proc_start *s, int fd)
{
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, LOW_FD_MIN);
    if (moved < 0)
        fail(s, ABX__STAGE_STDIO, errno);
    return moved;
}

CHILD_CODE static void place(const struct abx__proc_start *s, int fd, int number)
{
    if (syscall(SYS_dup3, fd, number, 0) < 0) /* never the same: move_up() */
        fail(s, ABX__STAGE_STDIO, errno);
}

CHILD_CODE static void set_stdio(const struct abx__proc_start *s)
{
    const struct abx_proc_spec *spec = s->spec;
    int from[4];
    for (int i = 0; i < 3; i++) {
        int fd = spec->tty_fd > 0 ? spec->tty_fd : spec->stdio[i];
        if (fd >= 0) {
            from[i] = move_up(s, fd);
            continue;
        }
        int null = open_file("/dev/null", O_RDWR);
        if (null < 0)
            fail(s, ABX__STAGE_STDIO, errno);
        from[i] = move_up(s, null);
    }
    from[EXEC_FD] = spec->exec_fd > 0 ? move_up(s, spec->exec_fd) : -1;
    for (int i = 0; i < 3; i++)
        place(s, from[i], i);
    unsigned first = EXEC_FD;
    if (from[EXEC_FD] >= 0) {
        place(s, from[EXEC_FD], EXEC_FD);
        first++;
    }
    if (close_range(first, ~0u, CLOSE_RANGE_CLOEXEC) < 0)
        fail(s, ABX__STAGE_CLOSE, errno);
}

CHILD_CODE static void set_session(const struct abx__proc_start *s)
{
    const struct abx_proc_spec *spec = s->spec;
    bool session = spec->new_session || spec->tty_fd > 0;
    if (session ? setsid() < 0 : setpgid(0, 0) < 0)
        fail(s, ABX__STAGE_SESSION, errno);
    if (spec->tty_fd > 0 && syscall(SYS_ioctl, spec->tty_fd, TIOCSCTTY, 0) < 0)
        fail(s, ABX__STAGE_TTY, errno);
}

/* Best effort by contract: a process without the right keeps what it inherited. */
CHILD_CODE static void set_oom(int adj)
{
    char text[16];
    size_t at = sizeof(text);
    unsigned left = adj < 0 ? -(unsigned)adj : (unsigned)adj;
    do {
        text[--at] = (char)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    if (adj < 0)
        text[--at] = '-';
    int fd = open_file("/proc/self/oom_score_adj", O_WRONLY);
    if (fd < 0)
        return;
    long ignored = syscall(SYS_write, fd, text + at, sizeof(text) - at);
    (void)ignored;
    syscall(SYS_close, fd);
}

CHILD_CODE static void set_scheduling(const struct abx_proc_spec *spec)
{
    if (spec->oom_score_adj != INT_MIN)
        set_oom(spec->oom_score_adj);
    if (!spec->reset_nice)
        return;
    setpriority(PRIO_PROCESS, 0, 0);
    syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_NONE, 0));
}

CHILD_CODE static void set_ids(const struct abx__proc_start *s)
{
    const struct abx_proc_spec *spec = s->spec;
    if (!spec->set_ids)
        return;
    if (syscall(SYS_setgroups, spec->group_count, spec->groups) < 0)
        fail(s, ABX__STAGE_GROUPS, errno);
    if (syscall(SYS_setresgid, spec->gid, spec->gid, spec->gid) < 0)
        fail(s, ABX__STAGE_GID, errno);
    if (syscall(SYS_setresuid, spec->uid, spec->uid, spec->uid) < 0)
        fail(s, ABX__STAGE_UID, errno);
}

/* What takes a capability that the other ids do not have: the bounding set, and Landlock for one
 * who is to keep what privileges it may gain. True: the confinement is applied. */
CHILD_CODE static bool give_up_early(const struct abx__proc_start *s)
{
    bool keeps = s->confine != NULL ? s->confine->keeps_privileges : !s->spec->no_privileges;
    if (!s->spec->set_ids)
        return false;
    if (!keeps && abx__privileges_bound() < 0)
        fail(s, ABX__STAGE_PRIVILEGES, errno);
    if (!keeps || s->confine == NULL)
        return false;
    int stage = abx__confine_apply(s->confine);
    if (stage != 0)
        fail(s, stage, errno);
    return true;
}

/* The last steps. */
CHILD_CODE static void give_up(const struct abx__proc_start *s, bool is_applied)
{
    int stage = 0;
    if (s->confine != NULL && !is_applied)
        stage = abx__confine_apply(s->confine);
    else if (s->confine == NULL && s->spec->no_privileges &&
             (abx__privileges_bound() < 0 || abx__privileges_drop() < 0))
        stage = ABX__STAGE_PRIVILEGES;
    if (stage != 0)
        fail(s, stage, errno);
}

/* As a shell searches: the first that exists and may be run; a refusal is remembered. */
CHILD_CODE _Noreturn static void exec_first(const struct abx__proc_start *s)
{
    int errnum = ENOENT;
    for (char *const *path = s->paths; *path != NULL; path++) {
        execve(*path, s->spec->argv, s->spec->envp);
        if (errno == EACCES)
            errnum = EACCES;
        else if (errno != ENOENT && errno != ENOTDIR)
            fail(s, ABX__STAGE_EXEC, errno);
    }
    fail(s, ABX__STAGE_EXEC, errnum);
}

/* Where nobody opens it there is nobody to run for. */
CHILD_CODE static void pass_gate(int fd)
{
    char byte;
    while (fd > 0) {
        long n = syscall(SYS_read, fd, &byte, 1);
        if (n == 1)
            return;
        if (n == 0 || errno != EINTR)
            syscall(SYS_exit_group, 127);
    }
}

CHILD_CODE static void join_group(const struct abx__proc_start *s, const struct abx__group_fds *g)
{
    if ((g->count_fd >= 0 && abx__confine_join(g->count_fd) < 0) ||
        (g->memory_fd >= 0 && abx__confine_join(g->memory_fd) < 0))
        fail(s, ABX__STAGE_GROUP, errno);
}

CHILD_CODE int abx__proc_child(void *start)
{
    struct abx__proc_start s = *(const struct abx__proc_start *)start;
    const struct abx_proc_spec *spec = s.spec;
    pass_gate(s.gate_fd);
    s.error_fd = move_up(&s, s.error_fd);
    if (s.confine != NULL)
        join_group(&s, &s.confine->group);
    set_session(&s);
    set_stdio(&s);
    set_scheduling(spec);
    umask(spec->umask != 0 ? (mode_t)spec->umask : 022);
    if (s.confine != NULL && abx__confine_limit(s.confine) < 0)
        fail(&s, ABX__STAGE_LIMITS, errno);
    if (s.confine != NULL && s.confine->mounts_fd >= 0 &&
        abx__confine_enter_mounts(s.confine->mounts_fd) < 0)
        fail(&s, ABX__STAGE_MOUNTS, errno);
    bool is_applied = give_up_early(&s);
    set_ids(&s);
    if (spec->cwd != NULL && chdir(spec->cwd) < 0)
        fail(&s, ABX__STAGE_CWD, errno);
    /* After the ids: a change of ids clears it. The parent may have gone before. */
    if (spec->die_with_parent) {
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        if (getppid() != s.parent)
            syscall(SYS_exit_group, 127);
    }
    abx__proc_reset_signals();
    give_up(&s, is_applied);
    exec_first(&s);
}
