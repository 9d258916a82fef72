/* guest/server/helper.c: one program from start to end for a call, its output kept (helper.h). */
#include "guest/server/helper.h"

#include "guest/caps/environ.h"
#include "guest/server/as_user.h"
#include "guest/server/exec.h"

#include <signal.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum { ARENA_MAX = 4 << 20 };

struct helper {
    struct abx_list node; /* of server->helpers */
    struct abx__call *call;
    struct abx_run *run;
    struct abx_buf out[2]; /* stdout, stderr */
    bool is_cut[2];
    size_t max;
    abx__helper_done_fn *done;
    void *arg;
};

static void helper_free(struct helper *h)
{
    abx_run_close(h->run);
    abx_list_remove(&h->node);
    abx_buf_done(&h->out[0]);
    abx_buf_done(&h->out[1]);
    free(h);
}

static void on_close(struct abx__call *c, bool aborted)
{
    (void)aborted;
    helper_free(c->data);
}

static bool on_data(struct abx_run *r, enum abx_output kind, struct abx_str data)
{
    struct helper *h = abx_run_owner(r);
    int i = kind == ABX_OUTPUT_STDERR;
    size_t room = h->max - h->out[i].len;
    h->is_cut[i] = h->is_cut[i] || data.len > room;
    abx_buf_put(&h->out[i], data.ptr, data.len < room ? data.len : room);
    return true;
}

static void on_end(struct abx_run *r, const struct abx_run_end *end)
{
    struct helper *h = abx_run_owner(r);
    struct abx__call *c = h->call;
    struct abx__helper_result result = {.out = abx_buf_str(&h->out[0]),
                                        .errs = abx_buf_str(&h->out[1]),
                                        .exit_code = end->exit_code,
                                        .by_deadline = end->by_deadline,
                                        .is_out_cut = h->is_cut[0],
                                        .is_errs_cut = h->is_cut[1],
                                        .is_output_open = end->is_output_open};
    abx__exec_note_end(c, end);
    c->on_close = NULL; /* the next one may be started from within done */
    if (abx_buf_failed(&h->out[0]) || abx_buf_failed(&h->out[1]))
        abx__call_fail(c, 500, "MemoryError", "the output does not fit into memory");
    else
        h->done(c, h->arg, &result);
    helper_free(h);
}

static const struct abx_run_ops ops = {.on_data = on_data, .on_end = on_end};

static int start(struct helper *h, const struct abx__helper_spec *spec, struct abx_error *err)
{
    struct abx__call *c = h->call;
    struct abx__pair own[ABX_ENVIRON_OF_USER];
    struct abx_arena a; /* an environment may be larger than what a request's arena has left */
    struct abx_run_spec run = {.path = spec->program,
                               .search_path = c->server->path,
                               .argv = spec->argv,
                               .envp = spec->envp,
                               .cwd = spec->cwd,
                               .timeout_ms = spec->timeout_ms,
                               .confine = spec->confine,
                               .user = spec->user,
                               .exec_fd = spec->exec_fd};
    abx_arena_init(&a, ARENA_MAX);
    if (run.envp == NULL)
        run.envp = abx__environment_of(&c->who, own, abx__user_variables(spec->user, own, 0), &a);
    int rc = run.envp ? abx__exec_start(c, &run, &ops, h, &h->run, err)
                      : abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
    abx_arena_done(&a);
    return rc;
}

void abx__helper_run(struct abx__call *c, const struct abx__helper_spec *spec,
                     abx__helper_done_fn *done, void *arg)
{
    struct abx_error err = {0};
    struct helper *h = calloc(1, sizeof(*h));
    if (h == NULL) {
        abx__call_fail(c, 500, "MemoryError", "out of memory");
        return;
    }
    h->call = c;
    h->max = spec->max;
    h->done = done;
    h->arg = arg;
    abx_buf_init(&h->out[0], spec->max);
    abx_buf_init(&h->out[1], spec->max);
    abx_list_push(&c->server->helpers, &h->node);
    if (start(h, spec, &err) < 0) {
        helper_free(h);
        if (err.sys)
            abx__call_fail_errno(c, err.sys, abx__user_failure(spec->user, &err, spec->argv[0]));
        else
            abx__call_fail(c, 500, "OSError", "%s", err.msg);
        return;
    }
    c->data = h;
    c->on_close = on_close;
}

void abx__helpers_signal(struct abx__server *s, int signum)
{
    for (struct abx_list *node = s->helpers.next; node != &s->helpers; node = node->next) {
        struct helper *h = ABX_CONTAINER_OF(node, struct helper, node);
        if (h->run)
            abx_run_signal(h->run, signum);
    }
}

struct abx_str abx__whole_characters(struct abx_str s, bool is_cut)
{
    size_t n = s.len;
    if (!is_cut)
        return s;
    for (size_t i = 0; i < 3 && n > 0 && ((unsigned char)s.ptr[n - 1] & 0xC0) == 0x80; i++)
        n--;
    if (n == 0 || (unsigned char)s.ptr[n - 1] < 0xC0)
        return s;
    return abx_str_is_utf8(abx_str_sub(s, n - 1, s.len)) ? s : abx_str_sub(s, 0, n - 1);
}
