/* host/engine/exec_priv.h: the engine's own commands in a sandbox, through its envd. Loop thread.
 */
#pragma once
#include "host/engine/sandbox_priv.h"
#include "lib/wire/envelope.h"

struct abx__exec;
struct abx__exec_ops {
    /** The process is there. May be NULL. */
    void (*on_started)(struct abx__exec *x);
    /** Output, bytes as they come. */
    void (*on_output)(struct abx__exec *x, bool is_stderr, struct abx_str text);
    /** Over. @err NULL: the command ended with @exit_code (128+N: a signal). */
    void (*on_end)(struct abx__exec *x, int exit_code, const struct abx_error *err);
};
/* Embedded by its owner; zero it before the first start. */
struct abx__exec {
    const struct abx__exec_ops *ops;
    void *owner;
    struct abx_http_call *call; /* NULL: nothing runs */
    struct abx_envelope_reader reader;
    struct abx_arena arena; /* of one message */
    struct abx_buf refusal; /* body of an answer that is not 200 */
    int status, exit_code;
    bool has_started, has_ended;
};
struct abx__exec_spec {
    struct abx__sandbox *sandbox; /* provisioned */
    const char *command;          /* for /bin/bash -l -c, as the default user */
    struct abx_str envs;          /* JSON object of more variables; ptr NULL: none */
    uint64_t timeout_ms;          /* 0: none */
};
/** Starts; no callback runs from within. */
int abx__exec_start(struct abx__exec *x, const struct abx__exec_spec *spec, struct abx_error *err);
/** Lets go of it: no callback any more; the command itself runs on. Also ends an ended one. */
void abx__exec_done(struct abx__exec *x);

/* Reads one small file of a sandbox, or another answer of its envd. */
struct abx__fetch {
    /** @err NOT_FOUND: there is no such file. */
    void (*fn)(struct abx__fetch *f, struct abx_str text, const struct abx_error *err);
    void *owner;
    struct abx_http_call *call;
    struct abx_buf body;
    int status;
};
int abx__fetch_start(struct abx__fetch *f, struct abx__sandbox *sb, const char *path,
                     size_t max_bytes, struct abx_error *err);
/** GET of @target, a path of envd's own. */
int abx__fetch_get(struct abx__fetch *f, struct abx__sandbox *sb, const char *target,
                   size_t max_bytes, struct abx_error *err);
void abx__fetch_done(struct abx__fetch *f);
