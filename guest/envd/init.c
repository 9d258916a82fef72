/* guest/envd/init.c: POST /init (envd.md 2.2): under the engine from its channel only (security
 * S41). One that is refused changes neither the state nor the system. The clock is never set: in a
 * sandbox of ours it is the host's, and a daemon on somebody's machine must not move that one. */
#include "guest/envd/envd_priv.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/time.h"

#include <errno.h>
#include <sodium.h>

#include "lib/base/banned.h"

struct init_call {
    struct abx_buf body;
};

static void answer(struct abx_http_req *req, int status, const char *text)
{
    struct abx__headers h;
    abx__headers_begin(&h, req);
    abx__headers_add(&h, "Cache-Control", ABX_STR("no-store"));
    abx__headers_add(&h, ABX_HEADER_ENVD_VERSION, ABX_STR(ABX_ENVD_VERSION));
    if (text[0])
        abx__headers_add(&h, "Content-Type", ABX_STR("text/plain; charset=utf-8"));
    abx_http_answer(req, status, h.rows, abx_str(text));
}

/* Hands the state to init, which keeps it for the next envd. */
static int report(const struct abx__envd *e, const struct abx__state *s, struct abx_error *err)
{
    if (e->o.init_fd < 0)
        return 0;
    ABX_AUTO_FD fd = abx__state_seal(s, err);
    if (fd < 0)
        return -1;
    unsigned char message[crypto_hash_sha256_BYTES] = {0};
    size_t len = 1;
    if (s->token.ptr) {
        crypto_hash_sha256(message, (const unsigned char *)s->token.ptr, s->token.len);
        len = sizeof(message);
    }
    ssize_t n = abx_fd_send(e->o.init_fd, message, len, &fd, 1);
    if (n < 0)
        return abx_err_sys(err, (int)n, "init does not take the provisioning");
    if (e->o.init_kept && !e->o.init_kept(e->o.init_arg, s->token.ptr ? message : NULL))
        return abx_err_set(err, ABX_UNAVAILABLE, "init did not keep the provisioning");
    return 0;
}

static struct abx_str body_token(struct abx_str body, struct abx_arena *a)
{
    struct {
        struct abx_str token;
    } only = {0};
    static const struct abx_json_field fields[] = {{"accessToken", ABX_JSON_STR, 0}, {0}};
    if (abx_json_decode_text(body, true, fields, &only, a, NULL) < 0)
        return ABX_STR("");
    return only.token;
}

/* What an /init wants of the system around the daemon. */
struct asks {
    struct abx_str ca_bundle, hyperloop_ip, timestamp;
    struct abx_json_array volumes;
};
struct volume {
    struct abx_str nfs_target, path;
};
static const struct abx_json_field volume_fields[] = {
    {"nfs_target", ABX_JSON_STR, offsetof(struct volume, nfs_target)},
    {"path", ABX_JSON_STR, offsetof(struct volume, path)},
    {0}};
static const struct abx_json_field asks_fields[] = {
    {"caBundle", ABX_JSON_STR, offsetof(struct asks, ca_bundle)},
    {"hyperloopIP", ABX_JSON_STR, offsetof(struct asks, hyperloop_ip)},
    {"timestamp", ABX_JSON_STR, offsetof(struct asks, timestamp)},
    {"volumeMounts", ABX_JSON_ARRAY, offsetof(struct asks, volumes), 0, volume_fields,
     sizeof(struct volume)},
    {0}};

/* Everything that can be refused, before anything is done. */
static int read_asks(struct abx_str body, struct abx_arena *a, struct asks *ret,
                     struct abx_error *err)
{
    union abx_address address;
    if (abx_json_decode_text(body, true, asks_fields, ret, a, err) < 0)
        return -1;
    if (ret->volumes.count)
        return abx_err_set(err, ABX_UNIMPLEMENTED,
                           "volumeMounts: this envd mounts no NFS volumes; leave the field out");
    if (ret->ca_bundle.len && abx__trust_check(ret->ca_bundle, err) < 0)
        return -1;
    return ret->hyperloop_ip.len ? abx__hosts_check(ret->hyperloop_ip, &address, err) : 0;
}

