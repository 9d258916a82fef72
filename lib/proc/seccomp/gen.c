/* lib/proc/seccomp/gen.c: build tool: prints the seccomp filters of confined processes (security
 * S04, S05, S06) as C arrays, one for each thing that is taken away. All of them allow what they do
 * not name, are for x86-64 only (another architecture, and x32, kill) and stack: the kernel takes
 * the strictest answer.
 *
 * Arguments that the kernel reads as 32 bits are compared as 32 bits, so that garbage in the upper
 * half of a register changes nothing. A set is refused by its complement: each small number that is
 * not in it, and every number with a bit above the small ones. */
#include <errno.h>
#include <linux/filter.h>
#include <seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/banned.h"

#define LOW_HALF       0xffffffffULL
#define COUNT(a)       (sizeof(a) / sizeof((a)[0]))
#define DENIED(e)      SCMP_ACT_ERRNO(e)
#define IS(arg, value) SCMP_CMP64(arg, SCMP_CMP_MASKED_EQ, LOW_HALF, value)
#define HAS(arg, bits) SCMP_CMP64(arg, SCMP_CMP_MASKED_EQ, bits, bits)

enum {
    FAMILY_UNIX = 1,
    FAMILY_INET = 2,
    FAMILY_INET6 = 10,
    FAMILY_NETLINK = 16,
    TYPE_STREAM = 1,
    TYPE_DGRAM = 2,
    TYPE_MASK = 0xf,
    SMALL = 64, /* families and protocols below it are named one by one */
    FASTOPEN = 0x20000000
};

static int rule(scmp_filter_ctx ctx, uint32_t action, int nr, unsigned n,
                const struct scmp_arg_cmp *args)
{
    return seccomp_rule_add_array(ctx, action, nr, n, args);
}

static int deny_if(scmp_filter_ctx ctx, int errnum, int nr, struct scmp_arg_cmp a)
{
    return rule(ctx, DENIED(errnum), nr, 1, &a);
}

/* ---- every confined process; all but making namespaces ---- */

static const struct {
    const char *name;
    int errnum;
} refused[] = {
    {"mount", EPERM},
    {"umount2", EPERM},
    {"pivot_root", EPERM},
    {"fsopen", EPERM},
    {"fsconfig", EPERM},
    {"fsmount", EPERM},
    {"fspick", EPERM},
    {"open_tree", EPERM},
    {"move_mount", EPERM},
    {"mount_setattr", EPERM},
    {"setns", EPERM},
    {"bpf", EPERM},
    {"perf_event_open", EPERM},
    {"userfaultfd", EPERM},
    {"keyctl", EPERM},
    {"add_key", EPERM},
    {"request_key", EPERM},
    {"open_by_handle_at", EPERM},
    {"init_module", EPERM},
    {"finit_module", EPERM},
    {"delete_module", EPERM},
    {"kexec_load", EPERM},
    {"kexec_file_load", EPERM},
    {"swapon", EPERM},
    {"swapoff", EPERM},
    {"acct", EPERM},
    {"quotactl", EPERM},
    {"quotactl_fd", EPERM},
    {"fanotify_init", EPERM},
    {"process_vm_readv", EPERM},
    {"process_vm_writev", EPERM},
    {"process_madvise", EPERM},
    {"pidfd_getfd", EPERM},
    {"kcmp", EPERM},
    /* What falls back to another call when it is missing. */
    {"clone3", ENOSYS},
    {"io_uring_setup", ENOSYS},
    {"io_uring_enter", ENOSYS},
    {"io_uring_register", ENOSYS},
};

enum {
    PRIO_OF_PROCESS = 0,
    IOPRIO_OF_PROCESS = 1,
    PTRACE_REQUEST_ATTACH = 16,
    PTRACE_REQUEST_SEIZE = 0x4206
};

/* Flags that make namespaces; NEW_TIME for unshare, in those of clone it is part of a number. */
enum {
    NEW_TIME = 0x00000080,
    NEW_MOUNTS = 0x00020000,
    NEW_CGROUPS = 0x02000000,
    NEW_UTS = 0x04000000,
    NEW_IPC = 0x08000000,
    NEW_USER = 0x10000000,
    NEW_PIDS = 0x20000000,
    NEW_NET = 0x40000000,
    NEW_ANY = NEW_MOUNTS | NEW_CGROUPS | NEW_UTS | NEW_IPC | NEW_USER | NEW_PIDS | NEW_NET,
    /* What Chromium's own sandbox is made of (security S19): its zygote is cloned into all three,
     * and asks first, by an unshare, whether it may make the first. */
    CHROMIUM_CLONES = NEW_USER | NEW_PIDS | NEW_NET,
    CHROMIUM_UNSHARES = NEW_USER
};
static const unsigned terminal_requests[] = {0x5412 /* TIOCSTI */, 0x541C /* TIOCLINUX */,
                                             0x541D /* TIOCCONS */};

