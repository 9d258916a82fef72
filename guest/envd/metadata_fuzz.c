/* guest/envd/metadata_fuzz.c: headers of any bytes: what is accepted is within its limits, lower
 * case, and has no key twice. Input: NAME NUL VALUE NUL ... */
#include "guest/envd/envd_priv.h"

#include "lib/base/assert.h"

#include "lib/base/banned.h"

enum { HEADERS = 128 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct abx_http_header rows[HEADERS];
    struct abx_http_head head = {.headers = rows};
    struct abx_str rest = {(const char *)data, size < 65536 ? size : 65536}, name, value;
    while (head.header_count < HEADERS && abx_str_split(&rest, '\0', &name) &&
           abx_str_split(&rest, '\0', &value))
        rows[head.header_count++] = (struct abx_http_header){name, value};
    struct abx_arena a;
    struct abx__metadata m;
    struct abx_error err = {0};
    abx_arena_init(&a, 1 << 20);
    int rc = abx__metadata_parse(&head, &a, &m, &err);
    ABX_ASSERT(rc == 0 || err.msg[0] != '\0');
    for (size_t i = 0; rc == 0 && i < m.count; i++) {
        ABX_ASSERT(m.rows[i].key.len > 0 && m.rows[i].key.len <= ABX__METADATA_KEY_MAX);
        for (size_t c = 0; c < m.rows[i].key.len; c++)
            ABX_ASSERT(m.rows[i].key.ptr[c] < 'A' || m.rows[i].key.ptr[c] > 'Z');
        for (size_t j = 0; j < i; j++)
            ABX_ASSERT(!abx_str_eq(m.rows[i].key, m.rows[j].key));
    }
    ABX_ASSERT(rc != 0 || m.bytes <= ABX__METADATA_MAX);
    abx_arena_done(&a);
    return 0;
}
