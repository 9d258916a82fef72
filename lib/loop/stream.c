/* lib/loop/stream.c: byte streams by readiness (uv_poll) with one write queue each. */
#include "lib/loop/stream.h"

#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum kind { KIND_OTHER, KIND_PIPE, KIND_SOCKET, KIND_TCP };
enum {
    HIGH_WATER = 65536,
    QUEUE_MAX = 256 << 20,
    QUEUE_FIRST = 16384,
    QUEUE_KEEP = 256 << 10, /* memory that an empty queue holds on to, until it is trimmed */
    TCP_UNSENT = 131072,    /* the kernel's own queue would grow to 4 MiB for a slow peer */
    READS_PER_EVENT = 4,
    PARTS_MAX = 8,
    LATE_READS_MAX = 64, /* turns of reading after the write side was lost */
};

static void on_event(uv_poll_t *uv, int status, int events);
static void on_later(struct abx_defer *d);

static bool is_socket(const struct abx_stream *s)
{
    return s->kind == KIND_SOCKET || s->kind == KIND_TCP;
}

/* What the stream waits for in its present state. */
static unsigned wanted(const struct abx_stream *s)
{
    if (s->closing || s->fd < 0 || s->failed)
        return 0;
    unsigned want = s->queued ? UV_WRITABLE : 0;
    if (s->ended) {
        /* Only a full hang-up: epoll reports it whatever is asked. */
        bool is_deaf = !s->can_write || s->shut_done || s->kind == KIND_OTHER;
        return is_deaf ? want : want | UV_PRIORITIZED;
    }
    if (s->reading)
        return want | UV_READABLE;
    return s->hung ? want : want | UV_DISCONNECT;
}

static void on_arming(struct abx_defer *d)
{
    struct abx_stream *s = d->owner;
    unsigned want = wanted(s);
    if (s->closing || want == s->watched)
        return;
    s->watched = want;
    if (want == 0) {
        uv_poll_stop(&s->uv);
        return;
    }
    int r = uv_poll_start(&s->uv, (int)want, on_event);
    ABX_ASSERT(r == 0); /* fails only for a descriptor that another handle watches */
}

/* Once a turn: a stream that is paused and resumed in the same turn costs no system call. */
static void arm(struct abx_stream *s)
{
    if (!s->closing && wanted(s) != s->watched)
        abx_defer_start_last(&s->arming, s->loop, on_arming, s);
}

static void drop_queue(struct abx_stream *s)
{
    free(s->queue);
    s->queue = NULL;
    s->queue_off = s->queue_cap = s->queued = 0;
}

/* The write side is lost. Told from the loop, after what can still be read. */
static void lose_writes(struct abx_stream *s, int error)
{
    drop_queue(s);
    if (s->write_error)
        return;
    s->write_error = error;
    if (s->flushing)
        abx_stream_close(s);
    else
        abx_defer_start(&s->later, s->loop, on_later, s);
}

static void fail(struct abx_stream *s, int error)
{
    if (s->failed || s->closing)
        return;
    s->failed = s->ended = true;
    s->reading = false;
    drop_queue(s);
    if (s->flushing)
        abx_stream_close(s);
    else
        s->ops->on_end(s, error);
}

static void end_of_input(struct abx_stream *s)
{
    s->ended = true;
    s->reading = false;
    if (!s->flushing)
        s->ops->on_end(s, 0);
    else if (s->queued == 0)
        abx_stream_close(s);
}

/* Reads until the kernel has no more, the owner pauses, or it is another's turn. True: bytes came.
 */
static bool read_some(struct abx_stream *s)
{
    bool progress = false;
    for (int i = 0; i < READS_PER_EVENT && s->reading && !s->closing; i++) {
        ssize_t n;
        do
            n = read(s->fd, s->loop->scratch, ABX_LOOP_SCRATCH);
        while (n < 0 && errno == EINTR);
        progress = progress || n > 0;
        if (n > 0 && !s->flushing)
            s->ops->on_data(s, s->loop->scratch, (size_t)n);
        else if (n == 0 || (n < 0 && errno == EIO && s->kind == KIND_OTHER))
            end_of_input(s); /* a pty master gives EIO at the end */
        else if (n < 0 && errno != EAGAIN)
            fail(s, -errno);
        if (n < ABX_LOOP_SCRATCH)
            break;
    }
    return progress;
}

