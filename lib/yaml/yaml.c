/* lib/yaml/yaml.c: YAML by libfyaml into our own tree. */
#include "lib/yaml/yaml.h"
#include "lib/base/assert.h"
#include "lib/base/parse.h"
#include "lib/json/json.h"

#include <libfyaml.h>
#include <stdlib.h>

#include "lib/base/banned.h"

static const char no_mapping[] = "the document is no mapping of keys to values";

struct reader {
    struct abx_str source;
    struct abx_arena *a;
    struct abx_yaml_fault *fault;
    unsigned depth;
    size_t nodes;
};

static int fail(struct reader *r, const struct abx_yaml *at, const char *text, const char *advice)
{
    *r->fault = (struct abx_yaml_fault){.line = at->line,
                                        .column = at->column,
                                        .width = at->width,
                                        .text = text,
                                        .advice = advice};
    return -1;
}

const char *abx_yaml_type_name(enum abx_yaml_type type)
{
    static const char *const names[] = {
        [ABX_YAML_NULL] = "nothing",   [ABX_YAML_BOOL] = "a boolean", [ABX_YAML_INT] = "an integer",
        [ABX_YAML_FLOAT] = "a number", [ABX_YAML_STR] = "a string",   [ABX_YAML_LIST] = "a list",
        [ABX_YAML_MAP] = "a mapping"};
    _Static_assert(ABX_COUNTOF(names) == ABX_YAML__COUNT, "one name per type");
    return names[type];
}

/* ---- plain scalars ---- */

static bool is_one_of(struct abx_str s, const char *const *words)
{
    for (; *words; words++)
        if (abx_str_is(s, *words))
            return true;
    return false;
}

static size_t digits(struct abx_str s)
{
    size_t n = 0;
    while (n < s.len && s.ptr[n] >= '0' && s.ptr[n] <= '9')
        n++;
    return n;
}

static bool is_float(struct abx_str s)
{
    size_t whole = digits(s);
    struct abx_str rest = abx_str_sub(s, whole, SIZE_MAX);
    if (whole == 0)
        return false;
    size_t fraction = 0;
    if (abx_str_starts(rest, ".")) {
        fraction = digits(abx_str_sub(rest, 1, SIZE_MAX));
        rest = abx_str_sub(rest, 1 + fraction, SIZE_MAX);
        if (fraction == 0)
            return false;
    }
    if (rest.len == 0)
        return fraction > 0;
    if (rest.ptr[0] != 'e' && rest.ptr[0] != 'E')
        return false;
    rest = abx_str_sub(rest, 1, SIZE_MAX);
    if (abx_str_starts(rest, "+") || abx_str_starts(rest, "-"))
        rest = abx_str_sub(rest, 1, SIZE_MAX);
    return rest.len > 0 && digits(rest) == rest.len;
}

/* 012, 1:30, 2026-01-01: an integer, a number of seconds, a date to some readers of YAML. */
static bool is_doubtful_number(struct abx_str s)
{
    size_t n = digits(s);
    if (n == 0)
        return false;
    if (n == s.len)
        return n > 1 && s.ptr[0] == '0';
    for (size_t i = n; i < s.len; i++)
        if (strchr("0123456789:-_", s.ptr[i]) == NULL || s.ptr[i] == '\0')
            return false;
    return true;
}

static int resolve_plain(struct reader *r, struct abx_yaml *node)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const booleans[] = {"true", "false", NULL};
    static const char *const doubtful[] = {"yes",  "Yes",  "YES",   "no",    "No",  "NO",
                                           "on",   "On",   "ON",    "off",   "Off", "OFF",
                                           "True", "TRUE", "False", "FALSE", NULL};
    struct abx_str s = node->text, number = s;
    if (abx_str_starts(s, "-"))
        number = abx_str_sub(s, 1, SIZE_MAX);
    if (is_one_of(s, nulls))
        node->type = ABX_YAML_NULL;
    else if (is_one_of(s, booleans))
        node->type = ABX_YAML_BOOL;
    else if (is_one_of(s, doubtful))
        return fail(r, node, "a boolean to some readers of YAML, a string to others",
                    "write true or false, or put it in quotes");
    else if (is_doubtful_number(number))
        return fail(r, node, "not the same to all readers of YAML", "put it in quotes");
    else if (number.len > 0 && digits(number) == number.len)
        node->type = ABX_YAML_INT;
    else if (is_float(number))
        node->type = ABX_YAML_FLOAT;
    return 0;
}

/* ---- the tree ---- */

