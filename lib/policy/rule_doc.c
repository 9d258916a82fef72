/* lib/policy/rule_doc.c: one rule of a document: enabled, scopes, audit, paths, limits, params.
 *
 * What is wrong is said and left out; reading goes on, so that one run says all. The order of
 * checks is the published one: its first mistake is our first. Spec: policy.md A2. */
#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "lib/policy/policy_priv.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum { SHOWN_BYTES = 200 };

/* ---- values ---- */

static const char *kind_name(const struct abx_json_node *n)
{
    static const char *const names[] = {
        [ABX_JSON_NULL_NODE] = "null",       [ABX_JSON_BOOL_NODE] = "a boolean",
        [ABX_JSON_INT_NODE] = "an integer",  [ABX_JSON_REAL_NODE] = "a number",
        [ABX_JSON_STR_NODE] = "a string",    [ABX_JSON_ARRAY_NODE] = "a list",
        [ABX_JSON_OBJECT_NODE] = "an object"};
    return names[n->kind];
}

static bool is_object(struct abx__load *l, const struct abx_json_node *n)
{
    if (n->kind == ABX_JSON_OBJECT_NODE)
        return true;
    return abx__mistake(l, n, "expected an object, found %s", kind_name(n));
}

bool abx__read_bool(struct abx__load *l, const struct abx_json_node *n, bool *ret)
{
    if (n->kind != ABX_JSON_BOOL_NODE)
        return abx__mistake(l, n, "expected true or false, found %s", kind_name(n));
    *ret = n->truth;
    return true;
}

static void read_bool_int(struct abx__load *l, const struct abx_json_node *n, int *ret)
{
    bool value = false;
    if (n != NULL && abx__read_bool(l, n, &value))
        *ret = value;
}

bool abx__read_strings(struct abx__load *l, const struct abx_json_node *n, struct abx_str_list *ret,
                       const char *wanted)
{
    if (n->kind != ABX_JSON_ARRAY_NODE)
        return abx__mistake(l, n, "expected %s, found %s", wanted, kind_name(n));
    if (n->count > ABX__LIST_MAX)
        return abx__mistake(l, n, "more than %d items", (int)ABX__LIST_MAX);
    struct abx_str *items = abx_arena_array(l->arena, n->count + 1, sizeof(*items));
    size_t count = 0;
    if (items == NULL) {
        l->no_memory = true;
        return false;
    }
    for (const struct abx_json_node *child = n->first; child != NULL; child = child->next) {
        if (child->kind != ABX_JSON_STR_NODE) /* the place is the list's, as published */
            return abx__mistake(l, n, "expected %s; item %zu is %s", wanted, child->index,
                                kind_name(child));
        items[count++] = child->text;
    }
    *ret = (struct abx_str_list){items, count};
    return true;
}

bool abx__read_scopes(struct abx__load *l, const struct abx_json_node *n, struct abx_str_list *ret)
{
    struct abx_str_list list;
    if (!abx__read_strings(l, n, &list, "a list of scopes"))
        return false;
    for (size_t i = 0; i < list.count; i++)
        if (!abx_scope_is_valid(list.items[i]))
            return abx__mistake(l, n,
                                "\"%.*s\" is no scope; write \"*\", \"files:*\", \"files:read\" or "
                                "\"name\", in lower case",
                                (int)(list.items[i].len < 80 ? list.items[i].len : 80),
                                list.items[i].ptr);
    *ret = list;
    return true;
}

/* ---- paths ---- */

static const char *const path_keys[] = {"allow", "deny", "read_only", "symlinks"};

static void check_keys(struct abx__load *l, const struct abx_json_node *n, const char *const *names,
                       size_t count)
{
    for (const struct abx_json_node *child = n->first; child != NULL; child = child->next) {
        bool known = false;
        for (size_t i = 0; i < count && !known; i++)
            known = abx_str_is(child->key, names[i]);
        if (!known)
            abx__unknown_key(l, child, names, count);
    }
}

