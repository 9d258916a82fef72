/* lib/policy/auth.c: the `auth` block of a document. Spec: policy.md A2, A7. */
#include "lib/base/assert.h"
#include "lib/base/parse.h"
#include "lib/policy/policy_priv.h"

#include <sodium.h>
#include <stdio.h>

#include "lib/base/banned.h"

static bool read_id(struct abx__load *l, const struct abx_json_node *entry,
                    const struct abx_json_node *id, struct abx_str *ret)
{
    if (id == NULL) {
        struct abx__finding f = {.kind = ABX_FINDING_DOCUMENT, .node = entry};
        char place[64];
        snprintf(place, sizeof(place), "policy.auth.tokens[%zu].id", entry->index);
        f.place = place;
        abx__report_add(l->report, l->facts->text, &f, "required: a name for this token");
        return false;
    }
    if (id->kind != ABX_JSON_STR_NODE || id->text.len == 0)
        return abx__mistake(l, id, "expected a name that is not empty");
    *ret = id->text;
    return true;
}

static bool read_token_scopes(struct abx__load *l, const struct abx_json_node *entry,
                              struct abx_str_list *ret)
{
    const struct abx_json_node *scopes = abx_json_tree_get(entry, "scopes");
    if (scopes != NULL)
        return abx__read_scopes(l, scopes, ret);
    char place[64];
    snprintf(place, sizeof(place), "policy.auth.tokens[%zu].scopes", entry->index);
    struct abx__finding f = {.kind = ABX_FINDING_DOCUMENT, .node = entry, .place = place};
    abx__report_add(l->report, l->facts->text, &f,
                    "required: what the token may do, [\"*\"] for everything, [] for nothing");
    return false;
}

static bool read_source(struct abx__load *l, const struct abx_json_node *entry,
                        struct abx__token *t)
{
    const struct abx_json_node *env = abx_json_tree_get(entry, "token_env"),
                               *hash = abx_json_tree_get(entry, "token_sha256");
    if ((env == NULL) == (hash == NULL))
        return abx__mistake(l, entry,
                            "write exactly one of \"token_env\" (the variable that holds the "
                            "token) and \"token_sha256\" (its hash); a token itself never stands "
                            "in a policy");
    if (env != NULL) {
        if (env->kind != ABX_JSON_STR_NODE || env->text.len == 0)
            return abx__mistake(l, env, "expected the name of an environment variable");
        t->env = env->text;
        return true;
    }
    if (hash->kind != ABX_JSON_STR_NODE || hash->text.len != 64 ||
        abx_hex_decode(hash->text, t->hash, sizeof(t->hash)) < 0)
        return abx__mistake(l, hash,
                            "expected 64 hexadecimal digits, the SHA-256 of the token (printf %%s "
                            "TOKEN | sha256sum)");
    t->has_hash = true;
    return true;
}

static void check_unique(struct abx__load *l, const struct abx_json_node *id, struct abx_str name)
{
    const struct abx_policy *p = l->policy;
    for (size_t i = 0; i < p->token_count; i++)
        if (abx_str_eq(p->tokens[i].id, name)) {
            abx__mistake(l, id, "the name \"%.*s\" is taken by token %zu",
                         (int)(name.len < 80 ? name.len : 80), name.ptr, i);
            return;
        }
}

static void read_token(struct abx__load *l, const struct abx_json_node *entry)
{
    static const char *const keys[] = {"id", "scopes", "token_env", "token_sha256"};
    struct abx__token token = {0};
    if (entry->kind != ABX_JSON_OBJECT_NODE) {
        abx__mistake(l, entry, "expected an object with id, scopes and token_env or token_sha256");
        return;
    }
    for (const struct abx_json_node *n = entry->first; n != NULL; n = n->next) {
        bool known = false;
        for (size_t i = 0; i < ABX_COUNTOF(keys) && !known; i++)
            known = abx_str_is(n->key, keys[i]);
        if (!known)
            abx__unknown_key(l, n, keys, ABX_COUNTOF(keys));
    }
    const struct abx_json_node *id = abx_json_tree_get(entry, "id");
    bool has_id = read_id(l, entry, id, &token.id);
    read_token_scopes(l, entry, &token.scopes);
    read_source(l, entry, &token);
    if (!has_id)
        return;
    check_unique(l, id, token.id);
    l->policy->tokens[l->policy->token_count++] = token;
}

static void read_tokens(struct abx__load *l, const struct abx_json_node *n)
{
    if (n->kind != ABX_JSON_ARRAY_NODE) {
        abx__mistake(l, n, "expected a list of tokens");
        return;
    }
    l->policy->tokens = abx_arena_array(l->arena, n->count + 1, sizeof(*l->policy->tokens));
    if (l->policy->tokens == NULL) {
        l->no_memory = true;
        return;
    }
    for (const struct abx_json_node *entry = n->first; entry != NULL; entry = entry->next)
        read_token(l, entry);
}

