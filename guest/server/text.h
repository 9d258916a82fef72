/* guest/server/text.h: output of programs as text that is cut between characters. Pure. */
#pragma once
#include "lib/base/buf.h"

#include <stdint.h>

/** How many bytes of @s come before a character that has only begun at its end (at most 3 bytes are
 *  left over). Bytes that are no UTF-8 are left to the JSON writer, which puts U+FFFD. */
size_t abx__text_whole(struct abx_str s);

/* The beginning of a character whose rest is to come. Zeroed at first. */
struct abx__text_rest {
    char bytes[4];
    uint8_t len;
};
/** Appends the kept bytes and @data to @out, without a new unfinished end, which is kept. */
void abx__text_feed(struct abx__text_rest *r, struct abx_str data, struct abx_buf *out);

/** The integer that Python's int() reads: a sign, digits, single underscores between them. 0; -1:
 *  no integer; one beyond 64 bits becomes the nearest. */
int abx__text_integer(struct abx_str s, int64_t *ret);
