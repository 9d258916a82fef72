/* lib/policy/within.c: one policy within another (within.h). */
#include "lib/policy/within.h"

#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "lib/policy/paths.h"
#include "lib/policy/policy_priv.h"

#include <stdio.h>

#include "lib/base/banned.h"

enum { WHY = 240, PATH_BYTES = 32768 };

struct pair {
    const struct abx_policy *narrow, *wide;
    char *why;
};

__attribute__((format(printf, 2, 3))) static bool wider(const struct pair *p, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(p->why, WHY, fmt, ap);
    va_end(ap);
    return false;
}

/* ---- lists ---- */

static bool has(struct abx_str_list list, struct abx_str item)
{
    for (size_t i = 0; i < list.count; i++)
        if (abx_str_eq(list.items[i], item))
            return true;
    return false;
}

static bool is_subset(struct abx_str_list some, struct abx_str_list all)
{
    for (size_t i = 0; i < some.count; i++)
        if (!has(all, some.items[i]))
            return false;
    return true;
}

/* ---- folders ---- */

static bool normalise(struct abx_str path, struct abx_buf *out)
{
    abx_buf_init(out, PATH_BYTES);
    return abx_policy_path_normalise(path, ABX_STR("/"), out);
}

static bool is_beneath(struct abx_str path, struct abx_str root)
{
    ABX_AUTO_BUF p;
    ABX_AUTO_BUF r;
    if (!normalise(path, &p) || !normalise(root, &r))
        return false;
    if (r.len == 1)
        return true;
    return p.len >= r.len && memcmp(p.ptr, r.ptr, r.len) == 0 &&
           (p.len == r.len || p.ptr[r.len] == '/');
}

static bool is_beneath_any(struct abx_str path, struct abx_str_list roots)
{
    for (size_t i = 0; i < roots.count; i++)
        if (is_beneath(path, roots.items[i]))
            return true;
    return false;
}

static bool roots_within(const struct pair *p, const struct abx_policy_rule *n,
                         const struct abx_policy_rule *w)
{
    struct abx_str root, other;
    for (size_t i = 0; abx_policy_root_at(p->narrow, n, i, &root); i++) {
        bool found = false;
        for (size_t k = 0; !found && abx_policy_root_at(p->wide, w, k, &other); k++)
            found = is_beneath(root, other);
        if (!found)
            return wider(p, "%.*s reaches %.*s", ABX_STR_FMT(n->id),
                         (int)(root.len < 100 ? root.len : 100), root.ptr);
    }
    return true;
}

static bool paths_within(const struct pair *p, const struct abx_policy_rule *n,
                         const struct abx_policy_rule *w)
{
    /* Relative paths start at the first root: with another first root they mean other files, yet
     * none outside the roots. */
    if (!roots_within(p, n, w))
        return false;
    if (!is_subset(w->paths.deny, n->paths.deny))
        return wider(p, "%.*s denies less", ABX_STR_FMT(n->id));
    if (w->paths.read_only && !n->paths.read_only)
        return wider(p, "%.*s is not read only", ABX_STR_FMT(n->id));
    if (w->paths.never_links && !n->paths.never_links)
        return wider(p, "%.*s follows links", ABX_STR_FMT(n->id));
    return true;
}

/* ---- limits and params ---- */

/* Without these there is no bound: writing one narrows. The others replace a default, up or down.
 */
static bool only_narrows(enum abx_limit limit)
{
    return limit == ABX_LIMIT_RATE_PER_MINUTE || limit == ABX_LIMIT_MAX_CONCURRENCY ||
           limit == ABX_LIMIT_MAX_PROCESSES || limit == ABX_LIMIT_MAX_SESSIONS;
}

static bool limits_within(const struct pair *p, const struct abx_policy_rule *n,
                          const struct abx_policy_rule *w)
{
    for (int i = 0; i < ABX_LIMIT__COUNT; i++) {
        const struct abx_policy_limit *a = &n->limits[i], *b = &w->limits[i];
        bool ok = b->is_set ? a->is_set && a->number <= b->number
                            : !a->is_set || only_narrows((enum abx_limit)i);
        if (!ok)
            return wider(p, "%.*s has another %s", ABX_STR_FMT(n->id),
                         abx_limit_name((enum abx_limit)i));
    }
    return true;
}

