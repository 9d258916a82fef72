/* guest/server/code_contexts.c: /code/contexts: kernels that keep their state between calls, with
 * rich results. server.md 5. Loop thread.
 *
 * A context belongs to who made it (S12) and is held to the view of the call that made it; both
 * last as long as it. It runs the kernels of guest/kernels. */
#include "guest/server/exec.h"
#include "guest/server/helper.h"
#include "guest/server/hosts/protocol.h"
#include "guest/server/owner.h"
#include "guest/server/view.h"

#include "guest/kernels/context.h"
#include "lib/base/assert.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "lib/json/scan.h"
#include "lib/policy/guards.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum {
    OUTPUT_MAX = 16 << 20, /* of each stream and of all results, without max_output_bytes */
    TIMEOUT_S = 30,
    TIMEOUT_MAX_S = 300,
    PER_OWNER_MAX = 16,
    IDLE_MS = 30 * 60 * 1000,
    LIST_BYTES = 1 << 20,
    ARENA_MAX = 4 << 20,
};

/* What the policy's `languages` and `allow_commands` call them; by enum abx_language_id. */
static const struct {
    const char *language, *program;
} named[] = {
    [ABX_PYTHON] = {"python", "python3"},
    [ABX_JAVASCRIPT] = {"node", "node"},
    [ABX_TYPESCRIPT] = {"node", "node"},
    [ABX_BASH] = {"bash", "bash"},
};
_Static_assert(ABX_COUNTOF(named) == ABX_LANGUAGE__COUNT, "one row per language");

/* ---- what is kept ---- */

struct abx__code_context {
    struct abx_list node; /* of server->code_contexts, oldest first */
    struct abx__server *server;
    struct abx_context *context;
    struct abx__call *maker; /* waits for the kernel; NULL: told, or gone */
    struct abx_policy *policy;
    char *owner;
    struct abx_arena arena; /* of the environment */
    struct abx__view_env own;
    char **view_envp; /* heap */
    int64_t used_ms;
    size_t running;
};

static void forget(struct abx__code_context *x)
{
    abx_list_remove(&x->node);
    abx_policy_unref(x->policy);
    abx_arena_done(&x->arena);
    free(x->view_envp);
    free(x->owner);
    free(x);
}

/* Ends its cells, which are answered. */
static void remove_context(struct abx__code_context *x)
{
    x->maker = NULL;
    abx_context_remove(x->context); /* tells on_made of one that is being made: which forgets it */
}

/* NULL: answered with 404. */
static struct abx__code_context *find(struct abx__call *c)
{
    struct abx__code_context *x;
    struct abx_str id = abx__call_param(c, "id");
    abx_list_foreach(x, &c->server->code_contexts, struct abx__code_context, node)
    {
        if (x->maker == NULL && abx_str_is(id, abx_context_id(x->context)) &&
            abx__owner_lets(abx_str(x->owner), &c->who))
            return x;
    }
    abx__call_fail(c, 404, "NotFoundError", "there is no such context");
    return NULL;
}

static size_t count_own(const struct abx__call *c)
{
    const struct abx__code_context *x;
    size_t n = 0;
    abx_list_foreach(x, &c->server->code_contexts, struct abx__code_context, node)
    {
        n += abx_str_is(c->who.id, x->owner);
    }
    return n;
}

void abx__code_contexts_sweep(struct abx__server *s)
{
    int64_t now = abx_time_mono_ms();
    struct abx__code_context *x;
    abx_list_foreach(x, &s->code_contexts, struct abx__code_context, node)
    {
        if (x->running > 0 || x->maker != NULL || now - x->used_ms < IDLE_MS)
            continue;
        remove_context(x);
        forget(x);
    }
}

/* One that is being made goes with its maker's call, which is cut. */
void abx__code_contexts_revoke(struct abx__server *s, const struct abx__change *change)
{
    struct abx__code_context *x;
    abx_list_foreach(x, &s->code_contexts, struct abx__code_context, node)
    {
        if (x->maker != NULL || abx__owner_is_still(change, abx_str(x->owner)))
            continue;
        remove_context(x);
        forget(x);
    }
}

