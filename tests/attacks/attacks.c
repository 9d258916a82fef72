/* tests/attacks/attacks.c: the attacks of security.md that a sandbox of host/runtime can meet. */
#include "tests/attacks/attacks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static void verdict(FILE *out, const char *what, long r)
{
    if (r < 0)
        fprintf(out, "%s errno %d\n", what, errno);
    else
        fprintf(out, "%s allowed\n", what);
}

/* Prints a file: the general way to look at the inside. */
static void cat(FILE *out, const char *path)
{
    char text[4096];
    int fd = open(path, O_RDONLY);
    if (fd < 0) {
        verdict(out, "open", fd);
        return;
    }
    ssize_t n;
    while ((n = read(fd, text, sizeof(text))) > 0)
        fwrite(text, 1, (size_t)n, out);
    if (n < 0)
        verdict(out, "read", n);
    close(fd);
}

static void list(FILE *out, const char *path)
{
    DIR *d = opendir(path);
    if (d == NULL) {
        verdict(out, "opendir", -1);
        return;
    }
    const struct dirent *e;
    while ((e = readdir(d)) != NULL)
        fprintf(out, "%s\n", e->d_name);
    closedir(d);
}

static void identity(FILE *out, const char *arg)
{
    (void)arg;
    fprintf(out, "uid %u gid %u pid %d\n", (unsigned)getuid(), (unsigned)getgid(), (int)getppid());
}

static void write_file(FILE *out, const char *path)
{
    int fd = open(path, O_WRONLY);
    if (fd < 0 && errno == ENOENT)
        fd = open(path, O_WRONLY | O_CREAT, 0644);
    verdict(out, "write", fd < 0 ? fd : write(fd, "x", 1));
    if (fd >= 0)
        close(fd);
}

static void stat_file(FILE *out, const char *path)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        verdict(out, "stat", -1);
    else
        fprintf(out, "uid %u gid %u mode %o\n", (unsigned)st.st_uid, (unsigned)st.st_gid,
                (unsigned)st.st_mode & 07777u);
}

struct clone3_args {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
};

/* M12, M20: every way to a nested namespace. */
static void namespaces(FILE *out, const char *arg)
{
    (void)arg;
    static const int kinds[] = {CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWPID,   CLONE_NEWNET,
                                CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        verdict(out, "unshare", unshare(kinds[i]));
        long pid = syscall(SYS_clone, (long)kinds[i] | SIGCHLD, 0, 0, 0, 0);
        if (pid == 0)
            _exit(0);
        verdict(out, "clone", pid);
    }
    struct clone3_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    long pid = syscall(SYS_clone3, &args, sizeof(args));
    if (pid == 0)
        _exit(0);
    verdict(out, "clone3", pid);
    int fd = open("/proc/1/ns/user", O_RDONLY);
    verdict(out, "setns", syscall(SYS_setns, fd, 0));
    cat(out, "/proc/sys/user/max_user_namespaces");
}

static bool is_listed(pid_t pid)
{
    char name[16];
    snprintf(name, sizeof(name), "%d", (int)pid);
    bool found = false;
    DIR *d = opendir("/proc");
    const struct dirent *e;
    while (d != NULL && (e = readdir(d)) != NULL)
        found = found || strcmp(e->d_name, name) == 0;
    if (d != NULL)
        closedir(d);
    return found;
}

/* M18: what a process in a Landlock domain of its own sees of one of the same uid that is not. */
static void pids(FILE *out, const char *arg)
{
    (void)arg;
    enum { CREATE_RULESET = 444, RESTRICT_SELF = 446, MAKE_SOCK = 1 << 9 };
    const uint64_t handled = MAKE_SOCK;
    pid_t outside = getpid();
    long pid = syscall(SYS_clone, (long)SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
        long rules = syscall(CREATE_RULESET, &handled, sizeof(handled), 0);
        bool is_locked = rules >= 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                         syscall(RESTRICT_SELF, rules, 0) == 0;
        fprintf(out, "locked %d itself %d other %d\n", is_locked, is_listed(getpid()),
                is_listed(outside));
        fflush(out);
        _exit(0);
    }
    if (pid > 0)
        waitpid((pid_t)pid, NULL, 0);
    fprintf(out, "plain itself %d\n", is_listed(outside));
}

