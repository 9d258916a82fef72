/* host/engine/builds.c: the builds at work: queue, ends, recovery. Loop thread. */
#include "host/engine/job_priv.h"
#include "host/engine/page_priv.h"

#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/time.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum { REASON_MAX = 2 * ABX__TAIL_TEXT_MAX, NOTE_AGAIN_MS = 1000 };

struct abx__builds {
    struct abx_list jobs; /* oldest first */
    size_t count;
};

static const struct {
    const char *name;
    unsigned next; /* set of legal successors */
} phases[] = {
    [ABX__QUEUED] = {"queued", 1u << ABX__STEPPING | 1u << ABX__OVER},
    [ABX__STEPPING] = {"stepping", 1u << ABX__REHEARSING | 1u << ABX__OVER},
    [ABX__REHEARSING] = {"rehearsing", 1u << ABX__OVER},
    [ABX__OVER] = {"over", 0},
};
_Static_assert(ABX_COUNTOF(phases) == ABX__PHASE_COUNT, "one row per phase");

void abx__job_set_phase(struct abx__job *j, enum abx__phase to)
{
    ABX_ASSERT((phases[j->phase].next & 1u << to) != 0);
    abx_log(ABX_LOG_INFO, "build id=%s phase=%s->%s", j->id, phases[j->phase].name,
            phases[to].name);
    j->phase = to;
}

void abx__job_step_name(const struct abx__job *j, char out[ABX__STEP_NAME])
{
    bool is_at_step = j->is_running_step || j->joined[0] != '\0';
    if (j->phase == ABX__STEPPING && is_at_step && j->prelude == 0)
        snprintf(out, ABX__STEP_NAME, "%u", (unsigned)j->steps_done + 1);
    else if (j->phase == ABX__REHEARSING)
        snprintf(out, ABX__STEP_NAME, "finalize");
    else
        snprintf(out, ABX__STEP_NAME, "base");
}

/* Queue. */

static struct abx__job *find_job(const struct abx__engine *e, const char *id)
{
    struct abx__job *j;
    abx_list_foreach(j, &e->builds->jobs, struct abx__job, node)
    {
        if (strcmp(j->id, id) == 0)
            return j;
    }
    return NULL;
}

void abx__builds_go_on(struct abx__engine *e)
{
    struct abx__job *j;
    size_t at_work = 0;
    if (e->is_sweeping)
        return;
    abx_list_foreach(j, &e->builds->jobs, struct abx__job, node)
    {
        at_work += j->phase == ABX__STEPPING || j->phase == ABX__REHEARSING ? 1 : 0;
    }
    abx_list_foreach(j, &e->builds->jobs, struct abx__job, node)
    {
        if (j->phase != ABX__QUEUED || at_work >= ABX__BUILDS_AT_ONCE)
            continue;
        at_work++;
        abx__job_begin(j);
    }
}

static bool is_same_step(const struct abx__job *a, const struct abx__job *b)
{
    return a != b && memcmp(a->key, b->key, sizeof(a->key)) == 0;
}

struct abx__job *abx__builds_runner(const struct abx__job *j)
{
    struct abx__job *other;
    abx_list_foreach(other, &j->engine->builds->jobs, struct abx__job, node)
    {
        if (other->is_running_step && is_same_step(other, j))
            return other;
    }
    return NULL;
}

void abx__builds_joined(struct abx__job *runner, void (*fn)(struct abx__job *j, void *arg),
                        void *arg)
{
    struct abx__job *j;
    abx_list_foreach(j, &runner->engine->builds->jobs, struct abx__job, node)
    {
        if (j->phase == ABX__STEPPING && j->is_waiting && is_same_step(j, runner))
            fn(j, arg);
    }
}

void abx__builds_poke(struct abx__engine *e)
{
    struct abx__job *j;
    abx_list_foreach(j, &e->builds->jobs, struct abx__job, node)
    {
        abx__job_poke(j);
    }
}

size_t abx__builds_count(const struct abx__engine *e)
{
    return e->builds->count;
}

void abx__build_flush(struct abx__engine *e, const char *id)
{
    struct abx__job *j = find_job(e, id);
    if (j != NULL)
        abx__job_log_flush(j);
}

/* Making and ending. */

static void on_timer_closed(void *owner)
{
    struct abx__job *j = owner;
    abx__job_log_done(j);
    abx__blueprint_free(j->bp);
    abx_arena_done(&j->arena);
    abx_arena_done(&j->step_arena);
    free(j->tags);
    free(j);
}

/* Everything of it but the row. */
static void job_close(struct abx__job *j)
{
    abx_defer_cancel(&j->next);
    abx__job_rehearsal_close(j);
    abx_build_close(ABX_TAKE(j->builder));
    abx_list_remove(&j->node);
    j->engine->builds->count--;
    abx_timer_close(&j->flush, on_timer_closed);
}

/* Its end is in the store now, if only as a failure: what it was has been lost with the disk full.
 */
