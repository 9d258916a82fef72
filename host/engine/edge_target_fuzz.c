/* host/engine/edge_target_fuzz.c: whatever Host or path says, a target is a good id and port. */
#include "host/engine/edge_priv.h"

#include <assert.h>

#include "lib/base/banned.h"

static void check(const struct abx__target *t)
{
    assert(t->port != 0 && t->id.len != 0 && t->id.len <= 64);
    for (size_t i = 0; i < t->id.len; i++)
        assert(strchr("abcdefghijklmnopqrstuvwxyz0123456789", t->id.ptr[i]) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct abx_arena arena;
    struct abx_str s = abx_str_n((const char *)data, size < 4096 ? size : 4096), label = {0};
    struct abx__engine e = {.domain = "abx.localhost:3000"};
    struct abx_http_head head = {0};
    struct abx__target t = {0};
    const char *why = NULL;
    abx_arena_init(&arena, 1 << 20);
    if (s.len != 0 && abx_str_chr(s, '\0') < 0 &&
        abx__host_classify(&e, s, &label) == ABX__HOST_LABEL) {
        assert(label.len != 0 && label.ptr >= s.ptr && label.ptr + label.len < s.ptr + s.len);
        if (abx__target_from_label(label, &t, &why) == 0)
            check(&t);
        else
            assert(why != NULL);
    }
    struct abx_http_req req = {.head = &head, .path = s, .arena = &arena};
    int r = abx__target_from_path(&req, &t, &why);
    assert(r == 0 || abx_str_starts(s, "/.p/"));
    if (r > 0) {
        check(&t);
        assert(t.rewritten.ptr[0] == '/' && t.rewritten.len < s.len);
    }
    abx_arena_done(&arena);
    return 0;
}
