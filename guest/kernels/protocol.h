/* guest/kernels/protocol.h: the lines between the supervisor and a kernel. Bytes in, bytes out.
 *
 * From a kernel: one ASCII JSON object a line, its `type` one of the events. stdout, stderr, result
 * and error are passed on as they came, so a line that is anything else ends the kernel: its own
 * user may write to the line. To a kernel: one cell, as JSON, or as commands for bash. */
#pragma once
#include "lib/base/buf.h"
#include "lib/base/err.h"

#include <stdint.h>

enum {
    ABX_KERNEL_LINE_MAX = 64 << 20,
    ABX_KERNEL_CELL_MAX = 72 << 20, /* of a written cell: more than a request may carry */
};

enum abx_kernel_event {
    ABX_KERNEL_READY,
    ABX_KERNEL_STDOUT,
    ABX_KERNEL_STDERR,
    ABX_KERNEL_RESULT,
    ABX_KERNEL_ERROR,
    ABX_KERNEL_SYNC, /* wants "go" once all before it was taken */
    ABX_KERNEL_DONE, /* the cell is over */
    ABX_KERNEL__EVENTS
};
/** Reads one line without its newline. -1: not an ASCII JSON object, or no event. */
int abx_kernel_line_parse(struct abx_str line, enum abx_kernel_event *ret, struct abx_error *err);

struct abx_variable {
    struct abx_str name, value;
};
struct abx_cell {
    struct abx_str code;
    uint32_t number;
    bool strip_types;
    const struct abx_variable *own; /* of this cell only */
    size_t own_count;
    const struct abx_variable *sandbox; /* of the whole context */
    size_t sandbox_count;
    bool sets_sandbox; /* they are to be set now */
};
void abx_kernel_write_cell(struct abx_buf *out, const struct abx_cell *cell);
void abx_kernel_write_shell(struct abx_buf *out, const struct abx_cell *cell);

/* Lines for a client, without the newline. */
void abx_kernel_write_output(struct abx_buf *out, bool is_stderr, struct abx_str text);
void abx_kernel_write_error(struct abx_buf *out, const char *name, const char *value);
/** A JSON string with quotes; beyond ASCII \uXXXX, bytes that are not UTF-8 as U+FFFD. */
void abx_kernel_put_ascii(struct abx_buf *out, struct abx_str text);
/** How many bytes at the end of @text begin a character that is not complete: 0 to 3. */
size_t abx_kernel_utf8_tail(struct abx_str text);
