/* guest/caps/snapshot.h: what a folder holds at a moment, and what became different since another
 * one. Blocks: pool threads, one at a time. */
#pragma once
#include "guest/caps/tree.h"
#include "lib/base/arena.h"

enum { ABX_SNAPSHOT_ENTRIES = 100000 };

struct abx_snapshot_entry {
    struct abx_str path;
    int64_t mtime_ns;
    uint64_t size;
    bool is_folder;
};
struct abx_snapshot {
    struct abx_arena arena;
    struct abx_snapshot_entry *list; /* by path, in byte order */
    size_t count, cap;
    bool is_cut; /* there are more entries than it may hold */
};
/** Takes one of what @walk shows (its `take` and `ctx` are not used, `shows` gets @ctx); a folder
 * that is not there is empty. @max: at most so many entries. 0 or -ENOMEM; abx_snapshot_done() in
 * any case. */
int abx_snapshot_take(struct abx_snapshot *s, const struct abx_tree_walk *walk, void *ctx,
                      size_t max);
void abx_snapshot_done(struct abx_snapshot *s);

enum abx_snapshot_kind { ABX_SNAPSHOT_CREATED, ABX_SNAPSHOT_MODIFIED, ABX_SNAPSHOT_DELETED };
typedef void abx_snapshot_fn(void *ctx, enum abx_snapshot_kind kind,
                             const struct abx_snapshot_entry *e);
/** Tells what is new or has another time or size, by path; then what has gone. */
void abx_snapshot_diff(const struct abx_snapshot *old, const struct abx_snapshot *fresh,
                       abx_snapshot_fn *fn, void *ctx);
