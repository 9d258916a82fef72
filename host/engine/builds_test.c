/* host/engine/builds_test.c: templates through the API: names, uploads, builds, logs, rehearsal,
 * recovery, and sandboxes of them. Over doubles of the builder and of the runtime side. */
#include "host/engine/testkit_priv.h"
#include "host/engine/uploads_priv.h"

#include <dirent.h>
#include <sqlite3.h>

#include "lib/base/banned.h"

static const char hash_a[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

struct named {
    char template_id[64], build_id[64];
};

static void expect(int want, int got)
{
    if (want != got)
        fail_msg("%d, not %d: %s", got, want, kit.body.len == 0 ? "" : kit.body.ptr);
}

static void put_base(void)
{
    expect(201, kit_ask("POST", "/abx/v1/images/base?recipe=r1", NULL, "a tar"));
}

static void setup(void)
{
    kit_setup();
    put_base();
}

static struct named declare(const char *body)
{
    struct named n;
    expect(202, kit_ask("POST", "/v3/templates", NULL, body));
    kit_member("templateID", n.template_id, sizeof(n.template_id));
    kit_member("buildID", n.build_id, sizeof(n.build_id));
    return n;
}

static int start(const struct named *n, const char *body)
{
    char path[256];
    snprintf(path, sizeof(path), "/v2/templates/%s/builds/%s", n->template_id, n->build_id);
    return kit_ask("POST", path, NULL, body);
}

static void ask_status(const struct named *n, const char *query)
{
    char path[256];
    snprintf(path, sizeof(path), "/templates/%s/builds/%s/status%s", n->template_id, n->build_id,
             query);
    expect(200, kit_ask("GET", path, NULL, NULL));
}

static void await(const struct named *n, const char *status)
{
    char text[64];
    int64_t end = abx_time_mono_ms() + KIT_HANG_MS;
    snprintf(text, sizeof(text), "\"status\":\"%s\"", status);
    do {
        if (abx_time_mono_ms() > end)
            fail_msg("%s", kit.body.ptr);
        ask_status(n, "");
    } while (!kit_said(text));
}

static struct named build(const char *name, const char *body)
{
    char text[256];
    snprintf(text, sizeof(text), "{\"name\":\"%s\"}", name);
    struct named n = declare(text);
    expect(202, start(&n, body));
    return n;
}

TEST(builds_declare_says_all_six)
{
    setup();
    struct named n = declare("{\"name\":\"Hello:v1\",\"tags\":[\"prod\"],\"cpuCount\":1,"
                             "\"memoryMB\":512}");
    assert_true(kit_said("\"names\":[\"local/hello\"]"));
    assert_true(kit_said("\"tags\":[\"v1\",\"prod\"]"));
    assert_true(kit_said("\"aliases\":[\"hello\"]"));
    assert_true(kit_said("\"public\":false"));
    assert_true(abx__build_id_is_valid(abx_str(n.build_id)));
    ask_status(&n, "");
    assert_true(kit_said("\"status\":\"waiting\""));
    kit_teardown();
}

TEST(builds_refusals)
{
    static const struct {
        const char *method, *path, *body;
        int status;
    } rows[] = {
        {"POST", "/v3/templates", "{}", 400},
        {"POST", "/v3/templates", "{\"name\":\":x\"}", 400},
        {"POST", "/v3/templates", "{\"name\":\"name:\"}", 400},
        {"POST", "/v3/templates", "{\"name\":\"a b\"}", 400},
        {"POST", "/v3/templates", "{\"name\":\"other/a\"}", 403},
        {"POST", "/v3/templates", "{\"name\":\"host\"}", 403},
        {"POST", "/v3/templates", "{\"name\":\"base\"}", 403},
        {"POST", "/v3/templates", "{\"name\":\"a\",\"tags\":[\"b c\"]}", 400},
        {"POST", "/v3/templates", "{\"name\":\"a\",\"tags\":\"b\"}", 400},
        {"POST", "/v3/templates", "{\"name\":\"a\",\"cpuCount\":-1}", 400},
        {"POST", "/v3/templates", "{\"name\":\"a\",\"memoryMB\":1}", 400},
        {"GET", "/templates/none", NULL, 404},
        {"DELETE", "/templates/none", NULL, 404},
        {"PATCH", "/templates/none", "{\"public\":true}", 404},
        {"PATCH", "/v2/templates/none", "{\"public\":true}", 404},
        {"GET", "/templates/none/tags", NULL, 404},
        {"GET", "/templates/aliases/none", NULL, 404},
        {"GET", "/templates/aliases/other%2Fa", NULL, 403},
        {"GET", "/templates/a%20b", NULL, 400},
        {"POST", "/templates/tags", "{\"target\":\"none:x\",\"tags\":[\"y\"]}", 404},
        {"POST", "/templates/tags", "{\"target\":\"none:x\",\"tags\":[]}", 400},
        {"POST", "/templates/tags", "{\"target\":\"none:x\"}", 400},
        {"DELETE", "/templates/tags", "{\"name\":\"none\",\"tags\":[\"y\"]}", 404},
        {"GET", "/templates/none/files/x", NULL, 400},
        {"GET",
         "/templates/none/files/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
         NULL, 404},
        {"POST", "/v2/templates/none/builds/00000000-0000-4000-8000-000000000000", "{}", 404},
        {"GET", "/templates/none/builds/00000000-0000-4000-8000-000000000000/status", NULL, 404},
        {"GET", "/templates/none/builds/00000000-0000-4000-8000-000000000000/logs", NULL, 404},
        {"GET", "/v2/templates?limit=0", NULL, 400},
        {"GET", "/v2/templates?limit=101", NULL, 400},
        {"GET", "/v2/templates?nextToken=zzz", NULL, 400},
        {"GET", "/abx/v1/images/none", NULL, 404},
        {"POST", "/abx/v1/images/host", "x", 400},
        {"POST", "/abx/v1/images/a%2F", "x", 400},
        {"POST", "/abx/v1/images/A", "x", 400},
        {"POST", "/abx/v1/images/a?kind=zip", "x", 400},
        {"POST", "/templates", "{}", 501},
        {"POST", "/v2/templates", "{}", 501},
        {"POST", "/templates/x", "{}", 501},
        {"POST", "/templates/x/builds/y", "{}", 501},
    };
    setup();
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        int got = kit_ask(rows[i].method, rows[i].path, NULL, rows[i].body);
        char code[32];
        snprintf(code, sizeof(code), "{\"code\":%d,", rows[i].status);
        if (got != rows[i].status || !kit_said(code))
            fail_msg("%s %s %s: %d %s", rows[i].method, rows[i].path, rows[i].body, got,
                     kit.body.ptr);
    }
    kit_teardown();
}

