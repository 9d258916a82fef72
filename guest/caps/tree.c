/* guest/caps/tree.c: opening without links, folders, walking, removing. Pool threads. security S17.
 */
#include "guest/caps/tree_priv.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { DEPTH_MAX = 1000 };

/* Not in every <linux/magic.h>. */
#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

/* File systems that the kernel makes up: their files say and do what no file does. */
static const int64_t kernel_magics[] = {
    PROC_SUPER_MAGIC, SYSFS_MAGIC,   CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, DEVPTS_SUPER_MAGIC,
    DEBUGFS_MAGIC,    TRACEFS_MAGIC, SECURITYFS_MAGIC,   BPF_FS_MAGIC,        SELINUX_MAGIC,
};

/* File systems whose inodes, once in memory, are read without waiting for anybody. */
static const int64_t local_magics[] = {EXT4_SUPER_MAGIC,     XFS_SUPER_MAGIC,  BTRFS_SUPER_MAGIC,
                                       TMPFS_MAGIC,          F2FS_SUPER_MAGIC, SQUASHFS_MAGIC,
                                       OVERLAYFS_SUPER_MAGIC};

static bool is_on(int fd, const int64_t *magics, size_t count)
{
    struct statfs fs;
    if (fstatfs(fd, &fs) < 0)
        return false;
    for (size_t i = 0; i < count; i++)
        if ((int64_t)fs.f_type == magics[i])
            return true;
    return false;
}

bool abx__tree_is_kernels_own(int fd)
{
    return is_on(fd, kernel_magics, ABX_COUNTOF(kernel_magics));
}

bool abx__tree_is_plain(const char *path)
{
    ABX_AUTO_FD fd = abx__tree_open_at(AT_FDCWD, path, O_PATH, 0);
    return fd >= 0;
}

int abx__tree_open_at(int dir_fd, const char *path, int flags, mode_t mode)
{
    struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC),
                           .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    if (!(flags & O_PATH))
        how.flags |= O_NONBLOCK | O_NOCTTY;
    if (flags & O_CREAT)
        how.mode = mode & 07777;
    int fd = (int)syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));
    return fd < 0 ? -errno : fd;
}

int abx_tree_open(struct abx_str path, int flags, mode_t mode)
{
    char name[PATH_MAX];
    if (path.len >= sizeof(name))
        return -ENAMETOOLONG;
    if (abx_str_to_c(path, name, sizeof(name)) < 0)
        return -EINVAL;
    ABX_AUTO_FD fd = abx__tree_open_at(AT_FDCWD, name, flags, mode);
    if (fd >= 0 && abx__tree_is_kernels_own(fd))
        return -EXDEV;
    return abx_fd_take(&fd);
}

/* The folder that holds @path, and the last component. */
int abx__tree_parent(struct abx_str path, char name[NAME_MAX + 1])
{
    ptrdiff_t slash = abx_str_rchr(path, '/');
    struct abx_str last = abx_str_sub(path, (size_t)slash + 1, path.len);
    if (last.len > NAME_MAX)
        return -ENAMETOOLONG;
    if (slash < 0 || last.len == 0 || abx_str_to_c(last, name, NAME_MAX + 1) < 0)
        return -EINVAL;
    struct abx_str dir = slash == 0 ? ABX_STR("/") : abx_str_sub(path, 0, (size_t)slash);
    return abx_tree_open(dir, O_PATH | O_DIRECTORY, 0);
}

int abx_tree_stat(struct abx_str path, struct stat *ret)
{
    char name[NAME_MAX + 1];
    bool is_top = abx_str_is(path, "/");
    ABX_AUTO_FD fd = is_top ? abx_tree_open(path, O_PATH, 0) : abx__tree_parent(path, name);
    if (fd < 0)
        return fd;
    int rc = is_top ? fstat(fd, ret) : fstatat(fd, name, ret, AT_SYMLINK_NOFOLLOW);
    return rc < 0 ? -errno : 0;
}

