/* lib/policy/lint_more.c: findings that the published server does not have (LX). Spec: policy.md
 * C6. */
#include "lib/base/assert.h"
#include "lib/policy/lint_priv.h"

#include <stdlib.h>

#include "lib/base/banned.h"

static const struct abx_json_node *child(const struct abx_json_node *n, const char *key)
{
    return n != NULL ? abx_json_tree_get(n, key) : NULL;
}

static bool is_document_rule(const struct abx__layer *layer)
{
    return layer->rank == ABX__DOCUMENT && layer->rule->node != NULL;
}

/* ---- LX6: not portable ---- */

static void lint_portable(const struct abx__lint *l)
{
    const struct abx_json_node *confine = child(l->policy->root, "confine");
    if (confine != NULL)
        abx__warn(l, "LX6", confine,
                  "the published server refuses a document with \"confine\"; to stay portable "
                  "keep it in a file of its own");
    for (size_t i = 0; i < l->policy->layer_count; i++)
        if (abx__names_extension(&l->policy->layers[i]))
            abx__warn(l, "LX6", l->policy->layers[i].node,
                      "the published server has no such endpoint and refuses the document");
}

/* ---- LX7: selects nothing, or sets what nothing selected has ---- */

static void lint_knobs(const struct abx__lint *l, const struct abx__layer *layer, bool limits)
{
    const struct abx_policy *p = l->policy;
    const struct abx_json_node *block = child(layer->rule->node, limits ? "limits" : "params");
    for (const struct abx_json_node *n = block ? block->first : NULL; n != NULL; n = n->next) {
        int which = limits ? abx_limit_parse(n->key) : abx_param_parse(n->key);
        bool used = false;
        for (size_t i = 0; i < p->rule_count && !used && which >= 0; i++) {
            const struct abx_endpoint *e = p->rules[i].endpoint;
            used = e != NULL && abx__layer_selects(layer, &p->rules[i]) &&
                   ((limits ? e->limits : e->params) >> which & 1);
        }
        if (!used && which >= 0)
            abx__warn(l, "LX7", n, "no endpoint selected here has this %s",
                      limits ? "limit" : "param");
    }
}

static void lint_selectors(const struct abx__lint *l)
{
    const struct abx_policy *p = l->policy;
    for (size_t i = 0; i < p->layer_count; i++) {
        const struct abx__layer *layer = &p->layers[i];
        bool any = false;
        if (!is_document_rule(layer))
            continue;
        for (size_t k = 0; k < p->rule_count && !any; k++)
            any = abx__layer_selects(layer, &p->rules[k]);
        if (!any)
            abx__warn(l, "LX7", layer->rule->node, "this selector selects nothing");
        else if (layer->kind != ABX__EXACT) {
            lint_knobs(l, layer, true);
            lint_knobs(l, layer, false);
        }
    }
}

/* ---- LX8: a vote that can not decide ---- */

static bool decides_anywhere(const struct abx_policy *p, const struct abx__layer *layer)
{
    for (size_t i = 0; i < p->rule_count; i++) {
        const struct abx_policy_rule *r = &p->rules[i];
        if (!abx__layer_selects(layer, r) ||
            (r->endpoint != NULL && (r->endpoint->flags & ABX_EP_ALWAYS)))
            continue;
        bool outvoted = false;
        for (size_t k = 0; k < p->layer_count && !outvoted; k++) {
            const struct abx__layer *other = &p->layers[k];
            if (other->rule->enabled == ABX__ABSENT || other == layer ||
                !abx__layer_selects(other, r))
                continue;
            bool higher = other->kind > layer->kind ||
                          (other->kind == layer->kind && other->rank > layer->rank);
            bool same = other->kind == layer->kind && other->rank == layer->rank;
            outvoted = higher || (same && layer->rule->enabled == 1 && other->rule->enabled == 0);
        }
        if (!outvoted)
            return true;
    }
    return false;
}

static void lint_votes(const struct abx__lint *l)
{
    const struct abx_policy *p = l->policy;
    for (size_t i = 0; i < p->layer_count; i++) {
        const struct abx__layer *layer = &p->layers[i];
        const struct abx_json_node *enabled = child(layer->rule->node, "enabled");
        if (is_document_rule(layer) && layer->rule->enabled != ABX__ABSENT &&
            !decides_anywhere(p, layer))
            abx__warn(l, "LX8", enabled != NULL ? enabled : layer->rule->node,
                      "decides nothing: every endpoint it selects is decided elsewhere");
    }
}

