/* guest/server/hosts/calls.c: the calls of one host: ids, answers, streams, deadlines. Loop thread.
 */
#include "guest/server/hosts/host_priv.h"

#include "lib/base/assert.h"
#include "lib/base/log.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "lib/json/scan.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "lib/base/banned.h"

enum {
    MATCHES_MAX = 256,
    MATCH_MS = 2000,
    /* after a pause at most one line and what the socket holds may still come */
    PAUSED_BYTES = ABX_HOST_LINE_MAX + (1 << 20),
};
static const uint64_t id_mask = (UINT64_C(1) << 53) - 1;

const struct abx_host_ops abx__host_no_ops = {0};

struct abx_host_call {
    struct abx_list node;
    struct abx_host *host;
    uint64_t id;
    const struct abx_host_call_ops *ops; /* NULL: the caller is gone */
    void *arg;
    struct abx_buf line;                         /* waits to be sent */
    int64_t began_ms, deadline_ms, cancelled_ms; /* 0: none */
    size_t paused_bytes;
    bool is_sent, has_head, is_paused;
};

struct match {
    struct abx_list node;
    uint64_t q;
    abx_host_match_fn *done;
    void *arg;
    int64_t began_ms;
};

static struct abx_host_call *find(struct abx_host *h, uint64_t id)
{
    struct abx_host_call *c;
    abx_list_foreach(c, &h->calls, struct abx_host_call, node)
    {
        if (c->id == id)
            return c;
    }
    return NULL;
}

void *abx__host_call_arg(struct abx_host *h, uint64_t id)
{
    struct abx_host_call *c = find(h, id);
    return c && c->ops && c->is_sent ? c->arg : NULL;
}

/* Out of the host's books; what the caller wanted is in the callers' hands. */
static void drop(struct abx_host_call *c)
{
    abx_list_remove(&c->node);
    c->host->call_count--;
    abx_buf_done(&c->line);
    free(c);
}

static void send_id(struct abx_host_call *c, const char *op)
{
    ABX_AUTO_BUF line;
    abx_buf_init(&line, 256);
    abx_host_write_id(&line, op, c->id);
    abx__host_send(c->host, &line);
}

/* ---- making calls ---- */

static int new_id(struct abx_host *h, uint64_t *ret)
{
    uint64_t id;
    do {
        if (getrandom(&id, sizeof(id), 0) != (ssize_t)sizeof(id))
            return -1;
        id &= id_mask;
    } while (id == 0 || find(h, id));
    *ret = id;
    return 0;
}

static void send_call(struct abx_host_call *c)
{
    c->is_sent = true;
    abx__host_send(c->host, &c->line);
    abx_buf_done(&c->line);
}

struct abx_host_call *abx_host_call_start(struct abx_host *h, struct abx_host_call_text *text,
                                          const struct abx_host_call_ops *ops, void *arg,
                                          int *ret_why)
{
    *ret_why = 503;
    if (h->is_closing || h->is_failed)
        return NULL;
    if (h->call_count >= ABX_HOST_CALLS_MAX) {
        *ret_why = 429;
        return NULL;
    }
    struct abx_host_call *c = calloc(1, sizeof(*c));
    if (c == NULL || new_id(h, &c->id) < 0) {
        free(c);
        return NULL;
    }
    abx_buf_init(&c->line, (size_t)ABX_HOST_LINE_MAX);
    text->id = c->id;
    abx_host_write_call(&c->line, text);
    if (abx_buf_failed(&c->line)) {
        abx_buf_done(&c->line);
        free(c);
        return NULL;
    }
    c->host = h;
    c->ops = ops;
    c->arg = arg;
    c->began_ms = abx_time_mono_ms();
    c->deadline_ms = text->deadline_ms ? c->began_ms + text->deadline_ms : 0;
    abx_list_push(&h->calls, &c->node);
    h->call_count++;
    if (h->state == ABX__HOST_READY)
        send_call(c);
    return c;
}

void abx__host_send_waiting(struct abx_host *h)
{
    struct abx_host_call *c;
    abx_list_foreach(c, &h->calls, struct abx_host_call, node)
    {
        if (!c->is_sent && h->state == ABX__HOST_READY)
            send_call(c);
    }
}

