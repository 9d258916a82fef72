/* guest/caps/gzip.c: packing runs on the pool, where a chunk's milliseconds hurt nobody. */
#include "guest/caps/gzip.h"

#include "lib/base/assert.h"

#include <stdlib.h>

#include "lib/base/banned.h"

enum {
    WINDOW_GZIP = 15 + 16, /* zlib: largest window, gzip's framing */
    MEMORY_LEVEL = 8,
    OUT_BYTES = 65536,
};

/* ---- unpacking ---- */

int abx_gunzip_init(struct abx_gunzip *g, struct abx_error *err)
{
    *g = (struct abx_gunzip){0};
    if (inflateInit2(&g->z, WINDOW_GZIP) != Z_OK)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
    g->is_open = true;
    return 0;
}

void abx_gunzip_done(struct abx_gunzip *g)
{
    if (g->is_open)
        inflateEnd(&g->z);
    g->is_open = false;
}

/* A member that follows another begins anew. */
static int begin_member(struct abx_gunzip *g)
{
    bool is_next = g->has_ended && g->z.avail_in > 0;
    if (is_next && inflateReset(&g->z) != Z_OK)
        return -1;
    g->has_ended = g->has_ended && !is_next;
    return 0;
}

int abx_gunzip_step(struct abx_gunzip *g, struct abx_str *in, char *out, size_t cap,
                    struct abx_error *err)
{
    ABX_ASSERT(cap <= INT32_MAX && in->len <= INT32_MAX);
    g->z.next_in = (unsigned char *)(uintptr_t)in->ptr;
    g->z.avail_in = (unsigned)in->len;
    g->z.next_out = (unsigned char *)out;
    g->z.avail_out = (unsigned)cap;
    g->has_begun |= in->len > 0;
    int rc = Z_OK;
    while (rc == Z_OK && g->z.avail_out > 0) {
        if (begin_member(g) < 0)
            rc = Z_STREAM_ERROR;
        else if (g->has_ended)
            break;
        else
            rc = inflate(&g->z, Z_NO_FLUSH);
        if (rc == Z_STREAM_END) {
            g->has_ended = true;
            rc = Z_OK;
        }
    }
    *in = abx_str_sub(*in, in->len - g->z.avail_in, g->z.avail_in);
    g->has_more = g->z.avail_out == 0;
    if (rc != Z_OK && rc != Z_BUF_ERROR)
        return abx_err_set(err, rc == Z_MEM_ERROR ? ABX_RESOURCE_EXHAUSTED : ABX_INVALID_ARGUMENT,
                           "error decompressing request body: %s",
                           g->z.msg ? g->z.msg : "invalid gzip");
    return (int)(cap - g->z.avail_out);
}

/* ---- packing ---- */

int abx_deflate_init(struct abx_deflate *d, enum abx_deflate_form form)
{
    int window = form == ABX_DEFLATE_GZIP ? WINDOW_GZIP : -15;
    *d = (struct abx_deflate){0};
    d->is_open = deflateInit2(&d->z, Z_BEST_SPEED, Z_DEFLATED, window, MEMORY_LEVEL,
                              Z_DEFAULT_STRATEGY) == Z_OK;
    return d->is_open ? 0 : -1;
}

void abx_deflate_done(struct abx_deflate *d)
{
    if (d->is_open)
        deflateEnd(&d->z);
    d->is_open = false;
}

int abx_deflate_put(struct abx_deflate *d, struct abx_str in, bool is_last, struct abx_buf *out)
{
    int rc = Z_OK;
    ABX_ASSERT(in.len <= INT32_MAX);
    d->z.next_in = (unsigned char *)(uintptr_t)in.ptr;
    d->z.avail_in = (unsigned)in.len;
    do {
        void *room = abx_buf_room(out, OUT_BYTES);
        if (room == NULL)
            return -1;
        d->z.next_out = room;
        d->z.avail_out = OUT_BYTES;
        rc = deflate(&d->z, is_last ? Z_FINISH : Z_NO_FLUSH);
        abx_buf_wrote(out, OUT_BYTES - d->z.avail_out);
    } while (rc == Z_OK && d->z.avail_out == 0);
    return rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR ? 0 : -1;
}

struct abx_gzip {
    struct abx_loop *loop;
    abx_gzip_fn *fn;
    void *owner;
    bool is_busy, is_closed;
    /* The job's while one runs. */
    struct abx_work work;
    struct abx_deflate deflate;
    struct abx_buf in, out;
    bool is_last, failed;
};

static void gzip_free(struct abx_gzip *g)
{
    abx_deflate_done(&g->deflate);
    abx_buf_done(&g->in);
    abx_buf_done(&g->out);
    free(g);
}

struct abx_gzip *abx_gzip_new(struct abx_loop *l, abx_gzip_fn *fn, void *owner)
{
    struct abx_gzip *g = calloc(1, sizeof(*g));
    if (g == NULL)
        return NULL;
    if (abx_deflate_init(&g->deflate, ABX_DEFLATE_GZIP) < 0) {
        free(g);
        return NULL;
    }
    g->loop = l;
    g->fn = fn;
    g->owner = owner;
    abx_buf_init(&g->in, ABX_GZIP_PIECE);
    abx_buf_init(&g->out, 2 * ABX_GZIP_PIECE);
    return g;
}

static void on_run(struct abx_work *w)
{
    struct abx_gzip *g = w->owner;
    g->failed = abx_deflate_put(&g->deflate, abx_buf_str(&g->in), g->is_last, &g->out) < 0;
}

static void on_done(struct abx_work *w)
{
    struct abx_gzip *g = w->owner;
    g->is_busy = false;
    abx_buf_clear(&g->in);
    if (g->is_closed)
        gzip_free(g);
    else
        g->fn(g->owner, abx_buf_str(&g->out), g->failed); /* may close */
}

int abx_gzip_put(struct abx_gzip *g, struct abx_str data, bool is_last, struct abx_error *err)
{
    ABX_ASSERT(!g->is_busy && !g->is_closed);
    abx_buf_clear(&g->out);
    abx_buf_put_str(&g->in, data);
    if (abx_buf_failed(&g->in))
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
    g->is_last = is_last;
    if (abx_work_start(&g->work, g->loop, on_run, on_done, g, err) < 0)
        return -1;
    g->is_busy = true;
    return 0;
}

void abx_gzip_close(struct abx_gzip *g)
{
    if (g == NULL || g->is_closed)
        return;
    g->is_closed = true;
    if (!g->is_busy)
        gzip_free(g);
}