/* ---- LX9, LX11: lists ---- */

static bool matches_nothing(struct abx_str pattern)
{
    bool absolute = pattern.len > 0 && pattern.ptr[0] == '/';
    while (pattern.len > 0 && pattern.ptr[pattern.len - 1] == '/')
        pattern.len--;
    if (pattern.len == 0)
        return true;
    return abx_str_find(pattern, ABX_STR("//")) >= 0 ||
           abx_str_find(pattern, ABX_STR("/../")) >= 0 ||
           abx_str_find(pattern, ABX_STR("/./")) >= 0 || abx_str_ends(pattern, "/..") ||
           abx_str_ends(pattern, "/.") || (!absolute && abx_str_starts(pattern, "./"));
}

static void lint_deny(const struct abx__lint *l, const struct abx_json_node *deny)
{
    for (const struct abx_json_node *n = deny ? deny->first : NULL; n != NULL; n = n->next) {
        if (n->kind != ABX_JSON_STR_NODE)
            continue;
        if (matches_nothing(n->text))
            abx__warn(l, "LX9", n, "this pattern can match no path");
        else if (abx_str_ends(n->text, "/**") && n->text.len > 3)
            abx__warn(l, "LX9", n,
                      "denies what lies beneath, not the folder itself; write \"%.*s\"",
                      (int)(n->text.len - 3 < 120 ? n->text.len - 3 : 120), n->text.ptr);
    }
}

static void lint_empty_lists(const struct abx__lint *l, const struct abx_json_node *rule)
{
    static const struct {
        const char *block, *key;
    } lists[] = {{"paths", "allow"},
                 {"params", "allow_commands"},
                 {"params", "allow_extensions"},
                 {"params", "allow_vars"},
                 {"params", "url_allow"}};
    for (size_t i = 0; i < ABX_COUNTOF(lists); i++) {
        const struct abx_json_node *list = child(child(rule, lists[i].block), lists[i].key);
        if (list != NULL && list->kind == ABX_JSON_ARRAY_NODE && list->count == 0)
            abx__warn(l, "LX11", list, "an empty list here means \"no list\": it forbids nothing");
    }
}

static void lint_lists(const struct abx__lint *l)
{
    const struct abx_policy *p = l->policy;
    for (size_t i = 0; i < p->layer_count; i++) {
        if (!is_document_rule(&p->layers[i]))
            continue;
        const struct abx_json_node *rule = p->layers[i].rule->node;
        lint_deny(l, child(child(rule, "paths"), "deny"));
        lint_empty_lists(l, rule);
    }
}

/* ---- LX13, LX24, LX22: programs ---- */

static bool runs_programs(const struct abx_policy_rule *r)
{
    return r->endpoint != NULL &&
           ((r->endpoint->flags & ABX_EP_EXEC) || r->group == ABX_GROUP_TERMINAL ||
            abx_str_is(r->id, "run_command"));
}

/* Endpoints that run programs and that L1 does not know. */
static bool runs_unseen(const struct abx_policy_rule *r)
{
    return r->endpoint != NULL && !(r->endpoint->flags & ABX_EP_EXEC) &&
           (abx_str_is(r->id, "pty_create_session") || abx_str_is(r->id, "run_command") ||
            abx_str_is(r->id, "git_status") || abx_str_is(r->id, "git_diff"));
}

static void lint_identity(const struct abx__lint *l, const struct abx_policy_identity *who)
{
    const struct abx_policy *p = l->policy;
    const struct abx_policy_rule *deny = NULL, *bound = NULL, *runs = NULL, *unseen = NULL;
    for (size_t i = 0; i < p->rule_count; i++) {
        const struct abx_policy_rule *r = &p->rules[i];
        if (!abx__reaches(r, who))
            continue;
        if (r->takes_paths && r->paths.deny.count > 0 && r->group == ABX_GROUP_FILE_OPS)
            deny = r;
        if (r->takes_paths && (r->paths.allow.count > 0 || r->paths.read_only ||
                               r->paths.never_links || r->paths.deny.count > 0))
            bound = r;
        runs = runs_programs(r) ? r : runs;
        unseen = runs_unseen(r) ? r : unseen;
    }
    if (deny != NULL && runs != NULL)
        abx__warn(l, "LX13", NULL,
                  "identity '%.*s' can run programs (%.*s): deny patterns are advice to them",
                  (int)(who->id.len < 80 ? who->id.len : 80), who->id.ptr, ABX_STR_FMT(runs->id));
    if (bound != NULL && unseen != NULL)
        abx__warn(l, "LX24", NULL,
                  "identity '%.*s' is bound to paths, and %.*s runs programs that are not",
                  (int)(who->id.len < 80 ? who->id.len : 80), who->id.ptr, ABX_STR_FMT(unseen->id));
}

