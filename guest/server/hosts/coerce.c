/* guest/server/hosts/coerce.c: arguments by their declarations. Pure. */
#include "guest/server/hosts/coerce.h"

#include "guest/server/hosts/protocol.h"
#include "lib/base/assert.h"
#include "lib/json/json.h"
#include "lib/json/scan.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum { NUMBER_MAX = 4300, NAME_SHOWN = 64, NAMES_SHOWN = 300 };

/* ---- declarations ---- */

static const char *const type_names[] = {
    [ABX_ARG_STRING] = "string",
    [ABX_ARG_INTEGER] = "integer",
    [ABX_ARG_FLOAT] = "float",
    [ABX_ARG_BOOLEAN] = "boolean",
    [ABX_ARG_STRING_ARRAY] = "string_array",
};
_Static_assert(ABX_COUNTOF(type_names) == ABX_ARG__TYPES, "one name per type");

int abx_arg_type_parse(struct abx_str name)
{
    for (int i = 0; i < ABX_ARG__TYPES; i++)
        if (abx_str_is(name, type_names[i]))
            return i;
    return -1;
}

struct row {
    struct abx_str name, type, default_text;
    bool required, has_default;
};
static const struct abx_json_field row_fields[] = {
    {"name", ABX_JSON_STR, offsetof(struct row, name), ABX_JSON_REQUIRED},
    {"type", ABX_JSON_STR, offsetof(struct row, type), 0},
    {"required", ABX_JSON_BOOL, offsetof(struct row, required), 0},
    {"default", ABX_JSON_STR, offsetof(struct row, default_text),
     .has_offset = offsetof(struct row, has_default)},
    {0}};

static int read_row(struct json_t *item, struct abx_arena *a, struct abx_arg *ret,
                    struct abx_error *err)
{
    struct row row = {.type = ABX_STR("string")};
    if (abx_json_decode(item, row_fields, &row, a, err) < 0)
        return abx_err_wrap(err, "argument");
    int type = abx_arg_type_parse(row.type);
    if (type < 0)
        return abx_err_set(
            err, ABX_INVALID_ARGUMENT,
            "argument %.*s: unknown type %.*s; one of string, integer, float, "
            "boolean, string_array",
            (int)(row.name.len < NAME_SHOWN ? row.name.len : NAME_SHOWN), row.name.ptr,
            (int)(row.type.len < NAME_SHOWN ? row.type.len : NAME_SHOWN), row.type.ptr);
    *ret = (struct abx_arg){.name = row.name,
                            .type = (enum abx_arg_type)type,
                            .default_text = row.default_text,
                            .is_required = row.required,
                            .has_default = row.has_default};
    return 0;
}

int abx_args_read(struct json_t *list, struct abx_arena *a, struct abx_args *ret,
                  struct abx_error *err)
{
    size_t n = json_array_size(list);
    struct abx_args out = {.items = abx_arena_array(a, n + 1, sizeof(*out.items))};
    if (list && !json_is_array(list) && !json_is_null(list))
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "args is no list");
    if (n > ABX_ARGS_MAX || out.items == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "more than %d arguments, or no memory",
                           (int)ABX_ARGS_MAX);
    for (; out.count < n; out.count++)
        if (read_row(json_array_get(list, out.count), a, &out.items[out.count], err) < 0)
            return -1;
    *ret = out;
    return 0;
}

/* ---- one value ---- */

static struct abx_str trimmed(struct abx_str s)
{
    while (s.len > 0 && s.ptr[0] > 0 && s.ptr[0] <= ' ')
        s = abx_str_sub(s, 1, s.len);
    while (s.len > 0 && s.ptr[s.len - 1] > 0 && s.ptr[s.len - 1] <= ' ')
        s.len--;
    return s;
}

static bool is_digit(char b)
{
    return b >= '0' && b <= '9';
}

/* Digits with single underscores between them, to @out without those. */
static bool take_digits(struct abx_str *s, struct abx_buf *out)
{
    bool was_digit = false;
    size_t i = 0;
    for (; i < s->len && (is_digit(s->ptr[i]) || (s->ptr[i] == '_' && was_digit)); i++) {
        was_digit = is_digit(s->ptr[i]);
        if (was_digit)
            abx_buf_put_byte(out, s->ptr[i]);
    }
    *s = abx_str_sub(*s, i, s->len);
    return was_digit;
}

