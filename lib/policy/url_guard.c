/* lib/policy/url_guard.c: the URL guard (url_guard.h). */
#include "lib/policy/url_guard.h"

#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "lib/policy/policy_priv.h"

#include "lib/base/banned.h"

enum { HOST_MAX = 255, V4_PARTS = 4, V6_PARTS = 8, HTTP_PORT = 80, HTTPS_PORT = 443 };

/* ---- addresses ---- */

struct range {
    unsigned char address[16];
    unsigned bits;
};
#define V4(a, b, c, d, bits)                                                                       \
    {                                                                                              \
        {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d}, 96 + (bits)                        \
    }

/* Loopback, link-local, unspecified: refused whatever the policy says. */
static const struct range never[] = {
    V4(0, 0, 0, 0, 8), V4(127, 0, 0, 0, 8), V4(169, 254, 0, 0, 16), {{0xfe, 0x80}, 10}, {{0}, 127},
};
/* The rest of what is nobody's public address in IPv4, and in the public part of IPv6. */
static const struct range not_public[] = {
    V4(10, 0, 0, 0, 8),
    V4(100, 64, 0, 0, 10),
    V4(172, 16, 0, 0, 12),
    V4(192, 0, 0, 0, 24),
    V4(192, 0, 2, 0, 24),
    V4(192, 88, 99, 0, 24),
    V4(192, 168, 0, 0, 16),
    V4(198, 18, 0, 0, 15),
    V4(198, 51, 100, 0, 24),
    V4(203, 0, 113, 0, 24),
    V4(224, 0, 0, 0, 3),
    {{0x20, 0x01}, 23},
    {{0x20, 0x01, 0x0d, 0xb8}, 32},
    {{0x3f, 0xff}, 20},
};
/* Where an IPv4 address stands within one of IPv6. */
static const struct {
    struct range range;
    unsigned at;
} embedded[] = {
    {{{0x00, 0x64, 0xff, 0x9b}, 96}, 12}, /* NAT64 */
    {{{0x20, 0x02}, 16}, 2},              /* 6to4 */
    {{{0}, 96}, 12},                      /* "compatible" */
};
static const struct range global_v6 = {{0x20}, 3}, mapped_v4 = V4(0, 0, 0, 0, 0);

static bool is_in(const unsigned char *address, const struct range *r)
{
    for (unsigned bit = 0; bit < r->bits; bit++) {
        unsigned mask = 0x80U >> bit % 8;
        if ((address[bit / 8] & mask) != (r->address[bit / 8] & mask))
            return false;
    }
    return true;
}

static bool is_in_any(const unsigned char *address, const struct range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is_in(address, &ranges[i]))
            return true;
    return false;
}

/* The IPv4 address that is meant, as ::ffff:a.b.c.d; else @address itself. */
static void unwrap(const unsigned char *address, unsigned char out[16])
{
    memcpy(out, address, 16);
    for (size_t i = 0; i < ABX_COUNTOF(embedded); i++)
        if (is_in(address, &embedded[i].range)) {
            memcpy(out, mapped_v4.address, 12);
            memcpy(out + 12, address + embedded[i].at, 4);
            return;
        }
}

static bool is_never(const unsigned char *address)
{
    unsigned char meant[16];
    unwrap(address, meant);
    return is_in_any(address, never, ABX_COUNTOF(never)) ||
           is_in_any(meant, never, ABX_COUNTOF(never));
}

static bool is_public(const unsigned char *address)
{
    unsigned char meant[16];
    unwrap(address, meant);
    return !is_never(address) && (is_in(meant, &mapped_v4) || is_in(meant, &global_v6)) &&
           !is_in_any(meant, not_public, ABX_COUNTOF(not_public));
}

bool abx_policy_address_check(const struct abx_policy_rule *rule, const unsigned char address[16],
                              struct abx_policy_verdict *v)
{
    const struct abx_policy_param *block = &rule->params[ABX_PARAM_BLOCK_PRIVATE_NETWORKS];
    bool is_blocked = block->is_set && block->flag;
    if (is_blocked ? is_public(address) : !is_never(address))
        return true;
    v->endpoint = rule->id;
    return abx_policy_deny(v, ABX_POLICY_URL_NOT_ALLOWED,
                           "the name leads to an address that is not public");
}

