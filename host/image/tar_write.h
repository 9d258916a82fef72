/* host/image/tar_write.h: heads of tar entries: ustar, with a pax record before what does not fit.
 * Pure. (libarchive's writer needs all of its formats, and their libraries, in a static program.)
 */
#pragma once
#include "lib/base/buf.h"

enum { ABX_TAR_BLOCK = 512, ABX_TAR_RECORDS_MAX = 256 * 1024 };

struct abx_tar_entry {
    const char *path; /* any bytes */
    char type;        /* '0' file, '1' hard link, '2' symbolic link, '5' folder, '6' fifo */
    uint32_t mode, uid, gid;
    int64_t mtime_s;
    uint64_t bytes;         /* of the content that follows */
    const char *link;       /* of types 1 and 2; NULL: none */
    struct abx_str records; /* pax records of abx_tar_record() */
};
/** Appends "LENGTH KEY=VALUE\n". */
void abx_tar_record(struct abx_buf *out, const char *key, struct abx_str value);
/** Appends the entry's head: a whole number of blocks. */
void abx_tar_head(const struct abx_tar_entry *e, struct abx_buf *out);
/** So many zero bytes follow @bytes of content. */
size_t abx_tar_padding(uint64_t bytes);
