/* guest/caps/watch_queue.c: the events of one watcher: from the kernel's record, through a look at
 * the file if entries are wanted, to whoever takes them. Loop thread, the look on the pool. */
#include "guest/caps/watch_priv.h"

#include <stdlib.h>

#include "lib/base/banned.h"

enum { BATCH_EVENTS = 1024 };

void abx__watcher_fail(struct abx_watcher *w, enum abx_code code, const char *fmt, ...)
{
    va_list ap;
    if (w->err.code != ABX_OK)
        return;
    va_start(ap, fmt);
    abx_err_setv(&w->err, code, fmt, ap);
    va_end(ap);
    abx__watcher_notify(w);
}

/* As the kernel does with records nobody has read: repeated writes to one file are one. */
static bool repeats(const struct abx_list *list, enum abx_watch_change change, const char *name)
{
    if (abx_list_empty(list) || (change != ABX_WATCH_WRITE && change != ABX_WATCH_CHMOD))
        return false;
    const struct abx__event *last = ABX_CONTAINER_OF(list->prev, struct abx__event, node);
    return last->change == change && strcmp(last->name, name) == 0;
}

void abx__event_put(struct abx_watcher *w, enum abx_watch_change change, const char *name)
{
    if (w->err.code != ABX_OK || repeats(&w->fresh, change, name) ||
        (!w->has_entries && repeats(&w->ready, change, name)))
        return;
    size_t len = strlen(name);
    struct abx__event *e = w->count < ABX_WATCH_QUEUE_EVENTS ? malloc(sizeof(*e) + len + 1) : NULL;
    if (e == NULL) {
        abx__watcher_fail(w, ABX_INTERNAL,
                          "overflow: events were lost, %zu wait to be taken: list the folder and "
                          "watch it again",
                          w->count);
        return;
    }
    *e = (struct abx__event){.change = change, .entry_index = -1};
    memcpy(e->name, name, len + 1);
    abx_list_push(w->has_entries ? &w->fresh : &w->ready, &e->node);
    w->count++;
}

/* ---- entries ---- */

static void batch_unref(struct abx__batch *b)
{
    if (b == NULL || --b->refs > 0)
        return;
    abx__entries_done(&b->out);
    free(b);
}

static void event_free(struct abx__event *e)
{
    if (e == NULL)
        return;
    batch_unref(e->batch);
    free(e);
}

static void free_list(struct abx_list *list)
{
    struct abx__event *e;
    while ((e = abx_list_first(list, struct abx__event, node)) != NULL) {
        abx_list_remove(&e->node);
        event_free(e);
    }
}

/* No entry can be had for them: the watcher ends with an error instead. */
static void drop_fresh(struct abx_watcher *w)
{
    struct abx__event *e;
    abx_list_foreach(e, &w->fresh, struct abx__event, node)
    {
        w->count--;
    }
    (void)e;
    free_list(&w->fresh);
}

static void look(struct abx__batch *b, struct abx__event *e)
{
    ABX_AUTO_BUF path;
    const struct abx_watcher *w = b->watcher; /* its path does not change */
    bool is_self = strcmp(e->name, ".") == 0;
    abx_buf_init(&path, ABX_FILES_PATH - 1);
    if (e->change == ABX_WATCH_REMOVE || e->change == ABX_WATCH_RENAME)
        return;
    abx_buf_putf(&path, "%s%s%s", w->path, is_self || w->path[1] == '\0' ? "" : "/",
                 is_self ? "" : e->name);
    if (!abx_buf_failed(&path) && abx__entry_add(&b->out, path.ptr) == 0)
        e->entry_index = (ptrdiff_t)b->out.count - 1;
}

static void on_run(struct abx_work *work)
{
    struct abx__batch *b = work->owner;
    struct abx__event *e;
    abx_list_foreach(e, &b->events, struct abx__event, node)
    {
        look(b, e);
    }
}

static void give_back(struct abx__batch *b)
{
    struct abx_watcher *w = b->watcher;
    struct abx__event *e;
    while ((e = abx_list_first(&b->events, struct abx__event, node)) != NULL) {
        abx_list_remove(&e->node);
        abx_list_push(&w->ready, &e->node);
    }
    w->batch = NULL;
    batch_unref(b);
}

static void on_done(struct abx_work *work)
{
    struct abx__batch *b = work->owner;
    struct abx_watcher *w = b->watcher;
    give_back(b);
    if (w->is_closed) {
        abx__queue_done(w);
        abx__watcher_release(w);
        return;
    }
    abx__queue_pump(w);
    abx__watcher_notify(w);
}

static void start_batch(struct abx_watcher *w)
{
    struct abx__batch *b = calloc(1, sizeof(*b));
    struct abx__event *e;
    struct abx_error err = {0};
    if (b == NULL) {
        drop_fresh(w);
        abx__watcher_fail(w, ABX_RESOURCE_EXHAUSTED, "watch %.150s: out of memory", w->path);
        return;
    }
    b->watcher = w;
    b->refs = 1;
    abx_list_init(&b->events);
    abx_arena_init(&b->out.arena, ABX__FILES_MEMORY);
    for (int i = 0; i < BATCH_EVENTS && !abx_list_empty(&w->fresh); i++) {
        e = abx_list_first(&w->fresh, struct abx__event, node);
        abx_list_remove(&e->node);
        abx_list_push(&b->events, &e->node);
        e->batch = b;
        b->refs++;
    }
    w->batch = b;
    if (abx_work_start(&b->work, w->ws->loop, on_run, on_done, b, &err) == 0)
        return;
    give_back(b);
    drop_fresh(w);
    abx__watcher_fail(w, err.code, "watch %.120s: %s", w->path, err.msg);
}

void abx__queue_pump(struct abx_watcher *w)
{
    if (w->batch == NULL && !abx_list_empty(&w->fresh))
        start_batch(w);
}

void abx__queue_done(struct abx_watcher *w)
{
    event_free(w->taken);
    w->taken = NULL;
    free_list(&w->ready);
    free_list(&w->fresh);
}

bool abx_watcher_take(struct abx_watcher *w, struct abx_watch_event *ret)
{
    struct abx__event *e = abx_list_first(&w->ready, struct abx__event, node);
    event_free(w->taken);
    w->taken = e;
    if (e == NULL)
        return false;
    abx_list_remove(&e->node);
    w->count--;
    *ret =
        (struct abx_watch_event){e->change, abx_str(e->name),
                                 e->entry_index >= 0 ? &e->batch->out.list[e->entry_index] : NULL};
    return true;
}
