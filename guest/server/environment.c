/* guest/server/environment.c: the server's environment: taken once at the start, wiped from the
 * kernel's view, changed by POST /env, and what children get of it. security S13, S15, policy.md
 * A7, C3.
 *
 * The base is `environ`. A narrow identity beside others has variables of its own instead of it,
 * and of the base only what no secret can be in. Pool threads read while the loop writes: one lock,
 * and readers get copies. */
#include "guest/server/environment.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { VARIABLES_MAX = 8192, BYTES_MAX = 1 << 20 };

struct overlay { /* of a narrow identity */
    struct abx_list node;
    char *identity;
    char **vars; /* as environ */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct abx_list overlays = {&overlays, &overlays};

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

void abx__environment_drop(const char *name)
{
    size_t kept = 0;
    for (size_t i = 0; environ[i]; i++) {
        if (abx_str_is(name_of(environ[i]), name))
            free(environ[i]);
        else
            environ[kept++] = environ[i];
    }
    environ[kept] = NULL;
}

static void free_vars(char **vars)
{
    for (size_t i = 0; vars && vars[i]; i++)
        free(vars[i]);
    free(vars);
}

void abx__environment_free(void)
{
    while (!abx_list_empty(&overlays)) {
        struct overlay *o = ABX_CONTAINER_OF(overlays.next, struct overlay, node);
        abx_list_remove(&o->node);
        free_vars(o->vars);
        free(o->identity);
        free(o);
    }
    free_vars(environ);
    environ = NULL;
}

/* ---- what an identity sees ---- */

/* Variables of the base that a narrow identity gets too: none of them can hold a secret of others.
 */
static bool is_common(struct abx_str name)
{
    static const char *const names[] = {"PATH", "HOME",     "USER", "LOGNAME", "SHELL",
                                        "LANG", "LANGUAGE", "TZ",   "TERM"};
    for (size_t i = 0; i < ABX_COUNTOF(names); i++)
        if (abx_str_is(name, names[i]))
            return true;
    return abx_str_starts(name, "LC_");
}

char *abx__environment_copy(const char *name, struct abx_arena *a)
{
    pthread_mutex_lock(&lock);
    const char *value = getenv(name);
    char *copy = value ? abx_arena_c(a, abx_str(value)) : NULL;
    pthread_mutex_unlock(&lock);
    return copy;
}

static struct overlay *find_overlay(const struct abx_policy_identity *who)
{
    for (struct abx_list *node = overlays.next; node != &overlays; node = node->next) {
        struct overlay *o = ABX_CONTAINER_OF(node, struct overlay, node);
        if (abx_str_is(who->id, o->identity))
            return o;
    }
    return NULL;
}

static size_t count_of(char *const *vars)
{
    size_t n = 0;
    while (vars && vars[n])
        n++;
    return n;
}

static bool has_name(char *const *vars, size_t count, struct abx_str name)
{
    for (size_t i = 0; i < count; i++)
        if (abx_str_eq(name_of(vars[i]), name))
            return true;
    return false;
}

/* Copies of @from that @out does not name yet. False without memory. */
static bool put_rest(char *const *from, bool common_only, char **out, size_t *count,
                     struct abx_arena *a)
{
    size_t before = *count;
    for (; from && *from; from++) {
        if ((common_only && !is_common(name_of(*from))) || has_name(out, before, name_of(*from)))
            continue;
        out[*count] = abx_arena_c(a, abx_str(*from));
        if (out[*count] == NULL)
            return false;
        ++*count;
    }
    return true;
}

char **abx__environment_of(const struct abx_policy_identity *who, const struct abx__pair *extra,
                           size_t extra_count, struct abx_arena *a)
{
    size_t count = 0;
    char **out = NULL;
    pthread_mutex_lock(&lock);
    const struct overlay *own = who->is_wide ? NULL : find_overlay(who);
    char *const *vars = own ? own->vars : NULL;
    out = abx_arena_array(a, extra_count + count_of(vars) + count_of(environ) + 1, sizeof(*out));
    bool is_good = out != NULL;
    for (size_t i = 0; is_good && i < extra_count; i++) {
        out[i] = abx_arena_printf(a, "%.*s=%.*s", ABX_STR_FMT(extra[i].name),
                                  ABX_STR_FMT(extra[i].value));
        is_good = out[i] != NULL;
        count += is_good;
    }
    is_good = is_good && put_rest(vars, false, out, &count, a) &&
              put_rest(environ, !who->is_wide, out, &count, a);
    pthread_mutex_unlock(&lock);
    return is_good ? out : NULL;
}

/* ---- changes ---- */

static size_t bytes_of(char *const *vars)
{
    size_t n = 0;
    for (; vars && *vars; vars++)
        n += strlen(*vars) + 1;
    return n;
}

/* Takes @text ("NAME=value"), which replaces what has its name. @vars has room for one more. */
static void put_var(char **vars, char *text)
{
    size_t i = 0;
    while (vars[i] && !abx_str_eq(name_of(vars[i]), name_of(text)))
        i++;
    free(vars[i]);
    vars[i] = text;
}

static char *join(const struct abx__pair *p)
{
    size_t size = p->name.len + p->value.len + 2;
    char *text = malloc(size);
    if (text == NULL)
        return NULL;
    memcpy(text, p->name.ptr, p->name.len);
    text[p->name.len] = '=';
    if (p->value.len)
        memcpy(text + p->name.len + 1, p->value.ptr, p->value.len);
    text[size - 1] = '\0';
    return text;
}

/* All pairs or none. */
static int set_all(char ***inout_vars, const struct abx__pair *pairs, size_t count)
{
    size_t have = count_of(*inout_vars), bytes = bytes_of(*inout_vars);
    for (size_t i = 0; i < count; i++)
        bytes += pairs[i].name.len + pairs[i].value.len + 2;
    if (have + count > VARIABLES_MAX || bytes > BYTES_MAX)
        return -E2BIG;
    char **texts = calloc(count + 1, sizeof(*texts)),
         **grown = calloc(have + count + 1, sizeof(*grown));
    bool is_good = texts && grown;
    for (size_t i = 0; is_good && i < count; i++)
        is_good = (texts[i] = join(&pairs[i])) != NULL;
    if (!is_good) {
        free_vars(texts);
        free(grown);
        return -ENOMEM;
    }
    for (size_t i = 0; i < have; i++)
        grown[i] = (*inout_vars)[i];
    for (size_t i = 0; i < count; i++)
        put_var(grown, texts[i]);
    free(texts);
    free(*inout_vars);
    *inout_vars = grown;
    return 0;
}

static struct overlay *make_overlay(const struct abx_policy_identity *who)
{
    struct overlay *o = calloc(1, sizeof(*o));
    char *identity = o ? abx_str_dup(who->id) : NULL;
    if (identity == NULL) {
        free(o);
        return NULL;
    }
    o->identity = identity;
    abx_list_push(&overlays, &o->node);
    return o;
}

int abx__environment_set(const struct abx_policy_identity *who, const struct abx__pair *pairs,
                         size_t count)
{
    pthread_mutex_lock(&lock);
    struct overlay *o = who->is_wide ? NULL : find_overlay(who);
    if (o == NULL && !who->is_wide)
        o = make_overlay(who);
    int rc = o == NULL && !who->is_wide ? -ENOMEM : set_all(o ? &o->vars : &environ, pairs, count);
    pthread_mutex_unlock(&lock);
    return rc;
}
