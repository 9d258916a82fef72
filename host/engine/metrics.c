/* host/engine/metrics.c: GET /sandboxes/{id}/metrics (control-plane 5.1), and the samples that it
 * shares with metrics_many.c. Loop thread.
 *
 * The figures are envd's (GET /metrics), a sandbox's word: bounded, decoded by a table, and about
 * that sandbox only. Processors and total memory are what the sandbox was given; time is ours. */
#include "host/engine/exec_priv.h"
#include "host/engine/metrics_priv.h"
#include "host/engine/page_priv.h"

#include "lib/base/time.h"

#include <math.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum { ANSWER_MAX = 256 * 1024, PERCENT_MAX = 100 };

struct question {
    struct abx__call *call;
    struct abx__fetch fetch;
    struct abx_timer timer;
    int64_t start_s, end_s;
    char id[ABX_SANDBOX_ID_LEN + 1];
};

/* ---- samples ---- */

struct figures {
    uint32_t cpu_count;
    double cpu_used_pct;
    int64_t mem_used, mem_cache, disk_used, disk_total;
};
#define AT(field) offsetof(struct figures, field), ABX_JSON_REQUIRED
static const struct abx_json_field figure_fields[] = {
    {"cpu_count", ABX_JSON_U32, AT(cpu_count)},
    {"cpu_used_pct", ABX_JSON_F64, AT(cpu_used_pct)},
    {"mem_used", ABX_JSON_I64, AT(mem_used)},
    {"mem_cache", ABX_JSON_I64, AT(mem_cache)},
    {"disk_used", ABX_JSON_I64, AT(disk_used)},
    {"disk_total", ABX_JSON_I64, AT(disk_total)},
    {0}};

/* envd counts in shares of the machine's processors, a caller in those of the sandbox. */
static double percent_of_own(const struct figures *f, uint32_t cpus)
{
    double percent = f->cpu_used_pct * f->cpu_count / (cpus ? cpus : 1);
    percent = percent < PERCENT_MAX ? percent : PERCENT_MAX;
    return round(percent * 100) / 100;
}

