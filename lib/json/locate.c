/* lib/json/locate.c: a JSON pointer (RFC 6901) to the line and column of its value. Any thread.
 *
 * Walks the accepted text itself, since jansson keeps no positions; no recursion, no tree. Of equal
 * keys the last counts, as in jansson. */
#include "lib/json/json.h"

#include "lib/base/parse.h"

#include <jansson.h>

#include "lib/base/banned.h"

struct walker {
    struct abx_str text;
    size_t at;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static char peek(struct walker *w)
{
    while (w->at < w->text.len && is_blank(w->text.ptr[w->at]))
        w->at++;
    return w->at < w->text.len ? w->text.ptr[w->at] : '\0';
}

static bool accept(struct walker *w, char c)
{
    if (peek(w) != c)
        return false;
    w->at++;
    return true;
}

/* The string literal at hand, with its quotes. */
static struct abx_str take_string(struct walker *w)
{
    size_t from = w->at++;
    while (w->at < w->text.len && w->text.ptr[w->at] != '"')
        w->at += w->text.ptr[w->at] == '\\' ? 2 : 1;
    w->at = w->at < w->text.len ? w->at + 1 : w->text.len;
    return abx_str_sub(w->text, from, w->at - from);
}

static void skip_value(struct walker *w)
{
    unsigned depth = 0;
    while (peek(w) != '\0') {
        char c = w->text.ptr[w->at];
        if (depth == 0 && (c == ',' || c == '}' || c == ']'))
            return;
        if (c == '"') {
            take_string(w);
            continue;
        }
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        w->at++;
    }
}

static bool key_is(struct abx_str literal, struct abx_str token)
{
    if (abx_str_chr(literal, '\\') < 0)
        return literal.len >= 2 && abx_str_eq(abx_str_sub(literal, 1, literal.len - 2), token);
    json_t *decoded = json_loadb(literal.ptr, literal.len, JSON_DECODE_ANY, NULL);
    bool same =
        json_is_string(decoded) &&
        abx_str_eq(abx_str_n(json_string_value(decoded), json_string_length(decoded)), token);
    json_decref(decoded);
    return same;
}

static bool enter_object(struct walker *w, struct abx_str token)
{
    size_t found = SIZE_MAX;
    while (peek(w) == '"') {
        bool same = key_is(take_string(w), token);
        if (!accept(w, ':'))
            return false;
        peek(w);
        if (same)
            found = w->at;
        skip_value(w);
        if (!accept(w, ','))
            break;
    }
    w->at = found;
    return found != SIZE_MAX;
}

static bool enter_array(struct walker *w, struct abx_str token)
{
    uint32_t index;
    if (abx_parse_u32(token, &index) < 0 || (token.len > 1 && token.ptr[0] == '0'))
        return false;
    for (; index > 0; index--) {
        skip_value(w);
        if (!accept(w, ','))
            return false;
    }
    return peek(w) != ']' && peek(w) != '\0';
}

/* "~1" and "~0" of a pointer token, in place. -1: another '~'. */
static int unescape_token(char *text, size_t *inout_len)
{
    size_t n = 0;
    for (size_t i = 0; i < *inout_len; i++) {
        char c = text[i];
        if (c == '~') {
            i++;
            if (i >= *inout_len || (text[i] != '0' && text[i] != '1'))
                return -1;
            c = text[i] == '1' ? '/' : '~';
        }
        text[n++] = c;
    }
    *inout_len = n;
    return 0;
}

static bool enter(struct walker *w, struct abx_str raw_token)
{
    char token[256];
    size_t len = raw_token.len;
    if (len > sizeof(token))
        return false;
    if (len)
        memcpy(token, raw_token.ptr, len);
    if (unescape_token(token, &len) < 0)
        return false;
    if (accept(w, '{'))
        return enter_object(w, abx_str_n(token, len));
    if (accept(w, '['))
        return enter_array(w, abx_str_n(token, len));
    return false;
}

int abx_json_locate(struct abx_str text, struct abx_str pointer, unsigned *ret_line,
                    unsigned *ret_column)
{
    struct walker w = {text, 0};
    struct abx_str token;
    if (pointer.len) {
        if (pointer.ptr[0] != '/')
            return -1;
        pointer = abx_str_sub(pointer, 1, pointer.len);
        bool more = true;
        while (more) {
            more = abx_str_chr(pointer, '/') >= 0;
            token = more ? abx_str_sub(pointer, 0, (size_t)abx_str_chr(pointer, '/')) : pointer;
            pointer = abx_str_sub(pointer, token.len + 1, pointer.len);
            if (!enter(&w, token))
                return -1;
        }
    }
    if (peek(&w) == '\0')
        return -1;
    unsigned line = 1, column = 1;
    for (size_t i = 0; i < w.at; i++) {
        bool newline = text.ptr[i] == '\n';
        line += newline;
        column = newline ? 1 : column + ((text.ptr[i] & 0xC0) != 0x80);
    }
    *ret_line = line;
    *ret_column = column;
    return 0;
}
