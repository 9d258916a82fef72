/* guest/server/view.c: views compiled into confinements (view.h). Blocking, at the load of a
 * policy.
 */
#include "guest/server/view.h"

#include "guest/caps/tree.h"
#include "guest/server/chromium.h"
#include "guest/server/view_system.h"
#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/policy/paths.h"
#include "lib/proc/confine.h"
#include "lib/proc/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/banned.h"

/* lib/policy and lib/proc name the same layers. */
_Static_assert((int)ABX_LAYER_FILES == (int)ABX_CONFINE_FILES, "files");
_Static_assert((int)ABX_LAYER_SIGNALS == (int)ABX_CONFINE_SIGNALS, "signals");
_Static_assert((int)ABX_LAYER_NETWORK == (int)ABX_CONFINE_NETWORK, "network");
_Static_assert((int)ABX_LAYER_SECCOMP == (int)ABX_CONFINE_SECCOMP, "seccomp");

enum { PATH_BYTES = 32768, ARENA_BYTES = 64 << 20, OWN_ROOTS = 5, HOME_NAME = 48 };

/* One caller, whoever it is; the last is who shows no token. */
struct caller {
    struct abx_policy_identity who;
    const char *home;                /* NULL: the server's */
    struct abx_confine_scope *scope; /* NULL: of the document: each start is one of its own */
    struct abx_confine_group *group; /* NULL: there are no cgroups to be had */
};
struct root {
    struct root *next;
    struct abx__view_root shown;
};
/* Each confinement that was made, once. */
struct held {
    struct held *next;
    const struct abx_confine *confine; /* counted */
};
struct views {
    const struct abx_policy *policy; /* holds us: not counted */
    struct abx_arena arena;
    struct abx__system *system; /* counted; that of all of `held` */
    struct held *held;
    size_t held_count;
    struct abx__system_roots opened; /* its descriptors alone: those of the roots */
    struct root *roots;              /* of all views, each once */
    bool is_unbounded;               /* some view holds everything, or keeps its privileges */
    struct caller *callers;
    size_t caller_count, rule_count;
    const struct abx_confine **table; /* [caller * rule_count + rule] */
    enum abx__deny *deny;             /* the same */
    const struct abx_confine *hosts, *browser;
    const char **folders;   /* by rule */
    const char *home, *tmp; /* HOME and TMPDIR of the server; NULL: not set */
};

static void views_free(void *data)
{
    struct views *v = data;
    for (size_t i = 0; v->table && i < v->caller_count * v->rule_count; i++)
        abx_confine_unref(v->table[i]);
    abx_confine_unref(v->hosts);
    abx_confine_unref(v->browser);
    for (const struct held *h = v->held; h != NULL; h = h->next)
        abx_confine_unref(h->confine);
    abx__system_roots_done(&v->opened);
    abx__system_unref(v->system);
    abx_arena_done(&v->arena);
    free(v);
}

/* ---- callers ---- */

static int gather_callers(struct views *v)
{
    struct abx_policy_identity who;
    size_t n = 0;
    while (abx_policy_identity_at(v->policy, n, &who))
        n++;
    v->callers = abx_arena_array(&v->arena, n + 1, sizeof(*v->callers));
    if (v->callers == NULL)
        return -1;
    for (size_t i = 0; i < n; i++)
        abx_policy_identity_at(v->policy, i, &v->callers[i].who);
    /* An open route is called by "anonymous" also where no stranger may call anything else. */
    if (n == 0 || v->callers[n - 1].who.index != ABX_POLICY_ANONYMOUS)
        v->callers[n++].who =
            (struct abx_policy_identity){.id = ABX_STR("anonymous"), .index = ABX_POLICY_ANONYMOUS};
    v->caller_count = n;
    return 0;
}

static size_t caller_index(const struct views *v, const struct abx_policy_identity *who)
{
    size_t last = v->caller_count - 1;
    return who->index < last ? who->index : last;
}

