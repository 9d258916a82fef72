/* cli/lint_secrets.c: B008: what looks like a secret and would lie in the image for everyone: by
 * its name, by a known form, or because it looks like chance. */
#include "cli/ignore.h"
#include "cli/lint_priv.h"
#include "lib/base/assert.h"

#include <math.h>

#include "lib/base/banned.h"

enum { CHANCE_LEN = 24 };

/* Parts of a variable's name, in capitals; a part is what lies between underscores. */
static const char *const secret_parts[] = {"TOKEN",  "SECRET",     "PASSWORD",   "PASSWD",
                                           "APIKEY", "CREDENTIAL", "PASSPHRASE", "CREDENTIALS"};
/* "KEY" says so only behind one of these. */
static const char *const key_parts[] = {"API", "ACCESS", "PRIVATE", "SECRET", "AUTH", "SIGNING"};
/* Names whose value is long and random by nature, and public. */
static const char *const public_ends[] = {"SHA256",   "SHA512", "SHA1",   "MD5",
                                          "DIGEST",   "HASH",   "COMMIT", "VERSION",
                                          "CHECKSUM", "URL",    "PATH",   "REVISION"};
static const struct {
    const char *prefix;
    size_t least; /* bytes behind it */
    const char *what;
} forms[] = {
    {"sk-", 20, "an API key"},
    {"ghp_", 30, "a GitHub token"},
    {"gho_", 30, "a GitHub token"},
    {"ghs_", 30, "a GitHub token"},
    {"github_pat_", 20, "a GitHub token"},
    {"glpat-", 16, "a GitLab token"},
    {"AKIA", 16, "an AWS access key"},
    {"LTAI", 12, "an Alibaba Cloud access key"},
    {"xoxb-", 20, "a Slack token"},
    {"xoxp-", 20, "a Slack token"},
    {"npm_", 30, "an npm token"},
    {"pypi-", 30, "a PyPI token"},
    {"e2b_", 32, "an API key of E2B"},
    {"-----BEGIN", 0, "a private key"},
};
/* The last component of a copied file's name. */
static const char *const secret_files[] = {".env",
                                           ".env.*",
                                           "id_rsa",
                                           "id_ed25519",
                                           "id_ecdsa",
                                           "*.pem",
                                           "*.key",
                                           "*.p12",
                                           "*.pfx",
                                           ".npmrc",
                                           ".pypirc",
                                           ".netrc",
                                           ".git-credentials",
                                           "credentials",
                                           "credentials.json",
                                           "service-account*.json",
                                           "*.keystore",
                                           ".aws",
                                           ".ssh"};

static bool part_is(struct abx_str part, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (abx_str_is_nocase(part, list[i]))
            return true;
    return false;
}

static bool is_secret_name(struct abx_str name)
{
    struct abx_str part, before = {0};
    bool found = false;
    if (abx_str_chr(name, '-') >= 0)
        return false;
    while (abx_str_split(&name, '_', &part)) {
        if (part_is(part, secret_parts, ABX_COUNTOF(secret_parts)) ||
            (abx_str_is_nocase(part, "KEY") && part_is(before, key_parts, ABX_COUNTOF(key_parts))))
            found = true;
        else if (found) /* TOKEN_FILE, SECRET_NAME: where it is, not what it is */
            found = !(abx_str_is_nocase(part, "FILE") || abx_str_is_nocase(part, "PATH") ||
                      abx_str_is_nocase(part, "NAME") || abx_str_is_nocase(part, "ENV") ||
                      abx_str_is_nocase(part, "URL"));
        before = part;
    }
    return found;
}

static bool is_public_name(struct abx_str name)
{
    struct abx_str part = {0};
    while (abx_str_split(&name, '_', &part))
        ;
    return part_is(part, public_ends, ABX_COUNTOF(public_ends));
}

static const char *known_form(struct abx_str value)
{
    for (size_t i = 0; i < ABX_COUNTOF(forms); i++)
        if (abx_str_starts(value, forms[i].prefix) &&
            value.len >= strlen(forms[i].prefix) + forms[i].least)
            return forms[i].what;
    return NULL;
}

/* Bits of chance per byte over all bytes that occur. */
static double entropy(struct abx_str s)
{
    size_t counts[256] = {0};
    double bits = 0;
    for (size_t i = 0; i < s.len; i++)
        counts[(unsigned char)s.ptr[i]]++;
    for (size_t i = 0; i < ABX_COUNTOF(counts); i++) {
        double share = (double)counts[i] / (double)s.len;
        bits -= counts[i] ? share * log2(share) : 0;
    }
    return bits;
}

