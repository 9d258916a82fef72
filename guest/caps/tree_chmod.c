/* guest/caps/tree_chmod.c: modes of files and folders, by descriptors, through no link. Pool. */
#include "guest/caps/tree_priv.h"

#include "lib/base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { DEPTH_MAX = 128, PATH_BYTES = 65536 };

/* Linux 6.6; not in every <sys/syscall.h>. */
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

struct changer {
    const struct abx_tree_chmod *spec;
    struct abx_buf path; /* of the entry */
    uint64_t seen, changed;
};

static int change_entry(struct changer *k, int dir_fd, const char *name, int depth);

/* @fd is O_PATH: a file is not opened to change its mode, and may not be readable. */
static int set_mode(struct changer *k, int fd, mode_t mode)
{
    char link[64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    int rc = chmod(link, mode);
    if (rc < 0 && errno == ENOENT) /* without /proc */
        rc = (int)syscall(SYS_fchmodat2, fd, "", mode, AT_EMPTY_PATH);
    if (rc < 0)
        return -errno;
    k->changed++;
    return 0;
}

static int change_children(struct changer *k, int take_dir, int depth)
{
    DIR *dir = fdopendir(take_dir);
    int rc = dir ? 0 : -errno;
    if (dir == NULL) {
        close(take_dir);
        return rc;
    }
    for (struct dirent *d; rc == 0 && (d = readdir(dir)) != NULL;)
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
            rc = change_entry(k, dirfd(dir), d->d_name, depth);
    closedir(dir);
    return rc;
}

/* What is beneath goes first: the new mode may not let us in any more. Where the old one does not,
 * the new one may. */
static int change_folder(struct changer *k, int fd, int depth)
{
    mode_t mode = k->spec->folder_mode;
    if (!k->spec->is_recursive)
        return set_mode(k, fd, mode);
    if (depth == 0)
        return -EOVERFLOW;
    int dir = abx__tree_open_at(fd, ".", O_RDONLY | O_DIRECTORY, 0);
    if (dir == -EACCES && (mode & 0500) == 0500) {
        int rc = set_mode(k, fd, mode);
        dir = rc < 0 ? rc : abx__tree_open_at(fd, ".", O_RDONLY | O_DIRECTORY, 0);
        return dir < 0 ? dir : change_children(k, dir, depth - 1);
    }
    int rc = dir < 0 ? dir : change_children(k, dir, depth - 1);
    return rc < 0 ? rc : set_mode(k, fd, mode);
}

static int ask(struct changer *k, const struct stat *st)
{
    if (abx_buf_failed(&k->path))
        return -ENAMETOOLONG;
    if (k->spec->cancel && atomic_load(k->spec->cancel))
        return -ECANCELED;
    if (k->seen++ >= k->spec->max_entries)
        return -E2BIG;
    return k->spec->judge(k->spec->ctx, abx_buf_str(&k->path), st);
}

static int change_opened(struct changer *k, int fd, int depth)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return depth == DEPTH_MAX ? -EINVAL : 0;
    if (abx__tree_is_kernels_own(fd))
        return -EXDEV;
    int rc = ask(k, &st);
    if (rc < 0)
        return rc;
    return S_ISDIR(st.st_mode) ? change_folder(k, fd, depth) : set_mode(k, fd, k->spec->file_mode);
}

static int change_entry(struct changer *k, int dir_fd, const char *name, int depth)
{
    size_t mark = k->path.len;
    ABX_AUTO_FD fd = abx__tree_open_at(dir_fd, name, O_PATH | O_NOFOLLOW, 0);
    if (fd == -ENOENT)
        return 0; /* gone meanwhile */
    if (fd < 0)
        return fd;
    if (mark == 0 || k->path.ptr[mark - 1] != '/')
        abx_buf_put_byte(&k->path, '/');
    abx_buf_put_c(&k->path, name);
    int rc = change_opened(k, fd, depth);
    if (rc == 0 && !abx_buf_failed(&k->path)) {
        k->path.len = mark;
        k->path.ptr[mark] = '\0';
    }
    return rc;
}

int abx_tree_chmod(const struct abx_tree_chmod *spec, uint64_t *ret_changed)
{
    struct changer k = {.spec = spec};
    *ret_changed = 0;
    ABX_AUTO_FD fd = abx_tree_open(spec->path, O_PATH | O_NOFOLLOW, 0);
    if (fd < 0)
        return fd;
    abx_buf_init(&k.path, PATH_BYTES);
    abx_buf_put_str(&k.path, spec->path);
    int rc = change_opened(&k, fd, DEPTH_MAX);
    abx_buf_done(&k.path);
    *ret_changed = k.changed;
    return rc;
}
