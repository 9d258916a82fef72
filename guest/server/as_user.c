/* guest/server/as_user.c: as whom a program runs (as_user.h). */
#include "guest/server/as_user.h"

#include "guest/caps/environ.h"
#include "lib/base/assert.h"
#include "lib/policy/confine.h"
#include "lib/policy/users.h"
#include "lib/proc/proc.h"

#include <jansson.h>
#include <linux/capability.h>
#include <unistd.h>

#include "lib/base/banned.h"

bool abx__user_read(struct abx__call *c, struct abx_str *ret)
{
    const json_t *user = abx__call_field(c, "user");
    *ret = (struct abx_str){0};
    if (user == NULL || json_is_null(user))
        return true;
    struct abx_str text = abx_str_n(json_string_value(user), json_string_length(user));
    if (json_is_string(user) && abx_policy_user_is_name(text)) {
        *ret = text;
        return true;
    }
    abx__call_fail(c, 400, "ValueError",
                   "'user' must be the name of a user, or its number as text");
    return false;
}

bool abx__user_can_switch(void)
{
    static const int needed[] = {CAP_SETUID, CAP_SETGID, CAP_KILL, CAP_CHOWN};
    for (size_t i = 0; i < ABX_COUNTOF(needed); i++)
        if (!abx_proc_has_capability(needed[i]))
            return false;
    return geteuid() == 0;
}

/* ---- who it is ---- */

/* By number where it is one. 1 found, the caller owns *ret; 0 nobody; -1 error. */
static int look_up(struct abx_str asked, struct abx_user *ret, struct abx_error *err)
{
    uint32_t uid;
    int rc = abx_policy_user_is_number(asked, &uid) ? abx_user_by_uid("", uid, ret, err)
                                                    : abx_user_by_name("", asked, ret, err);
    return rc == 0 ? 1 : err->code == ABX_NOT_FOUND ? 0 : -1;
}

static struct abx_policy_user facts_of(struct abx_str asked, const struct abx_user *u)
{
    if (u == NULL)
        return (struct abx_policy_user){.asked = asked};
    return (struct abx_policy_user){.asked = asked,
                                    .is_known = true,
                                    .name = abx_str(u->name),
                                    .uid = u->uid,
                                    .is_own = u->uid == geteuid()};
}

bool abx__user_permits(const struct abx_policy *p, const struct abx_policy_rule *rule,
                       struct abx_str asked, struct abx_policy_verdict *v)
{
    struct abx_user u = {0};
    struct abx_error err = {0};
    bool is_found = look_up(asked, &u, &err) > 0;
    const struct abx_policy_user facts = facts_of(asked, is_found ? &u : NULL);
    bool ok = abx_policy_user_check(p, rule, &facts, v);
    abx_user_done(&u);
    return ok;
}

struct abx_str abx__user_out_of_reach(const struct abx_policy *p, const char **ret_why)
{
    struct abx_str_list users = abx_policy_confinement(p)->users;
    for (size_t i = 0; i < users.count; i++) {
        struct abx_user u = {0};
        struct abx_error err = {0};
        int found = look_up(users.items[i], &u, &err);
        bool is_own = found > 0 && u.uid == geteuid();
        abx_user_done(&u);
        if (found > 0 && (is_own || abx__user_can_switch()))
            continue;
        *ret_why = found > 0 ? "a server that is not root (with CAP_SETUID, CAP_SETGID, CAP_KILL "
                               "and CAP_CHOWN) runs programs as its own user alone"
                             : "this machine has no such user";
        return users.items[i];
    }
    return (struct abx_str){0};
}

/* ---- of a request ---- */

/* Into the arena, so that nobody has to let go of it. */
static const struct abx_user *keep(struct abx__job *j, const struct abx_user *u)
{
    struct abx_user *copy = abx_arena_alloc(&j->arena, sizeof(*copy));
    gid_t *groups = abx_arena_array(&j->arena, u->group_count + 1, sizeof(*groups));
    if (copy == NULL || groups == NULL)
        return NULL;
    *copy = *u;
    copy->home = abx_arena_c(&j->arena, abx_str(u->home));
    copy->shell = abx_arena_c(&j->arena, abx_str(u->shell));
    copy->groups = groups;
    memcpy(groups, u->groups, u->group_count * sizeof(*groups));
    return copy->home && copy->shell ? copy : NULL;
}

static bool judge_found(struct abx__job *j, struct abx_str asked, const struct abx_user *u,
                        const struct abx_user **ret)
{
    const struct abx_policy_user facts = facts_of(asked, u);
    if (!abx_policy_user_check(j->policy, j->rule, &facts, &j->verdict))
        return false;
    if (u == NULL)
        return abx__job_fail(j, 400, "ValueError",
                             "'user': nobody is called '%.*s' on this machine; it takes a name or "
                             "a number of /etc/passwd",
                             ABX_STR_FMT(asked));
    if (facts.is_own)
        return true;
    if (!abx__user_can_switch())
        return abx__job_fail(j, 403, "PermissionError",
                             "the server runs as uid %u and can not start programs as '%s': start "
                             "it as root with CAP_SETUID, CAP_SETGID, CAP_KILL and CAP_CHOWN, or "
                             "leave 'user' out",
                             (unsigned)geteuid(), u->name);
    *ret = keep(j, u);
    return *ret || abx__job_fail(j, 500, "MemoryError", "out of memory");
}

bool abx__user_judge(struct abx__job *j, struct abx_str asked, const struct abx_user **ret)
{
    struct abx_user u = {0};
    struct abx_error err = {0};
    *ret = NULL;
    if (asked.ptr == NULL)
        return true;
    int found = look_up(asked, &u, &err);
    bool ok = found < 0 ? abx__job_fail(j, 500, "OSError", "%s", err.msg)
                        : judge_found(j, asked, found ? &u : NULL, ret);
    abx_user_done(&u);
    return ok;
}

static bool has_name(const struct abx__pair *pairs, size_t count, struct abx_str name)
{
    for (size_t i = 0; i < count; i++)
        if (abx_str_eq(pairs[i].name, name))
            return true;
    return false;
}

size_t abx__user_variables(const struct abx_user *u, struct abx__pair *pairs, size_t count)
{
    struct abx_env_pair own[ABX_ENVIRON_OF_USER];
    size_t given = count;
    if (u == NULL)
        return count;
    abx_environ_of_user(u, own);
    for (size_t i = 0; i < ABX_COUNTOF(own); i++)
        if (!has_name(pairs, given, own[i].name))
            pairs[count++] = (struct abx__pair){own[i].name, own[i].value};
    return count;
}

const char *abx__user_failure(const struct abx_user *u, const struct abx_error *err,
                              const char *program)
{
    return u != NULL && err->msg[0] != '\0' ? err->msg : program;
}
