/* host/engine/layers_sweep.c: layers that nothing names any more are removed. Loop thread. */
#include "host/engine/builds_priv.h"
#include "host/engine/page_priv.h"

#include "lib/base/log.h"

#include <stdlib.h>

#include "lib/base/banned.h"

struct keep {
    struct abx_digest *layers;
    size_t count;
    bool has_failed; /* then nothing is removed */
};

static void keep_state(struct keep *k, struct abx_str state)
{
    struct abx__blueprint *bp = NULL;
    struct abx_error err = {0};
    if (state.len == 0 || k->has_failed)
        return;
    if (abx__blueprint_decode(state, &bp, &err) < 0) {
        abx_log(ABX_LOG_WARN, "layers not swept error=\"%s\"", err.msg);
        k->has_failed = true;
        return;
    }
    for (uint32_t i = 0; bp->image != NULL && i < bp->image->layer_count; i++) {
        bool is_known = false;
        for (size_t n = 0; n < k->count && !is_known; n++)
            is_known = memcmp(&k->layers[n], &bp->image->layers[i], sizeof(k->layers[n])) == 0;
        if (!is_known && k->count == ABX_LAYERS_KEPT_MAX) {
            abx_log(ABX_LOG_WARN, "layers not swept: more than %d are in use", ABX_LAYERS_KEPT_MAX);
            k->has_failed = true;
            break;
        }
        if (!is_known)
            k->layers[k->count++] = bp->image->layers[i];
    }
    abx__blueprint_free(bp);
}

static void on_build(void *arg, const struct abx_store_build *b)
{
    keep_state(arg, b->state);
}

static void on_image(void *arg, const struct abx_store_image *image)
{
    keep_state(arg, image->state);
}

static void on_swept(void *arg, const struct abx_error *err)
{
    struct abx__engine *e = arg;
    e->is_sweeping = false;
    if (err != NULL)
        abx_log(ABX_LOG_WARN, "layers not swept error=\"%s\"", err->msg);
    if (e->stopping)
        return;
    abx__layers_settle(e);
    abx__builds_go_on(e);
}

/* Nothing may start to use a layer that no row names while those are being removed. */
static int sweep(struct abx__engine *e)
{
    struct keep k = {0};
    struct abx_error err = {0};
    k.layers = calloc(ABX_LAYERS_KEPT_MAX, sizeof(*k.layers));
    int r = k.layers == NULL ? -1 : abx_store_image_each(e->store, on_image, &k, &err);
    for (unsigned s = 0; r == 0 && s < ABX_STORE_STATUS__COUNT; s++)
        r = abx_store_build_each_status(e->store, (enum abx_store_status)s, on_build, &k, &err);
    r = r < 0 || k.has_failed ? -1 : 0;
    e->is_sweeping = r == 0;
    if (r == 0)
        abx_runtime_layers_gc(e->rt, k.layers, k.count, on_swept, e);
    free(k.layers);
    return r;
}

void abx__layers_settle(struct abx__engine *e)
{
    /* The layers of a job or an import are in no row yet: whoever ends last sweeps. */
    if (!e->wants_sweep || abx__builds_count(e) != 0 || e->imports != 0 || e->is_sweeping)
        return;
    e->wants_sweep = false;
    sweep(e);
}

void abx__layers_sweep(struct abx__engine *e)
{
    e->wants_sweep = true;
    abx__layers_settle(e);
}

void abx__builds_begin(struct abx__engine *e)
{
    int r = sweep(e);
    abx__builds_resume(e);
    if (r < 0)
        abx__builds_go_on(e);
}
