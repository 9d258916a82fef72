/* host/image/image.c: an image's layers and configuration as a value. Loop thread. */
#include "host/image/image_priv.h"

#include "lib/base/assert.h"
#include "lib/base/parse.h"
#include "lib/json/json.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum { ARENA_MAX = 4 << 20, HEX_LEN = 2 * ABX_DIGEST_LEN };

/* ---- lists of strings ---- */
static int strings_add(struct abx_strings *s, struct abx_str text)
{
    if (s->count >= ABX_IMAGE_ENV_MAX || text.len > ABX_IMAGE_TEXT_MAX)
        return -1;
    char *copy = abx_str_dup(text);
    char **items = copy ? realloc(s->items, (s->count + 2) * sizeof(*items)) : NULL;
    if (items == NULL) {
        free(copy);
        return -1;
    }
    s->items = items;
    s->items[s->count++] = copy;
    s->items[s->count] = NULL;
    return 0;
}

static void strings_done(struct abx_strings *s)
{
    for (size_t i = 0; i < s->count; i++)
        free(s->items[i]);
    free(s->items);
    *s = (struct abx_strings){0};
}

static int strings_copy(const struct abx_strings *from, struct abx_strings *to)
{
    for (size_t i = 0; i < from->count; i++)
        if (strings_add(to, abx_str(from->items[i])) < 0)
            return -1;
    return 0;
}

/* ---- the image ---- */
struct abx_image *abx_image_new(void)
{
    struct abx_image *img = calloc(1, sizeof(*img));
    if (img == NULL)
        return NULL;
    img->user = abx_str_dup(ABX_STR("root"));
    img->workdir = abx_str_dup(ABX_STR("/"));
    if (img->user != NULL && img->workdir != NULL)
        return img;
    abx_image_free(img);
    return NULL;
}

void abx_image_free(struct abx_image *img)
{
    if (img == NULL)
        return;
    strings_done(&img->env);
    strings_done(&img->entrypoint);
    strings_done(&img->cmd);
    free(img->user);
    free(img->workdir);
    free(img);
}

static int set_text(char **at, const char *text)
{
    char *copy = strlen(text) <= ABX_IMAGE_TEXT_MAX ? abx_str_dup(abx_str(text)) : NULL;
    if (copy == NULL)
        return -1;
    free(*at);
    *at = copy;
    return 0;
}

int abx_image_set_user(struct abx_image *img, const char *user)
{
    return set_text(&img->user, user);
}

int abx_image_set_workdir(struct abx_image *img, const char *workdir)
{
    return set_text(&img->workdir, workdir);
}

struct abx_image *abx_image_copy(const struct abx_image *img)
{
    struct abx_image *copy = abx_image_new();
    if (copy == NULL)
        return NULL;
    memcpy(copy->layers, img->layers, sizeof(copy->layers));
    copy->layer_count = img->layer_count;
    if (strings_copy(&img->env, &copy->env) == 0 &&
        strings_copy(&img->entrypoint, &copy->entrypoint) == 0 &&
        strings_copy(&img->cmd, &copy->cmd) == 0 && abx_image_set_user(copy, img->user) == 0 &&
        abx_image_set_workdir(copy, img->workdir) == 0)
        return copy;
    abx_image_free(copy);
    return NULL;
}

static char **find_env(const struct abx_image *img, struct abx_str name)
{
    for (size_t i = 0; i < img->env.count; i++)
        if (strncmp(img->env.items[i], name.ptr, name.len) == 0 &&
            img->env.items[i][name.len] == '=')
            return &img->env.items[i];
    return NULL;
}

const char *abx_image_env(const struct abx_image *img, const char *name)
{
    char **at = find_env(img, abx_str(name));
    return at ? *at + strlen(name) + 1 : NULL;
}

int abx_image_set_env(struct abx_image *img, struct abx_str name, struct abx_str value)
{
    ABX_AUTO_BUF text;
    abx_buf_init(&text, ABX_IMAGE_TEXT_MAX);
    if (name.len == 0 || abx_str_chr(name, '=') >= 0 || abx_str_chr(name, 0) >= 0 ||
        abx_str_chr(value, 0) >= 0)
        return -1;
    abx_buf_put_str(&text, name);
    abx_buf_put_byte(&text, '=');
    abx_buf_put_str(&text, value);
    if (abx_buf_failed(&text))
        return -1;
    char **at = find_env(img, name);
    return at ? set_text(at, text.ptr) : strings_add(&img->env, abx_buf_str(&text));
}

int abx__image_add_layer(struct abx_image *img, const struct abx_digest *layer,
                         struct abx_error *err)
{
    if (img->layer_count == ABX_LAYERS_MAX)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "an image has at most %d layers",
                           ABX_LAYERS_MAX);
    memmove(img->layers + 1, img->layers, img->layer_count * sizeof(img->layers[0]));
    img->layers[0] = *layer;
    img->layer_count++;
    return 0;
}

