/* guest/gateway/gateway_priv.h: the gateway's object, shared by its files. */
#pragma once
#include "guest/gateway/gateway.h"
#include "guest/gateway/route.h"
#include "lib/base/list.h"
#include "lib/http/proxy.h"

#define ABX__GATEWAY_VIA "1.1 abx-gateway"

struct abx__gateway {
    struct abx_loop loop;
    struct abx_gateway_options o;
    struct abx_gateway_rules rules;
    struct abx_http_server *server;
    struct abx_http_pool *pool;
    struct abx_signal term, interrupt;
    struct abx_list dials; /* connections being made */
    char host[256];
};

/** Whether PID 1 made a channel of that name ("envd", "interpreter"; NULL: none). */
bool abx__gateway_has_channel(const struct abx__gateway *g, const char *name);
/** The pool's connect: the name of a channel or a port number. */
void abx__gateway_connect(void *arg, struct abx_str target, struct abx_http_call *call);
/** Ends the dials under way (-ECANCELED). */
void abx__gateway_cancel_dials(struct abx__gateway *g);

/* Answers of the gateway itself. */
void abx__gateway_answer_error(struct abx_http_req *req, int status, const char *message);
void abx__gateway_answer_starting(struct abx_http_req *req);
void abx__gateway_answer_closed_port(struct abx__gateway *g, struct abx_http_req *req,
                                     uint16_t port);
void abx__gateway_answer_broken(struct abx_http_req *req);
void abx__gateway_answer_health(struct abx_http_req *req);
void abx__gateway_answer_state(struct abx__gateway *g, struct abx_http_req *req);
