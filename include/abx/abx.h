/* abx/abx.h: libabx, a C client for E2B-compatible sandbox platforms and the local engine.
 *
 * Calls block, with a deadline each; a client may be shared by threads (calls on it run one after
 * the other). Functions return 0, or -1 with *err filled. Strings in are UTF-8 and borrowed for the
 * call; strings out belong to their result and go with its _free. Every _free and _close accepts
 * NULL. */
#ifndef ABX_ABX_H
#define ABX_ABX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ABX_API __attribute__((visibility("default")))

/* What went wrong. `id` is stable (E1001 API key refused, E2001 template unknown, E2002 quota,
 * E2009 sandbox unknown, E2000 create failed, E3001 time limit, E3005 named command unknown, E3006
 * envd refused, E4000 to E4003 files, E5001 no connection, E8002 configuration, E8004 not
 * supported, E9000 server error, E9001 server credentials, E9002 policy denial, E9003 endpoint off,
 * E9004 too large, E9005 rate). */
struct abx_client_error {
    char id[8];
    int http_status; /* 0: no answer */
    char hop[12];    /* client, engine, edge, envd, server */
    char message[400];
    char next[200]; /* what to do; may be "" */
};
/** The exit code that belongs to an error: 1 general, 2 usage, 3 auth, 4 not found, 5 timeout,
 *  6 quota. */
ABX_API int abx_client_error_exit(const struct abx_client_error *err);

/* NULL and 0 stand for: environment (ABX_SANDBOX_BASE_URL, ABX_SANDBOX_API_KEY, then E2B_API_URL,
 * E2B_API_KEY), then the client configuration ($ABX_STATE/client.yaml, else
 * ~/.config/abx/config.yaml). */
struct abx_client_options {
    const char *url;     /* "http://127.0.0.1:3000" */
    const char *api_key; /* "e2b_..." */
    uint32_t timeout_ms; /* of one request; default 60 s */
};
/** Where the client configuration is looked for; heap string, NULL without memory. */
ABX_API char *abx_client_config_path(void);

struct abx_client;
ABX_API int abx_client_open(const struct abx_client_options *o, struct abx_client **ret,
                            struct abx_client_error *err);
ABX_API void abx_client_close(struct abx_client *c);
/** Borrowed from the client. */
ABX_API const char *abx_client_url(const struct abx_client *c);
ABX_API const char *abx_client_api_key(const struct abx_client *c);
/** Domain under which ports of sandboxes have names: ABX_SANDBOX_DOMAIN, E2B_DOMAIN, then the
 *  configuration; "" if none is known. */
ABX_API const char *abx_client_domain(const struct abx_client *c);
/** Any request to the API: *ret_status, and the body as a heap string (free()). */
ABX_API int abx_client_request(struct abx_client *c, const char *method, const char *path,
                               const char *json, int *ret_status, char **ret_body,
                               struct abx_client_error *err);

struct abx_pair {
    const char *key, *value;
};
struct abx_create_options {
    const char *template_name;       /* default "base" */
    uint32_t timeout_s;              /* default 300 */
    const struct abx_pair *metadata; /* a NULL key ends */
    const struct abx_pair *env;
};
struct abx_sandbox;
/** Makes a sandbox; free the handle with abx_sandbox_free(), which does not kill it. */
ABX_API int abx_sandbox_create(struct abx_client *c, const struct abx_create_options *o,
                               struct abx_sandbox **ret, struct abx_client_error *err);
/** A handle on a running sandbox; its timeout becomes at least @timeout_s (0: 300). */
ABX_API int abx_sandbox_connect(struct abx_client *c, const char *id, uint32_t timeout_s,
                                struct abx_sandbox **ret, struct abx_client_error *err);
ABX_API void abx_sandbox_free(struct abx_sandbox *sb);
ABX_API const char *abx_sandbox_id(const struct abx_sandbox *sb);
ABX_API int abx_sandbox_kill(struct abx_client *c, const char *id, struct abx_client_error *err);
ABX_API int abx_sandbox_set_timeout(struct abx_client *c, const char *id, uint32_t timeout_s,
                                    struct abx_client_error *err);

