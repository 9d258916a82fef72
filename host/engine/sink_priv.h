/* host/engine/sink_priv.h: a request's body into a file of the network side's folder, hashed.
 *
 * Writing is on the pool; while it lags behind, the peer blocks. */
#pragma once
#include "host/engine/api_priv.h"

#include <sodium.h>

enum {
    ABX__SINKS_MAX = 16, /* bodies being received at once */
    ABX__SINK_NAME = 48,
    ABX__SINK_BUFFER = 1024 * 1024,
};
#define ABX__SINK_PREFIX "part." /* what a crash leaves, removed at start */

struct abx__sink {
    struct abx__engine *engine;
    struct abx__call *call; /* NULL once the client has gone */
    char name[ABX__SINK_NAME];
    int fd;
    uint64_t bytes, max_bytes;
    char digest[2 * crypto_hash_sha256_BYTES + 1]; /* when done */
    crypto_hash_sha256_state hash;
    struct abx_buf incoming, writing;
    struct abx_work work;
    int write_error;
    bool is_busy, is_paused, has_ended, is_last, is_over;
    /** Once, while the call is open. @err NULL: the file is whole; the owner renames it, or opens
     *  it (abx__sink_open()); it is removed afterwards if it still has its name. */
    void (*done)(struct abx__sink *s, const struct abx_error *err);
};
/** Receives the body of @c, at most @max_bytes. -1: answered. */
int abx__sink_start(struct abx__call *c, uint64_t max_bytes,
                    void (*done)(struct abx__sink *s, const struct abx_error *err));
/** In done: a descriptor for reading from the start, or -errno. */
int abx__sink_open(const struct abx__sink *s);
/** In done, after what was to be done with the file: the call is the owner's again. */
void abx__sink_release(struct abx__sink *s);
/** Removes what a crash left. */
void abx__sinks_sweep(struct abx__engine *e);
