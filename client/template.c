/* client/template.c: building templates over the control plane (control-plane.md 7, 8). */
#include "client/client_priv.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "lib/contract/contract.h"
#include "lib/json/json.h"
#include "lib/wire/url.h"

#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "lib/base/banned.h"

enum {
    BODY_MAX = 1 << 20,
    BUILD_TIME_MS = 3600 * 1000,
    POLL_FIRST_MS = 20,
    POLL_MOST_MS = 500,
    NAME_MAX_BYTES = 256
};

struct build {
    struct abx_client *c;
    const struct abx_build_options *o;
    struct abx_build_result *ret;
    struct abx_client_error *err;
    char template_path[512]; /* percent-encoded id */
    uint64_t logs_seen;
};

/* ---- requests ---- */

static void encode(const char *name, char *out, size_t cap)
{
    ABX_AUTO_BUF b;
    abx_buf_init(&b, cap - 1);
    abx_url_encode(&b, abx_str(name), "");
    snprintf(out, cap, "%s", b.ptr && !abx_buf_failed(&b) ? b.ptr : "");
}

/* A call that must answer 2xx; the body in r->answer, to be done by the caller in any case. */
static int call(struct abx_client *c, const char *method, const char *path, const char *json,
                struct client_request *r, struct abx_client_error *err)
{
    int result = abx__client_api(c, method, path, json, r, err);
    if (result == 0 && r->status / 100 != 2) {
        result =
            abx__client_fail_answer(err, "engine", "template", r->status, abx_buf_str(&r->answer));
        if (r->status == 404) {
            snprintf(err->id, sizeof(err->id), "E2001");
            abx__client_next(err, "abx template list shows what is there");
        } else if (r->status == 400)
            snprintf(err->id, sizeof(err->id), "E8002");
    }
    return result;
}

static int decode(struct client_request *r, const struct abx_json_field *fields, void *out,
                  struct abx_arena *a, struct abx_client_error *err)
{
    struct abx_error base;
    if (abx_json_decode_text(abx_buf_str(&r->answer), false, fields, out, a, &base) < 0)
        return abx__client_fail(err, "E9000", "engine", "answer: %s", base.msg);
    return 0;
}

/* ---- 1: the build's record ---- */

struct created {
    struct abx_str template_id, build_id;
};
static const struct abx_json_field created_fields[] = {
    {"templateID", ABX_JSON_STR, offsetof(struct created, template_id), ABX_JSON_REQUIRED},
    {"buildID", ABX_JSON_STR, offsetof(struct created, build_id), ABX_JSON_REQUIRED},
    {0}};

static int request_build(struct build *b)
{
    ABX_AUTO_BUF body;
    struct abx_json_writer w;
    struct client_request r = {0};
    struct created made = {0};
    struct abx_arena arena;
    abx_arena_init(&arena, BODY_MAX);
    abx_buf_init(&body, BODY_MAX);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "name", b->o->name);
    if (b->o->cpu_count)
        abx_json_kv_i64(&w, "cpuCount", b->o->cpu_count);
    if (b->o->memory_mb)
        abx_json_kv_i64(&w, "memoryMB", b->o->memory_mb);
    if (b->o->tags && b->o->tags[0]) {
        abx_json_key(&w, ABX_STR("tags"));
        abx_json_begin_array(&w);
        for (const char *const *t = b->o->tags; *t; t++)
            abx_json_str(&w, abx_str(*t));
        abx_json_end_array(&w);
    }
    abx_json_end_object(&w);
    int result = abx_buf_failed(&body) ? abx__client_fail_memory(b->err)
                                       : call(b->c, "POST", "/v3/templates", body.ptr, &r, b->err);
    if (result == 0)
        result = decode(&r, created_fields, &made, &arena, b->err);
    if (result == 0 &&
        (abx_str_to_c(made.template_id, b->ret->template_id, sizeof(b->ret->template_id)) < 0 ||
         abx_str_to_c(made.build_id, b->ret->build_id, sizeof(b->ret->build_id)) < 0))
        result = abx__client_fail(b->err, "E9000", "engine", "the template's id is too long");
    encode(b->ret->template_id, b->template_path, sizeof(b->template_path));
    abx_buf_done(&r.answer);
    abx_arena_done(&arena);
    return result;
}

