/* host/engine/job_join.c: builds that come to the same step at the same time: one runs it, the
 * others follow its output and get what comes of it. Loop thread. */
#include "host/engine/job_priv.h"

#include "lib/base/log.h"

#include <stdio.h>

#include "lib/base/banned.h"

enum { REPLAY_MAX = 2000, REPLAY_BYTES = 8 * 1024 * 1024 };

/* Lines of the store, kept until it is no longer walked. */
struct replay {
    struct abx_arena arena;
    struct {
        struct abx_str text;
        bool is_stderr;
    } lines[REPLAY_MAX];
    size_t count;
    bool is_cut;
};

/* "[builder 1/2] [stdout]: TEXT", as abx__job_log_line() writes it. */
static bool take_output(struct abx_str message, bool *ret_is_stderr, struct abx_str *ret_text)
{
    static const struct {
        const char *mark;
        bool is_stderr;
    } marks[] = {{"] [stdout]: ", false}, {"] [stderr]: ", true}};
    for (size_t i = 0; i < ABX_COUNTOF(marks); i++) {
        struct abx_str mark = abx_str(marks[i].mark);
        ptrdiff_t at = abx_str_chr(message, ']');
        struct abx_str rest =
            at < 0 ? (struct abx_str){0} : abx_str_sub(message, (size_t)at, SIZE_MAX);
        if (rest.len < mark.len || !abx_str_starts(rest, marks[i].mark))
            continue;
        *ret_is_stderr = marks[i].is_stderr;
        *ret_text = abx_str_sub(rest, mark.len, SIZE_MAX);
        return true;
    }
    return false;
}

static void on_stored(void *arg, const struct abx_store_log *e)
{
    struct replay *r = arg;
    struct abx_str text;
    bool is_stderr;
    if (r->is_cut || !take_output(e->message, &is_stderr, &text))
        return;
    text = abx_arena_str(&r->arena, text);
    r->is_cut = text.ptr == NULL || r->count == REPLAY_MAX;
    if (r->is_cut)
        return;
    r->lines[r->count].text = text;
    r->lines[r->count++].is_stderr = is_stderr;
}

/* The output that was there before @j came. */
static void replay(struct abx__job *j, struct abx__job *runner)
{
    struct abx_error err = {0};
    struct abx_store_log_query q = {.from = runner->step_log, .limit = REPLAY_MAX + 1};
    struct replay *r = calloc(1, sizeof(*r));
    if (r == NULL) {
        abx__job_log(j, ABX__WARN, "earlier output is in build %s only: no memory", runner->id);
        return;
    }
    abx_arena_init(&r->arena, REPLAY_BYTES);
    abx__job_log_flush(runner);
    if (abx_store_log_each(j->engine->store, runner->id, &q, on_stored, r, &err) < 0)
        abx_log(ABX_LOG_WARN, "build log not read id=%s error=\"%s\"", runner->id, err.msg);
    for (size_t i = 0; i < r->count; i++)
        abx__job_output(j, r->lines[i].is_stderr, r->lines[i].text);
    if (r->is_cut || err.code != ABX_OK)
        abx__job_log(j, ABX__WARN, "some output of this step is in build %s only", runner->id);
    abx_arena_done(&r->arena);
    free(r);
}

void abx__job_join(struct abx__job *j, struct abx__job *runner)
{
    if (strcmp(j->joined, runner->id) == 0)
        return;
    memcpy(j->joined, runner->id, sizeof(j->joined));
    abx__tail_clear(&j->tail);
    if (j->prelude != 0)
        return;
    abx__job_log(j, ABX__INFO, "the same step runs in build %s: this is its output", runner->id);
    replay(j, runner);
}

struct shared_line {
    struct abx_str text;
    bool is_stderr;
};

static void take_line(struct abx__job *j, void *arg)
{
    const struct shared_line *line = arg;
    if (j->joined[0] != '\0')
        abx__job_output(j, line->is_stderr, line->text);
}

void abx__job_share_line(struct abx__job *runner, struct abx_str line)
{
    struct shared_line shared = {line, runner->is_stderr};
    abx__builds_joined(runner, take_line, &shared);
}

struct shared_failure {
    const struct abx__job *runner;
    const struct abx_error *err;
};

static void take_failure(struct abx__job *j, void *arg)
{
    const struct shared_failure *f = arg;
    if (j->cpu != f->runner->cpu || j->memory_mb != f->runner->memory_mb)
        return; /* with other limits it may go well */
    j->is_waiting = false;
    abx__job_fail_step(j, f->err);
}

void abx__job_share_failure(struct abx__job *runner, const struct abx_error *err)
{
    struct shared_failure f = {runner, err};
    if (err->code == ABX_ABORTED) /* the command's own exit, nothing of this run */
        abx__builds_joined(runner, take_failure, &f);
}
