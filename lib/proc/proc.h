/* lib/proc/proc.h: the only folder that forks and waits: children, roles, namespaces, reaping.
 *
 * Every child is known by pid and pidfd together, so a recycled pid is never signalled. Each
 * process has one reaper: a daemon reaps its own children by their pidfds on the loop; PID 1 reaps
 * all. */
#pragma once
#include "lib/base/err.h"
#include "lib/loop/loop.h"

#include <stdint.h>
#include <sys/types.h>

struct abx_confine;

struct abx_proc_status {
    bool exited; /* else killed by `signum` */
    int exit_code;
    int signum;
    bool core_dumped;
};
/** "exit status 7", "signal: killed", "signal: segmentation fault (core dumped)" (envd.md 5.6). */
void abx_proc_status_text(const struct abx_proc_status *st, char out[64]);

enum { ABX_PROC_OOM_USER = 100 }; /* of what users start: before the daemons */

/* What a child gets; everything is prepared before the fork, only system calls run after it. */
struct abx_proc_spec {
    const char *path;        /* absolute, or searched in `search_path` */
    const char *search_path; /* PATH text; NULL: no search */
    char *const *argv;
    char *const *envp;
    const char *cwd; /* NULL: inherited */
    int stdio[3];    /* descriptors for 0, 1, 2 (kept by the caller); -1: /dev/null */
    int exec_fd;     /* script memfd passed as-is and kept open at number 3; 0 or -1: none */
    int tty_fd;      /* becomes the controlling terminal and 0,1,2; 0 or -1: none */
    bool set_ids;    /* switch to uid, gid, groups */
    uid_t uid;
    gid_t gid;
    const gid_t *groups;
    size_t group_count;
    /* No capability in any set, that which bounds included, and no set-id program gives one (S84):
     * also without `confine`, which says it for itself. */
    bool no_privileges;
    int oom_score_adj;    /* INT_MIN: left alone; set where permitted. ABX_PROC_OOM_USER */
    bool reset_nice;      /* nice 0, I/O class none; set where permitted */
    bool new_session;     /* setsid; else a process group of its own. Implied by tty_fd */
    bool die_with_parent; /* SIGKILL to the child when the spawning thread is gone */
    uint32_t umask;       /* 0: 022 */
    const struct abx_confine *confine; /* confine.h; NULL: as free as this process */
};

/** This thread has the capability (CAP_*) in force. */
bool abx_proc_has_capability(int capability);

struct abx_proc; /* a running child on a loop */
typedef void abx_proc_exit_fn(struct abx_proc *p, const struct abx_proc_status *st, void *arg);

/** Forks and execs. On return the exec has succeeded, or err tells the failed step (errno in sys:
 *  NOT_FOUND no such program, INVALID_ARGUMENT cwd or not executable). The caller owns *ret:
 *  abx_proc_close(). @on_exit runs on the loop once, after the reap. Other descriptors are closed.
 */
int abx_proc_spawn(struct abx_loop *l, const struct abx_proc_spec *spec, abx_proc_exit_fn *on_exit,
                   void *arg, struct abx_proc **ret, struct abx_error *err);
pid_t abx_proc_pid(const struct abx_proc *p);
bool abx_proc_is_running(const struct abx_proc *p);
/** To the whole process group of the child (kill(-pgid)). -ESRCH when it is gone. Signals 1..64. */
int abx_proc_signal_group(struct abx_proc *p, int signum);
/** To the child alone, by pidfd. */
int abx_proc_signal(struct abx_proc *p, int signum);
/** SIGKILL to every process of the session @sid: those whose leader is gone too. Blocks on /proc.
 */
void abx_proc_kill_session(pid_t sid);
/** For a process that others wait for: from now on the calling thread, and threads made later, run
 *  soon rather than long (Linux 6.12; else nothing changes). Their share of the processor stays the
 *  same. A child does so until it has become its program. */
void abx_proc_prefer_latency(void);
/** Lets go of the object; a still running child goes on and is reaped in the background. */
void abx_proc_close(struct abx_proc *p);
/** Lets go for good: nobody here reaps the child any more. For a program that ends before it. */
void abx_proc_disown(struct abx_proc *p);

/** Forks this binary into a role: the child runs @fn(arg) and exits with its result. No exec.
 *  Signals are reset, @keep_fds (count) stay open besides 0-2, all others are closed. comm and
 *  argv[0] become @name. For init's services and the engine's runtime side. The caller has no other
 *  threads. Returns the pid and, when @ret_pidfd is not NULL, a CLOEXEC pidfd; or -errno. */
pid_t abx_proc_fork_role(const char *name, int (*fn)(void *arg), void *arg, const int *keep_fds,
                         size_t keep_count, int *ret_pidfd);
/* A role in new namespaces. */
struct abx_proc_role {
    const char *name;
    int (*fn)(void *arg);
    void *arg;
    const int *keep_fds;
    size_t keep_count;
    uint64_t namespaces; /* CLONE_NEW*; CLONE_NEWPID makes the child PID 1 of its own */
};
/** As abx_proc_fork_role(). With CLONE_NEWUSER the child starts without mapped ids: the parent
 *  writes the maps. */
pid_t abx_proc_clone_role(const struct abx_proc_role *role, int *ret_pidfd);
/** The pid of a dead child that waits to be reaped, which it goes on doing; 0 if none, -ECHILD. */
pid_t abx_proc_peek_any(void);
/** Reaps any one child if one is waiting: its pid, 0 if none, -ECHILD. For PID 1 (no allocation).
 */
pid_t abx_proc_reap_any(struct abx_proc_status *ret);
/** Blocks until @pid is reaped. 0 or -errno. */
int abx_proc_wait(pid_t pid, struct abx_proc_status *ret);
/** Remembers where argv lives, so that roles can be renamed, and gives @argv copies of its strings
 *  instead (the caller may hold on to those). First thing in main(), once. */
void abx_proc_init_title(int argc, char **argv);
