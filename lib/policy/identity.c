/* lib/policy/identity.c: who calls, and whether they may. Spec: policy.md A7, A8; security.md S15,
 * S16. */
#include "lib/base/assert.h"
#include "lib/policy/policy_priv.h"

#include <sodium.h>

#include "lib/base/banned.h"

enum { CREDENTIALS_MAX = 32 }; /* header values looked at */

static const struct abx_str everything[] = {{"*", 1}};

/* ---- identities ---- */

static struct abx_str_list anonymous_scopes(const struct abx_policy *p)
{
    return p->has_anonymous_scopes ? p->anonymous_scopes : (struct abx_str_list){everything, 1};
}

static bool has_anonymous(const struct abx_policy *p)
{
    return p->token_count == 0 || p->allow_anonymous;
}

static bool is_wide(const struct abx_policy *p, struct abx_str_list scopes)
{
    for (size_t i = 0; i < scopes.count; i++)
        if (abx_str_is(scopes.items[i], "*"))
            return true;
    return p->token_count + has_anonymous(p) == 1;
}

static struct abx_policy_identity make(const struct abx_policy *p, struct abx_str id,
                                       struct abx_str_list scopes, uint32_t index)
{
    return (struct abx_policy_identity){id, scopes, index, is_wide(p, scopes)};
}

bool abx_policy_identity_at(const struct abx_policy *p, size_t index,
                            struct abx_policy_identity *ret)
{
    if (index < p->token_count) {
        *ret = make(p, p->tokens[index].id, p->tokens[index].scopes, (uint32_t)index);
        return true;
    }
    if (index > p->token_count || !has_anonymous(p))
        return false;
    *ret = make(p, ABX_STR("anonymous"), anonymous_scopes(p), ABX_POLICY_ANONYMOUS);
    return true;
}

/* ---- credentials ---- */

struct credentials {
    struct abx_str tokens[2 * CREDENTIALS_MAX]; /* Bearers, then X-Access-Tokens */
    size_t count, bearers;
    bool has_other_scheme;
};

/* The token behind "Bearer " in any case; false for another scheme or a bare value. */
static bool bearer(struct abx_str value, struct abx_str *ret)
{
    struct abx_str rest = abx_str_trim(value), scheme = rest;
    ptrdiff_t blank = abx_str_chr(rest, ' ');
    if (blank < 0)
        return false;
    scheme.len = (size_t)blank;
    *ret = abx_str_trim(abx_str_sub(rest, scheme.len, rest.len));
    return abx_str_is_nocase(scheme, "Bearer") && ret->len > 0;
}

static bool collect(const struct abx_policy_credentials *given, struct credentials *c)
{
    for (size_t i = 0; i < given->authorization_count && i < CREDENTIALS_MAX; i++)
        if (bearer(given->authorization[i], &c->tokens[c->count]))
            c->count++;
    c->bearers = c->count;
    for (size_t i = 0; i < given->access_token_count && i < CREDENTIALS_MAX; i++) {
        if (!abx_str_eq(given->access_token[i], given->access_token[0]))
            return false;
        if (given->access_token[i].len > 0)
            c->tokens[c->count++] = given->access_token[i];
    }
    return given->authorization_count <= CREDENTIALS_MAX &&
           given->access_token_count <= CREDENTIALS_MAX;
}

/* The first token of the document that @value is, or token_count. No early exit. */
static size_t match(const struct abx_policy *p, struct abx_str value)
{
    unsigned char hash[crypto_hash_sha256_BYTES];
    size_t found = p->token_count;
    crypto_hash_sha256(hash, (const unsigned char *)value.ptr, value.len);
    for (size_t i = p->token_count; i-- > 0;) {
        bool equal = sodium_memcmp(hash, p->tokens[i].hash, sizeof(hash)) == 0;
        found = equal && p->tokens[i].has_hash ? i : found;
    }
    return found;
}

bool abx_policy_identify(const struct abx_policy *p, const struct abx_policy_rule *rule,
                         const struct abx_policy_credentials *given,
                         struct abx_policy_identity *ret, struct abx_policy_verdict *v)
{
    struct credentials c = {0};
    if (rule->is_open) {
        *ret = make(p, ABX_STR("anonymous"), (struct abx_str_list){0}, ABX_POLICY_ANONYMOUS);
        return true;
    }
    if (p->token_count == 0) /* P24: nothing is looked at */
        return abx_policy_identity_at(p, 0, ret);
    if (!collect(given, &c))
        return abx_policy_deny(v, ABX_POLICY_AMBIGUOUS_CREDENTIALS,
                               "X-Access-Token was sent more than once, with different values");
    size_t found = p->token_count;
    for (size_t i = 0; i < c.count; i++) {
        size_t one = match(p, c.tokens[i]);
        found = found < p->token_count ? found : one;
    }
    if (found < p->token_count)
        return abx_policy_identity_at(p, found, ret);
    if (c.bearers == 0 && has_anonymous(p))
        return abx_policy_identity_at(p, p->token_count, ret);
    return abx_policy_deny(v, ABX_POLICY_UNAUTHORIZED,
                           c.count == 0 ? "This server wants a token: send Authorization: Bearer"
                                        : "The token is not one of this server's");
}