/* "/tmp/abx-NAME", ours and nobody else's. */
static int make_home(struct views *v, struct caller *c, size_t index, struct abx_error *err)
{
    char name[HOME_NAME + 1];
    size_t len = c->who.id.len < HOME_NAME ? c->who.id.len : HOME_NAME;
    bool is_plain = len == c->who.id.len;
    for (size_t i = 0; i < len; i++) {
        char ch = c->who.id.ptr[i];
        bool ok = (ch >= '0' && ch <= '9') || (ch >= 'a' && ch <= 'z') ||
                  (ch >= 'A' && ch <= 'Z') || ch == '-' || ch == '_';
        name[i] = ok ? ch : '_';
        is_plain = is_plain && ok;
    }
    name[len] = '\0';
    char *path = is_plain ? abx_arena_printf(&v->arena, ABX__HOMES "/abx-%s", name)
                          : abx_arena_printf(&v->arena, ABX__HOMES "/abx-%s.%zu", name, index);
    if (path == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "confinement: out of memory");
    if (abx__home_open(path + sizeof(ABX__HOMES), err) < 0)
        return -1;
    c->home = path;
    return 0;
}

/* How many processes a caller may have: held by its cgroup, else by a limit, which counts those of
 * the user. For root the kernel does not look at that one, and memory has none. */
static int check_bounds(const struct views *v, const struct caller *c, struct abx_error *err)
{
    const struct abx_policy_confine *confine = abx_policy_confinement(v->policy);
    if (confine->mode != ABX_CONFINE_REQUIRE)
        return 0;
    if (confine->rlimits[ABX_RLIMIT_NPROC].is_set && c->group == NULL && geteuid() == 0)
        return abx_err_set(err, ABX_FAILED_PRECONDITION,
                           "\"require\", and rlimits.nproc of a server that runs as root is held "
                           "by a cgroup alone, which it can not make here");
    if (confine->rlimits[ABX_RLIMIT_MEMORY].is_set && !abx_confine_bounds_memory())
        return abx_err_set(err, ABX_FAILED_PRECONDITION,
                           "\"require\", and rlimits.memory is held by a cgroup for memory alone, "
                           "which this server can not make here");
    return 0;
}

static uint64_t bound_of(const struct abx_policy_confine *c, enum abx_rlimit which)
{
    return c->rlimits[which].is_set ? c->rlimits[which].value : 0;
}

/* Of v2 the kernel ends what is over a new bound; where it only refuses (v1), we do. */
static int bound_one(const struct caller *c, const struct abx_confine_bounds *bounds)
{
    int r = abx_confine_group_bound(c->group, bounds);
    if (r != -EBUSY)
        return r;
    abx_log(ABX_LOG_WARN, "the processes of '%.*s' have more memory than they may now: they end",
            ABX_STR_FMT(c->who.id));
    (void)abx_confine_group_kill(c->group);
    return abx_confine_group_bound(c->group, bounds);
}

int abx__views_bound(const struct abx_policy *p, struct abx_error *err)
{
    const struct views *v = abx_policy_attached(p);
    const struct abx_policy_confine *c = abx_policy_confinement(p);
    struct abx_confine_bounds bounds = {.processes = bound_of(c, ABX_RLIMIT_NPROC)};
    if (abx_confine_bounds_memory()) /* else: abx__views_memory() */
        bounds.memory_bytes = bound_of(c, ABX_RLIMIT_MEMORY);
    for (size_t i = 0; v != NULL && i < v->caller_count; i++) {
        int r = v->callers[i].group ? bound_one(&v->callers[i], &bounds) : 0;
        if (r < 0)
            return abx_err_sys(err, r, "confinement: bounds of the processes of %.*s",
                               ABX_STR_FMT(v->callers[i].who.id));
    }
    return 0;
}

const char *abx__views_memory(const struct abx_policy *p)
{
    if (abx_policy_confine(p) == ABX_CONFINE_OFF ||
        !abx_policy_confinement(p)->rlimits[ABX_RLIMIT_MEMORY].is_set)
        return "off";
    return abx_confine_bounds_memory() ? "by caller" : "unsupported";
}

