/* host/image/feed.c: the archive of a COPY, checked and normalised, as entries on the line of the
 * step that writes them (lib/contract/step.h; security S53). */
#include "host/image/unpack_priv.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/contract/step.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "lib/base/banned.h"

enum { CHUNK = 64 * 1024 };

static const uint32_t types[] = {[ABX__TAR_FILE] = ABX_STEP_FILE,
                                 [ABX__TAR_DIR] = ABX_STEP_DIR,
                                 [ABX__TAR_SYMLINK] = ABX_STEP_SYMLINK,
                                 [ABX__TAR_HARDLINK] = ABX_STEP_HARDLINK,
                                 [ABX__TAR_FIFO] = ABX_STEP_FIFO};

/* A pipe of the kernel would do as well, but would raise a signal when the step is gone. The engine
 * reads the same line by its event loop, which made it non-blocking for everybody: a step that
 * writes slowly is waited for. */
static int send_all(int fd, const void *data, size_t len)
{
    const char *p = data;
    while (len > 0) {
        ssize_t n = send(fd, p, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            struct pollfd ready = {.fd = fd, .events = POLLOUT};
            if (poll(&ready, 1, -1) < 0 && errno != EINTR)
                return -errno;
            continue;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

static int send_entry(int fd, struct abx_step_entry *e, const char *path, const char *link)
{
    e->magic = ABX_STEP_MAGIC;
    e->path_bytes = (uint32_t)strlen(path);
    e->link_bytes = (uint32_t)strlen(link);
    int r = send_all(fd, e, sizeof(*e));
    if (r == 0)
        r = send_all(fd, path, e->path_bytes);
    return r < 0 ? r : send_all(fd, link, e->link_bytes);
}

static int send_content(struct abx__tar *t, int fd, uint64_t size, struct abx_error *err)
{
    static char chunk[CHUNK];
    ssize_t n;
    uint64_t sent = 0;
    while ((n = abx__tar_data(t, chunk, sizeof(chunk), err)) > 0) {
        sent += (uint64_t)n;
        int r = sent > size ? -EFBIG : send_all(fd, chunk, (size_t)n);
        if (r < 0)
            return abx_err_sys(err, r, "feed the step");
    }
    if (n == 0 && sent != size)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "an entry is cut short");
    return n < 0 ? -1 : 0;
}

/* 1: go on, 0: the end. *ret_broken: the line stands in the middle of a file. */
static int feed_one(struct abx__tar *t, struct abx__tar_entry *e, int out_fd, bool *ret_broken,
                    struct abx_error *err)
{
    int more = abx__tar_next(t, false, e, err);
    if (more <= 0)
        return more;
    if (e->type == ABX__TAR_HIDE)
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "%.100s is a device", e->path);
    bool is_file = e->type == ABX__TAR_FILE;
    struct abx_step_entry out = {.type = types[e->type],
                                 .mode = e->mode & 07777,
                                 .size = is_file ? e->size : 0,
                                 .mtime_s = e->mtime_s};
    *ret_broken = true;
    int r = send_entry(out_fd, &out, e->path, e->link);
    if (r < 0)
        return abx_err_sys(err, r, "feed the step");
    if (is_file && send_content(t, out_fd, e->size, err) < 0)
        return -1;
    *ret_broken = false;
    return 1;
}

int abx__copy_feed(int in_fd, int out_fd, struct abx_error *err)
{
    struct abx__tar *t = NULL;
    struct abx__tar_entry *e = calloc(1, sizeof(*e));
    bool is_broken = false;
    int r = e == NULL ? abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory")
                      : abx__tar_open(in_fd, &t, err);
    for (int more = 1; r == 0 && more > 0;) {
        more = feed_one(t, e, out_fd, &is_broken, err);
        r = more < 0 ? -1 : 0;
    }
    struct abx_step_entry last = {.type = r == 0 ? ABX_STEP_END : ABX_STEP_FAILED};
    if (!is_broken)
        (void)send_entry(out_fd, &last, r == 0 ? "" : err->msg, "");
    (void)shutdown(out_fd, SHUT_WR);
    abx__tar_close(t);
    free(e);
    return r;
}
