/* guest/interpreter/execute.c: POST /execute: a cell, and the stream of its lines
 * (code-interpreter.md 3, 4, 9). */
#include "guest/interpreter/interpreter_priv.h"

#include "lib/base/assert.h"
#include "lib/contract/contract.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/base/banned.h"

struct execution {
    struct abx_http_req *req; /* NULL: the peer is gone, or all is said */
    struct abx__interp *in;
    struct abx_execution *run; /* NULL: over */
    struct abx__interp_ask *ask;
    struct abx_timer keepalive;
    struct abx_str token; /* in the request's arena */
};

static void on_timer_closed(void *owner)
{
    free(owner);
}

static void release(struct execution *x)
{
    if (x->req == NULL && x->run == NULL)
        abx_timer_close(&x->keepalive, on_timer_closed);
}

/* ---- the stream ---- */

/* The clock of the keepalive starts with the first line: a queued cell says nothing. */
static void write_line(struct execution *x, struct abx_str line)
{
    if (x->req == NULL)
        return;
    if (!abx_http_write2(x->req, line.ptr, line.len, "\n", 1))
        abx_execution_pause(x->run);
    abx_timer_start(&x->keepalive, ABX__INTERP_KEEPALIVE_MS, 0);
}

static void on_line(void *arg, struct abx_str line)
{
    write_line(arg, line);
}

static void on_keepalive(struct abx_timer *t)
{
    write_line(t->owner, ABX_STR("{\"type\":\"keepalive\"}"));
}

static void on_run_end(void *arg)
{
    struct execution *x = arg;
    x->run = NULL;
    abx__interp_ask_cancel(x->ask);
    x->ask = NULL;
    abx_timer_stop(&x->keepalive);
    if (x->req != NULL) {
        static const char end[] = "{\"type\":\"end_of_execution\"}\n";
        abx_http_write(x->req, end, sizeof(end) - 1);
        abx_http_end(x->req);
    }
    release(x);
}

static void on_drain(struct abx_http_req *req)
{
    struct execution *x = req->data;
    if (x->run != NULL)
        abx_execution_resume(x->run);
}

/* ---- the sandbox's variables ---- */

static void on_told(void *arg, const struct abx_variable *list, size_t count)
{
    struct execution *x = arg;
    x->ask = NULL;
    abx_execution_set_variables(x->run, list, count, list != NULL);
}

static void on_variables(void *arg, struct abx_execution *run)
{
    struct execution *x = arg;
    unsigned char hash[ABX_INTERPRETER_HASH];
    const struct abx_interpreter_options *o = &x->in->o;
    bool is_secured = o->token_hash != NULL && o->token_hash(o->arg, hash);
    bool can_ask = (o->envd_fd >= 0 || o->envd_port != 0) && (!is_secured || x->token.len > 0);
    if (can_ask)
        x->ask = abx__interp_ask(x->in, x->token, on_told, x);
    if (x->ask == NULL)
        abx_execution_set_variables(run, NULL, 0, false);
}

static const struct abx_execution_ops run_ops = {
    .variables = on_variables, .line = on_line, .end = on_run_end};

/* ---- the request ---- */

static void on_close(struct abx_http_req *req, bool aborted)
{
    struct execution *x = req->data;
    (void)aborted;
    x->req = NULL;
    abx__interp_ask_cancel(x->ask);
    x->ask = NULL;
    if (x->run != NULL) {
        abx_execution_cancel(x->run);
        x->run = NULL;
    }
    release(x);
}

/* The context that the request means; NULL after an answer. */
static struct abx_context *choose(struct abx_http_req *req,
                                  const struct abx__interp_execution *wanted)
{
    struct abx__interp *in = abx__interp_of(req);
    struct abx_error err = {0};
    enum abx_language_id language;
    if (wanted->context_id.len > 0 && wanted->language.len > 0) {
        abx__interp_answer_text(req, 400, "Only one of context_id or language can be provided");
        return NULL;
    }
    if (wanted->context_id.len > 0) {
        struct abx_context *c = abx_context_find(in->contexts, wanted->context_id);
        char text[128];
        snprintf(text, sizeof(text), "Context %.64s not found", wanted->context_id.ptr);
        if (c == NULL)
            abx__interp_answer_text(req, 404, text);
        return c;
    }
    struct abx_context *c = NULL;
    if (abx_language_find(wanted->language, &language, &err) == 0)
        c = abx_context_default(in->contexts, language, &err);
    if (c == NULL)
        abx__interp_answer_error(req, &err);
    return c;
}

static void start(struct abx_http_req *req, const struct abx__interp_execution *wanted)
{
    struct abx_error err = {0};
    struct abx_context *c = choose(req, wanted);
    if (c == NULL)
        return;
    struct execution *x = calloc(1, sizeof(*x));
    if (x == NULL) {
        abx__interp_answer_text(req, 500, "no memory");
        return;
    }
    *x = (struct execution){
        .req = req,
        .in = abx__interp_of(req),
        .token = abx_arena_str(req->arena, abx_http_header(req->head, ABX_HEADER_ACCESS_TOKEN))};
    struct abx_cell cell = {
        .code = wanted->code, .own = wanted->own, .own_count = wanted->own_count};
    if (abx_execution_start(c, &cell, &run_ops, x, &x->run, &err) < 0) {
        abx__interp_answer_error(req, &err);
        free(x);
        return;
    }
    abx_timer_init(&x->keepalive, &x->in->loop, on_keepalive, x);
    req->data = x;
    req->on_close = on_close;
    req->on_drain = on_drain;
    abx__interp_begin_stream(req);
}

static void on_body(struct abx_http_req *req, struct abx_str body)
{
    struct abx_arena arena;
    struct abx__interp_execution wanted;
    ABX_AUTO_BUF detail;
    abx_arena_init(&arena, 2 * (size_t)ABX__INTERP_BODY_MAX);
    abx_buf_init(&detail, 64 << 10);
    if (abx__interp_read_execution(body, &arena, &wanted, &detail) < 0)
        abx__interp_answer_json(req, 422, abx_buf_str(&detail));
    else if (wanted.code.ptr == NULL)
        abx__interp_answer_text(req, 500, "no memory");
    else
        start(req, &wanted);
    abx_arena_done(&arena);
}

void abx__interp_execute(struct abx_http_req *req, struct abx_str id)
{
    (void)id;
    abx__interp_collect(req, on_body);
}