TEST(builds_start_refusals)
{
    static const struct {
        const char *body;
        int status;
    } rows[] = {
        {"{}", 400},
        {"{\"fromImage\":\"a\",\"fromTemplate\":\"b\"}", 400},
        {"{\"fromImage\":\"a\",\"steps\":[{\"args\":[]}]}", 400},
        {"{\"fromImage\":\"a\",\"steps\":[{\"type\":\"FLY\",\"args\":[\"x\"]}]}", 400},
        {"{\"fromImage\":\"a\",\"steps\":[{\"type\":\"RUN\",\"args\":[]}]}", 400},
        {"{\"fromImage\":\"a\",\"steps\":[{\"type\":\"RUN\",\"args\":[\"\"]}]}", 400},
        {"{\"fromImage\":\"a\",\"steps\":[{\"type\":\"ENV\",\"args\":[\"A\"]}]}", 400},
        {"{\"fromImage\":\"a\",\"steps\":[{\"type\":\"ENV\",\"args\":[\"A\",\"1\",\"B\"]}]}", 400},
        {"{\"fromImage\":\"a\",\"steps\":[{\"type\":\"COPY\",\"args\":[\"a\",\"b\"]}]}", 400},
        {"{\"fromImage\":\"a\",\"steps\":[{\"type\":\"COPY\",\"args\":[\"a\",\"b\"],"
         "\"filesHash\":\"../x\"}]}",
         400},
        {"{\"fromImage\":\"a\",\"steps\":[{\"type\":\"RUN\",\"args\":[\"a\\u0000b\"]}]}", 400},
        {"{\"fromImage\":\"a\",\"abx\":{\"network\":\"egress\"}}", 501},
        {"{\"fromImage\":\"a\",\"abx\":{\"envdInject\":\"perhaps\"}}", 400},
        {"{\"fromImage\":\"a\",\"fromImageRegistry\":{\"type\":\"registry\"}}", 501},
        {"[]", 400},
    };
    setup();
    struct named n = declare("{\"name\":\"hello\"}");
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        int got = start(&n, rows[i].body);
        if (got != rows[i].status)
            fail_msg("%s: %d %s", rows[i].body, got, kit.body.ptr);
    }
    ask_status(&n, "");
    assert_true(kit_said("\"status\":\"waiting\"")); /* none of it has started it */
    expect(202, start(&n, "{\"fromImage\":\"e2bdev/base\",\"fromTemplate\":null}"));
    await(&n, "ready");
    expect(400, start(&n, "{\"fromImage\":\"e2bdev/base\"}"));
    assert_true(kit_said("build is not in waiting state"));
    kit_teardown();
}

