/* guest/envd/metadata.c: X-Metadata-* headers of an upload (envd.md 3.4). Pure. */
#include "guest/envd/envd_priv.h"

#include "lib/base/banned.h"

static const char header_prefix[] = "x-metadata-";
enum { HEADER_PREFIX_LEN = sizeof(header_prefix) - 1, XATTR_PREFIX_LEN = sizeof("user.e2b.") - 1 };

static bool is_printable(struct abx_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] < 0x20 || s.ptr[i] > 0x7e)
            return false;
    return true;
}

static bool is_ours(struct abx_str name)
{
    return abx_str_eq_nocase(abx_str_sub(name, 0, HEADER_PREFIX_LEN), ABX_STR(header_prefix));
}

static bool is_known(const struct abx__metadata *m, struct abx_str key)
{
    for (size_t i = 0; i < m->count; i++)
        if (abx_str_eq_nocase(m->rows[i].key, key))
            return true;
    return false;
}

static int add(struct abx__metadata *m, struct abx_str key, struct abx_str value,
               struct abx_arena *a, struct abx_error *err)
{
    if (key.len == 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "invalid metadata: a key is empty");
    if (key.len > ABX__METADATA_KEY_MAX)
        return abx_err_set(err, ABX_INVALID_ARGUMENT,
                           "invalid metadata: a key is longer than %d bytes",
                           ABX__METADATA_KEY_MAX);
    if (!is_printable(key) || !is_printable(value))
        return abx_err_set(err, ABX_INVALID_ARGUMENT,
                           "invalid metadata: %.64s: only printable ASCII is allowed",
                           is_printable(key) ? abx_arena_c(a, key) : "a key");
    char *lower = abx_arena_c(a, key);
    if (lower == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
    for (size_t i = 0; i < key.len; i++)
        if (lower[i] >= 'A' && lower[i] <= 'Z')
            lower[i] = (char)(lower[i] | 0x20);
    m->rows[m->count++] = (struct abx_meta){abx_str_n(lower, key.len), value};
    m->bytes += XATTR_PREFIX_LEN + key.len + value.len;
    if (m->bytes > ABX__METADATA_MAX)
        return abx_err_set(err, ABX_INVALID_ARGUMENT,
                           "invalid metadata: keys and values are longer than %d bytes together",
                           ABX__METADATA_MAX);
    return 0;
}

int abx__metadata_parse(const struct abx_http_head *head, struct abx_arena *a,
                        struct abx__metadata *ret, struct abx_error *err)
{
    *ret = (struct abx__metadata){0};
    for (size_t i = 0; i < head->header_count; i++) {
        const struct abx_http_header *h = &head->headers[i];
        if (!is_ours(h->name))
            continue;
        struct abx_str key = abx_str_sub(h->name, HEADER_PREFIX_LEN, h->name.len);
        if (is_known(ret, key))
            continue;
        if (ret->rows == NULL)
            ret->rows = abx_arena_array(a, head->header_count, sizeof(*ret->rows));
        if (ret->rows == NULL)
            return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
        if (add(ret, key, h->value, a, err) < 0)
            return -1;
    }
    return 0;
}