/* ---- hosts ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

/* "127", "0x7f", "0177". Up to 2^32 - 1; false: no number. */
static bool read_number(struct abx_str s, uint64_t *ret)
{
    uint64_t value = 0;
    int base = 10;
    if (abx_str_starts(s, "0x")) {
        base = 16;
        s = abx_str_sub(s, 2, s.len);
    } else if (s.len > 1 && s.ptr[0] == '0') {
        base = 8;
        s = abx_str_sub(s, 1, s.len);
    } else if (s.len == 0) {
        return false;
    }
    for (size_t i = 0; i < s.len; i++) {
        int digit = hex_digit(s.ptr[i]);
        if (digit < 0 || digit >= base || value > UINT32_MAX)
            return false;
        value = value * (unsigned)base + (unsigned)digit;
    }
    *ret = value;
    return value <= UINT32_MAX;
}

static bool looks_like_number(struct abx_str host)
{
    struct abx_str last = abx_str_sub(host, (size_t)(abx_str_rchr(host, '.') + 1), host.len);
    uint64_t ignored;
    bool digits = last.len > 0;
    for (size_t i = 0; i < last.len; i++)
        digits = digits && last.ptr[i] >= '0' && last.ptr[i] <= '9';
    return digits || (abx_str_starts(last, "0x") && read_number(last, &ignored));
}

/* 1 to 4 numbers, the last one fills what is left; as browsers do. */
static bool read_v4(struct abx_str host, unsigned char out[16])
{
    uint64_t parts[V4_PARTS];
    size_t count = 0;
    struct abx_str rest = host, part;
    while (abx_str_split(&rest, '.', &part)) {
        if (count == V4_PARTS || !read_number(part, &parts[count]))
            return false;
        count++;
    }
    if (count == 0)
        return false;
    uint64_t value = parts[count - 1];
    if (value >= (uint64_t)1 << 8 * (V4_PARTS + 1 - count))
        return false;
    for (size_t i = 0; i + 1 < count; i++) {
        if (parts[i] > 255)
            return false;
        value |= parts[i] << (24 - 8 * i);
    }
    memcpy(out, mapped_v4.address, 12);
    for (size_t i = 0; i < V4_PARTS; i++)
        out[12 + i] = (unsigned char)(value >> (24 - 8 * i));
    return true;
}

/* One group of IPv6 at *at; false: none. */
static bool read_group(struct abx_str s, size_t *at, unsigned *ret)
{
    size_t begin = *at;
    *ret = 0;
    while (*at < s.len && *at - begin < 4 && hex_digit(s.ptr[*at]) >= 0)
        *ret = *ret << 4 | (unsigned)hex_digit(s.ptr[(*at)++]);
    return *at > begin;
}

/* A dotted address that ends one of IPv6, at *at. */
static bool read_v4_tail(struct abx_str s, size_t at, unsigned *groups)
{
    unsigned char v4[16];
    struct abx_str rest = abx_str_sub(s, at, s.len), part, copy = rest;
    size_t count = 0;
    while (abx_str_split(&copy, '.', &part))
        count += part.len > 0;
    if (count != V4_PARTS || !read_v4(rest, v4))
        return false;
    groups[0] = (unsigned)v4[12] << 8 | v4[13];
    groups[1] = (unsigned)v4[14] << 8 | v4[15];
    return true;
}

struct v6 {
    unsigned groups[V6_PARTS];
    size_t count, gap; /* gap: where "::" stands, or V6_PARTS + 1 */
};

static bool read_v6_groups(struct abx_str s, struct v6 *v)
{
    size_t at = 0;
    v->gap = V6_PARTS + 1;
    if (abx_str_starts(s, "::")) {
        v->gap = 0;
        at = 2;
    }
    while (at < s.len) {
        size_t begin = at;
        if (v->count == V6_PARTS || !read_group(s, &at, &v->groups[v->count]))
            return false;
        if (at < s.len && s.ptr[at] == '.') {
            if (v->count > V6_PARTS - 2 || !read_v4_tail(s, begin, &v->groups[v->count]))
                return false;
            v->count += 2;
            return true;
        }
        v->count++;
        if (at == s.len)
            break;
        if (s.ptr[at++] != ':' || at == s.len)
            return false;
        if (s.ptr[at] != ':')
            continue;
        if (v->gap <= V6_PARTS)
            return false;
        v->gap = v->count;
        at++;
    }
    return true;
}