TEST(builds_steps_in_order_with_logs)
{
    setup();
    struct named n =
        build("hello", "{\"fromImage\":\"fc-e2b-registry.cn-hangzhou.cr.aliyuncs.com/runtime/"
                       "base:v0.0.49\",\"abx\":{\"envdInject\":\"false\",\"network\":\"none\","
                       "\"procHidepid\":true},"
                       "\"steps\":[{\"type\":\"USER\",\"args\":[\"root\"]},"
                       "{\"type\":\"ENV\",\"args\":[\"A\",\"1\"],\"gzip\":true},"
                       "{\"type\":\"WORKDIR\",\"args\":[\"/app\"]},"
                       "{\"type\":\"RUN\",\"args\":[\"many\",\"root\"]}]}");
    await(&n, "ready");
    assert_int_equal(kit.step_count, 4);
    assert_string_equal(kit.steps[0], "USER root");
    assert_string_equal(kit.steps[1], "ENV A=1");
    assert_string_equal(kit.steps[2], "WORKDIR /app");
    assert_string_equal(kit.steps[3], "RUN many");
    ask_status(&n, "?logsOffset=0");
    const char *first = strstr(kit.body.ptr, "\"message\":\"");
    assert_non_null(first);
    assert_int_equal(strncmp(first + 11, "base: stand-in for runtime/base:v0.0.49\"", 40), 0);
    assert_true(kit_said("network: RUN has loopback only"));
    assert_true(kit_said("[builder 4/4] RUN many root\",\"step\":\"4\""));
    int pages = 0, total = 0;
    for (; pages < 10; pages++) {
        char query[64];
        int count = 0;
        snprintf(query, sizeof(query), "?logsOffset=%d", total);
        ask_status(&n, query);
        for (const char *at = kit.body.ptr; (at = strstr(at, "\"timestamp\"")) != NULL; at++)
            count++;
        assert_true(count <= 100);
        total += count;
        if (count == 0)
            break;
    }
    assert_true(total > 120 && pages < 10);
    char path[256];
    snprintf(path, sizeof(path), "/templates/hello/builds/%s/logs?limit=3&direction=backward",
             n.build_id);
    expect(200, kit_ask("GET", path, NULL, NULL));
    assert_true(kit_said("[finalize] ready"));
    expect(200, kit_ask("GET", "/templates/local%2Fhello", NULL, NULL));
    assert_true(kit_said("\"envdInject\":\"false\""));
    assert_true(kit_said("\"procHidepid\":true"));
    assert_true(kit_said("\"base\":\"base: stand-in for runtime/base:v0.0.49\""));
    assert_true(kit_said("\"user\":\"root\",\"workdir\":\"/app\""));
    kit_teardown();
}

TEST(builds_failing_step_says_which_and_its_output)
{
    setup();
    struct named n = build("hello", "{\"fromImage\":\"e2bdev/base\",\"steps\":["
                                    "{\"type\":\"RUN\",\"args\":[\"true\"]},"
                                    "{\"type\":\"RUN\",\"args\":[\"exit 3\"]},"
                                    "{\"type\":\"RUN\",\"args\":[\"never\"]}]}");
    await(&n, "error");
    assert_int_equal(kit.step_count, 2);
    assert_true(kit_said("\"reason\":{\"message\":\"step 2: RUN exit 3: failed to run command"
                         " 'exit 3': exit status 3\\nfirst line\\nlast line\",\"step\":\"2\""));
    assert_non_null(strstr(strstr(kit.body.ptr, "\"reason\""), "[stdout]: last line"));
    expect(404, kit_ask("POST", "/v2/sandboxes", NULL, "{\"templateID\":\"hello\"}"));
    assert_true(kit_said("tag 'default' does not exist for template 'hello'"));
    kit_teardown();
}

TEST(builds_base_that_is_not_there)
{
    kit_setup();
    struct named n = build("hello", "{\"fromImage\":\"e2bdev/base\"}");
    await(&n, "error");
    assert_true(kit_said("\"step\":\"base\""));
    assert_true(kit_said("abx image build base"));
    n = build("hello", "{\"fromImage\":\"python:3.12\"}");
    await(&n, "error");
    assert_true(kit_said("pulls from no registry: `abx image import python:3.12 FILE`"));
    n = build("hello", "{\"fromTemplate\":\"none\"}");
    await(&n, "error");
    assert_true(kit_said("template 'none' not found"));
    kit_teardown();
}

TEST(builds_second_one_is_a_full_hit)
{
    static const char body[] = "{\"fromImage\":\"e2bdev/base\",\"steps\":["
                               "{\"type\":\"RUN\",\"args\":[\"a\"]},"
                               "{\"type\":\"RUN\",\"args\":[\"b\"]}]}";
    setup();
    struct named n = build("hello", body);
    await(&n, "ready");
    assert_false(kit_said("CACHED"));
    n = build("hello", body);
    await(&n, "ready");
    assert_true(kit_said("CACHED [builder 1/2] RUN a"));
    assert_true(kit_said("CACHED [builder 2/2] RUN b"));
    kit_teardown();
}

TEST(builds_newer_one_cancels_and_the_same_step_waits)
{
    setup();
    kit.hold_steps = true;
    static const char body[] =
        "{\"fromImage\":\"e2bdev/base\",\"steps\":[{\"type\":\"RUN\",\"args\":[\"a\"]}]}";
    struct named first = build("hello", body), other = build("other", body);
    KIT_UNTIL(kit.build_count == 1);
    for (int i = 0; i < 50; i++)
        kit_turn();
    assert_int_equal(kit.build_count, 1); /* the same step, once */
    struct named second = build("hello", body);
    await(&first, "error");
    assert_true(kit_said("a newer build of the template was started"));
    kit.hold_steps = false;
    await(&other, "ready");
    await(&second, "ready");
    kit_teardown();
}

