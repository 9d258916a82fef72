/* host/engine/api.c: the way of an API request: CORS, key, route, body, handler (control-plane 2).
 *
 * Loop thread. Both framings are accepted on every route; bodies are collected up to 1 MiB. */
#include "host/engine/api_priv.h"

#include "lib/base/log.h"
#include "lib/contract/contract.h"
#include "lib/wire/url.h"

#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>

#include "lib/base/banned.h"

const struct abx__route *const abx__route_tables[] = {abx__sandbox_routes,
                                                      abx__template_routes,
                                                      abx__build_routes,
                                                      abx__image_routes,
                                                      abx__export_routes,
                                                      abx__misc_routes,
                                                      NULL};

#define ALLOW_HEADERS                                                                              \
    "Origin, Content-Length, Content-Type, User-Agent, Authorization, X-API-Key, X-Team-ID, "      \
    "browser, lang, lang_version, machine, os, package_version, processor, publisher, release, "   \
    "sdk_runtime, system"
#define EXPOSE_HEADERS                                                                             \
    "X-Next-Token, X-Total-Running, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, "       \
    "Retry-After"

bool abx__secret_eq(struct abx_str a, struct abx_str b)
{
    unsigned char ha[crypto_hash_sha256_BYTES], hb[crypto_hash_sha256_BYTES];
    crypto_hash_sha256(ha, (const unsigned char *)a.ptr, a.len);
    crypto_hash_sha256(hb, (const unsigned char *)b.ptr, b.len);
    return sodium_memcmp(ha, hb, sizeof(ha)) == 0;
}

/* Answers. */

void abx__api_answer_with(struct abx__call *c, int status, struct abx_str json,
                          const struct abx_http_extra *more)
{
    struct abx_http_extra extra[8] = {
        {"Access-Control-Allow-Origin", ABX_STR("*")},
        {"Access-Control-Expose-Headers", ABX_STR(EXPOSE_HEADERS)},
        {"Cache-Control", ABX_STR("no-store")},
    };
    size_t n = 3;
    if (c->req == NULL)
        return;
    if (json.len != 0)
        extra[n++] = (struct abx_http_extra){"Content-Type", ABX_STR("application/json")};
    for (; more != NULL && more->name != NULL && n < ABX_COUNTOF(extra) - 1; more++)
        extra[n++] = *more;
    abx_http_answer(c->req, status, extra, json);
}

void abx__api_answer(struct abx__call *c, int status, struct abx_str json)
{
    abx__api_answer_with(c, status, json, NULL);
}

static void fail_with(struct abx__call *c, int status, struct abx_str message,
                      const struct abx_http_extra *more)
{
    ABX_AUTO_BUF b = {.max = (size_t)2 * ABX__MESSAGE_MAX};
    struct abx_json_writer w;
    abx_json_writer_init(&w, &b);
    abx_json_begin_object(&w);
    abx_json_kv_i64(&w, "code", status);
    abx_json_kv_str(&w, "message", message);
    abx_json_end_object(&w);
    abx__api_answer_with(c, status, abx_buf_str(&b), more);
}

void abx__api_fail_text(struct abx__call *c, int status, struct abx_str message)
{
    fail_with(c, status, abx_str_sub(message, 0, ABX__MESSAGE_MAX), NULL);
}

bool abx__api_read(struct abx__call *c, const struct abx_json_field *fields, void *out)
{
    struct abx_error err = {0};
    if (abx_json_decode_text(abx_buf_str(&c->body), true, fields, out, c->req->arena, &err) == 0)
        return true;
    abx__api_fail(c, 400, "validation error: %s", err.msg);
    return false;
}

