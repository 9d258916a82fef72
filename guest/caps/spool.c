/* guest/caps/spool.c: a nameless file that grows in pieces and is poured into another one. */
#include "guest/caps/spool.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum {
    PIECE_BYTES = 4 << 20,     /* poured at once, then freed */
    RESERVE_BYTES = 256 << 20, /* left free for others, but on a small file system */
    RESERVE_PART = 32,         /* one in so many bytes of it */
    BLOCK_BYTES = 512          /* of st_blocks */
};

static bool is_in_memory(int fd)
{
    struct statfs fs;
    return fstatfs(fd, &fs) == 0 &&
           ((unsigned long)fs.f_type == TMPFS_MAGIC || (unsigned long)fs.f_type == RAMFS_MAGIC);
}

static int open_in(const char *dir)
{
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
    /* A kernel that does not know the flag sees a folder to be written. */
    return fd >= 0 ? fd : errno == EISDIR ? -EOPNOTSUPP : -errno;
}

int abx_spool_open(struct abx_spool *s, const char *dir)
{
    static const char *const usual[] = {"/var/tmp", "/tmp"};
    int rc = dir ? open_in(dir) : -EOPNOTSUPP;
    for (size_t i = 0; dir == NULL && rc < 0 && i < ABX_COUNTOF(usual); i++) {
        rc = open_in(usual[i]);
        if (rc >= 0 && is_in_memory(rc)) {
            abx_fd_close(&rc);
            rc = -EOPNOTSUPP;
        }
    }
    if (rc < 0)
        return rc;
    *s = (struct abx_spool){.fd = rc};
    return 0;
}

/* --- space --- */

static int check_room(int fd, uint64_t len)
{
    struct statvfs fs;
    if (fstatvfs(fd, &fs) < 0)
        return -errno;
    if (fs.f_blocks == 0) /* it does not tell: then a write does */
        return 0;
    uint64_t all = (uint64_t)fs.f_blocks * fs.f_frsize, part = all / RESERVE_PART;
    uint64_t reserve = part < RESERVE_BYTES ? part : RESERVE_BYTES;
    return (uint64_t)fs.f_bavail * fs.f_frsize < reserve + len ? -ENOSPC : 0;
}

int abx_spool_fits(const struct abx_spool *s, const char *path)
{
    struct stat ours, there;
    struct statvfs fs;
    if (fstat(s->fd, &ours) < 0 || stat(path, &there) < 0 || statvfs(path, &fs) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (ours.st_dev == there.st_dev || fs.f_blocks == 0)
        return 0; /* what is poured is freed here */
    uint64_t old = (uint64_t)there.st_blocks * BLOCK_BYTES;
    return (uint64_t)fs.f_bfree * fs.f_frsize + old < s->size ? -ENOSPC : 0;
}

/* --- bytes --- */

int abx_spool_write(struct abx_spool *s, struct abx_str piece)
{
    int rc = check_room(s->fd, piece.len);
    if (rc == 0)
        rc = abx_fd_write_all_at(s->fd, piece.ptr, piece.len, s->size);
    if (rc == 0)
        s->size += piece.len;
    return rc;
}

int abx_spool_pour(struct abx_spool *s, int to, uint64_t most)
{
    while (most > 0 && s->poured < s->size) {
        uint64_t left = s->size - s->poured, before = s->poured;
        uint64_t piece = left < PIECE_BYTES ? left : PIECE_BYTES;
        int rc = abx_fd_copy(s->fd, &s->poured, before + (piece < most ? piece : most), to);
        if (rc < 0)
            return rc;
        uint64_t moved = s->poured - before;
        most -= moved;
        /* Where holes are not known, the space is free when this is done. */
        (void)fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)before,
                        (off_t)moved);
    }
    return s->poured < s->size;
}

void abx_spool_done(struct abx_spool *s)
{
    abx_fd_close(&s->fd);
}
