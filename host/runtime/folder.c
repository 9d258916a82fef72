/* host/runtime/folder.c: the folder of a sandbox, made ahead of need under a name of its own, and
 * claimed by writing what is the sandbox's into it and renaming it. Making entries is what costs: a
 * dozen of them take longer than all the mounts. What an earlier engine made and nobody claimed is
 * removed at the start. */
#include "host/runtime/runtime_priv.h"

#include "lib/base/fd.h"
#include "lib/base/parse.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum {
    GATEWAY_BACKLOG = 512,
    RECORD_MAX = 256 + ABX_LAYERS_MAX * (2 * ABX_DIGEST_LEN + 1),
    MACHINE_ID_BYTES = 16,
    SWEEP_PAUSE_MS = 10,
    SWEEP_RETRIES = 100
};
static const char spare_prefix[] = ".new-";

/* ---- the record ---- */
static int record_write(int fd, const struct abx__box_record *r)
{
    char nonce[2 * ABX_NONCE_LEN + 1], digest[2 * ABX_DIGEST_LEN + 1];
    ABX_AUTO_BUF text;
    abx_buf_init(&text, RECORD_MAX);
    abx_hex_encode(r->nonce, sizeof(r->nonce), nonce);
    abx_buf_putf(&text, "%u %s %s", r->slot, nonce, r->layers);
    for (uint32_t i = 0; i < r->digest_count; i++) {
        abx_hex_encode(r->digests[i].bytes, ABX_DIGEST_LEN, digest);
        abx_buf_putf(&text, " %s", digest);
    }
    return abx_buf_failed(&text) ? -ENOMEM : abx_fd_write_all(fd, text.ptr, text.len);
}

int abx__record_read(int dir_fd, struct abx__box_record *ret)
{
    ABX_AUTO_FREE char *text = NULL;
    size_t len;
    int r = abx_fd_read_file(dir_fd, "shim", RECORD_MAX, &text, &len);
    if (r < 0)
        return r;
    struct abx_str rest = {text, len}, slot, nonce, layers;
    if (!abx_str_split(&rest, ' ', &slot) || !abx_str_split(&rest, ' ', &nonce) ||
        !abx_str_split(&rest, ' ', &layers) || abx_parse_u32(slot, &ret->slot) < 0 ||
        abx_hex_decode(nonce, ret->nonce, sizeof(ret->nonce)) < 0 ||
        abx_str_to_c(layers, ret->layers, sizeof(ret->layers)) < 0)
        return -EINVAL;
    struct abx_str digest;
    for (ret->digest_count = 0; abx_str_split(&rest, ' ', &digest); ret->digest_count++)
        if (ret->digest_count == ABX_LAYERS_MAX ||
            abx_hex_decode(digest, ret->digests[ret->digest_count].bytes, ABX_DIGEST_LEN) < 0)
            return -EINVAL;
    return 0;
}

/* ---- making ---- */
/* A folder for the runtime side and, when rootful, for the network side to pass through. */
static int private_folder(const struct abx__worker *w, int at, const char *name, int *ret_fd)
{
    if (mkdirat(at, name, 0700) < 0)
        return -errno;
    if (w->ids.level == ABX__IDS_PRIVATE &&
        (fchownat(at, name, 0, w->options.network_gid, AT_SYMLINK_NOFOLLOW) < 0 ||
         fchmodat(at, name, 0710, 0) < 0))
        return -errno;
    *ret_fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *ret_fd < 0 ? -errno : 0;
}

/* A folder that belongs to the sandbox's root, as it lies on disk. */
static int owned_folder(const struct abx__worker *w, int at, const char *name, mode_t mode)
{
    if (mkdirat(at, name, 0700) < 0 || fchmodat(at, name, mode, 0) < 0)
        return -errno;
    return abx__ids_chown(&w->ids, at, name, 0, 0);
}

/* An empty file of the sandbox's root. Its descriptor or -errno. */
static int owned_file(const struct abx__worker *w, int at, const char *name)
{
    ABX_AUTO_FD fd = openat(at, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || fchmod(fd, 0644) < 0)
        return -errno;
    int r = abx__ids_chown(&w->ids, at, name, 0, 0);
    return r < 0 ? r : abx_fd_take(&fd);
}

/* What is this sandbox's own of /etc. */
static int make_etc(const struct abx__worker *w, struct abx__folder *f)
{
    int r = owned_folder(w, f->dir, "fs/upper/etc", 0755);
    if (r < 0)
        return r;
    f->hostname = owned_file(w, f->dir, "fs/upper/etc/hostname");
    if (f->hostname < 0)
        return f->hostname;
    f->hosts = owned_file(w, f->dir, "fs/upper/etc/hosts");
    return f->hosts < 0 ? f->hosts : 0;
}

