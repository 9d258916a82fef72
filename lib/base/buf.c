/* lib/base/buf.c: a growing byte buffer with a compulsory ceiling. */
#include "lib/base/buf.h"

#include "lib/base/assert.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum { FIRST_CAP = 64 };

void abx_buf_init(struct abx_buf *b, size_t max)
{
    *b = (struct abx_buf){.max = max};
}

void abx_buf_done(struct abx_buf *b)
{
    free(b->ptr);
    *b = (struct abx_buf){.max = b->max};
}

void abx_buf_clear(struct abx_buf *b)
{
    b->len = 0;
    b->failed = false;
    if (b->ptr)
        b->ptr[0] = '\0';
}

void *abx_buf_room(struct abx_buf *b, size_t len)
{
    size_t need;
    if (b->failed || !abx_size_add(b->len, len, &need) || need > b->max) {
        b->failed = true;
        return NULL;
    }
    if (need + 1 <= b->cap)
        return b->ptr + b->len;
    size_t cap = b->cap ? b->cap : FIRST_CAP;
    while (cap < need + 1)
        cap *= 2;
    if (cap > b->max + 1)
        cap = b->max + 1;
    char *ptr = realloc(b->ptr, cap);
    if (ptr == NULL) {
        b->failed = true;
        return NULL;
    }
    b->ptr = ptr;
    b->cap = cap;
    ptr[b->len] = '\0'; /* holds as well when the caller then writes nothing */
    return ptr + b->len;
}

void abx_buf_wrote(struct abx_buf *b, size_t len)
{
    ABX_ASSERT(b->len + len < b->cap || len == 0);
    b->len += len;
    if (b->ptr)
        b->ptr[b->len] = '\0';
}

void abx_buf_put(struct abx_buf *b, const void *data, size_t len)
{
    void *to = abx_buf_room(b, len);
    if (to == NULL)
        return;
    if (len)
        memcpy(to, data, len);
    abx_buf_wrote(b, len);
}

void abx_buf_put_str(struct abx_buf *b, struct abx_str s)
{
    abx_buf_put(b, s.ptr, s.len);
}

void abx_buf_put_c(struct abx_buf *b, const char *text)
{
    abx_buf_put(b, text, strlen(text));
}

void abx_buf_put_byte(struct abx_buf *b, char byte)
{
    abx_buf_put(b, &byte, 1);
}

void abx_buf_putfv(struct abx_buf *b, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    char *to = n < 0 ? NULL : abx_buf_room(b, (size_t)n);
    if (to == NULL)
        b->failed = true;
    else {
        vsnprintf(to, (size_t)n + 1, fmt, again);
        abx_buf_wrote(b, (size_t)n);
    }
    va_end(again);
}

void abx_buf_putf(struct abx_buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    abx_buf_putfv(b, fmt, ap);
    va_end(ap);
}

void abx_buf_consume(struct abx_buf *b, size_t len)
{
    ABX_ASSERT(len <= b->len);
    if (len == 0)
        return;
    b->len -= len;
    memmove(b->ptr, b->ptr + len, b->len);
    b->ptr[b->len] = '\0';
}

char *abx_buf_take(struct abx_buf *b)
{
    if (!b->failed && b->ptr == NULL)
        abx_buf_put(b, "", 0);
    char *ptr = b->failed ? NULL : b->ptr;
    if (b->failed)
        free(b->ptr);
    *b = (struct abx_buf){.max = b->max};
    return ptr;
}
