/* host/runtime/seccomp/gen.c: build tool: prints the sandbox's seccomp filter (security S54) as a
 * C array. Allow-list, x86-64 only; another architecture kills, an unknown number is ENOSYS. */
#include <errno.h>
#include <linux/filter.h>
#include <seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/banned.h"

/* Not in it: clone3, setns, the mount family, bpf, perf, io_uring, keys, file handles, modules,
 * kexec, reboot, swap, clocks, ports; `socket`, `clone`, `unshare`, `personality` by argument. */
static const char *const allowed[] = {
    "read",
    "write",
    "open",
    "close",
    "stat",
    "fstat",
    "lstat",
    "poll",
    "lseek",
    "mmap",
    "mprotect",
    "munmap",
    "brk",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "ioctl",
    "pread64",
    "pwrite64",
    "readv",
    "writev",
    "access",
    "pipe",
    "select",
    "sched_yield",
    "mremap",
    "msync",
    "mincore",
    "madvise",
    "shmget",
    "shmat",
    "shmctl",
    "dup",
    "dup2",
    "pause",
    "nanosleep",
    "getitimer",
    "alarm",
    "setitimer",
    "getpid",
    "sendfile",
    "connect",
    "accept",
    "sendto",
    "recvfrom",
    "sendmsg",
    "recvmsg",
    "shutdown",
    "bind",
    "listen",
    "getsockname",
    "getpeername",
    "setsockopt",
    "getsockopt",
    "fork",
    "vfork",
    "execve",
    "exit",
    "wait4",
    "kill",
    "uname",
    "semget",
    "semop",
    "semctl",
    "shmdt",
    "msgget",
    "msgsnd",
    "msgrcv",
    "msgctl",
    "fcntl",
    "flock",
    "fsync",
    "fdatasync",
    "truncate",
    "ftruncate",
    "getdents",
    "getcwd",
    "chdir",
    "fchdir",
    "rename",
    "mkdir",
    "rmdir",
    "creat",
    "link",
    "unlink",
    "symlink",
    "readlink",
    "chmod",
    "fchmod",
    "chown",
    "fchown",
    "lchown",
    "umask",
    "gettimeofday",
    "getrlimit",
    "getrusage",
    "sysinfo",
    "times",
    "ptrace",
    "getuid",
    "getgid",
    "setuid",
    "setgid",
    "geteuid",
    "getegid",
    "setpgid",
    "getppid",
    "getpgrp",
    "setsid",
    "setreuid",
    "setregid",
    "getgroups",
    "setgroups",
    "setresuid",
    "getresuid",
    "setresgid",
    "getresgid",
    "getpgid",
    "setfsuid",
    "setfsgid",
    "getsid",
    "capget",
    "capset",
    "rt_sigpending",
    "rt_sigtimedwait",
    "rt_sigqueueinfo",
    "rt_sigsuspend",
    "sigaltstack",
    "utime",
    "mknod",
    "statfs",
    "fstatfs",
    "getpriority",
    "setpriority",
    "sched_setparam",
    "sched_getparam",
    "sched_setscheduler",
    "sched_getscheduler",
    "sched_get_priority_max",
    "sched_get_priority_min",
    "sched_rr_get_interval",
    "mlock",
    "munlock",
    "mlockall",
    "munlockall",
    "modify_ldt",
    "prctl",
    "arch_prctl",
    "setrlimit",
    "chroot",
    "sync",
    "gettid",
    "readahead",
    "setxattr",
    "lsetxattr",
    "fsetxattr",
    "getxattr",
    "lgetxattr",
    "fgetxattr",
    "listxattr",
    "llistxattr",
    "flistxattr",
    "removexattr",
    "lremovexattr",
    "fremovexattr",
    "tkill",
    "time",
    "futex",
    "sched_setaffinity",
    "sched_getaffinity",
    "io_setup",
    "io_destroy",
    "io_getevents",
    "io_submit",
    "io_cancel",
    "epoll_create",
    "remap_file_pages",
    "getdents64",
    "set_tid_address",
    "restart_syscall",
    "semtimedop",
    "fadvise64",
    "timer_create",
    "timer_settime",
    "timer_gettime",
    "timer_getoverrun",
    "timer_delete",
    "clock_gettime",
    "clock_getres",
    "clock_nanosleep",
    "exit_group",
    "epoll_wait",
    "epoll_ctl",
    "tgkill",
    "utimes",
    "mbind",
    "set_mempolicy",
    "get_mempolicy",
    "mq_open",
    "mq_unlink",
    "mq_timedsend",
    "mq_timedreceive",
    "mq_notify",
    "mq_getsetattr",
    "waitid",
    "ioprio_set",
    "ioprio_get",
    "inotify_init",
    "inotify_add_watch",
    "inotify_rm_watch",
    "migrate_pages",
    "openat",
    "mkdirat",
    "mknodat",
    "fchownat",
    "futimesat",
    "newfstatat",
    "unlinkat",
    "renameat",
    "linkat",
    "symlinkat",
    "readlinkat",
    "fchmodat",
    "faccessat",
    "pselect6",
    "ppoll",
    "set_robust_list",
    "get_robust_list",
    "splice",
    "tee",
    "sync_file_range",
    "vmsplice",
    "move_pages",
    "utimensat",
    "epoll_pwait",
    "signalfd",
    "timerfd_create",
    "eventfd",
    "fallocate",
    "timerfd_settime",
    "timerfd_gettime",
    "accept4",
    "signalfd4",
    "eventfd2",
    "epoll_create1",
    "dup3",
    "pipe2",
    "inotify_init1",
    "preadv",
    "pwritev",
    "rt_tgsigqueueinfo",
    "recvmmsg",
    "prlimit64",
    "name_to_handle_at",
    "syncfs",
    "sendmmsg",
    "getcpu",
    "process_vm_readv",
    "process_vm_writev",
    "sched_setattr",
    "sched_getattr",
    "renameat2",
    "seccomp",
    "getrandom",
    "memfd_create",
    "execveat",
    "membarrier",
    "mlock2",
    "copy_file_range",
    "preadv2",
    "pwritev2",
    "pkey_mprotect",
    "pkey_alloc",
    "pkey_free",
    "statx",
    "rseq",
    "pidfd_send_signal",
    "pidfd_open",
    "close_range",
    "openat2",
    "pidfd_getfd",
    "faccessat2",
    "process_madvise",
    "epoll_pwait2",
    "landlock_create_ruleset",
    "landlock_add_rule",
    "landlock_restrict_self",
    "memfd_secret",
    "process_mrelease",
    "futex_waitv",
    "set_mempolicy_home_node",
};
/* Newer than libseccomp 2.5.4's table. */
static const int allowed_numbers[] = {
    451,                /* cachestat */
    452,                /* fchmodat2 */
    453,                /* map_shadow_stack */
    454,                /* futex_wake */
    455,                /* futex_wait */
    456,                /* futex_requeue */
    462,                /* mseal */
    463, 464, 465, 466, /* setxattrat getxattrat listxattrat removexattrat */
};

