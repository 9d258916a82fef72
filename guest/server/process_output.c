/* guest/server/process_output.c: GET /process/{pid}/output: the captured pieces from a number on,
 * at once or when there are some. server-api.md 4.5. */
#include "guest/server/processes_priv.h"

#include "lib/base/assert.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum { WAIT_MAX_S = 30, NUMBER_TEXT = 64, AROUND = 128 };

/* A call that waits. */
struct waiter {
    struct abx_list node;   /* of started->waiters */
    struct abx__call *call; /* NULL: answered or gone */
    struct abx__started *process;
    uint64_t since;
    struct abx_timer timer;
};

static void put_events(struct abx_json_writer *w, const struct abx__started *p, uint64_t since)
{
    static const char *const names[] = {"stdout", "stderr"};
    struct abx__capture_cursor cur;
    struct abx__capture_event e;
    abx_json_key(w, ABX_STR("events"));
    abx_json_begin_array(w);
    abx__capture_seek(&p->capture, since, &cur);
    while (abx__capture_next(&p->capture, &cur, &e)) {
        abx_json_begin_object(w);
        abx_json_kv_i64(w, "seq", (int64_t)e.seq);
        abx_json_kv_c(w, "stream", names[e.stream]);
        abx_json_kv_str(w, "data", e.data);
        abx_json_end_object(w);
    }
    abx_json_end_array(w);
}

/* "exited" comes with the last output, which can be a little after the program's end. */
static void answer(struct abx__call *c, const struct abx__started *p, uint64_t since)
{
    ABX_AUTO_BUF body = {0};
    struct abx_json_writer w;
    bool has_ended = abx_process_has_ended(p->process);
    abx_buf_init(&body, p->capture.text_bytes * 6 + (p->capture.count + 4) * AROUND);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_kv_i64(&w, "pid", abx_process_pid(p->process));
    put_events(&w, p, since);
    abx_json_kv_i64(&w, "next", (int64_t)p->capture.next_seq);
    abx_json_kv_c(&w, "state", has_ended ? "exited" : "running");
    abx_json_key(&w, ABX_STR("exit_code"));
    if (has_ended)
        abx_json_i64(&w, abx__started_exit_code(p));
    else
        abx_json_null(&w);
    abx_json_kv_bool(&w, "dropped", p->capture.is_dropped);
    abx_json_end_object(&w);
    abx__call_answer(c, &body);
}

static void on_timer_closed(void *owner)
{
    free(owner);
}

/* The call, which is answered by the caller; the waiter is gone after it. */
static struct abx__call *release(struct waiter *wait)
{
    struct abx__call *c = wait->call;
    wait->call = NULL;
    c->on_close = NULL;
    abx_list_remove(&wait->node);
    abx_timer_close(&wait->timer, on_timer_closed);
    return c;
}

static void on_close(struct abx__call *c, bool aborted)
{
    (void)aborted;
    release(c->data);
}

static void finish(struct waiter *wait)
{
    const struct abx__started *p = wait->process;
    uint64_t since = wait->since;
    answer(release(wait), p, since);
}

static void on_time(struct abx_timer *t)
{
    finish(t->owner);
}

void abx__process_output_wake(struct abx__started *p, bool all)
{
    struct waiter *wait;
    bool has_ended = all || abx_process_has_ended(p->process);
    abx_list_foreach(wait, &p->waiters, struct waiter, node)
    {
        if (has_ended || p->capture.next_seq > wait->since)
            finish(wait);
    }
}

static void wait_for(struct abx__call *c, struct abx__started *p, uint64_t since, double seconds)
{
    struct waiter *wait = calloc(1, sizeof(*wait));
    if (wait == NULL) {
        abx__call_fail(c, 500, "MemoryError", "out of memory");
        return;
    }
    wait->call = c;
    wait->process = p;
    wait->since = since;
    abx_list_push(&p->waiters, &wait->node);
    abx_timer_init(&wait->timer, &c->server->loop, on_time, wait);
    abx_timer_start(&wait->timer, (uint64_t)(seconds * 1000), 0);
    c->data = wait;
    c->on_close = on_close;
}

static bool read_since(struct abx__call *c, uint64_t *ret)
{
    struct abx_str text = abx__call_query(c, "since");
    int64_t n = 0;
    if (text.ptr && abx__text_integer(text, &n) < 0) {
        abx__call_fail(c, 400, "ValueError", "'since' must be an integer");
        return false;
    }
    *ret = n > 0 ? (uint64_t)n : 0;
    return true;
}

static bool read_wait(struct abx__call *c, double *ret)
{
    char text[NUMBER_TEXT], *end = text;
    struct abx_str given = abx__call_query(c, "wait");
    *ret = 0;
    if (given.ptr == NULL)
        return true;
    double s = abx_str_to_c(given, text, sizeof(text)) == 0 ? strtod(text, &end) : 0;
    if (end == text || *end || isnan(s)) {
        abx__call_fail(c, 400, "ValueError", "'wait' must be a number of seconds");
        return false;
    }
    *ret = s < 0 ? 0 : s > WAIT_MAX_S ? WAIT_MAX_S : s;
    return true;
}

void abx__process_output_get(struct abx__call *c)
{
    uint64_t since;
    double seconds;
    struct abx__started *p = abx__started_find(c);
    if (p == NULL)
        return;
    if (!p->has_capture) {
        abx__call_fail(c, 409, "ConflictError",
                       "the process was not started with 'capture_output'; its journal has all");
        return;
    }
    if (!read_since(c, &since) || !read_wait(c, &seconds))
        return;
    if (abx_process_has_ended(p->process) || p->capture.next_seq > since || seconds * 1000 < 1)
        answer(c, p, since);
    else
        wait_for(c, p, since, seconds);
}
