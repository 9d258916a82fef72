/* guest/server/target.h: request targets as the published server reads them (server-api.md 1.2).
 * Pure. */
#pragma once
#include "lib/base/arena.h"

struct abx__pair {
    struct abx_str name, value;
};

/** Doubled leading slashes, the fragment, ";params" of the last segment and all trailing slashes
 * are gone; at least "/". Borrows. */
struct abx_str abx__target_path(struct abx_str path);
/** Reads "a=1&b=2" by form rules into @out: pairs with an empty value are left out, a malformed %
 * stays. The count; -1: more than @max pairs; -2: no memory. */
int abx__target_pairs(struct abx_str query, struct abx_arena *a, struct abx__pair *out, size_t max);
/** The first name that occurs twice, ptr NULL: none. */
struct abx_str abx__target_double(const struct abx__pair *pairs, size_t count);
/** Whether @path is one of @pattern ("/x/{name}/y"). The parts go to @out, decoded once but for %2F
 * (P33); *ret_count says how many. */
bool abx__target_match(struct abx_str pattern, struct abx_str path, struct abx_arena *a,
                       struct abx__pair *out, size_t *inout_count);
