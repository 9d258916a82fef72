/* guest/gateway/route_test.c: the routing table, row by row. */
#include "guest/gateway/route.h"

#include "lib/base/assert.h"
#include "tests/unit/test.h"

#include <stdio.h>

#include "lib/base/banned.h"

enum { ENGINE = ABX_GATEWAY_ENGINE, TCP = ABX_GATEWAY_TCP, LOCAL = ABX_GATEWAY_TCP_LOCAL };

struct row {
    int source;
    const char *target, *headers;
    enum abx_gateway_dest dest;
    int value; /* the port, or the status of a refusal */
};

static struct abx_gateway_rules rules_of(bool locked, bool guard)
{
    return (struct abx_gateway_rules){.own_port = 5000,
                                      .envd_port = 49983,
                                      .interpreter_port = 49999,
                                      .locked = locked,
                                      .loopback_guard = guard,
                                      .via = "1.1 abx-gateway"};
}

static void check(const struct abx_gateway_rules *rules, const struct row *row)
{
    struct abx_http_parser p;
    struct abx_arena arena;
    char text[1024];
    snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\n%s\r\n", row->target, row->headers);
    struct abx_str in = abx_str(text), body;
    struct abx_error err = {0};
    abx_http_parser_init(&p, false);
    abx_arena_init(&arena, 65536);
    if (abx_http_parse(&p, &in, &body, &err) != ABX_HTTP_HEAD)
        fail_msg("%s %s: %s", row->target, row->headers, err.msg);
    struct abx_gateway_route to =
        abx_gateway_route(rules, (enum abx_gateway_source)row->source, &p.head, &arena);
    int value = to.dest == ABX_GATEWAY_REFUSE ? to.status : to.port;
    if (to.dest != row->dest || value != row->value)
        fail_msg("source %d %s [%s]: dest %d value %d, wanted %d %d", row->source, row->target,
                 row->headers, (int)to.dest, value, (int)row->dest, row->value);
    abx_arena_done(&arena);
    abx_http_parser_done(&p);
}

#define H "Host: sandbox.test\r\n"

