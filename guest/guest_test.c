/* guest/guest_test.c: init and gateway together over real sockets, with a small service in envd's
 * place that tells what it was sent. */
#include "guest/gateway/gateway.h"
#include "guest/init/init.h"
#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "lib/http/server.h"
#include "lib/json/json.h"
#include "lib/proc/proc.h"
#include "tests/unit/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { GUARD_MS = 20000, ANSWER_MAX = 65536 };
static const char token[] = "the-envd-token";

/* ---- a service that answers with what it got, for envd's place and for user ports */

struct echo {
    struct abx_loop loop;
    struct abx_http_server *server;
    struct abx_poll channel;
    struct abx_signal term;
    const char *name;
};

static void echo_tunnel_data(struct abx_stream *s, const char *data, size_t len)
{
    abx_stream_write(s, data, len);
}
static void echo_tunnel_end(struct abx_stream *s, int err)
{
    (void)err;
    abx_stream_close_after_flush(s, 1000);
}
static void echo_tunnel_closed(struct abx_stream *s)
{
    (void)s;
}
static const struct abx_stream_ops echo_tunnel = {
    .on_data = echo_tunnel_data, .on_end = echo_tunnel_end, .on_closed = echo_tunnel_closed};

static void echo_answer(struct abx_http_req *req)
{
    struct echo *e = req->user;
    const struct abx_http_head *h = req->head;
    ABX_AUTO_BUF b;
    abx_buf_init(&b, ANSWER_MAX);
    abx_buf_putf(&b, "[%s] %.*s %.*s\n", e->name, ABX_STR_FMT(h->method), ABX_STR_FMT(h->target));
    for (size_t i = 0; i < h->header_count; i++)
        abx_buf_putf(&b, "%.*s: %.*s\n", ABX_STR_FMT(h->headers[i].name),
                     ABX_STR_FMT(h->headers[i].value));
    abx_http_answer(req, 200, NULL, abx_buf_str(&b));
}

