/* host/engine/api_builds.c: the way of a template's build: record, start, status, logs
 * (control-plane 8). Loop thread. */
#include "host/engine/api_priv.h"
#include "host/engine/builds_priv.h"
#include "host/engine/page_priv.h"
#include "host/engine/uploads_priv.h"

#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "lib/contract/contract.h"
#include "lib/wire/url.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum {
    TAGS_MAX = 32,
    CPUS_MAX = 64,
    MEMORY_MIN_MB = 128,
    MEMORY_MAX_MB = 256 * 1024,
    STATUS_PAGE = 100,
    LOGS_PAGE = 1000,
    REASON_LINES = 50,
};

/* POST /v3/templates. */

struct create_body {
    struct abx_str name;
    struct abx_json_array tags;
    int64_t cpu, memory_mb;
    bool has_cpu, has_memory;
};
static const struct abx_json_field create_fields[] = {
    {"name", ABX_JSON_STR, offsetof(struct create_body, name), ABX_JSON_REQUIRED},
    {"tags", ABX_JSON_ARRAY, offsetof(struct create_body, tags), .item = ABX_JSON_STR},
    {"cpuCount", ABX_JSON_I64, offsetof(struct create_body, cpu),
     .has_offset = offsetof(struct create_body, has_cpu)},
    {"memoryMB", ABX_JSON_I64, offsetof(struct create_body, memory_mb),
     .has_offset = offsetof(struct create_body, has_memory)},
    {0}};

static bool add_tag(struct abx_buf *b, struct abx_str tag)
{
    struct abx_str rest = abx_buf_str(b), have;
    while (rest.len != 0 && abx_str_split(&rest, ',', &have)) {
        if (abx_str_eq(have, tag))
            return true;
    }
    if (!abx__tag_is_valid(tag))
        return false;
    if (b->len != 0)
        abx_buf_put_byte(b, ',');
    abx_buf_put_str(b, tag);
    return true;
}

/* The tag in the name, then those of the list; none: "default". */
static bool collect_tags(struct abx__call *c, const struct create_body *body,
                         const struct abx__ref *ref, struct abx_buf *b)
{
    const struct abx_str *tags = body->tags.items;
    bool ok = body->tags.count <= TAGS_MAX;
    if (ref->tag[0] != '\0')
        add_tag(b, abx_str(ref->tag));
    for (size_t i = 0; ok && i < body->tags.count; i++)
        ok = add_tag(b, tags[i]);
    if (b->len == 0)
        add_tag(b, ABX_STR("default"));
    if (!ok)
        abx__api_fail(c, 400, "validation error: tags: at most %d names of [a-z0-9-_.]", TAGS_MAX);
    return ok;
}

/* Whether the name may be given to a template by a client. */
static bool name_is_free(struct abx__call *c, const char *name)
{
    struct abx_store_template t;
    struct abx_error err = {0};
    if (abx__name_is_reserved(name)) {
        abx__api_fail(c, 403, "Alias '%s' already used", name);
        return false;
    }
    if (abx_store_template_get(c->engine->store, abx_str(name), &t, &err) == 0 &&
        strcmp(t.alias, name) != 0) {
        abx__api_fail(c, 409, "Alias '%s' is the id of a template", name);
        return false;
    }
    return true;
}

static bool check_size(struct abx__call *c, struct create_body *b)
{
    if (!b->has_cpu || b->cpu == 0)
        b->cpu = ABX_SANDBOX_CPUS;
    if (!b->has_memory || b->memory_mb == 0)
        b->memory_mb = ABX_SANDBOX_MEMORY_MB;
    if (b->cpu >= 1 && b->cpu <= CPUS_MAX && b->memory_mb >= MEMORY_MIN_MB &&
        b->memory_mb <= MEMORY_MAX_MB)
        return true;
    abx__api_fail(c, 400, "validation error: cpuCount: 1 to %d, memoryMB: %d to %d", CPUS_MAX,
                  MEMORY_MIN_MB, MEMORY_MAX_MB);
    return false;
}

static void mint_template_id(char out[ABX_STORE_TEMPLATE_LEN + 1])
{
    static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    for (size_t i = 0; i < ABX_STORE_TEMPLATE_LEN; i++)
        out[i] = alphabet[randombytes_uniform(sizeof(alphabet) - 1)];
    out[ABX_STORE_TEMPLATE_LEN] = '\0';
}

static void mint_uuid(char out[ABX_STORE_BUILD_LEN + 1])
{
    unsigned char r[16];
    char hex[33];
    randombytes_buf(r, sizeof(r));
    r[6] = (unsigned char)((r[6] & 0x0f) | 0x40);
    r[8] = (unsigned char)((r[8] & 0x3f) | 0x80);
    abx_hex_encode(r, sizeof(r), hex);
    snprintf(out, ABX_STORE_BUILD_LEN + 1, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12,
             hex + 16, hex + 20);
}

