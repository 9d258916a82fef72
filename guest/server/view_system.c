/* guest/server/view_system.c: what a system needs to run programs at all (view_system.h), and when
 * that has changed.
 *
 * A rule of Landlock is one of an inode: a file of /etc that took another's place is to the kernel
 * a file that nobody was granted. So the entries are gone through again, before a start, once a
 * folder of them has changed. Not as root: a file that is to be a secret has another name for a
 * moment (an editor's, a package manager's), and modes keep nothing from root. There it takes a
 * SIGHUP, or, where the server holds itself to what it had, a restart. */
#include "guest/server/view_system.h"

#include "guest/server/view.h"

#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/time.h"
#include "lib/policy/policy.h"
#include "lib/proc/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { ROOTS_MAX = 1024, FDS_MAX = 4096, PATH_BYTES = 4096 };
enum { SETTLED_MS = 20, RETRY_MS = 1000, NAMES_MAX = 8, NAMES_BYTES = 512 };

static const char *const folders[] = {"/usr",   "/bin",    "/sbin", "/lib",      "/lib32",
                                      "/lib64", "/libx32", "/opt",  "/nix/store"};
static const char *const readable[] = {"/proc", "/sys/devices/system/cpu", "/sys/fs/cgroup"};
static const char *const devices[] = {"/dev/null",    "/dev/zero", "/dev/full", "/dev/random",
                                      "/dev/urandom", "/dev/tty",  "/dev/ptmx"};
/* Of /etc, by name; "ssh" and "ssl" are gone through one by one. */
static const char *const hidden[] = {"*agent-sandbox*", "*shadow*", "*sudoers*"};
static const struct {
    const char *folder, *hidden;
} mixed[] = {{"ssh", "*ssh_host_*"}, {"ssl", "private"}};

/* What is looked at before a start: what a change of an entry changes too. */
static const struct {
    const char *path;
    bool is_folder; /* else a file that may be a link: it matters which one it leads to */
} watched[] = {{"/etc", true}, {"/etc/ssh", true}, {"/etc/ssl", true}, {"/etc/resolv.conf", false}};

struct stamp {
    dev_t device;
    ino_t file;
    struct timespec modified, changed;
};
struct abx__system {
    _Atomic unsigned refs;
    struct abx__system_roots roots;
    struct stamp stamps[ABX_COUNTOF(watched)]; /* taken before the entries were gone through */
    bool is_settled; /* a change since then has another time: clocks of files tick slowly */
};
/* The newest; NULL: no policy has confined yet. */
static struct abx__system *the_system;
static int64_t rests_until_ms;
static bool has_said; /* that root's has changed, since the last load */

static int open_at(struct abx__system_roots *s, int folder_fd, const char *name, bool no_link)
{
    if (s->fd_count == s->fd_cap) {
        size_t cap = s->fd_cap ? s->fd_cap * 2 : 64;
        int *more = cap <= FDS_MAX ? realloc(s->fds, cap * sizeof(*more)) : NULL;
        if (more == NULL)
            return cap <= FDS_MAX ? -ENOMEM : -EMFILE;
        s->fds = more;
        s->fd_cap = cap;
    }
    int fd = openat(folder_fd, name, O_PATH | O_CLOEXEC | (no_link ? O_NOFOLLOW : 0));
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

int abx__system_open(struct abx__system_roots *s, const char *path, bool no_link)
{
    return open_at(s, AT_FDCWD, path, no_link);
}

/* @fd, or -errno: it was to be that of @path. */
static int add(struct abx__system_roots *s, int fd, const char *path,
               enum abx_confine_access access, struct abx_error *err)
{
    if (fd == -ENOENT || fd == -EACCES || fd == -ELOOP || fd == -ENOTDIR)
        return 0;
    if (fd < 0)
        return abx_err_sys(err, fd, "confinement: open %s", path);
    if (s->count == ROOTS_MAX)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED,
                           "confinement: more than %d files and folders in /etc", (int)ROOTS_MAX);
    char *copy = abx_str_dup(abx_str(path));
    if (copy == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "confinement: out of memory");
    s->paths[s->count] = copy;
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

struct folder {
    int above_fd; /* that it stands in; AT_FDCWD: its name is its path */
    const char *name, *path;
    const char *const *hidden;
    size_t hidden_count;
};

static int add_entries(struct abx__system_roots *s, const struct folder *f, struct abx_error *err);

static int add_entry(struct abx__system_roots *s, const struct folder *f, int fd, const char *name,
                     struct abx_error *err)
{
    char path[PATH_BYTES];
    int n = snprintf(path, sizeof(path), "%s/%s", f->path, name);
    if (n < 0 || (size_t)n >= sizeof(path))
        return 0;
    for (size_t i = 0; f->above_fd == AT_FDCWD && i < ABX_COUNTOF(mixed); i++)
        if (strcmp(name, mixed[i].folder) == 0)
            return add_entries(s, &(struct folder){fd, name, path, &mixed[i].hidden, 1}, err);
    return add(s, open_at(s, fd, name, true), path, ABX_CONFINE_READ, err);
}

/* A link in a folder's place is none, as it is no file either. */
static int add_entries(struct abx__system_roots *s, const struct folder *f, struct abx_error *err)
{
    int no_link = f->above_fd == AT_FDCWD ? 0 : O_NOFOLLOW;
    int fd = openat(f->above_fd, f->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | no_link);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *e;
    int r = 0;
    if (d == NULL) {
        int why = errno;
        if (fd >= 0)
            close(fd);
        return why == ENOENT || why == EACCES || why == ENOTDIR || why == ELOOP
                   ? 0
                   : abx_err_sys(err, -why, "confinement: list %s", f->path);
    }
    while (r == 0 && (e = readdir(d)) != NULL)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            !is_hidden(e->d_name, f->hidden, f->hidden_count))
            r = add_entry(s, f, fd, e->d_name, err);
    closedir(d);
    return r;
}

