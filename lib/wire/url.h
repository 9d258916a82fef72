/* lib/wire/url.h: request targets, queries, percent-encoding, Host (RFC 3986, 9110 7). Pure. */
#pragma once
#include "lib/base/arena.h"
#include "lib/base/buf.h"
#include "lib/base/err.h"

struct abx_url {
    struct abx_str scheme, host, path, query; /* raw; path is "/" at least */
    uint16_t port;                            /* 0: none given */
};
/** An absolute URL ("http://h:p/x?q"). IPv6 literals lose their brackets. */
int abx_url_parse(struct abx_str text, struct abx_url *ret, struct abx_error *err);
/** Splits a request target (origin-form, or absolute-form whose authority is dropped). */
int abx_url_split_target(struct abx_str target, struct abx_str *ret_path,
                         struct abx_str *ret_query);
/** Decodes %XX once (and '+' when @plus_is_space) into the arena. -1: malformed or NUL. */
int abx_url_decode(struct abx_str s, bool plus_is_space, struct abx_arena *a, struct abx_str *ret);
/** Appends @s with everything but unreserved bytes (and those in @keep) as %XX. */
void abx_url_encode(struct abx_buf *b, struct abx_str s, const char *keep);
/** The decoded value of the first @name in a query string. 1 found, 0 absent, -1 malformed. */
int abx_url_query_get(struct abx_str query, const char *name, struct abx_arena *a,
                      struct abx_str *ret);
/** Walks name=value pairs, decoded. 1 pair, 0 end, -1 malformed. */
int abx_url_query_next(struct abx_str *rest, struct abx_arena *a, struct abx_str *ret_name,
                       struct abx_str *ret_value);
/** The path as a lax router might see it: decoded once, ";params" cut, dot segments removed,
 * slashes collapsed, trailing slash cut. For matching reserved paths only (security S43). -1:
 * malformed. */
int abx_url_normal_path(struct abx_str path, struct abx_arena *a, struct abx_str *ret);
/** Splits "host:port" or "[v6]:port". -1: malformed. */
int abx_url_split_host(struct abx_str text, struct abx_str *ret_host, uint16_t *ret_port);
bool abx_url_is_ip_literal(struct abx_str host);
