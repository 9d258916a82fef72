/* lib/wire/ws.h: WebSocket messages (RFC 6455): bytes in, bytes out, both roles. No extension. */
#pragma once
#include "lib/base/buf.h"
#include "lib/base/err.h"

enum abx_ws_opcode {
    ABX_WS_TEXT = 1,
    ABX_WS_BINARY = 2,
    ABX_WS_CLOSE = 8,
    ABX_WS_PING = 9,
    ABX_WS_PONG = 10,
};
enum {
    ABX_WS_HEAD_MAX = 14,
    ABX_WS_CONTROL_MAX = 125,
    ABX_WS_KEY_TEXT = 24,    /* Sec-WebSocket-Key */
    ABX_WS_ACCEPT_TEXT = 28, /* Sec-WebSocket-Accept */
    /* close codes, RFC 6455 7.4.1 */
    ABX_WS_NORMAL = 1000,
    ABX_WS_GOING_AWAY = 1001,
    ABX_WS_PROTOCOL_ERROR = 1002,
    ABX_WS_NO_CODE = 1005,  /* never on the wire: a close frame without a code */
    ABX_WS_ABNORMAL = 1006, /* never on the wire: the connection broke */
    ABX_WS_BAD_TEXT = 1007,
    ABX_WS_POLICY = 1008,
    ABX_WS_TOO_LARGE = 1009,
    ABX_WS_INTERNAL = 1011,
};

struct abx_ws_message {
    enum abx_ws_opcode opcode;
    struct abx_str data; /* of a close: the reason */
    unsigned code;       /* of a close; ABX_WS_NO_CODE when it carries none */
};
enum abx_ws_event { ABX_WS_MORE, ABX_WS_MESSAGE, ABX_WS_ERROR };

struct abx_ws_parser {
    /* private */
    struct abx_buf message,
        control; /* of the message at hand; control frames may stand inside it */
    unsigned char head[ABX_WS_HEAD_MAX];
    size_t head_len, head_want;
    uint64_t left, at; /* of the frame's payload: bytes to come, bytes seen */
    unsigned opcode, message_opcode;
    bool is_server, is_in_frame, is_in_message, is_final, is_given, is_failed;
    /* results */
    unsigned close_code; /* after ERROR: what to close the connection with */
};
/** @is_server: frames come masked, else they must not be. @max: bytes of a message. */
void abx_ws_parser_init(struct abx_ws_parser *p, bool is_server, size_t max);
void abx_ws_parser_done(struct abx_ws_parser *p);
/** Takes bytes off the front of *inout_input until a message is complete, put together from its
 * frames; *ret then borrows from the parser until the next call. Text is well-formed UTF-8. ERROR
 * stays. */
enum abx_ws_event abx_ws_parse(struct abx_ws_parser *p, struct abx_str *inout_input,
                               struct abx_ws_message *ret, struct abx_error *err);

/** The head of one final frame of @len bytes into @out (ABX_WS_HEAD_MAX); its length. @mask: four
 * random bytes of a client, NULL for a server. */
size_t abx_ws_head(enum abx_ws_opcode opcode, uint64_t len, const unsigned char *mask, char *out);
/** Appends a whole frame, masked when @mask is given. */
void abx_ws_write(struct abx_buf *out, enum abx_ws_opcode opcode, struct abx_str data,
                  const unsigned char *mask);
/** Appends a close frame; the reason is cut to what fits. NO_CODE: an empty one. */
void abx_ws_write_close(struct abx_buf *out, unsigned code, struct abx_str reason,
                        const unsigned char *mask);
/** Whether a peer may send this code in a close frame. */
bool abx_ws_is_close_code(unsigned code);

/** Whether @key is a Sec-WebSocket-Key: 16 bytes as base64. */
bool abx_ws_is_key(struct abx_str key);
/** Its Sec-WebSocket-Accept, with a terminator. */
void abx_ws_accept(struct abx_str key, char out[ABX_WS_ACCEPT_TEXT + 1]);
