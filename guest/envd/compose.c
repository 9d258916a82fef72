/* guest/envd/compose.c: POST /files/compose: several files become one (envd.md 3.6). */
#include "guest/envd/envd_priv.h"

#include "lib/base/assert.h"

#include <errno.h>

#include "lib/base/banned.h"

enum { BODY_MAX = 256 * 1024, SOURCES_MAX = 1024 };

struct body {
    struct abx_json_array sources; /* struct abx_str */
    struct abx_str destination, username;
};

static const struct abx_json_field fields[] = {
    {.name = "source_paths",
     .type = ABX_JSON_ARRAY,
     .offset = offsetof(struct body, sources),
     .item = ABX_JSON_STR},
    {"destination", ABX_JSON_STR, offsetof(struct body, destination)},
    {"username", ABX_JSON_STR, offsetof(struct body, username)},
    {0}};

struct call {
    struct abx_http_req *req;
    struct abx_buf text;
    struct abx_compose *compose;
    const char *destination;
    bool is_answered; /* too large a body: the rest is dropped */
};

static void on_composed(void *arg, const struct abx_error *err)
{
    struct call *c = arg;
    c->compose = NULL;
    if (err) {
        bool is_full = err->sys == ENOSPC || err->sys == EDQUOT;
        int status = err->code == ABX_NOT_FOUND          ? 404
                     : err->code == ABX_INVALID_ARGUMENT ? 400
                     : is_full                           ? 507
                                                         : 500;
        abx__answer_error(c->req, status, "%s", err->msg);
        return;
    }
    ABX_AUTO_BUF body;
    struct abx_json_writer w;
    abx_buf_init(&body, 1 << 16);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "path", c->destination);
    abx_json_kv_str(&w, "name", abx_path_base(abx_str(c->destination)));
    abx_json_kv_c(&w, "type", "file");
    abx_json_end_object(&w);
    abx__answer_json(c->req, 200, abx_buf_str(&body));
}

/* A resolved copy in the request's arena; NULL after the answer. */
static const char *resolve(struct call *c, const struct abx__target *t, struct abx_str raw)
{
    char path[ABX_FILES_PATH];
    struct abx_error err = {0};
    if (abx__target_resolve(c->req, t, raw, path, &err) < 0) {
        abx__answer_error(c->req, 400, "error resolving path: %s", err.msg);
        return NULL;
    }
    const char *copy = abx_arena_c(c->req->arena, abx_str(path));
    if (copy == NULL)
        abx__answer_error(c->req, 500, "out of memory");
    return copy;
}

static void start(struct call *c, const struct abx__target *t, const struct body *b)
{
    struct abx_error err = {0};
    const struct abx_str *raw = b->sources.items;
    const char **sources = abx_arena_array(c->req->arena, b->sources.count, sizeof(*sources));
    if (sources == NULL) {
        abx__answer_error(c->req, 500, "out of memory");
        return;
    }
    for (size_t i = 0; i < b->sources.count; i++)
        if ((sources[i] = resolve(c, t, raw[i])) == NULL)
            return;
    c->destination = resolve(c, t, b->destination);
    if (c->destination == NULL)
        return;
    const struct abx_compose_request r = {sources,  b->sources.count, c->destination,
                                          &t->user, on_composed,      c};
    if (abx_compose_start(&abx__envd_of(c->req)->loop, &r, &c->compose, &err) < 0)
        abx__answer_error(c->req, 500, "%s", err.msg);
}

static const char *refusal(const struct body *b)
{
    if (b->sources.count == 0)
        return "source_paths must not be empty";
    if (b->sources.count > SOURCES_MAX)
        return "invalid request body: more than 1024 source_paths";
    return b->destination.len ? NULL : "destination is required";
}

static void on_body_end(struct abx_http_req *req)
{
    struct call *c = req->data;
    const struct abx__envd *e = abx__envd_of(req);
    struct body b = {0};
    struct abx_error err = {0};
    struct abx__target t = {0};
    if (c->is_answered)
        return;
    if (abx_json_decode_text(abx_buf_str(&c->text), false, fields, &b, req->arena, &err) < 0) {
        abx__answer_error(req, 400, "invalid request body: %s", err.msg);
        return;
    }
    const char *why = refusal(&b);
    t.username = b.username.len ? b.username : e->state.default_user;
    if (why == NULL && t.username.len == 0)
        why = "username not provided";
    if (why) {
        abx__answer_error(req, 400, "%s", why);
        return;
    }
    if (abx__target_user(req, &t) < 0)
        return;
    start(c, &t, &b);
    abx_user_done(&t.user);
}

static void on_body(struct abx_http_req *req, const char *data, size_t len)
{
    struct call *c = req->data;
    abx_buf_put(&c->text, data, len);
    if (!abx_buf_failed(&c->text) || c->is_answered)
        return;
    c->is_answered = true;
    abx__answer_error(req, 400, "invalid request body: longer than %d bytes", BODY_MAX);
}

static void on_close(struct abx_http_req *req, bool aborted)
{
    struct call *c = req->data;
    (void)aborted;
    abx_compose_cancel(c->compose);
    abx_buf_done(&c->text);
}

void abx__compose_post(struct abx_http_req *req)
{
    struct call *c = abx_arena_alloc(req->arena, sizeof(*c));
    if (c == NULL) {
        abx__answer_error(req, 500, "out of memory");
        return;
    }
    c->req = req;
    abx_buf_init(&c->text, BODY_MAX);
    req->data = c;
    req->on_body = on_body;
    req->on_body_end = on_body_end;
    req->on_close = on_close;
}
