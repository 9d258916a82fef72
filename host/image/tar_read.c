/* host/image/tar_read.c: an archive by libarchive, in two stages, so that the bytes of both the
 * file and the tar in it are hashed: the outer one only decompresses, the inner one only reads tar.
 */
#include "host/image/unpack_priv.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { CHUNK = 128 * 1024 };

struct abx__tar {
    int fd;
    struct archive *outer, *inner;
    struct abx__tar_budget budget;
    crypto_hash_sha256_state file_hash, tar_hash;
    struct abx_error err; /* of a callback */
    unsigned char raw[CHUNK], plain[CHUNK];
};

static la_ssize_t fail_in(struct archive *a, struct abx__tar *t)
{
    archive_set_error(a, EIO, "%s", t->err.msg);
    return ARCHIVE_FATAL;
}

static la_ssize_t read_file(struct archive *a, void *arg, const void **ret)
{
    struct abx__tar *t = arg;
    ssize_t n;
    do
        n = read(t->fd, t->raw, sizeof(t->raw));
    while (n < 0 && errno == EINTR);
    if (n < 0) {
        abx_err_sys(&t->err, -errno, "read the archive");
        return fail_in(a, t);
    }
    t->budget.in += (uint64_t)n;
    crypto_hash_sha256_update(&t->file_hash, t->raw, (unsigned long long)n);
    *ret = t->raw;
    return n;
}

static la_ssize_t read_plain(struct archive *a, void *arg, const void **ret)
{
    struct abx__tar *t = arg;
    la_ssize_t n = archive_read_data(t->outer, t->plain, sizeof(t->plain));
    if (n < 0) {
        if (t->err.code == ABX_OK)
            abx_err_set(&t->err, ABX_INVALID_ARGUMENT, "the archive is damaged: %.150s",
                        archive_error_string(t->outer) ? archive_error_string(t->outer) : "");
        return fail_in(a, t);
    }
    t->budget.out += (uint64_t)n;
    if (abx__tar_afford(&t->budget, &t->err) < 0)
        return fail_in(a, t);
    crypto_hash_sha256_update(&t->tar_hash, t->plain, (unsigned long long)n);
    *ret = t->plain;
    return n;
}

static int fail(struct abx__tar *t, struct archive *a, struct abx_error *err)
{
    if (t->err.code == ABX_OK)
        abx_err_set(&t->err, ABX_INVALID_ARGUMENT, "not a readable tar: %.150s",
                    archive_error_string(a) ? archive_error_string(a) : "unknown format");
    if (err != NULL)
        *err = t->err;
    return -1;
}

