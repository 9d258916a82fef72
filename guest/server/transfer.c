/* guest/server/transfer.c: upload-stream and download-stream: whole files as base64 inside JSON.
 * A download of any size goes out in pieces, each read on the pool. server-api.md 4.4, policy.md
 * A9. */
#include "guest/caps/tree.h"
#include "guest/server/files_priv.h"
#include "guest/server/send.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/policy/guards.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum {
    ANSWER_MAX = 1 << 20, /* path and quotes; more than a piece as base64 */
    PIECE = 192 * 1024,   /* of a file, a multiple of 3: base64 of pieces joins */
    PIECE_TEXT = PIECE / 3 * 4,
};

/* ---- upload ---- */

struct upload {
    struct abx_str path, text; /* in the body, which the job has */
    uint64_t cap;              /* without max_bytes */
};

/* The standard alphabet, padded, nothing else. */
static bool is_base64(struct abx_str s)
{
    size_t pad = 0;
    while (pad < 2 && pad < s.len && s.ptr[s.len - 1 - pad] == '=')
        pad++;
    for (size_t i = 0; i + pad < s.len; i++) {
        char c = s.ptr[i];
        bool is_letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        if (!is_letter && !(c >= '0' && c <= '9') && c != '+' && c != '/')
            return false;
    }
    return s.len % 4 == 0;
}

/* The last four letters, with the bits cleared that stand for nothing: as published, they do not
 * matter. */
static void clear_unused_bits(struct abx_str last, char out[4])
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    memcpy(out, last.ptr, 4);
    if (out[3] != '=')
        return;
    size_t at = out[2] == '=' ? 1 : 2;
    ptrdiff_t bits = strchr(alphabet, out[at]) - alphabet;
    out[at] = alphabet[at == 1 ? bits & ~15 : bits & ~3];
}

static bool decode(struct abx__job *j, const struct upload *u, struct abx_buf *content)
{
    char last[4];
    uint64_t limit = abx_policy_limit_u64(j->rule, ABX_LIMIT_MAX_BYTES, u->cap);
    abx_buf_init(content, u->text.len / 4 * 3 + 4);
    if (!is_base64(u->text))
        return abx__job_fail(j, 400, "ValueError", "'content_base64' is no base64 text");
    if (u->text.len == 0)
        return true;
    struct abx_str most = abx_str_sub(u->text, 0, u->text.len - 4);
    clear_unused_bits(abx_str_sub(u->text, most.len, 4), last);
    if ((most.len && abx_base64_decode(most, content) < 0) ||
        abx_base64_decode(abx_str_n(last, 4), content) < 0 || abx_buf_failed(content))
        return abx__job_fail(j, 500, "MemoryError", "out of memory");
    return content->len <= limit || abx__files_too_large(j, limit);
}

static bool put_file(struct abx__job *j, struct abx_str path, struct abx_str content)
{
    const struct abx_policy_param *overwrite = &j->rule->params[ABX_PARAM_OVERWRITE];
    struct abx_tree_put put = {
        .path = path, .content = content, .must_be_new = overwrite->is_set && !overwrite->flag};
    ptrdiff_t slash = abx_str_rchr(path, '/');
    int rc = slash > 0 ? abx_tree_mkdirs(abx_str_sub(path, 0, (size_t)slash)) : 0;
    if (rc >= 0)
        rc = abx_tree_put(&put);
    else
        put.must_be_new = false;
    if (rc == -EEXIST && put.must_be_new)
        return abx_policy_deny(&j->verdict, ABX_POLICY_FILE_EXISTS, "the file exists already");
    if (rc == -ELOOP)
        return abx_policy_deny(&j->verdict, ABX_POLICY_SYMLINK_DENIED,
                               "the path leads through a link that goes nowhere");
    if (rc == -EINVAL)
        return abx__job_fail(j, 400, "ValueError", "the path is not a regular file");
    return rc >= 0 || abx__job_fail_errno(j, -rc, path);
}

static void upload_run(struct abx__job *j)
{
    const struct upload *u = j->data;
    struct abx__bounds bounds;
    struct abx__path_ask ask = {.path = u->path, .op = ABX_OP_WRITE};
    struct abx_str path;
    struct abx_json_writer w;
    ABX_AUTO_BUF content;
    abx_buf_init(&content, 0);
    if (!abx__files_judge(j, &ask, &bounds, &path) ||
        !abx_policy_extension_check(j->rule, path, &j->verdict) || !decode(j, u, &content) ||
        !put_file(j, path, abx_buf_str(&content)))
        return;
    abx_json_writer_init(&w, &j->out);
    abx_json_begin_object(&w);
    abx_json_kv_str(&w, "path", path);
    abx_json_kv_i64(&w, "bytes", (int64_t)content.len);
    abx_json_end_object(&w);
}

void abx__upload_post(struct abx__call *c)
{
    struct upload u = {.cap = c->server->upload_cap};
    const json_t *text = abx__call_field(c, "content_base64");
    if (!abx__call_string(c, "path", &u.path))
        return;
    if (!json_is_string(text)) {
        abx__call_fail(c, 400, "ValueError", "'content_base64' must be a string");
        return;
    }
    u.text = c->long_value;
    if (u.text.ptr == NULL)
        u.text = abx_str_n(json_string_value(text), json_string_length(text));
    struct abx__job *j = abx__job_new(c, upload_run, ANSWER_MAX);
    struct upload *copy = j ? abx__job_data(j, sizeof(*copy)) : NULL;
    if (copy)
        *copy = u;
    if (j)
        abx__job_start(j);
}

/* ---- download ---- */

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
