/* guest/envd/envd_health_test.c: GET /health and its ?verbose; the account that could not be made.
 */
#include "guest/envd/envd_rig_priv.h"
#include "lib/contract/contract.h"
#include "lib/json/json.h"

static const char described[] = "\"services\":[\"of PID 1\"]";

/* What PID 1 would tell. */
static void describe(void *arg, struct abx_json_writer *w)
{
    (void)arg;
    abx_json_key(w, ABX_STR("services"));
    abx_json_begin_array(w);
    abx_json_str(w, ABX_STR("of PID 1"));
    abx_json_end_array(w);
}

static struct abx_buf got;

static void expect(const char *what, const char *headers, int status, const char *part)
{
    int have = ask(what, headers, NO_BODY, &got);
    if (have != status || !has(&got, part))
        print_error("%s: wanted %d and %s\n got: %s\n", what, status, part, got.ptr);
    assert_int_equal(have, status);
    assert_true(has(&got, part));
}

static void init(const char *json)
{
    if (ask("POST /init", "", abx_str(json), &got) != 204)
        fail_msg("%s", got.ptr);
}

/* As SDKs and probes have it, whatever else is asked. */
static void expect_plain(const char *what)
{
    expect(what, "", 204, "Cache-Control: no-store\r\n");
    assert_true(has(&got, "X-Envd-Version: " ABX_ENVD_VERSION "\r\n"));
    assert_false(has(&got, "{"));
}

TEST(verbose_health_is_for_those_who_may_call)
{
    abx_buf_init(&got, 1 << 20);
    begin(&(struct abx_envd_options){.is_locked = true, .describe = describe});
    expect_plain("GET /health");
    expect("GET /health?verbose", "", 503, "Sandbox is starting");
    init("{\"accessToken\":\"secret\"}");
    expect("GET /health?verbose", "", 401, "unauthorized access");
    expect("GET /health?x=y&verbose=1", "", 401, "unauthorized access");
    expect("GET /health?verbose", "X-Access-Token: secreT\r\n", 401, "unauthorized access");
    assert_false(has(&got, described));
    expect("GET /health?verbose", "X-Access-Token: secret\r\n", 200, described);
    assert_true(has(&got, "Content-Type: application/json\r\n"));
    assert_true(has(&got, "Cache-Control: no-store\r\n"));
    assert_true(has(&got, "\"status\":\"ok\",\"version\":\"" ABX_VERSION "\""));
    assert_true(has(&got, "\"envdVersion\":\"" ABX_ENVD_VERSION "\""));
    expect("POST /health?verbose", "X-Access-Token: secret\r\n", 405, "Allow: GET\r\n");
    static const char *const plain[] = {"GET /health", "GET /health?", "GET /health?verbos",
                                        "GET /health?a=verbose", "GET /health?%zz"};
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
        expect_plain(plain[i]);
    end();
    abx_buf_done(&got);
}

TEST(verbose_health_of_a_daemon_of_its_own_tells_as_whom_it_acts)
{
    char home[128];
    abx_buf_init(&got, 1 << 20);
    begin(&(struct abx_envd_options){.tcp_port = 0});
    snprintf(home, sizeof(home), "\"runsAs\":{\"name\":\"root\",\"uid\":%u,\"home\":\"%s/home\"}}",
             getuid(), rig.dir);
    expect("GET /health?verbose", "", 200, home); /* and nothing of services it does not know */
    init("{\"defaultUser\":\"nobody\"}");
    expect("GET /health?verbose", "", 200, "\"runsAs\":null}");
    end();
    abx_buf_done(&got);
}

/* base-image.md 2: without the account `user` what it would do is done by uid 0, at home in /root.
 */
TEST(without_the_account_user_root_takes_its_place)
{
    static const char provisioning[] =
        "{\"defaultUser\":\"user\",\"defaultWorkdir\":\"" ABX_USER_HOME "\"}";
    static const char who[] = "{\"process\":{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",\"printf %s "
                              "\\\"$USER\\\"\"]},\"stdin\":false}";
    char line[256];
    abx_buf_init(&got, 1 << 20);
    begin(&(struct abx_envd_options){.is_locked = true, .has_no_user = true});
    snprintf(line, sizeof(line), "root:x:%u:%u::%s/home:/bin/sh\n", getuid(), getgid(), rig.dir);
    put_file("etc/passwd", line);
    init(provisioning);
    stream_all("process.Process/Start", who, &got);
    assert_true(has(&got, "cm9vdA==")); /* "root" */
    expect("GET /health?verbose", "", 200, "\"runsAs\":{\"name\":\"root\",");
    rig.o.state_fd = -1; /* the next daemon, with the same provisioning */
    unsigned char hash[33];
    size_t count = 1;
    assert_int_equal(abx_fd_recv(rig.init[0], hash, sizeof(hash), &rig.o.state_fd, &count), 1);
    envd_stop();
    envd_start();
    expect("GET /health?verbose", "", 200, "\"runsAs\":{\"name\":\"root\",");
    /* who is named by the call is not replaced */
    expect("GET /envs", "Authorization: Basic dXNlcjo=\r\n", 401, "invalid username: 'user'");
    end();
    abx_buf_done(&got);
}

TEST(an_account_user_that_is_there_is_kept)
{
    abx_buf_init(&got, 1 << 20);
    begin(&(struct abx_envd_options){.tcp_port = 0, .has_no_user = true});
    init("{\"defaultUser\":\"user\"}"); /* it was made later on */
    expect("GET /health?verbose", "", 200, "\"runsAs\":{\"name\":\"user\",");
    end();
    abx_buf_done(&got);
}
