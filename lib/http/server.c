/* lib/http/server.c: listeners, the set of connections, deadlines. Loop thread. */
#include "lib/http/server_priv.h"

#include "lib/base/address.h"
#include "lib/base/assert.h"
#include "lib/base/fd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include "lib/base/banned.h"

enum {
    BACKLOG = 128,
    HEAD_TIMEOUT_MS = 30000,
    IDLE_TIMEOUT_MS = 640000, /* envd.md 1.1 */
    MAX_CONNS = 2000,
    TURNED_AWAY_MAX = 64,
    HIGH_WATER = 65536,
    ACCEPTS_PER_EVENT = 64,
    BACKOFF_MS = 100,
    SWEEP_MAX_MS = 5000,
    SWEEP_MIN_MS = 10,
    CLOSE_GRACE_MS = 1000,
};

static void let_go(void *owner)
{
    struct abx_http_server *s = owner;
    if (--s->handles || s->conn_count || !s->closing)
        return;
    void (*closed)(void *) = s->closed;
    void *arg = s->closed_arg;
    free(s);
    if (closed)
        closed(arg);
}

static void watch_listeners(struct abx_http_server *s)
{
    bool on = !s->is_full && !s->is_backing_off && !s->closing;
    struct abx_http_listener *l;
    abx_list_foreach(l, &s->listeners, struct abx_http_listener, node)
    {
        abx_poll_set(&l->poll, on ? ABX_POLL_IN : 0);
    }
}

static void on_backoff(struct abx_timer *t)
{
    struct abx_http_server *s = t->owner;
    s->is_backing_off = false;
    watch_listeners(s);
}

static uint32_t sweep_period(const struct abx_http_server *s)
{
    uint32_t least =
        s->o.head_timeout_ms < s->o.idle_timeout_ms ? s->o.head_timeout_ms : s->o.idle_timeout_ms;
    if (s->o.first_timeout_ms < least)
        least = s->o.first_timeout_ms;
    uint32_t period = least / 4;
    if (period > SWEEP_MAX_MS)
        period = SWEEP_MAX_MS;
    return period < SWEEP_MIN_MS ? SWEEP_MIN_MS : period;
}

/* One timer for all deadlines, so that a request costs none; it runs while there are connections.
 */
static void on_sweep(struct abx_timer *t)
{
    struct abx_http_server *s = t->owner;
    uint64_t now = uv_now(&s->loop->uv);
    struct abx_http_conn *c;
    abx_list_foreach(c, &s->conns, struct abx_http_conn, node)
    {
        if (c->deadline_ms && now >= c->deadline_ms)
            abx__http_conn_expire(c);
    }
}

/* Whether one more is let in, be it to hear that there is no place. */
static bool has_no_place(const struct abx_http_server *s)
{
    return s->conn_count >= s->o.max_conns + (s->o.turns_away ? TURNED_AWAY_MAX : 0U);
}

/* The first that came and waits; with @never_asked, of those that have not asked for anything. */
static struct abx_http_conn *find_waiting(struct abx_http_server *s, bool never_asked,
                                          const struct abx_http_conn *except)
{
    struct abx_http_conn *c;
    abx_list_foreach(c, &s->conns, struct abx_http_conn, node)
    {
        if (c != except && abx__http_conn_is_waiting(c) && !(never_asked && c->has_asked))
            return c;
    }
    return NULL;
}

/* Lets go of one for which nothing is done: who holds many and asks for nothing keeps nobody out.
 * False: all are at work. */
static bool make_room(struct abx_http_server *s, const struct abx_http_conn *newest)
{
    struct abx_http_conn *c = find_waiting(s, true, newest);
    if (c == NULL)
        c = find_waiting(s, false, newest);
    if (c != NULL)
        abx__http_conn_shut(c, true);
    return c != NULL;
}

static void adopt(struct abx_http_server *s, int take_fd, int tag)
{
    struct abx_error err;
    if (s->o.on_accept)
        tag = s->o.on_accept(s->o.user, take_fd, tag);
    if (tag < 0) {
        abx_fd_close(&take_fd);
        return;
    }
    if (abx_http_server_adopt(s, take_fd, tag, &err) < 0)
        return; /* no memory: the peer sees a close */
    struct abx_http_conn *newest = ABX_CONTAINER_OF(s->conns.prev, struct abx_http_conn, node);
    if (s->o.turns_away && s->conn_count - s->turned_away > s->o.max_conns && !make_room(s, newest))
        abx__http_conn_turn_away(newest);
}

static bool is_exhaustion(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static void on_listener(struct abx_poll *p, unsigned events)
{
    (void)events;
    struct abx_http_listener *l = p->owner;
    struct abx_http_server *s = l->server;
    for (int i = 0; i < ACCEPTS_PER_EVENT && !s->is_full && !s->closing; i++) {
        int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            adopt(s, fd, l->tag);
            continue;
        }
        if (errno == EINTR || errno == ECONNABORTED)
            continue;
        if (is_exhaustion(errno)) { /* the listener stays readable: do not spin on it */
            s->is_backing_off = true;
            if (s->o.turns_away)
                make_room(s, NULL);
            abx_timer_start(&s->backoff, BACKOFF_MS, 0);
            watch_listeners(s);
        }
        return;
    }
}

