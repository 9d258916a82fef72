/* guest/envd/init_fuzz.c: a body of /init that is accepted gives a state that comes back whole from
 * its sealed memfd, and keeps the names that the platform reserves. */
#include "guest/envd/envd_priv.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"

#include "lib/base/banned.h"

enum { INPUT_MAX = 65536 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_same(const struct abx__state *a, const struct abx__state *b)
{
    bool same = abx_str_eq(a->token, b->token) &&
                (a->token.ptr == NULL) == (b->token.ptr == NULL) &&
                abx_str_eq(a->default_user, b->default_user) &&
                abx_str_eq(a->default_workdir, b->default_workdir) &&
                a->timestamp_ns == b->timestamp_ns && a->env_count == b->env_count;
    for (size_t i = 0; same && i < a->env_count; i++)
        same = abx_str_eq(a->envs[i].name, b->envs[i].name) &&
               abx_str_eq(a->envs[i].value, b->envs[i].value);
    return same;
}

static void check_seal(const struct abx__state *s)
{
    struct abx__state back;
    struct abx_error err = {0};
    int fd = abx__state_seal(s, &err);
    if (fd < 0) { /* only one that is too large */
        ABX_ASSERT(err.code == ABX_RESOURCE_EXHAUSTED || err.code == ABX_INVALID_ARGUMENT);
        return;
    }
    ABX_ASSERT(abx__state_unseal(fd, &back, &err) == 0);
    ABX_ASSERT(is_same(s, &back));
    abx__state_done(&back);
    abx_fd_close(&fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct abx__state now, next;
    struct abx_error err = {0};
    bool is_stale = false;
    if (size > INPUT_MAX)
        return 0;
    abx__state_init(&now);
    struct abx_str body = {(const char *)data, size};
    if (abx__state_next(&now, body, &next, &is_stale, &err) < 0)
        ABX_ASSERT(err.msg[0] != '\0');
    else if (!is_stale) {
        for (size_t i = 0; i < next.env_count; i++)
            ABX_ASSERT(next.envs[i].name.len > 0 && abx_str_chr(next.envs[i].name, '=') < 0);
        check_seal(&next);
        abx__state_done(&next);
    }
    abx__state_done(&now);
    return 0;
}
