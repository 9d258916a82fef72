/* client/client_priv.h: the client object, one blocking request, and error making. */
#pragma once
#include "include/abx/abx.h"
#include "lib/base/arena.h"
#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/http/client.h"
#include "lib/http/server.h"
#include "lib/loop/loop.h"

#include <pthread.h>

struct abx_client {
    struct abx_loop loop;
    struct abx_http_pool *pool;
    pthread_mutex_t lock;
    char *url, *api_key, *domain;
    char host[256];
    uint16_t port;
    struct abx_str target; /* "host:port" */
    char target_text[272];
    char *path; /* prefix of the URL, "" or "/x" */
    uint32_t timeout_ms;
};

struct abx_sandbox {
    struct abx_client *client;
    char *id, *token, *domain;
};

enum { CLIENT_BODY_MAX = 16 << 20, CLIENT_HEADERS = 12 };

/* One request and what came back. Zero it, set the inputs, then abx__client_run(). */
struct client_request {
    const char *method;
    struct abx_str target;
    const struct abx_http_extra *headers; /* besides Host and framing */
    struct abx_str body;
    bool has_body;
    int body_fd; /* > 0: streamed as the body, chunked, between `body` and `body_tail` */
    struct abx_str body_tail;
    uint64_t body_fd_bytes; /* != 0: exactly so many are read, sent with Content-Length */
    uint32_t timeout_ms;    /* 0: the client's; UINT32_MAX: none */
    /* a 2xx body goes here when set, instead of into `answer` */
    int (*on_body)(void *arg, const char *data, size_t len); /* < 0 stops: -errno */
    void *arg;
    /* out */
    int status;
    struct abx_buf answer; /* done by the caller */
    char next_token[256];  /* X-Next-Token, "" if absent */
};
/** Runs the loop until the exchange is over. The caller holds the client's lock. */
int abx__client_run(struct abx_client *c, struct client_request *r, struct abx_client_error *err);
/** The same under the lock, with the API key, for the control plane; @json NULL: no body. */
int abx__client_api(struct abx_client *c, const char *method, const char *path, const char *json,
                    struct client_request *ret, struct abx_client_error *err);
/** A request head with Host, User-Agent and @headers, not ended. */
void abx__client_head(const struct abx_client *c, const char *method, struct abx_str target,
                      const struct abx_http_extra *headers, struct abx_buf *b);

int abx__client_fail(struct abx_client_error *err, const char *id, const char *hop, const char *fmt,
                     ...) __attribute__((format(printf, 4, 5)));
void abx__client_next(struct abx_client_error *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
int abx__client_fail_memory(struct abx_client_error *err);
/** From an answer that is not 2xx. @subject: what it was about ("sandbox x"). */
int abx__client_fail_answer(struct abx_client_error *err, const char *hop, const char *subject,
                            int status, struct abx_str body);
int abx__client_fail_base(struct abx_client_error *err, const char *id, const char *hop,
                          const struct abx_error *base);
/** 0 when the policy library accepts the document; else E8002 with its first fault and the place.
 */
int abx__policy_check(const char *json, struct abx_client_error *err);
/** The value of a key in the client configuration file, heap; NULL if absent. */
char *abx__config_get(const char *key);

/** Fills @out (CLIENT_HEADERS rows) with what routes a request to envd of @sb. @basic: heap text
 *  that must outlive @out, from abx__sandbox_basic(), or NULL. */
void abx__sandbox_headers(const struct abx_sandbox *sb, const char *content_type, const char *basic,
                          struct abx_http_extra *out);
/** "Basic ..." for @user; heap, NULL without memory. */
char *abx__sandbox_basic(const char *user);