/* One word of letters and digits without a meaning that shows. */
static bool looks_like_chance(struct abx_str v)
{
    size_t digits = 0, letters = 0, others = 0;
    for (size_t i = 0; i < v.len; i++) {
        char c = v.ptr[i];
        bool is_digit = c >= '0' && c <= '9';
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        digits += is_digit;
        letters += is_letter;
        others += !is_digit && !is_letter && strchr("+/=_-", c) == NULL;
    }
    bool is_hex = v.len > 0 && strspn(v.ptr, "0123456789abcdef") >= v.len;
    return v.len >= CHANCE_LEN && others == 0 && digits > 2 && letters > 2 &&
           entropy(v) >= (is_hex ? 3.3 : 4.0);
}

/* What is wrong with a variable, or NULL. An empty value is none; "$X" comes from elsewhere. */
static const char *fault_of(struct abx_str name, struct abx_str value)
{
    while (value.len > 0 && strchr("\"'", value.ptr[0]) != NULL)
        value = abx_str_sub(value, 1, SIZE_MAX);
    while (value.len > 0 && strchr("\"'", value.ptr[value.len - 1]) != NULL)
        value.len--;
    if (value.len == 0 || value.ptr[0] == '$')
        return NULL;
    const char *form = known_form(value);
    if (form != NULL)
        return form;
    if (is_secret_name(name))
        return "a secret by its name";
    return !is_public_name(name) && looks_like_chance(value) ? "a secret by its look" : NULL;
}

static void check_pair(struct cli_project *p, struct cli__place *x, struct abx_str name,
                       struct abx_str value)
{
    const char *fault = fault_of(name, value);
    x->advice = "give it to the sandbox when it is made: abx create -e NAME=VALUE, or token_env";
    if (fault != NULL) /* never the value */
        cli__report(p, x, "%.*s holds %s; whoever has the image has it",
                    ABX_STR_FMT(abx_str_sub(name, 0, 80)), fault);
}

/* ENV and ARG: "NAME=VALUE" words, or "ENV NAME the rest". */
static void check_variables(struct cli_project *p, const struct abx_df_instruction *in)
{
    for (size_t i = 0; i < in->word_count; i++) {
        struct cli__place x = cli__in_dockerfile(p, "B008", CLI_ERROR, in->words[i].at);
        struct abx_str name = in->words[i].text, value;
        ptrdiff_t at = abx_str_chr(name, '=');
        if (at < 0 && in->kind == ABX_DF_ENV) {
            value = abx_str_trim(abx_str_sub(in->text, name.len, SIZE_MAX));
            check_pair(p, &x, name, value);
            return;
        }
        value = at < 0 ? (struct abx_str){0} : abx_str_sub(name, (size_t)at + 1, SIZE_MAX);
        name = at < 0 ? name : abx_str_sub(name, 0, (size_t)at);
        x.advice = "fetch what needs it before the build, and COPY the result";
        if (in->kind == ABX_DF_ARG && value.len == 0 && is_secret_name(name))
            cli__report(p, &x, "ARG %.*s: a secret of a build shows in its log and its cache",
                        ABX_STR_FMT(abx_str_sub(name, 0, 80)));
        else
            check_pair(p, &x, name, value);
    }
}

static void check_files(struct cli_project *p, const struct abx_df_instruction *in)
{
    for (size_t i = 0; i + 1 < in->word_count; i++) {
        struct cli__place x = cli__in_dockerfile(p, "B008", CLI_ERROR, in->words[i].at);
        struct abx_str path = in->words[i].text;
        while (path.len > 1 && path.ptr[path.len - 1] == '/')
            path.len--;
        ptrdiff_t slash = abx_str_rchr(path, '/');
        struct abx_str last = abx_str_sub(path, (size_t)(slash + 1), SIZE_MAX);
        x.advice = "give it to the sandbox when it is made: abx cp, or abx create -e";
        for (size_t k = 0; k < ABX_COUNTOF(secret_files); k++)
            if (cli_path_match(abx_str(secret_files[k]), last))
                cli__report(p, &x, "%.*s is a file of secrets; whoever has the image has it",
                            ABX_STR_FMT(abx_str_sub(path, 0, 120)));
    }
}

static void check_map(struct cli_project *p, const struct abx_yaml *map)
{
    for (size_t i = 0; map != NULL && i < map->count; i++) {
        struct cli__place x = cli__in_yaml(p, "B008", CLI_ERROR, &map->items[i]);
        check_pair(p, &x, map->items[i].key, map->items[i].text);
    }
}

void cli__lint_secrets(struct cli_project *p)
{
    if (p->has_template) {
        check_map(p, p->t.env);
        check_map(p, p->t.build_args);
    }
    for (size_t i = 0; p->has_dockerfile && i < p->df.count; i++) {
        const struct abx_df_instruction *in = &p->df.items[i];
        if (in->kind == ABX_DF_ENV || in->kind == ABX_DF_ARG)
            check_variables(p, in);
        else if (in->kind == ABX_DF_COPY || in->kind == ABX_DF_ADD)
            check_files(p, in);
    }
}