void abx_host_call_cancel(struct abx_host_call *c)
{
    if (c == NULL)
        return;
    c->ops = NULL;
    c->arg = NULL;
    if (!c->is_sent)
        drop(c);
    else
        send_id(c, "cancel");
}

void abx_host_call_resume(struct abx_host_call *c)
{
    if (!c->is_paused)
        return;
    c->is_paused = false;
    c->paused_bytes = 0;
    send_id(c, "resume");
}

/* ---- answers ---- */

static void pause_stream(struct abx_host_call *c, size_t len)
{
    if (!c->is_paused) {
        c->is_paused = true;
        send_id(c, "pause");
        return;
    }
    c->paused_bytes += len;
    if (c->paused_bytes > PAUSED_BYTES)
        abx__host_kill(c->host, "it goes on sending after a pause");
}

static void take_chunk(struct abx_host_call *c, const struct abx_host_message *m)
{
    ABX_AUTO_BUF bytes, text;
    abx_buf_init(&bytes, ABX_HOST_LINE_MAX);
    abx_buf_init(&text, ABX_HOST_LINE_MAX);
    if (!c->has_head) {
        abx__host_kill(c->host, "a chunk before its head");
        return;
    }
    int r = m->base64.ptr ? abx_host_text(m->base64, &text) : abx_host_text(m->data, &bytes);
    if (r == 0 && m->base64.ptr)
        r = abx_base64_decode(abx_buf_str(&text), &bytes);
    if (r < 0) {
        abx__host_kill(c->host, "a chunk that is neither text nor base64");
        return;
    }
    if (c->ops && bytes.len > 0 && !c->ops->chunk(c->arg, bytes.ptr, bytes.len))
        pause_stream(c, bytes.len);
}

static bool is_status(uint64_t status)
{
    return status >= 200 && status <= 999;
}

static void take_final(struct abx_host_call *c, const struct abx_host_message *m)
{
    const struct abx_host_call_ops *ops = c->ops;
    void *arg = c->arg;
    drop(c);
    if (ops == NULL)
        return;
    switch (m->op) {
    case ABX_HOST_RESULT:
        ops->result(arg, m->value);
        break;
    case ABX_HOST_ERROR:
        ops->error(arg, m);
        break;
    case ABX_HOST_RESPONSE:
        ops->response(arg, m);
        break;
    case ABX_HOST_END:
        ops->ended(arg);
        break;
    case ABX_HOST_HELLO:
    case ABX_HOST_HEAD:
    case ABX_HOST_CHUNK:
    case ABX_HOST_ASK:
    case ABX_HOST_ANSWER:
    case ABX_HOST_GROUPS:
    case ABX_HOST_STOP:
    case ABX_HOST_LOG:
    case ABX_HOST_UNKNOWN:
    case ABX_HOST__OPS:
        break;
    }
}

/* NULL: well-formed. */
static const char *fault(const struct abx_host_call *c, const struct abx_host_message *m)
{
    bool opens = m->op == ABX_HOST_RESULT || m->op == ABX_HOST_RESPONSE || m->op == ABX_HOST_HEAD;
    if (opens && c->has_head)
        return "a second answer";
    if (m->op == ABX_HOST_END && !c->has_head)
        return "an end before its head";
    if (m->op == ABX_HOST_RESULT && m->value.ptr == NULL)
        return "a result without its value";
    if ((m->op == ABX_HOST_RESPONSE || m->op == ABX_HOST_HEAD || m->op == ABX_HOST_ERROR) &&
        !is_status(m->status))
        return "an answer without a status";
    return NULL;
}

void abx__host_take_answer(struct abx_host *h, const struct abx_host_message *m)
{
    struct abx_host_call *c = m->has_id ? find(h, m->id) : NULL;
    if (c == NULL || !c->is_sent) {
        abx__host_kill(h, "an answer to no call");
        return;
    }
    const char *why = fault(c, m);
    if (why) {
        abx__host_kill(h, why);
    } else if (m->op == ABX_HOST_HEAD) {
        c->has_head = true;
        if (c->ops)
            c->ops->head(c->arg, m);
    } else if (m->op == ABX_HOST_CHUNK) {
        take_chunk(c, m);
    } else {
        take_final(c, m);
    }
}

