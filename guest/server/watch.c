/* guest/server/watch.c: GET /files/watch: what changes in a folder, as server-sent events.
 *
 * As published a change is the difference of two looks, at most one an interval; but we look only
 * after the kernel has said that something happened, and seldom enough that looking takes a tenth
 * of a processor at most. Where the kernel can not tell, every interval. server-api.md 4.4, 1.5. */
#include "guest/server/files_priv.h"

#include "guest/caps/draft.h"
#include "guest/caps/snapshot.h"
#include "guest/caps/watch.h"
#include "lib/base/assert.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum {
    LEVELS = 5, /* of a recursive watch */
    PING_MS = 15000,
    PAUSE_FACTOR = 10, /* a look that took 1 ms is followed by 10 ms of rest */
    EVENT_MAX = 1 << 20,
    ARENA_MAX = 8 << 20,
    LEAST_MS = 100,
};
static const double interval_s = 0.5, interval_max_s = 5, duration_s = 300;

/* One watch, from the judged request to the end of the last thing that it uses. */
struct watch {
    struct abx_list node; /* of the server */
    struct abx__server *server;
    struct abx__call *call; /* NULL: over */
    struct abx_policy *policy;
    const struct abx_policy_rule *rule;
    struct abx_arena arena;
    struct abx__bounds bounds; /* made by the first look */
    char *path;
    bool is_recursive;
    int64_t interval_ms, until_ms, next_look_ms, next_ping_ms;
    struct abx_timer timer;
    struct abx_watcher *watcher; /* NULL: look at every interval */
    struct abx_work work;
    struct abx_snapshot old, fresh;
    int64_t took_ms;
    int rc; /* of the look */
    bool is_looking, is_changed, is_blocked, has_begun, is_ended, is_timer_open;
};

static void watch_free(struct watch *w)
{
    abx_snapshot_done(&w->old);
    abx_snapshot_done(&w->fresh);
    abx_policy_unref(w->policy);
    abx_arena_done(&w->arena);
    free(w);
}

static void release(struct watch *w)
{
    if (w->call == NULL && !w->is_looking && !w->is_timer_open)
        watch_free(w);
}

static void on_timer_closed(void *owner)
{
    struct watch *w = owner;
    w->is_timer_open = false;
    release(w);
}

static void on_close(struct abx__call *c, bool aborted)
{
    struct watch *w = c->data;
    (void)aborted;
    w->call = NULL;
    abx_list_remove(&w->node);
    abx_watcher_close(w->watcher);
    w->watcher = NULL;
    abx_timer_close(&w->timer, on_timer_closed);
    release(w);
}

/* ---- looking, on the pool ---- */

/* Files that uploads write before they take their name. */
static bool is_ours(struct abx_str name)
{
    return abx_str_starts(name, ".abx-put-") || abx_str_starts(name, ABX_DRAFT_PREFIX);
}

static bool shows(void *bounds, const struct abx_tree_entry *e)
{
    return !is_ours(e->name) && abx__bounds_shows(bounds, e->path, S_ISLNK(e->st.st_mode));
}

static void look(struct abx_work *work)
{
    struct watch *w = work->owner;
    const struct abx_tree_walk walk = {
        .path = abx_str(w->path), .depth = w->is_recursive ? LEVELS : 1, .shows = shows};
    int64_t began_ms = abx_time_mono_ms();
    w->rc = w->bounds.roots || abx__bounds_init(&w->bounds, w->policy, w->rule, &w->arena) == 0
                ? abx_snapshot_take(&w->fresh, &walk, &w->bounds, ABX_SNAPSHOT_ENTRIES)
                : -ENOMEM;
    w->took_ms = abx_time_mono_ms() - began_ms;
}

/* ---- telling ---- */

static void send_event(struct watch *w, const char *name, const struct abx_buf *json)
{
    if (!abx__call_sse_event(w->call, name, abx_buf_str(json)))
        w->is_blocked = true;
}

static void end(struct watch *w, const char *reason)
{
    ABX_AUTO_BUF json;
    struct abx_json_writer j;
    abx_buf_init(&json, EVENT_MAX);
    abx_json_writer_init(&j, &json);
    abx_json_begin_object(&j);
    abx_json_kv_c(&j, "reason", reason);
    abx_json_end_object(&j);
    send_event(w, "end", &json);
    w->is_ended = true;
    abx__call_sse_end(w->call);
}

static void tell_path(struct watch *w, const char *name)
{
    ABX_AUTO_BUF json;
    struct abx_json_writer j;
    abx_buf_init(&json, EVENT_MAX);
    abx_json_writer_init(&j, &json);
    abx_json_begin_object(&j);
    abx_json_kv_c(&j, "path", w->path);
    abx_json_end_object(&j);
    send_event(w, name, &json);
}

