/* guest/caps/untar.h: a tar archive that is read as its bytes come: ustar, pax and GNU's long
 * names. Sparse files, volumes and other rarities are refused. Pure: no descriptor, nothing is held
 * but a header. */
#pragma once
#include "lib/base/buf.h"
#include "lib/base/err.h"

#include <stdint.h>

enum { ABX_UNTAR_NAME = 65536 }; /* of a name, and of the records before a header */

enum abx_untar_type {
    ABX_UNTAR_FILE,
    ABX_UNTAR_HARD_LINK,
    ABX_UNTAR_LINK,
    ABX_UNTAR_FOLDER,
    ABX_UNTAR_FIFO,
    ABX_UNTAR_DEVICE,
};
struct abx_untar_entry {
    enum abx_untar_type type;
    struct abx_str name, link; /* as written */
    uint64_t size;             /* of a file; else 0 */
    int64_t mtime;
    uint32_t mode; /* 07777 */
};
/* -1: stop, with @err set. */
struct abx_untar_ops {
    int (*begin)(void *ctx, const struct abx_untar_entry *e, struct abx_error *err);
    int (*data)(void *ctx, struct abx_str piece, struct abx_error *err);
    int (*end)(void *ctx, struct abx_error *err); /* of a file: all of it has come */
};

struct abx_untar {
    const struct abx_untar_ops *ops;
    void *ctx;
    char block[512];
    size_t filled;
    uint64_t left, padding; /* of the content in hand */
    char kind; /* of it: 'x', 'L', 'K', '0', or 'g' and the like, which are passed over */
    struct abx_buf records, name, link;
    bool has_name, has_link, has_size, has_mtime;
    uint64_t size;
    int64_t mtime;
    bool is_zero, is_over; /* one empty block; two: the rest is nothing */
};
void abx_untar_init(struct abx_untar *u, const struct abx_untar_ops *ops, void *ctx);
void abx_untar_done(struct abx_untar *u);
/** -1: INVALID_ARGUMENT (no such archive), RESOURCE_EXHAUSTED, or what a callback said. After it
 * only done() is allowed. */
int abx_untar_feed(struct abx_untar *u, struct abx_str in, struct abx_error *err);
/** All has come: -1 when the archive is cut. */
int abx_untar_end(const struct abx_untar *u, struct abx_error *err);