static bool is_same_token(const struct abx__token *a, const struct abx__token *b)
{
    return a->has_hash && b->has_hash && sodium_memcmp(a->hash, b->hash, sizeof(a->hash)) == 0;
}

static bool find_successor(const struct abx_policy *old, const struct abx_policy_identity *who,
                           const struct abx_policy *now, struct abx_policy_identity *ret)
{
    if (who->index >= old->token_count)
        return abx_policy_identity_at(now, now->token_count, ret);
    for (size_t i = 0; i < now->token_count; i++)
        if (is_same_token(&old->tokens[who->index], &now->tokens[i]))
            return abx_policy_identity_at(now, i, ret);
    return false;
}

bool abx_policy_is_still(const struct abx_policy *old, const struct abx_policy_identity *who,
                         const struct abx_policy *now, struct abx_policy_identity *ret)
{
    if (who->scopes.count == 0 && who->index == ABX_POLICY_ANONYMOUS && who->id.ptr != NULL &&
        !abx_policy_identity_at(now, now->token_count, ret)) {
        *ret = *who; /* an open route is called by whoever comes */
        return true;
    }
    if (!find_successor(old, who, now, ret) || !abx_str_eq(ret->id, who->id) ||
        (who->is_wide && !ret->is_wide))
        return false;
    for (size_t i = 0; i < who->scopes.count; i++)
        if (!abx_scope_held(ret->scopes, who->scopes.items[i]))
            return false;
    return true;
}

bool abx_policy_is_secret_env(const struct abx_policy *p, struct abx_str name)
{
    static const char *const names[] = {"ABX_SERVER_TOKEN", "ABX_SERVER_POLICY",
                                        "ABX_SERVER_POLICY_FILE"};
    if (p->token_count == 0)
        return false;
    for (size_t i = 0; i < ABX_COUNTOF(names); i++)
        if (abx_str_is(name, names[i]))
            return true;
    for (size_t i = 0; i < p->token_count; i++)
        if (p->tokens[i].env.ptr != NULL && abx_str_eq(p->tokens[i].env, name))
            return true;
    return false;
}

/* ---- the decision ---- */

/* Where the kernel lacks a layer that the caller's view needs, nothing runs for it (S10). */
static unsigned missing_layers(const struct abx_policy *p, const struct abx_policy_rule *rule,
                               const struct abx_policy_identity *who)
{
    bool closes = p->confine.mode == ABX_CONFINE_AUTO || p->confine.mode == ABX_CONFINE_REQUIRE;
    if (!closes || (p->supported & ABX_LAYER_ALL) == ABX_LAYER_ALL ||
        !abx_policy_runs_programs(rule))
        return 0;
    return abx__view_needs(p, rule, who) & ~p->supported;
}

static bool deny_unconfined(const struct abx_policy *p, unsigned missing,
                            struct abx_policy_verdict *v)
{
    v->rule = ABX_STR("/confine");
    return abx_policy_deny(v, ABX_POLICY_CONFINEMENT_UNAVAILABLE,
                           "confine is \"%s\" and this kernel can not hold%s%s%s%s; \"advisory\" "
                           "serves without",
                           abx_confine_mode_name(p->confine.mode),
                           missing & ABX_LAYER_FILES ? " files" : "",
                           missing & ABX_LAYER_SIGNALS ? " signals" : "",
                           missing & ABX_LAYER_NETWORK ? " network" : "",
                           missing & ABX_LAYER_SECCOMP ? " seccomp" : "");
}

bool abx_policy_judge(const struct abx_policy *p, const struct abx_policy_rule *rule,
                      const struct abx_policy_identity *who, struct abx_policy_verdict *v)
{
    *v = (struct abx_policy_verdict){.endpoint = rule->id};
    if (!rule->enabled) {
        v->rule = rule->disabled_by;
        return abx_policy_deny(v, ABX_POLICY_ENDPOINT_DISABLED, "%.*s is switched off by %.*s",
                               ABX_STR_FMT(rule->id), ABX_STR_FMT(rule->disabled_by));
    }
    bool is_health = rule->endpoint != NULL && rule->is_open; /* P14: asks for nothing */
    struct abx_str missing =
        is_health ? (struct abx_str){0} : abx_scope_missing(who->scopes, rule->scopes);
    if (missing.ptr != NULL) {
        v->scope = missing;
        v->identity = who->id;
        return abx_policy_deny(v, ABX_POLICY_MISSING_SCOPE, "%.*s needs the scope %.*s",
                               ABX_STR_FMT(rule->id), ABX_STR_FMT(missing));
    }
    unsigned lacks = missing_layers(p, rule, who);
    if (lacks != 0)
        return deny_unconfined(p, lacks, v);
    v->endpoint = (struct abx_str){0};
    return true;
}
