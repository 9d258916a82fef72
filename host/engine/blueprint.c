/* host/engine/blueprint.c: what a sandbox is made of, as JSON and from the store. Loop thread. */
#include "host/engine/blueprint_priv.h"

#include "lib/contract/contract.h"

#include <stdlib.h>

#include "lib/base/banned.h"

struct abx__blueprint *abx__blueprint_new(void)
{
    struct abx__blueprint *bp = calloc(1, sizeof(*bp));
    if (bp == NULL)
        return NULL;
    bp->start = abx_str_dup(ABX_STR(""));
    bp->ready = abx_str_dup(ABX_STR(""));
    bp->cpu = ABX_SANDBOX_CPUS;
    bp->memory_mb = ABX_SANDBOX_MEMORY_MB;
    if (bp->start != NULL && bp->ready != NULL)
        return bp;
    abx__blueprint_free(bp);
    return NULL;
}

void abx__blueprint_free(struct abx__blueprint *bp)
{
    if (bp == NULL)
        return;
    abx_image_free(bp->image);
    free(bp->start);
    free(bp->ready);
    free(bp);
}

struct abx__blueprint *abx__blueprint_copy(const struct abx__blueprint *bp)
{
    struct abx__blueprint *copy = calloc(1, sizeof(*copy));
    if (copy == NULL)
        return NULL;
    *copy = *bp;
    copy->image = bp->image == NULL ? NULL : abx_image_copy(bp->image);
    copy->start = abx_str_dup(abx_str(bp->start));
    copy->ready = abx_str_dup(abx_str(bp->ready));
    if (copy->start != NULL && copy->ready != NULL && (copy->image != NULL) == (bp->image != NULL))
        return copy;
    abx__blueprint_free(copy);
    return NULL;
}

