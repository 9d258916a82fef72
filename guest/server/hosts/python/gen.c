/* guest/server/hosts/python/gen.c: a build tool: prints the endpoints' table as the Python module
 * _endpoints.py of the shim, so that there is one table. */
#include "lib/policy/endpoints.h"

#include <stdio.h>

static const char *truth(unsigned yes)
{
    return yes ? "True" : "False";
}

static void put_bits(const char *key, unsigned bits, unsigned count, const char *(*name)(unsigned))
{
    printf("'%s': [", key);
    for (unsigned i = 0; i < count; i++)
        if (bits & 1u << i)
            printf("'%s', ", name(i));
    printf("], ");
}

static const char *limit_name(unsigned i)
{
    return abx_limit_name((enum abx_limit)i);
}

static const char *param_name(unsigned i)
{
    return abx_param_name((enum abx_param)i);
}

static void put_row(const struct abx_endpoint *e)
{
    printf("    {'name': '%s', 'method': '%s', 'path': '%s', 'group': '%s', 'scopes': [", e->id,
           e->method, e->path, abx_group_name(e->group));
    for (unsigned i = 0; i < ABX_ENDPOINT_SCOPES && e->scopes[i]; i++)
        printf("'%s', ", e->scopes[i]);
    printf("],\n     ");
    put_bits("limits", e->limits, ABX_LIMIT__COUNT, limit_name);
    put_bits("params", e->params, ABX_PARAM__COUNT, param_name);
    printf("\n     'paths': %s, 'exec': %s, 'streaming': %s, 'auth_required': %s, 'virtual': %s,\n",
           truth(e->flags & ABX_EP_PATHS), truth(e->flags & ABX_EP_EXEC),
           truth(e->flags & ABX_EP_STREAMING), truth(!(e->flags & ABX_EP_OPEN)),
           truth(e->flags & ABX_EP_VIRTUAL));
    printf("     'summary': \"%s\"},\n", e->summary);
}

int main(void)
{
    size_t count;
    const struct abx_endpoint *all = abx_endpoints(&count);
    printf("\"\"\"The published endpoints, printed by guest/server/hosts/python/gen.c at "
           "build.\"\"\"\n\nROWS = [\n");
    for (size_t i = 0; i < count; i++)
        put_row(&all[i]);
    printf("]\n");
    return 0;
}