struct abx_sandbox_row {
    char *id, *template_name, *state, *started_at, *end_at;
    uint32_t cpu_count, memory_mb;
};
struct abx_sandbox_list {
    struct abx_sandbox_row *rows;
    size_t count;
};
/** All of them, every page. */
ABX_API int abx_sandbox_list(struct abx_client *c, struct abx_sandbox_list *ret,
                             struct abx_client_error *err);
ABX_API void abx_sandbox_list_free(struct abx_sandbox_list *l);

/* One command. Exactly one of argv and attach_pid. */
struct abx_exec_options {
    const char *const *argv; /* run as is, no shell; NULL ends */
    const char *cwd;         /* default: the sandbox's */
    const char *user;        /* default: the sandbox's */
    const struct abx_pair *env;
    uint32_t timeout_ms;  /* of the command; 0: none */
    uint32_t attach_pid;  /* joins a running (or just ended) process instead */
    int64_t replay_from;  /* with attach_pid: byte of its output to begin at; -1: new output only */
    int stdin_fd;         /* streamed to the command until EOF; -1: no stdin */
    bool forward_signals; /* INT, TERM, HUP, QUIT of this process go to the command's group */
    bool detach;          /* returns once the command has started */
    void (*on_start)(void *arg, uint32_t pid);
    void (*on_stdout)(void *arg, const char *data, size_t len);
    void (*on_stderr)(void *arg, const char *data, size_t len);
    void *arg;
};
struct abx_exec_result {
    int exit_code;   /* of the command, when it exited */
    bool exited;     /* else ended by a signal, */
    char status[64]; /* whose text is here: "signal: killed" */
    int signum;      /* 0: exited or unknown */
};
ABX_API int abx_sandbox_exec(struct abx_sandbox *sb, const struct abx_exec_options *o,
                             struct abx_exec_result *ret, struct abx_client_error *err);

/** Copies a file out of or into the sandbox; @fd is written or read to its end. */
ABX_API int abx_sandbox_download(struct abx_sandbox *sb, const char *path, int fd,
                                 struct abx_client_error *err);
ABX_API int abx_sandbox_upload(struct abx_sandbox *sb, const char *path, int fd,
                               struct abx_client_error *err);

/* The URL of a port: by path it needs no name to resolve, by host it is what the cloud has. */
enum abx_url_form { ABX_URL_PATH, ABX_URL_HOST };
/** Heap string; free(). */
ABX_API int abx_sandbox_url(struct abx_sandbox *sb, uint16_t port, enum abx_url_form form,
                            char **ret, struct abx_client_error *err);

/* ---- templates ---- */

/* One step of a build: RUN, COPY, ENV, WORKDIR, USER with their arguments. */
struct abx_build_step {
    const char *type;
    const char *const *args;
    size_t arg_count;
    const char *files_hash; /* COPY: 64 hex digits that stand for what it copies */
    bool force;             /* from this step on nothing is taken from the cache */
};
struct abx_build_log {
    const char *level, *message, *step; /* step "" when the entry is about no step */
};
struct abx_build_options {
    const char *name;                       /* "hello", "hello:v1" */
    const char *const *tags;                /* NULL ends; NULL: none */
    const char *from_image, *from_template; /* exactly one */
    const struct abx_build_step *steps;
    size_t step_count;
    const char *start_cmd, *ready_cmd; /* NULL: none */
    uint32_t cpu_count, memory_mb;     /* 0: the platform's */
    bool force;                        /* nothing from the cache */
    const char *envd_inject;           /* "true", "false"; NULL: not said. Local engine only */
    const char *proc_hidepid;          /* the same: /proc hides what a process may not trace */
    const char *network;               /* of RUN; NULL: "none". Local engine only */
    uint32_t timeout_ms;               /* of the whole build; 0: one hour */
    /** Opens the archive (tar or tar.gz) for a files_hash that the platform lacks: a regular file
     * at its start, which the library closes, or -1. */
    int (*open_files)(void *arg, const char *files_hash);
    void (*on_log)(void *arg, const struct abx_build_log *log);
    void *arg;
};
struct abx_build_result {
    char template_id[128], build_id[64];
    bool is_ready;
    char step[32];      /* of a failed one: "base", "finalize" or its number from 1; "" unknown */
    char message[1024]; /* why it failed */
};
/** Registers the template, uploads what is missing, builds, and follows the log to the end. 0 when
 *  the build came to an end, good or bad: see ret->is_ready. */
