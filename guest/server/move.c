/* guest/server/move.c: POST /files/move. server-api.md 4.4, policy.md A9; a link is moved itself
 * (P28), the name that it will have is judged too (P6). */
#include "guest/server/ends.h"

#include "guest/caps/tree.h"

#include <errno.h>

#include "lib/base/banned.h"

enum { ANSWER_MAX = 1 << 20 };

/* The classes that the published server answers with. */
static bool fail(struct abx__job *j, int rc, const struct abx__ends *e)
{
    if (rc == -EINVAL)
        return abx__job_fail(j, 500, "Error", "a folder can not be moved into itself: %.*s",
                             (int)(e->from.len < 400 ? e->from.len : 400), e->from.ptr);
    return abx__job_fail_errno(j, rc == -ENOTDIR || rc == -EISDIR ? EEXIST : -rc, e->final);
}

static void put_answer(struct abx__job *j, const struct abx__ends *e)
{
    struct abx_json_writer w;
    abx_json_writer_init(&w, &j->out);
    abx_json_begin_object(&w);
    abx__ends_put(&w, e);
    abx_json_end_object(&w);
}

static void move_run(struct abx__job *j)
{
    struct abx__ends *e = j->data;
    struct stat st;
    if (!abx__ends_judge(j, e, &st) || !abx__files_may_remove(j, &e->bounds, e->from) ||
        !abx__ends_name(j, e) || !abx__ends_make_folder(j, e))
        return;
    int rc = abx_tree_move(e->from, e->final);
    if (rc < 0)
        fail(j, rc, e);
    else
        put_answer(j, e);
}

void abx__move_post(struct abx__call *c)
{
    struct abx__ends e = {.source_op = ABX_OP_DELETE, .taken_status = 500, .taken_type = "Error"};
    if (!abx__ends_read(c, &e))
        return;
    struct abx__job *j = abx__job_with(c, move_run, ANSWER_MAX, &e, sizeof(e));
    if (j)
        abx__job_start(j);
}
