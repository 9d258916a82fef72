/* guest/server/callers.c: what one caller has started, across calls and policies: who may signal
 * whom (a scope), and a cgroup that counts it and in the end takes all of it along. view_system.h.
 * Loop thread. Security M11, S21, S22. */
#include "guest/server/view.h"
#include "guest/server/view_system.h"

#include "lib/base/log.h"
#include "lib/base/str.h"

#include <stdlib.h>

#include "lib/base/banned.h"

enum { CALLERS_MAX = 256 };

struct caller {
    struct caller *next;
    char *name;
    struct abx_confine_scope *scope;
    struct abx_confine_group *group;
    bool is_killed; /* its bound is 0 until somebody of that name comes again */
};
static struct caller *callers;
static bool has_groups = true; /* until the first could not be made */

static void caller_free(struct caller *c)
{
    abx_confine_scope_unref(c->scope);
    abx_confine_group_unref(c->group);
    free(c->name);
    free(c);
}

static struct caller *caller_new(struct abx_str name)
{
    struct caller *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return NULL;
    c->name = abx_str_dup(name);
    c->scope = c->name ? abx_confine_scope_new() : NULL;
    if (c->scope == NULL) {
        caller_free(c);
        return NULL;
    }
    has_groups = has_groups && abx_confine_group_new(&c->group) == 0;
    c->next = callers;
    return callers = c;
}

void abx__caller_bounds(struct abx_str name, struct abx_confine_scope **ret_scope,
                        struct abx_confine_group **ret_group)
{
    size_t count = 0;
    struct caller *c = callers;
    for (; c != NULL && !abx_str_is(name, c->name); c = c->next)
        count++;
    if (c == NULL && count < CALLERS_MAX)
        c = caller_new(name);
    if (c != NULL)
        c->is_killed = false;
    *ret_scope = c ? c->scope : NULL;
    *ret_group = c ? c->group : NULL;
}

bool abx__callers_are_counted(void)
{
    return has_groups && callers != NULL;
}

static bool is_caller(const struct abx_policy *p, const char *name)
{
    struct abx_policy_identity who;
    for (size_t i = 0; abx_policy_identity_at(p, i, &who); i++)
        if (abx_str_is(who.id, name))
            return true;
    return strcmp(name, "anonymous") == 0; /* of open routes */
}

static void kill_caller(struct caller *c)
{
    size_t left = c->group && !c->is_killed ? abx_confine_group_kill(c->group) : 0;
    c->is_killed = true;
    if (left > 0)
        abx_log(ABX_LOG_WARN, "%zu processes of '%s' do not end", left, c->name);
}

void abx__callers_kill_strangers(const struct abx_policy *p)
{
    for (struct caller *c = callers; c != NULL; c = c->next)
        if (!is_caller(p, c->name))
            kill_caller(c);
}

void abx__callers_end(void)
{
    while (callers != NULL) {
        struct caller *c = callers;
        callers = c->next;
        kill_caller(c);
        caller_free(c);
    }
}
