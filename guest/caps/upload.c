/* guest/caps/upload.c: writes one file from a stream (envd.md 3.4, traps 1 and 2; case T40).
 *
 * The loop side collects bytes in `pending`; a pool job takes them all and makes the system calls:
 * so a short body is one write, which the watchers of the SDKs' tests count. One job at a time.
 *
 * A longer body for a file that is there waits in a spool and is poured over it when it has come to
 * its end: the file keeps its inode, names and attributes, and until then its content. */
#include "guest/caps/files_priv.h"
#include "guest/caps/spool.h"

#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum {
    WRITE_AT = 256 * 1024,                 /* bytes that are worth a job */
    STOP_AT = ABX_FILES_UPLOAD_BUFFER / 2, /* and that make append() say stop */
    PENDING_MAX = STOP_AT + ABX_FILES_UPLOAD_BUFFER,
    POUR_BYTES = 32 << 20 /* of a job: others want the pool too */
};

struct abx_upload {
    struct abx_loop *loop;
    const struct abx_upload_ops *ops;
    void *owner;
    struct abx_buf pending; /* the loop's */
    bool is_busy, is_finishing, is_closed, is_done, wants_drain, out_of_memory;
    /* The job's while one runs. */
    struct abx_work work;
    char path[ABX_FILES_PATH];
    uid_t uid;
    gid_t gid;
    bool has_total;
    uint64_t total;
    struct abx_arena arena; /* of the metadata */
    struct abx_meta *meta;
    size_t meta_count;
    struct abx_buf writing;
    const char *spill_dir;  /* borrowed */
    struct abx_spool spool; /* open: the body goes there, or (is_open) comes from there */
    int fd;
    bool is_open, is_new, is_last, is_abort;
    bool has_more; /* to be poured: another job */
    bool failed;
    struct abx_error err;
};

/* --- on the pool --- */

static int no_space(struct abx_upload *u)
{
    int errnum = errno;
    if (u->has_total)
        abx_err_set(&u->err, ABX_RESOURCE_EXHAUSTED,
                    "attempted to write %llu bytes: not enough disk space available",
                    (unsigned long long)u->total);
    else
        abx_err_set(&u->err, ABX_RESOURCE_EXHAUSTED, "not enough disk space available");
    u->err.sys = errnum;
    return -1;
}

static bool is_no_space(int errnum)
{
    return errnum == ENOSPC || errnum == EDQUOT;
}

static bool is_spooling(const struct abx_upload *u)
{
    return u->spool.fd >= 0 && !u->is_open;
}

/* What is there already: nothing, or a regular file that gets its new owner first. */
static int prepare_existing(struct abx_upload *u)
{
    struct stat st;
    if (stat(u->path, &st) < 0) {
        u->is_new = errno == ENOENT;
        return u->is_new ? 0
                         : abx__file_error(&u->err, ABX_INTERNAL, "error getting file info: stat",
                                           u->path);
    }
    if (S_ISDIR(st.st_mode))
        return abx_err_set(&u->err, ABX_INVALID_ARGUMENT, "path is a directory: %.150s", u->path);
    if (!S_ISREG(st.st_mode))
        return abx_err_set(&u->err, ABX_INVALID_ARGUMENT, "path is not a regular file: %.150s",
                           u->path);
    if (chown(u->path, u->uid, u->gid) < 0)
        return abx__file_error(&u->err, ABX_INTERNAL, "error changing file ownership: chown",
                               u->path);
    return 0;
}

static int open_file(struct abx_upload *u)
{
    if (abx__make_parents(u->path, u->uid, u->gid, &u->err) < 0 || prepare_existing(u) < 0)
        return -1;
    u->fd = open(u->path, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                 0666 & ~022);
    if (u->fd < 0 && is_no_space(errno))
        return abx__file_error(&u->err, ABX_RESOURCE_EXHAUSTED, "not enough inodes available: open",
                               u->path);
    if (u->fd < 0)
        return abx__file_error(&u->err, ABX_INTERNAL, "error opening file: open", u->path);
    u->is_open = true;
    if (u->is_new && fchown(u->fd, u->uid, u->gid) < 0)
        return abx__file_error(&u->err, ABX_INTERNAL, "error changing file ownership: chown",
                               u->path);
    return 0;
}

/* In place where there is nothing to lose, where the body is complete, and where no spool can be
 * had. */
