/* guest/envd/envd_priv.h: the daemon's parts: state, request helpers, routes. Loop thread only. */
#pragma once
#include "guest/caps/files.h"
#include "guest/caps/gzip.h"
#include "guest/caps/process.h"
#include "guest/caps/users.h"
#include "guest/caps/watch.h"
#include "guest/envd/envd.h"
#include "lib/base/address.h"
#include "lib/connect/rpc.h"
#include "lib/http/channel.h"
#include "lib/http/server.h"
#include "lib/json/json.h"
#include "lib/wire/coding.h"
#include "lib/wire/range.h"

/* --- provisioning (state.c) --- */

enum { ABX__TOKEN_MAX = 4096, ABX__INIT_MAX = 1 << 20, ABX__STATE_MAX = 2 << 20 };

/* What /init sets. Memory is the state's own arena. */
struct abx__state {
    struct abx_arena arena;
    struct abx_str token; /* ptr NULL: none installed */
    struct abx_env_pair *envs;
    size_t env_count;
    struct abx_str default_user, default_workdir;
    int64_t timestamp_ns; /* of the last accepted init; 0: none */
    bool is_provisioned;
};
void abx__state_init(struct abx__state *s);
void abx__state_done(struct abx__state *s);
/** Makes the next state from an /init body and the present one. INVALID_ARGUMENT: bad JSON.
 *  *ret_stale: an init not newer than the last one; *ret_next is then untouched. */
int abx__state_next(const struct abx__state *now, struct abx_str body, struct abx__state *ret_next,
                    bool *ret_stale, struct abx_error *err);
/** The state as JSON in a sealed memfd: >= 0, or -1 with @err. */
int abx__state_seal(const struct abx__state *s, struct abx_error *err);
int abx__state_unseal(int fd, struct abx__state *ret, struct abx_error *err);
/** base-image.md 2: where the account `user` is missing below @users_root, the default user becomes
 *  root, and the default folder its home, if they were to be those of `user`. */
void abx__state_without_user(struct abx__state *s, const char *users_root);
/** Whether an /init with that body token and header token may replace @now: NULL, else
 * envd.md 2.2's text of the 401. */
const char *abx__state_refusal(const struct abx__state *now, struct abx_str body_token,
                               struct abx_str header_token);
/** Equal, in a time that does not tell where they differ. */
bool abx__secret_eq(struct abx_str a, struct abx_str b);

/* --- what /init puts into the system below a root (trust.c, hosts.c). Blocking, bounded --- */

/** Whether @pem is certificates in PEM by their frames. INVALID_ARGUMENT. */
int abx__trust_check(struct abx_str pem, struct abx_error *err);
/** Puts @pem among the trusted roots, in the place of what an earlier call put there. */
int abx__trust_install(const char *root, struct abx_str pem, struct abx_error *err);
/** Whether @address is an IP address; @ret gets it. INVALID_ARGUMENT. */
int abx__hosts_check(struct abx_str address, union abx_address *ret, struct abx_error *err);
/** Names the events service at @address in etc/hosts, and at no other of its family. */
int abx__hosts_set(const char *root, struct abx_str address, struct abx_error *err);

/* --- the daemon (envd.c) --- */

enum { ABX__TCP_LOCAL = 3 }; /* beside enum abx_envd_listener: a TCP peer in this sandbox */

struct abx__envd {
    struct abx_envd_options o;
    struct abx_loop loop;
    struct abx_http_server *http;
    struct abx_procs *procs;
    struct abx_watches *watches;
    struct abx_list polled; /* watchers between two questions: rpc_watch.c */
    struct abx_rpc_server rpc;
    struct abx_rpc_budget rpc_budget;
    struct abx__state state;
    struct abx_http_channel channel;
    struct abx_signal term, interrupt;
    uint64_t metrics_ticks; /* of the last sample, and when: metrics.c */
    int64_t metrics_at_ms;
    struct abx_buf scratch; /* an encoded event, within one call */
    int exit_code;
};
/** @next becomes the state; the present one is gone. Takes what @next owns. */
void abx__envd_take_state(struct abx__envd *e, const struct abx__state *next);
/** The daemon behind a request. */
struct abx__envd *abx__envd_of(const struct abx_http_req *req);
const char *abx__users_root(const struct abx__envd *e);

/* --- requests (rest.c) --- */

