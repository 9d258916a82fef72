/* lib/policy/confine_test.c: the key `confine` and the views that follow from a document. */
#include "lib/policy/confine.h"

#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "tests/unit/alloc.h"
#include "tests/unit/test.h"

#include <stdio.h>

#include "lib/base/banned.h"

#define TOKENS                                                                                     \
    "\"auth\":{\"tokens\":["                                                                       \
    "{\"id\":\"wide\",\"scopes\":[\"*\"],\"token_sha256\":"                                        \
    "\"0000000000000000000000000000000000000000000000000000000000000000\"},"                       \
    "{\"id\":\"reader\",\"scopes\":[\"files:read\",\"process:*\"],\"token_sha256\":"               \
    "\"0000000000000000000000000000000000000000000000000000000000000001\"},"                       \
    "{\"id\":\"writer\",\"scopes\":[\"files:*\",\"process:*\"],\"token_sha256\":"                  \
    "\"0000000000000000000000000000000000000000000000000000000000000002\"},"                       \
    "{\"id\":\"runner\",\"scopes\":[\"process:*\"],\"token_sha256\":"                              \
    "\"0000000000000000000000000000000000000000000000000000000000000003\"}]},"

static struct abx_policy *load_on(const char *text, const char *confine, unsigned layers)
{
    struct abx_policy_facts facts = {.text = abx_str(text),
                                     .has_text = true,
                                     .base_dir = ABX_STR("/home/user"),
                                     .confine_text = abx_str(confine),
                                     .layers = layers};
    struct abx_policy *p = NULL;
    struct abx_report report;
    abx_report_init(&report);
    if (abx_policy_load(&facts, &p, &report) < 0)
        fail_msg("%s: %s", text, abx_report_first_error(&report)->text);
    abx_report_done(&report);
    return p;
}

static struct abx_policy *load(const char *text, const char *confine)
{
    return load_on(text, confine, ABX_LAYER_ALL);
}

static void put(struct abx_buf *out, const char *name, struct abx_str_list roots)
{
    abx_buf_put_c(out, name);
    for (size_t i = 0; i < roots.count; i++)
        abx_buf_putf(out, " %.*s", ABX_STR_FMT(roots.items[i]));
    abx_buf_put_byte(out, ';');
}

static void put_ports(struct abx_buf *out, const char *name, struct abx_policy_ports ports)
{
    abx_buf_putf(out, "%s", name);
    for (size_t i = 0; i < ports.count; i++)
        abx_buf_putf(out, " %u", ports.items[i]);
    abx_buf_put_c(out, ports.is_limited ? ";" : " any;");
}

struct row {
    const char *text, *id, *endpoint, *want;
};

static void check(const struct row *row)
{
    struct abx_policy *p = load(row->text, NULL);
    struct abx_policy_identity who;
    struct abx_policy_view v;
    struct abx_arena a;
    ABX_AUTO_BUF out;
    size_t at = 0;
    abx_buf_init(&out, 4096);
    abx_arena_init(&a, 4 << 20);
    while (abx_policy_identity_at(p, at, &who) && !abx_str_is(who.id, row->id))
        at++;
    assert_true(abx_str_is(who.id, row->id));
    const struct abx_policy_rule *rule = abx_policy_rule(p, abx_str(row->endpoint));
    assert_int_equal(abx_policy_view(p, rule, &who, NULL, NULL, &a, &v), 0);
    put(&out, "r", v.read);
    put(&out, "w", v.write);
    put_ports(&out, "c", v.connect);
    put_ports(&out, "b", v.bind);
    abx_buf_putf(&out, "%s%s%s needs %u", v.no_udp ? "-udp" : "", v.no_unix ? "-unix" : "",
                 v.is_privileged ? "+root" : "", v.needs);
    if (strcmp(out.ptr, row->want) != 0)
        fail_msg("%s as %s by %s:\n  %s\n, not\n  %s", row->text, row->id, row->endpoint, out.ptr,
                 row->want);
    abx_arena_done(&a);
    abx_policy_unref(p);
}

