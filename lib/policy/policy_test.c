/* lib/policy/policy_test.c: loading, mistakes with their places, verdicts, identities, rates. */
#include "lib/policy/policy.h"

#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "lib/json/json.h"
#include "lib/policy/meter.h"
#include "tests/unit/alloc.h"
#include "tests/unit/test.h"

#include <stdio.h>

#include "lib/base/banned.h"

static const char *no_env(void *ctx, const char *name)
{
    const char *const *pairs = ctx;
    for (; pairs != NULL && *pairs != NULL; pairs += 2)
        if (strcmp(pairs[0], name) == 0)
            return pairs[1];
    return NULL;
}

static struct abx_policy_facts facts_of(const char *text)
{
    return (struct abx_policy_facts){.text = abx_str(text), .has_text = true, .getenv = no_env};
}

static struct abx_policy *load(const char *text)
{
    struct abx_policy_facts facts = facts_of(text);
    struct abx_policy *p = NULL;
    struct abx_report report;
    abx_report_init(&report);
    if (abx_policy_load(&facts, &p, &report) < 0)
        fail_msg("%s: %s", text, abx_report_first_error(&report)->text);
    abx_report_done(&report);
    return p;
}

/* ---- mistakes ---- */

struct planted {
    const char *place, *pointer, *says;
    unsigned line, column;
};

TEST(ten_mistakes_are_said_in_one_run_with_pointer_line_and_advice)
{
    static const char text[] = "{\n"
                               "  \"prset\": \"locked\",\n"
                               "  \"version\": 2,\n"
                               "  \"base_dir\": \"srv\",\n"
                               "  \"groups\": {\"proces\": true},\n"
                               "  \"auth\": {\"tokens\": [{\"id\": \"a\", \"scopes\": [\"X\"],\n"
                               "    \"token_sha256\": \"00\"}]},\n"
                               "  \"endpoints\": {\n"
                               "    \"shell\": {\"limits\": {\"max_bytes\": 5, "
                               "\"max_output_bytes\": \"5M\"}},\n"
                               "    \"files_lst\": {\"enabled\": \"yes\"}\n"
                               "  }\n"
                               "}\n";
    static const struct planted planted[] = {
        {"policy.prset", "/prset", "did you mean \"preset\"", 2, 3},
        {"policy.version", "/version", "integer 1", 3, 14},
        {"policy.base_dir", "/base_dir", "absolute", 4, 15},
        {"policy.groups.proces", "/groups/proces", "did you mean \"process\"", 5, 14},
        {"policy.auth.tokens[0].scopes", "/auth/tokens/0/scopes", "lower case", 6, 45},
        {"policy.auth.tokens[0].token_sha256", "/auth/tokens/0/token_sha256", "64 hex", 7, 21},
        {NULL, "/endpoints/shell/limits/max_output_bytes", "5MB", 9, 62},
        {"policy.endpoints.files_lst.enabled", "/endpoints/files_lst/enabled", "true or false", 10,
         30},
        {"policy.endpoints.files_lst", "/endpoints/files_lst", "did you mean \"files_list\"", 10,
         5},
        {"policy.endpoints.shell.limits.max_bytes", "/endpoints/shell/limits/max_bytes",
         "it has: ", 9, 26},
    };
    struct abx_policy_facts facts = facts_of(text);
    struct abx_policy *p = NULL;
    struct abx_report report;
    abx_report_init(&report);
    assert_int_equal(abx_policy_load(&facts, &p, &report), -1);
    assert_int_equal(report.errors, ABX_COUNTOF(planted));
    for (size_t i = 0; i < ABX_COUNTOF(planted); i++) {
        const struct abx_finding *f = &report.items[i];
        if (planted[i].place == NULL)
            assert_null(f->place);
        else
            assert_string_equal(f->place, planted[i].place);
        assert_string_equal(f->pointer, planted[i].pointer);
        assert_non_null(strstr(f->text, planted[i].says));
        assert_int_equal(f->line, planted[i].line);
        assert_int_equal(f->column, planted[i].column);
    }
    abx_report_done(&report);
}

