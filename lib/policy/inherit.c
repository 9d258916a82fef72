/* lib/policy/inherit.c: a document written for the published server bounds the endpoints that it
 * can not name: an extension may do no more than all of its parents. Spec: policy.md C5. */
#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "lib/policy/policy_priv.h"

#include "lib/base/banned.h"

static const struct abx_policy_rule *find(const struct abx_policy *p, const char *id)
{
    for (size_t i = 0; i < p->rule_count; i++)
        if (abx_str_is(p->rules[i].id, id))
            return &p->rules[i];
    return NULL;
}

static void disable(struct abx_policy_rule *r, struct abx_str rule)
{
    if (!r->enabled)
        return;
    r->enabled = false;
    r->disabled_by = rule;
}

/* ---- paths ---- */

static struct abx_str without_slash(struct abx_str s)
{
    while (s.len > 0 && s.ptr[s.len - 1] == '/')
        s.len--;
    return s;
}

static bool is_beneath(struct abx_str root, struct abx_str path)
{
    root = without_slash(root);
    path = without_slash(path);
    return path.len >= root.len && (root.len == 0 || memcmp(root.ptr, path.ptr, root.len) == 0) &&
           (path.len == root.len || path.ptr[root.len] == '/');
}

/* The folders that lie in both lists; by their text, as they are written. */
static struct abx_str_list common_roots(struct abx__load *l, struct abx_str_list a,
                                        struct abx_str_list b)
{
    size_t count, n = 0;
    if (!abx_size_mul(a.count, b.count, &count))
        count = SIZE_MAX;
    struct abx_str *items = abx_arena_array(l->arena, count, sizeof(*items));
    if (items == NULL) {
        l->no_memory = true;
        return (struct abx_str_list){0};
    }
    for (size_t i = 0; i < a.count; i++)
        for (size_t k = 0; k < b.count; k++) {
            if (is_beneath(a.items[i], b.items[k]))
                items[n++] = b.items[k];
            else if (is_beneath(b.items[k], a.items[i]))
                items[n++] = a.items[i];
        }
    return (struct abx_str_list){items, n};
}

/* The first parent's roots hold as they are; each later list narrows them. */
static void narrow_roots(struct abx__load *l, struct abx_policy_rule *r,
                         const struct abx_policy_rule *parent, bool is_first)
{
    struct abx_str_list base = {&l->policy->base_dir, 1};
    struct abx_str_list own = r->paths.allow, theirs = parent->paths.allow;
    if (own.count == 0 && (is_first || theirs.count == 0)) {
        r->paths.allow = theirs;
        return;
    }
    r->paths.allow = common_roots(l, own.count ? own : base, theirs.count ? theirs : base);
    if (r->paths.allow.count == 0)
        disable(r, ABX_STR("parents:paths"));
}

static void narrow_paths(struct abx__load *l, struct abx_policy_rule *r,
                         const struct abx_policy_rule *parent, bool is_first)
{
    if (!r->takes_paths || !parent->takes_paths)
        return;
    narrow_roots(l, r, parent, is_first);
    abx__unite(l, &r->paths.deny, parent->paths.deny);
    r->paths.read_only |= parent->paths.read_only;
    r->paths.never_links |= parent->paths.never_links;
}

/* ---- limits and params ---- */

static void narrow_limits(struct abx_policy_rule *r, const struct abx_policy_rule *parent)
{
    for (int i = 0; i < ABX_LIMIT__COUNT; i++) {
        const struct abx_policy_limit *theirs = &parent->limits[i];
        struct abx_policy_limit *own = &r->limits[i];
        if (theirs->is_set && (r->endpoint->limits >> i & 1) &&
            (!own->is_set || theirs->number < own->number))
            *own = *theirs;
    }
}

static bool holds(struct abx_str_list list, struct abx_str s)
{
    for (size_t i = 0; i < list.count; i++)
        if (abx_str_eq(list.items[i], s))
            return true;
    return false;
}