/* A whole number as JSON writes it. @digits: one or more. */
static void put_integer(struct abx_buf *out, bool is_negative, struct abx_str digits)
{
    while (digits.len > 1 && digits.ptr[0] == '0')
        digits = abx_str_sub(digits, 1, digits.len);
    if (is_negative && !abx_str_is(digits, "0"))
        abx_buf_put_byte(out, '-');
    abx_buf_put_str(out, digits);
}

static bool integer_of_text(struct abx_str text, struct abx_buf *out)
{
    ABX_AUTO_BUF digits;
    abx_buf_init(&digits, NUMBER_MAX);
    struct abx_str s = trimmed(text);
    bool is_negative = s.len > 0 && s.ptr[0] == '-';
    if (is_negative || (s.len > 0 && s.ptr[0] == '+'))
        s = abx_str_sub(s, 1, s.len);
    if (!take_digits(&s, &digits) || s.len > 0 || abx_buf_failed(&digits))
        return false;
    put_integer(out, is_negative, abx_buf_str(&digits));
    return true;
}

/* @number follows JSON's grammar. Too large: an infinity. */
static bool double_of(struct abx_str number, double *ret)
{
    char text[NUMBER_MAX + 1];
    if (abx_str_to_c(number, text, sizeof(text)) < 0)
        return false;
    *ret = strtod(text, NULL);
    return true;
}

static bool is_number(struct abx_str raw)
{
    return raw.ptr[0] == '-' || is_digit(raw.ptr[0]);
}

static bool is_whole(struct abx_str number)
{
    for (size_t i = 0; i < number.len; i++)
        if (number.ptr[i] == '.' || number.ptr[i] == 'e' || number.ptr[i] == 'E')
            return false;
    return number.len <= NUMBER_MAX;
}

static bool to_integer(struct abx_str raw, struct abx_str text, struct abx_buf *out)
{
    double d;
    if (text.ptr)
        return integer_of_text(text, out);
    if (!is_number(raw))
        return false;
    if (is_whole(raw)) {
        bool is_negative = raw.ptr[0] == '-';
        put_integer(out, is_negative, abx_str_sub(raw, is_negative, raw.len));
        return true;
    }
    if (!double_of(raw, &d) || !isfinite(d))
        return false;
    d = trunc(d);
    abx_buf_putf(out, "%.0f", d == 0 ? 0.0 : d); /* no minus before a zero */
    return true;
}

/* JSON has no number for what is not finite: the host gets its text. */
static void put_double(struct abx_buf *out, double d)
{
    struct abx_json_writer w;
    abx_json_writer_init(&w, out);
    if (isnan(d))
        abx_json_str(&w, ABX_STR("nan"));
    else if (isinf(d))
        abx_json_str(&w, d < 0 ? ABX_STR("-inf") : ABX_STR("inf"));
    else
        abx_json_f64(&w, d);
}

static bool word_of_text(struct abx_str s, bool is_negative, double *ret)
{
    if (abx_str_is_nocase(s, "nan"))
        *ret = (double)NAN;
    else if (abx_str_is_nocase(s, "inf") || abx_str_is_nocase(s, "infinity"))
        *ret = is_negative ? -HUGE_VAL : HUGE_VAL;
    else
        return false;
    return true;
}

