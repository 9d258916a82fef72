/* lib/policy/policy.c: loading, and what can be asked of a loaded policy. Spec: policy.md A1, A6.
 */
#include "lib/policy/policy.h"

#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "lib/policy/policy_priv.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum { DOCUMENT_BYTES = 1 << 20, ARENA_BYTES = 64 << 20 };

/* ---- the tree, and what flags and variables put into it ---- */

static bool parse_text(struct abx__load *l, struct abx_str text, struct abx_json_node **ret)
{
    struct abx_json_fault fault;
    struct abx__finding f = {.kind = ABX_FINDING_DOCUMENT, .place = ""};
    if (text.len > DOCUMENT_BYTES) {
        abx__report_add(l->report, text, &f, "the policy is longer than %d bytes",
                        (int)DOCUMENT_BYTES);
        return false;
    }
    if (abx_json_tree_parse(text, l->arena, ret, &fault) == 0)
        return true;
    abx__report_add(l->report, text, &f, "the policy is not valid JSON: %s", fault.text);
    if (l->report->count > 0) {
        struct abx_finding *last = &l->report->items[l->report->count - 1];
        abx_json_position(text, fault.at, &last->line, &last->column);
    }
    return false;
}

static struct abx_json_node *new_node(struct abx__load *l, enum abx_json_kind kind,
                                      struct abx_str text)
{
    struct abx_json_node *n = abx_arena_alloc(l->arena, sizeof(*n));
    if (n == NULL) {
        l->no_memory = true;
        return NULL;
    }
    n->kind = kind;
    n->text = text;
    return n;
}

static void set_member(struct abx__load *l, const char *key, struct abx_json_node *value)
{
    if (value != NULL)
        abx_json_tree_set(l->policy->root, key, value);
}

/* --preset replaces the key alone. */
static void apply_preset(struct abx__load *l)
{
    struct abx_str name = l->facts->preset;
    if (name.ptr == NULL)
        return;
    const char *found = abx__preset_find(name);
    if (found == NULL) {
        abx__unknown_preset(l, NULL, name);
        return;
    }
    l->policy->preset = found;
    set_member(l, "preset", new_node(l, ABX_JSON_STR_NODE, abx_str(found)));
}

/* The identity that ABX_SERVER_TOKEN makes is part of the document's meaning. */
static void show_legacy_token(struct abx__load *l)
{
    static const char tokens[] =
        "[{\"id\":\"server\",\"scopes\":[\"*\"],\"token_env\":\"ABX_SERVER_TOKEN\"}]";
    struct abx_json_node *list, *auth = l->policy->root->first;
    while (auth != NULL && !abx_str_is(auth->key, "auth"))
        auth = auth->next;
    if (auth == NULL) {
        auth = new_node(l, ABX_JSON_OBJECT_NODE, (struct abx_str){0});
        set_member(l, "auth", auth);
    }
    if (auth != NULL && auth->kind == ABX_JSON_OBJECT_NODE && parse_text(l, ABX_STR(tokens), &list))
        abx_json_tree_set(auth, "tokens", list);
}

/* From a file of its own or a flag: no part of the document, nor of its revision. */
static bool read_confine_text(struct abx__load *l)
{
    struct abx_json_node *n;
    struct abx_json_fault fault;
    struct abx_str text = l->facts->confine_text;
    struct abx__finding f = {.kind = ABX_FINDING_DOCUMENT, .place = "confine"};
    if (text.ptr == NULL)
        return true;
    if (text.len > DOCUMENT_BYTES || abx_json_tree_parse(text, l->arena, &n, &fault) < 0) {
        abx__report_add(l->report, text, &f, "is not valid JSON, or longer than %d bytes",
                        (int)DOCUMENT_BYTES);
        return true;
    }
    struct abx_policy_facts facts = *l->facts;
    size_t errors = l->report->errors;
    facts.text = text; /* where places are looked for */
    const struct abx_policy_facts *old = l->facts;
    l->facts = &facts;
    abx__read_confine(l, n);
    l->facts = old;
    if (l->report->errors > errors)
        abx__report_add(l->report, text, &f, "the confinement given beside the document is wrong");
    return true;
}

