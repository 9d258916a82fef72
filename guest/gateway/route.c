/* guest/gateway/route.c: the routing rules, in the order in which they are asked. */
#include "guest/gateway/route.h"

#include "lib/base/assert.h"
#include "lib/base/parse.h"
#include "lib/contract/contract.h"
#include "lib/wire/url.h"

#include "lib/base/banned.h"

enum { PORT_DIGITS_MAX = 5, NO_PORT = 0, BAD_PORT = -1 };

static struct abx_gateway_route refuse(int status, const char *message)
{
    return (struct abx_gateway_route){
        .dest = ABX_GATEWAY_REFUSE, .status = status, .message = message};
}

static bool parse_port(struct abx_str text, uint16_t *ret)
{
    uint32_t v;
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
    if (text.len > PORT_DIGITS_MAX || abx_parse_u32(text, &v) < 0 || v == 0 || v > UINT16_MAX)
        return false;
    *ret = (uint16_t)v;
    return true;
}

/* The port in a header: NO_PORT when absent, BAD_PORT when repeated or no port number. */
static int header_port(const struct abx_http_head *head, const char *name)
{
    size_t count = abx_http_header_count(head, name);
    uint16_t port;
    if (count == 0)
        return NO_PORT;
    if (count > 1 || !parse_port(abx_http_header(head, name), &port))
        return BAD_PORT;
    return port;
}

/* "3000-ID.domain" names port 3000. A label of digits, '-' and something is a port source. */
static int host_port(const struct abx_http_head *head)
{
    struct abx_str host = abx_http_header(head, "host");
    ptrdiff_t dot = abx_str_chr(host, '.');
    struct abx_str label = dot < 0 ? host : abx_str_sub(host, 0, (size_t)dot);
    size_t digits = 0;
    uint16_t port;
    while (digits < label.len && label.ptr[digits] >= '0' && label.ptr[digits] <= '9')
        digits++;
    if (dot < 0 || digits == 0 || digits + 1 >= label.len || label.ptr[digits] != '-')
        return NO_PORT;
    return parse_port(abx_str_sub(label, 0, digits), &port) ? port : BAD_PORT;
}

/* Sources that disagree are refused as well (S40). */
static int tcp_port(const struct abx_http_head *head)
{
    const int found[] = {header_port(head, ABX_HEADER_PORT),
                         header_port(head, ABX_HEADER_SANDBOX_PORT), host_port(head)};
    int port = NO_PORT;
    for (size_t i = 0; i < ABX_COUNTOF(found); i++) {
        if (found[i] == BAD_PORT || (port != NO_PORT && found[i] != NO_PORT && found[i] != port))
            return BAD_PORT;
        if (found[i] != NO_PORT)
            port = found[i];
    }
    return port;
}

static bool path_is(struct abx_str path, const char *exact)
{
    return abx_str_is(path, exact);
}

/* Rule 2: paths that need no port. `tail`: anything may follow. */
static const struct {
    const char *path;
    bool tail;
    enum abx_gateway_dest dest;
} own_paths[] = {
    {"/health", false, ABX_GATEWAY_ENVD},
    {"/metrics", false, ABX_GATEWAY_ENVD},
    {"/envs", false, ABX_GATEWAY_ENVD},
    {"/terminal", false, ABX_GATEWAY_ENVD},
    {"/files", true, ABX_GATEWAY_ENVD},
    {"/init", false, ABX_GATEWAY_ENVD},
    {"/process.Process/", true, ABX_GATEWAY_ENVD},
    {"/filesystem.Filesystem/", true, ABX_GATEWAY_ENVD},
    {"/execute", false, ABX_GATEWAY_INTERPRETER},
    {"/contexts", true, ABX_GATEWAY_INTERPRETER},
};

static struct abx_gateway_route by_path(const struct abx_gateway_rules *r, struct abx_str path)
{
    for (size_t i = 0; i < ABX_COUNTOF(own_paths); i++) {
        bool hit = own_paths[i].tail ? abx_str_starts(path, own_paths[i].path)
                                     : path_is(path, own_paths[i].path);
        if (!hit)
            continue;
        bool envd = own_paths[i].dest == ABX_GATEWAY_ENVD;
        return (struct abx_gateway_route){.dest = own_paths[i].dest,
                                          .port = envd ? r->envd_port : r->interpreter_port};
    }
    return refuse(404, "no such path, and no port is named by X-Sandbox-Port, E2b-Sandbox-Port or "
                       "a PORT-ID host");
}

