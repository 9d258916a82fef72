/* lib/wire/ws.c: WebSocket frames, both roles. RFC 6455 5, 7.4. */
#include "lib/wire/ws.h"

#include "lib/base/banned.h"

enum {
    FINAL = 0x80,
    RESERVED = 0x70,
    OPCODE = 0x0F,
    MASKED = 0x80,
    LENGTH = 0x7F,
    LENGTH_16 = 126,
    LENGTH_64 = 127,
    CONTROL = 0x08, /* bit of a control frame's opcode */
    MASK_BYTES = 4,
};

/* ---- writing ---- */

size_t abx_ws_head(enum abx_ws_opcode opcode, uint64_t len, const unsigned char *mask, char *out)
{
    size_t n = 2, width = len < LENGTH_16 ? 0 : len <= UINT16_MAX ? 2 : 8;
    unsigned first = width == 0 ? (unsigned)len : width == 2 ? LENGTH_16 : LENGTH_64;
    out[0] = (char)(FINAL | (unsigned)opcode);
    out[1] = (char)(first | (mask ? MASKED : 0u));
    for (size_t i = width; i > 0; i--)
        out[n++] = (char)(len >> (8 * (i - 1)) & 0xFF);
    if (mask)
        for (size_t i = 0; i < MASK_BYTES; i++)
            out[n++] = (char)mask[i];
    return n;
}

void abx_ws_write(struct abx_buf *out, enum abx_ws_opcode opcode, struct abx_str data,
                  const unsigned char *mask)
{
    char head[ABX_WS_HEAD_MAX];
    size_t n = abx_ws_head(opcode, data.len, mask, head);
    abx_buf_put(out, head, n);
    size_t at = out->len;
    abx_buf_put_str(out, data);
    if (mask == NULL || abx_buf_failed(out))
        return;
    for (size_t i = 0; i < data.len; i++)
        out->ptr[at + i] = (char)((unsigned char)out->ptr[at + i] ^ mask[i % MASK_BYTES]);
}

/* No character is cut in two. */
static struct abx_str cut_reason(struct abx_str reason)
{
    enum { MAX = ABX_WS_CONTROL_MAX - 2 };
    if (reason.len <= MAX)
        return reason;
    size_t n = MAX;
    while (n > 0 && ((unsigned char)reason.ptr[n] & 0xC0) == 0x80)
        n--;
    return abx_str_sub(reason, 0, n);
}

void abx_ws_write_close(struct abx_buf *out, unsigned code, struct abx_str reason,
                        const unsigned char *mask)
{
    char payload[ABX_WS_CONTROL_MAX];
    if (code == ABX_WS_NO_CODE) {
        abx_ws_write(out, ABX_WS_CLOSE, ABX_STR(""), mask);
        return;
    }
    reason = cut_reason(reason);
    payload[0] = (char)(code >> 8);
    payload[1] = (char)(code & 0xFF);
    if (reason.len)
        memcpy(payload + 2, reason.ptr, reason.len);
    abx_ws_write(out, ABX_WS_CLOSE, abx_str_n(payload, reason.len + 2), mask);
}

bool abx_ws_is_close_code(unsigned code)
{
    static const struct {
        unsigned from, to;
    } ranges[] = {{1000, 1003}, {1007, 1014}, {3000, 4999}};
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
        if (code >= ranges[i].from && code <= ranges[i].to)
            return true;
    return false;
}

/* ---- reading ---- */

void abx_ws_parser_init(struct abx_ws_parser *p, bool is_server, size_t max)
{
    *p = (struct abx_ws_parser){.is_server = is_server, .head_want = 2};
    abx_buf_init(&p->message, max);
    abx_buf_init(&p->control, ABX_WS_CONTROL_MAX);
}

void abx_ws_parser_done(struct abx_ws_parser *p)
{
    abx_buf_done(&p->message);
    abx_buf_done(&p->control);
}

static bool fail(struct abx_ws_parser *p, unsigned code, const char *text, struct abx_error *err)
{
    p->is_failed = true;
    p->close_code = code;
    abx_err_set(err, ABX_INVALID_ARGUMENT, "WebSocket: %s", text);
    return false;
}

static bool is_control(unsigned opcode)
{
    return (opcode & CONTROL) != 0;
}

/* The first two bytes: what they may not say, and how long the head is. */
static bool check_start(struct abx_ws_parser *p, struct abx_error *err)
{
    unsigned first = p->head[0], second = p->head[1], length = second & LENGTH;
    p->opcode = first & OPCODE;
    p->is_final = (first & FINAL) != 0;
    if (first & RESERVED)
        return fail(p, ABX_WS_PROTOCOL_ERROR, "a reserved bit is set", err);
    if (((second & MASKED) != 0) != p->is_server)
        return fail(p, ABX_WS_PROTOCOL_ERROR, "wrong masking", err);
    if (p->opcode > ABX_WS_PONG || (p->opcode > ABX_WS_BINARY && p->opcode < ABX_WS_CLOSE))
        return fail(p, ABX_WS_PROTOCOL_ERROR, "unknown opcode", err);
    if (is_control(p->opcode) && (!p->is_final || length > ABX_WS_CONTROL_MAX))
        return fail(p, ABX_WS_PROTOCOL_ERROR, "a control frame is long or in parts", err);
    if (!is_control(p->opcode) && (p->opcode == 0) != p->is_in_message)
        return fail(p, ABX_WS_PROTOCOL_ERROR, "a continuation out of place", err);
    p->head_want = 2 +
                   (length == LENGTH_16   ? 2u
                    : length == LENGTH_64 ? 8u
                                          : 0u) +
                   (p->is_server ? (size_t)MASK_BYTES : 0u);
    return true;
}

