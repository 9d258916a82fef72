/* lib/loop/stream.h: a byte stream over a pipe, socket or pty: reads pushed, writes queued.
 *
 * Back-pressure: abx_stream_write() queues without limit only up to `high_water` bytes; it returns
 * true while the queue is below the mark. A producer that gets false stops and waits for @on_drain
 * (called when the queue is empty again). A consumer that can not keep up calls
 * abx_stream_pause(); the peer then blocks in the kernel. Loop thread only.
 *
 * A stream is reference counted by its owner's use: callbacks may call abx_stream_close(). */
#pragma once
#include "lib/loop/loop.h"

#include <stddef.h>

struct abx_stream;
struct abx_stream_ops {
    /** Bytes came. The memory is the loop's scratch buffer, valid during the call only. */
    void (*on_data)(struct abx_stream *s, const char *data, size_t len);
    /** The peer sent EOF (err == 0) or the stream broke (err < 0, a -errno). Once. */
    void (*on_end)(struct abx_stream *s, int err);
    /** The write queue went empty after a write returned false. May be NULL. */
    void (*on_drain)(struct abx_stream *s);
    /** The handle is gone; free the owner here. Last callback. */
    void (*on_closed)(struct abx_stream *s);
};

struct abx_stream {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_pipe_t pipe;
        uv_tcp_t tcp;
    } uv;
    const struct abx_stream_ops *ops;
    struct abx_loop *loop;
    void *owner;
    size_t queued;     /* bytes accepted by write() and not yet in the kernel */
    size_t high_water; /* default 64 KiB */
    bool is_tcp, reading, ended, shut, closing, above;
};

/** Takes @take_fd (also on failure): a connected socket, pipe end or pty master. */
int abx_stream_open(struct abx_stream *s, struct abx_loop *l, int take_fd,
                    const struct abx_stream_ops *ops, void *owner, struct abx_error *err);
/** Starts or resumes reading. */
void abx_stream_resume(struct abx_stream *s);
void abx_stream_pause(struct abx_stream *s);
/** Copies what the kernel does not take at once. False: at or above the high-water mark. After an
 *  error or close the bytes are dropped. */
bool abx_stream_write(struct abx_stream *s, const void *data, size_t len);
/** As write, two parts in one system call (a head and its payload). */
bool abx_stream_write2(struct abx_stream *s, const void *a, size_t a_len, const void *b,
                       size_t b_len);
/** EOF to the peer once the queue is out; reading goes on (half-close). */
void abx_stream_shutdown(struct abx_stream *s);
/** Closes once the queue is out or @linger_ms passed. */
void abx_stream_close_after_flush(struct abx_stream *s, uint32_t linger_ms);
/** Closes now; queued bytes are lost. Idempotent. */
void abx_stream_close(struct abx_stream *s);
/** Closes so that the peer sees a reset where the transport has one (TCP RST). */
void abx_stream_reset(struct abx_stream *s);
int abx_stream_fd(const struct abx_stream *s);