/* What a process could change is nobody's system; root without capabilities still owns it all, and
 * Landlock keeps it from writing. */
static bool is_system(const char *path)
{
    return geteuid() == 0 || access(path, W_OK) != 0;
}

static int add_path(struct abx__system_roots *s, const char *path, enum abx_confine_access access,
                    struct abx_error *err)
{
    return add(s, abx__system_open(s, path, false), path, access, err);
}

static int add_all(struct abx__system_roots *s, struct abx_error *err)
{
    static const struct folder etc = {AT_FDCWD, "/etc", "/etc", hidden, ABX_COUNTOF(hidden)};
    int r = 0;
    for (size_t i = 0; r == 0 && i < ABX_COUNTOF(folders); i++)
        if (is_system(folders[i]))
            r = add_path(s, folders[i], ABX_CONFINE_READ, err);
    for (size_t i = 0; r == 0 && i < ABX_COUNTOF(readable); i++)
        r = add_path(s, readable[i], ABX_CONFINE_READ, err);
    for (size_t i = 0; r == 0 && i < ABX_COUNTOF(devices); i++)
        r = add_path(s, devices[i], ABX_CONFINE_DEVICE, err);
    if (r == 0)
        r = add_entries(s, &etc, err);
    return r < 0 ? r : add_path(s, "/etc/resolv.conf", ABX_CONFINE_READ, err);
}

static int roots_open(struct abx__system_roots *s, struct abx_error *err)
{
    s->items = calloc(ROOTS_MAX, sizeof(*s->items));
    s->paths = calloc(ROOTS_MAX, sizeof(*s->paths));
    if (s->items == NULL || s->paths == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "confinement: out of memory");
    return add_all(s, err);
}

