/* cli/context.c: the files of a COPY, in order, into an archive and a hash. Links are never
 * followed; nothing outside of the context's folder is opened. */
#include "cli/context.h"
#include "cli/tar.h"
#include "lib/base/arena.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { NAMES_MAX = 64 << 20, CHUNK = 65536 };

struct packer {
    int dir_fd;
    struct abx_str pattern; /* normal */
    const struct cli_ignore *ignore;
    struct cli_pack *ret;
    struct abx_error *err;
    struct abx_arena names;
    struct cli_tar *tar;
    crypto_hash_sha256_state hash;
    bool is_glob;
    unsigned depth;
};

/* ---- one file ---- */

static void hash_number(struct packer *p, uint64_t n)
{
    char text[24];
    int len = snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
    crypto_hash_sha256_update(&p->hash, (const unsigned char *)text, (unsigned long long)len);
}

static void hash_text(struct packer *p, struct abx_str s)
{
    crypto_hash_sha256_update(&p->hash, (const unsigned char *)s.ptr, s.len);
}

/* The content of a regular file, exactly @size bytes of it. */
static int pack_content(struct packer *p, int fd, struct abx_str path, uint64_t size)
{
    unsigned char data[CHUNK];
    uint64_t left = size;
    while (left > 0) {
        ssize_t n = read(fd, data, left < sizeof(data) ? (size_t)left : sizeof(data));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return abx_err_set(p->err, ABX_ABORTED, "%.*s changed while it was read",
                               ABX_STR_FMT(path));
        crypto_hash_sha256_update(&p->hash, data, (unsigned long long)n);
        int r = cli_tar_data(p->tar, data, (size_t)n);
        if (r < 0)
            return abx_err_sys(p->err, r, "write the archive");
        left -= (uint64_t)n;
    }
    cli_tar_pad(p->tar, size);
    return 0;
}

static int pack_file(struct packer *p, int at, const char *name, struct abx_str path)
{
    struct stat st;
    ABX_AUTO_FD fd = openat(at, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0)
        return abx_err_sys(p->err, -errno, "open %.*s", ABX_STR_FMT(path));
    struct cli_tar_entry e = {
        .name = path, .mode = st.st_mode & 07777, .type = '0', .size = (uint64_t)st.st_size};
    p->ret->bytes += e.size;
    if (p->ret->bytes > CLI_CONTEXT_BYTES_MAX)
        return abx_err_set(p->err, ABX_RESOURCE_EXHAUSTED, "over 8 GiB; see .dockerignore");
    hash_text(p, path);
    hash_number(p, st.st_mode);
    hash_number(p, e.size);
    int r = cli_tar_entry(p->tar, &e);
    return r < 0 ? abx_err_sys(p->err, r, "write the archive") : pack_content(p, fd, path, e.size);
}

static int pack_link(struct packer *p, int at, const char *name, struct abx_str path)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(at, name, target, sizeof(target));
    if (n < 0 || n == sizeof(target))
        return abx_err_sys(p->err, n < 0 ? -errno : -ENAMETOOLONG, "read link %.*s",
                           ABX_STR_FMT(path));
    struct cli_tar_entry e = {
        .name = path, .mode = 0777, .type = '2', .link = abx_str_n(target, (size_t)n)};
    hash_text(p, path);
    hash_number(p, S_IFLNK | 0777);
    hash_number(p, (uint64_t)n);
    hash_text(p, e.link);
    int r = cli_tar_entry(p->tar, &e);
    return r < 0 ? abx_err_sys(p->err, r, "write the archive") : 0;
}

/* ---- the tree ---- */

static int pack_entry(struct packer *p, int at, const char *name, struct abx_str path,
                      bool is_inside);

