/* guest/envd/envd_rig_priv.h: envd as a program of its own in a scratch HOME, and a blocking
 * client. */
#pragma once
#include "guest/envd/envd.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "lib/proc/proc.h"
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { GUARD_MS = 30000 };

struct rig {
    char dir[64]; /* the scratch root: etc/passwd, home */
    int channel[2], init[2];
    struct abx_envd_options o;
    pid_t pid;
};
static struct rig rig;

/* Descriptors beyond stdio that a finished daemon has left open. */
static inline int open_fds(void)
{
    int count = 0;
    uv_library_shutdown(); /* its signal pipe and pool belong to no loop */
    for (int fd = STDERR_FILENO + 1; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static inline int run_envd(void *arg)
{
    struct abx_envd_options *o = arg;
    int rc = abx_envd_main(o);
    return rc ? rc : open_fds();
}

static inline void put_file(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", rig.dir, name);
    ABX_AUTO_FD fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(abx_fd_write_all(fd, text, strlen(text)), 0);
}

static inline void make_root(void)
{
    char line[256];
    snprintf(rig.dir, sizeof(rig.dir), "/tmp/abx-envd-XXXXXX");
    assert_non_null(mkdtemp(rig.dir));
    snprintf(line, sizeof(line), "%s/etc", rig.dir);
    assert_int_equal(mkdir(line, 0755), 0);
    snprintf(line, sizeof(line), "%s/home", rig.dir);
    assert_int_equal(mkdir(line, 0755), 0);
    snprintf(line, sizeof(line), "root:x:%u:%u::%s/home:/bin/sh\nuser:x:%u:%u::%s/home:/bin/sh\n",
             getuid(), getgid(), rig.dir, getuid(), getgid(), rig.dir);
    put_file("etc/passwd", line);
    snprintf(line, sizeof(line), "grp:x:%u:\n", getgid());
    put_file("etc/group", line);
}

static inline void envd_start(void)
{
    int keep[4] = {rig.channel[1], rig.init[1], rig.o.state_fd};
    rig.o.channel_fd = rig.channel[1];
    rig.o.init_fd = rig.init[1];
    rig.o.users_root = rig.dir;
    rig.pid = abx_proc_fork_role("envd", run_envd, &rig.o, keep, rig.o.state_fd >= 0 ? 3 : 2, NULL);
    assert_true(rig.pid > 0);
}

/* Ends by TERM; the daemon must leave in good order (a sanitizer report or a descriptor left open
 * is a bad exit). */
static inline void envd_stop(void)
{
    struct abx_proc_status st;
    kill(rig.pid, SIGTERM);
    assert_int_equal(abx_proc_wait(rig.pid, &st), 0);
    assert_true(st.exited);
    assert_int_equal(st.exit_code, 0);
}

/* @o: tcp_port, is_locked, loopback_guard are taken from it. */
static inline void begin(const struct abx_envd_options *o)
{
    rig = (struct rig){.o = *o};
    rig.o.state_fd = -1;
    make_root();
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, rig.channel), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, rig.init), 0);
    envd_start();
}

static inline void end(void)
{
    envd_stop();
    for (int i = 0; i < 2; i++) {
        abx_fd_close(&rig.channel[i]);
        abx_fd_close(&rig.init[i]);
    }
    abx_fd_close(&rig.o.state_fd);
    assert_int_equal(abx_fd_remove_tree(AT_FDCWD, rig.dir), 0);
}

/* ---- the client ---- */

static inline int dial(void)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(abx_fd_send(rig.channel[0], "c", 1, &pair[1], 1), 1);
    close(pair[1]);
    return pair[0];
}

/* One read; the count, 0 at the end. */
static inline size_t read_some(int fd, struct abx_buf *b)
{
    static char chunk[65536];
    struct pollfd ready = {fd, POLLIN, 0};
    if (poll(&ready, 1, GUARD_MS) != 1)
        print_error("nothing came; so far: %s\n", b->len ? b->ptr : "");
    assert_true(ready.revents);
    ssize_t n = read(fd, chunk, sizeof(chunk));
    if (n > 0)
        abx_buf_put(b, chunk, (size_t)n);
    return n > 0 ? (size_t)n : 0;
}

