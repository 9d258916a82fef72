/* lib/wire/chunked_fuzz.c: chunked bodies: hostile bytes behind a good head are read the same at
 * every split, and any bytes that we chunk ourselves come back. */
#include "lib/wire/http_fuzz.h"

#include "lib/base/banned.h"

static const char head[] = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";

static void round_trip(const char *data, size_t size, size_t chunk, size_t step)
{
    ABX_AUTO_BUF wire;
    ABX_AUTO_BUF log;
    abx_buf_init(&wire, 1 << 24);
    abx_buf_put_c(&wire, head);
    for (size_t at = 0, n = chunk; at < size; at += n) {
        char size_line[20];
        n = chunk < size - at ? chunk : size - at;
        abx_buf_put(&wire, size_line, abx_http_chunk_head(n, size_line));
        abx_buf_put(&wire, data + at, n);
        abx_buf_put_c(&wire, "\r\n");
    }
    abx_buf_put_c(&wire, "0\r\n\r\n");
    fuzz_run(wire.ptr, wire.len, step, 0, &log);
    const char *body = memmem(log.ptr, log.len, "chunked\n", 8);
    assert(body != NULL && log.len - (size_t)(body + 8 - log.ptr) == size + strlen("eof 0 idle 1"));
    assert(size == 0 || memcmp(body + 8, data, size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 1 << 16)
        return 0;
    ABX_AUTO_BUF wire;
    abx_buf_init(&wire, 1 << 17);
    abx_buf_put_c(&wire, head);
    abx_buf_put(&wire, data + 1, size - 1);
    fuzz_compare(wire.ptr, wire.len, 1 + data[0] % 61u, 0);
    round_trip((const char *)data + 1, size - 1, 1 + data[0] / 3u, 1 + data[0] % 61u);
    return 0;
}
