/* guest/server/cut.c: taking one long string out of a JSON object. Pure. */
#include "guest/server/cut.h"

#include "lib/base/banned.h"

/* The string at text[at] == '"': *ret without its quotes; the index after it, or 0 when it does not
 * end. */
static size_t take_string(struct abx_str text, size_t at, struct abx_str *ret)
{
    size_t i = at + 1;
    while (i < text.len) {
        const char *quote = memchr(text.ptr + i, '"', text.len - i);
        if (quote == NULL)
            return 0;
        size_t end = (size_t)(quote - text.ptr), slashes = 0;
        while (end - slashes > at + 1 && text.ptr[end - slashes - 1] == '\\')
            slashes++;
        i = end + 1;
        if (slashes % 2 == 0) {
            *ret = abx_str_sub(text, at + 1, end - at - 1);
            return i;
        }
    }
    return 0;
}

static size_t skip_blanks(struct abx_str text, size_t at)
{
    while (at < text.len && memchr(" \t\r\n", text.ptr[at], 4) != NULL)
        at++;
    return at;
}

static bool is_plain(struct abx_str s)
{
    unsigned char bad = 0;
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        bad |= (unsigned char)((c < 0x20) | (c > 0x7E) | (c == '\\'));
    }
    return !bad;
}

/* After the member name that ends at @at: its value, when it is a string. The index after it, else
 * @at. */
static size_t take_value(struct abx_str text, size_t at, struct abx_str *ret)
{
    size_t i = skip_blanks(text, at);
    if (i >= text.len || text.ptr[i] != ':')
        return at;
    i = skip_blanks(text, i + 1);
    if (i >= text.len || text.ptr[i] != '"')
        return at;
    size_t end = take_string(text, i, ret);
    return end ? end : text.len;
}

bool abx__cut_member(struct abx_str text, const char *field, struct abx_str marker,
                     struct abx_buf *out, struct abx_str *ret_value)
{
    struct abx_str found = {0}, s, value;
    unsigned depth = 0;
    for (size_t i = 0; i < text.len;) {
        char c = text.ptr[i];
        if (c != '"') {
            depth += c == '{' || c == '[';
            depth -= depth > 0 && (c == '}' || c == ']');
            i++;
            continue;
        }
        i = take_string(text, i, &s);
        if (i == 0)
            return false;
        if (depth != 1 || !abx_str_is(s, field))
            continue;
        value = (struct abx_str){0};
        i = take_value(text, i, &value);
        if (value.len >= ABX__CUT_MIN && is_plain(value))
            found = value;
    }
    if (found.ptr == NULL)
        return false;
    size_t before = (size_t)(found.ptr - text.ptr);
    abx_buf_put(out, text.ptr, before);
    abx_buf_put_str(out, marker);
    abx_buf_put_str(out, abx_str_sub(text, before + found.len, text.len));
    *ret_value = found;
    return !abx_buf_failed(out);
}