static bool note_lost(struct abx__job *j)
{
    struct abx_error err = {0};
    struct abx_store_build_end how = {
        .status = ABX_STORE_ERROR,
        .reason = ABX_STR("the end of the build could not be kept: build again"),
        .reason_step = ABX_STR("finalize")};
    return abx_store_build_finish(j->engine->store, j->id, &how, &err) == 0 ||
           err.code == ABX_NOT_FOUND; /* the template was deleted meanwhile */
}

static void on_over(struct abx_defer *d)
{
    struct abx__job *j = d->owner;
    struct abx__engine *e = j->engine;
    if (j->is_unnoted && !note_lost(j)) {
        abx_timer_start(&j->flush, NOTE_AGAIN_MS, 0);
        return;
    }
    job_close(j);
    abx__builds_poke(e);
    abx__layers_settle(e);
    abx__builds_go_on(e);
}

static void end(struct abx__job *j, const struct abx_store_build_end *how)
{
    struct abx_error err = {0};
    abx__job_log_flush(j);
    j->is_unnoted = abx_store_build_finish(j->engine->store, j->id, how, &err) < 0;
    if (j->is_unnoted)
        abx_log(ABX_LOG_ERROR, "build's end not noted id=%s error=\"%s\"", j->id, err.msg);
    abx__job_set_phase(j, ABX__OVER);
    j->is_running_step = false;
    abx__job_close_later(j);
}

void abx__job_close_later(struct abx__job *j)
{
    abx_defer_cancel(&j->next); /* never from within what called us */
    abx_defer_start(&j->next, &j->engine->loop, on_over, j);
}

/* The step at work, or the one that could not begin. */
static void failed_step(const struct abx__job *j, char name[ABX__STEP_NAME])
{
    if (j->phase == ABX__STEPPING && j->builder != NULL && j->prelude == 0 &&
        j->steps_done < j->plan.steps.count)
        snprintf(name, ABX__STEP_NAME, "%u", (unsigned)j->steps_done + 1);
    else
        abx__job_step_name(j, name);
}

void abx__job_fail(struct abx__job *j, const struct abx_error *err, struct abx_str tail)
{
    ABX_AUTO_BUF reason = {.max = REASON_MAX};
    char step[ABX__STEP_NAME], what[256] = "";
    if (j->phase == ABX__OVER)
        return;
    failed_step(j, step);
    if (step[0] >= '0' && step[0] <= '9') {
        abx__plan_describe(abx__plan_step(&j->plan, j->steps_done), what);
        abx_buf_putf(&reason, "step %s: %s: ", step, what);
        j->is_running_step = true; /* the line below belongs to it */
    } else {
        abx_buf_putf(&reason, "%s: ", step);
    }
    abx_buf_put_c(&reason, err->msg);
    abx__job_log(j, ABX__ERROR, "%s", abx_buf_failed(&reason) ? err->msg : reason.ptr);
    abx_buf_put_str(&reason, tail);
    abx_log(ABX_LOG_INFO, "build failed id=%s step=%s error=\"%s\"", j->id, step, err->msg);
    struct abx_store_build_end how = {.status = ABX_STORE_ERROR,
                                      .reason = abx_buf_failed(&reason) ? abx_str(err->msg)
                                                                        : abx_buf_str(&reason),
                                      .reason_step = abx_str(step)};
    end(j, &how);
}

void abx__job_finish(struct abx__job *j)
{
    ABX_AUTO_BUF state = {.max = ABX__BLUEPRINT_JSON_MAX};
    struct abx_error err = {0};
    abx__blueprint_encode(j->bp, &state);
    if (abx_buf_failed(&state)) {
        abx_err_set(&err, ABX_RESOURCE_EXHAUSTED, "the image's configuration is too large");
        abx__job_fail(j, &err, (struct abx_str){0});
        return;
    }
    abx__job_log(j, ABX__INFO, "[finalize] ready");
    struct abx_store_build_end how = {.status = ABX_STORE_READY, .state = abx_buf_str(&state)};
    end(j, &how);
}

