/* host/engine/boot.c: runs a template's start command, then its ready command until it succeeds.
 *
 * Loop thread. The start command runs on after its stream was let go: envd keeps it. */
#include "host/engine/boot_priv.h"

#include "lib/base/time.h"

#include <stdlib.h>

#include "lib/base/banned.h"

enum { READY_FIRST_MS = 10, READY_MAX_MS = 2000 };

struct abx__boot {
    struct abx__boot_spec spec; /* its sandbox: by id only, it may be gone at any turn */
    struct abx__engine *engine;
    char id[ABX_SANDBOX_ID_LEN + 1];
    struct abx__exec start, ready;
    struct abx__lines start_lines[2], ready_lines[2]; /* stdout, stderr */
    struct abx__tail tail;
    struct abx_timer timer; /* the pause before the next try, or the limit */
    int64_t deadline_ms;    /* monotonic */
    uint64_t pause_ms;
    bool is_over, is_stderr, is_ready; /* of the line being passed on */
};

static void finish(struct abx__boot *b, const struct abx_error *err)
{
    ABX_AUTO_BUF text = {.max = (size_t)2 * ABX__TAIL_TEXT_MAX};
    if (b->is_over)
        return;
    b->is_over = true;
    abx_timer_stop(&b->timer);
    abx__exec_done(&b->ready);
    abx__exec_done(&b->start);
    abx__tail_write(&b->tail, &text);
    b->spec.done(b->spec.arg, err, abx_buf_str(&text));
}

static void on_line(void *arg, struct abx_str line)
{
    struct abx__boot *b = arg;
    abx__tail_add(&b->tail, line);
    if (b->spec.on_line != NULL && !b->is_over)
        b->spec.on_line(b->spec.arg, b->is_ready, b->is_stderr, line);
}

static void feed(struct abx__boot *b, bool is_ready, bool is_stderr, struct abx_str text)
{
    b->is_ready = is_ready;
    b->is_stderr = is_stderr;
    abx__lines_feed((is_ready ? b->ready_lines : b->start_lines) + (is_stderr ? 1 : 0), text,
                    on_line, b);
}

static void end_lines(struct abx__boot *b, bool is_ready)
{
    for (int i = 0; i < 2; i++) {
        b->is_ready = is_ready;
        b->is_stderr = i == 1;
        abx__lines_end((is_ready ? b->ready_lines : b->start_lines) + i, on_line, b);
    }
}

static void on_start_output(struct abx__exec *x, bool is_stderr, struct abx_str text)
{
    feed(x->owner, false, is_stderr, text);
}

/* One that ends well has put itself into the background, or is done. */
static void on_start_end(struct abx__exec *x, int exit_code, const struct abx_error *err)
{
    struct abx__boot *b = x->owner;
    struct abx_error failure = {0};
    end_lines(b, false);
    if (err != NULL)
        abx_err_set(&failure, err->code, "start command: %s", err->msg);
    else if (exit_code != 0)
        abx_err_set(&failure, ABX_INTERNAL, "the start command ended with exit status %d",
                    exit_code);
    if (failure.code != ABX_OK)
        finish(b, &failure);
}

static void try_ready(struct abx__boot *b);

static void on_started(struct abx__exec *x)
{
    struct abx__boot *b = x->owner;
    if (b->spec.ready[0] == '\0')
        finish(b, NULL);
    else
        try_ready(b);
}

static const struct abx__exec_ops start_ops = {
    .on_started = on_started, .on_output = on_start_output, .on_end = on_start_end};

static void on_ready_output(struct abx__exec *x, bool is_stderr, struct abx_str text)
{
    feed(x->owner, true, is_stderr, text);
}

static void too_late(struct abx__boot *b)
{
    struct abx_error err = {0};
    abx_err_set(&err, ABX_INTERNAL, "start and ready: not done within %llu s",
                (unsigned long long)(b->spec.limit_ms / 1000));
    finish(b, &err);
}

