/* guest/envd/envd_process_test.c: process.Process over the wire, on a daemon of its own. */
#include "guest/envd/envd_rig_priv.h"
#include "lib/contract/contract.h"

#include <sys/resource.h>

static const struct abx_envd_options plain = {.tcp_port = 0};

#ifdef ABX_SANITIZED
/* Freed memory is not kept around, so that what the daemon holds can be measured. */
const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
    return "quarantine_size_mb=1:thread_local_quarantine_size_kb=64";
}
#endif

#define START "process.Process/Start"
#define SH(script)                                                                                 \
    "{\"process\":{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",\"" script "\"]},\"stdin\":false}"
#define SHIN(script) "{\"process\":{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",\"" script "\"]}}"

TEST(start_streams_events_in_order)
{
    ABX_AUTO_BUF got;
    abx_buf_init(&got, 1 << 20);
    begin(&plain);
    stream_all(START, SH("echo hi; echo oops >&2; exit 7"), &got);
    assert_true(has(&got, "HTTP/1.1 200"));
    assert_true(has(&got, "Content-Type: application/connect+json\r\n"));
    ptrdiff_t start = abx_str_find(abx_buf_str(&got), ABX_STR("{\"event\":{\"start\":{\"pid\":"));
    ptrdiff_t data =
        abx_str_find(abx_buf_str(&got), ABX_STR("{\"event\":{\"data\":{\"stdout\":\"aGkK\"}}}"));
    ptrdiff_t end_at = abx_str_find(
        abx_buf_str(&got), ABX_STR("{\"event\":{\"end\":{\"exitCode\":7,\"exited\":true,\"status\":"
                                   "\"exit status 7\",\"error\":\"exit status 7\"}}}"));
    assert_true(start > 0 && start < data && data < end_at);
    assert_true(has(&got, "{\"event\":{\"data\":{\"stderr\":\"b29wcwo=\"}}}"));
    assert_true(has(&got, "\x02{}")); /* the length of "{}" ends the head of the end frame */
    end();
}

TEST(start_end_rows)
{
    static const struct {
        const char *request, *expect;
    } rows[] = {
        {SH("exit 0"), "{\"event\":{\"end\":{\"exited\":true,\"status\":\"exit status 0\"}}}"},
        {SH("kill -9 $$"), "{\"event\":{\"end\":{\"exitCode\":-1,\"status\":"
                           "\"signal: killed\",\"error\":\"signal: killed\"}}}"},
        {"{\"process\":{\"cmd\":\"/no/such\"},\"stdin\":false}", "\"exitCode\":127"},
        {"{\"process\":{\"cmd\":\"pwd\"},\"stdin\":false}", "\"exited\":true"},
        {"{\"process\":{\"cmd\":\"/bin/pwd\",\"cwd\":\"/tmp\"}}", "{\"stdout\":\"L3RtcAo=\"}"},
        {"{\"process\":{\"cmd\":\"/bin/pwd\",\"cwd\":\"/no/such\"}}",
         "{\"error\":{\"code\":\"invalid_argument\",\"message\":\"cwd '/no/such' does not "
         "exist\"}}"},
        {"{\"process\":{\"cmd\":\"/bin/pwd\",\"cwd\":\"~other\"}}",
         "\"code\":\"invalid_argument\""},
        {"{\"process\":{\"cmd\":\"/usr/bin/env\",\"envs\":{\"A=B\":\"1\"}}}",
         "a variable's name is empty or has a '='"},
        {"{}", "{\"error\":{\"code\":\"invalid_argument\",\"message\":\"process: missing\"}}"},
        {"{\"process\":{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",\"printf %s \\\"$A\\\"\"],"
         "\"envs\":{\"A\":\"hi\"}}}",
         "{\"stdout\":\"aGk=\"}"},
    };
    ABX_AUTO_BUF got;
    abx_buf_init(&got, 1 << 20);
    begin(&plain);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        stream_all(START, rows[i].request, &got);
        if (!has(&got, rows[i].expect))
            print_error("%s\n got: %s\n", rows[i].request, got.ptr);
        assert_true(has(&got, rows[i].expect));
    }
    end();
}

