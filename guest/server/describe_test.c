/* guest/server/describe_test.c: the pages in docs are those of the tables; effects of endpoints. */
#include "guest/server/describe.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "tests/unit/test.h"

#include <fcntl.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum { PAGE_MAX = 1 << 20 };

static void assert_kept(const char *name, const char *option, const struct abx_buf *made)
{
    char *kept = NULL;
    size_t len = 0;
    assert_int_equal(abx_fd_read_file(AT_FDCWD, name, PAGE_MAX, &kept, &len), 0);
    assert_false(abx_buf_failed(made));
    if (strcmp(made->ptr, kept) != 0)
        print_error("%s is stale: agent-sandbox-server routes %s > %s\n", name, option, name);
    assert_string_equal(made->ptr, kept);
    free(kept);
}

TEST(the_page_of_endpoints_is_the_one_of_the_tables)
{
    ABX_AUTO_BUF made;
    abx_buf_init(&made, PAGE_MAX);
    struct abx_policy *p = abx__default_policy();
    assert_non_null(p);
    abx__reference_write(&made, p);
    assert_kept("docs/server-api.md", "--markdown", &made);
    abx_policy_unref(p);
}

TEST(the_man_page_is_the_one_of_the_tables)
{
    ABX_AUTO_BUF made;
    abx_buf_init(&made, PAGE_MAX);
    abx__man_write(&made);
    assert_kept("docs/agent-sandbox-server.1", "--man", &made);
}

TEST(effects_s02_what_runs_programs_is_exec)
{
    static const struct {
        const char *id, *effect;
    } rows[] = {
        {"git_status", "exec"},    {"git_log", "exec"},         {"packages", "exec"},
        {"code_run", "exec"},      {"pty_connect", "exec"},     {"shell", "exec"},
        {"process_start", "exec"}, {"run_command", "exec"},     {"browser_content", "exec"},
        {"mcp", "exec"},           {"files_delete", "write"},   {"files_upload_stream", "write"},
        {"env_set", "write"},      {"process_signal", "write"}, {"files_list", "read"},
        {"openapi", "read"},       {"metrics", "read"},         {"audit_read", "read"},
        {"health", "read"}};
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++)
        assert_string_equal(abx__effect(abx_endpoint_find(abx_str(rows[i].id))), rows[i].effect);
}

static bool mentions(struct abx_str document, const char *what)
{
    return abx_str_find(document, abx_str(what)) >= 0;
}

TEST(openapi_shows_what_the_caller_may_call_only)
{
    ABX_AUTO_BUF all, few;
    struct abx_str star[] = {ABX_STR("*")}, files[] = {ABX_STR("files:read")};
    struct abx_policy_identity wide = {.scopes = {star, 1}}, narrow = {.scopes = {files, 1}};
    struct abx_policy *p = abx__default_policy();
    assert_non_null(p);
    abx_buf_init(&all, PAGE_MAX);
    abx_buf_init(&few, PAGE_MAX);
    abx__openapi_write(&all, p, &wide);
    abx__openapi_write(&few, p, &narrow);
    assert_false(all.failed || few.failed);
    assert_true(mentions(abx_buf_str(&all), "\"/shell\"") &&
                mentions(abx_buf_str(&all), "\"operationId\":\"env_set\""));
    assert_false(mentions(abx_buf_str(&all), "/git/")); /* the group is off */
    assert_false(mentions(abx_buf_str(&all), "\"/pty\"") || mentions(abx_buf_str(&all), "/v1/"));
    assert_true(mentions(abx_buf_str(&few), "\"/files/list\"") &&
                mentions(abx_buf_str(&few), "\"/health\""));
    assert_false(mentions(abx_buf_str(&few), "/shell") ||
                 mentions(abx_buf_str(&few), "files_delete"));
    struct json_t *doc = NULL;
    assert_int_equal(abx_json_parse(abx_buf_str(&all), NULL, &doc, NULL), 0);
    abx_json_free(doc);
    abx_policy_unref(p);
}
