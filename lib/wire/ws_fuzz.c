/* lib/wire/ws_fuzz.c: any bytes; the first picks the role and the split. Messages keep their bound,
 * text is UTF-8, and what was read is read again when it is written. */
#include "lib/wire/ws.h"

#include "lib/base/assert.h"

#include "lib/base/banned.h"

enum { MAX = 512, INPUT_MAX = 4096 };

static void check(const struct abx_ws_message *m, bool is_server)
{
    static const unsigned char mask[] = {0x11, 0x22, 0x33, 0x44};
    struct abx_ws_parser p;
    struct abx_ws_message back;
    ABX_AUTO_BUF out;
    ABX_ASSERT(m->data.len <= MAX);
    ABX_ASSERT(m->opcode != ABX_WS_TEXT || abx_str_is_utf8(m->data));
    abx_buf_init(&out, 4096);
    if (m->opcode == ABX_WS_CLOSE)
        abx_ws_write_close(&out, m->code, m->data, is_server ? mask : NULL);
    else
        abx_ws_write(&out, m->opcode, m->data, is_server ? mask : NULL);
    struct abx_str in = abx_buf_str(&out);
    abx_ws_parser_init(&p, is_server, MAX);
    ABX_ASSERT(abx_ws_parse(&p, &in, &back, NULL) == ABX_WS_MESSAGE && in.len == 0);
    ABX_ASSERT(back.opcode == m->opcode && back.code == m->code && abx_str_eq(back.data, m->data));
    abx_ws_parser_done(&p);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct abx_ws_parser p;
    struct abx_ws_message m;
    if (size < 1 || size > INPUT_MAX)
        return 0;
    struct abx_str all = abx_str_n((const char *)data + 1, size - 1);
    bool is_server = data[0] & 1;
    size_t split = all.len * (data[0] >> 1) / 127;
    abx_ws_parser_init(&p, is_server, MAX);
    for (int part = 0; part < 2; part++) {
        struct abx_str in = part ? abx_str_sub(all, split, all.len) : abx_str_sub(all, 0, split);
        while (abx_ws_parse(&p, &in, &m, NULL) == ABX_WS_MESSAGE)
            check(&m, is_server);
    }
    abx_ws_parser_done(&p);
    return 0;
}
