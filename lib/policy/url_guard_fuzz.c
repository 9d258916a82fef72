/* lib/policy/url_guard_fuzz.c: PATTERN and URL, a newline between them. What passes leads to no
 * address of our own; a list never allows more; what was understood is understood again. */
#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "lib/policy/url_guard.h"

#include "lib/base/banned.h"

enum { INPUT_MAX = 2048 };

static bool passes(const struct abx_policy_rule *rule, struct abx_str url, struct abx_arena *a,
                   struct abx_policy_url *ret)
{
    struct abx_policy_verdict v = {0};
    bool ok = abx_policy_url_check(rule, url, a, ret, &v);
    ABX_ASSERT(ok == (v.code == ABX_POLICY_OK));
    return ok;
}

static void check_again(const struct abx_policy_rule *rule, const struct abx_policy_url *u,
                        struct abx_arena *a)
{
    bool v6 = abx_str_chr(u->host, ':') >= 0;
    struct abx_policy_url again;
    const char *text =
        abx_arena_printf(a, "%.*s://%s%.*s%s:%u%.*s", ABX_STR_FMT(u->scheme), v6 ? "[" : "",
                         ABX_STR_FMT(u->host), v6 ? "]" : "", u->port, ABX_STR_FMT(u->path));
    if (text == NULL)
        return;
    ABX_ASSERT(passes(rule, abx_str(text), a, &again));
    ABX_ASSERT(abx_str_eq(again.host, u->host) && again.port == u->port &&
               abx_str_eq(again.path, u->path));
}

static void check(struct abx_str pattern, struct abx_str url, struct abx_arena *a)
{
    static const struct abx_endpoint endpoint = {.id = "browser_navigate"};
    struct abx_policy_rule open = {.id = ABX_STR("browser_navigate"), .endpoint = &endpoint},
                           denies = open, allows = open;
    struct abx_policy_verdict v = {0};
    struct abx_policy_url u, other;
    denies.params[ABX_PARAM_URL_DENY] =
        (struct abx_policy_param){.is_set = true, .words = {&pattern, 1}};
    allows.params[ABX_PARAM_URL_ALLOW] = denies.params[ABX_PARAM_URL_DENY];
    allows.params[ABX_PARAM_BLOCK_PRIVATE_NETWORKS] =
        (struct abx_policy_param){.is_set = true, .flag = true};
    bool ok = passes(&open, url, a, &u), left = passes(&denies, url, a, &other),
         listed = passes(&allows, url, a, &other);
    ABX_ASSERT(ok || (!left && !listed));
    ABX_ASSERT(!(left && listed)); /* a pattern that allows a page denies it in a deny list */
    if (!ok)
        return;
    ABX_ASSERT(!abx_policy_host_is_local(u.host));
    ABX_ASSERT(!u.is_address || abx_policy_address_check(&allows, u.address, &v));
    check_again(&open, &u, a);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct abx_arena a;
    struct abx_str text = abx_str_n((const char *)data, size);
    ptrdiff_t end = abx_str_chr(text, '\n');
    if (size > INPUT_MAX || end < 0)
        return 0;
    abx_arena_init(&a, 1 << 20);
    check(abx_str_sub(text, 0, (size_t)end), abx_str_sub(text, (size_t)end + 1, text.len), &a);
    abx_arena_done(&a);
    return 0;
}
