/* lib/policy/layers.c: where rules come from: built in, code, preset, document, environment; which
 * endpoints each selects. Spec: policy.md A5, A6. */
#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "lib/policy/policy_priv.h"

#include <stdio.h>

#include "lib/base/banned.h"

/* ---- adding ---- */

struct abx__layer *abx__layer_add(struct abx__load *l, enum abx__rank rank, const char *origin,
                                  const struct abx__rule_doc *rule)
{
    struct abx_policy *p = l->policy;
    if (p->layer_count == l->layer_cap) {
        size_t cap = l->layer_cap ? 2 * l->layer_cap : 32;
        struct abx__layer *more = abx_arena_array(l->arena, cap, sizeof(*more));
        if (more == NULL) {
            l->no_memory = true;
            return NULL;
        }
        if (p->layer_count > 0)
            memcpy(more, p->layers, p->layer_count * sizeof(*more));
        p->layers = more;
        l->layer_cap = cap;
    }
    struct abx__layer *layer = &p->layers[p->layer_count];
    *layer = (struct abx__layer){
        .rank = rank, .order = p->layer_count, .origin = origin, .rule = rule, .group = -1};
    p->layer_count++;
    return layer;
}

struct abx__rule_doc *abx__layer_group(struct abx__load *l, enum abx__rank rank,
                                       enum abx_group group, bool enabled, const char *origin)
{
    struct abx__rule_doc *rule = abx__rule_doc_new(l);
    struct abx__layer *layer = rule != NULL ? abx__layer_add(l, rank, origin, rule) : NULL;
    if (layer == NULL || origin == NULL) {
        l->no_memory = true;
        return NULL;
    }
    rule->enabled = enabled;
    layer->kind = ABX__BY_GROUP;
    layer->group = (int)group;
    return rule;
}

static size_t prefix_length(struct abx_str selector)
{
    size_t count = 0;
    for (size_t at = 0; at < selector.len; count++)
        if (abx__next_char(selector, &at) == '*')
            break;
    return count;
}

static bool has_any(struct abx_str s, const char *chars)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] != '\0' && strchr(chars, s.ptr[i]) != NULL)
            return true;
    return false;
}

struct abx__layer *abx__layer_select(struct abx__load *l, enum abx__rank rank,
                                     struct abx_str selector, const struct abx__rule_doc *rule)
{
    struct abx__layer *layer = abx__layer_add(l, rank, NULL, rule);
    if (layer == NULL)
        return NULL;
    layer->selector = selector;
    layer->node = rule->node;
    if (abx_str_is(selector, "@defaults"))
        layer->kind = ABX__DEFAULTS;
    else if (abx_str_starts(selector, "group:")) {
        layer->kind = ABX__BY_GROUP;
        layer->group = abx_group_parse(abx_str_sub(selector, strlen("group:"), selector.len));
    } else if (has_any(selector, "*?[")) {
        layer->kind = ABX__BY_GLOB;
        layer->prefix = prefix_length(selector);
    } else
        layer->kind = ABX__EXACT;
    return layer;
}

bool abx__layer_selects(const struct abx__layer *layer, const struct abx_policy_rule *rule)
{
    switch (layer->kind) {
    case ABX__DEFAULTS:
        return true;
    case ABX__BY_GROUP:
        return layer->group == (int)rule->group;
    case ABX__BY_GLOB:
        return abx_glob_match(layer->selector, rule->id);
    case ABX__EXACT:
        return abx_str_eq(layer->selector, rule->id);
    }
    return false;
}

bool abx__names_extension(const struct abx__layer *layer)
{
    const struct abx_endpoint *e = layer->node != NULL && layer->kind == ABX__EXACT
                                       ? abx_endpoint_find(layer->selector)
                                       : NULL;
    return e != NULL && (e->flags & ABX_EP_EXTENSION);
}

/* ---- presets ---- */

const char *const abx__preset_names[ABX__PRESETS] = {"default", "transfer-only", "read-only",
                                                     "hardened", "locked"};

#define WORD(text)                                                                                 \
    {                                                                                              \
        (text), sizeof(text) - 1                                                                   \
    }
static const struct abx_str hardened_deny[] = {
    WORD("/proc"),     WORD("/sys"),     WORD("/dev"),       WORD("**/.ssh"),       WORD("**/.env"),
    WORD("**/.env.*"), WORD("**/*.pem"), WORD("**/id_rsa*"), WORD("**/id_ed25519*")};

