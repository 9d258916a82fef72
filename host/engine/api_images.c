/* host/engine/api_images.c: images to build on: /abx/v1/images (an addition of ours). Loop thread.
 *
 * POST takes a rootfs tar, or with ?kind=oci or docker an OCI layout or a docker-archive (what it
 * is is seen in it), plain or gzip or zstd, as the body. */
#include "host/engine/api_priv.h"
#include "host/engine/builds_priv.h"
#include "host/engine/page_priv.h"
#include "host/engine/sink_priv.h"

#include "host/image/base.h"
#include "lib/base/log.h"
#include "lib/base/parse.h"
#include "lib/contract/contract.h"
#include "lib/wire/url.h"

#include <stdio.h>

#include "lib/base/banned.h"

#define IMAGE_MAX_BYTES ((uint64_t)8 << 30) /* security S53 */
enum { RECIPE_MAX = 128, LIST_JSON_MAX = 1024 * 1024 };

static void write_image(struct abx_json_writer *w, const struct abx_store_image *image)
{
    struct abx__blueprint *bp = NULL;
    struct abx_error err = {0};
    abx_json_begin_object(w);
    abx_json_kv_str(w, "name", image->name);
    abx_json_kv_str(w, "recipe", image->recipe);
    abx__write_time(w, "createdAt", image->created_ms);
    if (abx__blueprint_decode(image->state, &bp, &err) == 0) {
        abx_json_kv_c(w, "base", bp->base);
        abx_json_kv_i64(w, "layers", bp->image->layer_count);
        abx_json_kv_i64(w, "bytes", bp->bytes);
        abx__blueprint_free(bp);
    }
    abx_json_end_object(w);
}

static void on_listed(void *arg, const struct abx_store_image *image)
{
    write_image(arg, image);
}

static void list(struct abx__call *c)
{
    ABX_AUTO_BUF b = {.max = LIST_JSON_MAX};
    struct abx_json_writer w;
    struct abx_error err = {0};
    abx_json_writer_init(&w, &b);
    abx_json_begin_array(&w);
    if (abx_store_image_each(c->engine->store, on_listed, &w, &err) < 0) {
        abx__api_fail_err(c, &err);
        return;
    }
    abx_json_end_array(&w);
    abx__api_answer_buf(c, 200, &b, NULL);
}

static void answer_image(struct abx__call *c, int status)
{
    ABX_AUTO_BUF b = {.max = LIST_JSON_MAX};
    struct abx_json_writer w;
    struct abx_error err = {0};
    abx_json_writer_init(&w, &b);
    if (abx_store_image_get(c->engine->store, c->params[0], on_listed, &w, &err) < 0)
        abx__api_fail_err(c, &err);
    else
        abx__api_answer_buf(c, status, &b, NULL);
}

static void get(struct abx__call *c)
{
    answer_image(c, 200);
}

/* POST. The import outlives the client: what is half imported is finished and then named. */
struct import {
    struct abx__engine *engine;
    struct abx__call *call; /* NULL once the client has gone */
    struct abx_arena arena;
    struct abx_str name, recipe;
    int64_t bytes;
};

static void import_free(struct import *im)
{
    im->engine->imports--;
    abx_arena_done(&im->arena);
    free(im);
}

static int keep(struct import *im, struct abx_image *take_image, struct abx_error *err)
{
    ABX_AUTO_BUF state = {.max = ABX__BLUEPRINT_JSON_MAX};
    char name[64];
    struct abx__blueprint *bp = abx__blueprint_new();
    if (bp == NULL || abx_str_to_c(im->name, name, sizeof(name)) < 0) {
        abx_image_free(take_image);
        abx__blueprint_free(bp);
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory for the image");
    }
    bp->image = take_image;
    bp->bytes = im->bytes;
    if (abx_base_is_known(name))
        abx_base_describe(name, ABX_BASE_IMAGE_TAG, bp->base);
    else
        snprintf(bp->base, sizeof(bp->base), "base: image %s", name);
    int r = 0;
    /* What `abx image build` makes has the account of the platform. */
    if (abx_base_is_known(name) && (abx_image_set_user(take_image, ABX_USER_NAME) < 0 ||
                                    abx_image_set_workdir(take_image, ABX_USER_HOME) < 0))
        r = abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory for the image");
    abx__blueprint_encode(bp, &state);
    abx__blueprint_free(bp);
    if (r == 0 && abx_buf_failed(&state))
        r = abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "the image's configuration is too large");
    struct abx_store_image row = {im->name, im->recipe, abx_buf_str(&state), 0};
    return r < 0 ? -1 : abx_store_image_put(im->engine->store, &row, err);
}

