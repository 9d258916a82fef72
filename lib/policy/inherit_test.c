/* lib/policy/inherit_test.c: an extension never does more than its parents. */
#include "lib/policy/policy.h"

#include "lib/base/assert.h"
#include "tests/unit/test.h"

#include <stdio.h>

#include "lib/base/banned.h"

static struct abx_policy *load(const char *text)
{
    struct abx_policy_facts facts = {
        .text = abx_str(text), .has_text = true, .base_dir = ABX_STR("/srv"), .no_env = true};
    struct abx_policy *p = NULL;
    struct abx_report report;
    abx_report_init(&report);
    if (abx_policy_load(&facts, &p, &report) < 0)
        fail_msg("%s: %s", text, abx_report_first_error(&report)->text);
    abx_report_done(&report);
    return p;
}

static const struct abx_policy_rule *raw_get(const struct abx_policy *p)
{
    const struct abx_policy_rule *r = abx_policy_rule(p, ABX_STR("files_raw_get"));
    assert_non_null(r);
    return r;
}

TEST(an_extension_is_on_only_where_its_parents_and_its_own_rule_are)
{
    static const struct {
        const char *text, *disabled_by; /* NULL: on */
    } rows[] = {
        {"{}", NULL},
        {"{\"endpoints\":{\"files_download_stream\":{\"enabled\":false}}}",
         "policy:endpoints.files_download_stream"},
        {"{\"endpoints\":{\"files_raw_get\":{\"enabled\":false}}}",
         "policy:endpoints.files_raw_get"},
        {"{\"groups\":{\"file_ops\":false}}", "policy:groups.file_ops"},
        {"{\"endpoints\":{\"files_download_stream\":{\"enabled\":false},"
         "\"files_raw_get\":{\"enabled\":true}}}",
         "policy:endpoints.files_download_stream"},
        {"{\"preset\":\"transfer-only\"}", "preset:transfer-only:endpoints.*"},
        {"{\"preset\":\"locked\"}", "preset:locked:endpoints.*"},
        {"{\"preset\":\"read-only\"}", NULL},
        {"{\"preset\":\"hardened\"}", NULL},
        {"{\"endpoints\":{\"files_raw_get\":{\"paths\":{\"allow\":[\"/a\"]}},"
         "\"files_download_stream\":{\"paths\":{\"allow\":[\"/b\"]}}}}",
         "parents:paths"},
        {"{\"endpoints\":{\"files_raw_get\":{\"paths\":{\"allow\":[\"/elsewhere\"]}}}}",
         "parents:paths"},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_policy *p = load(rows[i].text);
        const struct abx_policy_rule *r = raw_get(p);
        if (r->enabled != (rows[i].disabled_by == NULL) ||
            (rows[i].disabled_by && !abx_str_is(r->disabled_by, rows[i].disabled_by)))
            fail_msg("%s: %d by %.*s", rows[i].text, r->enabled, ABX_STR_FMT(r->disabled_by));
        abx_policy_unref(p);
    }
}

TEST(scopes_limits_and_paths_of_the_parents_hold)
{
    struct abx_policy *p =
        load("{\"endpoints\":{\"files_download_stream\":{\"scopes\":[\"x:y\"],\"audit\":\"all\","
             "\"limits\":{\"max_bytes\":10,\"rate_per_minute\":5},\"paths\":{\"allow\":[\"/a\","
             "\"/c/d\"],\"deny\":[\"*.pem\"],\"symlinks\":\"never\",\"read_only\":true}},"
             "\"files_raw_get\":{\"limits\":{\"max_bytes\":20,\"rate_per_minute\":3},"
             "\"paths\":{\"allow\":[\"/a/b\",\"/c/\"],\"deny\":[\"*.key\"]}}}}");
    const struct abx_policy_rule *r = raw_get(p);
    assert_true(r->enabled);
    assert_int_equal(r->scopes.count, 1);
    assert_true(abx_str_is(r->scopes.items[0], "x:y"));
    assert_int_equal(r->audit, ABX_AUDIT_ALL);
    assert_int_equal(abx_policy_limit_u64(r, ABX_LIMIT_MAX_BYTES, 0), 10);
    assert_int_equal(abx_policy_limit_u64(r, ABX_LIMIT_RATE_PER_MINUTE, 0), 3);
    assert_int_equal(r->paths.allow.count, 2);
    assert_true(abx_str_is(r->paths.allow.items[0], "/a/b"));
    assert_true(abx_str_is(r->paths.allow.items[1], "/c/d"));
    assert_int_equal(r->paths.deny.count, 2);
    assert_true(r->paths.never_links && r->paths.read_only);
    abx_policy_unref(p);
}

