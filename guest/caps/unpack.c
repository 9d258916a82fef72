/* guest/caps/unpack.c: entries of an archive, placed by descriptors. */
#include "guest/caps/unpack.h"

#include "guest/caps/draft.h"
#include "guest/caps/gzip.h"
#include "guest/caps/tree_priv.h"
#include "guest/caps/untar.h"
#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum {
    DEPTH_MAX = 128,
    PIECE = 128 * 1024,
    RATIO = 200,                  /* of unpacked to packed bytes, */
    RATIO_FREE = 8 * 1024 * 1024, /* once there are so many */
    FOLDERS_MAX = 100000,
};

struct folder {
    char *path;
    mode_t mode;
    int64_t mtime;
};

struct abx_unpack {
    struct abx_unpack_spec spec;
    struct abx_untar tar;
    struct abx_gunzip gunzip;
    struct abx_buf path; /* of the entry in hand */
    struct abx_draft draft;
    bool has_draft;
    struct abx_untar_entry entry; /* its mode and time */
    struct abx_map written;       /* paths of the files that came out of this archive */
    struct folder *folders;
    size_t folder_count, folder_cap;
    struct abx_unpack_count count;
    uint64_t entries, packed;
    char piece[PIECE];
};

/* ---- errors ---- */

static int refuse(struct abx_error *err, struct abx_str name, const char *why)
{
    return abx_err_set(err, ABX_INVALID_ARGUMENT, "entry '%.*s': %s",
                       (int)(name.len < 120 ? name.len : 120), name.ptr, why);
}

static int fail(struct abx_error *err, int rc, struct abx_str path)
{
    int shown = (int)(path.len < 120 ? path.len : 120);
    if (rc == -ELOOP)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "'%.*s' leads through a link", shown,
                           path.ptr);
    if (rc == -EISDIR || rc == -ENOTDIR || rc == -EINVAL)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "'%.*s' is there already, as something else",
                           shown, path.ptr);
    if (rc == -EEXIST)
        return abx_err_set(err, ABX_ALREADY_EXISTS, "'%.*s' exists already", shown, path.ptr);
    return abx_err_sys(err, rc, "%.*s", shown, path.ptr);
}

/* ---- names ---- */

/* @name beneath the folder into @out: relative, no "..", "." and doubled slashes left out. */
static int place(const struct abx_unpack *u, struct abx_str name, struct abx_buf *out,
                 struct abx_error *err)
{
    struct abx_str part, rest = name;
    int depth = 0;
    abx_buf_clear(out);
    if (!abx_str_is(u->spec.path, "/"))
        abx_buf_put_str(out, u->spec.path);
    if (name.len == 0 || name.ptr[0] == '/' || memchr(name.ptr, '\0', name.len))
        return refuse(err, name, "a name is relative and not empty");
    while (abx_str_split(&rest, '/', &part)) {
        if (part.len == 0 || abx_str_is(part, "."))
            continue;
        if (abx_str_is(part, ".."))
            return refuse(err, name, "a name goes not upwards");
        if (part.len > NAME_MAX || ++depth > DEPTH_MAX)
            return refuse(err, name, "a name is too long or too deep");
        abx_buf_put_byte(out, '/');
        abx_buf_put_str(out, part);
    }
    if (out->len == 0)
        abx_buf_put_byte(out, '/');
    if (out->len >= PATH_MAX || abx_buf_failed(out))
        return refuse(err, name, "a name is too long or too deep");
    return 0;
}

static struct abx_str parent_of(struct abx_str path)
{
    ptrdiff_t slash = abx_str_rchr(path, '/');
    return slash <= 0 ? ABX_STR("/") : abx_str_sub(path, 0, (size_t)slash);
}

/* ---- kinds ---- */

static mode_t cut_mode(const struct abx_unpack *u, uint32_t mode)
{
    return (mode_t)mode & u->spec.new_mode & 0777;
}

static int begin_file(struct abx_unpack *u, struct abx_error *err)
{
    const struct abx_draft_spec spec = {.path = abx_buf_str(&u->path),
                                        .must_be_new = u->spec.must_be_new,
                                        .sets_mode = true,
                                        .replaces_links = true,
                                        .new_mode = cut_mode(u, u->entry.mode)};
    int rc = abx_draft_open(&u->draft, &spec);
    u->has_draft = true;
    return rc < 0 ? fail(err, rc, spec.path) : 0;
}

