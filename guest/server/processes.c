/* guest/server/processes.c: POST /process/start, GET /process/list and /process/{pid}; how long
 * ended processes are remembered. server-api.md 4.5, D46-D49, D76, D80. */
#include "guest/server/processes_priv.h"
#include "guest/server/view.h"

#include "guest/server/as_user.h"
#include "guest/server/exec.h"
#include "lib/base/assert.h"
#include "lib/base/time.h"

#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum {
    CAPTURE_BYTES = 1 << 20, /* without max_output_bytes */
    CAPTURE_MAX = 16 << 20,
    ENDED_MAX = 1000,
    ENDED_CAPTURES_MAX = 64 << 20, /* bytes of all ended ones together */
    LIST_BYTES = 16 << 20,
    REVOKED_MS = 5000,
    STOP_LOOK_MS = 20,
    STOP_LOOKS = 75, /* then SIGKILL */
};

/* ---- what is remembered ---- */

static void started_free(struct abx__started *p)
{
    abx__process_output_wake(p, true);
    abx_list_remove(&p->node);
    if (p->process)
        abx_process_untap(p->process);
    abx_process_unref(p->process);
    abx_confine_group_unref(p->group);
    abx__capture_done(&p->capture);
    free(p->command);
    free(p->owner);
    free(p);
}

/* Ended ones: no more than ENDED_MAX, none for longer than ABX_PROCESS_KEPT_S; of all their output
 * together the newest ENDED_CAPTURES_MAX bytes. */
static void forget_ended(struct abx__server *s)
{
    int64_t now = abx_time_mono_ms();
    size_t kept = 0, bytes = 0;
    for (struct abx_list *node = s->started.prev, *before; node != &s->started; node = before) {
        before = node->prev;
        struct abx__started *p = ABX_CONTAINER_OF(node, struct abx__started, node);
        if (!abx_process_has_ended(p->process))
            continue;
        if (++kept > ENDED_MAX || now - p->ended_ms > ABX_PROCESS_KEPT_S * 1000) {
            started_free(p);
            continue;
        }
        bytes += p->capture.text_bytes;
        if (bytes > ENDED_CAPTURES_MAX) {
            bytes -= p->capture.text_bytes;
            abx__capture_drop(&p->capture);
        }
    }
}

static size_t count_running(const struct abx__server *s)
{
    size_t n = 0;
    const struct abx__started *p;
    abx_list_foreach(p, &s->started, struct abx__started, node)
    {
        n += abx_process_is_running(p->process);
    }
    return n;
}

int abx__started_exit_code(const struct abx__started *p)
{
    const struct abx_process_end *end = abx_process_end_info(p->process);
    return end->exited ? end->exit_code : -end->signum;
}

/* ---- which process is meant ---- */

bool abx__started_pid(struct abx__call *c, int64_t *ret)
{
    if (abx__text_integer(abx__call_param(c, "pid"), ret) == 0)
        return true;
    abx__call_fail(c, 400, "ValueError", "the pid must be an integer");
    return false;
}

struct abx__started *abx__started_by_pid(struct abx__call *c, int64_t pid)
{
    struct abx__started *p, *found = NULL;
    abx_list_foreach(p, &c->server->started, struct abx__started, node)
    {
        if (abx_process_pid(p->process) != pid || !abx__owner_lets(abx_str(p->owner), &c->who))
            continue;
        if (found == NULL || abx_process_is_running(p->process) ||
            !abx_process_is_running(found->process))
            found = p;
    }
    if (found == NULL)
        abx__call_fail(c, 404, "NotFoundError", "no process %lld was started here", (long long)pid);
    return found;
}

struct abx__started *abx__started_find(struct abx__call *c)
{
    int64_t pid;
    return abx__started_pid(c, &pid) ? abx__started_by_pid(c, pid) : NULL;
}

/* ---- list and detail ---- */

static void put_common(struct abx_json_writer *w, const struct abx__started *p)
{
    abx_json_kv_i64(w, "pid", abx_process_pid(p->process));
    abx_json_kv_c(w, "command", p->command);
    abx_json_kv_c(w, "state", abx_process_is_running(p->process) ? "running" : "exited");
    abx_json_key(w, ABX_STR("started_at"));
    abx_json_f64(w, (double)(p->started_wall_ns / 1000) / 1e6);
}

