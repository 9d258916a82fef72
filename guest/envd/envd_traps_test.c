/* guest/envd/envd_traps_test.c: the numbered traps of envd.md 10 that no other suite holds by its
 * number, each as the wire sees it (1 to 4, 8, 26: the watching suites; 33: tests/e2e, t35). */
#include "guest/envd/envd_rig_priv.h"
#include "lib/base/assert.h"

static const struct abx_envd_options plain = {.tcp_port = 0};
static struct abx_buf got;

#define FS     "filesystem.Filesystem/"
#define PROC   "process.Process/"
#define OCTETS "Content-Type: application/octet-stream\r\n"
#define FORM   "Content-Type: multipart/form-data; boundary=b\r\n"
#define SHELL(text)                                                                                \
    "{\"process\":{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",\"" text "\"]},\"stdin\":false}"

static void start(void)
{
    abx_buf_init(&got, 32 << 20);
    begin(&plain);
}

static void stop(void)
{
    end();
    abx_buf_done(&got);
}

static void want(const char *text)
{
    if (!has(&got, text))
        print_error("wanted: %s\ngot: %s\n", text, got.len ? got.ptr : "");
    assert_true(has(&got, text));
}

static void want_none(const char *text)
{
    if (has(&got, text))
        print_error("not wanted: %s\n", text);
    assert_false(has(&got, text));
}

/* The end frame of a stream in order; its head may hold NULs. */
static bool has_end_frame(void)
{
    static const char head[] = {2, 0, 0};
    return abx_str_find(abx_buf_str(&got), abx_str_n(head, sizeof(head))) >= 0;
}

TEST(trap_05_streams_fail_with_status_200)
{
    static const struct {
        const char *method, *json, *code;
    } rows[] = {
        {PROC "Connect", "{\"process\":{\"pid\":3999999}}", "\"not_found\""},
        {PROC "Start", "{\"process\":{\"cmd\":\"x\",\"cwd\":\"/none\"}}", "\"invalid_argument\""},
        {FS "WatchDir", "{\"path\":\"/none\"}", "\"not_found\""}};
    start();
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        stream_all(rows[i].method, rows[i].json, &got);
        want("HTTP/1.1 200");
        want(rows[i].code);
        assert_true(has_end_frame());
    }
    stop();
}

TEST(trap_06_and_27_rpc_answers_are_never_packed)
{
    start();
    assert_int_equal(
        ask("POST /" PROC "List", JSON_TYPE "Accept-Encoding: gzip\r\n", ABX_STR("{}"), &got), 200);
    want_none("Content-Encoding");
    want("\r\n\r\n{}");
    ABX_AUTO_FD fd = stream(PROC "Start", "Connect-Accept-Encoding: gzip\r\n", SHELL("echo hi"));
    abx_buf_clear(&got);
    while (read_some(fd, &got) > 0)
        ;
    want_none("Connect-Content-Encoding");
    want("\"stdout\":\"aGkK\"");
    assert_true(has_end_frame());
    stop();
}

TEST(trap_07_content_types_are_exact)
{
    start();
    assert_int_equal(call(PROC "List", "{}", &got), 200);
    want("Content-Type: application/json\r\n");
    stream_all(PROC "Start", SHELL("true"), &got);
    want("Content-Type: application/connect+json\r\n");
    stop();
}

TEST(trap_09_and_10_the_end_says_only_what_is_so)
{
    start();
    stream_all(PROC "Start", SHELL("true"), &got);
    want("{\"event\":{\"end\":{\"exited\":true,\"status\":\"exit status 0\"}}}");
    stream_all(PROC "Start", SHELL("exit 3"), &got);
    want("\"exitCode\":3,\"exited\":true,\"status\":\"exit status 3\",\"error\":\"exit status 3\"");
    stream_all(PROC "Start", SHELL("kill -9 $$"), &got);
    want("\"status\":\"signal: killed\"");
    want_none("\"exited\":true");
    stop();
}

TEST(trap_11_broken_utf8_is_not_repaired)
{
    start();
    stream_all(PROC "Start", SHELL("printf '\\\\377\\\\342\\\\211'"), &got);
    want("\"stdout\":\"/+KJ\"");
    stop();
}

TEST(trap_12_a_signal_to_nobody_is_not_found)
{
    start();
    assert_int_equal(call(PROC "SendSignal",
                          "{\"process\":{\"pid\":3999999},\"signal\":\"SIGNAL_SIGKILL\"}", &got),
                     404);
    want("\"code\":\"not_found\"");
    stop();
}

