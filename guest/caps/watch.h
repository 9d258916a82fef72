/* guest/caps/watch.h: folders watched for changes, on one inotify instance (envd.md 6.4, 6.5).
 *
 * A watcher reports what happens in its folder, recursive ones also below it. Its events wait in a
 * queue of its own until they are taken. Nothing is lost silently: a full queue, the kernel's or
 * ours, is an error of the watcher. Path look-ups run on the pool. Loop thread only; callbacks
 * come from the loop, never from inside a call. */
#pragma once
#include "guest/caps/files.h"

struct abx_watches; /* all of a daemon */
struct abx_watcher;

enum {
    ABX_WATCHERS_MAX = 1024,
    ABX_WATCH_FOLDERS_MAX = 131072, /* of all watchers together */
    ABX_WATCH_QUEUE_EVENTS = 65536, /* not taken, of one watcher */
};

int abx_watches_new(struct abx_loop *l, struct abx_watches **ret, struct abx_error *err);
/** Every watcher must have been closed, or is without an owner who listens (see below). The memory
 *  goes when the loop has let go. Accepts NULL. */
void abx_watches_close(struct abx_watches *ws);

enum abx_watch_change {
    ABX_WATCH_CREATE,
    ABX_WATCH_RENAME,
    ABX_WATCH_CHMOD,
    ABX_WATCH_WRITE,
    ABX_WATCH_REMOVE,
    ABX_WATCH__COUNT
};
struct abx_watch_event {
    enum abx_watch_change change;
    struct abx_str name;           /* relative to the watched folder; "." for itself */
    const struct abx_entry *entry; /* NULL: not asked for, or the file is gone */
};

struct abx_watch_spec {
    const char *path; /* resolved */
    bool is_recursive;
    bool has_entries; /* CREATE, WRITE and CHMOD carry the file's entry */
    bool allows_network;
};
struct abx_watch_ops {
    /** Armed (err NULL): everything from now on is reported. Or not, and only close() is left:
     *  NOT_FOUND, INVALID_ARGUMENT (no directory, network mount), RESOURCE_EXHAUSTED. Once. */
    void (*on_start)(struct abx_watcher *w, const struct abx_error *err);
    /** There are events to take, or abx_watcher_error() has something to say. May be NULL. */
    void (*on_events)(struct abx_watcher *w);
    /** Answer to abx_watcher_sync(). May be NULL if that is never called. */
    void (*on_synced)(struct abx_watcher *w);
};
/** Copies @spec. RESOURCE_EXHAUSTED: too many watchers, inotify instances or memory. */
int abx_watcher_open(struct abx_watches *ws, const struct abx_watch_spec *spec,
                     const struct abx_watch_ops *ops, void *owner, struct abx_watcher **ret,
                     struct abx_error *err);
void *abx_watcher_owner(const struct abx_watcher *w);
void abx_watcher_set_owner(struct abx_watcher *w, void *owner);
/** Takes the oldest event: true. What @ret points to lives until the next take or the close. */
bool abx_watcher_take(struct abx_watcher *w, struct abx_watch_event *ret);
/** How many can be taken now. */
size_t abx_watcher_waiting(const struct abx_watcher *w);
/** Why the watcher reports nothing more after the events that wait; NULL: it is well. */
const struct abx_error *abx_watcher_error(const struct abx_watcher *w);
/** Puts into the queue what the kernel knows at the time of the call: true when that is done, else
 *  ops->on_synced follows. One at a time. */
bool abx_watcher_sync(struct abx_watcher *w);
/** No callback after. Accepts NULL. */
void abx_watcher_close(struct abx_watcher *w);
