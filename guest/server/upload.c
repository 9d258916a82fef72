/* guest/server/upload.c: upload-stream: a whole file as base64 inside JSON; append: the same, added
 * to the end of a file (D31). A body that would take much memory is not held: its file is decoded
 * on the pool while it comes, into a file without a name, and takes its place once all of the body
 * is known to be good. server-api.md 4.4, policy.md A9. */
#include "guest/caps/tree.h"
#include "guest/server/files_priv.h"
#include "guest/server/lift.h"
#include "guest/server/receive.h"
#include "guest/server/unbase64.h"
#include "lib/base/fd.h"
#include "lib/policy/guards.h"
#include "lib/policy/paths.h"

#include <errno.h>
#include <jansson.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum {
    ANSWER_MAX = 1 << 20,
    REST_MAX = 64 * 1024,    /* what a body that is not held may say beside the file */
    PIECE_TEXT = 128 * 1024, /* decoded at a time */
};
#define FIELD "content_base64"
#define PLAIN "content" /* of an append: text */

/* ---- what both ways share; on the pool ---- */

static bool no_base64(struct abx__job *j)
{
    return abx__job_fail(j, 400, "ValueError", "'" FIELD "' is no base64 text");
}

static bool judge(struct abx__job *j, struct abx_str asked, struct abx_str *ret)
{
    struct abx__bounds bounds;
    struct abx__path_ask ask = {.path = asked, .op = ABX_OP_WRITE};
    return abx__files_judge(j, &ask, &bounds, ret) &&
           abx_policy_extension_check(j->rule, *ret, &j->verdict);
}

static bool decode(struct abx__job *j, struct abx_str text, uint64_t limit, struct abx_buf *content)
{
    struct abx__unbase64 u = {0};
    abx_buf_init(content, text.len / 4 * 3 + 8);
    abx__unbase64_feed(&u, text, content);
    bool is_good = abx__unbase64_end(&u, content);
    if (abx_buf_failed(content))
        return abx__job_fail(j, 500, "MemoryError", "out of memory");
    if (!is_good)
        return no_base64(j);
    return content->len <= limit || abx__files_too_large(j, limit);
}

/* What takes the content: a file of its own, or the end of one. */
struct sink {
    bool appends;
    uint64_t max_size; /* of the file that it is added to */
};

static int put_content(const struct sink *sink, const struct abx_tree_put *put, uint64_t *ret_size)
{
    if (sink->appends)
        return abx_tree_append(put, sink->max_size, ret_size);
    return abx_tree_put(put);
}

/* At put->path, which is judged. *ret_size: of the file, if it is appended to. */
static bool store(struct abx__job *j, const struct sink *sink, struct abx_tree_put *put,
                  uint64_t *ret_size)
{
    const struct abx_policy_param *overwrite = &j->rule->params[ABX_PARAM_OVERWRITE];
    bool must_be_new = overwrite->is_set && !overwrite->flag;
    ptrdiff_t slash = abx_str_rchr(put->path, '/');
    int rc = slash > 0 ? abx_tree_mkdirs(abx_str_sub(put->path, 0, (size_t)slash)) : 0;
    if (rc >= 0) {
        put->must_be_new = must_be_new;
        rc = put_content(sink, put, ret_size);
    }
    if (rc == -EFBIG && sink->appends)
        return abx__files_too_large(j, sink->max_size);
    if (rc == -EEXIST && put->must_be_new)
        return abx_policy_deny(&j->verdict, ABX_POLICY_FILE_EXISTS, "the file exists already");
    if (rc == -ELOOP)
        return abx_policy_deny(&j->verdict, ABX_POLICY_SYMLINK_DENIED,
                               "the path leads through a link that goes nowhere");
    if (rc == -EINVAL)
        return abx__job_fail(j, 400, "ValueError", "the path is not a regular file");
    return rc >= 0 || abx__job_fail_errno(j, -rc, put->path);
}

static void answer(struct abx__job *j, const struct sink *sink, struct abx_str path, uint64_t bytes,
                   uint64_t size)
{
    struct abx_json_writer w;
    abx_json_writer_init(&w, &j->out);
    abx_json_begin_object(&w);
    abx_json_kv_str(&w, "path", path);
    abx_json_kv_i64(&w, "bytes", (int64_t)bytes);
    if (sink->appends)
        abx_json_kv_i64(&w, "size", (int64_t)size);
    abx_json_end_object(&w);
}

static bool store_bytes(struct abx__job *j, const struct sink *sink, struct abx_str path,
                        struct abx_str content)
{
    struct abx_tree_put put = {.path = path, .content = content};
    uint64_t size = 0;
    if (!store(j, sink, &put, &size))
        return false;
    answer(j, sink, path, content.len, size);
    return true;
}