TEST(trap_13_codes_and_entries_that_the_sdks_need)
{
    start();
    put_file("home/a", "x");
    assert_int_equal(call(FS "MakeDir", "{\"path\":\"d\"}", &got), 200);
    want("{\"entry\":{\"name\":\"d\"");
    assert_int_equal(call(FS "MakeDir", "{\"path\":\"d\"}", &got), 409);
    want("\"already_exists\"");
    assert_int_equal(call(FS "Stat", "{\"path\":\"none\"}", &got), 404);
    want("\"not_found\"");
    assert_int_equal(call(FS "Stat", "{\"path\":\"a\"}", &got), 200);
    want("{\"entry\":{\"name\":\"a\"");
    assert_int_equal(call(FS "Move", "{\"source\":\"a\",\"destination\":\"b\"}", &got), 200);
    want("{\"entry\":{\"name\":\"b\"");
    stop();
}

TEST(trap_14_and_15_upload_answers_and_names)
{
    char path[256];
    start();
    snprintf(path, sizeof(path),
             "[{\"path\":\"%s/home/x/y.txt\",\"name\":\"y.txt\",\"type\":\"file\"}]", rig.dir);
    assert_int_equal(
        ask("POST /files", FORM,
            ABX_STR(
                "--b\r\nContent-Disposition: form-data; name=\"file\"; "
                "filename=\"x/y.txt\"\r\n\r\n1"
                "\r\n--b\r\nContent-Disposition: form-data; name=\"other\"\r\n\r\n2\r\n--b--\r\n"),
            &got),
        200);
    want(path);
    assert_int_equal(
        ask("POST /files?path=x/y.txt", FORM,
            ABX_STR("--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n3\r\n--b--\r\n"),
            &got),
        200);
    want(path);
    stop();
}

TEST(trap_16_only_the_empty_path_is_the_workdir)
{
    char text[256];
    start();
    snprintf(text, sizeof(text), "{\"defaultUser\":\"user\",\"defaultWorkdir\":\"%s/etc\"}",
             rig.dir);
    assert_int_equal(ask("POST /init", JSON_TYPE, abx_str(text), &got), 204);
    put_file("home/rel", "x");
    assert_int_equal(call(FS "Stat", "{\"path\":\"rel\"}", &got), 200);
    snprintf(text, sizeof(text), "\"path\":\"%s/home/rel\"", rig.dir);
    want(text);
    assert_int_equal(call(FS "ListDir", "{\"path\":\"\"}", &got), 200);
    want("\"name\":\"passwd\"");
    stream_all(PROC "Start", SHELL("cat rel || pwd"), &got);
    snprintf(text, sizeof(text), "%s/etc\n", rig.dir);
    ABX_AUTO_BUF coded;
    abx_buf_init(&coded, 1024);
    abx_base64_encode(text, strlen(text), true, &coded);
    want(coded.ptr);
    stop();
}

#define TOKEN "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0"
/* envd.md 3.5's own vector: path hello.txt, user `user`, read. */
#define SIGNED "signature=v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E"

TEST(trap_17_to_19_signatures)
{
    static const struct {
        const char *what, *headers;
        int status;
        const char *text;
    } rows[] = {
        {"GET /files?path=hello.txt&username=user&" SIGNED, "", 404, "does not exist"},
        {"GET /files?path=./hello.txt&username=user&" SIGNED, "", 401, "invalid signature"},
        {"GET /files?path=hello.txt&" SIGNED, "", 401, "invalid signature"},
        {"GET /files?path=hello.txt&username=user&signature=v1_no&signature_expiration=1", "", 401,
         "{\"code\":401,\"message\":\"invalid signature\"}\n"},
        {"GET /files?path=hello.txt&username=user", "", 401,
         "{\"code\":401,\"message\":\"missing signature query parameter\"}\n"},
        {"GET /files?path=hello.txt&username=user&" SIGNED, "X-Access-Token: wrong\r\n", 401,
         "access token present in header but does not match"},
    };
    start();
    assert_int_equal(ask("POST /init", JSON_TYPE, ABX_STR("{\"accessToken\":\"" TOKEN "\"}"), &got),
                     204);
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        assert_int_equal(ask(rows[i].what, rows[i].headers, NO_BODY, &got), rows[i].status);
        want(rows[i].text);
    }
    stop();
}

TEST(trap_20_a_deadline_kills_and_a_close_does_not)
{
    start();
    int fd = stream(PROC "Start", "", SHELL("sleep 0.3; echo done > left"));
    read_until(fd, &got, "\"start\"");
    close(fd);
    fd = stream(PROC "Start", "Connect-Timeout-Ms: 300\r\n", SHELL("sleep 300"));
    abx_buf_clear(&got);
    read_until(fd, &got, "\"deadline_exceeded\"");
    close(fd);
    int64_t until = abx_time_mono_ms() + GUARD_MS;
    do
        assert_int_equal(call(PROC "List", "{}", &got), 200);
    while (has(&got, "\"pid\"") && abx_time_mono_ms() < until);
    want("\r\n\r\n{}");
    assert_int_equal(call(FS "Stat", "{\"path\":\"left\"}", &got), 200);
    stop();
}

