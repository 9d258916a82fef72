/* guest/caps/gzip.h: gzip (RFC 1952) of file bodies: unpacking in slices by whoever calls, packing
 * on the pool. */
#pragma once
#include "lib/base/buf.h"
#include "lib/loop/loop.h"

#include <zlib.h>

enum { ABX_GZIP_PIECE = 256 * 1024 };

struct abx_gunzip {
    z_stream z;
    bool is_open;
    bool has_begun, has_ended; /* a member; both at the end of a good body */
    bool has_more;             /* the output was filled: call again, even without input */
};
int abx_gunzip_init(struct abx_gunzip *g, struct abx_error *err);
void abx_gunzip_done(struct abx_gunzip *g);
/** Unpacks from the front of @in into @out: the bytes written, or -1 (INVALID_ARGUMENT). */
int abx_gunzip_step(struct abx_gunzip *g, struct abx_str *in, char *out, size_t cap,
                    struct abx_error *err);

/* Packing, by whoever calls: pool threads. */
enum abx_deflate_form { ABX_DEFLATE_GZIP, ABX_DEFLATE_RAW };
struct abx_deflate {
    z_stream z;
    bool is_open;
};
/** -1: no memory. */
int abx_deflate_init(struct abx_deflate *d, enum abx_deflate_form form);
/** Appends what comes out of @in to @out; all of it with @is_last. -1: no memory or no room. */
int abx_deflate_put(struct abx_deflate *d, struct abx_str in, bool is_last, struct abx_buf *out);
void abx_deflate_done(struct abx_deflate *d);

/* Packing on the pool. */
struct abx_gzip;
/** What a put gave; @data is valid until the next put. */
typedef void abx_gzip_fn(void *owner, struct abx_str data, bool failed);
struct abx_gzip *abx_gzip_new(struct abx_loop *l, abx_gzip_fn *fn, void *owner);
/** Copies @data (<= ABX_GZIP_PIECE); @fn follows from the loop. One at a time. */
int abx_gzip_put(struct abx_gzip *g, struct abx_str data, bool is_last, struct abx_error *err);
/** No callback after. Accepts NULL. */
void abx_gzip_close(struct abx_gzip *g);
