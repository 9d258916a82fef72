/* guest/server/server_priv.h: the server's parts: the daemon, one call, routes, answers.
 *
 * A call is one request that found a route. When its handler runs, these hold: the caller is known
 * and may use the endpoint, the query has no doubles, and for POST, PUT and DELETE the body is read
 * and is a JSON object (server-api.md 3). The handler answers at once or keeps the call and answers
 * later, on the loop thread; it asks call->rule for paths, limits and parameters. Loop thread only.
 */
#pragma once
#include "guest/server/options.h"
#include "guest/server/policy_source.h"
#include "guest/server/server.h"
#include "guest/server/target.h"
#include "guest/server/throttle.h"
#include "guest/server/tickets.h"
#include "lib/http/server.h"
#include "lib/json/json.h"
#include "lib/policy/meter.h"
#include "lib/policy/policy.h"

#include <stdatomic.h>

struct abx_policy_root;
struct abx_watches;
struct abx_contexts;
struct abx__call;
struct abx__audit_file; /* audit_file.h */
struct abx__commands;   /* the command hosts: commands.c */
struct abx__browser;    /* browser.c */
struct abx__parts;      /* parts.c */

enum {
    ABX__BODY_MAX = 10485760, /* without max_request_bytes */
    ABX__BODY_DEPTH = 200,    /* of JSON */
    ABX__QUERY_MAX = 64,      /* parameters of a query */
    ABX__PARAMS_MAX = 8,      /* {name} parts of a path */
    ABX__AUDIT_PATHS = 8,
    ABX__STOP_MS = 5000,                 /* from SIGTERM to the end */
    ABX__TAG_SELF = 3,                   /* of connections of this server to itself: mcp.c */
    ABX__BODY_IDLE_MS = 30000,           /* without a byte of the body */
    ABX__BODIES_MAX = 256 * 1024 * 1024, /* bytes of all calls together */
};

/* ---- the daemon (serve.c) ---- */

/* What the command line of serve says. Strings of argv: they live as long as the process. */
struct abx__serve_options {
    const char *host, *policy_file, *preset, *confine, *base_dir, *unix_path, *log, *python,
        *python_path;
    int64_t port, pty_port;
    bool has_pty_port;       /* named, by the option or ABX_PTY_PORT */
    bool has_host, has_port; /* likewise */
    bool no_env;             /* a missing token variable is no mistake (check-config) */
    int64_t host_fd; /* --host-fd: a command host that runs already; the server is its child */
    struct abx__option_list commands; /* --commands, in order */
};

/* A route that user code registered. What it points to lives as long as the server. */
struct abx__custom {
    struct abx_policy_route spec;
    /* call->params holds the parts of spec.path, not decoded */
    void (*serve)(struct abx__call *c, void *arg);
    void *arg;
    bool is_regex; /* spec.path is a Python pattern: its host says which paths are its own */
};

enum { ABX__ARGV0 = 256 };
/* The program that a call started last, for its audit line (policy.md C4). */
struct abx__ran {
    char argv0[ABX__ARGV0]; /* cut; empty: none was started */
    char user[ABX__ARGV0];  /* empty: the server's */
    int64_t pid;
    int exit_code; /* -N: ended by signal N */
    bool has_ended;
    bool is_out_of_memory; /* abx__memory_put() */
};