/* Rule 1. The gateway's own port has one path for everybody (S45). */
static struct abx_gateway_route by_port(const struct abx_gateway_rules *r, uint16_t port,
                                        struct abx_str path)
{
    if (port == r->envd_port)
        return (struct abx_gateway_route){.dest = ABX_GATEWAY_ENVD, .port = port};
    if (port == r->interpreter_port)
        return (struct abx_gateway_route){.dest = ABX_GATEWAY_INTERPRETER, .port = port};
    if (port != r->own_port)
        return (struct abx_gateway_route){.dest = ABX_GATEWAY_PORT, .port = port};
    if (path_is(path, "/health"))
        return (struct abx_gateway_route){.dest = ABX_GATEWAY_HEALTH, .port = port};
    return refuse(404, "this port is the gateway's own; it serves /health only");
}

/* In whatever spelling (S43): //init, /./init, /%69nit, /init;x, /init/ ... Malformed counts too.
 */
static bool is_init_path(struct abx_str path, struct abx_arena *arena)
{
    struct abx_str normal;
    return abx_url_normal_path(path, arena, &normal) < 0 || abx_str_is(normal, "/init");
}

static struct abx_gateway_route engine_route(const struct abx_gateway_rules *r,
                                             const struct abx_http_head *head, struct abx_str path)
{
    int port = header_port(head, ABX_HEADER_PORT);
    if (port == NO_PORT && path_is(path, "/.fce2b/health"))
        return (struct abx_gateway_route){.dest = ABX_GATEWAY_STATE, .port = r->own_port};
    if (port == NO_PORT || port == BAD_PORT)
        return refuse(400, "exactly one X-Sandbox-Port with a port number is needed");
    return by_port(r, (uint16_t)port, path);
}

static struct abx_gateway_route tcp_route(const struct abx_gateway_rules *r,
                                          const struct abx_http_head *head, struct abx_str path,
                                          struct abx_arena *arena)
{
    int port = tcp_port(head);
    if (port == BAD_PORT)
        return refuse(400, "the port is named twice, differently, or is not a number in 1..65535");
    struct abx_gateway_route to =
        port == NO_PORT ? by_path(r, path) : by_port(r, (uint16_t)port, path);
    if (to.dest == ABX_GATEWAY_ENVD && r->locked && is_init_path(path, arena))
        return refuse(404, "not found");
    return to;
}

struct abx_gateway_route abx_gateway_route(const struct abx_gateway_rules *r,
                                           enum abx_gateway_source source,
                                           const struct abx_http_head *head,
                                           struct abx_arena *arena)
{
    struct abx_str path, query;
    if (abx_url_split_target(head->target, &path, &query) < 0)
        return refuse(400, "malformed request target");
    if (abx_http_has_token(head, "via", r->via))
        return refuse(508, "the request came from this gateway");
    if (source == ABX_GATEWAY_ENGINE)
        return engine_route(r, head, path);
    struct abx_gateway_route to = tcp_route(r, head, path, arena);
    bool private = to.dest == ABX_GATEWAY_ENVD || to.dest == ABX_GATEWAY_INTERPRETER;
    if (private && r->loopback_guard && source == ABX_GATEWAY_TCP_LOCAL)
        return refuse(403, "processes of this sandbox do not reach its daemons through the "
                           "gateway (" ABX_ENV_LOOPBACK_GUARD ")");
    return to;
}

static const char *const browsers[] = {"mozilla", "chrome", "safari", "firefox",
                                       "edge",    "opera",  "msie"};
static const char *const scripted_modes[] = {"cors", "no-cors", "same-origin", "websocket"};

static bool contains_nocase(struct abx_str text, const char *needle)
{
    size_t len = strlen(needle);
    for (size_t i = 0; i + len <= text.len; i++)
        if (abx_str_is_nocase(abx_str_n(text.ptr + i, len), needle))
            return true;
    return false;
}

bool abx_gateway_wants_html(const struct abx_http_head *head)
{
    struct abx_str agent = abx_http_header(head, "user-agent");
    struct abx_str accept = abx_http_header(head, "accept");
    struct abx_str mode = abx_http_header(head, "sec-fetch-mode");
    bool browser = false;
    for (size_t i = 0; i < ABX_COUNTOF(browsers); i++)
        browser = browser || contains_nocase(agent, browsers[i]);
    for (size_t i = 0; i < ABX_COUNTOF(scripted_modes); i++)
        if (abx_str_is_nocase(mode, scripted_modes[i]))
            return false;
    if (contains_nocase(accept, "application/json") && !contains_nocase(accept, "text/html"))
        return false;
    return browser && abx_http_header_count(head, "x-requested-with") == 0;
}
