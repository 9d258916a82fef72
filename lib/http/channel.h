/* lib/http/channel.h: connections that come to a server as descriptors over a SEQPACKET socket, as
 * PID 1's channels bring them to a daemon. Loop thread only. */
#pragma once
#include "lib/http/server.h"
#include "lib/loop/loop.h"

struct abx_http_channel {
    struct abx_poll poll;
    struct abx_http_server *server;
    int tag;
    void (*on_gone)(void *arg); /* the other end is closed; the channel is too by then */
    void *arg;
};

/** Adopts what comes over @fd (borrowed, made non-blocking; it outlives the channel) with @tag. */
int abx_http_channel_open(struct abx_http_channel *c, struct abx_http_server *s, int fd, int tag,
                          void (*on_gone)(void *arg), void *arg, struct abx_error *err);
/** A zeroed channel and one that is closed already are fine. */
void abx_http_channel_close(struct abx_http_channel *c);