struct abx__server {
    struct abx__serve_options o;
    struct abx_loop loop;
    struct abx_http_server *http;
    struct abx_policy *policy; /* the one in force */
    struct abx_policy_meter *meter;
    const char *path;          /* PATH of the start; where programs are looked up */
    char *cwd;                 /* of the server, absolute */
    uint64_t upload_cap;       /* ABX_MAX_UPLOAD_SIZE */
    struct abx_list followers; /* of journals: process_journal.c */
    struct abx_list shells;    /* programs of /shell and /shell/stream that run: exec.h */
    size_t shell_count;
    struct abx_list helpers;  /* programs that handlers wait for: helper.c */
    char python_version[32];  /* of python3, once it was asked: system.c */
    int64_t started_ms;       /* monotonic */
    struct abx_list watching; /* calls of /files/watch: watch.c */
    struct abx_watches *watches;
    struct abx_procs *procs;     /* background processes and terminals; NULL: not yet, or no more */
    struct abx_list started;     /* processes.c */
    size_t started_reserved;     /* starts that are being judged */
    struct abx_list terminals;   /* terminals.c */
    struct abx__tickets tickets; /* of their sockets */
    struct abx_list code_contexts; /* code_contexts.c */
    struct abx_contexts *kernels;  /* of those; NULL: none yet, or no more */
    struct abx_timer procs_timer;  /* of the stop */
    struct abx_timer revoke_timer;
    int procs_looks;
    struct abx__throttle throttle;
    uint64_t audit_lost;                /* lines that were not taken */
    bool is_error_file;                 /* standard error is a file: it takes lines at once */
    struct abx__audit_file *audit_file; /* NULL: standard error */
    struct abx__audit_log *audit_log;   /* the latest lines: audit_log.c */
    struct abx__counters *counters;     /* of calls: watch_over.c */
    struct abx__parts *parts;           /* parts.c; NULL: no walk goes on */
    int64_t parts_due_ms;               /* of the next one */
    struct abx__mcp *mcp;               /* sessions: mcp.c; NULL: none yet */
    uint32_t umask;                     /* of the start; children get it */
    struct abx__commands *commands;
    struct abx__browser *browser; /* NULL: none runs */
    /* filled by the command hosts before the freeze: */
    struct abx__custom *custom;
    struct abx_policy_code_group *code_groups;
    size_t custom_count, code_group_count;
    char *code_text;    /* policy of start() or SandboxServer(); heap */
    bool has_own_table; /* of routes, without the published ones: only core is left */
    bool is_code_alone; /* it is the document; else code_policy must agree too */
    struct abx_policy *code_policy;
    /* private to serve.c */
    /** Instead of serving: the hosts are ready; the server stops after it. */
    void (*on_loaded)(struct abx__server *s, void *arg);
    void *on_loaded_arg;
    struct abx__policy_source source;
    struct abx_signal term, interrupt, hangup, reopen;
    struct abx_timer last_words, stop_timer, sweep, rest;
    struct abx_list calls; /* in flight */
    size_t body_bytes;     /* of all bodies that are held */
    uint64_t call_number;
    uint64_t rest_number; /* the latest call when the rest began */
    int64_t rest_due_ms;  /* no memory is given back before */
    char call_prefix[9];  /* of request ids */
    char long_marker[33]; /* random */
    const char *bound_host;
    int64_t bound_port;
    int http_fd, pty_fd, exit_code, stop_signal;
    bool is_listening, is_stopping, is_pty_listening;
    bool has_idle_token; /* ABX_SERVER_TOKEN was set and is none of the policy's */
};

/* Which listener a request came by. */
enum { ABX__LISTENER_TCP, ABX__LISTENER_UNIX, ABX__LISTENER_PTY };

/* ---- routes (routes.c) ---- */

