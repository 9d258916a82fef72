/* host/engine/confine.c: the network side gives up what it does not need (security S66).
 *
 * Once, after the listeners are bound and before the loop and its pool threads exist, so that every
 * thread inherits it. */
#include "host/engine/startup_priv.h"

#include "lib/base/assert.h"
#include "lib/base/err.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/landlock.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { NETWORK_ID = 61230, LAST_CAPABILITY = 63, PASSWD_MAX = 1024 * 1024 };

/* /etc/passwd is read directly: a static program has no NSS. */
void abx__network_identity(uid_t *ret_uid, gid_t *ret_gid)
{
    ABX_AUTO_FREE char *text = NULL;
    size_t len = 0;
    unsigned uid = 0, gid = 0;
    *ret_uid = geteuid() == 0 ? NETWORK_ID : geteuid();
    *ret_gid = geteuid() == 0 ? NETWORK_ID : getegid();
    if (geteuid() != 0 || abx_fd_read_file(AT_FDCWD, "/etc/passwd", PASSWD_MAX, &text, &len) < 0)
        return;
    struct abx_str rest = abx_str_n(text, len), line;
    while (abx_str_split(&rest, '\n', &line)) {
        if (!abx_str_starts(line, "abx:"))
            continue;
        char entry[256];
        if (abx_str_to_c(line, entry, sizeof(entry)) == 0 &&
            sscanf(entry, "abx:%*[^:]:%u:%u:", &uid, &gid) == 2 && uid != 0 && gid != 0) {
            *ret_uid = uid;
            *ret_gid = gid;
        }
        return;
    }
}

static int drop_root(uid_t uid, gid_t gid, struct abx_error *err)
{
    for (unsigned long cap = 0; cap <= LAST_CAPABILITY; cap++) {
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno != EINVAL)
            return abx_err_sys(err, -errno, "drop capability %lu", cap);
    }
    if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
        return abx_err_sys(err, -errno, "become uid %u", (unsigned)uid);
    if (setresuid(0, 0, 0) == 0)
        return abx_err_set(err, ABX_INTERNAL, "root came back after it was given up");
    return 0;
}

/* Beyond the headers of Linux 6.1: access by ABI, oldest first. */
static const struct {
    int abi;
    unsigned long long fs;
} fs_rights[] = {
    {1, (1ULL << 13) - 1}, /* execute .. make_sym */
    {2, 1ULL << 13},       /* refer */
    {3, 1ULL << 14},       /* truncate */
    {5, 1ULL << 15},       /* ioctl_dev */
};
enum { NET_ABI = 4, NET_BOTH = 3, SCOPE_ABI = 6, SCOPE_BOTH = 3 };

struct ruleset {
    unsigned long long fs, net, scoped;
};

/* Files of the database: read, written, made, removed, truncated. */
static unsigned long long db_rights(unsigned long long handled)
{
    return handled & (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR |
                      LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG |
                      LANDLOCK_ACCESS_FS_REMOVE_FILE | 1ULL << 14);
}

static int allow(int ruleset_fd, int fd, unsigned long long rights, struct abx_error *err)
{
    struct landlock_path_beneath_attr rule = {.allowed_access = rights, .parent_fd = fd};
    if (syscall(SYS_landlock_add_rule, ruleset_fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
        return abx_err_sys(err, -errno, "landlock: add rule");
    return 0;
}

/* LeakSanitizer reads /proc of its own process at exit. */
static int allow_sanitizer(int ruleset_fd, struct abx_error *err)
{
#ifdef ABX_SANITIZED
    ABX_AUTO_FD proc = open("/proc", O_PATH | O_CLOEXEC);
    return proc < 0 ? 0
                    : allow(ruleset_fd, proc,
                            LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR, err);
#else
    (void)ruleset_fd;
    (void)err;
    return 0;
#endif
}

static int restrict_files(int db_fd, struct abx_error *err)
{
    struct ruleset attr = {0};
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (abi < 0) {
        abx_log(ABX_LOG_WARN, "landlock is not available: the network side keeps its file access");
        return 0;
    }
    for (size_t i = 0; i < ABX_COUNTOF(fs_rights); i++)
        attr.fs |= abi >= fs_rights[i].abi ? fs_rights[i].fs : 0;
    attr.net = abi >= NET_ABI ? NET_BOTH : 0;
    attr.scoped = abi >= SCOPE_ABI ? SCOPE_BOTH : 0;
    size_t size = abi >= SCOPE_ABI ? sizeof(attr) : abi >= NET_ABI ? 16 : 8;
    ABX_AUTO_FD fd = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
    if (fd < 0)
        return abx_err_sys(err, -errno, "landlock: create ruleset");
    if (allow(fd, db_fd, db_rights(attr.fs), err) < 0 || allow_sanitizer(fd, err) < 0)
        return -1;
    if (syscall(SYS_landlock_restrict_self, fd, 0) < 0)
        return abx_err_sys(err, -errno, "landlock: restrict self");
    return 0;
}

int abx__confine(uid_t uid, gid_t gid, int db_fd, struct abx_error *err)
{
    if (geteuid() == 0 && drop_root(uid, gid, err) < 0)
        return -1;
#ifdef ABX_SANITIZED
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* as above: it attaches to its own process */
#endif
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return abx_err_sys(err, -errno, "no_new_privs");
    return restrict_files(db_fd, err);
}
