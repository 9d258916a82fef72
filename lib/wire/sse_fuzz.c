/* lib/wire/sse_fuzz.c: any bytes, at a split that the first byte picks: events within the bound,
 * and what was read is read again when it is written. */
#include "lib/wire/sse.h"

#include "lib/base/assert.h"

#include "lib/base/banned.h"

enum { MAX = 512, INPUT_MAX = 4096 };

static void check(struct abx_sse_event e)
{
    struct abx_sse_parser p;
    struct abx_sse_event back;
    ABX_AUTO_BUF out;
    ABX_ASSERT(e.data.len <= MAX);
    abx_buf_init(&out, 16384);
    abx_sse_write(&out, e.name, e.data);
    struct abx_str in = abx_buf_str(&out);
    abx_sse_parser_init(&p, 16384);
    ABX_ASSERT(abx_sse_parse(&p, &in, &back, NULL) == ABX_SSE_EVENT);
    ABX_ASSERT(abx_str_eq(back.name, e.name) && abx_str_eq(back.data, e.data) && in.len == 0);
    abx_sse_parser_done(&p);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct abx_sse_parser p;
    struct abx_sse_event e;
    if (size < 1 || size > INPUT_MAX)
        return 0;
    struct abx_str all = abx_str_n((const char *)data + 1, size - 1);
    size_t split = all.len * data[0] / 255;
    abx_sse_parser_init(&p, MAX);
    for (int part = 0; part < 2; part++) {
        struct abx_str in = part ? abx_str_sub(all, split, all.len) : abx_str_sub(all, 0, split);
        while (abx_sse_parse(&p, &in, &e, NULL) == ABX_SSE_EVENT)
            check(e);
    }
    abx_sse_parser_done(&p);
    return 0;
}
