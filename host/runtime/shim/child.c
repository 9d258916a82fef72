/* host/runtime/shim/child.c: PID 1 between its clone and its exec: ids, namespaces' knobs, mounts,
 * limits, capabilities, seccomp (security S54, S67). */
#include "host/runtime/shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct sock_filter { /* linux/filter.h; musl-gcc sees no kernel headers */
    uint16_t code;
    uint8_t jt, jf;
    uint32_t k;
};
struct sock_fprog {
    unsigned short len;
    const struct sock_filter *filter;
};
#include "host/runtime/shim/seccomp_filter.h"

#include "lib/base/banned.h"

enum {
    ARGS_MAX = 16,
    JOIN_SESSION_KEYRING = 1,
    CAP_LAST = 40,
    CLOSE_RANGE_AT_EXEC = 4,
    SYS_CLOSE_RANGE = 436,
    NEW_CGROUP = 0x02000000,
    SECCOMP_FILTER = 1
};

/* Capabilities that a sandbox keeps, inside its user namespace (S54). */
static const unsigned char kept_caps[] = {
    0,  /* CHOWN */
    1,  /* DAC_OVERRIDE */
    3,  /* FOWNER */
    4,  /* FSETID */
    5,  /* KILL */
    6,  /* SETGID */
    7,  /* SETUID */
    8,  /* SETPCAP */
    10, /* NET_BIND_SERVICE */
    18, /* SYS_CHROOT */
    29, /* AUDIT_WRITE */
    31, /* SETFCAP */
};

static int neg(int r)
{
    return r < 0 ? -errno : 0;
}

static uint64_t kept_mask(void)
{
    uint64_t m = 0;
    for (size_t i = 0; i < sizeof(kept_caps); i++)
        m |= UINT64_C(1) << kept_caps[i];
    return m;
}

static int die_with_parent(void)
{
    return neg(prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0));
}

static int become(const struct shim_start *st)
{
    /* Where the map holds one id only the kernel denies setgroups; there is nothing to drop then
     * but what the user namespace shows as 65534 anyway. */
    if (setgroups(0, NULL) < 0 && errno != EPERM)
        return -errno;
    uint32_t uid = st->prepare.uid, gid = st->prepare.gid;
    if (setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
        return -errno;
    /* A change of uid from a mapped 0 would clear the effective set: take it back. */
    int r = sys_set_caps((UINT64_C(1) << (CAP_LAST + 1)) - 1);
    return r < 0 ? r : die_with_parent(); /* the change of ids cleared that */
}

static int loopback_up(void)
{
    int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (s < 0)
        return -errno;
    struct ifreq req = {.ifr_flags = IFF_UP};
    memcpy(req.ifr_name, "lo", 3);
    int r = neg(ioctl(s, SIOCSIFFLAGS, &req));
    close(s);
    return r;
}

static int limit(int what, rlim_t value)
{
    struct rlimit now;
    if (getrlimit(what, &now) < 0)
        return -errno;
    if (value > now.rlim_max)
        value = now.rlim_max;
    struct rlimit set = {value, value};
    return neg(setrlimit(what, &set));
}

static int limits(const struct shim_start *st)
{
    int r = limit(RLIMIT_CORE, 1); /* 0 does not stop a piped core_pattern (M24) */
    if (r == 0 && st->head.nofile > 0)
        r = limit(RLIMIT_NOFILE, st->head.nofile);
    if (r == 0 && st->head.nproc > 0)
        r = limit(RLIMIT_NPROC, st->head.nproc);
    return r;
}

/* What an exec may not give back. Needs SETPCAP only, so it is done ahead of need. */
static int drop_bounding_set(void)
{
    uint64_t keep = kept_mask();
    for (int cap = 0; cap < 64; cap++) {
        if (keep & UINT64_C(1) << cap)
            continue;
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno != EINVAL)
            return -errno;
    }
    return 0;
}

static int drop_caps_and_filter(void)
{
    int r = die_with_parent();
    if (r < 0)
        return r;
    /* Without no_new_privs (sudo must work): needs the CAP_SYS_ADMIN that goes right after. */
    struct sock_fprog prog = {sizeof(seccomp_filter) / sizeof(seccomp_filter[0]), seccomp_filter};
    if (syscall(SYS_seccomp, SECCOMP_FILTER, 0, &prog) < 0)
        return -errno;
    return sys_set_caps(kept_mask());
}

/* 0 null, 1 and 2 the log pipe, 3 the gateway's socket; the rest closes at exec. */
static int descriptors(const struct shim_start *st)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0)
        return -errno;
    int gateway = fcntl(st->fds[ABX_SHIM_FD_GATEWAY], F_DUPFD_CLOEXEC, 16);
    int log = fcntl(st->log_fd, F_DUPFD_CLOEXEC, 16);
    if (gateway < 0 || log < 0 || dup2(null, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0 ||
        dup2(gateway, 3) < 0)
        return -errno;
    return neg((int)syscall(SYS_CLOSE_RANGE, 4u, ~0u, CLOSE_RANGE_AT_EXEC));
}

