/* host/engine/listen.c: the one listener: loopback, both families, one port (decisions, security
 * S62). Blocking; before the loop. */
#include "host/engine/startup_priv.h"

#include "lib/base/address.h"
#include "lib/base/err.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/contract/contract.h"

#include <errno.h>
#include <stdio.h>

#include "lib/base/banned.h"

enum { BACKLOG = 1024, PORTS_TRIED = 200 };

/* 127.0.0.1 and ::1 on the same port; a machine without IPv6 gets the first alone. */
static int bind_pair(uint16_t port, struct abx__listeners *l)
{
    union abx_address v4 = {.v4 = {.sin_family = AF_INET, .sin_port = htons(port)}};
    v4.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ABX_AUTO_FD first = abx_address_bind(&v4, true, BACKLOG);
    if (first < 0)
        return first;
    union abx_address v6 = {.v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT}};
    abx_address_set_port(&v6, abx_address_bound_port(first));
    ABX_AUTO_FD second = abx_address_bind(&v6, true, BACKLOG);
    if (second < 0 && second != -EAFNOSUPPORT && second != -EADDRNOTAVAIL)
        return second;
    l->port = abx_address_bound_port(first);
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
    union abx_address a;
    bool is_asked = o->listen_port != 0 || o->listen_explicit;
    if (abx_address_parse(o->listen_host, is_asked ? o->listen_port : ABX_PORT_ENGINE, &a) < 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "--listen %s: an IP address is needed",
                           o->listen_host);
    if (!abx_address_is_loopback(&a) && !o->insecure_listen)
        return abx_err_set(err, ABX_PERMISSION_DENIED,
                           "--listen %s: keys and output would travel in the clear; add"
                           " --insecure-listen if that is meant",
                           o->listen_host);
    if (!abx_address_is_loopback(&a))
        abx_log(ABX_LOG_WARN, "listening without TLS beyond loopback address=%s", o->listen_host);
    int fd = abx_address_bind(&a, true, BACKLOG);
    if (fd == -EADDRINUSE)
        return fail_taken(o->listen_host, o->listen_port, err);
    if (fd < 0)
        return abx_err_sys(err, fd, "listen on %s port %u", o->listen_host,
                           (unsigned)o->listen_port);
    l->fds[l->count++] = fd;
    l->port = abx_address_bound_port(fd);
    l->any_ip = abx_address_is_wildcard(&a);
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
