/* lib/wire/http_head.c: decoding a complete head: start line, fields, what frames the body.
 * Pure. RFC 9112 2-6, security S44. */
#include "lib/base/assert.h"
#include "lib/base/parse.h"
#include "lib/wire/http_priv.h"

#include "lib/base/banned.h"

enum { TOKEN = 1, VALUE = 2 };

/* clang-format off */
static const unsigned char byte_class[256] = { /* TOKEN: tchar; VALUE: HTAB, SP, VCHAR, obs-text */
    0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, /* 0x00 */
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* 0x10 */
    2, 3, 2, 3, 3, 3, 3, 3, 2, 2, 3, 3, 2, 3, 3, 2, /* 0x20 */
    3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, /* 0x30 */
    2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, /* 0x40 */
    3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 3, 3, /* 0x50 */
    3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, /* 0x60 */
    3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 2, 3, 2, 3, 0, /* 0x70 */
    2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, /* 0x80 */
    2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, /* 0x90 */
    2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, /* 0xa0 */
    2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, /* 0xb0 */
    2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, /* 0xc0 */
    2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, /* 0xd0 */
    2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, /* 0xe0 */
    2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, /* 0xf0 */
};
/* clang-format on */

static const struct abx__http_why accepted = {0, NULL};

static bool is_class(char c, unsigned char mask)
{
    return (byte_class[(unsigned char)c] & mask) != 0;
}

static bool all_class(struct abx_str s, unsigned char mask)
{
    for (size_t i = 0; i < s.len; i++)
        if (!is_class(s.ptr[i], mask))
            return false;
    return true;
}

static struct abx__http_why refuse(int status, const char *text)
{
    return (struct abx__http_why){status, text};
}

bool abx__http_is_token(struct abx_str s)
{
    return s.len != 0 && all_class(s, TOKEN);
}

bool abx__http_is_value(struct abx_str s)
{
    return all_class(s, VALUE);
}

bool abx__http_is_token_byte(char c)
{
    return is_class(c, TOKEN);
}

bool abx__http_is_target_byte(char c)
{
    return (unsigned char)c > ' ' && (unsigned char)c < 0x7f;
}

bool abx__http_is_value_byte(char c)
{
    return is_class(c, VALUE);
}

/* The caller's lines end with CR LF, neither of which is in a class, so no loop runs past them. */
static const char *parse_field(const char **at, struct abx_http_header *ret)
{
    const char *name = *at, *p = name;
    while (is_class(*p, TOKEN))
        p++;
    bool is_blank = *p == ' ' || *p == '\t';
    if (p == name)
        return is_blank ? "folded header line" : "header line without a name";
    if (*p != ':')
        return is_blank ? "blank before the colon of a header" : "bad byte in a header name";
    ret->name = abx_str_n(name, (size_t)(p - name));
    const char *value = ++p;
    while (is_class(*p, VALUE))
        p++;
    if (p[0] != '\r' || p[1] != '\n')
        return "control byte in a header value";
    ret->value = abx_str_trim(abx_str_n(value, (size_t)(p - value)));
    *at = p + 2;
    return NULL;
}

struct abx__http_why abx__http_fields(struct abx_str lines, struct abx_buf *out)
{
    const char *p = lines.ptr, *end = p + lines.len;
    while (p < end) {
        struct abx_http_header *h = abx_buf_room(out, sizeof(*h));
        if (h == NULL)
            return refuse(503, "no memory for the headers");
        const char *text = parse_field(&p, h);
        if (text != NULL)
            return refuse(400, text);
        abx_buf_wrote(out, sizeof(*h));
    }
    return accepted;
}

/* "HTTP/1.x" */
static struct abx__http_why parse_version(struct abx_str s, int *ret_minor)
{
    if (s.len != 8 || !abx_str_starts(s, "HTTP/") || s.ptr[6] != '.')
        return refuse(400, "malformed protocol version");
    char major = s.ptr[5], minor = s.ptr[7];
    if (major < '0' || major > '9' || minor < '0' || minor > '9')
        return refuse(400, "malformed protocol version");
    if (major != '1' || minor > '1')
        return refuse(505, "only HTTP/1.0 and HTTP/1.1 are spoken");
    *ret_minor = minor - '0';
    return accepted;
}

/* What is left of an absolute-form target ("http://host/..."), or a NULL ptr. */
static struct abx_str after_scheme(struct abx_str target)
{
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < ABX_COUNTOF(schemes); i++) {
        size_t n = strlen(schemes[i]);
        if (abx_str_is_nocase(abx_str_sub(target, 0, n), schemes[i]))
            return abx_str_sub(target, n, target.len);
    }
    return (struct abx_str){0};
}

static struct abx_str authority_of(struct abx_str rest)
{
    size_t n = 0;
    while (n < rest.len && memchr("/?", rest.ptr[n], 2) == NULL)
        n++;
    return abx_str_n(rest.ptr, n);
}

