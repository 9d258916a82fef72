/* host/engine/job_priv.h: a build at work. Private to builds.c, job_log.c, job_steps.c,
 * job_join.c, rehearsal.c. */
#pragma once
#include "host/engine/boot_priv.h"
#include "host/engine/builds_priv.h"
#include "host/engine/plan_priv.h"

#include <sodium.h>

enum {
    ABX__JOB_LOGS = 256,  /* lines that wait for the store */
    ABX__JOB_PRELUDE = 2, /* the account and home of a foreign image */
    ABX__STEP_NAME = 16,
};

enum abx__phase { ABX__QUEUED, ABX__STEPPING, ABX__REHEARSING, ABX__OVER, ABX__PHASE_COUNT };

struct abx__job {
    struct abx_list node;
    struct abx__engine *engine;
    enum abx__phase phase; /* set by abx__job_set_phase() only */
    char id[ABX_STORE_BUILD_LEN + 1], template_id[ABX_STORE_TEMPLATE_LEN + 1];
    char *tags;
    uint32_t cpu, memory_mb;
    struct abx_arena arena; /* of the plan */
    struct abx_arena step_arena;
    struct abx__plan plan;
    struct abx__blueprint
        *bp; /* what has been reached; its image is the builder's while stepping */
    struct abx_build *builder;
    uint32_t steps_done;
    int prelude; /* steps before the first one of the plan still to do */
    bool is_resumed, is_running_step, is_waiting;
    bool is_unnoted;                             /* over, and the store does not know yet */
    unsigned char key[crypto_hash_sha256_BYTES]; /* of all up to the step at work */
    unsigned char done_key[crypto_hash_sha256_BYTES];
    int64_t step_log;                     /* number of the first line of the step at work */
    char joined[ABX_STORE_BUILD_LEN + 1]; /* whose step @key is followed while waiting; "": none */
    struct abx_defer next;
    /* rehearsal */
    struct abx__wait wait;
    char sandbox_id[ABX_SANDBOX_ID_LEN + 1]; /* "": none */
    struct abx__fetch policy;
    struct abx__boot *boot;
    /* log */
    struct abx_timer flush;                   /* also the handle whose close frees the job */
    struct abx_store_log logs[ABX__JOB_LOGS]; /* strings on the heap */
    size_t log_count;
    int64_t log_next;
    bool is_log_full;
    struct abx__lines lines[2];
    struct abx__tail tail;
    bool is_stderr; /* of the line being passed on */
};

void abx__job_set_phase(struct abx__job *j, enum abx__phase to);
/** The step's name for logs and reasons: "base", "1".., "finalize". */
void abx__job_step_name(const struct abx__job *j, char out[ABX__STEP_NAME]);
enum abx__level { ABX__DEBUG, ABX__INFO, ABX__WARN, ABX__ERROR };
void abx__job_log(struct abx__job *j, enum abx__level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/** A line of the output of the step at work, for the log and for the reason of a failure. */
void abx__job_output(struct abx__job *j, bool is_stderr, struct abx_str line);
/** A line of output: "[WHO] [stdout]: TEXT". */
void abx__job_log_line(struct abx__job *j, const char *who, bool is_stderr, struct abx_str line);
void abx__job_log_init(struct abx__job *j);
void abx__job_log_flush(struct abx__job *j);
void abx__job_log_done(struct abx__job *j);

/** The base, then the steps, one after the other. Each ends in abx__job_fail() or
 *  abx__job_rehearse(). */
void abx__job_begin(struct abx__job *j);
/** A step of another job is over: waits no longer, perhaps. */
void abx__job_poke(struct abx__job *j);
/** Start and ready in a throw-away sandbox; then abx__job_finish(). */
void abx__job_rehearse(struct abx__job *j);
void abx__job_rehearsal_close(struct abx__job *j);

/** Ends the job. @tail: lines with a line feed before each. */
void abx__job_fail(struct abx__job *j, const struct abx_error *err, struct abx_str tail);
void abx__job_finish(struct abx__job *j);
/** Of one that is over: frees it from the loop, once the store knows. */
void abx__job_close_later(struct abx__job *j);
/** The other job that runs the very step that @j is to run, or NULL. */
struct abx__job *abx__builds_runner(const struct abx__job *j);
/** Calls @fn for each job that waits for the step that @runner runs. */
void abx__builds_joined(struct abx__job *runner, void (*fn)(struct abx__job *j, void *arg),
                        void *arg);
/** All jobs that wait look again. */
void abx__builds_poke(struct abx__engine *e);

/** @j waits for the step that @runner runs: its output so far becomes @j's as well. Once. */
void abx__job_join(struct abx__job *j, struct abx__job *runner);
/** A line of @runner's step, for those that wait for it. */
void abx__job_share_line(struct abx__job *runner, struct abx_str line);
/** The step failed by itself: so it did for those that wait and have the same limits. */
void abx__job_share_failure(struct abx__job *runner, const struct abx_error *err);
/** The step of @j failed: ends @j with the last lines of its output. */
void abx__job_fail_step(struct abx__job *j, const struct abx_error *err);