/* ---- 2: what COPY reads ---- */

struct link {
    bool present;
    struct abx_str url;
};
static const struct abx_json_field link_fields[] = {
    {"present", ABX_JSON_BOOL, offsetof(struct link, present), ABX_JSON_REQUIRED},
    {"url", ABX_JSON_STR, offsetof(struct link, url), 0},
    {0}};

/* PUT to a link that needs no key. */
static int put_file(struct build *b, struct abx_str url, int fd)
{
    struct abx_url u;
    struct abx_error base;
    struct stat st;
    char origin[300];
    struct abx_client *c = NULL;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size == 0)
        return abx__client_fail(b->err, "E4000", "client", "the archive is no regular file");
    if (abx_url_parse(url, &u, &base) < 0)
        return abx__client_fail(b->err, "E9000", "engine", "upload link: %s", base.msg);
    snprintf(origin, sizeof(origin), "%.*s://%.*s:%u", ABX_STR_FMT(u.scheme), ABX_STR_FMT(u.host),
             (unsigned)(u.port ? u.port : 80));
    struct abx_client_options o = {.url = origin, .api_key = "none"};
    if (abx_client_open(&o, &c, b->err) < 0)
        return -1;
    ABX_AUTO_BUF target;
    abx_buf_init(&target, 16384);
    abx_buf_put_str(&target, u.path);
    if (u.query.len)
        abx_buf_putf(&target, "?%.*s", ABX_STR_FMT(u.query));
    struct client_request r = {.method = "PUT",
                               .target = abx_buf_str(&target),
                               .body_fd = fd,
                               .body_fd_bytes = (uint64_t)st.st_size,
                               .timeout_ms = BUILD_TIME_MS};
    int result = abx__client_run(c, &r, b->err);
    if (result == 0 && r.status / 100 != 2)
        result =
            abx__client_fail_answer(b->err, "engine", "upload", r.status, abx_buf_str(&r.answer));
    abx_buf_done(&r.answer);
    abx_client_close(c);
    return result;
}

static int upload(struct build *b, const struct abx_build_step *step)
{
    char path[700];
    struct client_request r = {0};
    struct link link = {0};
    struct abx_arena arena;
    abx_arena_init(&arena, BODY_MAX);
    snprintf(path, sizeof(path), "/templates/%s/files/%s", b->template_path, step->files_hash);
    int result = call(b->c, "GET", path, NULL, &r, b->err);
    if (result == 0)
        result = decode(&r, link_fields, &link, &arena, b->err);
    if (result == 0 && !link.present) {
        ABX_AUTO_FD fd = b->o->open_files ? b->o->open_files(b->o->arg, step->files_hash) : -1;
        if (link.url.len == 0)
            result = abx__client_fail(b->err, "E9000", "engine", "no upload link was given");
        else if (fd < 0)
            result =
                abx__client_fail(b->err, "E4000", "client", "%s: nothing to upload", step->args[0]);
        else
            result = put_file(b, link.url, fd);
    }
    abx_buf_done(&r.answer);
    abx_arena_done(&arena);
    return result;
}

/* ---- 3: the start ---- */

static void put_step(struct abx_json_writer *w, const struct abx_build_step *s)
{
    abx_json_begin_object(w);
    abx_json_kv_c(w, "type", s->type);
    abx_json_key(w, ABX_STR("args"));
    abx_json_begin_array(w);
    for (size_t i = 0; i < s->arg_count; i++)
        abx_json_str(w, abx_str(s->args[i]));
    abx_json_end_array(w);
    abx_json_kv_bool(w, "force", s->force);
    if (s->files_hash)
        abx_json_kv_c(w, "filesHash", s->files_hash);
    abx_json_end_object(w);
}

