/* guest/envd/envd.c: the daemon: its listeners, its life, its end (envd.md 1.1, security S41, S03).
 */
#include "guest/envd/envd_priv.h"

#include "lib/base/address.h"
#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"

#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { MAX_CONNS = 2000, RPC_BYTES_MAX = 64 << 20 };

static const struct abx_rpc_service *const services[] = {&abx__process_service,
                                                         &abx__filesystem_service, NULL};

/* ---- the end ---- */

static void on_http_closed(void *arg)
{
    (void)arg;
}

static void stop(struct abx__envd *e)
{
    abx_http_channel_close(&e->channel);
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

static void on_channel_gone(void *arg)
{
    struct abx__envd *e = arg;
    if (e->o.tcp_port == 0)
        stop(e);
}

static int on_accept(void *user, int fd, int tag)
{
    (void)user;
    return abx_address_is_local_peer(fd) ? ABX__TCP_LOCAL : tag;
}

/* ---- the start ---- */

static int start_listeners(struct abx__envd *e, struct abx_error *err)
{
    if (e->o.tcp_port != 0 &&
        abx_http_server_listen_any(e->http, e->o.tcp_port, ABX_ENVD_TCP, err) < 0)
        return -1;
    if (e->o.channel_fd < 0)
        return 0;
    return abx_http_channel_open(&e->channel, e->http, e->o.channel_fd, ABX_ENVD_ENGINE,
                                 on_channel_gone, e, err);
}

/* Of what it starts: its own, which PID 1 has completed (envd.md 5.3). */
static const char *own_path(void)
{
    const char *path = getenv("PATH");
    return path != NULL && *path != '\0' ? path : ABX_SANDBOX_PATH;
}

static int start(struct abx__envd *e, struct abx_error *err)
{
    struct abx_http_server_options http = {
        .on_request = abx__on_request, .on_accept = on_accept, .user = e, .max_conns = MAX_CONNS};
    struct abx_procs_config procs = {.path = own_path(), .spill_dir = e->o.spill_dir};
    if (abx_signal_init(&e->term, &e->loop, SIGTERM, on_signal, e, err) < 0 ||
        abx_signal_init(&e->interrupt, &e->loop, SIGINT, on_signal, e, err) < 0 ||
        abx_procs_new(&e->loop, &procs, &e->procs, err) < 0 ||
        abx_watches_new(&e->loop, &e->watches, err) < 0 ||
        abx_http_server_open(&e->loop, &http, &e->http, err) < 0)
        return -1;
    return start_listeners(e, err);
}

void abx__envd_take_state(struct abx__envd *e, const struct abx__state *next)
{
    abx__state_done(&e->state);
    e->state = *next;
    if (e->o.has_no_user)
        abx__state_without_user(&e->state, abx__users_root(e));
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
    abx__envd_take_state(e, &known);
}

int abx_envd_main(const struct abx_envd_options *o)
{
    static struct abx__envd envd; /* large, and one to a process */
    struct abx__envd *e = &envd;
    struct abx_error err = {0};
    *e = (struct abx__envd){.o = *o};
    abx_log_init("envd", ABX_LOG_INFO);
    umask(022);
    signal(SIGPIPE, SIG_IGN);
    abx__state_init(&e->state);
    abx_list_init(&e->polled);
    abx_buf_init(&e->scratch, ABX_PROCESS_CHUNK * 2);
    e->rpc_budget.max = RPC_BYTES_MAX;
    e->rpc = (struct abx_rpc_server){&e->loop, services, abx__cors, &e->rpc_budget};
    if (sodium_init() < 0) { /* before the pool: first uses are not thread-safe */
        abx_log(ABX_LOG_ERROR, "no start error=\"libsodium does not work\"");
        return 1;
    }
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
    abx_fd_close(&e->o.channel_fd);
    abx_fd_close(&e->o.init_fd);
    abx_fd_close(&e->o.state_fd);
    return e->exit_code;
}
