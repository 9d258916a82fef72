/* guest/caps/watch.c: the watchers of a daemon: their life, and what each record of the kernel
 * means for them (envd.md 6.4). Loop thread. */
#include "guest/caps/watch_priv.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { READ_BYTES = 65536, STASH_MAX = 8 << 20, STASH_KEPT = 256 << 10, SCANNED_MAX = 1 << 20 };

/* In the order in which the flags of one record are told. */
static const struct {
    uint32_t mask;
    enum abx_watch_change change;
} changes[] = {
    {IN_CREATE | IN_MOVED_TO, ABX_WATCH_CREATE},
    {IN_MOVED_FROM | IN_MOVE_SELF, ABX_WATCH_RENAME},
    {IN_ATTRIB, ABX_WATCH_CHMOD},
    {IN_MODIFY, ABX_WATCH_WRITE},
    {IN_DELETE | IN_DELETE_SELF, ABX_WATCH_REMOVE},
};
_Static_assert(ABX_COUNTOF(changes) == ABX_WATCH__COUNT, "one row per change");

/* ---- records ---- */

static void lose_all(struct abx_watches *ws)
{
    struct abx_watcher *w;
    abx_list_foreach(w, &ws->watchers, struct abx_watcher, node)
    {
        abx__watcher_fail(w, ABX_INTERNAL,
                          "overflow: events were lost, they came faster than they could be read: "
                          "list the folder and watch it again");
    }
}

static void on_folder_left(struct abx__folder *f, const struct abx__record *r)
{
    struct abx_watcher *w = f->watcher;
    struct abx__folder *child = abx__folder_child(f, r->name);
    if (child == NULL)
        return;
    abx__folder_drop(w->moved);
    abx__folder_detach(child);
    w->moved = child;
    w->moved_cookie = r->cookie;
    w->moved_pass = w->ws->passes;
}

static void on_folder_came(struct abx__folder *f, const struct abx__record *r)
{
    struct abx_watcher *w = f->watcher;
    bool is_ours = r->mask & IN_MOVED_TO && w->moved && w->moved_cookie == r->cookie;
    if (!is_ours || !abx__folder_attach(w->moved, f, r->name))
        abx__arm_ask(w, f, r->name);
}

static void on_record(struct abx__folder *f, const struct abx__record *r)
{
    struct abx_watcher *w = f->watcher;
    char path[ABX_FILES_PATH];
    bool is_folder = w->is_recursive && r->mask & IN_ISDIR;
    if (r->name.len == 0 && f != w->root)
        return; /* its parent tells */
    if (!abx__folder_path(f, r->name, path))
        return; /* moved away */
    bool is_told = abx__scan_knew(w, r->wd, r->name);
    if (r->mask & (IN_CREATE | IN_MOVED_TO) && is_told)
        return;
    if (is_told && !(r->mask & (IN_DELETE | IN_MOVED_FROM)))
        abx__scan_note(w, r->wd, r->name); /* the record of its making is still to come */
    if (is_folder && r->mask & IN_MOVED_FROM)
        on_folder_left(f, r);
    if (is_folder && r->mask & (IN_CREATE | IN_MOVED_TO))
        on_folder_came(f, r);
    for (size_t i = 0; i < ABX_COUNTOF(changes); i++)
        if (r->mask & changes[i].mask)
            abx__event_put(w, changes[i].change, path);
}

static void dispatch(struct abx_watches *ws, const struct abx__record *r)
{
    struct abx__folder *f;
    if (r->mask & IN_Q_OVERFLOW) {
        lose_all(ws);
        return;
    }
    struct abx__wd *d = abx__wd_find(ws, r->wd);
    if (d == NULL)
        return;
    abx_list_foreach(f, &d->folders, struct abx__folder, by_wd)
    {
        if (r->mask & IN_IGNORED)
            abx__folder_drop(f);
        else
            on_record(f, r);
    }
}