int abx__blueprint_set(char **field, struct abx_str text, struct abx_error *err)
{
    char *copy = abx_str_dup(text);
    if (copy == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory for a template");
    free(*field);
    *field = copy;
    return 0;
}

void abx__blueprint_encode(const struct abx__blueprint *bp, struct abx_buf *out)
{
    ABX_AUTO_BUF image = {.max = ABX_IMAGE_ENCODED_MAX};
    struct abx_json_writer w;
    abx_image_encode(bp->image, &image);
    abx_json_writer_init(&w, out);
    abx_json_begin_object(&w);
    abx_json_kv_str(&w, "image", abx_buf_str(&image));
    abx_json_kv_c(&w, "start", bp->start);
    abx_json_kv_c(&w, "ready", bp->ready);
    abx_json_kv_c(&w, "base", bp->base);
    abx_json_kv_c(&w, "envdInject", bp->envd_inject);
    abx_json_kv_bool(&w, "procHidepid", bp->proc_hidepid);
    abx_json_kv_i64(&w, "bytes", bp->bytes);
    abx_json_key(&w, ABX_STR("tokenEnv"));
    abx_json_begin_array(&w);
    for (size_t i = 0; i < bp->token_env_count; i++)
        abx_json_str(&w, abx_str(bp->token_env[i]));
    abx_json_end_array(&w);
    abx_json_end_object(&w);
    if (abx_buf_failed(&image))
        out->failed = true;
}

struct doc {
    struct abx_str image, start, ready, base, envd_inject;
    bool proc_hidepid;
    int64_t bytes;
    struct abx_json_array token_env;
};
#define AT(field) offsetof(struct doc, field)
static const struct abx_json_field doc_fields[] = {
    {"image", ABX_JSON_STR, AT(image), ABX_JSON_REQUIRED},
    {"start", ABX_JSON_STR, AT(start), 0},
    {"ready", ABX_JSON_STR, AT(ready), 0},
    {"base", ABX_JSON_STR, AT(base), 0},
    {"envdInject", ABX_JSON_STR, AT(envd_inject), 0},
    {"procHidepid", ABX_JSON_BOOL, AT(proc_hidepid), 0},
    {"bytes", ABX_JSON_I64, AT(bytes), 0},
    {"tokenEnv", ABX_JSON_ARRAY, AT(token_env), .item = ABX_JSON_STR},
    {0}};

static int fill(struct abx__blueprint *bp, const struct doc *d, struct abx_error *err)
{
    const struct abx_str *names = d->token_env.items;
    if (abx_image_decode(d->image, &bp->image, err) < 0 ||
        abx__blueprint_set(&bp->start, d->start, err) < 0 ||
        abx__blueprint_set(&bp->ready, d->ready, err) < 0)
        return -1;
    bp->proc_hidepid = d->proc_hidepid;
    bp->bytes = d->bytes;
    bool fits = abx_str_to_c(d->base, bp->base, sizeof(bp->base)) == 0 &&
                abx_str_to_c(d->envd_inject, bp->envd_inject, sizeof(bp->envd_inject)) == 0 &&
                d->token_env.count <= ABX__TOKEN_ENVS;
    for (size_t i = 0; fits && i < d->token_env.count; i++, bp->token_env_count++)
        fits = abx_str_to_c(names[i], bp->token_env[i], sizeof(bp->token_env[i])) == 0;
    return fits ? 0 : abx_err_set(err, ABX_DATA_LOSS, "a field is too long");
}

int abx__blueprint_decode(struct abx_str json, struct abx__blueprint **ret, struct abx_error *err)
{
    struct abx_json_limits limits = {.max_bytes = ABX__BLUEPRINT_JSON_MAX, .max_depth = 8};
    struct abx_arena arena;
    struct json_t *parsed = NULL;
    struct doc d = {0};
    if (abx_json_parse(json, &limits, &parsed, err) < 0)
        return abx_err_wrap(err, "template");
    struct abx__blueprint *bp = abx__blueprint_new();
    abx_arena_init(&arena, (size_t)2 * ABX__BLUEPRINT_JSON_MAX);
    int r = bp == NULL ? abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory for a template")
                       : abx_json_decode(parsed, doc_fields, &d, &arena, err);
    if (r == 0)
        r = fill(bp, &d, err);
    abx_arena_done(&arena);
    abx_json_free(parsed);
    if (r < 0) {
        abx__blueprint_free(bp);
        return abx_err_wrap(err, "template");
    }
    *ret = bp;
    return 0;
}

/* Finding. */

struct found {
    struct abx__blueprint *bp;
    struct abx_error err;
    enum abx_store_status status;
    bool is_bad;
};

static void on_image(void *arg, const struct abx_store_image *row)
{
    struct found *f = arg;
    f->is_bad = abx__blueprint_decode(row->state, &f->bp, &f->err) < 0;
}

int abx__blueprint_image(struct abx__engine *e, struct abx_str name, struct abx__blueprint **ret,
                         struct abx_error *err)
{
    struct found f = {0};
    if (abx_store_image_get(e->store, name, on_image, &f, err) < 0)
        return -1;
    if (f.is_bad)
        return abx_err_set(err, f.err.code, "image %.*s: %s", ABX_STR_FMT(name), f.err.msg);
    if (abx_str_to_c(name, f.bp->template_id, sizeof(f.bp->template_id)) < 0 ||
        abx_str_to_c(name, f.bp->alias, sizeof(f.bp->alias)) < 0) {
        abx__blueprint_free(f.bp);
        return abx_err_set(err, ABX_DATA_LOSS, "image %.*s: the name is too long",
                           ABX_STR_FMT(name));
    }
    *ret = f.bp;
    return 0;
}

static void on_build(void *arg, const struct abx_store_build *b)
{
    struct found *f = arg;
    f->status = b->status;
    if (b->status != ABX_STORE_READY)
        return;
    f->is_bad = abx__blueprint_decode(b->state, &f->bp, &f->err) < 0;
    if (f->is_bad)
        return;
    memcpy(f->bp->template_id, b->template_id, sizeof(b->template_id));
    memcpy(f->bp->build_id, b->id, sizeof(b->id));
    f->bp->cpu = b->cpu;
    f->bp->memory_mb = b->memory_mb;
}

static int of_template(struct abx__engine *e, const struct abx_store_template *t, const char *tag,
                       struct abx__blueprint **ret, struct abx_error *err)
{
    char build[ABX_STORE_BUILD_LEN + 1];
    struct found f = {0};
    if (abx_store_tag_get(e->store, t->id, abx_str(tag), build, err) < 0) {
        if (err->code == ABX_NOT_FOUND)
            abx_err_set(err, ABX_NOT_FOUND, "tag '%s' does not exist for template '%s'", tag,
                        t->alias);
        return -1;
    }
    if (abx_store_build_get(e->store, t->id, abx_str(build), on_build, &f, err) < 0)
        return -1;
    if (f.is_bad)
        return abx_err_set(err, f.err.code, "template %s: %s", t->alias, f.err.msg);
    if (f.bp == NULL)
        return abx_err_set(err, ABX_NOT_FOUND,
                           "tag '%s' of template '%s' names a build that is"
                           " not ready",
                           tag, t->alias);
    memcpy(f.bp->alias, t->alias, sizeof(f.bp->alias));
    *ret = f.bp;
    return 0;
}

static int host(struct abx__engine *e, struct abx__blueprint **ret, struct abx_error *err)
{
    if (e->no_host_template)
        return abx_err_set(err, ABX_NOT_FOUND,
                           "template 'host' not found: this engine was started with"
                           " --no-host-template");
    struct abx__blueprint *bp = abx__blueprint_new();
    if (bp == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory for a template");
    memcpy(bp->template_id, "host", 5);
    memcpy(bp->alias, "host", 5);
    *ret = bp;
    return 0;
}

int abx__blueprint_find(struct abx__engine *e, struct abx_str text, struct abx__blueprint **ret,
                        struct abx_error *err)
{
    struct abx__ref ref;
    struct abx_store_template t;
    if (abx__ref_parse(text, &ref, err) < 0)
        return -1;
    const char *tag = ref.tag[0] == '\0' ? "default" : ref.tag;
    if (abx_store_template_get(e->store, abx_str(ref.name), &t, err) == 0)
        return of_template(e, &t, tag, ret, err);
    if (err->code != ABX_NOT_FOUND)
        return -1;
    if (strcmp(tag, "default") == 0 && strcmp(ref.name, "host") == 0)
        return host(e, ret, err);
    if (strcmp(tag, "default") == 0 && abx__blueprint_image(e, abx_str(ref.name), ret, err) == 0)
        return 0;
    if (err->code != ABX_NOT_FOUND)
        return -1;
    if (ref.tag[0] != '\0' && abx__blueprint_image(e, text, ret, err) == 0)
        return 0; /* an image whose name has a colon, as "python:3.12" */
    if (err->code != ABX_NOT_FOUND)
        return -1;
    if (abx__name_is_reserved(ref.name) && ref.tag[0] == '\0')
        return abx_err_set(err, ABX_NOT_FOUND,
                           "template '%s' not found: make it with `abx image build %s`, or create"
                           " from the template 'host'",
                           ref.name, ref.name);
    return abx_err_set(err, ABX_NOT_FOUND, "template '%.*s' not found", (int)text.len, text.ptr);
}