/* An image's PATH is the daemon's, and so that of what it starts (envd.md 5.3). */
TEST(what_is_started_has_the_path_of_the_daemon)
{
    ABX_AUTO_BUF got;
    abx_buf_init(&got, 1 << 20);
    char before[8192];
    snprintf(before, sizeof(before), "%s", getenv("PATH"));
    setenv("PATH", "/opt/own/bin:/bin", 1);
    begin(&plain);
    setenv("PATH", before, 1);
    stream_all(START, SH("echo $PATH"), &got);
    assert_true(has(&got, "{\"stdout\":\"L29wdC9vd24vYmluOi9iaW4K\"}"));
    end();
}

TEST(start_takes_bare_bodies_and_protobuf)
{
    ABX_AUTO_BUF got;
    abx_buf_init(&got, 1 << 20);
    begin(&plain);
    assert_int_equal(ask("POST /" START, C_JSON, ABX_STR(SH("echo hi")), &got), 200);
    assert_true(has(&got, "{\"stdout\":\"aGkK\"}"));
    static const char binary[] = "\n\x1a\n\x07/bin/sh\x12\x02-c\x12\x0b"
                                 "echo abcdef \x00";
    struct abx_str body = {binary, 28};
    assert_int_equal(ask("POST /" START, "Content-Type: application/connect+proto\r\n", body, &got),
                     200);
    assert_true(has(&got, "\n\x0b\x12\x09\n\x07"
                          "abcdef\n"));
    end();
}

TEST(start_as_unknown_user_is_unauthenticated)
{
    ABX_AUTO_BUF got;
    abx_buf_init(&got, 1 << 20);
    begin(&plain);
    ABX_AUTO_FD fd = stream(START, "Authorization: Basic bm9ib2R5Og==\r\n", SH("true"));
    read_until(fd, &got,
               "{\"error\":{\"code\":\"unauthenticated\",\"message\":\"invalid username: "
               "'nobody'\"}}");
    assert_true(has(&got, "HTTP/1.1 200"));
    end();
}

TEST(input_reaches_the_process_until_it_is_closed)
{
    ABX_AUTO_BUF got;
    ABX_AUTO_BUF answer;
    char json[256];
    abx_buf_init(&got, 1 << 20);
    abx_buf_init(&answer, 1 << 20);
    begin(&plain);
    ABX_AUTO_FD fd = stream(START, "", SHIN("cat; echo done"));
    read_until(fd, &got, "\"pid\":");
    uint32_t pid = pid_in(&got);
    snprintf(json, sizeof(json), "{\"process\":{\"pid\":%u},\"input\":{\"stdin\":\"aGkK\"}}", pid);
    assert_int_equal(call("process.Process/SendInput", json, &answer), 200);
    assert_true(has(&answer, "\r\n\r\n{}"));
    read_until(fd, &got, "{\"stdout\":\"aGkK\"}");
    snprintf(json, sizeof(json), "{\"process\":{\"pid\":%u},\"input\":{\"pty\":\"aGkK\"}}", pid);
    assert_int_equal(call("process.Process/SendInput", json, &answer), 500);
    assert_true(has(&answer, "error writing to tty: tty not assigned to process"));
    snprintf(json, sizeof(json), "{\"process\":{\"pid\":%u},\"input\":{}}", pid);
    assert_int_equal(call("process.Process/SendInput", json, &answer), 501);
    snprintf(json, sizeof(json), "{\"process\":{\"pid\":%u}}", pid);
    assert_int_equal(call("process.Process/CloseStdin", json, &answer), 200);
    read_until(fd, &got, "ZG9uZQo=");
    read_until(fd, &got, "\"exited\":true");
    end();
}

TEST(unknown_processes_are_not_found)
{
    static const struct {
        const char *method, *json;
        int status;
        const char *expect;
    } rows[] = {
        {"SendSignal", "{\"process\":{\"pid\":4194300},\"signal\":9}", 404,
         "{\"code\":\"not_found\",\"message\":\"process with pid 4194300 not found\"}"},
        {"SendInput", "{\"process\":{\"tag\":\"t\"},\"input\":{\"stdin\":\"\"}}", 404,
         "{\"code\":\"not_found\",\"message\":\"process with tag t not found\"}"},
        {"CloseStdin", "{\"process\":{\"pid\":4194300}}", 404, "not_found"},
        {"Update", "{\"process\":{\"pid\":4194300}}", 404, "not_found"},
        {"CloseStdin", "{\"process\":{}}", 501, "unimplemented"},
        {"CloseStdin", "{}", 501, "unimplemented"},
        {"List", "{}", 200, "\r\n\r\n{}"},
    };
    ABX_AUTO_BUF got;
    char method[64];
    abx_buf_init(&got, 1 << 20);
    begin(&plain);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(method, sizeof(method), "process.Process/%s", rows[i].method);
        assert_int_equal(call(method, rows[i].json, &got), rows[i].status);
        assert_true(has(&got, rows[i].expect));
    }
    ABX_AUTO_FD fd = stream("process.Process/Connect", "", "{\"process\":{\"pid\":4194300}}");
    abx_buf_clear(&got);
    read_until(fd, &got,
               "{\"error\":{\"code\":\"not_found\",\"message\":\"process with pid "
               "4194300 not found\"}}");
    end();
}

