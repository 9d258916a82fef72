/* host/runtime/requests.c: the closed set of typed requests that the runtime side takes from the
 * network side (security S66). Every field is checked again; nothing else is parsed. */
#include "host/runtime/runtime_priv.h"

#include "lib/base/fd.h"

#include <errno.h>
#include <sys/socket.h>

#include "lib/base/banned.h"

enum {
    MEMORY_MIN_MB = 16,
    MEMORY_MAX_MB = 1024 * 1024,
    CPUS_MAX = 1024,
    PIDS_MIN = 8,
    PIDS_MAX = 65536,
    TAIL_MAX = ABX_LAYERS_KEPT_MAX * ABX_DIGEST_LEN,
    REQUEST_MAX = sizeof(struct abx__rt_request) + TAIL_MAX
};
_Static_assert(ABX__RT_KEEP_MAX *ABX_SANDBOX_ID_LEN <= TAIL_MAX, "the longest list of ids");

struct incoming {
    const struct abx__rt_request *r;
    const char *tail;
    size_t len;
    int fds[ABX__RT_FDS_MAX]; /* a handler that takes one leaves -1 */
    size_t fd_count;
};

bool abx__id_is_valid(const char id[ABX_SANDBOX_ID_LEN + 1])
{
    if (id[0] != 'i' || id[ABX_SANDBOX_ID_LEN] != 0)
        return false;
    for (int i = 1; i < ABX_SANDBOX_ID_LEN; i++)
        if (!((id[i] >= 'a' && id[i] <= 'z') || (id[i] >= '0' && id[i] <= '9')))
            return false;
    return true;
}

static bool in_range(uint32_t v, uint32_t least, uint32_t most)
{
    return v >= least && v <= most;
}

/* ---- what is wrong with a request, or NULL ---- */
static const char *check_create(const struct incoming *in)
{
    const struct abx_sandbox_spec *s = &in->r->spec;
    if (memchr(s->template_name, 0, sizeof(s->template_name)) == NULL)
        return "template";
    bool is_image = strcmp(s->template_name, "image") == 0;
    if (!is_image && strcmp(s->template_name, "host") != 0)
        return "template (host and image are known)";
    if (s->layer_count > ABX_LAYERS_MAX || (is_image && s->layer_count == 0 && !s->is_step) ||
        (!is_image && (s->layer_count > 0 || s->is_step)))
        return "list of layers";
    for (uint32_t i = 0; i < s->layer_count; i++)
        for (uint32_t j = 0; j < i; j++)
            if (memcmp(&s->layers[i], &s->layers[j], sizeof(s->layers[0])) == 0)
                return "list of layers: one is there twice";
    if (in->fd_count != 0 && !(s->is_step && (in->fd_count == 1 || in->fd_count == 3)))
        return "descriptors";
    if (s->is_step && in->fd_count == 0)
        return "descriptors";
    if (!in_range(s->memory_mb, MEMORY_MIN_MB, MEMORY_MAX_MB))
        return "memory";
    if (!in_range(s->cpu_count, 1, CPUS_MAX))
        return "cpu count";
    return in_range(s->pids_max, PIDS_MIN, PIDS_MAX) ? NULL : "pids";
}

static const char *check_adopt(const struct incoming *in)
{
    return in->r->known.shim_pid > 1 && in->r->known.shim_start_time != 0 ? NULL : "known shim";
}

static const char *check_import(const struct incoming *in)
{
    if (in->r->import_kind != ABX_IMPORT_ROOTFS && in->r->import_kind != ABX_IMPORT_OCI)
        return "kind of archive";
    return in->fd_count == 1 ? NULL : "descriptors";
}

static const char *check_export(const struct incoming *in)
{
    if (in->r->import_kind != ABX__EXPORT_LAYER && in->r->import_kind != ABX__EXPORT_RUNTIME)
        return "kind of layer";
    return in->fd_count == 1 ? NULL : "descriptors";
}

/* ---- what is done ---- */
static void do_create(struct abx__worker *w, struct incoming *in)
{
    struct abx_error err;
    const struct abx_sandbox_spec *s = &in->r->spec;
    if ((s->is_step && abx__unpacker_needs_range(w, &err) < 0) ||
        (in->fd_count == 3 &&
         abx__unpacker_copy(w, abx_fd_take(&in->fds[1]), abx_fd_take(&in->fds[2]), &err) < 0)) {
        abx__worker_reply(w, in->r->tag, NULL, &err);
        return;
    }
    abx__box_create(w, in->r, in->fd_count > 0 ? abx_fd_take(&in->fds[0]) : -1);
}

static void do_adopt(struct abx__worker *w, struct incoming *in)
{
    abx__box_adopt(w, in->r);
}

static void do_destroy(struct abx__worker *w, struct incoming *in)
{
    abx__box_destroy(w, in->r->spec.id, in->r->tag);
}

