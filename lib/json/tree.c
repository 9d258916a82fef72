/* lib/json/tree.c: RFC 8259 with places. Recursion is bounded by ABX_JSON_TREE_DEPTH. */
#include "lib/json/tree.h"

#include "lib/base/buf.h"

#include <math.h>
#include <stdlib.h>

#include "lib/base/banned.h"

struct reader {
    struct abx_str text;
    size_t at;
    unsigned depth;
    struct abx_arena *arena;
    struct abx_json_fault *fault;
};

static struct abx_json_node *read_value(struct reader *r);

static void *fail(struct reader *r, const char *text)
{
    if (r->fault->text == NULL)
        *r->fault = (struct abx_json_fault){r->at, text};
    return NULL;
}

static char peek(const struct reader *r)
{
    return r->at < r->text.len ? r->text.ptr[r->at] : '\0';
}

static char next_token(struct reader *r)
{
    while (r->at < r->text.len && strchr(" \t\n\r", r->text.ptr[r->at]) && peek(r) != '\0')
        r->at++;
    return peek(r);
}

static bool accept(struct reader *r, char c)
{
    if (next_token(r) != c || r->at >= r->text.len)
        return false;
    r->at++;
    return true;
}

static struct abx_json_node *new_node(struct reader *r, enum abx_json_kind kind)
{
    struct abx_json_node *n = abx_arena_alloc(r->arena, sizeof(*n));
    if (n == NULL)
        return fail(r, "the document is too large");
    n->kind = kind;
    n->at = r->at;
    return n;
}

/* ---- strings ---- */

static int hex4(struct abx_str s, size_t at)
{
    int v = 0;
    if (at + 4 > s.len)
        return -1;
    for (size_t i = at; i < at + 4; i++) {
        char c = s.ptr[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        v = v * 16 + digit;
    }
    return v;
}

static void put_code_point(struct abx_buf *out, uint32_t c)
{
    if (c < 0x80) {
        abx_buf_put_byte(out, (char)c);
        return;
    }
    unsigned extra = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
    abx_buf_put_byte(out, (char)(lead[extra] | c >> (6 * extra)));
    while (extra-- > 0)
        abx_buf_put_byte(out, (char)(0x80 | (c >> (6 * extra) & 0x3f)));
}

/* "\u....", at the u; two of them make one character where they are a surrogate pair. */
static bool read_unicode(struct reader *r, struct abx_buf *out)
{
    int c = hex4(r->text, r->at + 1);
    if (c < 0)
        return fail(r, "expected four hexadecimal digits after \\u") != NULL;
    r->at += 5;
    if (c >= 0xd800 && c < 0xdc00 && abx_str_starts(abx_str_sub(r->text, r->at, 2), "\\u")) {
        int low = hex4(r->text, r->at + 2);
        if (low >= 0xdc00 && low < 0xe000) {
            r->at += 6;
            c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        }
    }
    put_code_point(out, (uint32_t)c);
    return true;
}

static bool read_escape(struct reader *r, struct abx_buf *out)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    r->at++;
    char c = peek(r);
    if (c == 'u')
        return read_unicode(r, out);
    const char *found = c ? strchr(names, c) : NULL;
    if (found == NULL)
        return fail(r, "unknown escape; allowed: \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX") !=
               NULL;
    abx_buf_put_byte(out, values[found - names]);
    r->at++;
    return true;
}

/* At the opening quote; leaves behind the closing one. */
static bool read_string(struct reader *r, struct abx_str *ret)
{
    ABX_AUTO_BUF out;
    abx_buf_init(&out, r->text.len + 1);
    for (r->at++; r->at < r->text.len && peek(r) != '"';) {
        if (peek(r) == '\\') {
            if (!read_escape(r, &out))
                return false;
            continue;
        }
        if ((unsigned char)peek(r) < 0x20)
            return fail(r, "control character in a string; write \\n, \\t or \\u00XX") != NULL;
        abx_buf_put_byte(&out, r->text.ptr[r->at++]);
    }
    if (r->at >= r->text.len)
        return fail(r, "the string has no closing quote") != NULL;
    r->at++;
    *ret = abx_arena_str(r->arena, out.len ? abx_buf_str(&out) : ABX_STR(""));
    return (!out.failed && ret->ptr != NULL) || fail(r, "the document is too large") != NULL;
}

/* ---- scalars ---- */

static size_t digits(struct reader *r)
{
    size_t from = r->at;
    while (peek(r) >= '0' && peek(r) <= '9')
        r->at++;
    return r->at - from;
}