enum {
    NEW_NAMESPACES = 0x7E020000, /* CLONE_NEW* of clone; unshare knows NEWTIME too */
    NEW_NAMESPACES_UNSHARE = 0x7E020080,
    FAMILY_UNIX = 1,
    FAMILY_INET = 2,
    FAMILY_INET6 = 10,
    FAMILY_NETLINK = 16
};

static int add(scmp_filter_ctx ctx, uint32_t action, int nr, unsigned n, struct scmp_arg_cmp a,
               struct scmp_arg_cmp b)
{
    struct scmp_arg_cmp args[] = {a, b};
    return seccomp_rule_add_array(ctx, action, nr, n, args);
}

static const struct scmp_arg_cmp NONE;

/* Families and netlink protocols are compared as 64 bits, also where they are refused: garbage in
 * the upper half of the register lands in the refusals. */
static int add_socket(scmp_filter_ctx ctx)
{
    static const unsigned families[] = {FAMILY_UNIX, FAMILY_INET, FAMILY_INET6};
    static const unsigned netlink[] = {0, 4}; /* route, sock_diag */
    uint32_t no_family = SCMP_ACT_ERRNO(EAFNOSUPPORT), no_proto = SCMP_ACT_ERRNO(EPROTONOSUPPORT);
    int nr = SCMP_SYS(socket), r = 0;
    for (size_t i = 0; i < 3; i++)
        r |= add(ctx, SCMP_ACT_ALLOW, nr, 1, SCMP_A0(SCMP_CMP_EQ, families[i]), NONE);
    for (size_t i = 0; i < 2; i++)
        r |= add(ctx, SCMP_ACT_ALLOW, nr, 2, SCMP_A0(SCMP_CMP_EQ, FAMILY_NETLINK),
                 SCMP_A2(SCMP_CMP_EQ, netlink[i]));
    for (unsigned f = 0; f < FAMILY_NETLINK; f++)
        if (f != FAMILY_UNIX && f != FAMILY_INET && f != FAMILY_INET6)
            r |= add(ctx, no_family, nr, 1, SCMP_A0(SCMP_CMP_EQ, f), NONE);
    r |= add(ctx, no_family, nr, 1, SCMP_A0(SCMP_CMP_GT, FAMILY_NETLINK), NONE);
    for (unsigned p = 1; p <= 3; p++)
        r |= add(ctx, no_proto, nr, 2, SCMP_A0(SCMP_CMP_EQ, FAMILY_NETLINK),
                 SCMP_A2(SCMP_CMP_EQ, p));
    r |= add(ctx, no_proto, nr, 2, SCMP_A0(SCMP_CMP_EQ, FAMILY_NETLINK), SCMP_A2(SCMP_CMP_GT, 4));
    r |= add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socketpair), 1, SCMP_A0(SCMP_CMP_EQ, FAMILY_UNIX), NONE);
    return r;
}

