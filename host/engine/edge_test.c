/* host/engine/edge_test.c: sandbox traffic: who may pass, and what arrives (S40-S44, S61, S62). */
#include "host/engine/testkit_priv.h"

#include "lib/base/parse.h"
#include "lib/contract/contract.h"
#include "lib/wire/url.h"

#include "lib/base/banned.h"

static char id[32], token[80];

static void setup(void)
{
    kit_setup();
    kit_create("{\"templateID\":\"host\"}", id, token);
}

/* Headers of a request for @port of the sandbox, and more lines. */
static const char *to(int port, const char *more)
{
    static char text[2048];
    snprintf(text, sizeof(text),
             "Host: localhost\r\nE2b-Sandbox-Id: %s\r\nE2b-Sandbox-Port: %d\r\n%s", id, port, more);
    return text;
}

static const char *with_token(const char *value)
{
    static char text[256];
    snprintf(text, sizeof(text), "X-Access-Token: %s\r\n", value);
    return text;
}

static void expect(int status, int want, const char *text, const char *what)
{
    if (status != want || !kit_said(text))
        fail_msg("%s: %d %s", what, status, kit.body.len == 0 ? "" : kit.body.ptr);
}

TEST(edge_ways_to_a_port)
{
    setup();
    char headers[256], path[128];
    expect(kit_ask("GET", "/x?a=b", to(3000, ""), NULL), 200, "GET /x?a=b\n", "headers");
    assert_true(kit_said("X-Sandbox-Port: 3000\n"));
    snprintf(headers, sizeof(headers), "Host: 3000-%s.abx.localhost:1\r\n", id);
    expect(kit_ask("GET", "/x", headers, NULL), 200, "X-Sandbox-Port: 3000\n", "label");
    assert_true(kit_said("abx.localhost:1\n")); /* Host is kept */
    snprintf(path, sizeof(path), "/.p/%s/3000/y/z?q=1", id);
    expect(kit_ask("GET", path, "Host: 127.0.0.1\r\n", NULL), 200, "GET /y/z?q=1\n", "path");
    assert_true(kit_said("X-Sandbox-Port: 3000\n"));
    snprintf(path, sizeof(path), "/.p/%s/3000", id);
    expect(kit_ask("GET", path, "Host: 127.0.0.1\r\n", NULL), 200, "GET /\n", "bare path");
    kit_teardown();
}

TEST(edge_refusals_are_text)
{
    static const struct {
        const char *target, *headers, *text;
    } rows[] = {
        {"/", "Host: localhost\r\nE2b-Sandbox-Id: iabc\r\n", "missing header\n"},
        {"/", "Host: localhost\r\nE2b-Sandbox-Port: 1\r\n", "missing header\n"},
        {"/", "Host: localhost\r\nE2b-Sandbox-Port: x\r\nE2b-Sandbox-Id: iabc\r\n",
         "Invalid sandbox port\n"},
        {"/", "Host: localhost\r\nE2b-Sandbox-Port: 1\r\nE2b-Sandbox-Id: i_bc\r\n",
         "Invalid sandbox ID\n"},
        {"/", "Host: iabc.abx.localhost\r\n", "Invalid host\n"},
        {"/", "Host: x-iabc.abx.localhost\r\n", "Invalid sandbox port\n"},
        {"/", "Host: 1-I.b.abx.localhost\r\n", "Invalid sandbox ID\n"},
        {"/.p/iabc/1/", "Host: localhost\r\nE2b-Sandbox-Port: 2\r\nE2b-Sandbox-Id: iabc\r\n",
         "E2b headers differ"},
        {"/files?path=x", "Host: localhost\r\n", "host form"},
    };
    setup();
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        expect(kit_ask("GET", rows[i].target, rows[i].headers, NULL), 400, rows[i].text,
               rows[i].text);
        assert_true(kit_head_has("Content-Type: text/plain; charset=utf-8\n"));
    }
    kit_teardown();
}

