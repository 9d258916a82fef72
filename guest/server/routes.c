/* guest/server/routes.c: which endpoints are built. The files' arrays are listed here, nothing
 * else. */
#include "guest/server/server_priv.h"

#include "lib/base/assert.h"

#include "lib/base/banned.h"

static const struct abx__route *const built[] = {
    abx__core_routes,   abx__commands_routes,    abx__files_routes,    abx__shell_routes,
    abx__system_routes, abx__env_routes,         abx__code_routes,     abx__code_contexts_routes,
    abx__git_routes,    abx__git_history_routes, abx__describe_routes, abx__watch_over_routes,
    abx__mcp_routes,    abx__process_routes,     abx__terminal_routes, abx__browser_routes};

const struct abx__route *abx__route_find(struct abx_str id)
{
    for (size_t i = 0; i < ABX_COUNTOF(built); i++)
        for (const struct abx__route *r = built[i]; r->id; r++)
            if (abx_str_is(id, r->id))
                return r;
    return NULL;
}
