/* guest/server/refuse.c: a refused credential, answered at once or, for a peer that has had too
 * many, a little later: same status, same body. Loop thread. security S16. */
#include "guest/server/server_priv.h"

#include <stdlib.h>

#include "lib/base/banned.h"

struct delayed {
    struct abx_timer timer;
    struct abx__call *call; /* NULL: over */
    abx__refuse_fn *answer;
    struct abx_policy_verdict verdict;
};

static void on_timer_closed(void *owner)
{
    free(owner);
}

static void on_close(struct abx__call *c, bool aborted)
{
    struct delayed *d = c->data;
    (void)aborted;
    d->call = NULL;
    abx_timer_close(&d->timer, on_timer_closed);
}

static void on_time(struct abx_timer *t)
{
    struct delayed *d = t->owner;
    if (d->call)
        d->answer(d->call, &d->verdict);
}

void abx__call_refuse(struct abx__call *c, const struct abx_policy_verdict *v)
{
    abx__call_refuse_by(c, v, abx__call_deny);
}

void abx__call_refuse_by(struct abx__call *c, const struct abx_policy_verdict *v,
                         abx__refuse_fn *answer)
{
    struct abx__server *s = c->server;
    uint64_t peer = abx__throttle_key(abx_http_peer_fd(c->req));
    bool is_slow = v->code == ABX_POLICY_UNAUTHORIZED &&
                   abx__throttle_refused(&s->throttle, peer, c->began_ms);
    struct delayed *d = is_slow ? calloc(1, sizeof(*d)) : NULL;
    if (d == NULL) {
        answer(c, v);
        return;
    }
    d->call = c;
    d->answer = answer;
    d->verdict = *v;
    c->data = d;
    c->on_close = on_close;
    abx_timer_init(&d->timer, &s->loop, on_time, d);
    abx_timer_start(&d->timer, ABX__THROTTLE_DELAY_MS, 0);
}
