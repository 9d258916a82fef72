/* lib/wire/http_writer.c: writing HTTP/1.1 heads and chunk sizes into buffers. Pure. */
#include "lib/base/assert.h"
#include "lib/wire/http_priv.h"

#include "lib/base/banned.h"

static const struct {
    int status;
    const char *text;
} reasons[] = {
    {200, "OK"},
    {201, "Created"},
    {204, "No Content"},
    {400, "Bad Request"},
    {404, "Not Found"},
    {100, "Continue"},
    {101, "Switching Protocols"},
    {202, "Accepted"},
    {206, "Partial Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {401, "Unauthorized"},
    {402, "Payment Required"},
    {403, "Forbidden"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {407, "Proxy Authentication Required"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {426, "Upgrade Required"},
    {428, "Precondition Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {499, "Client Closed Request"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
    {508, "Loop Detected"},
};

const char *abx_http_reason(int status)
{
    for (size_t i = 0; i < ABX_COUNTOF(reasons); i++)
        if (reasons[i].status == status)
            return reasons[i].text;
    return "";
}

static bool is_target(struct abx_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!abx__http_is_target_byte(s.ptr[i]))
            return false;
    return s.len != 0;
}

void abx_http_write_request(struct abx_buf *b, struct abx_str method, struct abx_str target)
{
    if (!abx__http_is_token(method) || !is_target(target)) {
        b->failed = true;
        return;
    }
    abx_buf_put_str(b, method);
    abx_buf_put_byte(b, ' ');
    abx_buf_put_str(b, target);
    abx_buf_put_str(b, ABX_STR(" HTTP/1.1\r\n"));
}

void abx_http_write_status(struct abx_buf *b, int status, struct abx_str reason)
{
    if (status < 100 || status > 999 || !abx__http_is_value(reason)) {
        b->failed = true;
        return;
    }
    const char digits[3] = {(char)('0' + status / 100), (char)('0' + status / 10 % 10),
                            (char)('0' + status % 10)};
    abx_buf_put_str(b, ABX_STR("HTTP/1.1 "));
    abx_buf_put(b, digits, sizeof(digits));
    abx_buf_put_byte(b, ' ');
    abx_buf_put_str(b, reason);
    abx_buf_put_str(b, ABX_STR("\r\n"));
}

void abx_http_write_header(struct abx_buf *b, struct abx_str name, struct abx_str value)
{
    if (!abx__http_is_token(name) || !abx__http_is_value(value)) {
        b->failed = true;
        return;
    }
    char *to = abx_buf_room(b, name.len + value.len + 4);
    if (to == NULL)
        return;
    memcpy(to, name.ptr, name.len);
    memcpy(to + name.len, ": ", 2);
    if (value.len)
        memcpy(to + name.len + 2, value.ptr, value.len);
    memcpy(to + name.len + 2 + value.len, "\r\n", 2);
    abx_buf_wrote(b, name.len + value.len + 4);
}

void abx_http_write_headerf(struct abx_buf *b, const char *name, const char *fmt, ...)
{
    ABX_AUTO_BUF value;
    abx_buf_init(&value, ABX_HTTP_HEAD_MAX);
    va_list ap;
    va_start(ap, fmt);
    abx_buf_putfv(&value, fmt, ap);
    va_end(ap);
    if (abx_buf_failed(&value))
        b->failed = true;
    else
        abx_http_write_header(b, abx_str(name), abx_buf_str(&value));
}

void abx_http_write_end(struct abx_buf *b)
{
    abx_buf_put_str(b, ABX_STR("\r\n"));
}

size_t abx_http_chunk_head(uint64_t len, char *out)
{
    size_t digits = 1;
    while (digits < 16 && len >> (4 * digits))
        digits++;
    for (size_t i = 0; i < digits; i++)
        out[i] = "0123456789abcdef"[len >> (4 * (digits - 1 - i)) & 15];
    out[digits] = '\r';
    out[digits + 1] = '\n';
    return digits + 2;
}
