/* lib/proc/group.c: cgroups of what a caller starts (confine.h): a bound on how many processes it
 * has, and a way to end all of them, also those that left every session and parent. Security S22.
 *
 * Hierarchies: that of pids of cgroup v1, or v2 where the folder above hands the controller down. A
 * folder of this process' own, "abx-server.PID", stands in its cgroup; one for each caller beneath.
 * A child joins by a descriptor that is open already, before it gives anything up. */
#include "lib/proc/confine.h"

#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/base/str.h"
#include "lib/proc/proc_priv.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum {
    TEXT_BYTES = 1 << 20,
    PIDS_BYTES = 1 << 20,
    ROUNDS_MAX = 100,
    ROUND_MS = 5,
    NUMBER_TEXT = 32
};
#define OWN_PREFIX "abx-server."

struct abx_confine_group {
    _Atomic unsigned refs;
    char name[24];
    int dir_fd, procs_fd;
};

/* The folder of this process; made by the first group, gone with the last. */
static struct {
    char path[PATH_MAX]; /* its cgroup */
    char name[sizeof(OWN_PREFIX) + NUMBER_TEXT];
    int parent_fd, fd;
    _Atomic unsigned groups, numbers;
} own = {.parent_fd = -1, .fd = -1};

/* ---- where the hierarchy is ---- */

/* The cgroup of this process in the hierarchy: "N:controllers:path". Of v2 the list is empty. */
static bool find_cgroup(struct abx_str text, bool v2, struct abx_str *ret)
{
    struct abx_str line, number, controllers;
    while (abx_str_split(&text, '\n', &line)) {
        if (!abx_str_split(&line, ':', &number) || !abx_str_split(&line, ':', &controllers))
            continue;
        *ret = line;
        if (v2 ? abx_str_is(number, "0") && controllers.len == 0
               : abx_str_has_item(controllers, ',', "pids"))
            return true;
    }
    return false;
}

/* A line of mountinfo: its root, its folder, and whether it is the wanted hierarchy. */
static bool read_mount(struct abx_str line, bool v2, struct abx_str *ret_root,
                       struct abx_str *ret_at)
{
    enum { ROOT = 3, AT = 4 };
    struct abx_str word, type, source;
    for (int i = 0; abx_str_split(&line, ' ', &word) && !abx_str_is(word, "-"); i++) {
        if (i == ROOT)
            *ret_root = word;
        if (i == AT)
            *ret_at = word;
    }
    return abx_str_split(&line, ' ', &type) && abx_str_split(&line, ' ', &source) &&
           (v2 ? abx_str_is(type, "cgroup2")
               : abx_str_is(type, "cgroup") && abx_str_has_item(line, ',', "pids"));
}

static bool join_path(struct abx_str at, struct abx_str root, struct abx_str cgroup)
{
    if (root.len > 1) { /* a part of the hierarchy is mounted: we have to be in it */
        if (!abx_str_starts(cgroup, "/") || cgroup.len < root.len ||
            memcmp(cgroup.ptr, root.ptr, root.len) != 0)
            return false;
        cgroup = abx_str_sub(cgroup, root.len, cgroup.len);
    }
    int n = snprintf(own.path, sizeof(own.path), "%.*s%.*s", (int)at.len, at.ptr, (int)cgroup.len,
                     cgroup.ptr);
    return n > 0 && (size_t)n < sizeof(own.path);
}

static bool find_hierarchy(struct abx_str mounts, struct abx_str cgroups, bool v2)
{
    struct abx_str line, root = {0}, at = {0}, cgroup;
    if (!find_cgroup(cgroups, v2, &cgroup))
        return false;
    while (abx_str_split(&mounts, '\n', &line))
        if (read_mount(line, v2, &root, &at) && join_path(at, root, cgroup))
            return true;
    return false;
}

/* ---- the folder of this process ---- */

