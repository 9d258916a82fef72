/* cli/server_block.c: the structural rules of the published `server` block. What they leave open is
 * the policy library's part. */
#include "cli/template_yaml.h"
#include "lib/base/assert.h"
#include "lib/base/near.h"

#include "lib/base/banned.h"

struct checker {
    const struct cli_source *source;
    struct cli_findings *f;
    size_t faults;
};

static void fault(struct checker *c, const struct abx_yaml *at, const char *path, const char *text,
                  const char *advice)
{
    struct cli_finding x = {.rule = "Y",
                            .source = c->source,
                            .line = at->line,
                            .column = at->column,
                            .width = at->width,
                            .advice = advice};
    cli_findings_add(c->f, &x, "%s: %s", path, text);
    c->faults++;
}

static void expect(struct checker *c, const struct abx_yaml *node, enum abx_yaml_type type,
                   const char *path)
{
    char text[64];
    snprintf(text, sizeof(text), "expected %s", abx_yaml_type_name(type));
    if (node->type != type)
        fault(c, node, path, text, NULL);
}

static bool is_known(struct abx_str key, const char *const *names)
{
    for (; *names; names++)
        if (abx_str_is(key, *names))
            return true;
    return false;
}

/* Reports keys of @map that are none of @names. */
static void check_keys(struct checker *c, const struct abx_yaml *map, const char *const *names,
                       const char *path)
{
    for (size_t i = 0; i < map->count; i++) {
        const struct abx_yaml *entry = &map->items[i];
        struct abx_yaml at = {.line = entry->key_line,
                              .column = entry->key_column,
                              .width = (unsigned)entry->key.len};
        char text[160], advice[96] = "";
        if (is_known(entry->key, names))
            continue;
        for (size_t k = 0; names[k]; k++)
            if (abx_str_is_near(entry->key, names[k]))
                snprintf(advice, sizeof(advice), "did you mean %s?", names[k]);
        snprintf(text, sizeof(text), "unknown key '%.*s'",
                 ABX_STR_FMT(abx_str_sub(entry->key, 0, 80)));
        fault(c, &at, path, text, advice[0] ? advice : NULL);
    }
}

typedef void check_fn(struct checker *c, const struct abx_yaml *node, const char *path);
struct rule {
    const char *key;
    check_fn *check; /* NULL: not looked at */
};

static void check_bool(struct checker *c, const struct abx_yaml *n, const char *path)
{
    expect(c, n, ABX_YAML_BOOL, path);
}

static void check_map(struct checker *c, const struct abx_yaml *n, const char *path)
{
    expect(c, n, ABX_YAML_MAP, path);
}

static void check_strings(struct checker *c, const struct abx_yaml *n, const char *path)
{
    if (n->type != ABX_YAML_LIST) {
        fault(c, n, path, "expected a list of strings", NULL);
        return;
    }
    for (size_t i = 0; i < n->count; i++)
        if (n->items[i].type != ABX_YAML_STR)
            fault(c, &n->items[i], path, "expected a list of strings", "put it in quotes");
}

/* A mapping with exactly these keys allowed, each by its check. */
static void check_table(struct checker *c, const struct abx_yaml *n, const struct rule *rules,
                        const char *path)
{
    const char *names[16];
    size_t count = 0;
    if (n->type != ABX_YAML_MAP) {
        fault(c, n, path, "expected a mapping", NULL);
        return;
    }
    for (const struct rule *r = rules; r->key && count + 1 < ABX_COUNTOF(names); r++)
        names[count++] = r->key;
    names[count] = NULL;
    check_keys(c, n, names, path);
    for (const struct rule *r = rules; r->key; r++) {
        const struct abx_yaml *value = abx_yaml_get(n, r->key);
        char below[320];
        snprintf(below, sizeof(below), "%s.%s", path, r->key);
        if (value != NULL && r->check != NULL)
            r->check(c, value, below);
    }
}

static void check_paths(struct checker *c, const struct abx_yaml *n, const char *path)
{
    static const struct rule rules[] = {
        {"allow", NULL}, {"deny", NULL}, {"read_only", NULL}, {"symlinks", NULL}, {0}};
    check_table(c, n, rules, path);
}

static void check_endpoint(struct checker *c, const struct abx_yaml *n, const char *path)
{
    static const struct rule rules[] = {{"enabled", check_bool},
                                        {"scopes", check_strings},
                                        {"paths", check_paths},
                                        {"limits", check_map},
                                        {"params", check_map},
                                        {"audit", NULL},
                                        {0}};
    check_table(c, n, rules, path);
}

static void check_endpoints(struct checker *c, const struct abx_yaml *n, const char *path)
{
    if (n->type != ABX_YAML_MAP) {
        fault(c, n, path, "expected a mapping", NULL);
        return;
    }
    for (size_t i = 0; i < n->count; i++) {
        char below[256];
        snprintf(below, sizeof(below), "%s.%.*s", path,
                 ABX_STR_FMT(abx_str_sub(n->items[i].key, 0, 128)));
        check_endpoint(c, &n->items[i], below);
    }
}

static const char *const group_names[] = {"core",   "commands",  "file_ops", "process", "terminal",
                                          "system", "dev_tools", "browser",  "agents",  NULL};

static void check_group_word(struct checker *c, const struct abx_yaml *n, const char *path)
{
    if (n->type != ABX_YAML_STR || !is_known(n->text, group_names))
        fault(c, n, path, "no such group",
              "core, commands, file_ops, process, terminal, system, dev_tools, browser, agents");
}

static void check_groups(struct checker *c, const struct abx_yaml *n, const char *path)
{
    if (n->type == ABX_YAML_LIST) {
        for (size_t i = 0; i < n->count; i++)
            check_group_word(c, &n->items[i], path);
        return;
    }
    if (n->type != ABX_YAML_MAP) {
        fault(c, n, path, "expected a list of names, or a mapping of names to booleans", NULL);
        return;
    }
    check_keys(c, n, group_names, path);
    for (size_t i = 0; i < n->count; i++) {
        char below[256];
        snprintf(below, sizeof(below), "%s.%.*s", path,
                 ABX_STR_FMT(abx_str_sub(n->items[i].key, 0, 128)));
        expect(c, &n->items[i], ABX_YAML_BOOL, below);
        if (abx_str_is(n->items[i].key, "core") && abx_str_is(n->items[i].text, "false"))
            fault(c, &n->items[i], below, "the core group can not be switched off", NULL);
    }
}

static void check_preset(struct checker *c, const struct abx_yaml *n, const char *path)
{
    static const char *const presets[] = {"default",  "transfer-only", "read-only",
                                          "hardened", "locked",        NULL};
    if (n->type != ABX_YAML_STR || !is_known(n->text, presets))
        fault(c, n, path, "no such preset",
              "default, transfer-only, read-only, hardened or locked");
}

int cli_server_block_check(const struct cli_source *source, const struct abx_yaml *server,
                           struct cli_findings *f)
{
    static const struct rule rules[] = {{"version", NULL},
                                        {"preset", check_preset},
                                        {"base_dir", NULL},
                                        {"groups", check_groups},
                                        {"defaults", check_endpoint},
                                        {"auth", NULL},
                                        {"endpoints", check_endpoints},
                                        {"description", NULL},
                                        {0}};
    struct checker c = {.source = source, .f = f};
    check_table(&c, server, rules, "server");
    return c.faults ? -1 : 0;
}
