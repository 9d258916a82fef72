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
struct abx_multipart {
    /* private */
    int state;
    char boundary[80]; /* "\r\n--" + at most 70 bytes */
    size_t boundary_len, matched;
    struct abx_buf line;
    struct abx_arena arena;
    size_t header_bytes;
    struct abx_str held; /* bytes of a false boundary start to be given out first */
    /* of the current part */
    struct abx_str name, filename, content_type;
};
/** Takes the boundary from a Content-Type value. */
int abx_multipart_init(struct abx_multipart *m, struct abx_str content_type, struct abx_error *err);
void abx_multipart_done(struct abx_multipart *m);
/** Consumes from the front of *inout_input until an event. */
enum abx_multipart_event abx_multipart_parse(struct abx_multipart *m, struct abx_str *inout_input,
                                             struct abx_str *ret_data, struct abx_error *err);
/** Media type without parameters, lower-cased into @out; and one parameter of it. */
int abx_media_type(struct abx_str value, char *out, size_t cap);
int abx_media_param(struct abx_str value, const char *name, struct abx_arena *a,
                    struct abx_str *ret);