static void echo_request(struct abx_http_req *req)
{
    if (abx_str_is(req->path, "/crash"))
        raise(SIGKILL);
    if (!req->head->is_upgrade) {
        echo_answer(req);
        return;
    }
    abx_http_raw_begin(req,
                       ABX_STR("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                               "Upgrade: websocket\r\n\r\n"),
                       false);
    abx_stream_resume(abx_http_take_stream(req, &echo_tunnel, NULL));
}

static void echo_adopt(struct abx_poll *p, unsigned events)
{
    (void)events;
    struct echo *e = p->owner;
    char byte;
    int fd = -1;
    size_t count = 1;
    struct abx_error err;
    if (abx_fd_recv(p->fd, &byte, 1, &fd, &count) == 1 && count == 1)
        abx_http_server_adopt(e->server, fd, 0, &err);
}

static void echo_stopped(void *arg)
{
    struct echo *e = arg;
    abx_loop_stop(&e->loop);
}

static void echo_term(struct abx_signal *s, int signum)
{
    (void)signum;
    struct echo *e = s->owner;
    abx_http_server_close(e->server, true, echo_stopped, e);
}

static int echo_run(const char *name, int channel_fd, int listen_fd)
{
    static struct echo e;
    struct abx_error err;
    e = (struct echo){.name = name};
    struct abx_http_server_options o = {.on_request = echo_request, .user = &e};
    if (abx_loop_init(&e.loop, &err) < 0 ||
        abx_http_server_open(&e.loop, &o, &e.server, &err) < 0 ||
        abx_signal_init(&e.term, &e.loop, SIGTERM, echo_term, &e, &err) < 0)
        return 1;
    if (listen_fd >= 0 && abx_http_server_listen(e.server, listen_fd, 0, &err) < 0)
        return 1;
    if (channel_fd >= 0) {
        if (abx_poll_init(&e.channel, &e.loop, channel_fd, echo_adopt, &e, &err) < 0)
            return 1;
        abx_poll_set(&e.channel, ABX_POLL_IN);
    }
    abx_loop_run(&e.loop);
    abx_loop_done(&e.loop);
    return 0;
}

/* ---- the services */

static bool view_running(void *arg)
{
    const struct abx_state_page *page = arg;
    return atomic_load(&page->services[0].state) == ABX_SERVICE_RUNNING;
}
static bool view_never(void *arg)
{
    (void)arg;
    return false;
}
static bool view_hash(void *arg, unsigned char ret[ABX_GATEWAY_HASH])
{
    return abx_state_page_token(arg, ret);
}
enum { GATEWAY = 1, INTERPRETER = 2 }; /* among the services */

static bool view_interpreter(void *arg)
{
    const struct abx_state_page *page = arg;
    return atomic_load(&page->services[INTERPRETER].state) == ABX_SERVICE_RUNNING;
}
static void view_describe(void *arg, struct abx_json_writer *w)
{
    const struct abx_state_page *page = arg;
    abx_json_kv_i64(w, "interpreterPid", atomic_load(&page->services[INTERPRETER].pid));
    abx_json_kv_i64(w, "gatewayPid", atomic_load(&page->services[GATEWAY].pid));
    abx_json_kv_i64(w, "gatewayRestarts", atomic_load(&page->services[GATEWAY].restarts));
}

static int provision(const struct abx_init_context *c)
{
    ABX_AUTO_FD fd = memfd_create("state", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    unsigned char text[ABX_STATE_HASH];
    crypto_hash_sha256(text, (const unsigned char *)token, sizeof(token) - 1);
    if (write(fd, "x", 1) != 1 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return -1;
    if (abx_fd_send(c->init_fd, text, sizeof(text), &fd, 1) < 0)
        return -1;
    return abx_state_page_wait(c->page, text, GUARD_MS) ? 0 : -1;
}

static int serve_envd(const struct abx_init_context *c)
{
    if (c->provision_fd < 0 && provision(c) < 0)
        return 1;
    int r = echo_run("envd", c->channel_fd, -1);
    int fds[] = {c->channel_fd, c->init_fd, c->provision_fd};
    for (size_t i = 0; i < ABX_COUNTOF(fds); i++)
        abx_fd_close(&fds[i]);
    return r;
}

static int serve_interpreter(const struct abx_init_context *c)
{
    int r = echo_run("interpreter", c->interpreter_fd, -1);
    int fd = c->interpreter_fd;
    abx_fd_close(&fd);
    return r;
}

static int serve_gateway(const struct abx_init_context *c)
{
    int interpreter_fd = c->interpreter_fd;
    if (c->page->service_count <= INTERPRETER)
        abx_fd_close(&interpreter_fd);
    struct abx_gateway_options o = {
        .engine_fd = c->engine_fd,
        .tcp_fd = c->tcp_fd,
        .channel_fd = c->channel_fd,
        .interpreter_fd = interpreter_fd,
        .locked = c->locked,
        .sandbox_id = "itest",
        .view = {view_running, view_interpreter, view_hash, view_describe, c->page}};
    return abx_gateway_main(&o);
}

static const struct abx_init_service services[] = {
    {.name = "envd", .run = serve_envd, .needs = ABX_INIT_CHANNEL_IN | ABX_INIT_PROVISION},
    [GATEWAY] = {.name = "gateway",
                 .run = serve_gateway,
                 .needs = ABX_INIT_CHANNEL_OUT | ABX_INIT_INTERPRETER_OUT | ABX_INIT_LISTENERS},
    [INTERPRETER] = {
        .name = "interpreter", .run = serve_interpreter, .needs = ABX_INIT_INTERPRETER_IN}};

/* ---- the rig */

struct rig {
    char dir[32];
    int dir_fd, engine_fd, tcp_fd;
    uint16_t port;
    pid_t pid;
    struct abx_gateway_options gateway; /* run alone when `alone` */
    bool alone;
    bool has_interpreter;
};

static uint16_t port_of(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6; /* the port lies where v4 has it */
    } a;
    socklen_t len = sizeof(a);
    assert_int_equal(getsockname(fd, &a.any, &len), 0);
    return ntohs(a.v4.sin_port);
}

static int run_rig(void *arg)
{
    struct rig *r = arg;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves nothing behind */
    if (r->alone)
        return abx_gateway_main(&r->gateway);
    struct abx_init_options o = {.services = services,
                                 .service_count = INTERPRETER + (r->has_interpreter ? 1 : 0),
                                 .engine_fd = r->engine_fd,
                                 .tcp_fd = r->tcp_fd,
                                 .locked = true};
    return abx_init_run(&o);
}

static void rig_start(struct rig *r)
{
    assert_true(sodium_init() >= 0);
    snprintf(r->dir, sizeof(r->dir), "/tmp/abx-guest-XXXXXX");
    assert_non_null(mkdtemp(r->dir));
    r->dir_fd = open(r->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    r->engine_fd = abx_fd_listen_unix(r->dir_fd, "gateway.sock",
                                      SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 128);
    r->tcp_fd = abx_init_listen("127.0.0.1:0");
    assert_true(r->engine_fd >= 0 && r->tcp_fd >= 0);
    r->port = port_of(r->tcp_fd);
    r->gateway.engine_fd = r->engine_fd;
    r->gateway.tcp_fd = r->tcp_fd;
    r->gateway.sandbox_id = "itest";
    const int keep[] = {r->engine_fd, r->tcp_fd};
    r->pid = abx_proc_fork_role("rig", run_rig, r, keep, 2, NULL);
    assert_true(r->pid > 0);
}

static void rig_stop(struct rig *r)
{
    struct abx_proc_status st;
    kill(r->pid, SIGTERM);
    assert_int_equal(abx_proc_wait(r->pid, &st), 0);
    assert_true(st.exited);
    assert_int_equal(st.exit_code, r->alone ? 0 : 143);
    close(r->engine_fd);
    close(r->tcp_fd);
    close(r->dir_fd);
    abx_fd_remove_tree(AT_FDCWD, r->dir);
}

static int connect_tcp(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    return fd;
}

static int connect_engine(struct rig *r)
{
    int fd = abx_fd_connect_unix(r->dir_fd, "gateway.sock", SOCK_STREAM | SOCK_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

/* Reads until EOF (or a reset) into text; fails the test when the peer hangs. */
static void read_answer(int fd, char out[ANSWER_MAX])
{
    size_t len = 0;
    for (;;) {
        struct pollfd p = {fd, POLLIN, 0};
        assert_int_equal(poll(&p, 1, GUARD_MS), 1);
        ssize_t n = read(fd, out + len, ANSWER_MAX - 1 - len);
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    out[len] = '\0';
    close(fd);
}

static void exchange(int fd, const char *request, size_t len, char out[ANSWER_MAX])
{
    assert_int_equal(send(fd, request, len, MSG_NOSIGNAL), (ssize_t)len);
    read_answer(fd, out);
}

/* GET with headers; the connection is closed after it. */
static void ask(int fd, const char *target, const char *headers, char out[ANSWER_MAX])
{
    char text[4096];
    int n = snprintf(text, sizeof(text),
                     "GET %s HTTP/1.1\r\nHost: sandbox\r\nConnection: close\r\n%s\r\n", target,
                     headers);
    exchange(fd, text, (size_t)n, out);
}

static void expect_in(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("no \"%s\" in: %s", part, text);
}
static void expect_not_in(const char *text, const char *part)
{
    if (strstr(text, part) != NULL)
        fail_msg("\"%s\" in: %s", part, text);
}

/* A program of the sandbox's own: echo on a port. */
struct app {
    int fd;
    uint16_t port;
    pid_t pid;
};
static int run_app(void *arg)
{
    struct app *a = arg;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return echo_run("app", -1, a->fd);
}
static void app_start(struct app *a)
{
    a->fd = abx_init_listen("127.0.0.1:0");
    a->port = port_of(a->fd);
    a->pid = abx_proc_fork_role("app", run_app, a, &a->fd, 1, NULL);
    close(a->fd);
}
static void app_stop(struct app *a)
{
    kill(a->pid, SIGTERM);
    assert_int_equal(abx_proc_wait(a->pid, NULL), 0);
}

/* ---- tests */

static char out[ANSWER_MAX];

TEST(requests_reach_envd_both_ways)
{
    struct rig r = {0};
    rig_start(&r);
    ask(connect_engine(&r), "/x?y=1", "X-Sandbox-Port: 49983\r\nX-Access-Token: t\r\n", out);
    expect_in(out, "HTTP/1.1 200 ");
    expect_in(out, "[envd] GET /x?y=1\n");
    expect_in(out, "X-Access-Token: t\n");
    expect_in(out, "Via: 1.1 abx-gateway\n");
    expect_not_in(out, "X-Sandbox-Port");
    expect_not_in(out, "X-Forwarded-For"); /* a unix peer has no address */
    ask(connect_tcp(r.port), "/files?path=a", "", out);
    expect_in(out, "[envd] GET /files?path=a\n");
    expect_in(out, "X-Forwarded-For: 127.0.0.1\n");
    expect_in(out, "X-Forwarded-Proto: http\n");
    expect_in(out, "X-Forwarded-Host: sandbox\n");
    rig_stop(&r);
}

TEST(own_answers)
{
    static const struct {
        bool engine;
        const char *target, *headers, *status, *part;
    } rows[] = {
        {true, "/", "", "HTTP/1.1 400 ", "\"code\":400"},
        {true, "/health", "X-Sandbox-Port: 5000\r\n", "HTTP/1.1 200 ", "{\"status\":\"ok\"}"},
        {true, "/.fce2b/health", "X-Sandbox-Port: 5000\r\n", "HTTP/1.1 404 ", "\"code\":404"},
        {true, "/.fce2b/health", "", "HTTP/1.1 200 ", "\"gatewayRestarts\":0"},
        {false, "/.fce2b/health", "", "HTTP/1.1 404 ", "\"code\":404"},
        {false, "/nothing", "", "HTTP/1.1 404 ", "\"code\":404"},
        {false, "//init", "X-Sandbox-Port: 49983\r\n", "HTTP/1.1 404 ", "\"code\":404"},
        {false, "/", "X-Sandbox-Port: 80\r\nE2b-Sandbox-Port: 81\r\n", "HTTP/1.1 400 ", "400"},
        {false, "/health", "Via: 1.1 abx-gateway\r\n", "HTTP/1.1 508 ", "\"code\":508"},
        {false, "/execute", "", "HTTP/1.1 502 ", "\"port\":49999"},
        {false, "/contexts/1", "", "HTTP/1.1 502 ", "\"port\":49999"},
        /* the engine's socket takes the one header, well formed and once */
        {true, "/", "E2b-Sandbox-Port: 49983\r\n", "HTTP/1.1 400 ", "\"code\":400"},
        {true, "/", "X-Sandbox-Port: 80\r\nX-Sandbox-Port: 80\r\n", "HTTP/1.1 400 ", "400"},
        {true, "/", "X-Sandbox-Port: 0\r\n", "HTTP/1.1 400 ", "\"code\":400"},
        {true, "/", "X-Sandbox-Port: 65536\r\n", "HTTP/1.1 400 ", "\"code\":400"},
        {true, "/", "X-Sandbox-Port: 000080\r\n", "HTTP/1.1 400 ", "\"code\":400"},
        {true, "/", "X-Sandbox-Port: +80\r\n", "HTTP/1.1 400 ", "\"code\":400"},
        {true, "/", "X-Sandbox-Port: 80, 81\r\n", "HTTP/1.1 400 ", "\"code\":400"},
        {true, "/", "X-Sandbox-Port:\r\n", "HTTP/1.1 400 ", "\"code\":400"},
        {true, "/init", "X-Sandbox-Port: 49983\r\n", "HTTP/1.1 200 ", "[envd] GET /init\n"},
        /* TCP without a port: by path */
        {false, "/metrics", "", "HTTP/1.1 200 ", "[envd] GET /metrics\n"},
        {false, "/envs", "", "HTTP/1.1 200 ", "[envd] GET /envs\n"},
        {false, "/terminal", "", "HTTP/1.1 200 ", "[envd] GET /terminal\n"},
        {false, "/process.Process/List", "", "HTTP/1.1 200 ", "[envd] GET /process.Process/List"},
        {false, "/filesystem.Filesystem/Stat", "", "HTTP/1.1 200 ", "[envd] GET /filesystem.File"},
        {false, "/x", "E2b-Sandbox-Port: 49983\r\n", "HTTP/1.1 200 ", "[envd] GET /x\n"},
        {false, "/healthz", "", "HTTP/1.1 404 ", "\"code\":404"},
        {false, "/Health", "", "HTTP/1.1 404 ", "\"code\":404"},
        {false, "/terminal/x", "", "HTTP/1.1 404 ", "\"code\":404"},
        {false, "/init", "", "HTTP/1.1 404 ", "\"code\":404"},
        {false, "/%69nit", "X-Sandbox-Port: 49983\r\n", "HTTP/1.1 404 ", "\"code\":404"},
        {false, "/", "X-Sandbox-Port: 65536\r\n", "HTTP/1.1 400 ", "\"code\":400"},
        {false, "/", "Via: 1.0 x, 1.1 abx-gateway\r\n", "HTTP/1.1 508 ", "\"code\":508"},
        {false, "/health", "Via: 1.1 other\r\n", "HTTP/1.1 200 ", "[envd] GET /health\n"},
    };
    struct rig r = {0};
    rig_start(&r);
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        int fd = rows[i].engine ? connect_engine(&r) : connect_tcp(r.port);
        ask(fd, rows[i].target, rows[i].headers, out);
        expect_in(out, rows[i].status);
        expect_in(out, rows[i].part);
    }
    rig_stop(&r);
}

TEST(a_closed_port_is_tried_for_a_second)
{
    struct rig r = {0};
    char headers[128];
    rig_start(&r);
    int free_fd = abx_init_listen("127.0.0.1:0");
    uint16_t port = port_of(free_fd);
    close(free_fd);
    snprintf(headers, sizeof(headers), "X-Sandbox-Port: %u\r\n", port);
    int64_t before = abx_time_mono_ms();
    ask(connect_tcp(r.port), "/", headers, out);
    assert_true(abx_time_mono_ms() - before >= 900);
    expect_in(out, "HTTP/1.1 502 ");
    expect_in(out, "Content-Type: application/json; charset=utf-8\r\n");
    char want[200];
    snprintf(
        want, sizeof(want),
        "\r\n\r\n{\"sandboxId\":\"itest\",\"message\":\"The sandbox is running but port is not "
        "open\",\"error\":\"The sandbox is running but port is not "
        "open\",\"port\":%u,\"code\":502}",
        port);
    expect_in(out, want);
    snprintf(headers, sizeof(headers), "X-Sandbox-Port: %u\r\nUser-Agent: Mozilla/5.0\r\n", port);
    ask(connect_engine(&r), "/", headers, out);
    expect_in(out, "Content-Type: text/html; charset=utf-8\r\n");
    rig_stop(&r);
}

TEST(a_port_that_opens_late_is_reached)
{
    struct rig r = {0};
    struct app a;
    char text[256];
    rig_start(&r);
    int hold = abx_init_listen("127.0.0.1:0"); /* a free number */
    a.port = port_of(hold);
    close(hold);
    int n = snprintf(
        text, sizeof(text),
        "GET /late HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Sandbox-Port: %u\r\n\r\n", a.port);
    int fd = connect_tcp(r.port);
    assert_int_equal(send(fd, text, (size_t)n, 0), n);
    usleep(250000);
    snprintf(text, sizeof(text), "127.0.0.1:%u", a.port);
    a.fd = abx_init_listen(text);
    assert_true(a.fd >= 0);
    a.pid = abx_proc_fork_role("app", run_app, &a, &a.fd, 1, NULL);
    close(a.fd);
    read_answer(fd, out);
    expect_in(out, "[app] GET /late\n");
    app_stop(&a);
    rig_stop(&r);
}

TEST(a_port_on_the_other_loopback_is_reached)
{
    struct rig r = {0};
    struct app a;
    char headers[64];
    a.fd = abx_init_listen("[::1]:0");
    if (a.fd < 0)
        skip(); /* no IPv6 here */
    rig_start(&r);
    a.port = port_of(a.fd);
    a.pid = abx_proc_fork_role("app", run_app, &a, &a.fd, 1, NULL);
    close(a.fd);
    snprintf(headers, sizeof(headers), "X-Sandbox-Port: %u\r\n", a.port);
    ask(connect_engine(&r), "/six", headers, out);
    expect_in(out, "[app] GET /six\n");
    app_stop(&a);
    rig_stop(&r);
}

/* The first address of this machine that is none of loopback; false: it has none. */
static bool own_address(char ret[INET_ADDRSTRLEN])
{
    struct ifaddrs *all = NULL;
    bool found = false;
    assert_int_equal(getifaddrs(&all), 0);
    for (const struct ifaddrs *i = all; i != NULL && !found; i = i->ifa_next) {
        found = i->ifa_addr != NULL && i->ifa_addr->sa_family == AF_INET &&
                (i->ifa_flags & (IFF_UP | IFF_LOOPBACK)) == IFF_UP;
        if (found)
            inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr,
                      ret, INET_ADDRSTRLEN);
    }
    freeifaddrs(all);
    return found;
}

TEST(a_port_on_the_interface_alone_is_reached)
{
    struct rig r = {0};
    struct app a;
    char headers[64], address[INET_ADDRSTRLEN], listen[INET_ADDRSTRLEN + 2];
    if (!own_address(address))
        skip();
    snprintf(listen, sizeof(listen), "%s:0", address);
    a.fd = abx_init_listen(listen);
    assert_true(a.fd >= 0);
    rig_start(&r);
    a.port = port_of(a.fd);
    a.pid = abx_proc_fork_role("app", run_app, &a, &a.fd, 1, NULL);
    close(a.fd);
    snprintf(headers, sizeof(headers), "X-Sandbox-Port: %u\r\n", a.port);
    ask(connect_engine(&r), "/own", headers, out);
    expect_in(out, "[app] GET /own\n");
    app_stop(&a);
    rig_stop(&r);
}

TEST(platform_headers_do_not_reach_user_ports)
{
    struct rig r = {0};
    struct app a;
    char headers[512];
    rig_start(&r);
    app_start(&a);
    ask(connect_engine(&r), "/", "X-Sandbox-Port: 49983\r\n", out); /* envd is provisioned now */
    snprintf(headers, sizeof(headers),
             "X-Sandbox-Port: %u\r\nx-access-token: %s\r\nAuthorization: Bearer a\r\n"
             "E2B-Traffic-Access-Token: t\r\nX-API-Key: k\r\nE2b-Sandbox-Id: itest\r\n"
             "Connection: authorization, x-plain\r\nX-Plain: p\r\n",
             a.port, token);
    ask(connect_engine(&r), "/", headers, out);
    expect_in(out, "[app] GET /\n");
    expect_not_in(out, token);
    expect_not_in(out, "Traffic");
    expect_not_in(out, "X-API-Key");
    expect_not_in(out, "X-Sandbox-Port");
    expect_not_in(out, "X-Plain"); /* named by Connection */
    expect_in(out, "Authorization: Bearer a\n");
    expect_in(out, "E2b-Sandbox-Id: itest\n");
    snprintf(headers, sizeof(headers), "X-Sandbox-Port: %u\r\nX-Access-Token: of the app\r\n",
             a.port);
    ask(connect_engine(&r), "/", headers, out);
    expect_in(out, "X-Access-Token: of the app\n");
    app_stop(&a);
    rig_stop(&r);
}

TEST(envd_dies_and_the_next_request_waits_for_it)
{
    struct rig r = {0};
    rig_start(&r);
    ask(connect_engine(&r), "/a", "X-Sandbox-Port: 49983\r\n", out);
    expect_in(out, "[envd] GET /a\n");
    ask(connect_engine(&r), "/crash", "X-Sandbox-Port: 49983\r\n", out);
    expect_in(out, "HTTP/1.1 502 ");
    ask(connect_engine(&r), "/b", "X-Sandbox-Port: 49983\r\n", out);
    expect_in(out, "[envd] GET /b\n");
    rig_stop(&r);
}

/* What /.fce2b/health says of a process; PID 1 notes it just after the fork. */
static int wait_pid(struct rig *r, const char *member)
{
    int pid = 0;
    for (int i = 0; i < 100 && pid == 0; i++) {
        ask(connect_engine(r), "/.fce2b/health", "", out);
        const char *at = strstr(out, member);
        assert_non_null(at);
        assert_int_equal(sscanf(at + strlen(member), "\":%d", &pid), 1);
    }
    assert_true(pid > 1);
    return pid;
}

/* Killed, it may live on for a while, with its sockets: what it has not read to the end by then
 * goes to the next one, in however many parts the client sent it. */
TEST(a_dying_interpreter_takes_no_request_with_it)
{
    static const char head[] = "POST /execute HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                               "X-Sandbox-Port: 49999\r\nContent-Length: 4\r\n\r\n";
    static const char *const parts[] = {head, "co", "de"};
    struct rig r = {.has_interpreter = true};
    rig_start(&r);
    for (int round = 0; round < 3; round++) {
        int pid = wait_pid(&r, "interpreterPid");
        ask(connect_engine(&r), "/contexts", "X-Sandbox-Port: 49999\r\n", out); /* is kept */
        expect_in(out, "[interpreter] GET /contexts\n");
        assert_int_equal(kill(pid, SIGSTOP), 0);
        int fd = connect_engine(&r);
        for (size_t i = 0; i < ABX_COUNTOF(parts); i++) {
            size_t len = strlen(parts[i]);
            assert_int_equal(send(fd, parts[i], len, MSG_NOSIGNAL), (ssize_t)len);
            usleep(30000); /* for the gateway to pass it on alone */
        }
        assert_int_equal(kill(pid, SIGKILL), 0);
        read_answer(fd, out);
        expect_in(out, "HTTP/1.1 200 ");
        expect_in(out, "[interpreter] POST /execute\n");
    }
    rig_stop(&r);
}

TEST(without_envd_the_guard_gives_up_after_two_seconds)
{
    int channel[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel), 0);
    struct rig r = {.alone = true,
                    .gateway = {.channel_fd = -1, .view = {.envd_running = view_never}}};
    /* the channel must be kept by the fork: take the place of a listener's copy */
    r.gateway.channel_fd = STDIN_FILENO;
    int saved = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 50);
    dup2(channel[0], STDIN_FILENO);
    rig_start(&r);
    dup2(saved, STDIN_FILENO);
    int64_t before = abx_time_mono_ms();
    ask(connect_engine(&r), "/a", "X-Sandbox-Port: 49983\r\n", out);
    assert_true(abx_time_mono_ms() - before >= 1900);
    expect_in(out, "HTTP/1.1 503 ");
    expect_in(out, "Retry-After: 1\r\n");
    expect_in(out, "{\"code\":503,\"message\":\"Sandbox is starting, please retry\"}");
    rig_stop(&r);
    close(channel[0]);
    close(channel[1]);
    close(saved);
}

TEST(a_killed_gateway_refuses_no_connection)
{
    struct rig r = {0};
    rig_start(&r);
    int pid = wait_pid(&r, "gatewayPid");
    static const int harmless[] = {SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGPIPE, SIGQUIT};
    for (size_t i = 0; i < ABX_COUNTOF(harmless); i++)
        assert_int_equal(kill(pid, harmless[i]), 0);
    ask(connect_engine(&r), "/.fce2b/health", "", out);
    expect_in(out, "\"gatewayRestarts\":0");
    assert_int_equal(kill(pid, SIGKILL), 0);
    ask(connect_tcp(r.port), "/health", "", out);
    expect_in(out, "[envd] GET /health\n");
    ask(connect_engine(&r), "/.fce2b/health", "", out);
    expect_in(out, "\"gatewayRestarts\":1");
    rig_stop(&r);
}

TEST(a_tunnel_passes_bytes_both_ways)
{
    struct rig r = {0};
    struct app a;
    char text[512];
    rig_start(&r);
    app_start(&a);
    int n = snprintf(text, sizeof(text),
                     "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                     "X-Sandbox-Port: %u\r\n\r\n",
                     a.port);
    int fd = connect_tcp(r.port);
    assert_int_equal(send(fd, text, (size_t)n, 0), n);
    struct pollfd p = {fd, POLLIN, 0};
    assert_int_equal(poll(&p, 1, GUARD_MS), 1);
    ssize_t got = read(fd, text, sizeof(text) - 1);
    assert_true(got > 0);
    text[got] = '\0';
    expect_in(text, "HTTP/1.1 101 ");
    assert_int_equal(send(fd, "\x01\x00ping", 6, 0), 6);
    shutdown(fd, SHUT_WR);
    read_answer(fd, out);
    assert_memory_equal(out, "\x01\x00ping", 6);
    app_stop(&a);
    rig_stop(&r);
}

/* base-image 3: what names the port, or refuses to, is the same for a request and for a tunnel. */
TEST(get_and_upgrade_go_by_the_same_rules)
{
    static const struct {
        const char *before, *after; /* of the program's port; NULL: @before alone */
        const char *get, *upgrade;
    } rows[] = {
        {"Host: s\r\nX-Sandbox-Port: ", "\r\n", "HTTP/1.1 200 ", "HTTP/1.1 101 "},
        {"Host: s\r\nE2b-Sandbox-Port: ", "\r\n", "HTTP/1.1 200 ", "HTTP/1.1 101 "},
        {"Host: ", "-itest.sandbox.test\r\n", "HTTP/1.1 200 ", "HTTP/1.1 101 "},
        {"Host: ", "-itest.sandbox.test:8080\r\n", "HTTP/1.1 200 ", "HTTP/1.1 101 "},
        {"Host: 1-itest.test\r\nX-Sandbox-Port: ", "\r\n", "HTTP/1.1 400 ", "HTTP/1.1 400 "},
        {"Host: s\r\nX-Sandbox-Port: 80\r\nX-Sandbox-Port: 80\r\n", NULL, "HTTP/1.1 400 ",
         "HTTP/1.1 400 "},
        {"Host: s\r\nX-Sandbox-Port: 0\r\n", NULL, "HTTP/1.1 400 ", "HTTP/1.1 400 "},
        {"Host: 99999-itest.test\r\n", NULL, "HTTP/1.1 400 ", "HTTP/1.1 400 "},
        {"Host: s\r\n", NULL, "HTTP/1.1 404 ", "HTTP/1.1 404 "},
        {"Host: s\r\nVia: 1.1 abx-gateway\r\nX-Sandbox-Port: ", "\r\n", "HTTP/1.1 508 ",
         "HTTP/1.1 508 "},
    };
    struct rig r = {0};
    struct app a;
    char text[512], port[8];
    rig_start(&r);
    app_start(&a);
    snprintf(port, sizeof(port), "%u", a.port);
    for (size_t i = 0; i < 2 * ABX_COUNTOF(rows); i++) {
        bool is_upgrade = i % 2;
        const char *want = is_upgrade ? rows[i / 2].upgrade : rows[i / 2].get;
        const char *after = rows[i / 2].after;
        int n = snprintf(text, sizeof(text), "GET /x HTTP/1.1\r\n%s%s%s%s\r\n", rows[i / 2].before,
                         after ? port : "", after ? after : "",
                         is_upgrade ? "Connection: Upgrade\r\nUpgrade: websocket\r\n"
                                    : "Connection: close\r\n");
        int fd = connect_tcp(r.port);
        assert_int_equal(send(fd, text, (size_t)n, 0), n);
        shutdown(fd, SHUT_WR);
        read_answer(fd, out);
        if (strncmp(out, want, strlen(want)) != 0)
            fail_msg("%s: wanted %s, got %.80s", text, want, out);
    }
    app_stop(&a);
    rig_stop(&r);
}

/* base-image 3: so many at once, each served, on the sockets of one gateway. */
TEST(two_thousand_connections_are_served)
{
    enum { CONNECTIONS = 2000 };
    static int fds[CONNECTIONS];
    static const char request[] = "GET /health HTTP/1.1\r\nHost: sandbox\r\n\r\n";
    struct rlimit files;
    struct rig r = {0};
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0); /* the gateway has two for each */
    if (files.rlim_cur < 2 * CONNECTIONS + 200)
        skip();
    rig_start(&r);
    for (size_t i = 0; i < CONNECTIONS; i++)
        fds[i] = connect_tcp(r.port);
    for (size_t i = 0; i < CONNECTIONS; i++)
        assert_int_equal(send(fds[i], request, sizeof(request) - 1, MSG_NOSIGNAL),
                         (ssize_t)sizeof(request) - 1);
    for (size_t i = 0; i < CONNECTIONS; i++) {
        struct pollfd p = {fds[i], POLLIN, 0};
        assert_int_equal(poll(&p, 1, GUARD_MS), 1);
        ssize_t n = read(fds[i], out, sizeof(out) - 1);
        assert_true(n > 0);
        out[n] = '\0';
        expect_in(out, "HTTP/1.1 200 ");
    }
    for (size_t i = 0; i < CONNECTIONS; i++)
        close(fds[i]);
    ask(connect_tcp(r.port), "/health", "", out);
    expect_in(out, "[envd] GET /health\n");
    rig_stop(&r);
}

TEST(the_loopback_guard_keeps_local_peers_out)
{
    struct rig r = {.alone = true, .gateway = {.channel_fd = -1, .loopback_guard = true}};
    struct app a;
    char headers[64];
    app_start(&a);
    rig_start(&r);
    ask(connect_tcp(r.port), "/health", "", out);
    expect_in(out, "HTTP/1.1 403 ");
    snprintf(headers, sizeof(headers), "X-Sandbox-Port: %u\r\n", a.port);
    ask(connect_tcp(r.port), "/", headers, out);
    expect_in(out, "[app] GET /\n");
    rig_stop(&r);
    app_stop(&a);
}

/* S44: every row of the shared table, at the hop itself: the status, and nothing passed on. */
TEST(smuggling_is_refused)
{
    struct rig r = {0};
    char path[512], *table = NULL;
    const char *source = getenv("ABX_SOURCE");
    snprintf(path, sizeof(path), "%s/tests/wire/smuggling", source ? source : ".");
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    size_t len = 0, rows = 0;
    assert_int_equal(abx_fd_read_file(dir, "table.tsv", 65536, &table, &len), 0);
    rig_start(&r);
    struct abx_str rest = abx_str_n(table, len), line, name, status;
    while (abx_str_split(&rest, '\n', &line)) {
        char file[64], want[16], *bytes = NULL;
        size_t count = 0;
        uint32_t code;
        abx_str_split(&line, '\t', &name);
        if (!abx_str_split(&line, '\t', &status) || abx_parse_u32(status, &code) < 0)
            continue;
        assert_int_equal(abx_str_to_c(name, file, sizeof(file)), 0);
        assert_int_equal(abx_fd_read_file(dir, file, 1 << 20, &bytes, &count), 0);
        int fd = connect_engine(&r);
        send(fd, bytes, count, MSG_NOSIGNAL);
        shutdown(fd, SHUT_WR);
        read_answer(fd, out);
        snprintf(want, sizeof(want), "HTTP/1.1 %u ", code);
        if (strncmp(out, want, strlen(want)) != 0)
            fail_msg("%s: wanted %s, got %.60s", file, want, out);
        expect_not_in(out, "[envd]");
        free(bytes);
        rows++;
    }
    assert_true(rows >= 10);
    free(table);
    close(dir);
    rig_stop(&r);
}
