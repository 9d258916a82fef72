/* lib/base/str.c: borrowed byte strings. */
#include "lib/base/str.h"

#include <stdint.h>
#include <stdlib.h>

#include "lib/base/banned.h"

static unsigned char lower(char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
}

bool abx_str_eq(struct abx_str a, struct abx_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

bool abx_str_eq_nocase(struct abx_str a, struct abx_str b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++)
        if (lower(a.ptr[i]) != lower(b.ptr[i]))
            return false;
    return true;
}

bool abx_str_is(struct abx_str a, const char *b)
{
    return abx_str_eq(a, abx_str(b));
}

bool abx_str_is_nocase(struct abx_str a, const char *b)
{
    return abx_str_eq_nocase(a, abx_str(b));
}

bool abx_str_starts(struct abx_str s, const char *prefix)
{
    size_t n = strlen(prefix);
    return s.len >= n && (n == 0 || memcmp(s.ptr, prefix, n) == 0);
}

bool abx_str_ends(struct abx_str s, const char *suffix)
{
    size_t n = strlen(suffix);
    return s.len >= n && (n == 0 || memcmp(s.ptr + s.len - n, suffix, n) == 0);
}

ptrdiff_t abx_str_chr(struct abx_str s, char byte)
{
    const char *at = s.len ? memchr(s.ptr, byte, s.len) : NULL;
    return at ? at - s.ptr : -1;
}

ptrdiff_t abx_str_rchr(struct abx_str s, char byte)
{
    const char *at = s.len ? memrchr(s.ptr, byte, s.len) : NULL;
    return at ? at - s.ptr : -1;
}

ptrdiff_t abx_str_find(struct abx_str s, struct abx_str needle)
{
    if (needle.len == 0)
        return 0;
    const char *at = s.len ? memmem(s.ptr, s.len, needle.ptr, needle.len) : NULL;
    return at ? at - s.ptr : -1;
}

struct abx_str abx_str_sub(struct abx_str s, size_t from, size_t len)
{
    if (from > s.len)
        from = s.len;
    if (len > s.len - from)
        len = s.len - from;
    return (struct abx_str){s.ptr ? s.ptr + from : NULL, len};
}

struct abx_str abx_str_trim(struct abx_str s)
{
    while (s.len && (s.ptr[0] == ' ' || s.ptr[0] == '\t'))
        s = abx_str_sub(s, 1, s.len - 1);
    while (s.len && (s.ptr[s.len - 1] == ' ' || s.ptr[s.len - 1] == '\t'))
        s.len--;
    return s;
}

bool abx_str_split(struct abx_str *rest, char sep, struct abx_str *ret_part)
{
    if (rest->ptr == NULL)
        return false;
    ptrdiff_t at = abx_str_chr(*rest, sep);
    if (at < 0) {
        *ret_part = *rest;
        *rest = (struct abx_str){0};
        return true;
    }
    *ret_part = abx_str_sub(*rest, 0, (size_t)at);
    *rest = abx_str_sub(*rest, (size_t)at + 1, rest->len);
    return true;
}

bool abx_str_has_item(struct abx_str list, char sep, const char *item)
{
    struct abx_str part;
    while (abx_str_split(&list, sep, &part))
        if (abx_str_is(part, item))
            return true;
    return false;
}

int abx_str_to_c(struct abx_str s, char *out, size_t cap)
{
    if (s.len >= cap || abx_str_chr(s, '\0') >= 0)
        return -1;
    if (s.len)
        memcpy(out, s.ptr, s.len);
    out[s.len] = '\0';
    return 0;
}

char *abx_str_dup(struct abx_str s)
{
    char *copy = malloc(s.len + 1);
    if (copy == NULL)
        return NULL;
    if (s.len)
        memcpy(copy, s.ptr, s.len);
    copy[s.len] = '\0';
    return copy;
}

/* Length of the well-formed sequence at p, or 0. Table 3-7 of the Unicode standard. */
static size_t utf8_len(const unsigned char *p, size_t left)
{
    if (p[0] < 0x80)
        return 1;
    size_t n = p[0] >= 0xF0 ? 4 : p[0] >= 0xE0 ? 3 : 2;
    if (p[0] < 0xC2 || p[0] > 0xF4 || n > left)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    if ((p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] > 0x9F) ||
        (p[0] == 0xF0 && p[1] < 0x90) || (p[0] == 0xF4 && p[1] > 0x8F))
        return 0;
    return n;
}

bool abx_str_is_utf8(struct abx_str s)
{
    const unsigned char *p = (const unsigned char *)s.ptr;
    for (size_t i = 0; i < s.len;) {
        size_t n = utf8_len(p + i, s.len - i);
        if (n == 0)
            return false;
        i += n;
    }
    return true;
}