static bool store_text(struct abx__job *j, const struct sink *sink, struct abx_str path,
                       struct abx_str text, uint64_t limit)
{
    ABX_AUTO_BUF content;
    return decode(j, text, limit, &content) && store_bytes(j, sink, path, abx_buf_str(&content));
}

static uint64_t limit_of(const struct abx__call *c)
{
    return abx_policy_limit_u64(c->rule, ABX_LIMIT_MAX_BYTES, c->server->upload_cap);
}

static struct sink end_of_file(const struct abx__call *c)
{
    return (struct sink){.appends = true,
                         .max_size = abx_policy_limit_u64(c->rule, ABX_LIMIT_MAX_BYTES, INT64_MAX)};
}

static const char *wanted(const struct sink *sink)
{
    return sink->appends ? "one of '" PLAIN "' and '" FIELD "' must be there, a string"
                         : "'" FIELD "' must be a string";
}

/* ---- a body that is held ---- */

struct upload {
    struct abx_str path, text; /* in the body, which the job has */
    bool is_plain;             /* the text is the content */
    uint64_t limit;
    struct sink sink;
};

static void upload_run(struct abx__job *j)
{
    const struct upload *u = j->data;
    struct abx_str path;
    if (!judge(j, u->path, &path))
        return;
    if (!u->is_plain)
        store_text(j, &u->sink, path, u->text, u->limit);
    else if (u->text.len > u->limit)
        abx__files_too_large(j, u->limit);
    else
        store_bytes(j, &u->sink, path, u->text);
}

/* The one of the two members that says what the content is; NULL: none, or both. */
static const json_t *content_of(const json_t *plain, const json_t *coded, bool *ret_is_plain)
{
    bool has_plain = plain && !json_is_null(plain), has_coded = coded && !json_is_null(coded);
    *ret_is_plain = has_plain;
    return has_plain == has_coded ? NULL : has_plain ? plain : coded;
}

static struct abx_str text_of(const json_t *v)
{
    return abx_str_n(json_string_value(v), json_string_length(v));
}

static void upload(struct abx__call *c, struct sink sink)
{
    struct upload u = {.limit = limit_of(c), .sink = sink};
    const json_t *text = abx__call_field(c, FIELD);
    if (!abx__call_string(c, "path", &u.path))
        return;
    if (sink.appends)
        text = content_of(abx__call_field(c, PLAIN), text, &u.is_plain);
    if (!json_is_string(text)) {
        abx__call_fail(c, 400, "ValueError", "%s", wanted(&sink));
        return;
    }
    u.text = c->long_value.ptr && !u.is_plain ? c->long_value : text_of(text);
    struct abx__job *j = abx__job_with(c, upload_run, ANSWER_MAX, &u, sizeof(u));
    if (j)
        abx__job_start(j);
}

void abx__upload_post(struct abx__call *c)
{
    upload(c, (struct sink){0});
}

void abx__append_post(struct abx__call *c)
{
    upload(c, end_of_file(c));
}

/* ---- a body that is not ---- */

struct large {
    uint64_t limit;
    struct sink sink;
    struct abx__lift lift;
    struct abx__unbase64 letters;
    struct abx_buf bytes; /* of one piece */
    int fd, errnum;
    uint64_t size; /* also beyond the limit, where nothing is written any more */
    struct json_t *body;
    bool is_open;
};

static void write_bytes(struct large *p)
{
    p->size += p->bytes.len;
    if (abx_buf_failed(&p->bytes))
        p->errnum = ENOMEM;
    if (p->errnum || p->letters.is_bad || p->size > p->limit)
        return;
    int rc = abx_fd_write_all(p->fd, p->bytes.ptr, p->bytes.len);
    if (rc < 0)
        p->errnum = -rc;
}

static void on_begin(void *ctx)
{
    struct large *p = ctx;
    p->letters = (struct abx__unbase64){0};
    p->size = 0;
    if (lseek(p->fd, 0, SEEK_SET) < 0)
        p->errnum = errno;
}

static void on_piece(void *ctx, struct abx_str text)
{
    struct large *p = ctx;
    for (; text.len; text = abx_str_sub(text, PIECE_TEXT, text.len)) {
        abx_buf_clear(&p->bytes);
        abx__unbase64_feed(&p->letters, abx_str_sub(text, 0, PIECE_TEXT), &p->bytes);
        write_bytes(p);
    }
}

