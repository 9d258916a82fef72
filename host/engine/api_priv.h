/* host/engine/api_priv.h: the REST API: calls, route tables, answers (control-plane 2, 3).
 *
 * A resource is a file with a table of routes; a route that is not built says why and what to do
 * instead (501). Every answer is JSON, errors are {"code","message"}. */
#pragma once
#include "host/engine/sandbox_priv.h"

enum {
    ABX__PARAMS_MAX = 3,
    ABX__BODY_MAX = 1024 * 1024,
    ABX__MESSAGE_MAX = 256 * 1024, /* of an error, with the last lines of output */
};

struct abx__call;
typedef void abx__route_fn(struct abx__call *c);

struct abx__route {
    const char *method, *path; /* "/sandboxes/{id}": {x} matches one segment; NULL ends */
    abx__route_fn *fn;
    bool is_v2;
    bool is_open;        /* no key: the URL carries its own right */
    bool takes_body;     /* fn is called at the head and reads the body itself */
    const char *missing; /* of abx__api_unimplemented: the reason and the next step */
};

struct abx__call {
    struct abx__engine *engine;
    struct abx_http_req *req; /* NULL once the client has gone */
    const struct abx__route *route;
    struct abx_str params[ABX__PARAMS_MAX]; /* decoded */
    struct abx_buf body;
    struct abx__wait wait;
    void (*on_close)(struct abx__call *c); /* the exchange is over; of fn */
    void *data;
    char created_id[ABX_SANDBOX_ID_LEN + 1]; /* undone when its answer does not get through */
};

extern const struct abx__route abx__sandbox_routes[], abx__template_routes[], abx__build_routes[],
    abx__image_routes[], abx__export_routes[], abx__misc_routes[];
/** The tables above, NULL-terminated; for the dispatcher and the tests. */
extern const struct abx__route *const abx__route_tables[];

/** Serves @req as an API request: CORS, key, route, body. */
void abx__api_serve(struct abx__engine *e, struct abx_http_req *req);
/** The route that fits. NULL: none; *ret_allow (arena text) names the methods if the path exists.
 */
const struct abx__route *abx__route_find(struct abx_str method, struct abx_str path,
                                         struct abx_arena *a,
                                         struct abx_str params[ABX__PARAMS_MAX], char **ret_allow);

void abx__api_answer(struct abx__call *c, int status, struct abx_str json);
/** With more headers; a NULL name ends. */
void abx__api_answer_with(struct abx__call *c, int status, struct abx_str json,
                          const struct abx_http_extra *more);
/** 200-something with what was written, or 500 when that failed. */
void abx__api_answer_buf(struct abx__call *c, int status, const struct abx_buf *json,
                         const struct abx_http_extra *more);
void abx__api_fail(struct abx__call *c, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/** Of any length up to ABX__MESSAGE_MAX. */
void abx__api_fail_text(struct abx__call *c, int status, struct abx_str message);
/** Decodes the body into @out; answers 400 when that fails. */
bool abx__api_read(struct abx__call *c, const struct abx_json_field *fields, void *out);
/** By the error's code. */
void abx__api_fail_err(struct abx__call *c, const struct abx_error *err);
abx__route_fn abx__api_unimplemented;

/** isolation, network and limits of this machine, as a JSON object. */
void abx__write_isolation(struct abx_json_writer *w, const struct abx__engine *e);
/** Compares secrets of any length without telling where they differ. */
bool abx__secret_eq(struct abx_str a, struct abx_str b);
