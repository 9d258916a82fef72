/* guest/caps/process.h: the processes that the API started: table, output journal, subscribers.
 *
 * A process belongs to the table, not to whoever started it. All output goes into the journal of
 * the process (journal.h: memory, then an unlinked file, then an explicit gap); subscribers read
 * the journal, each at its own position. While somebody subscribes, a lag of ABX_PROCESS_LAG bytes
 * stops the reading of the child's pipes, so the child blocks; with nobody there the pipes are
 * drained into the journal, bulk at 100 MiB/s for all such processes together. Ended processes stay
 * for 10 minutes.
 *
 * `end` comes when the leader is reaped and both pipes are at EOF, or 500 ms without output after
 * the reap, or 2 s after it, whichever is first (decisions.md). Time in which a slow subscriber
 * keeps the pipes unread does not count. Loop thread only; callbacks may call anything here. */
#pragma once
#include "guest/caps/users.h"
#include "lib/contract/contract.h"
#include "lib/loop/loop.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ABX_PROCESS_CHUNK = ABX_DATA_CHUNK_BYTES, /* bytes of one data event at most */
    ABX_PROCESS_LAG = 128 * 1024,       /* unread bytes of a subscriber that pause the child */
    ABX_PROCESS_INPUT = 4 * 1024 * 1024 /* bytes of stdin waiting at most */
};

enum abx_output { ABX_OUTPUT_STDOUT, ABX_OUTPUT_STDERR, ABX_OUTPUT_PTY };

struct abx_env_pair {
    struct abx_str name, value;
};

struct abx_run_spec;

/* Somebody who hears of a process without holding it up. Called while the object exists. */
struct abx_process_tap {
    /** Output as it is read, before it is in the journal. May be NULL. */
    void (*on_output)(void *arg, enum abx_output kind, struct abx_str data);
    void (*on_ended)(void *arg); /* `end` has been decided. May be NULL */
};

struct abx_process_spec {
    /* What is executed, with arguments, environment and folder ready (run.h; its deadline is not
     * looked at). Then `cmd` is only remembered, args to user but for the tag are not looked at,
     * and a program that can not be executed is a failure of the start, err->sys saying why. NULL:
     * by what follows. */
    const struct abx_run_spec *program;
    const struct abx_process_tap *tap; /* NULL: none */
    void *tap_arg;
    struct abx_str cmd;
    const struct abx_str *args;
    size_t arg_count;
    const struct abx_env_pair *envs; /* of the request; the last wins */
    size_t env_count;
    const struct abx_env_pair *globals; /* of the daemon (/init); under `envs` */
    size_t global_count;
    struct abx_str cwd;       /* absolute, resolved (abx_path_resolve) */
    struct abx_str cwd_given; /* as the request had it, for List; ptr NULL: not given */
    const struct abx_user *user;
    struct abx_str tag; /* ptr NULL: none */
    bool has_stdin;     /* a pipe kept open; else /dev/null */
    bool may_be_sh;     /* a bash that the image lacks: its sh takes the place (case T06) */
    bool has_pty;
    uint16_t cols, rows;               /* of the pty; 0: 80x24 */
    uint64_t deadline_ms;              /* from now to SIGKILL of the group; 0: none */
    const struct abx_confine *confine; /* lib/proc/confine.h; NULL: as free as this process */
};

struct abx_process_end {
    bool exited;      /* else by signal */
    int exit_code;    /* -1 by signal */
    int signum;       /* of that signal, else 0 */
    bool by_deadline; /* the kill deadline of the spec passed */
    char status[64];  /* "exit status 7", "signal: killed" */
};

struct abx_procs;       /* the table */
struct abx_process;     /* one process; borrowed from the table, see abx_process_ref() */
struct abx_process_sub; /* one subscription */

struct abx_procs_config {
    const char *path;      /* the daemon's PATH; NULL: the usual one */
    const char *spill_dir; /* where journals spill (unlinked files); NULL: /tmp */
    uint64_t keep_ms;      /* how long ended processes stay; 0: 10 minutes */
};

int abx_procs_new(struct abx_loop *l, const struct abx_procs_config *config, struct abx_procs **ret,
                  struct abx_error *err);
/** Kills every group that still runs (SIGKILL), ends subscriptions without a callback, lets go of
 *  the journals. Memory goes when the loop has reaped the children and closed the handles; run the
 *  loop until then. */
void abx_procs_close(struct abx_procs *t);

/** Starts a process. It is in the table until 10 minutes after its end. A missing or forbidden
 *  executable is no failure: the process starts, says so on stderr and ends with 127 or 126.
 *  Subscribe in the same turn of the loop and no byte is missed (output starts the turn after).
 *  INVALID_ARGUMENT: "cwd '/x' does not exist", "error starting process 'cmd args': ...".
 *  RESOURCE_EXHAUSTED: no memory, pids or descriptors. */
int abx_process_start(struct abx_procs *t, const struct abx_process_spec *spec,
                      struct abx_process **ret, struct abx_error *err);

/** Live or remembered. NULL: none ("process with pid N not found" is the caller's text). A live
 *  process wins over an ended one with the same pid or tag, then the newest. */