/* A published endpoint and what serves it; method and path stand in the endpoint's row. */
struct abx__route {
    const char *id; /* of lib/policy/endpoints.h; NULL ends an array */
    void (*serve)(struct abx__call *c);
    const char *long_field; /* a member that may be megabytes: see call->long_value; NULL: none */
    /** Instead of serve() where the body is longer than ABX__BODY_MAX or says not how long it is:
     * it is called before the body, call->body_limit is set. NULL: such a body is held too. */
    void (*serve_large)(struct abx__call *c);
    bool takes_bytes; /* the body is no JSON: the handler is called before it and reads it itself */
};
extern const struct abx__route abx__core_routes[];          /* core.c */
extern const struct abx__route abx__files_routes[];         /* files.c */
extern const struct abx__route abx__shell_routes[];         /* shell.c */
extern const struct abx__route abx__commands_routes[];      /* commands.c */
extern const struct abx__route abx__system_routes[];        /* system.c */
extern const struct abx__route abx__env_routes[];           /* env.c */
extern const struct abx__route abx__code_routes[];          /* code.c */
extern const struct abx__route abx__code_contexts_routes[]; /* code_contexts.c */
extern const struct abx__route abx__git_routes[];           /* git_state.c */
extern const struct abx__route abx__git_history_routes[];   /* git_history.c */
extern const struct abx__route abx__describe_routes[];      /* describe.c */
extern const struct abx__route abx__watch_over_routes[];    /* watch_over.c */
extern const struct abx__route abx__mcp_routes[];           /* mcp.c */
extern const struct abx__route abx__process_routes[];       /* processes.c */
extern const struct abx__route abx__terminal_routes[];      /* terminals.c */
extern const struct abx__route abx__browser_routes[];       /* browser.c */
void abx__shell_stream_post(struct abx__call *c);           /* shell_stream.c */
/** The table of background processes and terminals. */
int abx__processes_open(struct abx__server *s, struct abx_error *err);
/** SIGTERM, SIGHUP for terminals; SIGKILL after 1.5 s. The table is gone once they are. */
void abx__processes_stop(struct abx__server *s);
/** Answers who waits for a background process, ends the events of who follows one. */
void abx__processes_leave(struct abx__server *s);
/** Every few seconds: forgets what ended long ago; ends terminals that nobody looks at. */
void abx__processes_sweep(struct abx__server *s);
void abx__terminals_sweep(struct abx__server *s, int64_t now_ms);
void abx__terminals_stop(struct abx__server *s);
void abx__terminals_free(struct abx__server *s);
/** Removes parts of uploads that nobody goes on with: at the start, then hourly. */
void abx__parts_sweep(struct abx__server *s);
void abx__parts_stop(struct abx__server *s);
/** Ends the browser; the loop ends by itself once it is gone. */
void abx__browser_stop(struct abx__server *s);
/** Every few seconds: ends contexts that nobody has used for half an hour. */
void abx__code_contexts_sweep(struct abx__server *s);
/** Ends all contexts and what runs in them: the server stops. */
void abx__code_contexts_stop(struct abx__server *s);
/** To all that /shell runs: the server stops. */
void abx__shells_signal(struct abx__server *s, int signum);
/** Ends every /files/watch with its closing event: the server stops. */
void abx__watch_stop(struct abx__server *s);
/** Where an endpoint is found, in the order of abx_policy_rules(). */
struct abx__place {
    const struct abx_endpoint *endpoint;
    const struct abx__route *route; /* NULL: not built, answered with 501 */
    struct abx_str path, method;
    size_t literal; /* bytes of the path before its first {name} */
};
const struct abx__place *abx__places(size_t *ret_count);

/* ---- a call (call.c) ---- */

struct abx__call {
    struct abx_http_req *req;
    struct abx__server *server;
    struct abx_policy *policy;          /* counted: bounds stay what they were (S80) */
    struct abx_policy_meter *meter;     /* of the same policy; counted */
    const struct abx_policy_rule *rule; /* the endpoint: scopes, limits, params, paths */
    const struct abx__custom *custom;   /* NULL: a published endpoint */
    const struct abx__route *route;     /* NULL: a custom one, or not built */
    struct abx_policy_identity who;
    struct abx_str path;                      /* normalised: no query, no trailing slashes */
    struct abx__pair query[ABX__QUERY_MAX];   /* decoded; empty values are absent */
    struct abx__pair params[ABX__PARAMS_MAX]; /* decoded once, %2F kept (P33) */
    size_t query_count, param_count;
    struct abx_str body_text;  /* as it came; empty when there was none */
    struct abx_str long_value; /* the route's long_field when it was long and plain; the body then
                                  has something else there. ptr NULL: look into the body */
    struct json_t *body;       /* an object, never NULL in the handler of a POST, PUT or DELETE */
    /* set by the handler: */
    void *data;
    /** Once, when the exchange is over: answered (false) or cut. After it the call is gone. */
    void (*on_close)(struct abx__call *c, bool aborted);
    void (*on_drain)(struct abx__call *c); /* after a write or event answered false */
    /* private */
    struct abx_list node;
    struct abx_str params_json; /* of a pattern, as its host gave them; ptr NULL: params */
    uint64_t match_number;      /* asked of a host, 0: none */
    size_t next_custom;         /* where the search for a route goes on */
    struct abx_buf body_buf;
    struct abx_str audit_paths[ABX__AUDIT_PATHS];
    size_t audit_path_count;
    const char *audit_code;
    struct abx_str audit_rule; /* that refused; in the request's arena */
    struct abx__ran ran;       /* exec.c */
    uint64_t oom_kills;        /* of this caller, when its program started: exec.c */
    char id[24];               /* X-Request-Id */
    int64_t began_ms, fed_ms;  /* monotonic: the head came, the last bytes of the body came */
    uint64_t body_limit;
    int status; /* 0: nothing answered yet */
    bool has_slot, is_reading, is_audited, is_stream;
};

