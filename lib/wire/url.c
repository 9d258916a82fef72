/* lib/wire/url.c: request targets, queries, percent-encoding, hosts. Pure. RFC 3986, security S43.
 */
#include "lib/wire/url.h"

#include "lib/base/assert.h"
#include "lib/base/parse.h"

#include <arpa/inet.h>

#include "lib/base/banned.h"

enum { HOST_MAX = 255 };

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_unreserved(char c)
{
    return is_alnum(c) || c == '-' || c == '.' || c == '_' || c == '~';
}

/* Length of the part of @s before the first byte of @stops. */
static size_t span_until(struct abx_str s, const char *stops)
{
    size_t n = 0;
    while (n < s.len && (s.ptr[n] == '\0' || strchr(stops, s.ptr[n]) == NULL))
        n++;
    return n;
}

static int parse_address(struct abx_str host, int family)
{
    char text[INET6_ADDRSTRLEN + 1];
    unsigned char address[sizeof(struct in6_addr)];
    if (abx_str_to_c(host, text, sizeof(text)) < 0)
        return -1;
    return inet_pton(family, text, address) == 1 ? 0 : -1;
}

static struct abx_str without_brackets(struct abx_str host)
{
    bool has = host.len >= 2 && host.ptr[0] == '[' && host.ptr[host.len - 1] == ']';
    return has ? abx_str_sub(host, 1, host.len - 2) : host;
}

bool abx_url_is_ip_literal(struct abx_str host)
{
    return parse_address(host, AF_INET) == 0 ||
           parse_address(without_brackets(host), AF_INET6) == 0;
}

static bool is_host_name(struct abx_str host)
{
    if (host.len == 0 || host.len > HOST_MAX)
        return false;
    for (size_t i = 0; i < host.len; i++)
        if (!is_unreserved(host.ptr[i]))
            return false;
    return true;
}

static int parse_port(struct abx_str text, uint16_t *ret)
{
    uint32_t port;
    if (text.len > 5 || abx_parse_u32(text, &port) < 0 || port == 0 || port > UINT16_MAX)
        return -1;
    *ret = (uint16_t)port;
    return 0;
}

int abx_url_split_host(struct abx_str text, struct abx_str *ret_host, uint16_t *ret_port)
{
    bool is_bracketed = text.len != 0 && text.ptr[0] == '[';
    size_t len = is_bracketed ? span_until(text, "]") + 1 : span_until(text, ":");
    if (len > text.len) /* no closing bracket */
        return -1;
    struct abx_str host = abx_str_sub(text, 0, len);
    struct abx_str rest = abx_str_sub(text, len, text.len);
    if (is_bracketed) {
        host = without_brackets(host);
        if (parse_address(host, AF_INET6) < 0)
            return -1;
    } else if (!is_host_name(host)) {
        return -1;
    }
    uint16_t port = 0;
    if (rest.len != 0 && (rest.ptr[0] != ':' || parse_port(abx_str_sub(rest, 1, rest.len), &port)))
        return -1;
    *ret_host = host;
    *ret_port = port;
    return 0;
}

/* Splits off "scheme://"; @rest is what follows. */
static int split_scheme(struct abx_str text, struct abx_str *ret_scheme, struct abx_str *ret_rest)
{
    ptrdiff_t at = abx_str_find(text, ABX_STR("://"));
    if (at <= 0)
        return -1;
    struct abx_str scheme = abx_str_sub(text, 0, (size_t)at);
    for (size_t i = 0; i < scheme.len; i++)
        if (!is_alnum(scheme.ptr[i]) && (i == 0 || strchr("+-.", scheme.ptr[i]) == NULL))
            return -1;
    *ret_scheme = scheme;
    *ret_rest = abx_str_sub(text, (size_t)at + 3, text.len);
    return 0;
}

static bool is_visible(struct abx_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if ((unsigned char)s.ptr[i] <= ' ' || (unsigned char)s.ptr[i] >= 0x7f)
            return false;
    return true;
}

static void split_path(struct abx_str s, struct abx_str *ret_path, struct abx_str *ret_query)
{
    size_t path_len = span_until(s, "?");
    *ret_path = path_len ? abx_str_sub(s, 0, path_len) : ABX_STR("/");
    *ret_query = abx_str_sub(s, path_len + 1, s.len);
}

