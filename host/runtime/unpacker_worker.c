/* host/runtime/unpacker_worker.c: the process that makes confined workers, and what confines them
 * (security S53): namespaces of their own with the storage range as their ids, the folder they fill
 * as their root, no network, five capabilities, limits, a system call filter. */
#include "host/runtime/unpacker_priv.h"

#include "lib/base/fd.h"
#include "lib/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <locale.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/runtime/shim/seccomp_filter.h"

#include "lib/base/banned.h"

enum { REAP_MS = 200, WORKERS_MAX = 32, CPU_LIMIT_S = 1800, CAP_LAST = 40 };
static const rlim_t FILE_LIMIT = UINT64_C(32) << 30; /* S53: unpacked 32 GiB */
static const unsigned char kept_caps[] = {CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID,
                                          CAP_SETFCAP};

struct job {
    struct abx_unpack_job what;
    abx_unpack_fn *unpack;
    int target_fd, result_fd, go_fd;
};

/* ---- in the worker ---- */
static int drop_caps(void)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{0}};
    uint64_t keep = 0;
    for (size_t i = 0; i < sizeof(kept_caps); i++)
        keep |= UINT64_C(1) << kept_caps[i];
    for (int cap = 0; cap <= CAP_LAST; cap++)
        if (!(keep & UINT64_C(1) << cap) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 &&
            errno != EINVAL)
            return -errno;
    data[0].effective = data[0].permitted = (uint32_t)keep;
    return syscall(SYS_capset, &head, data) < 0 ? -errno : 0;
}

static int limit(int what, rlim_t value)
{
    struct rlimit set = {value, value}, now;
    if (getrlimit(what, &now) == 0 && now.rlim_max < value)
        set = (struct rlimit){now.rlim_max, now.rlim_max};
    return setrlimit(what, &set) < 0 ? -errno : 0;
}

static int set_limits(void)
{
    int r = limit(RLIMIT_CPU, CPU_LIMIT_S);
    if (r == 0)
        r = limit(RLIMIT_FSIZE, FILE_LIMIT);
    if (r == 0)
        r = limit(RLIMIT_CORE, 1); /* as M24 */
    if (r == 0)
        r = limit(RLIMIT_NOFILE, 64);
#ifndef ABX_SANITIZED /* shadow memory is address space */
    if (r == 0)
        r = limit(RLIMIT_AS, UINT64_C(1) << 30);
#endif
    return r;
}

/* The folder to fill, or an empty one, becomes the root. */
static int enter_root(int target_fd)
{
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return -errno;
    if (target_fd < 0) {
        if (mount("abx", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY,
                  "size=4k,nr_inodes=2,mode=0555") < 0 ||
            chdir("/tmp") < 0)
            return -errno;
    } else if (fchdir(target_fd) < 0) {
        return -errno;
    }
    return chroot(".") < 0 || chdir("/") < 0 ? -errno : 0;
}

static int confine(const struct job *j)
{
    char go;
    if (read(j->go_fd, &go, 1) != 1)
        return -EPIPE;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || setgroups(0, NULL) < 0 ||
        setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        return -errno;
    /* Names of archives are bytes of UTF-8; the C library's tables are out of reach soon. */
    (void)setlocale(LC_CTYPE, "C.UTF-8");
    umask(0);
    int r = enter_root(j->target_fd);
    if (r == 0)
        r = set_limits();
    if (r == 0)
        r = drop_caps();
    if (r < 0)
        return r;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    struct sock_fprog prog = {sizeof(seccomp_filter) / sizeof(seccomp_filter[0]),
                              (struct sock_filter *)(uintptr_t)seccomp_filter};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0 ? -errno : 0;
}

static int worker_main(void *arg)
{
    const struct job *j = arg;
    struct abx_unpack_result *result = calloc(1, sizeof(*result));
    if (result == NULL)
        _exit(1);
    int r = confine(j);
    if (r < 0)
        abx_err_sys(&result->err, r, "confine the archive's worker");
    else
        j->unpack(&j->what, result);
    if (j->result_fd >= 0 &&
        send(j->result_fd, result, sizeof(*result), MSG_NOSIGNAL) != (ssize_t)sizeof(*result))
        _exit(1);
    _exit(0); /* not exit: a leak check could do nothing here */
}

