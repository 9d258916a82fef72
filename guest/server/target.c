/* guest/server/target.c: request targets as the published server reads them (server-api.md 1.2).
 * Pure. */
#include "guest/server/target.h"

#include "lib/base/banned.h"

struct abx_str abx__target_path(struct abx_str path)
{
    ptrdiff_t hash = abx_str_chr(path, '#');
    if (hash >= 0)
        path = abx_str_sub(path, 0, (size_t)hash);
    while (path.len > 1 && path.ptr[0] == '/' && path.ptr[1] == '/')
        path = abx_str_sub(path, 1, path.len);
    ptrdiff_t slash = abx_str_rchr(path, '/');
    struct abx_str last = abx_str_sub(path, (size_t)(slash + 1), path.len);
    ptrdiff_t semicolon = abx_str_chr(last, ';');
    if (semicolon >= 0)
        path = abx_str_sub(path, 0, (size_t)(slash + 1 + semicolon));
    while (path.len > 0 && path.ptr[path.len - 1] == '/')
        path.len--;
    return path.len > 0 ? path : ABX_STR("/");
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
        return (c | 0x20) - 'a' + 10;
    return -1;
}

/* A % without two digits stays, as does an encoded slash when @keep_slash. ptr NULL: no memory. */
static struct abx_str decode(struct abx_str s, bool plus_is_space, bool keep_slash,
                             struct abx_arena *a)
{
    char *out = abx_arena_alloc(a, s.len + 1);
    size_t n = 0;
    if (out == NULL)
        return (struct abx_str){0};
    for (size_t i = 0; i < s.len; i++) {
        int high = s.ptr[i] == '%' && i + 2 < s.len ? hex_value(s.ptr[i + 1]) : -1;
        int low = high >= 0 ? hex_value(s.ptr[i + 2]) : -1;
        int byte = high >= 0 ? high << 4 | (low & 15) : 0;
        if (low >= 0 && !(keep_slash && byte == '/')) {
            out[n++] = (char)byte;
            i += 2;
        } else
            out[n++] = plus_is_space && s.ptr[i] == '+' ? ' ' : s.ptr[i];
    }
    return abx_str_n(out, n);
}

int abx__target_pairs(struct abx_str query, struct abx_arena *a, struct abx__pair *out, size_t max)
{
    size_t count = 0;
    struct abx_str part;
    ptrdiff_t hash = abx_str_chr(query, '#');
    if (hash >= 0)
        query = abx_str_sub(query, 0, (size_t)hash);
    while (abx_str_split(&query, '&', &part)) {
        ptrdiff_t equals = abx_str_chr(part, '=');
        if (equals < 0 || (size_t)equals + 1 == part.len)
            continue;
        if (count == max)
            return -1;
        out[count].name = decode(abx_str_sub(part, 0, (size_t)equals), true, false, a);
        out[count].value = decode(abx_str_sub(part, (size_t)equals + 1, part.len), true, false, a);
        if (out[count].name.ptr == NULL || out[count].value.ptr == NULL)
            return -2;
        count++;
    }
    return (int)count;
}

struct abx_str abx__target_double(const struct abx__pair *pairs, size_t count)
{
    for (size_t i = 1; i < count; i++)
        for (size_t j = 0; j < i; j++)
            if (abx_str_eq(pairs[i].name, pairs[j].name))
                return pairs[i].name;
    return (struct abx_str){0};
}

bool abx__target_match(struct abx_str pattern, struct abx_str path, struct abx_arena *a,
                       struct abx__pair *out, size_t *inout_count)
{
    size_t max = *inout_count, count = 0;
    struct abx_str want, got;
    while (abx_str_split(&pattern, '/', &want)) {
        if (!abx_str_split(&path, '/', &got))
            return false;
        bool is_name = want.len > 2 && want.ptr[0] == '{' && want.ptr[want.len - 1] == '}';
        if (!is_name && !abx_str_eq(want, got))
            return false;
        if (!is_name)
            continue;
        if (got.len == 0 || count == max)
            return false;
        out[count].name = abx_str_sub(want, 1, want.len - 2);
        out[count].value = decode(got, false, true, a);
        if (out[count++].value.ptr == NULL)
            return false;
    }
    *inout_count = count;
    return !abx_str_split(&path, '/', &got);
}
