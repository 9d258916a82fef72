/* host/engine/api_templates.c: /templates: names, lists, details, tags (control-plane 7). Loop
 * thread. */
#include "host/engine/api_priv.h"
#include "host/engine/builds_priv.h"
#include "host/engine/page_priv.h"

#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "lib/contract/contract.h"
#include "lib/wire/url.h"

#include <stdio.h>

#include "lib/base/banned.h"

enum { LIST_JSON_MAX = 4 * 1024 * 1024, TAGS_MAX = 32 };

bool abx__named_template(struct abx__call *c, struct abx__ref *ref, struct abx_store_template *ret)
{
    struct abx_error err = {0};
    if (abx__ref_parse(c->params[0], ref, &err) < 0 ||
        abx_store_template_get(c->engine->store, abx_str(ref->name), ret, &err) < 0) {
        abx__api_fail_err(c, &err);
        return false;
    }
    return true;
}

void abx__write_time(struct abx_json_writer *w, const char *key, int64_t ms)
{
    char text[ABX_TIME_TEXT];
    abx_time_format(ms * 1000000, 3, text);
    abx_json_kv_c(w, key, text);
}

static void write_names(struct abx_json_writer *w, const char *alias)
{
    char name[ABX_STORE_NAME_MAX + sizeof(ABX__TEAM "/")];
    snprintf(name, sizeof(name), ABX__TEAM "/%s", alias);
    abx_json_key(w, ABX_STR("aliases"));
    abx_json_begin_array(w);
    abx_json_str(w, abx_str(alias));
    abx_json_end_array(w);
    abx_json_key(w, ABX_STR("names"));
    abx_json_begin_array(w);
    abx_json_str(w, abx_str(name));
    abx_json_end_array(w);
}

/* Lists. */

struct last_build {
    struct abx_json_writer *w;
    int count;
};

static void write_last_build(void *arg, const struct abx_store_build *b)
{
    struct last_build *l = arg;
    abx_json_kv_c(l->w, "buildID", b->id);
    abx_json_kv_i64(l->w, "cpuCount", b->cpu);
    abx_json_kv_i64(l->w, "memoryMB", b->memory_mb);
    abx_json_kv_c(l->w, "buildStatus", abx_store_status_name(b->status));
    l->count++;
}

struct listing {
    struct abx__engine *engine;
    struct abx_json_writer *w;
    struct abx__cursor *cursor;
    struct abx_str *rows; /* the templates themselves: written after the walk */
    struct abx_error err;
};

static void write_common(struct abx_json_writer *w, const struct abx_store_template *t)
{
    abx_json_kv_c(w, "templateID", t->id);
    abx_json_kv_bool(w, "public", t->is_public);
    write_names(w, t->alias);
    abx__write_time(w, "createdAt", t->created_ms);
    abx__write_time(w, "updatedAt", t->updated_ms);
    if (t->spawned_ms != 0) {
        abx__write_time(w, "lastSpawnedAt", t->spawned_ms);
    } else {
        abx_json_key(w, ABX_STR("lastSpawnedAt"));
        abx_json_null(w);
    }
    abx_json_kv_i64(w, "spawnCount", t->spawn_count);
}

static void write_row(void *arg, const struct abx_store_template *t)
{
    struct listing *l = arg;
    struct last_build last = {.w = l->w};
    struct abx_store_page one = {INT64_MAX, ABX_STR(""), 1};
    if (!abx__cursor_take(l->cursor, t->created_ms, t->id))
        return;
    abx_json_begin_object(l->w);
    write_common(l->w, t);
    if (abx_store_build_each(l->engine->store, t->id, &one, write_last_build, &last, &l->err) < 0)
        return;
    abx_json_kv_i64(l->w, "buildCount", t->build_count);
    abx_json_kv_i64(l->w, "diskSizeMB", 0);
    abx_json_kv_c(l->w, "envdVersion", ABX_ENVD_VERSION);
    abx_json_key(l->w, ABX_STR("createdBy"));
    abx_json_null(l->w);
    abx_json_end_object(l->w);
}

static void list(struct abx__call *c, uint32_t limit_default)
{
    ABX_AUTO_BUF b = {.max = LIST_JSON_MAX};
    struct abx_json_writer w;
    struct abx__cursor cursor;
    struct abx_error err = {0};
    if (!abx__cursor_read(c, limit_default, &cursor))
        return;
    abx_json_writer_init(&w, &b);
    struct listing l = {.engine = c->engine, .w = &w, .cursor = &cursor};
    abx_json_begin_array(&w);
    if (abx_store_template_each(c->engine->store, &cursor.page, write_row, &l, &err) < 0 ||
        l.err.code != ABX_OK) {
        abx__api_fail_err(c, err.code != ABX_OK ? &err : &l.err);
        return;
    }
    abx_json_end_array(&w);
    abx__cursor_answer(c, &cursor, &b);
}