static int find_callers(struct views *v, struct abx_error *err)
{
    for (size_t i = 0; i < v->caller_count; i++) {
        struct caller *c = &v->callers[i];
        if (abx__caller_bounds(c->who.id, &c->scope, &c->group) < 0)
            return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "confinement: out of memory");
        if (check_bounds(v, c, err) < 0)
            return -1;
    }
    return 0;
}

static int make_homes(struct views *v, struct abx_error *err)
{
    for (size_t i = 0; i < v->caller_count; i++)
        if (!v->callers[i].who.is_wide && make_home(v, &v->callers[i], i, err) < 0)
            return -1;
    return 0;
}

/* ---- roots ---- */

static struct abx_str resolve(void *ctx, struct abx_str path, struct abx_arena *a)
{
    (void)ctx;
    ABX_AUTO_BUF out;
    struct stat st;
    abx_buf_init(&out, PATH_BYTES);
    if (abx_tree_resolve(path, false, &out) < 0 || abx_buf_failed(&out))
        return (struct abx_str){0};
    char *text = abx_arena_c(a, abx_buf_str(&out));
    return text != NULL && lstat(text, &st) == 0 ? abx_str(text) : (struct abx_str){0};
}

/* Open while a confinement is made; the kernel keeps what it needs, but for terminals we do. */
struct opened {
    struct abx_confine_root *items;
    size_t count, cap;
};

static const struct root *find_root(const struct views *v, struct abx_str path,
                                    enum abx_confine_access access)
{
    const struct root *r = v->roots;
    while (r != NULL && (r->shown.access != access || !abx_str_is(path, r->shown.path)))
        r = r->next;
    return r;
}

static int open_root(struct views *v, struct opened *o, struct abx_str path,
                     enum abx_confine_access access, struct abx_error *err)
{
    const struct root *known = find_root(v, path, access);
    ABX_ASSERT(o->count < o->cap);
    if (known != NULL) {
        o->items[o->count++] = (struct abx_confine_root){known->shown.fd, access};
        return 0;
    }
    char *text = abx_arena_c(&v->arena, path);
    struct root *r = abx_arena_alloc(&v->arena, sizeof(*r));
    if (text == NULL || r == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "confinement: out of memory");
    int fd = abx__system_open(&v->opened, text, true);
    if (fd == -ENOENT || fd == -EACCES || fd == -ELOOP) /* gone, or not ours: not granted either */
        return 0;
    if (fd < 0)
        return abx_err_sys(err, fd, "confinement: open %s", text);
    o->items[o->count++] = (struct abx_confine_root){fd, access};
    *r = (struct root){v->roots, {text, access, fd}};
    v->roots = r;
    return 0;
}

static int open_roots(struct views *v, const struct abx_policy_view *view, const char *home,
                      struct opened *o, struct abx_error *err)
{
    o->cap = view->read.count + view->write.count + OWN_ROOTS;
    o->items = abx_arena_array(&v->arena, o->cap, sizeof(*o->items));
    if (o->items == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "confinement: out of memory");
    int r = 0;
    for (size_t i = 0; r == 0 && i < view->read.count; i++)
        r = open_root(v, o, view->read.items[i], ABX_CONFINE_READ, err);
    for (size_t i = 0; r == 0 && i < view->write.count; i++)
        r = open_root(v, o, view->write.items[i], ABX_CONFINE_WRITE, err);
    if (r == 0 && abx_policy_confinement(v->policy)->nested_pty)
        r = open_root(v, o, ABX_STR("/dev/pts"), ABX_CONFINE_DEVICE, err);
    if (r == 0 && home != NULL)
        return open_root(v, o, abx_str(home), ABX_CONFINE_WRITE, err);
    if (r == 0)
        r = open_root(v, o, ABX_STR("/tmp"), ABX_CONFINE_WRITE, err);
    return r < 0 ? r : open_root(v, o, ABX_STR("/dev/shm"), ABX_CONFINE_WRITE, err);
}

/* ---- one confinement ---- */

bool abx__view_may_mount(void)
{
    return abx_proc_has_capability(CAP_SYS_ADMIN);
}

