/* guest/caps/run.h: one program from start to end, its output handed on as it comes. Nothing is
 * kept here: a slow taker stops the child (back-pressure). Protocol-free. Loop thread only.
 *
 * The end comes when the leader is reaped and both pipes are at EOF, or 500 ms without output after
 * the reap, or 2 s after it (decisions.md): a program left in the background does not hold it. */
#pragma once
#include "guest/caps/process.h"

struct abx_proc_spec;

struct abx_run; /* opaque */
/* What every child of the server is started by, also those of the table (process.h). */
struct abx_run_spec {
    const char *path; /* absolute; or with a slash: from cwd; else searched in search_path */
    const char *search_path;
    char *const *argv, *const *envp;
    const char *cwd;                   /* NULL: inherited */
    uint64_t timeout_ms;               /* to SIGKILL of the group; 0: none */
    uint32_t umask;                    /* 0: 022 */
    const struct abx_confine *confine; /* lib/proc/confine.h; NULL: as free as this process */
    const struct abx_user *user; /* as whom it runs, with no privileges; NULL: as this process */
    bool keeps_privileges;       /* a set-id program may give that user some (sudo) */
    int exec_fd;                 /* a file that the child finds at number 3; 0 or -1: none */
    int stdin_fd;                /* its input, the caller's own; 0: /dev/null */
};
struct abx_run_end {
    int exit_code; /* -N: killed by signal N */
    bool by_deadline;
    bool is_output_open; /* somebody still holds a pipe */
};
struct abx_run_ops {
    /** False: no more until abx_run_resume(). */
    bool (*on_data)(struct abx_run *r, enum abx_output kind, struct abx_str data);
    /** Once, the last callback. */
    void (*on_end)(struct abx_run *r, const struct abx_run_end *end);
};
/** @ret is the same for lib/proc, without output; strings are borrowed. */
void abx_run_describe(const struct abx_run_spec *spec, struct abx_proc_spec *ret);
/** Pipes of a child belong to its user, so that it can open /dev/stdout; -1 is passed over. 0 or
 * -errno. NULL: nothing to do. */
int abx_run_give(const struct abx_user *user, const int *fds, size_t count);
/** The child leads a process group, and where it is confined or this process has a terminal also a
 *  session. @err->sys tells why it could not start. On success the caller owns *ret. */
int abx_run_start(struct abx_loop *l, const struct abx_run_spec *spec,
                  const struct abx_run_ops *ops, void *owner, struct abx_run **ret,
                  struct abx_error *err);
void *abx_run_owner(const struct abx_run *r);
pid_t abx_run_pid(const struct abx_run *r);
void abx_run_resume(struct abx_run *r);
/** To the whole group, while its leader runs. */
void abx_run_signal(struct abx_run *r, int signum);
/** Lets go; a group whose leader still runs is killed. No callback after. Accepts NULL. */
void abx_run_close(struct abx_run *r);