struct abx_process *abx_procs_by_pid(struct abx_procs *t, uint32_t pid);
struct abx_process *abx_procs_by_tag(struct abx_procs *t, struct abx_str tag);
/** Walks the live ones, oldest first: start with NULL; NULL at the end. */
struct abx_process *abx_procs_next_live(struct abx_procs *t, struct abx_process *after);
size_t abx_procs_live_count(const struct abx_procs *t);

/** Keeps the object (not the child) past its removal from the table. */
struct abx_process *abx_process_ref(struct abx_process *p);
void abx_process_unref(struct abx_process *p);

/** Never 0. Above 4194304 for a process whose executable did not exist (no kernel pid). */
uint32_t abx_process_pid(const struct abx_process *p);
/** The leader is not reaped yet. */
bool abx_process_is_running(const struct abx_process *p);
/** `end` has been decided: abx_process_end_info() is valid. */
bool abx_process_has_ended(const struct abx_process *p);
const struct abx_process_end *abx_process_end_info(const struct abx_process *p);
bool abx_process_has_pty(const struct abx_process *p);
/** Command, arguments, request envs, cwd_given and tag as started; after the end the command and
 *  the tag only. globals, user, cwd are never kept. */
const struct abx_process_spec *abx_process_config(const struct abx_process *p);
/** First and next byte offset of the journal. */
uint64_t abx_process_journal_start(const struct abx_process *p);
uint64_t abx_process_journal_end(const struct abx_process *p);

struct abx_process_sub_ops {
    /** One chunk (<= ABX_PROCESS_CHUNK), at journal offset @offset; the memory is valid during the
     *  call. False: no more until abx_process_resume(). */
    bool (*on_data)(struct abx_process_sub *s, enum abx_output kind, uint64_t offset,
                    struct abx_str data);
    /** The journal no longer has @lost bytes from @offset on. May be NULL. Only for a
     *  subscription with an offset. */
    void (*on_gap)(struct abx_process_sub *s, uint64_t offset, uint64_t lost);
    /** Everything before the end has been delivered. The last callback; unsubscribe as usual. */
    void (*on_end)(struct abx_process_sub *s, const struct abx_process_end *end);
};

#define ABX_PROCESS_FROM_NOW UINT64_MAX
/** Subscribes from journal offset @from, or from now. Callbacks begin the turn after, also for an
 *  ended process (then: kept output from @from, and the end). The subscription holds a ref. */
int abx_process_subscribe(struct abx_process *p, uint64_t from,
                          const struct abx_process_sub_ops *ops, void *owner,
                          struct abx_process_sub **ret, struct abx_error *err);
/** No callback comes after. Accepts NULL. */
void abx_process_unsubscribe(struct abx_process_sub *s);
/** Asks for data again after on_data answered false. */
void abx_process_resume(struct abx_process_sub *s);
void *abx_process_sub_owner(const struct abx_process_sub *s);
struct abx_process *abx_process_sub_process(const struct abx_process_sub *s);

/** Called once all bytes are in the pipe (err NULL) or will never be. */
typedef void abx_process_written_fn(void *arg, const struct abx_error *err);
/** Writes to stdin (or to the pty, with @to_pty); copies @data. On success (0) @fn comes exactly
 *  once, in a later turn, unless cancelled; on -1 never.
 *  INTERNAL: the texts of envd.md 5.8. RESOURCE_EXHAUSTED: ABX_PROCESS_INPUT bytes wait already. */
int abx_process_write(struct abx_process *p, bool to_pty, struct abx_str data,
                      abx_process_written_fn *fn, void *arg, struct abx_error *err);
/** Forgets the callbacks that carry @arg; the bytes are still written. */
void abx_process_write_cancel(struct abx_process *p, const void *arg);
/** EOF on stdin after what waits is written. Repeating it, or no stdin, is success. UNKNOWN for a
 *  pty. */
int abx_process_close_stdin(struct abx_process *p, struct abx_error *err);
/** To the process group. @signum 1..64. INVALID_ARGUMENT; INTERNAL when the leader is reaped and
 *  its group is gone. */
int abx_process_signal(struct abx_process *p, int signum, struct abx_error *err);
/** To the foreground job of the terminal; one that no key gives (all but SIGINT, SIGQUIT, SIGTSTP)
 *  also to the leader's group when that is another one. FAILED_PRECONDITION without a terminal;
 * else as above. */
int abx_process_signal_terminal(struct abx_process *p, int signum, struct abx_error *err);
/** To the leader alone. Errors as abx_process_signal(). */
int abx_process_signal_leader(struct abx_process *p, int signum, struct abx_error *err);
/** SIGKILL to every process that still is in the session of @p, leader or not. Reads /proc. */
void abx_process_kill_session(struct abx_process *p);
/** No call of the tap any more. */
void abx_process_untap(struct abx_process *p);
/** INTERNAL "error resizing tty: tty not assigned to process". */
int abx_process_resize(struct abx_process *p, uint16_t cols, uint16_t rows, struct abx_error *err);
