/* lib/http/server_fuzz.c: a hostile peer of the server: every exchange that was begun is ended, and
 * every connection goes when its peer does. */
#include "lib/http/server.h"

#include <assert.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/banned.h"

static unsigned requests, closes;

static void on_close(struct abx_http_req *req, bool aborted)
{
    (void)req;
    (void)aborted;
    closes++;
}
static void on_body(struct abx_http_req *req, const char *data, size_t len)
{
    if (!abx_http_write(req, data, len))
        abx_http_pause_body(req);
}
static void on_request(struct abx_http_req *req)
{
    requests++;
    req->on_close = on_close;
    if (req->query.len % 3 == 1) {
        abx_http_answer(req, 200, NULL, req->path);
        return;
    }
    req->on_body = on_body;
    req->on_body_end = abx_http_end;
    req->on_drain = abx_http_resume_body;
    abx_http_begin(req, 200, NULL, ABX_HTTP_CHUNKED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct abx_http_server_options o = {.on_request = on_request, .high_water = 512};
    struct abx_loop loop;
    struct abx_http_server *server;
    int fds[2];
    if (size < 1 || size > 1 << 16 || abx_loop_init(&loop, NULL) < 0)
        return 0;
    assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
    assert(abx_http_server_open(&loop, &o, &server, NULL) == 0);
    assert(abx_http_server_adopt(server, fds[0], 0, NULL) == 0);
    requests = closes = 0;
    size_t step = 1 + data[0] * 7u;
    for (size_t at = 1; at < size; at += step) {
        size_t n = step < size - at ? step : size - at;
        if (send(fds[1], data + at, n, MSG_NOSIGNAL) < 0)
            break; /* refused and closed, or not read: both are answers */
        uv_run(&loop.uv, UV_RUN_NOWAIT);
    }
    close(fds[1]);
    for (int i = 0; abx_http_server_conns(server); i++) {
        assert(i < 1000);
        uv_run(&loop.uv, UV_RUN_NOWAIT);
    }
    assert(requests == closes);
    abx_http_server_close(server, true, NULL, NULL);
    abx_loop_run(&loop);
    abx_loop_done(&loop);
    return 0;
}
