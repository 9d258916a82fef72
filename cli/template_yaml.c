/* cli/template_yaml.c: the keys of template.yaml by one table, and `server` by the policy library.
 */
#include "cli/template_yaml.h"
#include "lib/base/assert.h"
#include "lib/base/near.h"
#include "lib/base/parse.h"
#include "lib/policy/policy.h"

#include <stdlib.h>

#include "lib/base/banned.h"

enum { POLICY_MAX = 256 * 1024, SERVER_PORT = 9000 };

enum kind { STR, TEXT, CHOICE, U32, MAP, STRINGS, PORTS, CUSTOM, RETIRED };

struct reader {
    struct cli_template *t;
    struct abx_arena *a;
    struct cli_findings *f;
};
struct key {
    const char *name;
    enum kind kind;
    size_t offset;
    bool is_required;
    uint32_t min, max;
    const char *choices; /* CHOICE: "a b c"; RETIRED: what replaces it */
    void (*check)(struct reader *r, const struct abx_yaml *node);
};

static int finding(struct reader *r, enum cli_level level, const struct abx_yaml *at,
                   const char *advice, const char *fmt, ...) __attribute__((format(printf, 5, 6)));
static int finding(struct reader *r, enum cli_level level, const struct abx_yaml *at,
                   const char *advice, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    struct cli_finding x = {.rule = "Y",
                            .level = level,
                            .source = r->t->source,
                            .line = at->line,
                            .column = at->column,
                            .width = at->width,
                            .advice = advice};
    return cli_findings_add(r->f, &x, "%s", text);
}

static struct abx_yaml key_of(const struct abx_yaml *entry)
{
    return (struct abx_yaml){
        .line = entry->key_line, .column = entry->key_column, .width = (unsigned)entry->key.len};
}

/* ---- single keys ---- */

static void check_spec_version(struct reader *r, const struct abx_yaml *n)
{
    if (n->type != ABX_YAML_INT || !abx_str_is(n->text, "5"))
        finding(r, CLI_ERROR, n, "spec_version: 5", "spec_version is the integer 5");
}

static bool is_identifier(struct abx_str s)
{
    bool good = s.len > 0 && s.ptr[0] >= 'a' && s.ptr[0] <= 'z';
    for (size_t i = 0; good && i < s.len; i++)
        good = (s.ptr[i] >= 'a' && s.ptr[i] <= 'z') || (s.ptr[i] >= '0' && s.ptr[i] <= '9') ||
               s.ptr[i] == '_' || s.ptr[i] == '-';
    return good;
}

static bool is_number(const struct abx_yaml *n, uint32_t min, uint32_t max, uint32_t *ret)
{
    return n->type == ABX_YAML_INT && abx_parse_u32(n->text, ret) == 0 && *ret >= min &&
           *ret <= max;
}

static void check_operations(struct reader *r, const struct abx_yaml *n)
{
    if (n->type != ABX_YAML_LIST) {
        finding(r, CLI_ERROR, n, NULL, "operations is a list of names");
        return;
    }
    for (size_t i = 0; i < n->count; i++) {
        if (n->items[i].type != ABX_YAML_STR || n->items[i].text.len == 0)
            finding(r, CLI_ERROR, &n->items[i], NULL, "an operation is a name");
        for (size_t k = 0; k < i; k++)
            if (abx_str_eq(n->items[k].text, n->items[i].text))
                finding(r, CLI_ERROR, &n->items[i], NULL, "the operation is there twice");
    }
}

