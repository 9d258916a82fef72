/* guest/server/tree_put.c: PUT /files/tree: an archive is unpacked beneath a folder while it comes.
 * server.md 5, security S83. */
#include "guest/caps/unpack.h"
#include "guest/server/packing.h"
#include "guest/server/receive.h"
#include "lib/base/assert.h"
#include "lib/policy/guards.h"

#include <stdio.h>

#include "lib/base/banned.h"

enum { ENTRIES = 100000, SCRATCH_MAX = 1 << 20 };

struct tree {
    enum abx_pack_form form;
    mode_t new_mode;
    uint64_t limit;
    struct abx__bounds bounds;
    struct abx_arena scratch; /* of one entry */
    struct abx_str path;      /* judged */
    struct abx_unpack *unpack;
    struct abx__job *job;
};

/* ---- on the pool ---- */

/* A refusal of the policy is in the job's verdict; what the archive is refused for, in @err. */
static bool fail(struct abx__job *j, const struct abx_error *err)
{
    static const struct {
        enum abx_code code;
        int status;
        const char *type;
    } answers[] = {{ABX_INVALID_ARGUMENT, 400, "ValueError"},
                   {ABX_RESOURCE_EXHAUSTED, 400, "ValueError"}};
    const struct tree *t = abx__receive_data(j);
    if (j->verdict.code != ABX_POLICY_OK)
        return false;
    if (err->sys) { /* "PATH: text of the number", which the answer has anyway */
        ptrdiff_t colon = abx_str_rchr(abx_str(err->msg), ':');
        return abx__job_fail_errno(
            j, err->sys, abx_str_sub(abx_str(err->msg), 0, colon > 0 ? (size_t)colon : SIZE_MAX));
    }
    if (err->code == ABX_OUT_OF_RANGE)
        return abx__files_too_large(j, t->limit);
    if (err->code == ABX_ALREADY_EXISTS)
        return abx_policy_deny(&j->verdict, ABX_POLICY_FILE_EXISTS, "%.200s", err->msg);
    for (size_t i = 0; i < ABX_COUNTOF(answers); i++)
        if (answers[i].code == err->code)
            return abx__job_fail(j, answers[i].status, answers[i].type, "%s", err->msg);
    return abx__job_fail(j, 500, "OSError", "%s", err->msg);
}

static bool allows(void *ctx, struct abx_str path, struct abx_str target, struct abx_error *err)
{
    struct tree *t = ctx;
    struct abx__path_ask ask = {.path = path, .op = ABX_OP_WRITE, .keep_last = true};
    struct abx_str resolved;
    abx_arena_done(&t->scratch);
    bool is_good =
        abx__bounds_judge(&t->bounds, &ask, &resolved, &t->job->verdict) &&
        abx_policy_extension_check(t->job->rule, path, &t->job->verdict) &&
        (target.ptr == NULL || abx__bounds_judge_link(&t->bounds, path, target, &t->job->verdict));
    if (!is_good)
        abx_err_set(err, ABX_PERMISSION_DENIED, "%.200s", t->job->verdict.text);
    return is_good;
}

static bool tree_open(struct abx__job *j)
{
    struct tree *t = abx__receive_data(j);
    const struct abx_policy_param *overwrite = &j->rule->params[ABX_PARAM_OVERWRITE];
    struct abx__path_ask ask = {.op = ABX_OP_WRITE};
    if (!abx__files_query_path(j, &ask.path) || !abx__files_judge(j, &ask, &t->bounds, &t->path))
        return false;
    int rc = abx_tree_mkdirs(t->path);
    if (rc < 0)
        return abx__job_fail_errno(j, -rc, t->path);
    t->job = j;
    abx_arena_init(&t->scratch, SCRATCH_MAX);
    t->bounds.arena = &t->scratch;
    const struct abx_unpack_spec spec = {.path = t->path,
                                         .is_gzip = t->form == ABX_PACK_TAR_GZIP,
                                         .must_be_new = overwrite->is_set && !overwrite->flag,
                                         .new_mode = t->new_mode,
                                         .max_bytes = t->limit,
                                         .max_entries = ENTRIES,
                                         .allows = allows,
                                         .ctx = t};
    t->unpack = abx_unpack_new(&spec);
    return t->unpack || abx__job_fail(j, 500, "MemoryError", "out of memory");
}

static bool tree_feed(struct abx__job *j, struct abx_str piece)
{
    const struct tree *t = abx__receive_data(j);
    struct abx_error err = {0};
    return abx_unpack_feed(t->unpack, piece, &err) == 0 || fail(j, &err);
}

static void tree_undo(struct abx__job *j)
{
    struct tree *t = abx__receive_data(j);
    abx_unpack_free(t->unpack);
    t->unpack = NULL;
    abx_arena_done(&t->scratch);
}

static bool tree_close(struct abx__job *j)
{
    struct tree *t = abx__receive_data(j);
    struct abx_unpack_count n;
    struct abx_error err = {0};
    struct abx_json_writer w;
    if (abx_unpack_end(t->unpack, &n, &err) < 0)
        return fail(j, &err);
    tree_undo(j);
    abx_json_writer_init(&w, &j->out);
    abx_json_begin_object(&w);
    abx_json_kv_str(&w, "path", t->path);
    abx_json_kv_i64(&w, "files", (int64_t)n.files);
    abx_json_kv_i64(&w, "folders", (int64_t)n.folders);
    abx_json_kv_i64(&w, "links", (int64_t)n.links);
    abx_json_kv_i64(&w, "bytes", (int64_t)n.bytes);
    abx_json_end_object(&w);
    return true;
}

static const struct abx__receive_ops ops = {tree_open, tree_feed, tree_close, tree_undo};

/* ---- the request ---- */

static bool read_form(struct abx__call *c, enum abx_pack_form *ret)
{
    struct abx_str name = abx__call_query(c, "format");
    int form = name.ptr ? abx_pack_form_parse(name) : (int)ABX_PACK_TAR_GZIP;
    *ret = (enum abx_pack_form)form;
    if (form == ABX_PACK_ZIP)
        abx__call_fail(c, 501, "NotImplementedError", "zip is not unpacked: send tar.gz or tar");
    else if (form < 0)
        abx__call_fail(c, 400, "ValueError", "query parameter 'format' is \"tar.gz\" or \"tar\"");
    return form >= 0 && form != ABX_PACK_ZIP;
}

void abx__tree_put(struct abx__call *c)
{
    uint64_t body = abx_policy_limit_u64(c->rule, ABX_LIMIT_MAX_REQUEST_BYTES, UINT64_MAX);
    struct tree t = {.new_mode = 0777 & ~c->server->umask,
                     .limit =
                         abx_policy_limit_u64(c->rule, ABX_LIMIT_MAX_BYTES, c->server->upload_cap)};
    /* Headers and padding of a plain tar are no content. */
    uint64_t around = t.limit < UINT64_MAX / 4 ? t.limit / 4 + (64u << 20) : 0;
    if (!read_form(c, &t.form))
        return;
    const struct abx__receive_spec spec = {.ops = &ops,
                                           .data = &t,
                                           .data_size = sizeof(t),
                                           .limit =
                                               body < t.limit + around ? body : t.limit + around};
    abx__receive(c, &spec);
}