/* Two builds at once whose second RUN is held; the runner's and the follower's names. */
static void start_twins(const char *command, const char *limits, struct named *first,
                        struct named *second)
{
    char body[512], declared[128];
    snprintf(body, sizeof(body),
             "{\"fromImage\":\"e2bdev/base\",\"steps\":[{\"type\":\"RUN\",\"args\":[\"%s\"]}]}",
             command);
    setup();
    kit.hold_steps = true;
    *first = build("first", body);
    KIT_UNTIL(kit.build_count == 1);
    kit_output(kit.builds[0], "before\n");
    snprintf(declared, sizeof(declared), "{\"name\":\"second\"%s}", limits);
    *second = declare(declared);
    expect(202, start(second, body));
    do {
        ask_status(second, "?logsOffset=0");
    } while (!kit_said("the same step runs in build "));
    assert_int_equal(kit.build_count, 1);
}

TEST(builds_twins_run_once_with_one_log)
{
    static const char *const lines[] = {"[builder 1/1] RUN a", "[builder 1/1] [stdout]: before",
                                        "[builder 1/1] [stdout]: while",
                                        "CACHED [builder 1/1] RUN a"};
    struct named first, second;
    start_twins("a", "", &first, &second);
    assert_true(kit_said(first.build_id));
    kit_output(kit.builds[0], "while\n");
    kit.hold_steps = false;
    await(&second, "ready");
    await(&first, "ready");
    assert_false(kit_said("CACHED"));
    ask_status(&second, "?logsOffset=0");
    const char *at = kit.body.ptr;
    for (size_t i = 0; i < ABX_COUNTOF(lines); i++) {
        at = strstr(at, lines[i]);
        if (at == NULL)
            fail_msg("'%s' is not there, or not in order: %s", lines[i], kit.body.ptr);
    }
    assert_non_null(strstr(kit.body.ptr, "[stdout]: before\",\"step\":\"1\""));
    assert_int_equal(kit.made_count, 1);
    kit_teardown();
}

TEST(builds_twins_fail_together)
{
    struct named first, second;
    start_twins("exit 3", "", &first, &second);
    kit.hold_steps = false;
    await(&second, "error");
    assert_true(kit_said("step 1: RUN exit 3: failed to run command 'exit 3': exit status 3"
                         "\\nbefore\\nfirst line\\nlast line\",\"step\":\"1\""));
    await(&first, "error");
    assert_int_equal(kit.step_count, 1);
    kit_teardown();
}

TEST(builds_with_other_limits_try_for_themselves)
{
    struct named first, second;
    start_twins("exit 3", ",\"memoryMB\":2048", &first, &second);
    kit.hold_steps = false;
    await(&second, "error");
    await(&first, "error");
    assert_int_equal(kit.step_count, 2);
    kit_teardown();
}

TEST(builds_without_the_cache_are_followed_by_nobody)
{
    setup();
    kit.hold_steps = true;
    struct named first = build("first", "{\"fromImage\":\"e2bdev/base\",\"force\":true,\"steps\":["
                                        "{\"type\":\"RUN\",\"args\":[\"a\"]}]}");
    struct named second = build("second", "{\"fromImage\":\"e2bdev/base\",\"steps\":["
                                          "{\"type\":\"RUN\",\"args\":[\"a\"]}]}");
    KIT_UNTIL(kit.build_count == 2);
    kit.hold_steps = false;
    await(&first, "ready");
    await(&second, "ready");
    kit_teardown();
}

TEST(builds_whose_runner_is_canceled_run_themselves)
{
    struct named first, second;
    start_twins("a", "", &first, &second);
    expect(204, kit_ask("DELETE", "/templates/first", NULL, NULL));
    kit.hold_steps = false;
    await(&second, "ready");
    assert_false(kit_said("CACHED"));
    assert_int_equal(kit.step_count, 1);
    kit_teardown();
}

TEST(builds_a_foreign_image_gets_the_account)
{
    kit_setup();
    expect(201, kit_ask("POST", "/abx/v1/images/mine", NULL, "a tar"));
    struct named n = build("hello", "{\"fromImage\":\"mine\",\"steps\":[{\"type\":\"RUN\","
                                    "\"args\":[\"a\"]}]}");
    await(&n, "ready");
    assert_string_equal(kit.steps[0], "USER user");
    assert_string_equal(kit.steps[1], "WORKDIR /home/user");
    assert_string_equal(kit.steps[2], "RUN a");
    kit_teardown();
}

/* A Dockerfile that names python:3.12 is built as it stands, once that image was imported. */
TEST(builds_on_an_image_that_is_named_as_from_names_it)
{
    static const char *const names[] = {"python:3.12", "team/app:v1"};
    static const char *const paths[] = {"/abx/v1/images/python%3A3.12",
                                        "/abx/v1/images/team%2Fapp:v1"};
    char body[256];
    kit_setup();
    for (size_t i = 0; i < ABX_COUNTOF(names); i++) {
        expect(201, kit_ask("POST", paths[i], NULL, "a tar"));
        expect(200, kit_ask("GET", paths[i], NULL, NULL));
        snprintf(body, sizeof(body),
                 "{\"fromImage\":\"%s\",\"steps\":[{\"type\":\"RUN\",\"args\":[\"a\"]}]}",
                 names[i]);
        struct named n = build("hello", body);
        await(&n, "ready");
    }
    char id[32], token[80];
    kit_create("{\"templateID\":\"python:3.12\"}", id, token);
    assert_true(kit_said("\"templateID\":\"python:3.12\""));
    expect(404, kit_ask("POST", "/v2/sandboxes", NULL, "{\"templateID\":\"python:3.13\"}"));
    kit_teardown();
}

