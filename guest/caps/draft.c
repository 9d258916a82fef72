/* guest/caps/draft.c: a part has a name that only its file can have; its lock says that it is being
 * written. */
#include "guest/caps/draft.h"
#include "guest/caps/tree_priv.h"

#include "lib/base/fd.h"
#include "lib/base/parse.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { HASH_BYTES = ABX_DRAFT_HEX / 2, COPY_BYTES = 1 << 20 };
_Static_assert(sizeof(ABX_DRAFT_PREFIX) + 2 * HASH_BYTES <= ABX_DRAFT_NAME,
               "the name of a part fits");

static int look_at_old(struct abx_draft *d)
{
    if (fstatat(d->dir_fd, d->name, &d->old, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    d->has_old = true;
    if (d->must_be_new)
        return -EEXIST;
    if (S_ISDIR(d->old.st_mode))
        return -EISDIR;
    if (S_ISLNK(d->old.st_mode))
        return d->replaces_links ? 0 : -ELOOP;
    if (!S_ISREG(d->old.st_mode))
        return -EINVAL;
    /* Whoever may not write the file may not replace it either. */
    ABX_AUTO_FD probe = abx__tree_open_at(d->dir_fd, d->name, O_WRONLY | O_NOFOLLOW, 0);
    return probe < 0 ? probe : 0;
}

static void name_part(struct abx_draft *d, struct abx_str owner)
{
    unsigned char hash[crypto_generichash_BYTES_MIN];
    char hex[2 * HASH_BYTES + 1];
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, sizeof(hash));
    crypto_generichash_update(&state, (const unsigned char *)d->name, strlen(d->name) + 1);
    crypto_generichash_update(&state, (const unsigned char *)owner.ptr, owner.len);
    crypto_generichash_final(&state, hash, sizeof(hash));
    abx_hex_encode(hash, HASH_BYTES, hex);
    snprintf(d->beside, sizeof(d->beside), ABX_DRAFT_PREFIX "%s", hex);
}

/* Ours alone: the users of a sandbox may have put anything under this name. */
static int open_part(struct abx_draft *d, const struct abx_draft_spec *spec)
{
    struct stat st;
    name_part(d, spec->owner);
    d->fd = abx__tree_open_at(d->dir_fd, d->beside, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
    if (d->fd < 0)
        return d->fd;
    if (flock(d->fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK ? -EBUSY : -errno;
    if (fstat(d->fd, &st) < 0)
        return -errno;
    if (st.st_nlink == 0) /* its writer has just ended it */
        return -EBUSY;
    if (!S_ISREG(st.st_mode) || st.st_nlink != 1 || st.st_uid != geteuid())
        return -EPERM;
    d->size = (uint64_t)st.st_size;
    if (spec->from == 0 && ftruncate(d->fd, 0) < 0)
        return -errno;
    if (spec->from == 0)
        d->size = 0;
    return d->size == spec->from ? 0 : -ERANGE;
}

int abx_draft_open(struct abx_draft *d, const struct abx_draft_spec *spec)
{
    *d = (struct abx_draft){.dir_fd = -1,
                            .fd = -1,
                            .is_part = spec->is_part,
                            .must_be_new = spec->must_be_new,
                            .sets_mode = spec->sets_mode,
                            .replaces_links = spec->replaces_links,
                            .new_mode = spec->new_mode};
    d->dir_fd = abx__tree_parent(spec->path, d->name);
    int rc = d->dir_fd < 0 ? d->dir_fd : look_at_old(d);
    if (rc < 0)
        return rc;
    if (spec->is_part)
        return open_part(d, spec);
    d->fd = abx__tree_beside(d->dir_fd, 0600, d->beside);
    if (d->fd < 0)
        d->beside[0] = '\0';
    return d->fd < 0 ? d->fd : 0;
}

int abx_draft_write(struct abx_draft *d, struct abx_str piece)
{
    int rc = abx_fd_write_all_at(d->fd, piece.ptr, piece.len, d->size);
    if (rc == 0)
        d->size += piece.len;
    return rc;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static int check_old(const struct abx_draft *d)
{
    struct stat now;
    bool is_there = fstatat(d->dir_fd, d->name, &now, AT_SYMLINK_NOFOLLOW) == 0;
    if (is_there && d->must_be_new)
        return -EEXIST;
    return is_there != d->has_old || (is_there && !is_same(&d->old, &now)) ? -ESTALE : 0;
}

static int copy_into(const struct abx_draft *d, struct stat *ret)
{
    ABX_AUTO_FREE char *piece = malloc(COPY_BYTES);
    ABX_AUTO_FD to = abx__tree_open_at(d->dir_fd, d->name, O_WRONLY | O_TRUNC | O_NOFOLLOW, 0);
    if (piece == NULL || to < 0)
        return to < 0 ? to : -ENOMEM;
    for (uint64_t at = 0; at < d->size;) {
        ssize_t n = pread(d->fd, piece, COPY_BYTES, (off_t)at);
        int rc = n <= 0 ? (n < 0 ? -errno : -EIO) : abx_fd_write_all(to, piece, (size_t)n);
        if (rc < 0)
            return rc;
        at += (uint64_t)n;
    }
    return fstat(to, ret) < 0 ? -errno : unlinkat(d->dir_fd, d->beside, 0) < 0 ? -errno : 0;
}

int abx_draft_commit(struct abx_draft *d, struct stat *ret)
{
    int rc = check_old(d);
    if (rc < 0)
        return rc;
    bool is_file = d->has_old && S_ISREG(d->old.st_mode);
    if (is_file && d->old.st_nlink > 1 && !d->sets_mode) {
        rc = copy_into(d, ret);
    } else {
        mode_t mode = is_file && !d->sets_mode ? d->old.st_mode & 01777 : d->new_mode;
        if ((is_file && fchown(d->fd, d->old.st_uid, d->old.st_gid) < 0) ||
            fchmod(d->fd, mode) < 0 || fstat(d->fd, ret) < 0 ||
            renameat2(d->dir_fd, d->beside, d->dir_fd, d->name,
                      d->must_be_new ? RENAME_NOREPLACE : 0) < 0)
            return -errno;
    }
    if (rc == 0)
        d->beside[0] = '\0';
    return rc;
}

void abx_draft_drop(struct abx_draft *d)
{
    if (d->beside[0] && !d->is_part)
        unlinkat(d->dir_fd, d->beside, 0);
    d->beside[0] = '\0';
    if (d->name[0] == '\0') /* zeroed: it has no descriptors */
        return;
    abx_fd_close(&d->fd);
    abx_fd_close(&d->dir_fd);
    d->name[0] = '\0';
}
