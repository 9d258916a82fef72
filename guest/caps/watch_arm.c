/* guest/caps/watch_arm.c: adds the kernel's watches for a folder and what is below, on the pool
 * (S80). The watch of a folder comes before the look into it, so that nothing falls in between. */
#include "guest/caps/watch_priv.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/vfs.h>

#include "lib/base/banned.h"

enum {
    MASK = IN_CREATE | IN_MOVED_TO | IN_MODIFY | IN_DELETE | IN_DELETE_SELF | IN_MOVED_FROM |
           IN_MOVE_SELF | IN_ATTRIB,
    MEMORY_MAX = 64 << 20, /* names of one request */
};

static bool is_network(const char *path)
{
    static const unsigned magics[] = {NFS_SUPER_MAGIC,  CIFS_SUPER_MAGIC, SMB_SUPER_MAGIC,
                                      SMB2_SUPER_MAGIC, FUSE_SUPER_MAGIC, V9FS_MAGIC};
    struct statfs fs;
    if (statfs(path, &fs) < 0)
        return false;
    for (size_t i = 0; i < ABX_COUNTOF(magics); i++)
        if ((unsigned)fs.f_type == magics[i])
            return true;
    return false;
}

static int fail(struct abx__arm *a, enum abx_code code, const char *text)
{
    a->failed = true;
    return abx_err_set(&a->err, code, "cannot watch %.120s: %s", a->path, text);
}

/* Room for one more of @size bytes in *@list, doubled in the arena. */
static void *grow(struct abx__arm *a, void *list, size_t count, size_t *cap, size_t size)
{
    if (count < *cap)
        return list;
    size_t more = *cap ? 2 * *cap : 16;
    void *fresh = abx_arena_array(&a->arena, more, size);
    if (fresh && count)
        memcpy(fresh, list, count * size);
    if (fresh)
        *cap = more;
    return fresh;
}

/* 1 added, 0 not there or not a folder (any more), -1 failed. */
static int add_dir(struct abx__arm *a, const char *path, size_t parent, struct abx_str name)
{
    bool is_top = a->dir_count == 0 && a->parent == NULL;
    int wd =
        inotify_add_watch(a->inotify_fd, path, MASK | IN_ONLYDIR | (is_top ? 0 : IN_DONT_FOLLOW));
    if (wd < 0 && errno == ENOSPC)
        return fail(a, ABX_RESOURCE_EXHAUSTED,
                    "the kernel allows no more watches: raise fs.inotify.max_user_watches");
    if (wd < 0 && errno == ENOMEM)
        return fail(a, ABX_RESOURCE_EXHAUSTED, "out of memory");
    if (wd < 0)
        return 0;
    if (a->dir_count >= a->room)
        return fail(a, ABX_RESOURCE_EXHAUSTED, "more folders than can be watched");
    struct abx__dir *dirs = grow(a, a->dirs, a->dir_count, &a->dir_cap, sizeof(*dirs));
    struct abx_str copy = abx_arena_str(&a->arena, name);
    if (dirs == NULL || copy.ptr == NULL)
        return fail(a, ABX_RESOURCE_EXHAUSTED, "out of memory");
    a->dirs = dirs;
    a->dirs[a->dir_count++] = (struct abx__dir){parent, wd, copy};
    return 1;
}

static int add_name(struct abx__arm *a, size_t dir, const char *name)
{
    struct abx__name *names = grow(a, a->names, a->name_count, &a->name_cap, sizeof(*names));
    struct abx_str copy = abx_arena_str(&a->arena, abx_str(name));
    if (names == NULL || copy.ptr == NULL)
        return fail(a, ABX_RESOURCE_EXHAUSTED, "out of memory");
    a->names = names;
    a->names[a->name_count++] = (struct abx__name){dir, copy};
    return 0;
}