/* ---- in the process that makes them ---- */
static int write_maps(pid_t pid, uint32_t base)
{
    static const char *const names[] = {"uid_map", "gid_map"};
    char path[64], text[48];
    snprintf(text, sizeof(text), "0 %u %d\n", base, ABX__IDS_RANGE);
    for (size_t i = 0; i < ABX_COUNTOF(names); i++) {
        snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, names[i]);
        int r = abx_fd_write_file(AT_FDCWD, path, abx_str(text));
        if (r < 0)
            return r;
    }
    return 0;
}

static int start_worker(struct job *j, uint32_t base)
{
    int go[2];
    if (pipe2(go, O_CLOEXEC) < 0)
        return -errno;
    j->go_fd = go[0];
    int keep[5] = {go[0]};
    size_t count = 1;
    const int others[] = {j->what.in_fd, j->what.out_fd, j->target_fd, j->result_fd};
    for (size_t i = 0; i < ABX_COUNTOF(others); i++)
        if (others[i] >= 0)
            keep[count++] = others[i];
    struct abx_proc_role role = {.name = "abx-unpack",
                                 .fn = worker_main,
                                 .arg = j,
                                 .keep_fds = keep,
                                 .keep_count = count,
                                 .namespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID |
                                               CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS};
    pid_t pid = abx_proc_clone_role(&role, NULL);
    int r = pid < 0 ? pid : write_maps(pid, base);
    if (r == 0 && write(go[1], "g", 1) != 1)
        r = -errno;
    close(go[0]);
    close(go[1]); /* without the word it ends */
    return r;
}

static void take_ask(const struct abx__unpacker_main *m, const struct abx__unpacker_ask *a,
                     int *fds, size_t count)
{
    bool is_copy = a->kind == ABX_UNPACK_COPY;
    bool is_pack = a->kind == ABX_PACK_LAYER || a->kind == ABX_PACK_RUNTIME;
    struct job j = {.what = {.kind = (enum abx_unpack_kind)a->kind, .in_fd = -1, .out_fd = -1},
                    .unpack = m->unpack,
                    .target_fd = -1,
                    .result_fd = -1};
    int r = -EINVAL;
    if (count == (is_copy ? 2 : 3)) {
        *(is_pack ? &j.what.out_fd : &j.what.in_fd) = fds[0];
        *(is_copy ? &j.what.out_fd : &j.target_fd) = fds[1];
        j.result_fd = is_copy ? -1 : fds[2];
        r = start_worker(&j, m->storage_base);
    }
    if (r < 0) /* whoever waits sees its socket closed */
        abx_log(ABX_LOG_WARN, "no worker for an archive errno=%d", -r);
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
}

int abx__unpacker_main(void *arg)
{
    const struct abx__unpacker_main m = *(const struct abx__unpacker_main *)arg;
    (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* else the maps of our children are not ours */
    for (int running = 0;;) {
        struct pollfd p = {running < WORKERS_MAX ? m.sock : -1, POLLIN, 0};
        int n = poll(&p, 1, running > 0 ? REAP_MS : -1);
        pid_t ended;
        while ((ended = abx_proc_reap_any(NULL)) > 0)
            running--;
        if (ended < 0) /* none is left */
            running = 0;
        if (n <= 0)
            continue;
        struct abx__unpacker_ask a = {0};
        int fds[3];
        size_t count = ABX_COUNTOF(fds);
        ssize_t len = abx_fd_recv(m.sock, &a, sizeof(a), fds, &count);
        if (len != (ssize_t)sizeof(a) || a.magic != ABX__RT_MAGIC)
            return 0; /* the runtime side is gone */
        take_ask(&m, &a, fds, count);
        running++;
    }
}