/* Those of processes that are gone: theirs was locked as long as they lived. */
static void remove_stale(void)
{
    int copy = openat(own.parent_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *parent = copy < 0 ? NULL : fdopendir(copy);
    const struct dirent *e;
    if (parent == NULL) {
        abx_fd_close(&copy);
        return;
    }
    while ((e = readdir(parent)) != NULL) {
        ABX_AUTO_FD fd = strncmp(e->d_name, OWN_PREFIX, strlen(OWN_PREFIX)) == 0
                             ? openat(own.parent_fd, e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                             : -1;
        if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
            continue;
        DIR *d = fdopendir(dup(fd));
        const struct dirent *group;
        while (d != NULL && (group = readdir(d)) != NULL)
            if (group->d_name[0] >= '0' && group->d_name[0] <= '9')
                unlinkat(fd, group->d_name, AT_REMOVEDIR); /* refused while somebody lives in it */
        if (d != NULL)
            closedir(d);
        unlinkat(own.parent_fd, e->d_name, AT_REMOVEDIR);
    }
    closedir(parent);
}

static int open_folder(bool v2)
{
    snprintf(own.name, sizeof(own.name), OWN_PREFIX "%d", getpid());
    own.parent_fd = open(own.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (own.parent_fd < 0)
        return -errno;
    remove_stale();
    if (mkdirat(own.parent_fd, own.name, 0700) < 0 && errno != EEXIST)
        return -errno;
    own.fd = openat(own.parent_fd, own.name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (own.fd < 0)
        return -errno;
    if (flock(own.fd, LOCK_EX | LOCK_NB) < 0) { /* of a process with our number, elsewhere */
        int errnum = errno;
        abx_fd_close(&own.fd);
        return -errnum;
    }
    if (faccessat(own.fd, "pids.max", W_OK, 0) < 0)
        return -EOPNOTSUPP;
    return v2 ? abx_fd_write_file(own.fd, "cgroup.subtree_control", ABX_STR("+pids")) : 0;
}

static void close_folder(void)
{
    if (own.fd >= 0)
        unlinkat(own.parent_fd, own.name, AT_REMOVEDIR);
    abx_fd_close(&own.fd);
    abx_fd_close(&own.parent_fd);
}

static int open_own(void)
{
    ABX_AUTO_FREE char *mounts = NULL;
    ABX_AUTO_FREE char *cgroups = NULL;
    size_t mounts_len, cgroups_len;
    if (own.fd >= 0)
        return 0;
    int r = abx_fd_read_file(AT_FDCWD, "/proc/self/mountinfo", TEXT_BYTES, &mounts, &mounts_len);
    if (r >= 0)
        r = abx_fd_read_file(AT_FDCWD, "/proc/self/cgroup", TEXT_BYTES, &cgroups, &cgroups_len);
    if (r < 0)
        return r;
    struct abx_str m = abx_str_n(mounts, mounts_len), c = abx_str_n(cgroups, cgroups_len);
    bool v1 = find_hierarchy(m, c, false);
    if (!v1 && !find_hierarchy(m, c, true))
        return -EOPNOTSUPP;
    r = open_folder(!v1);
    if (r < 0)
        close_folder();
    return r;
}

/* ---- one group ---- */

static int open_group(struct abx_confine_group *g)
{
    snprintf(g->name, sizeof(g->name), "%u", own.numbers++);
    if (mkdirat(own.fd, g->name, 0700) < 0)
        return -errno;
    g->dir_fd = openat(own.fd, g->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    g->procs_fd = g->dir_fd < 0 ? -1 : openat(g->dir_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    if (g->procs_fd >= 0)
        return 0;
    int errnum = errno;
    unlinkat(own.fd, g->name, AT_REMOVEDIR);
    return -errnum;
}

int abx_confine_group_new(struct abx_confine_group **ret)
{
    struct abx_confine_group *g = calloc(1, sizeof(*g));
    if (g == NULL)
        return -ENOMEM;
    *g = (struct abx_confine_group){.refs = 1, .dir_fd = -1, .procs_fd = -1};
    int r = open_own();
    if (r == 0)
        r = open_group(g);
    if (r < 0) {
        abx_fd_close(&g->dir_fd);
        free(g);
        if (own.groups == 0)
            close_folder();
        return r;
    }
    own.groups++;
    *ret = g;
    return 0;
}

struct abx_confine_group *abx_confine_group_ref(struct abx_confine_group *g)
{
    if (g != NULL)
        g->refs++;
    return g;
}

void abx_confine_group_unref(struct abx_confine_group *g)
{
    if (g == NULL || --g->refs > 0)
        return;
    unlinkat(own.fd, g->name, AT_REMOVEDIR);
    abx_fd_close(&g->dir_fd);
    abx_fd_close(&g->procs_fd);
    free(g);
    if (--own.groups == 0)
        close_folder();
}

int abx__confine_group_fd(const struct abx_confine_group *g)
{
    return g ? g->procs_fd : -1;
}

int abx_confine_group_limit(struct abx_confine_group *g, uint64_t processes)
{
    char text[NUMBER_TEXT];
    int n = processes == 0 || processes > INT32_MAX
                ? snprintf(text, sizeof(text), "max")
                : snprintf(text, sizeof(text), "%llu", (unsigned long long)processes);
    return abx_fd_write_file(g->dir_fd, "pids.max", abx_str_n(text, (size_t)n));
}

/* ---- the end of all in it ---- */

/* The number may have gone to another process since: it is asked again once it is held. */
static void kill_one(const struct abx_confine_group *g, uint32_t pid)
{
    char path[64], place[sizeof(own.name) + sizeof(g->name) + 4];
    ABX_AUTO_FREE char *text = NULL;
    size_t len;
    ABX_AUTO_FD fd = pidfd_open((pid_t)pid, 0);
    snprintf(path, sizeof(path), "/proc/%u/cgroup", pid);
    int n = snprintf(place, sizeof(place), "/%s/%s\n", own.name, g->name);
    if (fd >= 0 && abx_fd_read_file(AT_FDCWD, path, TEXT_BYTES, &text, &len) >= 0 &&
        abx_str_find(abx_str_n(text, len), abx_str_n(place, (size_t)n)) >= 0)
        (void)pidfd_send_signal(fd, SIGKILL, NULL, 0);
}

/* How many were there. */
static size_t kill_round(const struct abx_confine_group *g)
{
    ABX_AUTO_FREE char *text = NULL;
    size_t len, count = 0;
    struct abx_str rest, line;
    uint32_t pid;
    if (abx_fd_read_file(g->dir_fd, "cgroup.procs", PIDS_BYTES, &text, &len) < 0)
        return 0;
    rest = abx_str_n(text, len);
    while (abx_str_split(&rest, '\n', &line))
        if (abx_parse_u32(line, &pid) == 0 && pid > 1) {
            kill_one(g, pid);
            count++;
        }
    return count;
}

size_t abx_confine_group_kill(struct abx_confine_group *g)
{
    size_t left = 0;
    (void)abx_fd_write_file(g->dir_fd, "pids.max", ABX_STR("0")); /* it does not grow meanwhile */
    for (int round = 0; round < ROUNDS_MAX && (left = kill_round(g)) > 0; round++)
        poll(NULL, 0, ROUND_MS);
    return left;
}

void abx_confine_group_folders(int *ret_own_fd, int *ret_parent_fd)
{
    *ret_own_fd = own.fd;
    *ret_parent_fd = own.parent_fd;
}

CHILD_CODE int abx__confine_join(int procs_fd)
{
    return write(procs_fd, "0", 1) == 1 ? 0 : -1;
}