/* What Python's float() reads. */
static bool float_of_text(struct abx_str text, struct abx_buf *out)
{
    ABX_AUTO_BUF plain;
    struct abx_str s = trimmed(text);
    double d;
    abx_buf_init(&plain, NUMBER_MAX);
    if (s.len > 0 && (s.ptr[0] == '-' || s.ptr[0] == '+')) {
        abx_buf_put_byte(&plain, s.ptr[0]);
        s = abx_str_sub(s, 1, s.len);
    }
    if (word_of_text(s, plain.len > 0 && plain.ptr[0] == '-', &d)) {
        put_double(out, d);
        return true;
    }
    bool has_digits = take_digits(&s, &plain);
    if (s.len > 0 && s.ptr[0] == '.') {
        abx_buf_put_byte(&plain, '.');
        s = abx_str_sub(s, 1, s.len);
        has_digits |= take_digits(&s, &plain);
    }
    if (has_digits && s.len > 0 && (s.ptr[0] | 0x20) == 'e') {
        abx_buf_put_byte(&plain, 'e');
        s = abx_str_sub(s, 1, s.len);
        if (s.len > 0 && (s.ptr[0] == '-' || s.ptr[0] == '+')) {
            abx_buf_put_byte(&plain, s.ptr[0]);
            s = abx_str_sub(s, 1, s.len);
        }
        has_digits = take_digits(&s, &plain);
    }
    if (!has_digits || s.len > 0 || abx_buf_failed(&plain) || !double_of(abx_buf_str(&plain), &d))
        return false;
    put_double(out, d);
    return true;
}

static bool to_float(struct abx_str raw, struct abx_str text, struct abx_buf *out)
{
    double d;
    if (text.ptr)
        return float_of_text(text, out);
    if (abx_str_is(raw, "true") || abx_str_is(raw, "false")) {
        abx_buf_put_c(out, raw.ptr[0] == 't' ? "1.0" : "0.0");
        return true;
    }
    if (!is_number(raw) || !double_of(raw, &d))
        return false;
    if (isfinite(d))
        abx_buf_put_str(out, raw);
    else
        put_double(out, d);
    return true;
}

static bool to_boolean(struct abx_str raw, struct abx_str text, struct abx_buf *out)
{
    static const struct {
        const char *word;
        bool is_true;
    } words[] = {{"true", true},   {"yes", true}, {"1", true},
                 {"false", false}, {"no", false}, {"0", false}};
    struct abx_str s = text.ptr ? text : raw;
    for (size_t i = 0; i < ABX_COUNTOF(words); i++)
        if (abx_str_is_nocase(s, words[i].word)) {
            abx_buf_put_c(out, words[i].is_true ? "true" : "false");
            return true;
        }
    return false;
}

/* JSON without the blanks between its tokens. */
static void put_compact(struct abx_buf *out, struct abx_str raw)
{
    bool in_string = false;
    for (size_t i = 0; i < raw.len; i++) {
        char b = raw.ptr[i];
        if (in_string && b == '\\') {
            abx_buf_put(out, raw.ptr + i, 2); /* the grammar was checked: one follows */
            i++;
            continue;
        }
        in_string ^= b == '"';
        if (in_string || (b != ' ' && b != '\t' && b != '\r' && b != '\n'))
            abx_buf_put_byte(out, b);
    }
}

static bool to_string(struct abx_str raw, struct abx_str text, struct abx_buf *out)
{
    ABX_AUTO_BUF compact;
    struct abx_json_writer w;
    abx_buf_init(&compact, raw.len + 1);
    if (text.ptr) {
        abx_buf_put_str(out, raw);
        return true;
    }
    put_compact(&compact, raw);
    abx_json_writer_init(&w, out);
    abx_json_str(&w, abx_buf_str(&compact));
    return !abx_buf_failed(&compact);
}

/* The next element of an array whose '[' or ',' was taken; false: it has ended. */
static bool next_element(struct abx_str *rest, struct abx_str *ret)
{
    *rest = trimmed(*rest);
    if (rest->len == 0 || rest->ptr[0] == ']' || abx_scan_value(*rest, ret, rest) < 0)
        return false;
    if (rest->len > 0 && rest->ptr[0] == ',')
        *rest = abx_str_sub(*rest, 1, rest->len);
    return true;
}

static bool to_string_array(struct abx_str raw, struct abx_str text, struct abx_buf *out)
{
    struct abx_str rest, element;
    if (text.ptr || raw.ptr[0] != '[')
        return false;
    rest = abx_str_sub(raw, 1, raw.len);
    while (next_element(&rest, &element))
        if (element.ptr[0] != '"')
            return false;
    put_compact(out, raw);
    return true;
}

