/* guest/envd/envd_rest_test.c: REST over the wire: lock, provisioning, tokens, users, CORS, guard.
 */
#include "guest/envd/envd_rig_priv.h"
#include "lib/contract/contract.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sodium.h>

static const struct abx_envd_options plain = {.tcp_port = 0};
static const struct abx_envd_options locked = {.is_locked = true};

struct row {
    const char *what, *headers, *body; /* body NULL: none */
    int status;
    const char *expect[3];
};

typedef int ask_fn(const char *what, const char *headers, struct abx_str body, struct abx_buf *got);

static void check_rows(ask_fn *ask_by, const struct row *rows, size_t count)
{
    ABX_AUTO_BUF got;
    abx_buf_init(&got, 1 << 20);
    for (size_t i = 0; i < count; i++) {
        const struct row *r = &rows[i];
        struct abx_str body = r->body ? abx_str(r->body) : NO_BODY;
        int status = ask_by(r->what, r->headers ? r->headers : "", body, &got);
        bool ok = status == r->status;
        for (size_t e = 0; e < 3 && r->expect[e]; e++)
            ok = ok && has(&got, r->expect[e]);
        if (!ok)
            print_error("%s\n got: %s\n", r->what, got.ptr);
        assert_true(ok);
    }
}
#define CHECK(rows)     check_rows(ask, rows, sizeof(rows) / sizeof((rows)[0]))
#define CHECK_TCP(rows) check_rows(ask_tcp, rows, sizeof(rows) / sizeof((rows)[0]))

#define TOKEN_401                                                                                  \
    "{\"code\":401,\"message\":\"unauthorized access, please provide a valid access token or "     \
    "method signing if supported\"}\n"
#define STARTING "{\"code\":503,\"message\":\"Sandbox is starting, please retry\"}\n"

TEST(open_daemon_rows)
{
    static const struct row rows[] = {
        {"GET /health",
         NULL,
         NULL,
         204,
         {"Cache-Control: no-store\r\n", "X-Envd-Version: " ABX_ENVD_VERSION}},
        {"GET /envs", NULL, NULL, 200, {"Content-Type: application/json\r\n", "\r\n\r\n{}"}},
        {"GET /metrics", NULL, NULL, 200, {"Cache-Control: no-store\r\n", "\"cpu_used_pct\":"}},
        {"POST /files/compose", NULL, "{}", 400, {"source_paths must not be empty"}},
        {"GET /nothing", NULL, NULL, 404, {"{\"code\":404,\"message\":", "nosniff"}},
        {"GET //health", NULL, NULL, 404, {"404"}},
        {"GET /health/", NULL, NULL, 404, {"404"}},
        {"POST /health", NULL, "", 405, {"Allow: GET\r\n"}},
        {"HEAD /files?path=/", NULL, NULL, 405, {"Allow: GET, POST\r\n"}},
        {"POST http://x/init", NULL, "{}", 404, {"404"}},
        {"POST /init?a=b", NULL, "{}", 404, {"404"}},
        {"POST //init", NULL, "{}", 404, {"404"}},
        {"GET /init", NULL, NULL, 405, {"Allow: POST\r\n"}},
        {"GET /process.Process/List", NULL, NULL, 405, {"Allow: POST\r\n"}},
        {"POST /process.Process/Nope", JSON_TYPE, "{}", 404, {"\"unimplemented\""}},
        {"GET /envs",
         "Authorization: Basic bm9ib2R5Og==\r\n",
         NULL,
         401,
         {"{\"code\":\"unauthenticated\",\"message\":\"invalid username: 'nobody'\"}"}},
        {"GET /envs", "Authorization: Basic dXNlcjo=\r\n", NULL, 200, {"{}"}},
        {"GET /envs", "Authorization: Bearer x\r\n", NULL, 200, {"{}"}},
        {"POST /process.Process/List",
         JSON_TYPE "Authorization: Basic bm9ib2R5Og==\r\n",
         "{}",
         200,
         {"\r\n\r\n{}"}},
        {"POST /filesystem.Filesystem/Stat",
         JSON_TYPE "Authorization: Basic bm9ib2R5Og==\r\n",
         "{\"path\":\"/\"}",
         401,
         {"{\"code\":\"unauthenticated\",\"message\":\"invalid username: 'nobody'\"}"}},
    };
    begin(&plain);
    CHECK(rows);
    end();
}

