/* guest/envd/rest.c: the order of evaluation (guard, CORS, lock, token, user, route) and the
 * helpers of REST answers, envd.md 1 and 2. */
#include "guest/envd/envd_priv.h"

#include "lib/base/assert.h"
#include "lib/wire/url.h"

#include "lib/base/banned.h"

enum { SHOWN_BYTES = 1024, ERROR_BYTES = 65536 };

static const char cors_exposed[] =
    "Grpc-Status, Grpc-Message, Grpc-Status-Details-Bin, Location, Cache-Control, "
    "X-Content-Type-Options";

/* ---- answers ---- */

void abx__headers_add(struct abx__headers *h, const char *name, struct abx_str value)
{
    ABX_ASSERT(h->count < ABX__HEADERS);
    h->rows[h->count++] = (struct abx_http_extra){name, value};
    h->rows[h->count].name = NULL;
}

void abx__headers_begin(struct abx__headers *h, const struct abx_http_req *req)
{
    *h = (struct abx__headers){0};
    abx__headers_add(h, "Vary", ABX_STR("Origin"));
    if (abx_http_header(req->head, "Origin").ptr) {
        abx__headers_add(h, "Access-Control-Allow-Origin", ABX_STR("*"));
        abx__headers_add(h, "Access-Control-Expose-Headers", ABX_STR(cors_exposed));
    }
}

const struct abx_http_extra *abx__cors(struct abx_http_req *req)
{
    struct abx__headers *h = abx_arena_alloc(req->arena, sizeof(*h));
    if (h == NULL)
        return NULL;
    abx__headers_begin(h, req);
    return h->rows;
}

void abx__answer_json(struct abx_http_req *req, int status, struct abx_str json)
{
    struct abx__headers h;
    abx__headers_begin(&h, req);
    abx__headers_add(&h, "Content-Type", ABX_STR("application/json"));
    abx_http_answer(req, status, h.rows, json);
}

static void put_error(struct abx_buf *b, int status, struct abx_str message)
{
    struct abx_json_writer w;
    abx_json_writer_init(&w, b);
    abx_json_begin_object(&w);
    abx_json_kv_i64(&w, "code", status);
    abx_json_kv_str(&w, "message", message);
    abx_json_end_object(&w);
    abx_buf_put_byte(b, '\n');
}

/* @name, @value: one more header, or NULL. */
static void answer_error(struct abx_http_req *req, int status, struct abx_str message,
                         const char *name, const char *value)
{
    ABX_AUTO_BUF body;
    struct abx__headers h;
    abx_buf_init(&body, ERROR_BYTES);
    put_error(&body, status, message);
    abx__headers_begin(&h, req);
    abx__headers_add(&h, "Content-Type", ABX_STR("application/json; charset=utf-8"));
    abx__headers_add(&h, "X-Content-Type-Options", ABX_STR("nosniff"));
    if (name)
        abx__headers_add(&h, name, abx_str(value));
    abx_http_answer(req, status, h.rows, abx_buf_str(&body));
}

void abx__answer_error(struct abx_http_req *req, int status, const char *fmt, ...)
{
    ABX_AUTO_BUF message;
    abx_buf_init(&message, ERROR_BYTES / 6);
    va_list ap;
    va_start(ap, fmt);
    abx_buf_putfv(&message, fmt, ap);
    va_end(ap);
    answer_error(req, status, abx_buf_str(&message), status == 503 ? "Retry-After" : NULL, "1");
}

const char *abx__show(struct abx_http_req *req, struct abx_str s)
{
    const char *text = abx_arena_c(req->arena, abx_str_sub(s, 0, SHOWN_BYTES));
    return text ? text : "...";
}

struct abx__envd *abx__envd_of(const struct abx_http_req *req)
{
    return req->user;
}

const char *abx__users_root(const struct abx__envd *e)
{
    return e->o.users_root ? e->o.users_root : "";
}

/* ---- small routes ---- */

static void envs_get(struct abx_http_req *req)
{
    const struct abx__state *s = &abx__envd_of(req)->state;
    ABX_AUTO_BUF body;
    struct abx_json_writer w;
    abx_buf_init(&body, ABX__STATE_MAX * 6);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    for (size_t i = 0; i < s->env_count; i++) {
        abx_json_key(&w, s->envs[i].name);
        abx_json_str(&w, s->envs[i].value);
    }
    abx_json_end_object(&w);
    if (abx_buf_failed(&body))
        abx__answer_error(req, 500, "out of memory");
    else
        abx__answer_json(req, 200, abx_buf_str(&body));
}

static const struct {
    const char *method, *path;
    void (*serve)(struct abx_http_req *req);
} routes[] = {
    {"GET", "/health", abx__health_get},   {"GET", "/envs", envs_get},
    {"GET", "/metrics", abx__metrics_get}, {"GET", "/terminal", abx__terminal_get},
    {"POST", "/init", abx__init_post},     {"GET", "/files", abx__files_get},
    {"POST", "/files", abx__files_post},   {"POST", "/files/compose", abx__compose_post},
};

