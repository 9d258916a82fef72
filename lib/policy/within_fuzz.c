/* lib/policy/within_fuzz.c: the property that a narrower document never allows more. The bytes
 * choose a document, a change of it, and nothing is believed: where abx_policy_is_within() says
 * yes, every caller is asked for at every endpoint, with paths, commands, names and variables, and
 * what the narrower one allows the wider one must allow too: to requests, and to the processes that
 * they start (files read and written, ports, sockets, privileges, limits). A document is within
 * itself. */
#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "lib/policy/guards.h"
#include "lib/policy/paths.h"
#include "lib/policy/policy_priv.h"
#include "lib/policy/url_guard.h"
#include "lib/policy/users.h"
#include "lib/policy/within.h"

#include "lib/base/banned.h"

enum { INPUT_MAX = 200, TEXT_MAX = 16384, RULES = 4, CALLERS = 3 };

/* Bytes that are used up; then zeros. */
struct chooser {
    const uint8_t *data;
    size_t len;
};

static unsigned choose(struct chooser *c, unsigned count)
{
    if (c->len == 0)
        return 0;
    c->len--;
    return *c->data++ % count;
}

#define PICK(c, list) ((list)[choose((c), ABX_COUNTOF(list))])

static const char *const presets[] = {"default", "transfer-only", "read-only", "hardened",
                                      "locked"};
static const char *const groups[] = {"process", "terminal", "dev_tools", "file_ops", "commands"};
static const char *const selectors[] = {"*",
                                        "files_*",
                                        "shell",
                                        "group:process",
                                        "git_*",
                                        "files_delete",
                                        "env_set",
                                        "code_run",
                                        "browser_navigate",
                                        "files_upload_stream",
                                        "files_c[oh]*",
                                        "process_signal",
                                        "pty_create_session"};
static const char *const scope_lists[] = {
    "[\"*\"]",  "[\"files:*\"]", "[]", "[\"files:read\"]", "[\"process:*\",\"files:read\"]",
    "[\"a:b\"]"};
/* Parts of a rule; only exact selectors are strict about them, so that globs carry them. */
static const char *const parts[] = {
    "\"enabled\":true",
    "\"enabled\":false",
    "\"scopes\":[\"a:b\"]",
    "\"scopes\":[]",
    "\"paths\":{\"allow\":[\"/srv\"]}",
    "\"paths\":{\"allow\":[\"/srv/a\",\"/data\"]}",
    "\"paths\":{\"allow\":[\"/\"]}",
    "\"paths\":{\"deny\":[\"*.pem\"]}",
    "\"paths\":{\"deny\":[\"/srv/a\",\"**/.env\"],\"read_only\":true}",
    "\"paths\":{\"deny\":[\"/srv/a\"]}",
    "\"paths\":{\"allow\":[\"/srv\",\"/srv/a/b\"],\"deny\":[\"/srv/a\",\"/srv/c/\"]}",
    "\"paths\":{\"symlinks\":\"never\"}",
    "\"paths\":{\"read_only\":false}",
    "\"limits\":{\"rate_per_minute\":2}",
    "\"limits\":{\"rate_per_minute\":5,\"max_bytes\":10}",
    "\"params\":{\"allow_commands\":[\"ls\"]}",
    "\"params\":{\"allow_commands\":[\"git status\",\"ls\"],\"deny_commands\":[\"rm\"]}",
    "\"params\":{\"deny_extensions\":[\".sh\"]}",
    "\"params\":{\"allow_extensions\":[\".txt\"],\"overwrite\":false}",
    "\"params\":{\"allow_vars\":[\"A_*\"]}",
    "\"params\":{\"deny_vars\":[\"B\"],\"env_deny\":[\"B\"]}",
    "\"params\":{\"allowed_signals\":[15]}",
    "\"params\":{\"shells\":[\"/bin/sh\"],\"languages\":[\"bash\"]}",
    "\"params\":{\"url_allow\":[\"https://a.net/*\"]}",
    "\"params\":{\"url_deny\":[\"*secret*\"],\"block_private_networks\":true}",
};
static const char *const confines[] = {
    "\"off\"",
    "\"auto\"",
    "\"require\"",
    "{\"mode\":\"auto\",\"write\":[\"/data\"]}",
    "{\"mode\":\"auto\",\"network\":{\"connect_ports\":[80],\"udp\":false}}",
    "{\"mode\":\"auto\",\"read\":[\"/srv\"],\"rlimits\":{\"nofile\":64},\"privileged\":true}",
    "{\"mode\":\"advisory\",\"read\":[\"/srv/a/b\"],\"network\":{\"bind_ports\":[],\"unix\":true}}",
    ("{\"mode\":\"require\",\"write\":[\"/\"],\"network\":{\"connect_ports\":[80,81]},"
     "\"rlimits\":{\"nofile\":32,\"nproc\":5}}"),
    /* that differ in one thing */
    "{\"mode\":\"auto\",\"network\":{\"connect_ports\":[80]}}",
    "{\"mode\":\"auto\",\"network\":{\"connect_ports\":[80,81]}}",
    "{\"mode\":\"auto\",\"network\":{\"udp\":false}}",
    "{\"mode\":\"auto\",\"network\":{\"unix\":false}}",
    "{\"mode\":\"auto\",\"rlimits\":{\"nofile\":64}}",
    "{\"mode\":\"auto\",\"privileged\":true}",
    "{\"mode\":\"auto\",\"nested_pty\":true,\"network\":{\"bind_ports\":[0,80],\"unix\":false}}",
    "{\"users\":[\"a\"]}",
    "{\"users\":[\"a\",7],\"privileged\":true}",
    "{\"mode\":\"auto\",\"users\":[\"a\",\"8\"]}",
};

