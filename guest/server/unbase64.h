/* guest/server/unbase64.h: base64 that comes in pieces: the standard alphabet, padded, nothing
 * else. Pure. */
#pragma once
#include "lib/base/buf.h"

struct abx__unbase64 { /* zeroed: nothing has come */
    char held[4];      /* the last letters: only among them may be padding */
    size_t held_len;
    bool is_bad;
};
/** Appends the bytes of @text to @out as far as they are known. */
void abx__unbase64_feed(struct abx__unbase64 *u, struct abx_str text, struct abx_buf *out);
/** The last bytes; false: it was no base64. As published, the bits of the last letter that stand
 * for nothing do not matter. */
bool abx__unbase64_end(struct abx__unbase64 *u, struct abx_buf *out);
