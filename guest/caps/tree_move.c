/* guest/caps/tree_move.c: another name for a file or a tree. Where one file system ends (in a
 * sandbox a folder of the image's layers is such a place), a copy takes the place of the rename.
 * Pool. */
#include "guest/caps/tree_priv.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { DEPTH_MAX = 1000, COPY_BYTES = 1 << 20, NAMES_MAX = 65536, VALUE_MAX = 65536 };

/* ---- copying ---- */

static int copy_entry(int from_fd, const char *from, int to_fd, const char *to, int depth);

/* What a file system does not keep is left out, as a copy by any program would. */
static int copy_attributes(int from, int to)
{
    ABX_AUTO_FREE char *names = malloc(NAMES_MAX + VALUE_MAX);
    if (names == NULL)
        return -ENOMEM;
    char *value = names + NAMES_MAX;
    ssize_t len = flistxattr(from, names, NAMES_MAX - 1);
    names[len > 0 ? len : 0] = '\0';
    for (char *name = names; name < names + len; name += strlen(name) + 1) {
        if (!abx_str_starts(abx_str(name), "user."))
            continue;
        ssize_t n = fgetxattr(from, name, value, VALUE_MAX);
        if (n >= 0 && fsetxattr(to, name, value, (size_t)n, 0) < 0 && errno == ENOSPC)
            return -ENOSPC;
    }
    return 0;
}

/* Owner first: a change of owner takes the set-id bits away, and they stay away without one. */
static int copy_metadata(int from, int to, const struct stat *st)
{
    const struct timespec times[] = {st->st_atim, st->st_mtim};
    bool is_owned = fchown(to, st->st_uid, st->st_gid) == 0;
    int rc = copy_attributes(from, to);
    if (rc < 0)
        return rc;
    if (fchmod(to, st->st_mode & (is_owned ? 07777 : 01777)) < 0 || futimens(to, times) < 0)
        return -errno;
    return 0;
}

static int copy_bytes(int from, int to)
{
    ABX_AUTO_FREE char *piece = malloc(COPY_BYTES);
    if (piece == NULL)
        return -ENOMEM;
    for (;;) {
        ssize_t n = abx_fd_read_all(from, piece, COPY_BYTES);
        if (n <= 0)
            return (int)n;
        int rc = abx_fd_write_all(to, piece, (size_t)n);
        if (rc < 0)
            return rc;
    }
}

