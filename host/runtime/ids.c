/* host/runtime/ids.c: whose ids a sandbox has (security S51, S55, S58), and the runtime side's own
 * namespaces: "root in its user namespace" at every level, so the rest of the code is the same. */
#include "host/runtime/runtime_priv.h"

#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/contract/contract.h"
#include "lib/proc/userns.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

const char *const abx__ids_names[] = {
    [ABX__IDS_PRIVATE] = "private", [ABX__IDS_SUBUID] = "subuid", [ABX__IDS_SHARED] = "shared-uid"};
_Static_assert(ABX_COUNTOF(abx__ids_names) == ABX__IDS__COUNT, "one name per level");

enum { SUBID_MAX = 1024 * 1024 };

/* What runs as the child of abx__ids_map_child(). */
struct map_exec {
    const char *program, *owner, *base;
    char pid[16];
};

static int exec_map(void *arg)
{
    const struct map_exec *m = arg;
    execl(m->program, m->program, m->pid, "0", m->owner, "1", "1", m->base, "65536", (char *)NULL);
    return 127;
}

/* The name of @uid in /etc/passwd, or "". Read by hand: no NSS in a static binary. */
static void user_name(uid_t uid, char out[64])
{
    out[0] = 0;
    ABX_AUTO_FREE char *text = NULL;
    size_t len;
    if (abx_fd_read_file(AT_FDCWD, "/etc/passwd", SUBID_MAX, &text, &len) < 0)
        return;
    struct abx_str rest = {text, len}, line, name, skipped, number;
    while (abx_str_split(&rest, '\n', &line)) {
        uint32_t n;
        if (abx_str_split(&line, ':', &name) && abx_str_split(&line, ':', &skipped) &&
            abx_str_split(&line, ':', &number) && abx_parse_u32(number, &n) == 0 && n == uid &&
            abx_str_to_c(name, out, 64) == 0)
            return;
        out[0] = 0;
    }
}

/* The first range of at least 65,536 ids of the caller in @file. */
static bool find_range(const char *file, const char *name, uid_t uid, char base[16])
{
    ABX_AUTO_FREE char *text = NULL;
    size_t len;
    if (abx_fd_read_file(AT_FDCWD, file, SUBID_MAX, &text, &len) < 0)
        return false;
    struct abx_str rest = {text, len}, line, who, from, count;
    while (abx_str_split(&rest, '\n', &line)) {
        uint32_t first, n, number;
        if (!abx_str_split(&line, ':', &who) || !abx_str_split(&line, ':', &from) ||
            !abx_str_split(&line, ':', &count) || abx_parse_u32(from, &first) < 0 ||
            abx_parse_u32(count, &n) < 0 || n < ABX__IDS_RANGE)
            continue;
        bool ours = (name[0] != 0 && abx_str_is(who, name)) ||
                    (abx_parse_u32(who, &number) == 0 && number == uid);
        if (!ours)
            continue;
        snprintf(base, 16, "%u", first);
        return true;
    }
    return false;
}

static int run_map(const char *program, pid_t pid, const char *owner, const char *base)
{
    struct map_exec m = {.program = program, .owner = owner, .base = base};
    snprintf(m.pid, sizeof(m.pid), "%d", (int)pid);
    struct abx_proc_status st = {0};
    pid_t child = abx_proc_fork_role("abx-map", exec_map, &m, NULL, 0, NULL);
    if (child < 0)
        return child;
    int r = abx_proc_wait(child, &st);
    return r < 0 ? r : (st.exited && st.exit_code == 0 ? 0 : -EPERM);
}

/* 'r': mapped with a range; 's': the child maps its single id itself. */
int abx__ids_map_child(int sock, pid_t pid, struct abx_error *err)
{
    char name[64], ubase[16], gbase[16], uid[16], gid[16], answer = 's';
    user_name(getuid(), name);
    snprintf(uid, sizeof(uid), "%u", (unsigned)getuid());
    snprintf(gid, sizeof(gid), "%u", (unsigned)getgid());
    if (find_range("/etc/subuid", name, getuid(), ubase) &&
        find_range("/etc/subgid", name, getuid(), gbase) &&
        access("/usr/bin/newuidmap", X_OK) == 0 && access("/usr/bin/newgidmap", X_OK) == 0) {
        int r = run_map("/usr/bin/newuidmap", pid, uid, ubase);
        if (r == 0)
            r = run_map("/usr/bin/newgidmap", pid, gid, gbase);
        if (r < 0)
            return abx_err_set(err, ABX_FAILED_PRECONDITION,
                               "newuidmap refuses the range of /etc/subuid (%s:65536); check "
                               "/etc/subuid and /etc/subgid",
                               ubase);
        answer = 'r';
    }
    return send(sock, &answer, 1, MSG_NOSIGNAL) == 1
               ? 0
               : abx_err_sys(err, -errno, "answer the runtime side");
}

