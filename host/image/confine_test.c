/* host/image/confine_test.c: what an archive's worker can do when it has been taken over (security
 * S53): the attack is what it runs instead of unpacking, and reports in the image's text. */
#include "host/image/testkit_priv.h"
#include "host/runtime/unpack.h"

#include <arpa/inet.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include "lib/base/banned.h"

static uint16_t host_port; /* of a listener outside */

/* "NAME=ERRNO;", 0 for what went through. */
static void note(struct abx_unpack_result *ret, const char *name, long result)
{
    size_t at = ret->config_bytes;
    int n = snprintf(ret->config + at, sizeof(ret->config) - at, "%s=%d;", name,
                     result < 0 ? errno : 0);
    ret->config_bytes += n > 0 ? (uint32_t)n : 0;
}

static void try_files(struct abx_unpack_result *ret)
{
    note(ret, "shadow", open("/etc/shadow", O_RDONLY));
    note(ret, "up", open("../../../../../etc/passwd", O_RDONLY));
    note(ret, "proc", open("/proc/self/status", O_RDONLY));
    note(ret, "dev", open("/dev/null", O_RDWR));
    note(ret, "device", mknod("/l0/null", S_IFCHR | 0666, makedev(1, 3)));
    note(ret, "chown", chown("/l0", 70000, 70000));
    note(ret, "chroot", chroot("/l0"));
    note(ret, "trusted", syscall(SYS_setxattr, "/l0", "trusted.x", "y", 1, 0));
}

static void try_network(struct abx_unpack_result *ret)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(host_port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un abstract = {.sun_family = AF_UNIX, .sun_path = "\0abx-confine-test"};
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int u = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    note(ret, "connect", s < 0 ? -1 : connect(s, (struct sockaddr *)&to, sizeof(to)));
    note(ret, "abstract", u < 0 ? -1 : connect(u, (struct sockaddr *)&abstract, sizeof(abstract)));
    note(ret, "vsock", socket(AF_VSOCK, SOCK_STREAM, 0));
}

static void try_powers(struct abx_unpack_result *ret)
{
    note(ret, "mount", mount("x", "/", "tmpfs", 0, NULL));
    note(ret, "userns", unshare(CLONE_NEWUSER));
    note(ret, "mountns", unshare(CLONE_NEWNS));
    note(ret, "bpf", syscall(SYS_bpf, 0, NULL, 0));
    note(ret, "keyctl", syscall(SYS_keyctl, 0, 0, 0, 0, 0));
    note(ret, "uring", syscall(SYS_io_uring_setup, 1, NULL));
    note(ret, "setuid", setresuid(70000, 70000, 70000));
    note(ret, "hostname", sethostname("x", 1));
}

static bool is_below(int resource, rlim_t most)
{
    struct rlimit r;
    return getrlimit((__rlimit_resource_t)resource, &r) == 0 && r.rlim_max <= most;
}

static uint64_t capabilities(void)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{0}};
    if (syscall(SYS_capget, &head, data) < 0)
        return UINT64_MAX;
    return data[0].permitted | (uint64_t)data[1].permitted << 32;
}

/* Folders that are open here, but for the one that is the root. */
static int foreign_folders(void)
{
    struct stat root, st;
    int count = 0;
    if (stat("/", &root) < 0)
        return -1;
    for (int fd = 0; fd < 256; fd++)
        count += fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) &&
                 (st.st_dev != root.st_dev || st.st_ino != root.st_ino);
    return count;
}

static void attack(const struct abx_unpack_job *job, struct abx_unpack_result *ret)
{
    const uint64_t allowed = 1U << CAP_CHOWN | 1U << CAP_DAC_OVERRIDE | 1U << CAP_FOWNER |
                             1U << CAP_FSETID | 1U << CAP_SETFCAP;
    (void)job;
    if (mkdir("l0", 0755) < 0) {
        abx_err_sys(&ret->err, -errno, "the folder is not there");
        return;
    }
    ret->layer_count = 1;
    memset(ret->layers[0].digest.bytes, 5, ABX_DIGEST_LEN);
    try_files(ret);
    try_network(ret);
    try_powers(ret);
    errno = 0;
    note(ret, "pid1", getpid() == 1 ? 0 : -1);
    note(ret, "caps", (capabilities() & ~allowed) == 0 ? 0 : -1);
    note(ret, "folders", foreign_folders() == 0 ? 0 : -1);
    note(ret, "cpu", is_below(RLIMIT_CPU, 1800) ? 0 : -1);
    note(ret, "fsize", is_below(RLIMIT_FSIZE, (rlim_t)32 << 30) ? 0 : -1);
    note(ret, "nofile", is_below(RLIMIT_NOFILE, 64) ? 0 : -1);
    note(ret, "core", is_below(RLIMIT_CORE, 1) ? 0 : -1);
#ifndef ABX_SANITIZED /* shadow memory is address space */
    note(ret, "memory", is_below(RLIMIT_AS, (rlim_t)1 << 30) ? 0 : -1);
#else
    note(ret, "memory", 0);
#endif
}