/* Says where E2B's daemon would have set the clock: behind by more than 50 ms, ahead by 5 s. */
static void compare_clock(struct abx_str timestamp)
{
    int64_t at;
    if (timestamp.len == 0 || abx_time_parse(timestamp, &at) < 0)
        return;
    int64_t behind_ms = (at - abx_time_wall_ns()) / 1000000;
    if (behind_ms > 50 || behind_ms < -5000)
        abx_log(ABX_LOG_WARN, "clock differs from that of /init, not set behind_ms=%lld",
                (long long)behind_ms);
}

static int do_asks(const struct abx__envd *e, const struct asks *asks, struct abx_error *err)
{
    const char *root = abx__users_root(e);
    if ((asks->ca_bundle.len && abx__trust_install(root, asks->ca_bundle, err) < 0) ||
        (asks->hyperloop_ip.len && abx__hosts_set(root, asks->hyperloop_ip, err) < 0)) {
        err->code = ABX_UNAVAILABLE; /* whatever the system said: the body was right */
        return -1;
    }
    compare_clock(asks->timestamp);
    return 0;
}

/* A client's error is told to the client, ours is logged too. */
static void refuse(struct abx_http_req *req, const struct abx_error *err)
{
    int status = err->code == ABX_INVALID_ARGUMENT ? 400 : 503;
    if (err->code == ABX_UNIMPLEMENTED)
        status = 501;
    if (status != 400)
        abx_log(ABX_LOG_ERROR, "provisioning failed error=\"%s\"", err->msg);
    answer(req, status, err->msg);
}

/* The state is kept last: it stands for what has been done. Takes it. */
static void provision(struct abx_http_req *req, struct abx_str body, struct abx__state *next)
{
    struct abx__envd *e = abx__envd_of(req);
    struct abx_error err = {0};
    struct asks asks = {0};
    if (read_asks(body, req->arena, &asks, &err) < 0 || do_asks(e, &asks, &err) < 0 ||
        report(e, next, &err) < 0) {
        abx__state_done(next);
        refuse(req, &err);
        return;
    }
    abx__envd_take_state(e, next);
    answer(req, 204, "");
}

static void apply(struct abx_http_req *req, struct abx_str body)
{
    struct abx__envd *e = abx__envd_of(req);
    struct abx_error err = {0};
    struct abx__state next;
    bool stale = false;
    if (abx__state_next(&e->state, body, &next, &stale, &err) < 0) {
        refuse(req, &err);
        return;
    }
    const char *refusal = abx__state_refusal(&e->state, body_token(body, req->arena),
                                             abx_http_header(req->head, ABX_HEADER_ACCESS_TOKEN));
    if (!refusal && !stale) {
        provision(req, body, &next);
        return;
    }
    if (!stale)
        abx__state_done(&next);
    answer(req, refusal ? 401 : 204, refusal ? refusal : "");
}

static void on_body(struct abx_http_req *req, const char *data, size_t len)
{
    struct init_call *c = req->data;
    abx_buf_put(&c->body, data, len);
}

static void on_body_end(struct abx_http_req *req)
{
    struct init_call *c = req->data;
    if (abx_buf_failed(&c->body))
        answer(req, 400, "the body is too large");
    else
        apply(req, abx_buf_str(&c->body));
}

static void on_close(struct abx_http_req *req, bool aborted)
{
    (void)aborted;
    struct init_call *c = req->data;
    abx_buf_done(&c->body);
}

/* A daemon that no engine locked has no other way to be provisioned: by TCP too, it judges by the
 * token of the call (abx__state_refusal()). The loopback guard was asked before. */
static bool is_served_here(const struct abx_http_req *req)
{
    /* the exact target: what was spelled otherwise may have passed a check on the way (S43) */
    return abx_str_is(req->head->target, "/init") &&
           (req->listener_tag == ABX_ENVD_ENGINE || !abx__envd_of(req)->o.is_locked);
}

void abx__init_post(struct abx_http_req *req)
{
    struct init_call *c = abx_arena_alloc(req->arena, sizeof(*c));
    if (!is_served_here(req) || c == NULL) {
        abx__answer_error(req, 404, "404 page not found");
        return;
    }
    abx_buf_init(&c->body, ABX__INIT_MAX);
    req->data = c;
    req->on_body = on_body;
    req->on_body_end = on_body_end;
    req->on_close = on_close;
}
