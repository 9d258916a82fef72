/* guest/envd/rpc_watch.c: WatchDir, and the watchers that are asked (CreateWatcher,
 * GetWatcherEvents, RemoveWatcher): thin over guest/caps/watch (envd.md 6.4, 6.5). */
#include "guest/envd/envd_priv.h"

#include "lib/base/assert.h"
#include "lib/connect/filesystem.pb-c.h"

#include <sodium.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum { ID_CHARS = 20, ANSWER_MAX = 256 << 20 };

static const Filesystem__EventType types[] = {
    [ABX_WATCH_CREATE] = FILESYSTEM__EVENT_TYPE__EVENT_TYPE_CREATE,
    [ABX_WATCH_RENAME] = FILESYSTEM__EVENT_TYPE__EVENT_TYPE_RENAME,
    [ABX_WATCH_CHMOD] = FILESYSTEM__EVENT_TYPE__EVENT_TYPE_CHMOD,
    [ABX_WATCH_WRITE] = FILESYSTEM__EVENT_TYPE__EVENT_TYPE_WRITE,
    [ABX_WATCH_REMOVE] = FILESYSTEM__EVENT_TYPE__EVENT_TYPE_REMOVE,
};
_Static_assert(ABX_COUNTOF(types) == ABX_WATCH__COUNT, "one type per change");

struct request {
    const char *path;
    bool is_recursive, has_entries, allows_network;
};

static int open_watcher(struct abx_rpc *rpc, const struct request *r,
                        const struct abx_watch_ops *ops, void *owner, struct abx_watcher **ret)
{
    char path[ABX_FILES_PATH];
    struct abx_user user;
    struct abx_error err = {0};
    if (abx__rpc_user(rpc, &user) < 0)
        return -1;
    int rc = abx__rpc_path(rpc, r->path, &user, path);
    abx_user_done(&user);
    if (rc < 0)
        return -1;
    const struct abx_watch_spec spec = {path, r->is_recursive, r->has_entries, r->allows_network};
    rc = abx_watcher_open(abx__envd_of(abx_rpc_req(rpc))->watches, &spec, ops, owner, ret, &err);
    if (rc < 0)
        abx_rpc_fail(rpc, &err);
    return rc;
}

/* The message of @e in @a; false without memory. */
static bool fill_event(struct abx_arena *a, const struct abx_watch_event *e,
                       Filesystem__FilesystemEvent *out)
{
    filesystem__filesystem_event__init(out);
    out->name = abx_arena_c(a, e->name);
    out->has_type = true;
    out->type = types[e->change];
    out->entry = e->entry ? abx__entry_message(a, e->entry) : NULL;
    return out->name && (out->entry || !e->entry);
}

/* ---- WatchDir ---- */

struct stream {
    struct abx_rpc *rpc; /* NULL once the call is over */
    struct abx_watcher *watcher;
    struct abx_timer keepalive;
    uint64_t keepalive_ms;
    bool is_blocked;
};

static void send_message(struct stream *s, Filesystem__WatchDirResponse *message)
{
    abx_timer_start(&s->keepalive, s->keepalive_ms, s->keepalive_ms);
    s->is_blocked = !abx_rpc_send(s->rpc, &message->base);
}

static void send_start(struct stream *s)
{
    Filesystem__WatchDirResponse__StartEvent start =
        FILESYSTEM__WATCH_DIR_RESPONSE__START_EVENT__INIT;
    Filesystem__WatchDirResponse message = FILESYSTEM__WATCH_DIR_RESPONSE__INIT;
    message.event_case = FILESYSTEM__WATCH_DIR_RESPONSE__EVENT_START;
    message.start = &start;
    send_message(s, &message);
}

static void on_keepalive(struct abx_timer *t)
{
    struct stream *s = t->owner;
    Filesystem__WatchDirResponse__KeepAlive keepalive =
        FILESYSTEM__WATCH_DIR_RESPONSE__KEEP_ALIVE__INIT;
    Filesystem__WatchDirResponse message = FILESYSTEM__WATCH_DIR_RESPONSE__INIT;
    if (s->rpc == NULL || s->is_blocked)
        return;
    message.event_case = FILESYSTEM__WATCH_DIR_RESPONSE__EVENT_KEEPALIVE;
    message.keepalive = &keepalive;
    send_message(s, &message);
}

static void send_event(struct stream *s, const struct abx_watch_event *e)
{
    struct abx_arena a;
    Filesystem__FilesystemEvent event;
    Filesystem__WatchDirResponse message = FILESYSTEM__WATCH_DIR_RESPONSE__INIT;
    message.event_case = FILESYSTEM__WATCH_DIR_RESPONSE__EVENT_FILESYSTEM;
    message.filesystem = &event;
    abx_arena_init(&a, 1 << 20);
    if (fill_event(&a, e, &event))
        send_message(s, &message);
    else /* losing an event silently is worse than an end */
        abx_rpc_failf(s->rpc, ABX_RESOURCE_EXHAUSTED, "out of memory");
    abx_arena_done(&a);
}

