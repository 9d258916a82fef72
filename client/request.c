/* client/request.c: one blocking HTTP exchange on the client's own loop. */
#include "client/client_priv.h"
#include "lib/contract/contract.h"

#include <errno.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { UPLOAD_CHUNK = 65536 };

struct exchange {
    struct abx_client *c;
    struct client_request *r;
    struct abx_client_error *err;
    struct abx_http_call *call;
    struct abx_timer deadline;
    uint64_t left; /* of a body with a length */
    bool done, feeding;
    int result;
};

static void finish(struct exchange *x, int result)
{
    x->call = NULL;
    x->done = true;
    x->result = result;
    abx_loop_stop(&x->c->loop);
}

static void on_head(struct abx_http_call *call, const struct abx_http_head *head)
{
    struct exchange *x = abx_http_call_owner(call);
    x->r->status = head->status;
    struct abx_str next = abx_http_header(head, "X-Next-Token");
    if (next.ptr == NULL || abx_str_to_c(next, x->r->next_token, sizeof(x->r->next_token)) < 0)
        x->r->next_token[0] = '\0';
}

static void on_body(struct abx_http_call *call, const char *data, size_t len)
{
    struct exchange *x = abx_http_call_owner(call);
    struct client_request *r = x->r;
    if (r->on_body == NULL || r->status / 100 != 2) {
        abx_buf_put(&r->answer, data, len);
        return;
    }
    int w = r->on_body(r->arg, data, len);
    if (w >= 0)
        return;
    abx_http_call_cancel(call);
    finish(x, abx__client_fail(x->err, "E4000", "client", "write: %s", strerror(-w)));
}

static void on_end(struct abx_http_call *call)
{
    struct exchange *x = abx_http_call_owner(call);
    if (abx_buf_failed(&x->r->answer))
        finish(x, abx__client_fail(x->err, "E9000", "client", "the answer is over %d bytes",
                                   CLIENT_BODY_MAX));
    else
        finish(x, 0);
}

static void on_error(struct abx_http_call *call, const struct abx_error *base, bool head_seen)
{
    struct exchange *x = abx_http_call_owner(call);
    abx__client_fail(x->err, "E5001", "client", "%s: %s", x->c->url, base->msg);
    if (!head_seen)
        abx__client_next(x->err, "is the engine running? abx engine status, abx up --detach");
    finish(x, -1);
}

static void on_deadline(struct abx_timer *t)
{
    struct exchange *x = t->owner;
    if (x->done)
        return;
    abx_http_call_cancel(x->call);
    finish(x, abx__client_fail(x->err, "E3001", "client", "%s %.*s: no answer in time",
                               x->r->method, ABX_STR_FMT(x->r->target)));
}

static bool put_chunk(struct exchange *x, struct abx_str data)
{
    struct abx_http_call *call = x->call;
    char size[24];
    if (data.len == 0)
        return true;
    if (x->r->body_fd_bytes != 0)
        return abx_http_call_write(call, data.ptr, data.len);
    abx_http_call_write(call, size, abx_http_chunk_head(data.len, size));
    abx_http_call_write(call, data.ptr, data.len);
    return abx_http_call_write(call, "\r\n", 2);
}

static void fail_feed(struct exchange *x, const char *why)
{
    abx_http_call_cancel(x->call);
    finish(x, abx__client_fail(x->err, "E4000", "client", "read: %s", why));
}

/* The end of the descriptor. */
static void end_feed(struct exchange *x)
{
    x->feeding = false;
    if (x->r->body_fd_bytes != 0 && x->left != 0) {
        fail_feed(x, "the file has become shorter");
        return;
    }
    put_chunk(x, x->r->body_tail);
    if (x->r->body_fd_bytes == 0)
        abx_http_call_write(x->call, "0\r\n\r\n", 5);
    abx_http_call_finish(x->call);
}

/* Feeds the body from a descriptor until the queue is full; the drain callback goes on. */
static void feed(struct exchange *x)
{
    char data[UPLOAD_CHUNK];
    while (x->feeding && x->call != NULL) {
        bool has_length = x->r->body_fd_bytes != 0;
        size_t want = has_length && x->left < sizeof(data) ? (size_t)x->left : sizeof(data);
        ssize_t n = want ? read(x->r->body_fd, data, want) : 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            fail_feed(x, strerror(errno));
            return;
        }
        if (n == 0) {
            end_feed(x);
            return;
        }
        x->left -= has_length ? (uint64_t)n : 0;
        if (!put_chunk(x, abx_str_n(data, (size_t)n)))
            return;
    }
}

static void on_drain(struct abx_http_call *call)
{
    feed(abx_http_call_owner(call));
}

static const struct abx_http_call_ops ops = {.on_head = on_head,
                                             .on_body = on_body,
                                             .on_end = on_end,
                                             .on_error = on_error,
                                             .on_drain = on_drain};

