/* bench/http_proxy.c: the smallest hop on lib/http: all requests go to 127.0.0.1:UPSTREAM. Prints
 * its port, serves until it is killed. Usage: http_proxy UPSTREAM. */
#include "lib/base/assert.h"
#include "lib/base/parse.h"
#include "lib/http/proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { IDLE_MAX = 64 };

static struct sockaddr_in upstream = {.sin_family = AF_INET};

/* A loopback connect is answered at once, so it may block. */
static void do_connect(void *arg, struct abx_str target, struct abx_http_call *call)
{
    (void)arg;
    (void)target;
    const int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&upstream, sizeof(upstream)) < 0) {
        int error = errno;
        close(fd);
        abx_http_connected(call, -error);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    abx_http_connected(call, fd);
}

static void on_unreachable(struct abx_http_req *req, void *arg, const struct abx_error *err)
{
    (void)arg;
    abx_http_answer(req, 502, NULL, abx_str(err->msg));
}

static void on_request(struct abx_http_req *req)
{
    const struct abx_http_proxy_options options = {
        .pool = req->user, .target = ABX_STR("up"), .on_unreachable = on_unreachable};
    abx_http_proxy(req, &options);
}

static int listen_loopback(uint16_t *ret_port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    ABX_ASSERT(fd >= 0 && bind(fd, (struct sockaddr *)&at, len) == 0);
    ABX_ASSERT(listen(fd, 4096) == 0 && getsockname(fd, (struct sockaddr *)&at, &len) == 0);
    *ret_port = ntohs(at.sin_port);
    return fd;
}

int main(int argc, char **argv)
{
    static struct abx_loop loop;
    struct abx_http_server_options options = {.on_request = on_request};
    struct abx_http_server *server;
    struct abx_http_pool *pool;
    struct abx_error err;
    uint16_t port;
    uint32_t to;
    if (argc != 2 || abx_parse_u32(abx_str(argv[1]), &to) < 0 || to > UINT16_MAX)
        return 2;
    upstream.sin_port = htons((uint16_t)to);
    upstream.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = listen_loopback(&port);
    if (abx_loop_init(&loop, &err) < 0 ||
        abx_http_pool_open(&loop, do_connect, NULL, IDLE_MAX, &pool, &err) < 0)
        return 1;
    options.user = pool;
    if (abx_http_server_open(&loop, &options, &server, &err) < 0 ||
        abx_http_server_listen(server, fd, 0, &err) < 0) {
        fprintf(stderr, "http_proxy: %s\n", err.msg);
        return 1;
    }
    printf("%u\n", port);
    fflush(stdout);
    abx_loop_run(&loop);
    return 0;
}
