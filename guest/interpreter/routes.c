/* guest/interpreter/routes.c: the routes, and who may take them (security S03). */
#include "guest/interpreter/interpreter_priv.h"

#include "lib/base/assert.h"
#include "lib/contract/contract.h"

#include <sodium.h>

#include "lib/base/banned.h"

static void health(struct abx_http_req *req, struct abx_str id)
{
    (void)id;
    abx__interp_answer_json(req, 200, ABX_STR("\"OK\""));
}

static const struct {
    const char *method, *path; /* "{id}" is one segment */
    void (*serve)(struct abx_http_req *req, struct abx_str id);
} routes[] = {
    {"GET", "/health", health},
    {"POST", "/execute", abx__interp_execute},
    {"GET", "/contexts", abx__interp_contexts_list},
    {"POST", "/contexts", abx__interp_contexts_create},
    {"POST", "/contexts/{id}/restart", abx__interp_contexts_restart},
    {"DELETE", "/contexts/{id}", abx__interp_contexts_remove},
};

static bool matches(const char *pattern, struct abx_str path, struct abx_str *ret_id)
{
    struct abx_str want = abx_str(pattern), w, p;
    bool more_want = true, more_path = true;
    while ((more_want = abx_str_split(&want, '/', &w)), (more_path = abx_str_split(&path, '/', &p)),
           more_want && more_path) {
        if (abx_str_is(w, "{id}") && p.len > 0)
            *ret_id = p;
        else if (!abx_str_eq(w, p))
            return false;
    }
    return !more_want && !more_path;
}

static void route(struct abx_http_req *req)
{
    struct abx_str id = {0};
    bool is_path = false;
    for (size_t i = 0; i < ABX_COUNTOF(routes); i++) {
        if (!matches(routes[i].path, req->path, &id))
            continue;
        is_path = true;
        if (abx_str_is(req->head->method, routes[i].method)) {
            routes[i].serve(req, id);
            return;
        }
    }
    if (is_path)
        abx__interp_answer_json(req, 405, ABX_STR("{\"detail\":\"Method Not Allowed\"}"));
    else
        abx__interp_answer_json(req, 404, ABX_STR("{\"detail\":\"Not Found\"}"));
}

/* With the guard on, a process inside the sandbox is a stranger on our TCP port. */
static bool passes_guard(struct abx_http_req *req)
{
    const struct abx_interpreter_options *o = &abx__interp_of(req)->o;
    unsigned char hash[ABX_INTERPRETER_HASH], sent[crypto_hash_sha256_BYTES];
    _Static_assert((int)ABX_INTERPRETER_HASH == (int)crypto_hash_sha256_BYTES, "SHA-256");
    if (!o->loopback_guard || req->listener_tag != ABX__INTERP_LOCAL ||
        (abx_str_is(req->head->method, "GET") && abx_str_is(req->path, "/health")))
        return true;
    struct abx_str given = abx_http_header(req->head, ABX_HEADER_ACCESS_TOKEN);
    crypto_hash_sha256(sent, (const unsigned char *)given.ptr, given.len);
    if (given.len > 0 && o->token_hash != NULL && o->token_hash(o->arg, hash) &&
        sodium_memcmp(hash, sent, sizeof(sent)) == 0)
        return true;
    abx__interp_answer_text(req, 403,
                            "this port is closed to processes inside the sandbox (loopback guard); "
                            "a request with the access token passes");
    return false;
}

void abx__interp_on_request(struct abx_http_req *req)
{
    if (passes_guard(req) && !abx__interp_preflight(req))
        route(req);
}
