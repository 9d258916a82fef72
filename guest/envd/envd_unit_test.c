/* guest/envd/envd_unit_test.c: the pure parts: state, signatures, ranges, encodings, types, dates.
 */
#include "guest/envd/envd_priv.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "tests/unit/test.h"

#include <fcntl.h>
#include <stdio.h>

static struct abx_http_head head;
static struct abx_http_header headers[4];

static struct abx_http_req request(struct abx__envd *e)
{
    head = (struct abx_http_head){.method = ABX_STR("GET"), .headers = headers};
    return (struct abx_http_req){.head = &head, .path = ABX_STR("/files"), .user = e};
}

TEST(signature_has_the_published_value)
{
    struct abx__envd e = {.state.token = ABX_STR("0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0")};
    struct abx_http_req req = request(&e);
    struct abx__signed q = {.path = ABX_STR("hello.txt"),
                            .username = ABX_STR("user"),
                            .operation = "read",
                            .signature = ABX_STR("v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E")};
    assert_null(abx__files_refusal(&e, &req, &q));
    q.operation = "write";
    assert_string_equal(abx__files_refusal(&e, &req, &q), "invalid signature");
    q.operation = "read";
    q.path = ABX_STR("hello.txt2");
    assert_string_equal(abx__files_refusal(&e, &req, &q), "invalid signature");
    q.signature = (struct abx_str){NULL, 0};
    assert_string_equal(abx__files_refusal(&e, &req, &q), "missing signature query parameter");
}

TEST(signature_expires_after_it_was_found_right)
{
    struct abx__envd e = {.state.token = ABX_STR("t")};
    struct abx_http_req req = request(&e);
    /* sha256("p:read::t:1"), sha256("p:read::t:99999999999") */
    struct abx__signed q = {.path = ABX_STR("p"),
                            .operation = "read",
                            .expiration = ABX_STR("1"),
                            .signature = ABX_STR("v1_wrong")};
    assert_string_equal(abx__files_refusal(&e, &req, &q), "invalid signature");
    q.signature = ABX_STR("v1_P2scry3U5ToNI6aXxnJRlWzQrjprnONKKei+Sm1C8Ao");
    assert_string_equal(abx__files_refusal(&e, &req, &q), "signature is already expired");
    q.expiration = ABX_STR("99999999999");
    q.signature = ABX_STR("v1_7txQIPUXM0wBxsq2oI3kI2KCYaoTSoxEgkVFDNiQSvI");
    assert_null(abx__files_refusal(&e, &req, &q));
}

TEST(a_header_token_is_judged_alone)
{
    struct abx__envd e = {.state.token = ABX_STR("secret")};
    struct abx_http_req req = request(&e);
    struct abx__signed q = {.path = ABX_STR("p"), .operation = "read"};
    headers[0] = (struct abx_http_header){ABX_STR("X-Access-Token"), ABX_STR("secret")};
    head.header_count = 1;
    assert_null(abx__files_refusal(&e, &req, &q));
    headers[0].value = ABX_STR("secre");
    assert_string_equal(abx__files_refusal(&e, &req, &q),
                        "access token present in header but does not match");
    e.state.token = (struct abx_str){NULL, 0};
    assert_null(abx__files_refusal(&e, &req, &q)); /* open without a token */
}

static int next(const struct abx__state *now, const char *body, struct abx__state *ret,
                struct abx_error *err)
{
    bool stale;
    return abx__state_next(now, abx_str(body), ret, &stale, err);
}