static void set_place(struct reader *r, struct abx_yaml *node, struct fy_token *token)
{
    const struct fy_mark *mark = token ? fy_token_start_mark(token) : NULL;
    const struct fy_mark *end = token ? fy_token_end_mark(token) : NULL;
    if (mark == NULL || mark->input_pos > r->source.len)
        return;
    size_t at = mark->input_pos, start = at;
    while (start > 0 && r->source.ptr[start - 1] != '\n')
        start--;
    node->line = (unsigned)mark->line + 1;
    node->column = (unsigned)(at - start) + 1;
    node->width = 1;
    if (end != NULL && end->line == mark->line && end->input_pos > at)
        node->width = (unsigned)(end->input_pos - at);
    if (at > start && strchr("\"'", r->source.ptr[at - 1]) != NULL) {
        node->column--; /* the mark stands behind the quote */
        node->width++;
    }
}

static int convert(struct reader *r, struct fy_node *from, struct abx_yaml *to);

static int convert_scalar(struct reader *r, struct fy_node *from, struct abx_yaml *to)
{
    size_t len = 0;
    const char *text = fy_node_get_scalar(from, &len);
    set_place(r, to, fy_node_get_scalar_token(from));
    to->text = abx_arena_str(r->a, abx_str_n(text ? text : "", len));
    to->type = ABX_YAML_STR;
    if (to->text.ptr == NULL)
        return fail(r, to, "the document is too large", NULL);
    if (fy_node_get_style(from) == FYNS_ALIAS)
        return fail(r, to, "aliases are not supported", "write the value out");
    if (memchr(to->text.ptr, '\0', len) != NULL || !abx_str_is_utf8(to->text))
        return fail(r, to, "the value is not text", NULL);
    return fy_node_get_style(from) == FYNS_PLAIN ? resolve_plain(r, to) : 0;
}

static int convert_list(struct reader *r, struct fy_node *from, struct abx_yaml *to)
{
    int count = fy_node_sequence_item_count(from);
    to->items = abx_arena_array(r->a, count > 0 ? (size_t)count : 1, sizeof(*to->items));
    if (to->items == NULL)
        return fail(r, to, "the document is too large", NULL);
    to->type = ABX_YAML_LIST;
    for (int i = 0; i < count; i++) {
        struct abx_yaml *item = &to->items[to->count++];
        item->line = to->line;
        item->column = to->column;
        if (convert(r, fy_node_sequence_get_by_index(from, i), item) < 0)
            return -1;
    }
    return 0;
}

static int convert_entry(struct reader *r, struct fy_node_pair *pair, struct abx_yaml *map,
                         struct abx_yaml *to)
{
    struct fy_node *key = fy_node_pair_key(pair);
    struct abx_yaml name = {.line = map->line, .column = map->column};
    if (key == NULL || fy_node_get_type(key) != FYNT_SCALAR)
        return fail(r, &name, "a key is a word", NULL);
    if (convert_scalar(r, key, &name) < 0)
        return -1;
    to->key = name.text;
    to->key_line = to->line = name.line;
    to->key_column = to->column = name.column;
    to->width = name.width;
    if (abx_str_is(name.text, "<<"))
        return fail(r, &name, "merge keys are not supported", "write the entries out");
    if (!map->line) {
        map->line = name.line;
        map->column = name.column;
    }
    for (struct abx_yaml *other = map->items; other < to; other++)
        if (abx_str_eq(other->key, to->key))
            return fail(r, &name, "the key is there twice", NULL);
    return convert(r, fy_node_pair_value(pair), to);
}

static int convert_map(struct reader *r, struct fy_node *from, struct abx_yaml *to)
{
    int count = fy_node_mapping_item_count(from);
    to->items = abx_arena_array(r->a, count > 0 ? (size_t)count : 1, sizeof(*to->items));
    if (to->items == NULL)
        return fail(r, to, "the document is too large", NULL);
    to->type = ABX_YAML_MAP;
    for (int i = 0; i < count; i++)
        if (convert_entry(r, fy_node_mapping_get_by_index(from, i), to, &to->items[to->count++]) <
            0)
            return -1;
    return 0;
}

static int convert(struct reader *r, struct fy_node *from, struct abx_yaml *to)
{
    size_t tag_len = 0;
    if (from == NULL)
        return 0; /* nothing: null */
    if (++r->nodes > ABX_YAML_NODES_MAX || r->depth >= ABX_YAML_DEPTH_MAX)
        return fail(r, to, "the document is nested too deeply or too large", NULL);
    if (fy_node_get_tag(from, &tag_len) != NULL && tag_len > 0)
        return fail(r, to, "tags are not supported", "leave the !tag out");
    r->depth++;
    enum fy_node_type type = fy_node_get_type(from);
    int result = type == FYNT_SCALAR     ? convert_scalar(r, from, to)
                 : type == FYNT_SEQUENCE ? convert_list(r, from, to)
                                         : convert_map(r, from, to);
    r->depth--;
    return result;
}

