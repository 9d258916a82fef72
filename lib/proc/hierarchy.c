/* lib/proc/hierarchy.c: where cgroups can be made (hierarchy_priv.h): the hierarchy of a controller
 * in cgroup v1, or v2. A folder of this process' own, "abx-server.PID", stands in its cgroup.
 *
 * Of v2 that one has to hand the controller down. It does not while processes are in it: where it
 * was handed to this process, which is alone there, the process moves to abx-server.PID/own. Else
 * root has its folder at the top of the hierarchy, and nobody else has any. */
#include "lib/proc/hierarchy_priv.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/proc/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { TEXT_BYTES = 1 << 20, COMM_BYTES = 16, CONTROLLERS_BYTES = 32 };
static const char own_leaf[] = "own";

/* ---- where it is ---- */

/* The cgroup of this process in the hierarchy: "N:controllers:path". */
static bool find_cgroup(struct abx_str text, const char *controller, struct abx_str *ret)
{
    struct abx_str line, number, controllers;
    while (abx_str_split(&text, '\n', &line)) {
        if (!abx_str_split(&line, ':', &number) || !abx_str_split(&line, ':', &controllers))
            continue;
        *ret = line;
        if (abx_str_has_item(controllers, ',', controller))
            return true;
    }
    return false;
}

/* A line of mountinfo: its root, its folder, and whether it is the wanted hierarchy. */
static bool read_mount(struct abx_str line, const char *controller, struct abx_str *ret_root,
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
           abx_str_is(type, "cgroup") && abx_str_has_item(line, ',', controller);
}

static bool join_path(struct abx__hierarchy *h, struct abx_str at, struct abx_str root,
                      struct abx_str cgroup)
{
    if (root.len > 1) { /* a part of the hierarchy is mounted: we have to be in it */
        if (!abx_str_starts(cgroup, "/") || cgroup.len < root.len ||
            memcmp(cgroup.ptr, root.ptr, root.len) != 0)
            return false;
        cgroup = abx_str_sub(cgroup, root.len, cgroup.len);
        if (cgroup.len > 0 && cgroup.ptr[0] != '/')
            return false;
    }
    int n = snprintf(h->path, sizeof(h->path), "%.*s%.*s", ABX_STR_FMT(at), ABX_STR_FMT(cgroup));
    return n > 0 && (size_t)n < sizeof(h->path);
}

static bool find_v1(struct abx__hierarchy *h, struct abx_str mounts, struct abx_str cgroups)
{
    struct abx_str line, root = {0}, at = {0}, cgroup;
    if (!find_cgroup(cgroups, h->controller, &cgroup))
        return false;
    while (abx_str_split(&mounts, '\n', &line))
        if (read_mount(line, h->controller, &root, &at) && join_path(h, at, root, cgroup))
            return true;
    return false;
}

static int find(struct abx__hierarchy *h)
{
    ABX_AUTO_FREE char *mounts = NULL;
    ABX_AUTO_FREE char *cgroups = NULL;
    size_t mounts_len, cgroups_len;
    int r = abx_fd_read_file(AT_FDCWD, "/proc/self/mountinfo", TEXT_BYTES, &mounts, &mounts_len);
    if (r >= 0)
        r = abx_fd_read_file(AT_FDCWD, "/proc/self/cgroup", TEXT_BYTES, &cgroups, &cgroups_len);
    if (r < 0)
        return r;
    h->is_v2 = !find_v1(h, abx_str_n(mounts, mounts_len), abx_str_n(cgroups, cgroups_len));
    return h->is_v2 ? abx_cgroup_own(h->path, sizeof(h->path)) : 0;
}

/* ---- the folder of this process ---- */

