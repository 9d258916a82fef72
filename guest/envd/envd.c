/* guest/envd/envd.c: the daemon: its listeners, its life, its end (envd.md 1.1, security S41, S03).
 */
#include "guest/envd/envd_priv.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { CHANNEL_FDS = 8, BACKLOG = 128, MAX_CONNS = 2000, RETRY_MS = 100, RPC_BYTES_MAX = 64 << 20 };

static const struct abx_rpc_service *const services[] = {&abx__process_service,
                                                         &abx__filesystem_service, NULL};

/* ---- the end ---- */

static void on_http_closed(void *arg)
{
    (void)arg;
}

static void stop(struct abx__envd *e)
{
    abx_poll_close(&e->channel, NULL);
    abx_poll_close(&e->tcp, NULL);
    abx_timer_close(&e->tcp_retry, NULL);
    abx_signal_close(&e->term, NULL);
    abx_signal_close(&e->interrupt, NULL);
    if (e->http)
        abx_http_server_close(e->http, true, on_http_closed, NULL);
    e->http = NULL;
    abx__watches_stop(e);
    if (e->procs)
        abx_procs_close(e->procs);
    e->procs = NULL;
}

static void on_signal(struct abx_signal *s, int signum)
{
    struct abx__envd *e = s->owner;
    abx_log(ABX_LOG_INFO, "stopping signal=%d", signum);
    stop(e);
}

/* ---- connections ---- */

static void adopt(struct abx__envd *e, int take_fd, int tag)
{
    struct abx_error err = {0};
    if (abx_http_server_adopt(e->http, take_fd, tag, &err) < 0)
        abx_log(ABX_LOG_WARN, "connection refused error=\"%s\"", err.msg);
}

static void on_channel(struct abx_poll *p, unsigned events)
{
    struct abx__envd *e = p->owner;
    (void)events;
    for (int i = 0; i < CHANNEL_FDS; i++) { /* bounded: the loop has others to serve */
        char bytes[64];
        int fds[CHANNEL_FDS];
        size_t count = CHANNEL_FDS;
        ssize_t n = abx_fd_recv(p->fd, bytes, sizeof(bytes), fds, &count);
        if (n == -EAGAIN || n == -EINTR)
            return;
        for (size_t f = 0; n >= 0 && f < count; f++) {
            abx_fd_set_nonblock(fds[f], true);
            adopt(e, fds[f], ABX_ENVD_ENGINE);
        }
        if (n > 0)
            continue;
        abx_log(ABX_LOG_WARN, "the channel is gone errno=%d", (int)-n);
        abx_poll_close(&e->channel, NULL);
        if (e->tcp_fd < 0)
            stop(e);
        return;
    }
}

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
};

/* S03: 127/8, or an address that is also our own end. */
static bool is_local_peer(int fd)
{
    union address peer = {0}, own = {0};
    socklen_t peer_len = sizeof(peer), own_len = sizeof(own);
    if (getpeername(fd, &peer.any, &peer_len) < 0 || getsockname(fd, &own.any, &own_len) < 0)
        return true; /* unknown is the stricter of the two */
    uint32_t address = ntohl(peer.v4.sin_addr.s_addr);
    return address >> 24 == 127 || peer.v4.sin_addr.s_addr == own.v4.sin_addr.s_addr;
}

static void on_tcp_retry(struct abx_timer *t)
{
    struct abx__envd *e = t->owner;
    abx_poll_set(&e->tcp, ABX_POLL_IN);
}

static void on_tcp(struct abx_poll *p, unsigned events)
{
    struct abx__envd *e = p->owner;
    (void)events;
    int fd = -EMFILE;
    if (abx_http_server_conns(e->http) < MAX_CONNS) {
        fd = accept4(p->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        fd = fd < 0 ? -errno : fd;
    }
    if (fd >= 0)
        adopt(e, fd, is_local_peer(fd) ? ABX__TCP_LOCAL : ABX_ENVD_TCP);
    else if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM || fd == -ENOBUFS) {
        abx_poll_set(&e->tcp, 0);
        abx_timer_start(&e->tcp_retry, RETRY_MS, 0);
    }
}

