/* lib/wire/multipart.h: multipart/form-data as a push parser (RFC 7578, 2046 5.1). Pure; streams.
 */
#pragma once
#include "lib/base/arena.h"
#include "lib/base/buf.h"
#include "lib/base/err.h"

enum abx_multipart_event {
    ABX_MULTIPART_NEED_MORE,
    ABX_MULTIPART_PART, /* a part begins: parser->name, filename (ptr NULL: none), type */
    ABX_MULTIPART_DATA, /* *ret_data; may point into the input or into the parser */
    ABX_MULTIPART_PART_END,
    ABX_MULTIPART_END, /* closing boundary seen; the epilogue is ignored */
    ABX_MULTIPART_ERROR,
};
enum { ABX_MULTIPART_HEAD_MAX = 16384 }; /* headers of one part */

struct abx_multipart {
    /* private */
    int state;
    char boundary[80]; /* the delimiter: "\r\n--" + at most 70 bytes */
    size_t boundary_len, matched;
    size_t phantom; /* bytes counted as matched that are no part data if the match fails */
    struct abx_buf line, fields;
    size_t line_start;
    struct abx_arena arena;
    /* of the current part */
    struct abx_str name, filename, content_type; /* valid until the next PART */
};
/** Takes the boundary from a Content-Type value. The body is complete only with END: a connection
 *  that ends before it cut the form. Errors are INVALID_ARGUMENT. */
int abx_multipart_init(struct abx_multipart *m, struct abx_str content_type, struct abx_error *err);
void abx_multipart_done(struct abx_multipart *m);
/** Consumes from the front of *inout_input until an event. */
enum abx_multipart_event abx_multipart_parse(struct abx_multipart *m, struct abx_str *inout_input,
                                             struct abx_str *ret_data, struct abx_error *err);
/** Media type (or disposition) without parameters, lower-cased into @out. -1: malformed. */
int abx_media_type(struct abx_str value, char *out, size_t cap);
/** One parameter, unquoted; "name*=utf-8''..." is decoded and wins. 1 found, 0 absent, -1 malformed
 *  or given twice. */
int abx_media_param(struct abx_str value, const char *name, struct abx_arena *a,
                    struct abx_str *ret);