static void put_start(struct abx_json_writer *w, const struct abx_build_options *o)
{
    const struct {
        const char *key, *value;
    } texts[] = {{"fromImage", o->from_image},
                 {"fromTemplate", o->from_template},
                 {"startCmd", o->start_cmd},
                 {"readyCmd", o->ready_cmd}};
    abx_json_begin_object(w);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (texts[i].value && texts[i].value[0])
            abx_json_kv_c(w, texts[i].key, texts[i].value);
    abx_json_key(w, ABX_STR("steps"));
    abx_json_begin_array(w);
    for (size_t i = 0; i < o->step_count; i++)
        put_step(w, &o->steps[i]);
    abx_json_end_array(w);
    abx_json_kv_bool(w, "force", o->force);
    if (o->envd_inject || o->network || o->proc_hidepid) {
        abx_json_key(w, ABX_STR("abx"));
        abx_json_begin_object(w);
        if (o->envd_inject)
            abx_json_kv_c(w, "envdInject", o->envd_inject);
        if (o->network)
            abx_json_kv_c(w, "network", o->network);
        if (o->proc_hidepid)
            abx_json_kv_bool(w, "procHidepid", strcmp(o->proc_hidepid, "true") == 0);
        abx_json_end_object(w);
    }
    abx_json_end_object(w);
}

static int start_build(struct build *b)
{
    char path[700];
    ABX_AUTO_BUF body;
    struct abx_json_writer w;
    struct client_request r = {0};
    abx_buf_init(&body, BODY_MAX);
    abx_json_writer_init(&w, &body);
    put_start(&w, b->o);
    if (abx_buf_failed(&body))
        return abx__client_fail(b->err, "E8002", "client", "the steps are over 1 MiB");
    snprintf(path, sizeof(path), "/v2/templates/%s/builds/%s", b->template_path, b->ret->build_id);
    int result = call(b->c, "POST", path, body.ptr, &r, b->err);
    abx_buf_done(&r.answer);
    return result;
}

/* ---- 4: the log, to the end ---- */

struct entry {
    struct abx_str level, message, step;
};
static const struct abx_json_field entry_fields[] = {
    {"level", ABX_JSON_STR, offsetof(struct entry, level), 0},
    {"message", ABX_JSON_STR, offsetof(struct entry, message), 0},
    {"step", ABX_JSON_STR, offsetof(struct entry, step), 0},
    {0}};
struct reason {
    struct abx_str message, step;
};
static const struct abx_json_field reason_fields[] = {
    {"message", ABX_JSON_STR, offsetof(struct reason, message), 0},
    {"step", ABX_JSON_STR, offsetof(struct reason, step), 0},
    {0}};
struct status {
    struct abx_str status;
    struct abx_json_array entries;
    struct reason reason;
};
static const struct abx_json_field status_fields[] = {
    {"status", ABX_JSON_STR, offsetof(struct status, status), ABX_JSON_REQUIRED},
    {"logEntries", ABX_JSON_ARRAY, offsetof(struct status, entries), 0, entry_fields,
     sizeof(struct entry)},
    {"reason", ABX_JSON_OBJECT, offsetof(struct status, reason), 0, reason_fields,
     sizeof(struct reason)},
    {0}};

static void show_entries(struct build *b, const struct status *s, struct abx_arena *a)
{
    const struct entry *e = s->entries.items;
    for (size_t i = 0; i < s->entries.count; i++) {
        struct abx_build_log log = {abx_arena_c(a, e[i].level), abx_arena_c(a, e[i].message),
                                    abx_arena_c(a, e[i].step)};
        if (b->o->on_log && log.level && log.message && log.step)
            b->o->on_log(b->o->arg, &log);
    }
    b->logs_seen += s->entries.count;
}

