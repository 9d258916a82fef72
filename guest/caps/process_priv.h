/* guest/caps/process_priv.h: what the process_*.c files share. Loop thread only. */
#pragma once
#include "guest/caps/environ.h"
#include "guest/caps/journal.h"
#include "guest/caps/process.h"
#include "lib/base/list.h"
#include "lib/loop/stream.h"
#include "lib/proc/proc.h"

enum {
    ABX__ENDED_MAX = 1000,      /* ended processes remembered */
    ABX__QUIET_MS = 500,        /* silence after the reap that ends a process */
    ABX__TAIL_MS = 2000,        /* and the longest wait after it */
    ABX__PID_MADE_UP = 4194305, /* above every kernel pid: processes that could not exec */
    ABX__INPUT_WRITES = 1024,   /* stdin writes waiting at most */
    ABX__ARG_MAX = 128 * 1024,  /* MAX_ARG_STRLEN of the kernel, with the terminator */
    ABX__PTY_CHUNK = 16 * 1024,
    ABX__DRAIN_MS = 10,  /* in which all processes that nobody hears and */
    ABX__DRAIN_TURN = 16 /* write to disk get so many chunks read: 100 MiB/s */
};
#define ABX__ENDED_BYTES (512ull * 1024 * 1024) /* journals of all ended processes together */

enum abx__process_state { ABX__RUNNING, ABX__REAPED, ABX__ENDED, ABX__STATE_COUNT };

struct abx_procs {
    struct abx_loop *loop;
    char *path;
    char *spill_dir;
    uint64_t keep_ms;
    struct abx_list live, ended; /* struct abx_process, oldest first */
    size_t live_count, ended_count;
    struct abx_timer expiry;
    struct abx_timer drain;    /* lets throttled ones read on */
    struct abx_list throttled; /* struct abx_process, by `throttle` */
    unsigned drain_left;       /* chunks until its next turn */
    uint32_t next_made_up_pid;
    unsigned refs; /* the owner, the timers, each process */
    bool closing;
    char *scratch; /* for reading journals, ABX_DATA_CHUNK_BYTES */
};

/* What only a process with open descriptors needs. Freed when the last handle is closed. */
struct abx__process_io {
    struct abx_process *process;
    struct abx_stream out[2]; /* stdout, stderr; a pty: out[0], which also takes input */
    struct abx_stream in;
    struct abx_timer timer; /* the deadline, then the rule for `end` */
    struct abx_defer flush; /* input */
    struct abx_list writes; /* struct input_write */
    size_t write_count, write_bytes;
    unsigned handles;
    bool eof[2];
    bool in_open, in_closing, in_broken;
    bool is_paused;
    int64_t paused_at, reaped_at, data_at, tail_until; /* monotonic ms */
};

struct abx_process {
    struct abx_list node; /* of live or ended */
    struct abx_list throttle;
    struct abx_procs *table;
    struct abx__process_io *io;
    struct abx_proc *proc;
    struct abx_journal journal;
    struct abx_list subs;
    struct abx_process_spec config;
    void *config_memory;
    const struct abx_process_tap *tap;
    void *tap_arg;
    struct abx_defer failed; /* tells later that there was no such executable */
    int failed_errno;
    uint32_t pid;
    unsigned refs;
    unsigned delivering; /* subscribers that hold a piece of the journal right now */
    enum abx__process_state state;
    struct abx_process_end end;
    uint64_t end_offset; /* of the journal when `end` was decided */
    int64_t ended_at;
    bool in_table, discards; /* discards: nobody can read the journal any more */
};

/* process.c */
void abx__process_on_reaped(struct abx_process *p, const struct abx_proc_status *st);
void abx__process_on_output(struct abx_process *p, enum abx_output kind, const char *data,
                            size_t len);
/* A subscriber took data, came or went: reads on or pauses. */
void abx__process_update_reading(struct abx_process *p);
/* Starts or stops the pipes as subscribers and the throttle want it. */
void abx__process_apply_reading(struct abx_process *p);
/* Closes every handle; output that still comes is lost. */
void abx__process_close_io(struct abx_process *p);

/* process_table.c */
void abx__procs_add(struct abx_procs *t, struct abx_process *p);
/* A chunk of @p was read that nobody hears and went to disk: when such processes together had their
 * share for now, it stops until its turn comes. */
void abx__procs_throttle(struct abx_procs *t, struct abx_process *p);
void abx__procs_unthrottle(struct abx_process *p);
void abx__procs_on_ended(struct abx_procs *t, struct abx_process *p);
void abx__procs_unref(struct abx_procs *t);
int abx__process_pack(struct abx_process *p, const struct abx_process_spec *spec,
                      struct abx_error *err);
/* Forgets arguments and environment of an ended process. */
void abx__process_shrink(struct abx_process *p);

/* process_spawn.c */
/* Starts the child and opens the streams of p->io. Sets proc and pid, or failed_errno when the
 * executable is missing or forbidden. */
int abx__process_spawn(struct abx_process *p, const struct abx_process_spec *spec,
                       struct abx_error *err);
void abx__io_unref(struct abx__process_io *io);
extern const struct abx_stream_ops abx__output_ops;

/* process_sub.c */
void abx__process_kick_subs(struct abx_process *p);
/* Whether a subscriber is at least @bytes behind. */
bool abx__process_lags(const struct abx_process *p, uint64_t bytes);
void abx__process_limit_subs(struct abx_process *p);

/* process_input.c */
extern const struct abx_stream_ops abx__input_ops;
void abx__input_on_drain(struct abx__process_io *io);
/* No more input can be written: fails what waits, closes stdin. */
void abx__input_end(struct abx__process_io *io, const char *why);
