/* lib/http/proxy_head.c: rewriting heads on their way through (security S42-S44, RFC 9110 7.6). */
#include "lib/http/proxy_priv.h"

#include "lib/base/assert.h"

#include "lib/base/banned.h"

/* Belong to one connection; ours are written anew. */
static const char *const hop_by_hop[] = {
    "Connection", "Keep-Alive",        "Proxy-Connection", "Proxy-Authenticate",
    "TE",         "Transfer-Encoding", "Upgrade",          "Proxy-Authorization",
};
/* What a Connection header can not name away (S44). A trailing '-' stands for a family. */
static const char *const protected_names[] = {
    "Host", "Authorization", "Cookie", "X-Access-Token", "Content-", "E2b-", "X-Sandbox-",
};

static bool is_listed(struct abx_str name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (abx_str_is_nocase(name, list[i]))
            return true;
    return false;
}

static bool is_protected(struct abx_str name)
{
    for (size_t i = 0; i < ABX_COUNTOF(protected_names); i++) {
        const char *p = protected_names[i];
        size_t len = strlen(p);
        bool is_family = p[len - 1] == '-';
        if (abx_str_is_nocase(is_family ? abx_str_sub(name, 0, len) : name, p))
            return true;
    }
    return false;
}

static bool names(struct abx_str list, struct abx_str name)
{
    struct abx_str item;
    while (abx_str_split(&list, ',', &item))
        if (abx_str_eq_nocase(abx_str_trim(item), name))
            return true;
    return false;
}

static bool is_named_by_connection(const struct abx_http_head *h, struct abx_str name)
{
    for (size_t i = 0; i < h->header_count; i++)
        if (abx_str_is_nocase(h->headers[i].name, "Connection") && names(h->headers[i].value, name))
            return true;
    return false;
}

/* Whether the header is one of the message, not of the connection it came by. */
static bool passes(const struct abx_http_head *h, const struct abx_http_header *field)
{
    if (is_listed(field->name, hop_by_hop, ABX_COUNTOF(hop_by_hop)))
        return false;
    return is_protected(field->name) || !is_named_by_connection(h, field->name);
}

static bool is_dropped(const struct abx__exchange *x, const struct abx_http_header *field)
{
    for (const char *const *name = x->o.drop; name && *name; name++)
        if (abx_str_is_nocase(field->name, *name))
            return true;
    if (x->o.host.ptr && abx_str_is_nocase(field->name, "Host"))
        return true;
    return x->o.keep && !x->o.keep(x->o.arg, field);
}

static void put_target(struct abx__exchange *x)
{
    const struct abx_http_req *req = x->req;
    ABX_AUTO_BUF target;
    abx_buf_init(&target, ABX_HTTP_HEAD_MAX);
    if (req->head->target.ptr[0] == '/' || abx_str_is(req->head->target, "*")) {
        abx_http_write_request(&x->head, req->head->method, req->head->target);
        return;
    }
    abx_buf_put_str(&target, req->path); /* was absolute-form */
    if (req->query.ptr) {
        abx_buf_put_byte(&target, '?');
        abx_buf_put_str(&target, req->query);
    }
    abx_http_write_request(&x->head, req->head->method, abx_buf_str(&target));
}

static void put_upgrade(struct abx_buf *b, struct abx_str protocol)
{
    abx_http_write_header(b, ABX_STR("Connection"), ABX_STR("Upgrade"));
    abx_http_write_header(b, ABX_STR("Upgrade"), protocol);
}

void abx__exchange_put_request(struct abx__exchange *x)
{
    const struct abx_http_head *h = x->req->head;
    struct abx_buf *b = &x->head;
    abx_buf_clear(b);
    put_target(x);
    if (x->o.host.ptr || abx_http_header(h, "Host").ptr == NULL)
        abx_http_write_header(b, ABX_STR("Host"), x->o.host);
    for (size_t i = 0; i < h->header_count; i++)
        if (passes(h, &h->headers[i]) && !is_dropped(x, &h->headers[i]))
            abx_http_write_header(b, h->headers[i].name, h->headers[i].value);
    for (const struct abx_http_extra *e = x->o.add; e && e->name; e++)
        abx_http_write_header(b, abx_str(e->name), e->value);
    if (h->is_chunked)
        abx_http_write_header(b, ABX_STR("Transfer-Encoding"), ABX_STR("chunked"));
    x->is_upgrade =
        h->is_upgrade && (x->o.any_upgrade || abx_str_is_nocase(h->upgrade, "websocket"));
    if (x->is_upgrade)
        put_upgrade(b, h->upgrade);
    abx_http_write_end(b);
}

/* How the body goes on to the client: as it came, but a body that ends with the upstream's
 * connection is chunked where the client can read that. */
static void settle_framing(struct abx__exchange *x, const struct abx_http_head *h)
{
    const struct abx_http_head *request = x->req->head;
    bool has_body = h->status >= 200 && h->status != 204 && h->status != 304 &&
                    !abx_str_is(request->method, "HEAD");
    bool is_open_ended = has_body && !h->has_length;
    x->is_chunked_out = is_open_ended && request->minor == 1;
    x->is_delimited = !is_open_ended || x->is_chunked_out;
    x->keep_alive = abx_http_can_keep_alive(x->req) && x->is_delimited;
    if (x->is_chunked_out || (h->is_chunked && !has_body && request->minor == 1))
        abx_http_write_header(&x->head, ABX_STR("Transfer-Encoding"), ABX_STR("chunked"));
}

static void put_connection(struct abx__exchange *x)
{
    if (!x->keep_alive)
        abx_http_write_header(&x->head, ABX_STR("Connection"), ABX_STR("close"));
    else if (x->req->head->minor == 0)
        abx_http_write_header(&x->head, ABX_STR("Connection"), ABX_STR("keep-alive"));
}

void abx__exchange_put_answer(struct abx__exchange *x, const struct abx_http_head *h)
{
    struct abx_buf *b = &x->head;
    abx_buf_clear(b);
    abx_http_write_status(b, h->status, h->reason);
    for (size_t i = 0; i < h->header_count; i++)
        if (passes(h, &h->headers[i]))
            abx_http_write_header(b, h->headers[i].name, h->headers[i].value);
    if (h->status == 101) {
        put_upgrade(b, h->upgrade.ptr ? h->upgrade : x->req->head->upgrade);
    } else if (h->status >= 200) {
        settle_framing(x, h);
        put_connection(x);
    }
    abx_http_write_end(b);
}

void abx__exchange_put_trailers(struct abx__exchange *x, const struct abx_http_header *trailers,
                                size_t count)
{
    struct abx_buf *b = &x->head;
    abx_buf_clear(b);
    abx_buf_put_c(b, "0\r\n");
    for (size_t i = 0; i < count; i++)
        if (abx_http_trailer_allowed(trailers[i].name))
            abx_http_write_header(b, trailers[i].name, trailers[i].value);
    abx_http_write_end(b);
}
