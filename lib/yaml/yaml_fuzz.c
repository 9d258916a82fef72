/* lib/yaml/yaml_fuzz.c: any text is a tree that is JSON, or a fault inside of it. */
#include "lib/yaml/yaml.h"

#include "lib/base/buf.h"
#include "lib/json/scan.h"

#include <assert.h>

#include "lib/base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct abx_arena a;
    struct abx_yaml_fault fault = {0};
    struct abx_yaml *root;
    struct abx_str text = {(const char *)data, size < 8192 ? size : 8192};
    unsigned lines = 1;
    ABX_AUTO_BUF out;
    abx_buf_init(&out, 1 << 20);
    for (size_t i = 0; i < text.len; i++)
        lines += text.ptr[i] == '\n';
    abx_arena_init(&a, 32 << 20);
    if (abx_yaml_parse(text, &a, &fault, &root) < 0) {
        assert(fault.text && fault.text[0] && fault.line <= lines + 1);
    } else {
        abx_yaml_to_json(root, &out);
        assert(abx_buf_failed(&out) || abx_scan_is_json(abx_buf_str(&out)));
    }
    abx_arena_done(&a);
    return 0;
}
