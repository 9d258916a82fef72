/* guest/caps/journal_fuzz.c: any order of output, listening and reading gives the bytes or a gap.
 */
#include "guest/caps/journal.h"
#include "lib/base/assert.h"

#include <stdint.h>

#include "lib/base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char scratch[ABX_DATA_CHUNK_BYTES];

static void append(struct abx_journal *j, size_t len)
{
    char bytes[8192];
    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)((j->end_offset + i) * 31 >> 3);
    abx_journal_append(j, (uint8_t)(len & 1), bytes, len);
}

static void check(struct abx_journal *j, uint64_t offset)
{
    struct abx_journal_cursor cur;
    struct abx_journal_chunk c;
    enum abx_journal_peek what;
    abx_journal_seek(j, offset, &cur);
    while ((what = abx_journal_peek(j, &cur, scratch, &c)) != ABX_JOURNAL_EMPTY) {
        ABX_ASSERT(c.offset == offset && c.data.len + c.lost > 0);
        for (size_t i = 0; i < c.data.len; i++)
            ABX_ASSERT(c.data.ptr[i] == (char)((offset + i) * 31 >> 3));
        offset += c.data.len + c.lost;
        if (what == ABX_JOURNAL_DATA)
            abx_journal_advance(&cur, c.data.len);
    }
    ABX_ASSERT(offset == j->end_offset);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct abx_journal_limits limits[] = {{1024, 4096}, {4096, 100}, {2048, 0}};
    struct abx_journal j;
    if (size < 1 || size > 512)
        return 0;
    abx_journal_init(&j, data[0] & 4 ? "/nonexistent" : "/tmp", &limits[data[0] % 3]);
    for (size_t i = 1; i < size; i++) {
        if (data[i] < 224)
            append(&j, (size_t)data[i] * data[i] / 8);
        else if (data[i] < 240)
            abx_journal_set_heard(&j, data[i] & 1);
        else if (data[i] < 254)
            check(&j, j.end_offset * (data[i] - 240u) / 13);
        else
            abx_journal_forget(&j);
        ABX_ASSERT(abx_journal_held(&j) <= j.memory_max + j.disk_max);
    }
    check(&j, 0);
    abx_journal_done(&j);
    return 0;
}
