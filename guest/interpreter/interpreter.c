/* guest/interpreter/interpreter.c: the daemon: its listeners, its life, its end. */
#include "guest/interpreter/interpreter_priv.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/contract/contract.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { CHANNEL_FDS = 8, BACKLOG = 128, MAX_CONNS = 512, RETRY_MS = 100, ENVD_IDLE = 2 };

extern char **environ;

/* ---- the end ---- */

static void on_http_closed(void *arg)
{
    (void)arg;
}

static void stop(struct abx__interp *in)
{
    abx_poll_close(&in->channel, NULL);
    abx_poll_close(&in->tcp, NULL);
    abx_timer_close(&in->tcp_retry, NULL);
    abx_signal_close(&in->term, NULL);
    abx_signal_close(&in->interrupt, NULL);
    if (in->http != NULL)
        abx_http_server_close(in->http, true, on_http_closed, NULL);
    in->http = NULL;
    abx_contexts_close(in->contexts);
    in->contexts = NULL;
    abx_http_pool_close(in->envd);
    in->envd = NULL;
}

static void on_signal(struct abx_signal *s, int signum)
{
    abx_log(ABX_LOG_INFO, "stopping signal=%d", signum);
    stop(s->owner);
}

/* ---- connections ---- */

static void adopt(struct abx__interp *in, int take_fd, int tag)
{
    struct abx_error err = {0};
    if (abx_http_server_adopt(in->http, take_fd, tag, &err) < 0)
        abx_log(ABX_LOG_WARN, "connection refused error=\"%s\"", err.msg);
}

static void on_channel(struct abx_poll *p, unsigned events)
{
    struct abx__interp *in = p->owner;
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
            adopt(in, fds[f], ABX__INTERP_CHANNEL);
        }
        if (n > 0)
            continue;
        abx_log(ABX_LOG_WARN, "the channel is gone errno=%d", (int)-n);
        abx_poll_close(&in->channel, NULL);
        if (in->tcp_fd < 0)
            stop(in);
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
    struct abx__interp *in = t->owner;
    abx_poll_set(&in->tcp, ABX_POLL_IN);
}

static void on_tcp(struct abx_poll *p, unsigned events)
{
    struct abx__interp *in = p->owner;
    (void)events;
    int fd = -EMFILE;
    if (abx_http_server_conns(in->http) < MAX_CONNS) {
        fd = accept4(p->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        fd = fd < 0 ? -errno : fd;
    }
    if (fd >= 0)
        adopt(in, fd, is_local_peer(fd) ? ABX__INTERP_LOCAL : ABX__INTERP_TCP);
    else if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM || fd == -ENOBUFS) {
        abx_poll_set(&in->tcp, 0);
        abx_timer_start(&in->tcp_retry, RETRY_MS, 0);
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

static int start_listeners(struct abx__interp *in, struct abx_error *err)
{
    if (in->o.tcp_port != 0) {
        in->tcp_fd = listen_tcp(in->o.tcp_port, err);
        if (in->tcp_fd < 0 || abx_poll_init(&in->tcp, &in->loop, in->tcp_fd, on_tcp, in, err) < 0)
            return -1;
        abx_timer_init(&in->tcp_retry, &in->loop, on_tcp_retry, in);
        abx_poll_set(&in->tcp, ABX_POLL_IN);
    }
    if (in->o.channel_fd >= 0) {
        if (abx_poll_init(&in->channel, &in->loop, in->o.channel_fd, on_channel, in, err) < 0)
            return -1;
        abx_poll_set(&in->channel, ABX_POLL_IN);
    }
    return 0;
}

static const char *program_path(void)
{
    const char *path = getenv("PATH");
    return path != NULL && *path != '\0' ? path : ABX_SANDBOX_PATH;
}

/* They are listed from the start; their kernels come with the first cell. A language whose program
 * is missing has no context. */
static void make_defaults(struct abx__interp *in)
{
    static const enum abx_language_id first[] = {ABX_PYTHON, ABX_JAVASCRIPT};
    struct abx_error err;
    for (size_t i = 0; i < ABX_COUNTOF(first); i++)
        if (abx_context_default(in->contexts, first[i], &err) == NULL)
            abx_log(ABX_LOG_INFO, "no default context: %s", err.msg);
}

static int start(struct abx__interp *in, struct abx_error *err)
{
    struct abx_http_server_options http = {
        .on_request = abx__interp_on_request, .user = in, .max_conns = MAX_CONNS};
    struct abx_contexts_config contexts = {
        .path = program_path(), .envp = environ, .cwd = in->o.cwd};
    if (abx_signal_init(&in->term, &in->loop, SIGTERM, on_signal, in, err) < 0 ||
        abx_signal_init(&in->interrupt, &in->loop, SIGINT, on_signal, in, err) < 0 ||
        abx_http_pool_open(&in->loop, abx__interp_connect_envd, in, ENVD_IDLE, &in->envd, err) <
            0 ||
        abx_contexts_open(&in->loop, &contexts, &in->contexts, err) < 0 ||
        abx_http_server_open(&in->loop, &http, &in->http, err) < 0)
        return -1;
    make_defaults(in);
    return start_listeners(in, err);
}

bool abx_interpreter_is_useful(const char *path)
{
    static const enum abx_language_id needed[] = {ABX_PYTHON, ABX_JAVASCRIPT};
    char program[ABX_PROGRAM_MAX];
    struct abx_error err;
    for (size_t i = 0; i < ABX_COUNTOF(needed); i++)
        if (abx_language_program(abx_language(needed[i]), path, program, &err) == 0)
            return true;
    return false;
}

int abx_interpreter_main(const struct abx_interpreter_options *o)
{
    static struct abx__interp interpreter; /* large, and one to a process */
    struct abx__interp *in = &interpreter;
    struct abx_error err = {0};
    *in = (struct abx__interp){.o = *o, .tcp_fd = -1};
    if (in->o.cwd == NULL)
        in->o.cwd = ABX_USER_HOME;
    umask(022);
    signal(SIGPIPE, SIG_IGN);
    if (sodium_init() < 0) {
        abx_log(ABX_LOG_ERROR, "sodium_init failed");
        return 1;
    }
    if (abx_loop_init(&in->loop, &err) < 0) {
        abx_log(ABX_LOG_ERROR, "no start error=\"%s\"", err.msg);
        return 1;
    }
    if (start(in, &err) < 0) {
        abx_log(ABX_LOG_ERROR, "no start error=\"%s\"", err.msg);
        in->exit_code = 1;
        stop(in);
    }
    abx_loop_run(&in->loop);
    abx_loop_done(&in->loop);
    abx_fd_close(&in->tcp_fd);
    abx_fd_close(&in->o.channel_fd);
    abx_fd_close(&in->o.envd_fd);
    return in->exit_code;
}
