/* host/engine/boot_priv.h: the start and ready commands of a template in a provisioned sandbox
 * (engine.md 2 "Ready", decisions.md). The same at a build's rehearsal and at create. */
#pragma once
#include "host/engine/exec_priv.h"
#include "host/engine/lines_priv.h"

struct abx__boot; /* opaque, on the heap */
struct abx__boot_spec {
    struct abx__sandbox *sandbox;
    const char *start, *ready; /* copied; "" when there is none */
    struct abx_str start_envs; /* JSON object for the start command only; ptr NULL: none */
    uint64_t limit_ms;
    /** A line of output; may be NULL. @is_ready: of the ready command. */
    void (*on_line)(void *arg, bool is_ready, bool is_stderr, struct abx_str line);
    /** Once; @err NULL: ready. @tail: the last 50 lines of both, each with a line feed before it.
     *  The owner then closes. */
    void (*done)(void *arg, const struct abx_error *err, struct abx_str tail);
    void *arg;
};
/** Starts. No callback runs from within. NULL on failure. */
struct abx__boot *abx__boot_start(const struct abx__boot_spec *spec, struct abx_error *err);
/** Lets go: no callback any more; what was started runs on. Accepts NULL. */
void abx__boot_close(struct abx__boot *b);