void abx__server_on_request(struct abx_http_req *req);
/** The body of an answer to a request that could not be read. */
void abx__server_on_refusal(void *user, int status, const char *message, struct abx_buf *out);
/** Security S20, origin.c: false: answered. */
bool abx__call_check_host(struct abx__call *c);
bool abx__call_check_origin(struct abx__call *c);
/** Whether a policy given in code agrees too. */
bool abx__call_judge_code(const struct abx__call *c, struct abx_policy_verdict *v);
/** The JSON object that a body is; where the text is empty, or a value that says nothing, one
 * without members. *ret is the caller's, also on failure. Any thread. */
int abx__body_parse(struct abx_str text, struct json_t **ret, struct abx_error *err);
/** A call has ended: if it was the last one, and none comes soon, memory is given back. */
void abx__server_rest(struct abx__server *s);
/** Ends calls whose body has stopped coming; every few seconds. */
void abx__calls_sweep(struct abx__server *s);
/** The value of a query parameter; ptr NULL when absent or empty. */
struct abx_str abx__call_query(const struct abx__call *c, const char *name);
/** The first header of that name; ptr NULL: none. It lives as long as the call. */
struct abx_str abx__call_header(const struct abx__call *c, const char *name);
/** The address of who calls: of a tool's call that of its message. */
struct abx_str abx__call_peer(const struct abx__call *c);
/** The header that says it, of connections of this server to itself only. */
#define ABX__HEADER_PEER "X-Abx-Peer"
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
/** 200 with a text of another type than JSON. */
void abx__call_answer_media(struct abx__call *c, const char *media, struct abx_str text);
/** {"error": text, "type": @type} without a code: "ValueError", "FileNotFoundError",
 * "NotFoundError". */