static bool read_allow(struct abx__load *l, const struct abx_json_node *n, struct abx_str_list *ret)
{
    struct abx_str_list list;
    if (!abx__read_strings(l, n, &list, "a list of folders"))
        return false;
    for (size_t i = 0; i < list.count; i++) {
        struct abx_str s = list.items[i];
        if (s.len == 0 || s.ptr[0] != '/')
            return abx__mistake(l, n, "\"%.*s\" is not absolute; begin it with /",
                                (int)(s.len < SHOWN_BYTES ? s.len : SHOWN_BYTES), s.ptr);
        if (memchr(s.ptr, '\0', s.len) != NULL)
            return abx__mistake(l, n, "item %zu holds a NUL", i);
    }
    *ret = list;
    return true;
}

static bool read_deny(struct abx__load *l, const struct abx_json_node *n, struct abx_str_list *ret)
{
    struct abx_str_list list;
    if (!abx__read_strings(l, n, &list, "a list of patterns"))
        return false;
    for (size_t i = 0; i < list.count; i++) {
        if (list.items[i].len > 0 && memchr(list.items[i].ptr, '\0', list.items[i].len) != NULL)
            return abx__mistake(l, n, "item %zu holds a NUL", i);
        if (list.items[i].len > ABX__GLOB_MAX)
            return abx__mistake(l, n, "item %zu is longer than %d bytes", i, (int)ABX__GLOB_MAX);
    }
    *ret = list;
    return true;
}

static void read_symlinks(struct abx__load *l, const struct abx_json_node *n,
                          struct abx__rule_doc *r)
{
    bool is_text = n->kind == ABX_JSON_STR_NODE;
    if (is_text && abx_str_is(n->text, "within"))
        r->never_links = 0;
    else if (is_text && abx_str_is(n->text, "never"))
        r->never_links = 1;
    else
        abx__mistake(l, n, "expected \"within\" or \"never\"");
}

static void read_paths(struct abx__load *l, const struct abx_json_node *n, struct abx__rule_doc *r)
{
    if (!is_object(l, n))
        return;
    r->has_paths = true;
    check_keys(l, n, path_keys, ABX_COUNTOF(path_keys));
    const struct abx_json_node *allow = abx_json_tree_get(n, "allow"),
                               *deny = abx_json_tree_get(n, "deny"),
                               *symlinks = abx_json_tree_get(n, "symlinks");
    r->has_allow = allow != NULL && read_allow(l, allow, &r->allow);
    r->has_deny = deny != NULL && read_deny(l, deny, &r->deny);
    read_bool_int(l, abx_json_tree_get(n, "read_only"), &r->read_only);
    if (symlinks != NULL)
        read_symlinks(l, symlinks, r);
}

/* ---- limits ---- */

enum limit_type { LIMIT_SIZE, LIMIT_INTEGER, LIMIT_NUMBER };

static const enum limit_type limit_types[] = {
    [ABX_LIMIT_MAX_BYTES] = LIMIT_SIZE,         [ABX_LIMIT_MAX_CONCURRENCY] = LIMIT_INTEGER,
    [ABX_LIMIT_MAX_DEPTH] = LIMIT_INTEGER,      [ABX_LIMIT_MAX_DURATION_SECONDS] = LIMIT_NUMBER,
    [ABX_LIMIT_MAX_ENTRIES] = LIMIT_INTEGER,    [ABX_LIMIT_MAX_FILES] = LIMIT_INTEGER,
    [ABX_LIMIT_MAX_OUTPUT_BYTES] = LIMIT_SIZE,  [ABX_LIMIT_MAX_PROCESSES] = LIMIT_INTEGER,
    [ABX_LIMIT_MAX_REQUEST_BYTES] = LIMIT_SIZE, [ABX_LIMIT_MAX_RESULTS] = LIMIT_INTEGER,
    [ABX_LIMIT_MAX_SESSIONS] = LIMIT_INTEGER,   [ABX_LIMIT_RATE_PER_MINUTE] = LIMIT_INTEGER,
    [ABX_LIMIT_TIMEOUT_SECONDS] = LIMIT_NUMBER,
};
_Static_assert(ABX_COUNTOF(limit_types) == ABX_LIMIT__COUNT, "one type per limit");

static uint64_t cut_to_u64(double v)
{
    return v >= 18446744073709551615.0 ? UINT64_MAX : v >= 1 ? (uint64_t)v : 0;
}

