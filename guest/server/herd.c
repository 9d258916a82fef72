/* guest/server/herd.c: what one caller has started, across calls and policies: who may signal whom (a
 * scope), and a cgroup that counts it and in the end takes all of it along. view_system.h. Loop
 * thread. Security M11, S21, S22. */
#include "guest/server/view.h"
#include "guest/server/view_system.h"

#include "lib/base/log.h"
#include "lib/base/str.h"

#include <stdlib.h>

#include "lib/base/banned.h"

enum { HERDS_MAX = 256 };

struct herd {
    struct herd *next;
    char *name;
    struct abx_confine_scope *scope;
    struct abx_confine_group *group;
    bool is_killed; /* its bound is 0 until somebody of that name comes again */
};
static struct herd *herds;
static bool has_groups = true; /* until the first could not be made */

static void herd_free(struct herd *h)
{
    abx_confine_scope_unref(h->scope);
    abx_confine_group_unref(h->group);
    free(h->name);
    free(h);
}

static struct herd *herd_new(struct abx_str name)
{
    struct herd *h = calloc(1, sizeof(*h));
    if (h == NULL)
        return NULL;
    h->name = abx_str_dup(name);
    h->scope = h->name ? abx_confine_scope_new() : NULL;
    if (h->scope == NULL) {
        herd_free(h);
        return NULL;
    }
    has_groups = has_groups && abx_confine_group_new(&h->group) == 0;
    h->next = herds;
    return herds = h;
}

void abx__herd_of(struct abx_str name, struct abx_confine_scope **ret_scope,
                  struct abx_confine_group **ret_group)
{
    size_t count = 0;
    struct herd *h = herds;
    for (; h != NULL && !abx_str_is(name, h->name); h = h->next)
        count++;
    if (h == NULL && count < HERDS_MAX)
        h = herd_new(name);
    if (h != NULL)
        h->is_killed = false;
    *ret_scope = h ? h->scope : NULL;
    *ret_group = h ? h->group : NULL;
}

bool abx__herds_are_counted(void)
{
    return has_groups && herds != NULL;
}

static bool is_caller(const struct abx_policy *p, const char *name)
{
    struct abx_policy_identity who;
    for (size_t i = 0; abx_policy_identity_at(p, i, &who); i++)
        if (abx_str_is(who.id, name))
            return true;
    return strcmp(name, "anonymous") == 0; /* of open routes */
}

static void kill_herd(struct herd *h)
{
    size_t left = h->group && !h->is_killed ? abx_confine_group_kill(h->group) : 0;
    h->is_killed = true;
    if (left > 0)
        abx_log(ABX_LOG_WARN, "%zu processes of '%s' do not end", left, h->name);
}

void abx__herds_kill_strangers(const struct abx_policy *p)
{
    for (struct herd *h = herds; h != NULL; h = h->next)
        if (!is_caller(p, h->name))
            kill_herd(h);
}

void abx__herds_end(void)
{
    while (herds != NULL) {
        struct herd *h = herds;
        herds = h->next;
        kill_herd(h);
        herd_free(h);
    }
}