void abx__call_fail(struct abx__call *c, int status, const char *type, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/** A system error (positive errno) with its published class; 404 for a missing file is the
 * caller's. */
void abx__call_fail_errno(struct abx__call *c, int errnum, const char *what);
/** The body of policy.md A15 with its status, and Retry-After. */
void abx__call_deny(struct abx__call *c, const struct abx_policy_verdict *v);
/** As abx__call_deny(), for a caller that is not known: later when the peer has had too many (S16).
 */
void abx__call_refuse(struct abx__call *c, const struct abx_policy_verdict *v);
/** The same where the refusal is another than that body. */
typedef void abx__refuse_fn(struct abx__call *c, const struct abx_policy_verdict *v);
void abx__call_refuse_by(struct abx__call *c, const struct abx_policy_verdict *v,
                         abx__refuse_fn *answer);
/** 501, type NotImplementedError, code not_built, naming the endpoint. */
void abx__call_not_built(struct abx__call *c);
/** Whether an answer was begun. */
static inline bool abx__call_is_answered(const struct abx__call *c)
{
    return c->status != 0;
}

/** The latest lines of the audit, kept for GET /audit. NULL without memory. */
struct abx__audit_log *abx__audit_log_new(void);
void abx__audit_log_free(struct abx__audit_log *l);
/** Keeps a line of @identity (ptr NULL: before it was known); the oldest go. */
void abx__audit_log_keep(struct abx__audit_log *l, struct abx_str identity, struct abx_str line);
/** {"lines", "next", "dropped"}: those from number @since on that @who may see. */
void abx__audit_log_write(const struct abx__audit_log *l, const struct abx_policy_identity *who,
                          uint64_t since, struct abx_buf *out);
/** Counters for GET /metrics. NULL without memory. */
struct abx__counters *abx__counters_new(void);
void abx__counters_free(struct abx__counters *k);
/** One call that was answered, or cut (status 0). */
void abx__counters_add(struct abx__counters *k, const struct abx__call *c);
/** Ends all sessions; the server stops. */
void abx__mcp_stop(struct abx__server *s);
/** The line of @c in the audit log, once; before the last byte of the answer. */
void abx__audit_call(struct abx__call *c);

/* ---- server-sent events: begin, events, end ---- */

void abx__call_sse_begin(struct abx__call *c);
/** One event; @json is a complete document. False: stop until on_drain (it was taken all the same).
 */
bool abx__call_sse_event(struct abx__call *c, const char *name, struct abx_str json);
/** A comment line, to keep the connection alive. */
void abx__call_sse_ping(struct abx__call *c);
void abx__call_sse_end(struct abx__call *c);

/* ---- paths (bounds.c): policy.md A10. Pool threads too: all it reads is constant ---- */

/* Where an endpoint may go, with its roots resolved: a value (S80). Memory is the arena's. */
struct abx__bounds {
    const struct abx_policy *policy;
    const struct abx_policy_rule *rule;
    struct abx_arena *arena;
    struct abx_policy_root *roots;
    size_t root_count;
    struct abx_str *resolved_deny; /* as in struct abx_policy_path_facts */
    bool is_plain;                 /* of abx__bounds_init_plain() */
};
/** Blocks. 0, or -1 without memory. The policy must outlive it. */
int abx__bounds_init(struct abx__bounds *b, const struct abx_policy *policy,
                     const struct abx_policy_rule *rule, struct abx_arena *a);
/** The same without blocking, where one root and no deny pattern has to be looked at: what is
 * judged with it is taken to hold no link. The verdict is good only if the object is then found
 * without meeting one (abx_tree_stat_cached()); else, and when this is false, judge on the pool. */
bool abx__bounds_init_plain(struct abx__bounds *b, const struct abx_policy *policy,
                            const struct abx_policy_rule *rule, struct abx_arena *a);
struct abx__path_ask {
    struct abx_str path; /* as given */
    enum abx_path_op op;
    const char *field; /* "cwd": begins the text of a refusal; NULL: none */
    bool keep_last;    /* the last component is meant itself, also when it is a link (P28) */
};
/** Whether the path may be used; *ret is it with all links followed (missing parts kept), in the
 * arena. Blocks. False: the refusal is in @v. */
bool abx__bounds_judge(const struct abx__bounds *b, const struct abx__path_ask *ask,
                       struct abx_str *ret, struct abx_policy_verdict *v);
/** Whether a link that says @target may stand at @path: where it leads has to be a place that may
 * be written to, so that a narrower caller plants no way out for a wider one. Blocks. */
bool abx__bounds_judge_link(const struct abx__bounds *b, struct abx_str path, struct abx_str target,
                            struct abx_policy_verdict *v);
/** Whether the resolved path is a root itself. */
bool abx__bounds_is_root(const struct abx__bounds *b, struct abx_str resolved);
/** An entry of a listing: not denied, and a link leads inside (or nowhere, but inside). Blocks. */
bool abx__bounds_shows(const struct abx__bounds *b, struct abx_str path, bool is_link);

/* ---- work on the pool (job.c) ---- */

/* What a call does off the loop. It owns all that it needs; the call may end before it does. */
struct abx__job {
    struct abx_work work;
    struct abx__call *call; /* NULL: the call is over, the outcome is thrown away */
    struct abx__server *server;
    struct abx_policy *policy;
    const struct abx_policy_rule *rule;
    struct abx_policy_identity who;
    struct abx_arena arena;
    struct json_t *body;     /* of the call, which has it no more */
    struct abx_buf body_buf; /* the same, as it came */
    struct abx__pair *query;
    size_t query_count;
    void (*run)(struct abx__job *j);  /* pool thread */
    void (*done)(struct abx__job *j); /* loop thread, call not NULL, nothing was refused; NULL:
                                         answer 200 and `out` */
    void (*drop)(struct abx__job *j); /* before the job goes; may be NULL */
    /** Pool thread, before drop, unless it was set to NULL: takes back what run began. */
    void (*undo)(struct abx__job *j);
    /* Set before the start: a job that succeeds is not over. `done` (which must be there) starts it
     * again, or waits and does so later, or clears this and ends it. */
    bool is_held;
    bool is_running; /* private */
    /** Set by the loop when the call is over while run goes on: nobody waits for it any more. */
    atomic_bool is_left;
    void *data; /* of run and done, in the arena */
    /* the outcome, set by run; the first that is set is answered */
    struct abx_policy_verdict verdict;
    int fail_status;
    const char *fail_type;
    char fail_text[512];
    int errnum; /* positive: abx__call_fail_errno() with fail_text */
    struct abx_buf out;
    struct abx_str noted[ABX__AUDIT_PATHS]; /* paths that passed, for the audit line */
    size_t noted_count;
};
/** A job for the call, which is not answered before it is done. NULL: the call is answered (no
 * memory).
 *  @out_max bounds the document. */
struct abx__job *abx__job_new(struct abx__call *c, void (*run)(struct abx__job *j), size_t out_max);
void abx__job_start(struct abx__job *j);
/** Answers with the outcome, now; of a job that is held and does not run. */
void abx__job_end(struct abx__job *j);
/** The same with a copy of @data in job->data. */
struct abx__job *abx__job_with(struct abx__call *c, void (*run)(struct abx__job *j), size_t out_max,
                               const void *data, size_t size);
/** job->data, zeroed; NULL: the outcome is set and run will not be called. */
void *abx__job_data(struct abx__job *j, size_t size);
/** Of the query that the call had. */
struct abx_str abx__job_query(const struct abx__job *j, const char *name);
/** A resolved path that passed, for the audit line; it lives as long as the job. */
void abx__job_note(struct abx__job *j, struct abx_str path);
/** Sets the outcome; returns false. */
bool abx__job_fail(struct abx__job *j, int status, const char *type, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
bool abx__job_fail_errno(struct abx__job *j, int errnum, struct abx_str what);

/* ---- children (environment.c) ---- */

/** The environment of a child of @who: the server's without secrets, or for a narrow identity
 * beside others its own and what is common; @extra replaces. NULL-terminated copies in @a; NULL
 * without memory. Pool threads too. */
char **abx__environment_of(const struct abx_policy_identity *who, const struct abx__pair *extra,
                           size_t extra_count, struct abx_arena *a);
/** Sets all or none, for later children of @who. -E2BIG, -ENOMEM. Loop thread. */
int abx__environment_set(const struct abx_policy_identity *who, const struct abx__pair *pairs,
                         size_t count);

/* ---- command hosts (commands.c) ---- */

/** Loads the files of --commands. @ready is called once, from the loop: err NULL, then custom and
 *  code_groups are filled; else the start ends with the exit code given, after err->msg unless it
 * is empty (user code has said itself what is wrong). -1: could not begin. */
typedef void abx__commands_ready_fn(struct abx__server *s, int exit_code,
                                    const struct abx_error *err);
int abx__commands_start(struct abx__server *s, abx__commands_ready_fn *ready,
                        struct abx_error *err);
/** TERM, then KILL; the loop ends by itself once they are gone. */
void abx__commands_stop(struct abx__server *s);
/** How many hosts there are, for the start line. */
size_t abx__commands_count(const struct abx__server *s);
/** Frees what was registered; after the loop. */
void abx__commands_free(struct abx__server *s);
/** Whether @path is one of @pattern, literals and {word} = [^/]+. The parts as they stand in @path,
 * not decoded: @out, *inout_count is its room. */
bool abx__custom_path_match(struct abx_str pattern, struct abx_str path, struct abx__pair *out,
                            size_t *inout_count);
/** Asks the host of a pattern whether @path is its own. @params: the parts as a JSON object,
 * "null": no, empty: nobody answered. 0: it can not be asked now. */
typedef void abx__custom_match_fn(void *arg, struct abx_str params);
uint64_t abx__custom_match(const struct abx__custom *custom, struct abx_str path,
                           abx__custom_match_fn *done, void *arg);
void abx__custom_match_cancel(const struct abx__custom *custom, uint64_t number);

/* ---- what command hosts ask of the daemon (serve.c) ---- */

/** A policy given in code: the document where there is no other, else one more that must agree. */
int abx__server_code_policy(struct abx__server *s, struct json_t *document, struct abx_error *err);
/** The document as it was read, may be empty. */
struct abx_str abx__server_policy_text(const struct abx__server *s);
/** Loads the hosts of --commands without serving. @loaded once, when all are ready: custom,
 * code_groups and the policy's text are there. The exit code of a host that failed, after its
 * message; 0. Once in a process. */
int abx__server_load_hosts(const struct abx__serve_options *o,
                           void (*loaded)(struct abx__server *s, void *arg), void *arg);
/** Compiles the policy again, with code_groups as they are now. */
void abx__server_reload(struct abx__server *s);
/** Loads the policy of s->source: 0, or the exit code, and what is wrong was said. */
int abx__policy_take(struct abx__server *s, bool routes_unknown);
/** SIGHUP: the source is read again; what is wrong with it changes nothing. */
void abx__policy_again(struct abx__server *s);
/* One policy is followed by another. */
struct abx__change {
    struct abx_policy *old, *now;
};
/** Whether the identity named @owner has all its powers still (S21). */
bool abx__owner_is_still(const struct abx__change *c, struct abx_str owner);
/** Ends the processes, and the terminals and their sockets, of those who have not: TERM or HUP,
 *  then KILL. */
void abx__processes_revoke(struct abx__server *s, const struct abx__change *c);
void abx__terminals_revoke(struct abx__server *s, const struct abx__change *c);
void abx__code_contexts_revoke(struct abx__server *s, const struct abx__change *c);
/** As after SIGINT. */
void abx__server_stop(struct abx__server *s);
