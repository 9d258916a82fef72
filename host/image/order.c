/* host/image/order.c: build steps as values: the order that a step's PID 1 gets, the name of the
 * layer it makes (engine.md 4), and what it changes in the image. Pure. */
#include "host/image/image_priv.h"

#include "lib/base/assert.h"
#include "lib/contract/contract.h"
#include "lib/contract/step.h"

#include <ctype.h>
#include <sodium.h>
#include <stdio.h>

#include "lib/base/banned.h"

enum { VALUE_MAX = ABX_IMAGE_TEXT_MAX };
/* Part of every layer's name: another way of executing steps makes other layers. */
static const char generation[] = "abx-step-1";

static void put_text(struct abx_buf *out, enum abx_step_tag tag, const char *text)
{
    if (text == NULL || *text == 0)
        return;
    abx_buf_put_byte(out, (char)tag);
    abx_buf_put(out, text, strlen(text) + 1);
}

static void put_command(struct abx_buf *out, const struct abx_step *s)
{
    const char *const shell[] = {"/bin/bash", "-l", "-c", s->command ? s->command : "", NULL};
    for (const char *const *a = s->argv ? s->argv : shell; *a != NULL; a++) {
        abx_buf_put_byte(out, ABX_STEP_TAG_ARG);
        abx_buf_put(out, *a, strlen(*a) + 1);
    }
}

static const uint32_t verbs[ABX_STEP__COUNT] = {[ABX_STEP_RUN] = ABX_STEP_DO_RUN,
                                                [ABX_STEP_COPY] = ABX_STEP_DO_COPY,
                                                [ABX_STEP_WORKDIR] = ABX_STEP_DO_WORKDIR,
                                                [ABX_STEP_USER] = ABX_STEP_DO_USER};

/* The texts of the order: all that its effect depends on but the layers and the archive. */
static void put_texts(struct abx_buf *out, const struct abx_step *s, const struct abx_image *img)
{
    bool is_run = s->type == ABX_STEP_RUN;
    if (is_run)
        put_command(out, s);
    for (size_t i = 0; is_run && i < img->env.count; i++)
        put_text(out, ABX_STEP_TAG_ENV, img->env.items[i]);
    if (s->type == ABX_STEP_USER) {
        put_text(out, ABX_STEP_TAG_NAME, s->name);
        put_text(out, ABX_STEP_TAG_SUDO, s->sudo ? "1" : "");
        return;
    }
    put_text(out, ABX_STEP_TAG_USER, is_run && s->user && *s->user ? s->user : img->user);
    put_text(out, ABX_STEP_TAG_WORKDIR, img->workdir);
    if (s->type == ABX_STEP_WORKDIR)
        put_text(out, ABX_STEP_TAG_DEST, s->name);
    if (s->type != ABX_STEP_COPY)
        return;
    put_text(out, ABX_STEP_TAG_SOURCE, s->src);
    put_text(out, ABX_STEP_TAG_DEST, s->dest);
    put_text(out, ABX_STEP_TAG_OWNER, s->owner);
    put_text(out, ABX_STEP_TAG_MODE, s->mode);
}

int abx__order_encode(const struct abx_step *step, const struct abx_image *img, struct abx_buf *out,
                      struct abx_error *err)
{
    struct abx_step_head head = {.magic = ABX_STEP_MAGIC, .verb = verbs[step->type]};
    abx_buf_put(out, &head, sizeof(head));
    put_texts(out, step, img);
    if (abx_buf_failed(out) || out->len > ABX_STEP_TEXT_BYTES)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED,
                           "the command and its environment are over %d KiB",
                           ABX_STEP_TEXT_BYTES / 1024);
    head.text_bytes = (uint32_t)(out->len - sizeof(head));
    memcpy(out->ptr, &head, sizeof(head));
    return 0;
}

void abx__order_digest(const struct abx_step *step, const struct abx_image *img,
                       struct abx_digest *ret)
{
    crypto_hash_sha256_state h;
    ABX_AUTO_BUF texts;
    abx_buf_init(&texts, 2 * ABX_STEP_TEXT_BYTES); /* what does not fit is refused before */
    put_texts(&texts, step, img);
    crypto_hash_sha256_init(&h);
    crypto_hash_sha256_update(&h, (const unsigned char *)generation, sizeof(generation));
    crypto_hash_sha256_update(&h, (const unsigned char *)&img->layer_count,
                              sizeof(img->layer_count));
    crypto_hash_sha256_update(&h, (const unsigned char *)img->layers,
                              img->layer_count * sizeof(img->layers[0]));
    crypto_hash_sha256_update(&h, (const unsigned char *)&verbs[step->type], sizeof(verbs[0]));
    crypto_hash_sha256_update(&h, (const unsigned char *)texts.ptr, texts.len);
    if (step->type == ABX_STEP_COPY)
        crypto_hash_sha256_update(&h, step->archive_digest.bytes, ABX_DIGEST_LEN);
    if (step->no_cache) { /* a layer of its own, which those after it are built on */
        unsigned char fresh[ABX_DIGEST_LEN];
        randombytes_buf(fresh, sizeof(fresh));
        crypto_hash_sha256_update(&h, fresh, sizeof(fresh));
    }
    crypto_hash_sha256_final(&h, ret->bytes);
}

