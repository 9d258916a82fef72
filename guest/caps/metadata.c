/* guest/caps/metadata.c: a file's metadata, kept as extended attributes "user.e2b.KEY"
 * (envd.md 3.4, 6.2). A file system without them has none, and that is no error. Pool. */
#include "guest/caps/files_priv.h"

#include <errno.h>
#include <stdio.h>
#include <sys/xattr.h>

#include "lib/base/banned.h"

static const char prefix[] = "user.e2b.";
enum { PREFIX_LEN = sizeof(prefix) - 1, NAMES_MAX = 65536, ROWS_MAX = 1024 };

static bool is_unsupported(int errnum)
{
    return errnum == ENOTSUP || errnum == ENOSYS || errnum == EPERM;
}

/* The next name with our prefix from a list of xattr names; false at the end. */
static bool next_name(const char **at, const char *end, const char **ret)
{
    while (*at < end) {
        const char *name = *at;
        *at += strnlen(name, (size_t)(end - name)) + 1;
        if (strncmp(name, prefix, PREFIX_LEN) == 0) {
            *ret = name;
            return true;
        }
    }
    return false;
}

/* One value into the arena; false: gone, too long, or not UTF-8. */
static bool read_value(const char *path, const char *name, struct abx_arena *a,
                       struct abx_meta *ret)
{
    char value[ABX_FILES_META_BYTES];
    ssize_t len = lgetxattr(path, name, value, sizeof(value));
    if (len < 0 || !abx_str_is_utf8(abx_str_n(value, (size_t)len)))
        return false;
    ret->key = abx_arena_str(a, abx_str(name + PREFIX_LEN));
    ret->value = abx_arena_str(a, abx_str_n(value, (size_t)len));
    return ret->key.ptr && ret->value.ptr && memchr(value, 0, (size_t)len) == NULL &&
           abx_str_is_utf8(ret->key);
}

void abx__metadata_read(const char *path, struct abx_arena *a, struct abx_entry *e)
{
    char names[NAMES_MAX];
    const char *at = names, *name;
    ssize_t len = llistxattr(path, names, sizeof(names));
    size_t count = 0;
    while (len > 0 && count < ROWS_MAX && next_name(&at, names + len, &name))
        count++;
    struct abx_meta *rows = count ? abx_arena_array(a, count, sizeof(*rows)) : NULL;
    if (rows == NULL)
        return;
    at = names;
    e->meta = rows;
    while (e->meta_count < count && next_name(&at, names + len, &name))
        e->meta_count += read_value(path, name, a, &rows[e->meta_count]);
}

static bool is_kept(const struct abx_meta *meta, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++)
        if (abx_str_is(meta[i].key, key))
            return true;
    return false;
}

/* Only what is there: a removal is an event for watchers (envd.md trap 2). */
static int remove_others(int fd, const struct abx_meta *meta, size_t count)
{
    char names[NAMES_MAX];
    const char *at = names, *name;
    ssize_t len = flistxattr(fd, names, sizeof(names));
    if (len < 0)
        return -errno;
    while (next_name(&at, names + len, &name))
        if (!is_kept(meta, count, name + PREFIX_LEN) && fremovexattr(fd, name) < 0 &&
            errno != ENODATA)
            return -errno;
    return 0;
}

int abx__metadata_replace(int fd, const struct abx_meta *meta, size_t count)
{
    int rc = remove_others(fd, meta, count);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        char name[256];
        snprintf(name, sizeof(name), "%s%.*s", prefix, ABX_STR_FMT(meta[i].key));
        if (fsetxattr(fd, name, meta[i].value.ptr, meta[i].value.len, 0) < 0)
            rc = -errno;
    }
    return rc < 0 && is_unsupported(-rc) ? 0 : rc;
}
