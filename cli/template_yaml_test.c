/* cli/template_yaml_test.c: the published schema, what is refused and where, the compiled policy.
 */
#include "cli/template_yaml.h"
#include "tests/unit/test.h"

#include <stdlib.h>
#include <string.h>

#define HEAD "spec_version: 5\nname: x\nprovides: {}\n"

struct read {
    struct abx_arena a;
    struct cli_findings f;
    struct cli_source source;
    struct cli_template t;
    int result;
};
static struct read got;

static struct read *read_text(const char *text)
{
    abx_arena_done(&got.a);
    cli_findings_done(&got.f);
    abx_arena_init(&got.a, 32 << 20);
    cli_findings_init(&got.f);
    got.source = (struct cli_source){"template.yaml", abx_str(text)};
    got.result = cli_template_read(&got.source, &got.a, &got.f, &got.t);
    return &got;
}

/* "line:column text" of the first finding, "" without one. */
static const char *first(const char *text)
{
    static char out[512];
    struct read *r = read_text(text);
    out[0] = '\0';
    if (r->f.count)
        snprintf(out, sizeof(out), "%u:%u %s", r->f.items[0].line, r->f.items[0].column,
                 r->f.items[0].text);
    return out;
}

TEST(the_published_schema_loads_unchanged)
{
    struct read *r =
        read_text("spec_version: 5\n"
                  "name: hello\n"
                  "version: '1.0'\n"
                  "description: >-\n  two\n  lines\n"
                  "author: a\nlicense: Apache-2.0\ntags: [a, b]\n"
                  "cpu_count: 2\nmemory_mb: 1024\nports: [9000, 8080]\n"
                  "env:\n  A: 'b'\n  KEY:\n"
                  "start_cmd: agent-sandbox-server serve\n"
                  "ready_cmd: agent-sandbox-server healthcheck\n"
                  "provides:\n"
                  "  server:\n"
                  "    protocol: agent-sandbox-server\n    version: 2\n    port: 9100\n"
                  "    operations: [run_command]\n"
                  "server:\n  preset: hardened\n  groups: [commands, file_ops]\n"
                  "  endpoints:\n    files_list: {limits: {max_entries: 5}}\n");
    assert_int_equal(r->result, 0);
    assert_int_equal(r->f.by_level[CLI_ERROR], 0);
    assert_string_equal(r->t.name, "hello");
    assert_string_equal(r->t.description, "two lines");
    assert_int_equal(r->t.memory_mb, 1024);
    assert_int_equal(r->t.server_port, 9100);
    assert_string_equal(r->t.policy_json,
                        "{\"endpoints\":{\"files_list\":{\"limits\":{\"max_entries\":5}}},"
                        "\"groups\":[\"commands\",\"file_ops\"],\"preset\":\"hardened\"}");
    assert_int_equal(strlen(r->t.revision), 16);
}

TEST(the_order_of_keys_does_not_change_the_policy)
{
    char one[1024], revision[17];
    struct read *r =
        read_text(HEAD "server: {preset: locked, groups: {file_ops: true, core: true}}\n");
    snprintf(one, sizeof(one), "%s", r->t.policy_json);
    snprintf(revision, sizeof(revision), "%s", r->t.revision);
    r = read_text(HEAD
                  "server:\n  groups:\n    core: true\n    file_ops: true\n  preset: locked\n");
    assert_string_equal(r->t.policy_json, one);
    assert_string_equal(r->t.revision, revision);
}

