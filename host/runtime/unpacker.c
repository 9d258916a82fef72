/* host/runtime/unpacker.c: confined workers for archives (security S53), the runtime side's half:
 * asks the process that makes them, and takes what they unpacked into the layer store. */
#include "host/runtime/unpacker_priv.h"

#include "lib/base/fd.h"
#include "lib/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { IMPORTS_MAX = 16 };

/* One import: its worker writes into `scratch`, then says what came of it. An export has no
 * scratch: its worker only reads. */
struct import {
    struct abx_list node;
    struct abx__worker *w;
    struct abx_poll poll;
    struct abx_work work;
    uint64_t tag;
    int result_fd, scratch_fd;
    char scratch[32];
    struct abx_unpack_result *result;
};

int abx__unpacker_needs_range(const struct abx__worker *w, struct abx_error *err)
{
    if (w->ids.level != ABX__IDS_SHARED)
        return 0;
    unsigned uid = (unsigned)w->caller_uid;
    return abx_err_set(err, ABX_FAILED_PRECONDITION,
                       "images need a range of ids: install uidmap and add the line "
                       "\"%u:100000:65536\" to /etc/subuid and the same line to /etc/subgid",
                       uid);
}

int abx__unpacker_start(struct abx__worker *w, struct abx_error *err)
{
    int ends[2];
    w->unpacker_sock = -1;
    abx_list_init(&w->imports);
    if (w->options.unpack == NULL || w->ids.level == ABX__IDS_SHARED)
        return 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return abx_err_sys(err, -errno, "socketpair");
    ABX_AUTO_FD theirs = ends[1];
    w->unpacker_sock = ends[0];
    struct abx__unpacker_main m = {theirs, w->options.unpack, w->ids.storage_base};
    w->unpacker_pid = abx_proc_fork_role("abx-unpacker", abx__unpacker_main, &m, &theirs, 1, NULL);
    return w->unpacker_pid < 0 ? abx_err_sys(err, w->unpacker_pid, "fork the unpacker") : 0;
}

static int ask(struct abx__worker *w, enum abx_unpack_kind kind, const int *fds, size_t count,
               struct abx_error *err)
{
    struct abx__unpacker_ask a = {.magic = ABX__RT_MAGIC, .kind = kind};
    if (w->unpacker_sock < 0 && abx__unpacker_needs_range(w, err) < 0)
        return -1;
    if (w->unpacker_sock < 0)
        return abx_err_set(err, ABX_UNAVAILABLE, "this engine unpacks no archives");
    ssize_t n = abx_fd_send(w->unpacker_sock, &a, sizeof(a), fds, count);
    return n < 0 ? abx_err_sys(err, (int)n, "ask for a worker") : 0;
}

int abx__unpacker_copy(struct abx__worker *w, int take_archive, int take_feed,
                       struct abx_error *err)
{
    int fds[] = {take_archive, take_feed};
    int r = ask(w, ABX_UNPACK_COPY, fds, ABX_COUNTOF(fds), err);
    abx_fd_close(&take_archive);
    abx_fd_close(&take_feed);
    return r;
}

/* ---- imports ---- */
static void import_free(void *owner)
{
    struct import *i = owner;
    free(i->result);
    free(i);
}

/* Answers, and lets go of everything but the scratch folder, which is gone or will be swept. */
static void import_end(struct import *i, const struct abx_error *err)
{
    struct abx_unpack_result *r = i->result;
    union {
        struct abx__rt_reply head;
        char bytes[ABX__RT_REPLY_MAX];
    } *m = calloc(1, sizeof(*m));
    struct abx_error none;
    if (m == NULL) {
        abx_err_set(&none, ABX_RESOURCE_EXHAUSTED, "no memory");
        abx__worker_reply(i->w, i->tag, NULL, &none);
    } else {
        size_t len = sizeof(m->head);
        m->head =
            (struct abx__rt_reply){.magic = ABX__RT_MAGIC, .kind = ABX__RT_DONE, .tag = i->tag};
        if (err != NULL) {
            m->head.err = *err;
        } else {
            m->head.count = r->layer_count;
            m->head.config_bytes = r->config_bytes;
            memcpy(m->bytes + len, r->layers, r->layer_count * sizeof(r->layers[0]));
            len += r->layer_count * sizeof(r->layers[0]);
            memcpy(m->bytes + len, r->config, r->config_bytes);
            len += r->config_bytes;
        }
        abx__worker_send(i->w, m, len);
    }
    free(m);
    abx_list_remove(&i->node);
    i->w->import_count--;
    abx_fd_close(&i->scratch_fd);
    abx_fd_close(&i->result_fd);
    abx_poll_close(&i->poll, import_free);
}

/* The lowest layer first, so that a layer is never there before those below it. */
static int take_layers(struct import *i)
{
    struct abx_unpack_result *r = i->result;
    for (uint32_t at = r->layer_count; at-- > 0;) {
        char name[16];
        struct abx_digest parents[ABX_LAYERS_MAX];
        uint32_t below = r->layer_count - at - 1;
        for (uint32_t p = 0; p < below; p++)
            parents[p] = r->layers[at + 1 + p].digest;
        snprintf(name, sizeof(name), "l%u", at);
        struct abx__new_layer layer = {r->layers[at], parents, below};
        int failed = abx__store_add(i->w, i->scratch_fd, name, &layer);
        if (failed < 0)
            return failed;
    }
    return 0;
}

static void take_run(struct abx_work *work)
{
    struct import *i = work->owner;
    struct abx_unpack_result *r = i->result;
    if (i->scratch[0] == 0)
        return;
    if (r->err.code == ABX_OK) {
        int failed = take_layers(i);
        if (failed < 0)
            abx_err_sys(&r->err, failed, "keep the layers");
    }
    (void)abx_fd_remove_tree(i->w->layers_fd, i->scratch);
}

