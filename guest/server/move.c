/* guest/server/move.c: POST /files/move. server-api.md 4.4, policy.md A9; a link is moved itself
 * (P28), the name that it will have is judged too (P6). */
#include "guest/server/files_priv.h"

#include "guest/caps/tree.h"
#include "lib/base/assert.h"

#include <errno.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum { ANSWER_MAX = 1 << 20, PATH_BYTES = 65536 };

struct move {
    struct abx_str source, destination; /* as asked; in the body, which the job has */
    struct abx__bounds bounds;
};

static bool judge(struct abx__job *j, struct abx_str path, enum abx_path_op op, bool keep_last,
                  struct abx_str *ret)
{
    const struct move *m = j->data;
    struct abx__path_ask ask = {.path = path,
                                .op = op,
                                .field = op == ABX_OP_DELETE ? "source" : "destination",
                                .keep_last = keep_last};
    return abx__bounds_judge(&m->bounds, &ask, ret, &j->verdict);
}

static bool is_folder(struct abx_str path)
{
    struct stat st;
    return abx_tree_stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* *inout_to is the destination. A link to a folder stands for the folder, another link for itself.
 */
static bool follow_to_folder(struct abx__job *j, struct abx_str *inout_to)
{
    struct stat st;
    struct abx_str target;
    ABX_AUTO_BUF out;
    abx_buf_init(&out, PATH_BYTES);
    if (abx_tree_stat(*inout_to, &st) < 0 || !S_ISLNK(st.st_mode))
        return true;
    if (abx_tree_resolve(*inout_to, false, &out) < 0 || !is_folder(abx_buf_str(&out)))
        return true;
    if (!judge(j, *inout_to, ABX_OP_WRITE, false, &target))
        return false;
    *inout_to = target;
    return true;
}

/* Into a folder: the name there. */
static bool final_name(struct abx__job *j, struct abx_str from, struct abx_str to,
                       struct abx_str *ret)
{
    struct stat st;
    ABX_AUTO_BUF path;
    abx_buf_init(&path, PATH_BYTES);
    *ret = to;
    if (abx_str_eq(from, to) || !is_folder(to))
        return true;
    abx_buf_put_str(&path, to);
    abx_buf_put_byte(&path, '/');
    abx_buf_put_str(&path, abx__files_base_name(from));
    struct abx_str name = abx_arena_str(&j->arena, abx_buf_str(&path));
    if (abx_buf_failed(&path) || name.ptr == NULL)
        return abx__job_fail(j, 500, "MemoryError", "out of memory");
    if (!judge(j, name, ABX_OP_WRITE, true, ret))
        return false;
    if (!abx_str_eq(*ret, from) && abx_tree_stat(*ret, &st) == 0)
        return abx__job_fail(j, 500, "Error", "the destination has an entry of that name: %.*s",
                             (int)(ret->len < 400 ? ret->len : 400), ret->ptr);
    return true;
}

/* The classes that the published server answers with. */
static bool fail(struct abx__job *j, int rc, struct abx_str from, struct abx_str to)
{
    if (rc == -EINVAL)
        return abx__job_fail(j, 500, "Error", "a folder can not be moved into itself: %.*s",
                             (int)(from.len < 400 ? from.len : 400), from.ptr);
    return abx__job_fail_errno(j, rc == -ENOTDIR || rc == -EISDIR ? EEXIST : -rc, to);
}

static bool move_to(struct abx__job *j, struct abx_str from, struct abx_str to)
{
    ptrdiff_t slash = abx_str_rchr(to, '/');
    int rc = slash > 0 ? abx_tree_mkdirs(abx_str_sub(to, 0, (size_t)slash)) : 0;
    if (rc < 0)
        return abx__job_fail_errno(j, -rc, to);
    rc = abx_tree_move(from, to);
    return rc >= 0 || fail(j, rc, from, to);
}

static void put_answer(struct abx__job *j, struct abx_str from, struct abx_str to,
                       struct abx_str final)
{
    struct abx_json_writer w;
    abx_json_writer_init(&w, &j->out);
    abx_json_begin_object(&w);
    abx_json_kv_str(&w, "source", from);
    abx_json_kv_str(&w, "destination", to);
    abx_json_kv_str(&w, "final_path", final);
    abx_json_end_object(&w);
}

static void move_run(struct abx__job *j)
{
    struct move *m = j->data;
    struct abx_str from, to, final;
    struct stat st;
    if (abx__bounds_init(&m->bounds, j->policy, j->rule, &j->arena) < 0) {
        abx__job_fail(j, 500, "MemoryError", "out of memory");
        return;
    }
    if (!judge(j, m->source, ABX_OP_DELETE, true, &from) ||
        !judge(j, m->destination, ABX_OP_WRITE, true, &to) || !follow_to_folder(j, &to))
        return;
    abx__job_note(j, from);
    abx__job_note(j, to);
    int rc = abx_tree_stat(from, &st);
    if (rc < 0)
        abx__files_fail_absent(j, rc, from);
    else if (abx__files_may_remove(j, &m->bounds, from) && final_name(j, from, to, &final) &&
             move_to(j, from, final))
        put_answer(j, from, to, final);
}

void abx__move_post(struct abx__call *c)
{
    struct move m = {0};
    if (!abx__call_string(c, "source", &m.source) ||
        !abx__call_string(c, "destination", &m.destination))
        return;
    struct abx__job *j = abx__job_new(c, move_run, ANSWER_MAX);
    struct move *copy = j ? abx__job_data(j, sizeof(*copy)) : NULL;
    if (copy)
        *copy = m;
    if (j)
        abx__job_start(j);
}
