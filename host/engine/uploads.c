/* host/engine/uploads.c: archives for COPY, by hash (control-plane 8, S62: the link is the right).
 *
 * Loop thread. A file is whole before it has its name; the same hash may be sent again. */
#include "host/engine/uploads_priv.h"

#include "host/engine/page_priv.h"
#include "host/engine/sink_priv.h"
#include "lib/base/log.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "lib/wire/url.h"

#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <unistd.h>

#include "lib/base/banned.h"

void abx__link_sign(const struct abx__engine *e, const struct abx__link *l, char out[65])
{
    crypto_auth_hmacsha256_state st;
    unsigned char mac[crypto_auth_hmacsha256_BYTES];
    char text[512];
    int n = snprintf(text, sizeof(text), "PUT\n%.*s\n%.*s\n%" PRId64 "\n%" PRIu64,
                     (int)(l->template_id.len < 128 ? l->template_id.len : 128), l->template_id.ptr,
                     (int)(l->hash.len < 128 ? l->hash.len : 128), l->hash.ptr, l->expires_s,
                     l->max_bytes);
    crypto_auth_hmacsha256_init(&st, e->link_key, sizeof(e->link_key));
    crypto_auth_hmacsha256_update(&st, (const unsigned char *)text, (size_t)n);
    crypto_auth_hmacsha256_final(&st, mac);
    abx_hex_encode(mac, sizeof(mac), out);
}

static bool check_hash(struct abx__call *c)
{
    if (abx__hash_is_valid(c->params[1]))
        return true;
    abx__api_fail(c, 400, "validation error: hash: 64 lower-case hex digits are needed");
    return false;
}

static bool is_present(struct abx__engine *e, struct abx_str hash)
{
    char name[ABX_STORE_HASH_LEN + 16], digest[ABX_STORE_HASH_LEN + 1];
    struct abx_error err = {0};
    snprintf(name, sizeof(name), "upload.%.*s", ABX_STR_FMT(hash));
    return abx_store_upload_use(e->store, hash, digest, &err) == 0 &&
           faccessat(e->files_fd, name, R_OK, AT_EACCESS) == 0;
}

/* The client came by a name of ours: the link is good for the same way. */
static void write_url(struct abx__call *c, const char *template_id, struct abx_buf *b)
{
    struct abx_str host = abx_http_header(c->req->head, "Host");
    char mac[65];
    struct abx__link l = {abx_str(template_id), c->params[1],
                          abx_time_wall_ms() / 1000 + ABX__LINK_S, ABX__UPLOAD_MAX_BYTES};
    abx__link_sign(c->engine, &l, mac);
    if (host.len != 0)
        abx_buf_putf(b, "http://%.*s", ABX_STR_FMT(host));
    else
        abx_buf_put_c(b, c->engine->url);
    abx_buf_putf(b, "/templates/%s/files/%.*s?expires=%" PRId64 "&max=%" PRIu64 "&mac=%s",
                 template_id, ABX_STR_FMT(c->params[1]), l.expires_s, l.max_bytes, mac);
}

void abx__upload_link(struct abx__call *c)
{
    ABX_AUTO_BUF url = {.max = 2048};
    ABX_AUTO_BUF b = {.max = 4096};
    struct abx_json_writer w;
    struct abx__ref ref;
    struct abx_store_template t;
    if (!check_hash(c) || !abx__named_template(c, &ref, &t))
        return;
    write_url(c, t.id, &url);
    abx_json_writer_init(&w, &b);
    abx_json_begin_object(&w);
    abx_json_kv_bool(&w, "present", is_present(c->engine, c->params[1]));
    abx_json_kv_str(&w, "url", abx_buf_str(&url));
    abx_json_end_object(&w);
    abx__api_answer_buf(c, 201, &b, NULL);
}

/* PUT. */

static bool read_link(struct abx__call *c, struct abx__link *l, struct abx_str *ret_mac)
{
    struct abx_str expires, max;
    struct abx_str q = c->req->query;
    struct abx_arena *a = c->req->arena;
    l->template_id = c->params[0];
    l->hash = c->params[1];
    return abx_url_query_get(q, "expires", a, &expires) > 0 &&
           abx_url_query_get(q, "max", a, &max) > 0 &&
           abx_url_query_get(q, "mac", a, ret_mac) > 0 &&
           abx_parse_i64(expires, &l->expires_s) == 0 && abx_parse_u64(max, &l->max_bytes) == 0;
}

static bool authorise(struct abx__call *c, struct abx__link *l)
{
    struct abx_str mac;
    char want[65];
    if (!read_link(c, l, &mac)) {
        abx__api_fail(c, 401, "PUT needs the link that GET of the same path gives");
        return false;
    }
    abx__link_sign(c->engine, l, want);
    if (!abx__secret_eq(mac, abx_str(want))) {
        abx__api_fail(c, 403, "the link is not one of this engine: ask for a new one");
        return false;
    }
    if (abx_time_wall_ms() / 1000 > l->expires_s) {
        abx__api_fail(c, 403, "the link has expired: ask for a new one");
        return false;
    }
    return true;
}

/* Keeps the sum below its bound; @keep is the one that has just come. */
static void evict(struct abx__engine *e, struct abx_str keep)
{
    for (;;) {
        char hash[ABX_STORE_HASH_LEN + 1], name[ABX_STORE_HASH_LEN + 16];
        struct abx_error err = {0};
        int64_t total = 0;
        if (abx_store_upload_oldest(e->store, &total, hash, &err) < 0 ||
            total <= ABX__UPLOADS_MAX_BYTES || abx_str_is(keep, hash))
            return;
        snprintf(name, sizeof(name), "upload.%s", hash);
        unlinkat(e->files_fd, name, 0);
        if (abx_store_upload_forget(e->store, abx_str(hash), &err) < 0)
            return;
    }
}

static void on_received(struct abx__sink *s, const struct abx_error *err)
{
    struct abx__call *c = s->call;
    struct abx_error failure = {0};
    char name[ABX_STORE_HASH_LEN + 16];
    if (err != NULL) {
        abx__api_fail(c, err->code == ABX_OUT_OF_RANGE ? 413 : 507, "%s", err->msg);
        return;
    }
    snprintf(name, sizeof(name), "upload.%.*s", ABX_STR_FMT(c->params[1]));
    if (renameat(c->engine->files_fd, s->name, c->engine->files_fd, name) < 0) {
        abx_err_sys(&failure, -errno, "keep the upload");
        abx__api_fail_err(c, &failure);
        return;
    }
    if (abx_store_upload_put(c->engine->store, c->params[1], (int64_t)s->bytes, s->digest,
                             &failure) < 0) {
        abx__api_fail_err(c, &failure);
        return;
    }
    evict(c->engine, c->params[1]);
    abx__api_answer(c, 200, ABX_STR("{}"));
}

void abx__upload_put(struct abx__call *c)
{
    struct abx__link l = {0};
    if (check_hash(c) && authorise(c, &l))
        abx__sink_start(c, l.max_bytes, on_received);
}
