/* lib/wire/sse.h: server-sent events (text/event-stream, WHATWG HTML 9.2): bytes in, bytes out. */
#pragma once
#include "lib/base/buf.h"
#include "lib/base/err.h"

#define ABX_SSE_PING ": ping\n\n" /* a comment: keeps a connection alive, no event */

/** Appends one event. @name (no line end in it; empty: "message") and @data, whose lines become one
 *  data field each. */
void abx_sse_write(struct abx_buf *out, struct abx_str name, struct abx_str data);

struct abx_sse_event {
    struct abx_str name; /* "message" when the stream gave none */
    struct abx_str data; /* lines joined by LF */
    struct abx_str id;   /* the last one seen; empty at first */
};
enum abx_sse_result { ABX_SSE_MORE, ABX_SSE_EVENT, ABX_SSE_ERROR };

struct abx_sse_parser {
    /* private */
    struct abx_buf line, name, data, id;
    struct abx_sse_event event;
    bool after_cr, began, has_data, is_given;
    /* results */
    bool has_retry;
    uint64_t retry_ms; /* the last valid retry field */
};
/** @max bounds a line, and the data of an event. */
void abx_sse_parser_init(struct abx_sse_parser *p, size_t max);
void abx_sse_parser_done(struct abx_sse_parser *p);
/** Takes bytes off the front of *inout_input until an event is complete; *ret then borrows from the
 *  parser until the next call. MORE: all input is used. ERROR: a bound was passed; it stays. What
 * the end of the stream cuts is no event. */
enum abx_sse_result abx_sse_parse(struct abx_sse_parser *p, struct abx_str *inout_input,
                                  struct abx_sse_event *ret, struct abx_error *err);
