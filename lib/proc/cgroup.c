/* lib/proc/cgroup.c: the cgroup v2 that this process is in (cgroup.h). A service, a scope or a
 * container starts its processes in one cgroup; before that one can have others with limits below
 * it, they have to leave it. */
#include "lib/proc/cgroup.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum {
    TEXT_BYTES = 1 << 20,
    CONTROLLERS_BYTES = 4096,
    ROUNDS_MAX = 8, /* a process may be born while the others are moved */
    COMM_BYTES = 32
};

/* ---- where it is ---- */

/* Of v2 the line is "0::PATH". */
static bool find_line(struct abx_str text, struct abx_str *ret)
{
    struct abx_str line;
    while (abx_str_split(&text, '\n', &line))
        if (abx_str_starts(line, "0::/")) {
            *ret = abx_str_sub(line, strlen("0::"), line.len);
            return true;
        }
    return false;
}

/* A line of mountinfo: its root and its folder, if it is v2. */
static bool read_mount(struct abx_str line, struct abx_str *ret_root, struct abx_str *ret_at)
{
    enum { ROOT = 3, AT = 4 };
    struct abx_str word, type;
    for (int i = 0; abx_str_split(&line, ' ', &word) && !abx_str_is(word, "-"); i++) {
        if (i == ROOT)
            *ret_root = word;
        if (i == AT)
            *ret_at = word;
    }
    return abx_str_split(&line, ' ', &type) && abx_str_is(type, "cgroup2");
}

int abx_cgroup_find(struct abx_str mounts, struct abx_str cgroups, char *path, size_t size)
{
    struct abx_str line, root = {0}, at = {0}, own;
    if (!find_line(cgroups, &own))
        return -EOPNOTSUPP;
    while (abx_str_split(&mounts, '\n', &line)) {
        if (!read_mount(line, &root, &at))
            continue;
        size_t skip =
            root.len > 1 ? root.len : 0; /* a part of it is mounted: we have to be there */
        if (skip > own.len || memcmp(own.ptr, root.ptr, skip) != 0)
            continue;
        struct abx_str rest = abx_str_sub(own, skip, own.len);
        if (rest.len > 0 && rest.ptr[0] != '/')
            continue;
        if (abx_str_is(rest, "/"))
            rest.len = 0;
        int n = snprintf(path, size, "%.*s%.*s", ABX_STR_FMT(at), ABX_STR_FMT(rest));
        return n > 0 && (size_t)n < size ? 0 : -ENAMETOOLONG;
    }
    return -EOPNOTSUPP;
}

static int find_with(const char *cgroups, size_t len, char *path, size_t size)
{
    ABX_AUTO_FREE char *mounts = NULL;
    size_t mounts_len;
    int r = abx_fd_read_file(AT_FDCWD, "/proc/self/mountinfo", TEXT_BYTES, &mounts, &mounts_len);
    return r < 0 ? r
                 : abx_cgroup_find(abx_str_n(mounts, mounts_len), abx_str_n(cgroups, len), path,
                                   size);
}

int abx_cgroup_own(char *path, size_t size)
{
    ABX_AUTO_FREE char *cgroups = NULL;
    size_t len;
    int r = abx_fd_read_file(AT_FDCWD, "/proc/self/cgroup", TEXT_BYTES, &cgroups, &len);
    return r < 0 ? r : find_with(cgroups, len, path, size);
}

int abx_cgroup_top(char *path, size_t size)
{
    static const char top[] = "0::/\n";
    return find_with(top, strlen(top), path, size);
}

/* ---- whose it is ---- */

static bool has_mark(const char *path)
{
    static const char *const names[] = {"trusted.delegate", "user.delegate"};
    char value[2];
    for (size_t i = 0; i < ABX_COUNTOF(names); i++)
        if (getxattr(path, names[i], value, sizeof(value)) == 1 && value[0] == '1')
            return true;
    return false;
}

static bool is_writable(const char *path)
{
    static const char *const names[] = {"cgroup.procs", "cgroup.subtree_control", "."};
    ABX_AUTO_FD fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; fd >= 0 && i < ABX_COUNTOF(names); i++)
        if (faccessat(fd, names[i], W_OK, AT_EACCESS) < 0)
            return false;
    return fd >= 0;
}

bool abx_cgroup_is_given(const char *path, bool is_user)
{
    return is_writable(path) && (is_user || has_mark(path));
}

bool abx_cgroup_has(const char *path, const char *controller)
{
    ABX_AUTO_FD fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    ABX_AUTO_FREE char *text = NULL;
    size_t len;
    if (fd < 0 || abx_fd_read_file(fd, "cgroup.controllers", CONTROLLERS_BYTES, &text, &len) < 0)
        return false;
    struct abx_str all = abx_str_n(text, len);
    while (all.len > 0 && all.ptr[all.len - 1] == '\n')
        all.len--;
    return abx_str_has_item(all, ' ', controller);
}

/* ---- making room ---- */

static bool is_of(const char *program, uint32_t pid)
{
    char path[64];
    ABX_AUTO_FREE char *comm = NULL;
    size_t len;
    snprintf(path, sizeof(path), "/proc/%u/comm", pid);
    if (abx_fd_read_file(AT_FDCWD, path, COMM_BYTES, &comm, &len) < 0)
        return true; /* it has just ended */
    return abx_str_starts(abx_str_n(comm, len), program);
}

/* Each process in @from, into @to; without @to: whether all are @program's. */
static int each(int from, int to, const char *program)
{
    ABX_AUTO_FREE char *text = NULL;
    size_t len;
    struct abx_str rest, line;
    uint32_t pid;
    int r = abx_fd_read_file(from, "cgroup.procs", TEXT_BYTES, &text, &len);
    if (r < 0)
        return r;
    rest = abx_str_n(text, len);
    while (abx_str_split(&rest, '\n', &line)) {
        if (line.len == 0)
            continue;
        if (abx_parse_u32(line, &pid) < 0 || pid == 0) /* 0: in a namespace that we do not see */
            return -EBUSY;
        if (to < 0 && !is_of(program, pid))
            return -EBUSY;
        if (to >= 0 && (r = abx_fd_write_file(to, "cgroup.procs", line)) < 0 && r != -ESRCH)
            return r;
    }
    return 0;
}

int abx_cgroup_make_room(const struct abx_cgroup_room *room)
{
    ABX_AUTO_FD own = open(room->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ABX_AUTO_FD leaf = open(room->leaf, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (own < 0 || leaf < 0)
        return -errno;
    int r = -EBUSY;
    for (int round = 0; r == -EBUSY && round < ROUNDS_MAX; round++) {
        r = each(own, -1, room->program);
        if (r == 0)
            r = each(own, leaf, room->program);
        if (r == 0)
            r = abx_fd_write_file(own, "cgroup.subtree_control", room->controllers);
    }
    if (r < 0)
        (void)each(leaf, own, room->program);
    return r < 0 ? r : 0;
}

void abx_cgroup_give_back(const struct abx_cgroup_room *room)
{
    ABX_AUTO_FD own = open(room->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ABX_AUTO_FD leaf = open(room->leaf, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char text[64];
    int n = snprintf(text, sizeof(text), "%.*s", ABX_STR_FMT(room->controllers));
    for (int i = 0; i < n && i < (int)sizeof(text); i++)
        if (text[i] == '+')
            text[i] = '-';
    if (own < 0 || leaf < 0 || n < 0 || (size_t)n >= sizeof(text) ||
        abx_fd_write_file(own, "cgroup.subtree_control", abx_str_n(text, (size_t)n)) < 0)
        return;
    (void)each(leaf, own, room->program);
}