TEST(cors_rows)
{
    static const struct row rows[] = {
        {"OPTIONS /files",
         "Origin: http://a\r\nAccess-Control-Request-Method: POST\r\n"
         "Access-Control-Request-Headers: x-a, x-b\r\n",
         NULL,
         204,
         {"Access-Control-Allow-Methods: POST\r\n", "Access-Control-Allow-Headers: x-a, x-b\r\n",
          "Access-Control-Max-Age: 7200\r\n"}},
        {"OPTIONS /files", NULL, NULL, 401, {"Vary: Origin\r\n", TOKEN_401}},
        {"GET /envs",
         "Origin: http://a\r\n",
         NULL,
         401,
         {"Access-Control-Allow-Origin: *\r\n", "Access-Control-Expose-Headers: Grpc-Status, ",
          TOKEN_401}},
        {"POST /process.Process/List",
         JSON_TYPE "Origin: http://a\r\nX-Access-Token: t\r\n",
         "{}",
         200,
         {"Access-Control-Allow-Origin: *\r\n", "Vary: Origin\r\n"}},
        {"GET /health", NULL, NULL, 204, {"Vary: Origin\r\n"}},
    };
    ABX_AUTO_BUF got;
    abx_buf_init(&got, 1 << 20);
    begin(&plain);
    assert_int_equal(ask("POST /init", "", ABX_STR("{\"accessToken\":\"t\"}"), &got), 204);
    CHECK(rows);
    end();
}

static int receive_state(unsigned char hash[33], ssize_t *ret_len)
{
    int fd = -1;
    size_t count = 1;
    *ret_len = abx_fd_recv(rig.init[0], hash, 33, &fd, &count);
    assert_int_equal(count, 1);
    return fd;
}

/* As long as init does not keep the hash, gateway and interpreter judge by the old one. */
static bool keeps_nothing(void *arg, const unsigned char *hash)
{
    (void)arg;
    (void)hash;
    return false;
}

TEST(a_provisioning_that_init_does_not_keep_is_refused)
{
    static const struct row rows[] = {
        {"POST /init", NULL, "{\"accessToken\":\"secret\"}", 503, {"init did not keep"}},
        {"GET /envs", "X-Access-Token: secret\r\n", NULL, 503, {STARTING}},
    };
    begin(&(struct abx_envd_options){.is_locked = true, .init_kept = keeps_nothing});
    CHECK(rows);
    end();
}

TEST(locked_start_until_init_and_its_state_unlocks_the_next_daemon)
{
    static const struct row before[] = {
        {"GET /health", NULL, NULL, 204, {"204"}},
        {"GET /envs", NULL, NULL, 503, {STARTING, "Retry-After: 1\r\n"}},
        {"GET /files?path=/etc/passwd", NULL, NULL, 503, {STARTING}},
        {"POST /process.Process/List", JSON_TYPE, "{}", 503, {STARTING}},
        {"POST /init",
         NULL,
         "{\"accessToken\":5}",
         400,
         {"X-Envd-Version: " ABX_ENVD_VERSION, "accessToken"}},
        {"GET /envs", NULL, NULL, 503, {STARTING}},
        {"POST /init",
         NULL,
         "{\"accessToken\":\"secret\",\"envVars\":{\"A\":\"1\"},\"defaultUser\":\"user\"}",
         204,
         {"Cache-Control: no-store\r\n", "X-Envd-Version: " ABX_ENVD_VERSION}},
    };
    static const struct row after[] = {
        {"GET /health", NULL, NULL, 204, {"204"}},
        {"GET /envs", NULL, NULL, 401, {TOKEN_401}},
        {"GET /envs", "X-Access-Token: secreT\r\n", NULL, 401, {TOKEN_401}},
        {"GET /envs", "X-Access-Token: secret\r\n", NULL, 200, {"{\"A\":\"1\"}"}},
        {"POST /process.Process/List", JSON_TYPE, "{}", 401, {TOKEN_401}},
        {"POST /files/compose", NULL, "{}", 401, {TOKEN_401}},
        {"POST /init",
         NULL,
         "{\"accessToken\":\"other\"}",
         401,
         {"Content-Type: text/plain; charset=utf-8\r\n", "access token validation failed"}},
        {"POST /init", NULL, "{}", 401, {"access token reset not authorized"}},
    };
    unsigned char hash[33] = {0}, right[32];
    ssize_t len;
    begin(&locked);
    CHECK(before);
    rig.o.state_fd = receive_state(hash, &len);
    crypto_hash_sha256(right, (const unsigned char *)"secret", 6);
    assert_int_equal(len, sizeof(right));
    assert_memory_equal(hash, right, sizeof(right));
    CHECK(after);
    struct abx_proc_status st; /* a crash keeps the token */
    kill(rig.pid, SIGKILL);
    assert_int_equal(abx_proc_wait(rig.pid, &st), 0);
    envd_start();
    CHECK(after);
    end();
}

