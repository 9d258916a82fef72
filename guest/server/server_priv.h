/* guest/server/server_priv.h: the server's parts: the daemon, one call, routes, answers.
 *
 * A call is one request that found a route. When its handler runs, these hold: the caller is known
 * and may use the endpoint, the query has no doubles, and for POST, PUT and DELETE the body is read
 * and is a JSON object (server-api.md 3). The handler answers at once or keeps the call and answers
 * later, on the loop thread; it asks call->rule for paths, limits and parameters. Loop thread only.
 */
#pragma once
#include "guest/server/server.h"
#include "lib/http/server.h"
#include "lib/json/json.h"
#include "lib/policy/meter.h"
#include "lib/policy/policy.h"

struct abx_procs;
struct abx__call;
struct abx__commands; /* the command hosts: commands.c */
struct abx__audit;

enum {
    ABX__BODY_MAX = 10485760, /* without max_request_bytes */
    ABX__BODY_DEPTH = 200,    /* of JSON */
    ABX__QUERY_MAX = 64,      /* parameters of a query */
    ABX__PARAMS_MAX = 8,      /* {name} parts of a path */
    ABX__AUDIT_PATHS = 8,
    ABX__STOP_MS = 5000, /* from SIGTERM to the end */
};

/* ---- the daemon (serve.c) ---- */

/* What the command line of serve says. Strings of argv: they live as long as the process. */
struct abx__serve_options {
    const char *host, *policy_file, *preset, *base_dir, *unix_path, *log, *python, *python_path;
    uint32_t port, pty_port;
    bool has_pty_port;           /* named by the option */
    const char *const *commands; /* --commands, in order */
    size_t command_count;
};

/* A route that user code registered. What it points to lives as long as the server. */
struct abx__custom {
    struct abx_policy_route spec;
    void (*serve)(struct abx__call *c, void *arg); /* call->params holds the parts of spec.path */
    void *arg;
};

struct abx__server {
    struct abx__serve_options o;
    struct abx_loop loop;
    struct abx_http_server *http;
    struct abx_policy *policy; /* the one in force */
    struct abx_policy_meter *meter;
    char **env;       /* of children: the start's environment without secrets, NULL-terminated */
    const char *path; /* PATH in it; where programs are looked up */
    char *cwd;        /* of the server, absolute */
    struct abx__audit *audit;
    struct abx__commands *commands;
    /* filled by the command hosts before the freeze: */
    struct abx__custom *custom;
    struct abx_policy_code_group *code_groups;
    size_t custom_count, code_group_count;
    /* private to serve.c */
    struct abx_signal term, interrupt, hangup, reopen;
    struct abx_timer stop_timer;
    struct abx_list calls; /* in flight */
    int http_fd, exit_code, stop_signal;
    bool is_listening, is_stopping;
};

/* ---- routes (routes.c) ---- */

/* A published endpoint and what serves it; method and path stand in the endpoint's row. */
struct abx__route {
    const char *id; /* of lib/policy/endpoints.h; NULL ends an array */
    void (*serve)(struct abx__call *c);
};
extern const struct abx__route abx__core_routes[];     /* core.c */
extern const struct abx__route abx__files_routes[];    /* files.c */
extern const struct abx__route abx__shell_routes[];    /* shell.c */
extern const struct abx__route abx__commands_routes[]; /* commands.c */
/** The handler of @id, or NULL: not built, answered with 501. */
const struct abx__route *abx__route_find(struct abx_str id);

/* ---- a call (call.c) ---- */

struct abx__pair {
    struct abx_str name, value;
};
struct abx__call {
    struct abx_http_req *req;
    struct abx__server *server;
    struct abx_policy *policy;          /* counted: bounds stay what they were (S80) */
    const struct abx_policy_rule *rule; /* the endpoint: scopes, limits, params, paths */
    const struct abx__custom *custom;   /* NULL: a published endpoint */
    struct abx_policy_identity who;
    struct abx_str path;                      /* normalised: no query, no trailing slashes */
    struct abx__pair query[ABX__QUERY_MAX];   /* decoded; empty values are absent */
    struct abx__pair params[ABX__PARAMS_MAX]; /* decoded once, %2F kept (P33) */
    size_t query_count, param_count;
    struct abx_str body_text; /* as it came; empty when there was none */
    struct json_t *body;      /* an object, never NULL in the handler of a POST, PUT or DELETE */
    /* set by the handler: */
    void *data;
    /** Once, when the exchange is over: answered (false) or cut. After it the call is gone. */
    void (*on_close)(struct abx__call *c, bool aborted);
    void (*on_drain)(struct abx__call *c); /* after a write or event answered false */
    /* private */
    struct abx_list node;
    struct abx_buf body_buf;
    struct abx_str audit_paths[ABX__AUDIT_PATHS];
    size_t audit_path_count;
    const char *audit_code;
    int64_t began_ms;
    uint64_t body_limit;
    int status; /* 0: nothing answered yet */
    bool has_slot, was_too_large;
};

