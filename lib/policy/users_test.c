/* lib/policy/users_test.c: the key `users` and whom it lets programs run as (security S84). */
#include "lib/policy/users.h"

#include "lib/base/assert.h"
#include "lib/policy/confine.h"
#include "tests/unit/alloc.h"
#include "tests/unit/test.h"

#include <stdio.h>

#include "lib/base/banned.h"

static struct abx_policy *load(const char *users, struct abx_report *report)
{
    char text[512];
    struct abx_policy_facts facts = {.has_text = true, .base_dir = ABX_STR("/srv")};
    struct abx_policy *p = NULL;
    snprintf(text, sizeof(text), "{\"confine\":{\"users\":%s}}", users);
    facts.text = abx_str(text);
    abx_report_init(report);
    return abx_policy_load(&facts, &p, report) < 0 ? NULL : p;
}

TEST(s84_users_are_names_and_numbers)
{
    static const struct {
        const char *users, *want; /* NULL: a mistake */
    } rows[] = {
        {"[]", ""},
        {"[\"www-data\",\"user\"]", "www-data user "},
        {"[1000,\"1000\",\"01000\",0]", "1000 1000 1000 0 "},
        {"[4294967294]", "4294967294 "},
        {"[\"7up\"]", "7up "},
        {"[\"\"]", NULL},
        {"[4294967295]", NULL},
        {"[\"4294967295\"]", NULL},
        {"[\"99999999999\"]", NULL},
        {"[-1]", NULL},
        {"[1.5]", NULL},
        {"[true]", NULL},
        {"[null]", NULL},
        {"[\"a b\"]", NULL},
        {"[\"a:b\"]", NULL},
        {"[\"a/b\"]", NULL},
        {"[\"a\\u0000b\"]", NULL},
        {"[\"a\\nb\"]", NULL},
        {"[[\"a\"]]", NULL},
        {"{}", NULL},
        {"\"root\"", NULL},
        {"null", NULL},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_report report;
        char got[128] = "";
        size_t len = 0;
        struct abx_policy *p = load(rows[i].users, &report);
        if ((p != NULL) != (rows[i].want != NULL))
            fail_msg("%s: %s", rows[i].users, p ? "taken" : abx_report_first_error(&report)->text);
        const struct abx_finding *mistake = abx_report_first_error(&report);
        if (p == NULL && strncmp(mistake->place, "policy.confine.users", 20) != 0)
            fail_msg("%s: at %s", rows[i].users, mistake->place);
        for (size_t k = 0; p && k < abx_policy_confinement(p)->users.count; k++)
            len += (size_t)snprintf(got + len, sizeof(got) - len, "%.*s ",
                                    ABX_STR_FMT(abx_policy_confinement(p)->users.items[k]));
        if (p && strcmp(got, rows[i].want) != 0)
            fail_msg("%s: %s, not %s", rows[i].users, got, rows[i].want);
        abx_policy_unref(p);
        abx_report_done(&report);
    }
}

TEST(s84_who_is_not_listed_is_refused)
{
    const struct {
        const char *users;
        struct abx_policy_user user;
        bool want;
    } rows[] = {
        {"[]", {ABX_STR("root"), true, ABX_STR("root"), 0, true}, true},
        {"[]", {ABX_STR("user"), true, ABX_STR("user"), 1000, false}, false},
        {"[]", {.asked = ABX_STR("nobody-has-it")}, false},
        {"[\"user\"]", {ABX_STR("user"), true, ABX_STR("user"), 1000, false}, true},
        {"[\"user\"]", {ABX_STR("1000"), true, ABX_STR("user"), 1000, false}, true},
        {"[1000]", {ABX_STR("user"), true, ABX_STR("user"), 1000, false}, true},
        {"[\"user\"]", {ABX_STR("USER"), true, ABX_STR("USER"), 1001, false}, false},
        {"[\"user\"]", {ABX_STR("use"), true, ABX_STR("use"), 1001, false}, false},
        {"[\"user\"]", {ABX_STR("root"), true, ABX_STR("root"), 0, true}, true},
        {"[\"gone\"]", {.asked = ABX_STR("gone")}, true},
        {"[100]", {ABX_STR("user"), true, ABX_STR("user"), 1000, false}, false},
        /* a number is nobody's name */
        {"[1000]", {ABX_STR("77"), true, ABX_STR("1000"), 77, false}, false},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_report report;
        struct abx_policy_verdict v = {0};
        struct abx_policy *p = load(rows[i].users, &report);
        assert_non_null(p);
        const struct abx_policy_rule *shell = abx_policy_rule(p, ABX_STR("shell"));
        if (abx_policy_user_check(p, shell, &rows[i].user, &v) != rows[i].want)
            fail_msg("row %zu", i);
        if (!rows[i].want) {
            assert_string_equal(abx_policy_code_name(v.code), "user_not_allowed");
            assert_int_equal(abx_policy_code_status(v.code), 403);
            assert_string_equal(abx_policy_code_type(v.code), "PolicyDenied");
            assert_true(abx_str_is(v.endpoint, "shell"));
            assert_non_null(strstr(v.text, "confine.users"));
        }
        abx_policy_unref(p);
        abx_report_done(&report);
    }
}

TEST(s84_a_refusal_shows_no_more_of_a_name_than_fits)
{
    struct abx_report report;
    struct abx_policy_verdict v = {0};
    char name[ABX_USER_NAME_MAX + 1];
    struct abx_policy *p = load("[]", &report);
    memset(name, 'x', sizeof(name));
    assert_false(abx_policy_user_is_name(abx_str_n(name, sizeof(name))));
    struct abx_policy_user user = {.asked = abx_str_n(name, sizeof(name) - 1)};
    assert_true(abx_policy_user_is_name(user.asked));
    assert_false(abx_policy_user_check(p, abx_policy_rule(p, ABX_STR("shell")), &user, &v));
    assert_non_null(strstr(v.text, "'; confine.users"));
    abx_policy_unref(p);
    abx_report_done(&report);
}

TEST(only_a_wide_caller_keeps_privileges)
{
    struct abx_report report;
    struct abx_policy *p = NULL;
    struct abx_policy_facts facts = {
        .has_text = true,
        .text = ABX_STR("{\"confine\":{\"privileged\":true},\"auth\":{\"tokens\":["
                        "{\"id\":\"w\",\"scopes\":[\"*\"],\"token_env\":\"W\"},"
                        "{\"id\":\"n\",\"scopes\":[\"process:*\"],\"token_env\":\"N\"}]}}"),
        .no_env = true};
    struct abx_policy_identity who;
    abx_report_init(&report);
    assert_int_equal(abx_policy_load(&facts, &p, &report), 0);
    for (size_t i = 0; abx_policy_identity_at(p, i, &who); i++)
        assert_int_equal(abx_policy_keeps_privileges(p, &who), who.is_wide);
    abx_policy_unref(p);
    abx_report_done(&report);
}

TEST(every_failed_allocation_of_a_list_is_told)
{
    for (unsigned n = 1; abx_alloc_fail(n); n++) {
        struct abx_report report;
        struct abx_policy *p = load("[1000,\"user\"]", &report);
        if (p == NULL) /* what has failed may have been of a text alone */
            assert_true(abx_alloc_failed());
        else
            assert_int_equal(abx_policy_confinement(p)->users.count, 2);
        abx_policy_unref(p);
        abx_report_done(&report);
    }
}
