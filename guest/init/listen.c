/* guest/init/listen.c: the gateway's TCP socket, made by PID 1 so that it outlives the gateway. */
#include "guest/init/init.h"

#include "lib/base/fd.h"
#include "lib/base/parse.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { BACKLOG = 1024, HOST_MAX = 64 };

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* "1.2.3.4:5000", "[::]:5000" or ":5000". The length of the address, or -EINVAL. */
static int parse_address(const char *text, union address *ret)
{
    struct abx_str all = abx_str(text);
    ptrdiff_t colon = abx_str_rchr(all, ':');
    uint32_t port;
    char host[HOST_MAX] = "0.0.0.0";
    if (colon < 0 || abx_parse_u32(abx_str_sub(all, (size_t)colon + 1, all.len), &port) < 0 ||
        port > UINT16_MAX)
        return -EINVAL;
    struct abx_str name = abx_str_sub(all, 0, (size_t)colon);
    bool is_v6 = name.len >= 2 && name.ptr[0] == '[' && name.ptr[name.len - 1] == ']';
    if (is_v6)
        name = abx_str_sub(name, 1, name.len - 2);
    if (name.len > 0 && abx_str_to_c(name, host, sizeof(host)) < 0)
        return -EINVAL;
    *ret = (union address){0};
    if (is_v6) {
        ret->v6.sin6_family = AF_INET6;
        ret->v6.sin6_port = htons((uint16_t)port);
        return inet_pton(AF_INET6, host, &ret->v6.sin6_addr) == 1 ? (int)sizeof(ret->v6) : -EINVAL;
    }
    ret->v4.sin_family = AF_INET;
    ret->v4.sin_port = htons((uint16_t)port);
    return inet_pton(AF_INET, host, &ret->v4.sin_addr) == 1 ? (int)sizeof(ret->v4) : -EINVAL;
}

int abx_init_listen(const char *address)
{
    union address a;
    int len = parse_address(address, &a);
    if (len < 0)
        return len;
    ABX_AUTO_FD fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    int one = 1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
        bind(fd, &a.any, (socklen_t)len) < 0 || listen(fd, BACKLOG) < 0)
        return -errno;
    return abx_fd_take(&fd);
}
