/* lib/base/parse.c: numbers, hex and base64 from text. */
#include "lib/base/parse.h"

#include "lib/base/banned.h"

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Two digits for each 12 bits: command output is mostly base64, and this is twice as fast. */
/* clang-format off */
#define P4(a, b, c, d, e)  {a, b}, {a, c}, {a, d}, {a, e}
#define ROW(a) P4(a, 'A', 'B', 'C', 'D'), P4(a, 'E', 'F', 'G', 'H'), P4(a, 'I', 'J', 'K', 'L'), \
    P4(a, 'M', 'N', 'O', 'P'), P4(a, 'Q', 'R', 'S', 'T'), P4(a, 'U', 'V', 'W', 'X'), \
    P4(a, 'Y', 'Z', 'a', 'b'), P4(a, 'c', 'd', 'e', 'f'), P4(a, 'g', 'h', 'i', 'j'), \
    P4(a, 'k', 'l', 'm', 'n'), P4(a, 'o', 'p', 'q', 'r'), P4(a, 's', 't', 'u', 'v'), \
    P4(a, 'w', 'x', 'y', 'z'), P4(a, '0', '1', '2', '3'), P4(a, '4', '5', '6', '7'), \
    P4(a, '8', '9', '+', '/')
#define ROW4(a, b, c, d) ROW(a), ROW(b), ROW(c), ROW(d)
static const char base64_pairs[4096][2] = {
    ROW4('A', 'B', 'C', 'D'), ROW4('E', 'F', 'G', 'H'), ROW4('I', 'J', 'K', 'L'),
    ROW4('M', 'N', 'O', 'P'), ROW4('Q', 'R', 'S', 'T'), ROW4('U', 'V', 'W', 'X'),
    ROW4('Y', 'Z', 'a', 'b'), ROW4('c', 'd', 'e', 'f'), ROW4('g', 'h', 'i', 'j'),
    ROW4('k', 'l', 'm', 'n'), ROW4('o', 'p', 'q', 'r'), ROW4('s', 't', 'u', 'v'),
    ROW4('w', 'x', 'y', 'z'), ROW4('0', '1', '2', '3'), ROW4('4', '5', '6', '7'),
    ROW4('8', '9', '+', '/')};
/* clang-format on */

int abx_parse_u64(struct abx_str s, uint64_t *ret)
{
    uint64_t v = 0;
    if (s.len == 0)
        return -1;
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9')
            return -1;
        if (__builtin_mul_overflow(v, (uint64_t)10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(s.ptr[i] - '0'), &v))
            return -1;
    }
    *ret = v;
    return 0;
}

int abx_parse_u32(struct abx_str s, uint32_t *ret)
{
    uint64_t v;
    if (abx_parse_u64(s, &v) < 0 || v > UINT32_MAX)
        return -1;
    *ret = (uint32_t)v;
    return 0;
}

