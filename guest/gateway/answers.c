/* guest/gateway/answers.c: what the gateway says itself (control-plane.md 12.2, base-image.md 3).
 */
#include "guest/gateway/gateway_priv.h"

#include "lib/contract/contract.h"
#include "lib/json/json.h"

#include <stdio.h>

#include "lib/base/banned.h"

enum { ANSWER_MAX = 65536 };

static const char json_type[] = "application/json; charset=utf-8";
static const char html_type[] = "text/html; charset=utf-8";

static void answer(struct abx_http_req *req, int status, const char *type, struct abx_str body)
{
    const struct abx_http_extra extra[] = {{"Content-Type", abx_str(type)}, {NULL, {0}}};
    abx_http_answer(req, status, extra, body);
}

static void answer_json(struct abx_http_req *req, int status, struct abx_buf *b)
{
    if (abx_buf_failed(b))
        abx_http_answer(req, 500, NULL, ABX_STR("out of memory\n"));
    else
        answer(req, status, json_type, abx_buf_str(b));
}

static void write_error(struct abx_buf *b, int status, const char *message)
{
    struct abx_json_writer w;
    abx_json_writer_init(&w, b);
    abx_json_begin_object(&w);
    abx_json_kv_i64(&w, "code", status);
    abx_json_kv_c(&w, "message", message);
    abx_json_end_object(&w);
}

void abx__gateway_answer_error(struct abx_http_req *req, int status, const char *message)
{
    ABX_AUTO_BUF b;
    abx_buf_init(&b, ANSWER_MAX);
    write_error(&b, status, message);
    answer_json(req, status, &b);
}

void abx__gateway_answer_starting(struct abx_http_req *req)
{
    ABX_AUTO_BUF b;
    abx_buf_init(&b, ANSWER_MAX);
    write_error(&b, 503, "Sandbox is starting, please retry");
    const struct abx_http_extra extra[] = {
        {"Content-Type", abx_str(json_type)}, {"Retry-After", ABX_STR("1")}, {NULL, {0}}};
    abx_http_answer(req, 503, extra, abx_buf_str(&b));
}

/* Nothing from the request is on the page, so nothing needs escaping but the name of the host. */
static void write_page(struct abx_buf *b, const char *host, uint16_t port)
{
    abx_buf_put_c(b, "<!doctype html>\n<html><head><title>Port is not open</title></head>\n"
                     "<body><h1>Nothing listens on this port</h1>\n<p>Sandbox <code>");
    for (const char *c = host; *c != '\0'; c++)
        if (*c == '<' || *c == '&')
            abx_buf_putf(b, "&#%d;", *c);
        else
            abx_buf_put_byte(b, *c);
    abx_buf_putf(b,
                 "</code> is running, but no process in it accepts connections on port %u.</p>\n"
                 "</body></html>\n",
                 port);
}

void abx__gateway_answer_closed_port(struct abx__gateway *g, struct abx_http_req *req,
                                     uint16_t port)
{
    ABX_AUTO_BUF b;
    abx_buf_init(&b, ANSWER_MAX);
    if (abx_gateway_wants_html(req->head)) {
        write_page(&b, g->host, port);
        answer(req, 502, html_type, abx_buf_str(&b));
        return;
    }
    struct abx_json_writer w;
    abx_json_writer_init(&w, &b);
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "sandboxId", g->host);
    abx_json_kv_c(&w, "message", "The sandbox is running but port is not open");
    if (port != ABX_PORT_ENVD && port != ABX_PORT_INTERPRETER) /* what a server's client shows */
        abx_json_kv_c(&w, "error", "The sandbox is running but port is not open");
    abx_json_kv_i64(&w, "port", port);
    abx_json_kv_i64(&w, "code", 502);
    abx_json_end_object(&w);
    answer_json(req, 502, &b);
}

void abx__gateway_answer_broken(struct abx_http_req *req)
{
    answer(req, 502, "text/plain; charset=utf-8", ABX_STR("Failed to route request to sandbox\n"));
}

void abx__gateway_answer_health(struct abx_http_req *req)
{
    answer(req, 200, json_type, ABX_STR("{\"status\":\"ok\"}"));
}

void abx__gateway_answer_state(struct abx__gateway *g, struct abx_http_req *req)
{
    ABX_AUTO_BUF b;
    abx_buf_init(&b, ANSWER_MAX);
    struct abx_json_writer w;
    abx_json_writer_init(&w, &b);
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "status", "ok");
    abx_json_kv_c(&w, "version", ABX_VERSION);
    abx_json_kv_c(&w, "envdVersion", ABX_ENVD_VERSION);
    abx_json_kv_bool(&w, "locked", g->o.locked);
    abx_json_kv_i64(&w, "connections", (int64_t)abx_http_server_conns(g->server));
    if (g->o.view.describe != NULL)
        g->o.view.describe(g->o.view.arg, &w);
    abx_json_end_object(&w);
    answer_json(req, 200, &b);
}