static void put_rule(struct chooser *c, struct abx_buf *out)
{
    /* One part of each kind: a repeated key would hide the first. */
    const char *part = PICK(c, parts), *second = PICK(c, parts);
    abx_buf_putf(out, "{%s", part);
    if (strncmp(part, second, 6) != 0)
        abx_buf_putf(out, ",%s", second);
    abx_buf_put_byte(out, '}');
}

static void put_tokens(struct chooser *c, struct abx_buf *out)
{
    unsigned count = choose(c, 3);
    abx_buf_put_c(out, "\"auth\":{\"tokens\":[");
    for (unsigned i = 0; i < count; i++)
        abx_buf_putf(out, "%s{\"id\":\"t%u\",\"scopes\":%s,\"token_sha256\":\"%064u\"}",
                     i ? "," : "", i, PICK(c, scope_lists), i + choose(c, 2));
    abx_buf_putf(out, "],\"allow_anonymous\":%s,\"anonymous_scopes\":%s}",
                 choose(c, 2) ? "true" : "false", PICK(c, scope_lists));
}

static void put_document(struct chooser *c, struct abx_buf *out)
{
    bool seen[ABX_COUNTOF(selectors)] = {false};
    abx_buf_putf(out, "{\"preset\":\"%s\",\"groups\":{\"%s\":%s},", PICK(c, presets),
                 PICK(c, groups), choose(c, 2) ? "true" : "false");
    put_tokens(c, out);
    abx_buf_putf(out, ",\"confine\":%s,\"endpoints\":{", PICK(c, confines));
    bool first = true;
    for (unsigned i = choose(c, RULES + 1); i > 0; i--) {
        unsigned at = choose(c, ABX_COUNTOF(selectors));
        if (seen[at])
            continue;
        seen[at] = true;
        abx_buf_putf(out, "%s\"%s\":", first ? "" : ",", selectors[at]);
        put_rule(c, out);
        first = false;
    }
    abx_buf_put_c(out, "}}");
}