static int job_new(struct abx__engine *e, const struct abx_store_build *row, struct abx_str json,
                   struct abx__job **ret, struct abx_error *err)
{
    struct abx__job *j = calloc(1, sizeof(*j));
    if (j == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory for a build");
    j->engine = e;
    memcpy(j->id, row->id, sizeof(j->id));
    memcpy(j->template_id, row->template_id, sizeof(j->template_id));
    j->cpu = row->cpu;
    j->memory_mb = row->memory_mb;
    j->steps_done = row->steps_done;
    j->tags = abx_str_dup(row->tags);
    abx_arena_init(&j->arena, (size_t)4 * 1024 * 1024);
    abx_arena_init(&j->step_arena, (size_t)1024 * 1024);
    int r = j->tags == NULL ? abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory for a build")
                            : abx__plan_read(json, &j->arena, &j->plan, err);
    if (r == 0 && row->state.len != 0) {
        j->is_resumed = true;
        r = abx__blueprint_decode(row->state, &j->bp, err);
    }
    if (r == 0 && j->steps_done > j->plan.steps.count)
        r = abx_err_set(err, ABX_DATA_LOSS, "database: build %s has done more steps than it has",
                        j->id);
    if (r < 0) {
        abx__blueprint_free(j->bp);
        abx_arena_done(&j->arena);
        free(j->tags);
        free(j);
        return -1;
    }
    *ret = j;
    return 0;
}

static void job_enter(struct abx__job *j)
{
    abx__job_log_init(j);
    abx_list_push(&j->engine->builds->jobs, &j->node);
    j->engine->builds->count++;
}

static bool tags_overlap(struct abx_str a, struct abx_str b)
{
    struct abx_str x;
    while (abx_str_split(&a, ',', &x)) {
        struct abx_str rest = b, y;
        while (abx_str_split(&rest, ',', &y)) {
            if (abx_str_eq(x, y))
                return true;
        }
    }
    return false;
}

void abx__builds_cancel(struct abx__engine *e, const char *template_id, const char *tags,
                        const char *why)
{
    struct abx__job *j;
    struct abx_error err = {0};
    abx_err_set(&err, ABX_CANCELED, "%s", why);
    abx_list_foreach(j, &e->builds->jobs, struct abx__job, node)
    {
        if (strcmp(j->template_id, template_id) == 0 && j->phase != ABX__OVER &&
            (tags == NULL || tags_overlap(abx_str(j->tags), abx_str(tags))))
            abx__job_fail(j, &err, (struct abx_str){0});
    }
}

struct pick {
    struct abx__engine *engine;
    struct abx_str json;
    struct abx__job *job;
    struct abx_error err;
    enum abx_store_status status;
};

static void on_row(void *arg, const struct abx_store_build *row)
{
    struct pick *p = arg;
    p->status = row->status;
    if (row->status == ABX_STORE_WAITING)
        job_new(p->engine, row, p->json, &p->job, &p->err);
}

int abx__build_start(struct abx__engine *e, const char *template_id, struct abx_str id,
                     struct abx_str json, struct abx_error *err)
{
    struct pick p = {.engine = e, .json = json};
    if (e->builds->count >= ABX__BUILDS_MAX)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED,
                           "%d builds are under way: wait for one to end", ABX__BUILDS_MAX);
    if (abx_store_build_get(e->store, template_id, id, on_row, &p, err) < 0)
        return -1;
    if (p.status != ABX_STORE_WAITING)
        return abx_err_set(err, ABX_FAILED_PRECONDITION, "build is not in waiting state");
    if (p.job == NULL) {
        *err = p.err;
        return -1;
    }
    job_enter(p.job);
    if (abx_store_build_start(e->store, p.job->id, json, err) < 0) {
        job_close(p.job);
        return -1;
    }
    abx_list_remove(&p.job->node);
    abx__builds_cancel(e, template_id, p.job->tags, "a newer build of the template was started");
    abx_list_push(&e->builds->jobs, &p.job->node);
    abx__builds_go_on(e);
    return 0;
}

/* After a start of the engine. */

struct resume {
    struct abx__engine *engine;
    struct abx_list bad; /* struct bad.node: the store must not change while it is walked */
};
struct bad {
    struct abx_list node;
    char id[ABX_STORE_BUILD_LEN + 1];
    struct abx_error err;
};

static void on_unfinished(void *arg, const struct abx_store_build *row)
{
    struct resume *r = arg;
    struct abx__job *j = NULL;
    struct abx_error err = {0};
    if (job_new(r->engine, row, row->request, &j, &err) == 0) {
        j->is_resumed = true;
        job_enter(j);
        return;
    }
    struct bad *b = calloc(1, sizeof(*b));
    if (b == NULL)
        return; /* it is tried again at the next start */
    memcpy(b->id, row->id, sizeof(b->id));
    b->err = err;
    abx_list_push(&r->bad, &b->node);
}

void abx__builds_resume(struct abx__engine *e)
{
    struct resume r = {.engine = e};
    struct abx_error err = {0};
    abx_list_init(&r.bad);
    if (abx_store_build_each_status(e->store, ABX_STORE_BUILDING, on_unfinished, &r, &err) < 0)
        abx_log(ABX_LOG_ERROR, "builds not resumed error=\"%s\"", err.msg);
    struct bad *b;
    abx_list_foreach(b, &r.bad, struct bad, node)
    {
        struct abx_store_build_end how = {.status = ABX_STORE_ERROR,
                                          .reason = abx_str(b->err.msg),
                                          .reason_step = ABX_STR("base")};
        if (abx_store_build_finish(e->store, b->id, &how, &err) < 0)
            abx_log(ABX_LOG_ERROR, "build's end not noted id=%s error=\"%s\"", b->id, err.msg);
        abx_list_remove(&b->node);
        free(b);
    }
    abx__builds_go_on(e);
}

int abx__builds_open(struct abx__engine *e, struct abx_error *err)
{
    e->builds = calloc(1, sizeof(*e->builds));
    if (e->builds == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory for builds");
    abx_list_init(&e->builds->jobs);
    return 0;
}

void abx__builds_close(struct abx__engine *e)
{
    struct abx__job *j;
    if (e->builds == NULL)
        return;
    abx_list_foreach(j, &e->builds->jobs, struct abx__job, node)
    {
        abx__job_log_flush(j);
        job_close(j);
    }
    free(ABX_TAKE(e->builds));
}
