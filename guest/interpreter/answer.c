/* guest/interpreter/answer.c: answers: JSON, plain text, the stream; any origin may ask (CORS). */
#include "guest/interpreter/interpreter_priv.h"

#include "lib/base/assert.h"

#include "lib/base/banned.h"

static const struct abx_http_extra any_origin = {"Access-Control-Allow-Origin",
                                                 {"*", sizeof("*") - 1}};

static void answer(struct abx_http_req *req, int status, const char *type, struct abx_str body)
{
    const struct abx_http_extra extra[] = {{"Content-Type", abx_str(type)}, any_origin, {0}};
    abx_http_answer(req, status, extra, body);
}

void abx__interp_answer_json(struct abx_http_req *req, int status, struct abx_str body)
{
    answer(req, status, "application/json", body);
}

void abx__interp_answer_text(struct abx_http_req *req, int status, const char *text)
{
    answer(req, status, "text/plain; charset=utf-8", abx_str(text));
}

void abx__interp_answer_error(struct abx_http_req *req, const struct abx_error *err)
{
    static const struct {
        enum abx_code code;
        int status;
    } rows[] = {{ABX_UNIMPLEMENTED, 501}, {ABX_RESOURCE_EXHAUSTED, 503}};
    int status = 500;
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++)
        if (rows[i].code == err->code)
            status = rows[i].status;
    abx__interp_answer_text(req, status, err->msg);
}

void abx__interp_begin_stream(struct abx_http_req *req)
{
    const struct abx_http_extra extra[] = {
        {"Content-Type", ABX_STR("application/x-ndjson")}, any_origin, {0}};
    abx_http_begin(req, 200, extra, ABX_HTTP_CHUNKED);
    abx_http_flush(req); /* the client's clock of the execution starts with the head */
}

bool abx__interp_preflight(struct abx_http_req *req)
{
    struct abx_str method = abx_http_header(req->head, "Access-Control-Request-Method");
    struct abx_str wanted = abx_http_header(req->head, "Access-Control-Request-Headers");
    if (!abx_str_is(req->head->method, "OPTIONS") || method.len == 0)
        return false;
    const struct abx_http_extra extra[] = {
        {"Content-Type", ABX_STR("text/plain; charset=utf-8")},
        any_origin,
        {"Access-Control-Allow-Methods", ABX_STR("DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT")},
        {"Access-Control-Max-Age", ABX_STR("600")},
        {"Vary", ABX_STR("Origin, Access-Control-Request-Headers")},
        {wanted.len > 0 ? "Access-Control-Allow-Headers" : NULL, wanted},
        {0}};
    abx_http_answer(req, 200, extra, ABX_STR("OK"));
    return true;
}
