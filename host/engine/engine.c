/* host/engine/engine.c: the network side put together, run, and taken apart. Loop thread.
 *
 * Order at start: folders and lock, the runtime side (forked before anything else is open), the
 * listeners, the client's configuration, confinement; then the loop: recover, serve. */
#include "host/engine/builds_priv.h"
#include "host/engine/edge_priv.h"
#include "host/engine/sink_priv.h"
#include "host/engine/startup_priv.h"
#include "host/image/unpack.h"

#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/time.h"
#include "lib/contract/contract.h"
#include "lib/loop/fdcheck.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum {
    CLIENT_CONNS_MAX = 8000,
    IDLE_UPSTREAM_MAX = 32, /* kept-alive connections to one gateway */
    FDS_RESERVED = 256,
    RUNTIME_END_MS = 5000,
};

/* The runtime side and everything else that only a real engine has. */
struct program {
    struct abx__engine engine;
    const struct abx_engine_options *o;
    struct abx__statedir dir;
    struct abx__listeners listeners;
    struct abx_signal term, interrupt;
    int runtime_sock;
    pid_t runtime_pid;
    int ready_fd;
    struct abx_error failure; /* of what runs on the loop */
};

int abx__engine_open(struct abx__engine *e, const char *db_path, struct abx_error *err)
{
    abx_list_init(&e->gc_waiters);
    struct abx_http_server_options so = {.on_request = abx__edge_on_request,
                                         .user = e,
                                         .max_conns = CLIENT_CONNS_MAX,
                                         .turns_away = true};
    if (e->max_sandboxes == 0)
        e->max_sandboxes = ABX__SANDBOXES_MAX;
    abx_map_init(&e->sandboxes, e->max_sandboxes * 2);
    if (abx_store_open(db_path, &e->store, err) < 0 || abx__builds_open(e, err) < 0)
        return -1;
    abx__reserve_open(e);
    randombytes_buf(e->link_key, sizeof(e->link_key));
    abx__sinks_sweep(e);
    if (abx_http_pool_open(&e->loop, abx__gateway_connect, e, IDLE_UPSTREAM_MAX, &e->pool, err) < 0)
        return -1;
    return abx_http_server_open(&e->loop, &so, &e->server, err);
}

struct recovery {
    struct abx__engine *engine;
    struct abx_error *err;
    bool failed;
};

static void recover_row(void *arg, const struct abx_store_sandbox *row, bool has_intent)
{
    struct recovery *r = arg;
    if (!r->failed && abx__sandbox_recover(r->engine, row, has_intent, r->err) < 0)
        r->failed = true;
}

/* Every sandbox that is known, in @ret (arena-free heap array). -1 without memory. */
static int snapshot(const struct abx__engine *e, struct abx__sandbox ***ret, size_t *ret_count)
{
    size_t it = 0, n = 0;
    struct abx_str id;
    void *value;
    struct abx__sandbox **all = calloc(e->sandboxes.count + 1, sizeof(struct abx__sandbox *));
    if (all == NULL)
        return -1;
    while (abx_map_next(&e->sandboxes, &it, &id, &value))
        all[n++] = value;
    *ret = all;
    *ret_count = n;
    return 0;
}

static void on_swept(void *arg, const struct abx_error *err)
{
    struct abx__engine *e = arg;
    if (e->stopping)
        return;
    struct abx_error failure = {0};
    if (err != NULL)
        abx_log(ABX_LOG_WARN, "gc error=\"%s\"", err->msg);
    else if (abx_store_unreserve_all(e->store, &failure) < 0)
        abx_log(ABX_LOG_WARN, "old intents stay error=\"%s\"", failure.msg);
    abx__reserve_plan(e);
    e->on_started(e);
    abx__builds_begin(e);
}