/* With a cgroup the processes of a caller are counted there, not those of the whole user. */
static void set_limits(const struct abx_policy_confine *c, struct abx_confine_spec *spec)
{
    static const int resources[] = {[ABX_RLIMIT_NOFILE] = RLIMIT_NOFILE,
                                    [ABX_RLIMIT_NPROC] = RLIMIT_NPROC,
                                    [ABX_RLIMIT_FSIZE] = RLIMIT_FSIZE,
                                    [ABX_RLIMIT_AS] = RLIMIT_AS,
                                    [ABX_RLIMIT_CPU] = RLIMIT_CPU};
    _Static_assert(ABX_COUNTOF(resources) == ABX_RLIMIT_MEMORY, "all but that of the group");
    for (size_t i = 0; i < ABX_COUNTOF(resources); i++)
        if (c->rlimits[i].is_set && (i != ABX_RLIMIT_NPROC || spec->group == NULL))
            spec->limits[spec->limit_count++] =
                (struct abx_confine_limit){resources[i], c->rlimits[i].value};
}

static struct abx_confine_ports ports_of(const struct abx_policy_ports *p)
{
    return (struct abx_confine_ports){p->items, p->count, p->is_limited};
}

static bool is_unbounded(const struct abx_policy_view *view)
{
    return view->is_privileged || !(view->layers & ABX_LAYER_FILES);
}

/* The namespace in which what is denied is hidden (S08); -1: there is none. Failing is no error
 * where the policy does not insist: /capabilities tells. */
static int find_mounts(const struct views *v, const struct abx_policy_view *view, int *ret,
                       struct abx_error *err)
{
    *ret = -1;
    if (view->hidden.count == 0 || view->is_privileged)
        return 0;
    int fd = abx__mounts_of(view->hidden);
    if (fd >= 0) {
        *ret = fd;
        return 0;
    }
    if (fd == -ENOMEM)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "confinement: out of memory");
    if (abx__self_is_on() && abx__view_may_mount())
        return abx_err_set(err, ABX_FAILED_PRECONDITION,
                           "%.*s is to be hidden from programs, and a server that runs confined "
                           "mounts nothing any more: restart it",
                           ABX_STR_FMT(view->hidden.items[0]));
    if (abx_policy_confine(v->policy) == ABX_CONFINE_REQUIRE)
        return abx_err_sys(err, fd,
                           "\"require\", and %.*s, which is denied, can not be hidden from "
                           "programs (a mount, for which the server needs CAP_SYS_ADMIN)",
                           ABX_STR_FMT(view->hidden.items[0]));
    return 0;
}

static enum abx__deny deny_level(const struct abx_policy_view *view, int mounts_fd)
{
    bool has_files = !(view->layers & ABX_LAYER_FILES & ~abx_confine_supported());
    if (!view->has_deny)
        return ABX__DENY_NONE;
    return !view->is_advisory && !view->is_privileged && has_files &&
                   (view->hidden.count == 0 || mounts_fd >= 0)
               ? ABX__DENY_HELD
               : ABX__DENY_ADVISORY;
}

struct made {
    const struct abx_confine *confine;
    enum abx__deny deny;
};

/* With what the system has for all. */
static int hold(struct views *v, struct abx_confine_spec *spec, const struct abx_confine **ret,
                struct abx_error *err)
{
    struct held *h = abx_arena_alloc(&v->arena, sizeof(*h));
    if (h == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "confinement: out of memory");
    spec->more_roots = abx__system_items(v->system, &spec->more_root_count);
    if (abx_confine_new(spec, ret, err) < 0)
        return -1;
    *h = (struct held){v->held, abx_confine_ref(*ret)};
    v->held = h;
    v->held_count++;
    return 0;
}

