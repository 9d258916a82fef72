/* bench/parse.c: nanoseconds per parsed request head. Usage: parse N. Prints one figure a round. */
#include "lib/base/parse.h"
#include "lib/base/assert.h"
#include "lib/wire/http.h"

#include <stdio.h>
#include <time.h>

#include "lib/base/banned.h"

/* What the JS SDK sends. */
static const char head[] =
    "POST /process.Process/Start HTTP/1.1\r\nhost: 127.0.0.1:3000\r\nconnection: keep-alive\r\n"
    "content-type: application/connect+json\r\nconnect-protocol-version: 1\r\n"
    "keepalive-ping-interval: 50\r\nauthorization: Basic dXNlcjo=\r\n"
    "x-access-token: 0f3ab6c2d1e4f5a60f3ab6c2d1e4f5a60f3ab6c2d1e4f5a60f3ab6c2d1e4f5a6\r\n"
    "e2b-sandbox-id: i2xabcdefghijklmnopqr\r\ne2b-sandbox-port: 49983\r\n"
    "user-agent: e2b-js-sdk/2.51.0\r\naccept: */*\r\naccept-language: *\r\nsec-fetch-mode: cors\r\n"
    "accept-encoding: gzip, deflate\r\ncontent-length: 0\r\n\r\n";

static double round_ns(uint32_t count)
{
    struct abx_http_parser p;
    struct timespec a, b;
    abx_http_parser_init(&p, false);
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (uint32_t i = 0; i < count; i++) {
        struct abx_str body, in = ABX_STR(head);
        ABX_ASSERT(abx_http_parse(&p, &in, &body, NULL) == ABX_HTTP_HEAD);
        ABX_ASSERT(abx_http_parse(&p, &in, &body, NULL) == ABX_HTTP_END);
        abx_http_parser_reset(&p, false);
    }
    clock_gettime(CLOCK_MONOTONIC, &b);
    abx_http_parser_done(&p);
    return ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / count;
}

int main(int argc, char **argv)
{
    uint32_t count;
    if (argc != 2 || abx_parse_u32(abx_str(argv[1]), &count) < 0 || count == 0)
        return 2;
    for (int i = 0; i < 5; i++)
        printf("%.1f\n", round_ns(count));
    return 0;
}
