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
 * E2009 sandbox unknown, E2000 create failed, E3001 time limit, E3006 envd refused, E4000 to E4003
 * files, E5001 no connection, E8002 configuration, E8004 not supported, E9000 server error). */
struct abx_client_error {
    char id[8];
    int http_status; /* 0: no answer */
    char hop[12];    /* client, engine, edge, envd */
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

#ifdef __cplusplus
}
#endif
#endif
