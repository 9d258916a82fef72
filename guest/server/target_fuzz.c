/* guest/server/target_fuzz.c: any target: the path and the pairs stay within what was given, and a
 * normalised path is normal. */
#include "guest/server/target.h"

#include "lib/base/assert.h"

#include "lib/base/banned.h"

enum { INPUT_MAX = 4096, PAIRS = 64 };

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct abx__pair pairs[PAIRS], params[4];
    struct abx_arena a;
    if (size > INPUT_MAX)
        return 0;
    struct abx_str all = abx_str_n((const char *)data, size), path;
    abx_arena_init(&a, 1 << 20);
    abx_str_split(&all, '?', &path);
    struct abx_str normal = abx__target_path(path);
    ABX_ASSERT(normal.len >= 1 && normal.len <= (path.len ? path.len : 1));
    ABX_ASSERT(normal.len == 1 || normal.ptr[normal.len - 1] != '/');
    size_t count = 4;
    if (abx__target_match(ABX_STR("/{a}/x/{b}"), normal, &a, params, &count))
        for (size_t i = 0; i < count; i++)
            ABX_ASSERT(params[i].value.len > 0 && params[i].value.len <= normal.len);
    int n = all.ptr ? abx__target_pairs(all, &a, pairs, PAIRS) : 0;
    for (int i = 0; i < n; i++)
        ABX_ASSERT(pairs[i].value.len > 0 && pairs[i].value.len <= all.len);
    if (n > 0)
        abx__target_double(pairs, (size_t)n);
    abx_arena_done(&a);
    return 0;
}
