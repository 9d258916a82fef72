/* guest/interpreter/interp_body_fuzz.c: any bytes as a request's body: read, or refused in JSON. */
#include "guest/interpreter/interpreter_priv.h"

#include "lib/json/scan.h"

#include <assert.h>

#include "lib/base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct abx_arena arena;
    struct abx__interp_execution execution;
    struct abx__interp_wanted wanted;
    ABX_AUTO_BUF first = {0}, second = {0};
    if (size > 1 << 16)
        return 0;
    struct abx_str body = abx_str_n((const char *)data, size);
    abx_arena_init(&arena, 8 << 20);
    abx_buf_init(&first, 64 << 10);
    abx_buf_init(&second, 64 << 10);
    if (abx__interp_read_execution(body, &arena, &execution, &first) == 0)
        assert(execution.code.ptr != NULL && first.len == 0);
    else
        assert(abx_scan_is_json(abx_buf_str(&first)));
    for (size_t i = 0; i < execution.own_count; i++)
        assert(execution.own[i].name.len > 0 && abx_str_chr(execution.own[i].name, '=') < 0);
    if (abx__interp_read_wanted(body, &arena, &wanted, &second) < 0)
        assert(abx_scan_is_json(abx_buf_str(&second)));
    abx_arena_done(&arena);
    return 0;
}
