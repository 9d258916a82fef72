/* guest/server/self.c: the server confines itself, once it is ready, to what its views may reach
 * and what it needs to run: a mistake in a file route reads and writes no more than a program that
 * was started for somebody. Landlock for files; what is started adds layers of its own. Security
 * S26. */
#include "guest/server/view.h"
#include "guest/server/view_system.h"

#include "lib/base/assert.h"
#include "lib/base/str.h"
#include "lib/contract/contract.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { OWN_MAX = 12, GROUP_FOLDERS = 2 /* of each: the folder, and that above */ };

/* What was granted, as it was then: a folder that took its place is not what the kernel knows. */
struct held {
    char *path;
    enum abx_confine_access access;
    dev_t device;
    ino_t file;
};
static struct {
    struct held *items;
    size_t count;
    bool is_on;
} self;

bool abx__self_is_on(void)
{
    return self.is_on;
}

const char *abx__self_level(void)
{
    return self.is_on ? "on" : abx_confine_supported() & ABX_CONFINE_FILES ? "off" : "unsupported";
}

/* ---- what is granted ---- */

struct grants {
    struct abx_confine_root *items;
    size_t count;
    int own[OWN_MAX]; /* descriptors to be closed */
    size_t own_count;
};

static void grants_done(struct grants *g)
{
    for (size_t i = 0; i < g->own_count; i++)
        close(g->own[i]);
    free(g->items);
}

static int grant_own(struct grants *g, const char *path, enum abx_confine_access access,
                     struct abx_error *err)
{
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == EACCES || errno == ENOTDIR))
        return 0;
    if (fd < 0)
        return abx_err_sys(err, -errno, "the server's own confinement: open %s", path);
    ABX_ASSERT(g->own_count < OWN_MAX);
    g->own[g->own_count++] = fd;
    g->items[g->count++] = (struct abx_confine_root){fd, access};
    return 0;
}

/* The folder of a file that is opened anew by its name: whoever replaces it makes another file.
 * Only where that folder is / the file alone, which is then read again as long as it is the same
 * one. */
static int grant_folder_of(struct grants *g, const char *file, enum abx_confine_access access,
                           struct abx_error *err)
{
    char path[PATH_MAX];
    if (file == NULL)
        return 0;
    if (realpath(file, path) == NULL)
        return errno == ENOENT || errno == EACCES
                   ? 0
                   : abx_err_sys(err, -errno, "the server's own confinement: %s", file);
    char *slash = strrchr(path, '/');
    if (slash != path)
        *slash = '\0';
    return grant_own(g, path, access, err);
}

/* Of an ordinary user, for whom modes hold what is hidden there: files that take the place of
 * others are read by the programs it starts, whose own layers name them (view_system.c). What makes
 * resolv.conf writes it anew in a folder of /run. */
static int grant_etc(struct grants *g, struct abx_error *err)
{
    char path[PATH_MAX];
    if (!abx__system_is_held_by_modes())
        return 0;
    if (grant_own(g, "/etc", ABX_CONFINE_READ, err) < 0)
        return -1;
    if (realpath("/etc/resolv.conf", path) == NULL)
        return 0;
    *strrchr(path, '/') = '\0';
    return strncmp(path, "/run/", strlen("/run/")) == 0 ? grant_own(g, path, ABX_CONFINE_READ, err)
                                                        : 0;
}

/* Callers come with a policy that is loaded later, and groups go at the end. */
static void grant_groups(struct grants *g)
{
    int fds[GROUP_FOLDERS], parent_fds[GROUP_FOLDERS];
    size_t count = abx_confine_group_folders(fds, parent_fds);
    for (size_t i = 0; i < count; i++) {
        g->items[g->count++] = (struct abx_confine_root){fds[i], ABX_CONFINE_WRITE};
        g->items[g->count++] = (struct abx_confine_root){parent_fds[i], ABX_CONFINE_REMOVE};
    }
}

static int grant_needs(struct grants *g, const struct abx__self_needs *needs, struct abx_error *err)
{
    /* Terminals are made one by one; each child may open its own alone. */
    int r = grant_own(g, "/dev/pts", ABX_CONFINE_DEVICE, err);
    if (r == 0)
        r = grant_etc(g, err);
    if (r == 0)
        r = grant_folder_of(g, needs->policy_file, ABX_CONFINE_READ, err);
    if (r == 0)
        r = grant_folder_of(g, needs->confine_file, ABX_CONFINE_READ, err);
    if (r == 0)
        r = grant_folder_of(g, ABX_SERVER_POLICY_PATH, ABX_CONFINE_READ, err);
    if (r == 0)
        r = grant_folder_of(g, ABX_SERVER_CONFINE_PATH, ABX_CONFINE_READ, err);
    return r < 0 ? r : grant_folder_of(g, needs->audit_file, ABX_CONFINE_WRITE, err);
}