/* @allowed alone: every other value of the low half of the argument is refused. */
static int deny_all_but(scmp_filter_ctx ctx, int nr, unsigned arg, unsigned allowed)
{
    int r = 0;
    for (unsigned bit = 0; bit < 32; bit++) {
        unsigned mask = 1U << bit;
        r |= deny_if(ctx, EPERM, nr, SCMP_CMP64(arg, SCMP_CMP_MASKED_EQ, mask, ~allowed & mask));
    }
    return r;
}

static int deny_flags(scmp_filter_ctx ctx, int nr, unsigned flags)
{
    int r = 0;
    for (unsigned bit = 1; bit != 0; bit <<= 1)
        if (flags & bit)
            r |= deny_if(ctx, EPERM, nr, HAS(0, bit));
    return r;
}

static int fill_common(scmp_filter_ctx ctx)
{
    int r = 0;
    for (size_t i = 0; i < COUNT(refused); i++) {
        int nr = seccomp_syscall_resolve_name(refused[i].name);
        if (nr == __NR_SCMP_ERROR) {
            fprintf(stderr, "gen-confine: no such system call: %s\n", refused[i].name);
            return -1;
        }
        r |= rule(ctx, DENIED(refused[i].errnum), nr, 0, NULL);
    }
    for (size_t i = 0; i < COUNT(terminal_requests); i++)
        r |= deny_if(ctx, EPERM, SCMP_SYS(ioctl), IS(1, terminal_requests[i]));
    r |= deny_if(ctx, EPERM, SCMP_SYS(ptrace), IS(0, PTRACE_REQUEST_ATTACH));
    r |= deny_if(ctx, EPERM, SCMP_SYS(ptrace), IS(0, PTRACE_REQUEST_SEIZE));
    r |= deny_all_but(ctx, SCMP_SYS(prlimit64), 0, 0);
    r |= deny_all_but(ctx, SCMP_SYS(move_pages), 0, 0);
    r |= deny_all_but(ctx, SCMP_SYS(migrate_pages), 0, 0);
    r |= deny_all_but(ctx, SCMP_SYS(setpriority), 0, PRIO_OF_PROCESS);
    return r | deny_all_but(ctx, SCMP_SYS(ioprio_set), 0, IOPRIO_OF_PROCESS);
}

static int fill_base(scmp_filter_ctx ctx)
{
    int r = fill_common(ctx) | rule(ctx, DENIED(EPERM), SCMP_SYS(chroot), 0, NULL);
    r |= deny_flags(ctx, SCMP_SYS(clone), NEW_ANY);
    return r | deny_flags(ctx, SCMP_SYS(unshare), NEW_ANY | NEW_TIME);
}

/* Of Chromium: chroot too, which empties the root of what it locks up. */
static int fill_chromium(scmp_filter_ctx ctx)
{
    int r = fill_common(ctx) | deny_flags(ctx, SCMP_SYS(clone), NEW_ANY & ~CHROMIUM_CLONES);
    return r | deny_flags(ctx, SCMP_SYS(unshare), (NEW_ANY | NEW_TIME) & ~CHROMIUM_UNSHARES);
}

/* ---- where TCP ports are bounded: what Landlock does not look at ---- */

static int is_in(unsigned value, const unsigned *set, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (set[i] == value)
            return 1;
    return 0;
}

static int deny_other_families(scmp_filter_ctx ctx)
{
    static const unsigned known[] = {FAMILY_UNIX, FAMILY_INET, FAMILY_INET6, FAMILY_NETLINK};
    int nr = SCMP_SYS(socket), r = 0;
    for (unsigned f = 0; f < SMALL; f++)
        if (!is_in(f, known, COUNT(known)))
            r |= deny_if(ctx, EAFNOSUPPORT, nr, IS(0, f));
    for (unsigned bit = SMALL; bit != 0; bit <<= 1)
        r |= deny_if(ctx, EAFNOSUPPORT, nr, HAS(0, bit));
    return r;
}

static int deny_protocols(scmp_filter_ctx ctx, unsigned family, int type, const unsigned *known,
                          size_t n)
{
    struct scmp_arg_cmp args[] = {
        IS(0, family), SCMP_CMP64(1, SCMP_CMP_MASKED_EQ, TYPE_MASK, (unsigned)type), IS(2, 0)};
    unsigned used = type < 0 ? 1 : 0; /* of any type: leave that comparison out */
    int r = 0;
    if (used)
        args[1] = args[0];
    for (unsigned p = 0; p < SMALL; p++) {
        args[2] = IS(2, p);
        if (!is_in(p, known, n))
            r |= rule(ctx, DENIED(EPROTONOSUPPORT), SCMP_SYS(socket), 3 - used, args + used);
    }
    for (unsigned bit = SMALL; bit != 0; bit <<= 1) {
        args[2] = HAS(2, bit);
        r |= rule(ctx, DENIED(EPROTONOSUPPORT), SCMP_SYS(socket), 3 - used, args + used);
    }
    return r;
}

