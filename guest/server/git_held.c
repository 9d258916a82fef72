/* guest/server/git_held.c: git is held to the roots of its rule by the kernel (git_priv.h), also
 * where `confine` is off: what a repository's files make it read, and what they become between the
 * look at them and git's own. Landlock; without it the look alone holds. Security S17, S18. */
#include "guest/server/exec.h"
#include "guest/server/git_priv.h"
#include "guest/server/view.h"
#include "lib/base/fd.h"
#include "lib/proc/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { ROOTS_MAX = 256 };

static const char *const folders[] = {"/usr",   "/bin",    "/sbin", "/lib",      "/lib32",
                                      "/lib64", "/libx32", "/opt",  "/nix/store"};
static const char *const files[] = {"/etc/ld.so.cache", "/etc/localtime", "/etc/passwd",
                                    "/etc/nsswitch.conf"};

struct held {
    struct abx_confine_root items[ROOTS_MAX];
    size_t count;
};

/* One that is not there is not granted. 0 or -errno. */
static int add(struct held *h, const char *path, enum abx_confine_access access)
{
    if (h->count == ROOTS_MAX)
        return -E2BIG;
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT || errno == EACCES || errno == ENOTDIR ? 0 : -errno;
    h->items[h->count++] = (struct abx_confine_root){fd, access};
    return 0;
}

static int add_all(struct held *h, const struct abx__git *g, struct abx_arena *a)
{
    int r = add(h, "/dev/null", ABX_CONFINE_DEVICE);
    for (size_t i = 0; r == 0 && i < ABX_COUNTOF(folders); i++)
        r = add(h, folders[i], ABX_CONFINE_READ);
    for (size_t i = 0; r == 0 && i < ABX_COUNTOF(files); i++)
        r = add(h, files[i], ABX_CONFINE_READ);
    for (size_t i = 0; r == 0 && i < g->plan.root_count; i++) {
        const char *path = abx_arena_c(a, g->plan.roots[i]);
        r = path ? add(h, path, ABX_CONFINE_READ) : -ENOMEM;
    }
    return r;
}

/* Git itself lies in a folder that is granted. */
static bool is_of_system(const struct abx__git *g, struct abx_arena *a)
{
    char real[PATH_MAX];
    struct abx_str found = abx__exec_find(g->call->server, ABX_STR("git"), a);
    const char *path = found.ptr ? abx_arena_c(a, found) : NULL;
    if (path == NULL || realpath(path, real) == NULL)
        return false;
    for (size_t i = 0; i < ABX_COUNTOF(folders); i++)
        if (abx_str_starts(abx_str(real), folders[i]) && real[strlen(folders[i])] == '/')
            return true;
    return false;
}

int abx__git_hold(const struct abx__git *g, const struct abx_confine **ret, struct abx_error *err)
{
    struct abx_arena *a = g->call->req->arena;
    const struct abx__call *c = g->call;
    struct held h = {.count = 0};
    *ret = NULL;
    if (!(abx_confine_supported() & ABX_CONFINE_FILES) || !is_of_system(g, a) ||
        abx__view_of(c->policy, c->rule, &c->who) != NULL)
        return 0;
    int r = add_all(&h, g, a);
    struct abx_confine_spec spec = {.layers = ABX_CONFINE_FILES,
                                    .roots = h.items,
                                    .root_count = h.count,
                                    .keeps_capabilities = true};
    if (r == 0)
        r = abx_confine_new(&spec, ret, err);
    else
        abx_err_sys(err, r, "git can not be held to the folders of its rule");
    for (size_t i = 0; i < h.count; i++)
        close(h.items[i].fd);
    return r < 0 ? -1 : 0;
}