/* Those of processes that are gone: theirs was locked as long as they lived. */
static void remove_stale(int parent_fd)
{
    int copy = openat(parent_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *parent = copy < 0 ? NULL : fdopendir(copy);
    const struct dirent *e;
    if (parent == NULL) {
        abx_fd_close(&copy);
        return;
    }
    while ((e = readdir(parent)) != NULL) {
        ABX_AUTO_FD fd = strncmp(e->d_name, ABX__CGROUP_PREFIX, strlen(ABX__CGROUP_PREFIX)) == 0
                             ? openat(parent_fd, e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                             : -1;
        if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
            continue;
        DIR *d = fdopendir(dup(fd));
        const struct dirent *group;
        while (d != NULL && (group = readdir(d)) != NULL)
            if ((group->d_name[0] >= '0' && group->d_name[0] <= '9') ||
                strcmp(group->d_name, own_leaf) == 0)
                unlinkat(fd, group->d_name, AT_REMOVEDIR); /* refused while somebody lives in it */
        if (d != NULL)
            closedir(d);
        unlinkat(parent_fd, e->d_name, AT_REMOVEDIR);
    }
    closedir(parent);
}

/* Of v2 the folder has the file where the one above hands the controller down. */
static int check(const struct abx__hierarchy *h)
{
    char text[32];
    if (faccessat(h->fd, h->is_v2 ? h->file : h->v1_file, W_OK, 0) < 0)
        return -EOPNOTSUPP;
    int n = snprintf(text, sizeof(text), "+%s", h->controller);
    return h->is_v2 ? abx_fd_write_file(h->fd, "cgroup.subtree_control", abx_str_n(text, (size_t)n))
                    : 0;
}

static int make_folder(struct abx__hierarchy *h)
{
    snprintf(h->name, sizeof(h->name), ABX__CGROUP_PREFIX "%d", getpid());
    h->parent_fd = open(h->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (h->parent_fd < 0)
        return -errno;
    remove_stale(h->parent_fd);
    if (mkdirat(h->parent_fd, h->name, 0700) < 0 && errno != EEXIST)
        return -errno;
    h->fd = openat(h->parent_fd, h->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (h->fd < 0)
        return -errno;
    if (flock(h->fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    int errnum = errno; /* of a process with our number, elsewhere */
    abx_fd_close(&h->fd);
    return -errnum;
}

/* The folder is locked by its open file, which a copy of the descriptor shares. */
static int share_folder(struct abx__hierarchy *h, const struct abx__hierarchy *other)
{
    h->is_shared = true;
    memcpy(h->name, other->name, sizeof(h->name));
    h->fd = fcntl(other->fd, F_DUPFD_CLOEXEC, 0);
    return h->fd < 0 ? -errno : check(h);
}

static void close_folder(struct abx__hierarchy *h)
{
    if (h->fd >= 0 && !h->is_shared)
        unlinkat(h->parent_fd, h->name, AT_REMOVEDIR);
    abx_fd_close(&h->fd);
    abx_fd_close(&h->parent_fd);
}

static int open_folder(struct abx__hierarchy *h)
{
    int r = make_folder(h);
    if (r == 0)
        r = check(h);
    if (r < 0)
        close_folder(h);
    return r;
}

/* ---- v2 ---- */

/* Of the cgroup at @path: what groups need and it has. */
static bool list_controllers(const struct abx__hierarchy *h, const char *path,
                             char out[CONTROLLERS_BYTES])
{
    bool more = strcmp(h->controller, "memory") != 0 && abx_cgroup_has(path, "memory");
    snprintf(out, CONTROLLERS_BYTES, "+%s%s", h->controller, more ? " +memory" : "");
    return abx_cgroup_has(path, h->controller);
}

static void close_room(struct abx__hierarchy *h, const struct abx_cgroup_room *room)
{
    for (const char *const *name = (const char *const[]){"-pids", "-memory", NULL}; *name; name++)
        (void)abx_fd_write_file(h->fd, "cgroup.subtree_control", abx_str(*name));
    abx_cgroup_give_back(room);
    unlinkat(h->fd, own_leaf, AT_REMOVEDIR); /* not while we are in it */
}

static bool describe_room(const struct abx__hierarchy *h, char leaf[PATH_MAX],
                          char comm[COMM_BYTES], char controllers[CONTROLLERS_BYTES],
                          struct abx_cgroup_room *ret)
{
    (void)prctl(PR_GET_NAME, comm, 0, 0, 0);
    *ret = (struct abx_cgroup_room){.path = h->path, .leaf = leaf, .program = comm};
    bool can = list_controllers(h, h->path, controllers);
    ret->controllers = abx_str(controllers);
    return snprintf(leaf, PATH_MAX, "%s/%s/%s", h->path, h->name, own_leaf) < PATH_MAX && can;
}

/* In the cgroup of this process, which leaves it. */
static int open_with_room(struct abx__hierarchy *h)
{
    char leaf[PATH_MAX], comm[COMM_BYTES], controllers[CONTROLLERS_BYTES];
    struct abx_cgroup_room room;
    if (!abx_cgroup_is_given(h->path, geteuid() != 0))
        return -EOPNOTSUPP;
    int r = make_folder(h);
    if (r == 0 && (!describe_room(h, leaf, comm, controllers, &room) ||
                   (mkdirat(h->fd, own_leaf, 0700) < 0 && errno != EEXIST)))
        r = -EOPNOTSUPP;
    if (r == 0) {
        r = abx_cgroup_make_room(&room);
        h->has_room = r == 0;
        if (r == 0)
            r = check(h);
        if (r < 0)
            close_room(h, &room);
    }
    if (r < 0) {
        h->has_room = false;
        close_folder(h);
    }
    return r;
}

/* What it hands down stays so: somebody else may count on it by the time that we end. */
static int open_at_top(struct abx__hierarchy *h)
{
    char controllers[CONTROLLERS_BYTES];
    if (geteuid() != 0 || abx_cgroup_top(h->path, sizeof(h->path)) < 0 ||
        !list_controllers(h, h->path, controllers))
        return -EOPNOTSUPP;
    ABX_AUTO_FD fd = open(h->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r = fd < 0 ? -errno : abx_fd_write_file(fd, "cgroup.subtree_control", abx_str(controllers));
    return r < 0 ? r : open_folder(h);
}

/* The first of them that works. */
static int open_v2(struct abx__hierarchy *h)
{
    static int (*const ways[])(struct abx__hierarchy *) = {open_folder, open_with_room,
                                                           open_at_top};
    int r = -EOPNOTSUPP;
    for (size_t i = 0; r < 0 && i < ABX_COUNTOF(ways); i++)
        r = ways[i](h);
    return r;
}

int abx__hierarchy_open(struct abx__hierarchy *h, const struct abx__hierarchy *other)
{
    if (h->fd >= 0)
        return 0;
    int r = find(h);
    if (r < 0)
        return r;
    /* v2 is one hierarchy for all controllers. */
    bool is_one = other != NULL && other->fd >= 0 && h->is_v2 == other->is_v2 &&
                  (h->is_v2 || strcmp(h->path, other->path) == 0);
    if (is_one)
        r = share_folder(h, other);
    else
        r = h->is_v2 ? open_v2(h) : open_folder(h);
    if (r < 0)
        abx__hierarchy_close(h);
    return r;
}

void abx__hierarchy_close(struct abx__hierarchy *h)
{
    char leaf[PATH_MAX], comm[COMM_BYTES], controllers[CONTROLLERS_BYTES];
    struct abx_cgroup_room room;
    if (h->fd >= 0 && h->has_room && describe_room(h, leaf, comm, controllers, &room))
        close_room(h, &room);
    close_folder(h);
    h->is_shared = h->has_room = false;
}
