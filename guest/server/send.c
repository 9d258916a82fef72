/* guest/server/send.c: one pull at a time; the next one once the connection has room. */
#include "guest/server/send.h"

#include "lib/base/assert.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { EXTRA_MAX = 8 };

/* Lives until the pull in flight is done and the call is over. */
struct sender {
    struct abx_work work;
    struct abx__call *call; /* NULL: over */
    struct abx__source *source;
    struct abx_buf piece;
    int rc; /* of the last pull */
    bool is_pulling, is_waiting;
};

ssize_t abx__read_at(int fd, char *to, size_t len, uint64_t offset)
{
    size_t n = 0;
    while (n < len) {
        ssize_t got = pread(fd, to + n, len - n, (off_t)(offset + n));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        n += (size_t)got;
    }
    return (ssize_t)n;
}

static void release(struct sender *s)
{
    if (s->call || s->is_pulling)
        return;
    s->source->free(s->source);
    abx_buf_done(&s->piece);
    free(s);
}

static void on_close(struct abx__call *c, bool aborted)
{
    struct sender *s = c->data;
    (void)aborted;
    s->call = NULL;
    release(s);
}

static void on_run(struct abx_work *w)
{
    struct sender *s = w->owner;
    abx_buf_clear(&s->piece);
    s->rc = s->source->pull(s->source, &s->piece);
    if (abx_buf_failed(&s->piece))
        s->rc = -ENOMEM;
}

static void on_done(struct abx_work *w);

static void pull(struct sender *s)
{
    s->is_pulling = true;
    if (abx_work_start(&s->work, &s->call->server->loop, on_run, on_done, s, NULL) < 0) {
        s->is_pulling = false;
        abx_http_abort(s->call->req);
    }
}

static void on_drain(struct abx__call *c)
{
    struct sender *s = c->data;
    if (s->is_waiting && !s->is_pulling) {
        s->is_waiting = false;
        pull(s);
    }
}

static void on_done(struct abx_work *w)
{
    struct sender *s = w->owner;
    s->is_pulling = false;
    if (s->call == NULL) {
        release(s);
        return;
    }
    if (s->rc < 0) {
        abx_http_abort(s->call->req);
        return;
    }
    bool has_room = s->piece.len == 0 || abx_http_write(s->call->req, s->piece.ptr, s->piece.len);
    if (s->rc == 0) {
        abx__audit_call(s->call);
        abx_http_end(s->call->req);
    } else if (has_room) {
        pull(s);
    } else {
        s->is_waiting = true;
    }
}

static void begin(struct abx__call *c, int status, const struct abx_http_extra *extra,
                  int64_t length)
{
    struct abx_http_extra all[EXTRA_MAX] = {{"X-Request-Id", abx_str(c->id)}};
    size_t n = 1;
    for (; extra && extra->name; extra++) {
        ABX_ASSERT(n + 1 < EXTRA_MAX);
        all[n++] = *extra;
    }
    ABX_ASSERT(c->status == 0);
    c->status = status;
    abx_http_begin(c->req, status, all, length);
}

void abx__send(struct abx__call *c, int status, const struct abx_http_extra *extra, int64_t length,
               struct abx__source *take_source)
{
    struct sender *s = calloc(1, sizeof(*s));
    bool is_head = abx_str_is(c->req->head->method, "HEAD");
    if (s == NULL || is_head)
        take_source->free(take_source);
    if (s == NULL) {
        abx__call_fail(c, 500, "MemoryError", "out of memory");
        return;
    }
    begin(c, status, extra, length);
    if (is_head) {
        free(s);
        abx__audit_call(c);
        abx_http_end(c->req);
        return;
    }
    s->call = c;
    s->source = take_source;
    abx_buf_init(&s->piece, ABX__SEND_MAX);
    c->data = s;
    c->on_close = on_close;
    c->on_drain = on_drain;
    pull(s);
}
