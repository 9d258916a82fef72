/* guest/envd/health.c: GET /health: alive. With ?verbose, for those who may call at all: of which
 * version, as whom processes run, and what PID 1 tells (base-image.md 2, security S45). */
#include "guest/envd/envd_priv.h"

#include "lib/wire/url.h"

#include "lib/base/banned.h"

enum { BODY_MAX = 16384 };

/* A malformed query is none: a probe does not fail by it. */
static bool wants_verbose(const struct abx_http_req *req)
{
    struct abx_str value;
    return abx_url_query_get(req->query, "verbose", req->arena, &value) == 1;
}

bool abx__is_probe(const struct abx_http_req *req)
{
    return abx_str_is(req->head->method, "GET") && abx_str_is(req->path, "/health") &&
           !wants_verbose(req);
}

/* null: nobody of that name. */
static void put_default_user(const struct abx__envd *e, struct abx_json_writer *w)
{
    struct abx_user user;
    abx_json_key(w, ABX_STR("runsAs"));
    if (abx_user_by_name(abx__users_root(e), e->state.default_user, &user, NULL) < 0) {
        abx_json_null(w);
        return;
    }
    abx_json_begin_object(w);
    abx_json_kv_c(w, "name", user.name);
    abx_json_kv_i64(w, "uid", user.uid);
    abx_json_kv_c(w, "home", user.home);
    abx_json_end_object(w);
    abx_user_done(&user);
}

static void put_report(const struct abx__envd *e, struct abx_buf *out)
{
    struct abx_json_writer w;
    abx_json_writer_init(&w, out);
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "status", "ok");
    abx_json_kv_c(&w, "version", ABX_VERSION);
    abx_json_kv_c(&w, "envdVersion", ABX_ENVD_VERSION);
    abx_json_kv_bool(&w, "locked", e->o.is_locked);
    put_default_user(e, &w);
    if (e->o.describe)
        e->o.describe(e->o.describe_arg, &w);
    abx_json_end_object(&w);
}

void abx__health_get(struct abx_http_req *req)
{
    bool is_verbose = !abx__is_probe(req);
    struct abx__headers h;
    ABX_AUTO_BUF body;
    abx_buf_init(&body, BODY_MAX);
    if (is_verbose)
        put_report(abx__envd_of(req), &body);
    if (abx_buf_failed(&body)) {
        abx__answer_error(req, 500, "out of memory");
        return;
    }
    abx__headers_begin(&h, req);
    abx__headers_add(&h, "Cache-Control", ABX_STR("no-store"));
    abx__headers_add(&h, ABX_HEADER_ENVD_VERSION, ABX_STR(ABX_ENVD_VERSION));
    if (is_verbose)
        abx__headers_add(&h, "Content-Type", ABX_STR("application/json"));
    abx_http_answer(req, is_verbose ? 200 : 204, h.rows, abx_buf_str(&body));
}
