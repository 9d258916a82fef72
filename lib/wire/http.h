/* lib/wire/http.h: HTTP/1.1 messages (RFC 9110, 9112): bytes in, bytes out, no descriptor.
 *
 * One parser for both directions. Feed bytes; it stops at events. Strict where laxity is a
 * smuggling risk (security S44): bare LF or CR, obs-fold, space before the colon, control bytes, CL
 * with TE, any repeated CL (equal or not), TE other than one "chunked", TE in 1.0, chunk sizes over
 * 15 digits, chunk extensions over 256 bytes, no or two Host in a 1.1 request, a Host that differs
 * from an absolute-form target are errors with an HTTP status to answer. One empty line before a
 * request is skipped. */
#pragma once
#include "lib/base/arena.h"
#include "lib/base/buf.h"
#include "lib/base/err.h"

enum abx_http_limits {
    ABX_HTTP_HEAD_MAX = 65536,  /* request or status line and all headers */
    ABX_HTTP_HEADERS_MAX = 128, /* fields in a head, unless the parser is told of fewer */
    ABX_HTTP_LINE_MAX = 16384,  /* request or status line, CR LF included */
    ABX_HTTP_TRAILER_MAX = 8192,
    ABX_HTTP_CHUNK_DIGITS_MAX = 15,
    ABX_HTTP_CHUNK_EXT_MAX = 256,
    ABX_HTTP_KEEP_BYTES = 8192, /* memory of a head that stays with an idle parser */
};

struct abx_http_header {
    struct abx_str name, value; /* value without surrounding blanks */
};

/* The head of a request or response. The strings point into the parser's own copy of the head. */
struct abx_http_head {
    struct abx_str method, target; /* request: "GET", "/a?b" exactly as sent */
    int status;                    /* response */
    struct abx_str reason;
    int minor; /* HTTP/1.minor: 0 or 1 */
    struct abx_http_header *headers;
    size_t header_count;
    /* decoded for the connection: */
    bool keep_alive, is_chunked, has_length, expects_continue;
    bool is_upgrade;         /* Connection: upgrade with an Upgrade header */
    struct abx_str upgrade;  /* its protocol */
    uint64_t content_length; /* with has_length */
};

/** The first header of that name (any case), or a NULL ptr. */
struct abx_str abx_http_header(const struct abx_http_head *h, const char *name);
/** How many fields have that name. */
size_t abx_http_header_count(const struct abx_http_head *h, const char *name);
/** Whether @token stands in the comma list(s) of header @name, any case. */
bool abx_http_has_token(const struct abx_http_head *h, const char *name, const char *token);
/** Whether a field of that name may be passed on as a trailer (RFC 9110 6.5.1: no framing, routing,
 *  authentication, control or content field; security S44). */
bool abx_http_trailer_allowed(struct abx_str name);

enum abx_http_event {
    ABX_HTTP_NEED_MORE, /* all input used, nothing to report */
    ABX_HTTP_HEAD,      /* parser->head is filled */
    ABX_HTTP_BODY,      /* *ret_body points into the input */
    ABX_HTTP_END,   /* message complete (trailers in parser->trailers); unread input may follow */
    ABX_HTTP_ERROR, /* parser->error_status (400, 413, 414, 431, 501, 503, 505; response: 502) and
                       err */
};

struct abx_http_parser {
    size_t headers_max; /* set after init: 1 to ABX_HTTP_HEADERS_MAX fields in a head */
    /* private */
    bool is_response, skipped_blank;
    bool head_was_head; /* response to HEAD: no body */
    int state;
    struct abx_buf line, fields;           /* the bytes of the head, its headers */
    struct abx_buf tail, tail_fields;      /* the same of the trailers */
    size_t line_start, line_count, digits; /* of the line being read */
    uint64_t left;                         /* of the body or chunk */
    /* results */
    struct abx_http_head head;
    struct abx_http_header *trailers;
    size_t trailer_count;
    bool until_eof; /* response body ends with the connection */
    int error_status;
};

void abx_http_parser_init(struct abx_http_parser *p, bool is_response);
void abx_http_parser_done(struct abx_http_parser *p);
/** Ready for the next message on the connection; the old head is gone. @is_head_answer: the next
 *  response answers a HEAD request. */
void abx_http_parser_reset(struct abx_http_parser *p, bool is_head_answer);
/** Consumes from the front of *inout_input until an event. Call again until NEED_MORE, END or
 * ERROR; the last two repeat until a reset. A 1xx response comes as HEAD then END (after 101 the
 * unread input belongs to the new protocol); reset without losing is_head_answer. */
enum abx_http_event abx_http_parse(struct abx_http_parser *p, struct abx_str *inout_input,
                                   struct abx_str *ret_body, struct abx_error *err);
/** The connection ended. True when that completes the message (until_eof), false when it cuts it.
 */
bool abx_http_parser_eof(const struct abx_http_parser *p);
/** True between messages: no byte of a next message was seen. */
bool abx_http_parser_idle(const struct abx_http_parser *p);

/* Writing. A head is begun, fields are added, then ended; all into a buffer. */
void abx_http_write_request(struct abx_buf *b, struct abx_str method, struct abx_str target);
void abx_http_write_status(struct abx_buf *b, int status, struct abx_str reason);
/** Refuses (sets b->failed) names that are no token and values with CR, LF or NUL. */
void abx_http_write_header(struct abx_buf *b, struct abx_str name, struct abx_str value);
void abx_http_write_headerf(struct abx_buf *b, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void abx_http_write_end(struct abx_buf *b);
/** "1f\r\n" into @out (at least 20 bytes); the length. The chunk's data and "\r\n" follow. */
size_t abx_http_chunk_head(uint64_t len, char *out);
/** "OK" for 200; "" when unknown. */
const char *abx_http_reason(int status);
