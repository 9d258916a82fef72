/* lib/base/arena.c: request-lifetime memory. */
#include "lib/base/arena.h"

#include "lib/base/buf.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum { BLOCK_BYTES = 4096 - 64 };

struct abx_arena_block {
    struct abx_arena_block *next;
    size_t used, cap;
    _Alignas(max_align_t) char data[];
};

void abx_arena_init(struct abx_arena *a, size_t max_bytes)
{
    *a = (struct abx_arena){.max = max_bytes};
}

void abx_arena_done(struct abx_arena *a)
{
    for (struct abx_arena_block *b = a->head; b != NULL;) {
        struct abx_arena_block *next = b->next;
        free(b);
        b = next;
    }
    *a = (struct abx_arena){.max = a->max};
}

static struct abx_arena_block *add_block(struct abx_arena *a, size_t size)
{
    size_t cap = size > BLOCK_BYTES ? size : BLOCK_BYTES;
    struct abx_arena_block *b = calloc(1, sizeof(*b) + cap);
    if (b == NULL)
        return NULL;
    b->cap = cap;
    /* A block for one large object goes behind the head, whose free tail stays usable. */
    if (size > BLOCK_BYTES && a->head != NULL) {
        b->next = a->head->next;
        a->head->next = b;
    } else {
        b->next = a->head;
        a->head = b;
    }
    return b;
}

void *abx_arena_alloc(struct abx_arena *a, size_t size)
{
    const size_t align = _Alignof(max_align_t);
    size_t padded;
    if (!abx_size_add(size, align - 1, &padded))
        return NULL;
    padded &= ~(align - 1);
    size_t total;
    if (!abx_size_add(a->used, padded, &total) || total > a->max)
        return NULL;
    struct abx_arena_block *b = a->head;
    if (b == NULL || b->cap - b->used < padded)
        b = add_block(a, padded);
    if (b == NULL)
        return NULL;
    void *p = b->data + b->used;
    b->used += padded;
    a->used = total;
    return p;
}

void *abx_arena_array(struct abx_arena *a, size_t count, size_t size)
{
    size_t bytes;
    return abx_size_mul(count, size, &bytes) ? abx_arena_alloc(a, bytes) : NULL;
}

struct abx_str abx_arena_str(struct abx_arena *a, struct abx_str s)
{
    char *copy = abx_arena_c(a, s);
    return (struct abx_str){copy, copy ? s.len : 0};
}

char *abx_arena_c(struct abx_arena *a, struct abx_str s)
{
    size_t size;
    char *copy = abx_size_add(s.len, 1, &size) ? abx_arena_alloc(a, size) : NULL;
    if (copy != NULL && s.len)
        memcpy(copy, s.ptr, s.len);
    return copy;
}

char *abx_arena_printf(struct abx_arena *a, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    char *text = n < 0 ? NULL : abx_arena_alloc(a, (size_t)n + 1);
    if (text != NULL)
        vsnprintf(text, (size_t)n + 1, fmt, again);
    va_end(again);
    va_end(ap);
    return text;
}