static bool large_open(struct abx__job *j)
{
    static const struct abx__lift_ops ops = {on_begin, on_piece};
    struct large *p = abx__receive_data(j);
    struct abx__bounds bounds;
    p->is_open = true;
    p->fd = -1;
    abx_buf_init(&p->bytes, PIECE_TEXT);
    abx__lift_init(&p->lift, FIELD, abx_str(j->server->long_marker), REST_MAX, &ops, p);
    if (abx__bounds_init(&bounds, j->policy, j->rule, &j->arena) < 0)
        return abx__job_fail(j, 500, "MemoryError", "out of memory");
    p->fd = abx_tree_spool(bounds.roots[0].real);
    return p->fd >= 0 || abx__job_fail_errno(j, -p->fd, ABX_STR("a temporary file"));
}

static bool large_feed(struct abx__job *j, struct abx_str piece)
{
    struct large *p = abx__receive_data(j);
    abx__lift_feed(&p->lift, piece);
    if (p->errnum)
        return abx__job_fail_errno(j, p->errnum, ABX_STR("a temporary file"));
    if (!abx_buf_failed(&p->lift.rest))
        return true;
    j->verdict.limit_bytes = REST_MAX;
    return abx_policy_deny(&j->verdict, ABX_POLICY_PAYLOAD_TOO_LARGE,
                           "in a body over %d bytes all but '" FIELD "' takes %d bytes at most",
                           (int)ABX__BODY_MAX, (int)REST_MAX);
}

/* The last letters may have bytes too. */
static bool is_complete(struct large *p)
{
    abx_buf_clear(&p->bytes);
    if (!abx__unbase64_end(&p->letters, &p->bytes))
        return false;
    write_bytes(p);
    return true;
}

static bool store_spooled(struct abx__job *j, struct abx_str path)
{
    struct large *p = abx__receive_data(j);
    if (!is_complete(p))
        return no_base64(j);
    if (p->errnum)
        return abx__job_fail_errno(j, p->errnum, ABX_STR("a temporary file"));
    if (p->size > p->limit)
        return abx__files_too_large(j, p->limit);
    struct abx_tree_put put = {.path = path, .from_fd = p->fd, .size = p->size};
    uint64_t size = 0;
    if (!store(j, &p->sink, &put, &size))
        return false;
    answer(j, &p->sink, path, p->size, size);
    return true;
}

static bool large_close(struct abx__job *j)
{
    struct large *p = abx__receive_data(j);
    struct abx_error err = {0};
    struct abx_str path;
    if (abx__body_parse(abx_buf_str(&p->lift.rest), &p->body, &err) < 0)
        return abx__job_fail(j, 400, "ValueError", "the body is no JSON object: %s", err.msg);
    const json_t *name = json_object_get(p->body, "path"), *text = json_object_get(p->body, FIELD);
    if (!json_is_string(name) || json_string_length(name) == 0)
        return abx__job_fail(j, 400, "ValueError", "'path' must be a string that is not empty");
    bool is_plain = false;
    if (p->sink.appends)
        text = content_of(json_object_get(p->body, PLAIN), text, &is_plain);
    if (!json_is_string(text))
        return abx__job_fail(j, 400, "ValueError", "%s", wanted(&p->sink));
    if (!judge(j, text_of(name), &path))
        return false;
    if (is_plain) /* no more than REST_MAX */
        return store_bytes(j, &p->sink, path, text_of(text));
    return abx_str_is(text_of(text), j->server->long_marker)
               ? store_spooled(j, path)
               : store_text(j, &p->sink, path, text_of(text), p->limit);
}

/* Also after close(), which leaves nothing to undo. */
static void large_drop(struct abx__job *j)
{
    struct large *p = abx__receive_data(j);
    if (!p->is_open)
        return;
    abx_fd_close(&p->fd);
    abx_buf_done(&p->bytes);
    abx__lift_done(&p->lift);
    json_decref(p->body);
    p->is_open = false;
}

static bool large_end(struct abx__job *j)
{
    bool is_good = large_close(j);
    if (is_good)
        large_drop(j);
    return is_good;
}

static const struct abx__receive_ops large_ops = {large_open, large_feed, large_end, large_drop};

static void upload_large(struct abx__call *c, struct sink sink)
{
    const struct large p = {.limit = limit_of(c), .sink = sink};
    const struct abx__receive_spec spec = {
        .ops = &large_ops, .data = &p, .data_size = sizeof(p), .limit = c->body_limit};
    abx__receive(c, &spec);
}

void abx__upload_large(struct abx__call *c)
{
    upload_large(c, (struct sink){0});
}

void abx__append_large(struct abx__call *c)
{
    upload_large(c, end_of_file(c));
}