static struct abx_policy *load(const struct abx_buf *text)
{
    struct abx_policy_facts facts = {.text = abx_buf_str(text),
                                     .has_text = !text->failed,
                                     .base_dir = ABX_STR("/srv"),
                                     .layers = ABX_LAYER_ALL};
    struct abx_policy *p = NULL;
    struct abx_report report;
    abx_report_init(&report);
    if (abx_policy_load(&facts, &p, &report) < 0)
        p = NULL;
    abx_report_done(&report);
    return p;
}

/* ---- everything that can be asked ---- */

struct both {
    const struct abx_policy *narrow, *wide;
    const struct abx_policy_rule *n, *w;
    bool *asked; /* by caller: for what all endpoints without paths of their own start */
};

static bool may_path(const struct abx_policy *p, const struct abx_policy_rule *r,
                     const char *lexical, const char *resolved, enum abx_path_op op)
{
    struct abx_policy_root roots[8];
    struct abx_policy_verdict v = {0};
    struct abx_policy_path_facts f = {
        .roots = roots, .lexical = abx_str(lexical), .resolved = abx_str(resolved), .op = op};
    struct abx_str root;
    for (; f.root_count < ABX_COUNTOF(roots) && abx_policy_root_at(p, r, f.root_count, &root);
         f.root_count++)
        roots[f.root_count] = (struct abx_policy_root){root, root};
    return abx_policy_path_judge(r, &f, &v, NULL);
}

static void ask_paths(const struct both *b)
{
    static const char *const paths[] = {"/srv",    "/srv/a",      "/srv/a/x.pem", "/srv/b/.env",
                                        "/data",   "/data/x.txt", "/etc/passwd",  "/",
                                        "/proc/1", "/srvx",       "/srv/a/.env/x"};
    for (size_t i = 0; i < ABX_COUNTOF(paths); i++)
        for (size_t k = 0; k < ABX_COUNTOF(paths); k++)
            for (int op = 0; op < ABX_OP__COUNT; op++)
                ABX_ASSERT(may_path(b->wide, b->w, paths[i], paths[k], (enum abx_path_op)op) ||
                           !may_path(b->narrow, b->n, paths[i], paths[k], (enum abx_path_op)op));
}

static bool may_run(const struct abx_policy_rule *r, struct abx_str line)
{
    struct abx_policy_command command = {0};
    struct abx_policy_verdict v = {0};
    struct abx_str_list argv;
    struct abx_arena a;
    abx_arena_init(&a, 1 << 20);
    bool ok = abx_policy_words_split(line, &a, &command.argv) == 0 &&
              abx_policy_command_check(r, &command, &a, &argv, &v);
    abx_arena_done(&a);
    return ok;
}

static void ask_programs(const struct both *b)
{
    static const char *const lines[] = {"ls",       "ls -la", "git status",
                                        "git push", "rm x",   "/bin/ls"};
    static const char *const names[] = {"A_X", "B", "PATH", "LD_PRELOAD", "ABX_X", "C"};
    struct abx_policy_verdict v = {0};
    for (size_t i = 0; i < ABX_COUNTOF(lines); i++)
        ABX_ASSERT(may_run(b->w, abx_str(lines[i])) || !may_run(b->n, abx_str(lines[i])));
    for (size_t i = 0; i < ABX_COUNTOF(names); i++) {
        struct abx_str name = abx_str(names[i]);
        ABX_ASSERT(abx_policy_exec_env_check(b->wide, b->w, name, &v) ||
                   !abx_policy_exec_env_check(b->narrow, b->n, name, &v));
        ABX_ASSERT(abx_policy_env_set_check(b->wide, b->w, name, &v) ||
                   !abx_policy_env_set_check(b->narrow, b->n, name, &v));
        ABX_ASSERT(abx_policy_env_visible(b->wide, b->w, name) ||
                   !abx_policy_env_visible(b->narrow, b->n, name));
        ABX_ASSERT(abx_policy_pty_env_check(b->w, name, &v) ||
                   !abx_policy_pty_env_check(b->n, name, &v));
    }
}

