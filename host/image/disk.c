/* host/image/disk.c: an archive into a folder (security S52, S53). Every parent is opened beneath
 * the layer's root without following links; what is there is unlinked before it is made anew. */
#include "host/image/unpack_priv.h"

#include "lib/base/fd.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { CHUNK = 128 * 1024, XATTRS_MAX = 64 * 1024 };

struct disk {
    struct abx__tar *tar;
    int root;
    enum abx__disk_kind kind;
    struct abx__tar_entry e;
    char chunk[CHUNK];
};

static int open_beneath(int root, const char *path, uint64_t flags)
{
    struct open_how how = {.flags = flags | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV};
    long fd = syscall(SYS_openat2, root, path, &how, sizeof(how));
    return fd < 0 ? -errno : (int)fd;
}

/* The folder @path, with those above it that the archive did not name. */
static int open_dirs(struct disk *d, const char *path)
{
    int found = open_beneath(d->root, path, O_PATH | O_DIRECTORY);
    if (found != -ENOENT)
        return found;
    char upto[ABX__TAR_PATH];
    struct abx_error unused;
    snprintf(upto, sizeof(upto), "%s", path);
    for (char *end = upto; end != NULL;) {
        end = strchr(end, '/');
        if (end != NULL)
            *end = 0;
        if (mkdirat(d->root, upto, 0755) < 0 && errno != EEXIST) /* its parents are no links */
            return -errno;
        int next = open_beneath(d->root, upto, O_PATH | O_DIRECTORY);
        if (next < 0)
            return next;
        close(next);
        if (abx__tar_count(d->tar, &unused) < 0)
            return -E2BIG;
        if (end != NULL)
            *end++ = '/';
    }
    return open_beneath(d->root, path, O_PATH | O_DIRECTORY);
}

/* The folder that holds @path; *ret_name: the rest of it. */
static int open_parent(struct disk *d, const char *path, const char **ret_name)
{
    char parent[ABX__TAR_PATH];
    const char *slash = strrchr(path, '/');
    *ret_name = slash ? slash + 1 : path;
    if (slash == NULL)
        return open_beneath(d->root, ".", O_PATH | O_DIRECTORY);
    memcpy(parent, path, (size_t)(slash - path));
    parent[slash - path] = 0;
    return open_dirs(d, parent);
}

