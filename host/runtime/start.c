/* host/runtime/start.c: from a validated spec and a prepared shim to a sandbox: its folder and
 * limits, and the request that the shim executes. Nothing here waits for the shim. */
#include "host/runtime/runtime_priv.h"

#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/contract/contract.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

/* ---- layers ---- */
void abx__lowers_close(struct abx__lowers *l)
{
    for (uint32_t i = l->shared; i < l->count; i++)
        abx_fd_close(&l->fds[i]);
}

/* The engine's own layers, then the template's or the image's. */
int abx__lowers_open(const struct abx__worker *w, const struct abx_sandbox_spec *spec,
                     struct abx__lowers *ret, struct abx_error *err)
{
    bool is_image = spec->layer_count > 0 || spec->is_step;
    ret->count = 0;
    ret->fds[ret->count++] = w->layers.top_fd;
    if (!is_image)
        ret->fds[ret->count++] = w->layers.host_fd;
    if (spec->is_step)
        ret->fds[ret->count++] = w->layers.step_fd;
    ret->shared = ret->count;
    for (uint32_t i = 0; i < spec->layer_count; i++) {
        int fd = abx__store_layer(w, &spec->layers[i]);
        char hex[2 * ABX_DIGEST_LEN + 1];
        abx_hex_encode(spec->layers[i].bytes, ABX_DIGEST_LEN, hex);
        if (fd < 0) {
            abx__lowers_close(ret);
            return abx_err_sys(err, fd, "layer %.12s", hex);
        }
        ret->fds[ret->count++] = fd;
    }
    return 0;
}

/* ---- the request ---- */
/* What a start holds; all of it is closed at the end, the shim has its own by then. */
struct start {
    struct abx__worker *w;
    const struct abx_sandbox_spec *spec;
    struct abx__folder folder;
    int line; /* of a step, the caller's */
    struct abx__lowers lowers;
};

static void start_done(struct start *s)
{
    abx__folder_done(&s->folder);
    abx__lowers_close(&s->lowers);
}

static int take_folder(struct start *s, struct abx__started *shim, struct abx_error *err)
{
    int r = 0;
    if (shim->is_rooted) {
        s->folder = shim->folder;
        shim->folder = (struct abx__folder)ABX__FOLDER_NONE;
    } else {
        r = abx__folder_take(s->w, s->spec->is_step, &s->folder);
    }
    if (r < 0)
        return abx_err_sys(err, r, "sandbox folder");
    r = abx__folder_claim(s->w, &s->folder, s->spec, shim->slot);
    if (r == 0)
        return 0;
    if (shim->is_rooted) { /* it may be mounting in it: that goes with the shim */
        shim->folder = s->folder;
        s->folder = (struct abx__folder)ABX__FOLDER_NONE;
    } else {
        abx__folder_drop(s->w, &s->folder);
    }
    if (r == -EEXIST)
        return abx_err_set(err, ABX_ALREADY_EXISTS, "there is a folder of this sandbox already");
    return abx_err_sys(err, r, "sandbox folder");
}

/* NOFILE: the contract's figure or half of what we may have (S67). */
static uint32_t file_limit(void)
{
    struct rlimit now;
    if (getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_max / 2 < ABX_SANDBOX_NOFILE)
        return (uint32_t)(now.rlim_max / 2);
    return ABX_SANDBOX_NOFILE;
}

_Static_assert(ABX_COUNTOF(((struct abx__lowers *)0)->fds) <= ABX_SHIM_LOWERS_MAX,
               "the shim takes them all");

static int send_request(struct start *s, const struct abx__started *shim, struct abx_error *err)
{
    const struct abx__worker *w = s->w;
    const struct abx__folder *f = &s->folder;
    struct abx_shim_request head = {
        .magic = ABX_SHIM_MAGIC,
        .flags = f->extra >= 0 ? ABX_SHIM_HAS_EXTRA : 0,
        .lower_count = s->lowers.count,
        .peer_uid = geteuid(),
        .nofile = file_limit(),
        .nproc = strcmp(w->cgroups.level, "per-process") == 0 ? s->spec->pids_max : 0};
    memcpy(head.nonce, s->spec->nonce, sizeof(head.nonce));
    struct abx__ops_spec ops = {
        .w = w, .spec = s->spec, .slot = shim->slot, .is_rooted = shim->is_rooted};
    ABX_AUTO_BUF message;
    abx_buf_init(&message, sizeof(head) + ABX_SHIM_OPS_MAX);
    abx_buf_put(&message, &head, sizeof(head));
    abx__ops_sandbox(&ops, &message);
    if (abx_buf_failed(&message))
        return abx_err_set(err, ABX_INTERNAL, "the list of operations is too long");
    head.op_bytes = (uint32_t)(message.len - sizeof(head));
    memcpy(message.ptr, &head, sizeof(head));
    int fds[ABX_SHIM_FD_MAX] = {[ABX_SHIM_FD_GATEWAY] = f->is_step ? s->line : f->gateway,
                                [ABX_SHIM_FD_LISTEN] = f->listen,
                                [ABX_SHIM_FD_FOLDER] = f->dir,
                                [ABX_SHIM_FD_LOG] = f->log,
                                [ABX_SHIM_FD_FS] = f->fs,
                                [ABX_SHIM_FD_EXTRA] = f->extra >= 0 ? f->extra : f->fs};
    memcpy(fds + ABX_SHIM_FD_LOWER0, s->lowers.fds, s->lowers.count * sizeof(int));
    ssize_t n = abx_fd_send(shim->control_fd, message.ptr, message.len, fds,
                            ABX_SHIM_FD_LOWER0 + s->lowers.count);
    return n < 0 ? abx_err_sys(err, (int)n, "send the request to the shim") : 0;
}

int abx__box_start(struct abx__worker *w, const struct abx_sandbox_spec *spec,
                   struct abx__started *shim, int line_fd, struct abx_error *err)
{
    struct abx__folder none = ABX__FOLDER_NONE;
    struct start s __attribute__((cleanup(start_done))) = {
        .w = w, .spec = spec, .folder = none, .line = line_fd};
    if (take_folder(&s, shim, err) < 0 ||
        (!shim->is_rooted && abx__lowers_open(w, spec, &s.lowers, err) < 0))
        return -1;
    return send_request(&s, shim, err);
}
