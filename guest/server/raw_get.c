/* guest/server/raw_get.c: GET /files/raw: the bytes of a file, whole, packed or a range of them.
 * server.md 5; RFC 9110 13, 14. */
#include "guest/caps/gzip.h"
#include "guest/caps/tree.h"
#include "guest/server/files_priv.h"
#include "guest/server/raw.h"
#include "guest/server/send.h"
#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/wire/range.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum { PIECE = 256 * 1024, ERROR_BYTES = 4096 };

void abx__raw_tag(const struct stat *st, enum abx_coding coding, char out[ABX__TAG])
{
    snprintf(out, ABX__TAG, "\"%llx-%llx-%llx.%lx%s\"", (unsigned long long)st->st_ino,
             (unsigned long long)st->st_size, (unsigned long long)st->st_mtim.tv_sec,
             (unsigned long)st->st_mtim.tv_nsec, coding == ABX_CODING_GZIP ? "-gzip" : "");
}

bool abx__raw_names_tag(struct abx_str list, const char *tag, bool is_weak)
{
    struct abx_str one;
    while (list.len && abx_str_split(&list, ',', &one)) {
        one = abx_str_trim(one);
        if (is_weak && abx_str_starts(one, "W/"))
            one = abx_str_sub(one, 2, one.len);
        if (abx_str_is(one, "*") || abx_str_is(one, tag))
            return true;
    }
    return false;
}

/* ---- the bytes ---- */

struct file {
    struct abx__source base;
    int fd;
    uint64_t offset, left;
    struct abx_deflate deflate; /* not open: as they are */
    char piece[PIECE];
};

static int file_pull(struct abx__source *source, struct abx_buf *out)
{
    struct file *f = ABX_CONTAINER_OF(source, struct file, base);
    size_t want = f->left < PIECE ? (size_t)f->left : (size_t)PIECE;
    ssize_t got = abx__read_at(f->fd, f->piece, want, f->offset);
    if (got != (ssize_t)want) /* it shrank: its length and tag were said before */
        return got < 0 ? (int)got : -EIO;
    f->offset += want;
    f->left -= want;
    if (!f->deflate.is_open)
        abx_buf_put(out, f->piece, want);
    else if (abx_deflate_put(&f->deflate, abx_str_n(f->piece, want), f->left == 0, out) < 0)
        return -ENOMEM;
    return f->left > 0;
}

static void file_free(struct abx__source *source)
{
    struct file *f = ABX_CONTAINER_OF(source, struct file, base);
    abx_fd_close(&f->fd);
    abx_deflate_done(&f->deflate);
    free(f);
}

/* ---- the request ---- */

struct raw { /* of the job that opens it */
    int fd;
    struct stat st;
};

static void raw_run(struct abx__job *j)
{
    struct raw *r = j->data;
    struct abx__bounds bounds;
    struct abx__path_ask ask = {.op = ABX_OP_READ};
    struct abx_str path;
    if (!abx__files_query_path(j, &ask.path) || !abx__files_judge(j, &ask, &bounds, &path))
        return;
    ABX_AUTO_FD fd = abx_tree_open(path, O_RDONLY, 0);
    if (fd == -EXDEV || fd == -EACCES || fd == -EPERM) {
        abx__job_fail_errno(j, -fd, path);
        return;
    }
    if (fd < 0 || fstat(fd, &r->st) < 0 || !S_ISREG(r->st.st_mode)) {
        abx__files_not_found(j, "no such file", path);
        return;
    }
    uint64_t limit = abx_policy_limit_u64(j->rule, ABX_LIMIT_MAX_BYTES, UINT64_MAX);
    if ((uint64_t)r->st.st_size > limit)
        abx__files_too_large(j, limit);
    else
        r->fd = abx_fd_take(&fd);
}

static void raw_drop(struct abx__job *j)
{
    struct raw *r = j->data;
    if (r)
        abx_fd_close(&r->fd);
}

static void not_satisfiable(struct abx__call *c, uint64_t size)
{
    char range[40];
    ABX_AUTO_BUF body;
    struct abx_json_writer w;
    snprintf(range, sizeof(range), "bytes */%llu", (unsigned long long)size);
    const struct abx_http_extra extra[] = {{"Content-Range", abx_str(range)}, {0}};
    abx_buf_init(&body, ERROR_BYTES);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "error", "the file has none of the bytes of 'Range'");
    abx_json_kv_c(&w, "type", "ValueError");
    abx_json_kv_c(&w, "code", "range_not_satisfiable");
    abx_json_kv_str(&w, "endpoint", c->rule->id);
    abx_json_end_object(&w);
    abx__call_answer_status(c, 416, extra, abx_buf_str(&body));
}