/* What must have come out: must_fail, or a condition that holds (0). */
static const struct {
    const char *name;
    bool must_fail;
} rows[] = {
    {"shadow", true}, {"up", true},       {"proc", true},    {"dev", true},      {"device", true},
    {"chown", true},  {"chroot", true},   {"trusted", true}, {"connect", true},  {"abstract", true},
    {"vsock", true},  {"mount", true},    {"userns", true},  {"mountns", true},  {"bpf", true},
    {"keyctl", true}, {"uring", true},    {"setuid", true},  {"hostname", true}, {"pid1", false},
    {"caps", false},  {"folders", false}, {"cpu", false},    {"fsize", false},   {"nofile", false},
    {"core", false},  {"memory", false},
};

static char told[4096];

static void on_result(void *arg, const struct abx_import_result *r, const struct abx_error *err)
{
    if (r != NULL)
        (void)abx_str_to_c(r->config, told, sizeof(told));
    kit_end(arg, err);
}

static int listen_outside(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un abstract = {.sun_family = AF_UNIX, .sun_path = "\0abx-confine-test"};
    socklen_t len = sizeof(at);
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int u = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0 || u < 0 || bind(s, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(s, 8) < 0 ||
        getsockname(s, (struct sockaddr *)&at, &len) < 0)
        return -1;
    (void)bind(u, (struct sockaddr *)&abstract,
               sizeof(abstract)); /* another run may hold it: as well */
    (void)listen(u, 8);
    host_port = ntohs(at.sin_port);
    return 0;
}

static int body_attack(struct kit *k)
{
    CHECK(listen_outside() == 0);
    k->unpack = attack;
    CHECK(kit_start(k) == 0);
    k->done = false;
    abx_runtime_import(k->rt, ABX_IMPORT_ROOTFS, memfd_create("x", MFD_CLOEXEC), on_result, k);
    CHECK(kit_wait(k) == 0);
    snprintf(k->text, sizeof(k->text), "%s", told);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char want[40];
        snprintf(want, sizeof(want), "%s%s=", i ? ";" : "", rows[i].name);
        const char *at = strstr(told, want);
        CHECK(at != NULL);
        bool failed = at[strlen(want)] != '0';
        if (failed != rows[i].must_fail)
            snprintf(k->text, sizeof(k->text), "%s of %s", rows[i].name, told);
        CHECK(failed == rows[i].must_fail);
    }
    CHECK(kit_stop(k) == 0);
    return 0;
}

TEST(t_sec_s53_a_worker_that_was_taken_over)
{
    kit_run(false, body_attack);
}

TEST(t_sec_s53_a_worker_that_was_taken_over_as_a_user)
{
    kit_run(true, body_attack);
}

/* One that dies, and one that lies: an error each, and the next import is served. */
static void die(const struct abx_unpack_job *job, struct abx_unpack_result *ret)
{
    (void)job;
    (void)ret;
    abort();
}

static void lie(const struct abx_unpack_job *job, struct abx_unpack_result *ret)
{
    (void)job;
    ret->layer_count = ABX_LAYERS_MAX + 1;
}

static void tell_of_nothing(const struct abx_unpack_job *job, struct abx_unpack_result *ret)
{
    (void)job;
    ret->layer_count = 1; /* there is no l0 */
    memset(ret->layers[0].digest.bytes, 6, ABX_DIGEST_LEN);
}

static int body_lies(struct kit *k)
{
    static abx_unpack_fn *const liars[] = {die, lie, tell_of_nothing};
    for (size_t i = 0; i < sizeof(liars) / sizeof(liars[0]); i++) {
        k->unpack = liars[i];
        CHECK(kit_start(k) == 0);
        CHECK(kit_import(k, ABX_IMPORT_ROOTFS, memfd_create("x", MFD_CLOEXEC)) < 0);
        CHECK(kit_import(k, ABX_IMPORT_ROOTFS, memfd_create("x", MFD_CLOEXEC)) < 0);
        CHECK(k->err.msg[0] != 0 && !k->lost);
        CHECK(kit_stop(k) == 0);
    }
    return 0;
}

TEST(t_sec_s53_a_worker_that_dies_or_lies)
{
    kit_run(false, body_lies);
}
