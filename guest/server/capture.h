/* guest/server/capture.h: what /process/{pid}/output keeps of a process: numbered pieces of text,
 * the newest of them. server-api.md 4.5, D91. Pure. */
#pragma once
#include "guest/server/text.h"

enum {
    ABX__CAPTURE_PIECE = 4096,   /* bytes of one event at most */
    ABX__CAPTURE_EVENTS = 65536, /* kept at most */
    ABX__CAPTURE_STREAMS = 2
};

struct abx__capture {
    uint64_t next_seq;
    size_t count, text_bytes; /* kept */
    bool is_dropped;          /* something is not kept any more */
    /* private */
    size_t max;
    struct abx_buf records; /* {length, stream, text} one after the other, from `start` on */
    size_t start;
    struct abx__text_rest rest[ABX__CAPTURE_STREAMS];
};
struct abx__capture_event {
    uint64_t seq;
    unsigned stream;
    struct abx_str data; /* bytes that are no UTF-8 are still in it */
};

/** @max: bytes of text kept. Allocates nothing. */
void abx__capture_init(struct abx__capture *c, size_t max);
void abx__capture_done(struct abx__capture *c);
/** Output of stream 0 or 1. A character that is cut waits for its rest. Without memory the oldest,
 *  in the end @data itself, is not kept. */
void abx__capture_put(struct abx__capture *c, unsigned stream, struct abx_str data);
/** Nothing comes any more: the beginnings of characters are output too. */
void abx__capture_end(struct abx__capture *c);
/** Gives back all text; it counts as dropped. */
void abx__capture_drop(struct abx__capture *c);

struct abx__capture_cursor {
    size_t at;
    uint64_t seq;
};
/** Walks the events with a number >= @since. */
void abx__capture_seek(const struct abx__capture *c, uint64_t since,
                       struct abx__capture_cursor *cur);
bool abx__capture_next(const struct abx__capture *c, struct abx__capture_cursor *cur,
                       struct abx__capture_event *ret);
