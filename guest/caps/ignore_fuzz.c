/* guest/caps/ignore_fuzz.c: the text of a .gitignore, its last line a path: what is asked twice is
 * answered the same, and a rule for folders says nothing of files. */
#include "guest/caps/ignore.h"
#include "lib/base/assert.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct abx_arena a;
    struct abx_ignore g;
    if (size > 16384)
        return 0;
    struct abx_str text = abx_str_n((const char *)data, size);
    ptrdiff_t nl = abx_str_rchr(text, '\n');
    struct abx_str path = abx_str_sub(text, (size_t)(nl + 1), size);
    text = abx_str_sub(text, 0, nl < 0 ? 0 : (size_t)nl);
    abx_arena_init(&a, 32 << 20);
    if (abx_ignore_parse(text, &a, &g) == 0) {
        enum abx_ignore_verdict v = abx_ignore_ask(&g, path, true);
        ABX_ASSERT(abx_ignore_ask(&g, path, true) == v);
        ABX_ASSERT(v != ABX_IGNORE_NOTHING ||
                   abx_ignore_ask(&g, path, false) == ABX_IGNORE_NOTHING);
    }
    abx_arena_done(&a);
    return 0;
}