TEST(text_that_is_no_json_is_placed)
{
    static const struct {
        const char *text;
        unsigned line, column;
    } rows[] = {{"", 1, 1},
                {"{\n  \"a\" 1}", 2, 7},
                {"{\"a\":NaN}", 1, 6},
                {"{\"a\":1e400}", 1, 6},
                {"\xef\xbb\xbf{}", 1, 1},
                {"{\"d\":\"\xff\"}", 1, 7},
                {"{} x", 1, 4},
                {"{\"version\":1,}", 1, 14}};
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_policy_facts facts = facts_of(rows[i].text);
        struct abx_policy *p = NULL;
        struct abx_report report;
        abx_report_init(&report);
        assert_int_equal(abx_policy_load(&facts, &p, &report), -1);
        assert_int_equal(report.errors, 1);
        if (report.items[0].line != rows[i].line || report.items[0].column != rows[i].column)
            fail_msg("%s: at %u:%u, wanted %u:%u", rows[i].text, report.items[0].line,
                     report.items[0].column, rows[i].line, rows[i].column);
        abx_report_done(&report);
    }
}

/* ---- revision ---- */

TEST(the_revision_is_the_published_one)
{
    static const struct {
        const char *text, *revision;
    } rows[] = {
        {"{}", "2430f1a2ad2982d0"},
        {"{\"preset\":\"locked\"}", "23044476048c9315"},
        {"{\"endpoints\":{\"shell\":{\"limits\":{\"timeout_seconds\":1e-7}}}}", "1d8b03f51f24a1e2"},
        {"{\"description\":[1,null,true,\"x\"]}", "87cb5302d25df6e8"},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_policy *p = load(rows[i].text);
        assert_string_equal(abx_policy_revision(p), rows[i].revision);
        abx_policy_unref(p);
    }
}

/* ---- identities ---- */

#define ALPHA "alpha-token-0123456789abcdef"
#define BRAVO "bravo-token-0123456789abcdef"

static struct abx_policy *load_tokens(const char *more)
{
    static const char *env[] = {"A", ALPHA, "B", BRAVO, NULL};
    char text[512];
    snprintf(text, sizeof(text),
             "{\"auth\":{\"tokens\":[{\"id\":\"adm\",\"scopes\":[\"*\"],\"token_env\":\"A\"},"
             "{\"id\":\"rd\",\"scopes\":[\"files:read\"],\"token_env\":\"B\"}]%s}}",
             more);
    struct abx_policy_facts facts = facts_of(text);
    facts.getenv_ctx = env;
    struct abx_policy *p = NULL;
    struct abx_report report;
    abx_report_init(&report);
    assert_int_equal(abx_policy_load(&facts, &p, &report), 0);
    abx_report_done(&report);
    return p;
}

TEST(the_first_good_credential_names_the_caller)
{
    static const struct {
        const char *bearer, *x, *more, *id;
        enum abx_policy_code code;
    } rows[] = {
        {"Bearer " ALPHA, NULL, "", "adm", 0},
        {"bEaReR   " BRAVO "  ", NULL, "", "rd", 0},
        {NULL, BRAVO, "", "rd", 0},
        {"Bearer nope", ALPHA, "", "adm", 0},
        {"Bearer " BRAVO, ALPHA, "", "rd", 0},
        {"Bearer nope", NULL, "", NULL, ABX_POLICY_UNAUTHORIZED},
        {"Bearer nope", NULL, ",\"allow_anonymous\":true", NULL, ABX_POLICY_UNAUTHORIZED},
        {NULL, "nope", ",\"allow_anonymous\":true", "anonymous", 0},
        {NULL, "nope", "", NULL, ABX_POLICY_UNAUTHORIZED},
        {"Basic " ALPHA, NULL, ",\"allow_anonymous\":true", "anonymous", 0},
        {ALPHA, NULL, "", NULL, ABX_POLICY_UNAUTHORIZED},
        {NULL, NULL, "", NULL, ABX_POLICY_UNAUTHORIZED},
        {NULL, NULL, ",\"allow_anonymous\":true", "anonymous", 0},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_policy *p = load_tokens(rows[i].more);
        struct abx_str bearer = abx_str(rows[i].bearer), x = abx_str(rows[i].x);
        struct abx_policy_credentials given = {&bearer, rows[i].bearer != NULL, &x,
                                               rows[i].x != NULL};
        struct abx_policy_identity who = {0};
        struct abx_policy_verdict v = {0};
        bool ok = abx_policy_identify(p, abx_policy_rule(p, ABX_STR("shell")), &given, &who, &v);
        if (ok != (rows[i].id != NULL) || v.code != rows[i].code ||
            (ok && !abx_str_is(who.id, rows[i].id)))
            fail_msg("row %zu: %d %.*s code %u", i, ok, ABX_STR_FMT(who.id), v.code);
        abx_policy_unref(p);
    }
}

