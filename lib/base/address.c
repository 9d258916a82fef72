/* lib/base/address.c: internet addresses of sockets. */
#include "lib/base/address.h"

#include "lib/base/fd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "lib/base/banned.h"

int abx_address_parse(const char *literal, uint16_t port, union abx_address *ret)
{
    *ret = (union abx_address){.v4 = {.sin_family = AF_INET, .sin_port = htons(port)}};
    if (inet_pton(AF_INET, literal, &ret->v4.sin_addr) == 1)
        return 0;
    *ret = (union abx_address){.v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)}};
    return inet_pton(AF_INET6, literal, &ret->v6.sin6_addr) == 1 ? 0 : -EINVAL;
}

int abx_address_of_host(const char *host, uint16_t port, union abx_address *ret)
{
    return abx_address_parse(strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, port, ret);
}

uint16_t abx_address_port(const union abx_address *a)
{
    if (a->any.sa_family == AF_INET)
        return ntohs(a->v4.sin_port);
    return a->any.sa_family == AF_INET6 ? ntohs(a->v6.sin6_port) : 0;
}

void abx_address_set_port(union abx_address *a, uint16_t port)
{
    if (a->any.sa_family == AF_INET6)
        a->v6.sin6_port = htons(port);
    else
        a->v4.sin_port = htons(port);
}

socklen_t abx_address_len(const union abx_address *a)
{
    return a->any.sa_family == AF_INET6 ? sizeof(a->v6) : sizeof(a->v4);
}

bool abx_address_is_loopback(const union abx_address *a)
{
    if (a->any.sa_family == AF_INET)
        return ntohl(a->v4.sin_addr.s_addr) >> 24 == 127;
    return a->any.sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
}

bool abx_address_is_wildcard(const union abx_address *a)
{
    if (a->any.sa_family == AF_INET)
        return a->v4.sin_addr.s_addr == htonl(INADDR_ANY);
    return a->any.sa_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&a->v6.sin6_addr);
}

int abx_address_bind(const union abx_address *a, bool only_v6, int backlog)
{
    int on = 1;
    ABX_AUTO_FD fd = socket(a->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
        (only_v6 && a->any.sa_family == AF_INET6 &&
         setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0) ||
        bind(fd, &a->any, abx_address_len(a)) < 0 || (backlog > 0 && listen(fd, backlog) < 0))
        return -errno;
    return abx_fd_take(&fd);
}

uint16_t abx_address_bound_port(int fd)
{
    union abx_address a = {0};
    socklen_t len = sizeof(a);
    return getsockname(fd, &a.any, &len) < 0 ? 0 : abx_address_port(&a);
}

static bool is_same_host(const union abx_address *a, const union abx_address *b)
{
    if (a->any.sa_family != b->any.sa_family)
        return false;
    if (a->any.sa_family == AF_INET)
        return a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
    return memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof(a->v6.sin6_addr)) == 0;
}

bool abx_address_is_local_peer(int fd)
{
    union abx_address peer = {0}, own = {0};
    socklen_t peer_len = sizeof(peer), own_len = sizeof(own);
    if (getpeername(fd, &peer.any, &peer_len) < 0 || getsockname(fd, &own.any, &own_len) < 0)
        return true;
    return abx_address_is_loopback(&peer) || is_same_host(&peer, &own);
}