int shim_await(int sync_fd, enum shim_sync what)
{
    char got;
    return read(sync_fd, &got, 1) == 1 && got == (char)what ? 0 : -EPIPE;
}

/* *root: where targets are; -1 until ABX_SHIM_ROOT has made it. */
static int execute(const struct shim_start *st, struct shim_records records, int *root,
                   struct shim_failure *f)
{
    struct shim_op op;
    size_t pos = 0;
    int more;
    while ((more = shim_op_next(&records, &pos, &op)) > 0) {
        int r = 0;
        if (op.kind == ABX_SHIM_CGROUP_NS)
            r = neg(unshare(NEW_CGROUP)); /* its root is the cgroup that we are in */
        else if (op.kind == ABX_SHIM_ROOT)
            r = shim_mount_root(st, op.b, root);
        else if (op.kind == ABX_SHIM_HOSTNAME)
            r = neg(sethostname(op.a, strlen(op.a)));
        else if (op.kind > ABX_SHIM_ROOT && op.kind < ABX_SHIM_ARG)
            r = *root < 0 ? -EINVAL : shim_mount_op(st, *root, &op);
        if (r < 0)
            return shim_fail(f, r, "prepare", *op.a ? op.a : "overlay");
    }
    return more < 0 || *root < 0 ? shim_fail(f, -EINVAL, "operations", "") : 0;
}

/* Makes the root by the records of one message and enters it. */
static int enter_root(const struct shim_start *st, struct shim_records records,
                      struct shim_failure *f)
{
    int root = -1, r = execute(st, records, &root, f);
    if (r < 0)
        return r;
    r = shim_mount_pivot(records, root);
    close(root);
    return r < 0 ? shim_fail(f, r, "pivot_root", "") : 0;
}

static int collect(const struct shim_start *st, enum abx_shim_op_kind kind,
                   const char *out[ARGS_MAX + 1])
{
    struct shim_records records = shim_records(st);
    struct shim_op op;
    size_t pos = 0, n = 0;
    while (shim_op_next(&records, &pos, &op) > 0) {
        if (op.kind != kind)
            continue;
        if (n == ARGS_MAX)
            return -E2BIG;
        out[n++] = op.a;
    }
    out[n] = NULL;
    return (int)n;
}

static int run(const struct shim_start *st, struct shim_failure *f)
{
    signal(SIGPIPE, SIG_DFL);
    const char *argv[ARGS_MAX + 1], *envp[ARGS_MAX + 1];
    if (collect(st, ABX_SHIM_ARG, argv) < 1 || collect(st, ABX_SHIM_ENV, envp) < 0)
        return shim_fail(f, -EINVAL, "arguments", "");
    /* execve wants char *const[]; it does not write through them */
    union {
        const char **in;
        char **out;
    } a = {argv}, e = {envp};
    execve(argv[0], a.out, e.out);
    return shim_fail(f, -errno, "exec", argv[0]);
}

int shim_stage(struct shim_start *st, struct shim_failure *f)
{
    int r = become(st);
    if (r < 0)
        return shim_fail(f, r, "set ids", "");
    umask(0);
    if (setsid() < 0 && errno != EPERM)
        return shim_fail(f, -errno, "session", "");
    r = loopback_up();
    if (r < 0)
        return shim_fail(f, r, "loopback", "");
    if (syscall(SYS_keyctl, JOIN_SESSION_KEYRING, NULL, 0, 0, 0) < 0 && errno != ENOSYS)
        return shim_fail(f, -errno, "session keyring", "");
    r = shim_mount_stage(&st->stage_fd);
    if (r < 0)
        return shim_fail(f, r, "stage", "");
    r = st->is_rooted ? enter_root(st, shim_stage_records(st), f)
                      : execute(st, shim_stage_records(st), &st->stage_fd, f);
    if (r < 0)
        return r;
    r = drop_bounding_set();
    return r < 0 ? shim_fail(f, r, "bounding set", "") : 0;
}

/* What is left to do in a root that was made ahead. */
static int finish_root(const struct shim_start *st, struct shim_failure *f)
{
    int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return shim_fail(f, -errno, "root", "");
    int r = execute(st, shim_records(st), &root, f);
    close(root);
    return r;
}

int shim_child(const struct shim_start *st, struct shim_failure *f)
{
    int r = st->is_rooted ? finish_root(st, f) : enter_root(st, shim_records(st), f);
    if (r < 0)
        return r;
    umask(022);
    r = limits(st);
    if (r < 0)
        return shim_fail(f, r, "limits", "");
    r = descriptors(st);
    if (r < 0)
        return shim_fail(f, r, "descriptors", "");
    r = drop_caps_and_filter();
    if (r < 0)
        return shim_fail(f, r, "capabilities and seccomp", "");
    r = shim_await(st->sync_fd, SHIM_SYNC_GO);
    if (r < 0)
        return shim_fail(f, r, "limits of the cgroups", "");
    return run(st, f);
}