/* What none of our sandboxes owns goes. */
static int sweep(struct abx__engine *e, abx_runtime_done_fn *done, size_t *ret_count)
{
    ABX_AUTO_FREE struct abx__sandbox **all = NULL;
    ABX_AUTO_FREE const char **keep = NULL;
    if (snapshot(e, &all, ret_count) < 0)
        return -1;
    keep = calloc(*ret_count + 1, sizeof(*keep));
    if (keep == NULL)
        return -1;
    for (size_t i = 0; i < *ret_count; i++)
        keep[i] = all[i]->id;
    abx_runtime_gc(e->rt, keep, *ret_count, done, e);
    return 0;
}

/* All are settled: then the door opens. */
static void on_recovered(struct abx__engine *e)
{
    size_t count = 0;
    e->started = NULL;
    if (sweep(e, on_swept, &count) == 0) {
        abx_log(ABX_LOG_INFO, "recovered sandboxes=%zu", count);
        return;
    }
    abx_log(ABX_LOG_ERROR, "no memory for gc");
    e->on_started(e);
}

static void on_collected(void *arg, const struct abx_error *err)
{
    struct abx__engine *e = arg;
    struct abx__wait *w;
    while ((w = abx_list_first(&e->gc_waiters, struct abx__wait, node)) != NULL) {
        abx_list_remove(&w->node);
        w->fn(w, NULL, err);
    }
    e->collecting = false;
}

int abx__engine_collect(struct abx__engine *e, struct abx__wait *w, struct abx_error *err)
{
    size_t count;
    bool is_first = !e->collecting;
    abx_list_push(&e->gc_waiters, &w->node);
    e->collecting = true;
    if (!is_first || sweep(e, on_collected, &count) == 0)
        return 0;
    abx_list_remove(&w->node);
    e->collecting = false;
    return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory for a collection");
}

int abx__engine_recover(struct abx__engine *e, void (*started)(struct abx__engine *e),
                        struct abx_error *err)
{
    struct recovery r = {.engine = e, .err = err};
    ABX_AUTO_FREE struct abx__sandbox **all = NULL;
    size_t count = 0;
    e->on_started = started;
    e->started = on_recovered;
    if (abx_store_each(e->store, recover_row, &r, err) < 0 || r.failed)
        return -1;
    if (snapshot(e, &all, &count) < 0)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory for %zu sandboxes", count);
    if (count == 0)
        on_recovered(e);
    for (size_t i = 0; i < count; i++)
        abx__sandbox_settle(all[i]);
    return 0;
}

void abx__engine_on_sandbox_exit(void *arg, const char *id, const struct abx_proc_status *st)
{
    struct abx__sandbox *sb = abx__sandbox_find_any(arg, abx_str(id));
    if (sb != NULL)
        abx__sandbox_exited(sb, st);
}

static void on_server_closed(void *arg)
{
    struct abx__engine *e = arg;
    ABX_AUTO_FREE struct abx__sandbox **all = NULL;
    size_t count = 0;
    e->server = NULL;
    abx__reserve_close(e);
    abx__builds_close(e);
    abx_runtime_close(ABX_TAKE(e->rt));
    if (snapshot(e, &all, &count) < 0)
        abx_log(ABX_LOG_ERROR, "no memory to end in order");
    for (size_t i = 0; i < count; i++)
        abx__sandbox_forget(all[i]);
    abx_http_pool_close(ABX_TAKE(e->pool));
}

void abx__engine_close(struct abx__engine *e, bool now)
{
    if (e->stopping)
        return;
    e->stopping = true;
    abx_http_server_close(e->server, now, on_server_closed, e);
}

void abx__engine_done(struct abx__engine *e)
{
    abx_store_close(ABX_TAKE(e->store));
    abx_map_done(&e->sandboxes);
}

/* The program. */

static void stop(struct program *p)
{
    abx_signal_close(&p->term, NULL);
    abx_signal_close(&p->interrupt, NULL);
    abx__engine_close(&p->engine, false);
}

static void on_signal(struct abx_signal *s, int signum)
{
    abx_log(ABX_LOG_INFO, "ending signal=%d", signum);
    stop(s->owner);
}