static int copy_file(int from_fd, const char *from, int to_fd, const char *to)
{
    struct stat st;
    ABX_AUTO_FD in = abx__tree_open_at(from_fd, from, O_RDONLY | O_NOFOLLOW, 0);
    ABX_AUTO_FD out =
        in < 0 ? in : abx__tree_open_at(to_fd, to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    if (out < 0)
        return out;
    if (fstat(in, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL; /* exchanged meanwhile */
    int rc = copy_bytes(in, out);
    return rc < 0 ? rc : copy_metadata(in, out, &st);
}

static int copy_link(int from_fd, const char *from, int to_fd, const char *to,
                     const struct stat *st)
{
    char target[PATH_MAX];
    const struct timespec times[] = {st->st_atim, st->st_mtim};
    ssize_t n = readlinkat(from_fd, from, target, sizeof(target) - 1);
    if (n < 0)
        return -errno;
    target[n] = '\0';
    if (symlinkat(target, to_fd, to) < 0)
        return -errno;
    /* Without the right to give it away it is ours, as any copy. */
    if (fchownat(to_fd, to, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0 && errno != EPERM)
        return -errno;
    return utimensat(to_fd, to, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int copy_children(int take_from, int to, int depth)
{
    DIR *dir = fdopendir(take_from);
    int rc = dir ? 0 : -errno;
    if (dir == NULL) {
        close(take_from);
        return rc;
    }
    for (struct dirent *d; rc == 0 && (d = readdir(dir)) != NULL;)
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
            rc = copy_entry(dirfd(dir), d->d_name, to, d->d_name, depth);
    closedir(dir);
    return rc;
}

static int copy_folder(int from_fd, const char *from, int to_fd, const char *to, int depth)
{
    struct stat st;
    if (depth == 0)
        return -ELOOP;
    ABX_AUTO_FD in = abx__tree_open_at(from_fd, from, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (in < 0)
        return in;
    if (fstat(in, &st) < 0 || mkdirat(to_fd, to, 0700) < 0)
        return -errno;
    ABX_AUTO_FD out = abx__tree_open_at(to_fd, to, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    ABX_AUTO_FD walked = out < 0 ? out : fcntl(in, F_DUPFD_CLOEXEC, 0);
    if (walked < 0)
        return out < 0 ? out : -errno;
    int rc = copy_children(abx_fd_take(&walked), out, depth - 1);
    return rc < 0 ? rc : copy_metadata(in, out, &st);
}

static int copy_entry(int from_fd, const char *from, int to_fd, const char *to, int depth)
{
    struct stat st;
    if (fstatat(from_fd, from, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (S_ISREG(st.st_mode))
        return copy_file(from_fd, from, to_fd, to);
    if (S_ISDIR(st.st_mode))
        return copy_folder(from_fd, from, to_fd, to, depth);
    if (S_ISLNK(st.st_mode))
        return copy_link(from_fd, from, to_fd, to, &st);
    return mknodat(to_fd, to, st.st_mode & (S_IFMT | 07777), st.st_rdev) < 0 ? -errno : 0;
}

/* ---- moving ---- */

struct ends {
    int from_fd, to_fd;
    char from[NAME_MAX + 1], to[NAME_MAX + 1];
};

static int remove_entry(int dir_fd, const char *name, bool is_folder)
{
    if (is_folder)
        return abx_fd_remove_tree(dir_fd, name);
    return unlinkat(dir_fd, name, 0) < 0 ? -errno : 0;
}

static int move_by_copy(const struct ends *e, bool is_folder)
{
    char beside[ABX__BESIDE];
    ABX_AUTO_FD made = abx__tree_beside(e->to_fd, 0600, beside);
    if (made < 0)
        return made;
    int rc = unlinkat(e->to_fd, beside, 0) < 0
                 ? -errno
                 : copy_entry(e->from_fd, e->from, e->to_fd, beside, DEPTH_MAX);
    if (rc == 0 && renameat(e->to_fd, beside, e->to_fd, e->to) < 0)
        rc = -errno;
    if (rc < 0) {
        struct stat st;
        bool is_there = fstatat(e->to_fd, beside, &st, AT_SYMLINK_NOFOLLOW) == 0;
        if (is_there)
            remove_entry(e->to_fd, beside, S_ISDIR(st.st_mode));
        return rc;
    }
    return remove_entry(e->from_fd, e->from, is_folder);
}

static bool is_inside(struct abx_str outer, struct abx_str inner)
{
    return inner.len > outer.len && memcmp(outer.ptr, inner.ptr, outer.len) == 0 &&
           inner.ptr[outer.len] == '/';
}

static int move(struct abx_str from, struct abx_str to, bool copies)
{
    struct ends e;
    struct stat st, there;
    ABX_AUTO_FD from_fd = abx__tree_parent(from, e.from);
    ABX_AUTO_FD to_fd = from_fd < 0 ? from_fd : abx__tree_parent(to, e.to);
    if (to_fd < 0)
        return to_fd;
    e.from_fd = from_fd;
    e.to_fd = to_fd;
    if (fstatat(from_fd, e.from, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (S_ISDIR(st.st_mode) && is_inside(from, to))
        return -EINVAL;
    bool is_taken = fstatat(to_fd, e.to, &there, AT_SYMLINK_NOFOLLOW) == 0;
    if (is_taken && st.st_dev == there.st_dev && st.st_ino == there.st_ino && abx_str_eq(from, to))
        return 0;
    if (is_taken && S_ISDIR(there.st_mode))
        return -EISDIR;
    if (is_taken && S_ISDIR(st.st_mode))
        return -ENOTDIR;
    if (!copies && renameat(from_fd, e.from, to_fd, e.to) == 0)
        return 0;
    if (!copies && errno != EXDEV)
        return -errno;
    return move_by_copy(&e, S_ISDIR(st.st_mode));
}

int abx_tree_move(struct abx_str from, struct abx_str to)
{
    return move(from, to, false);
}

int abx_tree_move_copying(struct abx_str from, struct abx_str to)
{
    return move(from, to, true);
}