int abx_http_server_open(struct abx_loop *l, const struct abx_http_server_options *o,
                         struct abx_http_server **ret, struct abx_error *err)
{
    ABX_ASSERT(o->on_request != NULL);
    struct abx_http_server *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "HTTP server: no memory");
    s->o = *o;
    s->loop = l;
    s->o.head_timeout_ms = o->head_timeout_ms ? o->head_timeout_ms : HEAD_TIMEOUT_MS;
    s->o.idle_timeout_ms = o->idle_timeout_ms ? o->idle_timeout_ms : IDLE_TIMEOUT_MS;
    s->o.first_timeout_ms = o->first_timeout_ms ? o->first_timeout_ms : s->o.idle_timeout_ms;
    s->o.max_conns = o->max_conns ? o->max_conns : MAX_CONNS;
    s->o.high_water = o->high_water ? o->high_water : HIGH_WATER;
    abx_list_init(&s->listeners);
    abx_list_init(&s->conns);
    abx_timer_init(&s->sweep, l, on_sweep, s);
    abx_timer_init(&s->backoff, l, on_backoff, s);
    s->handles = 2;
    *ret = s;
    return 0;
}

int abx_http_server_listen(struct abx_http_server *s, int take_fd, int tag, struct abx_error *err)
{
    ABX_AUTO_FD fd = take_fd;
    struct abx_http_listener *l = calloc(1, sizeof(*l));
    if (l == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "listen: no memory");
    l->server = s;
    l->tag = tag;
    if (abx_poll_init(&l->poll, s->loop, fd, on_listener, l, err) < 0) {
        free(l);
        return abx_err_wrap(err, "listen");
    }
    abx_stream_tune_tcp(fd);
    l->fd = abx_fd_take(&fd);
    abx_list_push(&s->listeners, &l->node);
    s->handles++;
    watch_listeners(s);
    return 0;
}

int abx_http_server_listen_any(struct abx_http_server *s, uint16_t port, int tag,
                               struct abx_error *err)
{
    union abx_address any = {.v4 = {.sin_family = AF_INET, .sin_port = htons(port)}};
    int fd = abx_address_bind(&any, false, BACKLOG);
    return fd < 0 ? abx_err_sys(err, fd, "port %d", port) : abx_http_server_listen(s, fd, tag, err);
}

int abx_http_server_adopt(struct abx_http_server *s, int take_fd, int tag, struct abx_error *err)
{
    if (abx__http_conn_new(s, take_fd, tag, err) < 0)
        return -1;
    if (s->conn_count++ == 0)
        abx_timer_start(&s->sweep, sweep_period(s), sweep_period(s));
    if (!s->is_full && has_no_place(s)) {
        s->is_full = true;
        watch_listeners(s);
    }
    return 0;
}

void abx__http_conn_gone(struct abx_http_conn *c)
{
    struct abx_http_server *s = c->server;
    abx_list_remove(&c->node);
    s->turned_away -= c->is_turned_away;
    free(c);
    s->handles++; /* held while we look at the server */
    if (--s->conn_count == 0)
        abx_timer_stop(&s->sweep);
    if (s->closing && s->conn_count == 0)
        abx_timer_close(&s->backoff, let_go);
    if (s->is_full && !has_no_place(s)) {
        s->is_full = false;
        watch_listeners(s);
    }
    let_go(s);
}

size_t abx_http_server_conns(const struct abx_http_server *s)
{
    return s->conn_count;
}

static void on_listener_closed(void *owner)
{
    struct abx_http_listener *l = owner;
    struct abx_http_server *s = l->server;
    free(l);
    let_go(s);
}

static void shut_conns(struct abx_http_server *s, bool now)
{
    struct abx_http_conn *c;
    abx_list_foreach(c, &s->conns, struct abx_http_conn, node)
    {
        abx__http_conn_shut(c, now);
    }
}

static void on_grace_over(struct abx_timer *t)
{
    struct abx_http_server *s = t->owner;
    abx_timer_close(&s->backoff, let_go);
    shut_conns(s, true);
}

void abx_http_server_close(struct abx_http_server *s, bool now, void (*closed)(void *), void *arg)
{
    if (s == NULL || s->closing)
        return;
    s->closing = true;
    s->closed = closed;
    s->closed_arg = arg;
    for (struct abx_http_listener *l;
         (l = abx_list_first(&s->listeners, struct abx_http_listener, node));) {
        abx_list_remove(&l->node);
        abx_poll_close(&l->poll, on_listener_closed);
        abx_fd_close(&l->fd);
    }
    abx_timer_close(&s->sweep, let_go);
    shut_conns(s, now);
    if (now || s->conn_count == 0) {
        abx_timer_close(&s->backoff, let_go);
        return;
    }
    s->backoff.fn = on_grace_over;
    abx_timer_start(&s->backoff, CLOSE_GRACE_MS, 0);
}

/* "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n", made once a second, without locale or time zone. */
struct abx_str abx__http_date(struct abx_http_server *s)
{
    static const char days[] = "SunMonTueWedThuFriSat";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    uint64_t now = uv_now(&s->loop->uv);
    if (s->date_len && now - s->date_at < 1000)
        return abx_str_n(s->date, s->date_len);
    struct timespec wall;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &wall);
    gmtime_r(&wall.tv_sec, &tm);
    int n = snprintf(s->date, sizeof(s->date), "Date: %.3s, %02d %.3s %04d %02d:%02d:%02d GMT\r\n",
                     days + (size_t)tm.tm_wday * 3, tm.tm_mday, months + (size_t)tm.tm_mon * 3,
                     tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
    ABX_ASSERT(n > 0 && (size_t)n < sizeof(s->date));
    s->date_len = (size_t)n;
    s->date_at = now;
    return abx_str_n(s->date, s->date_len);
}
