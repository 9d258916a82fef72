/* client/sandbox.c: the control plane: create, connect, list, kill, timeout, URLs of ports. */
#include "client/client_priv.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/contract/contract.h"
#include "lib/json/json.h"
#include "lib/wire/url.h"

#include <stdio.h>

#include "lib/base/banned.h"

enum { DEFAULT_TIMEOUT_S = 300, CREATE_BODY_MAX = 1 << 20, LIST_MAX = 100000 };

struct answer {
    struct abx_str id, token, domain;
};
static const struct abx_json_field answer_fields[] = {
    {"sandboxID", ABX_JSON_STR, offsetof(struct answer, id), ABX_JSON_REQUIRED},
    {"envdAccessToken", ABX_JSON_STR, offsetof(struct answer, token), 0},
    {"domain", ABX_JSON_STR, offsetof(struct answer, domain), 0},
    {0}};

/* A handle from the body of a create or connect answer. */
static int take_sandbox(struct abx_client *c, struct abx_str body, struct abx_sandbox **ret,
                        struct abx_client_error *err)
{
    struct abx_arena arena;
    abx_arena_init(&arena, 1 << 20);
    struct answer a = {0};
    struct abx_error base;
    if (abx_json_decode_text(body, false, answer_fields, &a, &arena, &base) < 0) {
        abx_arena_done(&arena);
        return abx__client_fail(err, "E9000", "engine", "answer: %s", base.msg);
    }
    struct abx_sandbox *sb = calloc(1, sizeof(*sb));
    if (sb != NULL) {
        sb->client = c;
        sb->id = abx_str_dup(a.id);
        sb->token = a.token.len ? abx_str_dup(a.token) : NULL;
        sb->domain = a.domain.len ? abx_str_dup(a.domain) : NULL;
    }
    abx_arena_done(&arena);
    if (sb == NULL || sb->id == NULL) {
        abx_sandbox_free(sb);
        return abx__client_fail_memory(err);
    }
    *ret = sb;
    return 0;
}

static void put_pairs(struct abx_json_writer *w, const char *key, const struct abx_pair *pairs)
{
    if (pairs == NULL || pairs->key == NULL)
        return;
    abx_json_key(w, abx_str(key));
    abx_json_begin_object(w);
    for (; pairs->key; pairs++)
        abx_json_kv_c(w, pairs->key, pairs->value);
    abx_json_end_object(w);
}

int abx_sandbox_create(struct abx_client *c, const struct abx_create_options *o,
                       struct abx_sandbox **ret, struct abx_client_error *err)
{
    const char *template_name = o->template_name ? o->template_name : "base";
    ABX_AUTO_BUF body;
    abx_buf_init(&body, CREATE_BODY_MAX);
    struct abx_json_writer w;
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "templateID", template_name);
    abx_json_kv_i64(&w, "timeout", o->timeout_s ? o->timeout_s : DEFAULT_TIMEOUT_S);
    put_pairs(&w, "metadata", o->metadata);
    put_pairs(&w, "envVars", o->env);
    abx_json_end_object(&w);
    if (abx_buf_failed(&body))
        return abx__client_fail(err, "E8002", "client", "environment and metadata are over 1 MiB");
    struct client_request r;
    int result = abx__client_api(c, "POST", "/v2/sandboxes", body.ptr, &r, err);
    if (result == 0 && r.status / 100 != 2) {
        result = abx__client_fail_answer(err, "engine", "create", r.status, abx_buf_str(&r.answer));
        if (r.status == 404) {
            snprintf(err->id, sizeof(err->id), "E2001");
            abx__client_next(err, "abx template list shows what is there; host is always there");
        }
    }
    if (result == 0)
        result = take_sandbox(c, abx_buf_str(&r.answer), ret, err);
    abx_buf_done(&r.answer);
    return result;
}

static int check_id(const char *id, struct abx_client_error *err)
{
    size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789");
    if (n == 0 || id[n] != '\0' || n > 64)
        return abx__client_fail(err, "E8002", "client", "'%.80s' is no sandbox id", id);
    return 0;
}

/* One call about sandbox @id; on success *ret holds the answer, to be done by the caller. */
static int call_about(struct abx_client *c, const char *method, const char *id, const char *verb,
                      const char *json, struct client_request *ret, struct abx_client_error *err)
{
    char path[160], subject[96];
    if (check_id(id, err) < 0)
        return -1;
    snprintf(path, sizeof(path), "%s/sandboxes/%s%s", strcmp(verb, "/connect") ? "" : "/v2", id,
             verb);
    snprintf(subject, sizeof(subject), "sandbox %s", id);
    int result = abx__client_api(c, method, path, json, ret, err);
    if (result == 0 && ret->status / 100 != 2)
        result =
            abx__client_fail_answer(err, "engine", subject, ret->status, abx_buf_str(&ret->answer));
    if (result < 0)
        abx_buf_done(&ret->answer);
    return result;
}

