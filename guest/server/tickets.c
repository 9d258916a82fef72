/* guest/server/tickets.c: tickets that open the socket of one terminal once. */
#include "guest/server/tickets.h"

#include "lib/base/parse.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/random.h>

#include "lib/base/banned.h"

enum { SESSION_MAX = 64 };

struct ticket {
    struct abx_list node; /* of tickets->list */
    unsigned char hash[crypto_hash_sha256_BYTES];
    char session[SESSION_MAX];
    struct abx_policy *policy; /* counted: it holds the texts of `who` */
    struct abx_policy_identity who;
    int64_t until_ms;
};

void abx__tickets_init(struct abx__tickets *t)
{
    abx_list_init(&t->list);
    t->count = 0;
}

static void forget(struct abx__tickets *t, struct ticket *one)
{
    abx_list_remove(&one->node);
    t->count--;
    abx_policy_unref(one->policy);
    sodium_memzero(one->hash, sizeof(one->hash));
    free(one);
}

void abx__tickets_sweep(struct abx__tickets *t, int64_t now_ms)
{
    struct ticket *one;
    abx_list_foreach(one, &t->list, struct ticket, node)
    {
        if (now_ms < one->until_ms)
            return;
        forget(t, one);
    }
}

void abx__tickets_forget_session(struct abx__tickets *t, struct abx_str session)
{
    struct ticket *one;
    abx_list_foreach(one, &t->list, struct ticket, node)
    {
        if (abx_str_is(session, one->session))
            forget(t, one);
    }
}

void abx__tickets_revoke(struct abx__tickets *t, struct abx_policy *now)
{
    struct ticket *one;
    struct abx_policy_identity who;
    abx_list_foreach(one, &t->list, struct ticket, node)
    {
        if (!abx_policy_is_still(one->policy, &one->who, now, &who)) {
            forget(t, one);
            continue;
        }
        struct abx_policy *old = one->policy;
        one->policy = abx_policy_ref(now);
        one->who = who;
        abx_policy_unref(old);
    }
}

static size_t count_of(const struct abx__tickets *t, struct abx_str id)
{
    size_t n = 0;
    const struct ticket *one;
    abx_list_foreach(one, &t->list, struct ticket, node)
    {
        n += abx_str_eq(one->who.id, id);
    }
    return n;
}

static void hash_of(struct abx_str text, unsigned char ret[crypto_hash_sha256_BYTES])
{
    crypto_hash_sha256(ret, (const unsigned char *)text.ptr, text.len);
}

int abx__tickets_issue(struct abx__tickets *t, const struct abx__ticket_bond *bond, int64_t now_ms,
                       char ret[ABX__TICKET_TEXT + 1])
{
    unsigned char random[ABX__TICKET_BYTES];
    struct ticket *one;
    abx__tickets_sweep(t, now_ms);
    if (count_of(t, bond->who.id) >= ABX__TICKETS_OF_ONE)
        return -EDQUOT;
    if (t->count >= ABX__TICKETS_ALL)
        return -ENOSPC;
    one = calloc(1, sizeof(*one));
    if (one == NULL || abx_str_to_c(bond->session, one->session, sizeof(one->session)) < 0) {
        free(one);
        return -ENOMEM;
    }
    if (getrandom(random, sizeof(random), 0) != sizeof(random)) {
        free(one);
        return -EIO;
    }
    abx_hex_encode(random, sizeof(random), ret);
    sodium_memzero(random, sizeof(random));
    hash_of(abx_str(ret), one->hash);
    one->policy = abx_policy_ref(bond->policy);
    one->who = bond->who;
    one->until_ms = now_ms + ABX__TICKET_LIFE_MS;
    abx_list_push(&t->list, &one->node);
    t->count++;
    return 0;
}

/* No early exit: how long it takes says nothing of what is kept. */
static struct ticket *find(const struct abx__tickets *t, struct abx_str text)
{
    unsigned char hash[crypto_hash_sha256_BYTES];
    struct ticket *one, *found = NULL;
    if (text.len != ABX__TICKET_TEXT)
        return NULL;
    hash_of(text, hash);
    abx_list_foreach(one, &t->list, struct ticket, node)
    {
        found = sodium_memcmp(hash, one->hash, sizeof(hash)) == 0 ? one : found;
    }
    return found;
}

bool abx__tickets_redeem(struct abx__tickets *t, struct abx_str text, int64_t now_ms,
                         struct abx__ticket_bond *bond)
{
    abx__tickets_sweep(t, now_ms);
    struct ticket *one = find(t, text);
    if (one == NULL)
        return false;
    bool is_good = abx_str_is(bond->session, one->session) &&
                   abx_policy_is_still(one->policy, &one->who, bond->policy, &bond->who);
    forget(t, one);
    return is_good;
}