TEST(views_follow_from_file_endpoints_scopes_and_own_paths)
{
    static const struct row rows[] = {
        {"{\"confine\":\"auto\"}", "anonymous", "shell",
         "r /home/user;w /home/user;c any;b any; needs 9"},
        {"{" TOKENS "\"confine\":\"auto\"}", "wide", "shell",
         "r /home/user;w /home/user;c any;b any; needs 11"},
        {"{" TOKENS "\"confine\":\"auto\"}", "reader", "shell",
         "r /home/user;w;c 80 443;b any;-unix needs 15"},
        {"{" TOKENS "\"confine\":\"auto\"}", "writer", "shell",
         "r /home/user;w /home/user;c 80 443;b any;-unix needs 15"},
        /* no file endpoint: the base directory */
        {"{" TOKENS "\"confine\":\"auto\"}", "runner", "shell",
         "r;w /home/user;c 80 443;b any;-unix needs 15"},
        /* roots of readers and writers apart */
        {"{\"confine\":\"auto\",\"endpoints\":{\"files_*\":{\"paths\":{\"allow\":[\"/home/"
         "user\",\"/data\"]}},"
         "\"files_mkdir\":{\"paths\":{\"allow\":[\"/home/user\"]}},"
         "\"files_upload_stream\":{\"paths\":{\"allow\":[\"/home/user\"]}},"
         "\"files_move\":{\"paths\":{\"allow\":[\"/home/user\"]}},"
         "\"files_delete\":{\"paths\":{\"read_only\":true}}}}",
         "anonymous", "shell", "r /home/user /data;w /home/user;c any;b any; needs 9"},
        /* the endpoint's own rule cuts both */
        {"{\"confine\":\"auto\",\"endpoints\":{\"shell\":{\"paths\":{\"allow\":[\"/home/user/"
         "a\"]}}}}",
         "anonymous", "shell", "r /home/user/a;w /home/user/a;c any;b any; needs 9"},
        {"{\"confine\":\"auto\",\"endpoints\":{\"shell\":{\"paths\":{\"allow\":[\"/srv\",\"/"
         "\"]}}}}",
         "anonymous", "shell", "r /home/user;w /home/user;c any;b any; needs 9"},
        {"{\"confine\":\"auto\",\"endpoints\":{\"shell\":{\"paths\":{\"allow\":[\"/home/use\"]}}}}",
         "anonymous", "shell", "r;w;c any;b any; needs 9"},
        {"{\"confine\":\"auto\",\"endpoints\":{\"shell\":{\"paths\":{\"read_only\":true}}}}",
         "anonymous", "shell", "r /home/user;w;c any;b any; needs 9"},
        /* everything, and what is added */
        {"{\"confine\":\"auto\",\"base_dir\":\"/\"}", "anonymous", "shell",
         "r /;w /;c any;b any; needs 0"},
        {"{\"confine\":{\"mode\":\"auto\",\"read\":[\"/usr/share/x\"],\"write\":[\"/var/cache/../"
         "c\"]}}",
         "anonymous", "shell",
         "r /home/user /usr/share/x;w /home/user /var/c;c any;b any; needs 9"},
        /* nothing of /proc, /sys, /dev */
        {"{\"confine\":{\"mode\":\"auto\",\"read\":[\"/proc/1\",\"/dev\",\"/sys/x\"]}}",
         "anonymous", "shell", "r /home/user;w /home/user;c any;b any; needs 9"},
        /* the network as written holds for all */
        {"{" TOKENS "\"confine\":{\"mode\":\"auto\",\"network\":{\"connect_ports\":[8080],"
         "\"bind_ports\":[],\"udp\":false,\"unix\":true}}}",
         "reader", "shell", "r /home/user;w;c 8080;b;-udp needs 15"},
        {"{" TOKENS "\"confine\":{\"mode\":\"auto\",\"network\":{\"udp\":false}}}", "wide", "shell",
         "r /home/user;w /home/user;c any;b any;-udp needs 15"},
        /* privileges are the wide one's alone */
        {"{" TOKENS "\"confine\":{\"mode\":\"auto\",\"privileged\":true}}", "wide", "shell",
         "r /home/user;w /home/user;c any;b any;+root needs 11"},
        {"{" TOKENS "\"confine\":{\"mode\":\"auto\",\"privileged\":true}}", "writer", "shell",
         "r /home/user;w /home/user;c 80 443;b any;-unix needs 15"},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++)
        check(&rows[i]);
}

