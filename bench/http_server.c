/* bench/http_server.c: the smallest server on lib/http: 204 on /health, 404 elsewhere. Prints its
 * port, serves until it is killed. */
#include "lib/base/assert.h"
#include "lib/http/server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/banned.h"

static void on_request(struct abx_http_req *req)
{
    abx_http_answer(req, abx_str_is(req->path, "/health") ? 204 : 404, NULL, (struct abx_str){0});
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

int main(void)
{
    static struct abx_loop loop;
    struct abx_http_server *server;
    struct abx_error err;
    uint16_t port;
    const struct abx_http_server_options options = {.on_request = on_request};
    int fd = listen_loopback(&port);
    if (abx_loop_init(&loop, &err) < 0 ||
        abx_http_server_open(&loop, &options, &server, &err) < 0 ||
        abx_http_server_listen(server, fd, 0, &err) < 0) {
        fprintf(stderr, "http_server: %s\n", err.msg);
        return 1;
    }
    printf("%u\n", port);
    fflush(stdout);
    abx_loop_run(&loop);
    return 0;
}