/* A pipe has no MSG_NOSIGNAL: keeps the signal from a process whose dispositions are not ours. */
static ssize_t write_pipe(int fd, const struct iovec *parts, int count)
{
    sigset_t pipe_set, old, pending;
    sigemptyset(&pipe_set);
    sigaddset(&pipe_set, SIGPIPE);
    sigpending(&pending);
    if (sigismember(&pending, SIGPIPE))
        return writev(fd, parts, count); /* blocked by our caller already */
    pthread_sigmask(SIG_BLOCK, &pipe_set, &old);
    ssize_t n = writev(fd, parts, count);
    int saved = errno;
    if (n < 0 && saved == EPIPE) {
        const struct timespec now = {0};
        while (sigtimedwait(&pipe_set, NULL, &now) < 0 && errno == EINTR)
            ;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = saved;
    return n;
}

static ssize_t write_parts(struct abx_stream *s, const struct iovec *parts, int count)
{
    ssize_t n;
    do {
        if (is_socket(s)) {
            struct msghdr m = {.msg_iov = (struct iovec *)(uintptr_t)parts,
                               .msg_iovlen = (size_t)count};
            n = sendmsg(s->fd, &m, MSG_NOSIGNAL);
        } else if (s->kind == KIND_PIPE) {
            n = write_pipe(s->fd, parts, count);
        } else {
            n = writev(s->fd, parts, count);
        }
    } while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

static void shut_writes(struct abx_stream *s)
{
    s->shut_done = true;
    if (is_socket(s)) {
        shutdown(s->fd, SHUT_WR); /* fails only when the peer is gone, which reading tells */
        return;
    }
    if (s->kind != KIND_PIPE)
        return;
    uv_poll_stop(&s->uv);
    s->watched = 0;
    abx_fd_close(&s->fd);
}

/* The queue is out: what was waiting for that. */
static void on_empty(struct abx_stream *s)
{
    s->queue_off = 0;
    if (s->queue_cap > QUEUE_KEEP)
        drop_queue(s);
    if (s->flushing && (!s->lingering || s->ended)) {
        abx_stream_close(s);
        return;
    }
    if (s->shut && !s->shut_done)
        shut_writes(s);
    if (s->above && !s->flushing) {
        s->above = false;
        if (s->ops->on_drain)
            s->ops->on_drain(s);
    }
}

/* True: bytes went. */
static bool flush(struct abx_stream *s)
{
    struct iovec part = {s->queue + s->queue_off, s->queued};
    ssize_t n = write_parts(s, &part, 1);
    if (n == -EAGAIN)
        return false;
    if (n < 0) {
        lose_writes(s, (int)n);
        return false;
    }
    s->queue_off += (size_t)n;
    s->queued -= (size_t)n;
    if (s->queued == 0)
        on_empty(s);
    return true;
}

static int socket_error(const struct abx_stream *s)
{
    int error = 0;
    socklen_t len = sizeof(error);
    if (is_socket(s))
        getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &len);
    return error ? -error : -EPIPE;
}

/* The peer is gone or has sent EOF while nobody reads. */
static void hang_up(struct abx_stream *s)
{
    if (s->ended) {
        fail(s, socket_error(s));
        return;
    }
    if (s->hung)
        return;
    s->hung = true;
    if (!s->flushing && s->ops->on_hangup)
        s->ops->on_hangup(s);
}

static void on_event(uv_poll_t *uv, int status, int events)
{
    struct abx_stream *s = uv->data;
    if (status < 0) { /* an error condition; libuv has stopped watching */
        s->watched = 0;
        events = UV_READABLE | UV_WRITABLE | UV_DISCONNECT;
    }
    bool progress = (events & UV_WRITABLE) && s->queued && flush(s);
    if (!s->closing && s->reading)
        progress = read_some(s) || progress;
    else if (!s->closing && (events & (UV_DISCONNECT | UV_PRIORITIZED)))
        hang_up(s);
    /* An error that neither reading nor writing could name would come again for ever. */
    if (status < 0 && !progress && !s->write_error && wanted(s) != 0)
        fail(s, socket_error(s));
    arm(s);
}

static void on_later(struct abx_defer *d)
{
    struct abx_stream *s = d->owner;
    if (s->closing)
        return;
    /* A peer that stopped listening may have said why: read that before the error. */
    if (s->reading && s->late_reads++ < LATE_READS_MAX && read_some(s))
        abx_defer_start(&s->later, s->loop, on_later, s);
    else if (!s->closing && (s->ended || s->reading))
        fail(s, s->write_error);
    else if (!s->closing)
        hang_up(s);
    arm(s);
}

void abx_stream_tune_tcp(int fd)
{
    const int on = 1, unsent = TCP_UNSENT;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent));
}

