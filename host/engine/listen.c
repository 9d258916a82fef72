/* host/engine/listen.c: the one listener: loopback, both families, one port (decisions, security
 * S62). Blocking; before the loop. */
#include "host/engine/startup_priv.h"

#include "lib/base/err.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/contract/contract.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

#include "lib/base/banned.h"

enum { BACKLOG = 1024, PORTS_TRIED = 200 };

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static int parse_literal(const char *text, union address *ret)
{
    *ret = (union address){.v4 = {.sin_family = AF_INET}};
    if (inet_pton(AF_INET, text, &ret->v4.sin_addr) == 1)
        return 0;
    *ret = (union address){.v6 = {.sin6_family = AF_INET6}};
    return inet_pton(AF_INET6, text, &ret->v6.sin6_addr) == 1 ? 0 : -EINVAL;
}

static bool is_loopback(const union address *a)
{
    if (a->any.sa_family == AF_INET)
        return ntohl(a->v4.sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
}

static bool is_wildcard(const union address *a)
{
    if (a->any.sa_family == AF_INET)
        return a->v4.sin_addr.s_addr == htonl(INADDR_ANY);
    return IN6_IS_ADDR_UNSPECIFIED(&a->v6.sin6_addr);
}

/* A listening socket or -errno. */
static int bind_one(union address a, uint16_t port)
{
    int on = 1;
    bool is_v6 = a.any.sa_family == AF_INET6;
    ABX_AUTO_FD fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if (is_v6)
        a.v6.sin6_port = htons(port);
    else
        a.v4.sin_port = htons(port);
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
        (is_v6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0) ||
        bind(fd, &a.any, is_v6 ? sizeof(a.v6) : sizeof(a.v4)) < 0 || listen(fd, BACKLOG) < 0)
        return -errno;
    return abx_fd_take(&fd);
}

static uint16_t port_of(int fd)
{
    union address a;
    socklen_t len = sizeof(a);
    if (getsockname(fd, &a.any, &len) < 0)
        return 0;
    return ntohs(a.any.sa_family == AF_INET6 ? a.v6.sin6_port : a.v4.sin_port);
}

/* 127.0.0.1 and ::1 on the same port; a machine without IPv6 gets the first alone. */
static int bind_pair(uint16_t port, struct abx__listeners *l)
{
    union address v4, v6;
    parse_literal("127.0.0.1", &v4);
    parse_literal("::1", &v6);
    ABX_AUTO_FD first = bind_one(v4, port);
    if (first < 0)
        return first;
    ABX_AUTO_FD second = bind_one(v6, port_of(first));
    if (second < 0 && second != -EAFNOSUPPORT && second != -EADDRNOTAVAIL)
        return second;
    l->port = port_of(first);
    l->fds[l->count++] = abx_fd_take(&first);
    if (second >= 0)
        l->fds[l->count++] = abx_fd_take(&second);
    else
        abx_log(ABX_LOG_WARN, "no IPv6 loopback here: listening on 127.0.0.1 alone");
    return 0;
}

static int fail_taken(const char *where, uint16_t port, struct abx_error *err)
{
    char holder[96];
    abx__port_holder(port, holder, sizeof(holder));
    return abx_err_set(err, ABX_UNAVAILABLE,
                       "port %u of %s is taken by %s: end it, or give another"
                       " --listen",
                       (unsigned)port, where, holder);
}

static int listen_literal(const struct abx_engine_options *o, struct abx__listeners *l,
                          struct abx_error *err)
{
    union address a;
    if (parse_literal(o->listen_host, &a) < 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "--listen %s: an IP address is needed",
                           o->listen_host);
    if (!is_loopback(&a) && !o->insecure_listen)
        return abx_err_set(err, ABX_PERMISSION_DENIED,
                           "--listen %s: keys and output would travel in the clear; add"
                           " --insecure-listen if that is meant",
                           o->listen_host);
    if (!is_loopback(&a))
        abx_log(ABX_LOG_WARN, "listening without TLS beyond loopback address=%s", o->listen_host);
    int fd =
        bind_one(a, o->listen_port != 0 || o->listen_explicit ? o->listen_port : ABX_PORT_ENGINE);
    if (fd == -EADDRINUSE)
        return fail_taken(o->listen_host, o->listen_port, err);
    if (fd < 0)
        return abx_err_sys(err, fd, "listen on %s port %u", o->listen_host,
                           (unsigned)o->listen_port);
    l->fds[l->count++] = fd;
    l->port = port_of(fd);
    l->any_ip = is_wildcard(&a);
    snprintf(l->host, sizeof(l->host), "%s", o->listen_host);
    return 0;
}

int abx__listen(const struct abx_engine_options *o, uint16_t last_port, struct abx__listeners *ret,
                struct abx_error *err)
{
    *ret = (struct abx__listeners){.fds = {-1, -1}};
    if (o->listen_host != NULL && !abx_str_is(abx_str(o->listen_host), "localhost"))
        return listen_literal(o, ret, err);
    uint16_t first = o->listen_port != 0 || o->listen_explicit ? o->listen_port : ABX_PORT_ENGINE;
    int tries = o->listen_explicit && first != 0 ? 1 : PORTS_TRIED, r = -EADDRINUSE;
    if (!o->listen_explicit && last_port != 0)
        r = bind_pair(last_port, ret); /* what clients of this state folder were told */
    for (int i = 0; i < tries && r == -EADDRINUSE; i++)
        r = bind_pair((uint16_t)(first == 0 ? 0 : first + i), ret);
    if (r == -EADDRINUSE && o->listen_explicit)
        return fail_taken("127.0.0.1 and ::1", first, err);
    return r < 0 ? abx_err_sys(err, r, "listen on 127.0.0.1 port %u", (unsigned)first) : 0;
}

void abx__listeners_close(struct abx__listeners *l)
{
    for (size_t i = 0; i < ABX__LISTENERS_MAX; i++)
        abx_fd_close(&l->fds[i]);
}
