/* lib/policy/users.c: as whom a program may run (users.h). */
#include "lib/policy/users.h"

#include "lib/base/parse.h"
#include "lib/policy/policy_priv.h"

#include <stdio.h>

#include "lib/base/banned.h"

enum { SHOWN_BYTES = 80 };
#define UID_NOBODY_HAS UINT32_MAX

bool abx_policy_user_is_name(struct abx_str name)
{
    for (size_t i = 0; i < name.len; i++) {
        unsigned char ch = (unsigned char)name.ptr[i];
        if (ch <= ' ' || ch == 0x7F || ch == ':' || ch == '/')
            return false;
    }
    return name.len > 0 && name.len <= ABX_USER_NAME_MAX;
}

bool abx_policy_user_is_number(struct abx_str name, uint32_t *ret_uid)
{
    uint32_t uid;
    if (name.len == 0 || name.ptr[0] < '0' || name.ptr[0] > '9' || abx_parse_u32(name, &uid) < 0 ||
        uid == UID_NOBODY_HAS)
        return false;
    *ret_uid = uid;
    return true;
}

/* ---- the key ---- */

static bool is_digits(struct abx_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] < '0' || s.ptr[i] > '9')
            return false;
    return s.len > 0;
}

/* "1000", 1000 and "01000" are one user: kept as "1000". ptr NULL: told. */
static struct abx_str read_user(struct abx__load *l, const struct abx_json_node *n)
{
    uint32_t uid = UID_NOBODY_HAS;
    if (n->kind == ABX_JSON_INT_NODE && n->number >= 0 && n->number < UID_NOBODY_HAS)
        uid = (uint32_t)n->number;
    else if (n->kind != ABX_JSON_STR_NODE || !abx_policy_user_is_name(n->text) ||
             (is_digits(n->text) && !abx_policy_user_is_number(n->text, &uid))) {
        abx__mistake(l, n, "expected the name of a user, or its number below 4294967295");
        return (struct abx_str){0};
    }
    if (uid == UID_NOBODY_HAS)
        return n->text;
    char *text = abx_arena_printf(l->arena, "%u", uid);
    l->no_memory = l->no_memory || text == NULL;
    return abx_str(text);
}

void abx__read_users(struct abx__load *l, const struct abx_json_node *n)
{
    size_t count = 0;
    if (n->kind != ABX_JSON_ARRAY_NODE || n->count > ABX__LIST_MAX) {
        abx__mistake(l, n, "expected a list of at most %d users", (int)ABX__LIST_MAX);
        return;
    }
    struct abx_str *items = abx_arena_array(l->arena, n->count + 1, sizeof(*items));
    if (items == NULL) {
        l->no_memory = true;
        return;
    }
    for (const struct abx_json_node *c = n->first; c != NULL; c = c->next) {
        items[count] = read_user(l, c);
        if (items[count++].ptr == NULL)
            return;
    }
    l->policy->confine.users = (struct abx_str_list){items, count};
}

/* ---- the decision ---- */

static bool lists(struct abx_str_list users, struct abx_str name)
{
    for (size_t i = 0; i < users.count; i++)
        if (abx_str_eq(users.items[i], name))
            return true;
    return false;
}

static bool is_listed(struct abx_str_list users, const struct abx_policy_user *u)
{
    char number[ABX_UID_TEXT];
    if (!u->is_known)
        return lists(users, u->asked);
    snprintf(number, sizeof(number), "%u", u->uid);
    /* A number names one user, whoever has it as a name. */
    return lists(users, abx_str(number)) || (!is_digits(u->name) && lists(users, u->name));
}

bool abx_policy_user_check(const struct abx_policy *p, const struct abx_policy_rule *rule,
                           const struct abx_policy_user *user, struct abx_policy_verdict *v)
{
    if ((user->is_known && user->is_own) || is_listed(p->confine.users, user))
        return true;
    v->endpoint = rule->id;
    return abx_policy_deny(v, ABX_POLICY_USER_NOT_ALLOWED,
                           "the policy does not let programs run as '%.*s'; confine.users lists "
                           "who may be asked for",
                           (int)(user->asked.len < SHOWN_BYTES ? user->asked.len : SHOWN_BYTES),
                           user->asked.ptr);
}
