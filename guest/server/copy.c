/* guest/server/copy.c: POST /files/copy: a file, a link, or a folder with what is in it (D31). Each
 * entry is judged where it is and where it goes (security S08); what the caller may not see is left
 * out, as in an archive. */
#include "guest/server/ends.h"

#include "guest/caps/tree.h"
#include "lib/base/assert.h"
#include "lib/policy/guards.h"
#include "lib/policy/paths.h"

#include <errno.h>

#include "lib/base/banned.h"

enum { ANSWER_MAX = 1 << 20, ENTRIES = 100000, SCRATCH_MAX = 1 << 20 };

struct copy {
    struct abx__ends ends;
    uint64_t max_bytes, max_entries;
    struct abx_arena scratch; /* of one entry */
    struct abx__job *job;
};

static bool may_link(const struct copy *k, const struct abx_tree_copy_entry *e)
{
    struct abx_policy_verdict v = {0};
    return abx__bounds_judge_link(&k->ends.bounds, e->to, e->target, &v);
}

/* Left out, or, if it is all that was asked for, refused. */
static int leave_out(struct copy *k, const struct abx_tree_copy_entry *e)
{
    if (!e->is_top)
        return 0;
    abx_policy_deny(&k->job->verdict, ABX_POLICY_PATH_NOT_ALLOWED,
                    "source: the link would lead to where the policy does not let it");
    return -EPERM;
}

static int judge(void *ctx, const struct abx_tree_copy_entry *e)
{
    struct copy *k = ctx;
    bool is_link = e->target.ptr != NULL;
    struct abx__path_ask ask = {
        .path = e->to, .op = ABX_OP_WRITE, .field = "destination", .keep_last = true};
    struct abx_str resolved;
    abx_arena_done(&k->scratch);
    if (!abx__bounds_shows(&k->ends.bounds, e->from, is_link) || (is_link && !may_link(k, e)))
        return leave_out(k, e);
    bool is_good = abx__bounds_judge(&k->ends.bounds, &ask, &resolved, &k->job->verdict) &&
                   (S_ISDIR(e->st.st_mode) ||
                    abx_policy_extension_check(k->job->rule, e->to, &k->job->verdict));
    return is_good ? 1 : -EPERM;
}

static bool say(struct abx__job *j, int status, const char *type, const char *what,
                struct abx_str path)
{
    return abx__job_fail(j, status, type, "%s: %.*s", what, (int)(path.len < 400 ? path.len : 400),
                         path.ptr);
}

static bool fail(struct abx__job *j, int rc, struct abx_str at)
{
    static const struct {
        int rc, status;
        const char *type, *what;
    } answers[] = {
        {-EINVAL, 400, "ValueError", "it can not be copied into itself"},
        {-ENOTSUP, 400, "ValueError", "neither a file, a folder nor a link"},
        {-E2BIG, 400, "ValueError", "there are more files and folders than may be copied"},
        {-EOVERFLOW, 400, "ValueError", "folders are nested too deep"},
        {-EEXIST, 409, "FileExistsError", "the destination is there already"},
        {-EISDIR, 409, "FileExistsError", "the destination is a folder"},
        {-ENOTDIR, 409, "FileExistsError", "the destination is there and is no folder"},
    };
    const struct copy *k = j->data;
    const struct abx_policy_param *overwrite = &j->rule->params[ABX_PARAM_OVERWRITE];
    if (j->verdict.code != ABX_POLICY_OK)
        return false;
    if (rc == -EFBIG)
        return abx__files_too_large(j, k->max_bytes);
    if (rc == -EEXIST && overwrite->is_set && !overwrite->flag)
        return abx_policy_deny(&j->verdict, ABX_POLICY_FILE_EXISTS, "the file exists already");
    for (size_t i = 0; i < ABX_COUNTOF(answers); i++)
        if (answers[i].rc == rc)
            return say(j, answers[i].status, answers[i].type, answers[i].what,
                       answers[i].status == 409 ? k->ends.final : at);
    return abx__job_fail_errno(j, -rc, at);
}

static void put_answer(struct abx__job *j, const struct abx_tree_copied *n)
{
    const struct copy *k = j->data;
    struct abx_json_writer w;
    abx_json_writer_init(&w, &j->out);
    abx_json_begin_object(&w);
    abx__ends_put(&w, &k->ends);
    abx_json_kv_i64(&w, "files", (int64_t)n->files);
    abx_json_kv_i64(&w, "folders", (int64_t)n->folders);
    abx_json_kv_i64(&w, "links", (int64_t)n->links);
    abx_json_kv_i64(&w, "skipped", (int64_t)n->skipped);
    abx_json_kv_i64(&w, "bytes", (int64_t)n->bytes);
    abx_json_end_object(&w);
}

static void run_copy(struct abx__job *j)
{
    struct copy *k = j->data;
    const struct abx_policy_param *overwrite = &j->rule->params[ABX_PARAM_OVERWRITE];
    const struct abx_tree_copy spec = {.from = k->ends.from,
                                       .to = k->ends.final,
                                       .must_be_new = overwrite->is_set && !overwrite->flag,
                                       .max_bytes = k->max_bytes,
                                       .max_entries = k->max_entries,
                                       .judge = judge,
                                       .ctx = k,
                                       .cancel = &j->is_left};
    struct abx_tree_copied n;
    k->job = j;
    abx_arena_init(&k->scratch, SCRATCH_MAX);
    k->ends.bounds.arena = &k->scratch;
    int rc = abx_tree_copy(&spec, &n);
    abx_arena_done(&k->scratch);
    if (rc < 0)
        fail(j, rc, abx_buf_str(&n.failed));
    else
        put_answer(j, &n);
    abx_buf_done(&n.failed);
}

/* Known before any folder is made for it. */
static bool is_into_itself(const struct abx__ends *e, const struct stat *st)
{
    if (e->final.len < e->from.len || memcmp(e->final.ptr, e->from.ptr, e->from.len) != 0)
        return false;
    return e->final.len == e->from.len ||
           (S_ISDIR(st->st_mode) && (e->final.ptr[e->from.len] == '/' || e->from.len == 1));
}

static void copy_run(struct abx__job *j)
{
    struct copy *k = j->data;
    struct stat st;
    if (!abx__ends_judge(j, &k->ends, &st) || !abx__ends_name(j, &k->ends))
        return;
    if (is_into_itself(&k->ends, &st))
        fail(j, -EINVAL, k->ends.from);
    else if (abx__ends_make_folder(j, &k->ends))
        run_copy(j);
}

void abx__copy_post(struct abx__call *c)
{
    struct copy k = {
        .ends = {.source_op = ABX_OP_READ, .taken_status = 409, .taken_type = "FileExistsError"},
        .max_bytes = abx_policy_limit_u64(c->rule, ABX_LIMIT_MAX_BYTES, c->server->upload_cap),
        .max_entries = abx_policy_limit_u64(c->rule, ABX_LIMIT_MAX_FILES, ENTRIES)};
    if (!abx__ends_read(c, &k.ends))
        return;
    struct abx__job *j = abx__job_with(c, copy_run, ANSWER_MAX, &k, sizeof(k));
    if (j)
        abx__job_start(j);
}