void abx__code_contexts_stop(struct abx__server *s)
{
    struct abx__code_context *x;
    abx_list_foreach(x, &s->code_contexts, struct abx__code_context, node)
    {
        bool is_made = x->maker == NULL;
        remove_context(x);
        if (is_made)
            forget(x);
    }
    abx_contexts_close(s->kernels);
    s->kernels = NULL;
}

/* ---- create ---- */

static void put_context(struct abx_json_writer *w, const struct abx__code_context *x)
{
    abx_json_begin_object(w);
    abx_json_kv_c(w, "id", abx_context_id(x->context));
    abx_json_kv_c(w, "language", abx_context_language(x->context));
    abx_json_kv_c(w, "cwd", abx_context_cwd(x->context));
    abx_json_end_object(w);
}

static void on_made(void *arg, struct abx_context *context, const struct abx_error *err)
{
    struct abx__code_context *x = arg;
    struct abx__call *c = x->maker;
    x->maker = NULL;
    (void)context;
    if (c != NULL)
        c->on_close = NULL;
    if (err != NULL) {
        if (c != NULL)
            abx__call_fail(c, 500, "RuntimeError", "%s", err->msg);
        forget(x);
        return;
    }
    x->used_ms = abx_time_mono_ms();
    ABX_AUTO_BUF body = {0};
    struct abx_json_writer w;
    abx_buf_init(&body, LIST_BYTES);
    abx_json_writer_init(&w, &body);
    put_context(&w, x);
    if (c != NULL)
        abx__call_answer(c, &body);
}

/* Its maker has gone before it was told: nobody would ever remove it. */
static void on_maker_gone(struct abx__call *c, bool aborted)
{
    struct abx__code_context *x = c->data;
    (void)aborted;
    remove_context(x);
}

static int open_kernels(struct abx__server *s, struct abx_error *err)
{
    const struct abx_contexts_config config = {.path = s->path, .cwd = s->cwd};
    return s->kernels != NULL ? 0 : abx_contexts_open(&s->loop, &config, &s->kernels, err);
}

static int fill(struct abx__code_context *x, struct abx__call *c, enum abx_language_id language,
                struct abx_context_spec *spec)
{
    const char *folder = abx__view_folder(c->policy, c->rule);
    abx__views_refresh(c->policy);
    char **envp = abx__environment_of(&c->who, NULL, 0, &x->arena);
    x->owner = abx_str_dup(c->who.id);
    if (envp == NULL || x->owner == NULL ||
        abx__view_environment(c->policy, &c->who, envp, &x->own, &x->view_envp) < 0)
        return -1;
    *spec = (struct abx_context_spec){.language = language,
                                      .cwd = abx_str(folder != NULL ? folder : c->server->cwd),
                                      .envp = x->view_envp != NULL ? x->view_envp : envp,
                                      .confine = abx__view_of(c->policy, c->rule, &c->who),
                                      .umask = c->server->umask};
    return 0;
}

static void create(struct abx__call *c, enum abx_language_id language)
{
    struct abx_error err = {0};
    struct abx_context_spec spec;
    struct abx__code_context *x = calloc(1, sizeof(*x));
    if (x == NULL) {
        abx__call_fail(c, 500, "MemoryError", "out of memory");
        return;
    }
    x->server = c->server;
    x->policy = abx_policy_ref(c->policy);
    abx_arena_init(&x->arena, ARENA_MAX);
    abx_list_push(&c->server->code_contexts, &x->node);
    if (c->server->is_stopping || fill(x, c, language, &spec) < 0) {
        forget(x);
        abx__call_fail(c, 500, "MemoryError", "out of memory");
    } else if (open_kernels(c->server, &err) < 0 ||
               abx_context_create(c->server->kernels, &spec, on_made, x, &x->context, &err) < 0) {
        forget(x);
        abx__call_fail(c, err.code == ABX_RESOURCE_EXHAUSTED ? 429 : 500,
                       err.code == ABX_RESOURCE_EXHAUSTED ? "ResourceError" : "RuntimeError", "%s",
                       err.msg);
    } else {
        x->maker = c;
        c->data = x;
        c->on_close = on_maker_gone;
    }
}