static bool read_v6(struct abx_str s, unsigned char out[16])
{
    struct v6 v = {.count = 0};
    if (!read_v6_groups(s, &v) || (v.gap > V6_PARTS) != (v.count == V6_PARTS))
        return false;
    memset(out, 0, 16);
    for (size_t i = 0; i < v.count; i++) {
        size_t to = i < v.gap ? i : V6_PARTS - v.count + i;
        out[2 * to] = (unsigned char)(v.groups[i] >> 8);
        out[2 * to + 1] = (unsigned char)v.groups[i];
    }
    return true;
}

bool abx_policy_host_is_local(struct abx_str host)
{
    if (host.len > 0 && host.ptr[host.len - 1] == '.')
        host.len--;
    return abx_str_is_nocase(host, "localhost") ||
           (host.len > 10 &&
            abx_str_is_nocase(abx_str_sub(host, host.len - 10, host.len), ".localhost"));
}

/* ---- the URL ---- */

static bool invalid(const struct abx_policy_rule *rule, struct abx_policy_verdict *v,
                    const char *why)
{
    v->endpoint = rule->id;
    return abx_policy_deny(v, ABX_POLICY_URL_INVALID, "%s", why);
}

static struct abx_str lower(struct abx_str s, struct abx_arena *a)
{
    char *out = abx_arena_c(a, s);
    for (size_t i = 0; out && i < s.len; i++)
        if (out[i] >= 'A' && out[i] <= 'Z')
            out[i] = (char)(out[i] - 'A' + 'a');
    return out ? abx_str_n(out, s.len) : (struct abx_str){0};
}

/* "%2e" in a host is the point itself, to browsers; in place. */
static struct abx_str unescape(struct abx_str s)
{
    char *text = (char *)(uintptr_t)s.ptr;
    size_t out = 0;
    for (size_t i = 0; i < s.len; i++, out++) {
        int high = i + 2 < s.len ? hex_digit(s.ptr[i + 1]) : -1,
            low = i + 2 < s.len ? hex_digit(s.ptr[i + 2]) : -1;
        bool is_escape = s.ptr[i] == '%' && high >= 0 && low >= 0;
        text[out] = is_escape ? (char)(high * 16 + low) : s.ptr[i];
        i += is_escape ? 2 : 0;
    }
    return abx_str_n(text, out);
}

/* The parts as they stand: what was found of them, for lists that come before the checks. */
struct parts {
    struct abx_str scheme, host, port, path; /* ptr NULL: absent */
    bool is_bracketed;
};

static size_t find_any(struct abx_str s, const char *bytes)
{
    size_t i = 0;
    while (i < s.len && (s.ptr[i] == '\0' || strchr(bytes, s.ptr[i]) == NULL))
        i++;
    return i;
}

static void split_authority(struct abx_str authority, struct parts *p)
{
    ptrdiff_t at = abx_str_rchr(authority, '@');
    struct abx_str rest = abx_str_sub(authority, (size_t)(at + 1), authority.len);
    if (rest.len > 0 && rest.ptr[0] == '[') {
        ptrdiff_t end = abx_str_chr(rest, ']');
        if (end < 0)
            return;
        p->is_bracketed = true;
        p->host = abx_str_sub(rest, 1, (size_t)end - 1);
        rest = abx_str_sub(rest, (size_t)end + 1, rest.len);
        if (rest.len > 0 && rest.ptr[0] == ':')
            p->port = abx_str_sub(rest, 1, rest.len);
        else if (rest.len > 0)
            p->host = (struct abx_str){0};
        return;
    }
    ptrdiff_t colon = abx_str_chr(rest, ':');
    p->host = abx_str_sub(rest, 0, colon < 0 ? rest.len : (size_t)colon);
    if (colon >= 0)
        p->port = abx_str_sub(rest, (size_t)colon + 1, rest.len);
}

/* Exactly two slashes stand before a host: browsers take more and fewer, and are not asked. */
static void split(struct abx_str text, struct abx_arena *a, struct parts *p)
{
    ptrdiff_t colon = abx_str_chr(text, ':');
    if (colon <= 0)
        return;
    p->scheme = lower(abx_str_sub(text, 0, (size_t)colon), a);
    struct abx_str rest = abx_str_sub(text, (size_t)colon + 1, text.len);
    if (!abx_str_is(p->scheme, "http") && !abx_str_is(p->scheme, "https"))
        return;
    if (!abx_str_starts(rest, "//"))
        return;
    rest = abx_str_sub(rest, 2, rest.len);
    size_t end = find_any(rest, "/\\?#");
    p->path = abx_str_sub(rest, end, rest.len);
    split_authority(abx_str_sub(rest, 0, end), p);
    p->host = unescape(lower(p->host, a));
}