static int listen_tcp(uint16_t port, struct abx_error *err)
{
    ABX_AUTO_FD fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    union address a = {.v4 = {.sin_family = AF_INET, .sin_port = htons(port)}};
    int on = 1;
    if (fd < 0)
        return abx_err_sys(err, -errno, "socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, &a.any, sizeof(a.v4)) < 0 || listen(fd, BACKLOG) < 0)
        return abx_err_sys(err, -errno, "port %d", port);
    return abx_fd_take(&fd);
}

/* ---- the start ---- */

static int start_listeners(struct abx__envd *e, struct abx_error *err)
{
    if (e->o.tcp_port) {
        e->tcp_fd = listen_tcp(e->o.tcp_port, err);
        if (e->tcp_fd < 0 || abx_poll_init(&e->tcp, &e->loop, e->tcp_fd, on_tcp, e, err) < 0)
            return -1;
        abx_timer_init(&e->tcp_retry, &e->loop, on_tcp_retry, e);
        abx_poll_set(&e->tcp, ABX_POLL_IN);
    }
    if (e->o.channel_fd >= 0) {
        abx_fd_set_nonblock(e->o.channel_fd, true);
        if (abx_poll_init(&e->channel, &e->loop, e->o.channel_fd, on_channel, e, err) < 0)
            return -1;
        abx_poll_set(&e->channel, ABX_POLL_IN);
    }
    return 0;
}

static int start(struct abx__envd *e, struct abx_error *err)
{
    struct abx_http_server_options http = {
        .on_request = abx__on_request, .user = e, .max_conns = MAX_CONNS};
    struct abx_procs_config procs = {.path = ABX_SANDBOX_PATH, .spill_dir = e->o.spill_dir};
    if (abx_signal_init(&e->term, &e->loop, SIGTERM, on_signal, e, err) < 0 ||
        abx_signal_init(&e->interrupt, &e->loop, SIGINT, on_signal, e, err) < 0 ||
        abx_procs_new(&e->loop, &procs, &e->procs, err) < 0 ||
        abx_watches_new(&e->loop, &e->watches, err) < 0 ||
        abx_http_server_open(&e->loop, &http, &e->http, err) < 0)
        return -1;
    return start_listeners(e, err);
}

/* A state that can not be read leaves the daemon locked: the engine provisions it anew. */
static void restore(struct abx__envd *e)
{
    struct abx_error err = {0};
    struct abx__state known;
    if (e->o.state_fd < 0)
        return;
    if (abx__state_unseal(e->o.state_fd, &known, &err) < 0) {
        abx_log(ABX_LOG_ERROR, "provisioning lost error=\"%s\"", err.msg);
        return;
    }
    abx__state_done(&e->state);
    e->state = known;
}

int abx_envd_main(const struct abx_envd_options *o)
{
    static struct abx__envd envd; /* large, and one to a process */
    struct abx__envd *e = &envd;
    struct abx_error err = {0};
    *e = (struct abx__envd){.o = *o, .tcp_fd = -1};
    abx_log_init("envd", ABX_LOG_INFO);
    umask(022);
    signal(SIGPIPE, SIG_IGN);
    abx__state_init(&e->state);
    abx_list_init(&e->polled);
    abx_buf_init(&e->scratch, ABX_PROCESS_CHUNK * 2);
    e->rpc_budget.max = RPC_BYTES_MAX;
    e->rpc = (struct abx_rpc_server){&e->loop, services, abx__cors, &e->rpc_budget};
    restore(e);
    if (abx_loop_init(&e->loop, &err) < 0) {
        abx_log(ABX_LOG_ERROR, "no start error=\"%s\"", err.msg);
        return 1;
    }
    if (start(e, &err) < 0) {
        abx_log(ABX_LOG_ERROR, "no start error=\"%s\"", err.msg);
        e->exit_code = 1;
        stop(e);
    }
    abx_loop_run(&e->loop);
    abx_loop_done(&e->loop);
    abx__state_done(&e->state);
    abx_buf_done(&e->scratch);
    abx_fd_close(&e->tcp_fd);
    abx_fd_close(&e->o.channel_fd);
    abx_fd_close(&e->o.init_fd);
    abx_fd_close(&e->o.state_fd);
    return e->exit_code;
}
