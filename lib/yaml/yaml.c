/* lib/yaml/yaml.c: YAML by libyaml into our own tree. */
#include "lib/yaml/yaml.h"

#include <stdlib.h>
#include <yaml.h>

#include "lib/base/banned.h"

static const char no_mapping[] = "the document is no mapping of keys to values";
static const char too_large[] = "the document is too large";

struct reader {
    yaml_parser_t parser;
    struct abx_str source;
    struct abx_arena *a;
    struct abx_yaml_fault *fault;
    size_t index, at; /* a character of the source, and the byte where it begins */
    unsigned depth;
    size_t nodes;
    struct abx_yaml *stack; /* items of what is open */
    size_t waiting, room;
};

static int fail(struct reader *r, const struct abx_yaml *at, const char *text, const char *advice)
{
    *r->fault = (struct abx_yaml_fault){
        .line = at->line, .column = at->column, .width = at->width, .text = text, .advice = advice};
    return -1;
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

/* 012, 01.5, 1:30, 2026-01-01: an integer, a number of seconds, a date to some readers of YAML. */
static bool is_doubtful_number(struct abx_str s)
{
    size_t n = digits(s);
    if (n == 0)
        return false;
    if (n > 1 && s.ptr[0] == '0' && (n == s.len || is_float(s)))
        return true;
    if (n == s.len)
        return false;
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

/* ---- places ---- */

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* Moves the reader's place to the character @index. Marks follow each other closely, so walking
 * from the last one is cheaper than from the start. */
static void move_to(struct reader *r, size_t index)
{
    struct abx_str s = r->source;
    for (; r->index < index && r->at < s.len; r->index++)
        for (r->at++; r->at < s.len && is_continuation(s.ptr[r->at]);)
            r->at++;
    for (; r->index > index && r->at > 0; r->index--)
        for (r->at--; r->at > 0 && is_continuation(s.ptr[r->at]);)
            r->at--;
}

static size_t line_start(struct abx_str s, size_t at)
{
    const char *end = at > 0 ? memrchr(s.ptr, '\n', at) : NULL;
    return end ? (size_t)(end - s.ptr) + 1 : 0;
}

/* Lines and columns of bytes; libyaml's columns are characters. */
static void set_place(struct reader *r, struct abx_yaml *node, yaml_mark_t start, yaml_mark_t end)
{
    move_to(r, start.index);
    size_t first = r->at;
    node->line = (unsigned)start.line + 1;
    node->column = (unsigned)(first - line_start(r->source, first)) + 1;
    node->width = 1;
    if (end.line != start.line || end.index <= start.index)
        return;
    move_to(r, end.index);
    node->width = (unsigned)(r->at - first);
}

/* ---- events ---- */

static const char *advice_at(const struct reader *r)
{
    switch (r->at < r->source.len ? r->source.ptr[r->at] : '\0') {
    case '\t':
        return "indent with spaces";
    case '@':
    case '`':
    case '%':
        return "put it in quotes";
    default:
        return NULL;
    }
}

/* The place of a byte that is no character of YAML; libyaml has no mark for it. */
static void set_place_of_byte(const struct reader *r, struct abx_yaml *node)
{
    size_t byte = r->parser.problem_offset;
    if (byte > r->source.len)
        byte = r->source.len;
    node->line = 1;
    for (size_t i = 0; i < byte; i++)
        node->line += r->source.ptr[i] == '\n';
    node->column = (unsigned)(byte - line_start(r->source, byte)) + 1;
}

/* What libyaml has against the text. */
static int report(struct reader *r)
{
    const yaml_parser_t *p = &r->parser;
    struct abx_yaml at = {.line = 1, .column = 1, .width = 1};
    const char *words = NULL, *advice = NULL;
    if (p->error == YAML_MEMORY_ERROR)
        return fail(r, &at, "out of memory", NULL);
    if (p->error == YAML_READER_ERROR) {
        set_place_of_byte(r, &at);
    } else {
        set_place(r, &at, p->problem_mark, p->problem_mark);
        advice = advice_at(r);
    }
    if (p->problem && p->context && p->context_mark.line < p->problem_mark.line)
        words = abx_arena_printf(r->a, "%s, %s from line %zu", p->problem, p->context,
                                 p->context_mark.line + 1);
    else if (p->problem)
        words = abx_arena_c(r->a, abx_str(p->problem));
    return fail(r, &at, words ? words : "out of memory", advice);
}

/* The caller frees the event. */
static int next_event(struct reader *r, yaml_event_t *ret)
{
    return yaml_parser_parse(&r->parser, ret) ? 0 : report(r);
}

static const yaml_char_t *tag_of(const yaml_event_t *e)
{
    return e->type == YAML_SCALAR_EVENT           ? e->data.scalar.tag
           : e->type == YAML_SEQUENCE_START_EVENT ? e->data.sequence_start.tag
           : e->type == YAML_MAPPING_START_EVENT  ? e->data.mapping_start.tag
                                                  : NULL;
}

static int check_event(struct reader *r, const yaml_event_t *e)
{
    struct abx_yaml at = {0};
    bool is_alias = e->type == YAML_ALIAS_EVENT;
    if (!is_alias && tag_of(e) == NULL)
        return 0;
    set_place(r, &at, e->start_mark, e->end_mark);
    return is_alias ? fail(r, &at, "aliases are not supported", "write the value out")
                    : fail(r, &at, "tags are not supported", "leave the !tag out");
}

/* ---- the tree ---- */

static int read_scalar(struct reader *r, const yaml_event_t *e, struct abx_yaml *to)
{
    size_t len = e->data.scalar.length;
    bool is_plain = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (!is_plain || len > 0) /* else it stands nowhere */
        set_place(r, to, e->start_mark, e->end_mark);
    to->text = abx_arena_str(r->a, abx_str_n((const char *)e->data.scalar.value, len));
    to->type = ABX_YAML_STR;
    if (to->text.ptr == NULL)
        return fail(r, to, too_large, NULL);
    if (memchr(to->text.ptr, '\0', len) != NULL || !abx_str_is_utf8(to->text))
        return fail(r, to, "the value is not text", NULL);
    return is_plain ? resolve_plain(r, to) : 0;
}

/* Items wait on the reader's stack until their list or map ends. */
static int push(struct reader *r, const struct abx_yaml *item)
{
    if (r->waiting == r->room) {
        size_t room = r->room ? r->room * 2 : 64;
        struct abx_yaml *stack = reallocarray(r->stack, room, sizeof(*stack));
        if (stack == NULL)
            return fail(r, item, "out of memory", NULL);
        r->stack = stack;
        r->room = room;
    }
    r->stack[r->waiting++] = *item;
    return 0;
}

static int take_items(struct reader *r, size_t from, struct abx_yaml *to)
{
    to->count = r->waiting - from;
    to->items = abx_arena_array(r->a, to->count > 0 ? to->count : 1, sizeof(*to->items));
    if (to->items == NULL)
        return fail(r, to, too_large, NULL);
    if (to->count > 0)
        memcpy(to->items, r->stack + from, to->count * sizeof(*to->items));
    r->waiting = from;
    return 0;
}

static int read_node(struct reader *r, const yaml_event_t *e, struct abx_yaml *to);

static int read_list(struct reader *r, struct abx_yaml *to)
{
    size_t from = r->waiting;
    to->type = ABX_YAML_LIST;
    for (;;) {
        struct abx_yaml item = {.line = to->line, .column = to->column};
        yaml_event_t e;
        if (next_event(r, &e) < 0)
            return -1;
        bool is_end = e.type == YAML_SEQUENCE_END_EVENT;
        int result = is_end ? 0 : read_node(r, &e, &item);
        yaml_event_delete(&e);
        if (is_end)
            return take_items(r, from, to);
        if (result < 0 || push(r, &item) < 0)
            return -1;
    }
}

static int read_key(struct reader *r, const yaml_event_t *e, struct abx_yaml *map,
                    struct abx_yaml *to)
{
    struct abx_yaml name = {.line = map->line, .column = map->column};
    if (check_event(r, e) < 0)
        return -1;
    if (e->type != YAML_SCALAR_EVENT) {
        set_place(r, &name, e->start_mark, e->end_mark);
        return fail(r, &name, "a key is a word", NULL);
    }
    if (read_scalar(r, e, &name) < 0)
        return -1;
    if (abx_str_is(name.text, "<<"))
        return fail(r, &name, "merge keys are not supported", "write the entries out");
    *to = (struct abx_yaml){.key = name.text,
                            .line = name.line,
                            .column = name.column,
                            .width = name.width,
                            .key_line = name.line,
                            .key_column = name.column};
    if (!map->line) {
        map->line = name.line;
        map->column = name.column;
    }
    return 0;
}

/* The first entry whose key an entry before it has. */
static int check_keys(struct reader *r, const struct abx_yaml *map)
{
    const struct abx_yaml **sorted = abx_yaml_sorted(map), *twin = NULL;
    if (sorted == NULL)
        return fail(r, map, "out of memory", NULL);
    for (size_t i = 1; i < map->count; i++)
        if (abx_str_eq(sorted[i - 1]->key, sorted[i]->key) && (!twin || sorted[i] < twin))
            twin = sorted[i];
    free(sorted);
    if (twin == NULL)
        return 0;
    struct abx_yaml at = {
        .line = twin->key_line, .column = twin->key_column, .width = (unsigned)twin->key.len};
    return fail(r, &at, "duplicate key", NULL);
}

static int read_map(struct reader *r, struct abx_yaml *to)
{
    size_t from = r->waiting;
    to->type = ABX_YAML_MAP;
    for (;;) {
        struct abx_yaml entry;
        yaml_event_t e;
        if (next_event(r, &e) < 0)
            return -1;
        bool is_end = e.type == YAML_MAPPING_END_EVENT;
        int result = is_end ? 0 : read_key(r, &e, to, &entry);
        yaml_event_delete(&e);
        if (is_end)
            return take_items(r, from, to) < 0 ? -1 : check_keys(r, to);
        if (result < 0 || next_event(r, &e) < 0)
            return -1;
        result = read_node(r, &e, &entry);
        yaml_event_delete(&e);
        if (result < 0 || push(r, &entry) < 0)
            return -1;
    }
}

/* What @e begins. */
static int read_node(struct reader *r, const yaml_event_t *e, struct abx_yaml *to)
{
    if (++r->nodes > ABX_YAML_NODES_MAX || r->depth >= ABX_YAML_DEPTH_MAX)
        return fail(r, to, "the document is nested too deeply or too large", NULL);
    if (check_event(r, e) < 0)
        return -1;
    r->depth++;
    int result = e->type == YAML_SCALAR_EVENT           ? read_scalar(r, e, to)
                 : e->type == YAML_SEQUENCE_START_EVENT ? read_list(r, to)
                                                        : read_map(r, to);
    r->depth--;
    return result;
}

/* One event of the frame around the document. */
static int read_frame(struct reader *r, yaml_event_type_t *ret)
{
    yaml_event_t e;
    if (next_event(r, &e) < 0)
        return -1;
    *ret = e.type;
    yaml_event_delete(&e);
    return 0;
}

static int read_document(struct reader *r, struct abx_yaml *root)
{
    struct abx_yaml top = {.line = 1, .column = 1, .width = 1};
    yaml_event_type_t type;
    yaml_event_t e;
    if (read_frame(r, &type) < 0 || read_frame(r, &type) < 0) /* of the stream, of the document */
        return -1;
    if (type != YAML_DOCUMENT_START_EVENT)
        return fail(r, &top, no_mapping, NULL);
    if (next_event(r, &e) < 0)
        return -1;
    int result = read_node(r, &e, root);
    yaml_event_delete(&e);
    if (result < 0 || read_frame(r, &type) < 0 || read_frame(r, &type) < 0)
        return -1;
    if (type != YAML_STREAM_END_EVENT)
        return fail(r, &top, "more than one document", "leave out what follows the second ---");
    return root->type == ABX_YAML_MAP ? 0 : fail(r, &top, no_mapping, NULL);
}

/* ---- the text ---- */

/* What ends a line to YAML 1.1 only, or to libyaml only. */
static bool is_doubtful_break(struct abx_str rest)
{
    return abx_str_starts(rest, "\xc2\x85") || abx_str_starts(rest, "\xe2\x80\xa8") ||
           abx_str_starts(rest, "\xe2\x80\xa9");
}

static int check_breaks(struct reader *r)
{
    struct abx_yaml at = {.line = 1, .column = 1, .width = 1};
    size_t start = 0;
    for (size_t i = 0; i < r->source.len; i++) {
        struct abx_str rest = abx_str_sub(r->source, i, SIZE_MAX);
        at.column = (unsigned)(i - start) + 1;
        if (rest.ptr[0] == '\r' && !abx_str_starts(rest, "\r\n"))
            return fail(r, &at, "a carriage return that ends no line", NULL);
        if (is_doubtful_break(rest))
            return fail(r, &at,
                        "a line's end to some readers of YAML only (U+0085, U+2028, U+2029)",
                        "write it as \\N, \\L or \\P in double quotes");
        if (rest.ptr[0] == '\n') {
            at.line++;
            start = i + 1;
        }
    }
    return 0;
}

static int check_text(struct reader *r)
{
    struct abx_yaml top = {.line = 1, .column = 1, .width = 1};
    if (r->source.len > ABX_YAML_TEXT_MAX)
        return fail(r, &top, "over 256 KiB", NULL);
    if (!abx_str_is_utf8(r->source) ||
        (r->source.len && memchr(r->source.ptr, '\0', r->source.len)))
        return fail(r, &top, "not UTF-8 text", NULL);
    return check_breaks(r);
}

int abx_yaml_parse(struct abx_str source, struct abx_arena *a, struct abx_yaml_fault *fault,
                   struct abx_yaml **ret)
{
    struct reader r = {.source = source, .a = a, .fault = fault};
    struct abx_yaml *root = abx_arena_alloc(a, sizeof(*root));
    struct abx_yaml top = {.line = 1, .column = 1, .width = 1};
    if (root == NULL)
        return fail(&r, &top, too_large, NULL);
    if (check_text(&r) < 0)
        return -1;
    if (abx_str_starts(source, "\xef\xbb\xbf")) /* a byte order mark is in no column */
        r.source = abx_str_sub(source, 3, SIZE_MAX);
    if (!yaml_parser_initialize(&r.parser))
        return fail(&r, &top, "out of memory", NULL);
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING); /* not to be guessed */
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)r.source.ptr, r.source.len);
    int result = read_document(&r, root);
    yaml_parser_delete(&r.parser);
    free(r.stack);
    if (result == 0)
        *ret = root;
    return result;
}
