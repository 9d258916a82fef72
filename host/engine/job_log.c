/* host/engine/job_log.c: a build's log lines, on their way to the store. Loop thread. */
#include "host/engine/job_priv.h"

#include "lib/base/log.h"
#include "lib/base/time.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum { FLUSH_MS = 200, MESSAGE_MAX = ABX__LINE_MAX + 512 };

static void free_logs(struct abx__job *j)
{
    for (size_t i = 0; i < j->log_count; i++) {
        free((void *)(uintptr_t)j->logs[i].step.ptr);
        free((void *)(uintptr_t)j->logs[i].message.ptr);
    }
    j->log_count = 0;
}

void abx__job_log_flush(struct abx__job *j)
{
    struct abx_error err = {0};
    if (j->log_count != 0 &&
        abx_store_log_add(j->engine->store, j->id, j->logs, j->log_count, &err) < 0)
        abx_log(ABX_LOG_ERROR, "build log lost id=%s lines=%zu error=\"%s\"", j->id, j->log_count,
                err.msg);
    free_logs(j);
}

static void on_flush(struct abx_timer *t)
{
    struct abx__job *j = t->owner;
    abx__job_log_flush(j);
    if (j->phase == ABX__OVER)
        abx__job_close_later(j);
}

void abx__job_log_init(struct abx__job *j)
{
    struct abx_error err = {0};
    abx_timer_init(&j->flush, &j->engine->loop, on_flush, j);
    if (abx_store_log_next(j->engine->store, j->id, &j->log_next, &err) < 0)
        abx_log(ABX_LOG_ERROR, "build log not read id=%s error=\"%s\"", j->id, err.msg);
}

void abx__job_log_done(struct abx__job *j)
{
    free_logs(j);
    for (int i = 0; i < 2; i++)
        abx__lines_done(&j->lines[i]);
    abx__tail_clear(&j->tail);
}

static void put(struct abx__job *j, enum abx__level level, struct abx_str message)
{
    char step[ABX__STEP_NAME];
    if (j->log_next >= ABX__BUILD_LOG_LINES && level < ABX__WARN) {
        if (j->is_log_full)
            return;
        j->is_log_full = true;
        message = ABX_STR("the log is full: output of the next steps is not kept");
    }
    if (j->log_count == ABX__JOB_LOGS)
        abx__job_log_flush(j);
    if (j->log_count == 0)
        abx_timer_start(&j->flush, FLUSH_MS, 0);
    abx__job_step_name(j, step);
    struct abx_store_log *e = &j->logs[j->log_count];
    char *name = abx_str_dup(abx_str(step)), *text = abx_str_dup(message);
    *e = (struct abx_store_log){j->log_next, abx_time_wall_ms(), (int)level, abx_str(name),
                                abx_str(text)};
    if (name == NULL || text == NULL) {
        free(name);
        free(text);
        return; /* no memory: this line is lost, the numbers stay without a gap */
    }
    j->log_next++;
    j->log_count++;
}

void abx__job_log(struct abx__job *j, enum abx__level level, const char *fmt, ...)
{
    ABX_AUTO_BUF b = {.max = (size_t)ABX__TAIL_TEXT_MAX * 2};
    va_list ap;
    va_start(ap, fmt);
    abx_buf_putfv(&b, fmt, ap);
    va_end(ap);
    if (!abx_buf_failed(&b))
        put(j, level, abx_buf_str(&b));
}

void abx__job_log_line(struct abx__job *j, const char *who, bool is_stderr, struct abx_str line)
{
    abx__job_log(j, ABX__INFO, "%s [%s]: %.*s", who, is_stderr ? "stderr" : "stdout",
                 ABX_STR_FMT(line));
}

void abx__job_output(struct abx__job *j, bool is_stderr, struct abx_str line)
{
    char who[64];
    snprintf(who, sizeof(who), "[builder %u/%zu]", (unsigned)j->steps_done + 1,
             j->plan.steps.count);
    abx__tail_add(&j->tail, line);
    abx__job_log_line(j, who, is_stderr, line);
}
