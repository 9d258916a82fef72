/* guest/step/copy.c: COPY (control-plane.md 8.2): entries that the host's confined worker has
 * checked (security S53) go into the image; every path is resolved inside the root (S63). */
#include "guest/step/step_priv.h"

#include "lib/base/fd.h"
#include "lib/base/parse.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { CHUNK = 64 * 1024 };

struct copy {
    const struct abx__step *s;
    struct abx__owner owner;
    char base[ABX__STEP_PATH]; /* what of the archive is copied: "" all, else "dir/name" */
    char dest[ABX__STEP_PATH]; /* absolute, clean */
    bool dest_is_dir;          /* it ends in "/", or is a folder of the image */
    bool has_mode;
    mode_t mode;
    size_t matched;
    /* the entry at hand */
    struct abx_step_entry e;
    char path[ABX__STEP_PATH], link[ABX__STEP_PATH];
};

/* "src" up to the first part with a wildcard, without "." parts. */
static int find_base(const char *src, char out[ABX__STEP_PATH])
{
    struct abx_str rest = abx_str(src), part;
    size_t len = 0;
    while (abx_str_split(&rest, '/', &part)) {
        if (part.len == 0 || abx_str_is(part, "."))
            continue;
        if (abx_str_chr(part, '*') >= 0 || abx_str_chr(part, '?') >= 0 ||
            abx_str_chr(part, '[') >= 0)
            break;
        if (abx_str_is(part, "..") || len + part.len + 2 > ABX__STEP_PATH)
            return -1;
        if (len > 0)
            out[len++] = '/';
        memcpy(out + len, part.ptr, part.len);
        len += part.len;
    }
    out[len] = 0;
    return 0;
}

/* Octal digits, as chmod takes them. */
static int parse_mode(const char *text, mode_t *ret)
{
    mode_t mode = 0;
    size_t len = strlen(text);
    if (len < 3 || len > 4 || strspn(text, "01234567") != len)
        return -1;
    for (; *text; text++)
        mode = mode * 8 + (mode_t)(*text - '0');
    *ret = mode;
    return 0;
}

static int prepare(struct copy *c, struct abx_error *err)
{
    const struct abx__step *s = c->s;
    struct abx__identity who;
    size_t len = strlen(s->dest);
    char owner[2 * ABX__STEP_NAME];
    /* "u" stands for "u:u", where there is such a group */
    const char *text = *s->owner ? s->owner : s->user;
    snprintf(owner, sizeof(owner), "%s:%s", text, text);
    bool is_pair = *s->owner == 0 || strchr(text, ':') != NULL;
    if ((is_pair || abx__step_identity(s, owner, &who, NULL) < 0) &&
        abx__step_identity(s, text, &who, err) < 0)
        return abx_err_wrap(err, "COPY owner");
    c->owner = (struct abx__owner){who.uid, who.gid};
    c->has_mode = *s->mode != 0;
    if (c->has_mode && parse_mode(s->mode, &c->mode) < 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "COPY mode \"%.20s\" is not octal", s->mode);
    if (find_base(s->source, c->base) < 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT,
                           "COPY source \"%.60s\" leads out of the context", s->source);
    if (abx__step_clean(*s->workdir ? s->workdir : "/", s->dest, c->dest) < 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "COPY: the destination's path is too long");
    ABX_AUTO_FD there = abx__step_open(s, c->dest, O_PATH | O_DIRECTORY);
    c->dest_is_dir = there >= 0 || len == 0 || s->dest[len - 1] == '/' ||
                     (len >= 2 && strcmp(s->dest + len - 2, "/.") == 0) ||
                     strcmp(s->dest, ".") == 0;
    return 0;
}

/* ---- where an entry goes ---- */
/* 1 and the absolute path inside the image; 0 when the entry is not meant; -1: too long. */
static int target_of(const struct copy *c, const char *path, bool is_dir, char out[ABX__STEP_PATH])
{
    size_t len = strlen(c->base);
    const char *rest = path;
    if (strcmp(path, ".") == 0)
        rest = "";
    else if (len > 0 && strncmp(path, c->base, len) == 0 && path[len] == '/')
        rest = path + len + 1;
    else if (len > 0 && strcmp(path, c->base) == 0)
        rest = NULL;
    else if (len > 0)
        return 0;
    if (strcmp(path, ".") == 0 && len > 0)
        return 0;
    if (rest == NULL && !is_dir && c->dest_is_dir) { /* one file into a folder */
        const char *slash = strrchr(path, '/');
        rest = slash ? slash + 1 : path;
    }
    return abx__step_clean(c->dest, rest ? rest : "", out) < 0 ? -1 : 1;
}

/* Opens the parent of @path, made when absent; *ret_name is the last part, "" for the root. */
static int open_parent(const struct copy *c, const char *path, const char **ret_name)
{
    char parent[ABX__STEP_PATH];
    const char *slash = strrchr(path, '/');
    size_t len = (size_t)(slash - path);
    memcpy(parent, path, len);
    parent[len] = 0;
    *ret_name = slash + 1;
    return abx__step_make_dirs(c->s, len > 0 ? parent : "/", &c->owner);
}