/* S08: what no file endpoint shows is hidden from programs. */
TEST(what_is_denied_by_name_everywhere_is_hidden)
{
#define FILES(paths) "{\"confine\":\"auto\",\"endpoints\":{\"files_*\":{\"paths\":" paths "}}}"
    static const struct row rows[] = {
        {"{\"confine\":\"auto\"}", NULL, "shell", ""},
        {FILES("{\"deny\":[\"/home/user/a\",\"/home/user/b/\"]}"), NULL, "shell",
         "/home/user/a /home/user/b deny"},
        /* patterns are not names */
        {FILES("{\"deny\":[\"/home/user/a\",\"*.pem\",\"**/.ssh/**\"]}"), NULL, "shell",
         "/home/user/a deny advisory"},
        {FILES("{\"deny\":[\"/home/user/a?\",\"/home/[u]ser/b\"]}"), NULL, "shell",
         "deny advisory"},
        {FILES("{\"deny\":[\"/home/user/../x\",\"a\",\"b/c\"]}"), NULL, "shell", "deny advisory"},
        /* outside the roots: those hold it. Above them: all is gone. */
        {FILES("{\"deny\":[\"/srv/a\"]}"), NULL, "shell", "deny"},
        {FILES("{\"deny\":[\"/home\"]}"), NULL, "shell", "/home deny"},
        /* the system's own */
        {FILES("{\"allow\":[\"/\"],\"deny\":[\"/etc/passwd\",\"/usr\",\"/proc\",\"/srv\"]}"), NULL,
         "shell", "/srv deny advisory"},
        /* one that shows it is enough; one that denies what lies above hides it too */
        {"{\"confine\":\"auto\",\"endpoints\":{\"files_*\":{\"paths\":{\"deny\":[\"/home/user/"
         "a\"]}},"
         "\"files_list\":{\"paths\":{\"deny\":[]}}}}",
         NULL, "shell", "/home/user/a deny"},
        {"{\"confine\":\"auto\",\"endpoints\":{\"files_delete\":{\"paths\":{\"deny\":[\"/home/user/"
         "a\"]"
         "}}}}",
         NULL, "shell", "deny advisory"},
        /* the endpoint's own, for what runs through it */
        {"{\"confine\":\"auto\",\"endpoints\":{\"shell\":{\"paths\":{\"deny\":[\"/home/user/"
         "a\"]}}}}",
         NULL, "shell", "/home/user/a deny"},
        {"{\"confine\":\"auto\",\"endpoints\":{\"shell\":{\"paths\":{\"deny\":[\"/home/user/"
         "a\"]}}}}",
         NULL, "process_start", ""},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_policy *p = load(rows[i].text, NULL);
        struct abx_policy_identity who;
        struct abx_policy_view v;
        struct abx_arena a;
        ABX_AUTO_BUF out;
        abx_buf_init(&out, 4096);
        abx_arena_init(&a, 4 << 20);
        assert_true(abx_policy_identity_at(p, 0, &who));
        assert_int_equal(abx_policy_view(p, abx_policy_rule(p, abx_str(rows[i].endpoint)), &who,
                                         NULL, NULL, &a, &v),
                         0);
        for (size_t k = 0; k < v.hidden.count; k++)
            abx_buf_putf(&out, "%s%.*s", k ? " " : "", ABX_STR_FMT(v.hidden.items[k]));
        abx_buf_putf(&out, "%s%s", v.has_deny ? (v.hidden.count ? " deny" : "deny") : "",
                     v.is_advisory ? " advisory" : "");
        if (strcmp(out.ptr, rows[i].want) != 0)
            fail_msg("%s by %s: '%s', not '%s'", rows[i].text, rows[i].endpoint, out.ptr,
                     rows[i].want);
        abx_arena_done(&a);
        abx_policy_unref(p);
    }
}

/* Roots mean what their links mean, and are cut by what they mean. */
static struct abx_str resolve(void *ctx, struct abx_str path, struct abx_arena *a)
{
    (void)ctx;
    (void)a;
    if (abx_str_is(path, "/home/user/a"))
        return ABX_STR("/etc");
    if (abx_str_is(path, "/missing"))
        return (struct abx_str){0};
    return path;
}