static void on_imported(void *arg, struct abx_image *take_img, const struct abx_error *err)
{
    struct import *im = arg;
    struct abx_error failure = {0};
    if (im->engine->stopping) {
        abx_image_free(take_img);
    } else if (err != NULL) {
        failure = *err;
    } else {
        keep(im, take_img, &failure);
    }
    if (failure.code != ABX_OK)
        abx_log(ABX_LOG_ERROR, "image not imported name=%.*s error=\"%s\"", ABX_STR_FMT(im->name),
                failure.msg);
    struct abx__call *c = im->call;
    struct abx__engine *e = im->engine;
    if (c != NULL)
        c->data = NULL;
    import_free(im);
    if (!e->stopping)
        abx__layers_settle(e);
    if (c == NULL)
        return;
    if (failure.code != ABX_OK)
        abx__api_fail_err(c, &failure);
    else
        answer_image(c, 201);
}

static void on_import_close(struct abx__call *c)
{
    struct import *im = c->data;
    if (im != NULL)
        im->call = NULL;
}

static enum abx_import_kind kind_of(struct abx__call *c)
{
    static const struct {
        const char *name;
        enum abx_import_kind kind;
    } kinds[] = {
        {"rootfs", ABX_IMPORT_ROOTFS}, {"oci", ABX_IMPORT_OCI}, {"docker", ABX_IMPORT_OCI}};
    struct abx_str kind = ABX_STR("rootfs");
    if (abx_url_query_get(c->req->query, "kind", c->req->arena, &kind) < 0)
        return 0;
    for (size_t i = 0; i < ABX_COUNTOF(kinds); i++)
        if (abx_str_is(kind, kinds[i].name))
            return kinds[i].kind;
    return 0;
}

static struct import *import_new(struct abx__call *c)
{
    struct abx_str recipe = ABX_STR("");
    struct import *im = calloc(1, sizeof(*im));
    if (im == NULL)
        return NULL;
    im->engine = c->engine;
    im->engine->imports++;
    im->call = c;
    abx_arena_init(&im->arena, 4096);
    abx_url_query_get(c->req->query, "recipe", c->req->arena, &recipe);
    im->name = abx_arena_str(&im->arena, c->params[0]);
    im->recipe = abx_arena_str(&im->arena, abx_str_sub(recipe, 0, RECIPE_MAX));
    if (im->name.ptr != NULL && im->recipe.ptr != NULL)
        return im;
    import_free(im);
    return NULL;
}

static void on_received(struct abx__sink *s, const struct abx_error *err)
{
    struct abx__call *c = s->call;
    struct abx_error failure = {0};
    if (err != NULL) {
        abx__api_fail(c, err->code == ABX_OUT_OF_RANGE ? 413 : 507, "%s", err->msg);
        return;
    }
    if (c->engine->is_sweeping) {
        abx__api_fail(c, 503, "layers that nothing names are being removed: try again");
        return;
    }
    int fd = abx__sink_open(s);
    struct import *im = fd < 0 ? NULL : import_new(c);
    if (im == NULL) {
        if (fd >= 0)
            close(fd);
        abx_err_sys(&failure, fd < 0 ? fd : -ENOMEM, "import the image");
        abx__api_fail_err(c, &failure);
        return;
    }
    im->bytes = (int64_t)s->bytes;
    abx__sink_release(s);
    c->data = im;
    c->on_close = on_import_close;
    abx_image_load(&c->engine->loop, c->engine->rt, kind_of(c), fd, on_imported, im);
}

static void put(struct abx__call *c)
{
    if (!abx__image_name_is_valid(c->params[0]) || abx_str_is(c->params[0], "host"))
        abx__api_fail(c, 400,
                      "validation error: an image's name: 1 to 63 of [a-z0-9-_./:], as in"
                      " python:3.12, not 'host'");
    else if (kind_of(c) == 0)
        abx__api_fail(c, 400, "validation error: kind: rootfs, oci or docker");
    else
        abx__sink_start(c, IMAGE_MAX_BYTES, on_received);
}

const struct abx__route abx__image_routes[] = {
    {"GET", "/abx/v1/images", list},
    {"GET", "/abx/v1/images/{name}", get},
    {"POST", "/abx/v1/images/{name}", put, .takes_body = true},
    {0}};
