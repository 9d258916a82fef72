/* host/image/import.c: an archive becomes an image. The runtime side's worker unpacks it; here its
 * configuration is read, which came from the archive: hostile, capped. */
#include "host/image/image_priv.h"

#include "lib/base/fd.h"

#include <stdlib.h>

#include "lib/base/banned.h"

enum { ARENA_MAX = 1 << 20, DEPTH_MAX = 32 };

struct container {
    struct abx_json_array env, entrypoint, cmd;
    struct abx_str user, workdir;
};
struct oci_config {
    struct container config;
};
static const struct abx_json_field container_fields[] = {
    {"Env", ABX_JSON_ARRAY, offsetof(struct container, env), 0, .item = ABX_JSON_STR},
    {"Entrypoint", ABX_JSON_ARRAY, offsetof(struct container, entrypoint), 0, .item = ABX_JSON_STR},
    {"Cmd", ABX_JSON_ARRAY, offsetof(struct container, cmd), 0, .item = ABX_JSON_STR},
    {"User", ABX_JSON_STR, offsetof(struct container, user)},
    {"WorkingDir", ABX_JSON_STR, offsetof(struct container, workdir)},
    {0}};
static const struct abx_json_field oci_fields[] = {{"config", ABX_JSON_OBJECT,
                                                    offsetof(struct oci_config, config), 0,
                                                    container_fields, sizeof(struct container)},
                                                   {0}};

/* "NAME=VALUE" of the archive; what is none is refused. */
static int take_env(struct abx_image *img, const struct abx_json_array *list)
{
    const struct abx_str *items = list->items;
    for (size_t i = 0; i < list->count; i++) {
        ptrdiff_t eq = abx_str_chr(items[i], '=');
        if (eq <= 0 || abx_image_set_env(img, abx_str_sub(items[i], 0, (size_t)eq),
                                         abx_str_sub(items[i], (size_t)eq + 1, items[i].len)) < 0)
            return -1;
    }
    return 0;
}

static int apply(struct abx_image *img, const struct container *c)
{
    if (take_env(img, &c->env) < 0 ||
        abx__image_take_strings(&img->entrypoint, &c->entrypoint) < 0 ||
        abx__image_take_strings(&img->cmd, &c->cmd) < 0)
        return -1;
    if (c->user.len > 0 && abx_image_set_user(img, c->user.ptr) < 0)
        return -1;
    return c->workdir.len > 0 ? abx_image_set_workdir(img, c->workdir.ptr) : 0;
}

int abx__image_take_config(struct abx_image *img, struct abx_str json, struct abx_error *err)
{
    const struct abx_json_limits limits = {ABX_IMPORT_CONFIG_MAX, DEPTH_MAX};
    struct oci_config c = {0};
    struct abx_arena arena;
    struct json_t *doc;
    if (json.len == 0)
        return 0;
    if (abx_json_parse(json, &limits, &doc, err) < 0)
        return abx_err_wrap(err, "image configuration");
    abx_arena_init(&arena, ARENA_MAX);
    int r = abx_json_decode(doc, oci_fields, &c, &arena, err);
    if (r == 0 && apply(img, &c.config) < 0)
        r = abx_err_set(err, ABX_INVALID_ARGUMENT, "a variable is malformed, or all is too large");
    abx_arena_done(&arena);
    abx_json_free(doc);
    return r < 0 ? abx_err_wrap(err, "image configuration") : 0;
}

struct import {
    abx_image_imported_fn *done;
    void *arg;
};

static void on_imported(void *arg, const struct abx_import_result *r, const struct abx_error *err)
{
    struct import i = *(struct import *)arg;
    struct abx_error why = {0};
    free(arg);
    if (err != NULL) {
        i.done(i.arg, NULL, err);
        return;
    }
    struct abx_image *img = abx_image_new();
    if (img == NULL) {
        abx_err_set(&why, ABX_RESOURCE_EXHAUSTED, "no memory");
    } else {
        for (uint32_t n = 0; n < r->layer_count; n++)
            img->layers[n] = r->layers[n].digest;
        img->layer_count = r->layer_count;
        (void)abx__image_take_config(img, r->config, &why);
    }
    if (why.code == ABX_OK) {
        i.done(i.arg, img, NULL);
        return;
    }
    abx_image_free(img);
    i.done(i.arg, NULL, &why);
}

void abx_image_load(struct abx_loop *l, struct abx_runtime *rt, enum abx_import_kind kind,
                    int take_fd, abx_image_imported_fn *done, void *arg)
{
    struct abx_error err;
    struct import *i = malloc(sizeof(*i));
    (void)l;
    if (i == NULL) {
        abx_fd_close(&take_fd);
        abx_err_set(&err, ABX_RESOURCE_EXHAUSTED, "no memory");
        done(arg, NULL, &err);
        return;
    }
    *i = (struct import){done, arg};
    abx_runtime_import(rt, kind, take_fd, on_imported, i);
}
