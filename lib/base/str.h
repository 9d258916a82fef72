/* lib/base/str.h: a borrowed byte string (pointer and length, no terminator, may hold NULs). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct abx_str {
    const char *ptr;
    size_t len;
};

#define ABX_STR(literal) ((struct abx_str){(literal), sizeof(literal) - 1})
#define ABX_STR_FMT(s)   (int)(s).len, (s).ptr /* for "%.*s" */

static inline struct abx_str abx_str(const char *c)
{
    return (struct abx_str){c, c ? strlen(c) : 0};
}
static inline struct abx_str abx_str_n(const char *ptr, size_t len)
{
    return (struct abx_str){ptr, len};
}
bool abx_str_eq(struct abx_str a, struct abx_str b);
/** ASCII case folded; for header names and schemes. */
bool abx_str_eq_nocase(struct abx_str a, struct abx_str b);
bool abx_str_is(struct abx_str a, const char *b);
bool abx_str_is_nocase(struct abx_str a, const char *b);
bool abx_str_starts(struct abx_str s, const char *prefix);
bool abx_str_ends(struct abx_str s, const char *suffix);
/** Index of @byte, or -1. */
ptrdiff_t abx_str_chr(struct abx_str s, char byte);
ptrdiff_t abx_str_rchr(struct abx_str s, char byte);
/** Index of @needle, or -1. */
ptrdiff_t abx_str_find(struct abx_str s, struct abx_str needle);
/** From @from, at most @len bytes; out of range is cut. */
struct abx_str abx_str_sub(struct abx_str s, size_t from, size_t len);
/** Without leading and trailing spaces and tabs (HTTP's OWS). */
struct abx_str abx_str_trim(struct abx_str s);
/** Takes the text up to @sep off the front of @rest into *ret_part. False when @rest is used up.
 *  "a,b," gives "a", "b", "". */
bool abx_str_split(struct abx_str *rest, char sep, struct abx_str *ret_part);
/** Whether one of the parts of @list between @sep is @item. */
bool abx_str_has_item(struct abx_str list, char sep, const char *item);
/** Copies into @out (size @cap) with a terminator; -1 when it does not fit or holds a NUL. */
int abx_str_to_c(struct abx_str s, char *out, size_t cap);
/** Heap copy with a terminator; NULL without memory. The caller frees. */
char *abx_str_dup(struct abx_str s);
/** Whether the bytes are well-formed UTF-8 (RFC 3629). */
bool abx_str_is_utf8(struct abx_str s);
