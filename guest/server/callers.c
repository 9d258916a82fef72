/* guest/server/callers.c: what one caller has started, across calls and policies: who may signal
 * whom (a scope), and a cgroup that counts it and in the end takes all of it along. view_system.h.
 * Loop thread. Security M11, S21, S22. */
#include "guest/server/view.h"
#include "guest/server/view_system.h"

#include "lib/base/log.h"
#include "lib/base/str.h"

#include <errno.h>
#include <stdlib.h>

#include "lib/base/banned.h"

struct caller {
    struct caller *next;
    char *name;
    struct abx_confine_scope *scope;
    struct abx_confine_group *group; /* NULL: there are no cgroups to be had */
    bool is_killed;                  /* its bound is 0 until somebody of that name comes again */
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
    int r = has_groups ? abx_confine_group_new(&c->group) : 0;
    has_groups = has_groups && (r == 0 || r == -ENOMEM);
    c->name = abx_str_dup(name);
    c->scope = c->name && r != -ENOMEM ? abx_confine_scope_new(c->group) : NULL;
    if (c->scope == NULL) {
        caller_free(c);
        return NULL;
    }
    c->next = callers;
    return callers = c;
}

int abx__caller_bounds(struct abx_str name, struct abx_confine_scope **ret_scope,
                       struct abx_confine_group **ret_group)
{
    struct caller *c = callers;
    while (c != NULL && !abx_str_is(name, c->name))
        c = c->next;
    if (c == NULL)
        c = caller_new(name);
    if (c == NULL)
        return -1;
    c->is_killed = false;
    *ret_scope = c->scope;
    *ret_group = c->group;
    return 0;
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

/* No policy knows it any more, and it has nothing left that could be known again. */
static bool is_over(const struct caller *c)
{
    enum { OURS = 1, OURS_AND_THE_SCOPES = 2 };
    return abx_confine_scope_refs(c->scope) == OURS &&
           (c->group == NULL || abx_confine_group_refs(c->group) == OURS_AND_THE_SCOPES);
}

void abx__callers_kill_strangers(const struct abx_policy *p)
{
    for (struct caller **at = &callers; *at != NULL;) {
        struct caller *c = *at;
        if (!is_caller(p, c->name))
            kill_caller(c);
        if (!c->is_killed || !is_over(c)) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        caller_free(c);
    }
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
