/* guest/server/git.c: the git endpoints: the path judged on the pool, then git's programs one after
 * the other: what must be disarmed, what a diff touches, the answer. server-api.md 4.7, security
 * S18, policy.md P7. */
#include "guest/server/git_priv.h"

#include "guest/server/helper.h"
#include "lib/base/assert.h"
#include "lib/policy/paths.h"
#include "lib/proc/confine.h"

#include <stdio.h>
#include <sys/stat.h>

#include "lib/base/banned.h"

enum { TIMEOUT_MS = 30000, ARENA_MAX = 8 << 20, SETTINGS_MAX = 65536, NAMES_MAX = 8 << 20 };

/* ---- the plan, on the pool ---- */

static bool git_error(struct abx__job *j, const char *text, struct abx_str what)
{
    return abx__job_fail(j, 400, "GitError", "fatal: %s: %.*s", text,
                         (int)(what.len < 400 ? what.len : 400), what.ptr);
}

static bool no_memory(struct abx__job *j)
{
    return abx__job_fail(j, 500, "MemoryError", "out of memory");
}

static bool is_root(void *ctx, struct abx_str folder)
{
    return abx__bounds_is_root(ctx, folder);
}

/* A repository elsewhere (its file says where) is used only inside the roots. */
static bool check_repository(struct abx__job *j, const struct abx__bounds *b, struct abx_str *dir)
{
    struct abx_policy_verdict v = {0};
    struct abx__path_ask ask = {.path = *dir, .op = ABX_OP_READ, .field = "repository"};
    struct abx_str resolved = *dir;
    if (abx__bounds_judge(b, &ask, &resolved, &v)) {
        *dir = resolved;
        return true;
    }
    if (v.code != ABX_POLICY_PATH_NOT_ALLOWED) /* a deny pattern names files, ".git" may be one */
        return true;
    j->verdict = v;
    return false;
}

/* A place that the repository's own files name: commondir, alternates, links. */
struct links {
    struct abx__job *job;
    const struct abx__bounds *bounds;
    bool is_denied_itself; /* a deny pattern means all repositories */
};

static bool check_link(void *ctx, struct abx_str *inout_path)
{
    struct links *l = ctx;
    struct abx_policy_verdict v = {0};
    struct abx__path_ask ask = {.path = *inout_path, .op = ABX_OP_READ, .field = "repository"};
    struct abx_str resolved = *inout_path;
    if (!abx__bounds_judge(l->bounds, &ask, &resolved, &v) &&
        (v.code != ABX_POLICY_PATH_DENIED || !l->is_denied_itself)) {
        l->job->verdict = v;
        return false;
    }
    *inout_path = resolved;
    return true;
}

static bool check_links(struct abx__job *j, const struct abx__bounds *b,
                        const struct abx_git_place *place)
{
    struct abx_policy_verdict v = {0};
    struct abx__path_ask ask = {.path = place->dir, .op = ABX_OP_READ};
    struct abx_str resolved;
    struct links l = {j, b, !abx__bounds_judge(b, &ask, &resolved, &v)};
    if (abx_git_check_links(place, check_link, &l, &j->arena))
        return true;
    if (j->verdict.code == ABX_POLICY_OK)
        return git_error(j, "what it borrows from others can not be read", place->dir);
    return false;
}

static bool keep_roots(struct abx__job *j, const struct abx__bounds *b, struct abx__git_plan *p)
{
    p->roots = abx_arena_array(&j->arena, b->root_count, sizeof(*p->roots));
    if (p->roots == NULL)
        return no_memory(j);
    for (size_t i = 0; i < b->root_count; i++)
        p->roots[p->root_count++] = b->roots[i].real;
    return true;
}

static bool has_parent_step(struct abx_str path)
{
    struct abx_str part;
    while (abx_str_split(&path, '/', &part))
        if (abx_str_is(part, ".."))
            return true;
    return false;
}

static bool is_folder(struct abx__job *j, struct abx_str path)
{
    struct stat st;
    const char *text = abx_arena_c(&j->arena, path);
    return text && stat(text, &st) == 0 && S_ISDIR(st.st_mode);
}

/* `file`, beneath the folder: judged as a path, used as a literal one. With deny patterns it must
 * be there and be no folder, which could hold what is denied (P7). */
