/* guest/caps/watch_tree.c: the folders of watchers and the kernel's watches they stand on. Loop
 * thread. */
#include "guest/caps/watch_priv.h"

#include <stdlib.h>
#include <sys/inotify.h>

#include "lib/base/banned.h"

/* ---- kernel watches ---- */

static struct abx_str key_of(const int *id)
{
    return abx_str_n((const char *)id, sizeof(*id));
}

struct abx__wd *abx__wd_find(struct abx_watches *ws, int id)
{
    return abx_map_get(&ws->wds, key_of(&id));
}

struct abx__wd *abx__wd_note(struct abx_watches *ws, int id)
{
    struct abx__wd *d = abx__wd_find(ws, id);
    if (d)
        return d;
    d = calloc(1, sizeof(*d));
    if (d == NULL)
        return NULL;
    d->id = id;
    abx_list_init(&d->folders);
    abx_list_init(&d->idle);
    if (abx_map_set(&ws->wds, key_of(&id), d, NULL) < 0) {
        free(d);
        return NULL;
    }
    abx_list_push(&ws->idle, &d->idle); /* until a sweep finds it in use */
    return d;
}

void abx__wd_sweep(struct abx_watches *ws)
{
    struct abx__wd *d;
    if (ws->is_arming || !abx_list_empty(&ws->arms))
        return;
    while ((d = abx_list_first(&ws->idle, struct abx__wd, idle)) != NULL) {
        abx_list_remove(&d->idle);
        if (!abx_list_empty(&d->folders))
            continue;
        inotify_rm_watch(ws->fd, d->id); /* gone by itself: EINVAL */
        abx_map_remove(&ws->wds, key_of(&d->id));
        free(d);
    }
}

/* ---- folders ---- */

static void unlink_wd(struct abx__folder *f)
{
    struct abx_watches *ws = f->watcher->ws;
    abx_list_remove(&f->by_wd);
    if (abx_list_empty(&f->wd->folders) && abx_list_empty(&f->wd->idle))
        abx_list_push(&ws->idle, &f->wd->idle);
    f->wd = NULL;
    ws->folder_count--;
}

void abx__folder_unpin(struct abx__folder *f)
{
    if (f == NULL || --f->pins > 0 || f->wd)
        return;
    free(f->name);
    free(f);
}

void abx__folder_detach(struct abx__folder *f)
{
    abx_list_remove(&f->by_parent);
    f->parent = NULL;
}

/* Without recursion: what is below may be as deep as a path is long. */
void abx__folder_drop(struct abx__folder *f)
{
    struct abx__folder *at = f;
    if (f == NULL)
        return;
    abx__folder_detach(f);
    while (at) {
        struct abx__folder *child = abx_list_first(&at->children, struct abx__folder, by_parent);
        if (child) {
            at = child;
            continue;
        }
        struct abx__folder *up = at->parent;
        abx__folder_detach(at);
        if (at->watcher->root == at)
            at->watcher->root = NULL;
        if (at->watcher->moved == at)
            at->watcher->moved = NULL;
        unlink_wd(at);
        at->pins++;
        abx__folder_unpin(at);
        at = up;
    }
}

bool abx__folder_attach(struct abx__folder *f, struct abx__folder *parent, struct abx_str name)
{
    char *copy = abx_str_dup(name);
    if (copy == NULL)
        return false;
    free(f->name);
    f->name = copy;
    abx__folder_detach(f);
    f->parent = parent;
    if (parent)
        abx_list_push(&parent->children, &f->by_parent);
    if (f->watcher->moved == f)
        f->watcher->moved = NULL;
    return true;
}

struct abx__folder *abx__folder_child(struct abx__folder *f, struct abx_str name)
{
    struct abx__folder *child, *found = NULL;
    abx_list_foreach(child, &f->children, struct abx__folder, by_parent)
    {
        if (abx_str_is(name, child->name))
            found = child; /* the newest: an older one of that name is about to go */
    }
    return found;
}

static bool is_below(const struct abx__folder *f, const struct abx__folder *top)
{
    for (; f; f = f->parent)
        if (f == top)
            return true;
    return false;
}

static struct abx__folder *of_watcher(struct abx__wd *d, const struct abx_watcher *w)
{
    struct abx__folder *f;
    abx_list_foreach(f, &d->folders, struct abx__folder, by_wd)
    {
        if (f->watcher == w)
            return f;
    }
    return NULL;
}

static struct abx__folder *folder_new(struct abx_watcher *w, struct abx__wd *d)
{
    struct abx__folder *f = calloc(1, sizeof(*f));
    if (f == NULL)
        return NULL;
    f->watcher = w;
    f->wd = d;
    abx_list_init(&f->children);
    abx_list_init(&f->by_parent);
    abx_list_push(&d->folders, &f->by_wd);
    w->ws->folder_count++;
    return f;
}

struct abx__folder *abx__folder_put(struct abx_watcher *w, struct abx__folder *parent,
                                    struct abx__dir dir, bool *ret_is_new)
{
    struct abx__wd *d = abx__wd_note(w->ws, dir.wd);
    struct abx__folder *f = d ? of_watcher(d, w) : NULL;
    *ret_is_new = d && f == NULL;
    if (*ret_is_new)
        f = folder_new(w, d);
    if (f == NULL || f == w->root || is_below(parent, f))
        return f;
    if (f->parent == parent && f->name && abx_str_is(dir.name, f->name))
        return f;
    if (abx__folder_attach(f, parent, dir.name))
        return f;
    if (*ret_is_new)
        abx__folder_drop(f);
    return NULL;
}

/* Written from the end. */
bool abx__folder_path(const struct abx__folder *f, struct abx_str name, char out[ABX_FILES_PATH])
{
    size_t at = ABX_FILES_PATH;
    out[--at] = '\0';
    if (name.len >= at)
        return false;
    at -= name.len;
    memcpy(out + at, name.ptr ? name.ptr : "", name.len);
    for (; f->parent; f = f->parent) {
        size_t len = strlen(f->name), slash = out[at] ? 1 : 0;
        if (len + slash > at)
            return false;
        if (slash)
            out[--at] = '/';
        at -= len;
        memcpy(out + at, f->name, len);
    }
    if (f != f->watcher->root)
        return false;
    if (out[at] == '\0')
        out[--at] = '.';
    memmove(out, out + at, ABX_FILES_PATH - at);
    return true;
}
