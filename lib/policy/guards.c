/* lib/policy/guards.c: programs, variables, extensions, signals, shells, languages.
 * Spec: policy.md A9, A12; security.md S13. */
#include "lib/policy/guards.h"

#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "lib/policy/paths.h"
#include "lib/policy/policy_priv.h"

#include "lib/base/banned.h"

static bool refuse(const struct abx_policy_rule *rule, enum abx_policy_code code,
                   struct abx_policy_verdict *v, const char *text, struct abx_str what)
{
    v->endpoint = rule->id;
    return abx_policy_deny(v, code, "\"%.*s\": %s", (int)(what.len < 80 ? what.len : 80),
                           what.len ? what.ptr : "", text);
}

static bool matches_any(struct abx_str_list patterns, struct abx_str text)
{
    for (size_t i = 0; i < patterns.count; i++)
        if (abx_glob_match(patterns.items[i], text))
            return true;
    return false;
}

static bool has_nul(struct abx_str s)
{
    return s.len > 0 && memchr(s.ptr, '\0', s.len) != NULL;
}

/* ---- programs ---- */

bool abx_policy_is_kernel_path(struct abx_str path)
{
    static const char *const roots[] = {"/proc", "/sys", "/dev"};
    for (size_t i = 0; i < ABX_COUNTOF(roots); i++) {
        size_t len = strlen(roots[i]);
        if (abx_str_starts(path, roots[i]) && (path.len == len || path.ptr[len] == '/'))
            return true;
    }
    return false;
}

bool abx_policy_program_check(const struct abx_policy_rule *rule, struct abx_str argv0,
                              struct abx_str program, struct abx_policy_verdict *v)
{
    ABX_AUTO_BUF lexical;
    abx_buf_init(&lexical, 4 * ABX_ARGV_WORD_MAX + 16);
    if (argv0.len == 0 || has_nul(argv0))
        return refuse(rule, ABX_POLICY_PROCESS_INVALID, v, "no program", argv0);
    bool by_text =
        argv0.ptr[0] == '/' && (!abx_policy_path_normalise(argv0, ABX_STR("/"), &lexical) ||
                                abx_policy_is_kernel_path(abx_buf_str(&lexical)));
    if (by_text || (program.ptr != NULL && abx_policy_is_kernel_path(program)))
        return refuse(rule, ABX_POLICY_PROCESS_DENIED, v,
                      "it lies beneath /proc, /sys or /dev, where nothing is run", argv0);
    return true;
}

/* ---- variables ---- */

static bool is_variable_name(struct abx_str name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && !(i > 0 && c >= '0' && c <= '9'))
            return false;
    }
    return name.len > 0;
}

static bool starts_nocase(struct abx_str s, const char *prefix)
{
    return abx_str_is_nocase(abx_str_sub(s, 0, strlen(prefix)), prefix);
}

bool abx_policy_env_check(const struct abx_policy_rule *rule, struct abx_str name,
                          struct abx_str value, struct abx_policy_verdict *v)
{
    if (!is_variable_name(name))
        return refuse(rule, ABX_POLICY_ENV_INVALID, v, "no name of a variable", name);
    if (has_nul(value))
        return refuse(rule, ABX_POLICY_ENV_INVALID, v, "the value holds a NUL", name);
    if (starts_nocase(name, "ABX_"))
        return refuse(rule, ABX_POLICY_ENV_VAR_DENIED, v,
                      "variables named ABX_* belong to the server", name);
    return true;
}

/* security.md S13: what these say decides which code a program runs. */
static bool chooses_code(struct abx_str name)
{
    static const struct abx_str patterns[] = {
        {"PATH", 4},           {"HOME", 4},         {"USER", 4},
        {"SHELL", 5},          {"IFS", 3},          {"ENV", 3},
        {"BASH_ENV", 8},       {"PS4", 3},          {"PROMPT_COMMAND", 14},
        {"CDPATH", 6},         {"GLOBIGNORE", 10},  {"SHELLOPTS", 9},
        {"BASHOPTS", 8},       {"BASH_FUNC_*", 11}, {"LD_*", 4},
        {"DYLD_*", 6},         {"GCONV_PATH", 10},  {"LOCPATH", 7},
        {"NLSPATH", 7},        {"HOSTALIASES", 11}, {"RES_OPTIONS", 11},
        {"PYTHON*", 7},        {"PERL5*", 6},       {"PERLLIB", 7},
        {"RUBY*", 5},          {"NODE_*", 6},       {"JAVA_*", 6},
        {"_JAVA_OPTIONS", 13}, {"GIT_*", 5},        {"SSH_*", 5},
        {"LESSOPEN", 8},       {"LESSCLOSE", 9},    {"PAGER", 5},
        {"EDITOR", 6},         {"VISUAL", 6},       {"ABX_*", 5},
        {"E2B_*", 5},          {"FC_*", 4}};
    return matches_any((struct abx_str_list){patterns, ABX_COUNTOF(patterns)}, name);
}

/* What adds arguments, start-up files or libraries to programs that a list may well admit. Nobody
 * but a list is harmed: where there is none they are as good as any other. */
