/* guest/caps/spool.h: bytes that wait on disk, without a name, until they may be written over a
 * file that is there.
 *
 * Not in the folder of that file: watchers of a folder are told of its nameless files too
 * (inotify(7), IN_EXCL_UNLINK). All of it blocks: pool threads. System leaf: >= 0 or -errno. */
#pragma once
#include "lib/base/str.h"

#include <stdint.h>

struct abx_spool {
    int fd; /* -1: not open */
    uint64_t size, poured;
};
#define ABX_SPOOL_INIT                                                                             \
    {                                                                                              \
        .fd = -1                                                                                   \
    }

/** In @dir, or (NULL) in /var/tmp, else /tmp. -EOPNOTSUPP: they are in memory or know no files
 *  without a name; other errors as open(2)'s. */
int abx_spool_open(struct abx_spool *s, const char *dir);
/** All of @piece, or nothing of it. -ENOSPC already when the file system would become nearly full:
 *  others in the sandbox write there too. */
int abx_spool_write(struct abx_spool *s, struct abx_str piece);
/** 0 when the file @path, overwritten, finds the space for all of the spool; else -ENOSPC. */
int abx_spool_fits(const struct abx_spool *s, const char *path);
/** Moves up to @most more bytes to the end of @to and frees them here, so that both together need
 *  little more space than one. 1: there are more; 0: that was all. */
int abx_spool_pour(struct abx_spool *s, int to, uint64_t most);
/** Accepts one that is not open. */
void abx_spool_done(struct abx_spool *s);