void abx_image_digest(const struct abx_image *img, struct abx_digest *ret)
{
    crypto_hash_sha256(ret->bytes, (const unsigned char *)img->layers,
                       img->layer_count * sizeof(img->layers[0]));
}

void abx_image_to_spec(const struct abx_image *img, struct abx_sandbox_spec *spec)
{
    snprintf(spec->template_name, sizeof(spec->template_name), "image");
    memcpy(spec->layers, img->layers, sizeof(spec->layers));
    spec->layer_count = img->layer_count;
}

/* ---- as JSON ---- */
struct form {
    struct abx_json_array layers, env, entrypoint, cmd;
    struct abx_str user, workdir;
};
static const struct abx_json_field form_fields[] = {
    {"layers", ABX_JSON_ARRAY, offsetof(struct form, layers), ABX_JSON_REQUIRED,
     .item = ABX_JSON_STR},
    {"env", ABX_JSON_ARRAY, offsetof(struct form, env), 0, .item = ABX_JSON_STR},
    {"entrypoint", ABX_JSON_ARRAY, offsetof(struct form, entrypoint), 0, .item = ABX_JSON_STR},
    {"cmd", ABX_JSON_ARRAY, offsetof(struct form, cmd), 0, .item = ABX_JSON_STR},
    {"user", ABX_JSON_STR, offsetof(struct form, user), ABX_JSON_REQUIRED},
    {"workdir", ABX_JSON_STR, offsetof(struct form, workdir), ABX_JSON_REQUIRED},
    {0}};

static void put_strings(struct abx_json_writer *w, struct abx_str key, const struct abx_strings *s)
{
    abx_json_key(w, key);
    abx_json_begin_array(w);
    for (size_t i = 0; i < s->count; i++)
        abx_json_str(w, abx_str(s->items[i]));
    abx_json_end_array(w);
}

void abx_image_encode(const struct abx_image *img, struct abx_buf *out)
{
    struct abx_json_writer w;
    abx_json_writer_init(&w, out);
    abx_json_begin_object(&w);
    abx_json_key(&w, ABX_STR("layers"));
    abx_json_begin_array(&w);
    for (uint32_t i = 0; i < img->layer_count; i++) {
        char hex[HEX_LEN + 1];
        abx_hex_encode(img->layers[i].bytes, ABX_DIGEST_LEN, hex);
        abx_json_str(&w, abx_str(hex));
    }
    abx_json_end_array(&w);
    put_strings(&w, ABX_STR("env"), &img->env);
    put_strings(&w, ABX_STR("entrypoint"), &img->entrypoint);
    put_strings(&w, ABX_STR("cmd"), &img->cmd);
    abx_json_kv_c(&w, "user", img->user);
    abx_json_kv_c(&w, "workdir", img->workdir);
    abx_json_end_object(&w);
}

int abx__image_take_strings(struct abx_strings *to, const struct abx_json_array *list)
{
    const struct abx_str *items = list->items;
    for (size_t i = 0; i < list->count; i++)
        if (abx_str_chr(items[i], 0) >= 0 || strings_add(to, items[i]) < 0)
            return -1;
    return 0;
}

static int from_form(const struct form *f, struct abx_image *img)
{
    const struct abx_str *layers = f->layers.items;
    if (f->layers.count > ABX_LAYERS_MAX || f->user.len == 0 || f->workdir.len == 0)
        return -1;
    for (size_t i = 0; i < f->layers.count; i++)
        if (abx_hex_decode(layers[i], img->layers[i].bytes, ABX_DIGEST_LEN) < 0)
            return -1;
    img->layer_count = (uint32_t)f->layers.count;
    if (abx__image_take_strings(&img->env, &f->env) < 0 ||
        abx__image_take_strings(&img->entrypoint, &f->entrypoint) < 0 ||
        abx__image_take_strings(&img->cmd, &f->cmd) < 0)
        return -1;
    return set_text(&img->user, f->user.ptr) < 0 ? -1 : set_text(&img->workdir, f->workdir.ptr);
}

int abx_image_decode(struct abx_str json, struct abx_image **ret, struct abx_error *err)
{
    struct abx_arena arena;
    struct form f = {0};
    abx_arena_init(&arena, ARENA_MAX);
    int r = abx_json_decode_text(json, false, form_fields, &f, &arena, err);
    struct abx_image *img = r == 0 ? abx_image_new() : NULL;
    if (r == 0 && (img == NULL || from_form(&f, img) < 0))
        r = abx_err_set(err, ABX_INVALID_ARGUMENT, "image: a field is malformed or too large");
    abx_arena_done(&arena);
    if (r < 0) {
        abx_image_free(img);
        return -1;
    }
    *ret = img;
    return 0;
}
