/* lib/base/map.h: a hash map from byte strings (copied) to pointers (borrowed), open addressing,
 * SipHash-free: keys come from us or are capped by the caller. Not thread-safe. */
#pragma once
#include "lib/base/str.h"

struct abx_map_slot;
struct abx_map {
    struct abx_map_slot *slots;
    size_t cap, count, dead, max;
};

void abx_map_init(struct abx_map *m, size_t max_entries);
void abx_map_done(struct abx_map *m);
/** Sets @key. 0, -1 without memory or at the ceiling. *ret_old (may be NULL) gets what was there.
 */
int abx_map_set(struct abx_map *m, struct abx_str key, void *value, void **ret_old);
void *abx_map_get(const struct abx_map *m, struct abx_str key);
/** Removes @key and returns its value, NULL if absent. */
void *abx_map_remove(struct abx_map *m, struct abx_str key);
/** Walks: start with *it = 0; false at the end. The map must not change meanwhile. */
bool abx_map_next(const struct abx_map *m, size_t *it, struct abx_str *ret_key, void **ret_value);