/* One service of `provides`: exactly protocol, version, port, operations. */
static void check_service(struct reader *r, const struct abx_yaml *s)
{
    static const char *const names[] = {"protocol", "version", "port", "operations"};
    struct abx_yaml at = key_of(s);
    uint32_t number = 0;
    if (!is_identifier(s->key))
        finding(r, CLI_ERROR, &at, "lower-case letters, digits, '-' and '_'", "no service name");
    if (s->type != ABX_YAML_MAP) {
        finding(r, CLI_ERROR, s, "protocol, version, port, operations", "a service is a mapping");
        return;
    }
    for (size_t i = 0; i < ABX_COUNTOF(names); i++)
        if (abx_yaml_get(s, names[i]) == NULL)
            finding(r, CLI_ERROR, &at, NULL, "the service has no %s", names[i]);
    for (size_t i = 0; i < s->count; i++) {
        const struct abx_yaml *n = &s->items[i];
        struct abx_yaml key = key_of(n);
        if (abx_str_is(n->key, "protocol") ? n->type != ABX_YAML_STR || n->text.len == 0 : false)
            finding(r, CLI_ERROR, n, NULL, "protocol is a name");
        else if (abx_str_is(n->key, "version") && !is_number(n, 1, UINT32_MAX, &number))
            finding(r, CLI_ERROR, n, NULL, "version is an integer from 1");
        else if (abx_str_is(n->key, "port") && !is_number(n, 1, 65535, &number))
            finding(r, CLI_ERROR, n, NULL, "port is an integer from 1 to 65535");
        else if (abx_str_is(n->key, "operations"))
            check_operations(r, n);
        else if (!abx_str_is(n->key, "protocol") && !abx_str_is(n->key, "version") &&
                 !abx_str_is(n->key, "port"))
            finding(r, CLI_ERROR, &key, "protocol, version, port, operations",
                    "a service has no key '%.*s'", ABX_STR_FMT(abx_str_sub(n->key, 0, 80)));
    }
    const struct abx_yaml *protocol = abx_yaml_get(s, "protocol"), *port = abx_yaml_get(s, "port");
    if (protocol && port && abx_str_is(protocol->text, "agent-sandbox-server") &&
        is_number(port, 1, 65535, &number))
        r->t->server_port = number;
}

static void check_provides(struct reader *r, const struct abx_yaml *n)
{
    if (n->type != ABX_YAML_MAP) {
        finding(r, CLI_ERROR, n, "provides: {}", "provides is a mapping of services");
        return;
    }
    for (size_t i = 0; i < n->count; i++)
        check_service(r, &n->items[i]);
}

static void check_platforms(struct reader *r, const struct abx_yaml *n)
{
    for (size_t i = 0; n->type == ABX_YAML_LIST && i < n->count; i++)
        if (!abx_str_is(n->items[i].text, "linux/amd64"))
            finding(r, CLI_ERROR, &n->items[i], "platforms: [linux/amd64]",
                    "sandboxes are linux/amd64 only");
    if (n->type != ABX_YAML_LIST)
        finding(r, CLI_ERROR, n, "platforms: [linux/amd64]", "platforms is a list");
}

static void check_secrets(struct reader *r, const struct abx_yaml *n)
{
    finding(r, CLI_ERROR, n, "give it to the sandbox: abx create --env", "secrets are not built");
}

static void check_confine(struct reader *r, const struct abx_yaml *n)
{
    finding(r, CLI_ERROR, n, "leave it out: the server runs without", "confine is not built");
}

static void check_build(struct reader *r, const struct abx_yaml *n)
{
    const struct abx_yaml *network = abx_yaml_get(n, "network");
    if (n->type != ABX_YAML_MAP || network == NULL || n->count != 1 ||
        network->type != ABX_YAML_STR) {
        finding(r, CLI_ERROR, n, "build: {network: none}", "build has the one key network");
        return;
    }
    r->t->network = abx_arena_c(r->a, network->text);
}

static void check_env(struct reader *r, const struct abx_yaml *n)
{
    if (n->type != ABX_YAML_MAP) {
        finding(r, CLI_ERROR, n, NULL, "expected a mapping of names to strings");
        return;
    }
    for (size_t i = 0; i < n->count; i++)
        if (n->items[i].type != ABX_YAML_STR && n->items[i].type != ABX_YAML_NULL)
            finding(r, CLI_ERROR, &n->items[i], "put it in quotes", "%.*s: expected a string",
                    ABX_STR_FMT(abx_str_sub(n->items[i].key, 0, 80)));
    r->t->env = n;
}

static void check_build_args(struct reader *r, const struct abx_yaml *n)
{
    const struct abx_yaml *env = r->t->env;
    check_env(r, n);
    r->t->build_args = n->type == ABX_YAML_MAP ? n : NULL;
    r->t->env = env;
}

/* ---- the table ---- */