static struct abx__http_why check_target(const struct abx_http_head *h)
{
    struct abx_str t = h->target;
    if (t.len == 0)
        return refuse(400, "no request target");
    for (size_t i = 0; i < t.len; i++)
        if (!abx__http_is_target_byte(t.ptr[i]) || t.ptr[i] == '#')
            return refuse(400, "bad byte in the request target");
    if (abx_str_is(h->method, "CONNECT")) {
        bool is_authority = authority_of(t).len == t.len;
        return is_authority ? accepted : refuse(400, "CONNECT needs host:port");
    }
    if (t.ptr[0] == '/' || (abx_str_is(t, "*") && abx_str_is(h->method, "OPTIONS")))
        return accepted;
    struct abx_str rest = after_scheme(t);
    if (rest.ptr == NULL || authority_of(rest).len == 0)
        return refuse(400, "request target is neither a path nor an http URL");
    return accepted;
}

static struct abx__http_why parse_request_line(struct abx_str line, struct abx_http_head *h)
{
    ptrdiff_t first = abx_str_chr(line, ' ');
    ptrdiff_t last = abx_str_rchr(line, ' ');
    if (first <= 0 || last == first)
        return refuse(400, "malformed request line");
    h->method = abx_str_sub(line, 0, (size_t)first);
    h->target = abx_str_n(line.ptr + first + 1, (size_t)(last - first - 1));
    if (!abx__http_is_token(h->method))
        return refuse(400, "bad byte in the method");
    struct abx__http_why why =
        parse_version(abx_str_sub(line, (size_t)last + 1, line.len), &h->minor);
    return why.text ? why : check_target(h);
}

static struct abx__http_why parse_status_line(struct abx_str line, struct abx_http_head *h)
{
    struct abx__http_why why = parse_version(abx_str_sub(line, 0, 8), &h->minor);
    if (why.text)
        return why;
    uint32_t status;
    struct abx_str digits = abx_str_sub(line, 9, 3);
    if (line.len < 12 || line.ptr[8] != ' ' || abx_parse_u32(digits, &status) < 0 || status < 100)
        return refuse(400, "malformed status line");
    if (line.len > 12 && line.ptr[12] != ' ')
        return refuse(400, "malformed status line");
    h->status = (int)status;
    h->reason = abx_str_sub(line, 13, line.len);
    if (!abx__http_is_value(h->reason))
        return refuse(400, "control byte in the reason phrase");
    return accepted;
}

/* Facts gathered from the fields that frame the message or steer the connection. */
struct facts {
    struct abx_http_head *head;
    struct abx_str host;
    size_t hosts, lengths, codings;
    bool has_close, has_keep_alive, has_upgrade;
};

static struct abx__http_why on_content_length(struct facts *f, struct abx_str value)
{
    if (f->lengths++)
        return refuse(400, "repeated Content-Length");
    for (size_t i = 0; i < value.len; i++)
        if (value.ptr[i] < '0' || value.ptr[i] > '9')
            return refuse(400, "malformed Content-Length");
    uint64_t n;
    if (value.len == 0)
        return refuse(400, "malformed Content-Length");
    if (abx_parse_u64(value, &n) < 0 || n > INT64_MAX)
        return refuse(413, "Content-Length beyond any limit");
    f->head->content_length = n;
    f->head->has_length = true;
    return accepted;
}

static struct abx__http_why on_transfer_encoding(struct facts *f, struct abx_str value)
{
    if (f->codings++)
        return refuse(400, "repeated Transfer-Encoding");
    if (f->head->minor == 0)
        return refuse(400, "Transfer-Encoding in HTTP/1.0");
    if (!abx_str_is_nocase(value, "chunked"))
        return refuse(501, "the only Transfer-Encoding understood is \"chunked\"");
    f->head->is_chunked = true;
    return accepted;
}

static struct abx__http_why on_connection(struct facts *f, struct abx_str value)
{
    struct abx_str token;
    while (abx_str_split(&value, ',', &token)) {
        token = abx_str_trim(token);
        f->has_close |= abx_str_is_nocase(token, "close");
        f->has_keep_alive |= abx_str_is_nocase(token, "keep-alive");
        f->has_upgrade |= abx_str_is_nocase(token, "upgrade");
    }
    return accepted;
}

static struct abx__http_why on_upgrade(struct facts *f, struct abx_str value)
{
    if (f->head->upgrade.ptr == NULL)
        f->head->upgrade = value;
    return accepted;
}

static struct abx__http_why on_expect(struct facts *f, struct abx_str value)
{
    f->head->expects_continue = f->head->minor == 1 && abx_str_is_nocase(value, "100-continue");
    return accepted;
}

static struct abx__http_why on_host(struct facts *f, struct abx_str value)
{
    if (f->hosts++)
        return refuse(400, "repeated Host");
    for (size_t i = 0; i < value.len; i++)
        if (!abx__http_is_target_byte(value.ptr[i]) ||
            memchr("/?#@\\,\"<>", value.ptr[i], 9) != NULL)
            return refuse(400, "malformed Host");
    f->host = value;
    return accepted;
}

