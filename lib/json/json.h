/* lib/json/json.h: JSON by tables: decoded into structs, written by a sticky writer.
 *
 * Decoding goes through jansson with size and depth caps; a walker over the accepted bytes maps a
 * JSON pointer to line:column for diagnostics. Unknown fields are ignored; null stands for absent
 * where the field is not required; a wrong type is refused with the field's path. Any thread. */
#pragma once
#include "lib/base/arena.h"
#include "lib/base/buf.h"
#include "lib/base/err.h"

struct json_t; /* jansson's */

enum abx_json_type {
    ABX_JSON_STR,    /* struct abx_str */
    ABX_JSON_BOOL,   /* bool */
    ABX_JSON_U32,    /* uint32_t */
    ABX_JSON_I64,    /* int64_t; a decimal string is accepted too (protobuf's int64) */
    ABX_JSON_F64,    /* double */
    ABX_JSON_OBJECT, /* struct, by `sub` */
    ABX_JSON_ARRAY,  /* struct abx_json_array of `sub` structs, or of `item` scalars */
    ABX_JSON_MAP,    /* struct abx_json_map: string to string */
    ABX_JSON_RAW,    /* struct json_t *, borrowed from the document */
};
enum { ABX_JSON_REQUIRED = 1 };

struct abx_json_field {
    const char *name; /* NULL ends a table */
    enum abx_json_type type;
    size_t offset;
    unsigned flags;
    const struct abx_json_field *sub; /* of an object, or of an array's items */
    size_t sub_size;                  /* sizeof of the item or object struct */
    enum abx_json_type item;          /* of an array without `sub` */
    size_t has_offset;                /* offset of a bool set when present; 0 = none */
};
struct abx_json_array {
    void *items;
    size_t count;
};
struct abx_json_map {
    struct abx_json_pair {
        struct abx_str key, value;
    } * pairs;
    size_t count;
};

struct abx_json_limits {
    size_t max_bytes;   /* default 1 MiB */
    unsigned max_depth; /* default 32 */
    bool allow_nul;     /* "\u0000" in a string; it then holds a NUL */
    bool wide_numbers;  /* numbers beyond 64 bits become the nearest double, at most 1e308 */
};
/** Parses the whole of @text (one value, UTF-8, no trailing bytes). The document is freed with
 *  abx_json_free(). Errors name line and column. */
int abx_json_parse(struct abx_str text, const struct abx_json_limits *limits, struct json_t **ret,
                   struct abx_error *err);
void abx_json_free(struct json_t *doc);
/** Fills @out (zeroed by the caller) from an object by table; strings are copied to the arena. */
int abx_json_decode(struct json_t *doc, const struct abx_json_field *fields, void *out,
                    struct abx_arena *a, struct abx_error *err);
/** parse and decode. Empty text counts as {} when @empty_ok. RAW fields are not allowed here. */
int abx_json_decode_text(struct abx_str text, bool empty_ok, const struct abx_json_field *fields,
                         void *out, struct abx_arena *a, struct abx_error *err);
/** Where the value at @pointer (RFC 6901) stands in accepted @text; 1-based. 0, or -1 if absent. */
int abx_json_locate(struct abx_str text, struct abx_str pointer, unsigned *ret_line,
                    unsigned *ret_column);

/* The writer: commas, quoting and nesting are its business; a failed buffer stays failed. Bytes
 * that are not UTF-8 are written as U+FFFD. */
struct abx_json_writer {
    struct abx_buf *out;
    unsigned depth;
    bool need_comma;
    bool after_key;
};
void abx_json_writer_init(struct abx_json_writer *w, struct abx_buf *out);
void abx_json_begin_object(struct abx_json_writer *w);
void abx_json_end_object(struct abx_json_writer *w);
void abx_json_begin_array(struct abx_json_writer *w);
void abx_json_end_array(struct abx_json_writer *w);
void abx_json_key(struct abx_json_writer *w, struct abx_str key);
void abx_json_str(struct abx_json_writer *w, struct abx_str s);
void abx_json_i64(struct abx_json_writer *w, int64_t v);
void abx_json_u64(struct abx_json_writer *w, uint64_t v);
void abx_json_f64(struct abx_json_writer *w, double v);
void abx_json_bool(struct abx_json_writer *w, bool v);
void abx_json_null(struct abx_json_writer *w);
void abx_json_value(struct abx_json_writer *w, const struct json_t *v);
/** Already encoded JSON, put as it is. */
void abx_json_raw(struct abx_json_writer *w, struct abx_str json);
/* key and value in one */
void abx_json_kv_str(struct abx_json_writer *w, const char *key, struct abx_str s);
void abx_json_kv_c(struct abx_json_writer *w, const char *key, const char *text);
void abx_json_kv_i64(struct abx_json_writer *w, const char *key, int64_t v);
void abx_json_kv_bool(struct abx_json_writer *w, const char *key, bool v);
