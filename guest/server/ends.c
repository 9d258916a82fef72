/* guest/server/ends.c: where something comes from and where it goes: a link is meant itself (P28),
 * the name that it will have is judged too (P6). Pool. */
#include "guest/server/ends.h"

#include "guest/caps/tree.h"

#include "lib/base/banned.h"

enum { PATH_BYTES = 65536 };

bool abx__ends_read(struct abx__call *c, struct abx__ends *e)
{
    return abx__call_string(c, "source", &e->source) &&
           abx__call_string(c, "destination", &e->destination);
}

static bool judge_from(struct abx__job *j, struct abx__ends *e)
{
    struct abx__path_ask ask = {
        .path = e->source, .op = e->source_op, .field = "source", .keep_last = true};
    return abx__bounds_judge(&e->bounds, &ask, &e->from, &j->verdict);
}

static bool judge_to(struct abx__job *j, struct abx__ends *e, struct abx_str path, bool keep_last,
                     struct abx_str *ret)
{
    struct abx__path_ask ask = {
        .path = path, .op = ABX_OP_WRITE, .field = "destination", .keep_last = keep_last};
    return abx__bounds_judge(&e->bounds, &ask, ret, &j->verdict);
}

static bool is_folder(struct abx_str path)
{
    struct stat st;
    return abx_tree_stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* A link to a folder stands for the folder, another link for itself. */
static bool follow_to_folder(struct abx__job *j, struct abx__ends *e)
{
    struct stat st;
    ABX_AUTO_BUF out;
    abx_buf_init(&out, PATH_BYTES);
    if (abx_tree_stat(e->to, &st) < 0 || !S_ISLNK(st.st_mode))
        return true;
    if (abx_tree_resolve(e->to, false, &out) < 0 || !is_folder(abx_buf_str(&out)))
        return true;
    return judge_to(j, e, e->to, false, &e->to);
}

bool abx__ends_judge(struct abx__job *j, struct abx__ends *e, struct stat *ret_st)
{
    if (abx__bounds_init(&e->bounds, j->policy, j->rule, &j->arena) < 0)
        return abx__job_fail(j, 500, "MemoryError", "out of memory");
    if (!judge_from(j, e) || !judge_to(j, e, e->destination, true, &e->to) ||
        !follow_to_folder(j, e))
        return false;
    abx__job_note(j, e->from);
    abx__job_note(j, e->to);
    int rc = abx_tree_stat(e->from, ret_st);
    return rc >= 0 || abx__files_fail_absent(j, rc, e->from);
}

bool abx__ends_name(struct abx__job *j, struct abx__ends *e)
{
    struct stat st;
    ABX_AUTO_BUF path;
    abx_buf_init(&path, PATH_BYTES);
    e->final = e->to;
    if (abx_str_eq(e->from, e->to) || !is_folder(e->to))
        return true;
    abx_buf_put_str(&path, e->to);
    abx_buf_put_byte(&path, '/');
    abx_buf_put_str(&path, abx__files_base_name(e->from));
    struct abx_str name = abx_arena_str(&j->arena, abx_buf_str(&path));
    if (abx_buf_failed(&path) || name.ptr == NULL)
        return abx__job_fail(j, 500, "MemoryError", "out of memory");
    if (!judge_to(j, e, name, true, &e->final))
        return false;
    if (!abx_str_eq(e->final, e->from) && abx_tree_stat(e->final, &st) == 0)
        return abx__job_fail(j, e->taken_status, e->taken_type,
                             "the destination has an entry of that name: %.*s",
                             (int)(e->final.len < 400 ? e->final.len : 400), e->final.ptr);
    return true;
}

bool abx__ends_make_folder(struct abx__job *j, const struct abx__ends *e)
{
    ptrdiff_t slash = abx_str_rchr(e->final, '/');
    int rc = slash > 0 ? abx_tree_mkdirs(abx_str_sub(e->final, 0, (size_t)slash)) : 0;
    return rc >= 0 || abx__job_fail_errno(j, -rc, e->final);
}

void abx__ends_put(struct abx_json_writer *w, const struct abx__ends *e)
{
    abx_json_kv_str(w, "source", e->from);
    abx_json_kv_str(w, "destination", e->to);
    abx_json_kv_str(w, "final_path", e->final);
}