static void list_get(struct abx__call *c)
{
    ABX_AUTO_BUF body = {0};
    struct abx_json_writer w;
    const struct abx__started *p;
    abx_buf_init(&body, LIST_BYTES);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_key(&w, ABX_STR("processes"));
    abx_json_begin_array(&w);
    abx_list_foreach(p, &c->server->started, struct abx__started, node)
    {
        if (!abx_process_is_running(p->process) || !abx__owner_lets(abx_str(p->owner), &c->who))
            continue;
        abx_json_begin_object(&w);
        put_common(&w, p);
        abx_json_end_object(&w);
    }
    abx_json_end_array(&w);
    abx_json_end_object(&w);
    abx__call_answer(c, &body);
}

static void detail_get(struct abx__call *c)
{
    ABX_AUTO_BUF body = {0};
    struct abx_json_writer w;
    const struct abx__started *p = abx__started_find(c);
    if (p == NULL)
        return;
    abx_buf_init(&body, LIST_BYTES);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    put_common(&w, p);
    abx_json_key(&w, ABX_STR("exit_code"));
    if (abx_process_is_running(p->process))
        abx_json_null(&w);
    else
        abx_json_i64(&w, abx__started_exit_code(p));
    abx__memory_put(&w, p->is_out_of_memory);
    abx_json_end_object(&w);
    abx__call_answer(c, &body);
}

/* ---- start ---- */

static void on_output(void *arg, enum abx_output kind, struct abx_str data)
{
    struct abx__started *p = arg;
    if (!p->has_capture)
        return;
    abx__capture_put(&p->capture, kind == ABX_OUTPUT_STDERR, data);
    abx__process_output_wake(p, false);
}

static void on_ended(void *arg)
{
    struct abx__started *p = arg;
    p->ended_ms = abx_time_mono_ms();
    p->is_out_of_memory = abx_confine_group_oom_kills(p->group) > p->oom_kills;
    abx_confine_group_unref(p->group);
    p->group = NULL;
    abx__capture_end(&p->capture);
    abx__process_output_wake(p, false);
}

static const struct abx_process_tap tap = {on_output, on_ended};

/* What Python takes for true. */
static bool is_truthy(const json_t *v)
{
    if (v == NULL)
        return false;
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return json_object_size(v) > 0;
    case JSON_ARRAY:
        return json_array_size(v) > 0;
    case JSON_STRING:
        return json_string_length(v) > 0;
    case JSON_INTEGER:
        return json_integer_value(v) != 0;
    case JSON_REAL:
        return fpclassify(json_real_value(v)) != FP_ZERO;
    case JSON_TRUE:
        return true;
    case JSON_FALSE:
    case JSON_NULL:
        break;
    }
    return false;
}

static struct abx__started *started_new(struct abx__call *c, const struct abx__job *j,
                                        const struct abx__exec *x)
{
    struct abx__started *p = calloc(1, sizeof(*p));
    if (p == NULL)
        return NULL;
    uint64_t max = abx_policy_limit_u64(c->rule, ABX_LIMIT_MAX_OUTPUT_BYTES, CAPTURE_BYTES);
    p->server = c->server;
    p->command = abx_str_dup(x->command);
    p->owner = abx_str_dup(c->who.id);
    p->started_wall_ns = abx_time_wall_ns();
    p->group = abx_confine_group_ref(abx__exec_group(c));
    p->oom_kills = abx_confine_group_oom_kills(p->group);
    p->has_capture = is_truthy(json_object_get(j->body, "capture_output"));
    p->has_stdin = is_truthy(json_object_get(j->body, "stdin"));
    abx__capture_init(&p->capture, max < CAPTURE_MAX ? (size_t)max : (size_t)CAPTURE_MAX);
    abx_list_init(&p->waiters);
    if (p->command && p->owner)
        return p;
    started_free(p);
    return NULL;
}

/* Only a limit of the policy ends a process; the request's `timeout` never did (D85). */
static uint64_t deadline_of(const struct abx__call *c)
{
    double s = abx_policy_limit_f64(c->rule, ABX_LIMIT_TIMEOUT_SECONDS, 0);
    return s < 1e9 ? (uint64_t)(s * 1000) : 0;
}

static void answer_start(struct abx__call *c, const struct abx__started *p)
{
    ABX_AUTO_BUF body = {0};
    struct abx_json_writer w;
    abx_buf_init(&body, LIST_BYTES);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_kv_i64(&w, "pid", abx_process_pid(p->process));
    abx_json_kv_c(&w, "command", p->command);
    abx_json_end_object(&w);
    abx__call_answer(c, &body);
}