TEST(two_different_access_tokens_are_ambiguous_only_where_tokens_exist)
{
    struct abx_str both[] = {ABX_STR(ALPHA), ABX_STR("")};
    struct abx_policy_credentials given = {NULL, 0, both, 2};
    struct abx_policy_identity who;
    struct abx_policy_verdict v = {0};
    struct abx_policy *p = load_tokens("");
    assert_false(abx_policy_identify(p, abx_policy_rule(p, ABX_STR("shell")), &given, &who, &v));
    assert_int_equal(v.code, ABX_POLICY_AMBIGUOUS_CREDENTIALS);
    assert_true(abx_policy_identify(p, abx_policy_rule(p, ABX_STR("health")), &given, &who, &v));
    assert_int_equal(who.scopes.count, 0);
    abx_policy_unref(p);
    p = load("{}");
    assert_true(abx_policy_identify(p, abx_policy_rule(p, ABX_STR("shell")), &given, &who, &v));
    assert_true(abx_str_is(who.id, "anonymous"));
    abx_policy_unref(p);
}

TEST(the_legacy_token_is_an_identity_and_part_of_the_revision)
{
    struct abx_policy_facts facts = {.legacy_token = ABX_STR(ALPHA)};
    struct abx_str bearer = ABX_STR("Bearer " ALPHA);
    struct abx_policy_credentials given = {&bearer, 1, NULL, 0};
    struct abx_policy_identity who = {0};
    struct abx_policy_verdict v = {0};
    struct abx_policy *p = NULL;
    struct abx_report report;
    abx_report_init(&report);
    assert_int_equal(abx_policy_load(&facts, &p, &report), 0);
    assert_true(abx_policy_identify(p, abx_policy_rule(p, ABX_STR("shell")), &given, &who, &v));
    assert_true(abx_str_is(who.id, "server"));
    assert_string_not_equal(abx_policy_revision(p), "2430f1a2ad2982d0");
    assert_true(abx_policy_is_secret_env(p, ABX_STR("ABX_SERVER_TOKEN")));
    abx_policy_unref(p);
    abx_report_done(&report);
}

/* ---- verdicts ---- */

TEST(a_refusal_says_what_the_published_server_says)
{
    struct abx_policy *p = load_tokens("");
    struct abx_policy_identity who;
    struct abx_policy_verdict v;
    ABX_AUTO_BUF body;
    abx_buf_init(&body, 4096);
    struct abx_json_writer w;
    assert_true(abx_policy_identity_at(p, 1, &who));
    assert_true(abx_policy_judge(p, abx_policy_rule(p, ABX_STR("files_list")), &who, &v));
    assert_false(abx_policy_judge(p, abx_policy_rule(p, ABX_STR("code_run")), &who, &v));
    assert_int_equal(abx_policy_code_status(v.code), 404);
    assert_true(abx_str_is(v.rule, "default:opt-in:dev_tools"));
    assert_false(abx_policy_judge(p, abx_policy_rule(p, ABX_STR("files_delete")), &who, &v));
    abx_json_writer_init(&w, &body);
    abx_policy_verdict_write(&w, &v);
    assert_string_equal(body.ptr, "{\"error\":\"files_delete needs the scope files:delete\","
                                  "\"type\":\"PolicyDenied\",\"code\":\"missing_scope\","
                                  "\"endpoint\":\"files_delete\",\"scope\":\"files:delete\","
                                  "\"identity\":\"rd\"}");
    abx_policy_unref(p);
}

