/* lib/policy/hide.c: which denied files and folders a process is not to see at all. Landlock adds
 * up what is allowed and takes nothing away again; what is denied by its name can be mounted over.
 *
 * A process may read what the file endpoints show (policy.md C2), so hidden is what none of them
 * shows: every one that reaches it denies it. The endpoint's own patterns go on top. The narrower a
 * policy, the more is hidden. Spec: policy.md C2, security.md S08. */
#include "lib/base/assert.h"
#include "lib/policy/paths.h"
#include "lib/policy/policy_priv.h"

#include "lib/base/banned.h"

enum { HIDDEN_MAX = 64 };

/* Without them no program runs; every process has them (S06). */
static const struct abx_str systems[] = {{"/usr", 4},   {"/bin", 4},   {"/sbin", 5}, {"/lib", 4},
                                         {"/lib32", 6}, {"/lib64", 6}, {"/opt", 4},  {"/libx32", 7},
                                         {"/etc", 4},   {"/nix", 4},   {"/proc", 5}, {"/sys", 4},
                                         {"/dev", 4}};

static bool is_systems(struct abx_str path)
{
    for (size_t i = 0; i < ABX_COUNTOF(systems); i++)
        if (abx__root_holds(systems[i], path) || abx__root_holds(path, systems[i]))
            return true;
    return false;
}

/* Absolute, every component as it is: it names one file or folder. */
static bool is_literal(struct abx_str pattern)
{
    struct abx_str head = {0}, tail = {0};
    for (size_t i = 0; i < pattern.len; i++)
        if (memchr("*?[", pattern.ptr[i], 3) != NULL || pattern.ptr[i] == '\0')
            return false;
    /* A name right beneath / has no head, and is a name all the same. */
    return abx_policy_deny_head(pattern, &head, &tail) || (tail.len > 1 && tail.ptr[0] == '/');
}

static struct abx_str without_slash(struct abx_str path)
{
    while (path.len > 1 && path.ptr[path.len - 1] == '/')
        path.len--;
    return path;
}

static bool has(const struct abx_str *items, size_t count, struct abx_str item)
{
    for (size_t i = 0; i < count; i++)
        if (abx_str_eq(items[i], item))
            return true;
    return false;
}

struct candidates {
    struct abx_str items[HIDDEN_MAX];
    size_t count;
};

/* Each pattern once, in the order of the rules. */
static void gather(const struct abx_policy_rule *r, struct candidates *all,
                   struct abx_policy_view *ret)
{
    for (size_t i = 0; i < r->paths.deny.count; i++) {
        struct abx_str path = without_slash(r->paths.deny.items[i]);
        ret->has_deny = true;
        if (has(all->items, all->count, path))
            continue;
        if (!is_literal(path) || all->count == HIDDEN_MAX)
            ret->is_advisory = true;
        else
            all->items[all->count++] = path;
    }
}

static struct abx_str meaning(const struct abx__hiding *h, struct abx_str path)
{
    return h->resolve != NULL ? h->resolve(h->ctx, path, h->arena) : path;
}

static bool denies(const struct abx_policy_rule *r, struct abx_str given, struct abx_str real)
{
    return abx_policy_path_is_denied(r, given) || abx_policy_path_is_denied(r, real);
}

/* Whether the file endpoint shows the file, or anything beneath the folder. */
static bool shows(const struct abx__hiding *h, const struct abx_policy_rule *r,
                  struct abx_str given, struct abx_str real)
{
    struct abx_str root;
    if (denies(r, given, real))
        return false;
    for (size_t i = 0; abx_policy_root_at(h->policy, r, i, &root); i++) {
        struct abx_str at = meaning(h, root);
        if (at.ptr != NULL && !abx_policy_path_is_denied(r, at) &&
            (abx__root_holds(at, real) || abx__root_holds(real, at)))
            return true;
    }
    return false;
}

static bool is_shown(const struct abx__hiding *h, struct abx_str given, struct abx_str real)
{
    bool is_own = h->rule != NULL && h->rule->takes_paths &&
                  has(h->rule->paths.deny.items, h->rule->paths.deny.count, given);
    for (size_t i = 0; !is_own && i < h->policy->rule_count; i++) {
        const struct abx_policy_rule *r = &h->policy->rules[i];
        if (abx__shows_files(r, h->who) && shows(h, r, given, real))
            return true;
    }
    return false;
}

/* Something of it lies in the view: else its roots hold it already. */
static bool is_reachable(struct abx_str real, struct abx_str_list roots)
{
    for (size_t i = 0; i < roots.count; i++)
        if (abx__root_holds(roots.items[i], real) || abx__root_holds(real, roots.items[i]))
            return true;
    return false;
}

int abx__view_hide(const struct abx__hiding *h, struct abx_policy_view *ret)
{
    struct candidates *all = abx_arena_alloc(h->arena, sizeof(*all));
    struct abx_str *items = abx_arena_array(h->arena, HIDDEN_MAX, sizeof(*items));
    if (all == NULL || items == NULL)
        return -1;
    all->count = 0;
    for (size_t i = 0; i < h->policy->rule_count; i++)
        if (abx__shows_files(&h->policy->rules[i], h->who))
            gather(&h->policy->rules[i], all, ret);
    if (h->rule != NULL && h->rule->takes_paths)
        gather(h->rule, all, ret);
    for (size_t i = 0; i < all->count; i++) {
        struct abx_str real = meaning(h, all->items[i]);
        if (real.ptr == NULL || is_systems(real) || is_shown(h, all->items[i], real))
            ret->is_advisory = true;
        else if ((is_reachable(real, ret->read) || is_reachable(real, ret->write)) &&
                 !has(items, ret->hidden.count, real))
            items[ret->hidden.count++] = real;
    }
    ret->hidden.items = items;
    return 0;
}
