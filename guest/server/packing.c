/* guest/server/packing.c: how much an archive would hold. */
#include "guest/server/packing.h"

#include "lib/base/assert.h"

#include "lib/base/banned.h"

enum { FOLDERS_MAX = 100000 }; /* beside the files */

static void add(struct abx__packing *k, const struct stat *st)
{
    if (S_ISDIR(st->st_mode))
        k->folders++;
    else
        k->files++;
    if (S_ISREG(st->st_mode) && __builtin_add_overflow(k->bytes, (uint64_t)st->st_size, &k->bytes))
        k->bytes = UINT64_MAX;
    k->is_too_many = k->files > k->max_files || k->folders > FOLDERS_MAX + k->max_files;
}

static bool take(void *ctx, const struct abx_tree_entry *e)
{
    struct abx__packing *k = ctx;
    add(k, &e->st);
    return !k->is_too_many;
}

int abx__packing_count(struct abx__packing *k, struct abx_str path)
{
    struct stat st;
    struct abx_tree_walk walk = {.path = path, .depth = UINT32_MAX, .take = take, .ctx = k};
    int rc = abx_tree_stat(path, &st);
    if (rc < 0)
        return rc;
    if (!S_ISDIR(st.st_mode)) {
        add(k, &st);
        return 0;
    }
    return abx_tree_walk(&walk);
}

bool abx__packing_fail(struct abx__job *j, const struct abx__packing *k)
{
    return abx__job_fail(j, 400, "ValueError",
                         "more than %llu files: name fewer, or raise max_files",
                         (unsigned long long)k->max_files);
}

bool abx__packing_shows(void *bounds, const struct abx_tree_entry *e)
{
    return abx__bounds_shows(bounds, e->path, S_ISLNK(e->st.st_mode));
}