/* What is collected is reported by us; nothing is printed. */
static void no_output(struct fy_diag *diag, void *user, const char *buf, size_t len)
{
    (void)diag;
    (void)user;
    (void)buf;
    (void)len;
}

/* What libfyaml has against the text: its first error. */
static void report(struct reader *r, struct fy_diag *diag)
{
    void *prev = NULL;
    struct fy_diag_error *e = fy_diag_errors_iterate(diag, &prev);
    struct abx_yaml at = {.line = 1, .column = 1, .width = 1};
    if (e != NULL && e->line > 0) {
        at.line = (unsigned)e->line;
        at.column = e->column > 0 ? (unsigned)e->column : 1;
    }
    const char *words = e && e->msg ? abx_arena_c(r->a, abx_str(e->msg)) : NULL;
    fail(r, &at, words ? words : no_mapping, NULL);
}

/* The one document. NULL: reported. */
static struct fy_document *load_one(struct reader *r, struct fy_parser *parser,
                                    struct fy_diag *diag)
{
    struct abx_yaml at = {.line = 1, .column = 1, .width = 1};
    if (fy_parser_set_string(parser, r->source.ptr, r->source.len) < 0) {
        fail(r, &at, "out of memory", NULL);
        return NULL;
    }
    struct fy_document *doc = fy_parse_load_document(parser);
    struct fy_document *more = doc ? fy_parse_load_document(parser) : NULL;
    if (more == NULL && doc && !fy_diag_got_error(diag))
        return doc;
    if (more)
        fail(r, &at, "more than one document", "leave out what follows the second ---");
    else
        report(r, diag);
    fy_document_destroy(more);
    fy_document_destroy(doc);
    return NULL;
}

static int parse_document(struct reader *r, struct fy_diag *diag, struct abx_yaml *root)
{
    struct fy_parse_cfg cfg = {.flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG, .diag = diag};
    struct fy_parser *parser = fy_parser_create(&cfg);
    struct abx_yaml at = {.line = 1, .column = 1, .width = 1};
    if (parser == NULL)
        return fail(r, &at, "out of memory", NULL);
    struct fy_document *doc = load_one(r, parser, diag);
    int result = doc ? convert(r, fy_document_root(doc), root) : -1;
    fy_document_destroy(doc);
    fy_parser_destroy(parser);
    return result;
}

/* A return that is no part of a line's end would count as one to libfyaml only. */
static bool has_lone_return(struct abx_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] == '\r' && (i + 1 == s.len || s.ptr[i + 1] != '\n'))
            return true;
    return false;
}

int abx_yaml_parse(struct abx_str source, struct abx_arena *a, struct abx_yaml_fault *fault,
                   struct abx_yaml **ret)
{
    struct reader r = {.source = source, .a = a, .fault = fault};
    struct abx_yaml *root = abx_arena_alloc(a, sizeof(*root));
    struct abx_yaml top = {.line = 1, .column = 1, .width = 1};
    if (root == NULL || source.len > ABX_YAML_TEXT_MAX)
        return fail(&r, &top, "over 256 KiB", NULL);
    if (!abx_str_is_utf8(source) || memchr(source.ptr, '\0', source.len))
        return fail(&r, &top, "not UTF-8 text", NULL);
    if (has_lone_return(source))
        return fail(&r, &top, "a carriage return that ends no line", NULL);
    struct fy_diag_cfg diag_cfg;
    fy_diag_cfg_default(&diag_cfg);
    diag_cfg.fp = NULL;
    diag_cfg.output_fn = no_output;
    struct fy_diag *diag = fy_diag_create(&diag_cfg);
    if (diag == NULL)
        return fail(&r, &top, "out of memory", NULL);
    fy_diag_set_collect_errors(diag, true);
    int result = parse_document(&r, diag, root);
    fy_diag_destroy(diag);
    if (result < 0)
        return -1;
    if (root->type != ABX_YAML_MAP)
        return fail(&r, &top, no_mapping, NULL);
    *ret = root;
    return 0;
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
    return order ? order : (x->key.len > y->key.len) - (x->key.len < y->key.len);
}

static void write_json(const struct abx_yaml *node, struct abx_json_writer *w);

static void write_map(const struct abx_yaml *node, struct abx_json_writer *w)
{
    const struct abx_yaml **sorted = calloc(node->count ? node->count : 1, sizeof(*sorted));
    if (sorted == NULL) {
        w->out->failed = true;
        return;
    }
    for (size_t i = 0; i < node->count; i++)
        sorted[i] = &node->items[i];
    qsort(sorted, node->count, sizeof(*sorted), by_key);
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
