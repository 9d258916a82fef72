/* lib/policy/view.c: what a process may reach that is started for an identity through an endpoint.
 * Spec: policy.md C2; security.md S04, S05, S10, S11, S30. */
#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "lib/policy/confine.h"
#include "lib/policy/paths.h"
#include "lib/policy/policy_priv.h"

#include "lib/base/banned.h"

enum { PATH_BYTES = 32768, ROOTS_MAX = 512 };

static const char *const writers[] = {"files_mkdir", "files_upload_stream", "files_delete",
                                      "files_move"};

bool abx_policy_runs_programs(const struct abx_policy_rule *rule)
{
    static const char *const others[] = {"run_command", "packages"};
    if (rule->endpoint == NULL) /* a route of user code */
        return true;
    for (size_t i = 0; i < ABX_COUNTOF(others); i++)
        if (abx_str_is(rule->id, others[i]))
            return true;
    return (rule->endpoint->flags & ABX_EP_EXEC) || rule->group == ABX_GROUP_TERMINAL ||
           rule->group == ABX_GROUP_DEV_TOOLS || rule->group == ABX_GROUP_BROWSER ||
           rule->group == ABX_GROUP_AGENTS;
}

struct abx_policy_identity abx_policy_document_identity(void)
{
    static const struct abx_str everything[] = {{"*", 1}};
    return (struct abx_policy_identity){.id = ABX_STR("document"),
                                        .scopes = {everything, 1},
                                        .index = ABX_POLICY_ANONYMOUS,
                                        .is_wide = true};
}

bool abx_policy_keeps_privileges(const struct abx_policy *p, const struct abx_policy_identity *who)
{
    return p->confine.privileged && who->is_wide;
}

/* ---- roots ---- */

/* A set of folders, none beneath another. */
struct roots {
    struct abx_str items[ROOTS_MAX];
    size_t count;
    bool is_full;
};
struct builder {
    const struct abx_policy *policy;
    abx_policy_resolve_fn *resolve;
    void *ctx;
    struct abx_arena *arena;
    struct roots read, write;
    bool no_memory;
};

bool abx__root_holds(struct abx_str root, struct abx_str path)
{
    if (abx_str_is(root, "/"))
        return true;
    return path.len >= root.len && memcmp(path.ptr, root.ptr, root.len) == 0 &&
           (path.len == root.len || path.ptr[root.len] == '/');
}

static void add(struct roots *set, struct abx_str path)
{
    size_t kept = 0;
    for (size_t i = 0; i < set->count; i++)
        if (abx__root_holds(set->items[i], path))
            return;
    for (size_t i = 0; i < set->count; i++)
        if (!abx__root_holds(path, set->items[i]))
            set->items[kept++] = set->items[i];
    set->count = kept;
    if (set->count == ROOTS_MAX)
        set->is_full = true; /* what does not fit is not allowed */
    else
        set->items[set->count++] = path;
}

/* What the text means now; ptr NULL: nothing. */
static struct abx_str meaning(struct builder *b, struct abx_str path)
{
    ABX_AUTO_BUF out;
    abx_buf_init(&out, PATH_BYTES);
    struct abx_str text = {0};
    if (abx_policy_path_normalise(path, ABX_STR("/"), &out))
        text = abx_arena_str(b->arena, abx_buf_str(&out));
    if (text.ptr == NULL)
        b->no_memory = true;
    return text.ptr != NULL && b->resolve != NULL ? b->resolve(b->ctx, text, b->arena) : text;
}

/* Process, kernel and device files are nobody's root. */
static bool is_special(struct abx_str path)
{
    return abx__root_holds(ABX_STR("/proc"), path) || abx__root_holds(ABX_STR("/sys"), path) ||
           abx__root_holds(ABX_STR("/dev"), path);
}

static void add_path(struct builder *b, struct roots *set, struct abx_str path)
{
    struct abx_str real = meaning(b, path);
    if (real.ptr != NULL && !is_special(real))
        add(set, real);
}

bool abx__shows_files(const struct abx_policy_rule *r, const struct abx_policy_identity *who)
{
    return r->group == ABX_GROUP_FILE_OPS && r->endpoint != NULL && !abx_policy_is_extension(r) &&
           abx__reaches(r, who);
}

static void add_roots_of(struct builder *b, struct roots *set, const struct abx_policy_rule *r)
{
    struct abx_str root;
    for (size_t i = 0; abx_policy_root_at(b->policy, r, i, &root); i++)
        add_path(b, set, root);
}

static bool is_writer(const struct abx_policy_rule *r)
{
    for (size_t i = 0; i < ABX_COUNTOF(writers); i++)
        if (abx_str_is(r->id, writers[i]))
            return !r->paths.read_only;
    return false;
}

/* R and W of policy.md C2. */
static void derive(struct builder *b, const struct abx_policy_identity *who)
{
    const struct abx_policy *p = b->policy;
    bool any = false;
    for (size_t i = 0; i < p->rule_count; i++) {
        const struct abx_policy_rule *r = &p->rules[i];
        if (!abx__shows_files(r, who))
            continue;
        any = true;
        add_roots_of(b, &b->read, r);
        if (is_writer(r))
            add_roots_of(b, &b->write, r);
    }
    if (!any)
        add_path(b, &b->write, p->base_dir);
}

/* @set := what lies in @set and in @bounds. */
static void cut(struct roots *set, const struct roots *bounds)
{
    struct roots all = *set;
    set->count = 0;
    for (size_t i = 0; i < all.count; i++)
        for (size_t k = 0; k < bounds->count; k++) {
            if (abx__root_holds(bounds->items[k], all.items[i]))
                add(set, all.items[i]);
            else if (abx__root_holds(all.items[i], bounds->items[k]))
                add(set, bounds->items[k]);
        }
}