void abx__system_roots_done(struct abx__system_roots *s)
{
    for (size_t i = 0; i < s->fd_count; i++)
        close(s->fds[i]);
    for (size_t i = 0; i < s->count; i++)
        free(s->paths[i]);
    free(s->paths);
    free(s->fds);
    free(s->items);
    *s = (struct abx__system_roots){0};
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* The same files and folders, in the same order, with the same rights. */
static bool are_equal(const struct abx__system_roots *a, const struct abx__system_roots *b)
{
    struct stat of_a, of_b;
    bool is_equal = a->count == b->count;
    for (size_t i = 0; is_equal && i < a->count; i++)
        is_equal = a->items[i].access == b->items[i].access && fstat(a->items[i].fd, &of_a) == 0 &&
                   fstat(b->items[i].fd, &of_b) == 0 && is_same(&of_a, &of_b);
    return is_equal;
}

/* ---- whether it has changed ---- */

bool abx__system_is_held_by_modes(void)
{
    return geteuid() != 0 && !abx_proc_has_capability(CAP_DAC_OVERRIDE) &&
           !abx_proc_has_capability(CAP_DAC_READ_SEARCH);
}

static void take_stamps(struct stamp *stamps)
{
    struct stat st;
    for (size_t i = 0; i < ABX_COUNTOF(watched); i++) {
        stamps[i] = (struct stamp){0};
        if (stat(watched[i].path, &st) < 0)
            continue;
        stamps[i] = (struct stamp){.device = st.st_dev, .file = st.st_ino};
        if (watched[i].is_folder) {
            stamps[i].modified = st.st_mtim;
            stamps[i].changed = st.st_ctim;
        }
    }
}

static bool is_at(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool is_stamped(const struct stamp *a, const struct stamp *b)
{
    return a->device == b->device && a->file == b->file && is_at(&a->modified, &b->modified) &&
           is_at(&a->changed, &b->changed);
}

static bool is_long_ago(const struct timespec *t, int64_t now_ms)
{
    int64_t ago = now_ms - (t->tv_sec * 1000 + t->tv_nsec / 1000000);
    return ago > SETTLED_MS || ago < -SETTLED_MS;
}

static bool are_settled(const struct stamp *stamps)
{
    int64_t now = abx_time_wall_ms();
    for (size_t i = 0; i < ABX_COUNTOF(watched); i++)
        if (!is_long_ago(&stamps[i].modified, now) || !is_long_ago(&stamps[i].changed, now))
            return false;
    return true;
}

static bool has_changed(const struct abx__system *s)
{
    struct stamp now[ABX_COUNTOF(watched)];
    take_stamps(now);
    for (size_t i = 0; i < ABX_COUNTOF(watched); i++)
        if (!is_stamped(&s->stamps[i], &now[i]))
            return true;
    return false;
}

/* What root's programs are denied for now, by the names that have other files. */
static void say_changed(const struct abx__system *s)
{
    ABX_AUTO_BUF names;
    struct stat was, is;
    size_t count = 0;
    abx_buf_init(&names, NAMES_BYTES);
    for (size_t i = 0; i < s->roots.count; i++) {
        const char *path = s->roots.paths[i];
        if (fstat(s->roots.items[i].fd, &was) < 0 || stat(path, &is) < 0 || is_same(&was, &is))
            continue;
        if (count++ < NAMES_MAX && names.len + strlen(path) + 1 < NAMES_BYTES)
            abx_buf_putf(&names, "%s%s", names.len ? "," : "", path);
    }
    abx_log(ABX_LOG_WARN,
            "/etc has changed: what is new or was replaced there stays denied to confined programs "
            "until %s replaced=%zu files=%s",
            abx__self_is_on() ? "the server is restarted: restart it" : "the server gets SIGHUP",
            count, names.len ? names.ptr : "-");
}

/* ---- as it is now ---- */

void abx__system_unref(struct abx__system *s)
{
    if (s == NULL || --s->refs > 0)
        return;
    abx__system_roots_done(&s->roots);
    free(s);
}

static int list_now(struct abx__system **ret, struct abx_error *err)
{
    struct abx__system *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "confinement: out of memory");
    s->refs = 1;
    take_stamps(s->stamps);
    s->is_settled = are_settled(s->stamps);
    if (roots_open(&s->roots, err) < 0) {
        abx__system_unref(s);
        return -1;
    }
    *ret = s;
    return 0;
}

/* The newest stays where nothing else has come of it. */
static int bring_up_to_date(struct abx_error *err)
{
    struct abx__system *now = NULL;
    if (list_now(&now, err) < 0)
        return -1;
    if (the_system != NULL && are_equal(&the_system->roots, &now->roots)) {
        memcpy(the_system->stamps, now->stamps, sizeof(now->stamps));
        the_system->is_settled = now->is_settled;
        abx__system_unref(now);
        return 0;
    }
    abx__system_unref(the_system);
    the_system = now;
    return 0;
}

/* Root that has confined itself can give nobody a file that came since: it stays with what it had
 * (S26). */
int abx__system_take(struct abx__system **ret, struct abx_error *err)
{
    bool can_list = !abx__self_is_on() || abx__system_is_held_by_modes();
    if ((the_system == NULL || can_list) && bring_up_to_date(err) < 0)
        return -1;
    has_said = !can_list && has_changed(the_system);
    if (has_said)
        say_changed(the_system);
    the_system->refs++;
    *ret = the_system;
    return 0;
}

static void look(void)
{
    struct abx_error err = {0};
    bool is_other = has_changed(the_system), follows = abx__system_is_held_by_modes();
    if (follows && (is_other || !the_system->is_settled) && bring_up_to_date(&err) < 0) {
        abx_log(ABX_LOG_WARN, "/etc has changed, and programs go on with what it was: %s", err.msg);
        abx__system_rest(RETRY_MS);
    }
    if (follows || !is_other || has_said)
        return;
    has_said = true;
    say_changed(the_system);
}

struct abx__system *abx__system_newer(const struct abx__system *known)
{
    if (abx_time_mono_ms() < rests_until_ms)
        return NULL;
    look();
    if (the_system == known)
        return NULL;
    the_system->refs++;
    return the_system;
}

void abx__system_rest(int64_t ms)
{
    rests_until_ms = abx_time_mono_ms() + ms;
}

const struct abx_confine_root *abx__system_items(const struct abx__system *s, size_t *ret_count)
{
    *ret_count = s->roots.count;
    return s->roots.items;
}