TEST(routes)
{
    static const struct row rows[] = {
        /* the engine's socket: one header alone (S40) */
        {ENGINE, "/x", H "X-Sandbox-Port: 49983\r\n", ABX_GATEWAY_ENVD, 49983},
        {ENGINE, "/init", H "X-Sandbox-Port: 49983\r\n", ABX_GATEWAY_ENVD, 49983},
        {ENGINE, "/", H "X-Sandbox-Port: 8080\r\n", ABX_GATEWAY_PORT, 8080},
        {ENGINE, "/health", H "X-Sandbox-Port: 8080\r\n", ABX_GATEWAY_PORT, 8080},
        {ENGINE, "/execute", H "X-Sandbox-Port: 49999\r\n", ABX_GATEWAY_INTERPRETER, 49999},
        {ENGINE, "/health", H "X-Sandbox-Port: 5000\r\n", ABX_GATEWAY_HEALTH, 5000},
        {ENGINE, "/.fce2b/health", H "X-Sandbox-Port: 5000\r\n", ABX_GATEWAY_REFUSE, 404},
        {ENGINE, "/.fce2b/health", H, ABX_GATEWAY_STATE, 5000},
        {ENGINE, "/.fce2b/health", H "X-Sandbox-Port: 80\r\n", ABX_GATEWAY_PORT, 80},
        {ENGINE, "/health", H, ABX_GATEWAY_REFUSE, 400},
        {ENGINE, "/", H "E2b-Sandbox-Port: 8080\r\n", ABX_GATEWAY_REFUSE, 400},
        {ENGINE, "/", "Host: 8080-i.test\r\n", ABX_GATEWAY_REFUSE, 400},
        {ENGINE, "/", H "X-Sandbox-Port: 80\r\nX-Sandbox-Port: 80\r\n", ABX_GATEWAY_REFUSE, 400},
        {ENGINE, "/", H "X-Sandbox-Port: 0\r\n", ABX_GATEWAY_REFUSE, 400},
        {ENGINE, "/", H "X-Sandbox-Port: 65536\r\n", ABX_GATEWAY_REFUSE, 400},
        {ENGINE, "/", H "X-Sandbox-Port: 000080\r\n", ABX_GATEWAY_REFUSE, 400},
        {ENGINE, "/", H "X-Sandbox-Port: +80\r\n", ABX_GATEWAY_REFUSE, 400},
        {ENGINE, "/", H "X-Sandbox-Port: 80, 81\r\n", ABX_GATEWAY_REFUSE, 400},
        {ENGINE, "/", H "X-Sandbox-Port:\r\n", ABX_GATEWAY_REFUSE, 400},
        {ENGINE, "/", "Host: 81-i.test\r\nX-Sandbox-Port: 80\r\n", ABX_GATEWAY_PORT, 80},
        /* TCP: three sources that must agree */
        {TCP, "/", H "X-Sandbox-Port: 80\r\n", ABX_GATEWAY_PORT, 80},
        {TCP, "/", H "E2b-Sandbox-Port: 80\r\n", ABX_GATEWAY_PORT, 80},
        {TCP, "/", "Host: 80-i.test\r\n", ABX_GATEWAY_PORT, 80},
        {TCP, "/", "Host: 80-i.test\r\nX-Sandbox-Port: 80\r\n", ABX_GATEWAY_PORT, 80},
        {TCP, "/", "Host: 81-i.test\r\nX-Sandbox-Port: 80\r\n", ABX_GATEWAY_REFUSE, 400},
        {TCP, "/", H "X-Sandbox-Port: 80\r\nE2b-Sandbox-Port: 81\r\n", ABX_GATEWAY_REFUSE, 400},
        {TCP, "/", H "E2b-Sandbox-Port: 80\r\nE2b-Sandbox-Port: 80\r\n", ABX_GATEWAY_REFUSE, 400},
        {TCP, "/", "Host: 99999-i.test\r\n", ABX_GATEWAY_REFUSE, 400},
        {TCP, "/health", "Host: 80.test\r\n", ABX_GATEWAY_ENVD, 49983}, /* no dash: no port */
        {TCP, "/health", "Host: 80-\r\n", ABX_GATEWAY_ENVD, 49983},
        {TCP, "/health", "Host: 8o-i.test\r\n", ABX_GATEWAY_ENVD, 49983},
        /* port-prefixed traffic pre-empts the local /health */
        {TCP, "/health", "Host: 80-i.test\r\n", ABX_GATEWAY_PORT, 80},
        {TCP, "/health", "Host: 5000-i.test\r\n", ABX_GATEWAY_HEALTH, 5000},
        {TCP, "/.fce2b/health", "Host: 5000-i.test\r\n", ABX_GATEWAY_REFUSE, 404},
        {TCP, "/.fce2b/health", H, ABX_GATEWAY_REFUSE, 404},
        {TCP, "/metrics", "Host: 5000-i.test\r\n", ABX_GATEWAY_REFUSE, 404},
        /* without a port: by path */
        {TCP, "/health", H, ABX_GATEWAY_ENVD, 49983},
        {TCP, "/metrics?x=1", H, ABX_GATEWAY_ENVD, 49983},
        {TCP, "/envs", H, ABX_GATEWAY_ENVD, 49983},
        {TCP, "/terminal", H, ABX_GATEWAY_ENVD, 49983},
        {TCP, "/terminal/x", H, ABX_GATEWAY_REFUSE, 404},
        {TCP, "/files?path=/a", H, ABX_GATEWAY_ENVD, 49983},
        {TCP, "/process.Process/Start", H, ABX_GATEWAY_ENVD, 49983},
        {TCP, "/filesystem.Filesystem/Stat", H, ABX_GATEWAY_ENVD, 49983},
        {TCP, "http://sandbox.test/health", H, ABX_GATEWAY_ENVD, 49983},
        {TCP, "/execute", H, ABX_GATEWAY_INTERPRETER, 49999},
        {TCP, "/contexts/1", H, ABX_GATEWAY_INTERPRETER, 49999},
        {TCP, "/healthz", H, ABX_GATEWAY_REFUSE, 404},
        {TCP, "/Health", H, ABX_GATEWAY_REFUSE, 404},
        {TCP, "/", H, ABX_GATEWAY_REFUSE, 404},
        {TCP, "/init", H, ABX_GATEWAY_ENVD, 49983}, /* not under the engine */
        /* loops */
        {TCP, "/health", H "Via: 1.1 abx-gateway\r\n", ABX_GATEWAY_REFUSE, 508},
        {TCP, "/", H "Via: 1.0 x, 1.1 abx-gateway\r\nX-Sandbox-Port: 80\r\n", ABX_GATEWAY_REFUSE,
         508},
        {TCP, "/health", H "Via: 1.1 other\r\n", ABX_GATEWAY_ENVD, 49983},
        {LOCAL, "/health", H, ABX_GATEWAY_ENVD, 49983}, /* the guard is off */
    };
    struct abx_gateway_rules rules = rules_of(false, false);
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++)
        check(&rules, &rows[i]);
}