static void on_lost(void *arg)
{
    struct abx__engine *e = arg;
    struct program *p = e->user;
    abx_err_set(&p->failure, ABX_INTERNAL, "the runtime side ended; its log lines say why");
    stop(p);
}

static void say_ready(struct program *p)
{
    ABX_AUTO_BUF b = {.max = 256};
    ABX_AUTO_FD fd = p->ready_fd;
    p->ready_fd = -1;
    abx_log(ABX_LOG_INFO, "serving url=%s", p->engine.url);
    if (fd < 0)
        return;
    abx_buf_putf(&b, "%s\n", p->engine.url);
    int r = abx_buf_failed(&b) ? -ENOMEM : abx_fd_write_all(fd, b.ptr, b.len);
    if (r < 0)
        abx_log(ABX_LOG_WARN, "nobody hears that the engine is ready errno=%d", -r);
}

static void on_started(struct abx__engine *e)
{
    struct program *p = e->user;
    for (size_t i = 0; i < p->listeners.count; i++) {
        if (abx_http_server_listen(e->server, abx_fd_take(&p->listeners.fds[i]), (int)i,
                                   &p->failure) < 0) {
            stop(p);
            return;
        }
    }
    say_ready(p);
}

static size_t admitted_sandboxes(void)
{
    struct rlimit lim;
    if (getrlimit(RLIMIT_NOFILE, &lim) < 0)
        return 1;
    lim.rlim_cur = lim.rlim_max;
    setrlimit(RLIMIT_NOFILE, &lim);
    size_t n =
        lim.rlim_cur <= FDS_RESERVED ? 1 : (lim.rlim_cur - FDS_RESERVED) / ABX__FDS_PER_SANDBOX;
    return n < ABX__SANDBOXES_MAX ? n : ABX__SANDBOXES_MAX;
}

/* What was opened before a start failed is closed again, on the loop. */
static void abandon(struct program *p)
{
    struct abx__engine *e = &p->engine;
    abx_signal_close(&p->term, NULL);
    abx_signal_close(&p->interrupt, NULL);
    if (e->server != NULL) {
        abx__engine_close(e, true);
        return;
    }
    e->stopping = true;
    abx__builds_close(e);
    if (e->rt != NULL)
        abx_runtime_close(ABX_TAKE(e->rt));
    if (e->pool != NULL)
        abx_http_pool_close(ABX_TAKE(e->pool));
}

static int open_all(struct program *p, struct abx_error *err)
{
    struct abx__engine *e = &p->engine;
    struct abx_runtime_events ev = {abx__engine_on_sandbox_exit, on_lost, e};
    if (abx_runtime_attach(&e->loop, abx_fd_take(&p->runtime_sock), &ev, &e->rt, err) < 0 ||
        abx_signal_init(&p->term, &e->loop, SIGTERM, on_signal, p, err) < 0 ||
        abx_signal_init(&p->interrupt, &e->loop, SIGINT, on_signal, p, err) < 0 ||
        abx__engine_open(e, "abx.db", err) < 0 ||
        abx_store_key_put(e->store, "default", abx_str(p->dir.key), err) < 0)
        return -1;
    return abx__engine_recover(e, on_started, err);
}

/* On the loop, confined. */
static int run(struct program *p, struct abx_error *err)
{
    struct abx__engine *e = &p->engine;
    if (abx_loop_init(&e->loop, err) < 0)
        return -1;
    if (open_all(p, &p->failure) < 0)
        abandon(p);
    abx_loop_run(&e->loop);
    abx__engine_done(e);
    abx_loop_done(&e->loop);
    if (p->failure.code == ABX_OK)
        return 0;
    *err = p->failure;
    return -1;
}

