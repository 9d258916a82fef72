/* lib/connect/rpc_fuzz.c: any bytes as the body of any kind of call: each call that began is closed
 * once, whatever its handler did. The first byte picks kind and codec, the second the pieces. */
#include "lib/base/assert.h"
#include "lib/connect/process.pb-c.h"
#include "lib/connect/rpc.h"

#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/banned.h"

static unsigned begun, closed;

static void on_close(struct abx_rpc *rpc)
{
    ABX_ASSERT(abx_rpc_data(rpc) == &begun);
    closed++;
}
static void begin(struct abx_rpc *rpc)
{
    begun++;
    abx_rpc_set_data(rpc, &begun);
    abx_rpc_on_close(rpc, on_close);
}
static void unary(struct abx_rpc *rpc, const ProtobufCMessage *in)
{
    begin(rpc);
    abx_rpc_send(rpc, in);
}
static void stream(struct abx_rpc *rpc, const ProtobufCMessage *in)
{
    begin(rpc);
    abx_rpc_send(rpc, in);
    if (((const Process__StartRequest *)in)->tag)
        abx_rpc_failf(rpc, ABX_INTERNAL, "%s", ((const Process__StartRequest *)in)->tag);
    else
        abx_rpc_finish(rpc);
}
static void input(struct abx_rpc *rpc, const ProtobufCMessage *in)
{
    (void)in;
    begin(rpc);
}
static void message(struct abx_rpc *rpc, const ProtobufCMessage *in)
{
    if (in && ((const Process__StreamInputRequest *)in)->event_case)
        return;
    if (in == NULL)
        abx_rpc_finish(rpc);
    else
        abx_rpc_failf(rpc, ABX_ABORTED, "no event");
}
#define START &process__start_request__descriptor
#define INPUT &process__stream_input_request__descriptor
static const struct abx_rpc_method methods[] = {
    {"0", ABX_RPC_UNARY, START, START, unary},
    {"1", ABX_RPC_SERVER_STREAM, START, START, stream},
    {"2", ABX_RPC_CLIENT_STREAM, INPUT, INPUT, input, message},
    {0}};
static const struct abx_rpc_service service = {"/t.T/", methods, 4096};
static const struct abx_rpc_service *const services[] = {&service, NULL};
static struct abx_loop loop;
static const struct abx_rpc_server rpc_server = {&loop, services, NULL};

static void on_request(struct abx_http_req *req)
{
    ABX_ASSERT(abx_rpc_serve(&rpc_server, req));
}

static void put(int fd, const void *data, size_t len)
{
    if (send(fd, data, len, MSG_NOSIGNAL) >= 0)
        uv_run(&loop.uv, UV_RUN_NOWAIT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const types[] = {"json", "proto", "connect+json", "connect+proto"};
    const struct abx_http_server_options o = {.on_request = on_request};
    struct abx_http_server *server;
    int fds[2];
    ABX_AUTO_BUF head = {.max = 512};
    if (size < 2 || size > 8192 || abx_loop_init(&loop, NULL) < 0)
        return 0;
    ABX_ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
    ABX_ASSERT(abx_http_server_open(&loop, &o, &server, NULL) == 0);
    ABX_ASSERT(abx_http_server_adopt(server, fds[0], 0, NULL) == 0);
    begun = closed = 0;
    abx_buf_putf(&head,
                 "POST /t.T/%d HTTP/1.1\r\nHost: x\r\nContent-Type: application/%s\r\n"
                 "Content-Length: %zu\r\n\r\n",
                 data[0] % 3, types[data[0] / 3 % 4], size - 2);
    put(fds[1], head.ptr, head.len);
    size_t step = 1 + data[1] * 17u;
    for (size_t at = 2; at < size; at += step)
        put(fds[1], data + at, step < size - at ? step : size - at);
    close(fds[1]);
    for (int i = 0; abx_http_server_conns(server); i++) {
        ABX_ASSERT(i < 1000);
        uv_run(&loop.uv, UV_RUN_NOWAIT);
    }
    ABX_ASSERT(begun == closed && begun <= 1);
    abx_http_server_close(server, true, NULL, NULL);
    abx_loop_run(&loop);
    abx_loop_done(&loop);
    return 0;
}