static void write_list(struct abx_json_writer *w, const char *key, struct abx_str items)
{
    struct abx_str item;
    abx_json_key(w, abx_str(key));
    abx_json_begin_array(w);
    while (items.len != 0 && abx_str_split(&items, ',', &item))
        abx_json_str(w, item);
    abx_json_end_array(w);
}

static void answer_created(struct abx__call *c, const struct abx_store_template *t,
                           const struct abx_store_build *b)
{
    ABX_AUTO_BUF json = {.max = 65536};
    char name[ABX_STORE_NAME_MAX + sizeof(ABX__TEAM "/")];
    struct abx_json_writer w;
    snprintf(name, sizeof(name), ABX__TEAM "/%s", t->alias);
    abx_json_writer_init(&w, &json);
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "templateID", t->id);
    abx_json_kv_c(&w, "buildID", b->id);
    abx_json_kv_bool(&w, "public", t->is_public);
    write_list(&w, "names", abx_str(name));
    write_list(&w, "tags", b->tags);
    write_list(&w, "aliases", abx_str(t->alias));
    abx_json_end_object(&w);
    abx__api_answer_buf(c, 202, &json, NULL);
}

static void create(struct abx__call *c)
{
    ABX_AUTO_BUF tags = {.max = TAGS_MAX * (ABX_STORE_NAME_MAX + 1)};
    struct create_body body = {0};
    struct abx__ref ref;
    struct abx_store_template t = {0};
    struct abx_store_build b = {0};
    struct abx_error err = {0};
    if (!abx__api_read(c, create_fields, &body) || !check_size(c, &body))
        return;
    if (abx__ref_parse(body.name, &ref, &err) < 0) {
        abx__api_fail_err(c, &err);
        return;
    }
    if (!collect_tags(c, &body, &ref, &tags) || !name_is_free(c, ref.name))
        return;
    mint_template_id(t.id);
    mint_uuid(b.id);
    memcpy(t.alias, ref.name, sizeof(t.alias));
    b.cpu = (uint32_t)body.cpu;
    b.memory_mb = (uint32_t)body.memory_mb;
    b.tags = abx_buf_str(&tags);
    if (abx_store_build_new(c->engine->store, &t, &b, &err) < 0)
        abx__api_fail_err(c, &err);
    else
        answer_created(c, &t, &b);
}

/* POST /v2/templates/{id}/builds/{build}. */

static bool check_build_id(struct abx__call *c)
{
    if (abx__build_id_is_valid(c->params[1]))
        return true;
    abx__api_fail(c, 404, "build '%.*s' not found",
                  (int)(c->params[1].len < 64 ? c->params[1].len : 64), c->params[1].ptr);
    return false;
}

static void start(struct abx__call *c)
{
    struct abx__ref ref;
    struct abx_store_template t;
    struct abx_error err = {0};
    if (!abx__named_template(c, &ref, &t) || !check_build_id(c))
        return;
    if (abx__build_start(c->engine, t.id, c->params[1], abx_buf_str(&c->body), &err) < 0)
        abx__api_fail_err(c, &err);
    else
        abx__api_answer(c, 202, ABX_STR("{}"));
}

/* Logs. */

static const char *const level_names[] = {"debug", "info", "warn", "error"};

static void write_entry(void *arg, const struct abx_store_log *e)
{
    struct abx_json_writer *w = arg;
    abx_json_begin_object(w);
    abx__write_time(w, "timestamp", e->at_ms);
    abx_json_kv_c(w, "level",
                  e->level >= 0 && e->level < (int)ABX_COUNTOF(level_names) ? level_names[e->level]
                                                                            : "info");
    abx_json_kv_str(w, "message", e->message);
    abx_json_kv_str(w, "step", e->step);
    abx_json_end_object(w);
}

static bool query_level(struct abx__call *c, int *ret)
{
    struct abx_str text;
    int found = abx_url_query_get(c->req->query, "level", c->req->arena, &text);
    if (found == 0)
        return true;
    for (size_t i = 0; found > 0 && i < ABX_COUNTOF(level_names); i++) {
        if (abx_str_is(text, level_names[i])) {
            *ret = (int)i;
            return true;
        }
    }
    abx__api_fail(c, 400, "validation error: level: debug, info, warn or error");
    return false;
}

struct status {
    struct abx__call *call;
    struct abx_json_writer *w;
    struct abx_store_log_query q;
    struct abx_error err;
    /* of the reason: lines of its step, newest first */
    struct abx_str reason_step;
    int64_t first, last;
    int count;
    bool has_other;
};

static int write_logs(struct status *s, const char *id, const char *key,
                      const struct abx_store_log_query *q)
{
    abx_json_key(s->w, abx_str(key));
    abx_json_begin_array(s->w);
    if (abx_store_log_each(s->call->engine->store, id, q, write_entry, s->w, &s->err) < 0)
        return -1;
    abx_json_end_array(s->w);
    return 0;
}