/* Uploads. */

static void get_link(const char *template_id, char *path, size_t cap)
{
    char ask[256], url[512];
    snprintf(ask, sizeof(ask), "/templates/%s/files/%s", template_id, hash_a);
    expect(201, kit_ask("GET", ask, NULL, NULL));
    kit_member("url", url, sizeof(url));
    const char *at = strstr(url, "/templates/");
    assert_non_null(at);
    snprintf(path, cap, "%s", at);
}

#define NO_KEY "Host: localhost\r\n"

TEST(builds_upload_by_link)
{
    setup();
    char path[512], other[512];
    struct named n = declare("{\"name\":\"hello\"}");
    get_link("hello", path, sizeof(path));
    assert_true(kit_said("\"present\":false"));
    expect(200, kit_ask("PUT", path, NO_KEY, "the archive"));
    get_link("hello", other, sizeof(other));
    assert_true(kit_said("\"present\":true"));
    expect(200, kit_ask("PUT", other, NO_KEY, "the archive again"));
    expect(202,
           start(&n, "{\"fromImage\":\"e2bdev/base\",\"steps\":[{\"type\":\"COPY\",\"args\":"
                     "[\"a\",\"b\",\"\",\"\"],\"filesHash\":"
                     "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}]}"));
    await(&n, "ready");
    unsigned char digest[32];
    char want[64], hex[9];
    crypto_hash_sha256(digest, (const unsigned char *)"the archive again", 17);
    abx_hex_encode(digest, 4, hex);
    snprintf(want, sizeof(want), "COPY a b %s", hex);
    assert_string_equal(kit.steps[0], want);
    kit_teardown();
}

TEST(builds_upload_refusals)
{
    setup();
    char path[512], bad[600];
    struct abx__link l;
    char mac[65];
    struct named n = declare("{\"name\":\"hello\"}");
    declare("{\"name\":\"other\"}");
    get_link("hello", path, sizeof(path));
    snprintf(bad, sizeof(bad), "%.*s", (int)(strchr(path, '?') - path), path);
    expect(401, kit_ask("PUT", bad, NO_KEY, "x"));
    snprintf(bad, sizeof(bad), "%s0", path);
    expect(403, kit_ask("PUT", bad, NO_KEY, "x"));
    snprintf(bad, sizeof(bad), "%s", path);
    *strstr(bad, "/aaaa") = '/';
    strstr(bad, "/aaaa")[1] = 'b';
    expect(403, kit_ask("PUT", bad, NO_KEY, "x")); /* another hash */
    l = (struct abx__link){abx_str(n.template_id), abx_str(hash_a), 1000, 5};
    abx__link_sign(&kit.e, &l, mac);
    snprintf(bad, sizeof(bad), "/templates/%s/files/%s?expires=1000&max=5&mac=%s", n.template_id,
             hash_a, mac);
    expect(403, kit_ask("PUT", bad, NO_KEY, "x"));
    assert_true(kit_said("expired"));
    l.expires_s = abx_time_wall_ms() / 1000 + 100;
    abx__link_sign(&kit.e, &l, mac);
    snprintf(bad, sizeof(bad), "/templates/%s/files/%s?expires=%lld&max=5&mac=%s", n.template_id,
             hash_a, (long long)l.expires_s, mac);
    expect(413, kit_ask("PUT", bad, NO_KEY, "123456"));
    expect(200, kit_ask("PUT", bad, NO_KEY, "12345"));
    snprintf(bad, sizeof(bad), "/templates/other/files/%s?expires=%lld&max=5&mac=%s", hash_a,
             (long long)l.expires_s, mac);
    expect(403, kit_ask("PUT", bad, NO_KEY, "12345")); /* another template */
    kit_teardown();
}

static int count_files(const char *prefix)
{
    char command[256];
    int n = 0;
    DIR *dir = opendir(kit.dir);
    const struct dirent *e;
    assert_non_null(dir);
    (void)command;
    while ((e = readdir(dir)) != NULL)
        n += strncmp(e->d_name, prefix, strlen(prefix)) == 0 ? 1 : 0;
    closedir(dir);
    return n;
}

TEST(builds_cut_upload_leaves_nothing)
{
    setup();
    char path[512], head[800];
    declare("{\"name\":\"hello\"}");
    get_link("hello", path, sizeof(path));
    int fd = kit_connect();
    snprintf(head, sizeof(head), "PUT %s HTTP/1.1\r\n" NO_KEY "Content-Length: 100\r\n\r\nabc",
             path);
    kit_send(fd, head, strlen(head));
    KIT_UNTIL(count_files("part.") == 1);
    close(fd);
    KIT_UNTIL(count_files("part.") == 0);
    assert_int_equal(count_files("upload."), 0);
    get_link("hello", path, sizeof(path));
    assert_true(kit_said("\"present\":false"));
    kit_teardown();
}

