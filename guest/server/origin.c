/* guest/server/origin.c: calls that a browser was made to send: by another name of this server, or
 * by a page of another site. Only where `confine` is on and no token is there to ask for (security
 * S20). */
#include "lib/policy/origin.h"
#include "guest/server/server_priv.h"

#include "lib/base/banned.h"

enum { MISDIRECTED = 421, FORBIDDEN = 403, UNSUPPORTED = 415 };

static bool refuse(struct abx__call *c, int status, const char *code, const char *why)
{
    ABX_AUTO_BUF body = {0};
    struct abx_json_writer w;
    abx_buf_init(&body, 1024);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "error", why);
    abx_json_kv_c(&w, "type", "PolicyDenied");
    abx_json_kv_c(&w, "code", code);
    abx_json_end_object(&w);
    c->audit_code = code;
    abx__call_answer_status(c, status, NULL, abx_buf_str(&body));
    return false;
}

/* Probes are answered under every name. */
static bool is_exempt(const struct abx__call *c)
{
    return !abx_policy_guards_origin(c->policy) || c->req->listener_tag == ABX__LISTENER_UNIX ||
           abx_str_is(c->path, "/health");
}

bool abx__call_check_host(struct abx__call *c)
{
    const struct abx__server *s = c->server;
    const uint16_t ports[] = {(uint16_t)s->o.port, (uint16_t)s->o.pty_port};
    struct abx_str host = abx_http_header(c->req->head, "Host");
    if (is_exempt(c) ||
        abx_policy_host_is_allowed(c->policy, host, ports, sizeof(ports) / sizeof(*ports)))
        return true;
    return refuse(c, MISDIRECTED, "host_not_allowed",
                  "this server does not answer to that name; write it into confine.hosts");
}

bool abx__call_check_origin(struct abx__call *c)
{
    const struct abx_http_head *head = c->req->head;
    struct abx_str origin = abx_http_header(head, "Origin"),
                   site = abx_http_header(head, "Sec-Fetch-Site"),
                   type = abx_http_header(head, "Content-Type");
    if (is_exempt(c))
        return true;
    if (origin.len > 0 &&
        !abx_policy_origin_is_allowed(c->policy, origin, abx_http_header(head, "Host")))
        return refuse(c, FORBIDDEN, "origin_not_allowed",
                      "pages of that site may not call this server; write it into confine.origins");
    bool is_of_page = origin.len > 0 || abx_str_is(site, "cross-site");
    if (is_of_page && abx_str_is(head->method, "POST") && !abx_policy_is_asked_content(type))
        return refuse(c, UNSUPPORTED, "origin_not_allowed",
                      "a page sends its body as application/json, application/octet-stream or "
                      "multipart/form-data");
    return true;
}