static bool may_use(struct abx__call *c, enum abx_language_id language)
{
    struct abx_policy_verdict verdict = {0};
    if (abx_policy_language_check(c->rule, abx_str(named[language].language), &verdict))
        return true;
    abx__call_deny(c, &verdict);
    return false;
}

/* "node" is what /code/run calls it. */
static bool read_language(struct abx__call *c, enum abx_language_id *ret)
{
    const json_t *v = abx__call_field(c, "language");
    struct abx_error err = {0};
    struct abx_str name = ABX_STR("");
    if (json_is_string(v))
        name = abx_str_n(json_string_value(v), json_string_length(v));
    if (abx_str_is_nocase(name, "node"))
        name = ABX_STR("javascript");
    if ((v == NULL || json_is_string(v)) && abx_language_find(name, ret, &err) == 0)
        return may_use(c, *ret);
    abx__call_fail(c, 400, "ValueError", "%s",
                   err.msg[0] ? err.msg : "'language' must be a string");
    return false;
}

static void judge(struct abx__job *j)
{
    const enum abx_language_id *language = j->data;
    abx__exec_judge_named(j, abx_str(named[*language].program));
}

static void judged(struct abx__job *j)
{
    const enum abx_language_id *language = j->data;
    create(j->call, *language);
}

static void create_post(struct abx__call *c)
{
    enum abx_language_id language;
    if (!read_language(c, &language))
        return;
    if (count_own(c) >= PER_OWNER_MAX) {
        abx__call_fail(c, 429, "ResourceError", "there are %d contexts of yours already",
                       (int)PER_OWNER_MAX);
        return;
    }
    struct abx__job *j = abx__job_with(c, judge, 4096, &language, sizeof(language));
    if (j == NULL)
        return;
    j->done = judged;
    abx__job_start(j);
}

/* ---- list, delete ---- */

static void list_get(struct abx__call *c)
{
    ABX_AUTO_BUF body = {0};
    struct abx_json_writer w;
    const struct abx__code_context *x;
    abx_buf_init(&body, LIST_BYTES);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_key(&w, ABX_STR("contexts"));
    abx_json_begin_array(&w);
    abx_list_foreach(x, &c->server->code_contexts, struct abx__code_context, node)
    {
        if (x->maker == NULL && abx__owner_lets(abx_str(x->owner), &c->who))
            put_context(&w, x);
    }
    abx_json_end_array(&w);
    abx_json_end_object(&w);
    abx__call_answer(c, &body);
}

static void delete_call(struct abx__call *c)
{
    ABX_AUTO_BUF body = {0};
    struct abx_json_writer w;
    struct abx__code_context *x = find(c);
    if (x == NULL)
        return;
    abx_buf_init(&body, LIST_BYTES);
    abx_json_writer_init(&w, &body);
    abx_json_begin_object(&w);
    abx_json_kv_c(&w, "status", "removed");
    abx_json_kv_c(&w, "id", abx_context_id(x->context));
    abx_json_end_object(&w);
    remove_context(x);
    forget(x);
    abx__call_answer(c, &body);
}

/* ---- run ---- */

struct run {
    struct abx__call *call;       /* NULL: gone, or answered */
    struct abx__code_context *of; /* NULL: it is gone */
    struct abx_execution *execution;
    struct abx_timer limit;
    struct abx_buf out, errs, results, error; /* text, text, JSON, JSON */
    bool is_out_cut, is_errs_cut, is_results_cut, by_deadline;
    uint64_t number;
    size_t max;
    int64_t began_ms;
};

static void on_limit_closed(void *owner)
{
    struct run *r = owner;
    abx_buf_done(&r->out);
    abx_buf_done(&r->errs);
    abx_buf_done(&r->results);
    abx_buf_done(&r->error);
    free(r);
}

static void put_text(struct abx_buf *to, struct abx_str json, size_t max, bool *is_cut)
{
    ABX_AUTO_BUF text;
    abx_buf_init(&text, ABX_KERNEL_LINE_MAX);
    if (abx_host_text(json, &text) < 0)
        return;
    size_t room = max - to->len;
    *is_cut = *is_cut || text.len > room;
    abx_buf_put(to, text.ptr, text.len < room ? text.len : room);
}