int abx_sandbox_connect(struct abx_client *c, const char *id, uint32_t timeout_s,
                        struct abx_sandbox **ret, struct abx_client_error *err)
{
    char json[64];
    snprintf(json, sizeof(json), "{\"timeout\":%u}", timeout_s ? timeout_s : DEFAULT_TIMEOUT_S);
    struct client_request r = {0};
    if (call_about(c, "POST", id, "/connect", json, &r, err) < 0)
        return -1;
    int result = take_sandbox(c, abx_buf_str(&r.answer), ret, err);
    abx_buf_done(&r.answer);
    return result;
}

void abx_sandbox_free(struct abx_sandbox *sb)
{
    if (sb == NULL)
        return;
    free(sb->id);
    free(sb->token);
    free(sb->domain);
    free(sb);
}

const char *abx_sandbox_id(const struct abx_sandbox *sb)
{
    return sb->id;
}

int abx_sandbox_kill(struct abx_client *c, const char *id, struct abx_client_error *err)
{
    struct client_request r = {0};
    if (call_about(c, "DELETE", id, "", NULL, &r, err) < 0)
        return -1;
    abx_buf_done(&r.answer);
    return 0;
}

int abx_sandbox_set_timeout(struct abx_client *c, const char *id, uint32_t timeout_s,
                            struct abx_client_error *err)
{
    char json[64];
    snprintf(json, sizeof(json), "{\"timeout\":%u}", timeout_s);
    struct client_request r = {0};
    if (call_about(c, "POST", id, "/timeout", json, &r, err) < 0)
        return -1;
    abx_buf_done(&r.answer);
    return 0;
}

/* ---- list ---- */

struct listed {
    struct abx_str id, template_id, alias, state, started_at, end_at;
    uint32_t cpu_count, memory_mb;
};
static const struct abx_json_field listed_fields[] = {
    {"sandboxID", ABX_JSON_STR, offsetof(struct listed, id), ABX_JSON_REQUIRED},
    {"templateID", ABX_JSON_STR, offsetof(struct listed, template_id), 0},
    {"alias", ABX_JSON_STR, offsetof(struct listed, alias), 0},
    {"state", ABX_JSON_STR, offsetof(struct listed, state), 0},
    {"startedAt", ABX_JSON_STR, offsetof(struct listed, started_at), 0},
    {"endAt", ABX_JSON_STR, offsetof(struct listed, end_at), 0},
    {"cpuCount", ABX_JSON_U32, offsetof(struct listed, cpu_count), 0},
    {"memoryMB", ABX_JSON_U32, offsetof(struct listed, memory_mb), 0},
    {0}};
struct page {
    struct abx_json_array rows;
};
static const struct abx_json_field page_fields[] = {{"rows", ABX_JSON_ARRAY,
                                                     offsetof(struct page, rows), ABX_JSON_REQUIRED,
                                                     listed_fields, sizeof(struct listed)},
                                                    {0}};

static int add_rows(struct abx_sandbox_list *l, const struct page *p)
{
    const struct listed *in = p->rows.items;
    struct abx_sandbox_row *rows = realloc(l->rows, (l->count + p->rows.count) * sizeof(*rows));
    if (rows == NULL && p->rows.count > 0)
        return -1;
    l->rows = rows ? rows : l->rows;
    for (size_t i = 0; i < p->rows.count; i++) {
        struct abx_str name = in[i].alias.len ? in[i].alias : in[i].template_id;
        l->rows[l->count++] = (struct abx_sandbox_row){.id = abx_str_dup(in[i].id),
                                                       .template_name = abx_str_dup(name),
                                                       .state = abx_str_dup(in[i].state),
                                                       .started_at = abx_str_dup(in[i].started_at),
                                                       .end_at = abx_str_dup(in[i].end_at),
                                                       .cpu_count = in[i].cpu_count,
                                                       .memory_mb = in[i].memory_mb};
    }
    return 0;
}