TEST(a_later_init_with_the_token_replaces_and_can_clear_it)
{
    static const struct row rows[] = {
        {"POST /init", NULL, "{\"accessToken\":\"a\",\"envVars\":{\"A\":\"1\"}}", 204, {"204"}},
        {"POST /init", NULL, "{\"accessToken\":\"a\",\"envVars\":{\"B\":\"2\"}}", 204, {"204"}},
        {"GET /envs", "X-Access-Token: a\r\n", NULL, 200, {"\r\n\r\n{\"B\":\"2\"}"}},
        {"POST /init", "X-Access-Token: a\r\n", "{\"accessToken\":\"b\"}", 204, {"204"}},
        {"GET /envs", "X-Access-Token: a\r\n", NULL, 401, {TOKEN_401}},
        {"GET /envs", "X-Access-Token: b\r\n", NULL, 200, {"\r\n\r\n{}"}},
        {"POST /init", "X-Access-Token: b\r\n", NULL, 204, {"204"}},
        {"GET /envs", NULL, NULL, 200, {"\r\n\r\n{}"}},
    };
    unsigned char hash[33];
    ssize_t len = 0;
    begin(&plain);
    CHECK(rows);
    for (int i = 0; i < 4; i++)
        close(receive_state(hash, &len));
    assert_int_equal(len, 1); /* the last one has no token */
    end();
}

TEST(globals_reach_processes_and_yield_to_the_request)
{
    ABX_AUTO_BUF got;
    abx_buf_init(&got, 1 << 20);
    begin(&plain);
    assert_int_equal(
        ask("POST /init", "", ABX_STR("{\"envVars\":{\"A\":\"global\",\"B\":\"two\"}}"), &got),
        204);
    stream_all(
        "process.Process/Start",
        "{\"process\":{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",\"printf %s \\\"$A$B$USER\\\"\"],"
        "\"envs\":{\"A\":\"own\"}},\"stdin\":false}",
        &got);
    assert_true(has(&got, "b3dudHdvcm9vdA==")); /* "owntworoot" */
    end();
}

/* ---- TCP ---- */

static uint16_t free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    ABX_AUTO_FD fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const void *)&a, sizeof(a)), 0);
    assert_int_equal(getsockname(fd, (void *)&a, &len), 0);
    return ntohs(a.sin_port);
}

static int ask_tcp(const char *what, const char *headers, struct abx_str body, struct abx_buf *got)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                            .sin_port = htons(rig.o.tcp_port)};
    int64_t limit = abx_time_mono_ms() + GUARD_MS;
    ABX_AUTO_FD fd = -1;
    while (fd < 0 && abx_time_mono_ms() < limit) { /* it may not listen yet */
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fd, (const void *)&a, sizeof(a)) < 0) {
            abx_fd_close(&fd);
            usleep(2000);
        }
    }
    assert_true(fd >= 0);
    abx_buf_clear(got);
    send_request(fd, what, headers, body);
    while (read_some(fd, got) > 0)
        ;
    uint32_t status = 0;
    assert_true(got->len > 12);
    assert_int_equal(abx_parse_u32(abx_str_n(got->ptr + 9, 3), &status), 0);
    return (int)status;
}