ABX_API int abx_template_build(struct abx_client *c, const struct abx_build_options *o,
                               struct abx_build_result *ret, struct abx_client_error *err);
ABX_API int abx_template_delete(struct abx_client *c, const char *name,
                                struct abx_client_error *err);
/** The template with its builds, as the platform tells it: a heap string. */
ABX_API int abx_template_get(struct abx_client *c, const char *name, char **ret_json,
                             struct abx_client_error *err);
/** All templates, a JSON array, as a heap string. */
ABX_API int abx_template_list(struct abx_client *c, char **ret_json, struct abx_client_error *err);
/* What an image is made of. */
struct abx_image_source {
    int fd;             /* read to its end: tar, plain or gzip or zstd */
    const char *kind;   /* "rootfs" (NULL), or "oci", "docker": a layout with one image */
    const char *recipe; /* what it was made by, any text; NULL: none */
};
/** Makes it the image @name of the local engine; what the engine tells of it as a heap string. */
ABX_API int abx_image_import(struct abx_client *c, const char *name,
                             const struct abx_image_source *source, char **ret_json,
                             struct abx_client_error *err);
/** Writes an image, or a template's ready build ("hello", "hello:v1"), to @fd as an OCI layout in a
 *  tar, the runtime as its last layer. Local engine only. When it fails @fd may hold a part. */
ABX_API int abx_image_export(struct abx_client *c, const char *name, int fd,
                             struct abx_client_error *err);
ABX_API int abx_template_export(struct abx_client *c, const char *name, int fd,
                                struct abx_client_error *err);

/* ---- agent-sandbox-server ---- */

struct abx_server; /* a handle on one server of a sandbox; the sandbox handle must outlive it */
struct abx_server_options {
    uint16_t port;           /* default 9000 */
    const char *commands;    /* file or module in the sandbox */
    const char *policy_json; /* a document, or */
    const char *preset;      /* a name; not both */
    const char *token;       /* NULL: none, and the server is open to whoever reaches it */
    const struct abx_pair *env;
    const char *const *command; /* the whole line instead; NULL ends */
    bool no_wait;               /* return at the start event */
    bool adopt;                 /* a server that answers already is fine */
    uint32_t timeout_ms;        /* default 30 s */
};
/** Starts agent-sandbox-server and waits until it is healthy. It outlives the caller. The policy is
 *  checked before anything is sent: E8002 with the place. E5001: a server answers there already, it
 *  ended (with how, and what it said), or it is not healthy in time. */
ABX_API int abx_sandbox_start_server(struct abx_sandbox *sb, const struct abx_server_options *o,
                                     struct abx_server **ret, struct abx_client_error *err);
/** A handle on a server that is there; makes no request. @token NULL: none. */
ABX_API int abx_sandbox_server_at(struct abx_sandbox *sb, uint16_t port, const char *token,
                                  struct abx_server **ret, struct abx_client_error *err);
/** The same at port 9000 without a token. */
ABX_API int abx_sandbox_server(struct abx_sandbox *sb, struct abx_server **ret,
                               struct abx_client_error *err);
ABX_API void abx_server_close(struct abx_server *s);
/** Any request to it: *ret_status and the body (heap). No status is an error here. */
ABX_API int abx_server_request(struct abx_server *s, const char *method, const char *path,
                               const char *json, int *ret_status, char **ret_body,
                               struct abx_client_error *err);
/** Whether /health says ok. */
ABX_API int abx_server_health(struct abx_server *s, struct abx_client_error *err);
/** Runs a named command with @arguments_json (an object); the answer's `result` as JSON (heap). */
ABX_API int abx_server_run(struct abx_server *s, const char *name, const char *arguments_json,
                           char **ret_json, struct abx_client_error *err);
/** GET @path, which must answer with an object (heap). */
ABX_API int abx_server_get(struct abx_server *s, const char *path, char **ret_json,
                           struct abx_client_error *err);

#ifdef __cplusplus
}
#endif
#endif
