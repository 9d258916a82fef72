/* guest/caps/untar_fuzz.c: any bytes, cut in two: the same verdict and content as in one piece. */
#include "guest/caps/untar.h"
#include "lib/base/assert.h"

#include <stdlib.h>

struct seen {
    uint64_t bytes, said, entries, hash;
};

static int on_begin(void *ctx, const struct abx_untar_entry *e, struct abx_error *err)
{
    struct seen *s = ctx;
    (void)err;
    ABX_ASSERT(e->name.len <= ABX_UNTAR_NAME && e->link.len <= ABX_UNTAR_NAME);
    s->entries++;
    s->said += e->size;
    return 0;
}

static int on_data(void *ctx, struct abx_str piece, struct abx_error *err)
{
    struct seen *s = ctx;
    (void)err;
    s->bytes += piece.len;
    for (size_t i = 0; i < piece.len; i++)
        s->hash = s->hash * 31 + (unsigned char)piece.ptr[i];
    return 0;
}

static int on_end(void *ctx, struct abx_error *err)
{
    const struct seen *s = ctx;
    (void)err;
    ABX_ASSERT(s->bytes == s->said);
    return 0;
}

static int run(struct abx_str in, size_t split, struct seen *s)
{
    static const struct abx_untar_ops ops = {on_begin, on_data, on_end};
    struct abx_untar u;
    struct abx_error err = {0};
    *s = (struct seen){0};
    abx_untar_init(&u, &ops, s);
    int rc = abx_untar_feed(&u, abx_str_sub(in, 0, split), &err);
    if (rc == 0)
        rc = abx_untar_feed(&u, abx_str_sub(in, split, in.len), &err);
    if (rc == 0)
        rc = abx_untar_end(&u, &err);
    abx_untar_done(&u);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seen whole, halves;
    if (size < 2 || size > 1 << 20)
        return 0;
    struct abx_str in = abx_str_n((const char *)data + 2, size - 2);
    int a = run(in, 0, &whole);
    int b = run(in, (size_t)(data[0] << 8 | data[1]) % (in.len + 1), &halves);
    ABX_ASSERT(a == b && (a < 0 || (whole.entries == halves.entries && whole.hash == halves.hash)));
    return 0;
}
