/* lib/proc/proc_priv.h: what the files of lib/proc share. */
#pragma once
#include "lib/proc/proc.h"

#include <signal.h>

/** Blocks every signal of this thread; *ret_old is what to restore. */
void abx__proc_block_signals(sigset_t *ret_old);
void abx__proc_restore_signals(const sigset_t *old);
/** In a child: every signal to its default action, none blocked. System calls only. */
void abx__proc_reset_signals(void);
/** Sets comm, and argv[0] when abx_proc_init_title() ran. */
void abx__proc_set_title(const char *name);
void abx__proc_status_from(const siginfo_t *info, struct abx_proc_status *ret);

/* Where a child failed before its exec; the row index of the texts in spawn.c. */
enum abx__proc_stage {
    ABX__STAGE_SESSION,
    ABX__STAGE_STDIO,
    ABX__STAGE_TTY,
    ABX__STAGE_GROUPS,
    ABX__STAGE_GID,
    ABX__STAGE_UID,
    ABX__STAGE_CWD,
    ABX__STAGE_CLOSE,
    ABX__STAGE_EXEC,
    ABX__STAGE__COUNT
};
struct abx__proc_failure { /* as written to the pipe */
    int32_t stage;
    int32_t errnum;
};
struct abx__proc_start { /* everything a child needs, prepared by the parent */
    const struct abx_proc_spec *spec;
    char *const *paths; /* candidates to exec, in order; NULL ends */
    int error_fd;       /* CLOEXEC */
    pid_t parent;
};
/** Becomes the program of @start or reports why not. May share its memory with the parent. */
int abx__proc_child(void *start);