TEST(a_process_outlives_its_client_and_is_listed_found_and_killed)
{
    ABX_AUTO_BUF got;
    ABX_AUTO_BUF answer;
    char json[256];
    abx_buf_init(&got, 1 << 20);
    abx_buf_init(&answer, 1 << 20);
    begin(&plain);
    int fd = stream(START, "",
                    "{\"process\":{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",\"echo first; exec sleep "
                    "100\"],\"envs\":{\"K\":\"v\"},\"cwd\":\"/tmp\"},\"tag\":\"job\"}");
    read_until(fd, &got, "Zmlyc3QK");
    uint32_t pid = pid_in(&got);
    close(fd);
    assert_int_equal(call("process.Process/List", "{}", &answer), 200);
    snprintf(json, sizeof(json),
             "{\"processes\":[{\"config\":{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",\"echo first; exec "
             "sleep 100\"],\"envs\":{\"K\":\"v\"},\"cwd\":\"/tmp\"},\"pid\":%u,\"tag\":\"job\"}]}",
             pid);
    assert_true(has(&answer, json));
    fd = stream("process.Process/Connect", ABX_HEADER_JOURNAL_OFFSET ": 2\r\n",
                "{\"process\":{\"tag\":\"job\"}}");
    abx_buf_clear(&got);
    read_until(fd, &got, "{\"stdout\":\"cnN0Cg==\"}"); /* "rst\n": from byte 2 */
    assert_true(has(&got, "{\"event\":{\"start\":{\"pid\":"));
    snprintf(json, sizeof(json), "{\"process\":{\"pid\":%u},\"signal\":\"SIGNAL_SIGKILL\"}", pid);
    assert_int_equal(call("process.Process/SendSignal", json, &answer), 200);
    read_until(fd, &got, "\"status\":\"signal: killed\"");
    close(fd);
    assert_int_equal(call("process.Process/SendSignal", json, &answer), 404);
    /* remembered: its output and its end */
    fd = stream("process.Process/Connect", ABX_HEADER_JOURNAL_OFFSET ": 0\r\n",
                "{\"process\":{\"tag\":\"job\"}}");
    abx_buf_clear(&got);
    read_until(fd, &got, "\"status\":\"signal: killed\"");
    assert_true(has(&got, "Zmlyc3QK"));
    close(fd);
    fd = stream("process.Process/Connect", ABX_HEADER_JOURNAL_OFFSET ": x\r\n",
                "{\"process\":{\"tag\":\"job\"}}");
    abx_buf_clear(&got);
    read_until(fd, &got, "\"code\":\"invalid_argument\"");
    close(fd);
    end();
}

TEST(signals_are_numbers_1_to_64_for_the_group)
{
    ABX_AUTO_BUF got;
    ABX_AUTO_BUF answer;
    char json[256];
    abx_buf_init(&got, 1 << 20);
    abx_buf_init(&answer, 1 << 20);
    begin(&plain);
    ABX_AUTO_FD fd =
        stream(START, "", SH("trap 'echo got; exit 3' INT; echo up; while :; do sleep 0.1; done"));
    read_until(fd, &got, "dXAK");
    uint32_t pid = pid_in(&got);
    static const struct {
        const char *signal, *expect;
        int status;
    } rows[] = {{"65", "invalid signal: 65", 501},
                {"-1", "invalid signal: -1", 501},
                {"0", "invalid signal: SIGNAL_UNSPECIFIED", 501},
                {"\"SIGNAL_SIGINT\"", "unknown value", 400},
                {"2", "{}", 200}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(json, sizeof(json), "{\"process\":{\"pid\":%u},\"signal\":%s}", pid,
                 rows[i].signal);
        assert_int_equal(call("process.Process/SendSignal", json, &answer), rows[i].status);
        assert_true(has(&answer, rows[i].expect));
    }
    read_until(fd, &got, "\"status\":\"exit status 3\"");
    end();
}

