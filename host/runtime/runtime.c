/* host/runtime/runtime.c: the network side's half: starts the runtime side and sends it requests.
 * Loop thread only. Answers come by tag; a request that the socket does not take yet waits. */
#include "host/runtime/runtime_priv.h"

#include "lib/base/fd.h"
#include "lib/base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { START_LIMIT_S = 60 };

struct answer { /* one of the functions */
    abx_runtime_created_fn *created;
    abx_runtime_done_fn *done;
    abx_runtime_imported_fn *imported;
    abx_runtime_found_fn *found;
    void *arg;
};
/* A reply with what follows it; zeroed for a request that failed here. */
union message {
    struct abx__rt_reply head;
    char bytes[ABX__RT_REPLY_MAX];
};

struct pending {
    struct abx_list node;
    uint64_t tag;
    void *message; /* until it is sent, as are the descriptors */
    size_t len;
    int fds[ABX__RT_FDS_MAX];
    size_t fd_count;
    struct answer answer;
    struct abx_error err; /* of a request that never left */
};

struct abx_runtime {
    struct abx_loop *loop;
    struct abx_poll poll;
    struct abx_defer defer; /* answers of requests in `failed` */
    int sock;
    struct abx_runtime_events events;
    struct abx_list unsent, sent, failed;
    size_t count;
    uint64_t last_tag;
    bool lost, closed;
};

/* ---- start ---- */
static int receive_start(int sock, struct abx__rt_reply *m, struct abx_error *err)
{
    ssize_t n = abx_fd_recv(sock, m, sizeof(*m), NULL, NULL);
    if (n != (ssize_t)sizeof(*m) || m->magic != ABX__RT_MAGIC)
        return abx_err_set(err, ABX_INTERNAL, "the runtime side died at its start");
    return 0;
}

static int await_ready(int sock, pid_t pid, struct abx_isolation *ret, struct abx_error *err)
{
    struct abx__rt_reply m;
    for (int i = 0; i < 2; i++) {
        if (receive_start(sock, &m, err) < 0)
            return -1;
        if (m.kind == ABX__RT_MAP_ME) {
            if (abx__ids_map_child(sock, pid, err) < 0)
                return -1;
            continue;
        }
        if (m.err.code != ABX_OK) {
            *err = m.err;
            return abx_err_wrap(err, "runtime side");
        }
        *ret = m.isolation;
        return 0;
    }
    return abx_err_set(err, ABX_INTERNAL, "the runtime side does not start");
}

int abx_runtime_start(const struct abx_runtime_options *o, struct abx_isolation *ret_isolation,
                      int *ret_sock, pid_t *ret_pid, struct abx_error *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return abx_err_sys(err, -errno, "socketpair");
    ABX_AUTO_FD ours = ends[0];
    ABX_AUTO_FD theirs = ends[1];
    struct abx__worker_start start = {.options = o, .sock = theirs};
    pid_t pid = abx_proc_fork_role("abx-runtime", abx__worker_main, &start, &theirs, 1, NULL);
    if (pid < 0)
        return abx_err_sys(err, pid, "fork the runtime side");
    abx_fd_close(&theirs);
    struct timeval limit = {.tv_sec = START_LIMIT_S}, none = {0};
    (void)setsockopt(ours, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    struct abx_error why = {0};
    if (await_ready(ours, pid, ret_isolation, &why) < 0) {
        abx_fd_close(&ours); /* it sees EOF */
        abx_proc_wait(pid, NULL);
        if (err != NULL)
            *err = why;
        return -1;
    }
    (void)setsockopt(ours, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none));
    *ret_sock = abx_fd_take(&ours);
    *ret_pid = pid;
    return 0;
}

/* ---- requests ---- */
/* The runtime side is trusted, but for the length of what it says. */
static void give_import(const struct answer *a, const union message *m, size_t len)
{
    size_t layers = m->head.count * sizeof(struct abx_layer_info);
    struct abx_import_result r = {.layer_count = m->head.count};
    struct abx_error err;
    if (m->head.count > ABX_LAYERS_MAX || m->head.config_bytes > ABX_IMPORT_CONFIG_MAX ||
        len != sizeof(m->head) + layers + m->head.config_bytes) {
        abx_err_set(&err, ABX_INTERNAL, "the runtime side's answer is malformed");
        a->imported(a->arg, NULL, &err);
        return;
    }
    memcpy(r.layers, m->bytes + sizeof(m->head), layers);
    r.config = abx_str_n(m->bytes + sizeof(m->head) + layers, m->head.config_bytes);
    a->imported(a->arg, &r, NULL);
}

