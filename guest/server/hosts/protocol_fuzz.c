/* guest/server/hosts/protocol_fuzz.c: any bytes from a host: the same messages at every split. */
#include "guest/server/hosts/protocol.h"

#include "lib/json/scan.h"

#include <assert.h>

#include "lib/base/banned.h"

static void run(const char *data, size_t size, size_t step, struct abx_buf *seen)
{
    struct abx_host_lines l;
    struct abx_host_message m;
    struct abx_str line;
    abx_host_lines_init(&l);
    abx_buf_init(seen, 1 << 22);
    for (size_t at = 0; at < size; at += step) {
        struct abx_str in = abx_str_sub(abx_str_n(data, size), at, step);
        assert(abx_host_lines_feed(&l, in.ptr, in.len) == 0);
        while (abx_host_lines_next(&l, &line)) {
            bool is_message = abx_host_message_parse(line, &m, NULL) == 0;
            assert(!is_message || abx_scan_is_json(line));
            ABX_AUTO_BUF text;
            abx_buf_init(&text, 1 << 20);
            if (is_message && abx_host_text(m.message, &text) == 0)
                assert(abx_str_is_utf8(abx_buf_str(&text)));
            abx_buf_putf(seen, "%d %d %llu %zu\n", is_message, is_message ? (int)m.op : 0,
                         is_message ? (unsigned long long)m.id : 0, is_message ? m.value.len : 0);
        }
    }
    abx_host_lines_done(&l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ABX_AUTO_BUF whole = {0}, pieces = {0};
    if (size < 2 || size > 1 << 16)
        return 0;
    run((const char *)data + 1, size - 1, size - 1, &whole);
    run((const char *)data + 1, size - 1, 1 + data[0] % 61u, &pieces);
    assert(abx_str_eq(abx_buf_str(&whole), abx_buf_str(&pieces)));
    return 0;
}