static struct abx_str_list common_words(struct abx__load *l, struct abx_str_list a,
                                        struct abx_str_list b)
{
    size_t n = 0;
    struct abx_str *items = abx_arena_array(l->arena, a.count + 1, sizeof(*items));
    l->no_memory |= items == NULL;
    for (size_t i = 0; items != NULL && i < a.count; i++)
        if (holds(b, a.items[i]))
            items[n++] = a.items[i];
    return (struct abx_str_list){items, n};
}

/* How two values of a param become the narrower one. */
enum how { ALL_OF, COMMON_OR_ANY, COMMON, BOTH_TRUE, ONE_TRUE };
static const enum how hows[] = {
    [ABX_PARAM_ALLOW_COMMANDS] = COMMON_OR_ANY,
    [ABX_PARAM_ALLOW_EXTENSIONS] = COMMON_OR_ANY,
    [ABX_PARAM_ALLOW_VARS] = COMMON_OR_ANY,
    [ABX_PARAM_ALLOWED_SIGNALS] = COMMON,
    [ABX_PARAM_BLOCK_PRIVATE_NETWORKS] = ONE_TRUE,
    [ABX_PARAM_DENY_COMMANDS] = ALL_OF,
    [ABX_PARAM_DENY_EXTENSIONS] = ALL_OF,
    [ABX_PARAM_DENY_VARS] = ALL_OF,
    [ABX_PARAM_ENV_DENY] = ALL_OF,
    [ABX_PARAM_LANGUAGES] = COMMON,
    [ABX_PARAM_OVERWRITE] = BOTH_TRUE,
    [ABX_PARAM_SHELLS] = COMMON,
    [ABX_PARAM_URL_ALLOW] = COMMON_OR_ANY,
    [ABX_PARAM_URL_DENY] = ALL_OF,
};
_Static_assert(ABX_COUNTOF(hows) == ABX_PARAM__COUNT, "one way per param");

/* An empty list is "no list" there, so a common part that is empty can not be said. */
static void common_or_any(struct abx__load *l, struct abx_policy_rule *r,
                          struct abx_policy_param *own, const struct abx_policy_param *theirs)
{
    if (theirs->words.count == 0)
        return;
    if (own->words.count == 0) {
        own->words = theirs->words;
        return;
    }
    own->words = common_words(l, own->words, theirs->words);
    if (own->words.count == 0)
        disable(r, ABX_STR("parents:params"));
}

static void narrow_param(struct abx__load *l, struct abx_policy_rule *r, int which,
                         const struct abx_policy_param *theirs)
{
    struct abx_policy_param *own = &r->params[which];
    if (!own->is_set) {
        *own = *theirs;
        return;
    }
    switch (hows[which]) {
    case ALL_OF:
        abx__unite(l, &own->words, theirs->words);
        break;
    case COMMON_OR_ANY:
        common_or_any(l, r, own, theirs);
        break;
    case COMMON:
        own->words = common_words(l, own->words, theirs->words);
        if (own->number_count != theirs->number_count)
            own->number_count =
                0; /* no extension takes signals: two lists that differ allow none */
        break;
    case BOTH_TRUE:
        own->flag = own->flag && theirs->flag;
        break;
    case ONE_TRUE:
        own->flag = own->flag || theirs->flag;
        break;
    }
}

static void narrow_params(struct abx__load *l, struct abx_policy_rule *r,
                          const struct abx_policy_rule *parent)
{
    for (int i = 0; i < ABX_PARAM__COUNT; i++)
        if (parent->params[i].is_set && (r->endpoint->params >> i & 1))
            narrow_param(l, r, i, &parent->params[i]);
}

void abx__inherit(struct abx__load *l, struct abx_policy_rule *r)
{
    if (!abx_policy_is_extension(r))
        return;
    for (size_t i = 0; i < ABX_ENDPOINT_PARENTS && r->endpoint->parents[i]; i++) {
        const struct abx_policy_rule *parent = find(l->policy, r->endpoint->parents[i]);
        ABX_ASSERT(parent != NULL);
        if (!parent->enabled)
            disable(r, parent->disabled_by);
        abx__unite(l, &r->scopes, parent->scopes);
        if (parent->audit > r->audit)
            r->audit = parent->audit;
        narrow_paths(l, r, parent, i == 0);
        narrow_limits(r, parent);
        narrow_params(l, r, parent);
    }
}