static void give(const struct answer *a, const union message *m, size_t len,
                 const struct abx_error *err)
{
    if (a->created != NULL)
        a->created(a->arg, err ? NULL : &m->head.info, err);
    else if (a->done != NULL)
        a->done(a->arg, err);
    else if (a->found != NULL)
        a->found(a->arg, err ? 0 : m->head.count, err);
    else if (a->imported != NULL && err != NULL)
        a->imported(a->arg, NULL, err);
    else if (a->imported != NULL)
        give_import(a, m, len);
}

static void drop_fds(int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        abx_fd_close(&fds[i]);
}

static void finish(struct abx_runtime *rt, struct pending *p, const union message *m, size_t len,
                   const struct abx_error *err)
{
    abx_list_remove(&p->node);
    rt->count--;
    drop_fds(p->fds, p->fd_count);
    give(&p->answer, m, len, err);
    free(p->message);
    free(p);
}

static void finish_all(struct abx_runtime *rt, struct abx_list *list, enum abx_code code,
                       const char *text)
{
    struct pending *p;
    while ((p = abx_list_first(list, struct pending, node)) != NULL) {
        if (p->err.code == ABX_OK)
            abx_err_set(&p->err, code, "%s", text);
        struct abx_error err = p->err;
        finish(rt, p, NULL, 0, &err);
    }
}

static void on_failed(struct abx_defer *d)
{
    struct abx_runtime *rt = d->owner;
    finish_all(rt, &rt->failed, ABX_UNAVAILABLE, "the runtime side is gone");
}

static void flush(struct abx_runtime *rt)
{
    struct pending *p;
    while ((p = abx_list_first(&rt->unsent, struct pending, node)) != NULL) {
        ssize_t n = abx_fd_send(rt->sock, p->message, p->len, p->fds, p->fd_count);
        if (n == -EAGAIN)
            break;
        drop_fds(p->fds, p->fd_count);
        p->fd_count = 0;
        abx_list_remove(&p->node);
        free(p->message);
        p->message = NULL;
        if (n < 0)
            abx_err_sys(&p->err, (int)n, "ask the runtime side");
        abx_list_push(n < 0 ? &rt->failed : &rt->sent, &p->node);
    }
    if (!abx_list_empty(&rt->failed))
        abx_defer_start(&rt->defer, rt->loop, on_failed, rt);
    unsigned out = abx_list_empty(&rt->unsent) ? 0 : ABX_POLL_OUT;
    if (!rt->lost)
        abx_poll_set(&rt->poll, ABX_POLL_IN | out);
}

struct ask {
    struct abx__rt_request request;
    const void *tail;
    size_t tail_len;
    int fds[ABX__RT_FDS_MAX]; /* taken */
    size_t fd_count;
    struct answer answer;
};

/* The answer to a request that can not even be queued is given at once. */
static void refuse(struct ask *a, const char *why)
{
    struct abx_error err;
    drop_fds(a->fds, a->fd_count);
    abx_err_set(&err, ABX_RESOURCE_EXHAUSTED, "%s", why);
    give(&a->answer, NULL, 0, &err);
}

static void submit(struct abx_runtime *rt, struct ask *a)
{
    struct pending *p = rt->count < ABX__RT_PENDING_MAX ? calloc(1, sizeof(*p)) : NULL;
    char *message = p ? malloc(sizeof(a->request) + a->tail_len) : NULL;
    if (message == NULL) {
        free(p);
        refuse(a, "too many requests to the runtime side");
        return;
    }
    a->request.magic = ABX__RT_MAGIC;
    a->request.tag = ++rt->last_tag;
    memcpy(message, &a->request, sizeof(a->request));
    if (a->tail_len > 0)
        memcpy(message + sizeof(a->request), a->tail, a->tail_len);
    p->tag = rt->last_tag;
    p->message = message;
    p->len = sizeof(a->request) + a->tail_len;
    memcpy(p->fds, a->fds, sizeof(p->fds));
    p->fd_count = a->fd_count;
    p->answer = a->answer;
    rt->count++;
    abx_list_push(rt->lost ? &rt->failed : &rt->unsent, &p->node);
    flush(rt);
}

