/* lib/loop/stream.h: a byte stream over a pipe, socket or pty: reads pushed, writes queued.
 *
 * Back-pressure: abx_stream_write() returns true while less than `high_water` bytes are queued. A
 * producer that gets false stops and waits for @on_drain (called when the queue is empty again).
 * A consumer that can not keep up calls abx_stream_pause(); the peer then blocks in the kernel.
 *
 * Built on readiness, not on uv_stream_t: a paused stream still notices a vanished peer, and
 * nothing is allocated unless the kernel refuses bytes. Callbacks may call abx_stream_close(). No
 * callback runs from inside a call of the owner. Loop thread only. */
#pragma once
#include "lib/loop/loop.h"

#include <stddef.h>

struct iovec;
struct abx_stream;
struct abx_stream_ops {
    /** Bytes came. The memory is the loop's scratch buffer, valid during the call only. */
    void (*on_data)(struct abx_stream *s, const char *data, size_t len);
    /** err == 0: the peer sent EOF (also a pty whose other side is gone); writes still work. err <
     *  0, a -errno: the stream broke, for both directions. Each at most once; 0 may be followed by
     *  an error. */
    void (*on_end)(struct abx_stream *s, int err);
    /** The write queue went empty after a write returned false. May be NULL. */
    void (*on_drain)(struct abx_stream *s);
    /** While paused: the peer has sent EOF or broke, and unread bytes may be left. Once per pause;
     *  on_end follows when reading is resumed. May be NULL. */
    void (*on_hangup)(struct abx_stream *s);
    /** The handle is gone; free the owner here. Last callback. May be NULL. */
    void (*on_closed)(struct abx_stream *s);
};

struct abx_stream {
    uv_poll_t uv;
    const struct abx_stream_ops *ops;
    struct abx_loop *loop;
    void *owner;
    size_t queued;     /* bytes accepted by write() and not yet in the kernel */
    size_t high_water; /* default 64 KiB */
    /* private */
    char *queue;
    size_t queue_off, queue_cap;
    struct abx_timer limit; /* of closing after flush */
    struct abx_defer later, arming;
    int fd, kind, write_error;
    unsigned watched, handles, late_reads;
    bool can_write, reading, ended, failed, hung, above;
    bool shut, shut_done, flushing, lingering, closing;
};

/** Takes @take_fd (also on failure): a connected socket, pipe end or pty master. Reads nothing
 *  until abx_stream_resume(). On failure @s is not open: no callback will come. */
int abx_stream_open(struct abx_stream *s, struct abx_loop *l, int take_fd,
                    const struct abx_stream_ops *ops, void *owner, struct abx_error *err);
/** Starts or resumes reading. */
void abx_stream_resume(struct abx_stream *s);
void abx_stream_pause(struct abx_stream *s);
/** Copies what the kernel does not take at once. False: at or above the high-water mark. After an
 *  error or close the bytes are dropped. More than 256 MiB in the queue break the stream. */
bool abx_stream_write(struct abx_stream *s, const void *data, size_t len);
/** As write, all parts in one system call. At most 8. */
bool abx_stream_writev(struct abx_stream *s, const struct iovec *parts, int count);
/** EOF to the peer once the queue is out; reading goes on (half-close). On a pipe: closes it. */
void abx_stream_shutdown(struct abx_stream *s);
/** Closes once the queue is out or @limit_ms passed. Only on_closed is still called. */
void abx_stream_close_after_flush(struct abx_stream *s, uint32_t limit_ms);
/** As above, then sends EOF and swallows what still comes until the peer's EOF or the limit, so
 *  that unread input does not turn our last bytes into a reset. */
void abx_stream_close_lingering(struct abx_stream *s, uint32_t limit_ms);
/** Closes now; queued bytes are lost. Idempotent. */
void abx_stream_close(struct abx_stream *s);
/** Closes so that the peer sees a reset where the transport has one (TCP RST). */
void abx_stream_reset(struct abx_stream *s);
/** Hands the stream to another owner, with what is queued; callbacks go to @ops from now on. */
void abx_stream_set_owner(struct abx_stream *s, const struct abx_stream_ops *ops, void *owner);
/** Gives back the memory of an empty queue; for an owner that expects no writes for a while. */
void abx_stream_trim(struct abx_stream *s);
/** What abx_stream_open() does to a TCP socket; on a listener, so that the accepted ones inherit.
 */
void abx_stream_tune_tcp(int fd);
int abx_stream_fd(const struct abx_stream *s);
/** open() done and close() not yet called. */
bool abx_stream_is_open(const struct abx_stream *s);
