/* host/image/tar_policy.c: what names, attributes and sizes an archive may have (security S52,
 * S53). Pure. */
#include "host/image/unpack_priv.h"

#include "lib/base/assert.h"
#include "lib/base/str.h"

#include "lib/base/banned.h"

static const uint64_t IN_MAX = UINT64_C(8) << 30, OUT_MAX = UINT64_C(32) << 30;
/* A small archive of zeros is no bomb. */
static const uint64_t RATIO_FLOOR = UINT64_C(64) << 20;
enum { RATIO_MAX = 200, ENTRIES_MAX = 2 * 1000 * 1000 };

int abx__tar_clean(const char *raw, char ret[ABX__TAR_PATH], struct abx_error *err)
{
    struct abx_str rest = abx_str(raw), part;
    size_t len = 0, depth = 0;
    if (rest.len == 0 || rest.len >= ABX__TAR_PATH)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "an entry's name is %s",
                           rest.len == 0 ? "empty" : "over 4095 bytes");
    if (raw[0] == '/')
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "absolute name %.100s", raw);
    while (abx_str_split(&rest, '/', &part)) {
        if (part.len == 0 || abx_str_is(part, "."))
            continue;
        if (abx_str_is(part, ".."))
            return abx_err_set(err, ABX_INVALID_ARGUMENT, "name with ..: %.100s", raw);
        if (part.len > ABX__TAR_NAME || ++depth > ABX__TAR_DEPTH)
            return abx_err_set(err, ABX_INVALID_ARGUMENT, "name too long or too deep: %.100s", raw);
        if (len > 0)
            ret[len++] = '/';
        memcpy(ret + len, part.ptr, part.len);
        len += part.len;
    }
    if (len == 0)
        ret[len++] = '.';
    ret[len] = 0;
    return 0;
}

int abx__tar_mark(const char *clean, enum abx__tar_mark *ret, char ret_at[ABX__TAR_PATH],
                  struct abx_error *err)
{
    const char *slash = strrchr(clean, '/');
    const char *name = slash ? slash + 1 : clean;
    size_t parent = (size_t)(name - clean);
    *ret = ABX__TAR_PLAIN;
    if (strncmp(name, ".wh.", 4) != 0)
        return 0;
    memcpy(ret_at, clean, parent);
    if (strcmp(name, ".wh..wh..opq") == 0) {
        *ret = ABX__TAR_OPAQUE;
        if (parent == 0)
            ret_at[parent++] = '.';
        else
            parent--; /* its slash */
        ret_at[parent] = 0;
        return 0;
    }
    const char *hidden = name + 4;
    if (*hidden == 0 || strcmp(hidden, ".") == 0 || strcmp(hidden, "..") == 0 ||
        strncmp(hidden, ".wh.", 4) == 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "bad whiteout %.100s", clean);
    *ret = ABX__TAR_WHITEOUT;
    memcpy(ret_at + parent, hidden, strlen(hidden) + 1);
    return 0;
}

bool abx__tar_keeps_xattr(const char *name)
{
    static const char *const stripped[] = {"trusted.", "user.overlay.", "security.", "system."};
    if (strcmp(name, "security.capability") == 0)
        return true;
    for (size_t i = 0; i < ABX_COUNTOF(stripped); i++)
        if (strncmp(name, stripped[i], strlen(stripped[i])) == 0)
            return false;
    return strncmp(name, "user.", 5) == 0;
}

int abx__tar_afford(const struct abx__tar_budget *b, struct abx_error *err)
{
    const char *what = NULL;
    if (b->in > IN_MAX)
        what = "8 GiB as it came";
    else if (b->out > OUT_MAX)
        what = "32 GiB unpacked";
    else if (b->entries > ENTRIES_MAX)
        what = "2,000,000 entries";
    else if (b->out > RATIO_FLOOR && b->out / RATIO_MAX > b->in)
        what = "200 times its size when unpacked";
    if (what == NULL)
        return 0;
    return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "the archive is over %s", what);
}