static bool begin_tree(struct abx__load *l)
{
    const struct abx_policy_facts *facts = l->facts;
    struct abx_policy *p = l->policy;
    struct abx_str text = facts->has_text ? facts->text : ABX_STR("{}");
    p->text = abx_arena_str(l->arena, text);
    if (!parse_text(l, text, &p->root))
        return false;
    abx__read_document(l, p->root);
    if (p->root->kind != ABX_JSON_OBJECT_NODE)
        return false;
    apply_preset(l);
    return read_confine_text(l);
}

/* ---- rules ---- */

static void add_endpoint(struct abx_policy *p, const struct abx_endpoint *e)
{
    struct abx_policy_rule *r = &p->rules[p->rule_count];
    *r = (struct abx_policy_rule){.id = abx_str(e->id),
                                  .endpoint = e,
                                  .group = e->group,
                                  .is_open = e->flags & ABX_EP_OPEN,
                                  .takes_paths = e->flags & ABX_EP_PATHS,
                                  .audit = ABX_AUDIT_DENY,
                                  .index = p->rule_count};
    p->rule_count++;
}

static void add_custom(struct abx__load *l, const struct abx_policy_route *route)
{
    struct abx_policy *p = l->policy;
    for (size_t i = 0; i < p->rule_count; i++) {
        struct abx_policy_rule *r = &p->rules[i];
        if (!abx_str_eq(r->id, route->id))
            continue;
        if (r->endpoint != NULL)
            return;                               /* judged by the published endpoint's rule */
        abx__unite(l, &r->scopes, route->scopes); /* P38 */
        r->is_open = r->is_open && route->is_open;
        return;
    }
    struct abx_policy_rule *r = &p->rules[p->rule_count];
    *r = (struct abx_policy_rule){.id = route->id,
                                  .route = route,
                                  .group = route->group,
                                  .is_open = route->is_open,
                                  .scopes = route->scopes,
                                  .audit = ABX_AUDIT_DENY,
                                  .index = p->rule_count};
    p->rule_count++;
}

/* Strings of the caller's routes are copied: the policy outlives them. */
static const struct abx_policy_route *copy_routes(struct abx__load *l)
{
    const struct abx_policy_facts *facts = l->facts;
    struct abx_policy_route *routes =
        abx_arena_array(l->arena, facts->route_count + 1, sizeof(*routes));
    for (size_t i = 0; routes != NULL && i < facts->route_count; i++) {
        const struct abx_policy_route *from = &facts->routes[i];
        struct abx_str *scopes = abx_arena_array(l->arena, from->scopes.count + 1, sizeof(*scopes));
        for (size_t k = 0; scopes != NULL && k < from->scopes.count; k++)
            scopes[k] = abx_arena_str(l->arena, from->scopes.items[k]);
        routes[i] = *from;
        routes[i].id = abx_arena_str(l->arena, from->id);
        routes[i].method = abx_arena_str(l->arena, from->method);
        routes[i].path = abx_arena_str(l->arena, from->path);
        routes[i].summary = abx_arena_str(l->arena, from->summary);
        routes[i].scopes = (struct abx_str_list){scopes, scopes ? from->scopes.count : 0};
        l->no_memory |= scopes == NULL || routes[i].id.ptr == NULL || routes[i].summary.ptr == NULL;
    }
    l->no_memory |= routes == NULL;
    return routes;
}

static void default_scopes(struct abx__load *l)
{
    struct abx_policy *p = l->policy;
    for (size_t i = 0; i < p->rule_count; i++) {
        const struct abx_endpoint *e = p->rules[i].endpoint;
        struct abx_str *items = abx_arena_array(l->arena, ABX_ENDPOINT_SCOPES, sizeof(*items));
        size_t count = 0;
        if (items == NULL) {
            l->no_memory = true;
            return;
        }
        while (e != NULL && count < ABX_ENDPOINT_SCOPES && e->scopes[count] != NULL) {
            items[count] = abx_str(e->scopes[count]);
            count++;
        }
        if (e != NULL)
            p->rules[i].scopes = (struct abx_str_list){items, count};
    }
}