static size_t count_roots(const struct abx_policy *p)
{
    struct abx__view_root root;
    size_t n = 0;
    while (abx__views_root_at(p, n, &root))
        n++;
    return n;
}

static int grant_all(struct grants *g, const struct abx_policy *p,
                     const struct abx__self_needs *needs, struct abx_error *err)
{
    size_t system_count, roots = count_roots(p);
    const struct abx_confine_root *of_system = abx__views_system(p, &system_count);
    struct abx__view_root root;
    g->items = calloc(roots + system_count + OWN_MAX + 2 * GROUP_FOLDERS, sizeof(*g->items));
    if (g->items == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
    for (size_t i = 0; i < system_count; i++)
        g->items[g->count++] = of_system[i];
    for (size_t i = 0; abx__views_root_at(p, i, &root); i++)
        g->items[g->count++] = (struct abx_confine_root){root.fd, root.access};
    grant_groups(g);
    return grant_needs(g, needs, err);
}

/* ---- what is remembered of it ---- */

static int remember(const struct abx_policy *p, struct abx_error *err)
{
    struct abx__view_root root;
    struct stat st;
    self.items = calloc(count_roots(p) + 1, sizeof(*self.items));
    for (size_t i = 0; self.items != NULL && abx__views_root_at(p, i, &root); i++) {
        char *path = abx_str_dup(abx_str(root.path));
        if (path == NULL || fstat(root.fd, &st) < 0) {
            free(path);
            break;
        }
        self.items[self.count++] = (struct held){path, root.access, st.st_dev, st.st_ino};
    }
    return self.items != NULL && self.count == count_roots(p)
               ? 0
               : abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
}

static bool is_beneath(const char *path, const char *root)
{
    size_t len = strcmp(root, "/") == 0 ? 0 : strlen(root);
    return strncmp(path, root, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

static bool is_granted(const struct abx__view_root *root)
{
    struct stat st;
    for (size_t i = 0; i < self.count; i++) {
        const struct held *h = &self.items[i];
        bool is_enough = h->access == root->access ||
                         (h->access == ABX_CONFINE_WRITE && root->access == ABX_CONFINE_READ);
        if (is_enough && is_beneath(root->path, h->path) && lstat(h->path, &st) == 0 &&
            st.st_dev == h->device && st.st_ino == h->file)
            return true;
    }
    return root->access == ABX_CONFINE_DEVICE; /* /dev/pts */
}

int abx__self_admits(const struct abx_policy *p, struct abx_error *err)
{
    struct abx__view_root root;
    if (!self.is_on)
        return 0;
    if (abx__views_are_unbounded(p))
        return abx_err_set(
            err, ABX_FAILED_PRECONDITION,
            "the server has confined itself to what the policy of its start reaches, "
            "and this one bounds it no more: restart it");
    for (size_t i = 0; abx__views_root_at(p, i, &root); i++)
        if (!is_granted(&root))
            return abx_err_set(err, ABX_FAILED_PRECONDITION,
                               "the server has confined itself to what the policy of its start "
                               "reaches, and %s%s lies outside: restart it",
                               root.access == ABX_CONFINE_READ ? "" : "writing to ", root.path);
    return 0;
}

/* ---- once ---- */

int abx__self_confine(const struct abx_policy *p, const struct abx__self_needs *needs,
                      struct abx_error *err)
{
    struct grants g __attribute__((cleanup(grants_done))) = {0};
    ABX_ASSERT(!self.is_on);
    if (abx__views_are_unbounded(p))
        return 0;
    if (grant_all(&g, p, needs, err) < 0 || remember(p, err) < 0)
        return -1;
    int r = abx_confine_self(g.items, g.count);
    self.is_on = r == 0;
    if (r == 0 || (r == -EOPNOTSUPP && abx_policy_confine(p) != ABX_CONFINE_REQUIRE))
        return 0;
    return abx_err_sys(err, r, "confine: the server can not confine itself");
}