/* The line as an object without its `type`. */
static void put_object(struct abx_buf *to, struct abx_str line)
{
    struct abx_scan_object o;
    struct abx_str key, value;
    bool is_first = true;
    abx_scan_object_init(&o, line);
    abx_buf_put_byte(to, '{');
    while (abx_scan_object_next(&o, &key, &value)) {
        if (abx_str_is(key, "type"))
            continue;
        abx_buf_putf(to, "%s\"%.*s\":", is_first ? "" : ",", ABX_STR_FMT(key));
        abx_buf_put_str(to, value);
        is_first = false;
    }
    abx_buf_put_byte(to, '}');
}

static void put_result(struct run *r, struct abx_str line)
{
    r->is_results_cut = r->is_results_cut || line.len + 1 > r->max - r->results.len;
    if (r->is_results_cut)
        return;
    if (r->results.len > 0)
        abx_buf_put_byte(&r->results, ',');
    put_object(&r->results, line);
}

static struct abx_str member(struct abx_str line, const char *name)
{
    struct abx_scan_object o;
    struct abx_str key, value;
    abx_scan_object_init(&o, line);
    while (abx_scan_object_next(&o, &key, &value))
        if (abx_str_is(key, name))
            return value;
    return (struct abx_str){0};
}

static void on_line(void *arg, struct abx_str line)
{
    struct run *r = arg;
    struct abx_str type = member(line, "type");
    if (abx_str_is(type, "\"stdout\""))
        put_text(&r->out, member(line, "text"), r->max, &r->is_out_cut);
    else if (abx_str_is(type, "\"stderr\""))
        put_text(&r->errs, member(line, "text"), r->max, &r->is_errs_cut);
    else if (abx_str_is(type, "\"result\""))
        put_result(r, line);
    else if (abx_str_is(type, "\"error\""))
        put_object(&r->error, line);
    else if (abx_str_is(type, "\"number_of_executions\""))
        abx_parse_u64(member(line, "execution_count"), &r->number);
}

static void put_answer(struct run *r, struct abx_json_writer *w)
{
    abx_json_begin_object(w);
    if (r->by_deadline) {
        abx_json_kv_c(w, "error", "the code did not end in time and was interrupted");
        abx_json_kv_c(w, "type", "TimeoutError");
    } else {
        abx_json_key(w, ABX_STR("execution_count"));
        abx_json_u64(w, r->number);
    }
    abx_json_kv_str(w, "stdout", abx__whole_characters(abx_buf_str(&r->out), r->is_out_cut));
    abx_json_kv_str(w, "stderr", abx__whole_characters(abx_buf_str(&r->errs), r->is_errs_cut));
    abx_json_key(w, ABX_STR("results"));
    abx_json_begin_array(w);
    if (r->results.len > 0)
        abx_json_raw(w, abx_buf_str(&r->results));
    abx_json_end_array(w);
    if (!r->by_deadline) {
        abx_json_key(w, ABX_STR("error"));
        if (r->error.len > 0)
            abx_json_raw(w, abx_buf_str(&r->error));
        else
            abx_json_null(w);
        abx_json_key(w, ABX_STR("execution_time_ms"));
        abx_json_f64(w, (double)(abx_time_mono_ms() - r->began_ms));
    }
    if (r->is_out_cut || r->is_errs_cut || r->is_results_cut)
        abx_json_kv_bool(w, "truncated", true);
    abx_json_end_object(w);
}

static void answer(struct run *r)
{
    struct abx__call *c = r->call;
    ABX_AUTO_BUF body;
    struct abx_json_writer w;
    abx_buf_init(&body, r->out.len * 6 + r->errs.len * 6 + r->results.len + r->error.len + 4096);
    abx_json_writer_init(&w, &body);
    put_answer(r, &w);
    r->call = NULL;
    c->on_close = NULL;
    if (abx_buf_failed(&body) || abx_buf_failed(&r->out) || abx_buf_failed(&r->errs) ||
        abx_buf_failed(&r->results) || abx_buf_failed(&r->error))
        abx__call_fail(c, 500, "MemoryError", "the output does not fit into memory");
    else
        abx__call_answer_status(c, r->by_deadline ? 408 : 200, NULL, abx_buf_str(&body));
}

