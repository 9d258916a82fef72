/* guest/server/hosts/host.h: one command host: a process that runs user code, its calls and its
 * restarts.
 *
 * Started once; restarted when it dies after its first hello, as long as it says the same again
 * (security.md S31). Calls made meanwhile wait for it a little. Whoever breaks the protocol is
 * killed (S33). Loop thread only; no callback runs from inside a call of the owner. Spec:
 * command-hosts.md 3, 5. */
#pragma once
#include "guest/server/hosts/protocol.h"
#include "lib/loop/loop.h"

struct abx_confine;

struct abx_host;      /* opaque */
struct abx_host_call; /* opaque: one call in flight */

/* What becomes of one call. Exactly one of failed, result, error, response, ended comes, then no
 * more. */
struct abx_host_call_ops {
    void (*result)(void *arg, struct abx_str value); /* JSON */
    /** Of user code: status 400.., JSON strings; after a head the stream is broken. */
    void (*error)(void *arg, const struct abx_host_message *m);
    void (*response)(void *arg, const struct abx_host_message *m);
    void (*head)(void *arg, const struct abx_host_message *m);
    /** A piece of the stream. False: send no more before abx_host_call_resume(). */
    bool (*chunk)(void *arg, const char *data, size_t len);
    void (*ended)(void *arg);
    /** The host is gone, deaf or not there: 502, 503 or 504 and the type of the answer. */
    void (*failed)(void *arg, int status, const char *type, const char *text);
};

struct abx_host_ops {
    /** The first hello. 0: taken; -1: the host is told to go, on_failed follows with the text.
     * @hello is the line. */
    int (*hello)(void *arg, struct abx_str hello, struct abx_error *err);
    /** It ended before it was ready. @exit_code: its own, or 1; err->msg is empty when it has said
     * itself what is wrong. */
    void (*failed)(void *arg, int exit_code, const struct abx_error *err);
    /** A question: answer it by abx_host_answer(), at once or later. @call_arg: the owner of the
     * call with m->id, NULL when there is none. */
    void (*ask)(void *arg, const struct abx_host_message *m, void *call_arg);
    void (*groups)(void *arg, struct abx_str disable); /* JSON array of names */
    void (*stop)(void *arg);                           /* the file's own shutdown() */
    /** A host that was attached, not started, is gone. */
    void (*gone)(void *arg);
    void (*closed)(void *arg); /* after abx_host_close(): the last callback */
};

struct abx_host_options {
    const char *name;    /* in log lines */
    const char *program; /* looked up in search_path when it has no slash */
    const char *search_path;
    char *const *argv;
    char *const *envp;   /* ABX_HOST_FD is added */
    const void *archive; /* becomes its standard input; NULL: none */
    size_t archive_len;
    bool is_packed;                    /* the archive, as unpack.h has it */
    const struct abx_confine *confine; /* counted; NULL: as free as this process */
    int attached_fd;                   /* a host that runs already; 0 or -1: start one */
    bool warns_of_heirs;               /* says so when its children hold the socket (S33) */
    struct abx_str base_dir, version;
    uint32_t hello_ms, restart_min_ms, restart_max_ms, wait_ms, deaf_ms,
        stop_ms; /* 0: as specified */
};

/** Everything in @o but the archive is copied. Starts the process; what fails later comes by
 * ops->failed. Takes o->attached_fd, also on failure. */
int abx_host_open(struct abx_loop *l, const struct abx_host_options *o,
                  const struct abx_host_ops *ops, void *arg, struct abx_host **ret,
                  struct abx_error *err);
/** Tells it to end, then SIGKILL; ops->closed comes once it is reaped. Calls in flight fail first.
 */
void abx_host_close(struct abx_host *h);
/** The process, 0 when none runs. */
int abx_host_pid(const struct abx_host *h);

/** Makes a call; @text->id is given by the host. NULL: ops->failed was not called, and the reason
 * stands in *ret_why as a status: 429 too many, 503 no memory. */
struct abx_host_call *abx_host_call_start(struct abx_host *h, struct abx_host_call_text *text,
                                          const struct abx_host_call_ops *ops, void *arg,
                                          int *ret_why);
/** The caller is gone: nothing more comes for it. @c is not the caller's any more. NULL is fine. */
void abx_host_call_cancel(struct abx_host_call *c);
void abx_host_call_resume(struct abx_host_call *c);

/** Answers the question @q: @ok with a JSON value (may be empty), else @refusal, the members of an
 * object without its brackets. */
void abx_host_answer(struct abx_host *h, uint64_t q, bool ok, struct abx_str json);

/** Asks whether route @n of the host takes @path. @done: JSON object of the path's parts; "null"
 * when not, empty when nobody answered in time. */
typedef void abx_host_match_fn(void *arg, struct abx_str params);
/** Returns a number for abx_host_match_cancel(), 0 when it can not ask. */
uint64_t abx_host_match(struct abx_host *h, size_t n, struct abx_str path, abx_host_match_fn *done,
                        void *arg);
void abx_host_match_cancel(struct abx_host *h, uint64_t q);