/* Behind the sign and the whole part: a fraction, an exponent. False when one is begun only. */
static bool read_real_part(struct reader *r, bool *ret_real)
{
    if (peek(r) == '.') {
        r->at++;
        *ret_real = true;
        if (digits(r) == 0)
            return false;
    }
    if (peek(r) == 'e' || peek(r) == 'E') {
        r->at++;
        *ret_real = true;
        if (peek(r) == '+' || peek(r) == '-')
            r->at++;
        if (digits(r) == 0)
            return false;
    }
    return true;
}

static struct abx_json_node *read_number(struct reader *r)
{
    struct abx_json_node *n = new_node(r, ABX_JSON_INT_NODE);
    bool is_real = false;
    if (n == NULL)
        return NULL;
    if (peek(r) == '-')
        r->at++;
    bool leading_zero = peek(r) == '0';
    size_t whole = digits(r);
    if (whole == 0 || (leading_zero && whole > 1) || !read_real_part(r, &is_real))
        return fail(r, "not a JSON number");
    n->kind = is_real ? ABX_JSON_REAL_NODE : ABX_JSON_INT_NODE;
    n->text = abx_arena_str(r->arena, abx_str_sub(r->text, n->at, r->at - n->at));
    if (n->text.ptr == NULL)
        return fail(r, "the document is too large");
    n->number = strtod(n->text.ptr, NULL);
    if (is_real && !isfinite(n->number)) {
        r->at = n->at;
        return fail(r, "the number is too large");
    }
    return n;
}

static struct abx_json_node *read_word(struct reader *r)
{
    static const struct {
        const char *word;
        enum abx_json_kind kind;
        bool truth;
    } words[] = {{"null", ABX_JSON_NULL_NODE, false},
                 {"true", ABX_JSON_BOOL_NODE, true},
                 {"false", ABX_JSON_BOOL_NODE, false}};
    struct abx_str rest = abx_str_sub(r->text, r->at, r->text.len);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (!abx_str_starts(rest, words[i].word))
            continue;
        struct abx_json_node *n = new_node(r, words[i].kind);
        if (n != NULL)
            n->truth = words[i].truth;
        r->at += strlen(words[i].word);
        return n;
    }
    if (abx_str_starts(rest, "NaN") || abx_str_starts(rest, "Infinity"))
        return fail(r, "NaN and Infinity are no JSON numbers");
    if (abx_str_starts(rest, "\xef\xbb\xbf"))
        return fail(r, "the text begins with a byte order mark; save it without one");
    return fail(r, rest.len ? "expected a value" : "expected a value, found the end of the text");
}

/* ---- arrays and objects ---- */

static void append(struct abx_json_node *parent, struct abx_json_node **last,
                   struct abx_json_node *child)
{
    child->parent = parent;
    child->index = parent->count++;
    if (*last == NULL)
        parent->first = child;
    else
        (*last)->next = child;
    *last = child;
}

static struct abx_json_node *read_array(struct reader *r)
{
    struct abx_json_node *array = new_node(r, ABX_JSON_ARRAY_NODE), *last = NULL;
    if (array == NULL)
        return NULL;
    r->at++;
    if (accept(r, ']'))
        return array;
    do {
        struct abx_json_node *child = read_value(r);
        if (child == NULL)
            return NULL;
        append(array, &last, child);
    } while (accept(r, ','));
    if (!accept(r, ']'))
        return fail(r, "expected \",\" or \"]\"");
    return array;
}

/* Puts @member into @object: behind the last one, or where its key already stands. */
static bool add_member(struct reader *r, struct abx_json_node *object, struct abx_json_node **last,
                       struct abx_json_node *member)
{
    struct abx_json_node **slot = &object->first;
    while (*slot != NULL && !abx_str_eq((*slot)->key, member->key))
        slot = &(*slot)->next;
    if (*slot == NULL) {
        if (object->count >= ABX_JSON_TREE_MEMBERS)
            return fail(r, "an object with too many keys") != NULL;
        append(object, last, member);
        return true;
    }
    member->parent = object;
    member->index = (*slot)->index;
    member->next = (*slot)->next;
    if (*last == *slot)
        *last = member;
    *slot = member;
    return true;
}

static struct abx_json_node *read_object(struct reader *r)
{
    struct abx_json_node *object = new_node(r, ABX_JSON_OBJECT_NODE), *last = NULL;
    if (object == NULL)
        return NULL;
    r->at++;
    if (accept(r, '}'))
        return object;
    do {
        struct abx_str key;
        if (next_token(r) != '"')
            return fail(r, "expected a key in double quotes");
        size_t key_at = r->at;
        if (!read_string(r, &key))
            return NULL;
        if (!accept(r, ':'))
            return fail(r, "expected \":\" after the key");
        struct abx_json_node *member = read_value(r);
        if (member == NULL)
            return NULL;
        member->key = key;
        member->key_at = key_at;
        if (!add_member(r, object, &last, member))
            return NULL;
    } while (accept(r, ','));
    if (!accept(r, '}'))
        return fail(r, "expected \",\" or \"}\"");
    return object;
}