struct names {
    char **items;
    size_t count, cap;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in an open folder, sorted; the items are in the arena, the array is heap. */
static int read_names(struct packer *p, int fd, struct names *ret)
{
    int copy = dup(fd);
    DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
    if (dir == NULL)
        return abx_err_sys(p->err, -errno, "read a folder");
    rewinddir(dir); /* the copy shares its position with @fd */
    int result = 0;
    for (struct dirent *d; result == 0 && (d = readdir(dir)) != NULL;) {
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        if (ret->count == ret->cap) {
            size_t cap = ret->cap ? ret->cap * 2 : 64;
            char **grown = realloc(ret->items, cap * sizeof(*grown));
            if (grown == NULL) {
                result = abx_err_set(p->err, ABX_RESOURCE_EXHAUSTED, "out of memory");
                continue;
            }
            ret->items = grown;
            ret->cap = cap;
        }
        char *name = abx_arena_c(&p->names, abx_str(d->d_name));
        if (name == NULL || ret->count >= CLI_CONTEXT_FILES_MAX)
            result = abx_err_set(p->err, ABX_RESOURCE_EXHAUSTED, "over %d files; see .dockerignore",
                                 CLI_CONTEXT_FILES_MAX);
        else
            ret->items[ret->count++] = name;
    }
    closedir(dir);
    if (ret->count)
        qsort(ret->items, ret->count, sizeof(*ret->items), by_name);
    return result;
}

static int walk(struct packer *p, int fd, struct abx_str path, bool is_inside)
{
    struct names names = {0};
    int result = read_names(p, fd, &names);
    for (size_t i = 0; result == 0 && i < names.count; i++) {
        const char *below = abx_arena_printf(&p->names, "%.*s%s%s", ABX_STR_FMT(path),
                                             path.len ? "/" : "", names.items[i]);
        result = below ? pack_entry(p, fd, names.items[i], abx_str(below), is_inside)
                       : abx_err_set(p->err, ABX_RESOURCE_EXHAUSTED, "too many names");
    }
    free(names.items);
    return result;
}

struct folder {
    bool is_inside; /* the pattern fits it, so all below it is meant */
    bool is_left_out;
};

static int pack_folder(struct packer *p, int at, const char *name, struct abx_str path,
                       struct folder how)
{
    struct stat st;
    ABX_AUTO_FD fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return abx_err_sys(p->err, -errno, "open %.*s", ABX_STR_FMT(path));
    if (p->depth >= CLI_CONTEXT_DEPTH_MAX)
        return abx_err_set(p->err, ABX_INVALID_ARGUMENT, "%.*s: nested too deeply",
                           ABX_STR_FMT(path));
    if (how.is_inside && !how.is_left_out) {
        struct cli_tar_entry e = {.name = path, .mode = st.st_mode & 07777, .type = '5'};
        hash_text(p, path);
        hash_number(p, st.st_mode);
        hash_number(p, 0);
        p->ret->files++;
        int r = cli_tar_entry(p->tar, &e);
        if (r < 0)
            return abx_err_sys(p->err, r, "write the archive");
    }
    p->depth++;
    int result = walk(p, fd, path, how.is_inside);
    p->depth--;
    return result;
}

/* Whether something below @path may fit the pattern. */
static bool may_lead(const struct packer *p, struct abx_str path)
{
    struct abx_str pattern = p->pattern, rest = path, part, name;
    while (abx_str_split(&rest, '/', &name))
        if (!abx_str_split(&pattern, '/', &part) || abx_str_is(part, "**") ||
            !cli_path_match(part, name))
            return abx_str_is(part, "**");
    return pattern.len > 0;
}

/* What the build itself puts into the context is never left out. */
static bool is_own(struct abx_str path)
{
    return abx_str_is(path, ".abx") || abx_str_starts(path, ".abx/") ||
           abx_str_is(path, "server-policy.json");
}

static int pack_entry(struct packer *p, int at, const char *name, struct abx_str path,
                      bool is_inside)
{
    struct stat st;
    if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return abx_err_sys(p->err, -errno, "%.*s", ABX_STR_FMT(path));
    bool fits = is_inside || p->pattern.len == 0 || cli_path_match(p->pattern, path);
    if (!fits && !(S_ISDIR(st.st_mode) && may_lead(p, path)))
        return 0;
    bool is_ignored = !is_own(path) && cli_ignore_match(p->ignore, path);
    if (S_ISDIR(st.st_mode)) /* an exception may stand below an ignored folder */
        return pack_folder(p, at, name, path, (struct folder){fits, is_ignored});
    if (!fits || is_ignored)
        return 0;
    if (++p->ret->files > CLI_CONTEXT_FILES_MAX)
        return abx_err_set(p->err, ABX_RESOURCE_EXHAUSTED, "over %d files; see .dockerignore",
                           CLI_CONTEXT_FILES_MAX);
    if (S_ISLNK(st.st_mode))
        return pack_link(p, at, name, path);
    if (S_ISREG(st.st_mode))
        return pack_file(p, at, name, path);
    return abx_err_set(p->err, ABX_INVALID_ARGUMENT,
                       "%.*s is no file, folder or link; leave it out by .dockerignore",
                       ABX_STR_FMT(path));
}

/* ---- the whole ---- */

/* A normal relative path or pattern; fault when it leaves the context. */
static int normalise(struct packer *p, struct abx_str src)
{
    ABX_AUTO_BUF b;
    struct abx_str rest = src, part;
    abx_buf_init(&b, PATH_MAX);
    while (abx_str_split(&rest, '/', &part)) {
        if (part.len == 0 || abx_str_is(part, "."))
            continue;
        if (abx_str_is(part, ".."))
            return abx_err_set(p->err, ABX_INVALID_ARGUMENT, "%.*s leads out of the context",
                               ABX_STR_FMT(src));
        if (b.len)
            abx_buf_put_byte(&b, '/');
        abx_buf_put_str(&b, part);
    }
    p->pattern = abx_arena_str(&p->names, abx_buf_str(&b));
    p->is_glob = p->pattern.len && strpbrk(p->pattern.ptr, "*?[") != NULL;
    return p->pattern.ptr && !abx_buf_failed(&b)
               ? 0
               : abx_err_set(p->err, ABX_INVALID_ARGUMENT, "a source is too long");
}

static int open_unnamed(void)
{
    const char *dir = getenv("TMPDIR");
    int fd = open(dir && *dir ? dir : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return fd >= 0 ? fd : memfd_create("abx-context", MFD_CLOEXEC);
}

static int pack_all(struct packer *p, struct abx_str src, struct abx_str dest)
{
    unsigned char digest[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_init(&p->hash);
    hash_text(p, ABX_STR("COPY "));
    hash_text(p, src);
    hash_text(p, ABX_STR(" "));
    hash_text(p, dest);
    int result = walk(p, p->dir_fd, ABX_STR(""), p->pattern.len == 0);
    int r = cli_tar_end(ABX_TAKE(p->tar));
    if (result == 0 && r < 0)
        result = abx_err_sys(p->err, r, "write the archive");
    if (result == 0 && p->ret->files == 0)
        result = abx_err_set(p->err, ABX_NOT_FOUND, "%.*s: no such file in the context%s",
                             ABX_STR_FMT(src), p->ignore->count ? " (see .dockerignore)" : "");
    crypto_hash_sha256_final(&p->hash, digest);
    abx_hex_encode(digest, sizeof(digest), p->ret->hash);
    return result;
}

int cli_context_pack(int dir_fd, struct abx_str src, struct abx_str dest,
                     const struct cli_ignore *ignore, struct cli_pack *ret, struct abx_error *err)
{
    struct packer p = {.dir_fd = dir_fd, .ignore = ignore, .ret = ret, .err = err};
    *ret = (struct cli_pack){.fd = -1};
    abx_arena_init(&p.names, NAMES_MAX);
    int result = normalise(&p, src);
    if (result == 0 && (ret->fd = open_unnamed()) < 0)
        result = abx_err_sys(err, -errno, "make a temporary file");
    if (result == 0 && (p.tar = cli_tar_new(ret->fd)) == NULL)
        result = abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
    if (result == 0)
        result = pack_all(&p, src, dest);
    if (result == 0 && lseek(ret->fd, 0, SEEK_SET) < 0)
        result = abx_err_sys(err, -errno, "rewind");
    abx_arena_done(&p.names);
    if (result < 0)
        abx_fd_close(&ret->fd);
    return result;
}