TEST(every_extension_has_published_parents_and_is_bounded_by_them)
{
    size_t count, published_count;
    const struct abx_endpoint *all = abx_endpoint_extensions(&count),
                              *published = abx_endpoints(&published_count);
    for (size_t i = 0; i < count; i++) {
        assert_true(all[i].flags & ABX_EP_EXTENSION);
        assert_non_null(all[i].parents[0]);
        for (size_t k = 0; k < ABX_ENDPOINT_PARENTS && all[i].parents[k]; k++) {
            const struct abx_endpoint *parent = abx_endpoint_find(abx_str(all[i].parents[k]));
            assert_non_null(parent);
            assert_false(parent->flags & ABX_EP_EXTENSION);
        }
        for (size_t k = 0; k < published_count; k++)
            assert_string_not_equal(all[i].id, published[k].id);
    }
}

/* Whatever bound a published endpoint gets, what builds on it gets too. */
static void check_bounded(const struct abx_endpoint *e, const char *parent)
{
    char text[512];
    snprintf(text, sizeof(text),
             "{\"endpoints\":{\"%s\":{\"enabled\":true},\"%s\":{\"enabled\":false}}}", e->id,
             parent);
    struct abx_policy *off = load(text);
    const struct abx_policy_rule *r = abx_policy_rule(off, abx_str(e->id));
    assert_false(r->enabled);
    abx_policy_unref(off);
    snprintf(text, sizeof(text),
             "{\"endpoints\":{\"%s\":{\"scopes\":[\"x:y\"],\"limits\":{\"rate_per_minute\":3}}}}",
             parent);
    struct abx_policy *less = load(text);
    r = abx_policy_rule(less, abx_str(e->id));
    const struct abx_str held[] = {ABX_STR("files:*"), ABX_STR("core:*"), ABX_STR("system:*")};
    if (r->endpoint->group != ABX_GROUP_CORE)
        assert_non_null(abx_scope_missing((struct abx_str_list){held, 3}, r->scopes).ptr);
    assert_int_equal(abx_policy_limit_u64(r, ABX_LIMIT_RATE_PER_MINUTE, 0), 3);
    abx_policy_unref(less);
    const struct abx_endpoint *p = abx_endpoint_find(abx_str(parent));
    if (!(p->flags & ABX_EP_PATHS) || !(e->flags & ABX_EP_PATHS))
        return;
    snprintf(text, sizeof(text),
             "{\"endpoints\":{\"%s\":{\"paths\":{\"allow\":[\"/srv/a\"],\"deny\":[\"*.pem\"],"
             "\"read_only\":true,\"symlinks\":\"never\"}}}}",
             parent);
    struct abx_policy *bound = load(text);
    r = abx_policy_rule(bound, abx_str(e->id));
    assert_int_equal(r->paths.allow.count, 1);
    assert_true(abx_str_is(r->paths.allow.items[0], "/srv/a"));
    assert_int_equal(r->paths.deny.count, 1);
    assert_true(r->paths.read_only && r->paths.never_links);
    abx_policy_unref(bound);
}

TEST(each_parent_bounds_what_builds_on_it)
{
    size_t count;
    const struct abx_endpoint *all = abx_endpoint_extensions(&count);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < ABX_ENDPOINT_PARENTS && all[i].parents[k]; k++)
            if (!(abx_endpoint_find(abx_str(all[i].parents[k]))->flags & ABX_EP_ALWAYS))
                check_bounded(&all[i], all[i].parents[k]);
}

TEST(a_document_that_names_an_extension_is_not_portable)
{
    struct abx_policy *named = load("{\"endpoints\":{\"files_raw_get\":{}}}"),
                      *glob = load("{\"endpoints\":{\"files_raw_*\":{}}}");
    assert_false(abx_policy_is_portable(named));
    assert_true(abx_policy_is_portable(glob));
    abx_policy_unref(named);
    abx_policy_unref(glob);
}