/* Newest first: the run of lines that belong to the failed step. */
static void measure(void *arg, const struct abx_store_log *e)
{
    struct status *s = arg;
    if (s->has_other || !abx_str_eq(e->step, s->reason_step)) {
        s->has_other = true;
        return;
    }
    s->first = e->seq;
    s->count++;
}

static void write_reason(struct status *s, const struct abx_store_build *b)
{
    struct abx_store_log_query back = {INT64_MAX, REASON_LINES, 0, true, 0};
    s->reason_step = b->reason_step;
    if (abx_store_log_each(s->call->engine->store, b->id, &back, measure, s, &s->err) < 0)
        return;
    struct abx_store_log_query q = {s->first, (uint32_t)s->count, 0, false, 0};
    abx_json_key(s->w, ABX_STR("reason"));
    abx_json_begin_object(s->w);
    abx_json_kv_str(s->w, "message", b->reason);
    if (b->reason_step.len != 0)
        abx_json_kv_str(s->w, "step", b->reason_step);
    if (write_logs(s, b->id, "logEntries", &q) == 0)
        abx_json_end_object(s->w);
}

static void write_status(void *arg, const struct abx_store_build *b)
{
    struct status *s = arg;
    abx_json_begin_object(s->w);
    abx_json_kv_c(s->w, "templateID", b->template_id);
    abx_json_kv_c(s->w, "buildID", b->id);
    abx_json_kv_c(s->w, "status", abx_store_status_name(b->status));
    abx_json_key(s->w, ABX_STR("logs"));
    abx_json_begin_array(s->w);
    abx_json_end_array(s->w);
    if (write_logs(s, b->id, "logEntries", &s->q) < 0)
        return;
    if (b->status == ABX_STORE_ERROR)
        write_reason(s, b);
    abx_json_end_object(s->w);
}

/* Answers with what @fn writes of the build that the path names. */
static void answer_build(struct abx__call *c, struct status *s, abx_store_build_fn *fn)
{
    ABX_AUTO_BUF json = {.max = (size_t)16 * 1024 * 1024};
    struct abx_json_writer w;
    struct abx__ref ref;
    struct abx_store_template t;
    char id[ABX_STORE_BUILD_LEN + 1];
    if (!abx__named_template(c, &ref, &t) || !check_build_id(c))
        return;
    abx_str_to_c(c->params[1], id, sizeof(id));
    abx__build_flush(c->engine, id);
    abx_json_writer_init(&w, &json);
    s->w = &w;
    s->call = c;
    if (abx_store_build_get(c->engine->store, t.id, abx_str(id), fn, s, &s->err) < 0 ||
        s->err.code != ABX_OK)
        abx__api_fail_err(c, &s->err);
    else
        abx__api_answer_buf(c, 200, &json, NULL);
}

static void status(struct abx__call *c)
{
    struct status s = {0};
    int64_t offset = 0, limit = STATUS_PAGE;
    if (!abx__query_int(c, "logsOffset", 0, INT64_MAX, &offset) ||
        !abx__query_int(c, "limit", 0, STATUS_PAGE, &limit) || !query_level(c, &s.q.level))
        return;
    s.q.from = offset;
    s.q.limit = (uint32_t)limit;
    answer_build(c, &s, write_status);
}

static void write_build_logs(void *arg, const struct abx_store_build *b)
{
    struct status *s = arg;
    abx_json_begin_object(s->w);
    if (write_logs(s, b->id, "logs", &s->q) == 0)
        abx_json_end_object(s->w);
}

static void logs(struct abx__call *c)
{
    struct status s = {0};
    struct abx_str direction = ABX_STR("forward");
    int64_t cursor = 0, limit = LOGS_PAGE;
    if (!abx__query_int(c, "cursor", 0, INT64_MAX, &cursor) ||
        !abx__query_int(c, "limit", 0, LOGS_PAGE, &limit) || !query_level(c, &s.q.level))
        return;
    if (abx_url_query_get(c->req->query, "direction", c->req->arena, &direction) < 0 ||
        (!abx_str_is(direction, "forward") && !abx_str_is(direction, "backward"))) {
        abx__api_fail(c, 400, "validation error: direction: forward or backward");
        return;
    }
    s.q.is_backward = abx_str_is(direction, "backward");
    s.q.from = s.q.is_backward ? INT64_MAX : 0;
    s.q.limit = (uint32_t)limit;
    s.q.at_ms = cursor;
    answer_build(c, &s, write_build_logs);
}

const struct abx__route abx__build_routes[] = {
    {"POST", "/v3/templates", create},
    {"GET", "/templates/{id}/files/{hash}", abx__upload_link},
    {"PUT", "/templates/{id}/files/{hash}", abx__upload_put, .is_open = true, .takes_body = true},
    {"POST", "/v2/templates/{id}/builds/{build}", start},
    {"GET", "/templates/{id}/builds/{build}/status", status},
    {"GET", "/templates/{id}/builds/{build}/logs", logs},
    {0}};
