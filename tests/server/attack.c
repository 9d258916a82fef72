/* tests/server/attack.c: one attempt of a confined process, as a program: `attack NAME [ARG]`.
 *
 * Prints "denied ERRNO" and ends with 0, or "allowed" and ends with 42; 2: no such attack. With
 * `--child` before the name a grandchild in a session of its own makes the attempt, with `--user`
 * one that is root in a user namespace of its own ("denied" if there is none to be had). Nothing
 * here does harm when it succeeds: writes are one byte, mounts are tmpfs, signals are 0, or SIGURG
 * to all (the call says "allowed" whoever got it: ask the one who should not). Security M1..M13,
 * S03-S07.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    ALLOWED = 42,
    UNKNOWN = 2,
    MPTCP = 262,
    VSOCK = 40,
    CAP_SYS_ADMIN = 21,
    FASTOPEN = 0x20000000
};

static long number(const char *arg)
{
    return strtol(arg, NULL, 10);
}

/* ---- files ---- */

static long read_file(const char *path)
{
    char byte;
    int fd = open(path, O_RDONLY | O_NONBLOCK);
    return fd < 0 ? -1 : read(fd, &byte, 1);
}

static long write_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0644);
    return fd < 0 ? -1 : write(fd, "x", 1);
}

static long cut_file(const char *path)
{
    return truncate(path, 0);
}

static long remove_file(const char *path)
{
    return unlink(path);
}

static long rename_file(const char *path)
{
    char to[4096];
    snprintf(to, sizeof(to), "%s.moved", path);
    return rename(path, to);
}

static long link_file(const char *path)
{
    char to[4096];
    snprintf(to, sizeof(to), "%s.link", path);
    return link(path, to);
}

static long list_folder(const char *path)
{
    char entries[1024];
    int fd = open(path, O_RDONLY | O_DIRECTORY);
    return fd < 0 ? -1 : syscall(SYS_getdents64, fd, entries, sizeof(entries));
}

static long make_device(const char *path)
{
    return syscall(SYS_mknod, path, 020666, 0x103);
}

static long mount_tmpfs(const char *path)
{
    return mount("none", path, "tmpfs", 0, NULL);
}

static long unmount(const char *path)
{
    return umount2(path, MNT_DETACH);
}

static long change_root(const char *path)
{
    return chroot(path);
}

/* ---- processes ---- */

static long of_process(const char *pid, const char *file)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%ld/%s", number(pid), file);
    return read_file(path);
}

static long environ_of(const char *pid)
{
    return of_process(pid, "environ");
}

static long memory_of(const char *pid)
{
    return of_process(pid, "mem");
}

static long signal_process(const char *pid)
{
    return kill((pid_t)number(pid), 0);
}

static long signal_all(const char *arg)
{
    (void)arg;
    return kill(-1, SIGURG); /* ignored by whoever does not ask for it */
}

static long attach(const char *pid)
{
    return ptrace(PTRACE_ATTACH, (pid_t)number(pid), NULL, NULL);
}

static long seize(const char *pid)
{
    return ptrace(PTRACE_SEIZE, (pid_t)number(pid), NULL, NULL);
}

static long peek(const char *pid)
{
    char byte;
    struct iovec local = {&byte, 1}, remote = {(void *)(uintptr_t)0x400000, 1};
    return process_vm_readv((pid_t)number(pid), &local, 1, &remote, 1, 0);
}

static long take_descriptor(const char *pid)
{
    int fd = (int)syscall(SYS_pidfd_open, (pid_t)number(pid), 0);
    return fd < 0 ? -1 : syscall(SYS_pidfd_getfd, fd, 0, 0);
}

static long limit_process(const char *pid)
{
    struct rlimit now;
    return prlimit((pid_t)number(pid), RLIMIT_NOFILE, NULL, &now);
}

static long slow_user(const char *arg)
{
    (void)arg;
    return setpriority(PRIO_USER, 0, 19);
}

/* ---- namespaces and the kernel ---- */

static long unshare_user(const char *arg)
{
    (void)arg;
    return unshare(CLONE_NEWUSER);
}

static long unshare_mount(const char *arg)
{
    (void)arg;
    return unshare(CLONE_NEWNS);
}

static long clone_user(const char *arg)
{
    (void)arg;
    long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0)
        _exit(0);
    return pid;
}

static long clone3_user(const char *arg)
{
    struct {
        uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
    } args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    (void)arg;
    long pid = syscall(SYS_clone3, &args, sizeof(args));
    if (pid == 0)
        _exit(0);
    return pid;
}

static long enter_namespace(const char *arg)
{
    (void)arg;
    int fd = open("/proc/self/ns/uts", O_RDONLY);
    return fd < 0 ? -1 : setns(fd, 0);
}

/* Where nothing is hidden. */
static long enter_mounts_of(const char *pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%ld/ns/mnt", number(pid));
    int fd = open(path, O_RDONLY);
    return fd < 0 ? -1 : setns(fd, 0);
}

