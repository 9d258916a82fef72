/* guest/caps/unpack.h: a tar archive, packed or not, made into files beneath a folder as its bytes
 * come. Every file appears whole; what was there is replaced, but a folder never by something else.
 * security S83, S53: no absolute name, no "..", no way through a link, no device; modes are cut to
 * 0777; hard links only to files of the same archive.
 *
 * Blocks: pool threads. */
#pragma once
#include "guest/caps/tree.h"
#include "lib/base/err.h"

struct abx_unpack_spec {
    struct abx_str path; /* the folder, which is there */
    bool is_gzip;
    bool must_be_new; /* a file that is there is an error: ALREADY_EXISTS */
    mode_t new_mode;  /* bits that a new file may have: 0777 less the umask */
    uint64_t max_bytes, max_entries;
    /** Whether @path (no link in it is followed) may be made; else @err is set. @target: what a
     * link says, ptr NULL: it is none. */
    bool (*allows)(void *ctx, struct abx_str path, struct abx_str target, struct abx_error *err);
    void *ctx;
};
struct abx_unpack_count {
    uint64_t files, folders, links, bytes;
};
struct abx_unpack;
/** Copies @spec, but for the folder's path. NULL: no memory. */
struct abx_unpack *abx_unpack_new(const struct abx_unpack_spec *spec);
/** -1: INVALID_ARGUMENT (the archive is broken or holds what is refused), OUT_OF_RANGE (more than
 * max_bytes), RESOURCE_EXHAUSTED (too many entries, no memory), ALREADY_EXISTS, PERMISSION_DENIED,
 * what `allows` said, INTERNAL with err->sys. Entries before it stay. */
int abx_unpack_feed(struct abx_unpack *u, struct abx_str in, struct abx_error *err);
/** All has come: folders get their modes and times. */
int abx_unpack_end(struct abx_unpack *u, struct abx_unpack_count *ret, struct abx_error *err);
/** A file that was not complete is taken back. Accepts NULL. */
void abx_unpack_free(struct abx_unpack *u);