/* S41, S43: under the engine /init comes by its socket only, however it is spelled. */
TEST(routes_of_init_under_the_engine)
{
    static const char *const spellings[] = {
        "/init",   "//init",     "/init/",    "/./init",  "/%69nit",
        "/init;x", "/x/../init", "/init?a=b", "/init%2f", "http://sandbox.test/init",
        "/%zz"};
    struct abx_gateway_rules rules = rules_of(true, false);
    for (size_t i = 0; i < ABX_COUNTOF(spellings); i++) {
        check(&rules, &(struct row){TCP, spellings[i], H "X-Sandbox-Port: 49983\r\n",
                                    ABX_GATEWAY_REFUSE, 404});
        check(&rules, &(struct row){LOCAL, spellings[i], H, ABX_GATEWAY_REFUSE, 404});
        check(&rules, &(struct row){ENGINE, spellings[i], H "X-Sandbox-Port: 49983\r\n",
                                    ABX_GATEWAY_ENVD, 49983});
        check(&rules,
              &(struct row){TCP, spellings[i], H "X-Sandbox-Port: 80\r\n", ABX_GATEWAY_PORT, 80});
    }
}

TEST(routes_with_the_loopback_guard)
{
    static const struct row rows[] = {
        {LOCAL, "/health", H, ABX_GATEWAY_REFUSE, 403},
        {LOCAL, "/execute", H, ABX_GATEWAY_REFUSE, 403},
        {LOCAL, "/", H "X-Sandbox-Port: 49983\r\n", ABX_GATEWAY_REFUSE, 403},
        {LOCAL, "/", H "X-Sandbox-Port: 49999\r\n", ABX_GATEWAY_REFUSE, 403},
        {LOCAL, "/", H "X-Sandbox-Port: 80\r\n", ABX_GATEWAY_PORT, 80},
        {TCP, "/health", H, ABX_GATEWAY_ENVD, 49983},
        {ENGINE, "/health", H "X-Sandbox-Port: 49983\r\n", ABX_GATEWAY_ENVD, 49983},
    };
    struct abx_gateway_rules rules = rules_of(false, true);
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++)
        check(&rules, &rows[i]);
}

TEST(pages_are_for_browsers_only)
{
    static const struct {
        const char *headers;
        bool html;
    } rows[] = {
        {H, false},
        {H "User-Agent: curl/8\r\n", false},
        {H "User-Agent: Mozilla/5.0\r\n", true},
        {H "User-Agent: X Chrome/1\r\nAccept: text/html\r\n", true},
        {H "User-Agent: Mozilla/5.0\r\nAccept: application/json\r\n", false},
        {H "User-Agent: Mozilla/5.0\r\nAccept: application/json, text/html\r\n", true},
        {H "User-Agent: Mozilla/5.0\r\nSec-Fetch-Mode: cors\r\n", false},
        {H "User-Agent: Mozilla/5.0\r\nSec-Fetch-Mode: navigate\r\n", true},
        {H "User-Agent: Mozilla/5.0\r\nX-Requested-With: x\r\n", false},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_http_parser p;
        char text[512];
        snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n%s\r\n", rows[i].headers);
        struct abx_str in = abx_str(text), body;
        abx_http_parser_init(&p, false);
        assert_int_equal(abx_http_parse(&p, &in, &body, NULL), ABX_HTTP_HEAD);
        if (abx_gateway_wants_html(&p.head) != rows[i].html)
            fail_msg("%s", rows[i].headers);
        abx_http_parser_done(&p);
    }
}
