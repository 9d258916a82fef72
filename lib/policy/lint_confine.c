/* lib/policy/lint_confine.c: findings about several callers side by side, and about `confine`.
 * Spec: policy.md C6 (LX8, LX15, LX19, LX21, LX23). */
#include "lib/base/assert.h"
#include "lib/policy/lint_priv.h"

#include "lib/base/banned.h"

enum { CALLERS_MAX = 32, SHOWN = 60 };

struct caller {
    struct abx_policy_identity who;
    struct abx_policy_view view;
};
/* Views by text: links are what they are only where the server runs. */
struct callers {
    struct caller items[CALLERS_MAX];
    size_t count;
};

static bool gather(const struct abx_policy *p, struct abx_arena *a, struct callers *all)
{
    struct abx_policy_identity who;
    for (size_t i = 0; all->count < CALLERS_MAX && abx_policy_identity_at(p, i, &who); i++) {
        struct caller *c = &all->items[all->count++];
        c->who = who;
        if (abx_policy_view(p, NULL, &who, NULL, NULL, a, &c->view) < 0)
            return false;
    }
    return true;
}

static bool is_beneath(struct abx_str path, struct abx_str root)
{
    if (abx_str_is(root, "/"))
        return true;
    return path.len >= root.len && memcmp(path.ptr, root.ptr, root.len) == 0 &&
           (path.len == root.len || path.ptr[root.len] == '/');
}

static int shown(struct abx_str s)
{
    return (int)(s.len < SHOWN ? s.len : SHOWN);
}

static void lint_root(const struct abx__lint *l, const struct caller *narrow,
                      const struct caller *other, struct abx_str root)
{
    for (size_t i = 0; i < narrow->view.write.count; i++) {
        struct abx_str writable = narrow->view.write.items[i];
        if (!is_beneath(root, writable) || root.len <= writable.len)
            continue;
        abx__fault(l, "LX19", NULL, "'%.*s' may write %.*s, and so replace %.*s, a root of '%.*s'",
                   shown(narrow->who.id), narrow->who.id.ptr, shown(writable), writable.ptr,
                   shown(root), root.ptr, shown(other->who.id), other->who.id.ptr);
        return;
    }
}

/* A root that is replaced by a link before the next start leads its owner astray (S17). */
static void lint_roots_of_others(const struct abx__lint *l, const struct caller *narrow,
                                 const struct caller *other)
{
    const struct abx_policy *p = l->policy;
    for (size_t i = 0; i < p->rule_count; i++)
        for (size_t k = 0; k < p->rules[i].paths.allow.count; k++)
            if (!abx_policy_is_extension(&p->rules[i]) && abx__reaches(&p->rules[i], &other->who))
                lint_root(l, narrow, other, p->rules[i].paths.allow.items[k]);
}

/* The start-up files of a shell, hooks of a repository, modules: S14. */
static void lint_home(const struct abx__lint *l, const struct caller *narrow)
{
    struct abx_str home = l->policy->base_dir;
    for (size_t i = 0; i < narrow->view.write.count; i++)
        if (is_beneath(home, narrow->view.write.items[i])) {
            abx__warn(l, "LX15", NULL,
                      "'%.*s' may write %.*s, where a wider identity starts programs and reads its "
                      "start-up files; give it a folder beneath",
                      shown(narrow->who.id), narrow->who.id.ptr, shown(home), home.ptr);
            return;
        }
}

static void lint_pairs(const struct abx__lint *l, const struct callers *all)
{
    for (size_t i = 0; i < all->count; i++) {
        bool has_wider = false;
        if (all->items[i].who.is_wide)
            continue;
        for (size_t k = 0; k < all->count; k++) {
            if (k == i)
                continue;
            has_wider = has_wider || all->items[k].who.is_wide;
            lint_roots_of_others(l, &all->items[i], &all->items[k]);
        }
        if (has_wider)
            lint_home(l, &all->items[i]);
    }
}

static void lint_privileges(const struct abx__lint *l, const struct callers *all)
{
    const struct abx_policy_confine *c = &l->policy->confine;
    const struct abx_json_node *node = abx_json_tree_get(l->policy->root, "confine");
    if (c->mode == ABX_CONFINE_OFF || all->count < 2)
        return;
    if (c->nested_pty)
        abx__warn(l, "LX21", node,
                  "nested_pty: every identity can read the terminals of the others");
    if (!c->privileged)
        return;
    abx__fault(l, "LX8", node,
               "privileged: a wide identity with root can undo what holds the others");
    for (size_t i = 0; i < all->count; i++)
        if (all->items[i].view.is_privileged)
            abx__warn(l, "LX23", node, "'%.*s' is not confined, beside others that are",
                      shown(all->items[i].who.id), all->items[i].who.id.ptr);
}

void abx__lint_confine(const struct abx__lint *l)
{
    struct abx_arena a;
    struct callers all = {.count = 0};
    abx_arena_init(&a, 16 << 20);
    if (gather(l->policy, &a, &all)) {
        lint_pairs(l, &all);
        lint_privileges(l, &all);
    }
    abx_arena_done(&a);
}