TEST(edge_reserved_paths_are_404_in_every_spelling)
{
    static const char *const paths[] = {
        "/init",     "//init",     "/init/",    "/./init",   "/x/../init",    "/%69nit",
        "/init;x",   "/init;x=1/", "/%2e/init", "/init?x=1", "/freeze",       "/unfreeze",
        "/collapse", "/fsfreeze",  "/fsthaw",   "/upgrade",  "//%66reeze/;p", "/init%2f",
    };
    setup();
    for (size_t i = 0; i < ABX_COUNTOF(paths); i++) {
        char path[128];
        expect(kit_ask("POST", paths[i], to(49983, with_token(token)), "{}"), 404, "\"path\":\"/",
               paths[i]);
        assert_true(kit_said("reserved for the E2B control plane"));
        assert_true(kit_said("\"code\":404"));
        snprintf(path, sizeof(path), "/.p/%s/49983%s", id, paths[i]);
        expect(kit_ask("POST", path, "Host: localhost\r\n", "{}"), 404, "reserved", path);
    }
    char text[512];
    snprintf(text, sizeof(text),
             "POST http://localhost/init HTTP/1.1\r\n%sContent-Length: 0\r\n\r\n", to(49983, ""));
    expect(kit_raw(text), 404, "reserved", "absolute form");
    /* before the lookup: also for a sandbox that is not there */
    expect(kit_ask("GET", "/init",
                   "Host: localhost\r\nE2b-Sandbox-Id: inot\r\nE2b-Sandbox-Port: 49983\r\n", NULL),
           404, "reserved", "unknown sandbox");
    /* on another port it is the app's own path */
    assert_int_equal(kit_ask("GET", "/init", to(3000, ""), NULL), 204);
    kit_teardown();
}

TEST(edge_unknown_sandbox_is_502_json_or_html)
{
    kit_setup();
    const char *headers = "Host: localhost\r\nE2b-Sandbox-Id: iabc\r\nE2b-Sandbox-Port: 49983\r\n";
    char text[512];
    assert_int_equal(kit_ask("GET", "/health", headers, NULL), 502);
    assert_string_equal(kit.body.ptr, "{\"sandboxId\":\"iabc\",\"message\":\"The sandbox was not "
                                      "found\",\"code\":502}");
    assert_true(kit_head_has("Content-Type: application/json; charset=utf-8\n"));
    static const struct {
        const char *more;
        bool is_html;
    } rows[] = {
        {"User-Agent: Mozilla/5.0\r\n", true},
        {"User-Agent: Mozilla/5.0\r\nAccept: application/json\r\n", false},
        {"User-Agent: Mozilla/5.0\r\nAccept: text/html, application/json\r\n", true},
        {"User-Agent: Mozilla/5.0\r\nSec-Fetch-Mode: cors\r\n", false},
        {"User-Agent: Mozilla/5.0\r\nSec-Fetch-Mode: navigate\r\n", true},
        {"User-Agent: Mozilla/5.0\r\nX-Requested-With: XMLHttpRequest\r\n", false},
        {"User-Agent: e2b-js-sdk/2.51.0\r\n", false},
        {"User-Agent: curl/8\r\n", false},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        snprintf(text, sizeof(text), "%s%s", headers, rows[i].more);
        assert_int_equal(kit_ask("GET", "/", text, NULL), 502);
        if (kit_head_has("Content-Type: text/html; charset=utf-8\n") != rows[i].is_html)
            fail_msg("%s", rows[i].more);
    }
    kit_teardown();
}

TEST(edge_compares_the_token_of_envd)
{
    static const char unauthorized[] = "unauthorized access, please provide a valid access token or"
                                       " method signing if supported";
    setup();
    expect(kit_ask("POST", "/process.Process/List", to(49983, ""), "{}"), 401, unauthorized,
           "none");
    expect(kit_ask("POST", "/process.Process/List", to(49983, with_token("00")), "{}"), 401,
           unauthorized, "wrong");
    assert_true(kit_said("\"code\":401"));
    expect(kit_ask("POST", "/process.Process/List", to(49983, with_token(token)), "{}"), 200,
           "X-Access-Token: ", "right");
    char two[256];
    snprintf(two, sizeof(two), "X-Access-Token: %s\r\nX-Access-Token: 00\r\n", token);
    expect(kit_ask("POST", "/process.Process/List", to(49983, two), "{}"), 400, "more than one",
           "two");
    assert_int_equal(kit_ask("GET", "/health", to(49983, ""), NULL), 204);
    expect(kit_ask("GET", "/metrics", to(49983, ""), NULL), 401, unauthorized, "metrics");
    expect(kit_ask("GET", "/files?path=a", to(49983, ""), NULL), 401,
           "missing signature query parameter", "unsigned");
    expect(kit_ask("GET", "/files?path=a", to(49983, with_token("00")), NULL), 401,
           "access token present in header but does not match", "wrong on files");
    expect(kit_ask("GET", "/files?path=a&signature=v1_x", to(49983, ""), NULL), 200,
           "GET /files?path=a&signature=v1_x\n", "signed: envd compares");
    expect(kit_ask("DELETE", "/files?path=a&signature=v1_x", to(49983, ""), NULL), 401,
           unauthorized, "signature on another method");
    expect(kit_ask("GET", "/files/compose?signature=v1_x", to(49983, ""), NULL), 401, unauthorized,
           "signature on another path");
    assert_int_equal(kit_ask("OPTIONS", "/process.Process/List",
                             to(49983, "Access-Control-Request-Method: POST\r\n"
                                       "Access-Control-Request-Headers: x-a\r\n"),
                             NULL),
                     204);
    assert_true(kit_head_has("Access-Control-Allow-Headers: x-a\n"));
    kit_teardown();
}

