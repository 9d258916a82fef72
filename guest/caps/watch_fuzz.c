/* guest/caps/watch_fuzz.c: inotify records of any shape: never beyond the input, always forward. */
#include "guest/caps/watch_priv.h"

#include "lib/base/assert.h"

#include "lib/base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct abx_str in = {(const char *)data, size < 65536 ? size : 65536};
    const char *end = in.ptr + in.len;
    struct abx__record r;
    for (size_t left = in.len; abx__record_next(&in, &r); left = in.len) {
        ABX_ASSERT(in.len < left && in.ptr + in.len == end);
        ABX_ASSERT(r.name.ptr + r.name.len <= end);
        ABX_ASSERT(r.name.len == 0 || memchr(r.name.ptr, 0, r.name.len) == NULL);
    }
    return 0;
}
