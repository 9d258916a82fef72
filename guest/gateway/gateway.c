/* guest/gateway/gateway.c: from a request to its upstream. */
#include "guest/gateway/gateway_priv.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/contract/contract.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { IDLE_PER_TARGET = 32, MAX_ADDED = 5 };
_Static_assert(ABX_GATEWAY_HASH == crypto_hash_sha256_BYTES, "SHA-256");

/* Never for a program of the sandbox's own (S42); the edge's port header is nobody's. */
static const char *const user_drop[] = {"x-sandbox-port", "e2b-traffic-access-token", "x-api-key",
                                        NULL};
static const char *const envd_drop[] = {"x-sandbox-port", NULL};
/* It takes envd's token, to ask envd with it. */
static const char *const interpreter_drop[] = {"x-sandbox-port", "e2b-traffic-access-token",
                                               "x-api-key", NULL};

/* One proxied request; lives in its arena. */
struct passage {
    struct abx__gateway *gateway;
    struct abx_gateway_route route;
    struct abx_http_extra add[MAX_ADDED];
    char peer[INET6_ADDRSTRLEN];
};

/* S42: envd's token does not reach other ports, whoever sent it there. */
static bool keep_header(void *arg, const struct abx_http_header *h)
{
    const struct passage *p = arg;
    const struct abx_gateway_view *view = &p->gateway->o.view;
    unsigned char token[ABX_GATEWAY_HASH], sent[ABX_GATEWAY_HASH];
    if (!abx_str_is_nocase(h->name, ABX_HEADER_ACCESS_TOKEN) || view->token_hash == NULL ||
        !view->token_hash(view->arg, token))
        return true;
    crypto_hash_sha256(sent, (const unsigned char *)h->value.ptr, h->value.len);
    return sodium_memcmp(token, sent, sizeof(token)) != 0;
}

static void on_unreachable(struct abx_http_req *req, void *arg, const struct abx_error *err)
{
    struct passage *p = arg;
    if (p->route.dest != ABX_GATEWAY_PORT && err->sys == EAGAIN)
        abx__gateway_answer_starting(req);
    else if (err->sys == ECONNREFUSED)
        abx__gateway_answer_closed_port(p->gateway, req, p->route.port);
    else
        abx__gateway_answer_broken(req);
}

union peer_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* Addresses as v6, IPv4 mapped, so that they compare. */
static bool to_v6(const union peer_address *a, struct in6_addr *ret)
{
    if (a->any.sa_family == AF_INET6) {
        *ret = a->v6.sin6_addr;
        return true;
    }
    if (a->any.sa_family != AF_INET)
        return false;
    *ret = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
    memcpy(&ret->s6_addr[12], &a->v4.sin_addr, sizeof(a->v4.sin_addr));
    return true;
}

/* Whether the peer of a TCP connection is this sandbox itself; its address as text. */
static bool look_at_peer(int fd, char ret_text[INET6_ADDRSTRLEN])
{
    union peer_address peer = {0}, own = {0};
    socklen_t peer_len = sizeof(peer), own_len = sizeof(own);
    struct in6_addr p, o;
    ret_text[0] = '\0';
    if (getpeername(fd, &peer.any, &peer_len) < 0 || getsockname(fd, &own.any, &own_len) < 0 ||
        !to_v6(&peer, &p) || !to_v6(&own, &o))
        return true; /* gone already: the strict answer */
    bool mapped = IN6_IS_ADDR_V4MAPPED(&p);
    inet_ntop(mapped ? AF_INET : AF_INET6, mapped ? (void *)&p.s6_addr[12] : (void *)&p, ret_text,
              INET6_ADDRSTRLEN);
    return (mapped && p.s6_addr[12] == 127) || IN6_IS_ADDR_LOOPBACK(&p) ||
           memcmp(&p, &o, sizeof(p)) == 0;
}

