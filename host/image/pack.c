/* host/image/pack.c: a layer's folder as the tar of an OCI layer: the marks of overlayfs become
 * ".wh." names, its own attributes stay behind. Runs in the confined worker, whose root is the
 * folder. Names are sorted: one layer gives one tar. */
#include "host/image/tar_write.h"
#include "host/image/unpack_priv.h"
#include "host/runtime/runtime.h"

#include "lib/base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum {
    CHUNK = 128 * 1024,
    DEPTH_MAX = 256,
    NAMES_MAX = 2000000, /* of one folder */
    XATTR_BYTES = 64 * 1024,
    LINK_BUCKETS = 4096
};
static const char mark[] = ".wh.", opaque_mark[] = ".wh..wh..opq";

/* What a sandbox gets from its engine and an image must not carry (decisions.md). */
static const char *const server_files[] = {".fce2b/agent-sandbox-server", &ABX_SERVER_PYTHON[1],
                                           "usr/local/bin/agent-sandbox-server"};

/* The first name of a file that has several. */
struct link {
    struct link *next;
    uint64_t inode;
    char path[];
};

struct pack {
    int root, out;
    bool is_runtime;
    struct abx_buf head, records;
    crypto_hash_sha256_state hash;
    struct abx_layer_info *info;
    struct link *links[LINK_BUCKETS];
    struct abx_error *err;
    char path[ABX__TAR_PATH];
    char chunk[CHUNK];
};

static int fail(const struct pack *p, int r)
{
    return abx_err_sys(p->err, r, "%.100s", p->path);
}

static int put_bytes(struct pack *p, const void *data, size_t len)
{
    int r = abx_fd_write_all(p->out, data, len);
    if (r < 0)
        return abx_err_sys(p->err, r, "write the archive");
    crypto_hash_sha256_update(&p->hash, data, len);
    p->info->bytes += len;
    return 0;
}

static int put_zeros(struct pack *p, size_t count)
{
    static const char zeros[2 * ABX_TAR_BLOCK];
    return put_bytes(p, zeros, count);
}

/* ---- one entry ---- */
static int copy_xattrs(struct pack *p)
{
    char names[XATTR_BYTES], value[XATTR_BYTES], at[ABX__TAR_PATH + 2], key[300];
    snprintf(at, sizeof(at), "/%s", p->path); /* the worker's root is the folder */
    ssize_t len = llistxattr(at, names, sizeof(names));
    if (len < 0)
        return errno == EOPNOTSUPP ? 0 : fail(p, -errno);
    for (const char *name = names; name < names + len; name += strlen(name) + 1) {
        if (!abx__tar_keeps_xattr(name))
            continue;
        ssize_t n = lgetxattr(at, name, value, sizeof(value));
        if (n < 0)
            return fail(p, -errno);
        snprintf(key, sizeof(key), "SCHILY.xattr.%.255s", name);
        abx_tar_record(&p->records, key, abx_str_n(value, (size_t)n));
    }
    return 0;
}

