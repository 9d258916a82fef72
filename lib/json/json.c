/* lib/json/json.c: parsing through jansson under caps, and decoding by field tables. Any thread.
 *
 * jansson builds its tree before anyone can look at it, so a scan over the raw bytes comes first:
 * it bounds nesting and the number of values, hence the memory that a small text can ask for. */
#include "lib/json/json_priv.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum {
    DEFAULT_BYTES = 1 << 20,
    DEFAULT_DEPTH = 32,
    MAX_VALUES = 200000, /* about 130 bytes each in jansson's tree at worst */
    PATH_BYTES = 128,
};

struct decoder {
    struct abx_arena *arena;
    struct abx_error *err;
    char path[PATH_BYTES]; /* of the value at hand, for messages */
    size_t path_len;
};

static int decode_object(struct decoder *d, json_t *doc, const struct abx_json_field *fields,
                         void *out);

/* ---- parse ---- */

static size_t skip_string(struct abx_str text, size_t i)
{
    for (i++; i < text.len && text.ptr[i] != '"'; i++)
        if (text.ptr[i] == '\\')
            i++;
    return i;
}

/* Brackets and separators outside strings bound what the tree can hold, also for broken text. */
static int check_shape(struct abx_str text, unsigned max_depth, struct abx_error *err)
{
    unsigned depth = 0, values = 1;
    for (size_t i = 0; i < text.len; i++) {
        switch (text.ptr[i]) {
        case '"':
            i = skip_string(text, i);
            break;
        case '{':
        case '[':
            values++;
            if (++depth > max_depth)
                return abx_err_set(err, ABX_INVALID_ARGUMENT, "JSON nested deeper than %u levels",
                                   max_depth);
            break;
        case '}':
        case ']':
            depth -= depth > 0;
            break;
        case ',':
        case ':':
            values++;
            break;
        default: /* scalars and blanks */
            break;
        }
    }
    if (values > MAX_VALUES)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "JSON with more than %d values",
                           (int)MAX_VALUES);
    return 0;
}

static json_t *load_narrowed(struct abx_str text, size_t flags, json_error_t *at)
{
    ABX_AUTO_FREE char *copy = malloc(text.len + 1);
    if (copy == NULL)
        return NULL;
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    abx__json_narrow(copy, text.len);
    return json_loadb(copy, text.len, flags, at);
}

int abx_json_parse(struct abx_str text, const struct abx_json_limits *limits, json_t **ret,
                   struct abx_error *err)
{
    size_t max_bytes = limits && limits->max_bytes ? limits->max_bytes : (size_t)DEFAULT_BYTES;
    unsigned max_depth = limits && limits->max_depth ? limits->max_depth : (unsigned)DEFAULT_DEPTH;
    if (text.len > max_bytes)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "JSON of %zu bytes, at most %zu are taken",
                           text.len, max_bytes);
    if (check_shape(text, max_depth, err) < 0)
        return -1;
    json_error_t at;
    size_t flags = JSON_DECODE_ANY | (limits && limits->allow_nul ? JSON_ALLOW_NUL : 0);
    json_t *doc = json_loadb(text.ptr ? text.ptr : "", text.len, flags, &at);
    if (doc == NULL && limits && limits->wide_numbers &&
        json_error_code(&at) == json_error_numeric_overflow)
        doc = load_narrowed(text, flags, &at);
    if (doc == NULL) {
        if (json_error_code(&at) == json_error_out_of_memory)
            return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "line %d, column %d: %s", at.line, at.column,
                           at.text);
    }
    *ret = doc;
    return 0;
}

void abx_json_free(json_t *doc)
{
    json_decref(doc);
}

/* ---- decode ---- */

static const char *type_of(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "a number";
    case JSON_REAL:
        return "a fractional number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    case JSON_NULL:
        return "null";
    }
    return "something unknown";
}