#define UNSET .audit = ABX__ABSENT, .read_only = ABX__ABSENT, .never_links = ABX__ABSENT
static const struct abx__rule_doc off = {.enabled = 0, UNSET}, on = {.enabled = 1, UNSET},
                                  audited = {.enabled = ABX__ABSENT,
                                             .audit = ABX_AUDIT_DENY,
                                             .read_only = ABX__ABSENT,
                                             .never_links = ABX__ABSENT},
                                  guarded = {.enabled = ABX__ABSENT,
                                             .audit = ABX__ABSENT,
                                             .read_only = ABX__ABSENT,
                                             .never_links = 0,
                                             .has_paths = true,
                                             .has_deny = true,
                                             .deny = {hardened_deny, ABX_COUNTOF(hardened_deny)}};

/* Selectors as in a document; "groups." stands for an entry of `groups`. */
static const struct {
    const char *preset, *selector;
    const struct abx__rule_doc *rule;
} preset_rules[] = {
    {"transfer-only", "*", &off},
    {"transfer-only", "files_upload_stream", &on},
    {"transfer-only", "files_download_stream", &on},
    {"read-only", "groups.process", &off},
    {"read-only", "groups.terminal", &off},
    {"read-only", "groups.dev_tools", &off},
    {"read-only", "groups.browser", &off},
    {"read-only", "files_mkdir", &off},
    {"read-only", "files_delete", &off},
    {"read-only", "files_move", &off},
    {"read-only", "files_upload_stream", &off},
    {"read-only", "env_set", &off},
    {"hardened", "@defaults", &audited},
    {"hardened", "groups.process", &off},
    {"hardened", "groups.terminal", &off},
    {"hardened", "groups.dev_tools", &off},
    {"hardened", "groups.browser", &off},
    {"hardened", "env_set", &off},
    {"hardened", "files_*", &guarded},
    {"locked", "*", &off},
    {"locked", "list_commands", &on},
    {"locked", "run_command", &on},
};

void abx__preset_layers(struct abx__load *l, const char *preset)
{
    for (size_t i = 0; i < ABX_COUNTOF(preset_rules); i++) {
        if (strcmp(preset_rules[i].preset, preset) != 0)
            continue;
        struct abx_str selector = abx_str(preset_rules[i].selector);
        bool is_group = abx_str_starts(selector, "groups.");
        char *origin = abx_arena_printf(l->arena, "preset:%s:%s%s", preset,
                                        is_group ? "" : "endpoints.", selector.ptr);
        struct abx_str name = abx_str_sub(selector, strlen("groups."), selector.len);
        if (is_group) {
            abx__layer_group(l, ABX__PRESET, (enum abx_group)abx_group_parse(name), false, origin);
            continue;
        }
        struct abx__layer *layer =
            abx__layer_select(l, ABX__PRESET, selector, preset_rules[i].rule);
        if (layer == NULL || origin == NULL)
            l->no_memory = true;
        else
            layer->origin = origin;
    }
}

/* ---- selectors and applicability, once routes are known ---- */

static const struct abx_policy_rule *find_rule(const struct abx_policy *p, struct abx_str id)
{
    for (size_t i = 0; i < p->rule_count; i++)
        if (abx_str_eq(p->rules[i].id, id))
            return &p->rules[i];
    return NULL;
}

static void configuration_mistake(struct abx__load *l, const struct abx_json_node *node,
                                  const char *text)
{
    struct abx__finding f = {.kind = ABX_FINDING_CONFIGURATION, .node = node, .at_key = true};
    abx__report_add(l->report, l->facts->text, &f, "%s", text);
}

