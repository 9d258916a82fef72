/* guest/server/receive.c: the loop collects, the pool takes all that is there. */
#include "guest/server/receive.h"

#include "lib/base/assert.h"
#include "lib/base/time.h"

#include <stdlib.h>

#include "lib/base/banned.h"

enum {
    WORTH_A_RUN = 256 * 1024,
    STOP_AT = 512 * 1024,           /* then the client waits */
    PENDING_MAX = 16 * 1024 * 1024, /* what may still come with one read */
    ANSWER_MAX = 1 << 20,
};

struct receive {
    const struct abx__receive_ops *ops;
    struct abx_buf pending; /* the loop's */
    struct abx_buf taken;   /* the job's while it runs */
    uint64_t seen, limit;
    size_t counted; /* of it in server->body_bytes */
    bool is_open, is_ended, is_last, is_settled, is_too_large, is_paused;
    max_align_t data[];
};

void *abx__receive_data(struct abx__job *j)
{
    struct receive *r = j->data;
    return r->data;
}

/* ---- on the pool ---- */

static void run_undo(struct abx__job *j)
{
    struct receive *r = j->data;
    if (!r->is_settled)
        r->ops->undo(j);
    r->is_settled = true;
}

/* Who reads of a refusal finds nothing left of what was refused. */
static void settle(struct abx__job *j, bool is_good)
{
    if (!is_good)
        run_undo(j);
}

static void run_open(struct abx__job *j)
{
    struct receive *r = j->data;
    settle(j, r->ops->open(j));
}

static void run_feed(struct abx__job *j)
{
    struct receive *r = j->data;
    bool is_good = r->taken.len == 0 || r->ops->feed(j, abx_buf_str(&r->taken));
    abx_buf_clear(&r->taken);
    if (is_good && r->is_last)
        is_good = r->is_settled = r->ops->close(j);
    settle(j, is_good);
}

static void run_too_large(struct abx__job *j)
{
    const struct receive *r = j->data;
    j->verdict.limit_bytes = r->limit;
    abx_policy_deny(&j->verdict, ABX_POLICY_PAYLOAD_TOO_LARGE, "the body is larger than %llu bytes",
                    (unsigned long long)r->limit);
    settle(j, false);
}

/* ---- on the loop ---- */

static void uncount(struct abx__job *j)
{
    struct receive *r = j->data;
    j->server->body_bytes -= r->counted;
    r->counted = 0;
}

static void drop(struct abx__job *j)
{
    struct receive *r = j->data;
    if (r == NULL)
        return;
    uncount(j);
    abx_buf_done(&r->pending);
    abx_buf_done(&r->taken);
}

/* The job does not run: gives it what has come. */
static void pump(struct abx__job *j)
{
    struct receive *r = j->data;
    if (r->is_too_large) {
        j->is_held = false;
        j->run = run_too_large;
        j->done = NULL;
        abx__job_start(j);
        return;
    }
    if (!r->is_ended && r->pending.len < WORTH_A_RUN)
        return;
    struct abx_buf empty = r->taken;
    r->taken = r->pending;
    r->pending = empty;
    uncount(j);
    r->is_last = r->is_ended;
    j->is_held = !r->is_last;
    j->run = run_feed;
    if (r->is_last)
        j->done = NULL;
    abx__job_start(j);
}

static void on_body(struct abx_http_req *req, const char *data, size_t len)
{
    struct abx__call *c = req->data;
    if (c->status || c->data == NULL)
        return; /* refused: the rest is thrown away */
    struct abx__job *j = c->data;
    struct receive *r = j->data;
    c->fed_ms = abx_time_mono_ms();
    r->seen += len;
    r->is_too_large = r->is_too_large || r->seen > r->limit;
    if (!r->is_too_large) {
        abx_buf_put(&r->pending, data, len);
        r->counted += len;
        j->server->body_bytes += len;
    }
    if (abx_buf_failed(&r->pending) || j->server->body_bytes > ABX__BODIES_MAX) {
        abx__call_fail(c, 503, "ResourceError", "too many bodies are held, try again later");
        return;
    }
    if (!j->is_running)
        pump(j);
    if (c->status == 0 && !r->is_paused && r->pending.len >= STOP_AT) {
        r->is_paused = true;
        abx_http_pause_body(req);
    }
}

static void on_body_end(struct abx_http_req *req)
{
    struct abx__call *c = req->data;
    if (c->status || c->data == NULL)
        return;
    struct abx__job *j = c->data;
    struct receive *r = j->data;
    c->is_reading = false;
    r->is_ended = true;
    if (!j->is_running)
        pump(j);
}

static void begin_reading(struct abx__job *j)
{
    struct receive *r = j->data;
    struct abx__call *c = j->call;
    const struct abx_http_head *head = c->req->head;
    r->is_open = true;
    r->is_ended = !head->is_chunked && head->content_length == 0;
    c->is_reading = !r->is_ended;
    c->fed_ms = abx_time_mono_ms();
    c->req->on_body = on_body;
    c->req->on_body_end = on_body_end;
    abx_http_resume_body(c->req);
}

static void on_idle(struct abx__job *j)
{
    struct receive *r = j->data;
    if (!r->is_open)
        begin_reading(j);
    if (r->is_paused && r->pending.len < STOP_AT) {
        r->is_paused = false;
        abx_http_resume_body(j->call->req);
    }
    pump(j);
}

void abx__receive(struct abx__call *c, const struct abx__receive_spec *spec)
{
    const struct abx_http_head *head = c->req->head;
    if (!head->is_chunked && head->content_length > spec->limit) {
        struct abx_policy_verdict v = {.limit_bytes = spec->limit};
        abx_policy_deny(&v, ABX_POLICY_PAYLOAD_TOO_LARGE, "the body is larger than %llu bytes",
                        (unsigned long long)spec->limit);
        abx__call_deny(c, &v);
        return;
    }
    abx_http_pause_body(c->req);
    struct abx__job *j = abx__job_new(c, run_open, ANSWER_MAX);
    struct receive *r = j ? abx__job_data(j, sizeof(*r) + spec->data_size) : NULL;
    if (j == NULL)
        return;
    j->drop = drop;
    if (r) {
        r->ops = spec->ops;
        r->limit = spec->limit;
        abx_buf_init(&r->pending, PENDING_MAX);
        abx_buf_init(&r->taken, PENDING_MAX);
        memcpy(r->data, spec->data, spec->data_size);
        if (spec->prepare)
            spec->prepare(j);
        j->undo = run_undo;
        j->is_held = true;
        j->done = on_idle;
    }
    abx__job_start(j);
}
