/* lib/proc/role.c: forking this binary into a role, renaming it, and blocking or blind waits. */
#include "lib/proc/proc_priv.h"

#include "lib/base/assert.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { MAX_KEPT_FDS = 32, ROLE_NAME_MAX = 64 };

/* Where the kernel reads /proc/PID/cmdline from: the argument strings of this process, which lie
 * one behind the other. A role's name overwrites them, so the program works on copies. */
static char *title_start;
static size_t title_room;
static char *title_copies; /* for the life of the process */

void abx_proc_init_title(int argc, char **argv)
{
    if (argc < 1 || argv[0] == NULL)
        return;
    char *end = argv[0] + strlen(argv[0]) + 1;
    int count = 1;
    for (; count < argc && argv[count] == end; count++)
        end = argv[count] + strlen(argv[count]) + 1;
    size_t room = (size_t)(end - argv[0]);
    char *copies = malloc(room);
    if (copies == NULL)
        return; /* roles keep the name of the program */
    memcpy(copies, argv[0], room);
    free(title_copies);
    title_copies = copies;
    title_start = argv[0];
    title_room = room;
    for (int i = 0; i < count; i++)
        argv[i] = copies + (argv[i] - title_start);
}

void abx__proc_set_title(const char *name)
{
    prctl(PR_SET_NAME, name, 0, 0, 0);
    if (title_room < 2)
        return;
    memset(title_start, 0, title_room);
    size_t len = strlen(name);
    if (len > title_room - 1)
        len = title_room - 1;
    memcpy(title_start, name, len);
}

/* Closes all but 0-2 and the kept ones: by the gaps between them, in order. */
static int close_others(const int *keep, size_t count)
{
    int sorted[MAX_KEPT_FDS];
    for (size_t i = 0; i < count; i++) {
        size_t at = i;
        for (; at > 0 && sorted[at - 1] > keep[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = keep[i];
    }
    unsigned from = STDERR_FILENO + 1;
    for (size_t i = 0; i < count; i++) {
        if (sorted[i] < (int)from)
            continue;
        unsigned kept = (unsigned)sorted[i];
        if (kept > from && close_range(from, kept - 1, 0) < 0)
            return -errno;
        from = kept + 1;
    }
    return close_range(from, ~0u, 0) < 0 ? -errno : 0;
}

_Noreturn static void run_role(const struct abx_proc_role *role)
{
    abx__proc_reset_signals();
    if (close_others(role->keep_fds, role->keep_count) < 0)
        _exit(127);
    abx__proc_set_title(role->name);
    exit(role->fn(role->arg)); /* not _exit: a role ends as main() does, leak check included */
}

/* As fork(), with namespaces: the C library's fork handlers do not run, so the caller must have no
 * other thread that could hold one of its locks. */
static pid_t raw_clone(uint64_t flags)
{
    return (pid_t)syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);
}

pid_t abx_proc_clone_role(const struct abx_proc_role *role, int *ret_pidfd)
{
    ABX_ASSERT(role->keep_count <= MAX_KEPT_FDS);
    ABX_ASSERT(strlen(role->name) < ROLE_NAME_MAX);
    fflush(NULL);
    sigset_t old;
    abx__proc_block_signals(&old);
    pid_t pid = role->namespaces != 0 ? raw_clone(role->namespaces) : fork();
    int saved = errno;
    if (pid == 0)
        run_role(role);
    int fd = -1;
    if (pid > 0 && ret_pidfd != NULL) {
        fd = pidfd_open(pid, 0); /* the child can not be reaped by another: it is ours */
        saved = errno;
    }
    abx__proc_restore_signals(&old);
    if (pid < 0)
        return -saved;
    if (ret_pidfd != NULL && fd < 0) {
        kill(pid, SIGKILL);
        abx_proc_wait(pid, NULL);
        return -saved;
    }
    if (ret_pidfd != NULL)
        *ret_pidfd = fd;
    return pid;
}

pid_t abx_proc_fork_role(const char *name, int (*fn)(void *arg), void *arg, const int *keep_fds,
                         size_t keep_count, int *ret_pidfd)
{
    struct abx_proc_role role = {
        .name = name, .fn = fn, .arg = arg, .keep_fds = keep_fds, .keep_count = keep_count};
    return abx_proc_clone_role(&role, ret_pidfd);
}

static pid_t wait_any(int options, siginfo_t *info)
{
    *info = (siginfo_t){0};
    while (waitid(P_ALL, 0, info, WEXITED | WNOHANG | options) < 0)
        if (errno != EINTR)
            return -errno;
    return info->si_pid;
}

pid_t abx_proc_peek_any(void)
{
    siginfo_t info;
    return wait_any(WNOWAIT, &info);
}

pid_t abx_proc_reap_any(struct abx_proc_status *ret)
{
    siginfo_t info;
    pid_t pid = wait_any(0, &info);
    if (pid > 0 && ret != NULL)
        abx__proc_status_from(&info, ret);
    return pid;
}

int abx_proc_wait(pid_t pid, struct abx_proc_status *ret)
{
    siginfo_t info = {0};
    while (waitid(P_PID, (id_t)pid, &info, WEXITED) < 0)
        if (errno != EINTR)
            return -errno;
    if (ret != NULL)
        abx__proc_status_from(&info, ret);
    return 0;
}