static void on_ready_end(struct abx__exec *x, int exit_code, const struct abx_error *err)
{
    struct abx__boot *b = x->owner;
    struct abx_error failure = {0};
    end_lines(b, true);
    if (err == NULL && exit_code == 0) {
        finish(b, NULL);
        return;
    }
    if (err != NULL && err->code != ABX_DEADLINE_EXCEEDED) {
        abx_err_set(&failure, err->code, "ready command: %s", err->msg);
        finish(b, &failure);
        return;
    }
    int64_t left = b->deadline_ms - abx_time_mono_ms();
    if (left <= (int64_t)b->pause_ms) {
        too_late(b);
        return;
    }
    abx_timer_start(&b->timer, b->pause_ms, 0);
    b->pause_ms = b->pause_ms * 2 < READY_MAX_MS ? b->pause_ms * 2 : READY_MAX_MS;
}

static const struct abx__exec_ops ready_ops = {.on_output = on_ready_output,
                                               .on_end = on_ready_end};

static void try_ready(struct abx__boot *b)
{
    struct abx_error err = {0};
    int64_t left = b->deadline_ms - abx_time_mono_ms();
    if (left <= 0) {
        too_late(b);
        return;
    }
    struct abx__exec_spec x = {.sandbox = abx__sandbox_find_any(b->engine, abx_str(b->id)),
                               .command = b->spec.ready,
                               .timeout_ms = (uint64_t)left};
    if (x.sandbox == NULL)
        abx_err_set(&err, ABX_INTERNAL, "the sandbox ended");
    if (x.sandbox == NULL || abx__exec_start(&b->ready, &x, &err) < 0) {
        finish(b, &err);
        return;
    }
    abx_timer_start(&b->timer, (uint64_t)left, 0);
}

static void on_timer(struct abx_timer *t)
{
    struct abx__boot *b = t->owner;
    bool has_begun = b->start.call == NULL || b->start.has_started;
    if (!has_begun || b->ready.call != NULL)
        too_late(b);
    else if (b->spec.ready[0] != '\0')
        try_ready(b);
    else
        finish(b, NULL);
}

static void on_closed(void *owner)
{
    struct abx__boot *b = owner;
    for (int i = 0; i < 2; i++) {
        abx__lines_done(&b->start_lines[i]);
        abx__lines_done(&b->ready_lines[i]);
    }
    abx__tail_clear(&b->tail);
    free((void *)(uintptr_t)b->spec.start);
    free((void *)(uintptr_t)b->spec.ready);
    free(b);
}

struct abx__boot *abx__boot_start(const struct abx__boot_spec *spec, struct abx_error *err)
{
    struct abx__boot *b = calloc(1, sizeof(*b));
    if (b == NULL) {
        abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory for the start command");
        return NULL;
    }
    b->spec = *spec;
    b->engine = spec->sandbox->engine;
    memcpy(b->id, spec->sandbox->id, sizeof(b->id));
    b->spec.start = abx_str_dup(abx_str(spec->start));
    b->spec.ready = abx_str_dup(abx_str(spec->ready));
    b->start = (struct abx__exec){.ops = &start_ops, .owner = b};
    b->ready = (struct abx__exec){.ops = &ready_ops, .owner = b};
    b->deadline_ms = abx_time_mono_ms() + (int64_t)spec->limit_ms;
    b->pause_ms = READY_FIRST_MS;
    abx_timer_init(&b->timer, &spec->sandbox->engine->loop, on_timer, b);
    struct abx__exec_spec x = {
        .sandbox = spec->sandbox, .command = b->spec.start, .envs = spec->start_envs};
    bool ok = b->spec.start != NULL && b->spec.ready != NULL;
    if (!ok)
        abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory for the start command");
    if (!ok || (b->spec.start[0] != '\0' && abx__exec_start(&b->start, &x, err) < 0)) {
        abx__boot_close(b);
        return NULL;
    }
    /* Without a start command the first try comes from the loop, else with its first event. */
    abx_timer_start(&b->timer, b->start.call == NULL ? 0 : spec->limit_ms, 0);
    return b;
}

void abx__boot_close(struct abx__boot *b)
{
    if (b == NULL)
        return;
    b->is_over = true;
    abx__exec_done(&b->start);
    abx__exec_done(&b->ready);
    abx_timer_close(&b->timer, on_closed);
}