static int begin(struct abx_upload *u)
{
    struct stat st;
    if (u->is_last || stat(u->path, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size == 0)
        return open_file(u);
    /* Tells of a file system that is read-only, say, before all of the body has come. */
    if (faccessat(AT_FDCWD, u->path, W_OK, AT_EACCESS) < 0)
        return abx__file_error(&u->err, ABX_INTERNAL, "error opening file: open", u->path);
    return abx_spool_open(&u->spool, u->spill_dir) < 0 ? open_file(u) : 0;
}

/* Turns to the file itself at the end, or when the spool can not take more. */
static int spool_pending(struct abx_upload *u)
{
    int rc = abx_spool_write(&u->spool, abx_buf_str(&u->writing));
    if (rc == 0)
        abx_buf_clear(&u->writing);
    if (rc == 0 && !u->is_last)
        return 0;
    bool is_full = is_no_space(-rc) || rc == -EFBIG;
    if (rc == 0 || is_full)
        rc = abx_spool_fits(&u->spool, u->path);
    if (rc == 0)
        return open_file(u);
    errno = -rc;
    return is_no_space(errno)
               ? no_space(u)
               : abx__file_error(&u->err, ABX_INTERNAL, "error writing file: spool of", u->path);
}

static int pour(struct abx_upload *u)
{
    int rc = abx_spool_pour(&u->spool, u->fd, POUR_BYTES);
    u->has_more = rc > 0;
    if (rc == 0)
        abx_spool_done(&u->spool);
    if (rc >= 0)
        return 0;
    errno = -rc;
    return is_no_space(errno)
               ? no_space(u)
               : abx__file_error(&u->err, ABX_INTERNAL, "error writing file: write", u->path);
}

static int write_pending(struct abx_upload *u)
{
    size_t done = 0;
    while (done < u->writing.len) {
        ssize_t n = write(u->fd, u->writing.ptr + done, u->writing.len - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && is_no_space(errno))
            return no_space(u);
        if (n < 0)
            return abx__file_error(&u->err, ABX_INTERNAL, "error writing file: write", u->path);
        done += (size_t)n;
    }
    return 0;
}

/* No half file stays: a new one goes, an old one that was being written is left empty (its content
 * is lost since the open truncated it). */
static void undo(struct abx_upload *u)
{
    struct stat ours, there;
    abx_spool_done(&u->spool);
    if (!u->is_open)
        return;
    bool is_same = fstat(u->fd, &ours) == 0 && lstat(u->path, &there) == 0 &&
                   ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
    if (u->is_new && is_same)
        unlink(u->path);
    else if (ftruncate(u->fd, 0) < 0)
        abx_err_wrap(&u->err, "truncate failed");
    abx_fd_close(&u->fd);
    u->is_open = false;
}

/* The file is complete: all that is left to be done to it. */
static int end_file(struct abx_upload *u)
{
    int rc = abx__metadata_replace(u->fd, u->meta, u->meta_count);
    if (rc < 0) {
        errno = -rc;
        return is_no_space(errno)
                   ? no_space(u)
                   : abx__file_error(&u->err, ABX_INTERNAL, "error setting metadata", u->path);
    }
    int fd = abx_fd_take(&u->fd);
    u->is_open = false;
    if (close(fd) < 0 && errno != EINTR) /* NFS and FUSE tell write errors here */
        return is_no_space(errno)
                   ? no_space(u)
                   : abx__file_error(&u->err, ABX_INTERNAL, "error writing file: close", u->path);
    return 0;
}

static int run_job(struct abx_upload *u)
{
    u->has_more = false;
    if (u->is_abort) {
        undo(u);
        return u->err.code == ABX_OK ? 0 : -1;
    }
    if (!u->is_open && !is_spooling(u) && begin(u) < 0)
        return -1;
    if (is_spooling(u) && spool_pending(u) < 0)
        return -1;
    if (is_spooling(u))
        return 0;
    if (u->spool.fd >= 0 && pour(u) < 0)
        return -1;
    if (u->has_more)
        return 0;
    if (write_pending(u) < 0)
        return -1;
    return u->is_last ? end_file(u) : 0;
}

static void on_run(struct abx_work *w)
{
    struct abx_upload *u = w->owner;
    u->failed = run_job(u) < 0;
    if (u->failed)
        undo(u);
    if (!u->has_more)
        abx_buf_clear(&u->writing);
}

/* --- on the loop --- */

static void upload_free(struct abx_upload *u)
{
    abx_spool_done(&u->spool);
    abx_fd_close(&u->fd);
    abx_buf_done(&u->pending);
    abx_buf_done(&u->writing);
    abx_arena_done(&u->arena);
    free(u);
}

static void pump(struct abx_upload *u);
static void start_job(struct abx_upload *u);

/* Something is open that a job has to close. */
static bool has_begun(const struct abx_upload *u)
{
    return u->is_open || is_spooling(u);
}

static void on_job_done(struct abx_work *w)
{
    struct abx_upload *u = w->owner;
    u->is_busy = false;
    if (u->has_more && !u->failed) { /* also when closed: half of it is in the file */
        start_job(u);
        return;
    }
    bool is_over = u->failed || u->is_last || u->is_abort;
    if (u->is_closed && (is_over || !has_begun(u))) {
        upload_free(u);
        return;
    }
    if (is_over && !u->is_closed) {
        u->is_done = true;
        abx_buf_done(&u->pending);
        u->ops->on_done(u, u->failed ? &u->err : NULL); /* may close */
        return;
    }
    pump(u);
}

static void start_job(struct abx_upload *u)
{
    struct abx_error err = {0};
    if (abx_work_start(&u->work, u->loop, on_run, on_job_done, u, &err) == 0) {
        u->is_busy = true;
        return;
    }
    abx_fd_close(&u->fd); /* no pool: nothing can be undone either */
    u->failed = u->is_done = true;
    u->err = err;
    if (u->is_closed)
        upload_free(u);
    else
        u->ops->on_done(u, &u->err);
}

static void pump(struct abx_upload *u)
{
    if (u->is_busy || u->is_done)
        return;
    if (u->out_of_memory)
        abx_err_set(&u->err, ABX_RESOURCE_EXHAUSTED, "upload %.150s: out of memory", u->path);
    if (u->is_closed || u->out_of_memory)
        u->is_abort = true;
    else if (!u->is_finishing && u->pending.len < WRITE_AT)
        return;
    struct abx_buf spare = u->writing;
    u->writing = u->pending;
    u->pending = spare;
    u->is_last = u->is_finishing;
    bool drains = u->wants_drain;
    u->wants_drain = false;
    start_job(u);
    if (drains && !u->is_closed && !u->is_done && u->ops->on_drain)
        u->ops->on_drain(u);
}

static int copy_metadata(struct abx_upload *u, const struct abx_upload_spec *spec)
{
    u->meta = abx_arena_array(&u->arena, spec->meta_count, sizeof(*u->meta));
    bool ok = u->meta != NULL;
    for (size_t i = 0; ok && i < spec->meta_count; i++) {
        struct abx_meta *m = &u->meta[u->meta_count++];
        m->key = abx_arena_str(&u->arena, spec->meta[i].key);
        m->value = abx_arena_str(&u->arena, spec->meta[i].value);
        ok = m->key.ptr && m->value.ptr;
    }
    return ok ? 0 : -1;
}

int abx_upload_open(struct abx_loop *l, const struct abx_upload_spec *spec,
                    const struct abx_upload_ops *ops, void *owner, struct abx_upload **ret,
                    struct abx_error *err)
{
    struct abx_upload *u = calloc(1, sizeof(*u));
    if (u == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "upload %.150s: out of memory", spec->path);
    u->loop = l;
    u->ops = ops;
    u->owner = owner;
    u->uid = spec->user->uid;
    u->gid = spec->user->gid;
    u->has_total = spec->has_total;
    u->total = spec->total;
    u->spill_dir = spec->spill_dir;
    u->spool = (struct abx_spool)ABX_SPOOL_INIT;
    u->fd = -1;
    abx_buf_init(&u->pending, PENDING_MAX);
    abx_buf_init(&u->writing, PENDING_MAX);
    abx_arena_init(&u->arena, PENDING_MAX);
    if (spec->meta_count && copy_metadata(u, spec) < 0) {
        upload_free(u);
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "upload %.150s: out of memory", spec->path);
    }
    if (abx_str_to_c(abx_str(spec->path), u->path, sizeof(u->path)) < 0) {
        upload_free(u);
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "path is too long: at most %d bytes fit",
                           ABX_FILES_PATH - 1);
    }
    *ret = u;
    return 0;
}

void *abx_upload_owner(const struct abx_upload *u)
{
    return u->owner;
}

bool abx_upload_append(struct abx_upload *u, const void *data, size_t len)
{
    if (u->is_done || u->is_closed || u->is_finishing)
        return true;
    abx_buf_put(&u->pending, data, len);
    u->out_of_memory = abx_buf_failed(&u->pending);
    pump(u);
    if (u->pending.len < STOP_AT)
        return true;
    u->wants_drain = true;
    return false;
}

void abx_upload_finish(struct abx_upload *u)
{
    if (u->is_finishing || u->is_done)
        return;
    u->is_finishing = true;
    pump(u);
}

void abx_upload_close(struct abx_upload *u)
{
    if (u == NULL || u->is_closed)
        return;
    u->is_closed = true;
    if (u->is_busy)
        return;
    if (u->is_done || !has_begun(u))
        upload_free(u);
    else
        pump(u);
}
