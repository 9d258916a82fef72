/* guest/envd/signature_fuzz.c: a signed URL passes if and only if its signature is the one made
 * here of the same fields, and not after its time. Input: FLAGS PATH NUL USER NUL SIGNATURE NUL
 * EXPIRATION. */
#include "guest/envd/envd_priv.h"

#include "lib/base/assert.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"

#include <sodium.h>

#include "lib/base/banned.h"

enum { INPUT_MAX = 8192, IS_RIGHT = 1, HAS_EXPIRATION = 2, IS_WRITE = 4, IS_BENT = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void make(const struct abx__signed *q, const char *token, struct abx_buf *out)
{
    ABX_AUTO_BUF text;
    unsigned char hash[crypto_hash_sha256_BYTES];
    abx_buf_init(&text, INPUT_MAX * 2);
    abx_buf_putf(&text, "%.*s:%s:%.*s:%s", ABX_STR_FMT(q->path), q->operation,
                 ABX_STR_FMT(q->username), token);
    if (q->expiration.ptr)
        abx_buf_putf(&text, ":%.*s", ABX_STR_FMT(q->expiration));
    crypto_hash_sha256(hash, (const unsigned char *)text.ptr, text.len);
    abx_buf_put_c(out, "v1_");
    abx_base64_encode(hash, sizeof(hash), false, out);
}

static bool is_over(struct abx_str expiration)
{
    int64_t until;
    return expiration.ptr &&
           (abx_parse_i64(expiration, &until) < 0 || until < abx_time_wall_ns() / 1000000000);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char token[] = "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0";
    struct abx_http_head head = {.method = ABX_STR("GET")};
    struct abx__envd e = {.state.token = abx_str(token)};
    struct abx_http_req req = {.head = &head, .path = ABX_STR("/files"), .user = &e};
    ABX_AUTO_BUF right;
    abx_buf_init(&right, 128);
    if (size < 2 || size > INPUT_MAX)
        return 0;
    unsigned flags = data[0];
    struct abx_str rest = {(const char *)data + 1, size - 1};
    struct abx__signed q = {.operation = flags & IS_WRITE ? "write" : "read"};
    abx_str_split(&rest, '\0', &q.path);
    abx_str_split(&rest, '\0', &q.username);
    abx_str_split(&rest, '\0', &q.signature);
    if (flags & HAS_EXPIRATION)
        q.expiration = rest.ptr ? rest : ABX_STR("");
    make(&q, token, &right);
    if (flags & IS_RIGHT)
        q.signature = abx_buf_str(&right);
    if (flags & IS_BENT) /* any one character of what is there */
        right.ptr[flags % right.len] ^= 1;
    bool is_same =
        q.signature.ptr && !(flags & IS_BENT) && abx_str_eq(q.signature, abx_buf_str(&right));
    bool passes = abx__files_refusal(&e, &req, &q) == NULL;
    if (flags & IS_BENT && flags & IS_RIGHT)
        ABX_ASSERT(!passes);
    else if (!(flags & IS_BENT))
        ABX_ASSERT(passes == (is_same && !is_over(q.expiration)));
    return 0;
}
