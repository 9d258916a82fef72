/* guest/caps/git_links.c: what git reads beside a repository because a file in it says so (git.h).
 * The files are anybody's who may write there, their words are paths. Pool threads. */
#include "guest/caps/git.h"
#include "lib/base/assert.h"
#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>

#include "lib/base/banned.h"

enum { COMMON_BYTES = PATH_MAX + 16, LIST_BYTES = 65536, DEPTH_MAX = 5, FOLDERS_MAX = 64 };

struct links {
    abx_git_check_fn *check;
    void *ctx;
    struct abx_arena *arena;
    size_t folders;
};

/* 1 with the text, in the arena; 0: there is no such file; -1. */
static int read_file(struct links *l, struct abx_str folder, const char *name, size_t max,
                     struct abx_str *ret)
{
    ABX_AUTO_FREE char *text = NULL;
    size_t len = 0;
    const char *path = abx_arena_printf(l->arena, "%.*s/%s", ABX_STR_FMT(folder), name);
    int r = path ? abx_fd_read_file(AT_FDCWD, path, max, &text, &len) : -ENOMEM;
    if (r == -ENOENT || r == -ENOTDIR)
        return 0;
    *ret = r == 0 ? abx_arena_str(l->arena, abx_str_n(text, len)) : (struct abx_str){0};
    return ret->ptr ? 1 : -1;
}

/* @path of @base, checked: *ret is where it leads. */
static bool follow(struct links *l, struct abx_str base, struct abx_str path, struct abx_str *ret)
{
    *ret = abx_str_starts(path, "/")
               ? path
               : abx_str(
                     abx_arena_printf(l->arena, "%.*s/%.*s", ABX_STR_FMT(base), ABX_STR_FMT(path)));
    return ret->ptr && ++l->folders <= FOLDERS_MAX && l->check(l->ctx, ret);
}

static bool find_common(struct links *l, struct abx_str dir, struct abx_str *ret)
{
    struct abx_str text, line;
    int r = read_file(l, dir, "commondir", COMMON_BYTES, &text);
    *ret = dir;
    if (r <= 0)
        return r == 0;
    return abx_str_split(&text, '\n', &line) && line.len > 0 && follow(l, dir, line, ret);
}

/* A folder of objects: each line of its list is another one. Lists nest as deep as git follows. */
static bool check_objects(struct links *l, struct abx_str objects, int depth)
{
    struct abx_str text, line, other;
    int r = read_file(l, objects, "info/alternates", LIST_BYTES, &text);
    if (r <= 0)
        return r == 0;
    if (depth == DEPTH_MAX)
        return false;
    while (abx_str_split(&text, '\n', &line)) {
        if (line.len == 0 || line.ptr[0] == '#')
            continue;
        if (line.ptr[0] == '"' || !follow(l, objects, line, &other) ||
            !check_objects(l, other, depth + 1))
            return false;
    }
    return true;
}

/* What a link in a repository's own folder may lead elsewhere. */
static bool check_own(struct links *l, struct abx_str dir)
{
    static const char *const names[] = {"HEAD", "config",  "index",        "packed-refs", "refs",
                                        "logs", "objects", "objects/info", "objects/pack"};
    for (size_t i = 0; i < ABX_COUNTOF(names); i++) {
        struct abx_str path;
        if (!follow(l, dir, abx_str(names[i]), &path))
            return false;
    }
    return true;
}

bool abx_git_check_links(const struct abx_git_place *place, abx_git_check_fn *check, void *ctx,
                         struct abx_arena *a)
{
    struct links l = {.check = check, .ctx = ctx, .arena = a};
    struct abx_str common, objects;
    return check_own(&l, place->dir) && find_common(&l, place->dir, &common) &&
           (abx_str_eq(common, place->dir) || check_own(&l, common)) &&
           follow(&l, common, ABX_STR("objects"), &objects) && check_objects(&l, objects, 0);
}
