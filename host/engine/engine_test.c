/* host/engine/engine_test.c: the API and the life of sandboxes, over a double of the runtime side.
 */
#include "host/engine/testkit_priv.h"

#include "lib/contract/contract.h"

#include "lib/base/banned.h"

static const char host_body[] = "{\"templateID\":\"host\"}";

static struct abx__sandbox *only_sandbox(void)
{
    size_t it = 0;
    struct abx_str id;
    void *value = NULL;
    abx_map_next(&kit.e.sandboxes, &it, &id, &value);
    return value;
}

TEST(state_table_lists_every_edge)
{
    static const struct {
        enum abx__state from, to;
    } edges[] = {{ABX__CREATING, ABX__RUNNING},
                 {ABX__CREATING, ABX__KILLING},
                 {ABX__CREATING, ABX__DEAD},
                 {ABX__RUNNING, ABX__KILLING},
                 {ABX__KILLING, ABX__DEAD}};
    size_t found = 0;
    for (unsigned from = 0; from < ABX__STATE_COUNT; from++) {
        for (unsigned to = 0; to < ABX__STATE_COUNT; to++) {
            bool want = false;
            for (size_t i = 0; i < ABX_COUNTOF(edges); i++)
                want = want || (edges[i].from == from && edges[i].to == to);
            assert_int_equal(abx__state_may(from, to), want);
            found += want ? 1 : 0;
        }
    }
    assert_int_equal(found, ABX_COUNTOF(edges));
}

TEST(create_provisions_before_it_answers)
{
    kit_setup();
    char id[32], token[80], want[128];
    kit_create("{\"templateID\":\"host\",\"metadata\":{\"a\":\"b\"},"
               "\"envVars\":{\"X\":\"1\",\"E2B_SANDBOX_ID\":\"forged\"}}",
               id, token);
    assert_true(kit_said("\"envdVersion\":\"" ABX_ENVD_VERSION "\""));
    assert_true(kit_said("\"templateID\":\"host\""));
    assert_true(kit_said("\"clientID\":"));
    assert_true(kit_said("\"trafficAccessToken\":null"));
    assert_true(kit_said("\"network\":\"loopback\""));
    snprintf(want, sizeof(want), "\"domain\":\"abx.localhost:%d\"", kit.listener_port);
    assert_true(kit_said(want));
    assert_true(abx_store_id_is_valid(abx_str(id)));
    assert_int_equal(strlen(token), 64);
    /* what /init was told */
    snprintf(want, sizeof(want), "\"accessToken\":\"%s\"", token);
    assert_non_null(strstr(kit.init_body, want));
    snprintf(want, sizeof(want), "\"E2B_SANDBOX_ID\":\"%s\"", id);
    assert_non_null(strstr(kit.init_body, want));
    assert_null(strstr(kit.init_body, "forged"));
    assert_non_null(strstr(kit.init_body, "\"X\":\"1\""));
    assert_non_null(strstr(kit.init_body, "\"E2B_SANDBOX\":\"true\""));
    assert_non_null(strstr(kit.init_body, "\"E2B_TEMPLATE_ID\":\"host\""));
    assert_non_null(strstr(kit.init_body, "\"PYTHONPATH\":\"/.fce2b/python\""));
    assert_non_null(strstr(kit.init_body, "\"defaultUser\":\"user\""));
    assert_non_null(strstr(kit.init_body, "\"defaultWorkdir\":\"/home/user\""));
    assert_non_null(strstr(kit.init_body, "\"timestamp\":\""));
    kit_teardown();
}

TEST(a_python_path_of_the_caller_is_the_only_one)
{
    kit_setup();
    char id[32], token[80];
    kit_create("{\"templateID\":\"host\",\"envVars\":{\"PYTHONPATH\":\"/mine\"}}", id, token);
    assert_non_null(strstr(kit.init_body, "\"PYTHONPATH\":\"/mine\""));
    assert_null(strstr(kit.init_body, "/.fce2b/python"));
    kit_teardown();
}