static int compile(struct views *v, const struct abx_policy_view *view, const struct caller *who,
                   struct made *ret, struct abx_error *err)
{
    const struct abx_policy_confine *c = abx_policy_confinement(v->policy);
    struct opened o = {0};
    int mounts_fd;
    *ret = (struct made){NULL, deny_level(view, -1)};
    v->is_unbounded = v->is_unbounded || is_unbounded(view);
    if (view->is_privileged && !abx__view_may_mount())
        return 0; /* S11: without no_new_privs only the mighty may restrict themselves */
    if (open_roots(v, view, who->home, &o, err) < 0 || find_mounts(v, view, &mounts_fd, err) < 0)
        return -1;
    ret->deny = deny_level(view, mounts_fd);
    struct abx_confine_spec spec = {.layers = view->layers,
                                    .roots = o.items,
                                    .root_count = o.count,
                                    .connect = ports_of(&view->connect),
                                    .bind = ports_of(&view->bind),
                                    .no_udp = view->no_udp,
                                    .no_unix = view->no_unix,
                                    .scope = who->scope,
                                    .group = who->group,
                                    .mounts_fd = mounts_fd,
                                    .keeps_privileges = view->is_privileged};
    set_limits(c, &spec);
    return hold(v, &spec, &ret->confine, err);
}

/* ---- all of them ---- */

static bool has_own_paths(const struct abx_policy_rule *r)
{
    return r->takes_paths &&
           (r->paths.allow.count > 0 || r->paths.deny.count > 0 || r->paths.read_only);
}

static int make_one(struct views *v, const struct abx_policy_rule *rule, const struct caller *who,
                    struct made *ret, struct abx_error *err)
{
    struct abx_policy_view view;
    if (abx_policy_view(v->policy, rule, &who->who, resolve, NULL, &v->arena, &view) < 0)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "confinement: out of memory");
    return compile(v, &view, who, ret, err);
}

static int make_of_caller(struct views *v, size_t at, struct abx_error *err)
{
    size_t count;
    const struct caller *c = &v->callers[at];
    const struct abx_policy_rule *rules = abx_policy_rules(v->policy, &count);
    struct made whole, own;
    if (make_one(v, NULL, c, &whole, err) < 0)
        return -1;
    int r = 0;
    for (size_t i = 0; r == 0 && i < count; i++) {
        own = (struct made){abx_confine_ref(whole.confine), whole.deny};
        if (has_own_paths(&rules[i]) && abx_policy_runs_programs(&rules[i])) {
            abx_confine_unref(own.confine);
            own = (struct made){NULL, ABX__DENY_ADVISORY};
            r = make_one(v, &rules[i], c, &own, err);
        }
        v->table[at * count + i] = own.confine;
        v->deny[at * count + i] = own.deny;
    }
    abx_confine_unref(whole.confine);
    return r;
}

static int find_folders(struct views *v, struct abx_error *err)
{
    size_t count;
    struct abx_str root;
    const struct abx_policy_rule *rules = abx_policy_rules(v->policy, &count);
    v->folders = abx_arena_array(&v->arena, count + 1, sizeof(*v->folders));
    for (size_t i = 0; v->folders && i < count; i++) {
        if (rules[i].paths.allow.count == 0 || !abx_policy_root_at(v->policy, &rules[i], 0, &root))
            continue;
        root = resolve(NULL, root, &v->arena);
        v->folders[i] = root.ptr;
    }
    return v->folders ? 0 : abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "confinement: out of memory");
}

static const char *copy_variable(struct views *v, const char *name)
{
    const char *value = getenv(name);
    return value ? abx_arena_c(&v->arena, abx_str(value)) : NULL;
}