static void not_modified(struct abx__call *c, const char *tag)
{
    const struct abx_http_extra extra[] = {{"X-Request-Id", abx_str(c->id)},
                                           {"ETag", abx_str(tag)},
                                           {"Vary", ABX_STR("Accept-Encoding")},
                                           {0}};
    c->status = 304;
    abx__audit_call(c);
    abx_http_answer(c->req, 304, extra, ABX_STR(""));
}

/* Several ranges are answered by the whole file, as RFC 9110 14.2 lets a server do. 0: all of it,
 * 1: *ret, -1: 416. */
static int pick_range(const struct abx__call *c, uint64_t size, const char *tag,
                      struct abx_range *ret)
{
    struct abx_range ranges[ABX_RANGES];
    struct abx_str if_range = abx__call_header(c, "If-Range");
    if (if_range.ptr && !abx_str_is(if_range, tag))
        return 0;
    int n = abx_ranges_parse(abx__call_header(c, "Range"), size, ranges);
    if (n == 1)
        *ret = ranges[0];
    return n == 1 || n < 0 ? n : 0;
}

static void send_file(struct abx__call *c, struct file *f, const char *tag, uint64_t size)
{
    char range[72] = "";
    bool is_part = f->left != size, is_packed = f->deflate.is_open;
    struct abx_http_extra extra[7] = {{"Content-Type", ABX_STR("application/octet-stream")},
                                      {"ETag", abx_str(tag)},
                                      {"Accept-Ranges", ABX_STR("bytes")},
                                      {"Vary", ABX_STR("Accept-Encoding")}};
    size_t n = 4;
    if (is_part) {
        snprintf(range, sizeof(range), "bytes %llu-%llu/%llu", (unsigned long long)f->offset,
                 (unsigned long long)(f->offset + f->left - 1), (unsigned long long)size);
        extra[n++] = (struct abx_http_extra){"Content-Range", abx_str(range)};
    }
    if (is_packed)
        extra[n++] = (struct abx_http_extra){"Content-Encoding", ABX_STR("gzip")};
    abx__send(c, is_part ? 206 : 200, extra, is_packed ? ABX_HTTP_CHUNKED : (int64_t)f->left,
              &f->base);
}

static void raw_done(struct abx__job *j)
{
    struct raw *r = j->data;
    struct abx__call *c = j->call;
    char tag[ABX__TAG];
    uint64_t size = (uint64_t)r->st.st_size;
    struct abx_range range = {0, size};
    /* Ranges are of the file, never of its packing. */
    abx__raw_tag(&r->st, ABX_CODING_IDENTITY, tag);
    int is_part = pick_range(c, size, tag, &range);
    enum abx_coding coding =
        abx_coding_pick(abx__call_header(c, "Accept-Encoding"), is_part != 0 || size == 0);
    abx__raw_tag(&r->st, coding, tag);
    if (abx__raw_names_tag(abx__call_header(c, "If-None-Match"), tag, true)) {
        not_modified(c, tag);
        return;
    }
    if (is_part < 0) {
        not_satisfiable(c, size);
        return;
    }
    struct file *f = calloc(1, sizeof(*f));
    if (f == NULL ||
        (coding == ABX_CODING_GZIP && abx_deflate_init(&f->deflate, ABX_DEFLATE_GZIP) < 0)) {
        free(f);
        abx__call_fail(c, 500, "MemoryError", "out of memory");
        return;
    }
    f->base = (struct abx__source){file_pull, file_free};
    f->fd = abx_fd_take(&r->fd);
    f->offset = range.from;
    f->left = range.len;
    send_file(c, f, tag, size);
}

void abx__raw_get(struct abx__call *c)
{
    struct abx__job *j = abx__job_new(c, raw_run, 0);
    struct raw *r = j ? abx__job_data(j, sizeof(*r)) : NULL;
    if (r)
        r->fd = -1;
    if (j == NULL)
        return;
    j->done = raw_done;
    j->drop = raw_drop;
    abx__job_start(j);
}