static void cut_to_rule(struct builder *b, const struct abx_policy_rule *r)
{
    struct roots bounds = {.count = 0};
    if (r == NULL || !r->takes_paths)
        return;
    if (r->paths.read_only) {
        for (size_t i = 0; i < b->write.count; i++)
            add(&b->read, b->write.items[i]);
        b->write.count = 0;
    }
    if (r->paths.allow.count == 0)
        return;
    add_roots_of(b, &bounds, r);
    cut(&b->read, &bounds);
    cut(&b->write, &bounds);
}

static struct abx_str_list keep(struct builder *b, const struct roots *set)
{
    struct abx_str *items = abx_arena_array(b->arena, set->count + 1, sizeof(*items));
    if (items == NULL) {
        b->no_memory = true;
        return (struct abx_str_list){0};
    }
    if (set->count)
        memcpy(items, set->items, set->count * sizeof(*items));
    return (struct abx_str_list){items, set->count};
}

static bool is_everything(struct abx_str_list roots)
{
    return roots.count == 1 && abx_str_is(roots.items[0], "/");
}

/* ---- the network ---- */

/* What the document does not say is free for a wide identity (S04, S05). */
static void set_network(const struct abx_policy_network *net, struct abx_policy_view *v)
{
    static const uint16_t web[] = {80, 443};
    v->connect = net->connect;
    v->bind = net->bind;
    if (!v->connect.is_limited && v->is_narrow)
        v->connect = (struct abx_policy_ports){web, ABX_COUNTOF(web), true};
    v->no_udp = net->udp == 0;
    v->no_unix = net->unix_sockets == ABX__ABSENT ? v->is_narrow : net->unix_sockets == 0;
}

static size_t identity_count(const struct abx_policy *p)
{
    struct abx_policy_identity who;
    size_t n = 0;
    while (abx_policy_identity_at(p, n, &who))
        n++;
    return n;
}

static unsigned needs_of(const struct abx_policy *p, const struct abx_policy_view *v)
{
    bool bounds_network = v->is_narrow || p->confine.network.is_set;
    unsigned needs = (is_everything(v->write) ? 0U : ABX_LAYER_FILES) |
                     (identity_count(p) > 1 ? ABX_LAYER_SIGNALS : 0U) |
                     (bounds_network ? ABX_LAYER_NETWORK : 0U);
    return needs ? needs | ABX_LAYER_SECCOMP : 0;
}

int abx_policy_view(const struct abx_policy *p, const struct abx_policy_rule *rule,
                    const struct abx_policy_identity *who, abx_policy_resolve_fn *resolve,
                    void *ctx, struct abx_arena *a, struct abx_policy_view *ret)
{
    const struct abx_policy_confine *c = &p->confine;
    struct builder *b = abx_arena_alloc(a, sizeof(*b));
    *ret = (struct abx_policy_view){.is_narrow = !who->is_wide};
    if (b == NULL)
        return -1;
    b->policy = p;
    b->resolve = resolve;
    b->ctx = ctx;
    b->arena = a;
    derive(b, who);
    cut_to_rule(b, rule);
    for (size_t i = 0; i < c->read.count; i++)
        add_path(b, &b->read, c->read.items[i]);
    for (size_t i = 0; i < c->write.count; i++)
        add_path(b, &b->write, c->write.items[i]);
    ret->read = keep(b, &b->read);
    ret->write = keep(b, &b->write);
    if (abx__view_hide(&(struct abx__hiding){p, rule, who, resolve, ctx, a}, ret) < 0)
        return -1;
    set_network(&c->network, ret);
    ret->is_privileged = abx_policy_keeps_privileges(p, who);
    ret->needs = needs_of(p, ret);
    if (c->mode != ABX_CONFINE_OFF)
        ret->layers = ret->needs | ABX_LAYER_SIGNALS | ABX_LAYER_SECCOMP;
    return b->no_memory ? -1 : 0;
}

/* ---- what a kernel lacks ---- */

/* What the view needs, told without its roots: only the root of all needs no layer for files. */
unsigned abx__view_needs(const struct abx_policy *p, const struct abx_policy_rule *rule,
                         const struct abx_policy_identity *who)
{
    struct abx_arena a;
    struct abx_policy_view v;
    abx_arena_init(&a, 4 << 20);
    bool failed = abx_policy_view(p, rule, who, NULL, NULL, &a, &v) < 0;
    unsigned needs = failed ? ABX_LAYER_ALL : v.needs; /* without memory: nothing is open */
    if (rule->endpoint != NULL && rule->group == ABX_GROUP_BROWSER)
        needs = ABX_LAYER_ALL; /* pages are nobody's: Chromium is always held to all (S19) */
    abx_arena_done(&a);
    return needs;
}

unsigned abx_policy_missing_layers(const struct abx_policy *p, unsigned supported)
{
    struct abx_policy_identity who;
    unsigned missing = 0;
    for (size_t i = 0; abx_policy_identity_at(p, i, &who); i++)
        for (size_t k = 0; k < p->rule_count && (~supported & ABX_LAYER_ALL) != 0; k++)
            if (abx_policy_runs_programs(&p->rules[k]) && abx__reaches(&p->rules[k], &who))
                missing |= abx__view_needs(p, &p->rules[k], &who) & ~supported;
    return missing;
}