TEST(both_generations_have_their_own_defaults)
{
    static const struct {
        const char *path, *body;
        int seconds;
        bool has_token;
    } rows[] = {
        {"/v2/sandboxes", "{\"templateID\":\"host\"}", 300, true},
        {"/v2/sandboxes", "{\"templateID\":\"host\",\"secure\":false}", 300, true},
        {"/v2/sandboxes", "{\"templateID\":\"host\",\"timeout\":7}", 7, true},
        {"/v2/sandboxes", "{\"templateID\":\"host\",\"timeout\":null,\"metadata\":null}", 300,
         true},
        {"/sandboxes", "{\"templateID\":\"host\"}", 15, true},
        {"/sandboxes", "{\"templateID\":\"host\",\"secure\":true,\"timeout\":60}", 60, true},
        {"/sandboxes", "{\"templateID\":\"host\",\"secure\":false}", 15, false},
        {"/sandboxes", "{\"templateID\":\"host:default\",\"allow_internet_access\":true}", 15,
         true},
    };
    kit_setup();
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        char id[32];
        assert_int_equal(kit_ask("POST", rows[i].path, NULL, rows[i].body), 201);
        kit_member("sandboxID", id, sizeof(id));
        struct abx__sandbox *sb = abx__sandbox_find(&kit.e, abx_str(id));
        assert_non_null(sb);
        int64_t left = sb->end_ms - abx_time_wall_ms();
        if (left > rows[i].seconds * 1000 || left < (rows[i].seconds - 5) * 1000)
            fail_msg("row %zu: %lld ms", i, (long long)left);
        assert_int_equal(kit_said("envdAccessToken"), rows[i].has_token);
        assert_int_equal(strstr(kit.init_body, "accessToken") != NULL, rows[i].has_token);
    }
    kit_teardown();
}

TEST(c9_envd_url_for_who_came_by_an_address)
{
    const struct {
        const char *name;
        bool has_url;
    } rows[] = {
        {"127.0.0.1", true}, {"[::1]", true}, {"localhost", true}, {"api.abx.localhost", false}};
    kit_setup();
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        char headers[256], url[128], path[64], id[32];
        snprintf(headers, sizeof(headers), "Host: %s:%d\r\nX-API-KEY: %s\r\n", rows[i].name,
                 kit.listener_port, kit_key);
        snprintf(url, sizeof(url), "\"envdUrl\":\"http://%s:%d\"", rows[i].name, kit.listener_port);
        assert_int_equal(kit_ask("POST", "/sandboxes", headers, "{\"templateID\":\"host\"}"), 201);
        assert_int_equal(kit_said(url), rows[i].has_url);
        assert_int_equal(kit_said("envdUrl"), rows[i].has_url);
        kit_member("sandboxID", id, sizeof(id));
        snprintf(path, sizeof(path), "/sandboxes/%s", id);
        assert_int_equal(kit_ask("GET", path, headers, NULL), 200);
        assert_int_equal(kit_said(url), rows[i].has_url);
    }
    kit_teardown();
}

TEST(create_refuses_what_it_can_not_do)
{
    static const struct {
        const char *body;
        int status;
        const char *text;
    } rows[] = {
        {"{\"templateID\":\"base\"}", 404, "template 'base' not found"},
        {"{\"templateID\":\"code-interpreter-v1\"}", 404, "not found"},
        {"{\"templateID\":\"a b\"}", 400, "Invalid template reference"},
        {"{\"templateID\":\"\"}", 400, "Invalid template reference"},
        {"{}", 400, "templateID"},
        {"{\"templateID\":7}", 400, "templateID"},
        {"{", 400, "validation error"},
        {"[]", 400, "validation error"},
        {"{\"templateID\":\"host\",\"timeout\":0}", 400, "Timeout must be greater than 0"},
        {"{\"templateID\":\"host\",\"timeout\":-1}", 400, "Timeout must be greater than 0"},
        {"{\"templateID\":\"host\",\"timeout\":86401}", 400, "Timeout cannot be greater than 24"},
        {"{\"templateID\":\"host\",\"network\":{\"denyOut\":[\"0.0.0.0/0\"]}}", 501, "network"},
        {"{\"templateID\":\"host\",\"network\":{\"allowOut\":[\"a.example\"]}}", 501, "network"},
        {"{\"templateID\":\"host\",\"network\":{\"rules\":{\"a.example\":[]}}}", 501, "network"},
        {"{\"templateID\":\"host\",\"network\":{\"egressProxy\":{\"address\":\"a:1\"}}}", 501,
         "network"},
        {"{\"templateID\":\"host\",\"network\":{\"maskRequestHost\":\"a\"}}", 501, "network"},
        {"{\"templateID\":\"host\",\"network\":{\"allowPublicTraffic\":1}}", 400, "network"},
        {"{\"templateID\":\"host\",\"autoPause\":true}", 501, "autoPause"},
        {"{\"templateID\":\"host\",\"autoResume\":{\"enabled\":true}}", 501, "autoResume"},
        {"{\"templateID\":\"host\",\"volumeMounts\":[{\"name\":\"a\",\"path\":\"/b\"}]}", 501,
         "volumeMounts"},
        {"{\"templateID\":\"host\",\"mcp\":{}}", 501, "mcp"},
        {"{\"templateID\":\"host\",\"gpu\":\"T4\"}", 400, "gpu"},
        {"{\"templateID\":\"host\",\"metadata\":{\"a\":1}}", 400, "metadata"},
        {"{\"templateID\":\"host\",\"envVars\":{\"A=B\":\"c\"}}", 400, "envVars: 'A=B' is no name"},
        {"{\"templateID\":\"host\",\"envVars\":{\"\":\"c\"}}", 400, "envVars: '' is no name"},
    };
    kit_setup();
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        int status = kit_ask("POST", "/v2/sandboxes", NULL, rows[i].body);
        char code[32];
        snprintf(code, sizeof(code), "\"code\":%d", rows[i].status);
        if (status != rows[i].status || !kit_said(rows[i].text) || !kit_said(code))
            fail_msg("row %zu: %d %s", i, status, kit.body.len == 0 ? "" : kit.body.ptr);
    }
    assert_int_equal(kit.counts[KIT_CREATE], 0);
    assert_int_equal(kit_ask("POST", "/v2/sandboxes", NULL,
                             "{\"templateID\":\"host\",\"autoPause\":false,\"network\":null,"
                             "\"autoResume\":{\"enabled\":false},\"volumeMounts\":[]}"),
                     201);
    /* who may reach its ports is ours to say, but not without a token of envd */
    assert_int_equal(kit_ask("POST", "/sandboxes", NULL,
                             "{\"templateID\":\"host\",\"secure\":false,"
                             "\"network\":{\"allowPublicTraffic\":false}}"),
                     400);
    assert_true(kit_said("unless you enable secure envd access via 'secure' flag."));
    assert_int_equal(kit_ask("POST", "/v2/sandboxes", NULL,
                             "{\"templateID\":\"host\",\"network\":{\"allowPublicTraffic\":true}}"),
                     201);
    assert_true(kit_said("\"trafficAccessToken\":null"));
    kit.e.no_host_template = true;
    assert_int_equal(kit_ask("POST", "/v2/sandboxes", NULL, host_body), 404);
    kit_teardown();
}