/* The system and a folder of its own: none of the document's (S19). */
static int make_browser(struct views *v, struct abx_error *err)
{
    struct abx__view_root roots[ABX__CHROMIUM_ROOTS];
    struct abx_policy_view view;
    struct opened o = {.cap = ABX__CHROMIUM_ROOTS};
    struct abx_policy_identity who = abx_policy_document_identity();
    if (!abx__chromium_is_held(v->policy))
        return 0;
    if (abx__home_open(ABX__CHROMIUM_HOME_NAME, err) < 0)
        return -1;
    o.items = abx_arena_array(&v->arena, o.cap, sizeof(*o.items));
    if (o.items == NULL ||
        abx_policy_view(v->policy, NULL, &who, resolve, NULL, &v->arena, &view) < 0)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "confinement: out of memory");
    size_t count = abx__chromium_roots(&v->arena, roots);
    for (size_t i = 0; i < count; i++)
        if (open_root(v, &o, abx_str(roots[i].path), roots[i].access, err) < 0)
            return -1;
    struct abx_confine_spec spec = {
        .roots = o.items, .root_count = o.count, .no_udp = view.no_udp, .no_unix = view.no_unix};
    if (find_mounts(v, &view, &spec.mounts_fd, err) < 0)
        return -1;
    set_limits(abx_policy_confinement(v->policy), &spec);
    abx__chromium_bound(&spec);
    return hold(v, &spec, &v->browser, err);
}

static int make_all(struct views *v, struct abx_error *err)
{
    const struct caller document = {.who = abx_policy_document_identity()};
    struct made of_hosts;
    abx_policy_rules(v->policy, &v->rule_count);
    if (gather_callers(v) == 0) {
        size_t cells = v->caller_count * v->rule_count;
        v->table = abx_arena_array(&v->arena, cells, sizeof(*v->table));
        v->deny = abx_arena_array(&v->arena, cells, sizeof(*v->deny));
    }
    if (v->table == NULL || v->deny == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "confinement: out of memory");
    v->home = copy_variable(v, "HOME");
    v->tmp = copy_variable(v, "TMPDIR");
    if (find_callers(v, err) < 0)
        return -1;
    if (make_homes(v, err) < 0 || find_folders(v, err) < 0 || abx__system_take(&v->system, err) < 0)
        return -1;
    for (size_t i = 0; i < v->caller_count; i++)
        if (make_of_caller(v, i, err) < 0)
            return -1;
    if (make_one(v, NULL, &document, &of_hosts, err) < 0)
        return -1;
    v->hosts = of_hosts.confine;
    return make_browser(v, err);
}

int abx__views_make(struct abx_policy *p, struct abx_error *err)
{
    if (abx_policy_confine(p) == ABX_CONFINE_OFF)
        return 0;
    struct views *v = calloc(1, sizeof(*v));
    if (v == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "confinement: out of memory");
    v->policy = p;
    abx_arena_init(&v->arena, ARENA_BYTES);
    if (make_all(v, err) < 0) {
        views_free(v);
        return -1;
    }
    abx_policy_attach(p, v, views_free);
    return 0;
}

/* ---- as /etc is now ---- */

/* Of this thread: a machine that is busy with something else makes nothing dearer. */
static int64_t worked_ms(void)
{
    struct timespec t;
    return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) < 0 ? 0
                                                          : t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Hundreds of callers take their time: then not at each start of an upgrade that takes minutes. */
static void rest_after(int64_t took_ms)
{
    enum { AT_ONCE_MS = 50, TIMES = 10 };
    if (took_ms > AT_ONCE_MS)
        abx__system_rest(took_ms * TIMES);
}

static int renew(const struct views *v, const struct abx__system *now)
{
    const struct abx_confine **all = calloc(v->held_count + 1, sizeof(*all));
    size_t n = 0, count;
    if (all == NULL)
        return -ENOMEM;
    for (const struct held *h = v->held; h != NULL; h = h->next)
        all[n++] = h->confine;
    const struct abx_confine_root *items = abx__system_items(now, &count);
    int r = abx_confine_renew(all, n, items, count);
    free(all);
    return r;
}

void abx__views_refresh(const struct abx_policy *p)
{
    enum { RETRY_MS = 1000 };
    struct views *v = abx_policy_attached(p);
    int64_t begun = worked_ms();
    struct abx__system *now = v ? abx__system_newer(v->system) : NULL;
    if (now == NULL)
        return;
    int r = renew(v, now);
    if (r < 0) {
        abx_log(ABX_LOG_WARN, "/etc has changed, and programs go on with what it was: %s",
                strerror(-r));
        abx__system_unref(now);
        abx__system_rest(RETRY_MS);
        return;
    }
    abx__system_unref(v->system);
    v->system = now;
    rest_after(worked_ms() - begun);
}

