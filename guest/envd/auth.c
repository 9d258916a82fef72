/* guest/envd/auth.c: who may call (token, signed file URLs) and as whom (Basic), envd.md 1.3, 3.5.
 */
#include "guest/envd/envd_priv.h"

#include "lib/base/parse.h"
#include "lib/base/time.h"

#include <sodium.h>

#include "lib/base/banned.h"

static const struct {
    const char *method, *path;
} exempt[] = {{"GET", "/files"}, {"POST", "/files"}, {"POST", "/init"}};

bool abx__token_ok(const struct abx__envd *e, const struct abx_http_req *req)
{
    if (e->state.token.ptr == NULL)
        return true;
    for (size_t i = 0; i < sizeof(exempt) / sizeof(exempt[0]); i++)
        if (abx_str_is(req->head->method, exempt[i].method) &&
            abx_str_is(req->path, exempt[i].path))
            return true;
    struct abx_str given = abx_http_header(req->head, ABX_HEADER_ACCESS_TOKEN);
    return given.len && abx__secret_eq(given, e->state.token);
}

int abx__basic_user(const struct abx_http_req *req, struct abx_str *ret)
{
    struct abx_str value = abx_http_header(req->head, "Authorization");
    if (value.len < 6 || !abx_str_is_nocase(abx_str_sub(value, 0, 6), "basic "))
        return 0;
    ABX_AUTO_BUF text;
    abx_buf_init(&text, 4096);
    if (abx_base64_decode(abx_str_trim(abx_str_sub(value, 6, value.len)), &text) < 0)
        return 0;
    ptrdiff_t colon = abx_str_chr(abx_buf_str(&text), ':');
    if (colon < 0)
        return 0;
    *ret = abx_arena_str(req->arena, abx_str_sub(abx_buf_str(&text), 0, (size_t)colon));
    return ret->ptr ? 1 : 0;
}

static void sign(const struct abx__envd *e, const struct abx__signed *q, struct abx_buf *out)
{
    ABX_AUTO_BUF text;
    unsigned char hash[crypto_hash_sha256_BYTES];
    abx_buf_init(&text, 1 << 20);
    abx_buf_put_str(&text, q->path);
    abx_buf_putf(&text, ":%s:", q->operation);
    abx_buf_put_str(&text, q->username);
    abx_buf_put_byte(&text, ':');
    abx_buf_put_str(&text, e->state.token);
    if (q->expiration.ptr) {
        abx_buf_put_byte(&text, ':');
        abx_buf_put_str(&text, q->expiration);
    }
    out->failed |= abx_buf_failed(&text);
    crypto_hash_sha256(hash, (const unsigned char *)text.ptr, text.len);
    abx_buf_put_c(out, "v1_");
    abx_base64_encode(hash, sizeof(hash), false, out);
}

const char *abx__files_refusal(const struct abx__envd *e, const struct abx_http_req *req,
                               const struct abx__signed *q)
{
    if (e->state.token.ptr == NULL)
        return NULL;
    struct abx_str given = abx_http_header(req->head, ABX_HEADER_ACCESS_TOKEN);
    if (given.len)
        return abx__secret_eq(given, e->state.token)
                   ? NULL
                   : "access token present in header but does not match";
    if (q->signature.ptr == NULL)
        return "missing signature query parameter";
    ABX_AUTO_BUF right;
    abx_buf_init(&right, 128);
    sign(e, q, &right);
    if (abx_buf_failed(&right) || !abx__secret_eq(q->signature, abx_buf_str(&right)))
        return "invalid signature";
    int64_t until;
    if (q->expiration.ptr &&
        (abx_parse_i64(q->expiration, &until) < 0 || until < abx_time_wall_ns() / 1000000000))
        return "signature is already expired";
    return NULL;
}