TEST(edge_insecure_sandbox_needs_no_token)
{
    kit_setup();
    assert_int_equal(
        kit_ask("POST", "/sandboxes", NULL, "{\"templateID\":\"host\",\"secure\":false}"), 201);
    kit_member("sandboxID", id, sizeof(id));
    expect(kit_ask("POST", "/process.Process/List", to(49983, ""), "{}"), 200, "POST ", "open");
    kit_teardown();
}

TEST(edge_drops_and_sets_headers)
{
    static const char hostile[] = "X-Sandbox-Port: 49983\r\n"
                                  "x-sandbox-port: 1\r\n"
                                  "E2B-Traffic-Access-Token: t\r\n"
                                  "X-API-KEY: e2b_00\r\n"
                                  "Via: 1.1 evil\r\n"
                                  "Forwarded: for=1.2.3.4\r\n"
                                  "X-Forwarded-For: 1.2.3.4\r\n"
                                  "X-Forwarded-Anything: x\r\n"
                                  "Connection: X-Sandbox-Port, Authorization, X-Custom\r\n"
                                  "X-Custom: named by Connection\r\n"
                                  "X-Other: stays\r\n"
                                  "Authorization: Basic dXNlcjo=\r\n";
    static const char *const gone[] = {"49983",   "Traffic",     "e2b_00",   "evil",
                                       "1.2.3.4", "Forwarded-A", "X-Custom", "E2b-Sandbox"};
    static const char *const there[] = {"X-Sandbox-Port: 3000\n", "X-Other: stays\n",
                                        "Authorization: Basic dXNlcjo=\n"};
    setup();
    expect(kit_ask("GET", "/", to(3000, hostile), NULL), 200, "GET /\n", "hostile");
    for (size_t i = 0; i < ABX_COUNTOF(gone); i++) {
        if (kit_said(gone[i]))
            fail_msg("%s arrived: %s", gone[i], kit.body.ptr);
    }
    for (size_t i = 0; i < ABX_COUNTOF(there); i++) {
        if (!kit_said(there[i]))
            fail_msg("%s did not arrive: %s", there[i], kit.body.ptr);
    }
    kit_teardown();
}

TEST(edge_keeps_the_envd_token_from_other_ports)
{
    setup();
    expect(kit_ask("GET", "/", to(3000, with_token(token)), NULL), 200, "GET /\n", "own");
    assert_false(kit_said("X-Access-Token"));
    expect(kit_ask("GET", "/", to(3000, with_token("the-app's-own")), NULL), 200,
           "X-Access-Token: the-app's-own\n", "foreign");
    expect(kit_ask("GET", "/", to(49999, with_token(token)), NULL), 200,
           "X-Access-Token: ", "interpreter");
    kit_teardown();
}

static const char *with_traffic(const char *value)
{
    static char text[256];
    snprintf(text, sizeof(text), "e2b-traffic-access-token: %s\r\n", value);
    return text;
}

/* code-interpreter.md, trap 26: each route of the interpreter, and any other port, wants the token;
 * envd goes by its own. */