void abx__api_fail(struct abx__call *c, int status, const char *fmt, ...)
{
    char message[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    fail_with(c, status, abx_str(message), NULL);
}

void abx__api_answer_buf(struct abx__call *c, int status, const struct abx_buf *json,
                         const struct abx_http_extra *more)
{
    if (abx_buf_failed(json))
        abx__api_fail(c, 500, "the answer has more than %zu bytes, or memory is short", json->max);
    else
        abx__api_answer_with(c, status, abx_buf_str(json), more);
}

void abx__api_fail_err(struct abx__call *c, const struct abx_error *err)
{
    fail_with(c, abx_code_http(err->code), abx_str(err->msg), NULL);
}

void abx__api_unimplemented(struct abx__call *c)
{
    fail_with(c, 501, abx_str(c->route->missing), NULL);
}

/* Routes. */

/* Whether @path fits @pattern; each {x} takes one raw segment. */
static bool path_fits(const char *pattern, struct abx_str path,
                      struct abx_str params[ABX__PARAMS_MAX])
{
    struct abx_str p = abx_str(pattern), want, have;
    size_t n = 0;
    bool more_p, more_path;
    for (;;) {
        more_p = abx_str_split(&p, '/', &want);
        more_path = abx_str_split(&path, '/', &have);
        if (!more_p || !more_path)
            return more_p == more_path;
        if (want.len != 0 && want.ptr[0] == '{') {
            if (have.len == 0 || n == ABX__PARAMS_MAX)
                return false;
            params[n++] = have;
        } else if (!abx_str_eq(want, have)) {
            return false;
        }
    }
}

static bool decode_params(struct abx_str params[ABX__PARAMS_MAX], struct abx_arena *a)
{
    for (size_t i = 0; i < ABX__PARAMS_MAX; i++) {
        if (params[i].ptr != NULL && abx_url_decode(params[i], false, a, &params[i]) < 0)
            return false;
    }
    return true;
}

/* A fixed path wins over one with a parameter: /sandboxes/metrics before /sandboxes/{id}. */
static size_t fixed_bytes(const char *pattern)
{
    size_t n = 0;
    bool inside = false;
    for (; *pattern != '\0'; pattern++) {
        inside = (inside || *pattern == '{') && *pattern != '}';
        n += inside ? 0 : 1;
    }
    return n;
}

const struct abx__route *abx__route_find(struct abx_str method, struct abx_str path,
                                         struct abx_arena *a,
                                         struct abx_str params[ABX__PARAMS_MAX], char **ret_allow)
{
    const struct abx__route *best = NULL;
    struct abx_str best_params[ABX__PARAMS_MAX] = {{0}};
    *ret_allow = NULL;
    for (size_t t = 0; abx__route_tables[t] != NULL; t++) {
        for (const struct abx__route *r = abx__route_tables[t]; r->path != NULL; r++) {
            struct abx_str found[ABX__PARAMS_MAX] = {{0}};
            if (!path_fits(r->path, path, found) || !decode_params(found, a))
                continue;
            *ret_allow = abx_arena_printf(a, "%s%s%s", *ret_allow == NULL ? "" : *ret_allow,
                                          *ret_allow == NULL ? "" : ", ", r->method);
            if (!abx_str_is(method, r->method) ||
                (best != NULL && fixed_bytes(best->path) >= fixed_bytes(r->path)))
                continue;
            best = r;
            memcpy(best_params, found, sizeof(found));
        }
    }
    memcpy(params, best_params, sizeof(best_params));
    return best;
}

/* The key. */

static struct abx_str presented_key(const struct abx_http_req *req)
{
    struct abx_str key = abx_http_header(req->head, ABX_HEADER_API_KEY);
    if (key.len != 0)
        return key;
    struct abx_str auth = abx_http_header(req->head, "Authorization");
    if (auth.len > 7 && abx_str_is_nocase(abx_str_sub(auth, 0, 7), "bearer "))
        return abx_str_trim(abx_str_sub(auth, 7, auth.len));
    return (struct abx_str){0};
}

static bool key_is_well_formed(struct abx_str key)
{
    if (!abx_str_starts(key, "e2b_") || key.len == 4)
        return false;
    for (size_t i = 4; i < key.len; i++) {
        char c = key.ptr[i];
        if ((c < '0' || c > '9') && (c < 'a' || c > 'f'))
            return false;
    }
    return true;
}

static bool authorise(struct abx__call *c)
{
    struct abx_str key = presented_key(c->req);
    const char *why = NULL;
    if (key.len == 0)
        why = "no credential: send the header X-API-KEY or Authorization: Bearer with the key that"
              " `abx env` prints";
    else if (!key_is_well_formed(key))
        why = "Invalid API key format";
    else if (!abx_store_key_matches(c->engine->store, key))
        why = "Cannot get the team for the given API key";
    if (why != NULL)
        abx__api_fail(c, 401, "%s", why);
    return why == NULL;
}

/* The body. */

static void on_body(struct abx_http_req *req, const char *data, size_t len)
{
    struct abx__call *c = req->data;
    abx_buf_put(&c->body, data, len); /* sticky: over the cap is seen at the end */
}

static void on_body_end(struct abx_http_req *req)
{
    struct abx__call *c = req->data;
    if (abx_buf_failed(&c->body))
        abx__api_fail(c, 413, "the body has more than %d bytes", ABX__BODY_MAX);
    else
        c->route->fn(c);
}

static void on_close(struct abx_http_req *req, bool aborted)
{
    struct abx__call *c = req->data;
    struct abx__sandbox *created = abx__sandbox_find(c->engine, abx_str(c->created_id));
    if (c->on_close != NULL)
        c->on_close(c);
    abx_list_remove(&c->wait.node); /* a creation that nobody waits for is undone */
    if (aborted && created != NULL) /* and one whose answer did not get through */
        abx__sandbox_kill(created, NULL);
    abx_buf_done(&c->body);
    c->req = NULL;
}

static void preflight(struct abx__call *c)
{
    struct abx_http_extra extra[] = {
        {"Access-Control-Allow-Methods", ABX_STR("GET, POST, PUT, PATCH, DELETE, OPTIONS")},
        {"Access-Control-Allow-Headers", ABX_STR(ALLOW_HEADERS)},
        {"Access-Control-Max-Age", ABX_STR("7200")},
        {0}};
    abx__api_answer_with(c, 204, (struct abx_str){0}, extra);
}

static void refuse_route(struct abx__call *c, const char *allow)
{
    if (allow == NULL) {
        abx__api_fail(c, 404, "no such route: %.*s %.*s; GET /abx/v1/info tells what this is",
                      (int)(c->req->head->method.len < 32 ? c->req->head->method.len : 32),
                      c->req->head->method.ptr,
                      (int)(c->req->path.len < 200 ? c->req->path.len : 200), c->req->path.ptr);
        return;
    }
    struct abx_http_extra extra[] = {{"Allow", abx_str(allow)}, {0}};
    fail_with(c, 405, ABX_STR("method not allowed"), extra);
}

void abx__api_serve(struct abx__engine *e, struct abx_http_req *req)
{
    char *allow = NULL;
    struct abx__call *c = abx_arena_alloc(req->arena, sizeof(*c));
    if (c == NULL) {
        abx_http_abort(req);
        return;
    }
    c->engine = e;
    c->req = req;
    abx_buf_init(&c->body, ABX__BODY_MAX);
    req->data = c;
    req->on_close = on_close;
    if (abx_str_is(req->head->method, "OPTIONS") &&
        abx_http_header(req->head, "Access-Control-Request-Method").ptr != NULL) {
        preflight(c);
        return;
    }
    c->route = abx__route_find(req->head->method, req->path, req->arena, c->params, &allow);
    if ((c->route == NULL || !c->route->is_open) && !authorise(c))
        return;
    if (c->route == NULL) {
        refuse_route(c, allow);
        return;
    }
    if (c->route->takes_body) {
        c->route->fn(c);
        return;
    }
    if (!req->head->is_chunked && (!req->head->has_length || req->head->content_length == 0)) {
        c->route->fn(c);
        return;
    }
    req->on_body = on_body;
    req->on_body_end = on_body_end;
}