#define AT(field) offsetof(struct cli_template, field)
static const struct key keys[] = {
    {"spec_version", CUSTOM, 0, true, 0, 0, NULL, check_spec_version},
    {"provides", CUSTOM, 0, true, 0, 0, NULL, check_provides},
    {"name", TEXT, AT(name), true, 0, 0, NULL, NULL},
    {"version", STR, AT(version), false, 0, 0, NULL, NULL},
    {"description", STR, AT(description), false, 0, 0, NULL, NULL},
    {"author", STR, 0, false, 0, 0, NULL, NULL},
    {"license", STR, 0, false, 0, 0, NULL, NULL},
    {"start_cmd", TEXT, AT(start_cmd), false, 0, 0, NULL, NULL},
    {"ready_cmd", TEXT, AT(ready_cmd), false, 0, 0, NULL, NULL},
    {"image", TEXT, AT(image), false, 0, 0, NULL, NULL},
    {"provider", TEXT, AT(provider), false, 0, 0, NULL, NULL},
    {"template_id", TEXT, AT(template_id), false, 0, 0, NULL, NULL},
    {"cpu_count", U32, AT(cpu_count), false, 1, 64, NULL, NULL},
    {"memory_mb", U32, AT(memory_mb), false, 16, 1048576, NULL, NULL},
    {"env", CUSTOM, 0, false, 0, 0, NULL, check_env},
    {"ports", PORTS, AT(ports), false, 1, 65535, NULL, NULL},
    {"tags", STRINGS, AT(tags), false, 0, 0, NULL, NULL},
    {"server", MAP, AT(server), false, 0, 0, NULL, NULL},
    /* ours; the published client keeps and ignores them */
    {"dockerfile", TEXT, AT(dockerfile), false, 0, 0, NULL, NULL},
    {"envd_inject", CHOICE, AT(envd_inject), false, 0, 0, "auto true false", NULL},
    {"proc_hidepid", CHOICE, AT(proc_hidepid), false, 0, 0, "true false", NULL},
    {"build_args", CUSTOM, 0, false, 0, 0, NULL, check_build_args},
    {"build", CUSTOM, 0, false, 0, 0, NULL, check_build},
    {"platforms", CUSTOM, 0, false, 0, 0, NULL, check_platforms},
    {"secrets", CUSTOM, 0, false, 0, 0, NULL, check_secrets},
    {"confine", CUSTOM, 0, false, 0, 0, NULL, check_confine},
    /* of older specifications */
    {"workflow_contract_version", RETIRED, 0, false, 0, 0, "spec_version: 5", NULL},
    {"default_workflow", RETIRED, 0, false, 0, 0, "start_cmd", NULL},
    {"workflows", RETIRED, 0, false, 0, 0, "provides and start_cmd", NULL},
    {"capabilities", RETIRED, 0, false, 0, 0, "server: groups", NULL},
    {"tested_on", RETIRED, 0, false, 0, 0, "nothing; leave it out", NULL},
    {"providers", RETIRED, 0, false, 0, 0, "provider and template_id", NULL},
    {"custom_commands", RETIRED, 0, false, 0, 0, "a commands file with @command", NULL},
    {"system_packages", RETIRED, 0, false, 0, 0, "RUN apt-get install in the Dockerfile", NULL},
    {"python_packages", RETIRED, 0, false, 0, 0, "RUN pip install in the Dockerfile", NULL},
    {"node_packages", RETIRED, 0, false, 0, 0, "RUN npm install in the Dockerfile", NULL},
    {"copy_files", RETIRED, 0, false, 0, 0, "COPY in the Dockerfile", NULL},
    {"base", RETIRED, 0, false, 0, 0, "FROM in the Dockerfile", NULL},
    {"commands", RETIRED, 0, false, 0, 0, "a commands file with @command", NULL},
    {"resources", RETIRED, 0, false, 0, 0, "cpu_count and memory_mb", NULL},
    {"generation", RETIRED, 0, false, 0, 0, "nothing; leave it out", NULL},
    {0}};

static bool is_choice(struct abx_str word, const char *choices)
{
    struct abx_str rest = abx_str(choices), part;
    while (abx_str_split(&rest, ' ', &part))
        if (abx_str_eq(part, word))
            return true;
    return false;
}

static void take_string(struct reader *r, const struct key *k, const struct abx_yaml *n)
{
    bool is_word = n->type == ABX_YAML_STR || (k->kind == CHOICE && n->type == ABX_YAML_BOOL);
    if (!is_word && !(k->kind == STR && n->type == ABX_YAML_NULL))
        finding(r, CLI_ERROR, n, "put it in quotes", "%s: expected a string", k->name);
    else if (k->kind == TEXT && n->text.len == 0)
        finding(r, CLI_ERROR, n, NULL, "%s: empty", k->name);
    else if (k->kind == CHOICE && !is_choice(n->text, k->choices))
        finding(r, CLI_ERROR, n, NULL, "%s is one of: %s", k->name, k->choices);
    else if (k->offset && n->type != ABX_YAML_NULL)
        *(const char **)(void *)((char *)r->t + k->offset) = abx_arena_c(r->a, n->text);
}

