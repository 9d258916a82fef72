/* lib/wire/envelope_fuzz.c: envelopes: the same at every split, and what was read can be written.
 */
#include "lib/wire/envelope.h"

#include <assert.h>

#include "lib/base/banned.h"

static void run(const char *data, size_t size, size_t step, struct abx_buf *again)
{
    struct abx_envelope_reader r;
    struct abx_str payload;
    uint8_t flags;
    int got = 0;
    abx_envelope_reader_init(&r, 4096);
    abx_buf_init(again, 1 << 20);
    for (size_t at = 0; at < size && got >= 0; at += step) {
        struct abx_str in = abx_str_sub(abx_str_n(data, size), at, step);
        while ((got = abx_envelope_read(&r, &in, &flags, &payload, NULL)) > 0) {
            unsigned char head[ABX_ENVELOPE_HEAD];
            abx_envelope_head(flags, (uint32_t)payload.len, head);
            abx_buf_put(again, head, sizeof(head));
            abx_buf_put_str(again, payload);
        }
    }
    assert(again->len <= size && (again->len == 0 || memcmp(again->ptr, data, again->len) == 0));
    assert(got < 0 || abx_envelope_reader_idle(&r) == (again->len == size));
    abx_envelope_reader_done(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ABX_AUTO_BUF whole = {0}, pieces = {0};
    if (size < 2 || size > 1 << 16)
        return 0;
    run((const char *)data + 1, size - 1, size - 1, &whole);
    run((const char *)data + 1, size - 1, 1 + data[0] % 61u, &pieces);
    assert(abx_str_eq(abx_buf_str(&whole), abx_buf_str(&pieces)));
    return 0;
}