static void pump(struct stream *s)
{
    struct abx_watch_event e;
    while (s->rpc && !s->is_blocked && abx_watcher_take(s->watcher, &e))
        send_event(s, &e);
    const struct abx_error *err = s->rpc ? abx_watcher_error(s->watcher) : NULL;
    if (err)
        abx_rpc_fail(s->rpc, err);
}

static void on_stream_start(struct abx_watcher *w, const struct abx_error *err)
{
    struct stream *s = abx_watcher_owner(w);
    if (err)
        abx_rpc_fail(s->rpc, err);
    else
        send_start(s);
}

static void on_stream_events(struct abx_watcher *w)
{
    pump(abx_watcher_owner(w));
}

static const struct abx_watch_ops stream_ops = {on_stream_start, on_stream_events, NULL};

static void on_stream_drain(struct abx_rpc *rpc)
{
    struct stream *s = abx_rpc_data(rpc);
    s->is_blocked = false;
    pump(s);
}

static void on_timer_closed(void *owner)
{
    free(owner);
}

static void on_stream_close(struct abx_rpc *rpc)
{
    struct stream *s = abx_rpc_data(rpc);
    s->rpc = NULL;
    abx_watcher_close(s->watcher);
    s->watcher = NULL;
    abx_timer_close(&s->keepalive, on_timer_closed);
}

void abx__watch_dir(struct abx_rpc *rpc, const ProtobufCMessage *in)
{
    const Filesystem__WatchDirRequest *r = (const Filesystem__WatchDirRequest *)in;
    const struct request request = {r->path, r->recursive, r->include_entry,
                                    r->allow_network_mounts};
    struct stream *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        abx_rpc_failf(rpc, ABX_RESOURCE_EXHAUSTED, "out of memory");
        return;
    }
    s->rpc = rpc;
    if (open_watcher(rpc, &request, &stream_ops, s, &s->watcher) < 0) {
        free(s);
        return;
    }
    s->keepalive_ms = abx__keepalive_ms(abx_rpc_req(rpc));
    abx_timer_init(&s->keepalive, &abx__envd_of(abx_rpc_req(rpc))->loop, on_keepalive, s);
    abx_rpc_set_data(rpc, s);
    abx_rpc_on_close(rpc, on_stream_close);
    abx_rpc_on_drain(rpc, on_stream_drain);
}

/* ---- watchers that are asked ---- */

struct polled {
    struct abx_list node; /* in envd->polled, once it has been told to the client */
    struct abx_watcher *watcher;
    struct abx_rpc *creator; /* CreateWatcher, while it waits */
    struct abx_list askers;  /* struct asker */
    bool is_syncing;
    char id[1 + ID_CHARS + 1];
};
struct asker {
    struct abx_list node;
    struct abx_rpc *rpc;
};

static void make_id(char id[1 + ID_CHARS + 1])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    id[0] = 'w';
    for (int i = 1; i <= ID_CHARS; i++)
        id[i] = letters[randombytes_uniform(sizeof(letters) - 1)];
    id[1 + ID_CHARS] = '\0';
}

static void polled_free(struct polled *p)
{
    abx_list_remove(&p->node);
    abx_watcher_close(p->watcher);
    free(p);
}

static void on_polled_start(struct abx_watcher *w, const struct abx_error *err)
{
    struct polled *p = abx_watcher_owner(w);
    struct abx_rpc *rpc = p->creator;
    Filesystem__CreateWatcherResponse out = FILESYSTEM__CREATE_WATCHER_RESPONSE__INIT;
    if (err) {
        abx_rpc_fail(rpc, err); /* its close frees @p */
        return;
    }
    p->creator = NULL;
    abx_list_push(&abx__envd_of(abx_rpc_req(rpc))->polled, &p->node);
    out.watcher_id = p->id;
    abx_rpc_send(rpc, &out.base);
}

/* Nobody knows a watcher whose creator has gone. */
static void on_create_close(struct abx_rpc *rpc)
{
    struct polled *p = abx_rpc_data(rpc);
    if (p->creator == rpc)
        polled_free(p);
}