static bool set_limit(struct abx__load *l, struct abx_policy_limit *limit, double v,
                      struct abx_buf *text)
{
    struct abx_policy_limit set = {.is_set = true, .number = v, .integer = cut_to_u64(v)};
    set.text = abx_arena_str(l->arena, abx_buf_str(text));
    set.is_integer = abx_str_chr(set.text, '.') < 0 && abx_str_chr(set.text, 'e') < 0;
    if (text->failed || set.text.ptr == NULL) {
        l->no_memory = true;
        return false;
    }
    char *end;
    if (set.is_integer && set.text.len < 20)
        set.integer = strtoull(set.text.ptr, &end, 10); /* exact, where a double is not */
    *limit = set;
    return true;
}

/* The published server gives no place for sizes; the finding has it as a pointer. */
static bool bad_size(struct abx__load *l, const struct abx_json_node *n)
{
    struct abx__finding f = {.kind = ABX_FINDING_DOCUMENT, .node = n, .place = ""};
    if (n->kind == ABX_JSON_STR_NODE)
        abx__report_add(l->report, l->facts->text, &f,
                        "no size: \"%.*s\"; write an integer of at least 1, or \"5MB\", \"1GiB\"",
                        (int)(n->text.len < 80 ? n->text.len : 80), n->text.ptr);
    else if (n->kind == ABX_JSON_INT_NODE)
        abx__report_add(l->report, l->facts->text, &f, "a size is at least 1, not %.*s",
                        (int)(n->text.len < 80 ? n->text.len : 80), n->text.ptr);
    else
        abx__report_add(l->report, l->facts->text, &f,
                        "no size: %s; write an integer of at least 1, or \"5MB\", \"1GiB\"",
                        kind_name(n));
    return false;
}

static bool read_size(struct abx__load *l, const struct abx_json_node *n,
                      struct abx_policy_limit *limit)
{
    ABX_AUTO_BUF text;
    abx_buf_init(&text, n->text.len + 512);
    double v;
    if (n->kind == ABX_JSON_INT_NODE && n->number >= 1) {
        abx__put_integer(&text, n->text);
        return set_limit(l, limit, n->number, &text);
    }
    if (n->kind != ABX_JSON_STR_NODE || !abx__size_parse(n->text, &v))
        return bad_size(l, n);
    abx_buf_putf(&text, "%.0f", v);
    return set_limit(l, limit, v, &text);
}

static bool read_limit(struct abx__load *l, const struct abx_json_node *n, enum abx_limit which,
                       struct abx_policy_limit *limit)
{
    enum limit_type type = limit_types[which];
    if (type == LIMIT_SIZE)
        return read_size(l, n, limit);
    bool is_number =
        n->kind == ABX_JSON_INT_NODE || (n->kind == ABX_JSON_REAL_NODE && type == LIMIT_NUMBER);
    if (!is_number || !(n->number > 0))
        return abx__mistake(l, n, "expected %s greater than 0",
                            type == LIMIT_INTEGER ? "an integer" : "a number");
    ABX_AUTO_BUF text;
    abx_buf_init(&text, n->text.len + 512);
    if (n->kind == ABX_JSON_INT_NODE)
        abx__put_integer(&text, n->text);
    else
        abx__put_real(&text, n->number);
    return set_limit(l, limit, n->number, &text);
}

static void read_limits(struct abx__load *l, const struct abx_json_node *n, struct abx__rule_doc *r)
{
    const char *names[ABX_LIMIT__COUNT];
    if (!is_object(l, n))
        return;
    for (int i = 0; i < ABX_LIMIT__COUNT; i++)
        names[i] = abx_limit_name((enum abx_limit)i);
    check_keys(l, n, names, ABX_LIMIT__COUNT);
    for (const struct abx_json_node *child = n->first; child != NULL; child = child->next) {
        int which = abx_limit_parse(child->key);
        if (which >= 0)
            read_limit(l, child, (enum abx_limit)which, &r->limits[which]);
    }
}

/* ---- params ---- */

static bool is_flag(enum abx_param which)
{
    return which == ABX_PARAM_OVERWRITE || which == ABX_PARAM_BLOCK_PRIVATE_NETWORKS;
}

