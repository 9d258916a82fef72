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

enum { PLACES_MAX = 192 };

static const struct abx__route *route_of(const char *id)
{
    for (size_t i = 0; i < ABX_COUNTOF(built); i++)
        for (const struct abx__route *r = built[i]; r->id; r++)
            if (strcmp(id, r->id) == 0)
                return r;
    return NULL;
}

static struct abx__place place_of(const struct abx_endpoint *e)
{
    struct abx_str path = abx_str(e->path);
    ptrdiff_t name = abx_str_chr(path, '{');
    return (struct abx__place){e, route_of(e->id), path, abx_str(e->method),
                               name < 0 ? path.len : (size_t)name};
}

/* Put together once: each request walks it. Loop thread. */
const struct abx__place *abx__places(size_t *ret_count)
{
    static struct abx__place places[PLACES_MAX];
    static size_t count;
    size_t all_count, ours_count;
    const struct abx_endpoint *all = abx_endpoints(&all_count),
                              *ours = abx_endpoint_extensions(&ours_count);
    ABX_ASSERT(all_count + ours_count <= PLACES_MAX);
    for (; count < all_count; count++)
        places[count] = place_of(&all[count]);
    for (; count < all_count + ours_count; count++)
        places[count] = place_of(&ours[count - all_count]);
    *ret_count = count;
    return places;
}
