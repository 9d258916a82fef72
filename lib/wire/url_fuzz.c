/* lib/wire/url_fuzz.c: URLs and queries: encoding round trips, a normal path is its own normal. */
#include "lib/wire/url.h"

#include <assert.h>

#include "lib/base/banned.h"

static void check_normal(struct abx_str s, struct abx_arena *a)
{
    struct abx_str once;
    if (abx_url_normal_path(s, a, &once) < 0)
        return;
    assert(once.ptr[0] == '/' && abx_str_find(once, ABX_STR("//")) < 0);
    assert(!abx_str_ends(once, "/..") && abx_str_find(once, ABX_STR("/../")) < 0);
    assert((once.len == 1 || !abx_str_ends(once, "/")) && abx_str_chr(once, ';') < 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct abx_str s = abx_str_n((const char *)data, size < 4096 ? size : 4096), rest = s, a, b;
    struct abx_url url;
    struct abx_arena arena;
    ABX_AUTO_BUF text = {.max = 1 << 16};
    abx_arena_init(&arena, 1 << 20);
    abx_url_encode(&text, s, "/");
    int got = abx_url_decode(abx_buf_str(&text), text.len & 1, &arena, &a);
    assert(abx_str_chr(s, '\0') >= 0 ? got == -1 : got == 0 && abx_str_eq(a, s));
    check_normal(s, &arena);
    if (abx_url_parse(s, &url, NULL) == 0)
        assert(url.host.len && url.path.ptr[0] == '/' && url.host.len + url.query.len < s.len);
    if (abx_url_split_target(s, &a, &b) == 0)
        assert(a.len >= 1 && a.len + b.len <= s.len + 1);
    while (abx_url_query_next(&rest, &arena, &a, &b) > 0)
        assert(a.len + b.len <= s.len);
    abx_arena_done(&arena);
    return 0;
}
