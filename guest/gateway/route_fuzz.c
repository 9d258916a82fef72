/* guest/gateway/route_fuzz.c: routing decisions over hostile heads. The first byte picks the source
 * and the rules; the rest is a request. */
#include "guest/gateway/route.h"

#include "lib/base/assert.h"

#include <stdint.h>

#include "lib/base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct abx_gateway_rules *rules, enum abx_gateway_source source,
                  const struct abx_http_head *head)
{
    struct abx_arena arena;
    abx_arena_init(&arena, 1 << 20);
    struct abx_gateway_route to = abx_gateway_route(rules, source, head, &arena);
    if (to.dest == ABX_GATEWAY_REFUSE)
        ABX_ASSERT(to.status >= 400 && to.message != NULL);
    else
        ABX_ASSERT(to.port != 0);
    if (to.dest == ABX_GATEWAY_PORT)
        ABX_ASSERT(to.port != rules->own_port && to.port != rules->envd_port);
    if (to.dest == ABX_GATEWAY_STATE)
        ABX_ASSERT(source == ABX_GATEWAY_ENGINE);
    bool guarded = rules->loopback_guard && source == ABX_GATEWAY_TCP_LOCAL;
    ABX_ASSERT(!(guarded && to.dest == ABX_GATEWAY_ENVD));
    if (to.dest == ABX_GATEWAY_ENVD && rules->locked && source != ABX_GATEWAY_ENGINE)
        ABX_ASSERT(!abx_str_is(head->target, "/init"));
    (void)abx_gateway_wants_html(head);
    abx_arena_done(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > 65536)
        return 0;
    struct abx_gateway_rules rules = {
        5000, 49983, 49999, (data[0] & 4) != 0, (data[0] & 8) != 0, "1.1 abx-gateway"};
    struct abx_http_parser p;
    struct abx_str in = abx_str_n((const char *)data + 1, size - 1), body;
    abx_http_parser_init(&p, false);
    if (abx_http_parse(&p, &in, &body, NULL) == ABX_HTTP_HEAD)
        check(&rules, (enum abx_gateway_source)((data[0] & 3) % 3), &p.head);
    abx_http_parser_done(&p);
    return 0;
}
