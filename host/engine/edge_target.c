/* host/engine/edge_target.c: which sandbox and port a request means: Host, path or headers. Pure.
 */
#include "host/engine/edge_priv.h"

#include "lib/base/parse.h"
#include "lib/contract/contract.h"
#include "lib/wire/url.h"

#include <stdio.h>

#include "lib/base/banned.h"

static const char bad_port[] = "Invalid sandbox port";
static const char bad_id[] = "Invalid sandbox ID";

static int parse_port(struct abx_str s, uint16_t *ret)
{
    uint32_t v = 0;
    if (s.len == 0 || s.len > 5 || abx_parse_u32(s, &v) < 0 || v == 0 || v > 65535)
        return -1;
    *ret = (uint16_t)v;
    return 0;
}

static bool is_id(struct abx_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if ((s.ptr[i] < 'a' || s.ptr[i] > 'z') && (s.ptr[i] < '0' || s.ptr[i] > '9'))
            return false;
    }
    return s.len != 0 && s.len <= 64;
}

static int set_target(struct abx_str port, struct abx_str id, struct abx__target *ret,
                      const char **ret_why)
{
    if (parse_port(port, &ret->port) < 0) {
        *ret_why = bad_port;
        return -1;
    }
    if (!is_id(id)) {
        *ret_why = bad_id;
        return -1;
    }
    ret->id = id;
    return 0;
}

int abx__target_from_label(struct abx_str label, struct abx__target *ret, const char **ret_why)
{
    struct abx_str port, id;
    abx_str_split(&label, '-', &port);
    if (!abx_str_split(&label, '-', &id)) {
        *ret_why = "Invalid host";
        return -1;
    }
    return set_target(port, id, ret, ret_why);
}

int abx__target_from_headers(const struct abx_http_head *head, struct abx__target *ret,
                             const char **ret_why)
{
    size_t ids = abx_http_header_count(head, ABX_HEADER_SANDBOX_ID);
    size_t ports = abx_http_header_count(head, ABX_HEADER_SANDBOX_PORT);
    if (ids == 0 && ports == 0)
        return 0;
    if (ids != 1 || ports != 1) {
        *ret_why = ids == 0 || ports == 0 ? "missing header" : "repeated header";
        return -1;
    }
    struct abx_str port = abx_http_header(head, ABX_HEADER_SANDBOX_PORT);
    struct abx_str id = abx_http_header(head, ABX_HEADER_SANDBOX_ID);
    ptrdiff_t dash = abx_str_chr(id, '-'); /* the old form ID-CLIENT */
    if (dash > 0)
        id = abx_str_sub(id, 0, (size_t)dash);
    return set_target(port, id, ret, ret_why) < 0 ? -1 : 1;
}

/* The E2b headers beside a path may repeat it, nothing else. */
static bool headers_agree(const struct abx_http_head *head, struct abx_str id, struct abx_str port)
{
    struct abx_str h = abx_http_header(head, ABX_HEADER_SANDBOX_ID);
    struct abx_str p = abx_http_header(head, ABX_HEADER_SANDBOX_PORT);
    return abx_http_header_count(head, ABX_HEADER_SANDBOX_ID) <= 1 &&
           abx_http_header_count(head, ABX_HEADER_SANDBOX_PORT) <= 1 &&
           (h.ptr == NULL || abx_str_eq(h, id)) && (p.ptr == NULL || abx_str_eq(p, port));
}

int abx__target_from_path(struct abx_http_req *req, struct abx__target *ret, const char **ret_why)
{
    struct abx_str rest = req->path, part, id = {0}, port = {0};
    if (!abx_str_starts(rest, "/.p/"))
        return 0;
    rest = abx_str_sub(rest, 4, rest.len);
    abx_str_split(&rest, '/', &id);
    abx_str_split(&rest, '/', &port);
    part = rest;
    if (set_target(port, id, ret, ret_why) < 0)
        return -1;
    if (!headers_agree(req->head, id, port)) {
        *ret_why = "E2b headers differ from the path";
        return -1;
    }
    bool has_query = req->query.ptr != NULL;
    char *text = abx_arena_printf(req->arena, "/%.*s%s%.*s", (int)part.len,
                                  part.ptr == NULL ? "" : part.ptr, has_query ? "?" : "",
                                  (int)req->query.len, has_query ? req->query.ptr : "");
    if (text == NULL) {
        *ret_why = "the path is too long";
        return -1;
    }
    ret->rewritten = abx_str(text);
    return 1;
}

static bool is_listener_literal(const struct abx__engine *e, struct abx_str host)
{
    if (e->any_ip)
        return true;
    if (e->listen_host[0] != '\0')
        return abx_str_is(host, e->listen_host);
    return abx_str_is(host, "127.0.0.1") || abx_str_is(host, "::1");
}

enum abx__host abx__host_classify(const struct abx__engine *e, struct abx_str host,
                                  struct abx_str *ret_label)
{
    static const char *const own_labels[] = {"api", "sandbox"};
    struct abx_str name, domain = abx_str(e->domain);
    uint16_t port = 0;
    if (abx_url_split_host(host, &name, &port) < 0)
        return ABX__HOST_FOREIGN;
    ptrdiff_t colon = abx_str_rchr(domain, ':'); /* the domain we give out carries the port */
    if (colon > 0)
        domain = abx_str_sub(domain, 0, (size_t)colon);
    if (abx_url_is_ip_literal(name))
        return is_listener_literal(e, name) ? ABX__HOST_OWN : ABX__HOST_FOREIGN;
    if (abx_str_is_nocase(name, "localhost") || abx_str_eq_nocase(name, domain))
        return ABX__HOST_OWN;
    if (name.len <= domain.len + 1 ||
        !abx_str_eq_nocase(abx_str_sub(name, name.len - domain.len, domain.len), domain) ||
        name.ptr[name.len - domain.len - 1] != '.')
        return ABX__HOST_FOREIGN;
    *ret_label = abx_str_sub(name, 0, name.len - domain.len - 1);
    for (size_t i = 0; i < ABX_COUNTOF(own_labels); i++) {
        if (abx_str_is_nocase(*ret_label, own_labels[i]))
            return ABX__HOST_OWN;
    }
    return ABX__HOST_LABEL;
}
