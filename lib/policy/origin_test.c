/* lib/policy/origin_test.c: Host and Origin. */
#include "lib/policy/origin.h"

#include "lib/base/assert.h"
#include "tests/unit/test.h"

#include <stdio.h>

#include "lib/base/banned.h"

static struct abx_policy *load(const char *text)
{
    struct abx_policy_facts facts = {.text = abx_str(text), .has_text = true, .no_env = true};
    struct abx_policy *p = NULL;
    struct abx_report report;
    abx_report_init(&report);
    if (abx_policy_load(&facts, &p, &report) < 0)
        fail_msg("%s: %s", text, abx_report_first_error(&report)->text);
    abx_report_done(&report);
    return p;
}

TEST(s20_names_that_a_server_answers_to)
{
    static const struct {
        const char *host;
        bool plain, listed; /* without confine.hosts, with ["app.test", "*.x.test"] */
    } rows[] = {
        {"localhost", true, false},
        {"LOCALHOST:9000", true, false},
        {"localhost.:9000", true, false},
        {"127.0.0.1:9000", true, false},
        {"10.0.0.7", true, false},
        {"[::1]:9000", true, false},
        {"9000-abc.sandbox.test", true, false},
        {"9001-x", true, false},
        {"900-abc", false, false},
        {"evil.test", false, false},
        {"evil.test:9000", false, false},
        {"127.0.0.1.evil.test", false, false},
        {"127.1", false, false},
        {"1.2.3.4.5", false, false},
        {"256.1.1.1", false, false},
        {"", false, false},
        {"[::1", false, false},
        {"[evil]", false, false},
        {"localhost.evil.test", false, false},
        {"app.test:9000", false, true},
        {"APP.test", false, true},
        {"a.x.test", false, true},
        {"x.test", false, false},
    };
    static const uint16_t ports[] = {9000, 9001};
    struct abx_policy
        *p = load("{\"confine\":\"auto\"}"),
        *q = load("{\"confine\":{\"mode\":\"auto\",\"hosts\":[\"app.test\",\"*.x.test\"]}}");
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++)
        if (abx_policy_host_is_allowed(p, abx_str(rows[i].host), ports, 2) != rows[i].plain ||
            abx_policy_host_is_allowed(q, abx_str(rows[i].host), ports, 2) != rows[i].listed)
            fail_msg("%s", rows[i].host);
    abx_policy_unref(p);
    abx_policy_unref(q);
}

TEST(s20_pages_that_may_call)
{
    static const struct {
        const char *origin;
        bool is_allowed;
    } rows[] = {{"http://localhost:9000", true},
                {"https://localhost:9000", true},
                {"http://localhost:3000", false},
                {"http://localhost", false},
                {"http://evil.test", false},
                {"null", false},
                {"", false},
                {"https://app.test", true},
                {"https://app.test.evil", false},
                {"ftp://localhost:9000", false}};
    struct abx_policy *p =
        load("{\"confine\":{\"mode\":\"auto\",\"origins\":[\"https://app.test\"]}}");
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++)
        if (abx_policy_origin_is_allowed(p, abx_str(rows[i].origin), ABX_STR("localhost:9000")) !=
            rows[i].is_allowed)
            fail_msg("%s", rows[i].origin);
    assert_true(abx_policy_guards_origin(p));
    abx_policy_unref(p);
}

TEST(s20_holds_with_confine_and_without_tokens)
{
    static const struct {
        const char *text;
        bool guards;
    } rows[] = {{"{}", false},
                {"{\"confine\":\"off\"}", false},
                {"{\"confine\":\"advisory\"}", true},
                {"{\"confine\":\"auto\",\"auth\":{\"tokens\":[{\"id\":\"a\",\"scopes\":[],"
                 "\"token_env\":\"A\"}]}}",
                 false}};
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_policy *p = load(rows[i].text);
        assert_int_equal(abx_policy_guards_origin(p), rows[i].guards);
        abx_policy_unref(p);
    }
}

TEST(content_that_a_foreign_page_can_not_send_unasked)
{
    static const struct {
        const char *type;
        bool is_asked;
    } rows[] = {{"application/json", true},
                {"Application/JSON; charset=utf-8", true},
                {"application/octet-stream", true},
                {"multipart/form-data; boundary=x", true},
                {"text/plain", false},
                {"text/plain;application/json", false},
                {"application/x-www-form-urlencoded", false},
                {"", false}};
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++)
        assert_int_equal(abx_policy_is_asked_content(abx_str(rows[i].type)), rows[i].is_asked);
}