static int prepare(struct program *p, struct abx_error *err)
{
    struct abx__engine *e = &p->engine;
    uid_t uid;
    gid_t gid;
    abx__network_identity(&uid, &gid);
    if (abx__statedir_open(&p->dir, p->o->state_dir, uid, gid, err) < 0)
        return -1;
    p->dir.client_config = p->o->client_config;
    struct abx_runtime_options ro = {.state_dir = p->o->state_dir,
                                     .unpack = abx_image_unpack,
                                     .guest_path = p->o->guest_path,
                                     .guest_libs = p->o->guest_libs,
                                     .shim_path = p->o->shim_path,
                                     .network_uid = uid,
                                     .network_gid = gid};
    if (abx_runtime_start(&ro, &e->isolation, &p->runtime_sock, &p->runtime_pid, err) < 0 ||
        abx__listen(p->o, abx__statedir_last_port(&p->dir), &p->listeners, err) < 0)
        return -1;
    const char *host = p->listeners.host[0] == '\0' ? "127.0.0.1" : p->listeners.host;
    bool is_v6 = strchr(host, ':') != NULL;
    snprintf(e->url, sizeof(e->url), "http://%s%s%s:%u", is_v6 ? "[" : "", host, is_v6 ? "]" : "",
             (unsigned)p->listeners.port);
    snprintf(e->domain, sizeof(e->domain), "abx.localhost:%u", (unsigned)p->listeners.port);
    snprintf(e->listen_host, sizeof(e->listen_host), "%s", p->listeners.host);
    e->any_ip = p->listeners.any_ip;
    e->port = p->listeners.port;
    e->no_host_template = p->o->no_host_template;
    e->sandboxes_fd = p->dir.sandboxes_fd;
    e->files_fd = p->dir.db_fd; /* beside the database: the one folder it may write to */
    e->max_sandboxes = admitted_sandboxes();
    if (abx__statedir_publish(&p->dir, e->url, e->domain, err) < 0)
        return -1;
    abx_fd_close(&p->dir.fd); /* nothing is to be reached through it any more */
    /* The database is opened by a relative name: the unprivileged uid may not be able to walk to
     * the state folder from /. */
    if (fchdir(p->dir.db_fd) < 0)
        return abx_err_sys(err, -errno, "enter the database's folder");
    return abx__confine(uid, gid, p->dir.db_fd, err);
}

/* The runtime side ends by itself at EOF of the socket; it is waited for, but not for ever. */
static void end_runtime(struct program *p)
{
    struct abx_proc_status st;
    abx_fd_close(&p->runtime_sock);
    if (p->runtime_pid <= 0)
        return;
    ABX_AUTO_FD pidfd = (int)syscall(SYS_pidfd_open, p->runtime_pid, 0);
    struct pollfd pfd = {.fd = pidfd, .events = POLLIN};
    if (pidfd >= 0 && poll(&pfd, 1, RUNTIME_END_MS) == 1)
        abx_proc_wait(p->runtime_pid, &st);
    else
        abx_log(ABX_LOG_WARN, "the runtime side is still at work pid=%d", (int)p->runtime_pid);
}

int abx_engine_main(const struct abx_engine_options *o, struct abx_error *err)
{
    struct program p = {
        .o = o,
        .runtime_sock = -1,
        .ready_fd = o->ready_fd,
        .listeners = {.fds = {-1, -1}},
        .dir = {.fd = -1, .lock_fd = -1, .info_fd = -1, .db_fd = -1, .sandboxes_fd = -1}};
    struct abx_fdcheck fds;
    abx_fdcheck_note(&fds);
    p.engine.user = &p;
    signal(SIGPIPE, SIG_IGN);
    int r = prepare(&p, err);
    if (r == 0)
        r = run(&p, err);
    end_runtime(&p);
    if (p.engine.url[0] != '\0')
        abx__statedir_retire(&p.dir);
    abx__listeners_close(&p.listeners);
    abx_fd_close(&p.ready_fd);
    abx__statedir_close(&p.dir);
    abx_fdcheck_report(&fds);
    return r;
}