TEST(init_over_tcp_does_not_exist)
{
    ABX_AUTO_BUF got;
    abx_buf_init(&got, 1 << 20);
    struct abx_envd_options o = {.tcp_port = free_port(), .is_locked = true};
    begin(&o);
    assert_int_equal(ask_tcp("POST /init", "", ABX_STR("{\"accessToken\":\"mine\"}"), &got), 404);
    assert_int_equal(ask_tcp("GET /health", "", NO_BODY, &got), 204);
    assert_int_equal(ask_tcp("GET /envs", "", NO_BODY, &got), 503);
    assert_int_equal(ask("POST /init", "", ABX_STR("{}"), &got), 204);
    assert_int_equal(ask_tcp("GET /envs", "", NO_BODY, &got), 200);
    end();
}

/* No engine: /init judges by itself, and is one of four requests that need no token. */
TEST(a_daemon_of_its_own_is_provisioned_over_tcp)
{
    static const char good[] = "X-Access-Token: a1\r\n";
    static const struct row rows[] = {
        {"POST /init", NULL, "{\"accessToken\":", 400, {"X-Envd-Version: " ABX_ENVD_VERSION}},
        {"GET /envs", NULL, NULL, 200, {"{}"}}, /* a refused one installs nothing */
        {"POST /init",
         NULL,
         "{\"accessToken\":\"a1\",\"envVars\":{\"A\":\"1\"},\"defaultUser\":\"user\","
         "\"timestamp\":\"2026-08-01T10:00:00Z\"}",
         204,
         {"Cache-Control: no-store\r\n", "X-Envd-Version: " ABX_ENVD_VERSION}},
        {"GET /envs", NULL, NULL, 401, {TOKEN_401}},
        {"GET /envs", good, NULL, 200, {"{\"A\":\"1\"}"}},
        /* a later one presents the token */
        {"POST /init",
         NULL,
         "{\"accessToken\":\"b2\"}",
         401,
         {"access token validation failed", "X-Envd-Version: " ABX_ENVD_VERSION}},
        {"POST /init", NULL, "{}", 401, {"access token reset not authorized"}},
        {"POST /init", "X-Access-Token: b2\r\n", "{}", 401, {"reset not authorized"}},
        {"POST /init",
         NULL,
         "{\"accessToken\":\"a1\",\"envVars\":{\"A\":\"old\"},"
         "\"timestamp\":\"2026-08-01T09:59:59Z\"}",
         204,
         {"204"}},
        {"GET /envs", good, NULL, 200, {"{\"A\":\"1\"}"}}, /* it was older */
        /* exempt: exact method and exact path */
        {"GET /health", NULL, NULL, 204, {"204"}},
        {"GET /files?path=/x", NULL, NULL, 401, {"missing signature query parameter"}},
        {"POST /files?path=/x", NULL, "", 401, {"missing signature query parameter"}},
        {"POST /health", NULL, "", 401, {TOKEN_401}},
        {"GET /init", NULL, NULL, 401, {TOKEN_401}},
        {"PUT /init", NULL, "{}", 401, {TOKEN_401}},
        {"PUT /files?path=/x", NULL, "", 401, {TOKEN_401}},
        {"POST /files/compose", NULL, "{}", 401, {TOKEN_401}},
        {"POST /files/", NULL, "", 401, {TOKEN_401}},
        {"POST //init", NULL, "{\"accessToken\":\"a1\"}", 401, {TOKEN_401}},
        {"POST /init/", NULL, "{\"accessToken\":\"a1\"}", 401, {TOKEN_401}},
        {"POST /%69nit", NULL, "{\"accessToken\":\"a1\"}", 401, {TOKEN_401}},
        {"POST /init?a=b", NULL, "{\"accessToken\":\"a1\"}", 404, {"404"}},
        {"GET //health", NULL, NULL, 401, {TOKEN_401}},
        {"POST /init", good, "{\"accessToken\":\"b2\"}", 204, {"204"}},
        {"GET /envs", good, NULL, 401, {TOKEN_401}},
        {"GET /envs", "X-Access-Token: b2\r\n", NULL, 200, {"\r\n\r\n{}"}},
    };
    begin(&(struct abx_envd_options){.tcp_port = free_port()});
    CHECK_TCP(rows);
    end();
}