static int fill_network(scmp_filter_ctx ctx)
{
    static const unsigned families[] = {FAMILY_INET, FAMILY_INET6};
    static const unsigned stream[] = {0, 6 /* TCP; not MPTCP, SCTP, SMC */};
    static const unsigned dgram[] = {0, 17 /* UDP */, 1 /* ping */, 58 /* ping of IPv6 */};
    static const unsigned netlink[] = {0 /* route */, 4 /* sock_diag */};
    int r = deny_other_families(ctx);
    for (size_t i = 0; i < COUNT(families); i++) {
        r |= deny_protocols(ctx, families[i], TYPE_STREAM, stream, COUNT(stream));
        r |= deny_protocols(ctx, families[i], TYPE_DGRAM, dgram, COUNT(dgram));
        for (unsigned type = 0; type <= TYPE_MASK; type++) {
            struct scmp_arg_cmp args[] = {IS(0, families[i]),
                                          SCMP_CMP64(1, SCMP_CMP_MASKED_EQ, TYPE_MASK, type)};
            if (type != TYPE_STREAM && type != TYPE_DGRAM)
                r |= rule(ctx, DENIED(EPERM), SCMP_SYS(socket), 2, args);
        }
    }
    r |= deny_protocols(ctx, FAMILY_NETLINK, -1, netlink, COUNT(netlink));
    r |= deny_if(ctx, EOPNOTSUPP, SCMP_SYS(sendto), HAS(3, FASTOPEN));
    r |= deny_if(ctx, EOPNOTSUPP, SCMP_SYS(sendmsg), HAS(2, FASTOPEN));
    return r | deny_if(ctx, EOPNOTSUPP, SCMP_SYS(sendmmsg), HAS(3, FASTOPEN));
}

static int fill_no_udp(scmp_filter_ctx ctx)
{
    static const unsigned families[] = {FAMILY_INET, FAMILY_INET6};
    int r = 0;
    for (size_t i = 0; i < COUNT(families); i++) {
        struct scmp_arg_cmp args[] = {IS(0, families[i]),
                                      SCMP_CMP64(1, SCMP_CMP_MASKED_EQ, TYPE_MASK, TYPE_DGRAM)};
        r |= rule(ctx, DENIED(EPERM), SCMP_SYS(socket), 2, args);
    }
    return r;
}

/* What else leads to processes of the same user that are none of ours: the kernel has one table of
 * it for all of them, and asks for the user alone. */
static const int shared_calls[] = {
    SCMP_SYS(shmget),     SCMP_SYS(shmat),   SCMP_SYS(shmctl),   SCMP_SYS(msgget), SCMP_SYS(msgsnd),
    SCMP_SYS(msgrcv),     SCMP_SYS(msgctl),  SCMP_SYS(semget),   SCMP_SYS(semop),  SCMP_SYS(semctl),
    SCMP_SYS(semtimedop), SCMP_SYS(mq_open), SCMP_SYS(mq_unlink)};

static int fill_no_unix(scmp_filter_ctx ctx) /* socketpair stays */
{
    int r = deny_if(ctx, EPERM, SCMP_SYS(socket), IS(0, FAMILY_UNIX));
    for (size_t i = 0; i < COUNT(shared_calls); i++)
        r |= rule(ctx, DENIED(ENOSYS), shared_calls[i], 0, NULL);
    return r;
}

static int fill_no_listen(scmp_filter_ctx ctx)
{
    return rule(ctx, DENIED(EPERM), SCMP_SYS(listen), 0, NULL);
}

/* ---- printing ---- */

static const struct {
    const char *name;
    int (*fill)(scmp_filter_ctx ctx);
} filters[] = {{"base", fill_base},     {"chromium", fill_chromium}, {"network", fill_network},
               {"no_udp", fill_no_udp}, {"no_unix", fill_no_unix},   {"no_listen", fill_no_listen}};

static int print_filter(const char *name, int fd)
{
    struct sock_filter f;
    if (lseek(fd, 0, SEEK_SET) < 0)
        return -1;
    printf("static const struct sock_filter confine_%s[] = {\n", name);
    while (read(fd, &f, sizeof(f)) == (ssize_t)sizeof(f))
        printf("    {0x%02x, %u, %u, 0x%08x},\n", f.code, f.jt, f.jf, f.k);
    puts("};");
    return 0;
}

static int make_filter(const char *name, int (*fill)(scmp_filter_ctx))
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
    int fd = memfd_create("filter", MFD_CLOEXEC);
    int r = ctx == NULL || fd < 0 ? -1 : 0;
    if (r == 0)
        r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) |
            seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2) | /* a binary tree */
            fill(ctx);
    if (r == 0)
        r = seccomp_export_bpf(ctx, fd) | print_filter(name, fd);
    if (ctx)
        seccomp_release(ctx);
    if (fd >= 0)
        close(fd);
    return r;
}

int main(void)
{
    puts("/* generated by lib/proc/seccomp/gen.c; do not edit */");
    for (size_t i = 0; i < COUNT(filters); i++)
        if (make_filter(filters[i].name, filters[i].fill) != 0) {
            fprintf(stderr, "gen-confine: the filter %s can not be made\n", filters[i].name);
            return 1;
        }
    return 0;
}
