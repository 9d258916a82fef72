/* guest/caps/download.c: reads one file in chunks on the pool (envd.md 3.3; case T11). */
#include "guest/caps/files_priv.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "lib/base/banned.h"

struct abx_download {
    struct abx_loop *loop;
    const struct abx_download_ops *ops;
    void *owner;
    bool is_busy, is_closed, is_opened;
    bool in_callback, is_queued; /* a read asked for from on_data waits for its return */
    /* The job's while one runs. */
    struct abx_work work;
    char path[ABX_FILES_PATH];
    int fd;
    struct abx_download_info info;
    char *buf;
    size_t cap, want, got;
    uint64_t offset;
    bool failed;
    struct abx_error err;
};

static bool is_virtual(int fd)
{
    static const long magics[] = {PROC_SUPER_MAGIC, SYSFS_MAGIC, CGROUP_SUPER_MAGIC,
                                  CGROUP2_SUPER_MAGIC};
    struct statfs fs;
    if (fstatfs(fd, &fs) < 0)
        return false;
    for (size_t i = 0; i < ABX_COUNTOF(magics); i++)
        if (fs.f_type == magics[i])
            return true;
    return false;
}

static int check_kind(struct abx_download *d, mode_t mode)
{
    if (S_ISDIR(mode))
        return abx_err_set(&d->err, ABX_INVALID_ARGUMENT, "path '%.180s' is a directory", d->path);
    if (!S_ISREG(mode))
        return abx_err_set(&d->err, ABX_INVALID_ARGUMENT, "path '%.180s' is not a regular file",
                           d->path);
    return 0;
}

static int open_file(struct abx_download *d)
{
    struct stat st;
    char text[96];
    if (stat(d->path, &st) < 0) {
        int errnum = errno;
        if (errnum == ENOENT)
            abx_err_set(&d->err, ABX_NOT_FOUND, "path '%.180s' does not exist", d->path);
        else
            abx_err_set(&d->err, ABX_INTERNAL, "error checking if path exists '%.150s': %s",
                        d->path, abx__errno_text(errnum, text));
        d->err.sys = errnum;
        return -1;
    }
    if (check_kind(d, st.st_mode) < 0)
        return -1;
    d->fd = open(d->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (d->fd < 0 || fstat(d->fd, &st) < 0) {
        int errnum = errno;
        abx_err_set(&d->err, ABX_INTERNAL, "error opening file '%.150s': %s", d->path,
                    abx__errno_text(errnum, text));
        d->err.sys = errnum;
        return -1;
    }
    d->info.size = (uint64_t)st.st_size;
    d->info.mtime_ns = st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec;
    d->info.is_virtual = is_virtual(d->fd);
    return check_kind(d, st.st_mode); /* it may have been swapped since the stat */
}

static int read_chunk(struct abx_download *d)
{
    if (d->cap < d->want) {
        free(d->buf);
        d->cap = 0;
        d->buf = malloc(d->want);
        if (d->buf == NULL)
            return abx_err_set(&d->err, ABX_RESOURCE_EXHAUSTED, "read %.150s: out of memory",
                               d->path);
        d->cap = d->want;
    }
    d->got = 0;
    while (d->got < d->want) { /* files of /proc give less than asked: read on to EOF or full */
        ssize_t n = pread(d->fd, d->buf + d->got, d->want - d->got, (off_t)(d->offset + d->got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && d->got == 0)
            return abx__file_error(&d->err, ABX_INTERNAL, "error reading file: read", d->path);
        if (n <= 0)
            break;
        d->got += (size_t)n;
    }
    return 0;
}

static void on_open_run(struct abx_work *w)
{
    struct abx_download *d = w->owner;
    d->failed = open_file(d) < 0;
}

static void on_read_run(struct abx_work *w)
{
    struct abx_download *d = w->owner;
    d->failed = read_chunk(d) < 0;
}

static void download_free(struct abx_download *d)
{
    abx_fd_close(&d->fd);
    free(d->buf);
    free(d);
}

static void on_open_done(struct abx_work *w)
{
    struct abx_download *d = w->owner;
    d->is_busy = false;
    if (d->is_closed) {
        download_free(d);
        return;
    }
    d->is_opened = !d->failed;
    d->ops->on_open(d, &d->info, d->failed ? &d->err : NULL);
}

static void on_read_done(struct abx_work *w);

static int start_read(struct abx_download *d, struct abx_error *err)
{
    if (abx_work_start(&d->work, d->loop, on_read_run, on_read_done, d, err) < 0)
        return -1;
    d->is_busy = true;
    return 0;
}

/* The bytes stay as they are during the callback, whatever it calls. */
static void give(struct abx_download *d, struct abx_str data, const struct abx_error *err)
{
    d->in_callback = true;
    d->ops->on_data(d, data, err);
    d->in_callback = false;
}

static void on_read_done(struct abx_work *w)
{
    struct abx_download *d = w->owner;
    struct abx_error err = d->err;
    d->is_busy = false;
    if (!d->is_closed)
        give(d, abx_str_n(d->buf, d->failed ? 0 : d->got), d->failed ? &err : NULL);
    while (d->is_queued && !d->is_closed) {
        d->is_queued = false;
        if (start_read(d, &err) == 0)
            return;
        give(d, (struct abx_str){0}, &err);
    }
    if (d->is_closed)
        download_free(d);
}

int abx_download_open(struct abx_loop *l, const char *path, const struct abx_download_ops *ops,
                      void *owner, struct abx_download **ret, struct abx_error *err)
{
    struct abx_download *d = calloc(1, sizeof(*d));
    if (d == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "download %.150s: out of memory", path);
    d->loop = l;
    d->ops = ops;
    d->owner = owner;
    d->fd = -1;
    if (abx_str_to_c(abx_str(path), d->path, sizeof(d->path)) < 0) {
        free(d);
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "path is too long: at most %d bytes fit",
                           ABX_FILES_PATH - 1);
    }
    if (abx_work_start(&d->work, l, on_open_run, on_open_done, d, err) < 0) {
        free(d);
        return -1;
    }
    d->is_busy = true;
    *ret = d;
    return 0;
}

void *abx_download_owner(const struct abx_download *d)
{
    return d->owner;
}

int abx_download_read(struct abx_download *d, uint64_t offset, size_t len, struct abx_error *err)
{
    ABX_ASSERT(d->is_opened && !d->is_closed && !d->is_busy && len <= ABX_FILES_CHUNK);
    d->offset = offset;
    d->want = len;
    d->is_queued = d->in_callback;
    return d->is_queued ? 0 : start_read(d, err);
}

void abx_download_close(struct abx_download *d)
{
    if (d == NULL || d->is_closed)
        return;
    d->is_closed = true;
    if (!d->is_busy && !d->in_callback)
        download_free(d);
}