static long io_uring(const char *arg)
{
    unsigned char params[120] = {0};
    (void)arg;
    return syscall(SYS_io_uring_setup, 1, params);
}

static long bpf_map(const char *arg)
{
    uint32_t attr[32] = {2, 4, 4, 1}; /* an array of one */
    (void)arg;
    return syscall(SYS_bpf, 0, attr, sizeof(attr));
}

static long user_fault(const char *arg)
{
    (void)arg;
    return syscall(SYS_userfaultfd, 1 /* of user mode only: needs no right */);
}

static long add_key(const char *arg)
{
    (void)arg;
    return syscall(SYS_add_key, "user", "abx", "x", 1, -4 /* the session's */);
}

static long open_handle(const char *arg)
{
    (void)arg;
    unsigned handle[34] = {8, 1};
    return syscall(SYS_open_by_handle_at, AT_FDCWD, handle, O_RDONLY);
}

static long type_ahead(const char *arg)
{
    int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY);
    (void)arg;
    return fd < 0 ? -1 : ioctl(fd, TIOCSTI, "x");
}

/* Of root its bounding set, which an exec gives it; of another what it holds, if it can gain none.
 */
static long gain_capability(const char *arg)
{
    (void)arg;
    enum { PERMITTED = 1 }; /* capget(2), version 3: effective, permitted, inheritable, twice */
    uint32_t head[2] = {0x20080522}, held[6] = {0};
    if (syscall(SYS_capget, head, held) < 0)
        return 0;
    bool can_gain = prctl(PR_CAPBSET_READ, CAP_SYS_ADMIN, 0, 0, 0) != 0 &&
                    (geteuid() == 0 || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1);
    errno = EPERM;
    return can_gain || (held[PERMITTED] & 1u << CAP_SYS_ADMIN) != 0 ? 0 : -1;
}

static long new_privileges(const char *arg)
{
    (void)arg;
    long kept = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
    errno = EPERM;
    return kept == 1 ? -1 : 0;
}

static long core_dumps(const char *arg)
{
    struct rlimit now;
    (void)arg;
    long r = getrlimit(RLIMIT_CORE, &now);
    errno = EPERM;
    return r == 0 && now.rlim_max == 0 ? -1 : 0;
}

/* ---- the network ---- */

static struct sockaddr_in loopback(const char *port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)number(port)),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static long dial(const char *port, int protocol)
{
    struct sockaddr_in to = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM, protocol);
    return fd < 0 ? -1 : connect(fd, (struct sockaddr *)&to, sizeof(to));
}

static long tcp(const char *port)
{
    return dial(port, 0);
}

static long tcp6(const char *port)
{
    struct sockaddr_in6 to = {.sin6_family = AF_INET6,
                              .sin6_port = htons((uint16_t)number(port)),
                              .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    return fd < 0 ? -1 : connect(fd, (struct sockaddr *)&to, sizeof(to));
}

static long mptcp(const char *port)
{
    return dial(port, MPTCP);
}

static long fast_open(const char *port)
{
    struct sockaddr_in to = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return fd < 0 ? -1 : sendto(fd, "x", 1, FASTOPEN, (struct sockaddr *)&to, sizeof(to));
}

static long fast_open_message(const char *port)
{
    struct sockaddr_in to = loopback(port);
    struct iovec part = {(char[]){"x"}, 1};
    struct msghdr m = {
        .msg_name = &to, .msg_namelen = sizeof(to), .msg_iov = &part, .msg_iovlen = 1};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return fd < 0 ? -1 : sendmsg(fd, &m, FASTOPEN);
}

static long bind_port(const char *port)
{
    struct sockaddr_in to = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return fd < 0 ? -1 : bind(fd, (struct sockaddr *)&to, sizeof(to));
}

static long listen_any(const char *arg)
{
    (void)arg;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return fd < 0 ? -1 : listen(fd, 1);
}

static long udp(const char *port)
{
    struct sockaddr_in to = loopback(port);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    return fd < 0 ? -1 : sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof(to));
}

static long open_family(int family, int type)
{
    return socket(family, type, 0);
}

static long raw_socket(const char *arg)
{
    (void)arg;
    return open_family(AF_INET, SOCK_RAW);
}

static long vsock(const char *arg)
{
    (void)arg;
    return open_family(VSOCK, SOCK_STREAM);
}

/* The kernel looks at the low half of the family alone. */
static long vsock_high(const char *arg)
{
    (void)arg;
    return syscall(SYS_socket, 0x700000000L | VSOCK, 0x100000000L | SOCK_STREAM, 0L);
}

static long unix_path(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    strncpy(to.sun_path, path, sizeof(to.sun_path) - 1);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    return fd < 0 ? -1 : connect(fd, (struct sockaddr *)&to, sizeof(to));
}

