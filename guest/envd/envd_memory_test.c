/* guest/envd/envd_memory_test.c: the daemon with its Nth allocation failing: it answers with an
 * error or cuts the connection, never hangs, crashes or leaks. */
#include "guest/envd/envd_rig_priv.h"
#include "tests/unit/alloc.h"

enum { ANSWER_MS = 10000, BAD_EXIT = 99, NOT_REACHED = 3, RUNS_MAX = 2000 };

#ifdef ABX_SANITIZED
/* A report must not look like the daemon's own "no start". */
const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
    return "exitcode=99";
}
#endif

static unsigned fail_at;

/* Arms the @n-th allocation from here on, whatever was armed before. */
static void arm(unsigned n)
{
    abx_alloc_fail(1);
    void *volatile reached = malloc(1);
    assert_null(reached);
    abx_alloc_fail(n);
}

static int run_failing(void *arg)
{
    struct abx_envd_options *o = arg;
    arm(fail_at);
    int rc = abx_envd_main(o);
    return rc == 0 && !abx_alloc_failed() ? NOT_REACHED : rc;
}

static void start_failing(void)
{
    struct abx_envd_options o = {.state_fd = -1};
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, rig.channel), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    o.channel_fd = rig.channel[1];
    o.init_fd = pair[1];
    o.users_root = rig.dir;
    int keep[] = {o.channel_fd, o.init_fd};
    rig.pid = abx_proc_fork_role("envd", run_failing, &o, keep, 2, NULL);
    assert_true(rig.pid > 0);
    close(rig.channel[1]); /* so that a dead daemon is seen */
    close(pair[1]);
    rig.init[0] = pair[0];
}

/* One request; any answer or cut will do, silence will not. */
static void poke(const char *what, const char *headers, struct abx_str body)
{
    ABX_AUTO_BUF request;
    int pair[2];
    char chunk[4096];
    abx_buf_init(&request, 1 << 20);
    abx_buf_putf(&request, "%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s", what, headers);
    abx_buf_putf(&request, "Content-Length: %zu\r\n\r\n", body.len);
    abx_buf_put_str(&request, body);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    ssize_t sent = abx_fd_send(rig.channel[0], "c", 1, &pair[1], 1);
    close(pair[1]);
    ABX_AUTO_FD fd = pair[0];
    if (sent < 0 || abx_fd_write_all(fd, request.ptr, request.len) < 0)
        return;
    for (;;) {
        struct pollfd ready = {fd, POLLIN, 0};
        if (poll(&ready, 1, ANSWER_MS) != 1)
            print_error("allocation %u: no answer to %s\n", fail_at, what);
        assert_true(ready.revents);
        if (read(fd, chunk, sizeof(chunk)) <= 0)
            return;
    }
}

#define OCTETS "Content-Type: application/octet-stream\r\n"
#define GZIP   OCTETS "Content-Encoding: gzip\r\n"
/* "hi" */
#define PACKED_HI "\x1f\x8b\x08\0\0\0\0\0\0\x03\xcb\xc8\x04\0\xac\x2a\x93\xd8\x02\0\0\0"
#define FORM      "Content-Type: multipart/form-data; boundary=b\r\n"

static void poke_all(void)
{
    poke("POST /init", "", ABX_STR("{\"envVars\":{\"A\":\"1\"},\"defaultUser\":\"user\"}"));
    poke("POST /process.Process/Start", C_JSON,
         ABX_STR("{\"process\":{\"cmd\":\"/bin/echo\",\"args\":[\"hi\"],\"envs\":{\"B\":\"2\"}},"
                 "\"stdin\":false,\"tag\":\"t\"}"));
    poke("POST /process.Process/Connect", C_JSON, ABX_STR("{\"process\":{\"tag\":\"t\"}}"));
    poke("POST /process.Process/List", JSON_TYPE, ABX_STR("{}"));
    poke("POST /process.Process/SendSignal", JSON_TYPE, ABX_STR("{\"process\":{\"pid\":1}}"));
    poke("POST /filesystem.Filesystem/MakeDir", JSON_TYPE, ABX_STR("{\"path\":\"d\"}"));
    poke("POST /filesystem.Filesystem/ListDir", JSON_TYPE, ABX_STR("{\"path\":\"~\"}"));
    poke("POST /files", FORM,
         ABX_STR("--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nx\r\n"
                 "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"b\"\r\n\r\ny\r\n"
                 "--b--\r\n"));
    poke("GET /files?path=a", "Origin: http://a\r\n", ABX_STR(""));
    poke("GET /files?path=a", "Range: bytes=0-0\r\nAuthorization: Basic dXNlcjo=\r\n", ABX_STR(""));
    poke("GET /envs", "", ABX_STR(""));
    poke("GET /metrics", "", ABX_STR(""));
    poke("GET /files?path=a", "Accept-Encoding: gzip\r\n", ABX_STR(""));
    poke("POST /files?path=g", GZIP, ABX_STR(PACKED_HI));
    poke("POST /files?path=m", OCTETS "X-Metadata-a: b\r\n", ABX_STR("x"));
    poke("POST /filesystem.Filesystem/Stat", JSON_TYPE, ABX_STR("{\"path\":\"m\"}"));
    poke("POST /files/compose", JSON_TYPE,
         ABX_STR("{\"source_paths\":[\"m\"],\"destination\":\"c\"}"));
    poke("POST /filesystem.Filesystem/WatchDir", C_JSON "Connect-Timeout-Ms: 30\r\n",
         ABX_STR("{\"path\":\"\",\"recursive\":true,\"includeEntry\":true}"));
    poke("POST /filesystem.Filesystem/CreateWatcher", JSON_TYPE, ABX_STR("{\"path\":\"\"}"));
}

TEST(the_daemon_survives_any_failed_allocation)
{
    struct abx_proc_status st = {0};
    bool reached = true;
    rig = (struct rig){0};
    signal(SIGPIPE, SIG_IGN);
    make_root();
    for (fail_at = 1; reached && fail_at < RUNS_MAX; fail_at++) {
        start_failing();
        poke_all();
        if (abx_fd_send(rig.channel[0], "?", 1, NULL, 0) == 1) /* else it is on its way out */
            kill(rig.pid, SIGTERM);
        assert_int_equal(abx_proc_wait(rig.pid, &st), 0);
        abx_fd_close(&rig.channel[0]);
        abx_fd_close(&rig.init[0]);
        if (!st.exited || st.exit_code == BAD_EXIT)
            print_error("allocation %u\n", fail_at);
        assert_true(st.exited);
        assert_in_range(st.exit_code, 0, NOT_REACHED);
        reached = st.exit_code != NOT_REACHED;
    }
    assert_false(reached);
    assert_true(fail_at > 50); /* it did reach the handlers */
    assert_int_equal(abx_fd_remove_tree(AT_FDCWD, rig.dir), 0);
}