/* @raw: a JSON value; @text: what it says when it is a string, else ptr NULL. */
static bool (*const converters[])(struct abx_str raw, struct abx_str text, struct abx_buf *out) = {
    [ABX_ARG_STRING] = to_string,
    [ABX_ARG_INTEGER] = to_integer,
    [ABX_ARG_FLOAT] = to_float,
    [ABX_ARG_BOOLEAN] = to_boolean,
    [ABX_ARG_STRING_ARRAY] = to_string_array,
};
_Static_assert(ABX_COUNTOF(converters) == ABX_ARG__TYPES, "one converter per type");

static bool convert(enum abx_arg_type type, struct abx_str raw, struct abx_buf *out)
{
    ABX_AUTO_BUF text;
    size_t from = out->len;
    abx_buf_init(&text, raw.len + 1);
    struct abx_str said = {0};
    if (raw.ptr[0] == '"') {
        if (abx_host_text(raw, &text) < 0)
            return false;
        said = text.len ? abx_buf_str(&text) : ABX_STR("");
    }
    if (converters[type](raw, said, out))
        return true;
    if (out->len > from) {
        out->len = from;
        out->ptr[from] = '\0';
    }
    return false;
}

/* The default converts like a value; what does not is passed as it is. That of a list is JSON. */
static void put_default(const struct abx_arg *d, struct abx_buf *out)
{
    ABX_AUTO_BUF quoted;
    struct abx_json_writer w;
    struct abx_str value, rest;
    abx_buf_init(&quoted, d->default_text.len * 6 + 16);
    abx_json_writer_init(&w, &quoted);
    abx_json_str(&w, d->default_text);
    bool is_list = d->type == ABX_ARG_STRING_ARRAY &&
                   abx_scan_value(d->default_text, &value, &rest) == 0 && rest.len == 0;
    if (is_list && convert(d->type, value, out))
        return;
    if (abx_buf_failed(&quoted)) {
        out->failed = true;
        return;
    }
    if (is_list || !convert(d->type, abx_buf_str(&quoted), out))
        abx_buf_put_str(out, abx_buf_str(&quoted));
}

/* ---- all of them ---- */

struct member {
    struct abx_str name, raw;
};
struct members {
    struct member *items;
    size_t count;
};

static int read_members(struct abx_str body, struct abx_arena *a, struct members *ret)
{
    struct abx_scan_object o;
    struct abx_str object, rest, key, value;
    size_t count = 0;
    if (body.len == 0 || abx_scan_value(body, &object, &rest) < 0 || object.ptr[0] != '{')
        return 0;
    abx_scan_object_init(&o, object);
    while (abx_scan_object_next(&o, &key, &value))
        count++;
    ret->items = abx_arena_array(a, count + 1, sizeof(*ret->items));
    abx_scan_object_init(&o, object);
    while (ret->items && abx_scan_object_next(&o, &key, &value)) {
        ABX_AUTO_BUF text;
        struct abx_str quoted = {key.ptr - 1, key.len + 2};
        abx_buf_init(&text, key.len + 1);
        if (abx_host_text(quoted, &text) < 0)
            return -1;
        struct abx_str name = abx_arena_str(a, text.len ? abx_buf_str(&text) : ABX_STR(""));
        if (name.ptr == NULL)
            return -1;
        ret->items[ret->count++] = (struct member){name, value};
    }
    return ret->items ? 0 : -1;
}

static const struct member *find(const struct members *m, struct abx_str name)
{
    for (size_t i = m->count; i > 0; i--) /* the last one counts */
        if (abx_str_eq(m->items[i - 1].name, name))
            return &m->items[i - 1];
    return NULL;
}

static bool is_declared(const struct abx_args *d, struct abx_str name)
{
    for (size_t i = 0; i < d->count; i++)
        if (abx_str_eq(d->items[i].name, name))
            return true;
    return false;
}

static int compare(const void *x, const void *y)
{
    const struct abx_str *a = x, *b = y;
    int order = memcmp(a->ptr, b->ptr, a->len < b->len ? a->len : b->len);
    return order ? order : (a->len > b->len) - (a->len < b->len);
}