static long unix_abstract(const char *name)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t len = strlen(name);
    memcpy(to.sun_path + 1, name, len < sizeof(to.sun_path) - 1 ? len : sizeof(to.sun_path) - 1);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
    return fd < 0 ? -1 : connect(fd, (struct sockaddr *)&to, bytes);
}

/* Of another process, by its number. */
static long shared_memory(const char *id)
{
    return shmat((int)number(id), NULL, SHM_RDONLY) == (void *)-1 ? -1 : 0;
}

static long message(const char *id)
{
    struct msqid_ds st;
    return msgctl((int)number(id), IPC_STAT, &st);
}

static long semaphore(const char *id)
{
    return semctl((int)number(id), 0, GETVAL);
}

static long message_queue(const char *name)
{
    return mq_open(name, O_RDONLY | O_NONBLOCK);
}

static const struct {
    const char *name;
    long (*run)(const char *arg);
} attacks[] = {
    {"read", read_file},
    {"write", write_file},
    {"truncate", cut_file},
    {"unlink", remove_file},
    {"rename", rename_file},
    {"link", link_file},
    {"list", list_folder},
    {"umount", unmount},
    {"setns-mounts", enter_mounts_of},
    {"mknod", make_device},
    {"mount", mount_tmpfs},
    {"chroot", change_root},
    {"environ", environ_of},
    {"memory", memory_of},
    {"signal", signal_process},
    {"signal-all", signal_all},
    {"ptrace-attach", attach},
    {"ptrace-seize", seize},
    {"vm-read", peek},
    {"pidfd-getfd", take_descriptor},
    {"prlimit", limit_process},
    {"priority-user", slow_user},
    {"unshare-user", unshare_user},
    {"unshare-mount", unshare_mount},
    {"clone-user", clone_user},
    {"clone3-user", clone3_user},
    {"setns", enter_namespace},
    {"io-uring", io_uring},
    {"bpf", bpf_map},
    {"userfaultfd", user_fault},
    {"add-key", add_key},
    {"open-by-handle", open_handle},
    {"tiocsti", type_ahead},
    {"capability", gain_capability},
    {"new-privileges", new_privileges},
    {"core", core_dumps},
    {"tcp", tcp},
    {"tcp6", tcp6},
    {"mptcp", mptcp},
    {"fast-open", fast_open},
    {"fast-open-message", fast_open_message},
    {"bind", bind_port},
    {"listen", listen_any},
    {"udp", udp},
    {"raw-socket", raw_socket},
    {"vsock", vsock},
    {"vsock-high", vsock_high},
    {"unix-path", unix_path},
    {"unix-abstract", unix_abstract},
    {"shared-memory", shared_memory},
    {"message", message},
    {"semaphore", semaphore},
    {"message-queue", message_queue},
};

static int attempt(const char *name, const char *arg)
{
    for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++) {
        if (strcmp(attacks[i].name, name) != 0)
            continue;
        long r = attacks[i].run(arg);
        if (r >= 0)
            puts("allowed");
        else
            printf("denied %d\n", errno);
        fflush(stdout);
        return r >= 0 ? ALLOWED : 0;
    }
    fprintf(stderr, "attack: no such attack: %s\n", name);
    return UNKNOWN;
}

/* By a child that has left its parent's session, and is nobody's child any more. */
static int attempt_as_grandchild(const char *name, const char *arg)
{
    int ends[2], status = UNKNOWN;
    if (pipe(ends) < 0)
        return UNKNOWN;
    pid_t child = fork();
    if (child == 0) {
        setsid();
        if (fork() == 0) {
            int r = attempt(name, arg);
            ssize_t ignored = write(ends[1], &r, sizeof(r));
            (void)ignored;
        }
        _exit(0);
    }
    close(ends[1]);
    if (child < 0 || read(ends[0], &status, sizeof(status)) != (ssize_t)sizeof(status))
        return UNKNOWN;
    waitpid(child, NULL, 0);
    return status;
}

static int attempt_as_user(const char *name, const char *arg)
{
    if (unshare(CLONE_NEWUSER) == 0)
        return attempt(name, arg);
    printf("denied %d\n", errno);
    return 0;
}

static const struct {
    const char *option;
    int (*attempt)(const char *name, const char *arg);
} ways[] = {{"--child", attempt_as_grandchild}, {"--user", attempt_as_user}};

int main(int argc, char **argv)
{
    int (*how)(const char *name, const char *arg) = attempt;
    int at = 1;
    for (size_t i = 0; argc > 1 && i < sizeof(ways) / sizeof(ways[0]); i++)
        if (strcmp(argv[1], ways[i].option) == 0) {
            how = ways[i].attempt;
            at = 2;
        }
    if (at >= argc) {
        fputs("usage: attack [--child | --user] NAME [ARG]\n", stderr);
        return UNKNOWN;
    }
    return how(argv[at], at + 1 < argc ? argv[at + 1] : "");
}
