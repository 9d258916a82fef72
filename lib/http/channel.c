/* lib/http/channel.c: connections that come as descriptors. */
#include "lib/http/channel.h"

#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/http/server_priv.h"

#include <errno.h>

#include "lib/base/banned.h"

enum { FDS_PER_MESSAGE = 8, MESSAGES_PER_EVENT = 8, MESSAGE_BYTES = 64 };

static void on_channel(struct abx_poll *p, unsigned events)
{
    struct abx_http_channel *c = p->owner;
    (void)events;
    for (int i = 0; i < MESSAGES_PER_EVENT; i++) { /* bounded: the loop has others to serve */
        char bytes[MESSAGE_BYTES];
        int fds[FDS_PER_MESSAGE];
        size_t count = FDS_PER_MESSAGE;
        ssize_t n = abx_fd_recv(p->fd, bytes, sizeof(bytes), fds, &count);
        if (n == -EAGAIN || n == -EINTR)
            return;
        for (size_t f = 0; n >= 0 && f < count; f++) {
            struct abx_error err = {0};
            abx_fd_set_nonblock(fds[f], true);
            if (abx_http_server_adopt(c->server, fds[f], c->tag, &err) < 0)
                abx_log(ABX_LOG_WARN, "connection refused error=\"%s\"", err.msg);
        }
        if (n > 0)
            continue;
        abx_log(ABX_LOG_WARN, "the channel is gone errno=%d", (int)-n);
        abx_http_channel_close(c);
        c->on_gone(c->arg);
        return;
    }
}

int abx_http_channel_open(struct abx_http_channel *c, struct abx_http_server *s, int fd, int tag,
                          void (*on_gone)(void *arg), void *arg, struct abx_error *err)
{
    *c = (struct abx_http_channel){.server = s, .tag = tag, .on_gone = on_gone, .arg = arg};
    abx_fd_set_nonblock(fd, true);
    if (abx_poll_init(&c->poll, s->loop, fd, on_channel, c, err) < 0)
        return -1;
    abx_poll_set(&c->poll, ABX_POLL_IN);
    return 0;
}

void abx_http_channel_close(struct abx_http_channel *c)
{
    abx_poll_close(&c->poll, NULL);
}
