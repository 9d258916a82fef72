/* guest/caps/tree_copy.c: files and trees a second time: by descriptors, through no link, whole or
 * not at all. What a move between file systems does, and the copy of the file endpoints. Pool. */
#include "guest/caps/tree_priv.h"

#include "lib/base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum {
    MOVE_DEPTH = 1000,
    COPY_DEPTH = 128, /* each level holds two descriptors */
    COPY_BYTES = 1 << 20,
    PIECE_BYTES = 16 << 20, /* between two looks at cancel */
    PATH_BYTES = 65536,
    NAMES_MAX = 65536,
    VALUE_MAX = 65536,
};

/* One entry and its place, each a name in a folder. */
struct spot {
    int from_fd, to_fd;
    const char *from, *to;
    int depth; /* levels that may follow */
};

static int copy_entry(struct abx__copier *c, const struct spot *at);

bool abx__tree_is_inside(struct abx_str outer, struct abx_str inner)
{
    return inner.len > outer.len && memcmp(outer.ptr, inner.ptr, outer.len) == 0 &&
           (inner.ptr[outer.len] == '/' || outer.len == 1);
}

static bool is_cancelled(const struct abx__copier *c)
{
    return c->spec && c->spec->cancel && atomic_load(c->spec->cancel);
}

/* ---- what belongs to a file beside its bytes ---- */

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
static int copy_metadata(const struct abx__copier *c, int from, int to, const struct stat *st)
{
    const struct timespec times[] = {st->st_atim, st->st_mtim};
    bool is_owned = c->is_move && fchown(to, st->st_uid, st->st_gid) == 0;
    int rc = copy_attributes(from, to);
    if (rc < 0)
        return rc;
    if (fchmod(to, st->st_mode & (is_owned ? 07777 : 01777)) < 0 || futimens(to, times) < 0)
        return -errno;
    return 0;
}

/* ---- bytes ---- */

static ssize_t copy_by_hand(int in, off_t at, size_t size, int out)
{
    ABX_AUTO_FREE char *piece = malloc(COPY_BYTES);
    if (piece == NULL)
        return -ENOMEM;
    ssize_t n = pread(in, piece, size < COPY_BYTES ? size : COPY_BYTES, at);
    int rc = n < 0 ? -errno : abx_fd_write_all_at(out, piece, (size_t)n, (uint64_t)at);
    return rc < 0 ? rc : n;
}

/* Bytes copied, at most @size: 0 at the end of the file. By the kernel where it can. */
static ssize_t copy_piece(int in, off_t at, size_t size, int out)
{
    off_t from = at, to = at;
    ssize_t n = copy_file_range(in, &from, out, &to, size, 0);
    if (n > 0)
        return n;
    return n < 0 && errno == ENOSPC ? -ENOSPC : copy_by_hand(in, at, size, out);
}

/* The next bytes from @at on that are no hole; false: there are none. */
static bool next_data(int in, off_t at, off_t size, off_t *ret_from, off_t *ret_to)
{
    *ret_from = lseek(in, at, SEEK_DATA);
    if (*ret_from < 0 && errno == ENXIO)
        return false;
    if (*ret_from < 0)
        *ret_from = at; /* a file system that knows of no holes */
    *ret_to = lseek(in, *ret_from, SEEK_HOLE);
    if (*ret_to <= *ret_from || *ret_to > size)
        *ret_to = size;
    return *ret_from < size;
}

/* As long as the file was when it was opened, or as it has become if it is shorter now. */
static int copy_bytes(const struct abx__copier *c, int in, int out, off_t *inout_size)
{
    off_t size = *inout_size, from, to;
    for (off_t at = 0; at < size && next_data(in, at, size, &from, &to); at = to)
        while (from < to) {
            size_t left = (size_t)(to - from);
            ssize_t n = is_cancelled(c)
                            ? -ECANCELED
                            : copy_piece(in, from, left < PIECE_BYTES ? left : PIECE_BYTES, out);
            if (n < 0)
                return (int)n;
            if (n == 0)
                size = to = from; /* cut meanwhile */
            from += n;
        }
    *inout_size = size;
    return ftruncate(out, size) < 0 ? -errno : 0;
}

/* ---- entries ---- */

