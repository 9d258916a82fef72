/* host/engine/edge_priv.h: the way of a request on the one listener: API, edge, or refused.
 *
 * Order (decisions "One listener, order"): Host label PORT-ID.domain, /.p/ID/PORT/ on an own Host,
 * own Host with both E2b headers, /files with signature=, API; a foreign Host is 421. */
#pragma once
#include "host/engine/sandbox_priv.h"

/* What the Host header names. */
enum abx__host {
    ABX__HOST_FOREIGN, /* 421 */
    ABX__HOST_OWN,     /* localhost, an IP literal of the listener, the domain, api. or sandbox. */
    ABX__HOST_LABEL,   /* a label below the domain: PORT-ID */
};
/** @ret_label: the label(s) before the domain, for HOST_LABEL. */
enum abx__host abx__host_classify(const struct abx__engine *e, struct abx_str host,
                                  struct abx_str *ret_label);

/* Where a request goes. */
struct abx__target {
    struct abx_str id;
    uint16_t port;
    struct abx_str rewritten; /* the request target to send on; ptr NULL: as it came */
};
/** "PORT-ID[-...]". 0, or -1 with the text of the 400 in *ret_why. */
int abx__target_from_label(struct abx_str label, struct abx__target *ret, const char **ret_why);
/** "/.p/ID/PORT/rest". 1 it is one, 0 it is not, -1 with *ret_why. */
int abx__target_from_path(struct abx_http_req *req, struct abx__target *ret, const char **ret_why);
/** Both E2b headers. 1, 0 neither is there, -1 with *ret_why. */
int abx__target_from_headers(const struct abx_http_head *head, struct abx__target *ret,
                             const char **ret_why);

/** Any request of the listener. */
void abx__edge_on_request(struct abx_http_req *req);
/** Checks and forwards (control-plane 12.2). */
void abx__edge_forward(struct abx__engine *e, struct abx_http_req *req,
                       const struct abx__target *t);
/** /files with a signature and no name: finds the one sandbox whose token signs so (S61). */
void abx__edge_signed(struct abx__engine *e, struct abx_http_req *req, struct abx_str signature);
/** "v1_..." of these fields; for the tests too. */
void abx__sign(const struct abx_str fields[4], struct abx_str expiration, char out[64]);

/* Answers of the edge. */
void abx__edge_text(struct abx_http_req *req, int status, const char *text);
/* More members of the JSON body. */
struct abx__edge_error {
    int status;
    const char *message;
    struct abx_str sandbox_id; /* ptr NULL: none */
    const char *path;          /* NULL: none */
    int connection_limit;      /* 0: none */
};
/** JSON, or HTML for a person's browser. */
void abx__edge_error(struct abx_http_req *req, const struct abx__edge_error *x);
/** As envd answers: {"code","message"}. */
void abx__edge_envd_error(struct abx_http_req *req, int status, const char *message);
bool abx__wants_html(const struct abx_http_head *head);