TEST(builds_large_upload_is_whole)
{
    setup();
    enum { BIG = 3 * 1024 * 1024 };
    char path[512];
    declare("{\"name\":\"hello\"}");
    get_link("hello", path, sizeof(path));
    char *big = calloc(BIG + 1, 1);
    assert_non_null(big);
    for (size_t i = 0; i < BIG; i++)
        big[i] = (char)('a' + i % 23);
    expect(200, kit_ask("PUT", path, NO_KEY, big));
    char name[160], digest[ABX_STORE_HASH_LEN + 1], want[65];
    unsigned char hash[32];
    struct abx_error err = {0};
    snprintf(name, sizeof(name), "%s/upload.%s", kit.dir, hash_a);
    struct stat st;
    assert_int_equal(stat(name, &st), 0);
    assert_int_equal(st.st_size, BIG);
    crypto_hash_sha256(hash, (unsigned char *)big, BIG);
    abx_hex_encode(hash, 32, want);
    assert_int_equal(abx_store_upload_use(kit.e.store, abx_str(hash_a), digest, &err), 0);
    assert_string_equal(digest, want);
    free(big);
    kit_teardown();
}

/* Start, ready, policies. */

static const char started[] =
    "{\"fromImage\":\"e2bdev/base\",\"steps\":[{\"type\":\"ENV\",\"args\":[\"A\",\"1\"]}],"
    "\"startCmd\":\"serve\",\"readyCmd\":\"is ready\"}";

TEST(builds_rehearsal_and_create)
{
    setup();
    kit.ready_failures = 2;
    kit.policy = "{\"auth\":{\"tokens\":[{\"id\":\"w\",\"scopes\":[\"*\"],\"token_env\":\"WIDE\"},"
                 "{\"id\":\"n\",\"scopes\":[],\"token_env\":\"NARROW\"}]}}";
    struct named n = build("hello", started);
    await(&n, "ready");
    assert_string_equal(kit.commands[0], "serve");
    assert_string_equal(kit.commands[1], "is ready");
    assert_int_equal(kit.command_count, 4);
    assert_true(kit_said("[finalize] [ready] [stdout]: not yet"));
    KIT_UNTIL(kit.e.sandboxes.count == 0); /* thrown away */
    kit.command_count = 0;
    kit.command_envs[0] = '\0';
    char id[32], token[80], path[128], wide[80];
    kit_create("{\"templateID\":\"hello\",\"envVars\":{\"NARROW\":\"mine\"}}", id, token);
    assert_true(kit_said("\"alias\":\"hello\""));
    assert_int_equal(kit.command_count, 2);
    assert_non_null(strstr(kit.init_body, "\"A\":\"1\""));
    assert_non_null(strstr(kit.init_body, "\"defaultUser\":\"user\""));
    assert_null(strstr(kit.init_body, "WIDE"));
    snprintf(path, sizeof(path), "/abx/v1/sandboxes/%s/server-tokens", id);
    expect(200, kit_ask("GET", path, NULL, NULL));
    kit_member("WIDE", wide, sizeof(wide));
    assert_int_equal(strlen(wide), 64);
    assert_false(kit_said("NARROW"));
    assert_non_null(strstr(kit.command_envs, wide));
    kit_stop(); /* and another engine still knows them */
    kit_start();
    expect(200, kit_ask("GET", path, NULL, NULL));
    assert_true(kit_said(wide));
    expect(400, kit_ask("DELETE", "/templates/hello", NULL, NULL));
    assert_true(kit_said("because there are running sandboxes using it"));
    kit_teardown();
}

TEST(builds_start_that_fails)
{
    setup();
    kit.is_start_failing = true;
    struct named n = build("hello", started);
    await(&n, "error");
    assert_true(kit_said("\"step\":\"finalize\""));
    assert_true(kit_said("the start command ended with exit status 3\\nnot yet"));
    kit.is_start_failing = false;
    n = build("hello", started);
    await(&n, "ready");
    kit.is_start_failing = true;
    expect(500, kit_ask("POST", "/v2/sandboxes", NULL, "{\"templateID\":\"hello\"}"));
    assert_true(kit_said("the start command ended with exit status 3\\nnot yet"));
    KIT_UNTIL(kit.e.sandboxes.count == 0);
    kit_teardown();
}

TEST(builds_caller_that_goes_while_it_starts)
{
    setup();
    struct named n = build("hello", started);
    await(&n, "ready");
    kit.ready_failures = 1000;
    int fd = kit_connect();
    char text[512];
    snprintf(text, sizeof(text),
             "POST /v2/sandboxes HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: %s\r\nContent-Length:"
             " 22\r\n\r\n{\"templateID\":\"hello\"}",
             kit_key);
    kit_send(fd, text, strlen(text));
    size_t before = kit.command_count;
    KIT_UNTIL(kit.command_count > before + 1);
    close(fd);
    kit.ready_failures = 0;
    KIT_UNTIL(kit.e.sandboxes.count == 0);
    kit_teardown();
}

