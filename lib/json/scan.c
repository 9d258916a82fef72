/* lib/json/scan.c: a JSON grammar checker without recursion (RFC 8259). */
#include "lib/json/scan.h"

#include <stdint.h>

#include "lib/base/banned.h"

struct cursor {
    const char *at, *end;
};

static void skip_blanks(struct cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\r' || *c->at == '\n'))
        c->at++;
}

static bool is_digit(char b)
{
    return b >= '0' && b <= '9';
}

static bool is_hex(char b)
{
    return is_digit(b) || (b >= 'a' && b <= 'f') || (b >= 'A' && b <= 'F');
}

static bool take(struct cursor *c, char b)
{
    if (c->at == c->end || *c->at != b)
        return false;
    c->at++;
    return true;
}

static size_t take_digits(struct cursor *c)
{
    const char *from = c->at;
    while (c->at < c->end && is_digit(*c->at))
        c->at++;
    return (size_t)(c->at - from);
}

static bool number(struct cursor *c)
{
    take(c, '-');
    if (!take(c, '0') && take_digits(c) == 0)
        return false;
    if (take(c, '.') && take_digits(c) == 0)
        return false;
    if (c->at < c->end && (*c->at == 'e' || *c->at == 'E')) {
        c->at++;
        if (!take(c, '+'))
            take(c, '-');
        return take_digits(c) > 0;
    }
    return true;
}

static bool word(struct cursor *c, struct abx_str want)
{
    if ((size_t)(c->end - c->at) < want.len || memcmp(c->at, want.ptr, want.len) != 0)
        return false;
    c->at += want.len;
    return true;
}

static bool escape(struct cursor *c)
{
    if (c->at == c->end)
        return false;
    char kind = *c->at++;
    if (kind != 'u')
        return kind != '\0' && strchr("\"\\/bfnrt", kind) != NULL;
    for (int i = 0; i < 4; i++)
        if (c->at == c->end || !is_hex(*c->at++))
            return false;
    return true;
}

static bool string(struct cursor *c)
{
    if (!take(c, '"'))
        return false;
    const char *from = c->at;
    while (c->at < c->end && *c->at != '"') {
        if ((unsigned char)*c->at < 0x20)
            return false;
        if (*c->at++ == '\\' && !escape(c))
            return false;
    }
    struct abx_str body = {from, (size_t)(c->at - from)};
    return take(c, '"') && abx_str_is_utf8(body);
}

static bool scalar(struct cursor *c)
{
    if (c->at == c->end)
        return false;
    switch (*c->at) {
    case '"':
        return string(c);
    case 't':
        return word(c, ABX_STR("true"));
    case 'f':
        return word(c, ABX_STR("false"));
    case 'n':
        return word(c, ABX_STR("null"));
    default:
        return number(c);
    }
}

/* The open brackets, one bit each: 1 = object. */
struct nest {
    uint64_t bits[ABX_SCAN_DEPTH / 64];
    unsigned depth;
};

static bool push(struct nest *n, bool is_object)
{
    if (n->depth == ABX_SCAN_DEPTH)
        return false;
    uint64_t bit = UINT64_C(1) << (n->depth % 64), *bits = &n->bits[n->depth / 64];
    *bits = is_object ? *bits | bit : *bits & ~bit;
    n->depth++;
    return true;
}

static bool in_object(const struct nest *n)
{
    unsigned at = n->depth - 1;
    return n->bits[at / 64] >> (at % 64) & 1;
}

static bool key(struct cursor *c)
{
    skip_blanks(c);
    if (!string(c))
        return false;
    skip_blanks(c);
    return take(c, ':');
}

/* After a value: closes what is closed, or stands before the next value. *ret_done: the outermost
 * one is complete. */
static bool after_value(struct cursor *c, struct nest *n, bool *ret_done)
{
    for (;;) {
        if (n->depth == 0) {
            *ret_done = true;
            return true;
        }
        skip_blanks(c);
        if (take(c, ','))
            return !in_object(n) || key(c);
        if (!take(c, in_object(n) ? '}' : ']'))
            return false;
        n->depth--;
    }
}

/* A bracket that opens. *ret_empty: it was closed at once. */
static bool open_bracket(struct cursor *c, struct nest *n, bool *ret_empty)
{
    bool is_object = *c->at++ == '{';
    if (!push(n, is_object))
        return false;
    skip_blanks(c);
    if (take(c, is_object ? '}' : ']')) {
        n->depth--;
        *ret_empty = true;
        return true;
    }
    return !is_object || key(c);
}

static bool value(struct cursor *c)
{
    struct nest n;
    bool done = false;
    n.depth = 0;
    while (!done) {
        skip_blanks(c);
        if (c->at < c->end && (*c->at == '{' || *c->at == '[')) {
            bool empty = false;
            if (!open_bracket(c, &n, &empty))
                return false;
            if (!empty)
                continue;
        } else if (!scalar(c)) {
            return false;
        }
        if (!after_value(c, &n, &done))
            return false;
    }
    return true;
}

int abx_scan_value(struct abx_str text, struct abx_str *ret_value, struct abx_str *ret_rest)
{
    if (text.len == 0)
        return -1;
    struct cursor c = {text.ptr, text.ptr + text.len};
    skip_blanks(&c);
    const char *from = c.at;
    if (!value(&c))
        return -1;
    *ret_value = abx_str_n(from, (size_t)(c.at - from));
    skip_blanks(&c);
    *ret_rest = abx_str_n(c.at, (size_t)(c.end - c.at));
    return 0;
}

bool abx_scan_is_json(struct abx_str text)
{
    struct abx_str v, rest;
    return abx_scan_value(text, &v, &rest) == 0 && rest.len == 0;
}

void abx_scan_object_init(struct abx_scan_object *o, struct abx_str object)
{
    *o = (struct abx_scan_object){.rest = object, .failed = object.len < 2 || object.ptr[0] != '{'};
    if (!o->failed)
        o->rest = abx_str_sub(object, 1, object.len - 1);
}

bool abx_scan_object_next(struct abx_scan_object *o, struct abx_str *ret_key,
                          struct abx_str *ret_value)
{
    if (o->failed || o->rest.len == 0)
        return false;
    struct cursor c = {o->rest.ptr, o->rest.ptr + o->rest.len};
    skip_blanks(&c);
    if (take(&c, '}')) {
        o->rest.len = 0;
        return false;
    }
    if (o->began && !take(&c, ','))
        o->failed = true;
    skip_blanks(&c);
    const char *from = c.at;
    if (o->failed || !string(&c)) {
        o->failed = true;
        return false;
    }
    *ret_key = abx_str_n(from + 1, (size_t)(c.at - from) - 2);
    skip_blanks(&c);
    struct abx_str rest = {0};
    if (!take(&c, ':') ||
        abx_scan_value(abx_str_n(c.at, (size_t)(c.end - c.at)), ret_value, &rest) < 0) {
        o->failed = true;
        return false;
    }
    o->rest = rest;
    o->began = true;
    return true;
}