static void answer(struct polled *p, struct abx_rpc *rpc)
{
    Filesystem__GetWatcherEventsResponse out = FILESYSTEM__GET_WATCHER_EVENTS_RESPONSE__INIT;
    const struct abx_error *err = abx_watcher_error(p->watcher);
    size_t count = abx_watcher_waiting(p->watcher);
    struct abx_watch_event e;
    struct abx_arena a;
    if (err) {
        abx_rpc_failf(rpc, ABX_INTERNAL, "%s", err->msg);
        return;
    }
    abx_arena_init(&a, ANSWER_MAX);
    out.events = abx_arena_array(&a, count + 1, sizeof(*out.events));
    Filesystem__FilesystemEvent *events = abx_arena_array(&a, count + 1, sizeof(*events));
    bool ok = out.events && events;
    while (ok && out.n_events < count && abx_watcher_take(p->watcher, &e)) {
        out.events[out.n_events] = &events[out.n_events];
        ok = fill_event(&a, &e, &events[out.n_events++]);
    }
    if (ok)
        abx_rpc_send(rpc, &out.base);
    else
        abx_rpc_failf(rpc, ABX_RESOURCE_EXHAUSTED, "out of memory: events were lost");
    abx_arena_done(&a);
}

static void on_polled_synced(struct abx_watcher *w)
{
    struct polled *p = abx_watcher_owner(w);
    struct asker *asker;
    p->is_syncing = false;
    while ((asker = abx_list_first(&p->askers, struct asker, node)) != NULL) {
        abx_list_remove(&asker->node);
        answer(p, asker->rpc);
    }
}

static const struct abx_watch_ops polled_ops = {on_polled_start, NULL, on_polled_synced};

void abx__create_watcher(struct abx_rpc *rpc, const ProtobufCMessage *in)
{
    const Filesystem__CreateWatcherRequest *r = (const Filesystem__CreateWatcherRequest *)in;
    const struct request request = {r->path, r->recursive, r->include_entry,
                                    r->allow_network_mounts};
    struct polled *p = calloc(1, sizeof(*p));
    if (p == NULL) {
        abx_rpc_failf(rpc, ABX_RESOURCE_EXHAUSTED, "out of memory");
        return;
    }
    p->creator = rpc;
    abx_list_init(&p->node);
    abx_list_init(&p->askers);
    make_id(p->id);
    if (open_watcher(rpc, &request, &polled_ops, p, &p->watcher) < 0) {
        free(p);
        return;
    }
    abx_rpc_set_data(rpc, p);
    abx_rpc_on_close(rpc, on_create_close);
}

/* NULL: the call has failed. */
static struct polled *find(struct abx_rpc *rpc, const char *id)
{
    struct polled *p;
    abx_list_foreach(p, &abx__envd_of(abx_rpc_req(rpc))->polled, struct polled, node)
    {
        if (id && strcmp(p->id, id) == 0)
            return p;
    }
    abx_rpc_failf(rpc, ABX_NOT_FOUND, "watcher with id %.64s not found", id ? id : "");
    return NULL;
}

static void on_asker_close(struct abx_rpc *rpc)
{
    struct asker *asker = abx_rpc_data(rpc);
    abx_list_remove(&asker->node);
}

void abx__get_watcher_events(struct abx_rpc *rpc, const ProtobufCMessage *in)
{
    struct polled *p = find(rpc, ((const Filesystem__GetWatcherEventsRequest *)in)->watcher_id);
    struct asker *asker = p ? abx_arena_alloc(abx_rpc_arena(rpc), sizeof(*asker)) : NULL;
    if (p && asker == NULL)
        abx_rpc_failf(rpc, ABX_RESOURCE_EXHAUSTED, "out of memory");
    if (asker == NULL)
        return;
    if (!p->is_syncing && abx_watcher_sync(p->watcher)) {
        answer(p, rpc);
        return;
    }
    p->is_syncing = true;
    asker->rpc = rpc;
    abx_list_push(&p->askers, &asker->node);
    abx_rpc_set_data(rpc, asker);
    abx_rpc_on_close(rpc, on_asker_close);
}

static void remove_polled(struct polled *p)
{
    struct asker *asker;
    while ((asker = abx_list_first(&p->askers, struct asker, node)) != NULL) {
        abx_list_remove(&asker->node);
        abx_rpc_failf(asker->rpc, ABX_NOT_FOUND, "watcher with id %s not found", p->id);
    }
    polled_free(p);
}

void abx__remove_watcher(struct abx_rpc *rpc, const ProtobufCMessage *in)
{
    Filesystem__RemoveWatcherResponse out = FILESYSTEM__REMOVE_WATCHER_RESPONSE__INIT;
    struct polled *p = find(rpc, ((const Filesystem__RemoveWatcherRequest *)in)->watcher_id);
    if (p == NULL)
        return;
    remove_polled(p);
    abx_rpc_send(rpc, &out.base);
}

void abx__watches_stop(struct abx__envd *e)
{
    struct polled *p;
    abx_list_foreach(p, &e->polled, struct polled, node)
    {
        polled_free(p); /* its askers go with their connections */
    }
    abx_watches_close(e->watches);
    e->watches = NULL;
}