/* ---- ENV, and what remains of the others ---- */
static bool is_name_byte(char c, bool is_first)
{
    return c == '_' || isalpha((unsigned char)c) || (!is_first && isdigit((unsigned char)c));
}

int abx__order_expand(const struct abx_image *img, struct abx_str text, struct abx_buf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '\\' && i + 1 < text.len && text.ptr[i + 1] == '$') {
            abx_buf_put_byte(out, text.ptr[++i]);
            continue;
        }
        size_t at = i + 1, braces = at < text.len && text.ptr[at] == '{';
        size_t from = at + braces, to = from;
        while (to < text.len && is_name_byte(text.ptr[to], to == from))
            to++;
        bool is_closed = !braces || (to < text.len && text.ptr[to] == '}');
        char name[256];
        if (text.ptr[i] != '$' || to == from || !is_closed ||
            abx_str_to_c(abx_str_sub(text, from, to - from), name, sizeof(name)) < 0) {
            abx_buf_put_byte(out, text.ptr[i]);
            continue;
        }
        const char *value = abx_image_env(img, name);
        abx_buf_put_c(out, value ? value : "");
        i = to - 1 + braces;
    }
    return abx_buf_failed(out) ? -1 : 0;
}

/* All values are expanded against the environment before the step. */
static int apply_env(const struct abx_step *s, struct abx_image *img, struct abx_error *err)
{
    struct abx_image *before = abx_image_copy(img);
    int r = before == NULL ? -1 : 0;
    for (size_t i = 0; r == 0 && s->pairs != NULL && s->pairs[i] != NULL; i += 2) {
        ABX_AUTO_BUF value;
        abx_buf_init(&value, VALUE_MAX);
        if (s->pairs[i + 1] == NULL ||
            abx__order_expand(before, abx_str(s->pairs[i + 1]), &value) < 0)
            r = -1;
        else
            r = abx_image_set_env(img, abx_str(s->pairs[i]),
                                  abx_str_n(value.ptr ? value.ptr : "", value.len));
        if (s->pairs[i + 1] == NULL)
            break;
    }
    abx_image_free(before);
    return r < 0 ? abx_err_set(err, ABX_INVALID_ARGUMENT,
                               "ENV: a name is malformed, or the environment is too large")
                 : 0;
}

/* Where a WORKDIR leads, as text: the step has made the folder. */
static int apply_workdir(const struct abx_step *s, struct abx_image *img, struct abx_error *err)
{
    ABX_AUTO_BUF path;
    struct abx_str parts[] = {abx_str(s->name[0] == '/' ? "" : img->workdir), abx_str(s->name)};
    struct abx_str part;
    abx_buf_init(&path, ABX_STEP_PATH_BYTES);
    for (size_t i = 0; i < ABX_COUNTOF(parts); i++) {
        while (abx_str_split(&parts[i], '/', &part)) {
            if (part.len == 0 || abx_str_is(part, "."))
                continue;
            if (abx_str_is(part, "..")) {
                while (path.len > 0 && path.ptr[--path.len] != '/')
                    ;
                continue;
            }
            abx_buf_put_byte(&path, '/');
            abx_buf_put_str(&path, part);
        }
    }
    abx_buf_put(&path, "", 1); /* ends it also where ".." cut it */
    if (abx_buf_failed(&path) || abx_image_set_workdir(img, path.len > 1 ? path.ptr : "/") < 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "WORKDIR: the path is too long");
    return 0;
}

int abx__order_apply(const struct abx_step *step, struct abx_image *img, struct abx_error *err)
{
    switch (step->type) {
    case ABX_STEP_ENV:
        return apply_env(step, img, err);
    case ABX_STEP_WORKDIR:
        return apply_workdir(step, img, err);
    case ABX_STEP_USER:
        return abx_image_set_user(img, step->name) == 0
                   ? 0
                   : abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory");
    case ABX_STEP_RUN:
    case ABX_STEP_COPY:
    case ABX_STEP__COUNT:
        return 0;
    }
    return 0;
}
