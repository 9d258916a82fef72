/* guest/interpreter/contexts.c: /contexts: list, create, restart, remove (code-interpreter.md 6).
 */
#include "guest/interpreter/interpreter_priv.h"

#include "lib/base/assert.h"
#include "lib/json/json.h"

#include <stdio.h>

#include "lib/base/banned.h"

enum { LIST_BYTES = 1 << 20 };

static void put_context(struct abx_buf *out, const struct abx_context *c)
{
    abx_buf_putf(out, "{\"id\":\"%s\",\"language\":\"%s\",\"cwd\":", abx_context_id(c),
                 abx_context_language(c));
    abx_kernel_put_ascii(out, abx_str(abx_context_cwd(c)));
    abx_buf_put_byte(out, '}');
}

static void answer(struct abx_http_req *req, const struct abx_buf *body)
{
    if (abx_buf_failed(body))
        abx__interp_answer_text(req, 500, "no memory");
    else
        abx__interp_answer_json(req, 200, abx_buf_str(body));
}

void abx__interp_contexts_list(struct abx_http_req *req, struct abx_str id)
{
    const struct abx_contexts *all = abx__interp_of(req)->contexts;
    ABX_AUTO_BUF body;
    (void)id;
    abx_buf_init(&body, LIST_BYTES);
    abx_buf_put_byte(&body, '[');
    for (const struct abx_context *c = NULL; (c = abx_context_next(all, c)) != NULL;) {
        if (body.len > 1)
            abx_buf_put_byte(&body, ',');
        put_context(&body, c);
    }
    abx_buf_put_byte(&body, ']');
    answer(req, &body);
}

/* ---- create: the answer waits for the kernel */

struct creation {
    struct abx_http_req *req;    /* NULL: the peer is gone */
    struct abx_context *context; /* NULL: told */
};

static void on_made(void *arg, struct abx_context *c, const struct abx_error *err)
{
    struct creation *x = arg;
    ABX_AUTO_BUF body;
    abx_buf_init(&body, LIST_BYTES);
    x->context = NULL;
    if (x->req == NULL)
        return;
    if (err != NULL) {
        abx__interp_answer_text(x->req, 500, err->msg);
        return;
    }
    put_context(&body, c);
    answer(x->req, &body);
}

/* A context that nobody was told of is not left behind. */
static void on_close(struct abx_http_req *req, bool aborted)
{
    struct creation *x = req->data;
    (void)aborted;
    x->req = NULL;
    if (x->context != NULL)
        abx_context_remove(x->context);
}

static void create(struct abx_http_req *req, const struct abx__interp_wanted *wanted)
{
    struct abx__interp *in = abx__interp_of(req);
    struct abx_error err = {0};
    struct abx_context_spec spec = {.cwd = wanted->cwd.len > 0 ? wanted->cwd : abx_str(in->o.cwd)};
    struct creation *x = abx_arena_alloc(req->arena, sizeof(*x));
    if (x == NULL) {
        abx__interp_answer_text(req, 500, "no memory");
        return;
    }
    x->req = req;
    if (abx_language_find(wanted->language, &spec.language, &err) < 0 ||
        abx_context_create(in->contexts, &spec, on_made, x, &x->context, &err) < 0) {
        abx__interp_answer_error(req, &err);
        return;
    }
    req->data = x;
    req->on_close = on_close;
}

static void on_body(struct abx_http_req *req, struct abx_str body)
{
    struct abx__interp_wanted wanted;
    ABX_AUTO_BUF detail;
    abx_buf_init(&detail, 64 << 10);
    if (abx__interp_read_wanted(body, req->arena, &wanted, &detail) < 0)
        abx__interp_answer_json(req, 422, abx_buf_str(&detail));
    else
        create(req, &wanted);
}

void abx__interp_contexts_create(struct abx_http_req *req, struct abx_str id)
{
    (void)id;
    abx__interp_collect(req, on_body);
}

/* ---- restart, remove */

static void with_context(struct abx_http_req *req, struct abx_str id,
                         void (*fn)(struct abx_context *c))
{
    struct abx_context *c = abx_context_find(abx__interp_of(req)->contexts, id);
    char text[128];
    if (c == NULL) {
        snprintf(text, sizeof(text), "Context %.*s not found", (int)(id.len < 64 ? id.len : 64),
                 id.ptr);
        abx__interp_answer_text(req, 404, text);
        return;
    }
    fn(c);
    abx__interp_answer_json(req, 200, ABX_STR("null"));
}

void abx__interp_contexts_restart(struct abx_http_req *req, struct abx_str id)
{
    with_context(req, id, abx_context_restart);
}

void abx__interp_contexts_remove(struct abx_http_req *req, struct abx_str id)
{
    with_context(req, id, abx_context_remove);
}