static bool is_dir(const char *path, const struct dirent *e)
{
    struct stat st;
    if (e->d_type != DT_UNKNOWN)
        return e->d_type == DT_DIR;
    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int scan(struct abx__arm *a, struct abx_buf *path, size_t self);

static int scan_entry(struct abx__arm *a, struct abx_buf *path, size_t self, const struct dirent *e)
{
    size_t base = path->len;
    int rc = a->parent ? add_name(a, self, e->d_name) : 0; /* of the first folder: known before */
    abx_buf_putf(path, "%s%s", path->ptr[base - 1] == '/' ? "" : "/", e->d_name);
    if (abx_buf_failed(path))
        return fail(a, ABX_INVALID_ARGUMENT, "a path below it is too long");
    if (rc == 0 && is_dir(path->ptr, e)) {
        rc = add_dir(a, path->ptr, self, abx_str(e->d_name));
        if (rc > 0)
            rc = scan(a, path, a->dir_count - 1);
    }
    path->len = base;
    path->ptr[base] = '\0';
    return rc;
}

/* Everything in the folder dirs[self]. One that is gone or closed to us has nothing in it. */
static int scan(struct abx__arm *a, struct abx_buf *path, size_t self)
{
    DIR *dir = opendir(path->ptr);
    int rc = 0;
    if (dir == NULL && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
        return fail(a, ABX_RESOURCE_EXHAUSTED, "too many open files");
    if (dir == NULL)
        return 0;
    for (struct dirent *e; rc == 0 && (e = readdir(dir)) != NULL;)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            rc = scan_entry(a, path, self, e);
    closedir(dir);
    return rc;
}

/* The first folder of a watcher, with the texts of envd.md 6.4. */
static int check_root(struct abx__arm *a)
{
    struct stat st;
    char text[96];
    a->failed = true;
    if (stat(a->path, &st) < 0) {
        int errnum = errno;
        enum abx_code code = errnum == ENOENT ? ABX_NOT_FOUND : ABX_INTERNAL;
        return abx_err_set(&a->err, code,
                           errnum == ENOENT ? "path %.90s not found: stat %.90s: %s"
                                            : "error getting path info %.90s: stat %.90s: %s",
                           a->path, a->path, abx__errno_text(errnum, text));
    }
    if (!S_ISDIR(st.st_mode))
        return abx_err_set(&a->err, ABX_INVALID_ARGUMENT, "path %.150s not a directory", a->path);
    if (!a->allows_network && is_network(a->path))
        return abx_err_set(&a->err, ABX_INVALID_ARGUMENT,
                           "cannot watch path on network filesystem: %.150s", a->path);
    a->failed = false;
    return 0;
}

void abx__arm_run(struct abx__arm *a)
{
    ABX_AUTO_BUF path;
    abx_buf_init(&path, ABX_FILES_PATH - 1);
    if (a->parent == NULL && check_root(a) < 0)
        return;
    abx_buf_put_c(&path, a->path);
    if (abx_buf_failed(&path)) {
        fail(a, ABX_RESOURCE_EXHAUSTED, "out of memory");
        return;
    }
    struct abx_str name = a->parent ? abx_path_base(abx_str(a->path)) : ABX_STR("");
    int rc = add_dir(a, path.ptr, 0, name);
    a->is_gone = rc == 0;
    if (rc > 0 && a->is_recursive)
        scan(a, &path, 0);
}

/* ---- on the loop ---- */

void abx__arm_free(struct abx__arm *a)
{
    abx_list_remove(&a->node);
    abx__folder_unpin(a->parent);
    abx_arena_done(&a->arena);
    free(a);
}

void abx__arm_ask(struct abx_watcher *w, struct abx__folder *parent, struct abx_str name)
{
    struct abx_watches *ws = w->ws;
    char path[ABX_FILES_PATH], below[ABX_FILES_PATH] = "";
    if (parent && !abx__folder_path(parent, name, below))
        return; /* moved away meanwhile */
    ABX_AUTO_BUF whole;
    abx_buf_init(&whole, sizeof(path) - 1);
    abx_buf_putf(&whole, "%s%s%s", w->path, below[0] ? "/" : "", below);
    size_t taken = ws->folder_count + ws->arm_count;
    struct abx__arm *a = abx_buf_failed(&whole) || taken >= ABX_WATCH_FOLDERS_MAX
                             ? NULL
                             : calloc(1, sizeof(*a) + whole.len + 1);
    if (a == NULL) {
        abx__watcher_fail(w, ABX_RESOURCE_EXHAUSTED, "cannot watch %.150s: no room", below);
        return;
    }
    memcpy(a->path, whole.ptr, whole.len + 1);
    a->watcher = w;
    a->parent = parent;
    if (parent)
        parent->pins++;
    a->inotify_fd = ws->fd;
    a->is_recursive = w->is_recursive;
    a->allows_network = w->allows_network;
    a->room = ABX_WATCH_FOLDERS_MAX - taken;
    abx_arena_init(&a->arena, MEMORY_MAX);
    abx_list_push(&ws->arms, &a->node);
    ws->arm_count++;
    w->arms_asked++;
}

static void on_run(struct abx_work *work)
{
    struct abx_watches *ws = work->owner;
    struct abx__arm *a;
    abx_list_foreach(a, &ws->running, struct abx__arm, node)
    {
        abx__arm_run(a);
    }
}

static void end_arm(struct abx__arm *a)
{
    struct abx_watcher *w = a->watcher;
    w->ws->arm_count--;
    abx__arm_free(a);
    w->arms_done++;
    abx__watcher_release(w);
}

static void on_done(struct abx_work *work)
{
    struct abx_watches *ws = work->owner;
    struct abx__arm *a;
    ws->is_arming = false;
    ws->holds++; /* the end of the last watcher may be that of all */
    while ((a = abx_list_first(&ws->running, struct abx__arm, node)) != NULL) {
        abx__arm_graft(a);
        end_arm(a);
    }
    abx__watches_process(ws);
    while (ws->is_closed && (a = abx_list_first(&ws->arms, struct abx__arm, node)) != NULL)
        end_arm(a);
    ws->holds--;
    abx__watches_release(ws);
}

void abx__arm_pump(struct abx_watches *ws)
{
    struct abx_error err = {0};
    struct abx__arm *a;
    if (ws->is_arming || abx_list_empty(&ws->arms))
        return;
    while ((a = abx_list_first(&ws->arms, struct abx__arm, node)) != NULL) {
        abx_list_remove(&a->node);
        abx_list_push(&ws->running, &a->node);
    }
    ws->is_arming = true;
    if (abx_work_start(&ws->work, ws->loop, on_run, on_done, ws, &err) == 0)
        return;
    abx_list_foreach(a, &ws->running, struct abx__arm, node)
    {
        a->failed = true;
        a->err = err;
    }
    on_done(&ws->work);
}