static int open_stages(struct abx__tar *t, struct abx_error *err)
{
    struct archive_entry *e;
    t->outer = archive_read_new();
    t->inner = archive_read_new();
    if (t->outer == NULL || t->inner == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory");
    if (archive_read_support_filter_gzip(t->outer) != ARCHIVE_OK ||
        archive_read_support_filter_zstd(t->outer) != ARCHIVE_OK ||
        archive_read_support_format_raw(t->outer) != ARCHIVE_OK ||
        archive_read_open(t->outer, t, NULL, read_file, NULL) != ARCHIVE_OK ||
        archive_read_next_header(t->outer, &e) != ARCHIVE_OK)
        return fail(t, t->outer, err);
    if (archive_read_support_format_tar(t->inner) != ARCHIVE_OK ||
        archive_read_open(t->inner, t, NULL, read_plain, NULL) != ARCHIVE_OK)
        return fail(t, t->inner, err);
    return 0;
}

int abx__tar_open(int fd, struct abx__tar **ret, struct abx_error *err)
{
    struct abx__tar *t = calloc(1, sizeof(*t));
    if (t == NULL || sodium_init() < 0) {
        free(t);
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory");
    }
    t->fd = fd;
    crypto_hash_sha256_init(&t->file_hash);
    crypto_hash_sha256_init(&t->tar_hash);
    if (open_stages(t, err) < 0) {
        abx__tar_close(t);
        return -1;
    }
    *ret = t;
    return 0;
}

void abx__tar_close(struct abx__tar *t)
{
    if (t == NULL)
        return;
    archive_read_free(t->inner);
    archive_read_free(t->outer);
    free(t);
}

const struct abx__tar_budget *abx__tar_spent(const struct abx__tar *t)
{
    return &t->budget;
}

int abx__tar_count(struct abx__tar *t, struct abx_error *err)
{
    t->budget.entries++;
    return abx__tar_afford(&t->budget, err);
}

/* ---- one entry ---- */
static const struct {
    unsigned filetype;
    enum abx__tar_type type;
} types[] = {{AE_IFREG, ABX__TAR_FILE},
             {AE_IFDIR, ABX__TAR_DIR},
             {AE_IFLNK, ABX__TAR_SYMLINK},
             {AE_IFIFO, ABX__TAR_FIFO}};

static int take_type(struct archive_entry *e, struct abx__tar_entry *ret, struct abx_error *err)
{
    unsigned filetype = archive_entry_filetype(e);
    if (archive_entry_hardlink(e) != NULL) {
        ret->type = ABX__TAR_HARDLINK;
        return abx__tar_clean(archive_entry_hardlink(e), ret->link, err);
    }
    if (filetype == AE_IFCHR && archive_entry_rdev(e) == 0) {
        ret->type = ABX__TAR_HIDE;
        return 0;
    }
    for (size_t i = 0; i < ABX_COUNTOF(types); i++) {
        if (types[i].filetype != filetype)
            continue;
        ret->type = types[i].type;
        if (ret->type != ABX__TAR_SYMLINK)
            return 0;
        const char *link = archive_entry_symlink(e);
        if (link == NULL || *link == 0 ||
            abx_str_to_c(abx_str(link), ret->link, sizeof(ret->link)) < 0)
            return abx_err_set(err, ABX_INVALID_ARGUMENT, "bad link at %.100s", ret->path);
        return 0;
    }
    return abx_err_set(err, ABX_INVALID_ARGUMENT, "%.100s is a device or socket (type %o)",
                       ret->path, filetype);
}

static int take_mark(struct abx__tar_entry *ret, struct abx_error *err)
{
    enum abx__tar_mark mark;
    char at[ABX__TAR_PATH];
    if (abx__tar_mark(ret->path, &mark, at, err) < 0)
        return -1;
    if (mark == ABX__TAR_PLAIN)
        return 0;
    memcpy(ret->path, at, strlen(at) + 1);
    ret->is_opaque = mark == ABX__TAR_OPAQUE;
    ret->type = ABX__TAR_HIDE;
    return 0;
}

int abx__tar_next(struct abx__tar *t, bool marks, struct abx__tar_entry *ret, struct abx_error *err)
{
    struct archive_entry *e;
    int r = archive_read_next_header(t->inner, &e);
    if (r == ARCHIVE_EOF)
        return 0;
    if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
        return fail(t, t->inner, err);
    if (abx__tar_count(t, err) < 0)
        return -1;
    const char *name = archive_entry_pathname(e);
    if (name == NULL)
        name = archive_entry_pathname_utf8(e);
    if (name == NULL)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "an entry's name can not be read");
    ret->is_opaque = false;
    ret->link[0] = 0;
    ret->mode = archive_entry_perm(e);
    ret->uid = archive_entry_uid(e);
    ret->gid = archive_entry_gid(e);
    ret->mtime_s = archive_entry_mtime(e);
    ret->size = archive_entry_size(e) > 0 ? (uint64_t)archive_entry_size(e) : 0;
    ret->raw = e;
    if (abx__tar_clean(name, ret->path, err) < 0 || take_type(e, ret, err) < 0 ||
        (marks && take_mark(ret, err) < 0))
        return -1;
    return 1;
}

ssize_t abx__tar_data(struct abx__tar *t, void *data, size_t len, struct abx_error *err)
{
    la_ssize_t n = archive_read_data(t->inner, data, len);
    if (n < 0)
        return fail(t, t->inner, err);
    return n;
}

int abx__tar_finish(struct abx__tar *t, struct abx_digest *ret_file, struct abx_digest *ret_tar,
                    struct abx_error *err)
{
    const void *unused;
    la_ssize_t n;
    while ((n = read_plain(t->inner, t, &unused)) > 0)
        ;
    if (n < 0)
        return fail(t, t->inner, err);
    while ((n = read_file(t->outer, t, &unused)) > 0) /* behind the end of the compression */
        if (abx__tar_afford(&t->budget, err) < 0)
            return -1;
    if (n < 0)
        return fail(t, t->outer, err);
    crypto_hash_sha256_final(&t->file_hash, ret_file->bytes);
    crypto_hash_sha256_final(&t->tar_hash, ret_tar->bytes);
    return 0;
}