static void expect_private(int port, const char *traffic)
{
    static const struct {
        const char *method, *path;
    } routes[] = {{"GET", "/health"},        {"POST", "/execute"},
                  {"GET", "/contexts"},      {"POST", "/contexts"},
                  {"DELETE", "/contexts/x"}, {"POST", "/contexts/x/restart"},
                  {"OPTIONS", "/execute"}};
    char two[300];
    snprintf(two, sizeof(two), "%sE2B-Traffic-Access-Token: 00\r\n", with_traffic(traffic));
    const struct {
        const char *headers, *text;
    } refused[] = {
        {"", "Token header 'e2b-traffic-access-token' is missing\",\"code\":403"},
        {"E2B-Traffic-Access-Token: 00\r\n", "'e2b-traffic-access-token' is invalid"},
        {"E2B-Traffic-Access-Token: \r\n", "'e2b-traffic-access-token' is invalid"},
        {two, "'e2b-traffic-access-token' is invalid"},
    };
    for (size_t i = 0; i < ABX_COUNTOF(routes); i++) {
        for (size_t k = 0; k < ABX_COUNTOF(refused); k++)
            expect(kit_ask(routes[i].method, routes[i].path, to(port, refused[k].headers), NULL),
                   403, refused[k].text, routes[i].path);
        int status =
            kit_ask(routes[i].method, routes[i].path, to(port, with_traffic(traffic)), NULL);
        if (status >= 300 || (kit.body.len != 0 && kit_said(traffic)))
            fail_msg("%s: %d %s", routes[i].path, status, kit.body.len ? kit.body.ptr : "");
    }
}

TEST(trap_26_the_traffic_token_is_wanted_on_every_route_but_envds)
{
    char traffic[80], again[80], text[128];
    kit_setup();
    kit_create("{\"templateID\":\"host\",\"network\":{\"allowPublicTraffic\":false}}", id, token);
    kit_member("trafficAccessToken", traffic, sizeof(traffic));
    assert_int_equal(strlen(traffic), 64);
    assert_string_not_equal(traffic, token);
    expect_private(49999, traffic);
    expect_private(3000, traffic);
    expect(kit_ask("POST", "/execute", to(49999, with_token(token)), "{}"), 403, "is missing",
           "envd's token is another");
    snprintf(text, sizeof(text), "/.p/%s/49999/health", id);
    expect(kit_ask("GET", text, "Host: localhost\r\n", NULL), 403, "is missing", "path");
    snprintf(text, sizeof(text), "Host: 49999-%s.abx.localhost\r\n", id);
    expect(kit_ask("GET", "/health", text, NULL), 403, "is missing", "label");
    assert_int_equal(kit_ask("GET", "/health", to(49983, ""), NULL), 204);
    expect(kit_ask("POST", "/process.Process/List", to(49983, with_token(token)), "{}"), 200,
           "POST ", "envd");
    /* it comes with every connect, and outlives the engine */
    kit_stop();
    kit_start();
    snprintf(text, sizeof(text), "/v2/sandboxes/%s/connect", id);
    assert_int_equal(kit_ask("POST", text, NULL, NULL), 200);
    kit_member("trafficAccessToken", again, sizeof(again));
    assert_string_equal(traffic, again);
    expect(kit_ask("GET", "/health", to(49999, ""), NULL), 403, "is missing", "after a restart");
    snprintf(text, sizeof(text), "/sandboxes/%s", id);
    assert_int_equal(kit_ask("GET", text, NULL, NULL), 200);
    assert_true(kit_said("\"network\":{\"allowPublicTraffic\":false}"));
    kit_teardown();
}

TEST(edge_kill_cuts_streams_when_health_is_502_already)
{
    setup();
    char text[512], path[64];
    int stream = kit_connect(), killer = kit_connect();
    snprintf(text, sizeof(text), "GET /hang HTTP/1.1\r\n%s\r\n", to(3000, ""));
    kit_send(stream, text, strlen(text));
    KIT_UNTIL(kit.hanging != NULL);
    kit.hold = true; /* the removal takes its time */
    snprintf(path, sizeof(path), "/sandboxes/%s", id);
    snprintf(text, sizeof(text), "DELETE %s HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: %s\r\n\r\n",
             path, kit_key);
    kit_send(killer, text, strlen(text));
    KIT_UNTIL(kit.counts[KIT_DESTROY] == 1);
    assert_int_equal(kit_read(stream), 0);
    assert_false(kit.was_reset); /* the end of a body without its last chunk */
    assert_int_equal(kit_ask("GET", "/health", to(49983, ""), NULL), 502);
    assert_int_equal(kit.hang_aborts, 1);
    kit.hold = false;
    assert_int_equal(kit_read(killer), 204);
    close(stream);
    close(killer);
    kit_teardown();
}

