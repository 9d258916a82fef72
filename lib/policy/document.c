/* lib/policy/document.c: the top level of a document, in the published order of checks.
 * Spec: policy.md A1, A2. */
#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "lib/policy/policy_priv.h"

#include <stdio.h>

#include "lib/base/banned.h"

static const char *const top_keys[] = {"auth",     "base_dir",    "confine",
                                       "defaults", "description", "endpoints",
                                       "groups",   "preset",      "version"};

static void check_top_keys(struct abx__load *l, const struct abx_json_node *root)
{
    for (const struct abx_json_node *n = root->first; n != NULL; n = n->next) {
        bool known = false;
        for (size_t i = 0; i < ABX_COUNTOF(top_keys) && !known; i++)
            known = abx_str_is(n->key, top_keys[i]);
        if (!known)
            abx__unknown_key(l, n, top_keys, ABX_COUNTOF(top_keys));
    }
}

static void read_version(struct abx__load *l, const struct abx_json_node *n)
{
    if (n->kind != ABX_JSON_INT_NODE || !abx_str_is(n->text, "1"))
        abx__mistake(l, n, "expected the integer 1; this server knows no other version");
}

const char *abx__preset_find(struct abx_str name)
{
    for (size_t i = 0; i < ABX__PRESETS; i++)
        if (abx_str_is(name, abx__preset_names[i]))
            return abx__preset_names[i];
    return NULL;
}

void abx__unknown_preset(struct abx__load *l, const struct abx_json_node *n, struct abx_str name)
{
    const char *meant = abx__nearest(name, abx__preset_names, ABX__PRESETS);
    struct abx__finding f = {.kind = ABX_FINDING_DOCUMENT, .node = n, .place = n ? NULL : ""};
    abx__report_add(l->report, l->facts->text, &f,
                    "unknown preset \"%.*s\"%s%s%s Allowed: default, transfer-only, read-only, "
                    "hardened, locked",
                    (int)(name.len < 80 ? name.len : 80), name.ptr,
                    meant ? "; did you mean \"" : "", meant ? meant : "", meant ? "\"?" : ".");
}

static void read_preset(struct abx__load *l, const struct abx_json_node *n)
{
    const char *found = n->kind == ABX_JSON_STR_NODE ? abx__preset_find(n->text) : NULL;
    if (n->kind != ABX_JSON_STR_NODE)
        abx__mistake(l, n,
                     "expected the name of a preset. Allowed: default, transfer-only, "
                     "read-only, hardened, locked");
    else if (found == NULL)
        abx__unknown_preset(l, n, n->text);
    else
        l->policy->preset = found;
}

static void read_base_dir(struct abx__load *l, const struct abx_json_node *n)
{
    if (n->kind != ABX_JSON_STR_NODE || n->text.len == 0 || n->text.ptr[0] != '/')
        abx__mistake(l, n, "expected an absolute path");
    else if (memchr(n->text.ptr, '\0', n->text.len) != NULL)
        abx__mistake(l, n, "the path holds a NUL");
    else
        l->policy->base_dir = n->text;
}

/* ---- groups ---- */

static void unknown_group(struct abx__load *l, const struct abx_json_node *n, struct abx_str name)
{
    const char *names[ABX_GROUP__COUNT];
    char place[160];
    for (int i = 0; i < ABX_GROUP__COUNT; i++)
        names[i] = abx_group_name((enum abx_group)i);
    const char *meant = abx__nearest(name, names, ABX_GROUP__COUNT);
    ABX_AUTO_BUF allowed;
    abx_buf_init(&allowed, 512);
    abx__put_names(&allowed, names, ABX_GROUP__COUNT);
    snprintf(place, sizeof(place), "policy.groups.%.*s", (int)(name.len < 120 ? name.len : 120),
             name.ptr);
    struct abx__finding f = {
        .kind = ABX_FINDING_DOCUMENT, .node = n, .place = place, .at_key = true};
    abx__report_add(l->report, l->facts->text, &f, "no such group%s%s%s Allowed: %s",
                    meant ? "; did you mean \"" : "", meant ? meant : "", meant ? "\"?" : ".",
                    allowed.failed ? "" : allowed.ptr);
}

