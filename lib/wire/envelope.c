/* lib/wire/envelope.c: Connect's five-byte envelope. Pure. Connect protocol, "Streaming";
 * envd.md 4.4.
 */
#include "lib/wire/envelope.h"

#include "lib/base/assert.h"

#include "lib/base/banned.h"

enum {
    KNOWN_FLAGS = ABX_ENVELOPE_COMPRESSED | ABX_ENVELOPE_END,
    KEEP_BYTES = 65536, /* memory of a payload that stays with an idle reader */
};

void abx_envelope_head(uint8_t flags, uint32_t len, unsigned char out[ABX_ENVELOPE_HEAD])
{
    out[0] = flags;
    for (int i = 0; i < 4; i++)
        out[1 + i] = (unsigned char)(len >> (24 - 8 * i));
}

void abx_envelope_reader_init(struct abx_envelope_reader *r, size_t max_payload)
{
    *r = (struct abx_envelope_reader){.want = 0};
    abx_buf_init(&r->payload, max_payload);
}

void abx_envelope_reader_done(struct abx_envelope_reader *r)
{
    abx_buf_done(&r->payload);
    r->head_len = 0;
}

static struct abx_str take(struct abx_str *in, size_t len)
{
    struct abx_str part = abx_str_sub(*in, 0, len);
    *in = abx_str_sub(*in, part.len, in->len);
    return part;
}

/* Repeated at each call, so that a refused head stays refused. */
static int check_head(struct abx_envelope_reader *r, struct abx_error *err)
{
    if (r->head[0] & ~KNOWN_FLAGS)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "envelope: unknown flags 0x%02x",
                           (unsigned)r->head[0]);
    r->want = (uint32_t)r->head[1] << 24 | (uint32_t)r->head[2] << 16 | (uint32_t)r->head[3] << 8 |
              r->head[4];
    if (r->want > r->payload.max)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED,
                           "envelope: message of %u bytes is larger than %zu", r->want,
                           r->payload.max);
    return 0;
}

static void forget_payload(struct abx_envelope_reader *r)
{
    if (r->payload.cap > KEEP_BYTES)
        abx_buf_done(&r->payload);
    abx_buf_clear(&r->payload);
}

/* 1 when the payload is complete: in one piece of the input, or collected. */
static int read_payload(struct abx_envelope_reader *r, struct abx_str *in,
                        struct abx_str *ret_payload, struct abx_error *err)
{
    if (r->payload.len == 0 && in->len >= r->want) {
        *ret_payload = take(in, r->want);
        return 1;
    }
    abx_buf_put_str(&r->payload, take(in, r->want - r->payload.len));
    if (abx_buf_failed(&r->payload))
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "envelope: no memory for a message");
    *ret_payload = abx_buf_str(&r->payload);
    return r->payload.len == r->want;
}

int abx_envelope_read(struct abx_envelope_reader *r, struct abx_str *inout_input,
                      uint8_t *ret_flags, struct abx_str *ret_payload, struct abx_error *err)
{
    if (r->head_len == 0)
        forget_payload(r);
    struct abx_str part = take(inout_input, ABX_ENVELOPE_HEAD - r->head_len);
    if (part.len)
        memcpy(r->head + r->head_len, part.ptr, part.len);
    r->head_len += part.len;
    if (r->head_len < ABX_ENVELOPE_HEAD)
        return 0;
    if (check_head(r, err) < 0)
        return -1;
    struct abx_str payload;
    int got = read_payload(r, inout_input, &payload, err);
    if (got <= 0)
        return got;
    r->head_len = 0;
    *ret_flags = r->head[0];
    *ret_payload = payload.len ? payload : ABX_STR("");
    return 1;
}

bool abx_envelope_reader_idle(const struct abx_envelope_reader *r)
{
    return r->head_len == 0;
}
