/* guest/server/hosts/text.c: JSON strings as the text they stand for. Pure. */
#include "guest/server/hosts/text.h"

#include <string.h>

#include "lib/base/banned.h"

/* Four hex digits at @at; the scanner has checked them. */
static unsigned hex4(const char *at)
{
    unsigned v = 0;
    for (int i = 0; i < 4; i++) {
        unsigned char b = (unsigned char)at[i];
        v = v << 4 | (b <= '9' ? b - (unsigned)'0' : (b | 0x20u) - 'a' + 10);
    }
    return v;
}

static void put_utf8(struct abx_buf *out, unsigned c)
{
    char b[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char first[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        b[i] = (char)(0x80 | (c & 0x3F));
    b[0] = (char)(n == 1 ? c : first[n] | c);
    abx_buf_put(out, b, n);
}

/* "\uXXXX" and its second half; the bytes used after the u. */
static size_t put_unicode(struct abx_buf *out, struct abx_str rest)
{
    unsigned c = hex4(rest.ptr);
    if (c < 0xD800 || c > 0xDFFF) {
        put_utf8(out, c);
        return 4;
    }
    if (c < 0xDC00 && rest.len >= 10 && rest.ptr[4] == '\\' && rest.ptr[5] == 'u') {
        unsigned low = hex4(rest.ptr + 6);
        if (low >= 0xDC00 && low <= 0xDFFF) {
            put_utf8(out, 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00));
            return 10;
        }
    }
    put_utf8(out, 0xFFFD);
    return 4;
}

int abx_host_text(struct abx_str json, struct abx_buf *out)
{
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    if (json.len < 2 || json.ptr[0] != '"')
        return -1;
    struct abx_str s = abx_str_sub(json, 1, json.len - 2);
    while (s.len > 0) {
        const char *slash = memchr(s.ptr, '\\', s.len);
        size_t plain = slash ? (size_t)(slash - s.ptr) : s.len;
        abx_buf_put(out, s.ptr, plain);
        s = abx_str_sub(s, plain, s.len);
        if (s.len < 2)
            break;
        const char *known = strchr(from, s.ptr[1]);
        size_t used = 2;
        if (s.ptr[1] == 'u')
            used += put_unicode(out, abx_str_sub(s, 2, s.len));
        else
            abx_buf_put_byte(out, known ? to[known - from] : s.ptr[1]);
        s = abx_str_sub(s, used, s.len);
    }
    return abx_buf_failed(out) ? -1 : 0;
}