static void take_list(struct reader *r, const struct key *k, const struct abx_yaml *n)
{
    uint32_t number;
    bool good = n->type == ABX_YAML_LIST;
    for (size_t i = 0; good && i < n->count; i++)
        good = k->kind == PORTS ? is_number(&n->items[i], k->min, k->max, &number)
                                : n->items[i].type == ABX_YAML_STR;
    if (!good)
        finding(r, CLI_ERROR, n, NULL, "%s: expected a list of %s", k->name,
                k->kind == PORTS ? "port numbers" : "strings");
    else
        *(const struct abx_yaml **)(void *)((char *)r->t + k->offset) = n;
}

static void take_value(struct reader *r, const struct key *k, const struct abx_yaml *n)
{
    struct abx_yaml at = key_of(n);
    void *to = (char *)r->t + k->offset;
    switch (k->kind) {
    case STR:
    case TEXT:
    case CHOICE:
        take_string(r, k, n);
        return;
    case U32:
        if (!is_number(n, k->min, k->max, to))
            finding(r, CLI_ERROR, n, NULL, "%s: expected an integer from %u to %u", k->name, k->min,
                    k->max);
        return;
    case MAP:
        if (n->type != ABX_YAML_MAP)
            finding(r, CLI_ERROR, n, NULL, "%s: expected a mapping", k->name);
        else
            *(const struct abx_yaml **)to = n;
        return;
    case STRINGS:
    case PORTS:
        take_list(r, k, n);
        return;
    case CUSTOM:
        k->check(r, n);
        return;
    case RETIRED:
        finding(r, CLI_ERROR, &at, NULL, "%s is of an older specification; instead: %s", k->name,
                k->choices);
        return;
    }
}

/* A key that nobody knows is kept by the published client, so it is a warning only. */
static void warn_unknown(struct reader *r, const struct abx_yaml *n)
{
    struct abx_yaml at = key_of(n);
    char advice[80] = "";
    for (const struct key *k = keys; k->name; k++)
        if (k->kind != RETIRED && abx_str_is_near(n->key, k->name))
            snprintf(advice, sizeof(advice), "did you mean %s?", k->name);
    finding(r, CLI_WARNING, &at, advice[0] ? advice : NULL, "no key '%.*s'; it has no effect",
            ABX_STR_FMT(abx_str_sub(n->key, 0, 80)));
}

static void read_keys(struct reader *r)
{
    struct abx_yaml top = {.line = 1, .column = 1, .width = 1};
    for (size_t i = 0; i < r->t->root->count; i++) {
        const struct abx_yaml *n = &r->t->root->items[i];
        const struct key *k = keys;
        while (k->name && !abx_str_is(n->key, k->name))
            k++;
        if (k->name)
            take_value(r, k, n);
        else
            warn_unknown(r, n);
    }
    for (const struct key *k = keys; k->name; k++)
        if (k->is_required && abx_yaml_get(r->t->root, k->name) == NULL)
            finding(r, CLI_ERROR, &top, NULL, "%s is missing", k->name);
    const struct abx_yaml *provider = abx_yaml_get(r->t->root, "provider");
    if (provider && r->t->template_id[0] == '\0')
        finding(r, CLI_ERROR, provider, NULL, "provider needs template_id beside it");
    if (provider && r->t->image[0])
        finding(r, CLI_ERROR, provider, NULL, "provider and image exclude each other");
}

/* ---- the policy ---- */

/* Tokens are set when a sandbox starts; here each variable has one of its own. */
static const char *stand_in_token(void *ctx, const char *name)
{
    return abx_arena_printf(ctx, "checked-without-its-value-%s", name);
}

static void take_policy_finding(struct reader *r, const struct abx_finding *p)
{
    const struct abx_yaml *at =
        p->pointer ? abx_yaml_at(r->t->server, abx_str(p->pointer)) : r->t->server;
    struct cli_finding x = {.rule = p->rule ? p->rule : "P",
                            .level = p->kind == ABX_FINDING_DOCUMENT ? CLI_ERROR : CLI_WARNING,
                            .source = r->t->source,
                            .line = at->line,
                            .column = at->column,
                            .width = at->width};
    cli_findings_add(r->f, &x, "server%s%s: %s", p->pointer ? p->pointer : "",
                     p->kind == ABX_FINDING_CONFIGURATION ? " (not one of the built-in endpoints)"
                                                          : "",
                     p->text);
}