/* One page of the status. 1: over, and no entry is left; 0: go on; -1. */
static int poll_status(struct build *b, bool *ret_got)
{
    char path[800];
    struct client_request r = {0};
    struct status s = {0};
    struct abx_arena arena;
    abx_arena_init(&arena, 4 * CLIENT_BODY_MAX);
    snprintf(path, sizeof(path), "/templates/%s/builds/%s/status?logsOffset=%llu&limit=100",
             b->template_path, b->ret->build_id, (unsigned long long)b->logs_seen);
    int result = call(b->c, "GET", path, NULL, &r, b->err);
    if (result == 0)
        result = decode(&r, status_fields, &s, &arena, b->err);
    if (result == 0) {
        bool is_ready = abx_str_is(s.status, "ready");
        show_entries(b, &s, &arena);
        *ret_got = s.entries.count > 0;
        if ((is_ready || abx_str_is(s.status, "error")) && s.entries.count == 0) {
            b->ret->is_ready = is_ready;
            snprintf(b->ret->step, sizeof(b->ret->step), "%.*s", ABX_STR_FMT(s.reason.step));
            snprintf(b->ret->message, sizeof(b->ret->message), "%.*s",
                     ABX_STR_FMT(s.reason.message));
            result = 1;
        }
    }
    abx_buf_done(&r.answer);
    abx_arena_done(&arena);
    return result;
}

static int follow(struct build *b)
{
    int64_t deadline =
        abx_time_mono_ms() + (b->o->timeout_ms ? (int64_t)b->o->timeout_ms : BUILD_TIME_MS);
    uint32_t wait_ms = POLL_FIRST_MS;
    for (;;) {
        bool got = false;
        int result = poll_status(b, &got);
        if (result != 0)
            return result < 0 ? -1 : 0;
        if (abx_time_mono_ms() > deadline)
            return abx__client_fail(b->err, "E3001", "client", "build %s is not over in time",
                                    b->ret->build_id);
        wait_ms = got ? POLL_FIRST_MS : wait_ms * 2 < POLL_MOST_MS ? wait_ms * 2 : POLL_MOST_MS;
        struct timespec nap = {.tv_sec = wait_ms / 1000, .tv_nsec = (wait_ms % 1000) * 1000000};
        if (!got)
            nanosleep(&nap, NULL);
    }
}

int abx_template_build(struct abx_client *c, const struct abx_build_options *o,
                       struct abx_build_result *ret, struct abx_client_error *err)
{
    struct build b = {.c = c, .o = o, .ret = ret, .err = err};
    *ret = (struct abx_build_result){0};
    if (request_build(&b) < 0)
        return -1;
    for (size_t i = 0; i < o->step_count; i++)
        if (o->steps[i].files_hash && upload(&b, &o->steps[i]) < 0)
            return -1;
    if (start_build(&b) < 0)
        return -1;
    return follow(&b);
}

/* ---- the rest ---- */

static int call_named(struct abx_client *c, const char *method, const char *name, char **ret_json,
                      struct abx_client_error *err)
{
    char path[NAME_MAX_BYTES * 3 + 16], id[NAME_MAX_BYTES * 3];
    struct client_request r = {0};
    encode(name, id, sizeof(id));
    if (id[0] == '\0')
        return abx__client_fail(err, "E8002", "client", "'%.80s' is no template name", name);
    snprintf(path, sizeof(path), "/templates/%s", id);
    int result = call(c, method, path, NULL, &r, err);
    if (result == 0 && ret_json != NULL &&
        (*ret_json = abx_str_dup(abx_buf_str(&r.answer))) == NULL)
        result = abx__client_fail_memory(err);
    abx_buf_done(&r.answer);
    return result;
}

int abx_template_delete(struct abx_client *c, const char *name, struct abx_client_error *err)
{
    return call_named(c, "DELETE", name, NULL, err);
}

int abx_template_get(struct abx_client *c, const char *name, char **ret_json,
                     struct abx_client_error *err)
{
    return call_named(c, "GET", name, ret_json, err);
}

int abx_template_list(struct abx_client *c, char **ret_json, struct abx_client_error *err)
{
    struct client_request r = {0};
    int result = call(c, "GET", "/templates", NULL, &r, err);
    if (result == 0 && (*ret_json = abx_str_dup(abx_buf_str(&r.answer))) == NULL)
        result = abx__client_fail_memory(err);
    abx_buf_done(&r.answer);
    return result;
}
