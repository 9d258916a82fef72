/* guest/server/raw_put.c: PUT /files/raw: a file from the bytes of the body; whole, or by parts
 * that can be gone on with after a cut. server.md 5; RFC 9110 13.1, 14.4. */
#include "guest/caps/draft.h"
#include "guest/server/files_priv.h"
#include "guest/server/raw.h"
#include "guest/server/receive.h"
#include "lib/base/assert.h"
#include "lib/policy/guards.h"
#include "lib/wire/range.h"

#include <errno.h>
#include <stdio.h>

#include "lib/base/banned.h"

struct put {
    struct abx_str if_match, if_none_match;
    struct abx_content_range range; /* len 0: the whole file */
    mode_t new_mode;
    uint64_t limit;
    struct abx_str path; /* judged */
    struct abx_draft draft;
    uint64_t got;
};

/* ---- on the pool ---- */

static bool precondition(struct abx__job *j)
{
    return abx__job_fail(j, 412, "ConflictError",
                         "the file is not the one that the request is about");
}

/* What the system says of a draft, as an answer. */
static bool fail(struct abx__job *j, int rc)
{
    const struct put *p = abx__receive_data(j);
    if (rc == -EEXIST && p->draft.must_be_new && p->if_none_match.ptr == NULL)
        return abx_policy_deny(&j->verdict, ABX_POLICY_FILE_EXISTS, "the file exists already");
    if (rc == -ESTALE || (rc == -EEXIST && p->draft.must_be_new))
        return precondition(j);
    if (rc == -ELOOP)
        return abx_policy_deny(&j->verdict, ABX_POLICY_SYMLINK_DENIED,
                               "the path leads through a link that goes nowhere");
    if (rc == -EINVAL)
        return abx__job_fail(j, 400, "ValueError", "the path is not a regular file");
    if (rc == -EBUSY)
        return abx__job_fail(j, 409, "ConflictError", "another request writes this file's parts");
    if (rc == -ERANGE)
        return abx__job_fail(j, 416, "ValueError", "the part goes on at byte %llu",
                             (unsigned long long)p->draft.size);
    return abx__job_fail_errno(j, -rc, p->path);
}

/* A client may know the file packed: that is the same content. */
static bool names_old(const struct abx_draft *d, struct abx_str list, bool is_weak)
{
    static const enum abx_coding codings[] = {ABX_CODING_IDENTITY, ABX_CODING_GZIP};
    bool is_named = false;
    for (size_t i = 0; d->has_old && !is_named && i < ABX_COUNTOF(codings); i++) {
        char tag[ABX__TAG];
        abx__raw_tag(&d->old, codings[i], tag);
        is_named = abx__raw_names_tag(list, tag, is_weak);
    }
    return is_named;
}

/* Against the file that is there now; -ESTALE later if it is replaced meanwhile. */
static bool check_conditions(struct abx__job *j)
{
    const struct put *p = abx__receive_data(j);
    if (p->if_match.ptr && !names_old(&p->draft, p->if_match, false))
        return precondition(j);
    if (p->if_none_match.ptr && names_old(&p->draft, p->if_none_match, true))
        return precondition(j);
    return true;
}

static bool put_open(struct abx__job *j)
{
    struct put *p = abx__receive_data(j);
    const struct abx_policy_param *overwrite = &j->rule->params[ABX_PARAM_OVERWRITE];
    struct abx__bounds bounds;
    struct abx__path_ask ask = {.op = ABX_OP_WRITE};
    if (!abx__files_query_path(j, &ask.path) || !abx__files_judge(j, &ask, &bounds, &p->path) ||
        !abx_policy_extension_check(j->rule, p->path, &j->verdict))
        return false;
    if (p->range.len && p->range.total > p->limit)
        return abx__files_too_large(j, p->limit);
    ptrdiff_t slash = abx_str_rchr(p->path, '/');
    int rc = slash > 0 ? abx_tree_mkdirs(abx_str_sub(p->path, 0, (size_t)slash)) : 0;
    if (rc < 0)
        return abx__job_fail_errno(j, -rc, p->path);
    const struct abx_draft_spec spec = {.path = p->path,
                                        .must_be_new = (overwrite->is_set && !overwrite->flag) ||
                                                       abx_str_is(p->if_none_match, "*"),
                                        .new_mode = p->new_mode,
                                        .is_part = p->range.len > 0,
                                        .from = p->range.from,
                                        .owner = j->who.id};
    rc = abx_draft_open(&p->draft, &spec);
    return rc < 0 ? fail(j, rc) : check_conditions(j);
}