static bool is_whiteout(const struct stat *st)
{
    return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

/* Makes room for an entry: the last of two with one name wins. A folder stays one. */
static int make_room(const struct disk *d, int dir, const char *name)
{
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    bool hides = d->e.type == ABX__TAR_HIDE;
    if (hides != is_whiteout(&st))
        return -ENOTUNIQ; /* both an entry and a whiteout */
    if (S_ISDIR(st.st_mode) && d->e.type == ABX__TAR_DIR)
        return -EEXIST;
    return unlinkat(dir, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) < 0 ? -errno : 0;
}

/* ---- attributes ---- */
static int put_xattrs(const struct disk *d, int fd)
{
    const char *name;
    const void *value;
    size_t size, total = 0;
    archive_entry_xattr_reset(d->e.raw);
    while (archive_entry_xattr_next(d->e.raw, &name, &value, &size) == ARCHIVE_OK) {
        total += size + strlen(name);
        if (total > XATTRS_MAX)
            return -E2BIG;
        /* security.capability becomes one for the storage range: the kernel notes our root (S51) */
        if (abx__tar_keeps_xattr(name) && fsetxattr(fd, name, value, size, 0) < 0 &&
            errno != EOPNOTSUPP)
            return -errno;
    }
    return 0;
}

static int put_owner(const struct disk *d, int dir, const char *name)
{
    if (d->e.uid < 0 || d->e.uid > 65535 || d->e.gid < 0 || d->e.gid > 65535)
        return -EOVERFLOW;
    if (d->kind == ABX__DISK_LAYER &&
        fchownat(dir, name, (uid_t)d->e.uid, (gid_t)d->e.gid, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return 0;
}

static int put_times(const struct disk *d, int dir, const char *name)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = (time_t)d->e.mtime_s}};
    return utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* ---- kinds of entries ---- */
static int put_content(struct disk *d, int fd, struct abx_error *err)
{
    ssize_t n;
    while ((n = abx__tar_data(d->tar, d->chunk, sizeof(d->chunk), err)) > 0) {
        int r = abx_fd_write_all(fd, d->chunk, (size_t)n);
        if (r < 0)
            return abx_err_sys(err, r, "%.100s", d->e.path);
    }
    return n < 0 ? -1 : 0;
}

static int put_file(struct disk *d, int dir, const char *name, struct abx_error *err)
{
    ABX_AUTO_FD fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : 0;
    if (r == 0 && put_content(d, fd, err) < 0)
        return -1;
    if (r == 0)
        r = put_owner(d, dir, name);
    if (r == 0 && fchmod(fd, d->e.mode & 07777) < 0)
        r = -errno;
    if (r == 0)
        r = put_xattrs(d, fd);
    if (r == 0)
        r = put_times(d, dir, name);
    return r < 0 ? abx_err_sys(err, r, "%.100s", d->e.path) : 0;
}

static int put_dir(struct disk *d, int dir, const char *name, bool exists)
{
    if (!exists && mkdirat(dir, name, 0700) < 0)
        return -errno;
    int r = put_owner(d, dir, name);
    ABX_AUTO_FD fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (r == 0 && (fd < 0 || fchmod(fd, d->e.mode & 07777) < 0))
        r = -errno;
    return r < 0 ? r : put_xattrs(d, fd);
}

static int put_hardlink(struct disk *d, int dir, const char *name)
{
    const char *last;
    struct stat st;
    ABX_AUTO_FD from = open_parent(d, d->e.link, &last);
    if (from < 0)
        return from;
    if (fstatat(from, last, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    return linkat(from, last, dir, name, 0) < 0 ? -errno : 0;
}

static int put_node(struct disk *d, int dir, const char *name)
{
    int r = -EINVAL;
    if (d->e.type == ABX__TAR_SYMLINK)
        r = symlinkat(d->e.link, dir, name);
    else if (d->e.type == ABX__TAR_FIFO)
        r = mkfifoat(dir, name, d->e.mode & 07777);
    else if (d->e.type == ABX__TAR_HIDE)
        return mknodat(dir, name, S_IFCHR, makedev(0, 0)) < 0 ? -errno : 0;
    else if (d->e.type == ABX__TAR_HARDLINK)
        return put_hardlink(d, dir, name);
    if (r < 0)
        return r == -EINVAL ? r : -errno;
    r = put_owner(d, dir, name);
    return r < 0 ? r : put_times(d, dir, name);
}

static int put_opaque(struct disk *d)
{
    int made = strcmp(d->e.path, ".") == 0 ? 0 : open_dirs(d, d->e.path);
    if (made < 0)
        return made;
    if (made > 0)
        close(made);
    ABX_AUTO_FD fd = open_beneath(d->root, d->e.path, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return fd;
    return fsetxattr(fd, "user.overlay.opaque", "y", 1, 0) < 0 ? -errno : 0;
}

/* A link is opened only where it stays below the folder (docker.c). */
static bool is_for_files(const struct abx__tar_entry *e)
{
    return e->type == ABX__TAR_FILE || e->type == ABX__TAR_DIR ||
           (e->type == ABX__TAR_SYMLINK && abx_str_ends(abx_str(e->path), ".tar"));
}

static int put(struct disk *d, struct abx_error *err)
{
    const char *path = d->e.path, *name = path;
    if (d->kind == ABX__DISK_FILES && !is_for_files(&d->e))
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "%.100s is no file or folder", path);
    int r;
    if (d->e.is_opaque) {
        r = put_opaque(d);
        return r < 0 ? abx_err_sys(err, r, "opaque %.100s", path) : 0;
    }
    if (strcmp(path, ".") == 0) {
        r = d->e.type != ABX__TAR_DIR ? -EINVAL : put_dir(d, d->root, ".", true);
        return r < 0 ? abx_err_sys(err, r, "root entry") : 0;
    }
    ABX_AUTO_FD dir = open_parent(d, path, &name);
    r = dir < 0 ? dir : make_room(d, dir, name);
    if (r == -ENOTUNIQ)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "%.100s is an entry and a whiteout", path);
    if (r == -ELOOP)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "%.100s lies behind a symbolic link", path);
    bool exists = r == -EEXIST;
    if (r < 0 && !exists)
        return abx_err_sys(err, r, "%.100s", path);
    if (d->e.type == ABX__TAR_FILE)
        return put_file(d, dir, name, err);
    r = d->e.type == ABX__TAR_DIR ? put_dir(d, dir, name, exists) : put_node(d, dir, name);
    return r < 0 ? abx_err_sys(err, r, "%.100s", path) : 0;
}

int abx__disk_unpack(int fd, int at_fd, const char *name, enum abx__disk_kind kind,
                     struct abx_layer_info *ret, struct abx_digest *ret_file, struct abx_error *err)
{
    struct disk *d = calloc(1, sizeof(*d));
    if (d == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory");
    d->kind = kind;
    d->root = -1;
    int r = abx__tar_open(fd, &d->tar, err);
    if (r == 0 && (mkdirat(at_fd, name, 0755) < 0 ||
                   (d->root = openat(at_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0))
        r = abx_err_sys(err, -errno, "make the layer's folder");
    for (int more = 1; r == 0 && more > 0;) {
        more = abx__tar_next(d->tar, kind == ABX__DISK_LAYER, &d->e, err);
        r = more < 0 ? -1 : (more > 0 ? put(d, err) : 0);
    }
    struct abx_digest file;
    if (r == 0)
        r = abx__tar_finish(d->tar, ret_file ? ret_file : &file, &ret->digest, err);
    if (r == 0) {
        ret->bytes = abx__tar_spent(d->tar)->out;
        ret->entries = abx__tar_spent(d->tar)->entries;
    }
    abx__tar_close(d->tar);
    abx_fd_close(&d->root);
    free(d);
    return r;
}