/* ---- asking ---- */

bool abx__views_root_at(const struct abx_policy *p, size_t at, struct abx__view_root *ret)
{
    const struct views *v = abx_policy_attached(p);
    const struct root *r = v ? v->roots : NULL;
    for (; r != NULL && at > 0; at--)
        r = r->next;
    if (r != NULL)
        *ret = r->shown;
    return r != NULL;
}

bool abx__views_are_unbounded(const struct abx_policy *p)
{
    const struct views *v = abx_policy_attached(p);
    return v == NULL || v->is_unbounded;
}

const struct abx_confine_root *abx__views_system(const struct abx_policy *p, size_t *ret_count)
{
    const struct views *v = abx_policy_attached(p);
    *ret_count = 0;
    return v ? abx__system_items(v->system, ret_count) : NULL;
}

const struct abx_confine *abx__view_of(const struct abx_policy *p,
                                       const struct abx_policy_rule *rule,
                                       const struct abx_policy_identity *who)
{
    const struct views *v = abx_policy_attached(p);
    return v ? v->table[caller_index(v, who) * v->rule_count + rule->index] : NULL;
}

int abx__view_reserve(const struct abx_policy *p, const struct abx_policy_rule *rule,
                      const struct abx_policy_identity *who)
{
    const struct abx_confine *c = abx__view_of(p, rule, who);
    return c && abx_policy_runs_programs(rule) ? abx_confine_reserve(c) : 0;
}

enum abx__deny abx__view_deny(const struct abx_policy *p, const struct abx_policy_rule *rule,
                              const struct abx_policy_identity *who)
{
    const struct views *v = abx_policy_attached(p);
    return v ? v->deny[caller_index(v, who) * v->rule_count + rule->index] : ABX__DENY_ADVISORY;
}

const struct abx_confine *abx__view_of_hosts(const struct abx_policy *p)
{
    const struct views *v = abx_policy_attached(p);
    return v ? v->hosts : NULL;
}

const struct abx_confine *abx__view_of_browser(const struct abx_policy *p)
{
    const struct views *v = abx_policy_attached(p);
    return v ? v->browser : NULL;
}

const char *abx__view_folder(const struct abx_policy *p, const struct abx_policy_rule *rule)
{
    const struct views *v = abx_policy_attached(p);
    return v ? v->folders[rule->index] : NULL;
}

/* The server's own value, or none: what a request asks for stays. */
static bool is_servers(const char *var, const char *name, const char *own)
{
    size_t len = strlen(name);
    return strncmp(var, name, len) == 0 && var[len] == '=' &&
           (own == NULL || strcmp(var + len + 1, own) == 0);
}

static bool has_name(char *const *vars, size_t count, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < count; i++)
        if (strncmp(vars[i], name, len) == 0 && vars[i][len] == '=')
            return true;
    return false;
}

int abx__view_environment(const struct abx_policy *p, const struct abx_policy_identity *who,
                          char *const *envp, struct abx__view_env *own, char ***ret_envp)
{
    const struct views *v = abx_policy_attached(p);
    const char *home = v ? v->callers[caller_index(v, who)].home : NULL;
    size_t n = 0, kept = 0;
    if (home == NULL)
        return 0;
    while (envp[n] != NULL)
        n++;
    char **out = calloc(n + 3, sizeof(*out));
    if (out == NULL)
        return -1;
    for (size_t i = 0; i < n; i++)
        if (!is_servers(envp[i], "HOME", v->home) && !is_servers(envp[i], "TMPDIR", v->tmp))
            out[kept++] = envp[i];
    snprintf(own->home, sizeof(own->home), "HOME=%s", home);
    snprintf(own->tmp, sizeof(own->tmp), "TMPDIR=%s", home);
    size_t given = kept;
    if (!has_name(out, given, "HOME"))
        out[kept++] = own->home;
    if (!has_name(out, given, "TMPDIR"))
        out[kept++] = own->tmp;
    *ret_envp = out;
    return 0;
}