enum param_kind {
    ALLOWS_IF_ANY, /* an empty list is none */
    ALLOWS_IF_SET, /* an empty list forbids all */
    DENIES,
    BINDS_IF_FALSE,
    BINDS_IF_TRUE,
    NUMBERS
};
static const enum param_kind kinds[] = {
    [ABX_PARAM_ALLOW_COMMANDS] = ALLOWS_IF_ANY,
    [ABX_PARAM_ALLOW_EXTENSIONS] = ALLOWS_IF_ANY,
    [ABX_PARAM_ALLOW_VARS] = ALLOWS_IF_ANY,
    [ABX_PARAM_ALLOWED_SIGNALS] = NUMBERS,
    [ABX_PARAM_BLOCK_PRIVATE_NETWORKS] = BINDS_IF_TRUE,
    [ABX_PARAM_DENY_COMMANDS] = DENIES,
    [ABX_PARAM_DENY_EXTENSIONS] = DENIES,
    [ABX_PARAM_DENY_VARS] = DENIES,
    [ABX_PARAM_ENV_DENY] = DENIES,
    [ABX_PARAM_LANGUAGES] = ALLOWS_IF_SET,
    [ABX_PARAM_OVERWRITE] = BINDS_IF_FALSE,
    [ABX_PARAM_SHELLS] = ALLOWS_IF_SET,
    [ABX_PARAM_URL_ALLOW] = ALLOWS_IF_ANY,
    [ABX_PARAM_URL_DENY] = DENIES,
};
_Static_assert(ABX_COUNTOF(kinds) == ABX_PARAM__COUNT, "one kind per param");

static bool numbers_within(const struct abx_policy_param *n, const struct abx_policy_param *w)
{
    for (size_t i = 0; i < n->number_count; i++) {
        bool found = false;
        for (size_t k = 0; k < w->number_count; k++)
            found = found || w->numbers[k] == n->numbers[i];
        if (!found)
            return false;
    }
    return true;
}

static bool param_within(enum param_kind kind, const struct abx_policy_param *n,
                         const struct abx_policy_param *w)
{
    switch (kind) {
    case ALLOWS_IF_ANY:
        return w->words.count == 0 || (n->words.count > 0 && is_subset(n->words, w->words));
    case ALLOWS_IF_SET:
        return !w->is_set || (n->is_set && is_subset(n->words, w->words));
    case DENIES:
        return is_subset(w->words, n->words);
    case BINDS_IF_FALSE:
        return !w->is_set || w->flag || (n->is_set && !n->flag);
    case BINDS_IF_TRUE:
        return !w->is_set || !w->flag || (n->is_set && n->flag);
    case NUMBERS:
        return !w->is_set || (n->is_set && numbers_within(n, w));
    }
    return false;
}

static bool params_within(const struct pair *p, const struct abx_policy_rule *n,
                          const struct abx_policy_rule *w)
{
    for (int i = 0; i < ABX_PARAM__COUNT; i++)
        if (!param_within(kinds[i], &n->params[i], &w->params[i]))
            return wider(p, "%.*s has a wider %s", ABX_STR_FMT(n->id),
                         abx_param_name((enum abx_param)i));
    return true;
}

/* ---- rules ---- */

static bool rules_within(const struct pair *p)
{
    for (size_t i = 0; i < p->narrow->rule_count; i++) {
        const struct abx_policy_rule *n = &p->narrow->rules[i];
        const struct abx_policy_rule *w = abx_policy_rule(p->wide, n->id);
        if (!n->enabled)
            continue;
        if (w == NULL || !w->enabled)
            return wider(p, "it enables %.*s", ABX_STR_FMT(n->id));
        if (n->is_open && !w->is_open)
            return wider(p, "%.*s asks for no credential", ABX_STR_FMT(n->id));
        if (!is_subset(w->scopes, n->scopes))
            return wider(p, "%.*s asks for fewer scopes", ABX_STR_FMT(n->id));
        if ((n->takes_paths && !paths_within(p, n, w)) || !limits_within(p, n, w) ||
            !params_within(p, n, w))
            return false;
    }
    return true;
}

/* ---- identities ---- */

static bool is_same_secret(const struct abx__token *a, const struct abx__token *b)
{
    if (a->has_hash && b->has_hash)
        return memcmp(a->hash, b->hash, sizeof(a->hash)) == 0;
    return !a->has_hash && !b->has_hash && abx_str_eq(a->env, b->env);
}