static bool plan_file(struct abx__job *j, const struct abx__bounds *b, struct abx__git_plan *p)
{
    struct abx_str file = abx__job_query(j, "file"), resolved;
    bool has_deny = j->rule->paths.deny.count > 0;
    p->file = file;
    if (file.ptr == NULL && has_deny && p->verb->shows_content) {
        j->verdict.endpoint = j->rule->id;
        return abx_policy_deny(&j->verdict, ABX_POLICY_PATH_DENIED,
                               "paths are denied here: name one 'file'");
    }
    if (file.ptr == NULL)
        return !p->verb->needs_file ||
               abx__job_fail(j, 400, "ValueError", "query parameter 'file' is missing");
    struct abx_str full = file;
    if (file.ptr[0] != '/')
        full = abx_str(
            abx_arena_printf(&j->arena, "%.*s/%.*s", ABX_STR_FMT(p->path), ABX_STR_FMT(file)));
    struct abx__path_ask ask = {
        .path = full, .op = ABX_OP_READ, .field = "file", .keep_last = true};
    if (full.ptr == NULL)
        return no_memory(j);
    if (!abx__bounds_judge(b, &ask, &resolved, &j->verdict))
        return false;
    if (has_parent_step(file))
        return abx__job_fail(j, 400, "ValueError", "'file' must not hold '..'");
    if (has_deny && is_folder(j, resolved)) {
        j->verdict.endpoint = j->rule->id;
        return abx_policy_deny(&j->verdict, ABX_POLICY_PATH_DENIED,
                               "'file' is a folder, and paths in it may be denied");
    }
    return true;
}

static bool plan_place(struct abx__job *j, struct abx__bounds *b, struct abx__git_plan *p)
{
    if (!is_folder(j, p->path))
        return git_error(j, "cannot change to the folder, it is none", p->path);
    if (!abx_git_find(p->path, is_root, b, &j->arena, &p->place))
        return git_error(j, "not a git repository (or any of its parents within the roots)",
                         p->path);
    if (p->place.top.len == 0 && p->verb->needs_tree)
        return git_error(j, "this operation must be run in a work tree", p->path);
    return check_repository(j, b, &p->place.dir) && check_links(j, b, &p->place) &&
           keep_roots(j, b, p);
}

static void plan(struct abx__job *j)
{
    struct abx__git_plan *p = j->data;
    struct abx__bounds *b = abx_arena_alloc(&j->arena, sizeof(*b));
    struct abx__path_ask ask = {.path = abx__job_query(j, "path"), .op = ABX_OP_READ};
    if (ask.path.ptr == NULL)
        ask.path = ABX_STR(".");
    if (b == NULL || abx__bounds_init(b, j->policy, j->rule, &j->arena) < 0) {
        no_memory(j);
        return;
    }
    if (!abx__bounds_judge(b, &ask, &p->path, &j->verdict))
        return;
    abx__job_note(j, p->path);
    if (plan_file(j, b, p))
        plan_place(j, b, p);
}

/* ---- the runs, on the loop ---- */

void abx__git_no_memory(struct abx__git *g)
{
    abx__call_fail(g->call, 500, "MemoryError", "out of memory");
}

/* Git quotes the first line of a file that blame.ignoreRevsFile names, whichever that is. */
static struct abx_str without_quotes(struct abx_str said)
{
    return abx_str_starts(said, "fatal: invalid object name: ")
               ? ABX_STR("fatal: blame.ignoreRevsFile names a file that is no list of commits")
               : said;
}

/* What git itself says, without the line's end. */
static void fail(struct abx__git *g, const struct abx__helper_result *r)
{
    struct abx_str said = without_quotes(r->errs);
    while (said.len && (said.ptr[said.len - 1] == '\n' || said.ptr[said.len - 1] == '\r'))
        said = abx_str_sub(said, 0, said.len - 1);
    if (r->by_deadline)
        abx__call_fail(g->call, 408, "TimeoutError", "git did not end in %d s", TIMEOUT_MS / 1000);
    else if (said.len)
        abx__call_fail(g->call, 400, "GitError", "%.*s", (int)(said.len < 900 ? said.len : 900),
                       said.ptr);
    else
        abx__call_fail(g->call, 400, "GitError", "git ended with %d", r->exit_code);
}

static void on_end(struct abx__call *c, void *arg, const struct abx__helper_result *r)
{
    struct abx__git *g = arg;
    (void)c;
    if (r->by_deadline || r->exit_code != 0)
        fail(g, r);
    else
        g->next(g, r->out, r->is_out_cut);
}

/* Starts the words, once the settings that they carry have been added. */
static void start(struct abx__git *g, struct abx_git_words *w, size_t max,
                  abx__helper_done_fn *done)
{
    char **env = NULL, **base = NULL;
    base = abx__environment_of(&g->call->who, NULL, 0, w->arena);
    if (base)
        env = abx_git_environment(base, &g->plan.place, w->arena);
    const char *cwd = abx_arena_c(w->arena, g->plan.path);
    const struct abx_confine *held = NULL;
    struct abx_error err = {0};
    if (w->argv == NULL || env == NULL || cwd == NULL) {
        abx__git_no_memory(g);
        return;
    }
    if (abx__git_hold(g, &held, &err) < 0) {
        abx__call_fail(g->call, 500, "OSError", "%s", err.msg);
        return;
    }
    struct abx__helper_spec spec = {.program = "git",
                                    .argv = w->argv,
                                    .envp = env,
                                    .cwd = cwd,
                                    .confine = held,
                                    .timeout_ms = TIMEOUT_MS,
                                    .max = max};
    abx__helper_run(g->call, &spec, done, g);
    abx_confine_unref(held); /* the child has it */
}

