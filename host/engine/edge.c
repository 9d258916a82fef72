/* host/engine/edge.c: sandbox traffic: who may pass, what is changed on the way, where it goes.
 *
 * Loop thread. The head is parsed and written anew by lib/http/proxy (S44); this file decides.
 * Client copies of the port and forwarding headers never pass (S40), the engine's key and a token
 * of envd meant for another port neither (S42), reserved paths of envd are 404 in every spelling
 * (S43), and the token of a secure sandbox is compared here already (S41). */
#include "host/engine/api_priv.h"
#include "host/engine/edge_priv.h"

#include "lib/base/log.h"
#include "lib/contract/contract.h"
#include "lib/wire/url.h"

#include <stdio.h>

#include "lib/base/banned.h"

static const char *const reserved_paths[] = {"/init",     "/freeze", "/unfreeze", "/collapse",
                                             "/fsfreeze", "/fsthaw", "/upgrade",  NULL};
static const char *const dropped[] = {"x-sandbox-port", "e2b-sandbox-port",
                                      "e2b-sandbox-id", "e2b-traffic-access-token",
                                      "x-api-key",      "via",
                                      "forwarded",      NULL};

/* One exchange under way; lives in the request's arena. */
struct exchange {
    struct abx__engine *engine;
    char id[ABX_SANDBOX_ID_LEN + 1];
    char port_text[8];
    const char *drop_token; /* an X-Access-Token with this value is not passed on */
    struct abx_http_extra add[2];
};

static const char *reserved_path(struct abx_http_req *req)
{
    struct abx_str normal;
    if (abx_url_normal_path(req->path, req->arena, &normal) < 0)
        return NULL; /* envd matches raw bytes: no reserved handler can be meant */
    for (const char *const *p = reserved_paths; *p != NULL; p++) {
        if (abx_str_is(normal, *p))
            return *p;
    }
    return NULL;
}

static void answer_not_found(struct abx_http_req *req, struct abx_str id)
{
    abx__edge_error(req, &(struct abx__edge_error){.status = 502,
                                                   .message = "The sandbox was not found",
                                                   .sandbox_id = id});
}

static void answer_preflight(struct abx_http_req *req)
{
    struct abx_http_extra extra[6] = {
        {"Access-Control-Allow-Origin", ABX_STR("*")},
        {"Access-Control-Allow-Methods",
         abx_http_header(req->head, "Access-Control-Request-Method")},
        {"Access-Control-Max-Age", ABX_STR("7200")},
        {"Vary", ABX_STR("Origin, Access-Control-Request-Method, Access-Control-Request-Headers")}};
    struct abx_str asked = abx_http_header(req->head, "Access-Control-Request-Headers");
    if (asked.ptr != NULL)
        extra[4] = (struct abx_http_extra){"Access-Control-Allow-Headers", asked};
    abx_http_answer(req, 204, extra, (struct abx_str){0});
}

static bool is_files(const struct abx_http_req *req)
{
    return abx_str_is(req->path, "/files") &&
           (abx_str_is(req->head->method, "GET") || abx_str_is(req->head->method, "POST"));
}

/* envd's own rule, at the edge already: whether the request may pass; else it is answered. */
static bool envd_admits(struct abx_http_req *req, const struct abx__sandbox *sb)
{
    struct abx_str token = abx_http_header(req->head, ABX_HEADER_ACCESS_TOKEN), signature;
    if (abx_str_is(req->head->method, "OPTIONS") &&
        abx_http_header(req->head, "Access-Control-Request-Method").ptr != NULL) {
        answer_preflight(req);
        return false;
    }
    if (sb->token[0] == '\0' ||
        (abx_str_is(req->path, "/health") && abx_str_is(req->head->method, "GET")))
        return true;
    if (abx_http_header_count(req->head, ABX_HEADER_ACCESS_TOKEN) > 1) {
        abx__edge_envd_error(req, 400, "more than one X-Access-Token");
        return false;
    }
    if (token.len != 0 && abx__secret_eq(token, abx_str(sb->token)))
        return true;
    if (!is_files(req))
        abx__edge_envd_error(req, 401,
                             "unauthorized access, please provide a valid access token or method"
                             " signing if supported");
    else if (token.len != 0)
        abx__edge_envd_error(req, 401, "access token present in header but does not match");
    else if (abx_url_query_get(req->query, "signature", req->arena, &signature) == 1)
        return true; /* envd compares it */
    else
        abx__edge_envd_error(req, 401, "missing signature query parameter");
    return false;
}

