/* host/runtime/layer_store.c: STATE/layers: one folder per layer, named by its digest, owned by the
 * storage range (security S51), with what is known of it in a file beside. A layer comes into being
 * by one rename and never changes; what is not a layer yet is called .new-X. */
#include "host/runtime/runtime_priv.h"

#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/parse.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { HEX_LEN = 2 * ABX_DIGEST_LEN, META_MAX = 16 * 1024, REMOVED_MAX = 4096 };
static const char scratch_prefix[] = ".new-";
static const char meta_suffix[] = ".meta";

static void hex_of(const struct abx_digest *d, char out[HEX_LEN + 1])
{
    abx_hex_encode(d->bytes, sizeof(d->bytes), out);
}

static DIR *open_list(int dir_fd)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL && fd >= 0)
        close(fd);
    return dir;
}

static void remove_scratch(int layers_fd)
{
    DIR *dir = open_list(layers_fd);
    const struct dirent *e;
    while (dir != NULL && (e = readdir(dir)) != NULL)
        if (abx_str_starts(abx_str(e->d_name), scratch_prefix))
            (void)abx_fd_remove_tree(layers_fd, e->d_name);
    if (dir != NULL)
        closedir(dir);
}

int abx__store_open(struct abx__worker *w, struct abx_error *err)
{
    if (mkdirat(w->state_fd, "layers", 0700) < 0 && errno != EEXIST)
        return abx_err_sys(err, -errno, "%s/layers", w->options.state_dir);
    w->layers_fd = openat(w->state_fd, "layers", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (w->layers_fd < 0 || fstat(w->layers_fd, &st) < 0)
        return abx_err_sys(err, -errno, "%s/layers", w->options.state_dir);
    /* Made by another it could be swapped under us; and nobody else may reach a setuid file. */
    if (st.st_uid != geteuid() || fchmod(w->layers_fd, 0700) < 0)
        return abx_err_sys(err, -EPERM, "%s/layers is not ours", w->options.state_dir);
    remove_scratch(w->layers_fd);
    return 0;
}

int abx__store_layer(const struct abx__worker *w, const struct abx_digest *d)
{
    char name[HEX_LEN + 1];
    hex_of(d, name);
    int fd = openat(w->layers_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

bool abx__store_has(const struct abx__worker *w, const struct abx_digest *d)
{
    char name[HEX_LEN + 1];
    struct stat st;
    hex_of(d, name);
    return fstatat(w->layers_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

int abx__store_scratch(const struct abx__worker *w, char ret_name[32], int *ret_fd)
{
    unsigned char random[8];
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return -EIO;
    memcpy(ret_name, scratch_prefix, sizeof(scratch_prefix));
    abx_hex_encode(random, sizeof(random), ret_name + sizeof(scratch_prefix) - 1);
    if (mkdirat(w->layers_fd, ret_name, 0700) < 0)
        return -errno;
    int r = abx__ids_chown(&w->ids, w->layers_fd, ret_name, 0, 0);
    int fd =
        r < 0 ? r : openat(w->layers_fd, ret_name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        r = r < 0 ? r : -errno;
        (void)unlinkat(w->layers_fd, ret_name, AT_REMOVEDIR);
        return r;
    }
    *ret_fd = fd;
    return 0;
}

static int write_meta(const struct abx__worker *w, const char *hex, const struct abx__new_layer *l)
{
    char name[HEX_LEN + sizeof(meta_suffix)], parent[HEX_LEN + 1];
    snprintf(name, sizeof(name), "%s%s", hex, meta_suffix);
    ABX_AUTO_BUF text;
    abx_buf_init(&text, META_MAX);
    abx_buf_putf(&text, "bytes %llu\nentries %llu\n", (unsigned long long)l->info.bytes,
                 (unsigned long long)l->info.entries);
    for (uint32_t i = 0; i < l->parent_count; i++) {
        hex_of(&l->parents[i], parent);
        abx_buf_putf(&text, "parent %s\n", parent);
    }
    if (abx_buf_failed(&text))
        return -ENOMEM;
    return abx_fd_replace_file(w->layers_fd, name, abx_buf_str(&text), 0600);
}

int abx__store_add(const struct abx__worker *w, int dir_fd, const char *name,
                   const struct abx__new_layer *l)
{
    char hex[HEX_LEN + 1];
    hex_of(&l->info.digest, hex);
    if (abx__store_has(w, &l->info.digest))
        return 0;
    int r = write_meta(w, hex, l);
    if (r < 0)
        return r;
    /* A name that is there stands for the whole content, also after a loss of power. */
    if (syncfs(w->layers_fd) < 0)
        return -errno;
    if (renameat(dir_fd, name, w->layers_fd, hex) < 0)
        return errno == EEXIST || errno == ENOTEMPTY ? 0 : -errno;
    return fsync(w->layers_fd) < 0 ? -errno : 0;
}

/* ---- sealing ---- */
struct tally {
    uint64_t bytes, entries;
    int depth;
};
enum { TALLY_DEPTH = 256 };

static void count_tree(int dir_fd, struct tally *t)
{
    DIR *dir = open_list(dir_fd);
    const struct dirent *e;
    while (dir != NULL && t->depth < TALLY_DEPTH && (e = readdir(dir)) != NULL) {
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        t->entries++;
        t->bytes += S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
        if (!S_ISDIR(st.st_mode))
            continue;
        ABX_AUTO_FD sub = openat(dirfd(dir), e->d_name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
        t->depth++;
        if (sub >= 0)
            count_tree(sub, t);
        t->depth--;
    }
    if (dir != NULL)
        closedir(dir);
}

int abx__store_seal(const struct abx__worker *w, const char *id, const struct abx_digest *d)
{
    ABX_AUTO_FD folder =
        openat(w->sandboxes_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct abx__box_record record;
    int r = folder < 0 ? -errno : abx__record_read(folder, &record);
    if (r < 0)
        return r;
    ABX_AUTO_FD upper = openat(folder, "fs/upper", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (upper < 0)
        return -errno;
    struct tally t = {0};
    count_tree(upper, &t);
    struct abx__new_layer layer = {.info = {*d, t.bytes, t.entries},
                                   .parents = record.digests,
                                   .parent_count = record.digest_count};
    return abx__store_add(w, folder, "fs/upper", &layer);
}

/* ---- removing what nobody needs ---- */
struct sweep {
    struct abx__worker *w;
    struct abx_work work;
    uint64_t tag;
    struct abx_map kept; /* digests as bytes */
    bool is_full;        /* not all that is kept could be noted: nothing is removed */
    char (*names)[HEX_LEN + 1];
    size_t count;
};

static void keep_one(struct sweep *s, const struct abx_digest *d)
{
    struct abx_str key = {(const char *)d->bytes, sizeof(d->bytes)};
    if (abx_map_set(&s->kept, key, s, NULL) < 0)
        s->is_full = true;
}

static void keep_record(void *arg, const struct abx__box_record *r)
{
    for (uint32_t i = 0; i < r->digest_count; i++)
        keep_one(arg, &r->digests[i]);
}

/* A layer, or what is known of one, that is not kept. */
static bool is_garbage(const struct sweep *s, const char *name)
{
    struct abx_digest d;
    struct abx_str text = abx_str(name);
    if (abx_str_ends(text, meta_suffix))
        text.len -= sizeof(meta_suffix) - 1;
    if (text.len != HEX_LEN || abx_hex_decode(text, d.bytes, sizeof(d.bytes)) < 0)
        return false;
    return abx_map_get(&s->kept, (struct abx_str){(const char *)d.bytes, sizeof(d.bytes)}) == NULL;
}

/* Layers get a name that is none at once, so that no sandbox can start on half of one. */
static void take_names(struct sweep *s)
{
    DIR *dir = s->is_full ? NULL : open_list(s->w->layers_fd);
    const struct dirent *e;
    while (dir != NULL && s->count < REMOVED_MAX && (e = readdir(dir)) != NULL) {
        char *to = s->names[s->count];
        if (!is_garbage(s, e->d_name))
            continue;
        if (abx_str_ends(abx_str(e->d_name), meta_suffix)) {
            (void)unlinkat(s->w->layers_fd, e->d_name, 0);
            continue;
        }
        snprintf(to, sizeof(s->names[0]), "%s%.40s", scratch_prefix, e->d_name);
        if (renameat(s->w->layers_fd, e->d_name, s->w->layers_fd, to) == 0)
            s->count++;
    }
    if (dir != NULL)
        closedir(dir);
}

static void sweep_run(struct abx_work *work)
{
    struct sweep *s = work->owner;
    for (size_t i = 0; i < s->count; i++)
        (void)abx_fd_remove_tree(s->w->layers_fd, s->names[i]);
}

static void sweep_done(struct abx_work *work)
{
    struct sweep *s = work->owner;
    struct abx_error err;
    if (s->is_full)
        abx_err_set(&err, ABX_RESOURCE_EXHAUSTED, "too many layers are in use for a gc");
    abx__worker_reply(s->w, s->tag, NULL, s->is_full ? &err : NULL);
    abx_map_done(&s->kept);
    free(s->names);
    free(s);
}

void abx__store_gc(struct abx__worker *w, const struct abx__rt_request *req, const char *keep)
{
    struct abx_error err;
    struct sweep *s = calloc(1, sizeof(*s));
    if (s != NULL)
        s->names = calloc(REMOVED_MAX, sizeof(s->names[0]));
    if (s == NULL || s->names == NULL) {
        free(s);
        abx_err_set(&err, ABX_RESOURCE_EXHAUSTED, "no memory");
        abx__worker_reply(w, req->tag, NULL, &err);
        return;
    }
    s->w = w;
    s->tag = req->tag;
    abx__pool_forget_layers(w);
    abx_map_init(&s->kept, 64 * 1024);
    for (uint32_t i = 0; i < req->keep_count; i++) {
        struct abx_digest d;
        memcpy(d.bytes, keep + (size_t)i * sizeof(d), sizeof(d));
        keep_one(s, &d);
    }
    abx__records_each(w, keep_record, s);
    take_names(s);
    if (abx_work_start(&s->work, &w->loop, sweep_run, sweep_done, s, &err) == 0)
        return;
    s->work.owner = s;
    sweep_run(&s->work);
    sweep_done(&s->work);
}