/* fs/{upper,work}. A step's upper becomes a layer: it starts empty. */
static int make_upper(const struct abx__worker *w, struct abx__folder *f)
{
    static const char *const names[] = {"fs", "fs/upper", "fs/work"};
    static const mode_t modes[] = {0700, 0755, 0700};
    for (size_t i = 0; i < ABX_COUNTOF(names); i++) {
        int r = owned_folder(w, f->dir, names[i], modes[i]);
        if (r < 0)
            return r;
    }
    f->fs = openat(f->dir, "fs", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (f->fs < 0)
        return -errno;
    return f->is_step ? 0 : make_etc(w, f);
}

static int make_gateway(const struct abx__worker *w, struct abx__folder *f)
{
    f->gateway = abx_fd_listen_unix(f->run, "gateway.sock", SOCK_STREAM, GATEWAY_BACKLOG);
    if (f->gateway < 0)
        return f->gateway;
    if (w->ids.level == ABX__IDS_PRIVATE &&
        (fchownat(f->run, "gateway.sock", 0, w->options.network_gid, AT_SYMLINK_NOFOLLOW) < 0 ||
         fchmodat(f->run, "gateway.sock", 0660, 0) < 0))
        return -errno;
    return 0;
}

static int make_sockets(const struct abx__worker *w, struct abx__folder *f)
{
    int r = f->is_step ? 0 : make_gateway(w, f);
    if (r < 0)
        return r;
    f->listen = abx_fd_listen_unix(f->dir, "shim.sock", SOCK_SEQPACKET, ABX_SHIM_CLIENTS);
    if (f->listen < 0)
        return f->listen;
    f->log =
        openat(f->dir, "console.log", O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    return f->log < 0 ? -errno : 0;
}

static int make_reports(const struct abx__worker *w, struct abx__folder *f)
{
    int r = owned_folder(w, f->dir, "asan", 01777);
    if (r < 0)
        return r;
    f->extra = openat(f->dir, "asan", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return f->extra < 0 ? -errno : 0;
}

static int make_all(const struct abx__worker *w, struct abx__folder *f)
{
    int r = private_folder(w, w->sandboxes_fd, f->name, &f->dir);
    if (r < 0)
        return r;
    f->record = openat(f->dir, "shim", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (f->record < 0)
        return -errno;
    r = private_folder(w, f->dir, "run", &f->run);
    if (r == 0)
        r = make_upper(w, f);
    if (r == 0 && w->options.guest_libs != NULL)
        r = make_reports(w, f);
    return r < 0 ? r : make_sockets(w, f);
}

int abx__folder_make(const struct abx__worker *w, bool is_step, struct abx__folder *ret)
{
    unsigned char random[8];
    *ret = (struct abx__folder){.is_step = is_step};
    int *fds[] = ABX__FOLDER_FDS(ret);
    for (size_t i = 0; i < ABX_COUNTOF(fds); i++)
        *fds[i] = -1;
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return -EIO;
    memcpy(ret->name, spare_prefix, sizeof(spare_prefix));
    abx_hex_encode(random, sizeof(random), ret->name + sizeof(spare_prefix) - 1);
    int r = make_all(w, ret);
    if (r < 0)
        abx__folder_drop(w, ret);
    return r;
}

void abx__folder_done(struct abx__folder *f)
{
    int *fds[] = ABX__FOLDER_FDS(f);
    for (size_t i = 0; i < ABX_COUNTOF(fds); i++)
        abx_fd_close(fds[i]);
}

void abx__folder_drop(const struct abx__worker *w, struct abx__folder *f)
{
    abx__folder_done(f);
    (void)abx_fd_remove_tree(w->sandboxes_fd, f->name);
}

/* The shims of an engine that was killed end by themselves, at the latest when what they do at the
 * moment is done. @left: of the tries of all. */
static void sweep_one(const struct abx__worker *w, const char *name, int *left)
{
    const struct timespec pause = {.tv_nsec = SWEEP_PAUSE_MS * 1000000L};
    while (abx_fd_remove_tree(w->sandboxes_fd, name) == -ENOTEMPTY && (*left)-- > 0)
        nanosleep(&pause, NULL);
}

void abx__folders_sweep(const struct abx__worker *w)
{
    int left = SWEEP_RETRIES;
    int fd = openat(w->sandboxes_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *e;
    while (dir != NULL && (e = readdir(dir)) != NULL)
        if (abx_str_starts(abx_str(e->d_name), spare_prefix))
            sweep_one(w, e->d_name, &left);
    if (dir != NULL)
        closedir(dir);
    else
        abx_fd_close(&fd);
}

/* ---- claiming ---- */
static int fill_new(const struct abx__worker *w, int dir, const char *name, const char *text)
{
    ABX_AUTO_FD fd = owned_file(w, dir, name);
    return fd < 0 ? fd : abx_fd_write_all(fd, text, strlen(text));
}

/* What an image leaves to the sandbox (S63): its own machine-id, and no resolver. */
static int fill_image_etc(const struct abx__worker *w, const struct abx__folder *f)
{
    unsigned char id[MACHINE_ID_BYTES];
    char text[2 * MACHINE_ID_BYTES + 2];
    if (getrandom(id, sizeof(id), 0) != (ssize_t)sizeof(id))
        return -EIO;
    abx_hex_encode(id, sizeof(id), text);
    memcpy(text + 2 * sizeof(id), "\n", 2);
    int r = fill_new(w, f->dir, "fs/upper/etc/machine-id", text);
    return r < 0 ? r
                 : fill_new(w, f->dir, "fs/upper/etc/resolv.conf", "# network: loopback only\n");
}

static int fill_etc(const struct abx__worker *w, const struct abx__folder *f,
                    const struct abx_sandbox_spec *spec)
{
    char text[160];
    snprintf(text, sizeof(text), "%s\n", spec->id);
    int r = abx_fd_write_all(f->hostname, text, strlen(text));
    snprintf(text, sizeof(text),
             "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.0.1 %s\n",
             spec->id);
    if (r >= 0)
        r = abx_fd_write_all(f->hosts, text, strlen(text));
    return r < 0 || spec->layer_count == 0 ? r : fill_image_etc(w, f);
}

int abx__folder_claim(const struct abx__worker *w, struct abx__folder *f,
                      const struct abx_sandbox_spec *spec, uint32_t slot)
{
    struct abx__box_record record = {.slot = slot, .digest_count = spec->layer_count};
    memcpy(record.nonce, spec->nonce, sizeof(record.nonce));
    memcpy(record.layers, w->layers.name, sizeof(record.layers));
    memcpy(record.digests, spec->layers, sizeof(record.digests));
    int r = record_write(f->record, &record);
    if (r >= 0 && !f->is_step)
        r = fill_etc(w, f, spec);
    if (r < 0)
        return r;
    if (renameat2(w->sandboxes_fd, f->name, w->sandboxes_fd, spec->id, RENAME_NOREPLACE) < 0)
        return -errno;
    return 0;
}

/* ---- the spare ones ---- */
struct making {
    struct abx_work work;
    struct abx__worker *w;
    struct abx__folder *folder;
    int result;
};

static void making_run(struct abx_work *work)
{
    struct making *m = work->owner;
    m->result = abx__folder_make(m->w, false, m->folder);
}

static void making_done(struct abx_work *work)
{
    struct making *m = work->owner;
    struct abx__worker *w = m->w;
    w->folders_making--;
    if (m->result == 0 && !w->closing) {
        abx_list_push(&w->folders, &m->folder->node);
        w->folder_count++;
        abx__pool_fill(w);
    } else {
        if (m->result == 0)
            abx__folder_drop(w, m->folder);
        free(m->folder); /* the next create tells why */
    }
    free(m);
}

void abx__folders_fill(struct abx__worker *w, int count)
{
    struct abx_error err;
    while (w->folder_count + w->folders_making < count) {
        struct making *m = calloc(1, sizeof(*m));
        struct abx__folder *f = m != NULL ? calloc(1, sizeof(*f)) : NULL;
        if (f != NULL) {
            m->w = w;
            m->folder = f;
        }
        if (f == NULL || abx_work_start(&m->work, &w->loop, making_run, making_done, m, &err) < 0) {
            free(f);
            free(m);
            return;
        }
        w->folders_making++;
    }
}

int abx__folder_take(struct abx__worker *w, bool is_step, struct abx__folder *ret)
{
    struct abx__folder *f = is_step ? NULL : abx_list_first(&w->folders, struct abx__folder, node);
    if (f == NULL)
        return abx__folder_make(w, is_step, ret);
    abx_list_remove(&f->node);
    w->folder_count--;
    *ret = *f;
    free(f);
    return 0;
}

void abx__folders_close(struct abx__worker *w)
{
    struct abx__folder *f;
    while ((f = abx_list_first(&w->folders, struct abx__folder, node)) != NULL) {
        abx_list_remove(&f->node);
        w->folder_count--;
        abx__folder_drop(w, f);
        free(f);
    }
}
