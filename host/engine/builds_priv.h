/* host/engine/builds_priv.h: builds of templates: steps in order, rehearsal, logs (control-plane
 * 8).
 *
 * A build is a row of the store and, while it is at work, a job. A job that the engine's death
 * interrupts goes on at its first unfinished step when the engine starts again. */
#pragma once
#include "host/engine/blueprint_priv.h"

enum {
    ABX__BUILDS_AT_ONCE = 4,
    ABX__BUILDS_MAX = 20,          /* at work or queued; more are 429 */
    ABX__BUILD_LOG_LINES = 200000, /* of one build */
    ABX__REHEARSAL_MS = 10 * 60 * 1000,
};

struct abx__builds; /* opaque */

int abx__builds_open(struct abx__engine *e, struct abx_error *err);
/** Removes the layers that an earlier engine did not finish, then goes on with what it began. The
 *  engine serves. */
void abx__builds_begin(struct abx__engine *e);
/** Its second half: they are queued again. */
void abx__builds_resume(struct abx__engine *e);
/** Starts what is queued, as far as it may. */
void abx__builds_go_on(struct abx__engine *e);
/** Lets go of all jobs; their rows stay as they are. */
void abx__builds_close(struct abx__engine *e);

/** Starts the build @id of the template: waiting -> building. @json: the body of the request.
 *  Cancels older ones of the template whose tags overlap. Errors: INVALID_ARGUMENT,
 *  UNIMPLEMENTED, FAILED_PRECONDITION not waiting, NOT_FOUND, RESOURCE_EXHAUSTED. */
int abx__build_start(struct abx__engine *e, const char *template_id, struct abx_str id,
                     struct abx_str json, struct abx_error *err);
/** Ends the jobs of the template as failed; @tags (comma-separated, NULL: any) must overlap. */
void abx__builds_cancel(struct abx__engine *e, const char *template_id, const char *tags,
                        const char *why);
/** What the job of @id has logged is in the store. */
void abx__build_flush(struct abx__engine *e, const char *id);
size_t abx__builds_count(const struct abx__engine *e);