static bool check_length(struct abx_ws_parser *p, struct abx_error *err)
{
    unsigned length = p->head[1] & LENGTH;
    size_t width = length == LENGTH_16 ? 2 : length == LENGTH_64 ? 8 : 0;
    uint64_t n = width ? 0 : length;
    for (size_t i = 0; i < width; i++)
        n = n << 8 | p->head[2 + i];
    if ((width == 2 && n < LENGTH_16) || (width == 8 && (n <= UINT16_MAX || n > INT64_MAX)))
        return fail(p, ABX_WS_PROTOCOL_ERROR, "malformed length", err);
    if (!is_control(p->opcode) && n > p->message.max - p->message.len)
        return fail(p, ABX_WS_TOO_LARGE, "a message is too long", err);
    p->left = n;
    p->at = 0;
    p->is_in_frame = true;
    if (p->opcode == ABX_WS_TEXT || p->opcode == ABX_WS_BINARY) {
        p->is_in_message = true;
        p->message_opcode = p->opcode;
    }
    return true;
}

/* Bytes of the head until it is complete. False: more is needed, or it failed. */
static bool feed_head(struct abx_ws_parser *p, struct abx_str *in, struct abx_error *err)
{
    while (in->len && p->head_len < p->head_want) {
        p->head[p->head_len++] = (unsigned char)in->ptr[0];
        *in = abx_str_sub(*in, 1, in->len);
        if (p->head_len == 2 && !check_start(p, err))
            return false;
    }
    return p->head_len == p->head_want && check_length(p, err);
}

static void feed_payload(struct abx_ws_parser *p, struct abx_str *in)
{
    struct abx_buf *to = is_control(p->opcode) ? &p->control : &p->message;
    size_t n = p->left < in->len ? (size_t)p->left : in->len, at = to->len;
    abx_buf_put(to, in->ptr, n);
    if (p->is_server && !abx_buf_failed(to)) {
        const unsigned char *mask = p->head + p->head_want - MASK_BYTES;
        for (size_t i = 0; i < n; i++)
            to->ptr[at + i] =
                (char)((unsigned char)to->ptr[at + i] ^ mask[(p->at + i) % MASK_BYTES]);
    }
    p->left -= n;
    p->at += n;
    *in = abx_str_sub(*in, n, in->len);
}

static bool read_close(struct abx_ws_parser *p, struct abx_ws_message *ret, struct abx_error *err)
{
    struct abx_str data = abx_buf_str(&p->control);
    ret->code = ABX_WS_NO_CODE;
    ret->data = ABX_STR("");
    if (data.len == 0)
        return true;
    if (data.len == 1)
        return fail(p, ABX_WS_PROTOCOL_ERROR, "half a close code", err);
    ret->code = (unsigned)(unsigned char)data.ptr[0] << 8 | (unsigned char)data.ptr[1];
    ret->data = abx_str_sub(data, 2, data.len);
    if (!abx_ws_is_close_code(ret->code))
        return fail(p, ABX_WS_PROTOCOL_ERROR, "a close code that none may send", err);
    if (!abx_str_is_utf8(ret->data))
        return fail(p, ABX_WS_BAD_TEXT, "a close reason that is no UTF-8", err);
    return true;
}

/* The frame is complete. False: no message yet, or it failed. */
static bool end_frame(struct abx_ws_parser *p, struct abx_ws_message *ret, struct abx_error *err)
{
    p->is_in_frame = false;
    p->head_len = 0;
    p->head_want = 2;
    if (abx_buf_failed(&p->message) || abx_buf_failed(&p->control))
        return fail(p, ABX_WS_INTERNAL, "out of memory", err);
    if (is_control(p->opcode)) {
        *ret = (struct abx_ws_message){.opcode = p->opcode, .data = abx_buf_str(&p->control)};
        p->is_given = true;
        return p->opcode != ABX_WS_CLOSE || read_close(p, ret, err);
    }
    if (!p->is_final)
        return false;
    p->is_in_message = false;
    p->is_given = true;
    *ret = (struct abx_ws_message){.opcode = p->message_opcode, .data = abx_buf_str(&p->message)};
    if (ret->opcode == ABX_WS_TEXT && !abx_str_is_utf8(ret->data))
        return fail(p, ABX_WS_BAD_TEXT, "a text that is no UTF-8", err);
    return true;
}

/* What was given last is done with. */
static void forget_given(struct abx_ws_parser *p)
{
    if (!p->is_given)
        return;
    p->is_given = false;
    abx_buf_clear(&p->control);
    if (!p->is_in_message)
        abx_buf_clear(&p->message);
}

enum abx_ws_event abx_ws_parse(struct abx_ws_parser *p, struct abx_str *inout_input,
                               struct abx_ws_message *ret, struct abx_error *err)
{
    if (p->is_failed) {
        abx_err_set(err, ABX_INVALID_ARGUMENT, "WebSocket: the stream has failed");
        return ABX_WS_ERROR;
    }
    forget_given(p);
    while (inout_input->len || (p->is_in_frame && p->left == 0)) {
        if (!p->is_in_frame && !feed_head(p, inout_input, err)) {
            if (p->is_failed)
                return ABX_WS_ERROR;
            continue;
        }
        feed_payload(p, inout_input);
        if (p->left)
            continue;
        bool is_message = end_frame(p, ret, err);
        if (p->is_failed)
            return ABX_WS_ERROR;
        if (is_message)
            return ABX_WS_MESSAGE;
    }
    return ABX_WS_MORE;
}