/* Every port but envd's, which has a rule of its own: whether the request may pass; else it is
 * answered (control-plane 12.2). */
static bool traffic_admits(struct abx_http_req *req, const struct abx__sandbox *sb)
{
    struct abx_str given = abx_http_header(req->head, ABX_HEADER_TRAFFIC_TOKEN);
    size_t count = abx_http_header_count(req->head, ABX_HEADER_TRAFFIC_TOKEN);
    if (sb->traffic_token[0] == '\0' ||
        (count == 1 && abx__secret_eq(given, abx_str(sb->traffic_token))))
        return true;
    abx__edge_error(req, &(struct abx__edge_error){
                             .status = 403,
                             .message = count == 0
                                            ? "Sandbox is secured with traffic access token. Token"
                                              " header 'e2b-traffic-access-token' is missing"
                                            : "Sandbox is secured with traffic access token."
                                              " Provided token in header"
                                              " 'e2b-traffic-access-token' is invalid",
                             .sandbox_id = abx_str(sb->id)});
    return false;
}

static bool keep_header(void *arg, const struct abx_http_header *h)
{
    const struct exchange *x = arg;
    static const char prefix[] = "x-forwarded-";
    if (abx_str_is_nocase(abx_str_sub(h->name, 0, sizeof(prefix) - 1), prefix))
        return false;
    return x->drop_token == NULL || !abx_str_is_nocase(h->name, ABX_HEADER_ACCESS_TOKEN) ||
           !abx__secret_eq(h->value, abx_str(x->drop_token));
}

static void on_done(void *arg)
{
    struct exchange *x = arg;
    struct abx__sandbox *sb = abx__sandbox_find_any(x->engine, abx_str(x->id));
    if (sb != NULL && sb->edge_conns > 0)
        sb->edge_conns--;
}

static void on_unreachable(struct abx_http_req *req, void *arg, const struct abx_error *err)
{
    struct exchange *x = arg;
    if (abx__sandbox_find(x->engine, abx_str(x->id)) == NULL) {
        answer_not_found(req, abx_str(x->id));
        return;
    }
    abx_log(ABX_LOG_WARN, "gateway does not answer id=%s port=%s error=\"%s\"", x->id, x->port_text,
            err->msg);
    abx__edge_text(req, 502, "Failed to route request to sandbox");
}

static void rewrite_target(struct abx_http_req *req, struct abx_str target)
{
    struct abx_http_head *head = abx_arena_alloc(req->arena, sizeof(*head));
    if (head == NULL)
        return;
    *head = *req->head;
    head->target = target;
    req->head = head;
    abx_url_split_target(target, &req->path, &req->query);
}

static void forward(struct abx__sandbox *sb, struct abx_http_req *req, uint16_t port)
{
    struct exchange *x = abx_arena_alloc(req->arena, sizeof(*x));
    if (x == NULL) {
        abx_http_abort(req);
        return;
    }
    x->engine = sb->engine;
    memcpy(x->id, sb->id, sizeof(x->id));
    snprintf(x->port_text, sizeof(x->port_text), "%u", (unsigned)port);
    x->add[0] = (struct abx_http_extra){ABX_HEADER_PORT, abx_str(x->port_text)};
    if (port != ABX_PORT_ENVD && port != ABX_PORT_INTERPRETER && sb->token[0] != '\0')
        x->drop_token = abx_arena_c(req->arena, abx_str(sb->token));
    struct abx_http_proxy_options o = {.pool = sb->engine->pool,
                                       .target = abx_str(x->id),
                                       .drop = dropped,
                                       .keep = keep_header,
                                       .arg = x,
                                       .add = x->add,
                                       .on_unreachable = on_unreachable,
                                       .on_done = on_done};
    sb->edge_conns++;
    abx_http_proxy(req, &o);
}