TEST(confine_auto_closes_what_it_can_not_confine)
{
    static const struct {
        const char *text;
        bool shell, list;
    } rows[] = {
        {"{\"confine\":\"auto\"}", false, true},
        {"{\"confine\":\"require\"}", false, true},
        {"{\"confine\":\"auto\",\"base_dir\":\"/\"}", true, true},
        {"{\"confine\":\"off\",\"endpoints\":{\"files_*\":{\"paths\":{\"allow\":[\"/srv\"]}}}}",
         true, true},
        {"{\"confine\":{\"mode\":\"auto\"},\"endpoints\":{\"files_*\":{\"paths\":{\"allow\":[\"/"
         "srv\"]}}}}",
         false, true},
        {"{\"confine\":\"advisory\",\"endpoints\":{\"files_*\":{\"paths\":{\"allow\":[\"/srv\"]}}}"
         "}",
         true, true},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_policy *p = load(rows[i].text);
        struct abx_policy_identity who;
        struct abx_policy_verdict v;
        assert_true(abx_policy_identity_at(p, 0, &who));
        assert_int_equal(abx_policy_judge(p, abx_policy_rule(p, ABX_STR("shell")), &who, &v),
                         rows[i].shell);
        if (!rows[i].shell)
            assert_int_equal(v.code, ABX_POLICY_CONFINEMENT_UNAVAILABLE);
        assert_int_equal(abx_policy_judge(p, abx_policy_rule(p, ABX_STR("files_list")), &who, &v),
                         rows[i].list);
        assert_int_equal(abx_policy_judge(p, abx_policy_rule(p, ABX_STR("run_command")), &who, &v),
                         rows[i].shell);
        assert_true(abx_policy_judge(p, abx_policy_rule(p, ABX_STR("list_commands")), &who, &v));
        assert_true(abx_policy_judge(p, abx_policy_rule(p, ABX_STR("process_list")), &who, &v));
        abx_policy_unref(p);
    }
}

TEST(custom_routes_are_selected_by_their_ids)
{
    static const struct abx_str one[] = {{"a:a", 3}}, two[] = {{"b:b", 3}};
    const struct abx_policy_route routes[] = {
        {.id = ABX_STR("GET /x/{name}"), .group = ABX_GROUP_SYSTEM},
        {.id = ABX_STR("dup"), .group = ABX_GROUP_SYSTEM, .scopes = {one, 1}},
        {.id = ABX_STR("dup"), .group = ABX_GROUP_SYSTEM, .scopes = {two, 1}},
        {.id = ABX_STR("shell"), .group = ABX_GROUP_SYSTEM},
    };
    const struct abx_policy_code_group code[] = {{ABX_GROUP_PROCESS, false}};
    struct abx_policy_facts facts = facts_of("{\"endpoints\":{\"GET *\":{\"enabled\":false}}}");
    struct abx_policy *p = NULL;
    struct abx_report report;
    facts.routes = routes;
    facts.route_count = ABX_COUNTOF(routes);
    facts.code_groups = code;
    facts.code_group_count = 1;
    abx_report_init(&report);
    assert_int_equal(abx_policy_load(&facts, &p, &report), 0);
    const struct abx_policy_rule *x = abx_policy_rule(p, ABX_STR("GET /x/{name}")),
                                 *dup = abx_policy_rule(p, ABX_STR("dup")),
                                 *shell = abx_policy_rule(p, ABX_STR("shell"));
    assert_false(x->enabled);
    assert_true(abx_str_is(x->disabled_by, "policy:endpoints.GET *"));
    assert_int_equal(dup->scopes.count, 2);
    assert_non_null(shell->endpoint);
    assert_true(abx_str_is(shell->disabled_by, "code:enable_group:process"));
    abx_policy_unref(p);
    abx_report_done(&report);
}

/* ---- rates ---- */