/* Nobody that the wider one refuses, and nobody who may gain there what it may not. */
static void ask_users(const struct both *b, const struct abx_policy_identity *n,
                      const struct abx_policy_identity *w)
{
    const struct abx_policy_user users[] = {
        {ABX_STR("a"), true, ABX_STR("a"), 1, false},
        {ABX_STR("7"), true, ABX_STR("b"), 7, false},
        {ABX_STR("c"), true, ABX_STR("c"), 8, false},
        {ABX_STR("d"), true, ABX_STR("d"), 9, false},
        {.asked = ABX_STR("a")},
        {.asked = ABX_STR("e")},
        {ABX_STR("own"), true, ABX_STR("own"), 10, true},
    };
    struct abx_policy_verdict v = {0};
    for (size_t i = 0; i < ABX_COUNTOF(users); i++) {
        bool is_allowed = abx_policy_user_check(b->narrow, b->n, &users[i], &v);
        ABX_ASSERT(!is_allowed || abx_policy_user_check(b->wide, b->w, &users[i], &v));
        ABX_ASSERT(!is_allowed || users[i].is_own || !abx_policy_keeps_privileges(b->narrow, n) ||
                   abx_policy_keeps_privileges(b->wide, w));
    }
}

static bool may_open(const struct abx_policy_rule *r, const char *url)
{
    struct abx_policy_verdict v = {0};
    struct abx_policy_url u;
    struct abx_arena a;
    abx_arena_init(&a, 1 << 20);
    bool ok = abx_policy_url_check(r, abx_str(url), &a, &u, &v);
    abx_arena_done(&a);
    return ok;
}

static void ask_words(const struct both *b)
{
    static const char *const files[] = {"/srv/a.sh", "/srv/a.txt", "/srv/a", "/srv/.env"};
    static const char *const shells[] = {"/bin/sh", "/bin/bash"};
    static const char *const languages[] = {"bash", "python"};
    static const char *const urls[] = {"https://a.net/x", "https://b.net/secret", "http://a.net/",
                                       "https://a.net:8443/", "http://127.0.0.1/"};
    struct abx_policy_verdict v = {0};
    for (size_t i = 0; i < ABX_COUNTOF(files); i++)
        ABX_ASSERT(abx_policy_extension_check(b->w, abx_str(files[i]), &v) ||
                   !abx_policy_extension_check(b->n, abx_str(files[i]), &v));
    for (size_t i = 0; i < ABX_COUNTOF(shells); i++)
        ABX_ASSERT(abx_policy_shell_check(b->w, abx_str(shells[i]), &v) ||
                   !abx_policy_shell_check(b->n, abx_str(shells[i]), &v));
    for (size_t i = 0; i < ABX_COUNTOF(languages); i++)
        ABX_ASSERT(abx_policy_language_check(b->w, abx_str(languages[i]), &v) ||
                   !abx_policy_language_check(b->n, abx_str(languages[i]), &v));
    for (int64_t signal = 0; signal < 20; signal++)
        ABX_ASSERT(abx_policy_signal_check(b->w, signal, &v) ||
                   !abx_policy_signal_check(b->n, signal, &v));
    for (size_t i = 0; i < ABX_COUNTOF(urls); i++)
        ABX_ASSERT(may_open(b->w, urls[i]) || !may_open(b->n, urls[i]));
}

/* ---- what a process may do ---- */

static bool is_in(struct abx_str_list roots, const char *path)
{
    for (size_t i = 0; i < roots.count; i++) {
        struct abx_str root = roots.items[i];
        size_t len = root.len == 1 ? 0 : root.len; /* "/" holds everything */
        if (strncmp(path, root.ptr, len) == 0 && (path[len] == '/' || path[len] == '\0'))
            return true;
    }
    return false;
}