static bool put_feed(struct abx__job *j, struct abx_str piece)
{
    struct put *p = abx__receive_data(j);
    p->got += piece.len;
    if (p->range.len && p->got > p->range.len)
        return abx__job_fail(j, 400, "ValueError", "the body is longer than 'Content-Range' says");
    int rc = abx_draft_write(&p->draft, piece);
    return rc >= 0 || fail(j, rc);
}

static void put_answer(struct abx__job *j, const struct stat *st)
{
    const struct put *p = abx__receive_data(j);
    char tag[ABX__TAG];
    struct abx_json_writer w;
    abx_json_writer_init(&w, &j->out);
    abx_json_begin_object(&w);
    abx_json_kv_str(&w, "path", p->path);
    abx_json_kv_i64(&w, "bytes", (int64_t)p->draft.size);
    abx_json_kv_bool(&w, "complete", st != NULL);
    if (st) {
        abx__raw_tag(st, ABX_CODING_IDENTITY, tag);
        abx_json_kv_c(&w, "etag", tag);
    }
    abx_json_end_object(&w);
}

static bool put_close(struct abx__job *j)
{
    struct put *p = abx__receive_data(j);
    struct stat st;
    if (p->range.len && p->got < p->range.len)
        return abx__job_fail(j, 400, "ValueError", "the body is shorter than 'Content-Range' says");
    bool is_whole = p->range.len == 0 || p->draft.size == p->range.total;
    int rc = is_whole ? abx_draft_commit(&p->draft, &st) : 0;
    if (rc < 0)
        return fail(j, rc);
    put_answer(j, is_whole ? &st : NULL);
    abx_draft_drop(&p->draft);
    return true;
}

static void put_undo(struct abx__job *j)
{
    struct put *p = abx__receive_data(j);
    abx_draft_drop(&p->draft);
}

static const struct abx__receive_ops ops = {put_open, put_feed, put_close, put_undo};

/* ---- the request ---- */

static bool read_range(struct abx__call *c, struct abx_content_range *ret)
{
    struct abx_str value = abx__call_header(c, "Content-Range");
    if (value.ptr == NULL)
        return true;
    if (abx_content_range_parse(value, ret) == 0 && ret->has_total)
        return true;
    abx__call_fail(c, 400, "ValueError", "'Content-Range' must be 'bytes FIRST-LAST/TOTAL'");
    return false;
}

static bool is_plain(struct abx__call *c)
{
    struct abx_str coding = abx__call_header(c, "Content-Encoding");
    if (coding.len == 0 || abx_str_is_nocase(coding, "identity"))
        return true;
    abx__call_fail(c, 415, "ValueError",
                   "'Content-Encoding' must be identity: the bytes are the file");
    return false;
}

static void keep(struct abx__job *j, struct abx_str *inout)
{
    if (inout->ptr == NULL)
        return;
    *inout = abx_arena_str(&j->arena, *inout);
    if (inout->ptr == NULL)
        abx__job_fail(j, 500, "MemoryError", "out of memory");
}

static void prepare(struct abx__job *j)
{
    struct put *p = abx__receive_data(j);
    keep(j, &p->if_match);
    keep(j, &p->if_none_match);
}

void abx__raw_put(struct abx__call *c)
{
    uint64_t body = abx_policy_limit_u64(c->rule, ABX_LIMIT_MAX_REQUEST_BYTES, UINT64_MAX);
    struct put p = {.if_match = abx__call_header(c, "If-Match"),
                    .if_none_match = abx__call_header(c, "If-None-Match"),
                    .new_mode = 0666 & ~c->server->umask,
                    .limit =
                        abx_policy_limit_u64(c->rule, ABX_LIMIT_MAX_BYTES, c->server->upload_cap)};
    if (!is_plain(c) || !read_range(c, &p.range))
        return;
    const struct abx__receive_spec spec = {.ops = &ops,
                                           .data = &p,
                                           .data_size = sizeof(p),
                                           .prepare = prepare,
                                           .limit = body < p.limit ? body : p.limit};
    abx__receive(c, &spec);
}
