/* host/engine/metrics_many.c: GET /sandboxes/metrics (control-plane 5.2). Loop thread.
 *
 * All sandboxes are asked at once and have one time limit, so that one that is silent keeps nobody
 * waiting longer and takes no other's figures away: its own latest ones stand, if there are any. */
#include "host/engine/exec_priv.h"
#include "host/engine/metrics_priv.h"

#include "lib/base/log.h"
#include "lib/wire/url.h"

#include <stdlib.h>

#include "lib/base/banned.h"

enum { ANSWER_MAX = 64 * 1024 };

struct questions;
struct question {
    struct questions *of;
    struct abx__fetch fetch;
    char id[ABX_SANDBOX_ID_LEN + 1];
    bool is_waiting;
};
struct questions {
    struct abx__call *call;
    struct abx_timer timer;
    size_t count, waiting;
    bool is_asking; /* the answer waits until all have been asked */
    struct question items[ABX__METRICS_AT_ONCE];
};

/* ---- which ---- */

static int add_id(struct questions *q, struct abx_str id)
{
    for (size_t i = 0; i < id.len; i++)
        if (!((id.ptr[i] >= 'a' && id.ptr[i] <= 'z') || (id.ptr[i] >= '0' && id.ptr[i] <= '9')))
            return -1;
    if (id.len == 0 || id.len > ABX_SANDBOX_ID_LEN)
        return -1;
    for (size_t i = 0; i < q->count; i++)
        if (abx_str_is(id, q->items[i].id))
            return 0;
    if (q->count == ABX__METRICS_AT_ONCE)
        return -1;
    struct question *to = &q->items[q->count++];
    to->of = q;
    memcpy(to->id, id.ptr, id.len);
    return 0;
}

/* "sandbox_ids=a,b", and "sandbox_ids=a&sandbox_ids=b" as other clients write a list. */
static int read_ids(struct abx__call *c, struct questions *q)
{
    struct abx_str rest = c->req->query, name, value, id;
    int found;
    while ((found = abx_url_query_next(&rest, c->req->arena, &name, &value)) > 0) {
        if (!abx_str_is(name, "sandbox_ids"))
            continue;
        while (abx_str_split(&value, ',', &id))
            if (add_id(q, id) < 0)
                return -1;
    }
    return found < 0 || q->count == 0 ? -1 : 0;
}

/* ---- the answer ---- */

static void answer(struct questions *q)
{
    ABX_AUTO_BUF b = {.max = ANSWER_MAX};
    struct abx_json_writer w;
    abx_json_writer_init(&w, &b);
    abx_json_begin_object(&w);
    abx_json_key(&w, ABX_STR("sandboxes"));
    abx_json_begin_object(&w);
    for (size_t i = 0; i < q->count; i++) {
        struct abx_str id = abx_str(q->items[i].id);
        const struct abx__sandbox *sb = abx__sandbox_find(q->call->engine, id);
        const struct abx__sample *s = sb ? abx__metrics_latest(sb) : NULL;
        if (s == NULL)
            continue;
        abx_json_key(&w, id);
        abx__metrics_write(&w, sb, s);
    }
    abx_json_end_object(&w);
    abx_json_end_object(&w);
    abx__api_answer_buf(q->call, 200, &b, NULL); /* @q may be gone after */
}

/* ---- asking ---- */

static void on_timer_closed(void *owner)
{
    free(owner);
}

static void on_close(struct abx__call *c)
{
    struct questions *q = c->data;
    for (size_t i = 0; i < q->count; i++)
        abx__fetch_done(&q->items[i].fetch);
    abx_timer_close(&q->timer, on_timer_closed);
}

static void on_late(struct abx_timer *t)
{
    struct questions *q = t->owner;
    for (size_t i = 0; i < q->count; i++) {
        struct question *x = &q->items[i];
        abx__fetch_done(&x->fetch);
        if (x->is_waiting)
            abx_log(ABX_LOG_WARN, "metrics not told sandbox=%s error=\"no answer in %d s\"", x->id,
                    ABX__METRICS_WAIT_MS / 1000);
        x->is_waiting = false;
    }
    answer(q);
}

static void settle(struct question *x, const struct abx_error *failure)
{
    struct questions *q = x->of;
    x->is_waiting = false;
    if (failure)
        abx_log(ABX_LOG_WARN, "metrics not told sandbox=%s error=\"%s\"", x->id, failure->msg);
    if (--q->waiting == 0 && !q->is_asking) {
        abx_timer_stop(&q->timer);
        answer(q);
    }
}

static void on_fetched(struct abx__fetch *f, struct abx_str text, const struct abx_error *failure)
{
    struct question *x = f->owner;
    struct abx_error err = {0};
    struct abx__sandbox *sb = abx__sandbox_find(x->of->call->engine, abx_str(x->id));
    if (sb && failure == NULL && abx__metrics_add(sb, text, &err) < 0)
        failure = &err;
    settle(x, sb ? failure : NULL); /* one that has gone has nothing to tell */
}

static void ask(struct questions *q)
{
    struct abx_error err;
    q->is_asking = true;
    for (size_t i = 0; i < q->count; i++) {
        struct question *x = &q->items[i];
        struct abx__sandbox *sb = abx__sandbox_find(q->call->engine, abx_str(x->id));
        if (sb == NULL || abx__metrics_is_fresh(sb))
            continue;
        x->fetch.fn = on_fetched;
        x->fetch.owner = x;
        x->is_waiting = true;
        q->waiting++;
        if (abx__fetch_get(&x->fetch, sb, "/metrics", ABX__METRICS_BODY_MAX, &err) < 0)
            settle(x, &err);
    }
    q->is_asking = false;
    if (q->waiting == 0)
        answer(q);
    else
        abx_timer_start(&q->timer, ABX__METRICS_WAIT_MS, 0);
}

void abx__metrics_get_many(struct abx__call *c)
{
    struct questions *q = calloc(1, sizeof(*q));
    if (q == NULL) {
        abx__api_fail(c, 500, "out of memory");
        return;
    }
    q->call = c;
    if (read_ids(c, q) < 0) {
        free(q);
        abx__api_fail(c, 400, "validation error: sandbox_ids: 1 to %d sandbox IDs, commas between",
                      ABX__METRICS_AT_ONCE);
        return;
    }
    abx_timer_init(&q->timer, &c->engine->loop, on_late, q);
    c->data = q;
    c->on_close = on_close;
    ask(q);
}