static int remember_folder(struct abx_unpack *u, struct abx_error *err)
{
    if (u->folder_count == FOLDERS_MAX)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "more than %d folders", FOLDERS_MAX);
    if (u->folder_count == u->folder_cap) {
        size_t cap = u->folder_cap ? 2 * u->folder_cap : 64;
        struct folder *more = realloc(u->folders, cap * sizeof(*more));
        if (more == NULL)
            return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
        u->folders = more;
        u->folder_cap = cap;
    }
    struct folder *f = &u->folders[u->folder_count];
    *f = (struct folder){abx_str_dup(abx_buf_str(&u->path)), cut_mode(u, u->entry.mode),
                         u->entry.mtime};
    if (f->path == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
    u->folder_count++;
    return 0;
}

static int make_folder(struct abx_unpack *u, struct abx_error *err)
{
    struct abx_str path = abx_buf_str(&u->path);
    int rc = abx_tree_mkdirs(path);
    if (rc == -EEXIST)
        rc = -EINVAL;
    if (rc < 0)
        return fail(err, rc, path);
    u->count.folders++;
    return abx_str_eq(path, u->spec.path) ? 0 : remember_folder(u, err);
}

/* Something that is made under a name of its own and then takes the entry's. */
struct maker {
    const struct abx_unpack *u;
    struct abx_str link; /* what a link says, or where the file of a hard link is */
};

