/* guest/server/hosts/host_priv.h: what host.c (the process) and calls.c (its calls) share. */
#pragma once
#include "guest/server/hosts/host.h"
#include "lib/base/arena.h"
#include "lib/loop/stream.h"
#include "lib/proc/proc.h"

enum abx__host_state {
    ABX__HOST_STARTING, /* until its hello */
    ABX__HOST_READY,
    ABX__HOST_ENDING,  /* until process and socket are gone */
    ABX__HOST_BACKOFF, /* until the next start, or for good with is_failed */
    ABX__HOST_GONE,
    ABX__HOST__STATES
};

struct abx_host {
    struct abx_loop *loop;
    const struct abx_host_ops *ops;
    void *arg;
    struct abx_host_options o; /* copies in the arena */
    struct abx_arena arena;
    const char *name;
    enum abx__host_state state;
    int64_t since_ms, exit_ms;
    uint32_t backoff_ms;
    struct abx_proc *proc;
    struct abx_proc_status status;
    struct abx_stream stream;
    struct abx_host_lines lines;
    struct abx_buf hello; /* the first one */
    struct abx_timer timer;
    int archive_fd;
    char why[240];
    unsigned ticks;
    bool has_warned; /* of children that hold the socket */
    bool has_stream, has_status, was_killed, was_ready, is_deaf, is_closing, is_failed, is_attached;
    int64_t log_second;
    size_t log_bytes;
    /* calls.c */
    struct abx_list calls;   /* struct abx_host_call */
    struct abx_list matches; /* struct match */
    size_t call_count;
    uint64_t last_question;
};

extern const struct abx_host_ops abx__host_no_ops;

void abx__host_send(struct abx_host *h, const struct abx_buf *line);
/** Ends a host that broke the protocol or does not answer. */
void abx__host_kill(struct abx_host *h, const char *why);

/** A child of the process that holds descriptor 3 as it does; 0: none. inherited.c */
int abx__host_heir(int pid);

/* calls.c */
void abx__host_take_answer(struct abx_host *h, const struct abx_host_message *m);
void abx__host_take_match(struct abx_host *h, const struct abx_host_message *m);
void *abx__host_call_arg(struct abx_host *h, uint64_t id);
/** Fails what was sent: 502. */
void abx__host_fail_calls(struct abx_host *h, const char *type, const char *text);
/** Fails what waits to be sent: 503; @all or only what has waited too long. */
void abx__host_fail_waiting(struct abx_host *h, const char *text, bool all);
void abx__host_send_waiting(struct abx_host *h);
void abx__host_sweep(struct abx_host *h, int64_t now);