int abx__metrics_add(struct abx__sandbox *sb, struct abx_str text, struct abx_error *err)
{
    struct figures f = {0};
    struct abx_arena arena;
    abx_arena_init(&arena, ABX__METRICS_BODY_MAX);
    int rc = abx_json_decode_text(text, false, figure_fields, &f, &arena, err);
    abx_arena_done(&arena);
    if (rc < 0)
        return -1;
    if (!(f.cpu_used_pct >= 0) || f.mem_used < 0 || f.mem_cache < 0 || f.disk_used < 0 ||
        f.disk_total < 0)
        return abx_err_set(err, ABX_INTERNAL, "a figure is negative");
    if (sb->samples == NULL)
        sb->samples = calloc(1, sizeof(*sb->samples));
    if (sb->samples == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
    struct abx__samples *s = sb->samples;
    s->rows[s->taken++ % ABX__SAMPLES_MAX] =
        (struct abx__sample){.at_ns = abx_time_wall_ns(),
                             .cpu_used_pct = percent_of_own(&f, sb->cpu),
                             .mem_used = f.mem_used,
                             .mem_cache = f.mem_cache,
                             .disk_used = f.disk_used,
                             .disk_total = f.disk_total};
    s->last_ms = abx_time_mono_ms();
    return 0;
}

bool abx__metrics_is_fresh(const struct abx__sandbox *sb)
{
    return sb->samples && abx_time_mono_ms() - sb->samples->last_ms < ABX__METRICS_EVERY_MS;
}

const struct abx__sample *abx__metrics_latest(const struct abx__sandbox *sb)
{
    const struct abx__samples *s = sb->samples;
    return s && s->taken > 0 ? &s->rows[(s->taken - 1) % ABX__SAMPLES_MAX] : NULL;
}

/* ---- the answer ---- */

void abx__metrics_write(struct abx_json_writer *w, const struct abx__sandbox *sb,
                        const struct abx__sample *s)
{
    char at[ABX_TIME_TEXT];
    abx_time_format(s->at_ns, 3, at);
    abx_json_begin_object(w);
    abx_json_kv_c(w, "timestamp", at);
    abx_json_kv_i64(w, "timestampUnix", s->at_ns / 1000000000);
    abx_json_kv_i64(w, "cpuCount", sb->cpu);
    abx_json_key(w, ABX_STR("cpuUsedPct"));
    abx_json_f64(w, s->cpu_used_pct);
    abx_json_kv_i64(w, "memUsed", s->mem_used);
    abx_json_kv_i64(w, "memTotal", (int64_t)sb->memory_mb << 20);
    abx_json_kv_i64(w, "memCache", s->mem_cache);
    abx_json_kv_i64(w, "diskUsed", s->disk_used);
    abx_json_kv_i64(w, "diskTotal", s->disk_total);
    abx_json_end_object(w);
}

static void answer(struct abx__call *c, const struct abx__sandbox *sb, int64_t start_s,
                   int64_t end_s)
{
    ABX_AUTO_BUF b = {.max = ANSWER_MAX};
    struct abx_json_writer w;
    const struct abx__samples *s = sb->samples;
    uint64_t taken = s ? s->taken : 0;
    abx_json_writer_init(&w, &b);
    abx_json_begin_array(&w);
    for (uint64_t i = taken > ABX__SAMPLES_MAX ? taken - ABX__SAMPLES_MAX : 0; i < taken; i++) {
        const struct abx__sample *row = &s->rows[i % ABX__SAMPLES_MAX];
        int64_t at_s = row->at_ns / 1000000000;
        if (at_s >= start_s && at_s <= end_s)
            abx__metrics_write(&w, sb, row);
    }
    abx_json_end_array(&w);
    abx__api_answer_buf(c, 200, &b, NULL);
}

/* ---- asking the sandbox ---- */

static void on_timer_closed(void *owner)
{
    free(owner);
}

static void on_close(struct abx__call *c)
{
    struct question *q = c->data;
    abx__fetch_done(&q->fetch);
    abx_timer_close(&q->timer, on_timer_closed);
}

static void on_fetched(struct abx__fetch *f, struct abx_str text, const struct abx_error *failure)
{
    struct question *q = f->owner;
    struct abx_error err = {0};
    struct abx__sandbox *sb = abx__sandbox_find(q->call->engine, abx_str(q->id));
    abx_timer_stop(&q->timer);
    if (sb == NULL)
        abx__api_fail(q->call, 404, "Sandbox \"%s\" doesn't exist or you don't have access to it",
                      q->id);
    else if (failure || abx__metrics_add(sb, text, &err) < 0)
        abx__api_fail(q->call, 503, "sandbox %s does not tell its metrics: %s", q->id,
                      failure ? failure->msg : err.msg);
    else
        answer(q->call, sb, q->start_s, q->end_s);
}

static void on_late(struct abx_timer *t)
{
    struct question *q = t->owner;
    abx__fetch_done(&q->fetch);
    abx__api_fail(q->call, 503, "sandbox %s does not tell its metrics: no answer in %d s", q->id,
                  ABX__METRICS_WAIT_MS / 1000);
}

static void ask(struct abx__call *c, struct abx__sandbox *sb, int64_t start_s, int64_t end_s)
{
    struct abx_error err = {0};
    struct question *q = calloc(1, sizeof(*q));
    if (q == NULL) {
        abx__api_fail(c, 500, "out of memory");
        return;
    }
    *q = (struct question){.call = c, .start_s = start_s, .end_s = end_s};
    memcpy(q->id, sb->id, sizeof(q->id));
    q->fetch.fn = on_fetched;
    q->fetch.owner = q;
    if (abx__fetch_get(&q->fetch, sb, "/metrics", ABX__METRICS_BODY_MAX, &err) < 0) {
        abx__fetch_done(&q->fetch);
        free(q);
        abx__api_fail_err(c, &err);
        return;
    }
    abx_timer_init(&q->timer, &c->engine->loop, on_late, q);
    abx_timer_start(&q->timer, ABX__METRICS_WAIT_MS, 0);
    c->data = q;
    c->on_close = on_close;
}

void abx__metrics_get(struct abx__call *c, struct abx__sandbox *sb)
{
    int64_t start_s = 0, end_s = INT64_MAX, now_s = abx_time_wall_ns() / 1000000000;
    if (!abx__query_int(c, "start", 0, INT64_MAX, &start_s) ||
        !abx__query_int(c, "end", 0, INT64_MAX, &end_s))
        return;
    if (abx__metrics_is_fresh(sb) || end_s < now_s || start_s > now_s)
        answer(c, sb, start_s, end_s);
    else
        ask(c, sb, start_s, end_s);
}
