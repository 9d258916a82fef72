/* guest/gateway/dial.c: connections to upstreams: envd and interpreter by PID 1's channels,
 * ports on the sandbox's own addresses.
 *
 * A port may not listen yet: five tries within a second (control-plane.md 12.3), each on 127.0.0.1,
 * on ::1, then on the first interface that is none of loopback. While PID 1 has the daemon not
 * running, or its channel is full, the dial waits up to two seconds (startup guard).
 */
#include "guest/gateway/gateway_priv.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { GUARD_MS = 2000, GUARD_STEP_MS = 20, CONNECT_LIMIT_MS = 5000 };

/* Pauses after each try of a port. */
static const uint32_t retry_ms[] = {100, 200, 300, 300};

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

struct dial {
    struct abx_list node;
    struct abx__gateway *gateway;
    struct abx_http_call *call;
    struct abx_timer timer;
    struct attempt *attempt; /* under way; NULL: none */
    int64_t deadline_ms;
    const struct channel *channel; /* NULL: a port */
    uint16_t port;
    size_t tries;
    size_t address;               /* of `addresses` */
    struct sockaddr_in interface; /* looked for once; without family: none was there yet */
    int fd;
    int handles; /* still known to the loop */
    bool done;
};

static socklen_t loopback_v4(struct dial *d, union address *ret)
{
    ret->v4.sin_family = AF_INET;
    ret->v4.sin_port = htons(d->port);
    ret->v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return sizeof(ret->v4);
}

static socklen_t loopback_v6(struct dial *d, union address *ret)
{
    ret->v6.sin6_family = AF_INET6;
    ret->v6.sin6_port = htons(d->port);
    ret->v6.sin6_addr = in6addr_loopback;
    return sizeof(ret->v6);
}

static void find_interface(struct sockaddr_in *ret)
{
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) < 0)
        return;
    for (const struct ifaddrs *i = all; i != NULL && ret->sin_family == 0; i = i->ifa_next) {
        if (i->ifa_addr != NULL && i->ifa_addr->sa_family == AF_INET &&
            (i->ifa_flags & (IFF_UP | IFF_LOOPBACK)) == IFF_UP)
            memcpy(ret, i->ifa_addr, sizeof(*ret));
    }
    freeifaddrs(all);
}

static socklen_t interface_v4(struct dial *d, union address *ret)
{
    if (d->interface.sin_family == 0)
        find_interface(&d->interface);
    ret->v4 = d->interface;
    ret->v4.sin_port = htons(d->port);
    return ret->v4.sin_family == 0 ? 0 : sizeof(ret->v4);
}

/* In the order in which a port is looked for. 0: there is no such address. */
static socklen_t (*const addresses[])(struct dial *d, union address *ret) = {
    loopback_v4, loopback_v6, interface_v4};

/* One connect() that did not end at once. A poll can not be used again before its close callback,
 * so each has its own. */
struct attempt {
    struct abx_poll poll;
    struct dial *dial;
};

static void release(struct dial *d)
{
    if (--d->handles == 0)
        free(d);
}

static void on_timer_closed(void *owner)
{
    release(owner);
}

static void on_attempt_closed(void *owner)
{
    struct attempt *a = owner;
    release(a->dial);
    free(a);
}

static void end_attempt(struct dial *d)
{
    if (d->attempt == NULL)
        return;
    abx_poll_close(&d->attempt->poll, on_attempt_closed);
    d->attempt = NULL;
}

/* Tells the call, once; the memory goes when the loop has let go. */
static void finish(struct dial *d, int fd_or_error)
{
    if (d->done)
        return;
    d->done = true;
    abx_list_remove(&d->node);
    end_attempt(d);
    if (fd_or_error == d->fd)
        d->fd = -1; /* the call takes it */
    else
        abx_fd_close(&d->fd);
    abx_http_connected(d->call, fd_or_error);
    abx_timer_close(&d->timer, on_timer_closed);
}

static void try_address(struct dial *d);

/* The next address of this try, or the next try. */
static void on_refused(struct dial *d)
{
    abx_fd_close(&d->fd);
    if (++d->address < ABX_COUNTOF(addresses)) {
        try_address(d);
        return;
    }
    d->address = 0;
    if (d->tries == ABX_COUNTOF(retry_ms)) {
        finish(d, -ECONNREFUSED);
        return;
    }
    abx_timer_start(&d->timer, retry_ms[d->tries++], 0);
}

static void on_writable(struct abx_poll *p, unsigned events)
{
    (void)events;
    struct attempt *a = p->owner;
    struct dial *d = a->dial;
    int err = 0;
    socklen_t len = sizeof(err);
    if (getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0)
        err = errno;
    end_attempt(d);
    if (err == 0)
        finish(d, d->fd);
    else
        on_refused(d);
}

