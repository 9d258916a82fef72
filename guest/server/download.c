/* guest/server/download.c: download-stream: whole files as base64 inside JSON. One of any size goes
 * out in pieces, each read on the pool. server-api.md 4.4. */
#include "guest/caps/tree.h"
#include "guest/server/files_priv.h"
#include "guest/server/send.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum {
    ANSWER_MAX = 1 << 20, /* path and quotes; more than a piece as base64 */
    PIECE = 192 * 1024,   /* of a file, a multiple of 3: base64 of pieces joins */
    PIECE_TEXT = PIECE / 3 * 4,
};

struct source { /* of a job that opened the file */
    int fd;
    uint64_t size;
    struct abx_str path;
};

static void put_head(struct abx_buf *out, struct abx_str path)
{
    struct abx_json_writer w;
    abx_json_writer_init(&w, out);
    abx_json_begin_object(&w);
    abx_json_kv_str(&w, "path", path);
    abx_buf_put_c(out, ",\"content_base64\":\"");
}

static void put_tail(struct abx_buf *out, uint64_t size)
{
    abx_buf_putf(out, "\",\"bytes\":%llu}", (unsigned long long)size);
}

static bool open_source(struct abx__job *j, struct source *s)
{
    struct stat st;
    struct abx__bounds bounds;
    struct abx__path_ask ask = {.op = ABX_OP_READ};
    if (!abx__files_query_path(j, &ask.path) || !abx__files_judge(j, &ask, &bounds, &s->path))
        return false;
    ABX_AUTO_FD fd = abx_tree_open(s->path, O_RDONLY, 0);
    if (fd == -EXDEV || fd == -EACCES || fd == -EPERM)
        return abx__job_fail_errno(j, -fd, s->path);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return abx__job_fail(j, 404, "FileNotFoundError", "no such file: %.*s",
                             (int)(s->path.len < 400 ? s->path.len : 400), s->path.ptr);
    s->size = (uint64_t)st.st_size;
    uint64_t limit = abx_policy_limit_u64(j->rule, ABX_LIMIT_MAX_BYTES, UINT64_MAX);
    if (s->size > limit)
        return abx__files_too_large(j, limit);
    s->fd = abx_fd_take(&fd);
    return true;
}

static void download_run(struct abx__job *j)
{
    struct source *s = j->data;
    s->fd = -1;
    if (!open_source(j, s) || s->size > PIECE)
        return;
    ABX_AUTO_FD fd = abx_fd_take(&s->fd);
    ABX_AUTO_FREE char *piece = malloc(PIECE + 1); /* one more: it may have grown */
    ssize_t got = piece ? abx__read_at(fd, piece, PIECE + 1, 0) : -ENOMEM;
    if (got < 0) {
        abx__job_fail_errno(j, (int)-got, s->path);
        return;
    }
    got = got < PIECE ? got : PIECE;
    put_head(&j->out, s->path);
    abx_base64_encode(piece, (size_t)got, true, &j->out);
    put_tail(&j->out, (uint64_t)got);
}

static void download_done(struct abx__job *j)
{
    struct source *s = j->data;
    struct abx__call *c = j->call;
    struct abx__base64 b = {.size = s->size};
    ABX_AUTO_BUF head;
    abx_buf_init(&head, ANSWER_MAX);
    if (s->fd < 0) {
        abx__call_answer(c, &j->out);
        return;
    }
    put_head(&head, s->path);
    b.head = abx_buf_str(&head);
    b.take_fd = abx_fd_take(&s->fd);
    abx__send_base64(c, &b);
}

static void download_drop(struct abx__job *j)
{
    struct source *s = j->data;
    if (s)
        abx_fd_close(&s->fd);
}

void abx__download_get(struct abx__call *c)
{
    struct abx__job *j = abx__job_new(c, download_run, PIECE_TEXT + ANSWER_MAX);
    struct source *s = j ? abx__job_data(j, sizeof(*s)) : NULL;
    if (s)
        s->fd = -1;
    if (j == NULL)
        return;
    j->done = download_done;
    j->drop = download_drop;
    abx__job_start(j);
}
