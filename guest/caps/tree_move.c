/* guest/caps/tree_move.c: another name for a file or a tree. Where one file system ends (in a
 * sandbox a folder of the image's layers is such a place), a copy takes the place of the rename.
 * Pool. */
#include "guest/caps/tree_priv.h"

#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "lib/base/banned.h"

struct ends {
    int from_fd, to_fd;
    char from[NAME_MAX + 1], to[NAME_MAX + 1];
};

static int move_by_copy(const struct ends *e, bool is_folder)
{
    struct abx__copier c = {.is_move = true};
    struct abx__copy_place to = {.dir_fd = e->to_fd, .name = e->to};
    int rc = abx__tree_copy_into(&c, e->from_fd, e->from, &to);
    return rc < 0 ? rc : abx__tree_remove_at(e->from_fd, e->from, is_folder);
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
    if (S_ISDIR(st.st_mode) && abx__tree_is_inside(from, to))
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
