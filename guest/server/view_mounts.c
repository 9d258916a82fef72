/* guest/server/view_mounts.c: the mount namespaces of views that hide something (view_system.h).
 * Made while a policy is loaded, before the server confines itself, and kept: a later policy that
 * hides the same uses the same. Security S08. */
#include "guest/server/view_system.h"

#include "lib/base/buf.h"

#include <errno.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum { SETS_MAX = 64, KEY_BYTES = 1 << 20 };

struct set {
    struct set *next;
    char *key; /* the paths, each with its NUL */
    size_t key_len;
    int fd;
};
static struct set *sets;

static int put_key(struct abx_str_list hidden, struct abx_buf *key)
{
    abx_buf_init(key, KEY_BYTES);
    for (size_t i = 0; i < hidden.count; i++) {
        abx_buf_put_str(key, hidden.items[i]);
        abx_buf_put_byte(key, '\0');
    }
    return abx_buf_failed(key) ? -ENOMEM : 0;
}

static int make(const struct abx_buf *key, size_t count)
{
    const char **paths = calloc(count, sizeof(*paths)), *at = key->ptr;
    if (paths == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        paths[i] = at;
        at += strlen(at) + 1;
    }
    int fd = abx_confine_hide(paths, count);
    free(paths);
    return fd;
}

int abx__mounts_of(struct abx_str_list hidden)
{
    ABX_AUTO_BUF key;
    size_t count = 0;
    int r = put_key(hidden, &key);
    if (r < 0)
        return r;
    for (const struct set *s = sets; s != NULL; s = s->next, count++)
        if (s->key_len == key.len && memcmp(s->key, key.ptr, key.len) == 0)
            return s->fd;
    if (count == SETS_MAX)
        return -ENFILE;
    struct set *made = calloc(1, sizeof(*made));
    if (made == NULL)
        return -ENOMEM;
    made->fd = make(&key, hidden.count);
    if (made->fd < 0) {
        r = made->fd;
        free(made);
        return r;
    }
    made->key_len = key.len;
    made->key = abx_buf_take(&key);
    made->next = sets;
    sets = made;
    return made->fd;
}
