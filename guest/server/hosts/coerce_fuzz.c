/* guest/server/hosts/coerce_fuzz.c: any body under any types: an object of JSON, or a refusal. */
#include "guest/server/hosts/coerce.h"

#include "lib/json/scan.h"

#include <assert.h>

#include "lib/base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    struct abx_arg items[ABX_ARG__TYPES];
    struct abx_args declared = {items, ABX_ARG__TYPES};
    struct abx_args_fault f = {0};
    struct abx_arena a;
    ABX_AUTO_BUF out = {0};
    if (size < 1 || size > 1 << 16)
        return 0;
    struct abx_str body = {(const char *)data + 1, size - 1};
    for (size_t i = 0; i < ABX_ARG__TYPES; i++)
        items[i] = (struct abx_arg){.name = abx_str(names[i]),
                                    .type = (enum abx_arg_type)i,
                                    .has_default = data[0] >> i & 1,
                                    .default_text = abx_str_is_utf8(body) ? body : ABX_STR("x")};
    abx_arena_init(&a, 16 << 20);
    abx_buf_init(&out, 16 << 20);
    if (abx_args_coerce(&declared, body, &a, &out, &f) == 0)
        assert(abx_scan_is_json(abx_buf_str(&out)) && out.ptr[0] == '{');
    else
        assert(f.type && f.text[sizeof(f.text) - 1] == '\0');
    abx_arena_done(&a);
    return 0;
}