static void make_rules(struct abx__load *l)
{
    size_t count, ours_count;
    const struct abx_endpoint *published = abx_endpoints(&count),
                              *ours = abx_endpoint_extensions(&ours_count);
    struct abx_policy *p = l->policy;
    p->rules = abx_arena_array(l->arena, count + ours_count + l->facts->route_count + 1,
                               sizeof(struct abx_policy_rule));
    const struct abx_policy_route *routes = copy_routes(l);
    if (p->rules == NULL || l->no_memory) {
        l->no_memory = true;
        return;
    }
    for (size_t i = 0; i < count; i++)
        add_endpoint(p, &published[i]);
    for (size_t i = 0; i < ours_count; i++)
        add_endpoint(p, &ours[i]);
    default_scopes(l);
    for (size_t i = 0; i < l->facts->route_count; i++)
        add_custom(l, &routes[i]);
}

/* ---- layers beside the document's ---- */

static void built_in_layers(struct abx__load *l)
{
    for (int i = 0; i < ABX_GROUP__COUNT; i++) {
        enum abx_group g = (enum abx_group)i;
        if (abx_group_is_opt_in(g))
            abx__layer_group(l, ABX__BUILT_IN, g, false,
                             abx_arena_printf(l->arena, "default:opt-in:%s", abx_group_name(g)));
    }
    for (size_t i = 0; i < l->facts->code_group_count; i++) {
        const struct abx_policy_code_group *c = &l->facts->code_groups[i];
        abx__layer_group(
            l, ABX__CODE, c->group, c->enabled,
            abx_arena_printf(l->arena, "code:enable_group:%s", abx_group_name(c->group)));
    }
}

static struct abx_str trim(struct abx_str s)
{
    while (s.len > 0 && strchr(" \t\n\r\f\v", s.ptr[0]) != NULL && s.ptr[0] != '\0')
        s = abx_str_sub(s, 1, s.len);
    while (s.len > 0 && strchr(" \t\n\r\f\v", s.ptr[s.len - 1]) && s.ptr[s.len - 1] != '\0')
        s.len--;
    return s;
}

static void enabled_groups(struct abx__load *l)
{
    struct abx_str rest = l->facts->enabled_groups, item;
    struct abx__finding f = {.kind = ABX_FINDING_CONFIGURATION,
                             .place = "ABX_SERVER_ENABLED_GROUPS"};
    if (rest.ptr == NULL)
        return;
    while (abx_str_split(&rest, ',', &item)) {
        item = trim(item);
        if (item.len == 0 || abx_str_is(item, "core"))
            continue;
        int group = abx_group_parse(item);
        if (group >= 0) {
            abx__layer_group(l, ABX__ENVIRONMENT, (enum abx_group)group, true,
                             abx_arena_printf(l->arena, "env:ABX_SERVER_ENABLED_GROUPS:%s",
                                              abx_group_name((enum abx_group)group)));
            continue;
        }
        abx__report_add(l->report, l->facts->text, &f,
                        "unknown group \"%.*s\". Allowed: commands, file_ops, process, terminal, "
                        "system, dev_tools, browser, agents",
                        (int)(item.len < 80 ? item.len : 80), item.ptr);
    }
}

/* ---- load ---- */

static int finish(struct abx__load *l, bool is_tree)
{
    struct abx_policy *p = l->policy;
    built_in_layers(l);
    abx__preset_layers(l, p->preset);
    make_rules(l);
    enabled_groups(l);
    abx__check_token_env(l);
    if (!l->no_memory)
        abx__check_selectors(l);
    if (!is_tree || l->report->errors > 0 || l->no_memory)
        return -1;
    if (abx_json_tree_get(p->root, "version") == NULL)
        set_member(l, "version", new_node(l, ABX_JSON_INT_NODE, ABX_STR("1")));
    if (p->token_count > 0 && p->is_legacy)
        show_legacy_token(l);
    p->is_configured = p->root->count > 1;
    return abx__merge(l) < 0 || abx__revision(l) < 0 || l->no_memory ? -1 : 0;
}