static void wait_writable(struct dial *d)
{
    struct abx_error err;
    struct attempt *a = calloc(1, sizeof(*a));
    if (a == NULL || abx_poll_init(&a->poll, &d->gateway->loop, d->fd, on_writable, a, &err) < 0) {
        free(a);
        finish(d, -ENOMEM);
        return;
    }
    a->dial = d;
    d->attempt = a;
    d->handles++;
    abx_poll_set(&a->poll, ABX_POLL_OUT);
    abx_timer_start(&d->timer, CONNECT_LIMIT_MS, 0);
}

/* The kernel's answer on loopback is at hand at once, unless the listener's queue is full. */
static void try_address(struct dial *d)
{
    union address a = {0};
    socklen_t len = addresses[d->address](d, &a);
    if (len == 0) {
        on_refused(d);
        return;
    }
    d->fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (d->fd < 0 && errno != EAFNOSUPPORT) {
        finish(d, -errno);
        return;
    }
    int one = 1;
    setsockopt(d->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (d->fd >= 0 && connect(d->fd, &a.any, len) == 0)
        finish(d, d->fd);
    else if (d->fd >= 0 && errno == EINPROGRESS)
        wait_writable(d);
    else
        on_refused(d);
}

static bool envd_runs(const struct abx_gateway_view *v)
{
    return v->envd_running == NULL || v->envd_running(v->arg);
}

static bool interpreter_runs(const struct abx_gateway_view *v)
{
    return v->interpreter_running == NULL || v->interpreter_running(v->arg);
}

static const struct channel {
    const char *name;
    size_t fd; /* offset in the options */
    bool (*runs)(const struct abx_gateway_view *v);
} channels[] = {
    {"envd", offsetof(struct abx_gateway_options, channel_fd), envd_runs},
    {"interpreter", offsetof(struct abx_gateway_options, interpreter_fd), interpreter_runs},
};

static int channel_fd(const struct abx__gateway *g, const struct channel *c)
{
    return *(const int *)(const void *)((const char *)&g->o + c->fd);
}

static const struct channel *find_channel(const struct abx__gateway *g, struct abx_str name)
{
    for (size_t i = 0; i < ABX_COUNTOF(channels); i++)
        if (abx_str_is(name, channels[i].name) && channel_fd(g, &channels[i]) >= 0)
            return &channels[i];
    return NULL;
}

bool abx__gateway_has_channel(const struct abx__gateway *g, const char *name)
{
    return name != NULL && find_channel(g, abx_str(name)) != NULL;
}

/* 0: sent; -EAGAIN: not now. */
static int send_by_channel(struct dial *d)
{
    if (!d->channel->runs(&d->gateway->o.view))
        return -EAGAIN;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return -errno;
    ssize_t n = abx_fd_send(channel_fd(d->gateway, d->channel), "c", 1, &pair[1], 1);
    close(pair[1]);
    if (n < 0) {
        close(pair[0]);
        return n == -ETOOMANYREFS || n == -ENOBUFS ? -EAGAIN : (int)n;
    }
    d->fd = pair[0];
    return 0;
}

static void try_channel(struct dial *d)
{
    int r = send_by_channel(d);
    if (r == 0)
        finish(d, d->fd);
    else if (r == -EAGAIN && abx_time_mono_ms() < d->deadline_ms)
        abx_timer_start(&d->timer, GUARD_STEP_MS, 0);
    else
        finish(d, r);
}

static void on_timer(struct abx_timer *t)
{
    struct dial *d = t->owner;
    if (d->channel != NULL) {
        try_channel(d);
    } else if (d->attempt != NULL) {
        finish(d, -ETIMEDOUT);
    } else {
        try_address(d);
    }
}

void abx__gateway_connect(void *arg, struct abx_str target, struct abx_http_call *call)
{
    struct abx__gateway *g = arg;
    struct dial *d = calloc(1, sizeof(*d));
    if (d == NULL) {
        abx_http_connected(call, -ENOMEM);
        return;
    }
    uint32_t port = 0;
    d->channel = find_channel(g, target);
    if (d->channel == NULL)
        abx_parse_u32(target, &port); /* written by us */
    d->gateway = g;
    d->call = call;
    d->fd = -1;
    d->handles = 1; /* the timer */
    d->port = (uint16_t)port;
    d->deadline_ms = abx_time_mono_ms() + GUARD_MS;
    abx_timer_init(&d->timer, &g->loop, on_timer, d);
    abx_list_push(&g->dials, &d->node);
    if (d->channel != NULL)
        try_channel(d);
    else
        try_address(d);
}

void abx__gateway_cancel_dials(struct abx__gateway *g)
{
    struct dial *d;
    while ((d = abx_list_first(&g->dials, struct dial, node)) != NULL)
        finish(d, -ECANCELED);
}
