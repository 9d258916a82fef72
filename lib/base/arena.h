/* lib/base/arena.h: memory that lives as long as one request and is freed in one call.
 *
 * Capped: an allocation beyond the cap returns NULL. Memory is zeroed. Not thread-safe. */
#pragma once
#include "lib/base/str.h"

#include <stdarg.h>

struct abx_arena_block;
struct abx_arena {
    struct abx_arena_block *head;
    size_t used;
    size_t max;
};

void abx_arena_init(struct abx_arena *a, size_t max_bytes);
/** Frees all; usable again. Accepts a zeroed arena. */
void abx_arena_done(struct abx_arena *a);
void *abx_arena_alloc(struct abx_arena *a, size_t size);
void *abx_arena_array(struct abx_arena *a, size_t count, size_t size);
/** A copy with a terminator; the result's ptr is NULL without memory. */
struct abx_str abx_arena_str(struct abx_arena *a, struct abx_str s);
char *abx_arena_c(struct abx_arena *a, struct abx_str s);
char *abx_arena_printf(struct abx_arena *a, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