/* Adds what the request lacks, then our mark. */
static void set_added(struct passage *p, const struct abx_http_head *head)
{
    const struct abx_http_extra rows[] = {
        {"X-Forwarded-For", abx_str(p->peer)},
        {"X-Forwarded-Proto", ABX_STR("http")},
        {"X-Forwarded-Host", abx_http_header(head, "host")},
    };
    size_t n = 0;
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++)
        if (rows[i].value.len > 0 && abx_http_header_count(head, rows[i].name) == 0)
            p->add[n++] = rows[i];
    p->add[n++] = (struct abx_http_extra){"Via", ABX_STR(ABX__GATEWAY_VIA)};
    ABX_ASSERT(n < ABX_COUNTOF(p->add)); /* zeroed: the next ends the list */
}

/* What a destination is sent, and PID 1's channel to it. */
static const struct upstream {
    const char *channel; /* NULL: ports only */
    const char *const *drop;
    bool (*keep)(void *arg, const struct abx_http_header *h);
    bool takes_whole; /* that of the channel does nothing before it has a whole request */
} upstreams[] = {
    [ABX_GATEWAY_ENVD] = {"envd", envd_drop, NULL, false},
    [ABX_GATEWAY_INTERPRETER] = {"interpreter", interpreter_drop, NULL, true},
    [ABX_GATEWAY_PORT] = {NULL, user_drop, keep_header, false},
};

static void pass_on(struct abx__gateway *g, struct abx_http_req *req, struct passage *p)
{
    const struct upstream *up = &upstreams[p->route.dest];
    bool has_channel = abx__gateway_has_channel(g, up->channel);
    set_added(p, req->head);
    struct abx_http_proxy_options o = {
        .pool = g->pool,
        .target = has_channel ? abx_str(up->channel)
                              : abx_str(abx_arena_printf(req->arena, "%u", p->route.port)),
        .drop = up->drop,
        .keep = up->keep,
        .arg = p,
        .add = p->add,
        .any_upgrade = g->o.any_upgrade,
        .takes_whole = has_channel && up->takes_whole,
        .on_unreachable = on_unreachable,
    };
    if (o.target.ptr == NULL)
        abx__gateway_answer_error(req, 500, "out of memory");
    else
        abx_http_proxy(req, &o);
}

static void on_request(struct abx_http_req *req)
{
    struct abx__gateway *g = req->user;
    struct passage *p = abx_arena_alloc(req->arena, sizeof(*p));
    if (p == NULL) {
        abx__gateway_answer_error(req, 500, "out of memory");
        return;
    }
    p->gateway = g;
    enum abx_gateway_source source = (enum abx_gateway_source)req->listener_tag;
    if (source == ABX_GATEWAY_TCP && look_at_peer(abx_http_req_fd(req), p->peer))
        source = ABX_GATEWAY_TCP_LOCAL;
    p->route = abx_gateway_route(&g->rules, source, req->head, req->arena);
    switch (p->route.dest) {
    case ABX_GATEWAY_REFUSE:
        abx__gateway_answer_error(req, p->route.status, p->route.message);
        return;
    case ABX_GATEWAY_HEALTH:
        abx__gateway_answer_health(req);
        return;
    case ABX_GATEWAY_STATE:
        abx__gateway_answer_state(g, req);
        return;
    case ABX_GATEWAY_INTERPRETER: /* without one of ours it is a port like any other */
    case ABX_GATEWAY_ENVD:
    case ABX_GATEWAY_PORT:
        pass_on(g, req, p);
    }
}

static void on_server_closed(void *arg)
{
    struct abx__gateway *g = arg;
    abx__gateway_cancel_dials(g);
    abx_http_pool_close(g->pool); /* the loop ends when the last of it has closed */
}

