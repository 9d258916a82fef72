/* guest/server/environment.c: the server's environment: taken once at the start, wiped from the
 * kernel's view, and what children get of it. security S15, policy.md A7. */
#include "guest/server/environment.h"

#include "lib/base/fd.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "lib/base/banned.h"

int abx__environment_take(void)
{
    size_t n = 0, at = 0;
    while (environ[n])
        n++;
    char **copy = calloc(n + 1, sizeof(*copy));
    if (copy == NULL)
        return -1;
    for (; at < n && (copy[at] = abx_str_dup(abx_str(environ[at]))) != NULL; at++)
        ;
    if (at < n) {
        for (size_t i = 0; i < at; i++)
            free(copy[i]);
        free(copy);
        return -1;
    }
    for (size_t i = 0; i < n; i++)
        explicit_bzero(environ[i], strlen(environ[i]));
    environ = copy;
    return 0;
}

static struct abx_str name_of(const char *pair)
{
    const char *equals = strchr(pair, '=');
    return equals ? abx_str_n(pair, (size_t)(equals - pair)) : abx_str(pair);
}

void abx__environment_hide(const struct abx_policy *p)
{
    size_t kept = 0;
    for (size_t i = 0; environ[i]; i++) {
        if (abx_policy_is_secret_env(p, name_of(environ[i]))) {
            explicit_bzero(environ[i], strlen(environ[i]));
            free(environ[i]);
        } else
            environ[kept++] = environ[i];
    }
    environ[kept] = NULL;
}

void abx__environment_free(void)
{
    for (size_t i = 0; environ && environ[i]; i++)
        free(environ[i]);
    free(environ);
    environ = NULL;
}

static bool is_replaced(const char *pair, const struct abx__pair *extra, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (abx_str_eq(name_of(pair), extra[i].name))
            return true;
    return false;
}

char **abx__child_environment(const struct abx__server *s, const struct abx__pair *extra,
                              size_t count, struct abx_arena *a)
{
    size_t n = 0, at = 0;
    while (s->env[n])
        n++;
    char **out = abx_arena_array(a, n + count + 1, sizeof(*out));
    if (out == NULL)
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (!is_replaced(s->env[i], extra, count))
            out[at++] = s->env[i];
    for (size_t i = 0; i < count; i++) {
        out[at] = abx_arena_printf(a, "%.*s=%.*s", ABX_STR_FMT(extra[i].name),
                                   ABX_STR_FMT(extra[i].value));
        if (out[at++] == NULL)
            return NULL;
    }
    return out;
}