/* Until the kernel has no more; the stash's ceiling bounds it. */
static void read_records(struct abx_watches *ws)
{
    for (;;) {
        void *room = abx_buf_room(&ws->stash, READ_BYTES);
        if (room == NULL) {
            abx_buf_done(&ws->stash);
            lose_all(ws);
            return;
        }
        ssize_t n = read(ws->fd, room, READ_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        abx_buf_wrote(&ws->stash, (size_t)n);
    }
}

static void end_pass(struct abx_watches *ws)
{
    struct abx_watcher *w;
    ws->passes++;
    abx_list_foreach(w, &ws->watchers, struct abx_watcher, node)
    {
        if (w->scanned.count)
            abx_map_done(&w->scanned);
        if (w->moved && w->moved_pass + 1 < ws->passes)
            abx__folder_drop(w->moved);
        if (w->wants_sync && w->sync_pass == ws->passes)
            w->sync_arms = w->arms_asked;
        abx__queue_pump(w);
        abx__watcher_notify(w);
    }
}

void abx__watches_process(struct abx_watches *ws)
{
    struct abx__record r;
    if (ws->fd < 0 || ws->is_closed)
        return;
    read_records(ws);
    if (ws->is_arming)
        return;
    struct abx_str in = abx_buf_str(&ws->stash);
    while (abx__record_next(&in, &r))
        dispatch(ws, &r);
    abx_buf_clear(&ws->stash);
    if (ws->stash.cap > STASH_KEPT)
        abx_buf_done(&ws->stash);
    end_pass(ws);
    abx__arm_pump(ws);
    abx__wd_sweep(ws);
}

static void on_readable(struct abx_poll *p, unsigned events)
{
    (void)events;
    abx__watches_process(p->owner);
}

/* ---- what a watcher says ---- */

static bool is_synced(const struct abx_watcher *w)
{
    return w->ws->passes >= w->sync_pass && w->arms_done >= w->sync_arms && w->batch == NULL &&
           abx_list_empty(&w->fresh);
}

static bool has_news(const struct abx_watcher *w)
{
    return !abx_list_empty(&w->ready) || w->err.code != ABX_OK;
}

static void on_notify(struct abx_defer *d)
{
    struct abx_watcher *w = d->owner;
    const struct abx_error *err = w->is_armed ? NULL : &w->err;
    if (!w->is_told) {
        w->is_told = true;
        if (w->is_armed)
            abx__watcher_notify(w); /* for what has come already */
        w->ops->on_start(w, err);
        return; /* it may be closed */
    }
    if (w->wants_sync && is_synced(w)) {
        w->wants_sync = false;
        w->ops->on_synced(w);
        return;
    }
    if (w->ops->on_events && has_news(w))
        w->ops->on_events(w);
}

void abx__watcher_notify(struct abx_watcher *w)
{
    bool is_due = w->is_told ? w->wants_sync || has_news(w) : w->is_armed || w->err.code != ABX_OK;
    if (is_due && !w->is_closed)
        abx_defer_start(&w->notify, w->ws->loop, on_notify, w);
}

bool abx_watcher_sync(struct abx_watcher *w)
{
    ABX_ASSERT(!w->wants_sync);
    w->wants_sync = true;
    w->sync_pass = w->ws->passes + 1;
    w->sync_arms = UINT64_MAX;
    abx__watches_process(w->ws);
    w->wants_sync = !is_synced(w);
    return !w->wants_sync;
}

const struct abx_error *abx_watcher_error(const struct abx_watcher *w)
{
    return w->err.code != ABX_OK && w->count == 0 ? &w->err : NULL;
}

size_t abx_watcher_waiting(const struct abx_watcher *w)
{
    return w->count;
}

void *abx_watcher_owner(const struct abx_watcher *w)
{
    return w->owner;
}

void abx_watcher_set_owner(struct abx_watcher *w, void *owner)
{
    w->owner = owner;
}

/* ---- life ---- */

static int start_kernel(struct abx_watches *ws, struct abx_error *err)
{
    if (ws->fd >= 0)
        return 0;
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (fd < 0)
        return abx_err_sys(err, -errno, "watching is not possible now: inotify");
    if (abx_poll_init(&ws->poll, ws->loop, fd, on_readable, ws, err) < 0) {
        close(fd);
        return -1;
    }
    ws->fd = fd;
    ws->is_poll_open = true;
    abx_poll_set(&ws->poll, ABX_POLL_IN);
    return 0;
}

int abx_watches_new(struct abx_loop *l, struct abx_watches **ret, struct abx_error *err)
{
    struct abx_watches *ws = calloc(1, sizeof(*ws));
    if (ws == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
    ws->loop = l;
    ws->fd = -1;
    abx_list_init(&ws->watchers);
    abx_list_init(&ws->idle);
    abx_list_init(&ws->arms);
    abx_list_init(&ws->running);
    abx_map_init(&ws->wds, 2 * ABX_WATCH_FOLDERS_MAX);
    abx_buf_init(&ws->stash, STASH_MAX);
    *ret = ws;
    return 0;
}

static void on_poll_closed(void *owner)
{
    struct abx_watches *ws = owner;
    ws->is_poll_open = false;
    abx__watches_release(ws);
}

void abx_watches_close(struct abx_watches *ws)
{
    if (ws == NULL || ws->is_closed)
        return;
    ws->is_closed = true;
    if (ws->is_poll_open)
        abx_poll_close(&ws->poll, on_poll_closed);
    abx__watches_release(ws);
}

void abx__watches_release(struct abx_watches *ws)
{
    size_t it = 0;
    void *d;
    if (!ws->is_closed || ws->is_arming || ws->is_poll_open || ws->watcher_count || ws->holds)
        return;
    while (abx_map_next(&ws->wds, &it, NULL, &d))
        free(d);
    abx_map_done(&ws->wds);
    abx_buf_done(&ws->stash);
    abx_fd_close(&ws->fd);
    free(ws);
}

int abx_watcher_open(struct abx_watches *ws, const struct abx_watch_spec *spec,
                     const struct abx_watch_ops *ops, void *owner, struct abx_watcher **ret,
                     struct abx_error *err)
{
    if (ws->watcher_count >= ABX_WATCHERS_MAX)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "more than %d watchers: remove some",
                           ABX_WATCHERS_MAX);
    if (start_kernel(ws, err) < 0)
        return -1;
    struct abx_watcher *w = calloc(1, sizeof(*w));
    if (w == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
    if (abx_str_to_c(abx_str(spec->path), w->path, sizeof(w->path)) < 0) {
        free(w);
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "path is too long: at most %d bytes fit",
                           ABX_FILES_PATH - 1);
    }
    for (size_t len = strlen(w->path); len > 1 && w->path[len - 1] == '/'; len--)
        w->path[len - 1] = '\0';
    w->ws = ws;
    w->ops = ops;
    w->owner = owner;
    w->is_recursive = spec->is_recursive;
    w->has_entries = spec->has_entries;
    w->allows_network = spec->allows_network;
    abx_list_init(&w->ready);
    abx_list_init(&w->fresh);
    abx_map_init(&w->scanned, SCANNED_MAX);
    abx_list_push(&ws->watchers, &w->node);
    ws->watcher_count++;
    *ret = w;
    abx__arm_ask(w, NULL, ABX_STR(""));
    abx__arm_pump(ws);
    return 0;
}

void abx__watcher_release(struct abx_watcher *w)
{
    struct abx_watches *ws = w->ws;
    if (!w->is_closed || w->arms_asked != w->arms_done || w->batch)
        return;
    ws->watcher_count--;
    free(w);
    abx__watches_release(ws);
}

void abx_watcher_close(struct abx_watcher *w)
{
    if (w == NULL || w->is_closed)
        return;
    w->is_closed = true;
    abx_defer_cancel(&w->notify);
    abx_list_remove(&w->node);
    abx__folder_drop(w->root);
    abx__folder_drop(w->moved);
    abx_map_done(&w->scanned);
    abx__queue_done(w);
    abx__wd_sweep(w->ws);
    abx__watcher_release(w);
}