TEST(create_that_fails_leaves_nothing)
{
    kit_setup();
    kit.fail_creates = 1;
    assert_int_equal(kit_ask("POST", "/sandboxes", NULL, host_body), 503);
    assert_true(kit_said("no namespaces today"));
    assert_int_equal(kit.e.sandboxes.count, 0);
    assert_int_equal(kit.counts[KIT_DESTROY], 1);

    kit.refuse_init = 1;
    kit.init_status = 400; /* not worth a retry */
    assert_int_equal(kit_ask("POST", "/sandboxes", NULL, host_body), 500);
    assert_true(kit_said("/init"));
    assert_int_equal(kit.e.sandboxes.count, 0);
    assert_int_equal(kit.counts[KIT_DESTROY], 2);

    kit.refuse_init = 3;
    kit.init_status = 503; /* still starting */
    assert_int_equal(kit_ask("POST", "/sandboxes", NULL, host_body), 201);
    assert_int_equal(kit.e.sandboxes.count, 1);
    kit_teardown();
}

/* A cgroup that can not be joined says EINVAL; that is not the caller's mistake. */
TEST(create_that_fails_in_the_host_is_not_the_callers_fault)
{
    static const int errnos[] = {EINVAL, ENOENT, EPERM, EEXIST, ENOTEMPTY, EIO};
    kit_setup();
    for (size_t i = 0; i < ABX_COUNTOF(errnos); i++) {
        kit.fail_creates = 1;
        kit.fail_errno = errnos[i];
        assert_int_equal(kit_ask("POST", "/sandboxes", NULL, host_body), 500);
        assert_true(kit_said("cgroup"));
    }
    kit.fail_creates = 1;
    kit.fail_errno = ENOSPC;
    assert_int_equal(kit_ask("POST", "/sandboxes", NULL, host_body), 429);
    kit_teardown();
}

TEST(create_is_undone_when_init_gives_no_answer_or_an_endless_one)
{
    kit_setup();
    kit.refuse_init = 1;
    kit.init_status = 401;
    kit.init_text_bytes = 100; /* an answer with a body */
    assert_int_equal(kit_ask("POST", "/sandboxes", NULL, host_body), 500);
    assert_true(kit_said("answered 401"));
    kit.refuse_init = 1;
    kit.init_text_bytes = 1000000;
    assert_int_equal(kit_ask("POST", "/sandboxes", NULL, host_body), 500);
    assert_true(kit_said("more than 65536 bytes"));
    assert_int_equal(kit.e.sandboxes.count, 0);

    kit.is_init_silent = true;
    char text[512];
    int fd = kit_connect();
    snprintf(text, sizeof(text),
             "POST /v2/sandboxes HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: %s\r\n"
             "Content-Length: %zu\r\n\r\n%s",
             kit_key, strlen(host_body), host_body);
    kit_send(fd, text, strlen(text));
    KIT_UNTIL(kit.hanging != NULL);
    abx_timer_start(&only_sandbox()->timer, 1, 0); /* its 15 s are over */
    assert_int_equal(kit_read(fd), 504);
    assert_true(kit_said("no answer within 15 s"));
    assert_int_equal(kit.e.sandboxes.count, 0);
    close(fd);
    kit_teardown();
}

