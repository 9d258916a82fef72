/* guest/server/throttle.c: counting refused credentials by peer. security S16. */
#include "guest/server/throttle.h"

#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

#include "lib/base/banned.h"

enum { WINDOW_MS = 1000 };

bool abx__throttle_refused(struct abx__throttle *t, uint64_t key, int64_t now_ms)
{
    struct abx__throttle_peer *p = &t->peers[(key ^ key >> 32) % ABX__THROTTLE_PEERS];
    if (p->key != key || p->count == 0 || now_ms - p->since_ms >= WINDOW_MS)
        *p = (struct abx__throttle_peer){.key = key, .since_ms = now_ms};
    return ++p->count > ABX__THROTTLE_FREE;
}

static uint64_t hash(const unsigned char *bytes, size_t len)
{
    uint64_t h = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < len; i++)
        h = (h ^ bytes[i]) * 1099511628211u;
    return h;
}

uint64_t abx__throttle_key(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } a = {0};
    socklen_t len = sizeof(a);
    if (getpeername(fd, &a.any, &len) < 0)
        return 0;
    if (a.any.sa_family == AF_INET)
        return hash((const unsigned char *)&a.v4.sin_addr, sizeof(a.v4.sin_addr));
    if (a.any.sa_family == AF_INET6)
        return hash((const unsigned char *)&a.v6.sin6_addr, sizeof(a.v6.sin6_addr));
    return 1; /* a unix socket: one peer */
}
