/* guest/kernels/kernel_line_fuzz.c: any bytes from a kernel, and any code and variables to one:
 * what is passed on is ASCII JSON, what is sent can not end its line early. */
#include "guest/kernels/protocol.h"

#include "lib/json/scan.h"

#include <assert.h>

#include "lib/base/banned.h"

static size_t count(struct abx_str text, char byte)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++)
        n += text.ptr[i] == byte;
    return n;
}

static void check_line(struct abx_str line)
{
    enum abx_kernel_event e = ABX_KERNEL__EVENTS;
    if (abx_kernel_line_parse(line, &e, NULL) < 0)
        return;
    assert(e < ABX_KERNEL__EVENTS && abx_scan_is_json(line));
    for (size_t i = 0; i < line.len; i++)
        assert(line.ptr[i] >= 0x20 && line.ptr[i] < 0x7f);
}

static void check_output(struct abx_str text)
{
    ABX_AUTO_BUF out;
    abx_buf_init(&out, 1 << 20);
    abx_kernel_write_output(&out, false, text);
    enum abx_kernel_event e;
    assert(abx_kernel_line_parse(abx_buf_str(&out), &e, NULL) == 0 && e == ABX_KERNEL_STDOUT);
    size_t tail = abx_kernel_utf8_tail(text);
    assert(tail <= 3 && tail <= text.len);
}

static void check_cell(struct abx_str code, struct abx_str name)
{
    const struct abx_variable own = {name, code};
    struct abx_cell cell = {.code = code,
                            .own = &own,
                            .own_count = 1,
                            .sandbox = &own,
                            .sandbox_count = 1,
                            .sets_sandbox = true};
    ABX_AUTO_BUF json, shell;
    abx_buf_init(&json, 1 << 20);
    abx_buf_init(&shell, 1 << 20);
    abx_kernel_write_cell(&json, &cell);
    assert(count(abx_buf_str(&json), '\n') == 1 && json.ptr[json.len - 1] == '\n');
    assert(abx_scan_is_json(abx_buf_str(&json)));
    abx_kernel_write_shell(&shell, &cell);
    assert(count(abx_buf_str(&shell), '\n') == 5); /* two exports, the cell, a reset, the end */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 1 << 14)
        return 0;
    struct abx_str text = abx_str_n((const char *)data + 1, size - 1);
    check_line(text);
    check_output(text);
    check_cell(abx_str_sub(text, data[0], text.len), abx_str_sub(text, 0, data[0]));
    return 0;
}
