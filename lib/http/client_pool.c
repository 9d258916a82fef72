/* lib/http/client_pool.c: targets and their idle connections. Loop thread. */
#include "lib/base/assert.h"
#include "lib/http/client_priv.h"

#include <stdlib.h>

#include "lib/base/banned.h"

enum {
    TARGETS_MAX = 65536,
    IDLE_MS = 60000,
    SWEEP_MS = 10000,
};

static void pool_unref(void *owner)
{
    struct abx_http_pool *p = owner;
    if (--p->refs)
        return;
    abx_map_done(&p->upstreams);
    free(p);
}

void abx__link_close(struct abx__link *link)
{
    if (!abx_list_empty(&link->idle_node))
        link->up->idle_count--;
    abx_list_remove(&link->idle_node);
    abx_stream_close(&link->stream);
}

static void close_idle(struct abx__upstream *up, uint64_t before_ms)
{
    struct abx__link *link;
    abx_list_foreach(link, &up->idle, struct abx__link, idle_node)
    {
        if (link->idle_since_ms > before_ms)
            return; /* the rest is fresher */
        abx__link_close(link);
    }
}

static void on_sweep(struct abx_timer *t)
{
    struct abx_http_pool *p = t->owner;
    uint64_t now = uv_now(&p->loop->uv);
    size_t it = 0, idle = 0;
    struct abx_str target;
    void *value;
    while (abx_map_next(&p->upstreams, &it, &target, &value)) {
        struct abx__upstream *up = value;
        close_idle(up, now < IDLE_MS ? 0 : now - IDLE_MS);
        idle += up->idle_count;
    }
    if (idle == 0)
        abx_timer_stop(&p->sweep);
}

int abx_http_pool_open(struct abx_loop *l, abx_http_connect_fn *connect, void *arg, size_t idle_max,
                       struct abx_http_pool **ret, struct abx_error *err)
{
    struct abx_http_pool *p = calloc(1, sizeof(*p));
    if (p == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "HTTP client: no memory");
    *p = (struct abx_http_pool){
        .loop = l, .connect = connect, .arg = arg, .idle_max = idle_max, .refs = 2};
    abx_map_init(&p->upstreams, TARGETS_MAX);
    abx_timer_init(&p->sweep, l, on_sweep, p);
    abx_timer_unref(&p->sweep);
    *ret = p;
    return 0;
}

static void close_upstream(struct abx__upstream *up)
{
    const struct abx_error err = {.code = ABX_CANCELED, .msg = "HTTP client closed"};
    up->refs++;
    for (struct abx_http_call *call;
         (call = abx_list_first(&up->calls, struct abx_http_call, node));) {
        call->was_retried = true;
        abx__call_lost(call, &err);
    }
    close_idle(up, UINT64_MAX);
    abx__upstream_unref(up);
}

void abx_http_pool_close(struct abx_http_pool *p)
{
    if (p == NULL || p->closing)
        return;
    p->closing = true;
    for (;;) { /* closing one may change the map */
        size_t it = 0;
        struct abx_str target;
        void *value = NULL;
        struct abx__upstream *up = NULL;
        while (up == NULL && abx_map_next(&p->upstreams, &it, &target, &value)) {
            struct abx__upstream *one = value;
            if (!abx_list_empty(&one->calls) || one->idle_count)
                up = one;
        }
        if (up == NULL)
            break;
        close_upstream(up);
    }
    abx_timer_close(&p->sweep, pool_unref);
    pool_unref(p);
}

void abx_http_pool_forget(struct abx_http_pool *p, struct abx_str target)
{
    struct abx__upstream *up = abx_map_get(&p->upstreams, target);
    if (up == NULL)
        return;
    up->refs++;
    close_idle(up, UINT64_MAX);
    abx__upstream_unref(up);
}

struct abx__upstream *abx__upstream_get(struct abx_http_pool *p, struct abx_str target)
{
    struct abx__upstream *up = abx_map_get(&p->upstreams, target);
    if (up != NULL) {
        up->refs++;
        return up;
    }
    up = calloc(1, sizeof(*up));
    char *copy = abx_str_dup(target);
    if (up == NULL || copy == NULL || abx_map_set(&p->upstreams, target, up, NULL) < 0) {
        free(up);
        free(copy);
        return NULL;
    }
    *up = (struct abx__upstream){.pool = p, .target = {copy, target.len}, .refs = 1};
    abx_list_init(&up->idle);
    abx_list_init(&up->calls);
    abx_list_init(&up->proxied);
    p->refs++;
    return up;
}

void abx__upstream_unref(struct abx__upstream *up)
{
    if (--up->refs)
        return;
    struct abx_http_pool *p = up->pool;
    abx_map_remove(&p->upstreams, up->target);
    free((char *)(uintptr_t)up->target.ptr);
    free(up);
    pool_unref(p);
}

struct abx__link *abx__link_reuse(struct abx__upstream *up, uint64_t max_age_ms)
{
    if (up->idle_count == 0)
        return NULL;
    struct abx__link *link = ABX_CONTAINER_OF(up->idle.prev, struct abx__link, idle_node);
    uint64_t age = uv_now(&up->pool->loop->uv) - link->idle_since_ms;
    if (max_age_ms && age > max_age_ms)
        return NULL;
    ABX_ASSERT(abx_stream_is_open(&link->stream));
    abx_list_remove(&link->idle_node);
    up->idle_count--;
    link->is_reused = true;
    return link;
}

void abx__link_park(struct abx__link *link)
{
    struct abx__upstream *up = link->up;
    struct abx_http_pool *p = up->pool;
    if (p->closing || up->idle_count >= p->idle_max) {
        abx__link_close(link);
        return;
    }
    abx_http_parser_reset(&link->parser, false);
    abx_stream_trim(&link->stream);
    link->idle_since_ms = uv_now(&p->loop->uv);
    abx_list_push(&up->idle, &link->idle_node);
    up->idle_count++;
    abx_stream_resume(&link->stream); /* that is how its end shows */
    if (!uv_is_active((uv_handle_t *)&p->sweep.uv))
        abx_timer_start(&p->sweep, SWEEP_MS, SWEEP_MS);
}