static void lose(struct abx_runtime *rt)
{
    rt->lost = true;
    abx_poll_set(&rt->poll, 0);
    finish_all(rt, &rt->sent, ABX_UNAVAILABLE, "the runtime side is gone");
    finish_all(rt, &rt->unsent, ABX_UNAVAILABLE, "the runtime side is gone");
    if (rt->events.on_lost != NULL)
        rt->events.on_lost(rt->events.arg);
}

static void answered(struct abx_runtime *rt, const union message *m, size_t len)
{
    struct pending *p;
    abx_list_foreach(p, &rt->sent, struct pending, node)
    {
        if (p->tag != m->head.tag)
            continue;
        finish(rt, p, m, len, m->head.err.code != ABX_OK ? &m->head.err : NULL);
        return;
    }
}

static void on_message(struct abx_poll *poll, unsigned events)
{
    struct abx_runtime *rt = poll->owner;
    if (events & ABX_POLL_OUT)
        flush(rt);
    static union message m;
    ssize_t n = recv(rt->sock, &m, sizeof(m), MSG_DONTWAIT | MSG_TRUNC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < (ssize_t)sizeof(m.head) || n > (ssize_t)sizeof(m) || m.head.magic != ABX__RT_MAGIC) {
        lose(rt);
        return;
    }
    if (m.head.kind == ABX__RT_DONE)
        answered(rt, &m, (size_t)n);
    else if (m.head.kind == ABX__RT_EXIT && rt->events.on_sandbox_exit != NULL)
        rt->events.on_sandbox_exit(rt->events.arg, m.head.info.id, &m.head.status);
}

int abx_runtime_attach(struct abx_loop *l, int take_sock, const struct abx_runtime_events *ev,
                       struct abx_runtime **ret, struct abx_error *err)
{
    struct abx_runtime *rt = calloc(1, sizeof(*rt));
    if (rt == NULL) {
        abx_fd_close(&take_sock);
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory");
    }
    rt->loop = l;
    rt->sock = take_sock;
    rt->events = *ev;
    abx_list_init(&rt->unsent);
    abx_list_init(&rt->sent);
    abx_list_init(&rt->failed);
    if (abx_poll_init(&rt->poll, l, rt->sock, on_message, rt, err) < 0) {
        abx_fd_close(&rt->sock);
        free(rt);
        return -1;
    }
    abx_poll_set(&rt->poll, ABX_POLL_IN);
    *ret = rt;
    return 0;
}

static void on_closed(void *owner)
{
    free(owner);
}

void abx_runtime_close(struct abx_runtime *rt)
{
    if (rt == NULL || rt->closed)
        return;
    rt->closed = rt->lost = true;
    abx_defer_cancel(&rt->defer);
    abx_poll_close(&rt->poll, on_closed);
    abx_fd_close(&rt->sock);
    finish_all(rt, &rt->sent, ABX_CANCELED, "the engine is stopping");
    finish_all(rt, &rt->unsent, ABX_CANCELED, "the engine is stopping");
    finish_all(rt, &rt->failed, ABX_CANCELED, "the engine is stopping");
}

void abx_runtime_create(struct abx_runtime *rt, const struct abx_sandbox_spec *spec,
                        abx_runtime_created_fn *done, void *arg)
{
    struct ask a = {.request = {.verb = ABX__RT_CREATE, .spec = *spec},
                    .answer = {.created = done, .arg = arg}};
    submit(rt, &a);
}

void abx_runtime_adopt(struct abx_runtime *rt, const struct abx_sandbox_info *known,
                       const unsigned char nonce[ABX_NONCE_LEN], abx_runtime_created_fn *done,
                       void *arg)
{
    struct ask a = {.request = {.verb = ABX__RT_ADOPT, .known = *known},
                    .answer = {.created = done, .arg = arg}};
    memcpy(a.request.spec.id, known->id, sizeof(known->id));
    memcpy(a.request.spec.nonce, nonce, ABX_NONCE_LEN);
    submit(rt, &a);
}

void abx_runtime_destroy(struct abx_runtime *rt, const char *id, abx_runtime_done_fn *done,
                         void *arg)
{
    struct ask a = {.request = {.verb = ABX__RT_DESTROY}, .answer = {.done = done, .arg = arg}};
    (void)abx_str_to_c(abx_str(id), a.request.spec.id, sizeof(a.request.spec.id));
    submit(rt, &a);
}