/* The answer is an array; the field table wants an object around it. */
static int take_page(struct abx_str body, struct abx_sandbox_list *l, struct abx_client_error *err)
{
    struct abx_arena arena;
    abx_arena_init(&arena, 4 * CLIENT_BODY_MAX);
    ABX_AUTO_BUF wrapped;
    abx_buf_init(&wrapped, CLIENT_BODY_MAX + 16);
    abx_buf_put_c(&wrapped, "{\"rows\":");
    abx_buf_put_str(&wrapped, body);
    abx_buf_put_c(&wrapped, "}");
    struct page p = {0};
    struct abx_error base;
    int result = abx_json_decode_text(abx_buf_str(&wrapped), false, page_fields, &p, &arena, &base);
    if (result < 0)
        abx__client_fail(err, "E9000", "engine", "list: %s", base.msg);
    else if ((result = add_rows(l, &p)) < 0)
        abx__client_fail_memory(err);
    abx_arena_done(&arena);
    return result;
}

int abx_sandbox_list(struct abx_client *c, struct abx_sandbox_list *ret,
                     struct abx_client_error *err)
{
    struct abx_sandbox_list l = {0};
    char next[256] = "";
    do {
        ABX_AUTO_BUF path;
        abx_buf_init(&path, 2048);
        abx_buf_put_c(&path, "/v2/sandboxes?limit=100");
        if (next[0]) {
            abx_buf_put_c(&path, "&nextToken=");
            abx_url_encode(&path, abx_str(next), "");
        }
        struct client_request r = {0};
        int result = abx__client_api(c, "GET", path.ptr, NULL, &r, err);
        if (result == 0 && r.status != 200)
            result =
                abx__client_fail_answer(err, "engine", "list", r.status, abx_buf_str(&r.answer));
        if (result == 0)
            result = take_page(abx_buf_str(&r.answer), &l, err);
        abx_buf_done(&r.answer);
        if (result < 0) {
            abx_sandbox_list_free(&l);
            return -1;
        }
        memcpy(next, r.next_token, sizeof(next));
    } while (next[0] && l.count < LIST_MAX);
    *ret = l;
    return 0;
}

void abx_sandbox_list_free(struct abx_sandbox_list *l)
{
    for (size_t i = 0; l != NULL && i < l->count; i++) {
        free(l->rows[i].id);
        free(l->rows[i].template_name);
        free(l->rows[i].state);
        free(l->rows[i].started_at);
        free(l->rows[i].end_at);
    }
    if (l != NULL) {
        free(l->rows);
        *l = (struct abx_sandbox_list){0};
    }
}

int abx_sandbox_url(struct abx_sandbox *sb, uint16_t port, enum abx_url_form form, char **ret,
                    struct abx_client_error *err)
{
    struct abx_buf b;
    abx_buf_init(&b, 1024);
    if (form == ABX_URL_PATH)
        abx_buf_putf(&b, "%s/.p/%s/%u/", sb->client->url, sb->id, (unsigned)port);
    else if (sb->domain == NULL)
        return abx__client_fail(err, "E8004", "engine", "the engine named no domain");
    else
        abx_buf_putf(&b, "http://%u-%s.%s/", (unsigned)port, sb->id, sb->domain);
    *ret = abx_buf_take(&b);
    return *ret ? 0 : abx__client_fail_memory(err);
}

/* ---- what every request to envd carries ---- */

char *abx__sandbox_basic(const char *user)
{
    struct abx_buf b;
    ABX_AUTO_BUF plain;
    abx_buf_init(&b, 1024);
    abx_buf_init(&plain, 512);
    abx_buf_putf(&plain, "%s:", user);
    abx_buf_put_c(&b, "Basic ");
    if (abx_buf_failed(&plain))
        return NULL;
    abx_base64_encode(plain.ptr, plain.len, true, &b);
    return abx_buf_take(&b);
}

void abx__sandbox_headers(const struct abx_sandbox *sb, const char *content_type, const char *basic,
                          struct abx_http_extra *out)
{
    size_t n = 0;
    out[n++] = (struct abx_http_extra){ABX_HEADER_SANDBOX_ID, abx_str(sb->id)};
    out[n++] = (struct abx_http_extra){ABX_HEADER_SANDBOX_PORT, ABX_STR("49983")};
    if (content_type)
        out[n++] = (struct abx_http_extra){"Content-Type", abx_str(content_type)};
    if (sb->token)
        out[n++] = (struct abx_http_extra){ABX_HEADER_ACCESS_TOKEN, abx_str(sb->token)};
    if (basic)
        out[n++] = (struct abx_http_extra){"Authorization", abx_str(basic)};
    out[n] = (struct abx_http_extra){0};
}
