/* guest/server/capture_fuzz.c: any output in any pieces: numbers without holes, no more than the
 * bound, and with room for all of it the output itself. */
#include "guest/server/capture.h"

#include "lib/base/assert.h"

#include "lib/base/banned.h"

enum { INPUT_MAX = 65536, ROOM = 1 << 20 };

static void feed(struct abx__capture *c, const unsigned char *data, size_t size, size_t step)
{
    for (size_t at = 0; at < size; at += step)
        abx__capture_put(c, 0,
                         abx_str_n((const char *)data + at, size - at < step ? size - at : step));
    abx__capture_end(c);
}

static size_t check(const struct abx__capture *c, const unsigned char *data)
{
    struct abx__capture_cursor cur;
    struct abx__capture_event e;
    uint64_t seq = c->next_seq - c->count;
    size_t total = 0;
    abx__capture_seek(c, 0, &cur);
    while (abx__capture_next(c, &cur, &e)) {
        ABX_ASSERT(e.seq == seq++ && e.data.len > 0 && e.data.len <= ABX__CAPTURE_PIECE);
        ABX_ASSERT(data == NULL || memcmp(e.data.ptr, data + total, e.data.len) == 0);
        total += e.data.len;
    }
    ABX_ASSERT(seq == c->next_seq && total == c->text_bytes);
    return total;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct abx__capture all, some;
    if (size < 2 || size > INPUT_MAX)
        return 0;
    size_t step = 1 + data[0] * 64u, max = data[1];
    abx__capture_init(&all, ROOM);
    abx__capture_init(&some, max);
    feed(&all, data + 2, size - 2, step);
    feed(&some, data + 2, size - 2, step);
    ABX_ASSERT(check(&all, data + 2) == size - 2 && !all.is_dropped);
    ABX_ASSERT(check(&some, NULL) <= max);
    abx__capture_done(&all);
    abx__capture_done(&some);
    return 0;
}
