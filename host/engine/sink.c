/* host/engine/sink.c: a request's body into a file, hashed on the way. Loop thread and pool. */
#include "host/engine/sink_priv.h"

#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/parse.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "lib/base/banned.h"

static void step(struct abx__sink *s);

static void sink_free(struct abx__sink *s)
{
    abx_fd_close(&s->fd);
    unlinkat(s->engine->files_fd, s->name, 0); /* renamed: not there any more */
    s->engine->sinks--;
    abx_buf_done(&s->incoming);
    abx_buf_done(&s->writing);
    free(s);
}

/* Pool. */
static void write_chunk(struct abx_work *w)
{
    struct abx__sink *s = w->owner;
    crypto_hash_sha256_update(&s->hash, (const unsigned char *)s->writing.ptr, s->writing.len);
    s->write_error = abx_fd_write_all(s->fd, s->writing.ptr, s->writing.len);
    if (s->write_error == 0 && s->is_last && fdatasync(s->fd) < 0)
        s->write_error = -errno;
}

static void tell(struct abx__sink *s, const struct abx_error *err)
{
    s->is_over = true;
    if (s->call != NULL)
        s->done(s, err);
}

static void on_written(struct abx_work *w)
{
    struct abx__sink *s = w->owner;
    s->is_busy = false;
    abx_buf_clear(&s->writing);
    step(s);
}

static void complete(struct abx__sink *s)
{
    unsigned char hash[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_final(&s->hash, hash);
    abx_hex_encode(hash, sizeof(hash), s->digest);
    tell(s, NULL);
}

static void start_writing(struct abx__sink *s)
{
    struct abx_error err = {0};
    struct abx_buf full = s->incoming;
    s->incoming = s->writing;
    s->writing = full;
    s->is_busy = true;
    s->is_last = s->has_ended; /* then it is on the disk as well */
    if (abx_work_start(&s->work, &s->engine->loop, write_chunk, on_written, s, &err) == 0)
        return;
    s->is_busy = false;
    tell(s, &err);
}

/* What is to be done next, with nothing on the pool. */
static void step(struct abx__sink *s)
{
    struct abx_error err = {0};
    if (s->is_busy)
        return;
    if (s->call == NULL) {
        sink_free(s);
        return;
    }
    if (s->is_over)
        return;
    if (s->write_error < 0) {
        abx_err_sys(&err, s->write_error, "the file could not be kept");
        tell(s, &err);
        return;
    }
    if (s->incoming.len != 0 || (s->has_ended && !s->is_last))
        start_writing(s);
    else if (s->has_ended)
        complete(s);
    if (s->call == NULL && !s->is_busy) {
        sink_free(s); /* released by its owner */
        return;
    }
    if (!s->is_over && s->is_paused && s->call != NULL && s->incoming.len == 0) {
        s->is_paused = false;
        abx_http_resume_body(s->call->req);
    }
}

static void on_body(struct abx_http_req *req, const char *data, size_t len)
{
    struct abx__call *c = req->data;
    struct abx__sink *s = c->data;
    struct abx_error err = {0};
    if (s->is_over)
        return;
    s->bytes += len;
    abx_buf_put(&s->incoming, data, len);
    if (s->bytes > s->max_bytes || abx_buf_failed(&s->incoming)) {
        abx_err_set(&err, ABX_OUT_OF_RANGE, "the body has more than %llu bytes",
                    (unsigned long long)s->max_bytes);
        tell(s, &err);
        return;
    }
    if (s->incoming.len >= ABX__SINK_BUFFER / 4 && !s->is_paused) {
        s->is_paused = true;
        abx_http_pause_body(req);
    }
    step(s);
}

static void on_body_end(struct abx_http_req *req)
{
    struct abx__call *c = req->data;
    struct abx__sink *s = c->data;
    s->has_ended = true;
    step(s);
}

static void on_close(struct abx__call *c)
{
    struct abx__sink *s = c->data;
    s->call = NULL;
    step(s);
}

static struct abx__sink *sink_new(struct abx__call *c, uint64_t max_bytes)
{
    unsigned char random[16];
    char hex[2 * sizeof(random) + 1];
    struct abx__sink *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return NULL;
    randombytes_buf(random, sizeof(random));
    abx_hex_encode(random, sizeof(random), hex);
    snprintf(s->name, sizeof(s->name), ABX__SINK_PREFIX "%s", hex);
    s->engine = c->engine;
    s->max_bytes = max_bytes;
    abx_buf_init(&s->incoming, ABX__SINK_BUFFER);
    abx_buf_init(&s->writing, ABX__SINK_BUFFER);
    crypto_hash_sha256_init(&s->hash);
    s->fd = openat(c->engine->files_fd, s->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                   0600);
    if (s->fd >= 0)
        return s;
    free(s);
    return NULL;
}

int abx__sink_start(struct abx__call *c, uint64_t max_bytes,
                    void (*done)(struct abx__sink *s, const struct abx_error *err))
{
    const struct abx_http_head *head = c->req->head;
    if (head->has_length && head->content_length > max_bytes) {
        abx__api_fail(c, 413, "the body has more than %llu bytes", (unsigned long long)max_bytes);
        return -1;
    }
    if (c->engine->sinks >= ABX__SINKS_MAX) {
        abx__api_fail(c, 503, "%d uploads are under way: try again when one is done",
                      ABX__SINKS_MAX);
        return -1;
    }
    struct abx__sink *s = sink_new(c, max_bytes);
    if (s == NULL) {
        abx__api_fail(c, 500, "no file for the upload: %s",
                      errno == ENOSPC ? "the disk is full" : "see the log");
        return -1;
    }
    s->done = done;
    s->call = c;
    c->engine->sinks++;
    c->data = s;
    c->on_close = on_close;
    c->req->on_body = on_body;
    c->req->on_body_end = on_body_end;
    if (!head->is_chunked && (!head->has_length || head->content_length == 0)) {
        s->has_ended = true;
        step(s);
    }
    return 0;
}

/* Freed by whoever called done, in step(). */
void abx__sink_release(struct abx__sink *s)
{
    s->call->on_close = NULL;
    s->call->data = NULL;
    s->call->req->on_body = NULL;
    s->call->req->on_body_end = NULL;
    s->call = NULL;
}

int abx__sink_open(const struct abx__sink *s)
{
    int fd = openat(s->engine->files_fd, s->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? -errno : fd;
}

void abx__sinks_sweep(struct abx__engine *e)
{
    int fd = openat(e->files_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        abx_fd_close(&fd);
        abx_log(ABX_LOG_WARN, "the folder of uploads can not be read errno=%d", errno);
        return;
    }
    const struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        if (abx_str_starts(abx_str(entry->d_name), ABX__SINK_PREFIX))
            unlinkat(dirfd(dir), entry->d_name, 0);
    }
    closedir(dir);
}