void abx_runtime_gc(struct abx_runtime *rt, const char *const *keep_ids, size_t keep_count,
                    abx_runtime_done_fn *done, void *arg)
{
    struct ask a = {.request = {.verb = ABX__RT_GC}, .answer = {.done = done, .arg = arg}};
    char *tail = keep_count <= ABX__RT_KEEP_MAX ? calloc(keep_count + 1, ABX_SANDBOX_ID_LEN) : NULL;
    if (tail == NULL) {
        refuse(&a, "too many sandboxes for one gc");
        return;
    }
    for (size_t i = 0; i < keep_count; i++)
        memcpy(tail + i * ABX_SANDBOX_ID_LEN, keep_ids[i],
               strnlen(keep_ids[i], ABX_SANDBOX_ID_LEN));
    a.request.keep_count = (uint32_t)keep_count;
    a.tail = tail;
    a.tail_len = keep_count * ABX_SANDBOX_ID_LEN;
    submit(rt, &a);
    free(tail);
}

/* ---- layers and builds ---- */
void abx_runtime_import(struct abx_runtime *rt, enum abx_import_kind kind, int take_fd,
                        abx_runtime_imported_fn *done, void *arg)
{
    struct ask a = {.request = {.verb = ABX__RT_IMPORT, .import_kind = kind},
                    .fds = {take_fd},
                    .fd_count = 1,
                    .answer = {.imported = done, .arg = arg}};
    submit(rt, &a);
}

void abx_runtime_export(struct abx_runtime *rt, const struct abx_digest *layer, int take_fd,
                        abx_runtime_imported_fn *done, void *arg)
{
    struct ask a = {.request = {.verb = ABX__RT_EXPORT,
                                .import_kind = layer ? ABX__EXPORT_LAYER : ABX__EXPORT_RUNTIME},
                    .fds = {take_fd},
                    .fd_count = 1,
                    .answer = {.imported = done, .arg = arg}};
    if (layer != NULL)
        a.request.digest = *layer;
    submit(rt, &a);
}

static void submit_digests(struct abx_runtime *rt, struct ask *a, const struct abx_digest *layers,
                           size_t count)
{
    if (count > ABX_LAYERS_KEPT_MAX) {
        refuse(a, "too many layers in one request");
        return;
    }
    a->request.keep_count = (uint32_t)count;
    a->tail = layers;
    a->tail_len = count * sizeof(*layers);
    submit(rt, a);
}

void abx_runtime_layers_find(struct abx_runtime *rt, const struct abx_digest *layers, size_t count,
                             abx_runtime_found_fn *done, void *arg)
{
    struct ask a = {.request = {.verb = ABX__RT_FIND}, .answer = {.found = done, .arg = arg}};
    submit_digests(rt, &a, layers, count);
}

void abx_runtime_layers_gc(struct abx_runtime *rt, const struct abx_digest *keep, size_t count,
                           abx_runtime_done_fn *done, void *arg)
{
    struct ask a = {.request = {.verb = ABX__RT_LAYERS_GC}, .answer = {.done = done, .arg = arg}};
    submit_digests(rt, &a, keep, count);
}

void abx_runtime_step(struct abx_runtime *rt, const struct abx_sandbox_spec *spec, int take_line,
                      int take_archive, int take_feed, abx_runtime_created_fn *done, void *arg)
{
    struct ask a = {.request = {.verb = ABX__RT_CREATE, .spec = *spec},
                    .fds = {take_line, take_archive, take_feed},
                    .fd_count = take_archive >= 0 ? 3 : 1,
                    .answer = {.created = done, .arg = arg}};
    a.request.spec.is_step = true;
    submit(rt, &a);
}

void abx_runtime_seal(struct abx_runtime *rt, const char *id, const struct abx_digest *digest,
                      abx_runtime_done_fn *done, void *arg)
{
    struct ask a = {.request = {.verb = ABX__RT_SEAL, .digest = *digest},
                    .answer = {.done = done, .arg = arg}};
    (void)abx_str_to_c(abx_str(id), a.request.spec.id, sizeof(a.request.spec.id));
    submit(rt, &a);
}