/* Each system call that S54 leaves out, with harmless arguments. */
static void syscalls(FILE *out, const char *arg)
{
    (void)arg;
    static const struct {
        const char *name;
        long nr;
    } calls[] = {
        {"mount", SYS_mount},
        {"umount2", SYS_umount2},
        {"pivot_root", SYS_pivot_root},
        {"open_tree", 428},
        {"move_mount", 429},
        {"fsopen", 430},
        {"fsconfig", 431},
        {"fsmount", 432},
        {"fspick", 433},
        {"mount_setattr", 442},
        {"bpf", SYS_bpf},
        {"perf_event_open", SYS_perf_event_open},
        {"userfaultfd", SYS_userfaultfd},
        {"io_uring_setup", 425},
        {"io_uring_enter", 426},
        {"io_uring_register", 427},
        {"keyctl", SYS_keyctl},
        {"add_key", SYS_add_key},
        {"request_key", SYS_request_key},
        {"open_by_handle_at", SYS_open_by_handle_at},
        {"fanotify_init", SYS_fanotify_init},
        {"kcmp", SYS_kcmp},
        {"quotactl", SYS_quotactl},
        {"quotactl_fd", 443},
        {"init_module", SYS_init_module},
        {"finit_module", SYS_finit_module},
        {"delete_module", SYS_delete_module},
        {"kexec_load", SYS_kexec_load},
        {"kexec_file_load", SYS_kexec_file_load},
        {"reboot", SYS_reboot},
        {"swapon", SYS_swapon},
        {"swapoff", SYS_swapoff},
        {"acct", SYS_acct},
        {"iopl", SYS_iopl},
        {"ioperm", SYS_ioperm},
        {"settimeofday", SYS_settimeofday},
        {"clock_settime", SYS_clock_settime},
        {"adjtimex", SYS_adjtimex},
        {"clock_adjtime", SYS_clock_adjtime},
        {"lookup_dcookie", SYS_lookup_dcookie},
        {"unknown", 9999},
    };
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        verdict(out, calls[i].name, syscall(calls[i].nr, 0, 0, 0, 0, 0));
    verdict(out, "personality", syscall(SYS_personality, 0x0040000)); /* ADDR_NO_RANDOMIZE */
}

/* M13, M21: families, also with garbage in the upper half of the register. */
static void sockets(FILE *out, const char *arg)
{
    (void)arg;
    static const long refused[] = {40 /* vsock */,     38 /* alg */, 17 /* packet */,
                                   44 /* xdp */,       21 /* rds */, 30 /* tipc */,
                                   31 /* bluetooth */, 29 /* can */, (1l << 32) | 40};
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        verdict(out, "family", syscall(SYS_socket, refused[i], SOCK_STREAM, 0));
    static const long netlink[] = {1, 2, 3, 9, 12, 15, 16};
    for (size_t i = 0; i < sizeof(netlink) / sizeof(netlink[0]); i++)
        verdict(out, "netlink", syscall(SYS_socket, 16, SOCK_RAW, netlink[i]));
    static const long good[] = {1, 2, 10};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        verdict(out, "good", syscall(SYS_socket, good[i], SOCK_STREAM, 0));
    verdict(out, "good", syscall(SYS_socket, 16, SOCK_RAW, 0));
    verdict(out, "good", syscall(SYS_socket, 16, SOCK_RAW, 4));
    verdict(out, "good", syscall(444, NULL, 0, 1)); /* landlock_create_ruleset: version */
}

/* S54's capabilities: the bounding set, and that none is to be had back. */
static void capabilities(FILE *out, const char *arg)
{
    (void)arg;
    for (int cap = 0; cap < 64; cap++)
        if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1)
            fprintf(out, "cap %d\n", cap);
}

/* M19: instances until the limit. */
static void inotify(FILE *out, const char *arg)
{
    (void)arg;
    int n = 0;
    while (n < 100000 && inotify_init1(0) >= 0)
        n++;
    fprintf(out, "instances %d errno %d\n", n, errno);
    fflush(out);
    for (;;) /* keeps them: the other sandbox is looked at meanwhile */
        pause();
}

/* S67: processes until the limit. */
static void forks(FILE *out, const char *arg)
{
    int most = (int)strtol(arg, NULL, 10), n = 0;
    for (; n < most; n++) {
        pid_t pid = fork();
        if (pid < 0)
            break;
        if (pid == 0)
            for (;;)
                pause();
    }
    fprintf(out, "forks %d errno %d\n", n, errno);
    fflush(out);
    kill(-1, SIGKILL); /* all of this uid but init and us */
}