TEST(mistakes_have_their_place)
{
    static const struct {
        const char *text, *finding;
    } rows[] = {
        {"", "1:1 the document is no mapping"},
        {"a: b\rc: d\n", "1:5 a carriage return"},
        {"[1]", "1:1 the document is no mapping"},
        {"name: x\nprovides: {}\n", "1:1 spec_version is missing"},
        {"spec_version: 4\nname: x\nprovides: {}\n", "1:15 spec_version is the integer 5"},
        {"spec_version: '5'\nname: x\nprovides: {}\n", "1:15 spec_version is the integer 5"},
        {HEAD "version: 1.0\n", "4:10 version: expected a string"},
        {HEAD "start_cmd: ''\n", "4:12 start_cmd: empty"},
        {HEAD "cpu_count: two\n", "4:12 cpu_count: expected an integer"},
        {HEAD "ports: [70000]\n", "4:1 ports: expected a list"},
        {HEAD "description: yes\n", "4:14 a boolean to some readers"},
        {HEAD "version: 012\n", "4:10 not the same to all readers"},
        {HEAD "env: {A: 1}\n", "4:10 A: expected a string"},
        {HEAD "name: y\n", "4:1 duplicate key"},
        {HEAD "tags: &a [x]\nother: *a\n", "5:"},
        {HEAD "tags: !!set {x}\n", "4:"},
        {HEAD "prots: [1]\n", "4:1 no key 'prots'"},
        {HEAD "capabilities: [shell]\n", "4:1 capabilities is of an older specification"},
        {HEAD "system_packages: [curl]\n", "4:1 system_packages is of an older specification"},
        {HEAD "secrets: [A]\n", "4:1 secrets are not built"},
        {HEAD "confine: {}\n", "4:1 confine is not built"},
        {HEAD "platforms: [linux/arm64]\n", "4:13 sandboxes are linux/amd64 only"},
        {HEAD "envd_inject: maybe\n", "4:14 envd_inject is one of"},
        {HEAD "provider: p\n", "4:11 provider needs template_id"},
        {"spec_version: 5\nname: x\nprovides: {S: {}}\n", "3:12 no service name"},
        {"spec_version: 5\nname: x\nprovides: {s: {protocol: p, version: 0, port: 1, operations: "
         "[]}}\n",
         "3:38 version is an integer from 1"},
        {HEAD "server: {presets: locked}\n", "4:10 server: unknown key 'presets'"},
        {HEAD "server: {preset: lokced}\n", "4:18 server.preset: no such preset"},
        {HEAD "server: {groups: {core: false}}\n", "4:25 server.groups.core: the core group"},
        {HEAD "server: {groups: [files]}\n", "4:19 server.groups: no such group"},
        {HEAD "server: {endpoints: {x: {enabled: 1}}}\n",
         "4:35 server.endpoints.x.enabled: expected a boolean"},
        {HEAD "server: {endpoints: {shell: {paths: {alow: []}}}}\n",
         "4:38 server.endpoints.shell.paths: unknown key 'alow'"},
        {HEAD "server: {endpoints: {shell: {limits: {max_bites: 1}}}}\n", "4:"},
        {HEAD "a: [\n", "5:"},
        {HEAD "\tb: 1\n", "4:"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *text = first(rows[i].text);
        if (strncmp(text, rows[i].finding, strlen(rows[i].finding)) != 0)
            fail_msg("row %zu: '%s' is not '%s'", i, text, rows[i].finding);
    }
}

TEST(a_mistyped_key_gets_a_suggestion)
{
    struct read *r = read_text(HEAD "strat_cmd: x\n");
    assert_int_equal(r->f.count, 1);
    assert_int_equal(r->f.items[0].level, CLI_WARNING);
    assert_string_equal(r->f.items[0].advice, "did you mean start_cmd?");
    assert_int_equal(r->result, 0);
}

TEST(all_mistakes_are_told_in_one_run)
{
    struct read *r = read_text("spec_version: 4\nname: ''\nprovides: 1\nports: x\nserver: 1\n");
    assert_int_equal(r->f.by_level[CLI_ERROR], 5);
}

TEST(findings_show_the_line_and_a_caret)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    struct read *r = read_text(HEAD "cpu_count: zwei\n");
    cli_findings_print(&r->f, out);
    fclose(out);
    assert_string_equal(text, "template.yaml:4:12: error: cpu_count: expected an integer from 1 to "
                              "64 [Y]\n    4 | cpu_count: zwei\n      |            ^~~~\n");
    free(text);
}