/* ['a', 'b'], sorted, each once, no longer than a message may be. */
static void put_names(struct abx_buf *out, struct abx_str *names, size_t count)
{
    qsort(names, count, sizeof(*names), compare);
    abx_buf_put_byte(out, '[');
    for (size_t i = 0, shown = 0; i < count; i++) {
        if (i > 0 && abx_str_eq(names[i], names[i - 1]))
            continue;
        if (out->len > NAMES_SHOWN) {
            abx_buf_put_c(out, ", ...");
            break;
        }
        abx_buf_putf(out, "%s'%.*s'", shown++ ? ", " : "",
                     (int)(names[i].len < NAME_SHOWN ? names[i].len : NAME_SHOWN), names[i].ptr);
    }
    abx_buf_put_byte(out, ']');
}

static int fault(struct abx_args_fault *f, const char *type, const struct abx_buf *text)
{
    size_t n = text->len < sizeof(f->text) - 1 ? text->len : sizeof(f->text) - 1;
    f->type = abx_buf_failed(text) ? "MemoryError" : type;
    memcpy(f->text, n ? text->ptr : "", n);
    f->text[n] = '\0';
    return -1;
}

static int refuse_unknown(const struct abx_args *d, const struct members *m, struct abx_arena *a,
                          struct abx_args_fault *f)
{
    ABX_AUTO_BUF text;
    size_t n = 0;
    struct abx_str *unknown = abx_arena_array(a, m->count + 1, sizeof(*unknown));
    struct abx_str *names = abx_arena_array(a, d->count + 1, sizeof(*names));
    abx_buf_init(&text, 4096);
    for (size_t i = 0; unknown && i < m->count; i++)
        if (!is_declared(d, m->items[i].name))
            unknown[n++] = m->items[i].name;
    for (size_t i = 0; names && i < d->count; i++)
        names[i] = d->items[i].name;
    if (unknown == NULL || names == NULL)
        text.failed = true;
    else if (n == 0)
        return 0;
    else {
        abx_buf_put_c(&text, "Unexpected argument(s): ");
        put_names(&text, unknown, n);
        abx_buf_put_c(&text, "; declared: ");
        if (d->count)
            put_names(&text, names, d->count);
        else
            abx_buf_put_c(&text, "(none)");
    }
    return fault(f, "ValueError", &text);
}

/* The value of one argument to @w, with its key; nothing when it is left out. */
static int put_argument(const struct abx_arg *d, const struct members *m, struct abx_json_writer *w,
                        struct abx_args_fault *f)
{
    ABX_AUTO_BUF value, text;
    const struct member *given = find(m, d->name);
    int shown = (int)(d->name.len < NAME_SHOWN ? d->name.len : NAME_SHOWN);
    abx_buf_init(&value, ABX_HOST_LINE_MAX);
    abx_buf_init(&text, 4096);
    if (given && !convert(d->type, given->raw, &value)) {
        abx_buf_putf(&text, "Cannot convert argument '%.*s' to %s: %.*s", shown, d->name.ptr,
                     type_names[d->type], (int)(given->raw.len < 100 ? given->raw.len : 100),
                     given->raw.ptr);
        return fault(f, "TypeError", &text);
    }
    if (!given && d->is_required) {
        abx_buf_putf(&text, "Required argument '%.*s' missing", shown, d->name.ptr);
        return fault(f, "ValueError", &text);
    }
    if (!given && !d->has_default)
        return 0;
    if (!given)
        put_default(d, &value);
    abx_json_key(w, d->name);
    abx_json_raw(w, abx_buf_str(&value));
    w->out->failed |= abx_buf_failed(&value);
    return 0;
}

int abx_args_coerce(const struct abx_args *declared, struct abx_str body, struct abx_arena *a,
                    struct abx_buf *out, struct abx_args_fault *f)
{
    struct members m = {0};
    struct abx_json_writer w;
    ABX_AUTO_BUF none;
    abx_buf_init(&none, 1);
    none.failed = true;
    if (read_members(body, a, &m) < 0)
        return fault(f, "MemoryError", &none);
    if (refuse_unknown(declared, &m, a, f) < 0)
        return -1;
    abx_json_writer_init(&w, out);
    abx_json_begin_object(&w);
    for (size_t i = 0; i < declared->count; i++)
        if (put_argument(&declared->items[i], &m, &w, f) < 0)
            return -1;
    abx_json_end_object(&w);
    return abx_buf_failed(out) ? fault(f, "MemoryError", &none) : 0;
}
