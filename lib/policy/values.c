/* lib/policy/values.c: sizes, scopes and numbers of the document, read and printed as the published
 * server does (policy.md A3, A14: the revision must come out the same). */
#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "lib/policy/policy_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/banned.h"

/* ---- characters ---- */

/* The zeros of the scripts that have decimal digits (Unicode 14, category Nd): a size may be
 * written in any of them. */
static const uint32_t zeros[] = {
    0x30,    0x660,   0x6f0,   0x7c0,   0x966,   0x9e6,   0xa66,   0xae6,   0xb66,   0xbe6,
    0xc66,   0xce6,   0xd66,   0xde6,   0xe50,   0xed0,   0xf20,   0x1040,  0x1090,  0x17e0,
    0x1810,  0x1946,  0x19d0,  0x1a80,  0x1a90,  0x1b50,  0x1bb0,  0x1c40,  0x1c50,  0xa620,
    0xa8d0,  0xa900,  0xa9d0,  0xa9f0,  0xaa50,  0xabf0,  0xff10,  0x104a0, 0x10d30, 0x11066,
    0x110f0, 0x11136, 0x111d0, 0x112f0, 0x11450, 0x114d0, 0x11650, 0x116c0, 0x11730, 0x118e0,
    0x11950, 0x11c50, 0x11d50, 0x11da0, 0x16a60, 0x16ac0, 0x16b50, 0x1d7ce, 0x1d7d8, 0x1d7e2,
    0x1d7ec, 0x1d7f6, 0x1e140, 0x1e2f0, 0x1e950, 0x1fbf0,
};
/* Characters that Python's repr() escapes (format, blank, surrogate, private use). */
static const uint32_t unprintable[][2] = {
    {0x80, 0xa0},       {0xad, 0xad},       {0x600, 0x605},       {0x61c, 0x61c},
    {0x6dd, 0x6dd},     {0x70f, 0x70f},     {0x890, 0x891},       {0x8e2, 0x8e2},
    {0x1680, 0x1680},   {0x180e, 0x180e},   {0x2000, 0x200f},     {0x2028, 0x202f},
    {0x205f, 0x2064},   {0x2066, 0x206f},   {0x3000, 0x3000},     {0xd800, 0xf8ff},
    {0xfeff, 0xfeff},   {0xfff9, 0xfffb},   {0x110bd, 0x110bd},   {0x110cd, 0x110cd},
    {0x13430, 0x13438}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a},   {0xe0001, 0xe0001},
    {0xe0020, 0xe007f}, {0xf0000, 0xffffd}, {0x100000, 0x10fffd},
};

static int digit_value(uint32_t c)
{
    for (size_t i = 0; i < ABX_COUNTOF(zeros); i++)
        if (c >= zeros[i] && c < zeros[i] + 10)
            return (int)(c - zeros[i]);
    return -1;
}

static bool is_blank(uint32_t c)
{
    static const uint32_t blanks[][2] = {
        {0x09, 0x0d},     {0x1c, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},     {0x1680, 0x1680},
        {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}};
    for (size_t i = 0; i < ABX_COUNTOF(blanks); i++)
        if (c >= blanks[i][0] && c <= blanks[i][1])
            return true;
    return false;
}

static bool is_printable(uint32_t c)
{
    if (c < 0x20 || c == 0x7f)
        return false;
    for (size_t i = 0; i < ABX_COUNTOF(unprintable); i++)
        if (c >= unprintable[i][0] && c <= unprintable[i][1])
            return false;
    return true;
}

/* ---- sizes ---- */

enum { SIZE_DIGITS_MAX = 400 }; /* a longer one is beyond any double */

static void skip_blanks(struct abx_str s, size_t *at)
{
    for (size_t next = *at; next < s.len;) {
        if (!is_blank(abx__next_char(s, &next)))
            return;
        *at = next;
    }
}

/* Digits of any script, as ASCII into @out. How many. */
static size_t take_digits(struct abx_str s, size_t *at, struct abx_buf *out)
{
    size_t count = 0;
    for (size_t next = *at; next < s.len; count++) {
        int digit = digit_value(abx__next_char(s, &next));
        if (digit < 0)
            break;
        abx_buf_put_byte(out, (char)('0' + digit));
        *at = next;
    }
    return count;
}