static void add_group(struct abx__load *l, const struct abx_json_node *n, struct abx_str name,
                      bool enabled)
{
    int group = abx_group_parse(name);
    if (group < 0)
        return;
    if (group == ABX_GROUP_CORE && !enabled)
        abx__mistake(l, n, "the group core can not be switched off");
    char *origin = abx_arena_printf(l->arena, "policy:groups.%s", abx_group_name(group));
    struct abx__rule_doc *rule =
        abx__layer_group(l, ABX__DOCUMENT, (enum abx_group)group, enabled, origin);
    if (rule != NULL)
        rule->node = n;
}

static void read_groups(struct abx__load *l, const struct abx_json_node *n)
{
    struct abx_str_list names;
    bool enabled = false;
    if (n->kind == ABX_JSON_OBJECT_NODE) {
        for (const struct abx_json_node *c = n->first; c != NULL; c = c->next)
            if (abx_group_parse(c->key) < 0)
                unknown_group(l, c, c->key);
        for (const struct abx_json_node *c = n->first; c != NULL; c = c->next)
            if (abx_group_parse(c->key) >= 0 && abx__read_bool(l, c, &enabled))
                add_group(l, c, c->key, enabled);
        return;
    }
    if (n->kind != ABX_JSON_ARRAY_NODE) {
        abx__mistake(l, n, "expected a list of groups, or an object of group: true or false");
        return;
    }
    if (!abx__read_strings(l, n, &names, "a list of groups"))
        return;
    for (const struct abx_json_node *c = n->first; c != NULL; c = c->next) {
        if (abx_group_parse(c->text) < 0)
            unknown_group(l, c, c->text);
        else
            add_group(l, c, c->text, true);
    }
}

/* ---- rules ---- */

static void read_defaults(struct abx__load *l, const struct abx_json_node *n)
{
    const struct abx__rule_doc *rule = abx__read_rule(l, n);
    struct abx__layer *layer =
        rule != NULL ? abx__layer_add(l, ABX__DOCUMENT, "policy:defaults", rule) : NULL;
    if (layer != NULL)
        layer->kind = ABX__DEFAULTS;
}

static void read_endpoints(struct abx__load *l, const struct abx_json_node *n)
{
    if (n->kind != ABX_JSON_OBJECT_NODE) {
        abx__mistake(l, n, "expected an object of selector: rule");
        return;
    }
    for (const struct abx_json_node *c = n->first; c != NULL; c = c->next) {
        const struct abx__rule_doc *rule = abx__read_rule(l, c);
        if (rule == NULL)
            continue;
        struct abx__layer *layer = abx__layer_select(l, ABX__DOCUMENT, c->key, rule);
        if (layer == NULL)
            return;
        layer->origin = abx_arena_printf(l->arena, "policy:endpoints.%.*s",
                                         (int)(c->key.len < 4096 ? c->key.len : 4096),
                                         c->key.len ? c->key.ptr : "");
        l->no_memory |= layer->origin == NULL;
    }
}

void abx__read_document(struct abx__load *l, const struct abx_json_node *root)
{
    static const struct {
        const char *key;
        void (*read)(struct abx__load *, const struct abx_json_node *);
    } blocks[] = {{"version", read_version},     {"preset", read_preset},
                  {"base_dir", read_base_dir},   {"groups", read_groups},
                  {"defaults", read_defaults},   {"auth", abx__read_auth},
                  {"endpoints", read_endpoints}, {"confine", abx__read_confine}};
    if (root->kind != ABX_JSON_OBJECT_NODE) {
        abx__mistake(l, root, "expected an object");
        return;
    }
    check_top_keys(l, root);
    for (size_t i = 0; i < ABX_COUNTOF(blocks); i++) {
        const struct abx_json_node *n = abx_json_tree_get(root, blocks[i].key);
        if (n != NULL)
            blocks[i].read(l, n);
    }
}