static int make_beside(const struct maker *m, int dir_fd, const char *name)
{
    char other[NAME_MAX + 1], text[PATH_MAX];
    struct stat st;
    if (m->u->entry.type == ABX_UNTAR_FIFO)
        return mkfifoat(dir_fd, name, cut_mode(m->u, m->u->entry.mode)) < 0 ? -errno : 0;
    if (m->u->entry.type == ABX_UNTAR_LINK) {
        if (abx_str_to_c(m->link, text, sizeof(text)) < 0)
            return -ENAMETOOLONG;
        return symlinkat(text, dir_fd, name) < 0 ? -errno : 0;
    }
    ABX_AUTO_FD from = abx__tree_parent(m->link, other);
    if (from < 0)
        return from;
    if (fstatat(from, other, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    return linkat(from, other, dir_fd, name, 0) < 0 ? -errno : 0;
}

static int make_special(struct abx_unpack *u, struct abx_str link, struct abx_error *err)
{
    char name[NAME_MAX + 1], beside[ABX__BESIDE];
    const struct maker m = {u, link};
    struct stat st;
    struct abx_str path = abx_buf_str(&u->path);
    ABX_AUTO_FD dir_fd = abx__tree_parent(path, name);
    if (dir_fd < 0)
        return fail(err, dir_fd, path);
    bool is_there = fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (is_there && (u->spec.must_be_new || S_ISDIR(st.st_mode)))
        return fail(err, S_ISDIR(st.st_mode) ? -EISDIR : -EEXIST, path);
    ABX_AUTO_FD made = abx__tree_beside(dir_fd, 0600, beside);
    int rc = made < 0 ? made : unlinkat(dir_fd, beside, 0) < 0 ? -errno : 0;
    if (rc == 0)
        rc = make_beside(&m, dir_fd, beside);
    if (rc == 0 && renameat(dir_fd, beside, dir_fd, name) < 0)
        rc = -errno;
    if (rc < 0) {
        if (made >= 0)
            unlinkat(dir_fd, beside, 0);
        return fail(err, rc, path);
    }
    unlinkat(dir_fd, beside, 0); /* rename leaves it where both are one file */
    u->count.links += u->entry.type != ABX_UNTAR_FIFO;
    return 0;
}

static int make_hard_link(struct abx_unpack *u, struct abx_str target, struct abx_error *err)
{
    ABX_AUTO_BUF file;
    abx_buf_init(&file, PATH_MAX);
    if (place(u, target, &file, err) < 0)
        return -1;
    if (abx_map_get(&u->written, abx_buf_str(&file)) == NULL)
        return refuse(err, target, "a hard link leads to a file of the same archive");
    return make_special(u, abx_buf_str(&file), err);
}

/* ---- entries ---- */

static int begin(void *ctx, const struct abx_untar_entry *e, struct abx_error *err)
{
    struct abx_unpack *u = ctx;
    u->entry = *e;
    if (++u->entries > u->spec.max_entries)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "more than %llu entries",
                           (unsigned long long)u->spec.max_entries);
    if (place(u, e->name, &u->path, err) < 0)
        return -1;
    struct abx_str path = abx_buf_str(&u->path),
                   target = e->type == ABX_UNTAR_LINK ? e->link : (struct abx_str){0};
    if (e->type == ABX_UNTAR_DEVICE)
        return refuse(err, e->name, "devices are refused");
    if (u->spec.allows && !u->spec.allows(u->spec.ctx, path, target, err))
        return -1;
    if (e->type == ABX_UNTAR_FOLDER)
        return make_folder(u, err);
    if (abx_str_eq(path, u->spec.path))
        return refuse(err, e->name, "a name is relative and not empty");
    int rc = abx_tree_mkdirs(parent_of(path));
    if (rc < 0)
        return fail(err, rc == -EEXIST ? -EINVAL : rc, path);
    if (e->type == ABX_UNTAR_FILE)
        return begin_file(u, err);
    return e->type == ABX_UNTAR_HARD_LINK ? make_hard_link(u, e->link, err)
                                          : make_special(u, e->link, err);
}

static int data(void *ctx, struct abx_str piece, struct abx_error *err)
{
    struct abx_unpack *u = ctx;
    u->count.bytes += piece.len;
    if (u->count.bytes > u->spec.max_bytes)
        return abx_err_set(err, ABX_OUT_OF_RANGE, "its files are larger than %llu bytes",
                           (unsigned long long)u->spec.max_bytes);
    int rc = abx_draft_write(&u->draft, piece);
    return rc < 0 ? fail(err, rc, abx_buf_str(&u->path)) : 0;
}

static int end(void *ctx, struct abx_error *err)
{
    struct abx_unpack *u = ctx;
    const struct timespec times[] = {{.tv_nsec = UTIME_NOW}, {.tv_sec = u->entry.mtime}};
    struct stat st;
    int rc = futimens(u->draft.fd, times) < 0 ? -errno : abx_draft_commit(&u->draft, &st);
    if (rc < 0)
        return fail(err, rc, abx_buf_str(&u->path));
    abx_draft_drop(&u->draft);
    u->has_draft = false;
    u->count.files++;
    if (abx_map_set(&u->written, abx_buf_str(&u->path), u, NULL) < 0)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
    return 0;
}

static const struct abx_untar_ops ops = {begin, data, end};

/* ---- public ---- */

struct abx_unpack *abx_unpack_new(const struct abx_unpack_spec *spec)
{
    struct abx_unpack *u = calloc(1, sizeof(*u));
    struct abx_error err;
    if (u == NULL)
        return NULL;
    u->spec = *spec;
    abx_buf_init(&u->path, PATH_MAX);
    abx_map_init(&u->written, spec->max_entries < SIZE_MAX ? (size_t)spec->max_entries : SIZE_MAX);
    abx_untar_init(&u->tar, &ops, u);
    if (spec->is_gzip && abx_gunzip_init(&u->gunzip, &err) < 0) {
        abx_unpack_free(u);
        return NULL;
    }
    return u;
}

/* A little that becomes a lot. */
static int check_ratio(const struct abx_unpack *u, uint64_t unpacked, struct abx_error *err)
{
    if (unpacked <= RATIO_FREE || unpacked / RATIO <= u->packed)
        return 0;
    return abx_err_set(err, ABX_INVALID_ARGUMENT, "it unpacks to more than %d times its size",
                       RATIO);
}

int abx_unpack_feed(struct abx_unpack *u, struct abx_str in, struct abx_error *err)
{
    u->packed += in.len;
    if (!u->spec.is_gzip)
        return abx_untar_feed(&u->tar, in, err);
    do {
        int n = abx_gunzip_step(&u->gunzip, &in, u->piece, PIECE, err);
        if (n < 0 || abx_untar_feed(&u->tar, abx_str_n(u->piece, (size_t)n), err) < 0)
            return -1;
        if (check_ratio(u, u->gunzip.z.total_out, err) < 0)
            return -1;
    } while (in.len > 0 || u->gunzip.has_more);
    return 0;
}

static int finish_folder(const struct folder *f)
{
    const struct timespec times[] = {{.tv_nsec = UTIME_NOW}, {.tv_sec = f->mtime}};
    ABX_AUTO_FD fd = abx_tree_open(abx_str(f->path), O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return fd;
    return futimens(fd, times) < 0 || fchmod(fd, f->mode) < 0 ? -errno : 0;
}

int abx_unpack_end(struct abx_unpack *u, struct abx_unpack_count *ret, struct abx_error *err)
{
    if (u->spec.is_gzip && !(u->gunzip.has_begun && u->gunzip.has_ended))
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "the gzip stream is cut");
    if (abx_untar_end(&u->tar, err) < 0)
        return -1;
    for (size_t i = u->folder_count; i-- > 0;) { /* from within: a mode may close the way */
        int rc = finish_folder(&u->folders[i]);
        if (rc < 0)
            return fail(err, rc, abx_str(u->folders[i].path));
    }
    *ret = u->count;
    return 0;
}

void abx_unpack_free(struct abx_unpack *u)
{
    if (u == NULL)
        return;
    if (u->has_draft)
        abx_draft_drop(&u->draft);
    for (size_t i = 0; i < u->folder_count; i++)
        free(u->folders[i].path);
    free(u->folders);
    abx_map_done(&u->written);
    abx_gunzip_done(&u->gunzip);
    abx_untar_done(&u->tar);
    abx_buf_done(&u->path);
    free(u);
}
