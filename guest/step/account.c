/* guest/step/account.c: users of the image that is being built, and folders in it. */
#include "guest/step/step_priv.h"

#include "guest/caps/users.h"
#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { ACCOUNT_BYTES = 4 << 20, LINE_MAX_BYTES = 1024, FIRST_ID = 1000, LAST_ID = 59999 };

/* ---- paths ---- */
int abx__step_clean(const char *base, const char *path, char ret[ABX__STEP_PATH])
{
    struct abx_str parts[2] = {abx_str(*path == '/' ? "" : base), abx_str(path)}, part;
    size_t len = 0;
    for (size_t i = 0; i < ABX_COUNTOF(parts); i++) {
        while (abx_str_split(&parts[i], '/', &part)) {
            if (part.len == 0 || abx_str_is(part, "."))
                continue;
            if (abx_str_is(part, "..")) {
                while (len > 0 && ret[--len] != '/')
                    ;
                continue;
            }
            if (len + part.len + 2 > ABX__STEP_PATH)
                return -1;
            ret[len++] = '/';
            memcpy(ret + len, part.ptr, part.len);
            len += part.len;
        }
    }
    if (len == 0)
        ret[len++] = '/';
    ret[len] = 0;
    return 0;
}

int abx__step_open(const struct abx__step *s, const char *path, uint64_t flags)
{
    struct open_how how = {.flags = flags | O_CLOEXEC,
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    long fd = syscall(SYS_openat2, s->root_fd, path, &how, sizeof(how));
    return fd < 0 ? -errno : (int)fd;
}

int abx__step_make_dirs(const struct abx__step *s, const char *path, const struct abx__owner *owner)
{
    char upto[ABX__STEP_PATH];
    if (abx__step_clean("/", path, upto) < 0)
        return -ENAMETOOLONG;
    int found = abx__step_open(s, upto, O_PATH | O_DIRECTORY);
    if (found != -ENOENT)
        return found;
    ABX_AUTO_FD dir = abx__step_open(s, "/", O_PATH | O_DIRECTORY);
    for (char *at = upto; dir >= 0 && at != NULL;) {
        char *name = at + 1, *end = strchr(name, '/');
        if (end != NULL)
            *end = 0;
        int next = abx__step_open(s, upto, O_PATH | O_DIRECTORY);
        if (next == -ENOENT) {
            if (mkdirat(dir, name, 0755) < 0 ||
                fchownat(dir, name, owner->uid, owner->gid, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
            next = abx__step_open(s, upto, O_PATH | O_DIRECTORY);
        }
        if (next < 0)
            return next;
        abx_fd_close(&dir);
        dir = next;
        if (end != NULL)
            *end = '/';
        at = end;
    }
    return abx_fd_take(&dir);
}

/* ---- who somebody is ---- */
static int read_account_file(const struct abx__step *s, const char *path, char **ret, size_t *len)
{
    ABX_AUTO_FD fd = abx__step_open(s, path, O_RDONLY | O_NONBLOCK);
    struct stat st;
    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > ACCOUNT_BYTES)
        return -EINVAL;
    *ret = malloc((size_t)st.st_size + 1);
    if (*ret == NULL)
        return -ENOMEM;
    ssize_t n = abx_fd_read_all(fd, *ret, (size_t)st.st_size);
    if (n < 0)
        return (int)n;
    (*ret)[n] = 0;
    *len = (size_t)n;
    return 0;
}

/* The third field of the line that starts with @name. */
static bool find_id(struct abx_str text, const char *name, uint32_t *ret)
{
    struct abx_str line, field, skipped;
    while (abx_str_split(&text, '\n', &line))
        if (abx_str_split(&line, ':', &field) && abx_str_is(field, name) &&
            abx_str_split(&line, ':', &skipped) && abx_str_split(&line, ':', &field) &&
            abx_parse_u32(field, ret) == 0)
            return true;
    return false;
}

static int find_group(const struct abx__step *s, const char *name, gid_t *ret,
                      struct abx_error *err)
{
    ABX_AUTO_FREE char *text = NULL;
    size_t len = 0;
    uint32_t id;
    bool known = read_account_file(s, "/etc/group", &text, &len) == 0 &&
                 find_id(abx_str_n(text, len), name, &id);
    if (!known && abx_parse_u32(abx_str(name), &id) < 0)
        return abx_err_set(err, ABX_NOT_FOUND, "group: unknown group %s", name);
    *ret = id;
    return 0;
}

static void from_user(const struct abx_user *u, struct abx__identity *ret)
{
    ret->uid = u->uid;
    ret->gid = u->gid;
    snprintf(ret->name, sizeof(ret->name), "%s", u->name);
    snprintf(ret->home, sizeof(ret->home), "%s", u->home);
    for (size_t i = 0; i < u->group_count && ret->group_count < ABX__STEP_GROUPS; i++)
        ret->groups[ret->group_count++] = u->groups[i];
}

static int find_user(const struct abx__step *s, const char *name, struct abx__identity *ret,
                     struct abx_error *err)
{
    struct abx_user u = {0};
    struct abx_error why = {0};
    uint32_t id;
    bool is_number = abx_parse_u32(abx_str(name), &id) == 0;
    int r = abx_user_by_name(s->root, abx_str(name), &u, &why);
    if (r < 0 && is_number)
        r = abx_user_by_uid(s->root, id, &u, &why);
    if (r == 0) {
        from_user(&u, ret);
        abx_user_done(&u);
        return 0;
    }
    bool is_root = strcmp(name, "root") == 0; /* an image need not have passwd at all */
    if (!is_number && !is_root) {
        if (err != NULL)
            *err = why;
        return -1;
    }
    ret->uid = is_root ? 0 : id;
    snprintf(ret->name, sizeof(ret->name), "%s", ret->uid == 0 ? "root" : name);
    snprintf(ret->home, sizeof(ret->home), "%s", ret->uid == 0 ? "/root" : "/");
    return 0;
}

int abx__step_identity(const struct abx__step *s, const char *text, struct abx__identity *ret,
                       struct abx_error *err)
{
    struct abx_str rest = abx_str(*text ? text : "root"), part;
    char name[ABX__STEP_NAME], group[ABX__STEP_NAME];
    *ret = (struct abx__identity){0};
    abx_str_split(&rest, ':', &part);
    if (abx_str_to_c(part, name, sizeof(name)) < 0 || name[0] == 0 ||
        abx_str_to_c(rest, group, sizeof(group)) < 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "user: bad name \"%.60s\"", text);
    if (find_user(s, name, ret, err) < 0)
        return -1;
    if (rest.len == 0)
        return 0;
    ret->group_count = 0;
    return find_group(s, group, &ret->gid, err);
}

/* ---- WORKDIR ---- */
int abx__step_workdir(const struct abx__step *s, struct abx_error *err)
{
    char path[ABX__STEP_PATH];
    struct abx__identity who;
    if (abx__step_clean(*s->workdir ? s->workdir : "/", s->dest, path) < 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "WORKDIR: the path is too long");
    if (abx__step_identity(s, s->user, &who, err) < 0)
        return -1;
    struct abx__owner owner = {who.uid, who.gid};
    ABX_AUTO_FD fd = abx__step_make_dirs(s, path, &owner);
    return fd < 0 ? abx_err_sys(err, fd, "WORKDIR %s", path) : 0;
}

/* ---- USER ---- */
static bool is_account_name(const char *name)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyz_";
    static const char rest[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";
    size_t len = strlen(name);
    return len > 0 && len <= 32 && strchr(first, name[0]) != NULL && strspn(name, rest) == len;
}

/* The first id from FIRST_ID on that no line of either file has as its third field. */
static uint32_t free_id(struct abx_str passwd, struct abx_str group)
{
    uint32_t highest = FIRST_ID - 1;
    struct abx_str texts[] = {passwd, group}, line, a, b, c;
    for (size_t i = 0; i < ABX_COUNTOF(texts); i++) {
        while (abx_str_split(&texts[i], '\n', &line)) {
            uint32_t id;
            if (abx_str_split(&line, ':', &a) && abx_str_split(&line, ':', &b) &&
                abx_str_split(&line, ':', &c) && abx_parse_u32(c, &id) == 0 && id <= LAST_ID &&
                id > highest)
                highest = id;
        }
    }
    return highest < LAST_ID ? highest + 1 : 0;
}

static int append(const struct abx__step *s, const char *path, const char *line)
{
    ABX_AUTO_FD fd = abx__step_open(s, path, O_RDWR | O_NONBLOCK);
    struct stat st;
    char last = '\n', text[LINE_MAX_BYTES];
    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return -EINVAL;
    if (st.st_size > 0 && pread(fd, &last, 1, st.st_size - 1) != 1)
        return -EIO;
    if (lseek(fd, 0, SEEK_END) < 0)
        return -errno;
    int n = snprintf(text, sizeof(text), "%s%s\n", last == '\n' ? "" : "\n", line);
    return abx_fd_write_all(fd, text, (size_t)n);
}

static int copy_skeleton_file(int from_dir, int to_dir, const char *name,
                              const struct abx__owner *owner)
{
    ABX_AUTO_FD from = openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    if (from < 0 || fstat(from, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > ACCOUNT_BYTES)
        return 0; /* only plain files are taken */
    ABX_AUTO_FD to = openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (to < 0)
        return -errno;
    for (off_t left = st.st_size; left > 0;) {
        ssize_t n = sendfile(to, from, NULL, (size_t)left);
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        left -= n;
    }
    return fchown(to, owner->uid, owner->gid) < 0 ? -errno : 0;
}

static int make_home(const struct abx__step *s, const char *name, const struct abx__owner *owner)
{
    char home[64];
    snprintf(home, sizeof(home), "/home/%.40s", name);
    static const struct abx__owner root = {0, 0};
    ABX_AUTO_FD parent = abx__step_make_dirs(s, "/home", &root);
    if (parent < 0)
        return parent;
    ABX_AUTO_FD to = abx__step_make_dirs(s, home, owner);
    ABX_AUTO_FD from = abx__step_open(s, "/etc/skel", O_RDONLY | O_DIRECTORY);
    if (to < 0)
        return to;
    int fd = from < 0 ? -1 : openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *e;
    int r = 0;
    while (dir != NULL && (r == 0 || r == -EEXIST) && (e = readdir(dir)) != NULL)
        r = copy_skeleton_file(dirfd(dir), to, e->d_name, owner);
    if (dir != NULL)
        closedir(dir);
    return r == -EEXIST ? 0 : r;
}

static int make_account(const struct abx__step *s, struct abx_error *err)
{
    ABX_AUTO_FREE char *passwd = NULL;
    ABX_AUTO_FREE char *group = NULL;
    size_t passwd_len = 0, group_len = 0;
    char line[LINE_MAX_BYTES];
    int r = read_account_file(s, "/etc/passwd", &passwd, &passwd_len);
    if (r == 0)
        r = read_account_file(s, "/etc/group", &group, &group_len);
    if (r < 0)
        return abx_err_sys(err, r, "USER %s: read the image's accounts", s->name);
    uint32_t gid, id = free_id(abx_str_n(passwd, passwd_len), abx_str_n(group, group_len));
    if (id == 0)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "USER %s: no free id", s->name);
    bool has_group = find_id(abx_str_n(group, group_len), s->name, &gid);
    if (!has_group) {
        gid = id;
        snprintf(line, sizeof(line), "%s:x:%u:", s->name, gid);
        r = append(s, "/etc/group", line);
    }
    ABX_AUTO_FD bash = abx__step_open(s, "/bin/bash", O_PATH);
    snprintf(line, sizeof(line), "%s:x:%u:%u::/home/%s:%s", s->name, id, gid, s->name,
             bash >= 0 ? "/bin/bash" : "/bin/sh");
    if (r == 0)
        r = append(s, "/etc/passwd", line);
    snprintf(line, sizeof(line), "%s:!:1::::::", s->name);
    int shadow = r < 0 ? 0 : append(s, "/etc/shadow", line);
    if (r == 0 && shadow < 0 && shadow != -ENOENT)
        r = shadow;
    struct abx__owner owner = {id, gid};
    if (r == 0)
        r = make_home(s, s->name, &owner);
    return r < 0 ? abx_err_sys(err, r, "USER %s: make the account", s->name) : 0;
}

static int grant_sudo(const struct abx__step *s, const char *name, struct abx_error *err)
{
    char file[64], line[128];
    ABX_AUTO_FD dir = abx__step_open(s, "/etc/sudoers.d", O_PATH | O_DIRECTORY);
    if (dir < 0)
        return abx_err_set(err, ABX_FAILED_PRECONDITION,
                           "USER %s: the image has no sudo (no /etc/sudoers.d): install it first",
                           name);
    snprintf(file, sizeof(file), "90-abx-%.40s", name);
    int n = snprintf(line, sizeof(line), "%s ALL=(ALL:ALL) NOPASSWD: ALL\n", name);
    (void)unlinkat(dir, file, 0);
    ABX_AUTO_FD fd = openat(dir, file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0440);
    int r = fd < 0 ? -errno : abx_fd_write_all(fd, line, (size_t)n);
    return r < 0 ? abx_err_sys(err, r, "USER %s: write %s", name, file) : 0;
}

int abx__step_user(const struct abx__step *s, struct abx_error *err)
{
    struct abx__identity who;
    if (abx__step_identity(s, s->name, &who, NULL) < 0) {
        if (!is_account_name(s->name))
            return abx_err_set(err, ABX_INVALID_ARGUMENT,
                               "USER: \"%.60s\" is no account, nor a name for one", s->name);
        if (make_account(s, err) < 0)
            return -1;
    }
    if (*s->sudo == 0)
        return 0;
    return is_account_name(s->name)
               ? grant_sudo(s, s->name, err)
               : abx_err_set(err, ABX_INVALID_ARGUMENT, "USER: sudo needs the name of an account");
}
