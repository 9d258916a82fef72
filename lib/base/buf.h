/* lib/base/buf.h: a growing byte buffer with a compulsory ceiling.
 *
 * Invariants: ptr[len] is a NUL once anything was appended; len <= max. `failed` is sticky: append
 * freely, check once with abx_buf_failed(). After a failure appends do nothing. Not thread-safe. */
#pragma once
#include "lib/base/str.h"

#include <stdarg.h>
#include <stdint.h>

struct abx_buf {
    char *ptr;
    size_t len;
    size_t cap;
    size_t max;
    bool failed;
};

/** An empty buffer that will never hold more than @max bytes. Allocates nothing. */
void abx_buf_init(struct abx_buf *b, size_t max);
/** Frees the contents; the buffer is empty and usable again with the same ceiling. */
void abx_buf_done(struct abx_buf *b);
/** Forgets the contents, keeps the memory, clears `failed`. */
void abx_buf_clear(struct abx_buf *b);
void abx_buf_put(struct abx_buf *b, const void *data, size_t len);
void abx_buf_put_str(struct abx_buf *b, struct abx_str s);
void abx_buf_put_c(struct abx_buf *b, const char *text);
void abx_buf_put_byte(struct abx_buf *b, char byte);
void abx_buf_putf(struct abx_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void abx_buf_putfv(struct abx_buf *b, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));
/** Makes room for @len more bytes and returns where they go, or NULL (and sets `failed`). The
 *  caller then says how many it wrote with abx_buf_wrote(). */
void *abx_buf_room(struct abx_buf *b, size_t len);
void abx_buf_wrote(struct abx_buf *b, size_t len);
/** Drops @len bytes from the front. */
void abx_buf_consume(struct abx_buf *b, size_t len);
/** Gives the heap memory away (NUL-terminated); NULL when failed. The buffer is empty after. */
char *abx_buf_take(struct abx_buf *b);
static inline bool abx_buf_failed(const struct abx_buf *b)
{
    return b->failed;
}
static inline struct abx_str abx_buf_str(const struct abx_buf *b)
{
    return (struct abx_str){b->ptr, b->len};
}

#define ABX_AUTO_BUF __attribute__((cleanup(abx_buf_done))) struct abx_buf

/** Overflow-checked size arithmetic: false when the result does not fit. */
static inline bool abx_size_add(size_t a, size_t b, size_t *ret)
{
    return !__builtin_add_overflow(a, b, ret);
}
static inline bool abx_size_mul(size_t a, size_t b, size_t *ret)
{
    return !__builtin_mul_overflow(a, b, ret);
}
