/* host/runtime/shim/clone.c: the processes that the shim makes: PID 1 in its namespaces, and the
 * short-lived owner of a user namespace that only serves as an idmap (S51, S55). */
#include "host/runtime/shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { SYS_CLONE3 = 435, TREE_CLONE = 1, EMPTY_PATH = 0x1000, SECBIT_NO_FIXUP = 1 << 2 };
/* clone3's flags; CLONE_NEWCGROUP comes later, by PID 1 in its cgroup. */
static const uint64_t NEW_USER = 0x10000000, NEW_PIDFD = 0x00001000,
                      INTO_CGROUP = UINT64_C(0x200000000);
static const uint64_t NEW_ALL = UINT64_C(0x10000000) /* user */ | 0x00020000 /* mount */ |
                                0x20000000 /* pid */ | 0x40000000 /* net */ | 0x08000000 /* ipc */ |
                                0x04000000 /* uts */ | 0x00000080 /* time */;

struct clone_args_v2 {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid,
        set_tid_size, cgroup;
};

/* @into_fd: a v2 cgroup, or -1. */
static int clone3(uint64_t flags, int into_fd, int *ret_pidfd)
{
    int pidfd = -1;
    struct clone_args_v2 args = {.flags = flags | (ret_pidfd ? NEW_PIDFD : 0) |
                                          (into_fd >= 0 ? INTO_CGROUP : 0),
                                 .pidfd = (uint64_t)(uintptr_t)&pidfd,
                                 .exit_signal = SIGCHLD,
                                 .cgroup = into_fd >= 0 ? (uint64_t)into_fd : 0};
    long pid = syscall(SYS_CLONE3, &args, sizeof(args));
    if (pid < 0)
        return -errno;
    if (pid > 0 && ret_pidfd)
        *ret_pidfd = pidfd;
    return (int)pid;
}

int shim_clone(const struct shim_start *st, int *ret_pidfd)
{
    uid_t self = geteuid();
    if (st->prepare.creator_uid == 0)
        return clone3(NEW_ALL, st->into_fd, ret_pidfd);
    /* The counters of a user namespace are charged to the uid that made it. */
    if (prctl(PR_SET_SECUREBITS, SECBIT_NO_FIXUP, 0, 0, 0) < 0 ||
        setresuid((uid_t)-1, st->prepare.creator_uid, (uid_t)-1) < 0)
        return -errno;
    int pid = clone3(NEW_ALL, st->into_fd, ret_pidfd);
    if (pid == 0)
        return 0;
    if (setresuid((uid_t)-1, self, (uid_t)-1) < 0)
        return -errno;
    return pid;
}

/* A descriptor of a user namespace with one extent; its process is gone on return. */
static int make_idmap(uint32_t inside, uint32_t outside)
{
    int pid = clone3(NEW_USER, -1, NULL);
    if (pid < 0)
        return pid;
    if (pid == 0)
        for (;;)
            pause();
    char path[64], text[64], from[12], to[12];
    sys_number(from, inside);
    sys_number(to, outside);
    sys_join(text, sizeof(text), (const char *[]){from, " ", to, " 65536\n", NULL});
    sys_proc_path(path, pid, "uid_map");
    int r = sys_write_file(path, text);
    sys_proc_path(path, pid, "gid_map");
    if (r == 0)
        r = sys_write_file(path, text);
    sys_proc_path(path, pid, "ns/user");
    if (r == 0) {
        r = open(path, O_RDONLY | O_CLOEXEC);
        if (r < 0)
            r = -errno;
    }
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return r;
}

int shim_idmap(struct shim_start *st)
{
    st->idmap_fd = -1;
    if (st->prepare.private_base == 0)
        return 0;
    int r = make_idmap(st->prepare.storage_base, st->prepare.private_base);
    if (r < 0)
        return r;
    st->idmap_fd = r;
    return 0;
}

_Static_assert(ABX_SHIM_FD_EXTRA - ABX_SHIM_FD_FS == SHIM_TREE_EXTRA &&
                   ABX_SHIM_FD_LOWER0 - ABX_SHIM_FD_FS == SHIM_TREE_LOWER0,
               "trees in the order of their descriptors");

int shim_trees(struct shim_start *st)
{
    /* MOUNT_ATTR_*: layers are read-only, nothing in them is a device or gains rights here */
    enum { RDONLY = 1, NOSUID = 2, NODEV = 4, NOEXEC = 8 };
    for (size_t i = 0; i < shim_tree_count(st); i++) {
        int from = st->fds[ABX_SHIM_FD_FS + i]; /* the two enums run in step */
        int r = sys_open_tree(from, "", O_CLOEXEC | TREE_CLONE | EMPTY_PATH);
        if (r < 0)
            return r;
        st->tree_fds[i] = r;
        uint64_t own = i == SHIM_TREE_EXTRA ? NOEXEC : i >= SHIM_TREE_LOWER0 ? RDONLY : 0;
        r = sys_mount_attr(st->tree_fds[i], "", EMPTY_PATH, NOSUID | NODEV | own, st->idmap_fd);
        if (r < 0)
            return r;
    }
    return 0;
}
