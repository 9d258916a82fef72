/* guest/kernels/kernel.h: one kernel process: its start, its line, its output pipes, its end.
 *
 * What cells and their children write to descriptors 1 and 2 comes by pipes, everything else by the
 * line. Before a line is handed on, the pipes are emptied; before a kernel starts a child it asks
 * for a sync. So the order of output is the order in which it was made. Loop thread only. */
#pragma once
#include "guest/kernels/language.h"
#include "lib/loop/loop.h"

struct abx_confine;
struct abx_kernel;
struct abx_kernel_spec {
    const struct abx_language *language;
    const char *program; /* absolute */
    const char *cwd;
    char *const *envp;
    const struct abx_confine *confine; /* NULL: as free as this process */
    uint32_t umask;                    /* 0: 022 */
    uint32_t start_ms;                 /* 0: 60 s */
};
struct abx_kernel_ops {
    /** A line for the client (stdout, stderr, result, error), or READY and DONE. */
    void (*event)(void *arg, enum abx_kernel_event e, struct abx_str line);
    /** It ended by itself, broke the protocol or did not start in time. abx_kernel_close() follows.
     */
    void (*gone)(void *arg, const char *why);
};

/** Starts it. INVALID_ARGUMENT: no such folder. */
int abx_kernel_open(struct abx_loop *l, const struct abx_kernel_spec *spec,
                    const struct abx_kernel_ops *ops, void *arg, struct abx_kernel **ret,
                    struct abx_error *err);
/** Runs a cell: only after READY, and after DONE of the one before. -1: no memory. */
int abx_kernel_run(struct abx_kernel *k, const struct abx_cell *cell);
/** SIGINT to the kernel and its children. */
void abx_kernel_interrupt(struct abx_kernel *k);
/** Stops reading; the kernel then blocks. */
void abx_kernel_pause(struct abx_kernel *k);
void abx_kernel_resume(struct abx_kernel *k);
/** Kills the kernel and its children; no callback after it. Accepts NULL. */
void abx_kernel_close(struct abx_kernel *k);