void abx__git_start(struct abx__git *g, const char *const *words, size_t max,
                    void (*next)(struct abx__git *g, struct abx_str out, bool is_cut))
{
    struct abx_arena a;
    struct abx_git_words w;
    g->next = next;
    abx_arena_init(&a, ARENA_MAX);
    abx_git_begin(&w, &a);
    if (!abx_git_add_disarmed(&w, g->settings)) {
        abx__call_fail(g->call, 400, "GitError", "the repository's configuration is too odd");
    } else {
        abx_git_add_all(&w, words);
        start(g, &w, max, on_end);
    }
    abx_arena_done(&a);
}

/* A denied name among those that a diff touches: a folder that is tracked and gone, a rename. */
static bool is_shown(void *ctx, struct abx_str path)
{
    const struct abx__git *g = ctx;
    ABX_AUTO_BUF full;
    abx_buf_init(&full, 65536);
    abx_buf_put_str(&full, g->plan.place.top);
    abx_buf_put_byte(&full, '/');
    abx_buf_put_str(&full, path);
    return !abx_buf_failed(&full) && !abx_policy_path_is_denied(g->call->rule, abx_buf_str(&full));
}

bool abx__git_read_names(struct abx__git *g, struct abx_str *inout_text, bool is_cut)
{
    bool has_deny = g->call->rule->paths.deny.count > 0;
    if (abx_git_numstat(inout_text, &g->stats, has_deny ? is_shown : NULL, g) &&
        !(has_deny && is_cut))
        return true;
    struct abx_policy_verdict v = {.endpoint = g->call->rule->id};
    abx_policy_deny(&v, ABX_POLICY_PATH_DENIED, "the diff touches a denied path");
    abx__call_deny(g->call, &v);
    return false;
}

static void on_settings(struct abx__call *c, void *arg, const struct abx__helper_result *r)
{
    struct abx__git *g = arg;
    if (r->by_deadline || r->exit_code > 1 || r->exit_code < 0) { /* 1: there are none */
        fail(g, r);
        return;
    }
    if (r->is_out_cut) {
        abx__call_fail(c, 400, "GitError", "the repository's configuration is too long");
        return;
    }
    g->settings = r->out.len ? abx_arena_str(c->req->arena, r->out) : ABX_STR("");
    if (g->settings.ptr == NULL)
        abx__git_no_memory(g);
    else
        g->plan.verb->run(g);
}

static bool keep(struct abx_arena *a, struct abx_str *s)
{
    if (s->ptr == NULL)
        return true;
    *s = s->len ? abx_arena_str(a, *s) : ABX_STR("");
    return s->ptr != NULL;
}

static bool keep_all(struct abx_arena *a, struct abx__git_plan *p)
{
    struct abx_str *roots = abx_arena_array(a, p->root_count, sizeof(*roots));
    for (size_t i = 0; roots && i < p->root_count; i++) {
        roots[i] = p->roots[i];
        if (!keep(a, &roots[i]))
            return false;
    }
    p->roots = roots;
    return roots && keep(a, &p->path) && keep(a, &p->file) && keep(a, &p->place.top) &&
           keep(a, &p->place.dir);
}

/* The job goes: what is needed further on moves to the request. */
static void planned(struct abx__job *j)
{
    struct abx__call *c = j->call;
    struct abx_arena *ra = c->req->arena, a;
    struct abx_git_words w;
    struct abx__git *g = abx_arena_alloc(ra, sizeof(*g));
    const struct abx__git_plan *p = j->data;
    if (g)
        *g = (struct abx__git){.call = c, .plan = *p};
    if (g == NULL || !keep_all(ra, &g->plan)) {
        abx__call_fail(c, 500, "MemoryError", "out of memory");
        return;
    }
    abx_arena_init(&a, ARENA_MAX);
    abx_git_ask_settings(&w, &a);
    start(g, &w, SETTINGS_MAX, on_settings);
    abx_arena_done(&a);
}

void abx__git_serve(struct abx__call *c, const struct abx__git_verb *verb)
{
    struct abx__job *j = abx__job_new(c, plan, 4096);
    struct abx__git_plan *p = j ? abx__job_data(j, sizeof(*p)) : NULL;
    if (p)
        p->verb = verb;
    if (j == NULL)
        return;
    j->done = planned;
    abx__job_start(j);
}