void abx__read_auth(struct abx__load *l, const struct abx_json_node *auth)
{
    static const char *const keys[] = {"allow_anonymous", "anonymous_scopes", "tokens"};
    struct abx_policy *p = l->policy;
    if (auth->kind != ABX_JSON_OBJECT_NODE) {
        abx__mistake(l, auth, "expected an object");
        return;
    }
    for (const struct abx_json_node *n = auth->first; n != NULL; n = n->next) {
        bool known = false;
        for (size_t i = 0; i < ABX_COUNTOF(keys) && !known; i++)
            known = abx_str_is(n->key, keys[i]);
        if (!known)
            abx__unknown_key(l, n, keys, ABX_COUNTOF(keys));
    }
    const struct abx_json_node *anonymous = abx_json_tree_get(auth, "allow_anonymous"),
                               *scopes = abx_json_tree_get(auth, "anonymous_scopes"),
                               *tokens = abx_json_tree_get(auth, "tokens");
    if (anonymous != NULL)
        p->has_allow_anonymous = abx__read_bool(l, anonymous, &p->allow_anonymous);
    if (scopes != NULL)
        p->has_anonymous_scopes = abx__read_scopes(l, scopes, &p->anonymous_scopes);
    if (tokens != NULL)
        read_tokens(l, tokens);
}

/* ---- the variables ---- */

static void hash_token(struct abx__token *t, struct abx_str value)
{
    crypto_hash_sha256(t->hash, (const unsigned char *)value.ptr, value.len);
    t->has_hash = true;
    t->value_bytes = value.len;
}

/* A variable that is gone was hashed at the start. */
static bool hash_of_before(const struct abx__load *l, struct abx__token *t)
{
    const struct abx_policy *p = l->facts->previous;
    for (size_t i = 0; p != NULL && i < p->token_count; i++)
        if (p->tokens[i].has_hash && p->tokens[i].env.ptr != NULL &&
            abx_str_eq(p->tokens[i].env, t->env)) {
            memcpy(t->hash, p->tokens[i].hash, sizeof(t->hash));
            t->value_bytes = p->tokens[i].value_bytes;
            t->has_hash = true;
            return true;
        }
    return false;
}

static const struct abx_json_node *token_node(const struct abx__load *l, struct abx_str id)
{
    const struct abx_json_node *tokens =
        abx_json_tree_get(abx_json_tree_get(l->policy->root, "auth"), "tokens");
    for (const struct abx_json_node *n = tokens ? tokens->first : NULL; n != NULL; n = n->next) {
        const struct abx_json_node *name = abx_json_tree_get(n, "id");
        if (name != NULL && name->kind == ABX_JSON_STR_NODE && abx_str_eq(name->text, id))
            return abx_json_tree_get(n, "token_env");
    }
    return NULL;
}

static void variable_is_missing(struct abx__load *l, const struct abx__token *t)
{
    char place[128];
    snprintf(place, sizeof(place), "policy.auth.tokens[%.*s]",
             (int)(t->id.len < 90 ? t->id.len : 90), t->id.ptr);
    struct abx__finding f = {.kind =
                                 l->facts->no_env ? ABX_FINDING_WARNING : ABX_FINDING_CONFIGURATION,
                             .rule = l->facts->no_env ? "LX14" : NULL,
                             .node = token_node(l, t->id),
                             .place = place};
    abx__report_add(l->report, l->facts->text, &f,
                    "the environment variable \"%.*s\" is not set; set it, or write token_sha256",
                    (int)(t->env.len < 80 ? t->env.len : 80), t->env.ptr);
}

void abx__check_token_env(struct abx__load *l)
{
    const struct abx_policy_facts *facts = l->facts;
    for (size_t i = 0; i < l->policy->token_count; i++) {
        struct abx__token *t = &l->policy->tokens[i];
        if (t->env.ptr == NULL)
            continue;
        char name[256];
        const char *value = facts->getenv != NULL && abx_str_to_c(t->env, name, sizeof(name)) == 0
                                ? facts->getenv(facts->getenv_ctx, name)
                                : NULL;
        if (value != NULL && value[0] != '\0')
            hash_token(t, abx_str(value));
        else if (!hash_of_before(l, t))
            variable_is_missing(l, t);
    }
    bool was_legacy = facts->previous != NULL && facts->previous->is_legacy;
    if (l->policy->token_count > 0 || (facts->legacy_token.len == 0 && !was_legacy))
        return;
    static const struct abx_str all[] = {{"*", 1}};
    struct abx__token *t = abx_arena_alloc(l->arena, sizeof(*t));
    if (t == NULL) {
        l->no_memory = true;
        return;
    }
    *t = (struct abx__token){
        .id = ABX_STR("server"), .scopes = {all, 1}, .env = ABX_STR("ABX_SERVER_TOKEN")};
    if (!hash_of_before(l, t))
        hash_token(t, facts->legacy_token);
    l->policy->is_legacy = true;
    l->policy->tokens = t;
    l->policy->token_count = 1;
}
