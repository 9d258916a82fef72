/* guest/interpreter/envs.c: the sandbox's variables: GET /envs of envd, with the caller's token. */
#include "guest/interpreter/interpreter_priv.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/contract/contract.h"
#include "lib/json/json.h"

#include <errno.h>
#include <jansson.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { LIMIT_MS = 5000, HEAD_BYTES = 8192, BODY_BYTES = 4 << 20, ARENA_BYTES = 8 << 20 };

struct abx__interp_ask {
    struct abx_http_call *call; /* NULL: over */
    struct abx_timer limit;
    struct abx_buf body;
    int status;
    abx__interp_told_fn *told; /* NULL: told, or cancelled */
    void *arg;
};

/* ---- the connection ---- */

static int connect_channel(int channel)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return -errno;
    ssize_t n = abx_fd_send(channel, "c", 1, &pair[1], 1);
    close(pair[1]);
    if (n >= 0)
        return pair[0];
    close(pair[0]);
    return (int)n;
}

static int connect_port(uint16_t port)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
    } at = {.v4 = {.sin_family = AF_INET,
                   .sin_port = htons(port),
                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    ABX_AUTO_FD fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || (connect(fd, &at.any, sizeof(at.v4)) < 0 && errno != EINPROGRESS))
        return -errno; /* one in progress takes bytes once it is there, or breaks */
    return abx_fd_take(&fd);
}

void abx__interp_connect_envd(void *arg, struct abx_str target, struct abx_http_call *call)
{
    struct abx__interp *in = arg;
    (void)target;
    abx_http_connected(call, in->o.envd_fd >= 0 ? connect_channel(in->o.envd_fd)
                                                : connect_port(in->o.envd_port));
}

/* ---- the end ---- */

static void on_timer_closed(void *owner)
{
    struct abx__interp_ask *a = owner;
    abx_buf_done(&a->body);
    free(a);
}

static void finish(struct abx__interp_ask *a, const struct abx_variable *list, size_t count)
{
    abx__interp_told_fn *told = a->told;
    a->told = NULL;
    if (told != NULL)
        told(a->arg, list, count);
    if (a->call != NULL)
        abx_http_call_cancel(a->call);
    a->call = NULL;
    abx_timer_close(&a->limit, on_timer_closed);
}

void abx__interp_ask_cancel(struct abx__interp_ask *a)
{
    if (a == NULL)
        return;
    a->told = NULL;
    finish(a, NULL, 0);
}

static void on_limit(struct abx_timer *t)
{
    abx_log(ABX_LOG_WARN, "envd did not tell the sandbox's variables in time");
    finish(t->owner, NULL, 0);
}

/* ---- the answer ---- */

static struct abx_variable *read_variables(json_t *doc, struct abx_arena *a, size_t *ret_count)
{
    const char *name;
    json_t *value;
    size_t n = 0;
    struct abx_variable *list =
        json_is_object(doc) ? abx_arena_array(a, json_object_size(doc) + 1, sizeof(*list)) : NULL;
    if (list == NULL)
        return NULL;
    json_object_foreach(doc, name, value)
    {
        if (!json_is_string(value))
            continue;
        list[n].name = abx_arena_str(a, abx_str(name));
        list[n].value =
            abx_arena_str(a, abx_str_n(json_string_value(value), json_string_length(value)));
        if (list[n].name.ptr == NULL || list[n].value.ptr == NULL)
            return NULL;
        n++;
    }
    *ret_count = n;
    return list;
}

static void on_head(struct abx_http_call *c, const struct abx_http_head *head)
{
    struct abx__interp_ask *a = abx_http_call_owner(c);
    a->status = head->status;
}

static void on_body(struct abx_http_call *c, const char *data, size_t len)
{
    struct abx__interp_ask *a = abx_http_call_owner(c);
    abx_buf_put(&a->body, data, len);
}

static void on_end(struct abx_http_call *c)
{
    struct abx__interp_ask *a = abx_http_call_owner(c);
    struct abx_arena arena;
    struct abx_variable *list = NULL;
    struct abx_error err = {0};
    const struct abx_json_limits limits = {.max_bytes = BODY_BYTES, .max_depth = 4};
    json_t *doc = NULL;
    size_t count = 0;
    a->call = NULL;
    abx_arena_init(&arena, ARENA_BYTES);
    if (a->status == 200 && !abx_buf_failed(&a->body) &&
        abx_json_parse(abx_buf_str(&a->body), &limits, &doc, &err) == 0)
        list = read_variables(doc, &arena, &count);
    if (list == NULL)
        abx_log(ABX_LOG_WARN, "no variables of the sandbox: envd answered status=%d", a->status);
    finish(a, list, count);
    abx_json_free(doc);
    abx_arena_done(&arena);
}

static void on_error(struct abx_http_call *c, const struct abx_error *err, bool head_seen)
{
    struct abx__interp_ask *a = abx_http_call_owner(c);
    (void)head_seen;
    a->call = NULL;
    abx_log(ABX_LOG_WARN, "no variables of the sandbox: envd: %s", err->msg);
    finish(a, NULL, 0);
}

static const struct abx_http_call_ops call_ops = {
    .on_head = on_head, .on_body = on_body, .on_end = on_end, .on_error = on_error};

struct abx__interp_ask *abx__interp_ask(struct abx__interp *in, struct abx_str token,
                                        abx__interp_told_fn *told, void *arg)
{
    struct abx_error err = {0};
    ABX_AUTO_BUF head;
    abx_buf_init(&head, HEAD_BYTES);
    abx_http_write_request(&head, ABX_STR("GET"), ABX_STR("/envs"));
    abx_http_write_header(&head, ABX_STR("Host"), ABX_STR("localhost"));
    if (token.len > 0)
        abx_http_write_header(&head, ABX_STR(ABX_HEADER_ACCESS_TOKEN), token);
    abx_http_write_end(&head);
    struct abx__interp_ask *a = calloc(1, sizeof(*a));
    if (a == NULL || abx_buf_failed(&head)) {
        free(a);
        return NULL;
    }
    abx_buf_init(&a->body, BODY_BYTES);
    a->told = told;
    a->arg = arg;
    abx_timer_init(&a->limit, &in->loop, on_limit, a);
    abx_timer_start(&a->limit, LIMIT_MS, 0);
    if (abx_http_call_start(in->envd, ABX_STR("envd"), abx_buf_str(&head), false, &call_ops, a,
                            &a->call, &err) < 0) {
        abx_log(ABX_LOG_WARN, "no variables of the sandbox: %s", err.msg);
        abx__interp_ask_cancel(a);
        return NULL;
    }
    abx_http_call_finish(a->call);
    return a;
}