static void answer_405(struct abx_http_req *req, const char *allow)
{
    answer_error(req, 405, ABX_STR("method not allowed"), "Allow", allow);
}

static void route(struct abx_http_req *req)
{
    char allow[32] = "";
    struct abx_buf list = {.ptr = allow, .cap = sizeof(allow), .max = sizeof(allow) - 1};
    if (abx_rpc_serve(&abx__envd_of(req)->rpc, req))
        return;
    for (size_t i = 0; i < ABX_COUNTOF(routes); i++) {
        if (!abx_str_is(req->path, routes[i].path))
            continue;
        if (abx_str_is(req->head->method, routes[i].method)) {
            routes[i].serve(req);
            return;
        }
        abx_buf_put_c(&list, list.len ? ", " : "");
        abx_buf_put_c(&list, routes[i].method);
    }
    if (list.len)
        answer_405(req, allow);
    else
        abx__answer_error(req, 404, "404 page not found");
}

/* ---- the order of evaluation ---- */

static bool is_init(const struct abx_http_req *req)
{
    return abx_str_is(req->path, "/init");
}

/* S03: a process in the sandbox is a stranger on our TCP port. */
static bool passes_guard(struct abx_http_req *req, bool is_probe)
{
    const struct abx__envd *e = abx__envd_of(req);
    if (!e->o.loopback_guard || req->listener_tag != ABX__TCP_LOCAL || is_probe)
        return true;
    struct abx_str given = abx_http_header(req->head, ABX_HEADER_ACCESS_TOKEN);
    if (e->state.token.ptr && given.len && abx__secret_eq(given, e->state.token))
        return true;
    abx__answer_error(req, 403,
                      "this port is closed to processes inside the sandbox (loopback guard); a "
                      "request with the access token passes");
    return false;
}

static bool answer_preflight(struct abx_http_req *req)
{
    struct abx_str method = abx_http_header(req->head, "Access-Control-Request-Method");
    struct abx_str wanted = abx_http_header(req->head, "Access-Control-Request-Headers");
    if (!abx_str_is(req->head->method, "OPTIONS") || method.ptr == NULL)
        return false;
    struct abx__headers h = {0};
    abx__headers_add(&h, "Vary",
                     ABX_STR("Origin, Access-Control-Request-Method, "
                             "Access-Control-Request-Headers"));
    static const char *const allowed[] = {"HEAD", "GET", "POST", "PUT", "PATCH", "DELETE"};
    for (size_t i = 0; i < ABX_COUNTOF(allowed); i++) {
        if (!abx_str_is(method, allowed[i]))
            continue;
        abx__headers_add(&h, "Access-Control-Allow-Origin", ABX_STR("*"));
        abx__headers_add(&h, "Access-Control-Allow-Methods", method);
        if (wanted.len)
            abx__headers_add(&h, "Access-Control-Allow-Headers", wanted);
        abx__headers_add(&h, "Access-Control-Max-Age", ABX_STR("7200"));
    }
    abx_http_answer(req, 204, h.rows, ABX_STR(""));
    return true;
}

static bool is_open(struct abx_http_req *req, bool is_probe)
{
    const struct abx__envd *e = abx__envd_of(req);
    if (!e->o.is_locked || e->state.is_provisioned || is_probe || is_init(req))
        return true;
    abx__answer_error(req, 503, "Sandbox is starting, please retry");
    return false;
}

static bool has_token(struct abx_http_req *req, bool is_probe)
{
    if (is_probe || abx__token_ok(abx__envd_of(req), req))
        return true;
    abx__answer_error(req, 401,
                      "unauthorized access, please provide a valid access token or method signing "
                      "if supported");
    return false;
}

static bool is_rpc(const struct abx__envd *e, const struct abx_http_req *req)
{
    for (size_t i = 0; e->rpc.services[i]; i++)
        if (abx_str_starts(req->path, e->rpc.services[i]->path))
            return true;
    return false;
}

/* RPC handlers look the user up themselves: a stream fails with an end frame. */
static bool has_known_user(struct abx_http_req *req)
{
    const struct abx__envd *e = abx__envd_of(req);
    struct abx_str name;
    struct abx_user user;
    if (is_rpc(e, req) || abx__basic_user(req, &name) == 0)
        return true;
    if (abx_user_by_name(abx__users_root(e), name, &user, NULL) == 0) {
        abx_user_done(&user);
        return true;
    }
    ABX_AUTO_BUF body;
    struct abx_json_writer w;
    abx_buf_init(&body, ERROR_BYTES);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "code", abx_code_name(ABX_UNAUTHENTICATED));
    const char *text = abx_arena_printf(req->arena, "invalid username: '%s'", abx__show(req, name));
    abx_json_kv_c(&w, "message", text ? text : "invalid username");
    abx_json_end_object(&w);
    abx__answer_json(req, 401, abx_buf_str(&body));
    return false;
}

void abx__on_request(struct abx_http_req *req)
{
    bool is_probe = abx__is_probe(req);
    if (passes_guard(req, is_probe) && !answer_preflight(req) && is_open(req, is_probe) &&
        has_token(req, is_probe) && has_known_user(req))
        route(req);
}
