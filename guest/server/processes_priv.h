/* guest/server/processes_priv.h: the processes that /process/start started: what the files of the
 * group share. server-api.md 4.5. Loop thread only. */
#pragma once
#include "guest/caps/process.h"
#include "guest/server/capture.h"
#include "guest/server/exec.h"
#include "guest/server/owner.h"
#include "guest/server/server_priv.h"
#include "lib/proc/confine.h"

/* Belongs to the server's list; ended ones stay for ABX_PROCESS_KEPT_S. */
struct abx__started {
    struct abx_list node; /* of server->started, oldest first */
    struct abx__server *server;
    struct abx_process *process; /* counted */
    char *command, *owner;       /* heap */
    int64_t started_wall_ns, ended_ms;
    bool is_revoked, has_capture, has_stdin, is_stdin_closed;
    struct abx__capture capture;
    struct abx_confine_group *group; /* counted; NULL: none */
    uint64_t oom_kills;              /* of it, when the process started */
    bool is_out_of_memory;
    struct abx_list waiters; /* calls of /output that wait: process_output.c */
};

/** The process that {pid} names and the caller may see: a living one before an ended one, then the
 * newest. NULL: answered with 400 or 404. */
struct abx__started *abx__started_find(struct abx__call *c);
/** As above in two steps: the number first. False: answered. */
bool abx__started_pid(struct abx__call *c, int64_t *ret);
struct abx__started *abx__started_by_pid(struct abx__call *c, int64_t pid);
/** exited with N, or -N for signal N. */
int abx__started_exit_code(const struct abx__started *p);

/* process_output.c */
void abx__process_output_get(struct abx__call *c);
/** Answers those for whom there is something now; all of them when @all. */
void abx__process_output_wake(struct abx__started *p, bool all);
/* process_input.c */
void abx__process_stdin_post(struct abx__call *c);
void abx__process_signal_post(struct abx__call *c);
/* process_journal.c */
void abx__process_journal_get(struct abx__call *c);
void abx__journals_leave(struct abx__server *s);