static void do_gc(struct abx__worker *w, struct incoming *in)
{
    abx__gc_start(w, in->r, in->tail);
}

static void do_seal(struct abx__worker *w, struct incoming *in)
{
    abx__box_seal(w, in->r);
}

static void do_import(struct abx__worker *w, struct incoming *in)
{
    abx__unpacker_import(w, in->r, abx_fd_take(&in->fds[0]));
}

static void do_export(struct abx__worker *w, struct incoming *in)
{
    abx__unpacker_export(w, in->r, abx_fd_take(&in->fds[0]));
}

static void do_find(struct abx__worker *w, struct incoming *in)
{
    struct abx__rt_reply m = {.magic = ABX__RT_MAGIC, .kind = ABX__RT_DONE, .tag = in->r->tag};
    for (uint32_t i = 0; i < in->r->keep_count; i++) {
        struct abx_digest d;
        memcpy(&d, in->tail + (size_t)i * sizeof(d), sizeof(d));
        m.count += !abx__store_has(w, &d);
    }
    abx__worker_send(w, &m, sizeof(m));
}

static void do_layers_gc(struct abx__worker *w, struct incoming *in)
{
    abx__store_gc(w, in->r, in->tail);
}

static const struct {
    void (*run)(struct abx__worker *w, struct incoming *in);
    const char *(*check)(const struct incoming *in);
    bool has_id;
    size_t item_bytes; /* of the list that follows; 0: none */
    uint32_t items_max, fds_max;
} verbs[ABX__RT_VERB__COUNT] = {
    [ABX__RT_CREATE] = {do_create, check_create, true, 0, 0, ABX__RT_FDS_MAX},
    [ABX__RT_ADOPT] = {do_adopt, check_adopt, true, 0, 0, 0},
    [ABX__RT_DESTROY] = {do_destroy, NULL, true, 0, 0, 0},
    [ABX__RT_GC] = {do_gc, NULL, false, ABX_SANDBOX_ID_LEN, ABX__RT_KEEP_MAX, 0},
    [ABX__RT_SEAL] = {do_seal, NULL, true, 0, 0, 0},
    [ABX__RT_IMPORT] = {do_import, check_import, false, 0, 0, 1},
    [ABX__RT_EXPORT] = {do_export, check_export, false, 0, 0, 1},
    [ABX__RT_FIND] = {do_find, NULL, false, ABX_DIGEST_LEN, ABX_LAYERS_KEPT_MAX, 0},
    [ABX__RT_LAYERS_GC] = {do_layers_gc, NULL, false, ABX_DIGEST_LEN, ABX_LAYERS_KEPT_MAX, 0},
};

static const char *refusal(const struct incoming *in)
{
    const struct abx__rt_request *r = in->r;
    if (r->verb >= ABX__RT_VERB__COUNT || verbs[r->verb].run == NULL)
        return "request: unknown";
    if (r->keep_count > verbs[r->verb].items_max ||
        in->len != sizeof(*r) + r->keep_count * verbs[r->verb].item_bytes)
        return "length";
    if (in->fd_count > verbs[r->verb].fds_max)
        return "descriptors";
    if (verbs[r->verb].has_id && !abx__id_is_valid(r->spec.id))
        return "sandbox id";
    return verbs[r->verb].check != NULL ? verbs[r->verb].check(in) : NULL;
}

static void dispatch(struct abx__worker *w, struct incoming *in)
{
    struct abx_error err;
    const char *wrong = refusal(in);
    if (wrong == NULL) {
        verbs[in->r->verb].run(w, in);
    } else {
        abx_err_set(&err, ABX_INVALID_ARGUMENT, "runtime: bad %s", wrong);
        abx__worker_reply(w, in->r->tag, NULL, &err);
    }
    for (size_t i = 0; i < in->fd_count; i++)
        abx_fd_close(&in->fds[i]);
}

void abx__worker_on_request(struct abx_poll *p, unsigned events)
{
    (void)events;
    struct abx__worker *w = p->owner;
    static union {
        struct abx__rt_request request;
        char bytes[REQUEST_MAX + 1]; /* one more: what is too long is seen */
    } m;
    struct incoming in = {.r = &m.request, .tail = m.bytes + sizeof(m.request)};
    in.fd_count = ABX__RT_FDS_MAX;
    ssize_t n = abx_fd_recv(w->sock, &m, sizeof(m), in.fds, &in.fd_count);
    if (n == -EAGAIN)
        return;
    if (n < (ssize_t)sizeof(m.request) || n > REQUEST_MAX ||
        m.request.magic != ABX__RT_MAGIC) { /* EOF, or not the peer we were forked by */
        for (size_t i = 0; n >= 0 && i < in.fd_count; i++)
            abx_fd_close(&in.fds[i]);
        abx__worker_close_down(w);
        return;
    }
    in.len = (size_t)n;
    dispatch(w, &in);
}