static void read_policy(struct reader *r)
{
    ABX_AUTO_BUF b;
    struct abx_report report;
    struct abx_policy *policy = NULL;
    abx_buf_init(&b, POLICY_MAX);
    abx_yaml_to_json(r->t->server, &b);
    if (abx_buf_failed(&b)) {
        finding(r, CLI_ERROR, r->t->server, NULL, "server: over 256 KiB");
        return;
    }
    r->t->policy_json = abx_arena_c(r->a, abx_buf_str(&b));
    abx_report_init(&report);
    struct abx_policy_facts facts = {.text = abx_buf_str(&b),
                                     .has_text = true,
                                     .getenv = stand_in_token,
                                     .getenv_ctx = r->a,
                                     .no_env = true};
    if (abx_policy_load(&facts, &policy, &report) == 0) {
        snprintf(r->t->revision, sizeof(r->t->revision), "%s", abx_policy_revision(policy));
        abx_policy_lint(policy, false, &report);
    }
    for (size_t i = 0; i < report.count; i++)
        take_policy_finding(r, &report.items[i]);
    abx_policy_unref(policy);
    abx_report_done(&report);
}

static int parse(const struct cli_source *source, struct abx_arena *a, struct cli_findings *f,
                 struct abx_yaml **ret)
{
    struct abx_yaml_fault fault;
    if (abx_yaml_parse(source->text, a, &fault, ret) == 0)
        return 0;
    struct cli_finding x = {.rule = "Y",
                            .source = source,
                            .line = fault.line,
                            .column = fault.column,
                            .width = fault.width,
                            .advice = fault.advice};
    return cli_findings_add(f, &x, "%s", fault.text);
}

int cli_template_read(const struct cli_source *source, struct abx_arena *a, struct cli_findings *f,
                      struct cli_template *ret)
{
    size_t before = f->by_level[CLI_ERROR];
    *ret = (struct cli_template){.source = source,
                                 .name = "",
                                 .version = "",
                                 .description = "",
                                 .start_cmd = "",
                                 .ready_cmd = "",
                                 .image = "",
                                 .provider = "",
                                 .template_id = "",
                                 .dockerfile = "Dockerfile",
                                 .envd_inject = "auto",
                                 .network = "none",
                                 .server_port = SERVER_PORT};
    struct reader r = {ret, a, f};
    if (parse(source, a, f, &ret->root) < 0)
        return -1;
    read_keys(&r);
    if (ret->server != NULL && cli_server_block_check(source, ret->server, f) == 0)
        read_policy(&r);
    return f->by_level[CLI_ERROR] > before ? -1 : 0;
}

bool cli_policy_check(const char *name, struct abx_str json)
{
    struct abx_report report;
    struct abx_policy *policy = NULL;
    struct abx_arena a;
    struct cli_findings *f = calloc(1, sizeof(*f));
    const struct cli_source source = {name, json};
    bool good = false;
    if (f == NULL)
        return false;
    abx_arena_init(&a, 1 << 20);
    cli_findings_init(f);
    abx_report_init(&report);
    struct abx_policy_facts facts = {
        .text = json, .has_text = true, .getenv = stand_in_token, .getenv_ctx = &a, .no_env = true};
    if (abx_policy_load(&facts, &policy, &report) == 0)
        abx_policy_lint(policy, false, &report);
    for (size_t i = 0; i < report.count; i++) {
        const struct abx_finding *p = &report.items[i];
        struct cli_finding x = {.rule = p->rule ? p->rule : "P",
                                .level = p->kind == ABX_FINDING_DOCUMENT ? CLI_ERROR : CLI_WARNING,
                                .source = &source,
                                .line = p->line,
                                .column = p->column,
                                .width = 1};
        cli_findings_add(f, &x, "%s%s%s", p->place ? p->place : "", p->place ? ": " : "", p->text);
    }
    cli_findings_print(f, stderr);
    good = f->by_level[CLI_ERROR] == 0;
    abx_policy_unref(policy);
    abx_report_done(&report);
    cli_findings_done(f);
    abx_arena_done(&a);
    free(f);
    return good;
}