static bool unit_factor(struct abx_str unit, double *ret)
{
    static const struct {
        const char *name;
        double factor;
    } units[] = {{"", 1},
                 {"b", 1},
                 {"kb", 1e3},
                 {"mb", 1e6},
                 {"gb", 1e9},
                 {"kib", 1024},
                 {"mib", 1024.0 * 1024},
                 {"gib", 1024.0 * 1024 * 1024}};
    for (size_t i = 0; i < ABX_COUNTOF(units); i++) {
        if (!abx_str_is_nocase(unit, units[i].name))
            continue;
        *ret = units[i].factor;
        return true;
    }
    return false;
}

bool abx__size_parse(struct abx_str text, double *ret)
{
    size_t at = 0;
    double factor;
    ABX_AUTO_BUF number;
    abx_buf_init(&number, SIZE_DIGITS_MAX);
    skip_blanks(text, &at);
    if (take_digits(text, &at, &number) == 0)
        return false;
    if (at < text.len && text.ptr[at] == '.') {
        at++;
        abx_buf_put_byte(&number, '.');
        if (take_digits(text, &at, &number) == 0)
            return false;
    }
    skip_blanks(text, &at);
    size_t from = at;
    while (at < text.len && ((text.ptr[at] | 0x20) >= 'a' && (text.ptr[at] | 0x20) <= 'z'))
        at++;
    struct abx_str unit = abx_str_sub(text, from, at - from);
    skip_blanks(text, &at);
    if (number.failed || at != text.len || !unit_factor(unit, &factor))
        return false;
    *ret = trunc(strtod(number.ptr, NULL) * factor);
    return *ret >= 1 && isfinite(*ret);
}

/* ---- scopes ---- */

static bool is_name_char(char c, bool is_first, const char *also)
{
    if (c >= 'a' && c <= 'z')
        return true;
    return !is_first && c != '\0' && ((c >= '0' && c <= '9') || strchr(also, c) != NULL);
}

static bool is_name(struct abx_str s, const char *also)
{
    for (size_t i = 0; i < s.len; i++)
        if (!is_name_char(s.ptr[i], i == 0, also))
            return false;
    return s.len > 0;
}

bool abx_scope_is_valid(struct abx_str scope)
{
    if (scope.len > 0 && scope.ptr[scope.len - 1] == '\n')
        scope.len--; /* P36: accepted as published */
    if (abx_str_is(scope, "*"))
        return true;
    ptrdiff_t colon = abx_str_chr(scope, ':');
    if (colon < 0)
        return is_name(scope, "_.-");
    struct abx_str rest = abx_str_sub(scope, (size_t)colon + 1, scope.len);
    return is_name(abx_str_sub(scope, 0, (size_t)colon), "_") &&
           (abx_str_is(rest, "*") || is_name(rest, "_:.-"));
}

static bool holds_one(struct abx_str held, struct abx_str required)
{
    if (abx_str_is(held, "*") || abx_str_eq(held, required))
        return true;
    ptrdiff_t colon = abx_str_chr(required, ':');
    size_t space = colon < 0 ? required.len : (size_t)colon;
    return held.len == space + 2 && memcmp(held.ptr + space, ":*", 2) == 0 &&
           memcmp(held.ptr, required.ptr, space) == 0;
}

bool abx_scope_held(struct abx_str_list held, struct abx_str required)
{
    if (abx_str_is(required, "core:read"))
        return true;
    for (size_t i = 0; i < held.count; i++)
        if (holds_one(held.items[i], required))
            return true;
    return false;
}

struct abx_str abx_scope_missing(struct abx_str_list held, struct abx_str_list required)
{
    for (size_t i = 0; i < required.count; i++)
        if (!abx_scope_held(held, required.items[i]))
            return required.items[i];
    return (struct abx_str){0};
}

/* ---- printing ---- */

/* The fewest digits that read back as @v: "d.ddde+XX". */
static void shortest(double v, char *out, size_t cap)
{
    for (int digits = 0; digits <= 16; digits++) {
        snprintf(out, cap, "%.*e", digits, v);
        double back = strtod(out, NULL);
        if (memcmp(&back, &v, sizeof(v)) == 0)
            return;
    }
}