static bool adds_to_command(struct abx_str name)
{
    static const struct abx_str patterns[] = {
        {"*_OPTIONS", 9},       {"MAKEFLAGS", 9}, {"MFLAGS", 6},
        {"GNUMAKEFLAGS", 12},   {"GOFLAGS", 7},   {"CARGO_*", 7},
        {"RUSTC*", 6},          {"RUSTFLAGS", 9}, {"*_RSH", 5},
        {"*PAGER", 6},          {"*_ASKPASS", 9}, {"BROWSER", 7},
        {"ZDOTDIR", 7},         {"FPATH", 5},     {"INPUTRC", 7},
        {"VIMINIT", 7},         {"EXINIT", 6},    {"LUA_*", 4},
        {"PHPRC", 5},           {"PHP_*", 4},     {"R_*", 2},
        {"TCLLIBPATH", 10},     {"OPENSSL_*", 8}, {"GLIBC_TUNABLES", 14},
        {"[Nn][Pp][Mm]_*", 14}, {"PIP_*", 4},     {"UV_*", 3},
        {"GEM_*", 4},           {"BUNDLE_*", 8},  {"XDG_*", 4},
        {"CURL_HOME", 9},       {"WGETRC", 6}};
    return matches_any((struct abx_str_list){patterns, ABX_COUNTOF(patterns)}, name);
}

bool abx_policy_exec_env_check(const struct abx_policy *p, const struct abx_policy_rule *rule,
                               struct abx_str name, struct abx_policy_verdict *v)
{
    if (abx_policy_is_secret_env(p, name))
        return refuse(rule, ABX_POLICY_ENV_VAR_NOT_ALLOWED, v,
                      "the variable holds a secret of the server", name);
    if (abx_policy_has_command_rule(rule) && (chooses_code(name) || adds_to_command(name)))
        return refuse(rule, ABX_POLICY_ENV_VAR_NOT_ALLOWED, v,
                      "the variable chooses what is run, which the command lists do", name);
    return true;
}

/* How far @who runs programs of its own choice. */
enum freedom { RUNS_NOTHING, RUNS_LISTED, RUNS_ANYTHING };

static enum freedom freedom_of(const struct abx_policy *p, const struct abx_policy_identity *who)
{
    static const struct abx_str ids[] = {{"shell", 5},          {"shell_stream", 12},
                                         {"process_start", 13}, {"pty_create_session", 18},
                                         {"code_run", 8},       {"code_contexts_run", 17}};
    enum freedom most = RUNS_NOTHING;
    for (size_t i = 0; i < ABX_COUNTOF(ids); i++) {
        const struct abx_policy_rule *r = abx_policy_rule(p, ids[i]);
        struct abx_policy_verdict v = {0};
        if (r == NULL || !abx_policy_judge(p, r, who, &v))
            continue;
        if (!abx_policy_has_command_rule(r))
            return RUNS_ANYTHING;
        most = RUNS_LISTED;
    }
    return most;
}

bool abx_policy_env_base_check(const struct abx_policy *p, const struct abx_policy_rule *rule,
                               const struct abx_policy_identity *who, struct abx_str name,
                               struct abx_policy_verdict *v)
{
    bool chooses = chooses_code(name);
    if (!chooses && !adds_to_command(name))
        return true;
    enum freedom freedom = freedom_of(p, who);
    if (freedom == RUNS_ANYTHING || (freedom == RUNS_NOTHING && !chooses))
        return true;
    return refuse(rule, ABX_POLICY_ENV_VAR_NOT_ALLOWED, v,
                  "the variable chooses what is run, which this identity may not", name);
}

bool abx_policy_env_overlay_check(const struct abx_policy_rule *rule,
                                  const struct abx_policy_identity *who, struct abx_str name,
                                  struct abx_policy_verdict *v)
{
    if (who->is_wide || !chooses_code(name))
        return true;
    return refuse(rule, ABX_POLICY_ENV_VAR_NOT_ALLOWED, v,
                  "the variable chooses what is run, which this identity may not", name);
}

static bool is_allowed_variable(const struct abx_policy_rule *rule, struct abx_str name)
{
    struct abx_str_list allow = rule->params[ABX_PARAM_ALLOW_VARS].words;
    return !matches_any(rule->params[ABX_PARAM_DENY_VARS].words, name) &&
           (allow.count == 0 || matches_any(allow, name));
}

static bool sounds_secret(struct abx_str name)
{
    static const char *const words[] = {"TOKEN", "SECRET", "KEY", "PASSWORD", "CREDENTIAL"};
    for (size_t i = 0; i < ABX_COUNTOF(words); i++)
        for (size_t at = 0; at + strlen(words[i]) <= name.len; at++)
            if (starts_nocase(abx_str_sub(name, at, name.len), words[i]))
                return true;
    return false;
}

bool abx_policy_env_visible(const struct abx_policy *p, const struct abx_policy_rule *rule,
                            struct abx_str name)
{
    return !sounds_secret(name) && !starts_nocase(name, "ABX_SERVER_") &&
           !abx_policy_is_secret_env(p, name) && is_allowed_variable(rule, name);
}