static void list_v1(struct abx__call *c)
{
    list(c, ABX__PAGE_ALL);
}

static void list_v2(struct abx__call *c)
{
    list(c, ABX__PAGE_MAX);
}

/* One template. */

static void write_abx(struct abx_json_writer *w, const struct abx_store_build *b)
{
    struct abx__blueprint *bp = NULL;
    struct abx_error err = {0};
    if (b->status != ABX_STORE_READY || abx__blueprint_decode(b->state, &bp, &err) < 0)
        return;
    abx_json_key(w, ABX_STR("abx"));
    abx_json_begin_object(w);
    abx_json_kv_c(w, "base", bp->base);
    abx_json_kv_c(w, "envdInject", bp->envd_inject);
    abx_json_kv_bool(w, "procHidepid", bp->proc_hidepid);
    abx_json_kv_c(w, "startCmd", bp->start);
    abx_json_kv_c(w, "readyCmd", bp->ready);
    abx_json_kv_c(w, "user", bp->image == NULL ? "" : bp->image->user);
    abx_json_kv_c(w, "workdir", bp->image == NULL ? "" : bp->image->workdir);
    abx_json_kv_i64(w, "layers", bp->image == NULL ? 0 : bp->image->layer_count);
    abx_json_kv_i64(w, "baseBytes", bp->bytes);
    abx_json_key(w, ABX_STR("serverTokens"));
    abx_json_begin_array(w);
    for (size_t i = 0; i < bp->token_env_count; i++)
        abx_json_str(w, abx_str(bp->token_env[i]));
    abx_json_end_array(w);
    abx_json_end_object(w);
    abx__blueprint_free(bp);
}

static void write_build(void *arg, const struct abx_store_build *b)
{
    struct listing *l = arg;
    if (!abx__cursor_take(l->cursor, b->created_ms, b->id))
        return;
    abx_json_begin_object(l->w);
    abx_json_kv_c(l->w, "buildID", b->id);
    abx_json_kv_c(l->w, "status", abx_store_status_name(b->status));
    abx__write_time(l->w, "createdAt", b->created_ms);
    abx__write_time(l->w, "updatedAt", b->updated_ms);
    abx_json_kv_i64(l->w, "cpuCount", b->cpu);
    abx_json_kv_i64(l->w, "memoryMB", b->memory_mb);
    if (b->finished_ms != 0)
        abx__write_time(l->w, "finishedAt", b->finished_ms);
    abx_json_kv_c(l->w, "envdVersion", ABX_ENVD_VERSION);
    write_abx(l->w, b);
    abx_json_end_object(l->w);
}

static void get(struct abx__call *c)
{
    ABX_AUTO_BUF b = {.max = LIST_JSON_MAX};
    struct abx_json_writer w;
    struct abx__cursor cursor;
    struct abx__ref ref;
    struct abx_store_template t;
    struct abx_error err = {0};
    if (!abx__cursor_read(c, ABX__PAGE_MAX, &cursor) || !abx__named_template(c, &ref, &t))
        return;
    abx_json_writer_init(&w, &b);
    struct listing l = {.engine = c->engine, .w = &w, .cursor = &cursor};
    abx_json_begin_object(&w);
    write_common(&w, &t);
    abx_json_key(&w, ABX_STR("builds"));
    abx_json_begin_array(&w);
    if (abx_store_build_each(c->engine->store, t.id, &cursor.page, write_build, &l, &err) < 0) {
        abx__api_fail_err(c, &err);
        return;
    }
    abx_json_end_array(&w);
    abx_json_end_object(&w);
    abx__cursor_answer(c, &cursor, &b);
}

static bool is_in_use(const struct abx__engine *e, const char *template_id)
{
    size_t it = 0;
    struct abx_str id;
    void *value;
    while (abx_map_next(&e->sandboxes, &it, &id, &value)) {
        const struct abx__sandbox *sb = value;
        if (!sb->is_hidden && strcmp(sb->template_name, template_id) == 0)
            return true;
    }
    return false;
}

