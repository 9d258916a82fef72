/* lib/json/json_fields_fuzz.c: field tables over any bytes: what is accepted, written again, must
 * be accepted again and come out the same. */
#include "lib/base/assert.h"
#include "lib/json/json.h"

#include <stdlib.h>

#include "lib/base/banned.h"

struct item {
    struct abx_str name;
    uint32_t count;
};
struct doc {
    struct abx_str text;
    bool flag, has_flag;
    int64_t big;
    double real;
    struct item one;
    struct abx_json_array items, numbers;
    struct abx_json_map map;
};
static const struct abx_json_field item_fields[] = {
    {"name", ABX_JSON_STR, offsetof(struct item, name), ABX_JSON_REQUIRED},
    {"count", ABX_JSON_U32, offsetof(struct item, count)},
    {0}};
static const struct abx_json_field fields[] = {
    {"text", ABX_JSON_STR, offsetof(struct doc, text)},
    {"flag", ABX_JSON_BOOL, offsetof(struct doc, flag),
     .has_offset = offsetof(struct doc, has_flag)},
    {"big", ABX_JSON_I64, offsetof(struct doc, big)},
    {"real", ABX_JSON_F64, offsetof(struct doc, real)},
    {"one", ABX_JSON_OBJECT, offsetof(struct doc, one), .sub = item_fields},
    {"items", ABX_JSON_ARRAY, offsetof(struct doc, items), .sub = item_fields,
     .sub_size = sizeof(struct item)},
    {"numbers", ABX_JSON_ARRAY, offsetof(struct doc, numbers), .item = ABX_JSON_I64},
    {"map", ABX_JSON_MAP, offsetof(struct doc, map)},
    {0}};

static void write_item(struct abx_json_writer *w, const struct item *item)
{
    abx_json_begin_object(w);
    abx_json_kv_str(w, "name", item->name);
    abx_json_kv_i64(w, "count", item->count);
    abx_json_end_object(w);
}

static void write_doc(struct abx_buf *out, const struct doc *d)
{
    struct abx_json_writer w;
    abx_json_writer_init(&w, out);
    abx_json_begin_object(&w);
    abx_json_kv_str(&w, "text", d->text);
    if (d->has_flag)
        abx_json_kv_bool(&w, "flag", d->flag);
    abx_json_kv_i64(&w, "big", d->big);
    abx_json_key(&w, ABX_STR("real"));
    abx_json_f64(&w, d->real);
    abx_json_key(&w, ABX_STR("one"));
    write_item(&w, &d->one);
    abx_json_key(&w, ABX_STR("items"));
    abx_json_begin_array(&w);
    for (size_t i = 0; i < d->items.count; i++)
        write_item(&w, (const struct item *)d->items.items + i);
    abx_json_end_array(&w);
    abx_json_key(&w, ABX_STR("numbers"));
    abx_json_begin_array(&w);
    for (size_t i = 0; i < d->numbers.count; i++)
        abx_json_i64(&w, ((const int64_t *)d->numbers.items)[i]);
    abx_json_end_array(&w);
    abx_json_key(&w, ABX_STR("map"));
    abx_json_begin_object(&w);
    for (size_t i = 0; i < d->map.count; i++) {
        abx_json_key(&w, d->map.pairs[i].key);
        abx_json_str(&w, d->map.pairs[i].value);
    }
    abx_json_end_object(&w);
    abx_json_end_object(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 65536)
        return 0;
    struct abx_arena a;
    abx_arena_init(&a, 8 << 20);
    struct abx_str text = abx_str_n((const char *)data, size);
    struct doc first = {0}, second = {0};
    struct abx_error err = {0};
    unsigned line, column;
    (void)abx_json_locate(text, ABX_STR("/items/1/name"), &line, &column);
    if (abx_json_decode_text(text, true, fields, &first, &a, &err) == 0) {
        ABX_AUTO_BUF one;
        ABX_AUTO_BUF two;
        abx_buf_init(&one, 1 << 20);
        abx_buf_init(&two, 1 << 20);
        write_doc(&one, &first);
        ABX_ASSERT(!one.failed);
        ABX_ASSERT(abx_json_decode_text(abx_buf_str(&one), false, fields, &second, &a, &err) == 0);
        write_doc(&two, &second);
        ABX_ASSERT(abx_str_eq(abx_buf_str(&one), abx_buf_str(&two)));
        ABX_ASSERT(abx_json_locate(abx_buf_str(&one), ABX_STR("/map"), &line, &column) == 0);
    } else
        ABX_ASSERT(err.code != ABX_OK && err.msg[0]);
    abx_arena_done(&a);
    return 0;
}
