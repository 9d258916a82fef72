/* guest/server/cut_fuzz.c: any text, a long string in its middle: what is taken out and what is
 * left make the text again. */
#include "guest/server/cut.h"

#include "lib/base/assert.h"

#include "lib/base/banned.h"

enum { INPUT_MAX = 2048 };

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    static char filler[ABX__CUT_MIN];
    ABX_AUTO_BUF text;
    ABX_AUTO_BUF out;
    struct abx_str value = {0};
    abx_buf_init(&text, 65536);
    abx_buf_init(&out, 65536);
    if (size < 1 || size > INPUT_MAX)
        return 0;
    size_t at = 1 + (size - 1) * data[0] / 255;
    memset(filler, 'a', sizeof(filler));
    abx_buf_put(&text, data + 1, at - 1);
    abx_buf_put(&text, filler, sizeof(filler));
    abx_buf_put(&text, data + at, size - at);
    struct abx_str all = abx_buf_str(&text);
    if (!abx__cut_member(all, "f", ABX_STR("M"), &out, &value))
        return 0;
    size_t before = (size_t)(value.ptr - all.ptr);
    ABX_ASSERT(value.len >= ABX__CUT_MIN && before + value.len < all.len);
    ABX_ASSERT(out.len == all.len - value.len + 1 && out.ptr[before] == 'M');
    ABX_ASSERT(memcmp(out.ptr, all.ptr, before) == 0);
    ABX_ASSERT(memcmp(out.ptr + before + 1, value.ptr + value.len, out.len - before - 1) == 0);
    return 0;
}
