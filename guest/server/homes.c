/* guest/server/homes.c: the folders of narrow identities beneath /tmp (security S14). Kept open
 * while the server runs, under a shared lock; at its end those that it made go, unless another
 * server holds them. Loop thread. */
#include "guest/server/view.h"

#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

struct home {
    struct home *next;
    char *name;
    int fd;
    bool is_made; /* by this server */
};
static struct home *homes;

static bool is_same(int fd, int dir, const char *name)
{
    struct stat held, there;
    return fstat(fd, &held) == 0 && fstatat(dir, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           held.st_dev == there.st_dev && held.st_ino == there.st_ino;
}

static struct home *find_or_add(const char *name)
{
    struct home *h = homes;
    while (h && strcmp(h->name, name) != 0)
        h = h->next;
    if (h)
        return h;
    h = calloc(1, sizeof(*h));
    if (h == NULL || (h->name = abx_str_dup(abx_str(name))) == NULL) {
        free(h);
        return NULL;
    }
    h->fd = -1;
    h->next = homes;
    homes = h;
    return h;
}

int abx__home_open(const char *name, struct abx_error *err)
{
    struct stat st;
    ABX_AUTO_FD dir = open(ABX__HOMES, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return abx_err_sys(err, -errno, "open %s", ABX__HOMES);
    bool is_made = mkdirat(dir, name, 0700) == 0;
    if (!is_made && errno != EEXIST)
        return abx_err_sys(err, -errno, "make the folder %s/%s", ABX__HOMES, name);
    ABX_AUTO_FD fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return abx_err_sys(err, -errno, "open the folder %s/%s", ABX__HOMES, name);
    if (st.st_uid != geteuid() || fchmod(fd, 0700) < 0)
        return abx_err_set(err, ABX_PERMISSION_DENIED,
                           "the folder %s/%s belongs to somebody else: take it away", ABX__HOMES,
                           name);
    struct home *h = find_or_add(name);
    if (h == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
    if (h->fd >= 0 && is_same(h->fd, dir, name)) /* the policy was loaded again */
        return 0;
    abx_fd_close(&h->fd);
    h->fd = abx_fd_take(&fd);
    h->is_made = is_made;
    (void)flock(h->fd, LOCK_SH | LOCK_NB); /* without it, it may go with the server that made it */
    return 0;
}

void abx__homes_remove(void)
{
    ABX_AUTO_FD dir = open(ABX__HOMES, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (homes) {
        struct home *h = homes;
        homes = h->next;
        if (h->is_made && dir >= 0 && flock(h->fd, LOCK_EX | LOCK_NB) == 0 &&
            is_same(h->fd, dir, h->name)) {
            int rc = abx_fd_remove_tree(dir, h->name);
            if (rc < 0)
                abx_log(ABX_LOG_WARN, "the folder %s/%s can not be removed: %s", ABX__HOMES,
                        h->name, strerrordesc_np(-rc));
        }
        abx_fd_close(&h->fd);
        free(h->name);
        free(h);
    }
}
