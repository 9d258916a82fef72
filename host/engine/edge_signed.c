/* host/engine/edge_signed.c: signed file URLs without a sandbox's name (security S61, envd.md 3.5).
 *
 * Loop thread. Everything that can be wrong without a secret is refused before a hash is made; all
 * sandboxes with a token are compared; failures are limited for each address. */
#include "host/engine/edge_priv.h"

#include "lib/base/log.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "lib/contract/contract.h"
#include "lib/wire/url.h"

#include <netinet/in.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/socket.h>

#include "lib/base/banned.h"

enum { FAILURES_PER_S = 20, SIGNATURE_LEN = 46 };

struct claim {
    struct abx_str path, operation, username, expiration, signature;
};

void abx__sign(const struct abx_str fields[4], struct abx_str expiration, char out[64])
{
    crypto_hash_sha256_state st;
    unsigned char hash[crypto_hash_sha256_BYTES];
    ABX_AUTO_BUF b = {.max = 63};
    crypto_hash_sha256_init(&st);
    for (size_t i = 0; i < 4; i++) {
        if (i != 0)
            crypto_hash_sha256_update(&st, (const unsigned char *)":", 1);
        crypto_hash_sha256_update(&st, (const unsigned char *)fields[i].ptr, fields[i].len);
    }
    if (expiration.ptr != NULL) {
        crypto_hash_sha256_update(&st, (const unsigned char *)":", 1);
        crypto_hash_sha256_update(&st, (const unsigned char *)expiration.ptr, expiration.len);
    }
    crypto_hash_sha256_final(&st, hash);
    abx_buf_put_c(&b, "v1_");
    abx_base64_encode(hash, sizeof(hash), false, &b);
    snprintf(out, 64, "%.*s", ABX_STR_FMT(abx_buf_str(&b)));
}

static bool is_signature(struct abx_str s)
{
    if (s.len != SIGNATURE_LEN || !abx_str_starts(s, "v1_"))
        return false;
    for (size_t i = 3; i < s.len; i++) {
        char c = s.ptr[i];
        bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '+' || c == '/';
        if (!ok)
            return false;
    }
    return true;
}

static bool is_username(struct abx_str s)
{
    if (s.len > 32)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool ok =
            (c >= 'a' && c <= 'z') || c == '_' || (i > 0 && ((c >= '0' && c <= '9') || c == '-'));
        if (!ok)
            return false;
    }
    return true;
}

/* What is wrong with the claim whatever the secret, or NULL. */
static const char *precheck(const struct claim *k)
{
    uint64_t until = 0;
    if (!is_signature(k->signature) || !is_username(k->username))
        return "invalid signature";
    if (k->expiration.ptr == NULL)
        return NULL;
    if (abx_parse_u64(k->expiration, &until) < 0)
        return "invalid signature";
    if (until < (uint64_t)(abx_time_wall_ms() / 1000))
        return "signature is already expired";
    return NULL;
}

static struct abx__sandbox *find(struct abx__engine *e, const struct claim *k)
{
    size_t it = 0, matches = 0;
    struct abx__sandbox *found = NULL;
    struct abx_str id;
    void *value;
    while (abx_map_next(&e->sandboxes, &it, &id, &value)) {
        struct abx__sandbox *sb = value;
        char want[64];
        if (sb->state != ABX__RUNNING || sb->token[0] == '\0')
            continue;
        struct abx_str fields[4] = {k->path, k->operation, k->username, abx_str(sb->token)};
        abx__sign(fields, k->expiration, want);
        if (sodium_memcmp(want, k->signature.ptr, SIGNATURE_LEN) != 0)
            continue;
        matches++;
        found = sb;
    }
    if (matches > 1)
        abx_log(ABX_LOG_ERROR, "signature fits %zu sandboxes", matches);
    return matches == 1 ? found : NULL;
}

static void peer_address(const struct abx_http_req *req, unsigned char out[16])
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } a = {0};
    socklen_t len = sizeof(a);
    memset(out, 0, 16);
    if (getpeername(abx_http_peer_fd(req), &a.any, &len) < 0)
        return;
    if (a.any.sa_family == AF_INET6)
        memcpy(out, &a.v6.sin6_addr, 16);
    else if (a.any.sa_family == AF_INET)
        memcpy(out, &a.v4.sin_addr, 4);
}

/* The peer's row, its window begun anew when the last is over. */
static struct abx__rate *rate_of(struct abx__engine *e, const struct abx_http_req *req)
{
    struct abx__rate *r = &e->bad_signatures[0];
    unsigned char address[16];
    int64_t now = abx_time_mono_ms();
    peer_address(req, address);
    for (size_t i = 0; i < ABX__RATES; i++) {
        struct abx__rate *other = &e->bad_signatures[i];
        bool is_same = memcmp(other->address, address, sizeof(address)) == 0;
        if (is_same || other->window_ms < r->window_ms)
            r = other;
        if (is_same)
            break;
    }
    if (memcmp(r->address, address, sizeof(address)) != 0 || now - r->window_ms >= 1000)
        *r = (struct abx__rate){.window_ms = now};
    memcpy(r->address, address, sizeof(address));
    return r;
}

static void answer_limited(struct abx_http_req *req)
{
    struct abx_http_extra extra[] = {{"Retry-After", ABX_STR("1")},
                                     {"Content-Type", ABX_STR("application/json; charset=utf-8")},
                                     {0}};
    abx_http_answer(req, 429, extra,
                    ABX_STR("{\"code\":429,\"message\":\"Rate limit exceeded\"}\n"));
}

/* 0 or -1: the query is malformed. An absent parameter is the empty string. */
static int read_claim(struct abx_http_req *req, struct claim *k)
{
    const struct {
        const char *name;
        struct abx_str *value;
    } rows[] = {
        {"path", &k->path}, {"username", &k->username}, {"signature_expiration", &k->expiration}};
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        int r = abx_url_query_get(req->query, rows[i].name, req->arena, rows[i].value);
        if (r < 0)
            return -1;
        if (r == 0)
            *rows[i].value = (struct abx_str){0};
    }
    return 0;
}

void abx__edge_signed(struct abx__engine *e, struct abx_http_req *req, struct abx_str signature)
{
    struct claim k = {.signature = signature, .operation = ABX_STR("read")};
    if (abx_str_is(req->head->method, "POST"))
        k.operation = ABX_STR("write");
    struct abx__rate *rate = rate_of(e, req);
    if (rate->used >= FAILURES_PER_S) { /* before any hash is made */
        answer_limited(req);
        return;
    }
    const char *why = read_claim(req, &k) < 0 ? "invalid signature" : precheck(&k);
    struct abx__sandbox *sb = why == NULL ? find(e, &k) : NULL;
    if (sb == NULL) {
        rate->used++;
        abx__edge_envd_error(req, 401, why == NULL ? "invalid signature" : why);
        return;
    }
    struct abx__target t = {.id = abx_str(sb->id), .port = ABX_PORT_ENVD};
    abx__edge_forward(e, req, &t);
}
