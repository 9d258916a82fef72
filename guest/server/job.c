/* guest/server/job.c: what a call does on the pool, and how its outcome becomes the answer. The job
 * owns copies of all it reads (security S80). */
#include "guest/server/server_priv.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum { ARENA_MAX = 16 * 1024 * 1024 };

static void job_free(struct abx__job *j)
{
    if (j->drop)
        j->drop(j);
    json_decref(j->body);
    j->server->body_bytes -= j->body_buf.len;
    abx_buf_done(&j->body_buf);
    abx_policy_unref(j->policy);
    abx_buf_done(&j->out);
    abx_arena_done(&j->arena);
    free(j);
}

static void on_run(struct abx_work *w)
{
    struct abx__job *j = w->owner;
    if (j->run)
        j->run(j);
}

static void on_undone(struct abx_work *w)
{
    job_free(w->owner);
}

/* Nobody waits any more. */
static void let_go(struct abx__job *j)
{
    j->call = NULL;
    j->run = j->undo;
    if (j->undo == NULL ||
        abx_work_start(&j->work, &j->server->loop, on_run, on_undone, j, NULL) < 0)
        job_free(j);
}

static void on_call_close(struct abx__call *c, bool aborted)
{
    struct abx__job *j = c->data;
    (void)aborted;
    j->call = NULL;
    atomic_store(&j->is_left, true);
    if (j->is_held && !j->is_running)
        let_go(j);
}

static void copy_query(struct abx__job *j, const struct abx__call *c)
{
    j->query = abx_arena_array(&j->arena, c->query_count + 1, sizeof(*j->query));
    for (size_t i = 0; j->query && i < c->query_count; i++) {
        j->query[i].name = abx_arena_str(&j->arena, c->query[i].name);
        j->query[i].value = abx_arena_str(&j->arena, c->query[i].value);
        j->query_count++;
    }
}

struct abx__job *abx__job_new(struct abx__call *c, void (*run)(struct abx__job *j), size_t out_max)
{
    struct abx__job *j = calloc(1, sizeof(*j));
    if (j == NULL) {
        abx__call_fail(c, 500, "MemoryError", "out of memory");
        return NULL;
    }
    j->call = c;
    j->server = c->server;
    j->policy = abx_policy_ref(c->policy);
    j->rule = c->rule;
    j->who = c->who;
    j->run = run;
    j->body = c->body;
    c->body = NULL;
    j->body_buf = c->body_buf;
    abx_buf_init(&c->body_buf, 0);
    abx_arena_init(&j->arena, ARENA_MAX);
    abx_buf_init(&j->out, out_max);
    copy_query(j, c);
    c->data = j;
    c->on_close = on_call_close;
    return j;
}

static void answer(struct abx__job *j)
{
    struct abx__call *c = j->call;
    for (size_t i = 0; i < j->noted_count; i++)
        abx__call_note_path(c, j->noted[i]);
    if (j->verdict.code != ABX_POLICY_OK) {
        if (j->verdict.endpoint.ptr == NULL && j->verdict.code != ABX_POLICY_PAYLOAD_TOO_LARGE)
            j->verdict.endpoint = j->rule->id;
        abx__call_deny(c, &j->verdict);
    } else if (j->errnum) {
        abx__call_fail_errno(c, j->errnum, j->fail_text);
    } else if (j->fail_status) {
        abx__call_fail(c, j->fail_status, j->fail_type, "%s", j->fail_text);
    } else if (j->done) {
        j->done(j);
    } else {
        abx__call_answer(c, &j->out);
    }
}

static bool has_failed(const struct abx__job *j)
{
    return j->verdict.code != ABX_POLICY_OK || j->errnum || j->fail_status;
}

void abx__job_end(struct abx__job *j)
{
    struct abx__call *c = j->call;
    if (c->on_close == on_call_close)
        c->on_close = NULL;
    if (!abx__call_is_answered(c)) /* of a body that stopped coming it is */
        answer(j);
    let_go(j);
}

static void on_done(struct abx_work *w)
{
    struct abx__job *j = w->owner;
    j->is_running = false;
    if (j->call == NULL)
        let_go(j);
    else if (j->is_held && !has_failed(j) && !abx__call_is_answered(j->call))
        j->done(j);
    else
        abx__job_end(j);
}

void abx__job_start(struct abx__job *j)
{
    struct abx_error err = {0};
    j->is_running = true;
    if (abx_work_start(&j->work, &j->server->loop, on_run, on_done, j, &err) == 0)
        return;
    j->is_running = false;
    j->call->on_close = NULL;
    abx__call_fail(j->call, 500, "OSError", "%s", err.msg);
    job_free(j);
}

void *abx__job_data(struct abx__job *j, size_t size)
{
    j->data = abx_arena_alloc(&j->arena, size);
    if (j->data == NULL) {
        abx__job_fail(j, 500, "MemoryError", "out of memory");
        j->run = NULL;
    }
    return j->data;
}

struct abx__job *abx__job_with(struct abx__call *c, void (*run)(struct abx__job *j), size_t out_max,
                               const void *data, size_t size)
{
    struct abx__job *j = abx__job_new(c, run, out_max);
    void *copy = j ? abx__job_data(j, size) : NULL;
    if (copy)
        memcpy(copy, data, size);
    return j;
}

struct abx_str abx__job_query(const struct abx__job *j, const char *name)
{
    for (size_t i = 0; i < j->query_count; i++)
        if (abx_str_is(j->query[i].name, name))
            return j->query[i].value;
    return (struct abx_str){0};
}

void abx__job_note(struct abx__job *j, struct abx_str path)
{
    if (j->noted_count < ABX__AUDIT_PATHS)
        j->noted[j->noted_count++] = path;
}

bool abx__job_fail(struct abx__job *j, int status, const char *type, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(j->fail_text, sizeof(j->fail_text), fmt, ap);
    va_end(ap);
    j->fail_status = status;
    j->fail_type = type;
    return false;
}

bool abx__job_fail_errno(struct abx__job *j, int errnum, struct abx_str what)
{
    if (errnum == EXDEV) { /* a file system of the kernel's own: never served (S17) */
        j->verdict.endpoint = j->rule->id;
        return abx_policy_deny(&j->verdict, ABX_POLICY_PATH_DENIED,
                               "the path lies on a file system of the kernel");
    }
    j->errnum = errnum;
    snprintf(j->fail_text, sizeof(j->fail_text), "%.*s", (int)(what.len < 500 ? what.len : 500),
             what.ptr);
    return false;
}
