/* guest/caps/environ.c: composes an environment by layers (envd.md 5.3). */
#include "guest/caps/environ.h"

#include "lib/base/assert.h"
#include "lib/base/map.h"

#include <stdlib.h>

#include "lib/base/banned.h"

enum { MAX_VARS = 8192, MAX_BYTES = 2 * 1024 * 1024 }; /* the kernel's bound for all of it */

struct composer {
    struct abx_environ env;
    struct abx_map index; /* name -> slot of vars */
    size_t bytes;
};

static int check(struct abx_str name, struct abx_str value, struct abx_error *err)
{
    if (name.len == 0 || abx_str_chr(name, '=') >= 0 || abx_str_chr(name, '\0') >= 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "environment variable name '%.*s' is invalid",
                           (int)(name.len < 100 ? name.len : 100), name.ptr ? name.ptr : "");
    if (value.len > 0 && abx_str_chr(value, '\0') >= 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "environment variable %.*s holds a NUL byte",
                           (int)(name.len < 100 ? name.len : 100), name.ptr);
    return 0;
}

static int set_var(struct composer *c, struct abx_str name, struct abx_str value,
                   struct abx_error *err)
{
    if (check(name, value, err) < 0)
        return -1;
    size_t size = name.len + value.len + 2;
    c->bytes += size;
    if (c->bytes > MAX_BYTES || c->env.count == MAX_VARS)
        return abx_err_set(err, ABX_INVALID_ARGUMENT,
                           "environment is too large: at most %d variables and %d bytes", MAX_VARS,
                           MAX_BYTES);
    char *text = malloc(size);
    if (text == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "environment: out of memory");
    memcpy(text, name.ptr, name.len);
    text[name.len] = '=';
    if (value.len > 0)
        memcpy(text + name.len + 1, value.ptr, value.len);
    text[size - 1] = '\0';
    char **slot = abx_map_get(&c->index, name);
    if (slot != NULL) {
        free(*slot);
        *slot = text;
        return 0;
    }
    slot = &c->env.vars[c->env.count];
    if (abx_map_set(&c->index, name, slot, NULL) < 0) {
        free(text);
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "environment: out of memory");
    }
    *slot = text;
    c->env.count++;
    return 0;
}

static int set_pairs(struct composer *c, const struct abx_env_pair *pairs, size_t count,
                     struct abx_error *err)
{
    for (size_t i = 0; i < count; i++)
        if (set_var(c, pairs[i].name, pairs[i].value, err) < 0)
            return -1;
    return 0;
}

void abx_environ_of_user(const struct abx_user *u, struct abx_env_pair ret[ABX_ENVIRON_OF_USER])
{
    ret[0] = (struct abx_env_pair){ABX_STR("HOME"), abx_str(u->home)};
    ret[1] = (struct abx_env_pair){ABX_STR("USER"), abx_str(u->name)};
    ret[2] = (struct abx_env_pair){ABX_STR("LOGNAME"), abx_str(u->name)};
}

static int set_base(struct composer *c, const struct abx_process_spec *spec, const char *path,
                    struct abx_error *err)
{
    struct abx_env_pair user[ABX_ENVIRON_OF_USER];
    const struct abx_env_pair for_pipes[] = {
        {ABX_STR("PAGER"), ABX_STR("cat")},
        {ABX_STR("GIT_PAGER"), ABX_STR("cat")},
    };
    const struct abx_env_pair for_pty[] = {
        {ABX_STR("TERM"), ABX_STR("xterm-256color")},
        {ABX_STR("LANG"), ABX_STR("C.UTF-8")},
    };
    abx_environ_of_user(spec->user, user);
    if (set_var(c, ABX_STR("PATH"), abx_str(path), err) < 0 ||
        set_pairs(c, user, ABX_COUNTOF(user), err) < 0)
        return -1;
    return spec->has_pty ? set_pairs(c, for_pty, ABX_COUNTOF(for_pty), err)
                         : set_pairs(c, for_pipes, ABX_COUNTOF(for_pipes), err);
}

int abx_environ_compose(const struct abx_process_spec *spec, const char *path,
                        struct abx_environ *ret, struct abx_error *err)
{
    size_t most = spec->env_count + spec->global_count + 16;
    struct composer c = {0};
    c.env.vars = calloc(most < MAX_VARS ? most : MAX_VARS + 1, sizeof(*c.env.vars));
    if (c.env.vars == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "environment: out of memory");
    abx_map_init(&c.index, MAX_VARS);
    int rc = set_base(&c, spec, path, err);
    if (rc == 0)
        rc = set_pairs(&c, spec->globals, spec->global_count, err);
    if (rc == 0)
        rc = set_pairs(&c, spec->envs, spec->env_count, err);
    abx_map_done(&c.index);
    if (rc < 0)
        abx_environ_done(&c.env);
    else
        *ret = c.env;
    return rc;
}

const char *abx_environ_get(const struct abx_environ *e, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < e->count; i++)
        if (strncmp(e->vars[i], name, len) == 0 && e->vars[i][len] == '=')
            return e->vars[i] + len + 1;
    return NULL;
}

void abx_environ_done(struct abx_environ *e)
{
    for (size_t i = 0; i < e->count; i++)
        free(e->vars[i]);
    free(e->vars);
    *e = (struct abx_environ){0};
}
