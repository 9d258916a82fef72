/* host/engine/api_export.c: an image or a template as an OCI layout: .../archive (an addition of
 * ours). Loop thread; files are read on the pool. */
#include "host/engine/api_priv.h"
#include "host/engine/blueprint_priv.h"
#include "host/engine/page_priv.h"

#include "host/image/export.h"
#include "lib/base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { EXPORTS_MAX = 2, CHUNK = 256 * 1024 };

struct outgoing {
    struct abx__engine *engine;
    struct abx__call *call; /* NULL once the client has gone */
    struct abx_oci_archive *archive;
    size_t part;
    uint64_t at; /* in the part */
    struct abx_work work;
    ssize_t got; /* of the chunk on the pool; -errno */
    bool is_packing, is_reading, is_full;
    char chunk[CHUNK];
};

static void outgoing_free(struct outgoing *x)
{
    if (x->call != NULL) {
        x->call->data = NULL;
        x->call->on_close = NULL;
        x->call->req->on_drain = NULL;
    }
    x->engine->exports--;
    abx_oci_archive_free(x->archive);
    free(x);
}

/* The head is sent: all that is left is to cut the answer. */
static void cut(struct outgoing *x, const char *why, int r)
{
    struct abx__call *c = x->call;
    abx_log(ABX_LOG_ERROR, "export cut: %s errno=%d", why, -r);
    outgoing_free(x);
    abx_http_abort(c->req);
}

static void step(struct outgoing *x);

/* Pool. */
static void read_chunk(struct abx_work *w)
{
    struct outgoing *x = w->owner;
    const struct abx_oci_part *p = &x->archive->parts[x->part];
    uint64_t left = p->bytes - x->at;
    do
        x->got = pread(p->fd, x->chunk, left < CHUNK ? (size_t)left : CHUNK, (off_t)x->at);
    while (x->got < 0 && errno == EINTR);
    if (x->got <= 0)
        x->got = x->got < 0 ? -errno : -EIO;
}

static void on_chunk(struct abx_work *w)
{
    struct outgoing *x = w->owner;
    x->is_reading = false;
    if (x->call == NULL) {
        outgoing_free(x);
        return;
    }
    if (x->got < 0) {
        cut(x, "a layer's file can not be read", (int)x->got);
        return;
    }
    x->at += (uint64_t)x->got;
    x->is_full = !abx_http_write(x->call->req, x->chunk, (size_t)x->got);
    step(x);
}

/* Sends until the connection is full, or the pool has to read. */
static void step(struct outgoing *x)
{
    struct abx_error err = {0};
    while (!x->is_full && !x->is_reading) {
        const struct abx_oci_part *p = &x->archive->parts[x->part];
        if (x->part == x->archive->count) {
            struct abx_http_req *req = x->call->req;
            outgoing_free(x);
            abx_http_end(req);
            return;
        }
        if (x->at == p->bytes) {
            x->part++;
            x->at = 0;
        } else if (p->text != NULL) {
            x->at = p->bytes;
            x->is_full = !abx_http_write(x->call->req, p->text, (size_t)p->bytes);
        } else if (abx_work_start(&x->work, &x->engine->loop, read_chunk, on_chunk, x, &err) == 0) {
            x->is_reading = true;
        } else {
            cut(x, err.msg, 0);
            return;
        }
    }
}

static void on_drain(struct abx_http_req *req)
{
    struct abx__call *c = req->data;
    struct outgoing *x = c->data;
    x->is_full = false;
    step(x);
}

static void on_close(struct abx__call *c)
{
    struct outgoing *x = c->data;
    x->call = NULL;
    if (!x->is_packing && !x->is_reading)
        outgoing_free(x);
}

static void send_archive(struct outgoing *x)
{
    const struct abx_http_extra extra[] = {{"Content-Type", ABX_STR("application/x-tar")},
                                           {"Cache-Control", ABX_STR("no-store")},
                                           {0}};
    x->call->req->on_drain = on_drain;
    abx_http_begin(x->call->req, 200, extra, (int64_t)x->archive->bytes);
    step(x);
}

static void on_saved(void *arg, struct abx_oci_archive *take_archive, const struct abx_error *err)
{
    struct outgoing *x = arg;
    struct abx__engine *e = x->engine;
    struct abx__call *c = x->call;
    x->is_packing = false;
    x->archive = take_archive;
    e->imports--;
    if (c == NULL || take_archive == NULL) {
        outgoing_free(x);
        if (c != NULL)
            abx__api_fail_err(c, err);
    } else {
        send_archive(x);
    }
    if (!e->stopping)
        abx__layers_settle(e);
}

/* @take_bp: what is exported. */
static void start(struct abx__call *c, struct abx__blueprint *take_bp)
{
    struct abx__engine *e = c->engine;
    struct outgoing *x = NULL;
    if (take_bp->image == NULL)
        abx__api_fail(c, 400, "template 'host' is this machine's own folders: it is no image");
    else if (e->is_sweeping)
        abx__api_fail(c, 503, "layers that nothing names are being removed: try again");
    else if (e->exports >= EXPORTS_MAX)
        abx__api_fail(c, 503, "%d exports are under way: try again when one is done", EXPORTS_MAX);
    else if ((x = calloc(1, sizeof(*x))) == NULL)
        abx__api_fail(c, 500, "no memory for the export");
    if (x != NULL) {
        struct abx_oci_label labels[] = {{"abx.base", take_bp->base},
                                         {"abx.start", take_bp->start},
                                         {"abx.ready", take_bp->ready},
                                         {0}};
        struct abx_oci_options o = {.labels = labels, .dir_fd = e->files_fd};
        x->engine = e;
        x->call = c;
        x->is_packing = true;
        c->data = x;
        c->on_close = on_close;
        e->exports++;
        e->imports++;
        abx_image_save(e->rt, take_bp->image, &o, on_saved, x);
    }
    abx__blueprint_free(take_bp);
}

static void image_archive(struct abx__call *c)
{
    struct abx__blueprint *bp = NULL;
    struct abx_error err = {0};
    if (abx__blueprint_image(c->engine, c->params[0], &bp, &err) < 0)
        abx__api_fail_err(c, &err);
    else
        start(c, bp);
}

static void template_archive(struct abx__call *c)
{
    struct abx__blueprint *bp = NULL;
    struct abx_error err = {0};
    if (abx__blueprint_find(c->engine, c->params[0], &bp, &err) < 0)
        abx__api_fail_err(c, &err);
    else
        start(c, bp);
}

const struct abx__route abx__export_routes[] = {
    {"GET", "/abx/v1/images/{name}/archive", image_archive},
    {"GET", "/abx/v1/templates/{id}/archive", template_archive},
    {0}};