TEST(create_whose_caller_has_gone_is_undone)
{
    kit_setup();
    char text[512];
    kit.hold = true;
    int fd = kit_connect();
    snprintf(text, sizeof(text),
             "POST /v2/sandboxes HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: %s\r\n"
             "Content-Length: %zu\r\n\r\n%s",
             kit_key, strlen(host_body), host_body);
    kit_send(fd, text, strlen(text));
    KIT_UNTIL(kit.counts[KIT_CREATE] == 1);
    close(fd);
    KIT_UNTIL(only_sandbox() != NULL && abx_list_empty(&only_sandbox()->waiters));
    assert_int_equal(kit_ask("GET", "/v2/sandboxes", NULL, NULL), 200);
    assert_true(kit_said("[]")); /* what is being made is not shown */
    kit.hold = false;
    KIT_UNTIL(kit.e.sandboxes.count == 0);
    assert_int_equal(kit.counts[KIT_DESTROY], 1);
    kit_teardown();
}

TEST(quota_is_429_without_retry_after)
{
    kit_setup();
    kit.e.max_sandboxes = 1;
    assert_int_equal(kit_ask("POST", "/sandboxes", NULL, host_body), 201);
    assert_int_equal(kit_ask("POST", "/sandboxes", NULL, host_body), 429);
    assert_true(kit_said("maximum number of concurrent E2B sandboxes (1)"));
    assert_false(kit_head_has("\nRetry-After:"));
    kit_teardown();
}

TEST(info_connect_timeout_refresh_and_kill)
{
    kit_setup();
    char id[32], token[80], path[96], end[64], end2[64], token2[80];
    kit_create("{\"templateID\":\"host\",\"metadata\":{\"k\":\"v\"}}", id, token);
    snprintf(path, sizeof(path), "/sandboxes/%s", id);
    assert_int_equal(kit_ask("GET", path, NULL, NULL), 200);
    static const char *const parts[] = {
        "\"state\":\"running\"",
        "\"metadata\":{\"k\":\"v\"}",
        "\"cpuCount\":2",
        "\"memoryMB\":1024",
        "\"diskSizeMB\":0",
        "\"startedAt\":\"",
        "\"lifecycle\":{\"autoResume\":false,\"onTimeout\":\"kill\"}",
        "\"allowInternetAccess\":false"};
    for (size_t i = 0; i < ABX_COUNTOF(parts); i++) {
        if (!kit_said(parts[i]))
            fail_msg("no %s in %s", parts[i], kit.body.ptr);
    }
    kit_member("endAt", end, sizeof(end));

    /* connect extends only, and keeps the token */
    snprintf(path, sizeof(path), "/v2/sandboxes/%s/connect", id);
    assert_int_equal(kit_ask("POST", path, NULL, "{\"timeout\":1}"), 200);
    kit_member("envdAccessToken", token2, sizeof(token2));
    assert_string_equal(token, token2);
    snprintf(path, sizeof(path), "/sandboxes/%s", id);
    kit_ask("GET", path, NULL, NULL);
    kit_member("endAt", end2, sizeof(end2));
    assert_string_equal(end, end2);
    snprintf(path, sizeof(path), "/sandboxes/%s/connect", id);
    assert_int_equal(kit_ask("POST", path, NULL, "{\"timeout\":3600}"), 200);
    assert_true(only_sandbox()->end_ms > abx_time_wall_ms() + 3500000);
    assert_int_equal(kit_ask("POST", path, NULL, "{}"), 400); /* v1: required */
    snprintf(path, sizeof(path), "/v2/sandboxes/%s/connect", id);
    assert_int_equal(kit_ask("POST", path, NULL, NULL), 200); /* v2: no body at all */

    snprintf(path, sizeof(path), "/sandboxes/%s/timeout", id);
    assert_int_equal(kit_ask("POST", path, NULL, "{\"timeout\":100}"), 204);
    assert_true(only_sandbox()->end_ms < abx_time_wall_ms() + 101000);
    assert_int_equal(kit_ask("POST", path, NULL, "{\"timeout\":-1}"), 400);
    assert_int_equal(kit_ask("POST", path, NULL, "{}"), 400);
    snprintf(path, sizeof(path), "/sandboxes/%s/refreshes", id);
    assert_int_equal(kit_ask("POST", path, NULL, "{\"duration\":3600}"), 204);
    assert_true(only_sandbox()->end_ms > abx_time_wall_ms() + 3500000);
    assert_int_equal(kit_ask("POST", path, NULL, "{\"duration\":3601}"), 400);
    snprintf(path, sizeof(path), "/sandboxes/%s/resume", id);
    assert_int_equal(kit_ask("POST", path, NULL, "{}"), 409);

    snprintf(path, sizeof(path), "/sandboxes/%s-6532622b", id); /* the old form of an id */
    assert_int_equal(kit_ask("GET", path, NULL, NULL), 200);
    snprintf(path, sizeof(path), "/sandboxes/%s-a-b", id);
    assert_int_equal(kit_ask("GET", path, NULL, NULL), 400);
    assert_int_equal(kit_ask("GET", "/sandboxes/..%2f..", NULL, NULL), 400);

    snprintf(path, sizeof(path), "/sandboxes/%s", id);
    assert_int_equal(kit_ask("DELETE", path, NULL, NULL), 204);
    assert_int_equal(kit.body.len, 0);
    assert_false(kit_lives(id));
    assert_int_equal(kit_ask("DELETE", path, NULL, NULL), 404);
    assert_true(kit_said("\"code\":404"));
    assert_true(kit_said("doesn't exist or you don't have access to it"));
    assert_int_equal(kit_ask("GET", path, NULL, NULL), 404);
    kit_teardown();
}