TEST(a_bucket_is_full_at_first_and_refills_with_time)
{
    struct abx_policy *p = load("{\"endpoints\":{\"ports\":{\"limits\":{\"rate_per_minute\":3}}}}");
    struct abx_policy_meter *m = abx_policy_meter_new(p);
    const struct abx_policy_rule *rule = abx_policy_rule(p, ABX_STR("ports"));
    struct abx_policy_identity who;
    struct abx_policy_verdict v = {0};
    assert_true(abx_policy_identity_at(p, 0, &who));
    for (int i = 0; i < 3; i++) {
        assert_true(abx_policy_meter_enter(m, rule, &who, 1000, &v));
        abx_policy_meter_leave(m, rule, &who);
    }
    assert_false(abx_policy_meter_enter(m, rule, &who, 1000, &v));
    assert_int_equal(v.code, ABX_POLICY_RATE_LIMITED);
    assert_int_equal(v.retry_after_s, 20);
    assert_false(abx_policy_meter_enter(m, rule, &who, 20999, &v));
    assert_int_equal(v.retry_after_s, 1);
    assert_true(abx_policy_meter_enter(m, rule, &who, 21000, &v));
    abx_policy_meter_unref(m);
    abx_policy_unref(p);
}

TEST(a_request_refused_for_concurrency_spends_no_token)
{
    struct abx_policy *p = load("{\"endpoints\":{\"ports\":{\"limits\":{\"rate_per_minute\":2,"
                                "\"max_concurrency\":1}}}}");
    struct abx_policy_meter *m = abx_policy_meter_new(p);
    const struct abx_policy_rule *rule = abx_policy_rule(p, ABX_STR("ports"));
    struct abx_policy_identity who;
    struct abx_policy_verdict v = {0};
    assert_true(abx_policy_identity_at(p, 0, &who));
    assert_true(abx_policy_meter_enter(m, rule, &who, 0, &v));
    for (int i = 0; i < 5; i++) {
        assert_false(abx_policy_meter_enter(m, rule, &who, 0, &v));
        assert_int_equal(v.code, ABX_POLICY_CONCURRENCY_LIMITED);
    }
    abx_policy_meter_leave(m, rule, &who);
    assert_true(abx_policy_meter_enter(m, rule, &who, 0, &v));
    abx_policy_meter_unref(m);
    abx_policy_unref(p);
}

/* ---- memory ---- */

#define WIDE_DOCUMENT                                                                              \
    "{\"preset\":\"hardened\",\"description\":{\"a\":[1,\"x\"]},\"groups\":[\"process\"],"         \
    "\"auth\":{\"tokens\":[{\"id\":\"a\",\"scopes\":[\"*\"],\"token_env\":\"A\"}]},"               \
    "\"endpoints\":{\"files_*\":{\"paths\":{\"allow\":[\"/srv\"],\"deny\":[\"*.key\",\"/srv/"      \
    "x\"]},"                                                                                       \
    "\"limits\":{\"max_bytes\":\"5MB\"},\"params\":{\"deny_extensions\":[\".exe\"]}},"             \
    "\"shell\":{\"scopes\":[\"a:b\"],\"limits\":{\"timeout_seconds\":0.5},"                        \
    "\"params\":{\"allow_commands\":[\"ls\"]}}%s}}"

static void load_and_lint(const char *text)
{
    static const char *env[] = {"A", ALPHA, NULL};
    static const struct abx_str scopes[] = {{"x:y", 3}};
    const struct abx_policy_route route = {
        .id = ABX_STR("GET /x"), .group = ABX_GROUP_SYSTEM, .scopes = {scopes, 1}};
    struct abx_policy_facts facts = facts_of(text);
    struct abx_policy *p = NULL;
    struct abx_report report;
    facts.getenv_ctx = env;
    facts.routes = &route;
    facts.route_count = 1;
    abx_report_init(&report);
    int rc = abx_policy_load(&facts, &p, &report);
    assert_int_equal(rc == 0, p != NULL);
    assert_true(rc == 0 || report.errors > 0);
    if (rc == 0)
        abx_policy_lint(p, true, &report);
    abx_policy_unref(p);
    abx_report_done(&report);
}

TEST(a_load_that_runs_out_of_memory_says_so)
{
    for (int broken = 0; broken < 2; broken++) {
        char text[1024];
        snprintf(text, sizeof(text), WIDE_DOCUMENT, broken ? ",\"shel\":{\"x\":1}" : "");
        for (unsigned n = 1; abx_alloc_fail(n); n++)
            load_and_lint(text);
    }
}
