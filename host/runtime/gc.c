/* host/runtime/gc.c: removes what carries our names below the state folder, and our cgroups, and
 * belongs to no sandbox that the engine knows (security S65). Nothing else is ever touched. */
#include "host/runtime/runtime_priv.h"

#include "lib/base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { LAYERS_MAX = 256 };

struct gc {
    struct abx__worker *w;
    const char *keep;
    size_t keep_count;
    struct abx_map stale; /* ids; values are not used */
};

static bool is_kept(const struct gc *g, const char *id)
{
    for (size_t i = 0; i < g->keep_count; i++)
        if (memcmp(g->keep + i * ABX_SANDBOX_ID_LEN, id, ABX_SANDBOX_ID_LEN) == 0)
            return true;
    return false;
}

static void consider(void *arg, const char *id)
{
    struct gc *g = arg;
    if (!is_kept(g, id))
        (void)abx_map_set(&g->stale, abx_str(id), g, NULL); /* what does not fit waits for a next */
}

static DIR *open_list(int dir_fd)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL && fd >= 0)
        close(fd);
    return dir;
}

static void find_folders(struct gc *g)
{
    DIR *dir = open_list(g->w->sandboxes_fd);
    const struct dirent *e;
    while (dir != NULL && (e = readdir(dir)) != NULL) {
        char id[ABX_SANDBOX_ID_LEN + 1];
        if (abx_str_to_c(abx_str(e->d_name), id, sizeof(id)) == 0 && abx__id_is_valid(id))
            consider(g, id);
    }
    if (dir != NULL)
        closedir(dir);
}

/* "r" and 16 hexadecimal digits: abx__layers_make() */
static bool is_layer_name(const char *name)
{
    return name[0] == 'r' && strlen(name) == 17 && strspn(name + 1, "0123456789abcdef") == 16;
}

void abx__records_each(const struct abx__worker *w,
                       void (*fn)(void *arg, const struct abx__box_record *r), void *arg)
{
    DIR *dir = open_list(w->sandboxes_fd);
    const struct dirent *e;
    while (dir != NULL && (e = readdir(dir)) != NULL) {
        ABX_AUTO_FD folder =
            openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct abx__box_record record;
        if (folder >= 0 && e->d_name[0] == 'i' && abx__record_read(folder, &record) == 0)
            fn(arg, &record);
    }
    if (dir != NULL)
        closedir(dir);
}

struct user_of {
    const char *name;
    bool found;
};

static void compare_name(void *arg, const struct abx__box_record *r)
{
    struct user_of *u = arg;
    u->found = u->found || strcmp(r->layers, u->name) == 0;
}

static bool is_layer_used(const struct abx__worker *w, const char *name)
{
    struct user_of u = {name, strcmp(name, w->layers.name) == 0};
    if (!u.found)
        abx__records_each(w, compare_name, &u);
    return u.found;
}

void abx__gc_layers(const struct abx__worker *w)
{
    char names[LAYERS_MAX][24];
    size_t count = 0;
    DIR *dir = open_list(w->runtime_fd);
    const struct dirent *e;
    while (dir != NULL && count < LAYERS_MAX && (e = readdir(dir)) != NULL)
        if (is_layer_name(e->d_name) && !is_layer_used(w, e->d_name))
            (void)abx_str_to_c(abx_str(e->d_name), names[count++], sizeof(names[0]));
    if (dir != NULL)
        closedir(dir);
    for (size_t i = 0; i < count; i++)
        (void)abx_fd_remove_tree(w->runtime_fd, names[i]);
}

static void mark_slot(void *arg, const struct abx__box_record *r)
{
    if (r->slot < ABX__IDS_SLOTS)
        abx__slot_mark(arg, r->slot, true);
}

void abx__slots_scan(struct abx__worker *w)
{
    abx__records_each(w, mark_slot, w);
    /* Engines start anywhere: two of one machine rarely try the same range (slots.c). */
    for (const char *p = w->options.state_dir; *p != 0; p++)
        w->next_slot = w->next_slot * 31 + (unsigned char)*p;
}

static void finish(struct abx__worker *w)
{
    uint64_t tag = w->gc_tag;
    w->gc_tag = 0;
    abx__gc_layers(w);
    abx__worker_reply(w, tag, NULL, NULL);
}

void abx__worker_gc_step(struct abx__worker *w)
{
    if (w->gc_left > 0 && --w->gc_left == 0)
        finish(w);
}

/* A cgroup that no sandbox and no prepared shim has. */
static void consider_slot(void *arg, uint32_t slot)
{
    struct gc *g = arg;
    if (abx__slot_is_taken(g->w, slot))
        return;
    abx__slot_mark(g->w, slot, true);
    g->w->gc_left++;
    abx__slot_end_gc(g->w, slot);
}

void abx__gc_start(struct abx__worker *w, const struct abx__rt_request *req, const char *keep)
{
    struct abx_error err;
    if (w->gc_tag != 0) {
        abx_err_set(&err, ABX_RESOURCE_EXHAUSTED, "a gc is running");
        abx__worker_reply(w, req->tag, NULL, &err);
        return;
    }
    struct gc g = {.w = w, .keep = keep, .keep_count = req->keep_count};
    abx_map_init(&g.stale, ABX__RT_BOXES_MAX);
    find_folders(&g);
    w->gc_tag = req->tag;
    w->gc_left = (uint32_t)g.stale.count + 1;
    abx__cgroups_each(&w->cgroups, consider_slot, &g);
    size_t it = 0;
    struct abx_str key;
    void *unused;
    while (abx_map_next(&g.stale, &it, &key, &unused)) {
        char id[ABX_SANDBOX_ID_LEN + 1];
        if (abx_str_to_c(key, id, sizeof(id)) == 0)
            abx__box_destroy(w, id, 0);
    }
    abx_map_done(&g.stale);
    abx__worker_gc_step(w);
}