static bool scopes_covered(struct abx_str_list some, struct abx_str_list all)
{
    for (size_t i = 0; i < some.count; i++)
        if (!abx_scope_held(all, some.items[i]))
            return false;
    return true;
}

/* The identity of @wide that the same credential gives. */
static bool counterpart(const struct pair *p, const struct abx_policy_identity *n,
                        struct abx_policy_identity *ret)
{
    const struct abx_policy *w = p->wide;
    if (n->index == ABX_POLICY_ANONYMOUS)
        return abx_policy_identity_at(w, w->token_count, ret);
    for (size_t i = 0; i < w->token_count; i++)
        if (is_same_secret(&p->narrow->tokens[n->index], &w->tokens[i]))
            return abx_policy_identity_at(w, i, ret);
    return false;
}

/* Whose credential is an earlier one's too: nobody ever is it. */
static bool is_shadowed(const struct abx_policy *p, const struct abx_policy_identity *who)
{
    for (size_t i = 0; who->index != ABX_POLICY_ANONYMOUS && i < who->index; i++)
        if (is_same_secret(&p->tokens[i], &p->tokens[who->index]))
            return true;
    return false;
}

static bool identities_within(const struct pair *p)
{
    struct abx_policy_identity n, w;
    for (size_t i = 0; abx_policy_identity_at(p->narrow, i, &n); i++) {
        int shown = (int)(n.id.len < 80 ? n.id.len : 80);
        if (is_shadowed(p->narrow, &n))
            continue;
        if (!counterpart(p, &n, &w))
            return wider(p, "it lets '%.*s' in", shown, n.id.ptr);
        if (!scopes_covered(n.scopes, w.scopes))
            return wider(p, "'%.*s' holds more scopes", shown, n.id.ptr);
        if (n.is_wide && !w.is_wide) /* the only one that is left is bound less */
            return wider(p, "'%.*s' is the only identity", shown, n.id.ptr);
    }
    return true;
}

/* ---- confinement ---- */

static int strictness(enum abx_confine_mode mode)
{
    switch (mode) {
    case ABX_CONFINE_OFF:
        return 0;
    case ABX_CONFINE_ADVISORY:
        return 1;
    case ABX_CONFINE_AUTO:
        return 2;
    case ABX_CONFINE_REQUIRE:
        return 3;
    }
    return 0;
}

static bool ports_within(const struct abx_policy_ports *n, const struct abx_policy_ports *w)
{
    if (!w->is_limited)
        return true;
    for (size_t i = 0; i < n->count; i++) {
        bool found = false;
        for (size_t k = 0; k < w->count; k++)
            found = found || w->items[k] == n->items[i];
        if (!found)
            return false;
    }
    return n->is_limited;
}

/* What no process of the wide one sees, none of the narrow one does: hidden, or outside its roots.
 */
static bool hidden_within(const struct abx_policy_view *n, const struct abx_policy_view *w)
{
    for (size_t i = 0; i < w->hidden.count; i++) {
        struct abx_str path = w->hidden.items[i];
        bool is_hidden = false, is_reached = false;
        for (size_t k = 0; k < n->hidden.count; k++)
            is_hidden = is_hidden || abx__root_holds(n->hidden.items[k], path);
        for (size_t k = 0; k < n->read.count; k++)
            is_reached = is_reached || abx__root_holds(n->read.items[k], path) ||
                         abx__root_holds(path, n->read.items[k]);
        for (size_t k = 0; k < n->write.count; k++)
            is_reached = is_reached || abx__root_holds(n->write.items[k], path) ||
                         abx__root_holds(path, n->write.items[k]);
        if (is_reached && !is_hidden)
            return false;
    }
    return true;
}

static bool view_within(const struct abx_policy_view *n, const struct abx_policy_view *w)
{
    if (!hidden_within(n, w))
        return false;
    for (size_t i = 0; i < n->read.count; i++)
        if (!is_beneath_any(n->read.items[i], w->read) &&
            !is_beneath_any(n->read.items[i], w->write))
            return false;
    for (size_t i = 0; i < n->write.count; i++)
        if (!is_beneath_any(n->write.items[i], w->write))
            return false;
    return ports_within(&n->connect, &w->connect) && ports_within(&n->bind, &w->bind) &&
           (n->no_udp || !w->no_udp) && (n->no_unix || !w->no_unix) &&
           (w->is_privileged || !n->is_privileged);
}