static void on_stop(struct abx_signal *s, int signum)
{
    struct abx__gateway *g = s->owner;
    abx_log(ABX_LOG_INFO, "stopping signal=%d connections=%zu", signum,
            abx_http_server_conns(g->server));
    abx_signal_close(&g->term, NULL);
    abx_signal_close(&g->interrupt, NULL);
    abx__gateway_cancel_dials(g);
    abx_http_server_close(g->server, false, on_server_closed, g);
}

static int open_all(struct abx__gateway *g, struct abx_error *err)
{
    struct abx_http_server_options so = {.on_request = on_request, .user = g};
    if (abx_http_pool_open(&g->loop, abx__gateway_connect, g, IDLE_PER_TARGET, &g->pool, err) < 0 ||
        abx_http_server_open(&g->loop, &so, &g->server, err) < 0)
        return -1;
    if (g->o.engine_fd >= 0 &&
        abx_http_server_listen(g->server, g->o.engine_fd, ABX_GATEWAY_ENGINE, err) < 0)
        return abx_err_wrap(err, "engine socket");
    if (g->o.tcp_fd >= 0 &&
        abx_http_server_listen(g->server, g->o.tcp_fd, ABX_GATEWAY_TCP, err) < 0)
        return abx_err_wrap(err, "TCP socket");
    if (abx_signal_init(&g->term, &g->loop, SIGTERM, on_stop, g, err) < 0 ||
        abx_signal_init(&g->interrupt, &g->loop, SIGINT, on_stop, g, err) < 0)
        return -1;
    return 0;
}

static uint16_t or_default(uint16_t port, uint16_t fallback)
{
    return port != 0 ? port : fallback;
}

/* PID 1 passes on whatever it is sent. The gateway has no settings to read again on HUP (all of
 * them are PID 1's environment), and no other signal has a meaning here; none may end it. */
static void ignore_signals(void)
{
    static const int kept[] = {SIGTERM, SIGINT,  SIGCHLD, SIGSEGV, SIGBUS, SIGFPE,
                               SIGILL,  SIGABRT, SIGTRAP, SIGSYS,  SIGCONT};
    for (int sig = 1; sig < NSIG; sig++) {
        bool ignored = true;
        for (size_t i = 0; i < ABX_COUNTOF(kept); i++)
            ignored = ignored && sig != kept[i];
        if (ignored)
            signal(sig, SIG_IGN); /* refused for KILL, STOP and the C library's own */
    }
}

int abx_gateway_main(const struct abx_gateway_options *o)
{
    static struct abx__gateway gateway;
    struct abx__gateway *g = &gateway;
    struct abx_error err;
    *g = (struct abx__gateway){.o = *o};
    g->rules = (struct abx_gateway_rules){
        .own_port = or_default(o->own_port, ABX_PORT_GATEWAY),
        .envd_port = or_default(o->envd_port, ABX_PORT_ENVD),
        .interpreter_port = or_default(o->interpreter_port, ABX_PORT_INTERPRETER),
        .locked = o->locked,
        .loopback_guard = o->loopback_guard,
        .via = ABX__GATEWAY_VIA,
    };
    if (o->interpreter_fd == 0)
        g->o.interpreter_fd = -1;
    abx_list_init(&g->dials);
    if (o->sandbox_id != NULL)
        snprintf(g->host, sizeof(g->host), "%s", o->sandbox_id);
    else if (gethostname(g->host, sizeof(g->host) - 1) < 0)
        g->host[0] = '\0';
    ignore_signals();
    if (sodium_init() < 0) {
        abx_log(ABX_LOG_ERROR, "sodium_init failed");
        return 1;
    }
    if (abx_loop_init(&g->loop, &err) < 0 || open_all(g, &err) < 0) {
        abx_log(ABX_LOG_ERROR, "can not start: %s", err.msg);
        return 1;
    }
    abx_loop_run(&g->loop);
    abx_loop_done(&g->loop);
    abx_fd_close(&g->o.channel_fd);
    abx_fd_close(&g->o.interpreter_fd);
    return 0;
}