TEST(timeout_kills_at_once_when_zero)
{
    kit_setup();
    char id[32], token[80], path[96];
    kit_create(host_body, id, token);
    snprintf(path, sizeof(path), "/sandboxes/%s/timeout", id);
    assert_int_equal(kit_ask("POST", path, NULL, "{\"timeout\":0}"), 204);
    KIT_UNTIL(kit.e.sandboxes.count == 0);
    assert_false(kit_lives(id));
    kit_create("{\"templateID\":\"host\",\"timeout\":1}", id, token);
    KIT_UNTIL(kit.e.sandboxes.count == 0);
    assert_false(kit_lives(id));
    kit_teardown();
}

TEST(timeout_is_by_the_clock_that_counts_suspend)
{
    kit_setup();
    char id[32], token[80];
    int64_t begun = abx_time_mono_ms();
    kit_create("{\"templateID\":\"host\",\"timeout\":1}", id, token);
    only_sandbox()->deadline_ms += 400; /* a timer that fires before it waits on */
    KIT_UNTIL(kit.e.sandboxes.count == 0);
    assert_true(abx_time_mono_ms() - begun >= 1390);
    kit_teardown();
}

TEST(sandbox_that_ends_by_itself_is_removed)
{
    kit_setup();
    char id[32], token[80];
    struct abx_proc_status st = {.signum = 9};
    kit_create(host_body, id, token);
    abx__engine_on_sandbox_exit(&kit.e, id, &st);
    abx__engine_on_sandbox_exit(&kit.e, "iunknownunknownunknow", &st);
    assert_null(abx__sandbox_find(&kit.e, abx_str(id)));
    KIT_UNTIL(kit.e.sandboxes.count == 0);
    assert_false(kit_lives(id));
    kit_teardown();
}

TEST(kill_that_fails_is_tried_again)
{
    kit_setup();
    char id[32], token[80], path[96];
    kit_create(host_body, id, token);
    kit.fail_destroys = 2;
    snprintf(path, sizeof(path), "/sandboxes/%s", id);
    assert_int_equal(kit_ask("DELETE", path, NULL, NULL), 204);
    assert_int_equal(kit.counts[KIT_DESTROY], 3);
    assert_false(kit_lives(id));
    kit_teardown();
}

TEST(one_hung_sandbox_does_not_delay_the_others)
{
    kit_setup();
    char id[32], token[80], path[96], text[512];
    kit_create(host_body, id, token);
    kit.hold = true;
    snprintf(path, sizeof(path), "/sandboxes/%s", id);
    int fd = kit_connect();
    snprintf(text, sizeof(text), "DELETE %s HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: %s\r\n\r\n",
             path, kit_key);
    kit_send(fd, text, strlen(text));
    KIT_UNTIL(kit.counts[KIT_DESTROY] == 1);
    assert_int_equal(kit_ask("GET", "/v2/sandboxes", NULL, NULL), 200);
    assert_true(kit_said("[]"));
    assert_int_equal(kit_ask("GET", "/health", NULL, NULL), 200);
    assert_int_equal(kit_ask("GET", path, NULL, NULL), 404);
    kit.hold = false;
    assert_int_equal(kit_read(fd), 204);
    close(fd);
    kit_teardown();
}

/* Lists. */

static void make(const char *metadata)
{
    char body[512], id[32], token[80];
    snprintf(body, sizeof(body), "{\"templateID\":\"host\",\"metadata\":%s}", metadata);
    kit_create(body, id, token);
}

static int count_items(void)
{
    int n = 0;
    for (const char *p = kit.body.ptr; p != NULL && (p = strstr(p, "\"sandboxID\"")) != NULL; p++)
        n++;
    return n;
}

