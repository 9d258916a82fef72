/* guest/server/exec.h: what /shell, /shell/stream and /process/start ask before they run a program.
 * server-api.md 4.5, policy.md A12. */
#pragma once
#include "guest/caps/run.h"
#include "guest/server/server_priv.h"
#include "lib/proc/confine.h"

struct abx__exec {
    struct abx_str command, cwd_given; /* in the body; cwd_given empty: none */
    struct abx_str user_asked;         /* likewise; ptr NULL: the server's */
    const struct json_t *env;          /* an object of strings, or NULL */
    const struct json_t *args;         /* an array of strings, or NULL */
    const char *shell;                 /* the shell that `command` is a line for; NULL: none */
    uint64_t timeout_ms;
    /* filled by abx__exec_judge(), in the job's arena: */
    const char *program; /* what is executed; absolute, or the word itself when nothing was found */
    const char *cwd;     /* NULL: the server's */
    char **argv, **envp;
    const struct abx_user *user; /* NULL: the server's */
    int missing;                 /* ENOENT: nothing of that name; all else was allowed */
    size_t *place;
};
/** What three endpoints share: reads the fields, takes a place (429 when @running and *reserved
 *  reach max_processes, at most 100), judges on the pool. Then @start runs on the loop with
 *  job->data a struct abx__exec and the body in job->body; the place in *reserved goes back after
 *  it. */
void abx__exec_post(struct abx__call *c, size_t running, size_t *reserved,
                    void (*start)(struct abx__job *j));
/** The exit code that a shell gives for a program that could not be executed. */
int abx__exec_code(int errnum);
/** Reads the fields of the body. False: answered. Loop thread. */
bool abx__exec_read(struct abx__call *c, struct abx__exec *x);
/** The guards and the policy, in their order; then the program, argv and environment to run. The
 * body must be the job's. False: the outcome is set. Pool thread. */
bool abx__exec_judge(struct abx__exec *x, struct abx__job *j);
/** What the server's PATH gives for a bare name, in @a; ptr NULL: nothing. Blocks. */
struct abx_str abx__exec_find(const struct abx__server *s, struct abx_str name,
                              struct abx_arena *a);
/** The process guard for a program that the server names itself. False: the verdict is set. Pool.
 */
bool abx__exec_judge_named(struct abx__job *j, struct abx_str name);
/** The one place where a call starts a program that is run to its end: what holds for every child
 * of the server is added here. As abx_run_start(). Loop thread. */
int abx__exec_start(struct abx__call *c, const struct abx_run_spec *spec,
                    const struct abx_run_ops *ops, void *owner, struct abx_run **ret,
                    struct abx_error *err);
/** The same for a process that stays in the server's table; @process says the rest of it. */
int abx__exec_keep(struct abx__call *c, const struct abx_run_spec *spec,
                   const struct abx_process_spec *process, struct abx_process **ret,
                   struct abx_error *err);
/** The cgroup of what @c starts, borrowed from its policy; NULL: none. */
struct abx_confine_group *abx__exec_group(const struct abx__call *c);
/** Keys of an answer: the kernel ended something of the caller at its bound of memory meanwhile. */
void abx__memory_put(struct abx_json_writer *w, bool is_out_of_memory);
#define ABX__MEMORY_HINT                                                                           \
    "the kernel ended a process of this caller: all of them together reached their bound of "      \
    "memory (confine.rlimits.memory)"
/** How the program of abx__exec_start() ended, for the audit line and the answer of @c. */
void abx__exec_note_end(struct abx__call *c, const struct abx_run_end *end);

/* A program of a call that is asked to end when the server stops. */
struct abx__running {
    struct abx_list node; /* of server->shells */
    struct abx__server *server;
    struct abx_run *run; /* NULL: not yet */
};
void abx__running_add(struct abx__running *r, struct abx__server *s);
/** Lets go of it: its group is killed while its leader runs. */
void abx__running_remove(struct abx__running *r);
