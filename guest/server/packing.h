/* guest/server/packing.h: what /files/archive and /files/tree share. */
#pragma once
#include "guest/caps/pack.h"
#include "guest/server/files_priv.h"

/* Counted before an archive is begun. */
struct abx__packing {
    const struct abx__bounds *bounds;
    uint64_t max_files; /* entries that are no folders */
    uint64_t files, folders, bytes;
    bool is_too_many;
};
/** Adds a resolved path with all beneath it; links are not followed, what is denied is counted too.
 * Pool thread. -ENOENT and the like, or 0. */
int abx__packing_count(struct abx__packing *k, struct abx_str path);
/** 400 with the bound; returns false. */
bool abx__packing_fail(struct abx__job *j, const struct abx__packing *k);
/** For abx_pack_spec.shows; @bounds is a struct abx__bounds. */
bool abx__packing_shows(void *bounds, const struct abx_tree_entry *e);

void abx__archive_post(struct abx__call *c); /* archive.c */
void abx__tree_get(struct abx__call *c);     /* tree_get.c */
void abx__tree_put(struct abx__call *c);     /* tree_put.c */