TEST(list_filters_by_metadata_encoded_twice)
{
    static const struct {
        const char *query;
        int status, items;
    } rows[] = {
        {"", 200, 4},
        {"?state=running", 200, 4},
        {"?state=running%2Cpaused", 200, 4},
        {"?state=paused", 200, 0},
        {"?state=other", 400, 0},
        {"?metadata=a%252520b%3Dc%252526d", 200, 1},
        {"?metadata=plus%25252Bplus%3Dx%25253Dy", 200, 1},
        {"?metadata=who%3Dme", 200, 2},
        {"?metadata=who%3Dme%26n%3D1", 200, 1},
        {"?metadata=who%3Dyou", 200, 0},
        {"?metadata=%2525C3%2525BC%3D1", 200, 1},
        {"?metadata=%25zz%3D1", 400, 0},
        {"?template=host", 200, 4},
        {"?template=other", 200, 0},
        {"?startedAfter=2020-01-01T00%3A00%3A00.000Z", 200, 4},
        {"?startedAfter=2120-01-01T00%3A00%3A00%2B02%3A00", 200, 0},
        {"?startedAfter=yesterday", 400, 0},
        {"?limit=0", 400, 0},
        {"?limit=101", 400, 0},
        {"?order=up", 400, 0},
        {"?nextToken=junk", 400, 0},
    };
    kit_setup();
    make("{\"a b\":\"c&d\"}");
    make("{\"plus+plus\":\"x=y\"}");
    make("{\"who\":\"me\",\"n\":\"1\"}");
    make("{\"who\":\"me\",\"\xc3\xbc\":\"1\"}");
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        char path[128];
        snprintf(path, sizeof(path), "/v2/sandboxes%s", rows[i].query);
        int status = kit_ask("GET", path, NULL, NULL);
        if (status != rows[i].status || count_items() != rows[i].items)
            fail_msg("%s: %d, %d items", path, status, count_items());
    }
    /* v1 pages as the published client asks (published-client.md C5) */
    const struct {
        const char *query;
        int status, items;
    } v1[] = {{"", 200, 2},
              {"&limit=1", 200, 1},
              {"&limit=1&offset=1", 200, 1},
              {"&limit=100&offset=2", 200, 0},
              {"&offset=4294967295", 200, 0},
              {"&status=running", 200, 2},
              {"&status=paused", 200, 0},
              {"&status=odd", 400, 0},
              {"&limit=0", 400, 0},
              {"&offset=-1", 400, 0},
              {"&state=paused", 200, 2}};
    for (size_t i = 0; i < ABX_COUNTOF(v1); i++) {
        char path[128];
        snprintf(path, sizeof(path), "/sandboxes?metadata=who%%3Dme%s", v1[i].query);
        assert_int_equal(kit_ask("GET", path, NULL, NULL), v1[i].status);
        if (v1[i].status == 200)
            assert_int_equal(count_items(), v1[i].items);
    }
    kit_teardown();
}

TEST(list_pages_end_exactly_at_the_last_item)
{
    kit_setup();
    for (int i = 0; i < 4; i++)
        make("{}");
    /* equal start times must not lose or repeat one */
    size_t it = 0;
    struct abx_str id;
    void *value;
    while (abx_map_next(&kit.e.sandboxes, &it, &id, &value))
        ((struct abx__sandbox *)value)->started_ns = 1000000000000000000;
    static const char *const orders[] = {"asc", "desc"};
    for (size_t o = 0; o < 2; o++) {
        char path[160], next[96] = "", seen[4][32];
        int n = 0, pages = 0;
        do {
            snprintf(path, sizeof(path), "/v2/sandboxes?limit=2&order=%s%s%s", orders[o],
                     next[0] == '\0' ? "" : "&nextToken=", next);
            assert_int_equal(kit_ask("GET", path, NULL, NULL), 200);
            assert_true(kit_head_has("X-Total-Running: 4\n"));
            for (const char *p = kit.body.ptr; (p = strstr(p, "\"sandboxID\":\"")) != NULL; n++) {
                p += strlen("\"sandboxID\":\"");
                assert_true(n < 4);
                snprintf(seen[n], sizeof(seen[n]), "%.21s", p);
            }
            const char *at = strstr(kit.head, "X-Next-Token: ");
            next[0] = '\0';
            if (at != NULL)
                sscanf(at, "X-Next-Token: %90s", next);
            pages++;
        } while (next[0] != '\0');
        assert_int_equal(pages, 2);
        assert_int_equal(n, 4);
        for (int i = 1; i < 4; i++)
            assert_true((strcmp(seen[i - 1], seen[i]) < 0) == (o == 0));
    }
    kit_teardown();
}

/* The door. */