TEST(a_deadline_ends_the_stream_and_the_process)
{
    ABX_AUTO_BUF got;
    abx_buf_init(&got, 1 << 20);
    begin(&plain);
    ABX_AUTO_FD fd = stream(START, "Connect-Timeout-Ms: 200\r\n", SH("exec sleep 100"));
    read_until(fd, &got, "{\"error\":{\"code\":\"deadline_exceeded\"");
    int64_t limit = abx_time_mono_ms() + GUARD_MS;
    pid_t pid = (pid_t)pid_in(&got);
    while (kill(pid, 0) == 0 && abx_time_mono_ms() < limit)
        usleep(10000);
    assert_int_equal(kill(pid, 0), -1);
    assert_int_equal(errno, ESRCH);
    end();
}

TEST(a_pty_has_its_size_and_ends_in_order)
{
    ABX_AUTO_BUF got;
    ABX_AUTO_BUF answer;
    char json[256];
    abx_buf_init(&got, 1 << 20);
    abx_buf_init(&answer, 1 << 20);
    begin(&plain);
    ABX_AUTO_FD fd =
        stream(START, "",
               "{\"process\":{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",\"stty -echo; stty size; "
               "read x; stty size; exit 0\"]},\"pty\":{\"size\":{\"cols\":81,\"rows\":25}}}");
    read_until(fd, &got, "{\"pty\":\"MjUgODEN"); /* "25 81\r" */
    uint32_t pid = pid_in(&got);
    snprintf(json, sizeof(json),
             "{\"process\":{\"pid\":%u},\"pty\":{\"size\":{\"cols\":100,\"rows\":30}}}", pid);
    assert_int_equal(call("process.Process/Update", json, &answer), 200);
    snprintf(json, sizeof(json), "{\"process\":{\"pid\":%u},\"input\":{\"pty\":\"Cg==\"}}", pid);
    assert_int_equal(call("process.Process/SendInput", json, &answer), 200);
    read_until(fd, &got, "MzAgMTAw"); /* "30 100" */
    read_until(fd, &got, "\"status\":\"exit status 0\"");
    end();
}

/* Each row: an RPC on a running process of that kind. */
static void check_on(const char *start, const char *row_method, const char *member, int status,
                     const char *expect)
{
    ABX_AUTO_BUF got;
    ABX_AUTO_BUF answer;
    char json[256], method[64];
    abx_buf_init(&got, 1 << 20);
    abx_buf_init(&answer, 1 << 20);
    ABX_AUTO_FD fd = stream(START, "", start);
    read_until(fd, &got, "\"pid\":");
    snprintf(json, sizeof(json), "{\"process\":{\"pid\":%u}%s}", pid_in(&got), member);
    snprintf(method, sizeof(method), "process.Process/%s", row_method);
    int got_status = call(method, json, &answer);
    if (got_status != status || !has(&answer, expect))
        print_error("%s %s\n got: %s\n", method, json, answer.ptr);
    assert_int_equal(got_status, status);
    assert_true(has(&answer, expect));
}

TEST(input_error_rows)
{
    static const char pty[] =
        "{\"process\":{\"cmd\":\"/bin/cat\"},\"pty\":{\"size\":{\"cols\":80,\"rows\":24}}}";
    static const char piped[] = "{\"process\":{\"cmd\":\"/bin/cat\"}}";
    static const char closed[] = "{\"process\":{\"cmd\":\"/bin/sleep\",\"args\":[\"100\"]},"
                                 "\"stdin\":false}";
    static const struct {
        const char *start, *method, *member;
        int status;
        const char *expect;
    } rows[] = {
        {pty, "SendInput", ",\"input\":{\"stdin\":\"aGk=\"}", 500,
         "{\"code\":\"internal\",\"message\":\"error writing to stdin: tty assigned to process — "
         "input should be written to the pty, not the stdin\"}"},
        {piped, "SendInput", ",\"input\":{\"pty\":\"aGk=\"}", 500,
         "\"error writing to tty: tty not assigned to process — "},
        {closed, "SendInput", ",\"input\":{\"stdin\":\"aGk=\"}", 500,
         "{\"code\":\"internal\",\"message\":\"error writing to stdin: stdin not enabled or "
         "closed\"}"},
        {closed, "CloseStdin", "", 200, "\r\n\r\n{}"},
        {pty, "CloseStdin", "", 500,
         "{\"code\":\"unknown\",\"message\":\"error closing stdin: cannot close stdin for PTY "
         "process — send Ctrl+D (0x04) instead\"}"},
        {piped, "Update", ",\"pty\":{\"size\":{\"cols\":1,\"rows\":1}}", 500,
         "{\"code\":\"internal\",\"message\":\"error resizing tty: tty not assigned to process\"}"},
        {piped, "Update", "", 200, "\r\n\r\n{}"},
    };
    begin(&plain);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check_on(rows[i].start, rows[i].method, rows[i].member, rows[i].status, rows[i].expect);
    end();
}