static const struct {
    struct abx_str name;
    struct abx__http_why (*read)(struct facts *f, struct abx_str value);
    bool is_request_only;
} steering[] = {
    {{"Host", 4}, on_host, true},
    {{"Expect", 6}, on_expect, true},
    {{"Upgrade", 7}, on_upgrade, false},
    {{"Connection", 10}, on_connection, false},
    {{"Content-Length", 14}, on_content_length, false},
    {{"Transfer-Encoding", 17}, on_transfer_encoding, false},
};

static struct abx__http_why read_field(struct facts *f, const struct abx_http_header *field,
                                       bool is_response)
{
    for (size_t i = 0; i < ABX_COUNTOF(steering); i++)
        if (field->name.len == steering[i].name.len &&
            abx_str_eq_nocase(field->name, steering[i].name) &&
            !(is_response && steering[i].is_request_only))
            return steering[i].read(f, field->value);
    return accepted;
}

static struct abx__http_why check_host(const struct facts *f)
{
    if (f->hosts == 0 && f->head->minor == 1)
        return refuse(400, "no Host");
    struct abx_str rest = after_scheme(f->head->target);
    if (rest.ptr != NULL && f->hosts && !abx_str_eq_nocase(authority_of(rest), f->host))
        return refuse(400, "Host is not that of the request target");
    return accepted;
}

static struct abx__http_why read_facts(struct abx_http_head *h, bool is_response)
{
    struct facts f = {.head = h};
    for (size_t i = 0; i < h->header_count; i++) {
        struct abx__http_why why = read_field(&f, &h->headers[i], is_response);
        if (why.text)
            return why;
    }
    if (h->is_chunked && h->has_length)
        return refuse(400, "Content-Length with Transfer-Encoding");
    h->keep_alive = !f.has_close && (h->minor == 1 || f.has_keep_alive);
    h->is_upgrade = h->minor == 1 && f.has_upgrade && h->upgrade.len != 0;
    return is_response ? accepted : check_host(&f);
}

struct abx__http_why abx__http_decode_head(struct abx_http_parser *p)
{
    struct abx_str all = abx_buf_str(&p->line);
    size_t first = (size_t)abx_str_chr(all, '\n') + 1;
    struct abx_str line = abx_str_sub(all, 0, first - 2);
    struct abx_http_head *h = &p->head;
    struct abx__http_why why =
        p->is_response ? parse_status_line(line, h) : parse_request_line(line, h);
    if (why.text)
        return why;
    why = abx__http_fields(abx_str_sub(all, first, all.len - first - 2), &p->fields);
    if (why.text)
        return why;
    h->headers = (struct abx_http_header *)(void *)p->fields.ptr;
    h->header_count = p->fields.len / sizeof(*h->headers);
    return read_facts(h, p->is_response);
}

struct abx_str abx_http_header(const struct abx_http_head *h, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < h->header_count; i++)
        if (h->headers[i].name.len == len && abx_str_is_nocase(h->headers[i].name, name))
            return h->headers[i].value;
    return (struct abx_str){0};
}

size_t abx_http_header_count(const struct abx_http_head *h, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < h->header_count; i++)
        count += abx_str_is_nocase(h->headers[i].name, name);
    return count;
}

static bool list_has(struct abx_str list, const char *token)
{
    struct abx_str item;
    while (abx_str_split(&list, ',', &item))
        if (abx_str_is_nocase(abx_str_trim(item), token))
            return true;
    return false;
}

bool abx_http_has_token(const struct abx_http_head *h, const char *name, const char *token)
{
    for (size_t i = 0; i < h->header_count; i++)
        if (abx_str_is_nocase(h->headers[i].name, name) && list_has(h->headers[i].value, token))
            return true;
    return false;
}

bool abx_http_trailer_allowed(struct abx_str name)
{
    static const char *const starts[] = {"Content-", "E2b-",   "X-Sandbox-",     "X-Forwarded-",
                                         "If-",      "Proxy-", "Access-Control-"};
    static const char *const names[] = {"Transfer-Encoding",
                                        "Host",
                                        "Trailer",
                                        "Connection",
                                        "Keep-Alive",
                                        "TE",
                                        "Upgrade",
                                        "Expect",
                                        "Max-Forwards",
                                        "Cache-Control",
                                        "Pragma",
                                        "Range",
                                        "Authorization",
                                        "WWW-Authenticate",
                                        "Cookie",
                                        "Set-Cookie",
                                        "X-Access-Token",
                                        "X-API-Key",
                                        "Age",
                                        "Date",
                                        "Expires",
                                        "Location",
                                        "Retry-After",
                                        "Vary",
                                        "Warning",
                                        "Forwarded",
                                        "Via"};
    for (size_t i = 0; i < ABX_COUNTOF(names); i++)
        if (abx_str_is_nocase(name, names[i]))
            return false;
    for (size_t i = 0; i < ABX_COUNTOF(starts); i++)
        if (abx_str_is_nocase(abx_str_sub(name, 0, strlen(starts[i])), starts[i]))
            return false;
    return true;
}
