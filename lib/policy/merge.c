/* lib/policy/merge.c: all layers of an endpoint into one rule. Spec: policy.md A6. */
#include "lib/base/assert.h"
#include "lib/policy/policy_priv.h"

#include <stdlib.h>

#include "lib/base/banned.h"

static int compare(const void *left, const void *right)
{
    const struct abx__layer *a = left, *b = right;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->prefix != b->prefix)
        return a->prefix < b->prefix ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

/* Votes are taken per (kind, rank); the last such bucket decides, one "no" in it is enough. */
struct votes {
    int bucket; /* -1: none yet */
    const char *no;
};

static void vote(struct votes *v, const struct abx__layer *layer)
{
    int bucket = (int)layer->kind * (ABX__ENVIRONMENT + 1) + (int)layer->rank;
    if (bucket != v->bucket)
        *v = (struct votes){.bucket = bucket};
    if (layer->rule->enabled == 0 && v->no == NULL)
        v->no = layer->origin;
}

static bool holds(struct abx_str_list list, struct abx_str s)
{
    for (size_t i = 0; i < list.count; i++)
        if (abx_str_eq(list.items[i], s))
            return true;
    return false;
}

/* *into := *into united with @more, in order of first sight. */
void abx__unite(struct abx__load *l, struct abx_str_list *into, struct abx_str_list more)
{
    if (more.count == 0)
        return;
    struct abx_str *items =
        abx_arena_array(l->arena, into->count + more.count, sizeof(struct abx_str));
    if (items == NULL || into->count > ABX__UNION_MAX) {
        l->no_memory = true;
        return;
    }
    struct abx_str_list out = {items, into->count};
    if (into->count > 0)
        memcpy(items, into->items, into->count * sizeof(struct abx_str));
    for (size_t i = 0; i < more.count; i++)
        if (!holds(out, more.items[i]))
            items[out.count++] = more.items[i];
    *into = out;
}

static bool is_union(enum abx_param which)
{
    const uint32_t unions = 1u << ABX_PARAM_DENY_EXTENSIONS | 1u << ABX_PARAM_DENY_COMMANDS |
                            1u << ABX_PARAM_DENY_VARS | 1u << ABX_PARAM_ENV_DENY |
                            1u << ABX_PARAM_URL_DENY;
    return unions >> which & 1;
}

static void merge_paths(struct abx__load *l, struct abx_policy_paths *paths,
                        const struct abx__rule_doc *doc)
{
    if (doc->has_allow)
        paths->allow = doc->allow;
    if (doc->has_deny)
        abx__unite(l, &paths->deny, doc->deny);
    if (doc->read_only != ABX__ABSENT)
        paths->read_only = doc->read_only;
    if (doc->never_links != ABX__ABSENT)
        paths->never_links = doc->never_links;
}

static void merge_params(struct abx__load *l, struct abx_policy_rule *r,
                         const struct abx__rule_doc *doc)
{
    for (int i = 0; r->endpoint != NULL && i < ABX_PARAM__COUNT; i++) {
        const struct abx_policy_param *given = &doc->params[i];
        if (!given->is_set || !(r->endpoint->params >> i & 1))
            continue;
        struct abx_policy_param *p = &r->params[i];
        struct abx_str_list before = p->words;
        *p = *given;
        if (!is_union((enum abx_param)i))
            continue;
        p->words = before;
        abx__unite(l, &p->words, given->words);
    }
}

static void merge_layer(struct abx__load *l, struct abx_policy_rule *r,
                        const struct abx__layer *layer)
{
    const uint32_t common = 1u << ABX_LIMIT_MAX_CONCURRENCY | 1u << ABX_LIMIT_MAX_REQUEST_BYTES |
                            1u << ABX_LIMIT_RATE_PER_MINUTE;
    const struct abx__rule_doc *doc = layer->rule;
    uint32_t limits = r->endpoint != NULL ? r->endpoint->limits : common;
    if (doc->has_scopes)
        r->scopes = doc->scopes;
    if (doc->audit != ABX__ABSENT)
        r->audit = (enum abx_audit)doc->audit;
    if (r->takes_paths)
        merge_paths(l, &r->paths, doc);
    for (int i = 0; i < ABX_LIMIT__COUNT; i++)
        if (doc->limits[i].is_set && (limits >> i & 1))
            r->limits[i] = doc->limits[i];
    merge_params(l, r, doc);
}

static void merge_rule(struct abx__load *l, struct abx_policy_rule *r)
{
    const struct abx_policy *p = l->policy;
    struct votes votes = {.bucket = -1};
    for (size_t i = 0; i < p->layer_count; i++) {
        const struct abx__layer *layer = &p->layers[i];
        if (!abx__layer_selects(layer, r))
            continue;
        if (layer->rule->enabled != ABX__ABSENT)
            vote(&votes, layer);
        merge_layer(l, r, layer);
    }
    bool always = r->endpoint != NULL && (r->endpoint->flags & ABX_EP_ALWAYS);
    r->enabled = always || votes.no == NULL;
    r->disabled_by = r->enabled ? (struct abx_str){0} : abx_str(votes.no);
}

int abx__merge(struct abx__load *l)
{
    struct abx_policy *p = l->policy;
    qsort(p->layers, p->layer_count, sizeof(*p->layers), compare);
    for (size_t i = 0; i < p->rule_count; i++)
        merge_rule(l, &p->rules[i]);
    for (size_t i = 0; i < p->rule_count; i++)
        abx__inherit(l, &p->rules[i]);
    return l->no_memory ? -1 : 0;
}
