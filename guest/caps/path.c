/* guest/caps/path.c: from the path of a request to the path of a system call (envd.md 3.1). Pure.
 */
#include "guest/caps/files.h"

#include "lib/base/assert.h"

#include "lib/base/banned.h"

/* Joins and cleans into @out: "." and empty parts go, ".." takes one part back but never above
 * the root. Returns -1 when it does not fit. */
static int append_clean(struct abx_str path, char *out, size_t *len)
{
    struct abx_str rest = path, part;
    while (abx_str_split(&rest, '/', &part)) {
        if (part.len == 0 || abx_str_is(part, "."))
            continue;
        if (abx_str_is(part, "..")) {
            while (*len > 0 && out[--*len] != '/')
                ;
            continue;
        }
        if (*len + 1 + part.len >= ABX_FILES_PATH)
            return -1;
        out[(*len)++] = '/';
        memcpy(out + *len, part.ptr, part.len);
        *len += part.len;
    }
    return 0;
}

static int too_long(struct abx_str raw, struct abx_error *err)
{
    return abx_err_set(err, ABX_INVALID_ARGUMENT, "path of %zu bytes is too long: at most %d fit",
                       raw.len, ABX_FILES_PATH - 1);
}

static int join_home(const struct abx_user *user, struct abx_str rest, char out[ABX_FILES_PATH])
{
    size_t len = 0;
    if (append_clean(abx_str(user->home), out, &len) < 0 || append_clean(rest, out, &len) < 0)
        return -1;
    if (len == 0)
        out[len++] = '/';
    out[len] = '\0';
    return 0;
}

int abx_path_resolve(struct abx_str raw, const struct abx_user *user, struct abx_str workdir,
                     char out[ABX_FILES_PATH], struct abx_error *err)
{
    struct abx_str path = raw.len == 0 ? workdir : raw;
    if (abx_str_chr(path, '\0') >= 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "path holds a NUL byte");
    if (path.len > 0 && path.ptr[0] == '~') {
        if (path.len > 1 && path.ptr[1] != '/' && path.ptr[1] != '\\')
            return abx_err_set(
                err, ABX_INVALID_ARGUMENT,
                "failed to expand path '%.*s' for user '%s': cannot expand user-specific home dir",
                (int)(path.len < 100 ? path.len : 100), path.ptr, user->name);
        struct abx_str rest = abx_str_sub(path, 2, path.len);
        return join_home(user, rest, out) < 0 ? too_long(raw, err) : 0;
    }
    if (path.len > 0 && path.ptr[0] == '/')
        return abx_str_to_c(path, out, ABX_FILES_PATH) < 0 ? too_long(raw, err) : 0;
    return join_home(user, path, out) < 0 ? too_long(raw, err) : 0;
}

struct abx_str abx_path_base(struct abx_str path)
{
    while (path.len > 1 && path.ptr[path.len - 1] == '/')
        path.len--;
    if (path.len == 1 && path.ptr[0] == '/')
        return path;
    ptrdiff_t slash = abx_str_rchr(path, '/');
    return abx_str_sub(path, (size_t)(slash + 1), path.len);
}
