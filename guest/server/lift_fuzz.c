/* guest/server/lift_fuzz.c: any text in any two pieces: the cut changes nothing, and without
 * escapes nothing is lost. */
#include "guest/server/lift.h"

#include "lib/base/assert.h"

#include "lib/base/banned.h"

enum { INPUT_MAX = 4096, REST_MAX = 16384 };

struct seen {
    struct abx_buf value; /* of all values, one after the other */
    size_t begun;
};

static void on_begin(void *ctx)
{
    struct seen *s = ctx;
    s->begun++;
}

static void on_piece(void *ctx, struct abx_str piece)
{
    struct seen *s = ctx;
    ABX_ASSERT(piece.len > 0 && s->begun > 0);
    abx_buf_put_str(&s->value, piece);
}

static const struct abx__lift_ops ops = {on_begin, on_piece};

static void lift(struct abx_str text, size_t cut, struct abx__lift *l, struct seen *s)
{
    abx_buf_init(&s->value, REST_MAX);
    abx__lift_init(l, "f", ABX_STR("#"), REST_MAX, &ops, s);
    abx__lift_feed(l, abx_str_sub(text, 0, cut));
    abx__lift_feed(l, abx_str_sub(text, cut, text.len));
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct abx__lift whole, halves;
    struct seen a = {0}, b = {0};
    if (size < 1 || size > INPUT_MAX)
        return 0;
    struct abx_str text = abx_str_n((const char *)data + 1, size - 1);
    lift(text, 0, &whole, &a);
    lift(text, text.len * data[0] / 255, &halves, &b);
    ABX_ASSERT(abx_str_eq(abx_buf_str(&whole.rest), abx_buf_str(&halves.rest)));
    ABX_ASSERT(abx_str_eq(abx_buf_str(&a.value), abx_buf_str(&b.value)));
    ABX_ASSERT(a.begun == b.begun);
    bool has_escapes = text.len && memchr(text.ptr, '\\', text.len) != NULL;
    ABX_ASSERT(has_escapes || whole.rest.len + a.value.len == text.len + a.begun);
    abx__lift_done(&whole);
    abx__lift_done(&halves);
    abx_buf_done(&a.value);
    abx_buf_done(&b.value);
    return 0;
}