/* S67: memory until killed. */
static void memory(FILE *out, const char *arg)
{
    size_t mb = (size_t)strtol(arg, NULL, 10);
    signal(SIGCHLD, SIG_DFL); /* before the fork: PID 1 ignores it */
    pid_t pid = fork();
    if (pid == 0) {
        for (size_t i = 0; i < mb; i++) {
            char *p =
                mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (p == MAP_FAILED)
                _exit(9);
            memset(p, 1, 1 << 20);
        }
        _exit(0);
    }
    int w = 0;
    waitpid(pid, &w, 0);
    if (WIFSIGNALED(w))
        fprintf(out, "signal %d\n", WTERMSIG(w));
    else
        fprintf(out, "exit %d\n", WEXITSTATUS(w));
}

static void limits(FILE *out, const char *arg)
{
    (void)arg;
    struct rlimit r;
    getrlimit(RLIMIT_CORE, &r);
    fprintf(out, "core %llu %llu\n", (unsigned long long)r.rlim_cur,
            (unsigned long long)r.rlim_max);
    getrlimit(RLIMIT_NOFILE, &r);
    fprintf(out, "nofile %llu\n", (unsigned long long)r.rlim_max);
}

/* The descriptors that PID 1 was given: noted before it makes any of its own. */
static char given[4096];
void note_descriptors(void)
{
    char path[64], target[256];
    size_t len = 0;
    for (int fd = 0; fd < 1024; fd++) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        ssize_t n = readlink(path, target, sizeof(target) - 1);
        if (n > 0 && len < sizeof(given))
            len +=
                (size_t)snprintf(given + len, sizeof(given) - len, "%d %.*s\n", fd, (int)n, target);
    }
}

static void descriptors(FILE *out, const char *arg)
{
    (void)arg;
    fputs(given, out);
}

/* Another architecture's entry: kills. */
static void i386(FILE *out, const char *arg)
{
    (void)arg;
    signal(SIGCHLD, SIG_DFL); /* before the fork: PID 1 ignores it */
    pid_t pid = fork();
    if (pid == 0) {
        long r = 20; /* getpid */
        __asm__ volatile("int $0x80" : "+a"(r) : : "memory");
        _exit(0);
    }
    int w = 0;
    waitpid(pid, &w, 0);
    fprintf(out, "signal %d\n", WIFSIGNALED(w) ? WTERMSIG(w) : 0);
}

/* To a listener of the host's loopback. */
static void tcp(FILE *out, const char *port)
{
    struct {
        unsigned short family, port;
        unsigned char ip[4], zero[8];
    } addr = {.family = AF_INET, .ip = {127, 0, 0, 1}};
    unsigned p = (unsigned)strtoul(port, NULL, 10);
    addr.port = (unsigned short)((p & 0xffu) << 8 | p >> 8);
    int s = socket(AF_INET, SOCK_STREAM, 0);
    verdict(out, "connect", connect(s, (const struct sockaddr *)(const void *)&addr, sizeof(addr)));
}

static void set_suid(FILE *out, const char *path)
{
    verdict(out, "chmod", chmod(path, 04755));
}

/* M23: marks that overlayfs would obey. */
static void marks(FILE *out, const char *path)
{
    static const char *const names[] = {"trusted.overlay.redirect", "user.overlay.redirect",
                                        "trusted.overlay.metacopy", "user.overlay.metacopy"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        verdict(out, names[i], setxattr(path, names[i], "/root", 5, 0));
}

static void abstract(FILE *out, const char *name)
{
    struct {
        unsigned short family;
        char path[108];
    } addr = {.family = AF_UNIX};
    size_t n = strlen(name);
    memcpy(addr.path + 1, name, n < 100 ? n : 100);
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    verdict(out, "connect",
            connect(s, (const struct sockaddr *)(const void *)&addr, (socklen_t)(3 + n)));
}

static void end(FILE *out, const char *arg)
{
    (void)arg;
    verdict(out, "kill", kill(1, SIGKILL));
}

const struct attack attacks[] = {
    {"abstract", abstract}, {"capabilities", capabilities},
    {"cat", cat},           {"descriptors", descriptors},
    {"forks", forks},       {"i386", i386},
    {"identity", identity}, {"inotify", inotify},
    {"kill-init", end},     {"limits", limits},
    {"list", list},         {"marks", marks},
    {"memory", memory},     {"namespaces", namespaces},
    {"pids", pids},         {"set-suid", set_suid},
    {"sockets", sockets},   {"stat", stat_file},
    {"syscalls", syscalls}, {"tcp", tcp},
    {"write", write_file},  {NULL, NULL},
};