static void tell_change(void *ctx, enum abx_snapshot_kind kind, const struct abx_snapshot_entry *e)
{
    static const char *const kinds[] = {[ABX_SNAPSHOT_CREATED] = "created",
                                        [ABX_SNAPSHOT_MODIFIED] = "modified",
                                        [ABX_SNAPSHOT_DELETED] = "deleted"};
    struct watch *w = ctx;
    ABX_AUTO_BUF json;
    struct abx_json_writer j;
    abx_buf_init(&json, EVENT_MAX);
    abx_json_writer_init(&j, &json);
    abx_json_begin_object(&j);
    abx_json_kv_c(&j, "type", kinds[kind]);
    abx_json_kv_str(&j, "path", e->path);
    abx_json_kv_bool(&j, "is_dir", e->is_folder);
    abx_json_end_object(&j);
    send_event(w, "change", &json);
}

/* ---- the course of it ---- */

static void on_looked(struct abx_work *work);

static void start_look(struct watch *w)
{
    w->is_changed = false;
    w->is_looking = true;
    if (abx_work_start(&w->work, &w->server->loop, look, on_looked, w, NULL) < 0) {
        w->is_looking = false;
        abx_http_abort(w->call->req);
    }
}

static void arm(struct watch *w)
{
    int64_t now = abx_time_mono_ms(), at = w->until_ms;
    bool waits_to_look = (w->is_changed || w->watcher == NULL) && !w->is_blocked;
    if (waits_to_look && w->next_look_ms < at)
        at = w->next_look_ms;
    if (w->next_ping_ms < at)
        at = w->next_ping_ms;
    if (w->has_begun && !w->is_ended && !w->is_looking && w->call)
        abx_timer_start(&w->timer, at > now ? (uint64_t)(at - now) : 0, 0);
}

static void on_time(struct abx_timer *t)
{
    struct watch *w = t->owner;
    int64_t now = abx_time_mono_ms();
    bool is_over = now >= w->until_ms, wants_look = w->is_changed || w->watcher == NULL;
    if (w->is_ended)
        return;
    if (wants_look && !w->is_blocked && (is_over || now >= w->next_look_ms)) {
        start_look(w);
        return;
    }
    if (is_over) {
        end(w, "timeout");
        return;
    }
    if (now >= w->next_ping_ms) {
        abx__call_sse_ping(w->call);
        w->next_ping_ms = now + PING_MS;
    }
    arm(w);
}

static void on_drain(struct abx__call *c)
{
    struct watch *w = c->data;
    w->is_blocked = false;
    arm(w);
}

/* A list that is cut says nothing about what has gone or come. */
static void tell(struct watch *w)
{
    if (w->old.is_cut || w->fresh.is_cut)
        tell_path(w, "overflow");
    else
        abx_snapshot_diff(&w->old, &w->fresh, tell_change, w);
}

static void begin(struct watch *w)
{
    w->has_begun = true;
    abx__call_sse_begin(w->call);
    w->is_ended = abx_str_is(w->call->req->head->method, "HEAD");
    if (w->is_ended)
        abx__call_sse_end(w->call);
    else
        tell_path(w, "ready");
}

static void on_looked(struct abx_work *work)
{
    struct watch *w = work->owner;
    int64_t now = abx_time_mono_ms(), rest = w->took_ms * PAUSE_FACTOR;
    w->is_looking = false;
    if (w->call == NULL) {
        release(w);
        return;
    }
    if (w->is_ended)
        return;
    if (w->rc < 0) {
        if (w->has_begun)
            abx_http_abort(w->call->req);
        else
            abx__call_fail(w->call, 500, "MemoryError", "out of memory");
        return;
    }
    if (w->has_begun)
        tell(w);
    else
        begin(w);
    abx_snapshot_done(&w->old);
    w->old = w->fresh;
    w->fresh = (struct abx_snapshot){0};
    w->next_look_ms = now + (rest > w->interval_ms ? rest : w->interval_ms);
    if (now >= w->until_ms && !w->is_ended)
        end(w, "timeout");
    else
        arm(w);
}

/* ---- the kernel's word ---- */

static void on_start(struct abx_watcher *watcher, const struct abx_error *err)
{
    struct watch *w = abx_watcher_owner(watcher);
    if (err) { /* too many folders, no inotify left: every interval, then */
        abx_watcher_close(w->watcher);
        w->watcher = NULL;
    }
    start_look(w);
}

static void on_events(struct abx_watcher *watcher)
{
    struct watch *w = abx_watcher_owner(watcher);
    struct abx_watch_event e;
    while (abx_watcher_take(watcher, &e))
        w->is_changed = true;
    if (abx_watcher_error(watcher)) {
        abx_watcher_close(w->watcher);
        w->watcher = NULL;
    }
    arm(w);
}

