/* guest/interpreter/interpreter.c: the daemon: its listeners, its life, its end. */
#include "guest/interpreter/interpreter_priv.h"

#include "lib/base/address.h"
#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/contract/contract.h"

#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { MAX_CONNS = 512, ENVD_IDLE = 2 };

extern char **environ;

/* ---- the end ---- */

static void on_http_closed(void *arg)
{
    (void)arg;
}

static void stop(struct abx__interp *in)
{
    abx_http_channel_close(&in->channel);
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

static void on_channel_gone(void *arg)
{
    struct abx__interp *in = arg;
    if (in->o.tcp_port == 0)
        stop(in);
}

static int on_accept(void *user, int fd, int tag)
{
    (void)user;
    return abx_address_is_local_peer(fd) ? ABX__INTERP_LOCAL : tag;
}

/* ---- the start ---- */

static int start_listeners(struct abx__interp *in, struct abx_error *err)
{
    if (in->o.tcp_port != 0 &&
        abx_http_server_listen_any(in->http, in->o.tcp_port, ABX__INTERP_TCP, err) < 0)
        return -1;
    if (in->o.channel_fd < 0)
        return 0;
    return abx_http_channel_open(&in->channel, in->http, in->o.channel_fd, ABX__INTERP_CHANNEL,
                                 on_channel_gone, in, err);
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
    struct abx_http_server_options http = {.on_request = abx__interp_on_request,
                                           .on_accept = on_accept,
                                           .user = in,
                                           .max_conns = MAX_CONNS};
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
    *in = (struct abx__interp){.o = *o};
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
    abx_fd_close(&in->o.channel_fd);
    abx_fd_close(&in->o.envd_fd);
    return in->exit_code;
}
