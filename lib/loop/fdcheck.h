/* lib/loop/fdcheck.h: what a daemon forgot to close: the leak check of descriptors.
 *
 * In sanitized builds only; elsewhere both calls do nothing. */
#pragma once
#include <stdbool.h>

enum { ABX_FDCHECK_SEEN = 1024 };
struct abx_fdcheck {
    bool was_open[ABX_FDCHECK_SEEN];
};

/** Notes what is open already: that is the caller's business. */
void abx_fdcheck_note(struct abx_fdcheck *f);
/** Logs "descriptor left open fd=N target=..." for each further one that is open now. Ends libuv's
 *  pool, so nothing may use a loop afterwards. */
void abx_fdcheck_report(const struct abx_fdcheck *f);