enum { ABX__HEADERS = 16 };
struct abx__headers {
    struct abx_http_extra rows[ABX__HEADERS + 1];
    size_t count;
};
/** Begins with the CORS headers of the request. */
void abx__headers_begin(struct abx__headers *h, const struct abx_http_req *req);
/** Borrows @value until the head is written; the arena of the request is the place for it. */
void abx__headers_add(struct abx__headers *h, const char *name, struct abx_str value);
const struct abx_http_extra *abx__cors(struct abx_http_req *req);
void abx__answer_json(struct abx_http_req *req, int status, struct abx_str json);
/** The REST error object of envd.md 1.4. */
void abx__answer_error(struct abx_http_req *req, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void abx__on_request(struct abx_http_req *req);
/** Text of bounded length for a message from a peer's bytes, in the request's arena. */
const char *abx__show(struct abx_http_req *req, struct abx_str s);

/* --- auth (auth.c) --- */

/** A probe is not asked for one: rest.c. */
bool abx__token_ok(const struct abx__envd *e, const struct abx_http_req *req);
/** User name of Basic auth: 1 given, 0 none (or not Basic), in the request's arena. */
int abx__basic_user(const struct abx_http_req *req, struct abx_str *ret);
/** envd.md 3.5. NULL when allowed, else the text of the 401. */
struct abx__signed {
    struct abx_str path, username; /* of the query, decoded; "" when absent */
    struct abx_str signature;      /* ptr NULL: absent */
    struct abx_str expiration;     /* ptr NULL: absent */
    const char *operation;         /* "read", "write" */
};
const char *abx__files_refusal(const struct abx__envd *e, const struct abx_http_req *req,
                               const struct abx__signed *q);

/* --- routes --- */

/** GET /health that wants no report: answered to everybody. */
bool abx__is_probe(const struct abx_http_req *req);
void abx__health_get(struct abx_http_req *req);              /* health.c */
void abx__init_post(struct abx_http_req *req);               /* init.c */
void abx__files_get(struct abx_http_req *req);               /* files_get.c */
void abx__files_post(struct abx_http_req *req);              /* files_post.c */
void abx__compose_post(struct abx_http_req *req);            /* compose.c */
void abx__metrics_get(struct abx_http_req *req);             /* metrics.c */
void abx__terminal_get(struct abx_http_req *req);            /* terminal.c */
extern const struct abx_rpc_service abx__process_service;    /* rpc_process.c */
extern const struct abx_rpc_service abx__filesystem_service; /* rpc_files.c */

/* X-Metadata-* of an upload (metadata.c). */
enum { ABX__METADATA_KEY_MAX = 246, ABX__METADATA_MAX = 4096 };
struct abx__metadata {
    struct abx_meta *rows;
    size_t count, bytes;
};
/** Keys in @a, values borrowed of @head. INVALID_ARGUMENT "invalid metadata: ...". */
int abx__metadata_parse(const struct abx_http_head *head, struct abx_arena *a,
                        struct abx__metadata *ret, struct abx_error *err);

/* What both file routes ask of a query and user, envd.md 3.3 and 3.4. */
struct abx__target {
    struct abx__signed query;
    bool has_path;
    struct abx_str username; /* of the query, else the default */
    struct abx_user user;
};
/** Reads the query; checks the signature (401) and that a user is named (400). Answers and returns
 *  -1 on failure. */
int abx__target_query(struct abx_http_req *req, const char *operation, struct abx__target *t);
/** 401 for an unknown one. On success: abx_user_done(). */
int abx__target_user(struct abx_http_req *req, struct abx__target *t);
/** The REST path rules of envd.md 3.1 for @raw; "" without a workdir is the home. */
int abx__target_resolve(struct abx_http_req *req, const struct abx__target *t, struct abx_str raw,
                        char out[ABX_FILES_PATH], struct abx_error *err);

/* --- RPC helpers (rpc_common.c) --- */

/** The user of a call: Basic auth or the default; fails the call and returns -1. Then
 *  abx_user_done(). */
int abx__rpc_user(struct abx_rpc *rpc, struct abx_user *ret);
/** Resolves @raw (NULL: "") for @user; fails the call and returns -1. */
int abx__rpc_path(struct abx_rpc *rpc, const char *raw, const struct abx_user *user,
                  char out[ABX_FILES_PATH]);

/* --- files and watching (rpc_files.c, rpc_watch.c) --- */

struct Filesystem__EntryInfo;
/** The message of an entry, in @a; NULL without memory. */
struct Filesystem__EntryInfo *abx__entry_message(struct abx_arena *a, const struct abx_entry *e);
abx_rpc_fn abx__watch_dir, abx__create_watcher, abx__get_watcher_events, abx__remove_watcher;
/** Closes the watchers that are asked, and all of watching once the streams have ended. */
void abx__watches_stop(struct abx__envd *e);

/* --- process streams (stream.c) --- */

/** Between two keepalive events, as the client wants it. */
uint64_t abx__keepalive_ms(const struct abx_http_req *req);

/** Start and Connect: sends the start event and everything that follows. @from: journal offset or
 *  ABX_PROCESS_FROM_NOW. Fails the call on error. */
void abx__stream_begin(struct abx_rpc *rpc, struct abx_process *p, uint64_t from, bool is_start);
/** "{"event":{"data":{"stdout":"..."}}}" into @out. */
void abx__event_data_json(struct abx_buf *out, enum abx_output kind, struct abx_str data);

/* --- file types and dates (media.c) --- */

/** By extension; NULL: unknown. */
const char *abx__media_by_name(struct abx_str name);
/** By extension, else by looking at the first bytes. */
const char *abx__media_type(struct abx_str name, struct abx_str head);
/** "inline; filename=..." in the arena. */
struct abx_str abx__disposition(struct abx_arena *a, struct abx_str name);
/** "Sun, 06 Nov 1994 08:49:37 GMT". */
struct abx_str abx__http_date_text(struct abx_arena *a, int64_t seconds);
int abx__http_date_parse(struct abx_str text, int64_t *ret_seconds);