TEST(a_root_that_links_outside_is_cut_off)
{
    struct abx_policy *p =
        load("{\"confine\":{\"mode\":\"auto\",\"read\":[\"/missing\"]},\"endpoints\":{\"shell\":{"
             "\"paths\":{\"allow\":[\"/home/user/a\"]}}}}",
             NULL);
    struct abx_policy_identity who;
    struct abx_policy_view v;
    struct abx_arena a;
    abx_arena_init(&a, 4 << 20);
    assert_true(abx_policy_identity_at(p, 0, &who));
    assert_int_equal(
        abx_policy_view(p, abx_policy_rule(p, ABX_STR("shell")), &who, resolve, NULL, &a, &v), 0);
    assert_int_equal(v.read.count, 0);
    assert_int_equal(v.write.count, 0);
    abx_arena_done(&a);
    abx_policy_unref(p);
}

TEST(a_confinement_from_elsewhere_replaces_the_documents)
{
    struct abx_policy *p = load("{\"confine\":\"off\"}",
                                "{\"mode\":\"require\",\"nested_pty\":true}"),
                      *q = load("{\"confine\":\"off\"}", NULL);
    assert_int_equal(abx_policy_confine(p), ABX_CONFINE_REQUIRE);
    assert_true(abx_policy_confinement(p)->nested_pty);
    assert_string_equal(abx_policy_revision(p), abx_policy_revision(q));
    assert_string_equal(abx_confine_mode_name(ABX_CONFINE_REQUIRE), "require");
    abx_policy_unref(p);
    abx_policy_unref(q);
}

TEST(layers_are_missing_where_a_caller_reaches_what_needs_them)
{
    struct abx_policy *p = load("{" TOKENS "\"confine\":\"auto\"}", NULL);
    assert_int_equal(abx_policy_missing_layers(p, ABX_LAYER_ALL), 0);
    assert_int_equal(abx_policy_missing_layers(p, 0), ABX_LAYER_ALL);
    assert_int_equal(abx_policy_missing_layers(p, ABX_LAYER_ALL & ~ABX_LAYER_SIGNALS),
                     ABX_LAYER_SIGNALS);
    abx_policy_unref(p);
    p = load("{\"confine\":\"auto\",\"endpoints\":{\"*\":{\"enabled\":false},\"files_list\":{"
             "\"enabled\":true}}}",
             NULL);
    assert_int_equal(abx_policy_missing_layers(p, 0), 0);
    abx_policy_unref(p);
}

/* The document's own caller needs no layer for its shell; for a page, which is nobody's, all. */
TEST(s19_the_browser_needs_every_layer)
{
    struct abx_policy_identity who;
    struct abx_policy_verdict v;
    struct abx_policy *p =
        load_on("{\"confine\":{\"mode\":\"auto\",\"write\":[\"/\"]},\"groups\":[\"process\","
                "\"browser\"]}",
                NULL, ABX_LAYER_ALL & ~ABX_LAYER_NETWORK);
    const struct abx_policy_rule *shell = abx_policy_rule(p, ABX_STR("shell")),
                                 *click = abx_policy_rule(p, ABX_STR("browser_click"));
    assert_true(abx_policy_identity_at(p, 0, &who));
    assert_int_equal(abx_policy_missing_layers(p, 0), ABX_LAYER_ALL);
    assert_true(abx_policy_judge(p, shell, &who, &v));
    assert_false(abx_policy_judge(p, click, &who, &v));
    assert_string_equal(abx_policy_code_name(v.code), "confinement_unavailable");
    abx_policy_unref(p);
}

TEST(every_failed_allocation_of_a_view_is_told)
{
    struct abx_policy *p = load("{" TOKENS "\"confine\":\"auto\"}", NULL);
    struct abx_policy_identity who;
    assert_true(abx_policy_identity_at(p, 1, &who));
    for (unsigned n = 1; abx_alloc_fail(n); n++) {
        struct abx_arena a;
        struct abx_policy_view v;
        abx_arena_init(&a, 4 << 20);
        int r = abx_policy_view(p, abx_policy_rule(p, ABX_STR("shell")), &who, NULL, NULL, &a, &v);
        assert_int_equal(r, abx_alloc_failed() ? -1 : 0);
        abx_arena_done(&a);
    }
    abx_policy_unref(p);
}
