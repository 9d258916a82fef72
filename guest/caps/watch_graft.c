/* guest/caps/watch_graft.c: puts what a job has found into a watcher's tree; what was in a new
 * folder before its watch is reported as created (envd.md trap 3). Loop thread. */
#include "guest/caps/watch_priv.h"

#include "lib/base/banned.h"

enum { KEY_BYTES = sizeof(int) + 256 };

static struct abx_str key_of(int wd, struct abx_str name, char out[KEY_BYTES])
{
    size_t len = name.len < KEY_BYTES - sizeof(wd) ? name.len : KEY_BYTES - sizeof(wd);
    memcpy(out, &wd, sizeof(wd));
    memcpy(out + sizeof(wd), name.ptr, len);
    return abx_str_n(out, sizeof(wd) + len);
}

bool abx__scan_knew(struct abx_watcher *w, int wd, struct abx_str name)
{
    char key[KEY_BYTES];
    return w->scanned.count && abx_map_remove(&w->scanned, key_of(wd, name, key));
}

/* Without memory the name is told twice. */
void abx__scan_note(struct abx_watcher *w, int wd, struct abx_str name)
{
    char key[KEY_BYTES];
    abx_map_set(&w->scanned, key_of(wd, name, key), w, NULL);
}

static void report(struct abx_watcher *w, const struct abx__arm *a, struct abx__folder **folders,
                   const bool *is_new)
{
    char path[ABX_FILES_PATH];
    for (size_t i = 0; i < a->name_count; i++) {
        const struct abx__name *n = &a->names[i];
        if (!is_new[n->dir] || !abx__folder_path(folders[n->dir], n->name, path))
            continue;
        abx__event_put(w, ABX_WATCH_CREATE, path);
        abx__scan_note(w, a->dirs[n->dir].wd, n->name);
    }
}

static int put_all(struct abx_watcher *w, struct abx__arm *a, struct abx__folder **folders,
                   bool *is_new)
{
    for (size_t i = 0; i < a->dir_count; i++) {
        struct abx__folder *parent = i ? folders[a->dirs[i].parent] : a->parent;
        folders[i] = abx__folder_put(w, parent, a->dirs[i], &is_new[i]);
        if (folders[i] == NULL)
            return -1;
        if (parent == NULL)
            w->root = folders[i];
    }
    return 0;
}

/* Gone: or its parent has another name since it was asked for. */
static void retry(struct abx__arm *a)
{
    char path[ABX_FILES_PATH];
    struct abx_str name = abx_path_base(abx_str(a->path));
    if (a->parent && abx__folder_path(a->parent, name, path) &&
        !abx_str_ends(abx_str(a->path), path))
        abx__arm_ask(a->watcher, a->parent, name);
}

void abx__arm_graft(struct abx__arm *a)
{
    struct abx_watcher *w = a->watcher;
    struct abx_watches *ws = w->ws;
    for (size_t i = 0; i < a->dir_count; i++)
        abx__wd_note(ws, a->dirs[i].wd);
    if (w->is_closed || (a->parent && a->parent->wd == NULL))
        return;
    if (a->is_gone && a->parent == NULL)
        abx__watcher_fail(w, ABX_NOT_FOUND, "path %.150s not found: it has just gone", a->path);
    if (a->is_gone && a->parent)
        retry(a);
    if (a->failed)
        abx__watcher_fail(w, a->err.code, "%s", a->err.msg);
    if (a->is_gone || a->failed)
        return;
    struct abx__folder **folders = abx_arena_array(&a->arena, a->dir_count, sizeof(*folders));
    bool *is_new = abx_arena_array(&a->arena, a->dir_count, sizeof(*is_new));
    if (folders == NULL || is_new == NULL || put_all(w, a, folders, is_new) < 0) {
        abx__watcher_fail(w, ABX_RESOURCE_EXHAUSTED, "cannot watch %.150s: out of memory", a->path);
        return;
    }
    w->is_armed = true;
    report(w, a, folders, is_new);
}
