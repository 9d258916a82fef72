/* client/policy.c: a server's policy is checked before it is sent anywhere. */
#include "lib/policy/policy.h"
#include "client/client_priv.h"

#include <stdio.h>

#include "lib/base/banned.h"

/* The variables that a policy takes tokens from are set in the sandbox, not here: each has a value
 * of its own, for two tokens must not be equal. */
static const char *stand_in_token(void *ctx, const char *name)
{
    return abx_arena_printf(ctx, "stand-in-token-of-%s-0123456789abcdef", name);
}

int abx__policy_check(const char *json, struct abx_client_error *err)
{
    struct abx_report report;
    struct abx_policy *policy = NULL;
    struct abx_arena a;
    int result = 0;
    abx_arena_init(&a, 1 << 20);
    abx_report_init(&report);
    struct abx_policy_facts facts = {.text = abx_str(json),
                                     .has_text = true,
                                     .getenv = stand_in_token,
                                     .getenv_ctx = &a,
                                     .no_env = true};
    int loaded = abx_policy_load(&facts, &policy, &report);
    for (size_t i = 0; result == 0 && i < report.count; i++) {
        const struct abx_finding *f = &report.items[i];
        char at[48] = "";
        if (f->kind != ABX_FINDING_DOCUMENT)
            continue;
        if (f->line)
            snprintf(at, sizeof(at), " (line %u, column %u)", f->line, f->column);
        result = abx__client_fail(err, "E8002", "client", "policy: %s%s%s%s",
                                  f->place ? f->place : "", f->place ? ": " : "", f->text, at);
    }
    if (result == 0 && loaded < 0)
        result = abx__client_fail(err, "E8002", "client", "policy: it can not be loaded");
    if (result < 0)
        abx__client_next(err, "agent-sandbox-server check-config tells all that is wrong");
    abx_policy_unref(policy);
    abx_report_done(&report);
    abx_arena_done(&a);
    return result;
}
