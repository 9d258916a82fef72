/* guest/caps/watch_priv.h: the parts of a daemon's watchers.
 *
 * Records of the kernel are collected in `stash` and looked at only while no pool job is adding
 * folders, so that every folder's watch is known before its first record is. The kernel numbers
 * watches upwards, so a number is not used again within a daemon's life; one folder has one number,
 * whoever watches it. */
#pragma once
#include "guest/caps/files_priv.h"
#include "guest/caps/watch.h"
#include "lib/base/map.h"

/* One folder of one watcher. The root has no parent; a folder that was moved away hangs in
 * w->moved, and its records are dropped until it comes back or the next one goes. */
struct abx__folder {
    struct abx_list by_wd, by_parent;
    struct abx_list children;
    struct abx__folder *parent;
    struct abx_watcher *watcher;
    struct abx__wd *wd; /* NULL: dropped, but a job still points here */
    unsigned pins;
    char *name; /* "" for the root */
};

/* A watch of the kernel. */
struct abx__wd {
    int id;
    struct abx_list folders; /* none: to be removed */
    struct abx_list idle;    /* in ws->idle then */
};

/* Entries that one pool job looked up, shared by the events it was for. */
struct abx__batch {
    struct abx_work work;
    struct abx_watcher *watcher;
    struct abx_list events; /* while the job runs */
    struct abx__entries out;
    size_t refs;
};

struct abx__event {
    struct abx_list node;
    enum abx_watch_change change;
    struct abx__batch *batch;
    ptrdiff_t entry_index; /* in the batch; -1: none */
    char name[];           /* relative to the watched folder */
};

/* A request to watch one folder, and below it if the watcher is recursive. The job fills `dirs` and
 * `names`; everything is in `arena`. */
struct abx__dir {
    size_t parent; /* index; of the first: itself */
    int wd;
    struct abx_str name;
};
struct abx__name {
    size_t dir;
    struct abx_str name;
};
struct abx__arm {
    struct abx_list node; /* in ws->arms, then in ws->running */
    struct abx_watcher *watcher;
    struct abx__folder *parent; /* pinned; NULL: this is the root */
    int inotify_fd;
    bool is_recursive, allows_network;
    size_t room; /* folders that may be added */
    struct abx_arena arena;
    struct abx__dir *dirs;
    struct abx__name *names; /* what was in new folders */
    size_t dir_count, dir_cap, name_count, name_cap;
    struct abx_error err;
    bool failed, is_gone; /* is_gone: the folder went away meanwhile */
    char path[];
};

struct abx_watcher {
    struct abx_list node; /* in ws->watchers */
    struct abx_watches *ws;
    const struct abx_watch_ops *ops;
    void *owner;
    bool is_recursive, has_entries, allows_network;
    bool is_armed, is_told, is_closed;
    struct abx__folder *root, *moved;
    uint32_t moved_cookie;
    uint64_t moved_pass;
    struct abx_map scanned;       /* "wd/name": reported by a scan, so not by the next CREATE */
    struct abx_list ready, fresh; /* events to take; those that still want their entry */
    size_t count;                 /* of both, and of the batch that runs */
    struct abx__event *taken;
    struct abx__batch *batch;       /* running */
    uint64_t arms_asked, arms_done; /* in this order */
    bool wants_sync;
    uint64_t sync_pass, sync_arms; /* what must be over before on_synced */
    struct abx_defer notify;
    struct abx_error err;
    char path[ABX_FILES_PATH];
};

struct abx_watches {
    struct abx_loop *loop;
    struct abx_poll poll;
    int fd; /* -1: nobody has watched anything yet */
    size_t watcher_count, folder_count, arm_count;
    struct abx_list watchers, idle, arms, running;
    struct abx_map wds; /* the bytes of an int -> struct abx__wd */
    struct abx_buf stash;
    struct abx_work work; /* the job that adds folders: all that were asked for */
    unsigned holds;       /* calls that still look at this: it is not freed below them */
    bool is_arming, is_closed, is_poll_open;
    uint64_t passes; /* over the stash */
};

/* --- watch_record.c: the kernel's records; pure --- */

struct abx__record {
    int wd;
    uint32_t mask, cookie;
    struct abx_str name; /* "" for the folder itself */
};
/* Takes one record off the front of @in. False: none complete is left. */
bool abx__record_next(struct abx_str *in, struct abx__record *ret);

/* --- watch_tree.c: folders and kernel watches --- */

/* Puts the folder with the kernel's number @wd below @parent (NULL: the root). One that @w has
 * already is moved there. NULL: no memory or no room. *ret_is_new: @w did not have it. */
struct abx__folder *abx__folder_put(struct abx_watcher *w, struct abx__folder *parent,
                                    struct abx__dir dir, bool *ret_is_new);
struct abx__folder *abx__folder_child(struct abx__folder *f, struct abx_str name);
/* Forgets @f and what is below. Accepts NULL. */
void abx__folder_drop(struct abx__folder *f);
/* Takes @f out of its parent, or hangs it under another; false: no memory, and nothing is done. */
void abx__folder_detach(struct abx__folder *f);
bool abx__folder_attach(struct abx__folder *f, struct abx__folder *parent, struct abx_str name);
void abx__folder_unpin(struct abx__folder *f);
/* The path relative to the root, with @name at the end ("" for none); "." for the root itself.
 * False: detached, or too long. */
bool abx__folder_path(const struct abx__folder *f, struct abx_str name, char out[ABX_FILES_PATH]);
struct abx__wd *abx__wd_find(struct abx_watches *ws, int id);
/* Knows a watch of the kernel that may stand for no folder; NULL without memory. */
struct abx__wd *abx__wd_note(struct abx_watches *ws, int id);
/* Removes kernel watches that nobody needs, unless a job may be adding one. */
void abx__wd_sweep(struct abx_watches *ws);

/* --- watch_arm.c: adding watches --- */

/* Asks for @name below @parent (NULL: the root). A failure is the watcher's. */
void abx__arm_ask(struct abx_watcher *w, struct abx__folder *parent, struct abx_str name);
/* Starts a job for what was asked, if none runs. */
void abx__arm_pump(struct abx_watches *ws);
/* Adds the watches of one request. On the pool. */
void abx__arm_run(struct abx__arm *a);
void abx__arm_free(struct abx__arm *a);

/* --- watch_graft.c: what a job has found, on the loop --- */

void abx__arm_graft(struct abx__arm *a);
/* Whether a scan has reported @name in that folder: then the record says nothing new.
 * Asked once: it is forgotten. */
bool abx__scan_knew(struct abx_watcher *w, int wd, struct abx_str name);
void abx__scan_note(struct abx_watcher *w, int wd, struct abx_str name);

/* --- watch_queue.c: events of one watcher --- */

void abx__event_put(struct abx_watcher *w, enum abx_watch_change change, const char *name);
/* Moves fresh events on: through a pool job when they want entries. */
void abx__queue_pump(struct abx_watcher *w);
void abx__queue_done(struct abx_watcher *w);
void abx__watcher_fail(struct abx_watcher *w, enum abx_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* --- watch.c --- */

/* Looks at the stash, unless folders are being added. */
void abx__watches_process(struct abx_watches *ws);
/* What there is to say will be said from the loop. */
void abx__watcher_notify(struct abx_watcher *w);
/* Frees what has been closed and is no longer used by a job. */
void abx__watcher_release(struct abx_watcher *w);
void abx__watches_release(struct abx_watches *ws);