/* ---- failures ---- */

static void fail(struct abx_host_call *c, int status, const char *type, const char *text)
{
    const struct abx_host_call_ops *ops = c->ops;
    void *arg = c->arg;
    drop(c);
    if (ops)
        ops->failed(arg, status, type, text);
}

void abx__host_fail_calls(struct abx_host *h, const char *type, const char *text)
{
    struct abx_host_call *c;
    abx_list_foreach(c, &h->calls, struct abx_host_call, node)
    {
        if (c->is_sent)
            fail(c, 502, type, text);
    }
    struct match *m;
    abx_list_foreach(m, &h->matches, struct match, node)
    {
        abx_list_remove(&m->node);
        m->done(m->arg, (struct abx_str){0});
        free(m);
    }
}

void abx__host_fail_waiting(struct abx_host *h, const char *text, bool all)
{
    struct abx_host_call *c;
    int64_t now = abx_time_mono_ms();
    abx_list_foreach(c, &h->calls, struct abx_host_call, node)
    {
        if (!c->is_sent && (all || now - c->began_ms >= h->o.wait_ms))
            fail(c, 503, "HostUnavailable", text);
    }
}

/* The time of a call is over: the caller gets its answer, the host some more time to notice. */
static void time_out(struct abx_host_call *c, int64_t now)
{
    const struct abx_host_call_ops *ops = c->ops;
    void *arg = c->arg;
    c->cancelled_ms = now;
    c->deadline_ms = 0;
    c->ops = NULL;
    send_id(c, "cancel");
    if (ops)
        ops->failed(arg, 504, "TimeoutError", "the command took longer than it may");
}

void abx__host_sweep(struct abx_host *h, int64_t now)
{
    struct abx_host_call *c;
    abx__host_fail_waiting(h, "the command host is being restarted", false);
    abx_list_foreach(c, &h->calls, struct abx_host_call, node)
    {
        if (!c->is_sent)
            continue;
        if (c->cancelled_ms && now - c->cancelled_ms > h->o.deaf_ms) {
            h->is_deaf = true;
            abx__host_kill(h, "it does not end a call whose time is over");
            break;
        }
        if (c->deadline_ms && now >= c->deadline_ms)
            time_out(c, now);
    }
    struct match *m;
    abx_list_foreach(m, &h->matches, struct match, node)
    {
        if (now - m->began_ms <= MATCH_MS)
            continue;
        abx_list_remove(&m->node);
        m->done(m->arg, (struct abx_str){0});
        free(m);
    }
}

/* ---- whose path is it ---- */

uint64_t abx_host_match(struct abx_host *h, size_t n, struct abx_str path, abx_host_match_fn *done,
                        void *arg)
{
    ABX_AUTO_BUF line = {0};
    size_t count = 0;
    struct match *m;
    abx_list_foreach(m, &h->matches, struct match, node)
    {
        count++;
    }
    if (h->state != ABX__HOST_READY || count >= MATCHES_MAX || (m = calloc(1, sizeof(*m))) == NULL)
        return 0;
    *m = (struct match){
        .q = ++h->last_question, .done = done, .arg = arg, .began_ms = abx_time_mono_ms()};
    abx_list_push(&h->matches, &m->node);
    uint64_t q = m->q;
    abx_buf_init(&line, 1 << 20);
    abx_host_write_match(&line, q, n, path);
    abx__host_send(h, &line);
    return q;
}

static struct match *find_match(struct abx_host *h, uint64_t q)
{
    struct match *m;
    abx_list_foreach(m, &h->matches, struct match, node)
    {
        if (m->q == q)
            return m;
    }
    return NULL;
}

void abx_host_match_cancel(struct abx_host *h, uint64_t q)
{
    struct match *m = find_match(h, q);
    if (m)
        abx_list_remove(&m->node);
    free(m);
}

void abx__host_take_match(struct abx_host *h, const struct abx_host_message *m)
{
    struct match *found = m->has_q ? find_match(h, m->q) : NULL;
    if (found == NULL)
        return; /* asked for, given up meanwhile */
    abx_list_remove(&found->node);
    found->done(found->arg, abx_str_is(m->ok, "true") ? m->value : (struct abx_str){0});
    free(found);
}