static int copy_file(struct abx__copier *c, const struct spot *at)
{
    struct stat st;
    ABX_AUTO_FD in = abx__tree_open_at(at->from_fd, at->from, O_RDONLY | O_NOFOLLOW, 0);
    ABX_AUTO_FD out = in < 0 ? in
                             : abx__tree_open_at(at->to_fd, at->to,
                                                 O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    if (out < 0)
        return out;
    if (fstat(in, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -ENOTSUP; /* exchanged meanwhile */
    if (abx__tree_is_kernels_own(in))
        return -EXDEV;
    if (c->spec && (uint64_t)st.st_size > c->spec->max_bytes - c->count->bytes)
        return -EFBIG;
    int rc = copy_bytes(c, in, out, &st.st_size);
    if (rc == 0 && c->spec) {
        c->count->files++;
        c->count->bytes += (uint64_t)st.st_size;
    }
    return rc < 0 ? rc : copy_metadata(c, in, out, &st);
}

/* The link that says @target, without what else belongs to it. */
static int make_link(const struct abx__copier *c, const struct spot *at, const char *target,
                     const struct stat *st)
{
    const struct timespec times[] = {st->st_atim, st->st_mtim};
    if (symlinkat(target, at->to_fd, at->to) < 0)
        return -errno;
    if (c->spec)
        c->count->links++;
    /* Without the right to give it away it is ours, as any copy. */
    if (c->is_move &&
        fchownat(at->to_fd, at->to, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0 &&
        errno != EPERM)
        return -errno;
    return utimensat(at->to_fd, at->to, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int copy_children(struct abx__copier *c, int take_from, int to, int depth)
{
    DIR *dir = fdopendir(take_from);
    int rc = dir ? 0 : -errno;
    if (dir == NULL) {
        close(take_from);
        return rc;
    }
    for (struct dirent *d; rc == 0 && (d = readdir(dir)) != NULL;)
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
            rc = copy_entry(c, &(struct spot){dirfd(dir), to, d->d_name, d->d_name, depth});
    closedir(dir);
    return rc;
}

static int copy_folder(struct abx__copier *c, const struct spot *at)
{
    struct stat st;
    if (at->depth == 0)
        return -EOVERFLOW;
    ABX_AUTO_FD in =
        abx__tree_open_at(at->from_fd, at->from, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (in < 0)
        return in;
    if (abx__tree_is_kernels_own(in))
        return -EXDEV;
    if (fstat(in, &st) < 0 || mkdirat(at->to_fd, at->to, 0700) < 0)
        return -errno;
    if (st.st_dev == c->made.st_dev && st.st_ino == c->made.st_ino)
        return -EINVAL; /* by another mount, or moved meanwhile: the copy would have no end */
    ABX_AUTO_FD out = abx__tree_open_at(at->to_fd, at->to, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (out < 0)
        return out;
    if (c->made.st_ino == 0 && fstat(out, &c->made) < 0)
        return -errno;
    ABX_AUTO_FD walked = fcntl(in, F_DUPFD_CLOEXEC, 0);
    if (walked < 0)
        return -errno;
    if (c->spec)
        c->count->folders++;
    int rc = copy_children(c, abx_fd_take(&walked), out, at->depth - 1);
    return rc < 0 ? rc : copy_metadata(c, in, out, &st);
}

/* ---- one entry ---- */

static void push(struct abx_buf *path, const char *name)
{
    if (path->len == 0 || path->ptr[path->len - 1] != '/')
        abx_buf_put_byte(path, '/');
    abx_buf_put_c(path, name);
}

static void cut(struct abx_buf *path, size_t len)
{
    if (abx_buf_failed(path))
        return;
    path->len = len;
    path->ptr[len] = '\0';
}

static uint64_t seen(const struct abx_tree_copied *n)
{
    return n->files + n->folders + n->links + n->skipped;
}

/* 1: copy it; as abx_tree_copy.judge. */
static int ask(const struct abx__copier *c, const struct stat *st, const char *target, int depth)
{
    struct abx_tree_copy_entry e = {.from = abx_buf_str(&c->from),
                                    .to = abx_buf_str(&c->to),
                                    .st = *st,
                                    .target = target ? abx_str(target) : (struct abx_str){0},
                                    .is_top = depth == COPY_DEPTH};
    if (c->spec == NULL)
        return 1;
    if (abx_buf_failed(&c->from) || abx_buf_failed(&c->to))
        return -ENAMETOOLONG;
    if (is_cancelled(c))
        return -ECANCELED;
    if (seen(c->count) >= c->spec->max_entries)
        return -E2BIG;
    int rc = c->spec->judge(c->spec->ctx, &e);
    c->count->skipped += rc == 0;
    return rc;
}

/* What is judged is what the copy says, whatever the link says by then. Not inlined: the copier
 * calls itself, and a target takes a page of the stack. */
__attribute__((noinline)) static int copy_link(struct abx__copier *c, const struct spot *at,
                                               const struct stat *st)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(at->from_fd, at->from, target, sizeof(target) - 1);
    if (n < 0)
        return -errno;
    target[n] = '\0';
    int rc = ask(c, st, target, at->depth);
    return rc <= 0 ? rc : make_link(c, at, target, st);
}

static int copy_one(struct abx__copier *c, const struct spot *at)
{
    struct stat st;
    if (fstatat(at->from_fd, at->from, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (S_ISLNK(st.st_mode))
        return copy_link(c, at, &st);
    int rc = ask(c, &st, NULL, at->depth);
    if (rc <= 0)
        return rc;
    if (S_ISREG(st.st_mode))
        return copy_file(c, at);
    if (S_ISDIR(st.st_mode))
        return copy_folder(c, at);
    if (!c->is_move)
        return -ENOTSUP;
    return mknodat(at->to_fd, at->to, st.st_mode & (S_IFMT | 07777), st.st_rdev) < 0 ? -errno : 0;
}

/* Where it fails the paths stay at what failed. */
static int copy_entry(struct abx__copier *c, const struct spot *at)
{
    size_t from_mark = c->from.len, to_mark = c->to.len;
    if (c->spec) {
        push(&c->from, at->from);
        push(&c->to, at->to);
    }
    int rc = copy_one(c, at);
    if (rc == 0 && c->spec) {
        cut(&c->from, from_mark);
        cut(&c->to, to_mark);
    }
    return rc;
}

/* ---- the whole ---- */

static void drop(int dir_fd, const char *name)
{
    struct stat st;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    /* Its copied mode may forbid what is to come. */
    if (S_ISDIR(st.st_mode) && fchmodat(dir_fd, name, 0700, 0) < 0 && errno == ENOENT)
        return;
    abx__tree_remove_at(dir_fd, name, S_ISDIR(st.st_mode));
}

static int give_name(const struct abx__copy_place *to, const char *beside)
{
    struct stat st;
    const struct stat *owner = to->owner;
    if (owner && fstatat(to->dir_fd, beside, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (owner && (owner->st_uid != st.st_uid || owner->st_gid != st.st_gid) &&
        fchownat(to->dir_fd, beside, owner->st_uid, owner->st_gid, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    unsigned flags = to->must_be_new ? RENAME_NOREPLACE : 0;
    if (renameat2(to->dir_fd, beside, to->dir_fd, to->name, flags) == 0)
        return 0;
    if (errno != EINVAL || flags == 0)
        return -errno;
    /* A file system that can not promise it. */
    if (fstatat(to->dir_fd, to->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return -EEXIST;
    return renameat(to->dir_fd, beside, to->dir_fd, to->name) < 0 ? -errno : 0;
}

int abx__tree_copy_into(struct abx__copier *c, int from_fd, const char *from,
                        const struct abx__copy_place *to)
{
    char beside[ABX__BESIDE];
    ABX_AUTO_FD made = abx__tree_beside(to->dir_fd, 0600, beside);
    if (made < 0)
        return made;
    const struct spot at = {from_fd, to->dir_fd, from, beside, c->spec ? COPY_DEPTH : MOVE_DEPTH};
    int rc = unlinkat(to->dir_fd, beside, 0) < 0 ? -errno : copy_one(c, &at);
    if (rc == 0)
        rc = give_name(to, beside);
    if (rc < 0)
        drop(to->dir_fd, beside);
    return rc;
}

/* Whether what is at the new place may give way: a file or link to one that is no folder.
 * *ret_there is the file that does, and what place->owner points to. */
static int check_place(const struct abx_tree_copy *spec, bool is_folder,
                       struct abx__copy_place *place, struct stat *ret_there)
{
    place->must_be_new = spec->must_be_new || is_folder;
    if (fstatat(place->dir_fd, place->name, ret_there, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (spec->must_be_new)
        return -EEXIST;
    if (S_ISDIR(ret_there->st_mode))
        return -EISDIR;
    if (is_folder)
        return -ENOTDIR;
    if (!S_ISREG(ret_there->st_mode))
        return 0;
    place->owner = ret_there;
    /* Whoever may not write the file may not replace it either. */
    ABX_AUTO_FD probe = abx__tree_open_at(place->dir_fd, place->name, O_WRONLY | O_NOFOLLOW, 0);
    return probe < 0 ? probe : 0;
}

static int copy(struct abx__copier *c, const struct abx_tree_copy *spec)
{
    char from[NAME_MAX + 1], to[NAME_MAX + 1];
    struct stat st, there;
    ABX_AUTO_FD from_fd = abx__tree_parent(spec->from, from);
    ABX_AUTO_FD to_fd = from_fd < 0 ? from_fd : abx__tree_parent(spec->to, to);
    if (to_fd < 0)
        return to_fd;
    if (fstatat(from_fd, from, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (abx_str_eq(spec->from, spec->to) ||
        (S_ISDIR(st.st_mode) && abx__tree_is_inside(spec->from, spec->to)))
        return -EINVAL;
    struct abx__copy_place place = {.dir_fd = to_fd, .name = to};
    int rc = check_place(spec, S_ISDIR(st.st_mode), &place, &there);
    return rc < 0 ? rc : abx__tree_copy_into(c, from_fd, from, &place);
}

int abx_tree_copy(const struct abx_tree_copy *spec, struct abx_tree_copied *ret)
{
    struct abx__copier c = {.spec = spec, .count = ret};
    *ret = (struct abx_tree_copied){0};
    abx_buf_init(&c.from, PATH_BYTES);
    abx_buf_init(&c.to, PATH_BYTES);
    abx_buf_put_str(&c.from, spec->from);
    abx_buf_put_str(&c.to, spec->to);
    int rc = copy(&c, spec);
    ret->failed = c.from;
    abx_buf_done(&c.to);
    return rc;
}