static inline bool has(const struct abx_buf *b, const char *text)
{
    return abx_str_find(abx_buf_str(b), abx_str(text)) >= 0;
}

static inline void read_until(int fd, struct abx_buf *b, const char *text)
{
    while (!has(b, text) && read_some(fd, b) > 0)
        ;
    if (!has(b, text)) {
        for (size_t i = 0; i < b->len; i++) /* heads of envelopes end a C string */
            b->ptr[i] = b->ptr[i] ? b->ptr[i] : '.';
        print_error("wanted: %s\ngot: %s\n", text, b->len ? b->ptr : "");
    }
    assert_true(has(b, text));
}

static inline void send_text(int fd, struct abx_str s)
{
    assert_int_equal(abx_fd_write_all(fd, s.ptr, s.len), 0);
}

/* "GET /x" or "POST /x"; @headers is "" or whole lines; the connection closes after the answer. */
static inline void send_request(int fd, const char *what, const char *headers, struct abx_str body)
{
    ABX_AUTO_BUF b;
    abx_buf_init(&b, 64 << 20);
    abx_buf_putf(&b, "%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s", what, headers);
    if (body.ptr)
        abx_buf_putf(&b, "Content-Length: %zu\r\n", body.len);
    abx_buf_put_c(&b, "\r\n");
    abx_buf_put_str(&b, body);
    assert_false(abx_buf_failed(&b));
    send_text(fd, abx_buf_str(&b));
}

/* The whole answer, to the end of the connection; its status. */
static inline int ask(const char *what, const char *headers, struct abx_str body,
                      struct abx_buf *answer)
{
    ABX_AUTO_FD fd = dial();
    abx_buf_clear(answer);
    send_request(fd, what, headers, body);
    while (read_some(fd, answer) > 0)
        ;
    assert_true(answer->len > 12);
    uint32_t status = 0;
    assert_int_equal(abx_parse_u32(abx_str_n(answer->ptr + 9, 3), &status), 0);
    return (int)status;
}

#define NO_BODY   ((struct abx_str){NULL, 0})
#define JSON_TYPE "Content-Type: application/json\r\n"
#define C_JSON    "Content-Type: application/connect+json\r\n"

/* A unary RPC: what follows the head of the answer. */
static inline int call(const char *method, const char *json, struct abx_buf *answer)
{
    char what[128];
    snprintf(what, sizeof(what), "POST /%s", method);
    return ask(what, JSON_TYPE, abx_str(json), answer);
}

/* Opens a stream; the caller reads and closes it. */
static inline int stream(const char *method, const char *headers, const char *json)
{
    char what[128], all[512];
    ABX_AUTO_BUF body;
    size_t len = strlen(json);
    char head[5] = {0, 0, 0, (char)(len >> 8), (char)len};
    abx_buf_init(&body, 1 << 16);
    abx_buf_put(&body, head, sizeof(head));
    abx_buf_put_c(&body, json);
    snprintf(what, sizeof(what), "POST /%s", method);
    snprintf(all, sizeof(all), "%s%s", C_JSON, headers);
    int fd = dial();
    send_request(fd, what, all, abx_buf_str(&body));
    return fd;
}

/* The answer of a stream that ends by itself. */
static inline void stream_all(const char *method, const char *json, struct abx_buf *answer)
{
    ABX_AUTO_FD fd = stream(method, "", json);
    abx_buf_clear(answer);
    while (read_some(fd, answer) > 0)
        ;
}

/* The number behind "pid": in an answer. */
static inline uint32_t pid_in(const struct abx_buf *b)
{
    static const char key[] = "\"pid\":";
    ptrdiff_t at = abx_str_find(abx_buf_str(b), ABX_STR(key));
    assert_true(at >= 0);
    return (uint32_t)strtoul(b->ptr + at + sizeof(key) - 1, NULL, 10);
}