/* The first one needs no token: with the guard on, a process in the sandbox must not be it. */
TEST(a_local_peer_does_not_provision_through_the_guard)
{
    static const struct row rows[] = {
        {"POST /init", NULL, "{\"accessToken\":\"mine\"}", 403, {"loopback guard"}},
        {"POST /init", "X-Access-Token: mine\r\n", "{}", 403, {"loopback guard"}},
    };
    ABX_AUTO_BUF got;
    abx_buf_init(&got, 1 << 20);
    begin(&(struct abx_envd_options){.tcp_port = free_port(), .loopback_guard = true});
    CHECK_TCP(rows);
    assert_int_equal(ask("GET /envs", "", NO_BODY, &got), 200); /* it has no token still */
    end();
}

TEST(loopback_guard_wants_the_token_of_local_peers)
{
    ABX_AUTO_BUF got;
    abx_buf_init(&got, 1 << 20);
    struct abx_envd_options o = {.tcp_port = free_port(), .loopback_guard = true};
    begin(&o);
    assert_int_equal(ask_tcp("GET /health", "", NO_BODY, &got), 204);
    assert_int_equal(ask_tcp("GET /health?verbose", "", NO_BODY, &got), 403);
    assert_int_equal(ask_tcp("GET /envs", "", NO_BODY, &got), 403); /* no token is installed */
    assert_true(has(&got, "loopback guard"));
    assert_int_equal(ask("GET /envs", "", NO_BODY, &got), 200); /* the gateway's channel */
    assert_int_equal(ask("POST /init", "", ABX_STR("{\"accessToken\":\"t\"}"), &got), 204);
    assert_int_equal(ask_tcp("GET /envs", "", NO_BODY, &got), 403);
    assert_int_equal(ask_tcp("GET /envs", "X-Access-Token: x\r\n", NO_BODY, &got), 403);
    assert_int_equal(ask_tcp("GET /envs", "X-Access-Token: t\r\n", NO_BODY, &got), 200);
    assert_int_equal(ask_tcp("POST /process.Process/Start", C_JSON, ABX_STR("{}"), &got), 403);
    end();
}

/* The number behind "NAME": in @got; fails when it is not there. */
static double metric(const struct abx_buf *got, const char *name)
{
    char key[64];
    snprintf(key, sizeof(key), "\"%s\":", name);
    ptrdiff_t at = abx_str_find(abx_buf_str(got), abx_str(key));
    if (at < 0)
        print_error("no %s in %s\n", name, got->ptr);
    assert_true(at > 0);
    return strtod(got->ptr + at + strlen(key), NULL);
}

TEST(metrics_are_of_this_moment)
{
    static const char *const positive[] = {"ts",       "cpu_count", "mem_total_mib", "mem_total",
                                           "mem_used", "disk_used", "disk_total"};
    static const char *const others[] = {"cpu_used_pct", "mem_used_mib", "mem_cache"};
    ABX_AUTO_BUF got;
    abx_buf_init(&got, 1 << 20);
    begin(&(struct abx_envd_options){.tcp_port = 0});
    for (int round = 0; round < 2; round++) {
        assert_int_equal(ask("GET /metrics", "", NO_BODY, &got), 200);
        for (size_t i = 0; i < sizeof(positive) / sizeof(positive[0]); i++)
            assert_true(metric(&got, positive[i]) > 0);
        for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
            assert_true(metric(&got, others[i]) >= 0);
        assert_true(metric(&got, "cpu_used_pct") <= 100);
        assert_true(metric(&got, "mem_used") < metric(&got, "mem_total"));
        assert_true(metric(&got, "disk_used") <= metric(&got, "disk_total"));
        double ago = (double)(abx_time_wall_ns() / 1000000000) - metric(&got, "ts");
        assert_true(ago >= 0 && ago < 10);
    }
    end();
}
