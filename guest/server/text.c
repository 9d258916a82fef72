/* guest/server/text.c: characters that arrive in pieces, numbers as Python reads them. Pure. */
#include "guest/server/text.h"

#include "lib/base/banned.h"

static size_t length_of(unsigned char lead)
{
    if (lead >= 0xC2 && lead <= 0xDF)
        return 2;
    if (lead >= 0xE0 && lead <= 0xEF)
        return 3;
    return lead >= 0xF0 && lead <= 0xF4 ? 4 : 1;
}

/* Whether @s, a lead byte and what follows it, may become a character by more bytes. */
static bool is_begun(struct abx_str s)
{
    unsigned char lead = (unsigned char)s.ptr[0];
    if (s.len >= length_of(lead))
        return false;
    if (s.len == 1)
        return true;
    unsigned char second = (unsigned char)s.ptr[1];
    if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
        (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F))
        return false;
    return true;
}

size_t abx__text_whole(struct abx_str s)
{
    size_t n = s.len;
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        unsigned char c = (unsigned char)s.ptr[n - back];
        if ((c & 0xC0) == 0x80)
            continue;
        return is_begun(abx_str_sub(s, n - back, back)) ? n - back : n;
    }
    return n;
}

void abx__text_feed(struct abx__text_rest *r, struct abx_str data, struct abx_buf *out)
{
    size_t had = out->len;
    abx_buf_put(out, r->bytes, r->len);
    abx_buf_put_str(out, data);
    if (abx_buf_failed(out))
        return;
    struct abx_str all = abx_str_sub(abx_buf_str(out), had, out->len);
    size_t whole = all.len ? abx__text_whole(all) : 0;
    r->len = (uint8_t)(all.len - whole);
    if (r->len)
        memcpy(r->bytes, all.ptr + whole, r->len);
    out->len = had + whole;
}

/* Towards zero of what does not fit. */
static int64_t add_digit(int64_t n, int digit, bool negative)
{
    int64_t next;
    if (__builtin_mul_overflow(n, 10, &next) ||
        __builtin_add_overflow(next, negative ? -digit : digit, &next))
        return negative ? INT64_MIN : INT64_MAX;
    return next;
}

int abx__text_integer(struct abx_str s, int64_t *ret)
{
    bool negative = s.len && s.ptr[0] == '-', was_digit = false;
    int64_t n = 0;
    if (s.len && (s.ptr[0] == '-' || s.ptr[0] == '+'))
        s = abx_str_sub(s, 1, s.len);
    for (size_t i = 0; i < s.len; i++) {
        bool is_digit = s.ptr[i] >= '0' && s.ptr[i] <= '9';
        if (!is_digit && !(s.ptr[i] == '_' && was_digit))
            return -1;
        was_digit = is_digit;
        if (is_digit)
            n = add_digit(n, s.ptr[i] - '0', negative);
    }
    if (!was_digit)
        return -1;
    *ret = n;
    return 0;
}