static bool read_numbers(struct abx__load *l, const struct abx_json_node *n,
                         struct abx_policy_param *p)
{
    if (n->kind != ABX_JSON_ARRAY_NODE)
        return abx__mistake(l, n, "expected a list of integers, found %s", kind_name(n));
    int64_t *numbers = abx_arena_array(l->arena, n->count + 1, sizeof(*numbers));
    size_t count = 0;
    if (numbers == NULL) {
        l->no_memory = true;
        return false;
    }
    for (const struct abx_json_node *child = n->first; child != NULL; child = child->next) {
        if (child->kind != ABX_JSON_INT_NODE)
            return abx__mistake(l, n, "expected a list of integers; item %zu is %s", child->index,
                                kind_name(child));
        /* What fits in no int64 names no signal either. */
        numbers[count++] = child->number > 9e18    ? INT64_MAX
                           : child->number < -9e18 ? INT64_MIN
                                                   : (int64_t)child->number;
    }
    p->numbers = numbers;
    p->number_count = count;
    return true;
}

static void read_param(struct abx__load *l, const struct abx_json_node *n, enum abx_param which,
                       struct abx_policy_param *p)
{
    p->is_set = is_flag(which) ? abx__read_bool(l, n, &p->flag)
                : which == ABX_PARAM_ALLOWED_SIGNALS
                    ? read_numbers(l, n, p)
                    : abx__read_strings(l, n, &p->words, "a list of strings");
}

static void read_params(struct abx__load *l, const struct abx_json_node *n, struct abx__rule_doc *r)
{
    const char *names[ABX_PARAM__COUNT];
    if (!is_object(l, n))
        return;
    for (int i = 0; i < ABX_PARAM__COUNT; i++)
        names[i] = abx_param_name((enum abx_param)i);
    check_keys(l, n, names, ABX_PARAM__COUNT);
    for (const struct abx_json_node *child = n->first; child != NULL; child = child->next) {
        int which = abx_param_parse(child->key);
        if (which >= 0)
            read_param(l, child, (enum abx_param)which, &r->params[which]);
    }
}

/* ---- the rule ---- */

static void read_audit(struct abx__load *l, const struct abx_json_node *n, struct abx__rule_doc *r)
{
    static const char *const names[] = {"off", "deny", "all"};
    for (int i = 0; i < (int)ABX_COUNTOF(names); i++) {
        if (n->kind != ABX_JSON_STR_NODE || !abx_str_is(n->text, names[i]))
            continue;
        r->audit = i;
        return;
    }
    abx__mistake(l, n, "expected \"off\", \"deny\" or \"all\"");
}

struct abx__rule_doc *abx__rule_doc_new(struct abx__load *l)
{
    struct abx__rule_doc *r = abx_arena_alloc(l->arena, sizeof(*r));
    if (r == NULL) {
        l->no_memory = true;
        return NULL;
    }
    r->enabled = r->audit = r->read_only = r->never_links = ABX__ABSENT;
    return r;
}

const struct abx__rule_doc *abx__read_rule(struct abx__load *l, const struct abx_json_node *n)
{
    static const char *const keys[] = {"audit", "enabled", "limits", "params", "paths", "scopes"};
    if (!is_object(l, n))
        return NULL;
    struct abx__rule_doc *r = abx__rule_doc_new(l);
    if (r == NULL)
        return NULL;
    r->node = n;
    check_keys(l, n, keys, ABX_COUNTOF(keys));
    read_bool_int(l, abx_json_tree_get(n, "enabled"), &r->enabled);
    const struct abx_json_node *scopes = abx_json_tree_get(n, "scopes");
    r->has_scopes = scopes != NULL && abx__read_scopes(l, scopes, &r->scopes);
    static const struct {
        const char *key;
        void (*read)(struct abx__load *, const struct abx_json_node *, struct abx__rule_doc *);
    } blocks[] = {{"audit", read_audit},
                  {"paths", read_paths},
                  {"limits", read_limits},
                  {"params", read_params}};
    for (size_t i = 0; i < ABX_COUNTOF(blocks); i++) {
        const struct abx_json_node *block = abx_json_tree_get(n, blocks[i].key);
        if (block != NULL)
            blocks[i].read(l, block, r);
    }
    return r;
}
