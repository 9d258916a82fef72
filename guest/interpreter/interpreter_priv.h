/* guest/interpreter/interpreter_priv.h: the daemon's parts. Loop thread only. */
#pragma once
#include "guest/interpreter/interpreter.h"
#include "guest/kernels/context.h"
#include "lib/http/channel.h"
#include "lib/http/client.h"
#include "lib/http/server.h"

enum abx__interp_listener { ABX__INTERP_TCP = 1, ABX__INTERP_CHANNEL = 2, ABX__INTERP_LOCAL = 3 };
enum {
    ABX__INTERP_BODY_MAX = 64 << 20, /* of a request */
    ABX__INTERP_KEEPALIVE_MS = 5000,
};

struct abx__interp {
    struct abx_interpreter_options o;
    struct abx_loop loop;
    struct abx_http_server *http;
    struct abx_http_pool *envd;
    struct abx_contexts *contexts;
    struct abx_http_channel channel;
    struct abx_signal term, interrupt;
    int exit_code;
};
static inline struct abx__interp *abx__interp_of(const struct abx_http_req *req)
{
    return req->user;
}

/* --- answers (answer.c) --- */
void abx__interp_answer_json(struct abx_http_req *req, int status, struct abx_str body);
void abx__interp_answer_text(struct abx_http_req *req, int status, const char *text);
/** The status of @err for this service: 500, but 501, 503 and 413 where they say more. */
void abx__interp_answer_error(struct abx_http_req *req, const struct abx_error *err);
void abx__interp_begin_stream(struct abx_http_req *req);
/** Answers a preflight; false: it was none. */
bool abx__interp_preflight(struct abx_http_req *req);

/* --- bodies (body.c): what is wrong with one goes out as FastAPI's 422 --- */
struct abx__interp_execution {
    struct abx_str code, context_id, language; /* ptr NULL: absent or null */
    struct abx_variable *own;
    size_t own_count;
};
struct abx__interp_wanted {
    struct abx_str cwd, language;
};
/** 0, or -1 with the 422 body in @detail. Strings live in @a. */
int abx__interp_read_execution(struct abx_str body, struct abx_arena *a,
                               struct abx__interp_execution *ret, struct abx_buf *detail);
int abx__interp_read_wanted(struct abx_str body, struct abx_arena *a,
                            struct abx__interp_wanted *ret, struct abx_buf *detail);
/** Collects the request's body, then calls @fn with it (once), unless the peer goes away or the
 * body is too long (answered). */
typedef void abx__interp_body_fn(struct abx_http_req *req, struct abx_str body);
void abx__interp_collect(struct abx_http_req *req, abx__interp_body_fn *fn);

/* --- routes (routes.c) and their handlers --- */
void abx__interp_on_request(struct abx_http_req *req);
void abx__interp_execute(struct abx_http_req *req, struct abx_str id);
void abx__interp_contexts_list(struct abx_http_req *req, struct abx_str id);
void abx__interp_contexts_create(struct abx_http_req *req, struct abx_str id);
void abx__interp_contexts_restart(struct abx_http_req *req, struct abx_str id);
void abx__interp_contexts_remove(struct abx_http_req *req, struct abx_str id);

/* --- the sandbox's variables (envs.c) --- */
struct abx__interp_ask;
/** @list NULL: envd said no, or could not be asked. Once, and not from inside of ask(). */
typedef void abx__interp_told_fn(void *arg, const struct abx_variable *list, size_t count);
struct abx__interp_ask *abx__interp_ask(struct abx__interp *in, struct abx_str token,
                                        abx__interp_told_fn *told, void *arg);
void abx__interp_ask_cancel(struct abx__interp_ask *a); /* accepts NULL */
void abx__interp_connect_envd(void *arg, struct abx_str target, struct abx_http_call *call);