/* One system call for a socket that a tuned listener accepted, which is the common case. */
static int classify_socket(struct abx_stream *s)
{
    int nodelay = 0;
    socklen_t len = sizeof(nodelay);
    s->can_write = true;
    s->kind = KIND_TCP;
    if (getsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &nodelay, &len) == 0) {
        if (!nodelay)
            abx_stream_tune_tcp(s->fd);
        return 0;
    }
    s->kind = KIND_SOCKET;
    return errno == ENOTSOCK || errno == EBADF ? -errno : 0;
}

static int classify(struct abx_stream *s)
{
    int r = classify_socket(s);
    if (r != -ENOTSOCK)
        return r;
    struct stat st;
    if (fstat(s->fd, &st) < 0)
        return -errno;
    int flags = fcntl(s->fd, F_GETFL);
    if (flags < 0)
        return -errno;
    s->can_write = (flags & O_ACCMODE) != O_RDONLY;
    s->ended = (flags & O_ACCMODE) == O_WRONLY; /* there is no input */
    s->kind = S_ISFIFO(st.st_mode) ? KIND_PIPE : KIND_OTHER;
    return 0;
}

int abx_stream_open(struct abx_stream *s, struct abx_loop *l, int take_fd,
                    const struct abx_stream_ops *ops, void *owner, struct abx_error *err)
{
    *s = (struct abx_stream){
        .ops = ops, .loop = l, .owner = owner, .fd = take_fd, .high_water = HIGH_WATER};
    int r = classify(s);
    if (r == 0)
        r = uv_poll_init(&l->uv, &s->uv, take_fd);
    if (r < 0) {
        abx_fd_close(&s->fd);
        return abx_err_sys(err, r, "open stream");
    }
    s->uv.data = s;
    s->handles = 1;
    arm(s);
    return 0;
}

void abx_stream_resume(struct abx_stream *s)
{
    if (s->ended || s->closing || s->flushing || s->reading)
        return;
    s->reading = true;
    s->hung = false;
    if (s->write_error)
        abx_defer_start(&s->later, s->loop, on_later, s);
    arm(s);
}

void abx_stream_pause(struct abx_stream *s)
{
    if (!s->reading || s->flushing)
        return;
    s->reading = false;
    arm(s);
}

/* Room for @len more bytes at the end of the queue, or NULL. */
static char *queue_room(struct abx_stream *s, size_t len)
{
    size_t need;
    if (!abx_size_add(s->queued, len, &need) || need > QUEUE_MAX)
        return NULL;
    if (s->queue_off + need > s->queue_cap && s->queue_off) {
        memmove(s->queue, s->queue + s->queue_off, s->queued);
        s->queue_off = 0;
    }
    if (need > s->queue_cap) {
        size_t cap = s->queue_cap ? s->queue_cap : QUEUE_FIRST;
        while (cap < need)
            cap *= 2;
        char *queue = realloc(s->queue, cap);
        if (queue == NULL)
            return NULL;
        s->queue = queue;
        s->queue_cap = cap;
    }
    return s->queue + s->queue_off + s->queued;
}

/* Queues all parts but their first @done bytes. */
static void enqueue(struct abx_stream *s, const struct iovec *parts, int count, size_t done)
{
    for (int i = 0; i < count; i++) {
        size_t skip = done < parts[i].iov_len ? done : parts[i].iov_len;
        done -= skip;
        size_t len = parts[i].iov_len - skip;
        if (len == 0)
            continue;
        char *to = queue_room(s, len);
        if (to == NULL) {
            lose_writes(s, -ENOBUFS);
            return;
        }
        memcpy(to, (const char *)parts[i].iov_base + skip, len);
        s->queued += len;
    }
}