int abx_policy_load(const struct abx_policy_facts *facts, struct abx_policy **ret,
                    struct abx_report *report)
{
    struct abx_policy *p = calloc(1, sizeof(*p));
    struct abx__load load = {.facts = facts, .policy = p, .report = report};
    struct abx__finding f = {.kind = ABX_FINDING_CONFIGURATION, .place = ""};
    if (p == NULL) {
        abx__report_add(report, facts->text, &f, "out of memory");
        return -1;
    }
    p->refs = 1;
    p->supported = facts->layers;
    abx__confine_defaults(&p->confine);
    p->preset = "default";
    p->base_dir = facts->base_dir.len > 0 ? facts->base_dir : ABX_STR("/home/user");
    abx_arena_init(&p->arena, ARENA_BYTES);
    load.arena = &p->arena;
    bool is_tree = begin_tree(&load);
    int failed = is_tree ? finish(&load, is_tree) : -1;
    struct abx_str base = abx_arena_str(&p->arena, p->base_dir);
    if (failed == 0 && base.ptr != NULL) {
        p->base_dir = base;
        *ret = p;
        return 0;
    }
    if (report->errors == 0)
        abx__report_add(report, facts->text, &f, "the policy is too large, or memory ran out");
    abx_policy_unref(p);
    return -1;
}

struct abx_policy *abx_policy_ref(struct abx_policy *p)
{
    p->refs++;
    return p;
}

void abx_policy_unref(struct abx_policy *p)
{
    if (p == NULL || --p->refs > 0)
        return;
    if (p->attached != NULL)
        p->attached_free(p->attached);
    for (size_t i = 0; i < p->token_count; i++)
        sodium_memzero(p->tokens[i].hash, sizeof(p->tokens[i].hash));
    abx_arena_done(&p->arena);
    free(p);
}

/* ---- asking ---- */

const char *abx_policy_revision(const struct abx_policy *p)
{
    return p->revision;
}

const char *abx_policy_preset(const struct abx_policy *p)
{
    return p->preset;
}

struct abx_str abx_policy_base_dir(const struct abx_policy *p)
{
    return p->base_dir;
}

bool abx_policy_is_configured(const struct abx_policy *p)
{
    return p->is_configured;
}

bool abx_policy_has_tokens(const struct abx_policy *p)
{
    return p->token_count > 0;
}

bool abx_policy_is_portable(const struct abx_policy *p)
{
    for (size_t i = 0; i < p->layer_count; i++)
        if (abx__names_extension(&p->layers[i]))
            return false;
    return abx_json_tree_get(p->root, "confine") == NULL;
}

void abx_policy_attach(struct abx_policy *p, void *data, void (*free_data)(void *data))
{
    ABX_ASSERT(p->attached == NULL);
    p->attached = data;
    p->attached_free = free_data;
}

void *abx_policy_attached(const struct abx_policy *p)
{
    return p->attached;
}

struct abx_str abx_policy_short_token(const struct abx_policy *p)
{
    for (size_t i = 0; i < p->token_count; i++)
        if (p->tokens[i].value_bytes > 0 && p->tokens[i].value_bytes < ABX__TOKEN_MIN)
            return p->tokens[i].id;
    return (struct abx_str){0};
}

bool abx_policy_has_token_of(const struct abx_policy *p, struct abx_str name)
{
    for (size_t i = 0; i < p->token_count; i++)
        if (abx_str_eq(p->tokens[i].env, name))
            return true;
    return false;
}

const char *abx_policy_anonymous_fault(const struct abx_policy *p)
{
    if (p->token_count > 0 && p->allow_anonymous && !p->has_anonymous_scopes)
        return "strangers may do everything; write anonymous_scopes";
    if (p->token_count == 0 && p->has_allow_anonymous && !p->allow_anonymous)
        return "without tokens this closes nothing: everybody may call";
    return NULL;
}

const struct abx_policy_rule *abx_policy_rules(const struct abx_policy *p, size_t *ret_count)
{
    *ret_count = p->rule_count;
    return p->rules;
}

const struct abx_policy_rule *abx_policy_rule(const struct abx_policy *p, struct abx_str id)
{
    for (size_t i = 0; i < p->rule_count; i++)
        if (abx_str_eq(p->rules[i].id, id))
            return &p->rules[i];
    return NULL;
}

uint64_t abx_policy_limit_u64(const struct abx_policy_rule *r, enum abx_limit limit,
                              uint64_t fallback)
{
    return r->limits[limit].is_set ? r->limits[limit].integer : fallback;
}

double abx_policy_limit_f64(const struct abx_policy_rule *r, enum abx_limit limit, double fallback)
{
    return r->limits[limit].is_set ? r->limits[limit].number : fallback;
}