static void start(struct abx__job *j)
{
    const struct abx__exec *x = j->data;
    struct abx__call *c = j->call;
    struct abx_error err = {0};
    if (x->missing) {
        abx__call_fail_errno(c, x->missing, x->argv[0]);
        return;
    }
    struct abx__started *p = started_new(c, j, x);
    if (p == NULL) {
        abx__call_fail(c, 500, "MemoryError", "out of memory");
        return;
    }
    struct abx_run_spec spec = {.path = x->program,
                                .argv = x->argv,
                                .envp = x->envp,
                                .cwd = x->cwd,
                                .user = x->user,
                                .timeout_ms = deadline_of(c)};
    struct abx_process_spec process = {
        .tap = &tap, .tap_arg = p, .cmd = x->command, .has_stdin = p->has_stdin};
    if (abx__exec_keep(c, &spec, &process, &p->process, &err) < 0) {
        started_free(p);
        if (err.sys)
            abx__call_fail_errno(c, err.sys, abx__user_failure(x->user, &err, x->argv[0]));
        else
            abx__call_fail(c, 500, "OSError", "%s", err.msg);
        return;
    }
    abx_process_ref(p->process);
    abx_list_push(&c->server->started, &p->node);
    answer_start(c, p);
}

static void start_post(struct abx__call *c)
{
    forget_ended(c->server);
    abx__exec_post(c, count_running(c->server), &c->server->started_reserved, start);
}

/* ---- the server's start and end ---- */

static void end_table(struct abx__server *s)
{
    struct abx__started *p;
    abx_timer_close(&s->procs_timer, NULL);
    abx_timer_close(&s->revoke_timer, NULL);
    abx__terminals_free(s);
    abx_list_foreach(p, &s->started, struct abx__started, node)
    {
        started_free(p);
    }
    abx_procs_close(s->procs);
    s->procs = NULL;
}

static void on_stop_look(struct abx_timer *t)
{
    struct abx__server *s = t->owner;
    if (abx_procs_live_count(s->procs) == 0 || ++s->procs_looks >= STOP_LOOKS)
        end_table(s);
}

static void on_revoked(struct abx_timer *t)
{
    struct abx__server *s = t->owner;
    struct abx__started *p;
    abx_list_foreach(p, &s->started, struct abx__started, node)
    {
        if (p->is_revoked && abx_process_is_running(p->process))
            abx_process_signal(p->process, SIGKILL, NULL);
    }
    abx__callers_kill_strangers(s->policy);
}

int abx__processes_open(struct abx__server *s, struct abx_error *err)
{
    struct abx_procs_config config = {.path = s->path};
    if (abx_procs_new(&s->loop, &config, &s->procs, err) < 0)
        return -1;
    abx_timer_init(&s->procs_timer, &s->loop, on_stop_look, s);
    abx_timer_init(&s->revoke_timer, &s->loop, on_revoked, s);
    abx_timer_unref(&s->revoke_timer);
    return 0;
}

/* TERM now, KILL after 5 s. */
void abx__processes_revoke(struct abx__server *s, const struct abx__change *c)
{
    struct abx__started *p;
    abx_list_foreach(p, &s->started, struct abx__started, node)
    {
        if (!abx_process_is_running(p->process) || abx__owner_is_still(c, abx_str(p->owner)))
            continue;
        abx_process_signal(p->process, SIGTERM, NULL);
        p->is_revoked = true;
        abx_timer_start(&s->revoke_timer, REVOKED_MS, 0);
    }
    if (abx__callers_are_counted()) /* what is not in our list is in their cgroups */
        abx_timer_start(&s->revoke_timer, REVOKED_MS, 0);
}

void abx__processes_sweep(struct abx__server *s)
{
    forget_ended(s);
}

void abx__processes_stop(struct abx__server *s)
{
    struct abx__started *p;
    if (s->procs == NULL)
        return;
    abx_list_foreach(p, &s->started, struct abx__started, node)
    {
        abx_process_signal(p->process, SIGTERM, NULL);
    }
    abx__terminals_stop(s);
    abx_timer_start(&s->procs_timer, 0, STOP_LOOK_MS);
}

void abx__processes_leave(struct abx__server *s)
{
    struct abx__started *p;
    abx__journals_leave(s);
    if (s->procs == NULL) /* the table is gone, nobody waits */
        return;
    abx_list_foreach(p, &s->started, struct abx__started, node)
    {
        abx__process_output_wake(p, true);
    }
}

const struct abx__route abx__process_routes[] = {{"process_start", start_post},
                                                 {"process_list", list_get},
                                                 {"process_detail", detail_get},
                                                 {"process_signal", abx__process_signal_post},
                                                 {"process_stdin", abx__process_stdin_post},
                                                 {"process_output", abx__process_output_get},
                                                 {"process_journal", abx__process_journal_get},
                                                 {0}};