TEST(key_is_needed_and_either_header_does)
{
    static const struct {
        const char *header;
        int status;
        const char *text;
    } rows[] = {
        {"", 401, "X-API-KEY"},
        {"X-API-KEY: e2b_00112233445566778899aabbccddeeff00112233\r\n", 200, "["},
        {"x-api-key: e2b_00112233445566778899aabbccddeeff00112233\r\n", 200, "["},
        {"Authorization: Bearer e2b_00112233445566778899aabbccddeeff00112233\r\n", 200, "["},
        {"X-API-KEY: nonsense\r\n", 401, "Invalid API key format"},
        {"X-API-KEY: e2b_\r\n", 401, "Invalid API key format"},
        {"X-API-KEY: e2b_ABC\r\n", 401, "Invalid API key format"},
        {"X-API-KEY: e2b_0011\r\n", 401, "Cannot get the team for the given API key"},
        {"Authorization: Basic eDp5\r\n", 401, "X-API-KEY"},
    };
    kit_setup();
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        char headers[256];
        snprintf(headers, sizeof(headers), "Host: localhost\r\n%s", rows[i].header);
        int status = kit_ask("GET", "/sandboxes", headers, NULL);
        if (status != rows[i].status || !kit_said(rows[i].text))
            fail_msg("row %zu: %d %s", i, status, kit.body.ptr);
        assert_true(kit_head_has("Access-Control-Allow-Origin: *\n"));
        assert_false(kit_head_has("Access-Control-Allow-Credentials"));
    }
    kit_teardown();
}

TEST(preflight_needs_no_key)
{
    kit_setup();
    assert_int_equal(kit_ask("OPTIONS", "/v2/sandboxes",
                             "Host: localhost\r\nOrigin: https://example.com\r\n"
                             "Access-Control-Request-Method: POST\r\n",
                             NULL),
                     204);
    assert_true(kit_head_has("Access-Control-Allow-Origin: *\n"));
    assert_true(kit_head_has("X-API-Key"));
    assert_int_equal(kit_ask("OPTIONS", "/v2/sandboxes", "Host: localhost\r\n", NULL), 401);
    kit_teardown();
}

TEST(foreign_host_is_misdirected)
{
    static const char *const hosts[] = {"evil.example", "10.0.0.1", "localhost.evil.example",
                                        "169.254.169.254"};
    static const char *const paths[] = {"/health", "/sandboxes", "/files?signature=x",
                                        "/.p/iabc/3000/"};
    kit_setup();
    for (size_t h = 0; h < ABX_COUNTOF(hosts); h++) {
        for (size_t p = 0; p < ABX_COUNTOF(paths); p++) {
            char headers[256];
            snprintf(headers, sizeof(headers),
                     "Host: %s\r\nX-API-KEY: %s\r\nE2b-Sandbox-Id: iabc\r\nE2b-Sandbox-Port: 1\r\n",
                     hosts[h], kit_key);
            assert_int_equal(kit_ask("GET", paths[p], headers, NULL), 421);
            assert_true(kit_said("\"code\":421"));
        }
    }
    assert_int_equal(kit_raw("GET /health HTTP/1.1\r\n\r\n"), 400);
    assert_int_equal(kit_raw("GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n"),
                     400);
    kit_teardown();
}

TEST(both_framings_are_read)
{
    kit_setup();
    char text[512];
    snprintf(
        text, sizeof(text),
        "POST /v2/sandboxes HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: %s\r\n"
        "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"tem\r\n10\r\nplateID\":\"host\"}\r\n0\r\n\r\n",
        kit_key);
    assert_int_equal(kit_raw(text), 201);
    kit_teardown();
}

TEST(body_over_the_cap_is_413)
{
    kit_setup();
    size_t len = ABX__BODY_MAX + 10;
    char *body = malloc(len + 1);
    memset(body, ' ', len);
    body[len] = '\0';
    assert_int_equal(kit_ask("POST", "/v2/sandboxes", NULL, body), 413);
    free(body);
    kit_teardown();
}

/* Every row of the route table, with parameters filled in. */
static void fill(const char *pattern, const char *id, char *out, size_t cap)
{
    size_t n = 0;
    bool inside = false;
    for (; *pattern != '\0' && n + 32 < cap; pattern++) {
        if (*pattern == '{')
            n += (size_t)snprintf(out + n, cap - n, "%s", id);
        inside = (inside || *pattern == '{') && *pattern != '}';
        if (!inside && *pattern != '}')
            out[n++] = *pattern;
    }
    out[n] = '\0';
}