TEST(edge_kill_answers_what_had_no_answer_yet)
{
    setup();
    char text[512];
    int fd = kit_connect();
    snprintf(text, sizeof(text), "GET /late HTTP/1.1\r\n%s\r\n", to(3000, ""));
    kit_send(fd, text, strlen(text));
    KIT_UNTIL(kit.hanging != NULL);
    abx__sandbox_kill(abx__sandbox_find(&kit.e, abx_str(id)), NULL);
    assert_int_equal(kit_read(fd), 502);
    assert_true(kit_said("The sandbox was not found"));
    close(fd);
    kit_teardown();
}

TEST(edge_connections_are_capped_and_counted_back)
{
    setup();
    struct abx__sandbox *sb = abx__sandbox_find(&kit.e, abx_str(id));
    sb->edge_conns = ABX_EDGE_CONNS;
    expect(kit_ask("GET", "/", to(3000, ""), NULL), 429, "\"connectionLimit\":256", "cap");
    assert_true(kit_said("\"sandboxId\":\""));
    sb->edge_conns = ABX_EDGE_CONNS - 1;
    expect(kit_ask("GET", "/", to(3000, ""), NULL), 200, "GET /\n", "below");
    KIT_UNTIL(sb->edge_conns == ABX_EDGE_CONNS - 1);
    sb->edge_conns = 0;
    kit_teardown();
}

TEST(edge_counts_back_what_is_refused)
{
    setup();
    struct abx__sandbox *sb = abx__sandbox_find(&kit.e, abx_str(id));
    char text[256];
    snprintf(text, sizeof(text), "CONNECT x:1 HTTP/1.1\r\nHost: 3000-%s.abx.localhost\r\n\r\n", id);
    int status = kit_raw(text);
    assert_true(status >= 400);
    KIT_UNTIL(sb->edge_conns == 0);
    kit_teardown();
}

TEST(edge_gateway_that_is_away_is_502)
{
    setup();
    char path[160];
    snprintf(path, sizeof(path), "%s/sandboxes/%s/run/gateway.sock", kit.dir, id);
    abx_http_pool_forget(kit.e.pool, abx_str(id));
    assert_int_equal(unlink(path), 0);
    expect(kit_ask("GET", "/", to(3000, ""), NULL), 502, "Failed to route request to sandbox\n",
           "away");
    kit_teardown();
}

TEST(health_is_open_and_per_port)
{
    setup();
    assert_int_equal(kit_ask("GET", "/health", "Host: localhost\r\n", NULL), 200);
    assert_int_equal(kit_ask("GET", "/health", "Host: 127.0.0.1:1\r\n", NULL), 200);
    assert_int_equal(kit_ask("GET", "/health", to(49983, ""), NULL), 204);
    kit_teardown();
}

/* Signed URLs. */

static void sign(const char *path, const char *operation, const char *user, const char *expiration,
                 char out[64])
{
    struct abx_str fields[4] = {abx_str(path), abx_str(operation), abx_str(user), abx_str(token)};
    abx__sign(fields, abx_str(expiration), out);
}

TEST(signature_of_the_published_vector)
{
    struct abx_str fields[4] = {ABX_STR("hello.txt"), ABX_STR("read"), ABX_STR("user"),
                                ABX_STR("0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0")};
    char out[64];
    abx__sign(fields, (struct abx_str){0}, out);
    assert_string_equal(out, "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E");
}

static int fetch_signed(const char *method, const char *query, const char *signature)
{
    ABX_AUTO_BUF b = {.max = 1024};
    abx_buf_putf(&b, "/files?%s&signature=", query);
    abx_url_encode(&b, abx_str(signature), "");
    return kit_ask(method, b.ptr, "Host: localhost\r\n", NULL);
}

