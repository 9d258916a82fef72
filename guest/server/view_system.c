/* guest/server/view_system.c: what a system needs to run programs at all (view_system.h). */
#include "guest/server/view_system.h"

#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/policy/policy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { ROOTS_MAX = 1024, FDS_MAX = 4096, PATH_BYTES = 4096 };

static const char *const folders[] = {"/usr",   "/bin",    "/sbin", "/lib",      "/lib32",
                                      "/lib64", "/libx32", "/opt",  "/nix/store"};
static const char *const readable[] = {"/proc", "/sys/devices/system/cpu", "/sys/fs/cgroup"};
static const char *const devices[] = {"/dev/null",    "/dev/zero", "/dev/full", "/dev/random",
                                      "/dev/urandom", "/dev/tty",  "/dev/ptmx"};
/* Of /etc, by name; "ssh" and "ssl" are gone through one by one. */
static const char *const hidden[] = {"agent-sandbox", "*shadow*", "sudoers*"};
static const struct {
    const char *folder, *hidden;
} mixed[] = {{"ssh", "ssh_host_*"}, {"ssl", "private"}};

int abx__system_open(struct abx__system_roots *s, const char *path, bool no_link)
{
    if (s->fd_count == s->fd_cap) {
        size_t cap = s->fd_cap ? s->fd_cap * 2 : 64;
        int *more = cap <= FDS_MAX ? realloc(s->fds, cap * sizeof(*more)) : NULL;
        if (more == NULL)
            return cap <= FDS_MAX ? -ENOMEM : -EMFILE;
        s->fds = more;
        s->fd_cap = cap;
    }
    int fd = open(path, O_PATH | O_CLOEXEC | (no_link ? O_NOFOLLOW : 0));
    if (fd < 0)
        return -errno;
    struct stat st;
    if (no_link && (fstat(fd, &st) < 0 || S_ISLNK(st.st_mode))) { /* O_PATH opens the link itself */
        close(fd);
        return -ELOOP;
    }
    s->fds[s->fd_count++] = fd;
    return fd;
}

static int add(struct abx__system_roots *s, const char *path, enum abx_confine_access access,
               bool no_link, struct abx_error *err)
{
    int fd = abx__system_open(s, path, no_link);
    if (fd == -ENOENT || fd == -EACCES || fd == -ELOOP || fd == -ENOTDIR)
        return 0;
    if (fd < 0)
        return abx_err_sys(err, fd, "confinement: open %s", path);
    if (s->count == ROOTS_MAX)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED,
                           "confinement: more than %d files and folders in /etc", (int)ROOTS_MAX);
    s->items[s->count++] = (struct abx_confine_root){fd, access};
    return 0;
}

static bool is_hidden(const char *name, const char *const *patterns, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (abx_glob_match(abx_str(patterns[i]), abx_str(name)))
            return true;
    return false;
}

static int add_entries(struct abx__system_roots *s, const char *folder, const char *const *patterns,
                       size_t count, struct abx_error *err);

static int add_entry(struct abx__system_roots *s, const char *folder, const char *name,
                     struct abx_error *err)
{
    char path[PATH_BYTES];
    int n = snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (n < 0 || (size_t)n >= sizeof(path))
        return 0;
    for (size_t i = 0; strcmp(folder, "/etc") == 0 && i < ABX_COUNTOF(mixed); i++)
        if (strcmp(name, mixed[i].folder) == 0)
            return add_entries(s, path, &mixed[i].hidden, 1, err);
    return add(s, path, ABX_CONFINE_READ, true, err);
}

static int add_entries(struct abx__system_roots *s, const char *folder, const char *const *patterns,
                       size_t count, struct abx_error *err)
{
    DIR *d = opendir(folder);
    const struct dirent *e;
    int r = 0;
    if (d == NULL)
        return errno == ENOENT || errno == EACCES || errno == ENOTDIR
                   ? 0
                   : abx_err_sys(err, -errno, "confinement: list %s", folder);
    while (r == 0 && (e = readdir(d)) != NULL)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            !is_hidden(e->d_name, patterns, count))
            r = add_entry(s, folder, e->d_name, err);
    closedir(d);
    return r;
}

/* What a process could change is nobody's system; root without capabilities still owns it all, and
 * Landlock keeps it from writing. */
static bool is_system(const char *path)
{
    return geteuid() == 0 || access(path, W_OK) != 0;
}

static int add_all(struct abx__system_roots *s, struct abx_error *err)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < ABX_COUNTOF(folders); i++)
        if (is_system(folders[i]))
            r = add(s, folders[i], ABX_CONFINE_READ, false, err);
    for (size_t i = 0; r == 0 && i < ABX_COUNTOF(readable); i++)
        r = add(s, readable[i], ABX_CONFINE_READ, false, err);
    for (size_t i = 0; r == 0 && i < ABX_COUNTOF(devices); i++)
        r = add(s, devices[i], ABX_CONFINE_DEVICE, false, err);
    if (r == 0)
        r = add_entries(s, "/etc", hidden, ABX_COUNTOF(hidden), err);
    return r < 0 ? r : add(s, "/etc/resolv.conf", ABX_CONFINE_READ, false, err);
}

int abx__system_roots_open(struct abx__system_roots *s, struct abx_error *err)
{
    s->items = calloc(ROOTS_MAX, sizeof(*s->items));
    if (s->items == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "confinement: out of memory");
    int r = add_all(s, err);
    if (r < 0)
        abx__system_roots_done(s);
    return r;
}

void abx__system_roots_done(struct abx__system_roots *s)
{
    for (size_t i = 0; i < s->fd_count; i++)
        close(s->fds[i]);
    free(s->fds);
    free(s->items);
    *s = (struct abx__system_roots){0};
}

bool abx__system_roots_equal(const struct abx__system_roots *a, const struct abx__system_roots *b)
{
    struct stat of_a, of_b;
    bool is_equal = a->count == b->count;
    for (size_t i = 0; is_equal && i < a->count; i++)
        is_equal = a->items[i].access == b->items[i].access && fstat(a->items[i].fd, &of_a) == 0 &&
                   fstat(b->items[i].fd, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
                   of_a.st_ino == of_b.st_ino;
    return is_equal;
}