static void take_done(struct abx_work *work)
{
    struct import *i = work->owner;
    import_end(i, i->result->err.code != ABX_OK ? &i->result->err : NULL);
}

/* What a worker says is checked like a request: it has read hostile bytes. */
static bool is_sound(const struct abx_unpack_result *r, ssize_t n)
{
    if (n != (ssize_t)sizeof(*r))
        return false;
    if (r->err.code != ABX_OK)
        return r->err.code > ABX_OK && r->err.code < ABX_CODE__COUNT &&
               memchr(r->err.msg, 0, sizeof(r->err.msg)) != NULL;
    return r->layer_count > 0 && r->layer_count <= ABX_LAYERS_MAX &&
           r->config_bytes <= ABX_IMPORT_CONFIG_MAX;
}

static void on_result(struct abx_poll *p, unsigned events)
{
    (void)events;
    struct import *i = p->owner;
    struct abx_error err;
    ssize_t n = recv(i->result_fd, i->result, sizeof(*i->result), MSG_DONTWAIT | MSG_TRUNC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    abx_poll_set(&i->poll, 0);
    if (!is_sound(i->result, n)) {
        *i->result = (struct abx_unpack_result){0};
        abx_err_set(&i->result->err, ABX_RESOURCE_EXHAUSTED,
                    "the archive's worker died: it is too large, or takes too long");
    }
    i->work = (struct abx_work){0};
    if (abx_work_start(&i->work, &i->w->loop, take_run, take_done, i, &err) == 0)
        return;
    i->work.owner = i;
    take_run(&i->work);
    take_done(&i->work);
}

/* @i->scratch_fd becomes the worker's root. */
static int worker_start(struct import *i, enum abx_unpack_kind kind, int archive,
                        struct abx_error *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return abx_err_sys(err, -errno, "socketpair");
    ABX_AUTO_FD theirs = ends[1];
    i->result_fd = ends[0];
    int fds[] = {archive, i->scratch_fd, theirs};
    if (ask(i->w, kind, fds, ABX_COUNTOF(fds), err) < 0)
        return -1;
    if (abx_poll_init(&i->poll, &i->w->loop, i->result_fd, on_result, i, err) < 0)
        return -1;
    abx_poll_set(&i->poll, ABX_POLL_IN);
    abx_list_push(&i->w->imports, &i->node);
    i->w->import_count++;
    return 0;
}

static int import_start(struct import *i, enum abx_unpack_kind kind, int archive,
                        struct abx_error *err)
{
    int r = abx__store_scratch(i->w, i->scratch, &i->scratch_fd);
    if (r < 0)
        return abx_err_sys(err, r, "make a folder in layers");
    return worker_start(i, kind, archive, err);
}

static int export_start(struct import *i, const struct abx__rt_request *req, int file,
                        struct abx_error *err)
{
    bool is_layer = req->import_kind == ABX__EXPORT_LAYER;
    int fd = is_layer ? abx__store_layer(i->w, &req->digest)
                      : fcntl(i->w->layers.top_fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return abx_err_sys(err, is_layer ? fd : -errno, "open the layer");
    i->scratch_fd = fd;
    return worker_start(i, is_layer ? ABX_PACK_LAYER : ABX_PACK_RUNTIME, file, err);
}

static void begin(struct abx__worker *w, const struct abx__rt_request *req, int take_fd)
{
    struct abx_error err = {0};
    bool is_export = req->verb == ABX__RT_EXPORT;
    struct import *i = w->import_count < IMPORTS_MAX ? calloc(1, sizeof(*i)) : NULL;
    if (i != NULL)
        i->result = calloc(1, sizeof(*i->result));
    if (i == NULL || i->result == NULL) {
        abx_err_set(&err, ABX_RESOURCE_EXHAUSTED, "too many archives at once (%d)", IMPORTS_MAX);
    } else {
        i->w = w;
        i->tag = req->tag;
        i->result_fd = i->scratch_fd = -1;
        int r = abx__unpacker_needs_range(w, &err);
        if (r == 0)
            r = is_export ? export_start(i, req, take_fd, &err)
                          : import_start(i, (enum abx_unpack_kind)req->import_kind, take_fd, &err);
        if (r < 0) {
            if (i->scratch_fd >= 0 && i->scratch[0] != 0)
                (void)abx_fd_remove_tree(w->layers_fd, i->scratch);
            abx_fd_close(&i->scratch_fd);
            abx_fd_close(&i->result_fd);
        }
    }
    abx_fd_close(&take_fd);
    if (err.code == ABX_OK)
        return;
    if (i != NULL)
        import_free(i);
    abx__worker_reply(w, req->tag, NULL, &err);
}

void abx__unpacker_import(struct abx__worker *w, const struct abx__rt_request *req, int take_fd)
{
    begin(w, req, take_fd);
}

void abx__unpacker_export(struct abx__worker *w, const struct abx__rt_request *req, int take_fd)
{
    begin(w, req, take_fd);
}

void abx__unpacker_stop(struct abx__worker *w)
{
    struct import *i;
    abx_fd_close(&w->unpacker_sock);
    abx_list_foreach(i, &w->imports, struct import, node)
    {
        abx_list_remove(&i->node);
        if (i->work.run != NULL)
            continue; /* it ends by itself */
        abx_fd_close(&i->scratch_fd);
        abx_fd_close(&i->result_fd);
        abx_poll_close(&i->poll, import_free);
    }
}