static void put_message(struct abx_buf *b, const char *json)
{
    char head[5] = {0, 0, 0, 0, (char)strlen(json)};
    abx_buf_put(b, head, sizeof(head));
    abx_buf_put_c(b, json);
}

/* The bytes of all stdout events. */
static void collect_stdout(const struct abx_buf *got, struct abx_buf *out)
{
    static const char key[] = "{\"stdout\":\"";
    struct abx_str rest = abx_buf_str(got);
    for (ptrdiff_t at; (at = abx_str_find(rest, ABX_STR(key))) >= 0;) {
        rest = abx_str_sub(rest, (size_t)at + sizeof(key) - 1, rest.len);
        ptrdiff_t quote = abx_str_chr(rest, '"');
        assert_true(quote >= 0);
        assert_int_equal(abx_base64_decode(abx_str_sub(rest, 0, (size_t)quote), out), 0);
    }
}

TEST(streamed_input_arrives_whole_and_in_order)
{
    ABX_AUTO_BUF got;
    ABX_AUTO_BUF body;
    ABX_AUTO_BUF answer;
    char json[100];
    abx_buf_init(&got, 1 << 20);
    abx_buf_init(&answer, 1 << 20);
    abx_buf_init(&body, 1 << 20);
    begin(&plain);
    ABX_AUTO_FD fd = stream(START, "", SHIN("head -c 6; echo; echo end"));
    read_until(fd, &got, "\"pid\":");
    snprintf(json, sizeof(json), "{\"start\":{\"process\":{\"pid\":%u}}}", pid_in(&got));
    put_message(&body, json);
    put_message(&body, "{\"data\":{\"input\":{\"stdin\":\"YWI=\"}}}");
    put_message(&body, "{\"keepalive\":{}}");
    put_message(&body, "{\"data\":{\"input\":{\"stdin\":\"Y2Q=\"}}}");
    put_message(&body, "{\"data\":{\"input\":{\"stdin\":\"ZWY=\"}}}");
    assert_int_equal(ask("POST /process.Process/StreamInput", C_JSON, abx_buf_str(&body), &answer),
                     200);
    assert_true(has(&answer, "\x02{}\r\n"));
    read_until(fd, &got, "\"status\":\"exit status 0\"");
    ABX_AUTO_BUF out;
    abx_buf_init(&out, 1 << 16);
    collect_stdout(&got, &out);
    assert_string_equal(out.ptr, "abcdef\nend\n");
    end();
}

TEST(a_stream_that_the_daemons_end_cuts_has_no_end_frame)
{
    ABX_AUTO_BUF got;
    abx_buf_init(&got, 1 << 20);
    begin(&plain);
    ABX_AUTO_FD fd = stream(START, "", SH("echo up; exec sleep 100"));
    read_until(fd, &got, "dXAK");
    pid_t pid = (pid_t)pid_in(&got);
    envd_stop();
    while (read_some(fd, &got) > 0)
        ;
    assert_false(has(&got, "\"end\"") || has(&got, "\x02{"));
    assert_int_equal(kill(pid, 0), -1); /* its processes go with it */
    envd_start();
    assert_int_equal(ask("GET /health", "", NO_BODY, &got), 204);
    end();
}

TEST(keepalives_come_as_asked)
{
    ABX_AUTO_BUF got;
    abx_buf_init(&got, 1 << 20);
    begin(&plain);
    ABX_AUTO_FD fd = stream(START, ABX_HEADER_KEEPALIVE ": 1\r\n", SH("exec sleep 100"));
    read_until(fd, &got, "{\"event\":{\"keepalive\":{}}}");
    end();
}