static int put_content(struct pack *p, uint64_t size)
{
    ABX_AUTO_FD fd = openat(p->root, p->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return fail(p, -errno);
    while (size > 0) {
        ssize_t n = read(fd, p->chunk, size < CHUNK ? (size_t)size : CHUNK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return fail(p, n < 0 ? -errno : -EIO);
        if (put_bytes(p, p->chunk, (size_t)n) < 0)
            return -1;
        size -= (uint64_t)n;
    }
    return 0;
}

static int put_head(struct pack *p, const struct abx_tar_entry *e)
{
    abx_buf_clear(&p->head);
    abx_tar_head(e, &p->head);
    if (abx_buf_failed(&p->head))
        return fail(p, -ENOMEM);
    p->info->entries++;
    return put_bytes(p, p->head.ptr, p->head.len);
}

/* An empty file whose name says something: a whiteout, an opaque folder. */
static int put_mark(struct pack *p, const char *name)
{
    struct abx_tar_entry e = {.path = name, .type = '0', .mode = 0600};
    return put_head(p, &e);
}

/* "a/b" and ".wh." give "a/.wh.b" */
static int put_whiteout(struct pack *p)
{
    char name[ABX__TAR_PATH];
    const char *slash = strrchr(p->path, '/'), *last = slash ? slash + 1 : p->path;
    int n = snprintf(name, sizeof(name), "%.*s%s%s", (int)(last - p->path), p->path, mark, last);
    return n < (int)sizeof(name) ? put_mark(p, name) : fail(p, -ENAMETOOLONG);
}

/* The name by which this file is in the archive already, or NULL once it has been noted. */
static const char *first_name(struct pack *p, const struct stat *st, int *ret_failed)
{
    struct link **at = &p->links[st->st_ino % LINK_BUCKETS];
    *ret_failed = 0;
    for (struct link *l = *at; l != NULL; l = l->next)
        if (l->inode == st->st_ino)
            return l->path;
    size_t len = strlen(p->path) + 1;
    struct link *l = malloc(sizeof(*l) + len);
    if (l == NULL) {
        *ret_failed = fail(p, -ENOMEM);
        return NULL;
    }
    *l = (struct link){.next = *at, .inode = st->st_ino};
    memcpy(l->path, p->path, len);
    *at = l;
    return NULL;
}

static const struct {
    mode_t kind;
    char type;
} types[] = {{S_IFREG, '0'}, {S_IFLNK, '2'}, {S_IFDIR, '5'}, {S_IFIFO, '6'}};

static char type_of(const struct stat *st)
{
    for (size_t i = 0; i < ABX_COUNTOF(types); i++)
        if ((st->st_mode & S_IFMT) == types[i].kind)
            return types[i].type;
    return 0;
}

static int read_target(const struct pack *p, char target[ABX__TAR_PATH])
{
    ssize_t n = readlinkat(p->root, p->path, target, ABX__TAR_PATH);
    if (n < 0 || n == ABX__TAR_PATH)
        return fail(p, n < 0 ? -errno : -ENAMETOOLONG);
    target[n] = 0;
    return 0;
}

static int put_node(struct pack *p, const struct stat *st)
{
    int r = 0;
    char target[ABX__TAR_PATH];
    struct abx_tar_entry e = {.path = p->path,
                              .type = type_of(st),
                              .mode = st->st_mode & 07777,
                              .uid = st->st_uid,
                              .gid = st->st_gid,
                              .mtime_s = st->st_mtime};
    abx_buf_clear(&p->records);
    if (e.type == '0' && st->st_nlink > 1)
        e.link = first_name(p, st, &r);
    if (e.link != NULL)
        e.type = '1';
    if (e.type == '2') { /* what a link may carry besides is not kept at an import either */
        e.link = target;
        r = read_target(p, target);
    } else if (r == 0) {
        r = copy_xattrs(p);
    }
    e.bytes = e.type == '0' ? (uint64_t)st->st_size : 0;
    e.records = abx_buf_str(&p->records);
    if (r == 0 && abx_buf_failed(&p->records))
        r = fail(p, -E2BIG);
    if (r < 0 || put_head(p, &e) < 0)
        return -1;
    if (e.type != '0')
        return 0;
    return put_content(p, e.bytes) < 0 ? -1 : put_zeros(p, abx_tar_padding(e.bytes));
}

/* ---- a folder ---- */
struct names {
    char **items;
    size_t count, room;
};

static void names_done(struct names *n)
{
    for (size_t i = 0; i < n->count; i++)
        free(n->items[i]);
    free(n->items);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int names_add(struct names *n, const char *name)
{
    if (n->count == n->room) {
        size_t room = n->room ? 2 * n->room : 64;
        char **items = room <= NAMES_MAX * 2UL ? realloc(n->items, room * sizeof(*items)) : NULL;
        if (items == NULL)
            return -ENOMEM;
        n->items = items;
        n->room = room;
    }
    char *copy = abx_str_dup(abx_str(name));
    if (copy == NULL)
        return -ENOMEM;
    n->items[n->count++] = copy;
    return 0;
}

static int read_names(const struct pack *p, struct names *ret)
{
    int fd = openat(p->root, p->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *e;
    int r = dir == NULL ? -errno : 0;
    if (dir == NULL && fd >= 0)
        close(fd);
    while (r == 0 && (e = readdir(dir)) != NULL) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            r = names_add(ret, e->d_name);
    }
    if (dir != NULL)
        closedir(dir);
    if (r == 0 && ret->count > 0)
        qsort(ret->items, ret->count, sizeof(*ret->items), by_name);
    return r < 0 ? fail(p, r) : 0;
}

static bool is_server(const struct pack *p)
{
    for (size_t i = 0; p->is_runtime && i < ABX_COUNTOF(server_files); i++)
        if (strcmp(p->path, server_files[i]) == 0)
            return true;
    return false;
}

/* An opaque folder hides what lower layers have in it. */
static int put_opaque(struct pack *p)
{
    char value, name[ABX__TAR_PATH];
    ABX_AUTO_FD fd = openat(p->root, p->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return fail(p, -errno);
    if (fgetxattr(fd, "user.overlay.opaque", &value, 1) != 1 || value != 'y')
        return 0;
    bool is_root = strcmp(p->path, ".") == 0;
    int n = snprintf(name, sizeof(name), "%s%s%s", is_root ? "" : p->path, is_root ? "" : "/",
                     opaque_mark);
    return n < (int)sizeof(name) ? put_mark(p, name) : fail(p, -ENAMETOOLONG);
}

static int put_dir(struct pack *p, int depth);

/* @p->path, of any kind. */
static int put(struct pack *p, int depth)
{
    struct stat st;
    const char *slash = strrchr(p->path, '/');
    if (is_server(p))
        return 0;
    if (fstatat(p->root, p->path, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return fail(p, -errno);
    if (strncmp(slash ? slash + 1 : p->path, mark, sizeof(mark) - 1) == 0)
        return abx_err_set(p->err, ABX_FAILED_PRECONDITION,
                           "%.100s: a name that begins with %s would be taken for a deletion",
                           p->path, mark);
    if (S_ISCHR(st.st_mode) && st.st_rdev == 0)
        return put_whiteout(p);
    if (S_ISSOCK(st.st_mode))
        return 0; /* nobody listens any more */
    if (type_of(&st) == 0)
        return abx_err_set(p->err, ABX_FAILED_PRECONDITION, "%.100s is a device", p->path);
    if (put_node(p, &st) < 0)
        return -1;
    return S_ISDIR(st.st_mode) ? put_dir(p, depth) : 0;
}

static int put_dir(struct pack *p, int depth)
{
    struct names names = {0};
    size_t len = strcmp(p->path, ".") == 0 ? 0 : strlen(p->path);
    if (depth > DEPTH_MAX)
        return fail(p, -ELOOP);
    int r = put_opaque(p) < 0 || read_names(p, &names) < 0 ? -1 : 0;
    for (size_t i = 0; r == 0 && i < names.count; i++) {
        int n =
            snprintf(p->path + len, sizeof(p->path) - len, "%s%s", len ? "/" : "", names.items[i]);
        if (n >= (int)(sizeof(p->path) - len))
            r = fail(p, -ENAMETOOLONG);
        else
            r = put(p, depth + 1);
        p->path[len] = 0;
    }
    snprintf(p->path + len, sizeof(p->path) - len, "%s", len ? "" : ".");
    names_done(&names);
    return r;
}

static int put_all(struct pack *p)
{
    struct stat st;
    snprintf(p->path, sizeof(p->path), ".");
    if (fstatat(p->root, ".", &st, 0) < 0)
        return fail(p, -errno);
    if (put_node(p, &st) < 0 || put_dir(p, 0) < 0)
        return -1;
    return put_zeros(p, 2 * ABX_TAR_BLOCK); /* the end */
}

int abx__pack_layer(int root_fd, int out_fd, bool is_runtime, struct abx_layer_info *ret,
                    struct abx_error *err)
{
    struct pack *p = calloc(1, sizeof(*p));
    if (p == NULL || sodium_init() < 0) {
        free(p);
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory");
    }
    *ret = (struct abx_layer_info){0};
    p->root = root_fd;
    p->out = out_fd;
    p->is_runtime = is_runtime;
    p->info = ret;
    p->err = err;
    abx_buf_init(&p->head, ABX_TAR_RECORDS_MAX + 4 * ABX_TAR_BLOCK);
    abx_buf_init(&p->records, ABX_TAR_RECORDS_MAX - 4 * ABX__TAR_PATH);
    crypto_hash_sha256_init(&p->hash);
    int r = put_all(p);
    crypto_hash_sha256_final(&p->hash, ret->digest.bytes);
    abx_buf_done(&p->head);
    abx_buf_done(&p->records);
    for (size_t i = 0; i < LINK_BUCKETS; i++)
        for (struct link *l = p->links[i], *next; l != NULL; l = next) {
            next = l->next;
            free(l);
        }
    free(p);
    return r;
}
