/* guest/caps/snapshot.c: two sorted lists, compared in one pass. */
#include "guest/caps/snapshot.h"

#include <errno.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum { ARENA_MAX = 256 * 1024 * 1024 };

struct taker {
    struct abx_snapshot *s;
    const struct abx_tree_walk *walk;
    void *ctx;
    size_t max;
    bool no_memory;
};

static bool shows(void *ctx, const struct abx_tree_entry *e)
{
    const struct taker *t = ctx;
    return t->walk->shows == NULL || t->walk->shows(t->ctx, e);
}

static bool grow(struct abx_snapshot *s)
{
    size_t cap = s->cap ? 2 * s->cap : 64;
    struct abx_snapshot_entry *fresh = realloc(s->list, cap * sizeof(*fresh));
    if (fresh == NULL)
        return false;
    s->list = fresh;
    s->cap = cap;
    return true;
}

static bool take(void *ctx, const struct abx_tree_entry *e)
{
    struct taker *t = ctx;
    struct abx_snapshot *s = t->s;
    s->is_cut = s->count == t->max;
    if (s->is_cut)
        return false;
    struct abx_str path = abx_arena_str(&s->arena, e->path);
    t->no_memory = path.ptr == NULL || (s->count == s->cap && !grow(s));
    if (t->no_memory)
        return false;
    s->list[s->count++] = (struct abx_snapshot_entry){
        path, e->st.st_mtim.tv_sec * INT64_C(1000000000) + e->st.st_mtim.tv_nsec,
        (uint64_t)e->st.st_size, S_ISDIR(e->st.st_mode)};
    return true;
}

static int compare(const void *left, const void *right)
{
    const struct abx_snapshot_entry *a = left, *b = right;
    size_t n = a->path.len < b->path.len ? a->path.len : b->path.len;
    int c = memcmp(a->path.ptr, b->path.ptr, n);
    return c ? c : (a->path.len > b->path.len) - (a->path.len < b->path.len);
}

int abx_snapshot_take(struct abx_snapshot *s, const struct abx_tree_walk *walk, void *ctx,
                      size_t max)
{
    *s = (struct abx_snapshot){0};
    abx_arena_init(&s->arena, ARENA_MAX);
    struct taker t = {.s = s, .walk = walk, .ctx = ctx, .max = max};
    const struct abx_tree_walk w = {
        .path = walk->path, .depth = walk->depth, .shows = shows, .take = take, .ctx = &t};
    int rc = abx_tree_walk(&w);
    if (s->count)
        qsort(s->list, s->count, sizeof(*s->list), compare);
    return t.no_memory || rc == -ENOMEM ? -ENOMEM : 0;
}

void abx_snapshot_done(struct abx_snapshot *s)
{
    free(s->list);
    abx_arena_done(&s->arena);
    *s = (struct abx_snapshot){0};
}

static const struct abx_snapshot_entry *at(const struct abx_snapshot *s, size_t i)
{
    return i < s->count ? &s->list[i] : NULL;
}

/* <0: the old one comes first, that is: it has gone. */
static int order(const struct abx_snapshot_entry *old, const struct abx_snapshot_entry *fresh)
{
    return old == NULL ? 1 : fresh == NULL ? -1 : compare(old, fresh);
}

void abx_snapshot_diff(const struct abx_snapshot *old, const struct abx_snapshot *fresh,
                       abx_snapshot_fn *fn, void *ctx)
{
    for (int is_gone = 0; is_gone < 2; is_gone++)
        for (size_t i = 0, k = 0; i < old->count || k < fresh->count;) {
            const struct abx_snapshot_entry *a = at(old, i), *b = at(fresh, k);
            int c = order(a, b);
            if (c < 0 && is_gone)
                fn(ctx, ABX_SNAPSHOT_DELETED, a);
            else if (c > 0 && !is_gone)
                fn(ctx, ABX_SNAPSHOT_CREATED, b);
            else if (c == 0 && !is_gone && (a->mtime_ns != b->mtime_ns || a->size != b->size))
                fn(ctx, ABX_SNAPSHOT_MODIFIED, b);
            i += c <= 0;
            k += c >= 0;
        }
}