static bool read_port(struct abx_str text, uint16_t standard, uint16_t *ret)
{
    unsigned value = 0;
    if (text.len == 0) {
        *ret = standard;
        return true;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9' || value > 65535)
            return false;
        value = value * 10 + (unsigned)(text.ptr[i] - '0');
    }
    *ret = (uint16_t)value;
    return value > 0 && value <= 65535;
}

static bool is_host_name(struct abx_str host)
{
    if (host.len == 0 || host.len > HOST_MAX)
        return false;
    for (size_t i = 0; i < host.len; i++) {
        char c = host.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_'))
            return false;
    }
    return true;
}

/* Fills the host; NULL, or what is wrong with it. */
static const char *read_host(const struct parts *p, struct abx_arena *a, struct abx_policy_url *u)
{
    u->host = p->host;
    if (p->is_bracketed) {
        u->is_address = read_v6(p->host, u->address);
        return u->is_address ? NULL : "the URL's address is none";
    }
    if (!is_host_name(p->host))
        return "the URL's host has to be letters, digits, points and hyphens: write other names "
               "as xn--...";
    struct abx_str bare = p->host;
    if (bare.ptr[bare.len - 1] == '.')
        bare.len--;
    if (!looks_like_number(bare))
        return NULL;
    u->is_address = read_v4(bare, u->address);
    if (!u->is_address)
        return "the URL's address is none";
    const unsigned char *b = u->address + 12;
    u->host = abx_str(abx_arena_printf(a, "%u.%u.%u.%u", b[0], b[1], b[2], b[3]));
    return u->host.ptr ? NULL : "out of memory";
}

static bool has_blank(struct abx_str text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.ptr[i] <= ' ' || text.ptr[i] == 0x7f)
            return true;
    return false;
}

static const char *read_parts(const struct parts *p, struct abx_arena *a, struct abx_policy_url *u)
{
    bool is_https = abx_str_is(p->scheme, "https");
    if (!is_https && !abx_str_is(p->scheme, "http"))
        return "only http and https pages can be opened";
    if (p->host.len == 0)
        return "the URL has no host";
    u->scheme = p->scheme;
    u->path = p->path.len > 0 ? p->path : ABX_STR("/");
    if (!read_port(p->port, is_https ? HTTPS_PORT : HTTP_PORT, &u->port))
        return "the URL's port is not 1 to 65535";
    return read_host(p, a, u);
}

/* ---- lists ---- */

/* Whether the path of a pattern takes the URL's. Where only an origin is known, a path in an allow
 * list may still come, one in a deny list counts if it takes all. */
static bool matches_path(struct abx_str path, struct abx_str names, const struct abx_policy_url *u,
                         bool denies)
{
    bool takes_all = path.len == 0 || abx_str_is(path, "/*") || abx_str_is(path, "*");
    if (u->path.len == 0)
        return !denies || takes_all;
    if (path.len > 0)
        return abx_glob_match(path, u->path);
    return u->path.len <= 1 || names.len == 0 || names.ptr[names.len - 1] == '*';
}

/* "scheme://host:port/path": each part of the pattern against its own (P23). Without a port it is
 * the scheme's. A pattern without "://" is held against the whole text; in a deny list (@denies)
 * every pattern is, too, and a port is any. */