static size_t resident_kb(pid_t pid)
{
    char path[64];
    ABX_AUTO_FREE char *text = NULL;
    size_t len;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    assert_int_equal(abx_fd_read_file(AT_FDCWD, path, 65536, &text, &len), 0);
    char *at = strstr(text, "VmRSS:");
    assert_non_null(at);
    return strtoul(at + 6, NULL, 10);
}

/* The child's position in /dev/zero's copy stands still while nobody reads. */
TEST(a_slow_client_stops_the_child_and_memory_stays_flat)
{
    enum { TOTAL = 64 << 20 };
    ABX_AUTO_BUF got;
    char path[64];
    abx_buf_init(&got, 1 << 20);
    begin(&plain);
    ABX_AUTO_FD fd = stream(START, "", SH("exec head -c 67108864 /dev/zero"));
    read_until(fd, &got, "\"pid\":");
    size_t before = resident_kb(rig.pid);
    snprintf(path, sizeof(path), "/proc/%u/io", pid_in(&got));
    char last[4096] = "";
    int64_t limit = abx_time_mono_ms() + GUARD_MS;
    for (int same = 0; same < 20 && abx_time_mono_ms() < limit; usleep(10000)) {
        ABX_AUTO_FREE char *text = NULL;
        size_t len;
        if (abx_fd_read_file(AT_FDCWD, path, sizeof(last) - 1, &text, &len) < 0)
            break;
        same = strcmp(text, last) == 0 ? same + 1 : 0;
        memcpy(last, text, len + 1);
    }
    assert_non_null(strstr(last, "wchar: "));
    assert_true(strtoull(strstr(last, "wchar: ") + 7, NULL, 10) < 8 << 20); /* it is stopped */
    size_t zeros = 0; /* base64 of zeros is 'A's */
    for (size_t n = 1; n > 0;) {
        for (size_t i = 0; i < got.len; i++)
            zeros += got.ptr[i] == 'A';
        abx_buf_clear(&got);
        n = read_some(fd, &got);
    }
    assert_in_range(zeros, (size_t)TOTAL / 3 * 4 - 4096, (size_t)TOTAL / 3 * 4 + 65536);
    assert_true(resident_kb(rig.pid) < before + 8192);
    end();
}

/* More output than the journal keeps, with nobody there. */
TEST(output_that_the_journal_lost_is_said_to_be_lost)
{
    static const char by_tag[] = "{\"process\":{\"tag\":\"big\"}}";
    ABX_AUTO_BUF got;
    abx_buf_init(&got, 8 << 20);
    begin(&plain);
    int fd = stream(START, "",
                    "{\"process\":{\"cmd\":\"/usr/bin/head\",\"args\":[\"-c\",\"80000000\","
                    "\"/dev/zero\"]},\"stdin\":false,\"tag\":\"big\"}");
    read_until(fd, &got, "\"pid\":");
    close(fd);
    int64_t limit = abx_time_mono_ms() + GUARD_MS;
    do {
        usleep(10000);
        assert_int_equal(call("process.Process/List", "{}", &got), 200);
    } while (has(&got, "\"big\"") && abx_time_mono_ms() < limit);
    assert_false(has(&got, "\"big\""));
    fd = stream("process.Process/Connect", ABX_HEADER_JOURNAL_OFFSET ": 1\r\n", by_tag);
    abx_buf_clear(&got);
    read_until(fd, &got,
               "{\"error\":{\"code\":\"out_of_range\",\"message\":\"the journal no longer has ");
    close(fd);
    fd = stream("process.Process/Connect", ABX_HEADER_JOURNAL_OFFSET ": 0\r\n", by_tag);
    abx_buf_clear(&got);
    read_until(fd, &got, "{\"data\":{\"stdout\":\"");
    close(fd);
    end();
}

/* Vanished clients leave nothing behind, and their processes live on. */
TEST(clients_that_vanish_cost_nothing)
{
    enum { CLIENTS = 20 };
    ABX_AUTO_BUF got;
    abx_buf_init(&got, 1 << 20);
    begin(&plain);
    for (int i = 0; i < CLIENTS; i++) {
        ABX_AUTO_FD fd = stream(START, "", SH("exec yes"));
        abx_buf_clear(&got);
        read_until(fd, &got, "{\"data\":");
    }
    assert_int_equal(call("process.Process/List", "{}", &got), 200);
    size_t count = 0;
    for (char *at = got.ptr; (at = strstr(at, "\"exec yes\"")) != NULL; at++)
        count++;
    assert_int_equal(count, CLIENTS);
    end(); /* kills them */
}
