/* guest/caps/tree_resolve.c: the path with all links followed, also where it does not exist. Pool.
 */
#include "guest/caps/tree_priv.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { LINKS_MAX = 40, REST_MAX = 64 * 1024 };

/* Takes the next component off the front of @rest; false at the end. */
static bool next_part(struct abx_str *rest, struct abx_str *ret)
{
    while (rest->len && rest->ptr[0] == '/')
        *rest = abx_str_sub(*rest, 1, rest->len);
    return rest->len && abx_str_split(rest, '/', ret);
}

static bool is_at_end(struct abx_str rest)
{
    while (rest.len && rest.ptr[0] == '/')
        rest = abx_str_sub(rest, 1, rest.len);
    return rest.len == 0;
}

static void cut_last(struct abx_buf *out)
{
    ptrdiff_t slash = abx_str_rchr(abx_buf_str(out), '/');
    out->len = slash > 0 ? (size_t)slash : 0;
}

/* @link stands where the last component of @out was; what is left of the path follows it. */
static int splice(struct abx_buf *out, struct abx_str link, struct abx_buf *pending,
                  struct abx_str *rest)
{
    ABX_AUTO_BUF next;
    abx_buf_init(&next, REST_MAX);
    abx_buf_put_str(&next, link);
    abx_buf_put_byte(&next, '/');
    abx_buf_put_str(&next, *rest);
    if (abx_buf_failed(&next))
        return -ENAMETOOLONG;
    struct abx_buf old = *pending;
    *pending = next;
    next = old;
    *rest = abx_buf_str(pending);
    cut_last(out);
    if (link.ptr[0] == '/')
        out->len = 0;
    return 0;
}

/* It is as it would come out: absolute, without ".", ".." and double slashes. */
static bool is_normal(struct abx_str path)
{
    struct abx_str part;
    if (path.len < 2 || path.ptr[0] != '/' || path.ptr[path.len - 1] == '/')
        return false;
    path = abx_str_sub(path, 1, path.len);
    while (abx_str_split(&path, '/', &part))
        if (part.len == 0 || abx_str_is(part, ".") || abx_str_is(part, ".."))
            return false;
    return true;
}

static int follow(struct abx_str path, bool keep_last, struct abx_buf *out)
{
    char link[PATH_MAX];
    ABX_AUTO_BUF pending;
    struct abx_str rest = path, part;
    int links = 0;
    abx_buf_init(&pending, REST_MAX);
    while (next_part(&rest, &part)) {
        if (abx_str_is(part, "."))
            continue;
        if (abx_str_is(part, "..")) {
            cut_last(out);
            continue;
        }
        abx_buf_put_byte(out, '/');
        abx_buf_put_str(out, part);
        if (abx_buf_failed(out))
            return -ENAMETOOLONG;
        if (keep_last && is_at_end(rest))
            continue;
        ssize_t n = out->len < PATH_MAX ? readlink(out->ptr, link, sizeof(link)) : -1;
        if (n <= 0 || links++ >= LINKS_MAX)
            continue; /* no link, nothing there, or a loop: it stays */
        if (splice(out, abx_str_n(link, (size_t)n), &pending, &rest) < 0)
            return -ENAMETOOLONG;
    }
    if (out->len == 0)
        abx_buf_put_byte(out, '/');
    else
        out->ptr[out->len] = '\0';
    return abx_buf_failed(out) ? -ENOMEM : 0;
}

/* Most paths hold no link, which the kernel says in one step. */
int abx_tree_resolve(struct abx_str path, bool keep_last, struct abx_buf *out)
{
    char name[PATH_MAX];
    if (!is_normal(path) || abx_str_to_c(path, name, sizeof(name)) < 0 || !abx__tree_is_plain(name))
        return follow(path, keep_last, out);
    abx_buf_put_str(out, path);
    return abx_buf_failed(out) ? -ENOMEM : 0;
}