/* ---- one entry ---- */
static int read_content(const struct copy *c, int to)
{
    static char chunk[CHUNK];
    for (uint64_t left = c->e.size; left > 0;) {
        size_t n = left < CHUNK ? (size_t)left : CHUNK;
        int r = abx__step_read(c->s, chunk, n);
        if (r == 0 && to >= 0)
            r = abx_fd_write_all(to, chunk, n);
        if (r < 0)
            return r;
        left -= n;
    }
    return 0;
}

static int settle(const struct copy *c, int dir, const char *name)
{
    mode_t mode = c->has_mode ? c->mode : (c->e.mode & 07777);
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = (time_t)c->e.mtime_s}};
    if (fchownat(dir, name, c->owner.uid, c->owner.gid, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (c->e.type != ABX_STEP_SYMLINK && fchmodat(dir, name, mode, 0) < 0)
        return -errno;
    return utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int put_file(const struct copy *c, int dir, const char *name)
{
    ABX_AUTO_FD fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : read_content(c, fd);
}

static int put_hardlink(const struct copy *c, int dir, const char *name)
{
    char source[ABX__STEP_PATH];
    const char *last;
    if (target_of(c, c->link, false, source) != 1)
        return -ENOENT;
    ABX_AUTO_FD from = open_parent(c, source, &last);
    struct stat st;
    if (from < 0)
        return from;
    if (fstatat(from, last, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    return linkat(from, last, dir, name, 0) < 0 ? -errno : 0;
}

static int put_dir(const struct copy *c, const char *target)
{
    int there = abx__step_open(c->s, target, O_PATH | O_DIRECTORY);
    if (there >= 0) { /* merged; what the image says of it stays */
        close(there);
        return 0;
    }
    const char *name;
    ABX_AUTO_FD dir = open_parent(c, target, &name);
    if (dir < 0)
        return dir;
    return mkdirat(dir, name, 0700) < 0 ? -errno : settle(c, dir, name);
}

static int put(const struct copy *c, const char *target)
{
    if (c->e.type == ABX_STEP_DIR)
        return put_dir(c, target);
    const char *name;
    ABX_AUTO_FD dir = open_parent(c, target, &name);
    if (dir < 0)
        return dir;
    if (*name == 0)
        return -EISDIR;
    if (unlinkat(dir, name, 0) < 0 && errno != ENOENT)
        return -errno;
    int r = -EINVAL;
    if (c->e.type == ABX_STEP_FILE)
        r = put_file(c, dir, name);
    else if (c->e.type == ABX_STEP_SYMLINK)
        r = symlinkat(c->link, dir, name) < 0 ? -errno : 0;
    else if (c->e.type == ABX_STEP_FIFO)
        r = mkfifoat(dir, name, 0600) < 0 ? -errno : 0;
    else if (c->e.type == ABX_STEP_HARDLINK)
        return put_hardlink(c, dir, name);
    return r < 0 ? r : settle(c, dir, name);
}

static int read_entry(struct copy *c)
{
    int r = abx__step_read(c->s, &c->e, sizeof(c->e));
    if (r < 0)
        return r;
    if (c->e.magic != ABX_STEP_MAGIC || c->e.path_bytes >= sizeof(c->path) ||
        c->e.link_bytes >= sizeof(c->link))
        return -EINVAL;
    r = abx__step_read(c->s, c->path, c->e.path_bytes);
    if (r == 0)
        r = abx__step_read(c->s, c->link, c->e.link_bytes);
    c->path[c->e.path_bytes] = c->link[c->e.link_bytes] = 0;
    return r;
}

/* 1: go on, 0: all is there. */
static int take_entry(struct copy *c, struct abx_error *err)
{
    char target[ABX__STEP_PATH];
    int r = read_entry(c);
    if (r < 0)
        return abx_err_sys(err, r, "COPY: the archive's worker died");
    if (c->e.type == ABX_STEP_FAILED)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "COPY: %.180s", c->path);
    if (c->e.type == ABX_STEP_END)
        return 0;
    int meant = target_of(c, c->path, c->e.type == ABX_STEP_DIR, target);
    if (meant < 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "COPY: a path is too long");
    if (meant == 0)
        r = read_content(c, -1);
    else
        r = put(c, target);
    c->matched += (size_t)meant;
    return r < 0 ? abx_err_sys(err, r, "COPY %.80s", c->path) : 1;
}

int abx__step_copy(const struct abx__step *s, struct abx_error *err)
{
    struct copy *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory");
    c->s = s;
    int r = prepare(c, err);
    for (int more = 1; r == 0 && more > 0;) {
        more = take_entry(c, err);
        r = more < 0 ? -1 : 0;
    }
    if (r == 0 && c->matched == 0)
        r = abx_err_set(err, ABX_NOT_FOUND, "COPY: \"%.80s\" is not in the context", s->source);
    free(c);
    return r;
}