static bool matches(struct abx_str pattern, const struct abx_policy_url *u, bool denies,
                    struct abx_arena *a)
{
    ptrdiff_t mark = abx_str_find(pattern, ABX_STR("://"));
    uint16_t standard = abx_str_is(u->scheme, "https") ? HTTPS_PORT : HTTP_PORT;
    const char *open = abx_str_chr(u->host, ':') >= 0 ? "[" : "", *end = *open ? "]" : "";
    struct abx_str host = abx_str(abx_arena_printf(a, "%s%.*s%s", open, ABX_STR_FMT(u->host), end));
    struct abx_str full = abx_str(abx_arena_printf(a, "%.*s:%u", ABX_STR_FMT(host), u->port));
    struct abx_str named = u->port == standard ? host : full;
    struct abx_str folded = lower(pattern, a);
    struct abx_str whole = abx_str(abx_arena_printf(a, "%.*s://%.*s%.*s", ABX_STR_FMT(u->scheme),
                                                    ABX_STR_FMT(named), ABX_STR_FMT(u->path)));
    if (host.ptr == NULL || full.ptr == NULL || folded.ptr == NULL || whole.ptr == NULL)
        return denies; /* without memory a deny holds, an allow does not */
    if ((mark < 0 || denies) && abx_glob_match(pattern, whole))
        return true;
    if (mark < 0) /* a text of any form may take a page of this origin */
        return !denies && u->path.len == 0;
    struct abx_str rest = abx_str_sub(folded, (size_t)mark + 3, folded.len);
    size_t slash = find_any(rest, "/");
    struct abx_str path = abx_str_sub(pattern, (size_t)mark + 3 + slash, pattern.len);
    struct abx_str names = abx_str_sub(rest, 0, slash);
    bool is_host = abx_glob_match(names, named) || abx_glob_match(names, full) ||
                   (denies && abx_glob_match(names, host));
    return abx_glob_match(abx_str_sub(folded, 0, (size_t)mark), u->scheme) && is_host &&
           matches_path(path, names, u, denies);
}

static bool matches_any(struct abx_str_list list, const struct abx_policy_url *u, bool denies,
                        struct abx_arena *a)
{
    for (size_t i = 0; i < list.count; i++)
        if (matches(list.items[i], u, denies, a))
            return true;
    return false;
}

static bool has_lists(const struct abx_policy_rule *r)
{
    return r->params[ABX_PARAM_URL_ALLOW].is_set || r->params[ABX_PARAM_URL_DENY].is_set ||
           r->params[ABX_PARAM_BLOCK_PRIVATE_NETWORKS].is_set;
}

static bool is_listed(const struct abx_policy_rule *r, const struct abx_policy_url *u,
                      struct abx_arena *a)
{
    struct abx_str_list allow = r->params[ABX_PARAM_URL_ALLOW].words;
    return !matches_any(r->params[ABX_PARAM_URL_DENY].words, u, true, a) &&
           (allow.count == 0 || matches_any(allow, u, false, a));
}

static bool not_allowed(const struct abx_policy_rule *rule, struct abx_policy_verdict *v,
                        const char *why)
{
    v->endpoint = rule->id;
    return abx_policy_deny(v, ABX_POLICY_URL_NOT_ALLOWED, "%s", why);
}

static bool check(const struct abx_policy_rule *rule, struct abx_str text, bool is_origin,
                  struct abx_arena *a, struct abx_policy_url *ret, struct abx_policy_verdict *v)
{
    struct parts p = {0};
    struct abx_policy_url u = {0};
    if (text.len > ABX_URL_MAX)
        return invalid(rule, v, "the URL is too long");
    split(text, a, &p);
    const char *wrong = read_parts(&p, a, &u);
    if (is_origin)
        u.path.len = 0;
    if (has_lists(rule) && (u.scheme.ptr == NULL || u.host.len == 0))
        return not_allowed(rule, v, "only http and https pages with a host can be opened");
    if (has_lists(rule) && wrong == NULL && !is_listed(rule, &u, a))
        return not_allowed(rule, v, "the policy does not let this page be opened");
    if (has_blank(text))
        return invalid(rule, v, "the URL holds a blank or a control character");
    if (wrong != NULL)
        return invalid(rule, v, wrong);
    if (abx_policy_host_is_local(u.host) || (u.is_address && !is_public(u.address))) {
        v->endpoint = rule->id;
        return abx_policy_deny(v, ABX_POLICY_URL_DENIED,
                               "the URL names an address that is not "
                               "public");
    }
    *ret = u;
    return true;
}

bool abx_policy_url_check(const struct abx_policy_rule *rule, struct abx_str text,
                          struct abx_arena *a, struct abx_policy_url *ret,
                          struct abx_policy_verdict *v)
{
    return check(rule, text, false, a, ret, v);
}

bool abx_policy_origin_check(const struct abx_policy_rule *rule, struct abx_str text,
                             struct abx_arena *a, struct abx_policy_verdict *v)
{
    struct abx_policy_url u;
    return check(rule, text, true, a, &u, v);
}
