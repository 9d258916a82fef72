/* client/client.c: opening a client: configuration, address, connecting. */
#include "client/client_priv.h"
#include "lib/base/address.h"
#include "lib/base/fd.h"
#include "lib/wire/url.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/time.h>

#include "lib/base/banned.h"

enum { DEFAULT_TIMEOUT_MS = 60000, CONNECT_TIMEOUT_S = 10 };

/* RFC 6761 6.3: names below localhost are loopback. */
static int resolve(const char *host, uint16_t port, union abx_address *ret)
{
    bool is_local = abx_str_ends(abx_str(host), ".localhost");
    int r = abx_address_of_host(is_local ? "127.0.0.1" : host, port, ret);
    return r < 0 ? -EADDRNOTAVAIL : 0;
}

static int connect_tcp(const struct abx_client *c)
{
    union abx_address addr;
    int r = resolve(c->host, c->port, &addr);
    if (r < 0)
        return r;
    ABX_AUTO_FD fd = socket(addr.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    struct timeval limit = {.tv_sec = CONNECT_TIMEOUT_S};
    int one = 1;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (connect(fd, &addr.any, abx_address_len(&addr)) < 0)
        return errno == EINPROGRESS ? -ETIMEDOUT : -errno;
    r = abx_fd_set_nonblock(fd, true);
    return r < 0 ? r : abx_fd_take(&fd);
}

/* The pool's connect function: calls block anyway, so this does too, bounded. */
static void on_connect(void *arg, struct abx_str target, struct abx_http_call *call)
{
    (void)target;
    abx_http_connected(call, connect_tcp(arg));
}

static char *first_of(const char *option, const char *const *env, const char *config_key)
{
    if (option != NULL)
        return abx_str_dup(abx_str(option));
    for (; *env; env++) {
        const char *value = getenv(*env);
        if (value && *value)
            return abx_str_dup(abx_str(value));
    }
    return abx__config_get(config_key);
}

static int set_url(struct abx_client *c, struct abx_client_error *err)
{
    struct abx_url u;
    struct abx_error base;
    if (abx_url_parse(abx_str(c->url), &u, &base) < 0)
        return abx__client_fail(err, "E8002", "client", "URL %s: %s", c->url, base.msg);
    if (!abx_str_is_nocase(u.scheme, "http")) {
        abx__client_fail(err, "E8004", "client", "URL %s: only http is supported", c->url);
        abx__client_next(err, "use the local engine (abx up), or the E2B SDKs for a cloud");
        return -1;
    }
    if (abx_str_to_c(u.host, c->host, sizeof(c->host)) < 0)
        return abx__client_fail(err, "E8002", "client", "URL %s: host too long", c->url);
    c->port = u.port ? u.port : 80;
    snprintf(c->target_text, sizeof(c->target_text), "%s:%u", c->host, (unsigned)c->port);
    c->target = abx_str(c->target_text);
    while (u.path.len && u.path.ptr[u.path.len - 1] == '/')
        u.path.len--;
    c->path = abx_str_dup(u.path);
    return c->path ? 0 : abx__client_fail_memory(err);
}

static int configure(struct abx_client *c, const struct abx_client_options *o,
                     struct abx_client_error *err)
{
    static const char *const url_env[] = {"ABX_SANDBOX_BASE_URL", "E2B_API_URL", NULL};
    static const char *const key_env[] = {"ABX_SANDBOX_API_KEY", "E2B_API_KEY", NULL};
    static const char *const domain_env[] = {"ABX_SANDBOX_DOMAIN", "E2B_DOMAIN", NULL};
    struct abx_error base;
    c->timeout_ms = o->timeout_ms ? o->timeout_ms : DEFAULT_TIMEOUT_MS;
    c->url = first_of(o->url, url_env, "url");
    c->api_key = first_of(o->api_key, key_env, "api_key");
    c->domain = first_of(NULL, domain_env, "domain");
    if (c->url == NULL) {
        abx__client_fail(err, "E8002", "client", "no engine is configured");
        abx__client_next(err, "start one: abx up --detach");
        return -1;
    }
    if (set_url(c, err) < 0)
        return -1;
    if (abx_http_pool_open(&c->loop, on_connect, c, 2, &c->pool, &base) < 0)
        return abx__client_fail_base(err, "E9000", "client", &base);
    return 0;
}

int abx_client_open(const struct abx_client_options *o, struct abx_client **ret,
                    struct abx_client_error *err)
{
    struct abx_error base;
    struct abx_client *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return abx__client_fail_memory(err);
    if (abx_loop_init(&c->loop, &base) < 0) {
        free(c);
        return abx__client_fail_base(err, "E9000", "client", &base);
    }
    pthread_mutex_init(&c->lock, NULL);
    if (configure(c, o, err) < 0) {
        abx_client_close(c);
        return -1;
    }
    *ret = c;
    return 0;
}

void abx_client_close(struct abx_client *c)
{
    if (c == NULL)
        return;
    if (c->pool)
        abx_http_pool_close(c->pool);
    abx_loop_done(&c->loop);
    pthread_mutex_destroy(&c->lock);
    free(c->url);
    free(c->api_key);
    free(c->domain);
    free(c->path);
    free(c);
}

const char *abx_client_url(const struct abx_client *c)
{
    return c->url;
}

const char *abx_client_api_key(const struct abx_client *c)
{
    return c->api_key ? c->api_key : "";
}

const char *abx_client_domain(const struct abx_client *c)
{
    return c->domain ? c->domain : "";
}