static const struct abx_watch_ops ops = {.on_start = on_start, .on_events = on_events};

static void open_watcher(struct watch *w)
{
    struct abx__server *s = w->server;
    struct abx_error err = {0};
    const struct abx_watch_spec spec = {
        .path = w->path, .is_recursive = w->is_recursive, .allows_network = true};
    if (s->is_stopping ||
        (s->watches == NULL && abx_watches_new(&s->loop, &s->watches, &err) < 0) ||
        abx_watcher_open(s->watches, &spec, &ops, w, &w->watcher, &err) < 0)
        start_look(w); /* without the kernel */
}

void abx__watch_stop(struct abx__server *s)
{
    struct watch *w;
    abx_list_foreach(w, &s->watching, struct watch, node)
    {
        abx_watcher_close(w->watcher);
        w->watcher = NULL;
        if (w->has_begun && !w->is_ended)
            end(w, "shutdown");
        else if (!w->has_begun && !w->is_ended)
            abx__call_fail(w->call, 503, "ResourceError", "the server stops");
        w->is_ended = true;
    }
    abx_watches_close(s->watches);
    s->watches = NULL;
}

/* ---- the request ---- */

struct request {
    double interval_s, timeout_s;
    struct abx_str path; /* judged */
};

static bool read_seconds(struct abx__job *j, const char *name, double *inout)
{
    struct abx_str text = abx__job_query(j, name);
    if (text.ptr == NULL)
        return true;
    return abx__files_seconds(text, inout) ||
           abx__job_fail(j, 400, "ValueError", "query parameter '%s' is no number of seconds",
                         name);
}

static double clamp(double v, double low, double high)
{
    return v < low ? low : v > high ? high : v;
}

static void watch_run(struct abx__job *j)
{
    struct request *r = j->data;
    struct abx__bounds bounds;
    struct abx__path_ask ask = {.op = ABX_OP_READ};
    struct stat st;
    r->interval_s = interval_s;
    r->timeout_s = duration_s;
    if (!abx__files_query_path(j, &ask.path) || !read_seconds(j, "interval", &r->interval_s) ||
        !read_seconds(j, "timeout", &r->timeout_s) || !abx__files_judge(j, &ask, &bounds, &r->path))
        return;
    double most = abx_policy_limit_f64(j->rule, ABX_LIMIT_MAX_DURATION_SECONDS, duration_s);
    r->interval_s = clamp(r->interval_s, (double)LEAST_MS / 1000, interval_max_s);
    r->timeout_s = r->timeout_s < most ? r->timeout_s : most;
    r->timeout_s = clamp(r->timeout_s, (double)LEAST_MS / 1000, 1e9);
    int rc = abx_tree_stat(r->path, &st);
    if (rc < 0)
        abx__files_fail_absent(j, rc, r->path);
    else if (!S_ISDIR(st.st_mode))
        abx__files_not_found(j, "no such directory", r->path);
}

static void watch_done(struct abx__job *j)
{
    const struct request *r = j->data;
    struct abx__call *c = j->call;
    struct watch *w = calloc(1, sizeof(*w));
    if (w == NULL) {
        abx__call_fail(c, 500, "MemoryError", "out of memory");
        return;
    }
    abx_arena_init(&w->arena, ARENA_MAX);
    w->path = abx_arena_c(&w->arena, r->path);
    if (w->path == NULL) {
        abx_arena_done(&w->arena);
        free(w);
        abx__call_fail(c, 500, "MemoryError", "out of memory");
        return;
    }
    w->server = c->server;
    w->call = c;
    w->policy = abx_policy_ref(c->policy);
    w->rule = c->rule;
    w->is_recursive = abx__files_is_yes(abx__call_query(c, "recursive"));
    w->interval_ms = (int64_t)(r->interval_s * 1000);
    w->until_ms = abx_time_mono_ms() + (int64_t)(r->timeout_s * 1000);
    w->next_ping_ms = abx_time_mono_ms() + PING_MS;
    abx_timer_init(&w->timer, &w->server->loop, on_time, w);
    w->is_timer_open = true;
    abx_list_push(&c->server->watching, &w->node);
    c->data = w;
    c->on_close = on_close;
    c->on_drain = on_drain;
    open_watcher(w);
}

void abx__watch_get(struct abx__call *c)
{
    struct abx__job *j = abx__job_new(c, watch_run, 0);
    if (j == NULL)
        return;
    abx__job_data(j, sizeof(struct request));
    j->done = watch_done;
    abx__job_start(j);
}