static int map_self(uid_t uid, gid_t gid)
{
    char text[48];
    int r = abx_fd_write_file(AT_FDCWD, "/proc/self/setgroups", ABX_STR("deny"));
    snprintf(text, sizeof(text), "0 %u 1\n", (unsigned)uid);
    if (r >= 0)
        r = abx_fd_write_file(AT_FDCWD, "/proc/self/uid_map", abx_str(text));
    snprintf(text, sizeof(text), "0 %u 1\n", (unsigned)gid);
    return r < 0 ? r : abx_fd_write_file(AT_FDCWD, "/proc/self/gid_map", abx_str(text));
}

/* What an ordinary user is refused here is, on most machines, refused for a known reason. */
static int refused(struct abx_error *err, int errnum, const char *what)
{
    const struct abx_userns_bar *bar = abx_userns_bar("/proc/sys", geteuid() == 0);
    bool root_can = abx_userns_bar("/proc/sys", true) == NULL;
    if (bar == NULL)
        return abx_err_set(err, ABX_FAILED_PRECONDITION,
                           "%s: %s; without user namespaces the engine has to run as root", what,
                           strerror(errnum));
    return abx_err_set(err, ABX_FAILED_PRECONDITION, "%s here (%s: %s): as root, run %s%s",
                       bar->what, what, strerror(errnum), bar->next,
                       root_can ? "; or run the engine as root" : "");
}

static int enter_keeper(int sock, struct abx__ids *ret, struct abx_error *err)
{
    uid_t uid = getuid();
    gid_t gid = getgid();
    (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* else /proc/self is root's, and so are the maps */
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return refused(err, errno, "make a user namespace");
    struct abx__rt_reply ask = {.magic = ABX__RT_MAGIC, .kind = ABX__RT_MAP_ME};
    char answer = 0;
    if (send(sock, &ask, sizeof(ask), MSG_NOSIGNAL) < 0 || recv(sock, &answer, 1, 0) != 1)
        return abx_err_sys(err, -EPIPE, "ask for the id maps");
    int r = answer == 'r' ? 0 : map_self(uid, gid);
    if (r < 0)
        return refused(err, -r, "map the own uid");
    if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        return refused(err, errno, "become root of the keeper namespace");
    ret->level = answer == 'r' ? ABX__IDS_SUBUID : ABX__IDS_SHARED;
    ret->storage_base = answer == 'r' ? 1 : 0;
    return 0;
}

/* Sandboxes of root are in user namespaces too. */
static int enter_as_root(struct abx__ids *ret, struct abx_error *err)
{
    const struct abx_userns_bar *bar = abx_userns_bar("/proc/sys", true);
    if (bar != NULL)
        return abx_err_set(err, ABX_FAILED_PRECONDITION, "%s here, also for root: run %s",
                           bar->what, bar->next);
    *ret = (struct abx__ids){.level = ABX__IDS_PRIVATE, .storage_base = ABX__IDS_STORAGE};
    return unshare(CLONE_NEWNS) < 0
               ? abx_err_sys(err, -errno, "mount namespace of the runtime side")
               : 0;
}

int abx__ids_enter(int sock, struct abx__ids *ret, struct abx_error *err)
{
    bool is_root = geteuid() == 0;
    if ((is_root ? enter_as_root(ret, err) : enter_keeper(sock, ret, err)) < 0)
        return -1;
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return is_root ? abx_err_sys(err, -errno, "private mounts")
                       : refused(err, errno, "private mounts");
#ifndef ABX_SANITIZED /* LeakSanitizer traces us at exit */
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
#endif
    umask(077);
    return 0;
}

int abx__ids_chown(const struct abx__ids *ids, int dir_fd, const char *name, uint32_t uid,
                   uint32_t gid)
{
    if (ids->level == ABX__IDS_SHARED)
        return 0; /* all there is belongs to the one id */
    if (fchownat(dir_fd, name, ids->storage_base + uid, ids->storage_base + gid,
                 AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return 0;
}