static struct abx_json_node *read_value(struct reader *r)
{
    struct abx_json_node *n;
    char c = next_token(r);
    if (c == '[' || c == '{') {
        if (r->depth >= ABX_JSON_TREE_DEPTH)
            return fail(r, "nested too deeply");
        r->depth++;
        n = c == '[' ? read_array(r) : read_object(r);
        r->depth--;
        return n;
    }
    if (c == '"') {
        n = new_node(r, ABX_JSON_STR_NODE);
        return n != NULL && read_string(r, &n->text) ? n : NULL;
    }
    return c == '-' || (c >= '0' && c <= '9') ? read_number(r) : read_word(r);
}

/* ---- public ---- */

static size_t first_bad_byte(struct abx_str text)
{
    size_t good = 0, bad = text.len;
    while (bad - good > 1) { /* a cut character at the end of a good prefix is what is looked for */
        size_t middle = good + (bad - good) / 2, cut = middle;
        while (cut > good && ((unsigned char)text.ptr[cut] & 0xc0) == 0x80)
            cut--;
        if (cut > good && abx_str_is_utf8(abx_str_n(text.ptr + good, cut - good)))
            good = cut;
        else if (cut > good)
            bad = cut;
        else
            break;
    }
    return good;
}

int abx_json_tree_parse(struct abx_str text, struct abx_arena *a, struct abx_json_node **ret,
                        struct abx_json_fault *fault)
{
    struct reader r = {.text = text, .arena = a, .fault = fault};
    *fault = (struct abx_json_fault){0};
    if (!abx_str_is_utf8(text)) {
        *fault = (struct abx_json_fault){first_bad_byte(text), "the text is not UTF-8"};
        return -1;
    }
    struct abx_json_node *root = read_value(&r);
    if (root == NULL)
        return -1;
    next_token(&r);
    if (r.at < text.len) {
        fail(&r, "text after the end of the document");
        return -1;
    }
    *ret = root;
    return 0;
}

const struct abx_json_node *abx_json_tree_get(const struct abx_json_node *object, const char *key)
{
    if (object == NULL || object->kind != ABX_JSON_OBJECT_NODE)
        return NULL;
    for (const struct abx_json_node *n = object->first; n != NULL; n = n->next)
        if (abx_str_is(n->key, key))
            return n;
    return NULL;
}

void abx_json_tree_set(struct abx_json_node *object, const char *key, struct abx_json_node *value)
{
    struct abx_json_node **slot = &object->first;
    value->key = abx_str(key);
    value->parent = object;
    while (*slot != NULL && !abx_str_is((*slot)->key, key))
        slot = &(*slot)->next;
    value->next = *slot != NULL ? (*slot)->next : NULL;
    value->index = *slot != NULL ? (*slot)->index : object->count++;
    *slot = value;
}

void abx_json_position(struct abx_str text, size_t at, unsigned *ret_line, unsigned *ret_column)
{
    unsigned line = 1, column = 1;
    for (size_t i = 0; i < at && i < text.len; i++) {
        if (text.ptr[i] == '\n') {
            line++;
            column = 1;
        } else if (((unsigned char)text.ptr[i] & 0xc0) != 0x80)
            column++;
    }
    *ret_line = line;
    *ret_column = column;
}

static void put_pointer(const struct abx_json_node *n, struct abx_buf *out)
{
    const struct abx_json_node *path[ABX_JSON_TREE_DEPTH + 1];
    size_t depth = 0;
    for (; n->parent != NULL && depth < ABX_JSON_TREE_DEPTH + 1; n = n->parent)
        path[depth++] = n;
    while (depth-- > 0) {
        abx_buf_put_byte(out, '/');
        if (path[depth]->parent->kind == ABX_JSON_ARRAY_NODE) {
            abx_buf_putf(out, "%zu", path[depth]->index);
            continue;
        }
        struct abx_str key = path[depth]->key;
        for (size_t i = 0; i < key.len; i++) {
            if (key.ptr[i] == '~' || key.ptr[i] == '/')
                abx_buf_put_c(out, key.ptr[i] == '~' ? "~0" : "~1");
            else
                abx_buf_put_byte(out, key.ptr[i]);
        }
    }
}

char *abx_json_tree_pointer(const struct abx_json_node *node, struct abx_arena *a)
{
    ABX_AUTO_BUF out;
    abx_buf_init(&out, 1 << 20);
    put_pointer(node, &out);
    return out.failed ? NULL : abx_arena_c(a, out.len ? abx_buf_str(&out) : ABX_STR(""));
}