static void lint_programs(const struct abx__lint *l)
{
    const struct abx_policy *p = l->policy;
    struct abx_policy_identity who;
    for (size_t i = 0; abx_policy_identity_at(p, i, &who); i++)
        lint_identity(l, &who);
    for (size_t i = 0; i < p->rule_count; i++) {
        const struct abx_policy_rule *r = &p->rules[i];
        if (r->enabled && r->params[ABX_PARAM_ALLOW_COMMANDS].words.count > 0 &&
            r->paths.allow.count == 0)
            abx__warn(l, "LX22", NULL,
                      "allow_commands is all that narrows %.*s: a belt for honest callers, no wall",
                      ABX_STR_FMT(r->id));
    }
}

/* ---- LX14, LX16, LX20, LX25 ---- */

static void lint_tokens(const struct abx__lint *l)
{
    const struct abx_policy *p = l->policy;
    const struct abx_json_node *auth = child(p->root, "auth");
    for (size_t i = 0; i < p->token_count; i++)
        if (p->tokens[i].value_bytes > 0 && p->tokens[i].value_bytes < ABX__TOKEN_MIN)
            abx__warn(l, "LX14", NULL, "the token '%.*s' is shorter than %d bytes",
                      (int)(p->tokens[i].id.len < 80 ? p->tokens[i].id.len : 80),
                      p->tokens[i].id.ptr, (int)ABX__TOKEN_MIN);
    const char *strangers = abx_policy_anonymous_fault(p);
    if (strangers && p->confine.mode == ABX_CONFINE_OFF)
        abx__warn(l, "LX20", child(auth, "allow_anonymous"), "%s", strangers);
    else if (strangers)
        abx__fault(l, "LX20", child(auth, "allow_anonymous"), "%s", strangers);
}

static void lint_core(const struct abx__lint *l)
{
    const struct abx_policy *p = l->policy;
    for (size_t i = 0; i < p->layer_count; i++) {
        const struct abx__layer *layer = &p->layers[i];
        if (!is_document_rule(layer) || layer->kind != ABX__EXACT ||
            !(abx_str_is(layer->selector, "health") || abx_str_is(layer->selector, "capabilities")))
            continue;
        if (layer->rule->has_scopes || layer->rule->limits[ABX_LIMIT_RATE_PER_MINUTE].is_set)
            abx__warn(l, "LX16", layer->rule->node,
                      "probes and clients call this first; a scope or a rate here locks them out");
    }
}

static void lint_without_effect(const struct abx__lint *l)
{
    static const struct {
        const char *id;
        enum abx_limit limit;
    } rows[] = {
        {"shell", ABX_LIMIT_MAX_PROCESSES},           {"shell_stream", ABX_LIMIT_MAX_PROCESSES},
        {"process_start", ABX_LIMIT_TIMEOUT_SECONDS}, {"pty_connect", ABX_LIMIT_RATE_PER_MINUTE},
        {"pty_connect", ABX_LIMIT_MAX_CONCURRENCY},   {"pty_connect", ABX_LIMIT_MAX_REQUEST_BYTES}};
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        const struct abx_policy_rule *r = abx_policy_rule(l->policy, abx_str(rows[i].id));
        if (r != NULL && r->limits[rows[i].limit].is_set)
            abx__warn(l, "LX25", NULL, "the published server accepts %s on %s and never applies it",
                      abx_limit_name(rows[i].limit), rows[i].id);
    }
}

void abx__lint_more(const struct abx__lint *l)
{
    lint_portable(l);
    lint_selectors(l);
    lint_votes(l);
    lint_lists(l);
    lint_programs(l);
    lint_tokens(l);
    lint_core(l);
    lint_without_effect(l);
}