int abx_parse_i64(struct abx_str s, int64_t *ret)
{
    bool negative = s.len > 0 && s.ptr[0] == '-';
    uint64_t v;
    if (abx_parse_u64(negative ? abx_str_sub(s, 1, s.len) : s, &v) < 0 ||
        v > (uint64_t)INT64_MAX + negative)
        return -1;
    *ret = negative ? (int64_t)(0 - v) : (int64_t)v;
    return 0;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

int abx_parse_hex64(struct abx_str s, uint64_t *ret)
{
    uint64_t v = 0;
    if (s.len == 0 || s.len > 16)
        return -1;
    for (size_t i = 0; i < s.len; i++) {
        int d = hex_digit(s.ptr[i]);
        if (d < 0)
            return -1;
        v = v << 4 | (uint64_t)d;
    }
    *ret = v;
    return 0;
}

static int base64_digit(char c)
{
    if (c == '-')
        c = '+';
    if (c == '_')
        c = '/';
    const char *at = c ? strchr(base64_digits, c) : NULL;
    return at ? (int)(at - base64_digits) : -1;
}

/* A table, built once from base64_digit: decoding is on the path of every stdin byte. */
static const signed char *base64_table(void)
{
    static signed char table[256];
    static bool built;
    if (!built) {
        for (int i = 0; i < 256; i++)
            table[i] = (signed char)base64_digit((char)i);
        built = true;
    }
    return table;
}

/* Whole quads, up to the first letter that is none: how many letters that is. */
static size_t decode_quads(struct abx_str s, const signed char *table, char *to)
{
    size_t i = 0;
    for (size_t n = 0; i + 4 <= s.len; i += 4, n += 3) {
        int a = table[(unsigned char)s.ptr[i]], b = table[(unsigned char)s.ptr[i + 1]],
            c = table[(unsigned char)s.ptr[i + 2]], d = table[(unsigned char)s.ptr[i + 3]];
        if ((a | b | c | d) < 0)
            break;
        uint32_t v = (uint32_t)a << 18 | (uint32_t)b << 12 | (uint32_t)c << 6 | (uint32_t)d;
        to[n] = (char)(v >> 16 & 0xFF);
        to[n + 1] = (char)(v >> 8 & 0xFF);
        to[n + 2] = (char)(v & 0xFF);
    }
    return i;
}

int abx_base64_decode(struct abx_str s, struct abx_buf *out)
{
    const signed char *table = base64_table();
    size_t padding = 0;
    while (s.len && s.ptr[s.len - 1] == '=' && padding < 2) {
        s.len--;
        padding++;
    }
    if (s.len % 4 == 1 || (padding && (s.len + padding) % 4 != 0))
        return -1;
    char *to = abx_buf_room(out, s.len / 4 * 3 + 3);
    if (to == NULL)
        return -1;
    size_t i = decode_quads(s, table, to), n = i / 4 * 3;
    uint32_t bits = 0;
    unsigned have = 0;
    for (; i < s.len; i++) {
        int d = table[(unsigned char)s.ptr[i]];
        if (d < 0)
            return -1;
        bits = bits << 6 | (uint32_t)d;
        have += 6;
        if (have >= 8) {
            have -= 8;
            to[n++] = (char)(bits >> have & 0xFF);
        }
    }
    if (bits & ((1u << have) - 1))
        return -1; /* left-over bits must be zero */
    abx_buf_wrote(out, n);
    return 0;
}

static uint64_t load_be64(const unsigned char *p)
{
    uint64_t v = 0;
    for (int i = 0; i < 8; i++)
        v = v << 8 | p[i];
    return v;
}

void abx_base64_encode(const void *data, size_t len, bool padded, struct abx_buf *out)
{
    const unsigned char *p = data;
    char *to = abx_buf_room(out, (len / 3 + 1) * 4);
    if (to == NULL)
        return;
    size_t n = 0, i = 0;
    for (; i + 8 <= len; i += 6, n += 8) { /* six bytes at a time; eight are read */
        uint64_t v = load_be64(p + i);
        memcpy(to + n, base64_pairs[v >> 52], 2);
        memcpy(to + n + 2, base64_pairs[v >> 40 & 4095], 2);
        memcpy(to + n + 4, base64_pairs[v >> 28 & 4095], 2);
        memcpy(to + n + 6, base64_pairs[v >> 16 & 4095], 2);
    }
    for (; i + 2 < len; i += 3) {
        uint32_t v = (uint32_t)p[i] << 16 | (uint32_t)p[i + 1] << 8 | p[i + 2];
        to[n++] = base64_digits[v >> 18];
        to[n++] = base64_digits[v >> 12 & 63];
        to[n++] = base64_digits[v >> 6 & 63];
        to[n++] = base64_digits[v & 63];
    }
    if (i < len) {
        uint32_t v = (uint32_t)p[i] << 16 | (i + 1 < len ? (uint32_t)p[i + 1] << 8 : 0);
        to[n++] = base64_digits[v >> 18];
        to[n++] = base64_digits[v >> 12 & 63];
        if (i + 1 < len)
            to[n++] = base64_digits[v >> 6 & 63];
        while (padded && n % 4 != 0)
            to[n++] = '=';
    }
    abx_buf_wrote(out, n);
}

void abx_hex_encode(const void *data, size_t len, char *out)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < len; i++) {
        out[2 * i] = "0123456789abcdef"[p[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[p[i] & 15];
    }
    out[2 * len] = '\0';
}

int abx_hex_decode(struct abx_str s, void *out, size_t len)
{
    unsigned char *p = out;
    if (s.len != 2 * len)
        return -1;
    for (size_t i = 0; i < len; i++) {
        int high = hex_digit(s.ptr[2 * i]), low = hex_digit(s.ptr[2 * i + 1]);
        if (high < 0 || low < 0)
            return -1;
        p[i] = (unsigned char)(high << 4 | low);
    }
    return 0;
}