bool abx_policy_env_value_is_secret(struct abx_str value)
{
    static const struct {
        const char *prefix;
        size_t at_least; /* bytes in all: a short one is a word */
    } forms[] = {{"ghp_", 36},       {"gho_", 36}, {"ghs_", 36},     {"github_pat_", 40},
                 {"glpat-", 20},     {"sk-", 24},  {"sk_live_", 24}, {"xoxb-", 24},
                 {"xoxp-", 24},      {"AKIA", 20}, {"ASIA", 20},     {"LTAI", 16},
                 {"AIza", 35},       {"eyJ", 60},  {"npm_", 36},     {"pypi-", 40},
                 {"-----BEGIN ", 0}, {"e2b_", 24}};
    for (size_t i = 0; i < ABX_COUNTOF(forms); i++)
        if (abx_str_starts(value, forms[i].prefix) && value.len >= forms[i].at_least &&
            (forms[i].at_least == 0 || abx_str_chr(value, ' ') < 0))
            return true;
    return false;
}

bool abx_policy_env_set_check(const struct abx_policy *p, const struct abx_policy_rule *rule,
                              struct abx_str name, struct abx_policy_verdict *v)
{
    if (abx_policy_is_secret_env(p, name) || !is_allowed_variable(rule, name))
        return refuse(rule, ABX_POLICY_ENV_VAR_NOT_ALLOWED, v,
                      "the policy does not let this variable be set", name);
    return true;
}

bool abx_policy_pty_env_check(const struct abx_policy_rule *rule, struct abx_str name,
                              struct abx_policy_verdict *v)
{
    if (matches_any(rule->params[ABX_PARAM_ENV_DENY].words, name))
        return refuse(rule, ABX_POLICY_ENV_VAR_NOT_ALLOWED, v,
                      "the policy does not let this variable be set", name);
    return true;
}

/* ---- names from a list ---- */

static bool has_nocase(struct abx_str_list list, struct abx_str s)
{
    for (size_t i = 0; i < list.count; i++)
        if (abx_str_eq_nocase(list.items[i], s))
            return true;
    return false;
}

/* From the last point of the name on; "" for none, and for names that only begin with points. */
static struct abx_str extension(struct abx_str path)
{
    ptrdiff_t slash = abx_str_rchr(path, '/');
    struct abx_str name = abx_str_sub(path, (size_t)(slash + 1), path.len);
    while (name.len > 0 && name.ptr[0] == '.')
        name = abx_str_sub(name, 1, name.len);
    ptrdiff_t point = abx_str_rchr(name, '.');
    return point < 0 ? ABX_STR("") : abx_str_sub(name, (size_t)point, name.len);
}

bool abx_policy_extension_check(const struct abx_policy_rule *rule, struct abx_str path,
                                struct abx_policy_verdict *v)
{
    struct abx_str own = extension(path);
    struct abx_str_list allow = rule->params[ABX_PARAM_ALLOW_EXTENSIONS].words;
    if ((allow.count == 0 || has_nocase(allow, own)) &&
        !has_nocase(rule->params[ABX_PARAM_DENY_EXTENSIONS].words, own))
        return true;
    return refuse(rule, ABX_POLICY_EXTENSION_NOT_ALLOWED, v,
                  "the policy does not let files with this extension be written", own);
}

bool abx_policy_signal_check(const struct abx_policy_rule *rule, int64_t signal,
                             struct abx_policy_verdict *v)
{
    const struct abx_policy_param *allowed = &rule->params[ABX_PARAM_ALLOWED_SIGNALS];
    for (size_t i = 0; i < allowed->number_count; i++)
        if (allowed->numbers[i] == signal)
            return true;
    if (!allowed->is_set)
        return true;
    v->endpoint = rule->id;
    return abx_policy_deny(v, ABX_POLICY_SIGNAL_NOT_ALLOWED,
                           "the policy does not let signal %lld be sent", (long long)signal);
}

static bool is_listed(struct abx_str_list list, struct abx_str s)
{
    for (size_t i = 0; i < list.count; i++)
        if (abx_str_eq(list.items[i], s))
            return true;
    return false;
}

bool abx_policy_shell_check(const struct abx_policy_rule *rule, struct abx_str shell,
                            struct abx_policy_verdict *v)
{
    const struct abx_policy_param *shells = &rule->params[ABX_PARAM_SHELLS];
    if (!shells->is_set || is_listed(shells->words, shell))
        return true;
    return refuse(rule, ABX_POLICY_SHELL_NOT_ALLOWED, v,
                  "the policy does not let this shell be started", shell);
}

bool abx_policy_language_check(const struct abx_policy_rule *rule, struct abx_str language,
                               struct abx_policy_verdict *v)
{
    const struct abx_policy_param *languages = &rule->params[ABX_PARAM_LANGUAGES];
    if (!languages->is_set || has_nocase(languages->words, language))
        return true;
    return refuse(rule, ABX_POLICY_LANGUAGE_NOT_ALLOWED, v,
                  "the policy does not let this language be run", language);
}