int abx_url_parse(struct abx_str text, struct abx_url *ret, struct abx_error *err)
{
    struct abx_url url = {0};
    struct abx_str rest;
    if (!is_visible(text))
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "URL: blank, control or non-ASCII byte");
    if (split_scheme(text, &url.scheme, &rest) < 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "URL: does not begin with http:// or alike");
    rest = abx_str_sub(rest, 0, span_until(rest, "#"));
    size_t authority_len = span_until(rest, "/?");
    struct abx_str authority = abx_str_sub(rest, 0, authority_len);
    if (abx_url_split_host(authority, &url.host, &url.port) < 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "URL: malformed host or port \"%.*s\"",
                           authority.len < 100 ? (int)authority.len : 100, authority.ptr);
    split_path(abx_str_sub(rest, authority_len, rest.len), &url.path, &url.query);
    *ret = url;
    return 0;
}

int abx_url_split_target(struct abx_str target, struct abx_str *ret_path, struct abx_str *ret_query)
{
    struct abx_str scheme, rest = target;
    if (target.len == 0)
        return -1;
    if (abx_str_is(target, "*")) {
        *ret_path = target;
        *ret_query = (struct abx_str){0};
        return 0;
    }
    if (target.ptr[0] != '/') {
        if (split_scheme(target, &scheme, &rest) < 0)
            return -1;
        size_t authority_len = span_until(rest, "/?");
        if (authority_len == 0)
            return -1;
        rest = abx_str_sub(rest, authority_len, rest.len);
    }
    split_path(rest, ret_path, ret_query);
    return 0;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int abx_url_decode(struct abx_str s, bool plus_is_space, struct abx_arena *a, struct abx_str *ret)
{
    if (s.len == SIZE_MAX)
        return -1;
    char *out = abx_arena_alloc(a, s.len + 1);
    size_t n = 0;
    if (out == NULL)
        return -1;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (c == '%') {
            int high = i + 2 < s.len ? hex_value(s.ptr[i + 1]) : -1;
            int low = i + 2 < s.len ? hex_value(s.ptr[i + 2]) : -1;
            if (high < 0 || low < 0)
                return -1;
            c = (char)(high << 4 | low);
            i += 2;
        } else if (c == '+' && plus_is_space) {
            c = ' ';
        }
        if (c == '\0')
            return -1;
        out[n++] = c;
    }
    *ret = abx_str_n(out, n);
    return 0;
}

void abx_url_encode(struct abx_buf *b, struct abx_str s, const char *keep)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (is_unreserved(c) || (c != '\0' && keep != NULL && strchr(keep, c) != NULL)) {
            abx_buf_put_byte(b, c);
            continue;
        }
        unsigned char u = (unsigned char)c;
        const char escape[3] = {'%', digits[u >> 4], digits[u & 15]};
        abx_buf_put(b, escape, sizeof(escape));
    }
}

int abx_url_query_next(struct abx_str *rest, struct abx_arena *a, struct abx_str *ret_name,
                       struct abx_str *ret_value)
{
    struct abx_str pair = {0};
    while (pair.len == 0)
        if (!abx_str_split(rest, '&', &pair))
            return 0;
    size_t name_len = span_until(pair, "=");
    struct abx_str name, value;
    if (abx_url_decode(abx_str_sub(pair, 0, name_len), true, a, &name) < 0 ||
        abx_url_decode(abx_str_sub(pair, name_len + 1, pair.len), true, a, &value) < 0)
        return -1;
    *ret_name = name;
    *ret_value = value;
    return 1;
}

int abx_url_query_get(struct abx_str query, const char *name, struct abx_arena *a,
                      struct abx_str *ret)
{
    struct abx_str key, value;
    int found;
    while ((found = abx_url_query_next(&query, a, &key, &value)) > 0) {
        if (!abx_str_is(key, name))
            continue;
        *ret = value;
        return 1;
    }
    return found;
}

int abx_url_normal_path(struct abx_str path, struct abx_arena *a, struct abx_str *ret)
{
    struct abx_str rest, segment;
    if (abx_url_decode(path, false, a, &rest) < 0)
        return -1;
    char *out = abx_arena_alloc(a, rest.len + 2);
    size_t n = 0;
    if (out == NULL)
        return -1;
    while (abx_str_split(&rest, '/', &segment)) {
        segment = abx_str_sub(segment, 0, span_until(segment, ";"));
        if (segment.len == 0 || abx_str_is(segment, "."))
            continue;
        if (abx_str_is(segment, "..")) {
            while (n > 0 && out[--n] != '/')
                ;
            continue;
        }
        out[n++] = '/';
        memcpy(out + n, segment.ptr, segment.len);
        n += segment.len;
    }
    if (n == 0)
        out[n++] = '/';
    *ret = abx_str_n(out, n);
    return 0;
}