static int add_conditional(scmp_filter_ctx ctx)
{
    static const uint32_t personalities[] = {0, 8, 0x20000, 0x20008, 0xffffffff};
    int r = add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                SCMP_A0(SCMP_CMP_MASKED_EQ, NEW_NAMESPACES, 0), NONE);
    r |= add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(unshare), 1,
             SCMP_A0(SCMP_CMP_MASKED_EQ, NEW_NAMESPACES_UNSHARE, 0), NONE);
    for (size_t i = 0; i < sizeof(personalities) / sizeof(personalities[0]); i++)
        r |= add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(personality), 1,
                 SCMP_A0(SCMP_CMP_EQ, personalities[i]), NONE);
    return r | add_socket(ctx);
}

static int fill(scmp_filter_ctx ctx)
{
    int r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    r |= seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a binary tree */
    for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++) {
        int nr = seccomp_syscall_resolve_name(allowed[i]);
        if (nr < 0) {
            fprintf(stderr, "gen-seccomp: no such system call: %s\n", allowed[i]);
            return -1;
        }
        r |= add(ctx, SCMP_ACT_ALLOW, nr, 0, NONE, NONE);
    }
    for (size_t i = 0; i < sizeof(allowed_numbers) / sizeof(allowed_numbers[0]); i++)
        r |= add(ctx, SCMP_ACT_ALLOW, allowed_numbers[i], 0, NONE, NONE);
    return r | add_conditional(ctx);
}

static int print_filter(int fd)
{
    struct sock_filter f;
    if (lseek(fd, 0, SEEK_SET) < 0)
        return -1;
    puts("/* generated by host/runtime/seccomp/gen.c; do not edit */");
    puts("static const struct sock_filter seccomp_filter[] = {");
    while (read(fd, &f, sizeof(f)) == (ssize_t)sizeof(f))
        printf("    {0x%02x, %u, %u, 0x%08x},\n", f.code, f.jt, f.jf, f.k);
    puts("};");
    return 0;
}

int main(void)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    int fd = memfd_create("filter", MFD_CLOEXEC);
    if (ctx == NULL || fd < 0 || fill(ctx) != 0 || seccomp_export_bpf(ctx, fd) != 0 ||
        print_filter(fd) < 0) {
        fprintf(stderr, "gen-seccomp: the filter can not be made\n");
        return 1;
    }
    seccomp_release(ctx);
    close(fd);
    return 0;
}