void abx__client_head(const struct abx_client *c, const char *method, struct abx_str target,
                      const struct abx_http_extra *headers, struct abx_buf *b)
{
    abx_http_write_request(b, abx_str(method), target);
    abx_http_write_header(b, ABX_STR("Host"), c->target);
    abx_http_write_header(b, ABX_STR("User-Agent"), ABX_STR("abx/" ABX_VERSION));
    for (const struct abx_http_extra *h = headers; h && h->name; h++)
        abx_http_write_header(b, abx_str(h->name), h->value);
}

static void send_body(struct exchange *x)
{
    if (x->r->body_fd > 0) {
        x->feeding = true;
        x->left = x->r->body_fd_bytes;
        put_chunk(x, x->r->body);
        feed(x);
        return;
    }
    if (x->r->body.len)
        abx_http_call_write(x->call, x->r->body.ptr, x->r->body.len);
    abx_http_call_finish(x->call);
}

static int run(struct exchange *x, const struct abx_buf *head)
{
    struct abx_client *c = x->c;
    struct abx_error base;
    uint32_t limit = x->r->timeout_ms ? x->r->timeout_ms : c->timeout_ms;
    if (abx_http_call_start(c->pool, c->target, abx_buf_str(head),
                            strcmp(x->r->method, "HEAD") == 0, &ops, x, &x->call, &base) < 0)
        return abx__client_fail_base(x->err, "E5001", "client", &base);
    abx_timer_init(&x->deadline, &c->loop, on_deadline, x);
    if (limit != UINT32_MAX)
        abx_timer_start(&x->deadline, limit, 0);
    if (x->call != NULL)
        send_body(x);
    while (!x->done)
        abx_loop_run(&c->loop);
    return x->result;
}

static void on_gone(void *owner)
{
    struct exchange *x = owner;
    x->done = true;
    abx_loop_stop(&x->c->loop);
}

int abx__client_run(struct abx_client *c, struct client_request *r, struct abx_client_error *err)
{
    struct exchange x = {.c = c, .r = r, .err = err};
    ABX_AUTO_BUF head;
    abx_buf_init(&head, ABX_HTTP_HEAD_MAX);
    abx_buf_init(&r->answer, CLIENT_BODY_MAX);
    abx__client_head(c, r->method, r->target, r->headers, &head);
    if (r->body_fd_bytes != 0)
        abx_http_write_headerf(&head, "Content-Length", "%llu",
                               (unsigned long long)(r->body_fd_bytes));
    else if (r->body_fd > 0)
        abx_http_write_header(&head, ABX_STR("Transfer-Encoding"), ABX_STR("chunked"));
    else if (r->has_body)
        abx_http_write_headerf(&head, "Content-Length", "%zu", r->body.len);
    abx_http_write_end(&head);
    if (abx_buf_failed(&head))
        return abx__client_fail(err, "E8002", "client", "a header of the request is not allowed");
    int result = run(&x, &head);
    x.done = !x.deadline.open;
    abx_timer_close(&x.deadline, on_gone);
    while (!x.done)
        abx_loop_run(&c->loop);
    return result;
}

int abx__client_api(struct abx_client *c, const char *method, const char *path, const char *json,
                    struct client_request *ret, struct abx_client_error *err)
{
    if (c->api_key == NULL || c->api_key[0] == '\0') {
        abx__client_fail(err, "E1001", "client", "no API key is configured");
        abx__client_next(err, "eval \"$(abx env)\", or set E2B_API_KEY");
        return -1;
    }
    struct abx_http_extra headers[] = {{ABX_HEADER_API_KEY, abx_str(c->api_key)},
                                       {"Content-Type", ABX_STR("application/json")},
                                       {0}};
    ABX_AUTO_BUF target;
    abx_buf_init(&target, 8192);
    abx_buf_putf(&target, "%s%s", c->path, path);
    *ret = (struct client_request){.method = method,
                                   .target = abx_buf_str(&target),
                                   .headers = headers,
                                   .body = abx_str(json),
                                   .has_body = json != NULL};
    pthread_mutex_lock(&c->lock);
    int result = abx__client_run(c, ret, err);
    pthread_mutex_unlock(&c->lock);
    ret->headers = NULL;
    ret->target = (struct abx_str){0};
    return result;
}

int abx_client_request(struct abx_client *c, const char *method, const char *path, const char *json,
                       int *ret_status, char **ret_body, struct abx_client_error *err)
{
    struct client_request r;
    if (abx__client_api(c, method, path, json, &r, err) < 0) {
        abx_buf_done(&r.answer);
        return -1;
    }
    *ret_status = r.status;
    *ret_body = abx_buf_take(&r.answer);
    return *ret_body ? 0 : abx__client_fail_memory(err);
}