/* @layers 0: the kernel holds nothing. Hidden is held where the server may mount; both are asked.
 */
static bool process_opens(const struct abx_policy_view *v, const char *path, bool writes,
                          bool mounts)
{
    if (v->layers == 0)
        return true;
    if (mounts && !v->is_privileged && is_in(v->hidden, path))
        return false;
    return !(v->layers & ABX_LAYER_FILES) || is_in(v->write, path) ||
           (!writes && is_in(v->read, path));
}

static bool process_uses(const struct abx_policy_view *v, const struct abx_policy_ports *ports,
                         uint16_t port)
{
    if (!(v->layers & ABX_LAYER_NETWORK) || v->is_privileged || !ports->is_limited)
        return true;
    for (size_t i = 0; i < ports->count; i++)
        if (ports->items[i] == port)
            return true;
    return false;
}

static bool process_opens_socket(const struct abx_policy_view *v, bool is_forbidden)
{
    return !(v->layers & ABX_LAYER_NETWORK) || v->is_privileged || !is_forbidden;
}

static void compare_views(const struct abx_policy_view *n, const struct abx_policy_view *w)
{
    static const char *const paths[] = {"/srv",   "/srv/a", "/srv/a/b/x", "/srv/c",
                                        "/srv/b", "/data",  "/data/x",    "/etc/x",
                                        "/",      "/srvx",  "/srv/a/.env"};
    static const uint16_t ports[] = {0, 22, 80, 81, 443};
    for (size_t i = 0; i < ABX_COUNTOF(paths); i++)
        for (unsigned how = 0; how < 4; how++)
            ABX_ASSERT(process_opens(w, paths[i], how & 1, how & 2) ||
                       !process_opens(n, paths[i], how & 1, how & 2));
    for (size_t i = 0; i < ABX_COUNTOF(ports); i++) {
        ABX_ASSERT(process_uses(w, &w->connect, ports[i]) ||
                   !process_uses(n, &n->connect, ports[i]));
        ABX_ASSERT(process_uses(w, &w->bind, ports[i]) || !process_uses(n, &n->bind, ports[i]));
    }
    ABX_ASSERT(process_opens_socket(w, w->no_udp) || !process_opens_socket(n, n->no_udp));
    ABX_ASSERT(process_opens_socket(w, w->no_unix) || !process_opens_socket(n, n->no_unix));
    ABX_ASSERT(w->is_privileged || !n->is_privileged || w->layers == 0);
}

/* All endpoints that have no paths of their own have one view. */
static bool has_own_view(const struct abx_policy_rule *r)
{
    return r->takes_paths &&
           (r->paths.allow.count > 0 || r->paths.deny.count > 0 || r->paths.read_only);
}

/* What is started through the rule for @n can do nothing that it could not for @w. */
static void ask_process(const struct both *b, const struct abx_policy_identity *n,
                        const struct abx_policy_identity *w, bool *is_asked)
{
    const struct abx_policy_confine *nc = abx_policy_confinement(b->narrow),
                                    *wc = abx_policy_confinement(b->wide);
    struct abx_policy_view nv, wv;
    struct abx_arena a;
    if (!abx_policy_runs_programs(b->n))
        return;
    if (!has_own_view(b->n) && !has_own_view(b->w)) {
        if (*is_asked)
            return;
        *is_asked = true;
    }
    abx_arena_init(&a, 8 << 20);
    ABX_ASSERT(abx_policy_view(b->narrow, b->n, n, NULL, NULL, &a, &nv) == 0);
    ABX_ASSERT(abx_policy_view(b->wide, b->w, w, NULL, NULL, &a, &wv) == 0);
    compare_views(&nv, &wv);
    for (int i = 0; i < ABX_RLIMIT__COUNT && wv.layers != 0; i++)
        ABX_ASSERT(!wc->rlimits[i].is_set ||
                   (nc->rlimits[i].is_set && nc->rlimits[i].value <= wc->rlimits[i].value));
    ABX_ASSERT(wv.layers == 0 || wc->nested_pty || !nc->nested_pty);
    abx_arena_done(&a);
}