static size_t path_push(struct decoder *d, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Appends to the path, cut when it is full; the result restores it. */
static size_t path_push(struct decoder *d, const char *fmt, ...)
{
    size_t before = d->path_len;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(d->path + before, sizeof(d->path) - before, fmt, ap);
    va_end(ap);
    size_t len = before + (n > 0 ? (size_t)n : 0);
    d->path_len = len < sizeof(d->path) ? len : sizeof(d->path) - 1;
    return before;
}

static void path_pop(struct decoder *d, size_t before)
{
    d->path_len = before;
    d->path[before] = '\0';
}

static int refuse(struct decoder *d, const char *wanted, const json_t *got)
{
    return abx_err_set(d->err, ABX_INVALID_ARGUMENT, "%s: expected %s, got %s",
                       d->path_len ? d->path : "value", wanted, type_of(got));
}

static int no_memory(struct decoder *d)
{
    return abx_err_set(d->err, ABX_RESOURCE_EXHAUSTED, "%s: too large",
                       d->path_len ? d->path : "value");
}

static int copy_str(struct decoder *d, struct abx_str s, struct abx_str *out)
{
    *out = abx_arena_str(d->arena, s);
    return out->ptr ? 0 : no_memory(d);
}

static struct abx_str json_text(const json_t *v)
{
    return abx_str_n(json_string_value(v), json_string_length(v));
}

static int decode_str(struct decoder *d, json_t *v, const struct abx_json_field *f, void *out)
{
    (void)f;
    if (!json_is_string(v))
        return refuse(d, "a string", v);
    return copy_str(d, json_text(v), out);
}

static int decode_bool(struct decoder *d, json_t *v, const struct abx_json_field *f, void *out)
{
    (void)f;
    if (!json_is_boolean(v))
        return refuse(d, "a boolean", v);
    *(bool *)out = json_is_true(v);
    return 0;
}

static int decode_u32(struct decoder *d, json_t *v, const struct abx_json_field *f, void *out)
{
    (void)f;
    if (!json_is_integer(v))
        return refuse(d, "a number", v);
    json_int_t n = json_integer_value(v);
    if (n < 0 || n > UINT32_MAX)
        return abx_err_set(d->err, ABX_INVALID_ARGUMENT, "%s: %lld is not in 0..4294967295",
                           d->path, n);
    *(uint32_t *)out = (uint32_t)n;
    return 0;
}

static int decode_i64(struct decoder *d, json_t *v, const struct abx_json_field *f, void *out)
{
    (void)f;
    if (json_is_string(v) && abx_parse_i64(json_text(v), out) == 0)
        return 0;
    if (!json_is_integer(v))
        return refuse(d, "a whole number", v);
    *(int64_t *)out = json_integer_value(v);
    return 0;
}

static int decode_f64(struct decoder *d, json_t *v, const struct abx_json_field *f, void *out)
{
    (void)f;
    if (!json_is_number(v))
        return refuse(d, "a number", v);
    *(double *)out = json_number_value(v);
    return 0;
}

static int decode_sub(struct decoder *d, json_t *v, const struct abx_json_field *f, void *out)
{
    return decode_object(d, v, f->sub, out);
}

static int decode_raw(struct decoder *d, json_t *v, const struct abx_json_field *f, void *out)
{
    (void)d;
    (void)f;
    *(json_t **)out = v;
    return 0;
}

static int decode_array(struct decoder *d, json_t *v, const struct abx_json_field *f, void *out);
static int decode_map(struct decoder *d, json_t *v, const struct abx_json_field *f, void *out);

static const struct {
    int (*decode)(struct decoder *d, json_t *v, const struct abx_json_field *f, void *out);
    size_t size; /* of a scalar as an array item */
} types[] = {
    [ABX_JSON_STR] = {decode_str, sizeof(struct abx_str)},
    [ABX_JSON_BOOL] = {decode_bool, sizeof(bool)},
    [ABX_JSON_U32] = {decode_u32, sizeof(uint32_t)},
    [ABX_JSON_I64] = {decode_i64, sizeof(int64_t)},
    [ABX_JSON_F64] = {decode_f64, sizeof(double)},
    [ABX_JSON_OBJECT] = {decode_sub, 0},
    [ABX_JSON_ARRAY] = {decode_array, 0},
    [ABX_JSON_MAP] = {decode_map, sizeof(struct abx_json_map)},
    [ABX_JSON_RAW] = {decode_raw, sizeof(json_t *)},
};
_Static_assert(ABX_COUNTOF(types) == ABX_JSON_RAW + 1, "one row per type");

static int decode_array(struct decoder *d, json_t *v, const struct abx_json_field *f, void *out)
{
    if (!json_is_array(v))
        return refuse(d, "an array", v);
    size_t count = json_array_size(v);
    size_t size = f->sub ? f->sub_size : types[f->item].size;
    ABX_ASSERT(size > 0);
    struct abx_json_array got = {NULL, count};
    got.items = abx_arena_array(d->arena, count ? count : 1, size);
    if (got.items == NULL)
        return no_memory(d);
    for (size_t i = 0; i < count; i++) {
        void *item = (char *)got.items + i * size;
        json_t *from = json_array_get(v, i);
        size_t before = path_push(d, "[%zu]", i);
        int rc =
            f->sub ? decode_object(d, from, f->sub, item) : types[f->item].decode(d, from, f, item);
        if (rc < 0)
            return -1;
        path_pop(d, before);
    }
    *(struct abx_json_array *)out = got;
    return 0;
}

static int decode_map(struct decoder *d, json_t *v, const struct abx_json_field *f, void *out)
{
    (void)f;
    if (!json_is_object(v))
        return refuse(d, "an object", v);
    size_t count = json_object_size(v), i = 0;
    struct abx_json_map got = {abx_arena_array(d->arena, count ? count : 1, sizeof(*got.pairs)),
                               count};
    if (got.pairs == NULL)
        return no_memory(d);
    const char *key;
    json_t *value;
    json_object_foreach(v, key, value)
    {
        size_t before = path_push(d, "[\"%s\"]", key);
        if (copy_str(d, abx_str(key), &got.pairs[i].key) < 0 ||
            decode_str(d, value, NULL, &got.pairs[i].value) < 0)
            return -1;
        path_pop(d, before);
        i++;
    }
    *(struct abx_json_map *)out = got;
    return 0;
}

static int decode_field(struct decoder *d, json_t *doc, const struct abx_json_field *f, void *out)
{
    json_t *v = json_object_get(doc, f->name);
    size_t before = path_push(d, d->path_len ? ".%s" : "%s", f->name);
    if (v == NULL && (f->flags & ABX_JSON_REQUIRED))
        return abx_err_set(d->err, ABX_INVALID_ARGUMENT, "%s: missing", d->path);
    bool present = v != NULL && (!json_is_null(v) || (f->flags & ABX_JSON_REQUIRED));
    if (present && types[f->type].decode(d, v, f, (char *)out + f->offset) < 0)
        return -1;
    if (present && f->has_offset)
        *(bool *)((char *)out + f->has_offset) = true;
    path_pop(d, before);
    return 0;
}

static int decode_object(struct decoder *d, json_t *doc, const struct abx_json_field *fields,
                         void *out)
{
    if (!json_is_object(doc))
        return refuse(d, "an object", doc);
    for (const struct abx_json_field *f = fields; f->name; f++)
        if (decode_field(d, doc, f, out) < 0)
            return -1;
    return 0;
}

int abx_json_decode(json_t *doc, const struct abx_json_field *fields, void *out,
                    struct abx_arena *a, struct abx_error *err)
{
    struct decoder d = {.arena = a, .err = err};
    return decode_object(&d, doc, fields, out);
}

static void assert_no_raw(const struct abx_json_field *fields)
{
    for (const struct abx_json_field *f = fields; f->name; f++) {
        ABX_ASSERT(f->type != ABX_JSON_RAW);
        ABX_ASSERT(f->type != ABX_JSON_ARRAY || f->sub || f->item != ABX_JSON_RAW);
        if (f->sub)
            assert_no_raw(f->sub);
    }
}

int abx_json_decode_text(struct abx_str text, bool empty_ok, const struct abx_json_field *fields,
                         void *out, struct abx_arena *a, struct abx_error *err)
{
    assert_no_raw(fields);
    json_t *doc = NULL;
    if (text.len == 0 && empty_ok)
        text = ABX_STR("{}");
    if (abx_json_parse(text, NULL, &doc, err) < 0)
        return -1;
    int rc = abx_json_decode(doc, fields, out, a, err);
    abx_json_free(doc);
    return rc;
}