TEST(no_route_answers_2xx_and_does_nothing)
{
    kit_setup();
    size_t rows = 0;
    for (size_t t = 0; abx__route_tables[t] != NULL; t++) {
        for (const struct abx__route *r = abx__route_tables[t]; r->path != NULL; r++) {
            char path[160];
            assert_true((r->fn == abx__api_unimplemented) == (r->missing != NULL));
            fill(r->path, "iaaaaaaaaaaaaaaaaaaaa", path, sizeof(path));
            const char *body = strcmp(r->method, "GET") == 0 ? NULL : "{}";
            int status = kit_ask(r->method, path, NULL, body);
            char code[32];
            snprintf(code, sizeof(code), "\"code\":%d", status);
            if (r->missing != NULL && (status != 501 || !kit_said(r->missing)))
                fail_msg("%s %s: %d", r->method, path, status);
            if (status >= 400 && !kit_said(code))
                fail_msg("%s %s: no integer code in %s", r->method, path, kit.body.ptr);
            /* with an unknown id and an empty body only these have an answer to give */
            bool is_list = strcmp(r->method, "GET") == 0 && strchr(r->path, '{') == NULL;
            bool is_gc = strcmp(r->path, "/abx/v1/gc") == 0 && kit.gc_count == 2;
            bool is_import = strcmp(r->path, "/abx/v1/images/{name}") == 0 && kit.imported[0] != 0;
            /* of the image just imported, which is a template by its name too */
            bool is_export = abx_str_ends(abx_str(r->path), "}/archive") && kit.body.len > 0;
            if (r->missing == NULL && status / 100 == 2 && !(is_list && kit.body.len > 0) &&
                !is_gc && !is_import && !is_export)
                fail_msg("%s %s: %d and nothing done", r->method, path, status);
            rows++;
        }
    }
    assert_true(rows > 70);
    assert_int_equal(kit_ask("GET", "/nothing/here", NULL, NULL), 404);
    assert_true(kit_said("\"code\":404"));
    assert_int_equal(kit_ask("PUT", "/sandboxes", NULL, "{}"), 405);
    assert_true(kit_said("\"code\":405"));
    assert_true(kit_head_has("Allow: POST, GET\n"));
    kit_teardown();
}

TEST(info_tells_version_and_isolation)
{
    kit_setup();
    assert_int_equal(kit_ask("GET", "/abx/v1/info", NULL, NULL), 200);
    assert_true(kit_said("\"version\":\"" ABX_VERSION "\""));
    assert_true(kit_said("\"limits\":\"cgroup-v1\""));
    assert_true(kit_said("\"templates\":[\"host\"]"));
    kit_teardown();
}

/* Restarts. */

TEST(restart_adopts_the_living_and_removes_the_dead)
{
    kit_setup();
    char living[32], dead[32], token[80], token2[80], path[96], end[64], end2[64];
    kit_create("{\"templateID\":\"host\",\"metadata\":{\"k\":\"v\"}}", living, token);
    kit_create(host_body, dead, token2);
    snprintf(path, sizeof(path), "/sandboxes/%s", living);
    assert_int_equal(kit_ask("GET", path, NULL, NULL), 200);
    kit_member("endAt", end, sizeof(end));
    kit_stop();
    kit_remove(dead);
    kit_start();
    assert_int_equal(kit.counts[KIT_ADOPT], 2);
    assert_int_equal(kit.counts[KIT_GC], 2); /* one per start */
    assert_int_equal(kit.kept, 1);
    assert_int_equal(kit_ask("GET", path, NULL, NULL), 200);
    kit_member("endAt", end2, sizeof(end2));
    kit_member("envdAccessToken", token2, sizeof(token2));
    assert_string_equal(end, end2);
    assert_string_equal(token, token2);
    assert_true(kit_said("\"metadata\":{\"k\":\"v\"}"));
    snprintf(path, sizeof(path), "/sandboxes/%s", dead);
    assert_int_equal(kit_ask("GET", path, NULL, NULL), 404);
    kit_teardown();
}

TEST(restart_kills_what_ran_out_meanwhile)
{
    kit_setup();
    char id[32], token[80];
    struct abx_error err = {0};
    kit_create(host_body, id, token);
    assert_int_equal(abx_store_set_end(kit.e.store, id, 1, &err), 0);
    kit_stop();
    kit_start();
    KIT_UNTIL(kit.e.sandboxes.count == 0);
    assert_false(kit_lives(id));
    kit_teardown();
}

TEST(restart_finishes_a_kill_and_undoes_a_creation)
{
    kit_setup();
    char killed[32], token[80];
    kit_create(host_body, killed, token);
    struct abx_error err = {0};
    assert_int_equal(abx_store_destroy_begin(kit.e.store, killed, "killing", &err), 0);
    struct abx_store_sandbox row = {.id = "izzzzzzzzzzzzzzzzzzzz",
                                    .state = "creating",
                                    .template_name = "host",
                                    .metadata = ABX_STR("{}"),
                                    .envs = ABX_STR("{}")};
    assert_int_equal(abx_store_create_begin(kit.e.store, &row, &err), 0);
    kit_stop();
    kit_start();
    assert_int_equal(kit.counts[KIT_ADOPT], 0);
    assert_int_equal(kit.e.sandboxes.count, 0);
    assert_false(kit_lives(killed));
    kit_stop();
    kit_start(); /* nothing is left to do */
    assert_int_equal(kit.counts[KIT_DESTROY], 2);
    kit_teardown();
}