TEST(state_replaces_variables_but_not_reserved_ones)
{
    struct abx__state none, one, two;
    struct abx_error err = {0};
    abx__state_init(&none);
    assert_int_equal(
        next(&none,
             "{\"accessToken\":\"t\",\"defaultUser\":\"user\",\"defaultWorkdir\":\"/w\","
             "\"envVars\":{\"A\":\"1\",\"E2B_SANDBOX_ID\":\"x\"},\"volumeMounts\":[]}",
             &one, &err),
        0);
    assert_true(one.is_provisioned && abx_str_is(one.token, "t"));
    assert_true(abx_str_is(one.default_user, "user") && abx_str_is(one.default_workdir, "/w"));
    assert_int_equal(one.env_count, 2);
    assert_int_equal(
        next(&one, "{\"envVars\":{\"B\":\"2\",\"E2B_SANDBOX_ID\":\"y\"},\"defaultUser\":\"\"}",
             &two, &err),
        0);
    assert_null(two.token.ptr); /* absent: cleared */
    assert_true(abx_str_is(two.default_user, "user"));
    assert_int_equal(two.env_count, 2);
    assert_true(abx_str_is(two.envs[0].name, "E2B_SANDBOX_ID"));
    assert_true(abx_str_is(two.envs[0].value, "x"));
    assert_true(abx_str_is(two.envs[1].name, "B"));
    abx__state_done(&one);
    abx__state_done(&two);
}

TEST(state_refuses_bad_bodies)
{
    static const char *const rows[] = {"{",
                                       "[]",
                                       "{\"accessToken\":1}",
                                       "{\"envVars\":{\"A\":1}}",
                                       "{\"envVars\":{\"\":\"1\"}}",
                                       "{\"envVars\":{\"A=\":\"1\"}}",
                                       "{\"hyperloopIP\":\"events.example\"}",
                                       "{\"timestamp\":\"now\"}"};
    struct abx__state none, one;
    struct abx_error err = {0};
    abx__state_init(&none);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(next(&none, rows[i], &one, &err), -1);
        assert_int_equal(err.code, ABX_INVALID_ARGUMENT);
    }
    assert_int_equal(next(&none, "", &one, &err), 0);
    abx__state_done(&one);
}

TEST(state_tells_programs_where_the_events_service_is)
{
    static const struct {
        const char *ip, *url;
    } rows[] = {{"10.11.0.1", "http://10.11.0.1"}, {"fd00::1", "http://[fd00::1]"}};
    struct abx__state now, next_one;
    struct abx_error err = {0};
    char body[128];
    abx__state_init(&now);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(body, sizeof(body), "{\"hyperloopIP\":\"%s\",\"envVars\":{\"A\":\"1\"}}",
                 rows[i].ip);
        assert_int_equal(next(&now, body, &next_one, &err), 0);
        abx__state_done(&now);
        now = next_one;
        assert_int_equal(now.env_count, 2); /* the later address is in the place of the earlier */
        assert_true(abx_str_is(now.envs[0].name, "E2B_EVENTS_ADDRESS"));
        assert_true(abx_str_is(now.envs[0].value, rows[i].url));
    }
    assert_int_equal(next(&now, "{\"envVars\":{\"E2B_EVENTS_ADDRESS\":\"x\"}}", &next_one, &err),
                     0);
    assert_int_equal(next_one.env_count, 1); /* not the caller's to change, and kept without one */
    assert_true(abx_str_is(next_one.envs[0].value, rows[1].url));
    abx__state_done(&next_one);
    abx__state_done(&now);
}

TEST(state_ignores_an_init_that_is_not_newer)
{
    struct abx__state none, one, two;
    struct abx_error err = {0};
    bool stale;
    abx__state_init(&none);
    assert_int_equal(next(&none, "{\"timestamp\":\"2026-08-01T10:00:00Z\"}", &one, &err), 0);
    assert_int_equal(abx__state_next(&one, ABX_STR("{\"timestamp\":\"2026-08-01T10:00:00Z\"}"),
                                     &two, &stale, &err),
                     0);
    assert_true(stale);
    assert_int_equal(abx__state_next(&one, ABX_STR("{\"timestamp\":\"2026-08-01T10:00:00.1Z\"}"),
                                     &two, &stale, &err),
                     0);
    assert_false(stale);
    abx__state_done(&one);
    abx__state_done(&two);
}