void abx__edge_forward(struct abx__engine *e, struct abx_http_req *req, const struct abx__target *t)
{
    if (t->rewritten.ptr != NULL)
        rewrite_target(req, t->rewritten);
    const char *reserved = t->port == ABX_PORT_ENVD ? reserved_path(req) : NULL;
    if (reserved != NULL) {
        abx__edge_error(req,
                        &(struct abx__edge_error){
                            .status = 404,
                            .message = "This endpoint is reserved for the E2B control plane and"
                                       " is not reachable through the sandbox URL",
                            .path = reserved});
        return;
    }
    struct abx__sandbox *sb = abx__sandbox_find(e, t->id);
    if (sb == NULL) {
        answer_not_found(req, t->id);
        return;
    }
    if (t->port != ABX_PORT_ENVD && !traffic_admits(req, sb))
        return;
    if (sb->edge_conns >= ABX_EDGE_CONNS) {
        char text[128];
        snprintf(text, sizeof(text),
                 "The sandbox has too many concurrent incoming connections (limit: %d)",
                 ABX_EDGE_CONNS);
        abx__edge_error(req, &(struct abx__edge_error){.status = 429,
                                                       .message = text,
                                                       .sandbox_id = abx_str(sb->id),
                                                       .connection_limit = ABX_EDGE_CONNS});
        return;
    }
    if (t->port == ABX_PORT_ENVD && !envd_admits(req, sb))
        return;
    forward(sb, req, t->port);
}

static void answer_health(struct abx_http_req *req)
{
    struct abx_http_extra extra[] = {{"Content-Type", ABX_STR("application/json")},
                                     {"Cache-Control", ABX_STR("no-store")},
                                     {"Access-Control-Allow-Origin", ABX_STR("*")},
                                     {0}};
    abx_http_answer(req, 200, extra, ABX_STR("{\"status\":\"ok\"}"));
}

static void answer_misdirected(struct abx_http_req *req)
{
    struct abx_http_extra extra[] = {{"Content-Type", ABX_STR("application/json")}, {0}};
    abx_http_answer(req, 421, extra,
                    ABX_STR("{\"code\":421,\"message\":\"this Host is not served here: use the URL"
                            " that `abx env` prints\"}"));
}

/* An own Host: path, headers, signature, health, then the API. */
static void serve_own(struct abx__engine *e, struct abx_http_req *req)
{
    struct abx__target t = {0};
    const char *why = NULL;
    struct abx_str signature;
    int r = abx__target_from_path(req, &t, &why);
    if (r == 0)
        r = abx__target_from_headers(req->head, &t, &why);
    if (r < 0) {
        abx__edge_text(req, 400, why);
        return;
    }
    if (r > 0) {
        abx__edge_forward(e, req, &t);
        return;
    }
    if (is_files(req)) {
        if (abx_url_query_get(req->query, "signature", req->arena, &signature) == 1)
            abx__edge_signed(e, req, signature);
        else
            abx__edge_text(req, 400,
                           "missing header: an unsigned /files needs the headers E2b-Sandbox-Id and"
                           " E2b-Sandbox-Port, or the host form PORT-ID.domain");
        return;
    }
    if (abx_str_is(req->path, "/health") && abx_str_is(req->head->method, "GET"))
        answer_health(req);
    else
        abx__api_serve(e, req);
}

void abx__edge_on_request(struct abx_http_req *req)
{
    struct abx__engine *e = req->user;
    struct abx_str label = {0};
    struct abx__target t = {0};
    const char *why = NULL;
    if (abx_http_header_count(req->head, "Host") != 1) {
        abx__edge_text(req, 400, "Invalid host");
        return;
    }
    switch (abx__host_classify(e, abx_http_header(req->head, "Host"), &label)) {
    case ABX__HOST_FOREIGN:
        answer_misdirected(req);
        break;
    case ABX__HOST_OWN:
        serve_own(e, req);
        break;
    case ABX__HOST_LABEL:
        if (abx__target_from_label(label, &t, &why) < 0)
            abx__edge_text(req, 400, why);
        else
            abx__edge_forward(e, req, &t);
        break;
    }
}