TEST(builds_from_template_inherits)
{
    setup();
    struct named n = build("hello", started);
    await(&n, "ready");
    n = build("child",
              "{\"fromTemplate\":\"hello\",\"steps\":[{\"type\":\"RUN\",\"args\":[\"x\"]}]}");
    await(&n, "ready");
    expect(200, kit_ask("GET", "/templates/child", NULL, NULL));
    assert_true(kit_said("\"startCmd\":\"serve\""));
    kit_teardown();
}

/* Names, lists, deletion. */

TEST(builds_tags_and_aliases)
{
    setup();
    struct named n = build("hello", "{\"fromImage\":\"e2bdev/base\"}");
    await(&n, "ready");
    expect(200, kit_ask("GET", "/templates/aliases/hello", NULL, NULL));
    assert_true(kit_said(n.template_id));
    expect(200, kit_ask("GET", "/templates/aliases/base", NULL, NULL));
    expect(200, kit_ask("GET", "/templates/aliases/host", NULL, NULL));
    expect(201, kit_ask("POST", "/templates/tags", NULL,
                        "{\"target\":\"hello:default\",\"tags\":[\"v1\",\"v2\"]}"));
    assert_true(kit_said(n.build_id));
    expect(200, kit_ask("GET", "/templates/hello/tags", NULL, NULL));
    assert_true(kit_said("\"tag\":\"v2\""));
    char id[32], token[80];
    kit_create("{\"templateID\":\"local/hello:v1\"}", id, token);
    expect(204,
           kit_ask("DELETE", "/templates/tags", NULL, "{\"name\":\"hello\",\"tags\":[\"v1\"]}"));
    expect(404, kit_ask("DELETE", "/templates/tags", NULL,
                        "{\"name\":\"hello\",\"tags\":[\"v2\",\"v1\"]}"));
    expect(200, kit_ask("GET", "/templates/hello/tags", NULL, NULL));
    assert_true(kit_said("\"tag\":\"v2\"")); /* all or none */
    expect(404, kit_ask("POST", "/v2/sandboxes", NULL, "{\"templateID\":\"hello:v1\"}"));
    expect(409,
           kit_ask("POST", "/v3/templates", NULL,
                   (snprintf(token, sizeof(token), "{\"name\":\"%s\"}", n.template_id), token)));
    kit_teardown();
}

TEST(builds_lists_and_deletion)
{
    setup();
    static const char *const names[] = {"a", "b", "c"};
    for (size_t i = 0; i < ABX_COUNTOF(names); i++) {
        struct named n = build(names[i], "{\"fromImage\":\"e2bdev/base\",\"steps\":[{\"type\":"
                                         "\"RUN\",\"args\":[\"x\"]}]}");
        await(&n, "ready");
    }
    expect(200, kit_ask("GET", "/templates", NULL, NULL));
    assert_true(kit_said("\"aliases\":[\"a\"]") && kit_said("\"aliases\":[\"c\"]"));
    expect(200, kit_ask("GET", "/v2/templates?limit=2", NULL, NULL));
    assert_true(kit_said("\"aliases\":[\"c\"]") && !kit_said("\"aliases\":[\"a\"]"));
    char next[128], path[256];
    const char *at = strstr(kit.head, "X-Next-Token: ");
    assert_non_null(at);
    snprintf(next, sizeof(next), "%.*s", (int)strcspn(at + 14, "\n"), at + 14);
    snprintf(path, sizeof(path), "/v2/templates?limit=2&nextToken=%s", next);
    expect(200, kit_ask("GET", path, NULL, NULL));
    assert_true(kit_said("\"aliases\":[\"a\"]") && !kit_said("\"aliases\":[\"c\"]"));
    assert_false(kit_head_has("X-Next-Token: "));
    expect(200, kit_ask("PATCH", "/v2/templates/a", NULL, "{\"public\":true}"));
    assert_true(kit_said("\"names\":[\"local/a\"]"));
    expect(200, kit_ask("GET", "/templates/a", NULL, NULL));
    assert_true(kit_said("\"public\":true"));
    expect(400, kit_ask("DELETE", "/templates/a:default", NULL, NULL));
    size_t swept = kit.swept;
    expect(204, kit_ask("DELETE", "/templates/local%2Fa", NULL, NULL));
    assert_int_equal(kit.swept, swept + 1);
    assert_int_equal(kit.layers_kept, 2); /* the base, and the step that all share */
    kit.hold = true; /* one that comes while layers are being removed is not forgotten */
    expect(204, kit_ask("DELETE", "/templates/b", NULL, NULL));
    expect(204, kit_ask("DELETE", "/templates/c", NULL, NULL));
    assert_int_equal(kit.swept, swept + 2);
    kit.hold = false;
    KIT_UNTIL(kit.swept == swept + 3 && !kit.e.is_sweeping);
    assert_int_equal(kit.layers_kept, 1);
    expect(404, kit_ask("DELETE", "/templates/a", NULL, NULL));
    expect(404, kit_ask("GET", "/templates/a", NULL, NULL));
    kit_teardown();
}