static void delete (struct abx__call *c)
{
    struct abx__ref ref;
    struct abx_store_template t;
    struct abx_error err = {0};
    if (!abx__named_template(c, &ref, &t))
        return;
    if (is_in_use(c->engine, t.id)) {
        abx__api_fail(c, 400,
                      "cannot delete template '%s' because there are running sandboxes using it",
                      t.alias);
        return;
    }
    if (ref.tag[0] != '\0') {
        abx__api_fail(c, 400,
                      "'%s:%s' is one tag of a template: DELETE /templates/tags takes the"
                      " tag away, DELETE /templates/%s all of it",
                      t.alias, ref.tag, t.alias);
        return;
    }
    abx__builds_cancel(c->engine, t.id, NULL, "the template was deleted");
    if (abx_store_template_delete(c->engine->store, t.id, &err) < 0) {
        abx__api_fail_err(c, &err);
        return;
    }
    abx__layers_sweep(c->engine);
    abx__api_answer(c, 204, (struct abx_str){0});
}

struct patch {
    bool is_public, has_public;
};
static const struct abx_json_field patch_fields[] = {
    {"public", ABX_JSON_BOOL, offsetof(struct patch, is_public),
     .has_offset = offsetof(struct patch, has_public)},
    {0}};

static void patch(struct abx__call *c)
{
    ABX_AUTO_BUF b = {.max = 4096};
    struct abx_json_writer w;
    struct patch p = {0};
    struct abx__ref ref;
    struct abx_store_template t;
    struct abx_error err = {0};
    if (!abx__api_read(c, patch_fields, &p) || !abx__named_template(c, &ref, &t))
        return;
    if (p.has_public &&
        abx_store_template_set_public(c->engine->store, t.id, p.is_public, &err) < 0) {
        abx__api_fail_err(c, &err);
        return;
    }
    abx_json_writer_init(&w, &b);
    abx_json_begin_object(&w);
    write_names(&w, t.alias);
    abx_json_end_object(&w);
    abx__api_answer_buf(c, 200, &b, NULL);
}

/* Aliases. */

static void alias(struct abx__call *c)
{
    ABX_AUTO_BUF b = {.max = 4096};
    struct abx_json_writer w;
    struct abx__ref ref;
    struct abx_store_template t = {0};
    struct abx__blueprint *bp = NULL;
    struct abx_error err = {0};
    if (abx__ref_parse(c->params[0], &ref, &err) < 0) {
        abx__api_fail_err(c, &err);
        return;
    }
    if (abx_store_template_get(c->engine->store, abx_str(ref.name), &t, &err) < 0) {
        if (err.code != ABX_NOT_FOUND ||
            abx__blueprint_find(c->engine, abx_str(ref.name), &bp, &err) < 0) {
            abx__api_fail_err(c, &err);
            return;
        }
        snprintf(t.id, sizeof(t.id), "%.*s", ABX_STORE_TEMPLATE_LEN, bp->template_id);
        t.is_public = true; /* what the engine itself gives */
        abx__blueprint_free(bp);
    }
    abx_json_writer_init(&w, &b);
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "templateID", t.id);
    abx_json_kv_bool(&w, "public", t.is_public);
    abx_json_end_object(&w);
    abx__api_answer_buf(c, 200, &b, NULL);
}

/* Tags. */

struct tags_body {
    struct abx_str target, name;
    struct abx_json_array tags;
};
static const struct abx_json_field tags_fields[] = {
    {"target", ABX_JSON_STR, offsetof(struct tags_body, target), 0},
    {"name", ABX_JSON_STR, offsetof(struct tags_body, name), 0},
    {"tags", ABX_JSON_ARRAY, offsetof(struct tags_body, tags), ABX_JSON_REQUIRED,
     .item = ABX_JSON_STR},
    {0}};

/* Reads the body and finds the template that @is_target or the other field names. */
static bool read_tags(struct abx__call *c, bool is_target, struct tags_body *b,
                      struct abx__ref *ref, struct abx_store_template *t)
{
    if (!abx__api_read(c, tags_fields, b))
        return false;
    const struct abx_str *tags = b->tags.items;
    bool ok = b->tags.count != 0 && b->tags.count <= TAGS_MAX;
    for (size_t i = 0; ok && i < b->tags.count; i++)
        ok = abx__tag_is_valid(tags[i]);
    if (!ok) {
        abx__api_fail(c, 400, "validation error: tags: 1 to %d names of [a-z0-9-_.]", TAGS_MAX);
        return false;
    }
    c->params[0] = is_target ? b->target : b->name;
    return abx__named_template(c, ref, t);
}