TEST(signed_files_find_their_sandbox)
{
    setup();
    char s[64], until[32], query[160];
    sign("/home/user/a b", "read", "user", NULL, s);
    expect(fetch_signed("GET", "path=%2Fhome%2Fuser%2Fa+b&username=user", s), 200,
           "X-Sandbox-Port: 49983\n", "read");
    expect(fetch_signed("POST", "path=%2Fhome%2Fuser%2Fa+b&username=user", s), 401,
           "invalid signature", "read is not write");
    sign("", "write", "", NULL, s);
    expect(fetch_signed("POST", "x=1", s), 200, "POST /files?x=1", "write without a path");
    snprintf(until, sizeof(until), "%lld", (long long)(abx_time_wall_ms() / 1000 + 100));
    sign("a", "read", "", until, s);
    snprintf(query, sizeof(query), "path=a&signature_expiration=%s", until);
    expect(fetch_signed("GET", query, s), 200, "GET /files", "not yet expired");
    expect(fetch_signed("GET", "path=a&signature_expiration=99999999999", s), 401,
           "invalid signature", "another expiration");
    sign("a", "read", "", "1000", s);
    expect(fetch_signed("GET", "path=a&signature_expiration=1000", s), 401,
           "signature is already expired", "expired");
    sign("a", "read", "x:write:", NULL, s);
    expect(fetch_signed("GET", "path=a&username=x%3Awrite%3A", s), 401, "invalid signature",
           "joined fields");
    kit_teardown();
}

TEST(signature_of_a_sandbox_without_token_fits_nobody)
{
    kit_setup();
    char s[64];
    assert_int_equal(
        kit_ask("POST", "/sandboxes", NULL, "{\"templateID\":\"host\",\"secure\":false}"), 201);
    token[0] = '\0';
    sign("a", "read", "", NULL, s);
    expect(fetch_signed("GET", "path=a", s), 401, "invalid signature", "no token");
    kit_teardown();
}

TEST(signature_failures_are_limited)
{
    setup();
    char s[64];
    int refused = 0, limited = 0;
    sign("b", "read", "", NULL, s);
    for (int i = 0; i < 40 && limited == 0; i++) {
        int status = fetch_signed("GET", "path=a", s);
        refused += status == 401 ? 1 : 0;
        limited += status == 429 ? 1 : 0;
        for (size_t r = 0; r < ABX__RATES; r++) { /* one second for all of them */
            if (kit.e.bad_signatures[r].used != 0)
                kit.e.bad_signatures[r].window_ms = abx_time_mono_ms();
        }
    }
    assert_int_equal(refused, 20);
    assert_int_equal(limited, 1);
    assert_true(kit_head_has("Retry-After: 1\n"));
    /* another address, and the next second, have their own */
    struct abx__rate *own = NULL;
    for (size_t r = 0; r < ABX__RATES; r++)
        own = kit.e.bad_signatures[r].used != 0 ? &kit.e.bad_signatures[r] : own;
    assert_non_null(own);
    own->address[3]++;
    assert_int_equal(fetch_signed("GET", "path=a", s), 401);
    own->address[3]--;
    own->window_ms -= 1000;
    assert_int_equal(fetch_signed("GET", "path=a", s), 401);
    kit_teardown();
}

/* The shared corpus of requests that no hop may let through. */
TEST(edge_refuses_the_smuggling_corpus)
{
    kit_setup();
    const char *source = getenv("ABX_SOURCE");
    char path[512];
    ABX_AUTO_FREE char *table = NULL;
    size_t len = 0, rows = 0;
    snprintf(path, sizeof(path), "%s/tests/wire/smuggling/table.tsv", source ? source : ".");
    assert_int_equal(abx_fd_read_file(AT_FDCWD, path, 65536, &table, &len), 0);
    struct abx_str rest = abx_str_n(table, len), line, name;
    while (abx_str_split(&rest, '\n', &line)) {
        uint32_t want = 0;
        if (line.len == 0 || line.ptr[0] == '#')
            continue;
        abx_str_split(&line, '\t', &name);
        ABX_AUTO_FREE char *text = NULL;
        size_t text_len = 0;
        struct abx_str status;
        abx_str_split(&line, '\t', &status);
        if (abx_parse_u32(status, &want) < 0)
            continue; /* the heading */
        snprintf(path, sizeof(path), "%s/tests/wire/smuggling/%.*s", source ? source : ".",
                 ABX_STR_FMT(name));
        assert_int_equal(abx_fd_read_file(AT_FDCWD, path, 1 << 20, &text, &text_len), 0);
        int fd = kit_connect();
        kit_send(fd, text, text_len);
        int got = kit_read(fd);
        if (got != (int)want && got != 421) /* a bad body may come after the Host was refused */
            fail_msg("%.*s: %d", ABX_STR_FMT(name), got);
        if (kit_read(fd) != 0)
            fail_msg("%.*s: the connection goes on", ABX_STR_FMT(name));
        close(fd);
        rows++;
    }
    assert_true(rows > 30);
    assert_int_equal(kit.counts[KIT_CREATE], 0);
    kit_teardown();
}