/* What runs for @n through the rule: with nothing to read left it is the base directory (policy.md
 * C2), so that this is compared itself. */
static bool rule_view_within(const struct pair *p, const struct abx_policy_rule *rule,
                             const struct abx_policy_rule *other,
                             const struct abx_policy_identity *n,
                             const struct abx_policy_identity *w)
{
    struct abx_arena a;
    struct abx_policy_view nv, wv;
    abx_arena_init(&a, 8 << 20);
    bool ok = abx_policy_view(p->narrow, rule, n, NULL, NULL, &a, &nv) == 0 &&
              abx_policy_view(p->wide, other, w, NULL, NULL, &a, &wv) == 0 && view_within(&nv, &wv);
    abx_arena_done(&a);
    return ok || wider(p, "what '%.*s' starts%s%.*s reaches more",
                       (int)(n->id.len < 80 ? n->id.len : 80), n->id.ptr, rule ? " by " : "",
                       rule ? (int)rule->id.len : 0, rule ? rule->id.ptr : "");
}

static bool has_own_paths(const struct abx_policy_rule *r)
{
    return r != NULL && r->takes_paths &&
           (r->paths.allow.count > 0 || r->paths.deny.count > 0 || r->paths.read_only);
}

/* All endpoints without paths of their own have one view. */
static bool views_of_caller_within(const struct pair *p, const struct abx_policy_identity *n,
                                   const struct abx_policy_identity *w)
{
    bool is_common_checked = false;
    for (size_t i = 0; i < p->narrow->rule_count; i++) {
        const struct abx_policy_rule *r = &p->narrow->rules[i];
        if (!abx_policy_runs_programs(r) || !abx__reaches(r, n))
            continue;
        const struct abx_policy_rule *other = abx_policy_rule(p->wide, r->id);
        bool is_own = has_own_paths(r) || has_own_paths(other);
        if (!is_own && is_common_checked)
            continue;
        is_common_checked = is_common_checked || !is_own;
        if (!rule_view_within(p, is_own ? r : NULL, is_own ? other : NULL, n, w))
            return false;
    }
    return true;
}

static bool views_within(const struct pair *p)
{
    struct abx_policy_identity n, w;
    for (size_t i = 0; abx_policy_identity_at(p->narrow, i, &n); i++)
        if (!is_shadowed(p->narrow, &n) && counterpart(p, &n, &w) &&
            !views_of_caller_within(p, &n, &w))
            return false;
    return true;
}

static bool limits_of_processes_within(const struct abx_policy_confine *n,
                                       const struct abx_policy_confine *w)
{
    for (int i = 0; i < ABX_RLIMIT__COUNT; i++)
        if (w->rlimits[i].is_set &&
            (!n->rlimits[i].is_set || n->rlimits[i].value > w->rlimits[i].value))
            return false;
    return true;
}

/* Of every mode: `users` opens what is closed without it, and where processes have another user
 * `privileged` lets them gain privileges. */
static bool users_within(const struct abx_policy_confine *n, const struct abx_policy_confine *w)
{
    return is_subset(n->users, w->users) &&
           (n->users.count == 0 || !n->privileged || w->privileged);
}

static bool confine_within(const struct pair *p)
{
    const struct abx_policy_confine *n = &p->narrow->confine, *w = &p->wide->confine;
    if (strictness(n->mode) < strictness(w->mode))
        return wider(p, "confine is \"%s\"", abx_confine_mode_name(n->mode));
    if (!users_within(n, w))
        return wider(p, "confine: programs run as more users");
    if (w->mode == ABX_CONFINE_OFF)
        return true;
    if (n->nested_pty && !w->nested_pty)
        return wider(p, "confine: terminals are not apart");
    if (!limits_of_processes_within(n, w))
        return wider(p, "confine: rlimits are higher");
    if (!is_subset(n->origins, w->origins) || !is_subset(n->hosts, w->hosts) ||
        (w->hosts.count > 0 && n->hosts.count == 0))
        return wider(p, "confine: more hosts or origins");
    return views_within(p);
}

bool abx_policy_is_within(const struct abx_policy *narrow, const struct abx_policy *wide,
                          char why[240])
{
    struct pair p = {narrow, wide, why};
    why[0] = '\0';
    return rules_within(&p) && identities_within(&p) && confine_within(&p);
}