static void tags_put(struct abx__call *c)
{
    ABX_AUTO_BUF b = {.max = 16384};
    struct abx_json_writer w;
    struct tags_body body = {0};
    struct abx__ref ref;
    struct abx_store_template t;
    struct abx_error err = {0};
    char build[ABX_STORE_BUILD_LEN + 1];
    if (!read_tags(c, true, &body, &ref, &t))
        return;
    const struct abx_str *tags = body.tags.items;
    int r =
        abx_store_tag_get(c->engine->store, t.id,
                          ref.tag[0] == '\0' ? ABX_STR("default") : abx_str(ref.tag), build, &err);
    for (size_t i = 0; r == 0 && i < body.tags.count; i++)
        r = abx_store_tag_set(c->engine->store, t.id, tags[i], build, &err);
    if (r < 0) {
        abx__api_fail_err(c, &err);
        return;
    }
    abx_json_writer_init(&w, &b);
    abx_json_begin_object(&w);
    abx_json_key(&w, ABX_STR("tags"));
    abx_json_begin_array(&w);
    for (size_t i = 0; i < body.tags.count; i++)
        abx_json_str(&w, tags[i]);
    abx_json_end_array(&w);
    abx_json_kv_c(&w, "buildID", build);
    abx_json_end_object(&w);
    abx__api_answer_buf(c, 201, &b, NULL);
}

static void tags_delete(struct abx__call *c)
{
    struct tags_body body = {0};
    struct abx__ref ref;
    struct abx_store_template t;
    struct abx_error err = {0};
    char build[ABX_STORE_BUILD_LEN + 1];
    if (!read_tags(c, false, &body, &ref, &t))
        return;
    const struct abx_str *tags = body.tags.items;
    int r = 0;
    for (size_t i = 0; r == 0 && i < body.tags.count; i++) /* all of them or none */
        r = abx_store_tag_get(c->engine->store, t.id, tags[i], build, &err);
    for (size_t i = 0; r == 0 && i < body.tags.count; i++)
        r = abx_store_tag_delete(c->engine->store, t.id, tags[i], &err);
    if (r < 0)
        abx__api_fail_err(c, &err);
    else
        abx__api_answer(c, 204, (struct abx_str){0});
}

static void write_tag(void *arg, struct abx_str tag, struct abx_str build_id, int64_t created_ms)
{
    struct abx_json_writer *w = arg;
    abx_json_begin_object(w);
    abx_json_kv_str(w, "tag", tag);
    abx_json_kv_str(w, "buildID", build_id);
    abx__write_time(w, "createdAt", created_ms);
    abx_json_end_object(w);
}

static void tags_list(struct abx__call *c)
{
    ABX_AUTO_BUF b = {.max = LIST_JSON_MAX};
    struct abx_json_writer w;
    struct abx__ref ref;
    struct abx_store_template t;
    struct abx_error err = {0};
    if (!abx__named_template(c, &ref, &t))
        return;
    abx_json_writer_init(&w, &b);
    abx_json_begin_array(&w);
    if (abx_store_tag_each(c->engine->store, t.id, write_tag, &w, &err) < 0) {
        abx__api_fail_err(c, &err);
        return;
    }
    abx_json_end_array(&w);
    abx__api_answer_buf(c, 200, &b, NULL);
}

#define NO_PUSH                                                                                    \
    "the flow that pushes an image with Docker is not served: use POST /v3/templates and"          \
    " POST /v2/templates/{id}/builds/{build}, as the current SDKs and `abx template build` do"
#define NO(method, path)                                                                           \
    {                                                                                              \
        method, path, abx__api_unimplemented, .missing = NO_PUSH                                   \
    }

const struct abx__route abx__template_routes[] = {{"GET", "/templates", list_v1},
                                                  {"GET", "/v2/templates", list_v2},
                                                  {"GET", "/templates/{id}", get},
                                                  {"DELETE", "/templates/{id}", delete},
                                                  {"PATCH", "/templates/{id}", patch},
                                                  {"PATCH", "/v2/templates/{id}", patch},
                                                  {"GET", "/templates/aliases/{alias}", alias},
                                                  {"POST", "/templates/tags", tags_put},
                                                  {"DELETE", "/templates/tags", tags_delete},
                                                  {"GET", "/templates/{id}/tags", tags_list},
                                                  NO("POST", "/templates"),
                                                  NO("POST", "/v2/templates"),
                                                  NO("POST", "/templates/{id}"),
                                                  NO("POST", "/templates/{id}/builds/{build}"),
                                                  {0}};