bool abx_stream_writev(struct abx_stream *s, const struct iovec *parts, int count)
{
    ABX_ASSERT(count <= PARTS_MAX);
    if (s->closing || s->flushing || s->failed || s->write_error || s->shut || !s->can_write)
        return true; /* dropped; there is no drain to wait for */
    size_t total = 0;
    for (int i = 0; i < count; i++)
        total += parts[i].iov_len;
    ssize_t n = 0;
    if (s->queued == 0 && total)
        n = write_parts(s, parts, count);
    if (n < 0 && n != -EAGAIN) {
        lose_writes(s, (int)n);
        return true;
    }
    size_t done = n > 0 ? (size_t)n : 0;
    if (done < total)
        enqueue(s, parts, count, done);
    arm(s);
    if (s->queued < s->high_water || s->write_error)
        return true;
    s->above = true;
    return false;
}

bool abx_stream_write(struct abx_stream *s, const void *data, size_t len)
{
    struct iovec part = {(void *)(uintptr_t)data, len};
    return abx_stream_writev(s, &part, 1);
}

void abx_stream_shutdown(struct abx_stream *s)
{
    if (s->closing || s->flushing || s->shut || !s->can_write)
        return;
    s->shut = true;
    if (s->queued == 0 && s->fd >= 0)
        shut_writes(s);
    arm(s);
}

static void on_limit(struct abx_timer *t)
{
    abx_stream_close(t->owner);
}

static void close_gently(struct abx_stream *s, uint32_t limit_ms, bool lingering)
{
    if (s->closing || s->flushing)
        return;
    if (s->failed || s->write_error || s->fd < 0 || (s->queued == 0 && !lingering)) {
        abx_stream_close(s);
        return;
    }
    s->flushing = true;
    s->lingering = lingering && is_socket(s) && !s->ended;
    s->reading = s->lingering;
    s->shut = s->shut || s->lingering;
    abx_timer_init(&s->limit, s->loop, on_limit, s);
    abx_timer_start(&s->limit, limit_ms, 0);
    s->handles++;
    if (s->queued == 0)
        on_empty(s);
    arm(s);
}

void abx_stream_close_after_flush(struct abx_stream *s, uint32_t limit_ms)
{
    close_gently(s, limit_ms, false);
}

void abx_stream_close_lingering(struct abx_stream *s, uint32_t limit_ms)
{
    close_gently(s, limit_ms, true);
}

static void let_go(struct abx_stream *s)
{
    if (--s->handles == 0 && s->ops->on_closed)
        s->ops->on_closed(s);
}

static void on_handle_closed(uv_handle_t *h)
{
    let_go(h->data);
}

static void on_limit_closed(void *owner)
{
    let_go(owner);
}

void abx_stream_close(struct abx_stream *s)
{
    if (s->closing || s->handles == 0)
        return;
    s->closing = true;
    s->reading = false;
    drop_queue(s);
    abx_defer_cancel(&s->later);
    abx_defer_cancel(&s->arming);
    abx_timer_close(&s->limit, on_limit_closed);
    uv_close((uv_handle_t *)&s->uv, on_handle_closed);
    abx_fd_close(&s->fd);
}

void abx_stream_reset(struct abx_stream *s)
{
    const struct linger now = {.l_onoff = 1, .l_linger = 0};
    if (s->kind == KIND_TCP && s->fd >= 0 && !s->closing)
        setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    abx_stream_close(s);
}

void abx_stream_set_owner(struct abx_stream *s, const struct abx_stream_ops *ops, void *owner)
{
    s->ops = ops;
    s->owner = owner;
}

void abx_stream_trim(struct abx_stream *s)
{
    if (s->queued == 0 && s->queue)
        drop_queue(s);
}

int abx_stream_fd(const struct abx_stream *s)
{
    return s->fd;
}

bool abx_stream_is_open(const struct abx_stream *s)
{
    return s->handles != 0 && !s->closing;
}