void abx__put_real(struct abx_buf *out, double v)
{
    char text[40];
    shortest(v, text, sizeof(text));
    char *e = strchr(text, 'e');
    ABX_ASSERT(e != NULL); /* the value is finite */
    int exponent = (int)strtol(e + 1, NULL, 10);
    if (exponent < -4 || exponent >= 16) {
        abx_buf_put(out, text, (size_t)(e - text));
        abx_buf_putf(out, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
        return;
    }
    int digits = (int)(e - text) - (text[0] == '-') - 1; /* without the point */
    int after = digits > 0 ? digits - 1 - exponent : -exponent;
    abx_buf_putf(out, "%.*f", after > 1 ? after : 1, v);
}

void abx__put_integer(struct abx_buf *out, struct abx_str digits)
{
    abx_buf_put_str(out, abx_str_is(digits, "-0") ? ABX_STR("0") : digits);
}

void abx__put_json_string(struct abx_buf *out, struct abx_str s)
{
    abx_buf_put_byte(out, '"');
    for (size_t at = 0; at < s.len;) {
        static const char names[] = "\"\\nrtbf", values[] = "\"\\\n\r\t\b\f";
        uint32_t c = abx__next_char(s, &at);
        const char *named = c && c < 0x80 ? strchr(values, (int)c) : NULL;
        if (named != NULL)
            abx_buf_putf(out, "\\%c", names[named - values]);
        else if (c >= 0x20 && c < 0x7f)
            abx_buf_put_byte(out, (char)c);
        else if (c < 0x10000)
            abx_buf_putf(out, "\\u%04x", c);
        else
            abx_buf_putf(out, "\\u%04x\\u%04x", 0xd7c0 + (c >> 10), 0xdc00 + (c & 0x3ff));
    }
    abx_buf_put_byte(out, '"');
}

static void put_quoted(struct abx_buf *out, struct abx_str s)
{
    static const char special[] = "\n\r\t\\";
    char quote = abx_str_chr(s, '\'') >= 0 && abx_str_chr(s, '"') < 0 ? '"' : '\'';
    abx_buf_put_byte(out, quote);
    for (size_t at = 0; at < s.len;) {
        size_t from = at;
        uint32_t c = abx__next_char(s, &at);
        const char *named = c && c < 0x80 ? strchr(special, (int)c) : NULL;
        if (named != NULL)
            abx_buf_putf(out, "\\%c", "nrt\\"[named - special]);
        else if (c == (uint32_t)quote)
            abx_buf_putf(out, "\\%c", quote);
        else if (is_printable(c))
            abx_buf_put(out, s.ptr + from, at - from);
        else if (c < 0x100)
            abx_buf_putf(out, "\\x%02x", c);
        else if (c < 0x10000)
            abx_buf_putf(out, "\\u%04x", c);
        else
            abx_buf_putf(out, "\\U%08x", c);
    }
    abx_buf_put_byte(out, quote);
}

static void put_container(struct abx_buf *out, const struct abx_json_node *n)
{
    bool is_object = n->kind == ABX_JSON_OBJECT_NODE;
    abx_buf_put_byte(out, is_object ? '{' : '[');
    for (const struct abx_json_node *child = n->first; child != NULL; child = child->next) {
        if (child != n->first)
            abx_buf_put_c(out, ", ");
        if (is_object) {
            put_quoted(out, child->key);
            abx_buf_put_c(out, ": ");
        }
        abx__put_python(out, child, true);
    }
    abx_buf_put_byte(out, is_object ? '}' : ']');
}

void abx__put_python(struct abx_buf *out, const struct abx_json_node *n, bool quoted)
{
    switch (n->kind) {
    case ABX_JSON_NULL_NODE:
        abx_buf_put_c(out, "None");
        break;
    case ABX_JSON_BOOL_NODE:
        abx_buf_put_c(out, n->truth ? "True" : "False");
        break;
    case ABX_JSON_INT_NODE:
        abx__put_integer(out, n->text);
        break;
    case ABX_JSON_REAL_NODE:
        abx__put_real(out, n->number);
        break;
    case ABX_JSON_STR_NODE:
        if (quoted)
            put_quoted(out, n->text);
        else
            abx_buf_put_str(out, n->text);
        break;
    case ABX_JSON_ARRAY_NODE:
    case ABX_JSON_OBJECT_NODE:
        put_container(out, n);
        break;
    }
}
