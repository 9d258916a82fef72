/* lib/yaml/tree.c: finding nodes of a tree, and writing it as JSON. */
#include "lib/base/assert.h"
#include "lib/base/parse.h"
#include "lib/json/json.h"
#include "lib/yaml/yaml.h"

#include <stdlib.h>

#include "lib/base/banned.h"

const char *abx_yaml_type_name(enum abx_yaml_type type)
{
    static const char *const names[] = {
        [ABX_YAML_NULL] = "nothing",   [ABX_YAML_BOOL] = "a boolean", [ABX_YAML_INT] = "an integer",
        [ABX_YAML_FLOAT] = "a number", [ABX_YAML_STR] = "a string",   [ABX_YAML_LIST] = "a list",
        [ABX_YAML_MAP] = "a mapping"};
    _Static_assert(ABX_COUNTOF(names) == ABX_YAML__COUNT, "one name per type");
    return names[type];
}

const struct abx_yaml *abx_yaml_get(const struct abx_yaml *map, const char *key)
{
    for (size_t i = 0; map->type == ABX_YAML_MAP && i < map->count; i++)
        if (abx_str_is(map->items[i].key, key))
            return &map->items[i];
    return NULL;
}

/* One step of a pointer; "~1" and "~0" stand for '/' and '~'. */
static const struct abx_yaml *step_into(const struct abx_yaml *node, struct abx_str part)
{
    char name[256];
    size_t n = 0;
    for (size_t i = 0; i < part.len && n + 1 < sizeof(name); i++) {
        bool is_escape = part.ptr[i] == '~' && i + 1 < part.len;
        name[n++] = is_escape ? (part.ptr[++i] == '1' ? '/' : '~') : part.ptr[i];
    }
    name[n] = '\0';
    uint32_t index;
    if (node->type == ABX_YAML_LIST && abx_parse_u32(abx_str(name), &index) == 0 &&
        index < node->count)
        return &node->items[index];
    return abx_yaml_get(node, name);
}

const struct abx_yaml *abx_yaml_at(const struct abx_yaml *root, struct abx_str pointer)
{
    struct abx_str part;
    pointer = abx_str_sub(pointer, 1, SIZE_MAX);
    while (abx_str_split(&pointer, '/', &part)) {
        const struct abx_yaml *next = step_into(root, part);
        if (next == NULL)
            break;
        root = next;
    }
    return root;
}

static int by_key(const void *a, const void *b)
{
    const struct abx_yaml *x = *(const struct abx_yaml *const *)a;
    const struct abx_yaml *y = *(const struct abx_yaml *const *)b;
    size_t n = x->key.len < y->key.len ? x->key.len : y->key.len;
    int order = n ? memcmp(x->key.ptr, y->key.ptr, n) : 0;
    if (order == 0)
        order = (x->key.len > y->key.len) - (x->key.len < y->key.len);
    return order ? order : (x > y) - (x < y);
}

const struct abx_yaml **abx_yaml_sorted(const struct abx_yaml *map)
{
    const struct abx_yaml **sorted = calloc(map->count ? map->count : 1, sizeof(*sorted));
    if (sorted == NULL)
        return NULL;
    for (size_t i = 0; i < map->count; i++)
        sorted[i] = &map->items[i];
    qsort(sorted, map->count, sizeof(*sorted), by_key);
    return sorted;
}

static void write_json(const struct abx_yaml *node, struct abx_json_writer *w);

static void write_map(const struct abx_yaml *node, struct abx_json_writer *w)
{
    const struct abx_yaml **sorted = abx_yaml_sorted(node);
    if (sorted == NULL) {
        w->out->failed = true;
        return;
    }
    abx_json_begin_object(w);
    for (size_t i = 0; i < node->count; i++) {
        abx_json_key(w, sorted[i]->key);
        write_json(sorted[i], w);
    }
    abx_json_end_object(w);
    free(sorted);
}

static void write_json(const struct abx_yaml *node, struct abx_json_writer *w)
{
    switch (node->type) {
    case ABX_YAML_NULL:
        abx_json_null(w);
        return;
    case ABX_YAML_BOOL:
    case ABX_YAML_INT:
    case ABX_YAML_FLOAT:
        abx_json_raw(w, node->text); /* spelt as in JSON, or it was refused */
        return;
    case ABX_YAML_STR:
        abx_json_str(w, node->text);
        return;
    case ABX_YAML_LIST:
        abx_json_begin_array(w);
        for (size_t i = 0; i < node->count; i++)
            write_json(&node->items[i], w);
        abx_json_end_array(w);
        return;
    case ABX_YAML_MAP:
        write_map(node, w);
        return;
    case ABX_YAML__COUNT:
        return;
    }
}

void abx_yaml_to_json(const struct abx_yaml *node, struct abx_buf *out)
{
    struct abx_json_writer w;
    abx_json_writer_init(&w, out);
    write_json(node, &w);
}