TEST(state_survives_in_a_sealed_memfd)
{
    struct abx__state none, one, two;
    struct abx_error err = {0};
    abx__state_init(&none);
    assert_int_equal(
        next(&none,
             "{\"accessToken\":\"t\\\"x\",\"timestamp\":\"2026-08-01T10:00:00.000000001Z\","
             "\"defaultUser\":\"user\",\"envVars\":{\"E2B_SANDBOX\":\"true\",\"A\":\"\"}}",
             &one, &err),
        0);
    ABX_AUTO_FD fd = abx__state_seal(&one, &err);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "x", 1), -1);
    assert_int_equal(abx__state_unseal(fd, &two, &err), 0);
    assert_true(abx_str_eq(one.token, two.token));
    assert_int_equal(one.timestamp_ns, two.timestamp_ns);
    assert_int_equal(two.env_count, 2);
    assert_true(two.is_provisioned && abx_str_is(two.default_user, "user"));
    abx__state_done(&one);
    abx__state_done(&two);
}

TEST(a_later_init_must_know_the_token)
{
    struct abx__state open = {0}, locked = {.token = ABX_STR("t")};
    assert_null(abx__state_refusal(&open, ABX_STR("new"), ABX_STR("")));
    assert_null(abx__state_refusal(&locked, ABX_STR("t"), ABX_STR("")));
    assert_null(abx__state_refusal(&locked, ABX_STR("new"), ABX_STR("t")));
    assert_string_equal(abx__state_refusal(&locked, ABX_STR("new"), ABX_STR("x")),
                        "access token validation failed");
    assert_string_equal(abx__state_refusal(&locked, ABX_STR(""), ABX_STR("")),
                        "access token reset not authorized");
}

TEST(media_type_and_disposition_rows)
{
    static const struct {
        struct abx_str name, bytes;
        const char *type, *disposition;
    } rows[] = {
        {{"a.txt", 5}, {"", 0}, "text/plain; charset=utf-8", "inline; filename=a.txt"},
        {{"A.PNG", 5}, {"", 0}, "image/png", "inline; filename=A.PNG"},
        {{"x y", 3}, {"\x89PNG\r\n\x1A\n", 8}, "image/png", "inline; filename=\"x y\""},
        {{"q\"\\", 3},
         {"plain\n", 6},
         "text/plain; charset=utf-8",
         "inline; filename=\"q\\\"\\\\\""},
        {{"\xC3\xA9", 2},
         {"\0\1", 2},
         "application/octet-stream",
         "inline; filename*=utf-8''%C3%A9"},
        {{"a\nb", 3}, {"", 0}, "text/plain; charset=utf-8", "inline; filename*=utf-8''a%0Ab"},
    };
    struct abx_arena a;
    abx_arena_init(&a, 1 << 16);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_string_equal(abx__media_type(rows[i].name, rows[i].bytes), rows[i].type);
        assert_string_equal(abx__disposition(&a, rows[i].name).ptr, rows[i].disposition);
    }
    abx_arena_done(&a);
}

TEST(http_dates_both_ways)
{
    struct abx_arena a;
    int64_t seconds = 0;
    abx_arena_init(&a, 1 << 16);
    assert_string_equal(abx__http_date_text(&a, 784111777).ptr, "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_int_equal(abx__http_date_parse(ABX_STR("Sun, 06 Nov 1994 08:49:37 GMT"), &seconds), 0);
    assert_int_equal(seconds, 784111777);
    static const char *const bad[] = {
        "", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun, 06 Nox 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 UTC", "Sun, 36 Nov 1994 08:49:37 GMT"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(abx__http_date_parse(abx_str(bad[i]), &seconds), -1);
    abx_arena_done(&a);
}

TEST(data_events_are_one_text)
{
    ABX_AUTO_BUF b;
    abx_buf_init(&b, 1 << 16);
    abx__event_data_json(&b, ABX_OUTPUT_STDERR, abx_str_n("\xFF\0\n", 3));
    assert_string_equal(b.ptr, "{\"event\":{\"data\":{\"stderr\":\"/wAK\"}}}");
    static char chunk[ABX_PROCESS_CHUNK];
    abx_buf_clear(&b);
    abx__event_data_json(&b, ABX_OUTPUT_PTY, abx_str_n(chunk, sizeof(chunk)));
    assert_false(abx_buf_failed(&b)); /* the largest chunk fits the daemon's buffer */
}