/* As decisions.md has it: kept, and given to whoever asks from the start. */
TEST(trap_21_output_without_listeners_blocks_nobody)
{
    start();
    int fd = stream(PROC "Start", "", SHELL("seq 200000 > /dev/stdout; echo done > left"));
    abx_buf_clear(&got);
    read_until(fd, &got, "\"start\"");
    close(fd);
    int64_t until = abx_time_mono_ms() + GUARD_MS;
    while (call(FS "Stat", "{\"path\":\"left\"}", &got) != 200 && abx_time_mono_ms() < until)
        poll(NULL, 0, 10);
    want("\"name\":\"left\"");
    stop();
}

/* As decisions.md has it: 500 ms after the leader, whoever holds the pipe. */
TEST(trap_22_a_held_pipe_does_not_hold_the_end)
{
    start();
    int64_t began = abx_time_mono_ms();
    stream_all(PROC "Start", SHELL("echo a; sleep 60 &"), &got);
    want("\"stdout\":\"YQo=\"");
    want("\"exit status 0\"");
    assert_true(abx_time_mono_ms() - began < 20000);
    stop();
}

TEST(trap_23_each_client_has_its_own_copy)
{
    char text[64];
    start();
    snprintf(text, sizeof(text), "%s/home/go", rig.dir);
    assert_int_equal(mkfifo(text, 0600), 0);
    ABX_AUTO_FD first = stream(PROC "Start", "", SHELL("read x < go; printf last"));
    abx_buf_clear(&got);
    read_until(first, &got, "\"start\"");
    snprintf(text, sizeof(text), "{\"process\":{\"pid\":%u}}", pid_in(&got));
    ABX_AUTO_FD second = stream(PROC "Connect", "", text);
    abx_buf_clear(&got);
    read_until(second, &got, "\"start\"");
    put_file("home/go", "x\n");
    read_until(second, &got, "\"stdout\":\"bGFzdA==\"");
    abx_buf_clear(&got);
    read_until(first, &got, "\"stdout\":\"bGFzdA==\"");
    stop();
}

TEST(trap_24_a_keepalive_of_zero_does_not_spin)
{
    start();
    ABX_AUTO_FD fd = stream(PROC "Start", "Keepalive-Ping-Interval: 0\r\n", SHELL("sleep 0.5"));
    abx_buf_clear(&got);
    while (read_some(fd, &got) > 0)
        ;
    want("\"exit status 0\"");
    want_none("keepalive");
    stop();
}

TEST(trap_25_bodies_may_be_chunked)
{
    start();
    ABX_AUTO_FD fd = dial();
    send_text(fd,
              ABX_STR("POST /" PROC "List HTTP/1.1\r\nHost: x\r\n" JSON_TYPE
                      "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n"
                      "0\r\n\r\n"));
    abx_buf_clear(&got);
    while (read_some(fd, &got) > 0)
        ;
    want("HTTP/1.1 200");
    stop();
}

/* 28 without the pause: known with its configuration to a later connection. */
TEST(trap_28_and_29_processes_outlive_connections)
{
    char json[64];
    start();
    ABX_AUTO_FD fd = stream(PROC "Start", "", SHELL("sleep 300"));
    abx_buf_clear(&got);
    read_until(fd, &got, "\"start\"");
    uint32_t pid = pid_in(&got);
    abx_fd_close(&fd);
    assert_int_equal(call(PROC "List", "{}", &got), 200);
    want("\"config\":{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",\"sleep 300\"]");
    assert_int_equal(pid_in(&got), pid);
    snprintf(json, sizeof(json), "{\"process\":{\"pid\":%u},\"signal\":9}", pid);
    assert_int_equal(call(PROC "SendSignal", json, &got), 200);
    snprintf(json, sizeof(json), "{\"process\":{\"pid\":%u}}", pid);
    stream_all(PROC "Connect", json, &got);
    want("\"status\":\"signal: killed\"");
    stream_all(PROC "Connect", json, &got);
    want("\"status\":\"signal: killed\"");
    stop();
}

TEST(trap_30_and_31_error_classes_with_cors)
{
    static const struct {
        const char *what;
        int status;
    } rows[] = {{"GET /files?path=none", 404},
                {"GET /files?path=~", 400},
                {"GET /files?path=a&username=nobody", 401},
                {"GET /none", 404}};
    start();
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        assert_int_equal(ask(rows[i].what, "Origin: http://a\r\n", NO_BODY, &got), rows[i].status);
        want("Access-Control-Allow-Origin: *\r\n");
    }
    stop();
}

TEST(trap_32_a_terminal_ends_in_order)
{
    start();
    stream_all(PROC "Start",
               "{\"process\":{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",\"stty size; exit 0\"]},"
               "\"pty\":{\"size\":{\"cols\":91,\"rows\":33}}}",
               &got);
    want("\"pty\":\"MzMgOTENCg==\"");
    want("\"exit status 0\"");
    assert_true(has_end_frame());
    stop();
}