/* Over: answered or not, its cell ended or interrupted. */
static void end_run(struct run *r)
{
    if (r->of != NULL) {
        r->of->running--;
        r->of->used_ms = abx_time_mono_ms();
        r->of = NULL;
    }
    abx_timer_close(&r->limit, on_limit_closed);
}

static void on_run_end(void *arg)
{
    struct run *r = arg;
    r->execution = NULL;
    if (r->call != NULL)
        answer(r);
    end_run(r);
}

static const struct abx_execution_ops run_ops = {.line = on_line, .end = on_run_end};

static void on_limit(struct abx_timer *t)
{
    struct run *r = t->owner;
    r->by_deadline = true;
    abx_execution_cancel(r->execution);
    r->execution = NULL;
    answer(r);
    end_run(r);
}

static void on_caller_gone(struct abx__call *c, bool aborted)
{
    struct run *r = c->data;
    (void)aborted;
    r->call = NULL;
    abx_execution_cancel(r->execution);
    r->execution = NULL;
    end_run(r);
}

/* As /code/run: a positive number of seconds, 30 without one, at most 300 and the policy's. */
static uint64_t timeout_ms(struct abx__call *c)
{
    const json_t *v = abx__call_field(c, "timeout");
    double s = json_is_number(v) ? trunc(json_number_value(v)) : TIMEOUT_S;
    s = s > 0 ? fmin(s, TIMEOUT_MAX_S) : TIMEOUT_S;
    s = fmin(s, trunc(abx_policy_limit_f64(c->rule, ABX_LIMIT_TIMEOUT_SECONDS, s)));
    return (uint64_t)(s < 1 ? 1 : s) * 1000;
}

static void start_run(struct abx__call *c, struct abx__code_context *x, struct abx_str code)
{
    struct abx_error err = {0};
    const struct abx_cell cell = {.code = code};
    uint64_t max = abx_policy_limit_u64(c->rule, ABX_LIMIT_MAX_OUTPUT_BYTES, OUTPUT_MAX);
    struct run *r = calloc(1, sizeof(*r));
    if (r == NULL) {
        abx__call_fail(c, 500, "MemoryError", "out of memory");
        return;
    }
    r->max = max < OUTPUT_MAX ? (size_t)max : (size_t)OUTPUT_MAX;
    abx_buf_init(&r->out, r->max + 1);
    abx_buf_init(&r->errs, r->max + 1);
    abx_buf_init(&r->results, r->max + 1);
    abx_buf_init(&r->error, ABX_KERNEL_LINE_MAX);
    r->began_ms = abx_time_mono_ms();
    if (abx_execution_start(x->context, &cell, &run_ops, r, &r->execution, &err) < 0) {
        abx__call_fail(c, 429, "ResourceError", "%s", err.msg);
        free(r);
        return;
    }
    abx_timer_init(&r->limit, &c->server->loop, on_limit, r);
    abx_timer_start(&r->limit, timeout_ms(c), 0);
    r->call = c;
    r->of = x;
    x->running++;
    c->data = r;
    c->on_close = on_caller_gone;
}

static void run_post(struct abx__call *c)
{
    struct abx_str code;
    struct abx__code_context *x = find(c);
    if (x == NULL || !abx__call_string(c, "code", &code))
        return;
    if (memchr(code.ptr, '\0', code.len) != NULL)
        abx__call_fail(c, 400, "ValueError", "'code' holds a NUL");
    else if (may_use(c, abx_context_language_id(x->context)))
        start_run(c, x, code);
}

const struct abx__route abx__code_contexts_routes[] = {{"code_contexts_create", create_post},
                                                       {"code_contexts_list", list_get},
                                                       {"code_contexts_run", run_post},
                                                       {"code_contexts_delete", delete_call},
                                                       {0}};
