/* guest/envd/envd_traps_test.c: the numbered traps of envd.md 10 that no other suite holds by its
 * number, each as the wire sees it. docs/cases.md lists all of them with their tests. */
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

/* A stream whose client would take packed frames. */
static void stream_that_may_be_packed(void)
{
    ABX_AUTO_FD fd =
        stream(PROC "Start", "Connect-Accept-Encoding: gzip\r\nAccept-Encoding: gzip\r\n",
               SHELL("echo hi"));
    abx_buf_clear(&got);
    while (read_some(fd, &got) > 0)
        ;
}

TEST(trap_06_no_frame_is_packed_and_a_stream_has_its_end)
{
    start();
    stream_that_may_be_packed();
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

/* What one route answers, by each codec and with parameters of the type; only the head is read. */
static void expect_type(const char *method, bool is_stream, bool is_json, struct abx_str body)
{
    static const char *const parameters[] = {"", "; charset=utf-8", ";charset=UTF-8"};
    char what[128], type[64], wanted[128];
    snprintf(type, sizeof(type), "application/%s%s", is_stream ? "connect+" : "",
             is_json ? "json" : "proto");
    snprintf(what, sizeof(what), "POST /%s", method);
    for (size_t i = 0; i < ABX_COUNTOF(parameters); i++) {
        snprintf(wanted, sizeof(wanted), "Content-Type: %s%s\r\n", type, parameters[i]);
        ABX_AUTO_FD fd = dial();
        abx_buf_clear(&got);
        send_request(fd, what, wanted, body);
        read_until(fd, &got, "\r\n\r\n");
        bool has_failed = !has(&got, "HTTP/1.1 200");
        assert_false(is_stream && has_failed);
        snprintf(wanted, sizeof(wanted), "\r\nContent-Type: %s\r\n",
                 has_failed ? "application/json" : type);
        want(wanted);
    }
}

/* Those that find nothing to do fail, and a failure of a unary call is JSON by either codec. */
TEST(trap_07_content_types_of_every_route)
{
    static const char *const unary[] = {FS "Stat",        FS "MakeDir",          FS "Move",
                                        FS "ListDir",     FS "CreateWatcher",    FS "RemoveWatcher",
                                        PROC "List",      FS "GetWatcherEvents", PROC "Update",
                                        PROC "SendInput", PROC "SendSignal",     PROC "CloseStdin",
                                        FS "Remove"};
    static const char *const streams[] = {PROC "Start", PROC "Connect", PROC "StreamInput",
                                          FS "WatchDir"};
    static const char empty[] = {0, 0, 0, 0, 0}, object[] = {0, 0, 0, 0, 2, '{', '}'},
                      path[] = {'\n', 1, '.'};
    start();
    for (size_t i = 0; i < ABX_COUNTOF(unary); i++) {
        expect_type(unary[i], false, true, ABX_STR("{}"));
        expect_type(unary[i], false, true, ABX_STR("{\"path\":\".\"}"));
        expect_type(unary[i], false, false, ABX_STR(""));
        expect_type(unary[i], false, false, abx_str_n(path, sizeof(path)));
    }
    for (size_t i = 0; i < ABX_COUNTOF(streams); i++) {
        expect_type(streams[i], true, true, abx_str_n(object, sizeof(object)));
        expect_type(streams[i], true, false, abx_str_n(empty, sizeof(empty)));
    }
    assert_int_equal(call(PROC "Start", "{}", &got), 415);
    want("Content-Type: application/json\r\n");
    stop();
}

TEST(trap_09_the_end_is_told_and_says_only_what_is_so)
{
    start();
    stream_all(PROC "Start", SHELL("true"), &got);
    want("{\"event\":{\"end\":{\"exited\":true,\"status\":\"exit status 0\"}}}");
    stream_all(PROC "Start", SHELL("kill -9 $$"), &got);
    want("\"exitCode\":-1,\"status\":\"signal: killed\"");
    want_none("\"exited\":true");
    stop();
}

TEST(trap_10_an_end_without_failure_has_no_error)
{
    start();
    stream_all(PROC "Start", SHELL("true"), &got);
    want("\"end\":");
    want_none("error");
    stream_all(PROC "Start", SHELL("exit 3"), &got);
    want("\"exitCode\":3,\"exited\":true,\"status\":\"exit status 3\",\"error\":\"exit status 3\"");
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

#define PART(params, data) "--b\r\nContent-Disposition: form-data; " params "\r\n\r\n" data "\r\n"

TEST(trap_14_upload_answers_hold_three_members)
{
    char answer[256];
    start();
    snprintf(answer, sizeof(answer),
             "\r\n\r\n[{\"path\":\"%s/home/a\",\"name\":\"a\",\"type\":\"file\"}]", rig.dir);
    assert_int_equal(ask("POST /files?path=a", OCTETS, ABX_STR("1"), &got), 200);
    want(answer);
    assert_int_equal(
        ask("POST /files?path=a", FORM, ABX_STR(PART("name=\"file\"", "1") "--b--\r\n"), &got),
        200);
    want(answer);
    stop();
}

TEST(trap_15_names_of_parts_are_paths)
{
    char path[256];
    start();
    snprintf(path, sizeof(path),
             "[{\"path\":\"%s/home/x/y.txt\",\"name\":\"y.txt\",\"type\":\"file\"}]", rig.dir);
    assert_int_equal(ask("POST /files", FORM,
                         ABX_STR(PART("name=\"file\"; filename=\"x/y.txt\"", "1")
                                     PART("name=\"other\"", "2") "--b--\r\n"),
                         &got),
                     200);
    want(path);
    assert_int_equal(ask("POST /files?path=x/y.txt", FORM,
                         ABX_STR(PART("name=\"file\"", "3") "--b--\r\n"), &got),
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

struct signed_row {
    const char *what, *headers;
    int status;
    const char *text;
};

/* Each @rows of a daemon that has a token. */
static void expect_signed(const struct signed_row *rows, size_t count)
{
    start();
    assert_int_equal(ask("POST /init", JSON_TYPE, ABX_STR("{\"accessToken\":\"" TOKEN "\"}"), &got),
                     204);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(ask(rows[i].what, rows[i].headers, NO_BODY, &got), rows[i].status);
        want(rows[i].text);
    }
    stop();
}

TEST(trap_17_a_signature_covers_the_raw_query)
{
    static const struct signed_row rows[] = {
        {"GET /files?path=hello.txt&username=user&" SIGNED, "", 404, "does not exist"},
        {"GET /files?path=hello%2Etxt&username=user&" SIGNED, "", 404, "does not exist"},
        {"GET /files?path=./hello.txt&username=user&" SIGNED, "", 401, "invalid signature"},
        {"GET /files?path=hello.txt&" SIGNED, "", 401, "invalid signature"},
        {"GET /files?path=hello.txt+&username=user&" SIGNED, "", 401, "invalid signature"},
    };
    expect_signed(rows, ABX_COUNTOF(rows));
}

/* Made as the vector: of these paths for `user`, and of hello.txt for nobody. */
#define OF_A_SPACE "signature=v1_i4czhPbOB5Jia4qU4UhFQ7Qn8htnp8SidUA4OAZR4a0"
#define OF_A_PLUS  "signature=v1_nvLlvepsUu3Yl1IGkb0NXYv966Fxe4TlsPHiKJiNC24"
#define OF_NOBODY  "signature=v1_SnvZASdG5vD8p9rpaldX3434NfwgRVsYsvzCBL6oZbc"

TEST(trap_17_a_signature_covers_what_the_query_decodes_to)
{
    static const struct signed_row rows[] = {
        {"GET /files?path=a+b.txt&username=user&" OF_A_SPACE, "", 404, "does not exist"},
        {"GET /files?path=a%20b.txt&username=user&" OF_A_SPACE, "", 404, "does not exist"},
        {"GET /files?path=a%2Bb.txt&username=user&" OF_A_SPACE, "", 401, "invalid signature"},
        {"GET /files?path=a%2Bb.txt&username=user&" OF_A_PLUS, "", 404, "does not exist"},
        {"GET /files?path=a%2bb.txt&username=user&" OF_A_PLUS, "", 404, "does not exist"},
        {"GET /files?path=a+b.txt&username=user&" OF_A_PLUS, "", 401, "invalid signature"},
        {"GET /files?path=%68ello.txt&username=%75ser&" SIGNED, "", 404, "does not exist"},
        {"GET /files?username=user&path=hello.txt&" SIGNED, "", 404, "does not exist"},
        {"GET /files?path=Hello.txt&username=user&" SIGNED, "", 401, "invalid signature"},
        {"GET /files?path=hello%252Etxt&username=user&" SIGNED, "", 401, "invalid signature"},
        {"GET /files?path=hello.txt&username=root&" SIGNED, "", 401, "invalid signature"},
        {"GET /files?path=hello.txt&username=user+&" SIGNED, "", 401, "invalid signature"},
        {"GET /files?path=hello.txt&username=user&" OF_NOBODY, "", 401, "invalid signature"},
        {"GET /files?path=hello.txt&" OF_NOBODY, "", 404, "does not exist"},
        {"GET /files?path=hello.txt&username=&" OF_NOBODY, "", 404, "does not exist"},
        {"GET "
         "/files?path=p12.txt&username=user&signature=v1_jI9iF6Bx0IHB7jmLJmus0YcbRcDEEPpU%"
         "2BfcSebIab04",
         "", 404, "does not exist"},
        {"GET "
         "/files?path=p12.txt&username=user&signature=v1_jI9iF6Bx0IHB7jmLJmus0YcbRcDEEPpU+"
         "fcSebIab04",
         "", 401, "invalid signature"},
    };
    expect_signed(rows, ABX_COUNTOF(rows));
}

TEST(trap_18_a_wrong_signature_is_told_before_its_expiry)
{
    static const struct signed_row rows[] = {
        {"GET /files?path=hello.txt&username=user&signature=v1_no&signature_expiration=1", "", 401,
         "{\"code\":401,\"message\":\"invalid signature\"}\n"},
        {"GET /files?path=hello.txt&username=user", "", 401,
         "{\"code\":401,\"message\":\"missing signature query parameter\"}\n"},
    };
    expect_signed(rows, ABX_COUNTOF(rows));
}

TEST(trap_19_a_wrong_header_fails_beside_a_right_signature)
{
    static const struct signed_row rows[] = {
        {"GET /files?path=hello.txt&username=user&" SIGNED, "X-Access-Token: wrong\r\n", 401,
         "access token present in header but does not match"},
        {"GET /files?path=hello.txt&username=user&signature=v1_no", "X-Access-Token: " TOKEN "\r\n",
         404, "does not exist"},
    };
    expect_signed(rows, ABX_COUNTOF(rows));
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

/* How many bytes of stdout the data events in @b carry. */
static size_t stdout_bytes(const struct abx_buf *b)
{
    static const char key[] = "\"stdout\":\"";
    size_t sum = 0;
    struct abx_str rest = abx_buf_str(b);
    for (ptrdiff_t at; (at = abx_str_find(rest, ABX_STR(key))) >= 0;) {
        rest = abx_str_sub(rest, (size_t)at + sizeof(key) - 1, rest.len);
        ptrdiff_t len = abx_str_chr(rest, '"');
        assert_true(len >= 4);
        sum += (size_t)len / 4 * 3 - (rest.ptr[len - 1] == '=') - (rest.ptr[len - 2] == '=');
    }
    return sum;
}

/* Reads of @fast until it stalls, since the other does not read; then of both to their ends. */
static void read_apart(int fast, struct abx_buf *fast_got, int slow, struct abx_buf *slow_got)
{
    struct pollfd p[2] = {{fast, POLLIN, 0}, {-1, POLLIN, 0}};
    int ready;
    while (p[0].fd >= 0 || p[1].fd >= 0) {
        ready = poll(p, 2, p[1].fd < 0 && slow >= 0 ? 300 : GUARD_MS);
        if (ready == 0 && slow >= 0) {
            p[1].fd = slow;
            slow = -1;
            continue;
        }
        assert_true(ready > 0);
        if (p[0].revents && read_some(fast, fast_got) == 0)
            p[0].fd = -1;
        if (p[1].revents && read_some(p[1].fd, slow_got) == 0)
            p[1].fd = -1;
    }
}

/* A slow one holds the process up and loses nothing. */
TEST(trap_23_each_client_has_its_own_copy)
{
    enum { SIZE = 8000000 };
    char text[64];
    start();
    ABX_AUTO_BUF other;
    abx_buf_init(&other, 32 << 20);
    snprintf(text, sizeof(text), "%s/home/go", rig.dir);
    assert_int_equal(mkfifo(text, 0600), 0);
    ABX_AUTO_FD first =
        stream(PROC "Start", "", SHELL("read x < go; head -c 8000000 /dev/zero; : > left"));
    abx_buf_clear(&got);
    read_until(first, &got, "\"start\"");
    snprintf(text, sizeof(text), "{\"process\":{\"pid\":%u}}", pid_in(&got));
    ABX_AUTO_FD second = stream(PROC "Connect", "", text);
    read_until(second, &other, "\"start\"");
    put_file("home/go", "x\n");
    read_apart(second, &other, first, &got);
    assert_int_equal(stdout_bytes(&other), SIZE);
    assert_int_equal(stdout_bytes(&got), SIZE);
    want("\"exit status 0\"");
    assert_true(has(&other, "\"exit status 0\""));
    stop();
}

TEST(trap_24_a_keepalive_of_zero_does_not_spin)
{
    static const char *const values[] = {"0", "-1", "0.01", "x", ""};
    char header[64];
    start();
    for (size_t i = 0; i < ABX_COUNTOF(values); i++) {
        snprintf(header, sizeof(header), "Keepalive-Ping-Interval: %s\r\n", values[i]);
        ABX_AUTO_FD fd = stream(PROC "Start", header, SHELL("sleep 0.2"));
        abx_buf_clear(&got);
        while (read_some(fd, &got) > 0)
            ;
        want("\"exit status 0\"");
        want_none("keepalive");
    }
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

TEST(trap_27_rpc_is_never_packed_for_a_client_that_takes_gzip)
{
    start();
    assert_int_equal(
        ask("POST /" PROC "List", JSON_TYPE "Accept-Encoding: gzip\r\n", ABX_STR("{}"), &got), 200);
    want_none("Content-Encoding");
    want("\r\n\r\n{}");
    stream_that_may_be_packed();
    want_none("Content-Encoding");
    want("\"stdout\":\"aGkK\"");
    stop();
}

static uint32_t start_and_leave(void)
{
    ABX_AUTO_FD fd = stream(PROC "Start", "", SHELL("sleep 300"));
    abx_buf_clear(&got);
    read_until(fd, &got, "\"start\"");
    return pid_in(&got);
}

static void kill_nine(uint32_t pid)
{
    char json[64];
    snprintf(json, sizeof(json), "{\"process\":{\"pid\":%u},\"signal\":9}", pid);
    assert_int_equal(call(PROC "SendSignal", json, &got), 200);
}

/* Without the pause: known with its configuration to a later connection. */
TEST(trap_28_list_has_what_earlier_connections_started)
{
    start();
    uint32_t pid = start_and_leave();
    assert_int_equal(call(PROC "List", "{}", &got), 200);
    want("\"config\":{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",\"sleep 300\"]");
    assert_int_equal(pid_in(&got), pid);
    kill_nine(pid);
    stop();
}

/* As decisions.md has it: for 10 minutes. */
TEST(trap_29_an_ended_process_is_remembered)
{
    char json[64];
    start();
    uint32_t pid = start_and_leave();
    kill_nine(pid);
    snprintf(json, sizeof(json), "{\"process\":{\"pid\":%u}}", pid);
    for (int i = 0; i < 2; i++) { /* the first may still wait for the end */
        stream_all(PROC "Connect", json, &got);
        want("\"start\"");
        want("\"status\":\"signal: killed\"");
    }
    stop();
}

TEST(trap_30_errors_have_cors_too)
{
    static const struct {
        const char *what, *headers;
        int status;
        const char *body;
    } rows[] = {{"GET /files?path=none", "", 404},
                {"GET /files?path=~", "", 400},
                {"GET /files?path=a&username=nobody", "", 401},
                {"GET /none", "", 404},
                {"PUT /files", "", 405},
                {"GET /" PROC "List", "", 405},
                {"POST /" PROC "Nope", JSON_TYPE, 404},
                {"POST /" PROC "List", "Content-Type: text/plain\r\n", 415},
                {"POST /" FS "Stat", JSON_TYPE "Authorization: Basic bm9ib2R5Og==\r\n", 401,
                 "{\"path\":\"a\"}"},
                {"POST /" FS "Stat", JSON_TYPE, 400, "{\"path\":7}"}};
    char headers[256];
    start();
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        snprintf(headers, sizeof(headers), "Origin: http://a\r\n%s", rows[i].headers);
        struct abx_str body =
            *rows[i].what == 'P' ? abx_str(rows[i].body ? rows[i].body : "") : NO_BODY;
        if (ask(rows[i].what, headers, body, &got) != rows[i].status)
            fail_msg("%s: %.60s", rows[i].what, got.ptr);
        want("Access-Control-Allow-Origin: *\r\n");
        want("Access-Control-Expose-Headers: ");
    }
    assert_int_equal(ask("POST /init", JSON_TYPE, ABX_STR("{\"accessToken\":\"" TOKEN "\"}"), &got),
                     204);
    assert_int_equal(
        ask("POST /" PROC "List", JSON_TYPE "Origin: http://a\r\n", ABX_STR("{}"), &got), 401);
    want("Access-Control-Allow-Origin: *\r\n");
    stop();
}

TEST(trap_31_rest_errors_have_their_class)
{
    static const struct {
        const char *what;
        int status;
    } rows[] = {{"GET /files?path=none", 404},
                {"GET /files?path=~", 400},
                {"GET /files?path=a&username=nobody", 401},
                {"POST /files?path=a&username=nobody", 401},
                {"POST /files?path=~", 400}};
    char code[32];
    start();
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_str body = *rows[i].what == 'P' ? ABX_STR("x") : NO_BODY;
        assert_int_equal(ask(rows[i].what, OCTETS, body, &got), rows[i].status);
        snprintf(code, sizeof(code), "\r\n\r\n{\"code\":%d,\"message\":\"", rows[i].status);
        want(code);
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