/* Who the credential of @n is to the other policy; false: a stranger. */
static bool same_caller(const struct both *b, const struct abx_policy_identity *n,
                        struct abx_policy_identity *ret)
{
    struct abx_policy_identity w;
    for (size_t i = 0; abx_policy_identity_at(b->wide, i, &w); i++)
        if (n->index == ABX_POLICY_ANONYMOUS ? w.index == ABX_POLICY_ANONYMOUS
                                             : w.index != ABX_POLICY_ANONYMOUS &&
                                                   memcmp(b->narrow->tokens[n->index].hash,
                                                          b->wide->tokens[w.index].hash, 32) == 0) {
            *ret = w;
            return true;
        }
    return false;
}

static void ask_callers(const struct both *b)
{
    struct abx_policy_identity n, w;
    struct abx_policy_verdict v;
    bool reached = false;
    for (size_t i = 0; abx_policy_identity_at(b->narrow, i, &n); i++) {
        if (n.index == 1 && memcmp(b->narrow->tokens[0].hash, b->narrow->tokens[1].hash, 32) == 0)
            continue; /* of two tokens that are equal the first is meant */
        if (!abx_policy_judge(b->narrow, b->n, &n, &v))
            continue;
        ABX_ASSERT(same_caller(b, &n, &w));
        ABX_ASSERT(abx_policy_judge(b->wide, b->w, &w, &v));
        ABX_ASSERT(i < CALLERS);
        ask_process(b, &n, &w, &b->asked[i]);
        ask_users(b, &n, &w);
        reached = true;
    }
    if (!reached)
        return;
    if (b->n->takes_paths)
        ask_paths(b);
    ask_programs(b);
    ask_words(b);
    for (int limit = 0; limit < ABX_LIMIT__COUNT; limit++)
        ABX_ASSERT(!b->w->limits[limit].is_set ||
                   (b->n->limits[limit].is_set &&
                    b->n->limits[limit].number <= b->w->limits[limit].number));
}

static void ask_everything(const struct abx_policy *narrow, const struct abx_policy *wide)
{
    size_t count;
    const struct abx_policy_rule *rules = abx_policy_rules(narrow, &count);
    bool asked[CALLERS] = {false};
    for (size_t i = 0; i < count; i++) {
        const struct both b = {narrow, wide, &rules[i], abx_policy_rule(wide, rules[i].id), asked};
        ask_callers(&b);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ABX_AUTO_BUF first = {0};
    ABX_AUTO_BUF second = {0};
    char why[240];
    if (size > INPUT_MAX)
        return 0;
    /* The second document begins as the first and goes its own way from the byte named last. */
    size_t shared = size > 1 ? data[size - 1] % size : 0;
    struct chooser one = {data, size / 2}, two = {data, shared < size / 2 ? shared : size / 2};
    abx_buf_init(&first, TEXT_MAX);
    abx_buf_init(&second, TEXT_MAX);
    put_document(&one, &first);
    uint8_t mixed[INPUT_MAX];
    memcpy(mixed, data, two.len);
    memcpy(mixed + two.len, data + size / 2, size - size / 2);
    two = (struct chooser){mixed, two.len + size - size / 2};
    if (two.len > INPUT_MAX)
        return 0;
    put_document(&two, &second);
    struct abx_policy *a = load(&first), *b = load(&second);
    if (a != NULL)
        ABX_ASSERT(abx_policy_is_within(a, a, why));
    if (a != NULL && b != NULL && abx_policy_is_within(a, b, why))
        ask_everything(a, b);
    if (a != NULL && b != NULL && abx_policy_is_within(b, a, why))
        ask_everything(b, a);
    abx_policy_unref(a);
    abx_policy_unref(b);
    return 0;
}
