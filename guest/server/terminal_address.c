/* guest/server/terminal_address.c: the address of a session's socket, made from the request and the
 * ports that are listened on. D55. Pure. */
#include "guest/server/terminals.h"

#include "lib/base/assert.h"
#include "lib/wire/http.h"

#include <stdio.h>

#include "lib/base/banned.h"

enum { HOST_MAX = 300, PREFIX_MAX = 32 };

static bool is_host_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           strchr(".-_:[]", c) != NULL;
}

static bool is_host(struct abx_str s)
{
    if (s.ptr == NULL || s.len == 0 || s.len > HOST_MAX)
        return false;
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] == '\0' || !is_host_byte(s.ptr[i]))
            return false;
    return true;
}

/* Without ":PORT"; an IPv6 address keeps its brackets. */
static struct abx_str without_port(struct abx_str host)
{
    ptrdiff_t colon = abx_str_rchr(host, ':'), bracket = abx_str_rchr(host, ']');
    return colon > bracket ? abx_str_sub(host, 0, (size_t)colon) : host;
}

void abx__terminal_address(const struct abx__terminal_address *a, const char *id,
                           char out[ABX__TERMINAL_URL])
{
    char prefix[PREFIX_MAX];
    const char *scheme = a->is_tls ? "wss" : "ws";
    struct abx_str host = is_host(a->host) ? a->host : ABX_STR("localhost");
    snprintf(prefix, sizeof(prefix), "%lld-", (long long)a->http_port);
    if (a->pty_port == 0 && is_host(a->host))
        snprintf(out, ABX__TERMINAL_URL, "%s://%.*s/pty?session_id=%s", scheme, ABX_STR_FMT(host),
                 id);
    else if (abx_str_starts(host, prefix) && a->pty_port != 0)
        snprintf(out, ABX__TERMINAL_URL, "%s://%lld-%.*s/pty?session_id=%s", scheme,
                 (long long)a->pty_port, ABX_STR_FMT(abx_str_sub(host, strlen(prefix), host.len)),
                 id);
    else
        snprintf(out, ABX__TERMINAL_URL, "%s://%.*s:%lld/pty?session_id=%s", scheme,
                 ABX_STR_FMT(without_port(host)),
                 (long long)(a->pty_port ? a->pty_port : a->http_port), id);
}

void abx__terminal_url(const struct abx__call *c, const char *id, char out[ABX__TERMINAL_URL])
{
    const struct abx_http_head *head = c->req->head;
    struct abx__terminal_address a = {
        .host = abx_http_header(head, "Host"),
        .is_tls = abx_str_is_nocase(abx_http_header(head, "X-Forwarded-Proto"), "https"),
        .http_port = c->server->o.port,
        .pty_port = c->server->is_pty_listening ? c->server->o.pty_port : 0};
    abx__terminal_address(&a, id, out);
}
