/* guest/server/chmod.c: POST /files/chmod (D31). A link is followed, as an upload follows it;
 * beneath a folder none is. With deny patterns a folder is left alone when one of them holds for
 * anything beneath it (security S08). */
#include "guest/server/files_priv.h"

#include "guest/caps/tree.h"
#include "lib/base/assert.h"
#include "lib/policy/guards.h"
#include "lib/policy/paths.h"

#include <errno.h>
#include <jansson.h>

#include "lib/base/banned.h"

enum { ANSWER_MAX = 1 << 20, ENTRIES = 100000, MODE_MAX = 01777, TEXT = 8 };

struct change {
    struct abx_str path; /* in the body, which the job has */
    mode_t mode, folder_mode;
    bool is_recursive;
    uint64_t max_entries;
    struct abx__bounds bounds;
    struct abx__job *job;
};

/* ---- on the pool ---- */

struct scan {
    const struct change *change;
    uint64_t seen;
    bool is_denied, is_too_much;
};

/* What holds for one path; false: the verdict is set. */
static bool may_change(const struct change *k, struct abx_str path, const struct stat *st)
{
    struct abx__job *j = k->job;
    if (!abx__bounds_shows(&k->bounds, path, false))
        return abx_policy_deny(&j->verdict, ABX_POLICY_PATH_DENIED,
                               "the directory holds an entry that is denied");
    return !S_ISREG(st->st_mode) || abx_policy_extension_check(j->rule, path, &j->verdict);
}

static bool scan_entry(void *ctx, const struct abx_tree_entry *e)
{
    struct scan *s = ctx;
    const struct change *k = s->change;
    s->is_too_much = ++s->seen > (k->is_recursive ? k->max_entries : ENTRIES);
    if (!s->is_too_much && k->is_recursive)
        s->is_denied = !may_change(k, e->path, &e->st);
    else if (!s->is_too_much)
        s->is_denied = abx_policy_path_is_denied(k->job->rule, e->path);
    return !s->is_too_much && !s->is_denied;
}

static bool too_many(struct abx__job *j, const struct change *k)
{
    return abx__job_fail(j, 400, "ValueError", "there are more than %llu files and folders",
                         (unsigned long long)k->max_entries);
}

/* What is refused is refused before anything is changed. */
static bool scan_folder(struct abx__job *j, const struct change *k, struct abx_str path)
{
    struct scan s = {.change = k, .seen = 1};
    struct abx_tree_walk walk = {.path = path, .depth = UINT32_MAX, .take = scan_entry, .ctx = &s};
    if (!k->is_recursive && j->rule->paths.deny.count == 0)
        return true;
    abx_tree_walk(&walk); /* no folder: nothing in it */
    if (s.is_too_much && k->is_recursive)
        return too_many(j, k);
    if ((s.is_denied || s.is_too_much) && j->verdict.code == ABX_POLICY_OK)
        abx_policy_deny(&j->verdict, ABX_POLICY_PATH_DENIED,
                        "the directory holds an entry that is denied, or too many");
    return j->verdict.code == ABX_POLICY_OK;
}

/* What has come since the look. */
static int judge(void *ctx, struct abx_str path, const struct stat *st)
{
    const struct change *k = ctx;
    return may_change(k, path, st) ? 0 : -EPERM;
}

static bool fail(struct abx__job *j, int rc, struct abx_str path)
{
    const struct change *k = j->data;
    if (j->verdict.code != ABX_POLICY_OK)
        return false;
    if (rc == -EINVAL || rc == -ELOOP)
        return abx__job_fail(j, 400, "ValueError", "the path is neither a file nor a folder");
    if (rc == -EOVERFLOW)
        return abx__job_fail(j, 400, "ValueError", "folders are nested too deep");
    return rc == -E2BIG ? too_many(j, k) : abx__files_fail_absent(j, rc, path);
}

static void put_answer(struct abx__job *j, struct abx_str path, const struct stat *st,
                       uint64_t changed)
{
    char text[TEXT] = {'0'};
    struct abx_json_writer w;
    for (unsigned i = 0; i < 4; i++)
        text[i] = (char)('0' + (st->st_mode >> (9 - 3 * i) & 7));
    abx_json_writer_init(&w, &j->out);
    abx_json_begin_object(&w);
    abx_json_kv_str(&w, "path", path);
    abx_json_kv_c(&w, "mode", text);
    abx_json_kv_i64(&w, "changed", (int64_t)changed);
    abx_json_end_object(&w);
}

static void chmod_run(struct abx__job *j)
{
    struct change *k = j->data;
    struct abx__path_ask ask = {.path = k->path, .op = ABX_OP_WRITE};
    struct abx_tree_chmod spec = {.file_mode = k->mode,
                                  .folder_mode = k->folder_mode,
                                  .is_recursive = k->is_recursive,
                                  .max_entries = k->max_entries,
                                  .judge = judge,
                                  .ctx = k,
                                  .cancel = &j->is_left};
    struct stat st;
    uint64_t changed;
    k->job = j;
    if (!abx__files_judge(j, &ask, &k->bounds, &spec.path) || !scan_folder(j, k, spec.path))
        return;
    int rc = abx_tree_chmod(&spec, &changed);
    if (rc == 0)
        rc = abx_tree_stat(spec.path, &st);
    if (rc < 0)
        fail(j, rc, spec.path);
    else
        put_answer(j, spec.path, &st, changed);
}

/* ---- the request ---- */

/* Octal digits alone: 644 as a number is 01204, and nobody means that. */
static bool read_mode(struct abx__call *c, const char *name, const json_t *v, mode_t *ret)
{
    const char *text = json_string_value(v);
    size_t len = text ? json_string_length(v) : 0;
    mode_t mode = 0;
    bool is_mode = len >= 3 && len <= 5;
    for (size_t i = 0; is_mode && i < len; i++) {
        is_mode = text[i] >= '0' && text[i] <= '7';
        mode = mode * 8 + (mode_t)(text[i] - '0');
    }
    if (is_mode && mode <= 07777 && (mode & ~(mode_t)MODE_MAX)) {
        abx__call_fail(c, 400, "ValueError", "'%s' has a set-id bit, which is never set", name);
        return false;
    }
    if (!is_mode || mode > MODE_MAX) {
        abx__call_fail(c, 400, "ValueError", "'%s' must be octal digits, such as \"0644\"", name);
        return false;
    }
    *ret = mode;
    return true;
}

static bool read_recursive(struct abx__call *c, bool *ret)
{
    const json_t *v = abx__call_field(c, "recursive");
    if (v && !json_is_null(v) && !json_is_boolean(v)) {
        abx__call_fail(c, 400, "ValueError", "'recursive' must be true or false");
        return false;
    }
    *ret = json_is_true(v);
    return true;
}

void abx__chmod_post(struct abx__call *c)
{
    struct change k = {.max_entries = abx_policy_limit_u64(c->rule, ABX_LIMIT_MAX_FILES, ENTRIES)};
    const json_t *folder_mode = abx__call_field(c, "directory_mode");
    if (!abx__call_string(c, "path", &k.path) ||
        !read_mode(c, "mode", abx__call_field(c, "mode"), &k.mode) ||
        !read_recursive(c, &k.is_recursive))
        return;
    k.folder_mode = k.mode;
    if (folder_mode && !json_is_null(folder_mode) &&
        !read_mode(c, "directory_mode", folder_mode, &k.folder_mode))
        return;
    struct abx__job *j = abx__job_with(c, chmod_run, ANSWER_MAX, &k, sizeof(k));
    if (j)
        abx__job_start(j);
}