TEST(builds_have_a_bound)
{
    setup();
    kit.hold_steps = true;
    char name[32];
    struct named n;
    for (int i = 0; i < ABX__BUILDS_MAX; i++) {
        snprintf(name, sizeof(name), "n%d", i);
        build(name, "{\"fromImage\":\"e2bdev/base\",\"steps\":[{\"type\":\"RUN\",\"args\":"
                    "[\"a\"]}]}");
    }
    n = declare("{\"name\":\"more\"}");
    expect(429, start(&n, "{\"fromImage\":\"e2bdev/base\"}"));
    kit.hold_steps = false;
    KIT_UNTIL(abx__builds_count(&kit.e) == 0);
    expect(202, start(&n, "{\"fromImage\":\"e2bdev/base\"}"));
    kit_teardown();
}

TEST(builds_deletion_ends_its_build)
{
    setup();
    kit.hold_steps = true;
    build("hello",
          "{\"fromImage\":\"e2bdev/base\",\"steps\":[{\"type\":\"RUN\",\"args\":[\"a\"]}]}");
    KIT_UNTIL(kit.build_count == 1);
    expect(204, kit_ask("DELETE", "/templates/hello", NULL, NULL));
    KIT_UNTIL(abx__builds_count(&kit.e) == 0);
    kit_teardown();
}

/* Recovery. */

TEST(builds_go_on_after_a_crash_at_any_step)
{
    static const char body[] =
        "{\"fromImage\":\"e2bdev/base\",\"steps\":[{\"type\":\"RUN\",\"args\":[\"a\"]},"
        "{\"type\":\"ENV\",\"args\":[\"B\",\"2\"]},{\"type\":\"RUN\",\"args\":[\"c\"]}],"
        "\"readyCmd\":\"is ready\"}";
    for (size_t dies_after = 0; dies_after <= 3; dies_after++) {
        setup();
        kit.hold_steps = true;
        struct named n = build("hello", body);
        for (size_t i = 0; i < dies_after; i++) {
            KIT_UNTIL(kit.build_count == 1);
            struct abx_build *b = kit.builds[0];
            kit.build_count = 0;
            kit_end_step(b);
        }
        kit.hold = true; /* no sandbox of a rehearsal any more */
        for (int i = 0; i < 20; i++)
            kit_turn();
        kit_stop();
        kit.step_count = 0;
        kit.hold = kit.hold_steps = false;
        kit_start();
        await(&n, "ready");
        if (kit.step_count != 3 - dies_after)
            fail_msg("%zu steps after a death after %zu", kit.step_count, dies_after);
        assert_true(kit_said("resumed after the engine ended"));
        expect(200, kit_ask("GET", "/templates/hello", NULL, NULL));
        assert_true(kit_said("\"layers\":3"));
        KIT_UNTIL(kit.e.sandboxes.count == 0);
        kit_teardown();
    }
}

TEST(builds_that_can_not_go_on_are_errors)
{
    setup();
    kit.hold_steps = true;
    struct named n = build("hello", "{\"fromImage\":\"e2bdev/base\",\"steps\":[{\"type\":\"RUN\","
                                    "\"args\":[\"a\"]}]}");
    struct abx_error err = {0};
    assert_int_equal(
        abx_store_build_progress(kit.e.store, n.build_id, 1, ABX_STR("{\"x\":1}"), &err), 0);
    kit_stop();
    kit_start();
    await(&n, "error");
    assert_true(kit_said("\"step\":\"base\""));
    kit_teardown();
}

static void sql(const char *text)
{
    char path[128];
    sqlite3 *db = NULL;
    snprintf(path, sizeof(path), "%s/abx.db", kit.dir);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

TEST(builds_whose_end_is_not_kept_are_errors_later)
{
    setup();
    kit.hold_steps = true;
    struct named n = build("hello", "{\"fromImage\":\"e2bdev/base\",\"steps\":[{\"type\":\"RUN\","
                                    "\"args\":[\"exit 3\"]}]}");
    KIT_UNTIL(kit.build_count == 1);
    sql("ALTER TABLE builds RENAME TO away");
    kit.hold_steps = false;
    KIT_UNTIL(kit.step_count == 1);
    for (int i = 0; i < 50; i++)
        kit_turn();
    assert_int_equal(abx__builds_count(&kit.e), 1);
    sql("ALTER TABLE away RENAME TO builds");
    KIT_UNTIL(abx__builds_count(&kit.e) == 0);
    await(&n, "error");
    assert_true(kit_said("could not be kept"));
    kit_teardown();
}

TEST(builds_images)
{
    setup();
    expect(200, kit_ask("GET", "/abx/v1/images", NULL, NULL));
    assert_true(kit_said("\"name\":\"base\",\"recipe\":\"r1\""));
    assert_string_equal(kit.imported, "a tar");
    expect(400, kit_ask("POST", "/abx/v1/images/mine", NULL, "bad"));
    assert_true(kit_said("not a tar"));
    expect(404, kit_ask("GET", "/abx/v1/images/mine", NULL, NULL));
    assert_int_equal(count_files("part."), 0);
    char id[32], token[80];
    kit_create("{\"templateID\":\"base\"}", id, token);
    assert_true(kit_said("\"templateID\":\"base\""));
    kit_teardown();
}