int abx_tree_stat_cached(struct abx_str path, struct stat *ret)
{
    char name[PATH_MAX];
    struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                           .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_CACHED};
    if (abx_str_to_c(path, name, sizeof(name)) < 0)
        return -EAGAIN;
    ABX_AUTO_FD fd = (int)syscall(SYS_openat2, AT_FDCWD, name, &how, sizeof(how));
    bool is_known =
        fd >= 0 && is_on(fd, local_magics, ABX_COUNTOF(local_magics)) && fstat(fd, ret) == 0;
    return is_known ? 0 : -EAGAIN;
}

int abx_tree_read_link(struct abx_str path, char *out, size_t cap)
{
    char name[NAME_MAX + 1];
    ABX_AUTO_FD fd = abx__tree_parent(path, name);
    if (fd < 0)
        return fd;
    ssize_t n = readlinkat(fd, name, out, cap);
    return n < 0 ? -errno : (int)n;
}

/* ---- folders ---- */

/* The child folder @name, made when it is missing. *ret_made tells. */
static int enter_or_make(int dir_fd, const char *name, bool *ret_made)
{
    *ret_made = mkdirat(dir_fd, name, 0777) == 0;
    if (!*ret_made && errno != EEXIST)
        return -errno;
    return abx__tree_open_at(dir_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
}

int abx_tree_mkdirs(struct abx_str path)
{
    char name[NAME_MAX + 1];
    bool was_made = false;
    struct abx_str part;
    ABX_AUTO_FD fd = abx_tree_open(ABX_STR("/"), O_PATH | O_DIRECTORY, 0);
    while (fd >= 0 && abx_str_split(&path, '/', &part)) {
        if (part.len == 0)
            continue;
        if (part.len > NAME_MAX)
            return -ENAMETOOLONG;
        if (abx_str_to_c(part, name, sizeof(name)) < 0)
            return -EINVAL;
        bool is_last = path.len == 0;
        int next = abx__tree_open_at(fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
        was_made = false;
        if (next == -ENOENT)
            next = enter_or_make(fd, name, &was_made);
        if (next == -ENOTDIR && is_last)
            next = -EEXIST;
        abx_fd_close(&fd);
        fd = next;
    }
    if (fd >= 0 && abx__tree_is_kernels_own(fd))
        return -EXDEV;
    return fd < 0 ? fd : !was_made;
}

/* ---- walking ---- */

struct walker {
    const struct abx_tree_walk *w;
    struct abx_buf path;
    bool is_enough;
};

static int walk_folder(struct walker *k, int take_fd, uint32_t depth);

static void walk_entry(struct walker *k, int dir_fd, const char *name, uint32_t depth)
{
    struct abx_tree_entry e;
    size_t mark = k->path.len;
    if (fstatat(dir_fd, name, &e.st, AT_SYMLINK_NOFOLLOW) < 0)
        return; /* gone meanwhile */
    if (mark == 0 || k->path.ptr[mark - 1] != '/')
        abx_buf_put_byte(&k->path, '/');
    abx_buf_put_c(&k->path, name);
    e.path = abx_buf_str(&k->path);
    e.name = abx_str(name);
    if (!abx_buf_failed(&k->path) && (k->w->shows == NULL || k->w->shows(k->w->ctx, &e))) {
        k->is_enough = !k->w->take(k->w->ctx, &e);
        if (!k->is_enough && S_ISDIR(e.st.st_mode) && depth > 1) {
            int fd = abx__tree_open_at(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
            if (fd >= 0)
                walk_folder(k, fd, depth - 1);
        }
    }
    if (!abx_buf_failed(&k->path)) {
        k->path.len = mark;
        k->path.ptr[mark] = '\0';
    }
}

static int walk_folder(struct walker *k, int take_fd, uint32_t depth)
{
    DIR *dir = fdopendir(take_fd);
    if (dir == NULL) {
        int errnum = errno;
        close(take_fd);
        return -errnum;
    }
    for (struct dirent *d; !k->is_enough && (d = readdir(dir)) != NULL;)
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
            walk_entry(k, dirfd(dir), d->d_name, depth);
    closedir(dir);
    return abx_buf_failed(&k->path) ? -ENOMEM : 0;
}

int abx_tree_walk(const struct abx_tree_walk *w)
{
    struct walker k = {.w = w};
    int fd = abx_tree_open(w->path, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return fd;
    abx_buf_init(&k.path, 1 << 20);
    abx_buf_put_str(&k.path, w->path);
    int rc = walk_folder(&k, fd, w->depth < DEPTH_MAX ? w->depth : (uint32_t)DEPTH_MAX);
    abx_buf_done(&k.path);
    return rc;
}

/* ---- removing, writing ---- */

int abx__tree_remove_at(int dir_fd, const char *name, bool is_folder)
{
    if (is_folder)
        return abx_fd_remove_tree(dir_fd, name);
    return unlinkat(dir_fd, name, 0) < 0 ? -errno : 0;
}

int abx_tree_remove(struct abx_str path)
{
    char name[NAME_MAX + 1];
    struct stat st;
    ABX_AUTO_FD fd = abx__tree_parent(path, name);
    if (fd < 0)
        return fd;
    if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return abx__tree_remove_at(fd, name, S_ISDIR(st.st_mode));
}

int abx_tree_spool(struct abx_str dir)
{
    int fd = abx_tree_open(dir, O_TMPFILE | O_RDWR, 0);
    if (fd >= 0)
        return fd;
    /* No such folder, or a file system without such files. */
    char name[] = "/tmp/.abx-spool-XXXXXX";
    fd = mkostemp(name, O_CLOEXEC);
    if (fd < 0)
        return -errno;
    unlink(name);
    return fd;
}

static int write_content(int fd, const struct abx_tree_put *put)
{
    uint64_t at = 0;
    if (put->size == 0)
        return abx_fd_write_all(fd, put->content.ptr, put->content.len);
    return abx_fd_copy(put->from_fd, &at, put->size, fd);
}

static int write_in_place(int dir_fd, const char *name, const struct abx_tree_put *put)
{
    ABX_AUTO_FD fd = abx__tree_open_at(dir_fd, name, O_WRONLY | O_TRUNC | O_NOFOLLOW, 0);
    return fd < 0 ? fd : write_content(fd, put);
}

/* A name that nobody else uses, beside the file. */
int abx__tree_beside(int dir_fd, mode_t mode, char name[ABX__BESIDE])
{
    static _Atomic unsigned counter;
    for (int i = 0; i < 100; i++) {
        struct abx_buf b = {.ptr = name, .cap = ABX__BESIDE, .max = ABX__BESIDE - 1};
        abx_buf_putf(&b, ".abx-put-%d-%u", (int)getpid(), counter++);
        int fd = abx__tree_open_at(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
        if (fd != -EEXIST)
            return fd;
    }
    return -EEXIST;
}

static int write_beside(int dir_fd, const char *name, const struct stat *old,
                        const struct abx_tree_put *put)
{
    char beside[ABX__BESIDE];
    ABX_AUTO_FD fd = abx__tree_beside(dir_fd, old ? 0600 : 0666, beside);
    if (fd < 0)
        return fd;
    int rc = write_content(fd, put);
    if (rc >= 0 && old && fchown(fd, old->st_uid, old->st_gid) < 0)
        rc = -errno;
    if (rc >= 0 && old && fchmod(fd, old->st_mode & 01777) < 0)
        rc = -errno;
    if (rc >= 0 && renameat(dir_fd, beside, dir_fd, name) < 0)
        rc = -errno;
    if (rc < 0)
        unlinkat(dir_fd, beside, 0);
    return rc < 0 ? rc : 0;
}

int abx_tree_put(const struct abx_tree_put *put)
{
    char name[NAME_MAX + 1];
    struct stat st;
    ABX_AUTO_FD dir_fd = abx__tree_parent(put->path, name);
    if (dir_fd < 0)
        return dir_fd;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? write_beside(dir_fd, name, NULL, put) : -errno;
    if (put->must_be_new)
        return -EEXIST;
    if (S_ISDIR(st.st_mode))
        return -EISDIR;
    if (S_ISLNK(st.st_mode))
        return -ELOOP;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    /* Whoever may not write the file may not replace it either. */
    ABX_AUTO_FD probe = abx__tree_open_at(dir_fd, name, O_WRONLY | O_NOFOLLOW, 0);
    if (probe < 0)
        return probe;
    if (st.st_nlink > 1)
        return write_in_place(dir_fd, name, put);
    int rc = write_beside(dir_fd, name, &st, put);
    return rc == -EACCES || rc == -EPERM ? write_in_place(dir_fd, name, put) : rc;
}

/* ---- adding ---- */

/* The file, made when it is missing; *inout is its state before. */
static int open_end(int dir_fd, const char *name, const struct abx_tree_put *put,
                    struct stat *ret_old, bool *ret_made)
{
    int flags = O_WRONLY | O_APPEND | O_NOFOLLOW;
    *ret_made = false;
    if (fstatat(dir_fd, name, ret_old, AT_SYMLINK_NOFOLLOW) < 0) {
        *ret_made = errno == ENOENT;
        return *ret_made ? abx__tree_open_at(dir_fd, name, flags | O_CREAT | O_EXCL, 0666) : -errno;
    }
    if (put->must_be_new)
        return -EEXIST;
    if (S_ISDIR(ret_old->st_mode))
        return -EISDIR;
    if (S_ISLNK(ret_old->st_mode))
        return -ELOOP;
    return S_ISREG(ret_old->st_mode) ? abx__tree_open_at(dir_fd, name, flags, 0) : -EINVAL;
}

/* A part of what was to be added is taken back, unless somebody has added something since. */
static void take_back(int fd, uint64_t old_size, uint64_t new_size)
{
    struct stat st;
    bool is_last = fstat(fd, &st) == 0 && (uint64_t)st.st_size <= new_size;
    if (is_last && (uint64_t)st.st_size > old_size && ftruncate(fd, (off_t)old_size) < 0)
        return; /* then it is there: the caller says that it failed */
}

static int add_content(int fd, const struct abx_tree_put *put, uint64_t max_size,
                       uint64_t *ret_size)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL; /* exchanged meanwhile */
    if (abx__tree_is_kernels_own(fd))
        return -EXDEV;
    uint64_t old = (uint64_t)st.st_size, more = put->size ? put->size : put->content.len;
    if (old > max_size || more > max_size - old)
        return -EFBIG;
    if ((st.st_mode & 06000) && fchmod(fd, st.st_mode & 01777) < 0)
        return -errno;
    int rc = write_content(fd, put);
    if (rc < 0)
        take_back(fd, old, old + more);
    *ret_size = old + more;
    return rc < 0 ? rc : 0;
}

int abx_tree_append(const struct abx_tree_put *put, uint64_t max_size, uint64_t *ret_size)
{
    enum { TRIES = 3 };
    char name[NAME_MAX + 1];
    struct stat old;
    bool was_made = false;
    ABX_AUTO_FD dir_fd = abx__tree_parent(put->path, name);
    if (dir_fd < 0)
        return dir_fd;
    ABX_AUTO_FD fd = open_end(dir_fd, name, put, &old, &was_made);
    for (int i = 1; i < TRIES && !put->must_be_new && (fd == -EEXIST || fd == -ENOENT); i++)
        fd = open_end(dir_fd, name, put, &old, &was_made); /* made or removed meanwhile */
    if (fd < 0)
        return fd;
    int rc = add_content(fd, put, max_size, ret_size);
    if (rc < 0 && was_made)
        unlinkat(dir_fd, name, 0);
    return rc;
}