static void unknown_selector(struct abx__load *l, const struct abx__layer *layer)
{
    enum { NAMES = 512 };
    const char *names[NAMES];
    size_t count = 0;
    char text[512];
    const char *meant;
    if (layer->kind == ABX__BY_GROUP) {
        for (int i = 0; i < ABX_GROUP__COUNT; i++)
            names[count++] = abx_group_name((enum abx_group)i);
        struct abx_str name = abx_str_sub(layer->selector, strlen("group:"), layer->selector.len);
        meant = abx__nearest(name, names, count);
        snprintf(
            text, sizeof(text), "no such group%s%s%s%s", meant ? "; did you mean \"group:" : "",
            meant ? meant : "", meant ? "\"?" : "",
            " (core, commands, file_ops, process, terminal, system, dev_tools, browser, agents)");
        configuration_mistake(l, layer->node, text);
        return;
    }
    const struct abx_endpoint *e = abx_endpoints(&count);
    for (size_t i = 0; i < count; i++)
        names[i] = e[i].id;
    meant = abx__nearest(layer->selector, names, count);
    snprintf(text, sizeof(text), "no such endpoint%s%s%s%s", meant ? "; did you mean \"" : "",
             meant ? meant : "", meant ? "\"?" : "",
             has_any(layer->selector, "/ ")
                 ? "; endpoints are selected by ID (\"shell\"), not by method or path"
                 : "");
    configuration_mistake(l, layer->node, text);
}

/* "max_entries, max_depth" of the bits. */
static void put_bits(struct abx_buf *out, uint32_t bits, const char *(*name)(int))
{
    const char *sep = "";
    for (int i = 0; i < 32; i++) {
        if (!(bits >> i & 1))
            continue;
        abx_buf_putf(out, "%s%s", sep, name(i));
        sep = ", ";
    }
    if (bits == 0)
        abx_buf_put_c(out, "none");
}

static const char *limit_name(int i)
{
    return abx_limit_name((enum abx_limit)i);
}

static const char *param_name(int i)
{
    return abx_param_name((enum abx_param)i);
}

static void check_knobs(struct abx__load *l, const struct abx__layer *layer, const char *block,
                        uint32_t has)
{
    bool is_limit = strcmp(block, "limits") == 0;
    const struct abx_json_node *n = abx_json_tree_get(layer->node, block);
    if (n == NULL || n->kind != ABX_JSON_OBJECT_NODE)
        return;
    for (const struct abx_json_node *c = n->first; c != NULL; c = c->next) {
        int which = is_limit ? abx_limit_parse(c->key) : abx_param_parse(c->key);
        if (which < 0 || (has >> which & 1))
            continue;
        ABX_AUTO_BUF text;
        abx_buf_init(&text, 1024);
        abx_buf_putf(&text, "\"%.*s\" has no such %s; it has: ", ABX_STR_FMT(layer->selector),
                     is_limit ? "limit" : "param");
        put_bits(&text, has, is_limit ? limit_name : param_name);
        configuration_mistake(l, c, text.failed ? "not applicable" : text.ptr);
    }
}

static void check_applicable(struct abx__load *l, const struct abx__layer *layer,
                             const struct abx_policy_rule *rule)
{
    const uint32_t common = 1u << ABX_LIMIT_MAX_CONCURRENCY | 1u << ABX_LIMIT_MAX_REQUEST_BYTES |
                            1u << ABX_LIMIT_RATE_PER_MINUTE;
    const struct abx_json_node *paths = abx_json_tree_get(layer->node, "paths");
    if (paths != NULL && !rule->takes_paths)
        configuration_mistake(l, paths,
                              "this endpoint touches no files, so it takes no paths; leave it out");
    check_knobs(l, layer, "limits", rule->endpoint != NULL ? rule->endpoint->limits : common);
    check_knobs(l, layer, "params", rule->endpoint != NULL ? rule->endpoint->params : 0);
}

void abx__check_selectors(struct abx__load *l)
{
    struct abx_policy *p = l->policy;
    for (size_t i = 0; i < p->layer_count; i++) {
        const struct abx__layer *layer = &p->layers[i];
        if (layer->node == NULL)
            continue;
        if ((layer->kind == ABX__BY_GROUP && layer->group < 0) ||
            (layer->kind == ABX__EXACT && !l->facts->routes_unknown &&
             find_rule(p, layer->selector) == NULL))
            unknown_selector(l, layer);
    }
    for (size_t k = 0; k < p->rule_count; k++)
        for (size_t i = 0; i < p->layer_count; i++) {
            const struct abx__layer *layer = &p->layers[i];
            if (layer->node != NULL && layer->kind == ABX__EXACT &&
                abx_str_eq(layer->selector, p->rules[k].id))
                check_applicable(l, layer, &p->rules[k]);
        }
}
