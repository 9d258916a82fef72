/* guest/caps/draft_expire.c: parts that nobody goes on with. Only what is a part by name, kind,
 * owner and age goes, and only while nobody writes it. */
#include "guest/caps/draft.h"
#include "guest/caps/tree_priv.h"

#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "lib/base/banned.h"

struct expiry {
    const struct abx_draft_expiry *spec;
    size_t seen, removed;
};

static bool is_part_name(struct abx_str name)
{
    if (name.len != sizeof(ABX_DRAFT_PREFIX) - 1 + ABX_DRAFT_HEX ||
        !abx_str_starts(name, ABX_DRAFT_PREFIX))
        return false;
    for (size_t i = sizeof(ABX_DRAFT_PREFIX) - 1; i < name.len; i++)
        if (memchr("0123456789abcdef", name.ptr[i], 16) == NULL)
            return false;
    return true;
}

static bool is_old(const struct expiry *x, const struct stat *st)
{
    return S_ISREG(st->st_mode) && st->st_nlink == 1 && st->st_uid == geteuid() &&
           st->st_mtim.tv_sec < x->spec->before_s;
}

/* As its writer opens it: through no link, under the lock, and looked at again. */
static bool remove_part(const struct expiry *x, struct abx_str path)
{
    char name[NAME_MAX + 1];
    struct stat st;
    ABX_AUTO_FD dir = abx__tree_parent(path, name);
    ABX_AUTO_FD fd = dir < 0 ? -1 : abx__tree_open_at(dir, name, O_RDONLY | O_NOFOLLOW, 0);
    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &st) == 0 && is_old(x, &st) &&
           unlinkat(dir, name, 0) == 0;
}

static bool take(void *ctx, const struct abx_tree_entry *e)
{
    struct expiry *x = ctx;
    if (is_part_name(e->name) && is_old(x, &e->st))
        x->removed += remove_part(x, e->path);
    return ++x->seen < x->spec->entries_max && !atomic_load(x->spec->cancel);
}

int abx_draft_expire(struct abx_str root, const struct abx_draft_expiry *spec, size_t *ret_removed)
{
    struct expiry x = {.spec = spec};
    const struct abx_tree_walk walk = {.path = root, .depth = spec->depth, .take = take, .ctx = &x};
    int rc = abx_tree_walk(&walk);
    *ret_removed = x.removed;
    if (rc < 0)
        return rc;
    return x.seen >= spec->entries_max;
}