void abx__on_request(struct abx_http_req *req);
/** The value of a query parameter; ptr NULL when absent or empty. */
struct abx_str abx__call_query(const struct abx__call *c, const char *name);
/** The part of the path that {name} stands for. */
struct abx_str abx__call_param(const struct abx__call *c, const char *name);
/** A member of the body, NULL when absent. */
struct json_t *abx__call_field(const struct abx__call *c, const char *name);
/** A member that is a non-empty string; else answers 400 and returns false. */
bool abx__call_string(struct abx__call *c, const char *name, struct abx_str *ret);
/** Remembers a resolved path that passed, for the audit line. Copies. */
void abx__call_note_path(struct abx__call *c, struct abx_str path);

/* ---- answers (answer.c): each ends the exchange; nothing may be answered after it ---- */

/** 200 and the document in @body; 500 when the buffer has failed. */
void abx__call_answer(struct abx__call *c, const struct abx_buf *body);
/** As above with a status; @extra (may be NULL) ends with a NULL name. */
void abx__call_answer_status(struct abx__call *c, int status, const struct abx_http_extra *extra,
                             struct abx_str json);
/** {"error": text, "type": @type} without a code: "ValueError", "FileNotFoundError",
 * "NotFoundError". */
void abx__call_fail(struct abx__call *c, int status, const char *type, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/** A system error (positive errno) with its published class; 404 for a missing file is the
 * caller's. */
void abx__call_fail_errno(struct abx__call *c, int errnum, const char *what);
/** The body of policy.md A15 with its status, and Retry-After. */
void abx__call_deny(struct abx__call *c, const struct abx_policy_verdict *v);
/** 501, type NotImplementedError, code not_built, naming the endpoint. */
void abx__call_not_built(struct abx__call *c);
/** Whether an answer was begun. */
static inline bool abx__call_is_answered(const struct abx__call *c)
{
    return c->status != 0;
}

/* ---- server-sent events: begin, events, end ---- */

void abx__call_sse_begin(struct abx__call *c);
/** One event; @json is a complete document. False: stop until on_drain (it was taken all the same).
 */
bool abx__call_sse_event(struct abx__call *c, const char *name, struct abx_str json);
/** A comment line, to keep the connection alive. */
void abx__call_sse_ping(struct abx__call *c);
void abx__call_sse_end(struct abx__call *c);

/* ---- paths (path.c): policy.md A10 for this call ---- */

/* A path that the policy lets this call use. Memory is the call's. */
struct abx__allowed_path {
    struct abx_str resolved; /* all links followed, missing parts kept */
    struct abx_str root;     /* the resolved root that holds it */
};
/** Judges @path for @op ("cwd" or NULL as @field). On false the call is answered. Blocks for a few
 *  lstat() calls. */
bool abx__call_path(struct abx__call *c, struct abx_str path, enum abx_path_op op,
                    const char *field, struct abx__allowed_path *ret);
/** As above without answering: false with the verdict. For checks. */
bool abx__path_judge(const struct abx__call *c, const struct abx_policy_rule *rule,
                     struct abx_str path, enum abx_path_op op, const char *field,
                     struct abx__allowed_path *ret, struct abx_policy_verdict *v);

/* ---- children (environment.c) ---- */

/** The environment of a child: the server's without secrets, then @extra. NULL without memory. The
 * array and its strings live in @a or in the server. */
char **abx__child_environment(const struct abx__server *s, const struct abx__pair *extra,
                              size_t count, struct abx_arena *a);

/* ---- command hosts (commands.c) ---- */

/** Loads the files of --commands. @ready is called once, from the loop: err NULL, then custom and
 *  code_groups are filled; else the start ends with the exit code given. -1: could not begin. */
typedef void abx__commands_ready_fn(struct abx__server *s, int exit_code,
                                    const struct abx_error *err);
int abx__commands_start(struct abx__server *s, abx__commands_ready_fn *ready,
                        struct abx_error *err);
/** TERM, then KILL; the loop ends by itself once they are gone. */
void abx__commands_stop(struct abx__server *s);
/** How many hosts there are, for the start line. */
size_t abx__commands_count(const struct abx__server *s);
