/* guest/kernels/context.c: contexts and their queues. */
#include "guest/kernels/context.h"

#include "guest/kernels/kernel.h"
#include "lib/base/assert.h"
#include "lib/base/log.h"
#include "lib/base/time.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "lib/base/banned.h"

enum {
    REPEAT_MS = 1000,
    KILL_MS = 5000,
    VARIABLES_BYTES = 4 << 20,
    RUN_BYTES = 68 << 20, /* of a cell and its variables */
};

struct abx_contexts {
    struct abx_loop *loop;
    struct abx_contexts_config config;
    struct abx_list list;
    struct abx_context *defaults[ABX_LANGUAGE__COUNT];
    size_t count;   /* in the list */
    size_t closing; /* not in it any more, but known to the loop */
    bool is_closed;
};

/* What the sandbox gives every cell; goes with the kernel. */
struct variables {
    struct abx_arena arena;
    const struct abx_variable *list;
    size_t count;
    bool is_known, is_set;
};

struct abx_context {
    struct abx_list node;
    struct abx_contexts *all;
    char id[ABX_CONTEXT_ID + 1];
    enum abx_language_id language;
    char *cwd;
    struct abx_context_spec spec; /* its cwd is ours */
    struct abx_kernel *kernel;    /* NULL: none */
    struct abx_list runs;         /* the first one may be in the kernel */
    size_t run_count;
    struct abx_execution *current; /* in the kernel; NULL: none */
    uint32_t cells;                /* of this kernel */
    struct variables variables;
    struct abx_defer pump;
    struct abx_timer interrupts;
    int64_t interrupted_ms;    /* 0: not */
    abx_context_made_fn *made; /* until the kernel is ready for the first time */
    void *made_arg;
    bool is_ready; /* the kernel */
};

struct abx_execution {
    struct abx_list node;
    struct abx_context *context;
    const struct abx_execution_ops *ops; /* NULL: cancelled */
    void *arg;
    struct abx_arena arena;
    struct abx_cell cell;
    bool is_asking, was_told; /* for the sandbox's variables; they came */
    bool has_failed;          /* an error line went out */
};

/* ---- runs ---- */

static void say(struct abx_execution *r, struct abx_str line)
{
    if (r->ops != NULL)
        r->ops->line(r->arg, line);
}

/* The run is over: out of the queue, told, freed. */
static void end_run(struct abx_execution *r)
{
    struct abx_context *c = r->context;
    if (c->current == r)
        c->current = NULL;
    abx_list_remove(&r->node);
    c->run_count--;
    if (r->ops != NULL)
        r->ops->end(r->arg);
    abx_arena_done(&r->arena);
    free(r);
}

static void fail_run(struct abx_execution *r, const char *name, const char *value)
{
    ABX_AUTO_BUF line;
    abx_buf_init(&line, 4096);
    abx_kernel_write_error(&line, name, value);
    if (!r->has_failed && !abx_buf_failed(&line))
        say(r, abx_buf_str(&line));
    end_run(r);
}

static void fail_all(struct abx_context *c, const char *name, const char *value)
{
    struct abx_execution *r;
    while ((r = abx_list_first(&c->runs, struct abx_execution, node)) != NULL)
        fail_run(r, name, value);
}

/* ---- the kernel ---- */

static void on_pump(struct abx_defer *d);

static void pump(struct abx_context *c)
{
    abx_defer_start(&c->pump, c->all->loop, on_pump, c);
}

static void forget_variables(struct abx_context *c)
{
    abx_arena_done(&c->variables.arena);
    c->variables = (struct variables){0};
    abx_arena_init(&c->variables.arena, VARIABLES_BYTES);
}

static void drop_kernel(struct abx_context *c)
{
    abx_kernel_close(c->kernel);
    c->kernel = NULL;
    c->is_ready = false;
    c->cells = 0;
    c->interrupted_ms = 0;
    abx_timer_stop(&c->interrupts);
    forget_variables(c);
}

static void tell_made(struct abx_context *c, const struct abx_error *err)
{
    abx_context_made_fn *made = c->made;
    c->made = NULL;
    if (made != NULL)
        made(c->made_arg, c, err);
}

static void on_gone(void *arg, const char *why)
{
    struct abx_context *c = arg;
    struct abx_error err;
    bool was_ready = c->is_ready, was_running = c->current != NULL;
    abx_log(was_running || !was_ready ? ABX_LOG_WARN : ABX_LOG_INFO,
            "kernel ended language=%s reason=\"%s\"", abx_context_language(c), why);
    abx_err_set(&err, ABX_FAILED_PRECONDITION, "the %s kernel did not start: %s",
                abx_context_language(c), why);
    drop_kernel(c);
    if (c->made != NULL) {
        tell_made(c, &err);
        abx_context_remove(c);
    } else if (!was_ready) {
        fail_all(c, "KernelError", err.msg);
    } else if (was_running) {
        fail_run(c->current, "ContextRestarting", "Context was restarted");
        fail_all(c, "ExecutionAborted", "Execution was aborted");
    } else {
        pump(c);
    }
}

static void on_done(struct abx_context *c)
{
    c->interrupted_ms = 0;
    abx_timer_stop(&c->interrupts);
    abx_kernel_resume(c->kernel);
    if (c->current != NULL)
        end_run(c->current);
    pump(c);
}

static void on_event(void *arg, enum abx_kernel_event e, struct abx_str line)
{
    struct abx_context *c = arg;
    struct abx_execution *r = c->current;
    switch (e) {
    case ABX_KERNEL_READY:
        c->is_ready = true;
        tell_made(c, NULL);
        pump(c);
        break;
    case ABX_KERNEL_DONE:
        on_done(c);
        break;
    case ABX_KERNEL_ERROR: /* the first one of a cell */
        if (r != NULL && !r->has_failed)
            say(r, line);
        if (r != NULL)
            r->has_failed = true;
        break;
    case ABX_KERNEL_STDOUT:
    case ABX_KERNEL_STDERR:
    case ABX_KERNEL_RESULT:
        if (r != NULL) /* output between cells is nobody's */
            say(r, line);
        break;
    case ABX_KERNEL_SYNC:
    case ABX_KERNEL__EVENTS:
        break;
    }
}

static const struct abx_kernel_ops kernel_ops = {.event = on_event, .gone = on_gone};

static int start_kernel(struct abx_context *c, struct abx_error *err)
{
    const struct abx_contexts_config *config = &c->all->config;
    const struct abx_language *l = abx_language(c->language);
    char program[ABX_PROGRAM_MAX];
    if (abx_language_program(l, config->path, program, err) < 0)
        return -1;
    struct abx_kernel_spec spec = {.language = l,
                                   .program = program,
                                   .cwd = c->cwd,
                                   .envp = c->spec.envp ? c->spec.envp : config->envp,
                                   .confine = c->spec.confine,
                                   .umask = c->spec.umask,
                                   .start_ms = config->start_ms};
    return abx_kernel_open(c->all->loop, &spec, &kernel_ops, c, &c->kernel, err);
}

/* ---- the queue ---- */

static void execute(struct abx_context *c, struct abx_execution *r)
{
    char count[64];
    int n = snprintf(count, sizeof(count),
                     "{\"type\":\"number_of_executions\",\"execution_count\":%u}", ++c->cells);
    r->cell.number = c->cells;
    r->cell.strip_types = abx_language(c->language)->strips_types;
    r->cell.sandbox = c->variables.list;
    r->cell.sandbox_count = c->variables.count;
    r->cell.sets_sandbox = !c->variables.is_set;
    c->variables.is_set = true;
    c->current = r;
    say(r, abx_str_n(count, (size_t)n));
    if (abx_kernel_run(c->kernel, &r->cell) < 0)
        fail_run(r, "KernelError", "the cell is too large, or memory is short");
}

static void on_pump(struct abx_defer *d)
{
    struct abx_context *c = d->owner;
    struct abx_error err = {0};
    struct abx_execution *r = abx_list_first(&c->runs, struct abx_execution, node);
    if (r == NULL || c->current != NULL || r->is_asking)
        return;
    if (c->kernel == NULL) {
        if (start_kernel(c, &err) < 0)
            fail_all(c, "KernelError", err.msg);
        return;
    }
    if (!c->is_ready)
        return;
    if (!c->variables.is_known && !r->was_told && r->ops->variables != NULL) {
        r->is_asking = true;
        r->ops->variables(r->arg, r);
        return;
    }
    execute(c, r);
    if (c->current == NULL)
        pump(c); /* it failed at once */
}

/* The cells behind it have not been touched: they run in a new kernel. */
static void kill_deaf(struct abx_context *c)
{
    abx_log(ABX_LOG_WARN,
            "kernel killed language=%s reason=\"it went on after it was interrupted\"",
            abx_context_language(c));
    drop_kernel(c);
    fail_run(c->current, "ContextRestarting", "Context was restarted");
    pump(c);
}

static void on_interrupts(struct abx_timer *t)
{
    struct abx_context *c = t->owner;
    uint32_t kill_ms = c->all->config.kill_ms != 0 ? c->all->config.kill_ms : KILL_MS;
    if (c->current == NULL || c->kernel == NULL)
        abx_timer_stop(t);
    else if (abx_time_mono_ms() - c->interrupted_ms >= kill_ms)
        kill_deaf(c);
    else
        abx_kernel_interrupt(c->kernel);
}

static void interrupt(struct abx_context *c)
{
    uint32_t repeat = c->all->config.repeat_ms != 0 ? c->all->config.repeat_ms : REPEAT_MS;
    c->interrupted_ms = abx_time_mono_ms();
    abx_kernel_resume(c->kernel); /* it may wait for its output to be taken */
    abx_kernel_interrupt(c->kernel);
    abx_timer_start(&c->interrupts, repeat, repeat);
}

static int copy_variables(struct abx_arena *a, const struct abx_variable *from, size_t count,
                          const struct abx_variable **ret)
{
    struct abx_variable *list = abx_arena_array(a, count + 1, sizeof(*list));
    for (size_t i = 0; list != NULL && i < count; i++) {
        list[i].name = abx_arena_str(a, from[i].name);
        list[i].value = abx_arena_str(a, from[i].value);
        if (list[i].name.ptr == NULL || list[i].value.ptr == NULL)
            return -1;
    }
    *ret = list;
    return list != NULL ? 0 : -1;
}

int abx_execution_start(struct abx_context *c, const struct abx_cell *cell,
                        const struct abx_execution_ops *ops, void *arg, struct abx_execution **ret,
                        struct abx_error *err)
{
    if (c->run_count >= ABX_CONTEXT_QUEUE_MAX)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED,
                           "context %s: %d executions wait already; try again later", c->id,
                           (int)ABX_CONTEXT_QUEUE_MAX);
    struct abx_execution *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory");
    abx_arena_init(&r->arena, RUN_BYTES);
    *r = (struct abx_execution){
        .context = c, .ops = ops, .arg = arg, .arena = r->arena, .cell = *cell};
    r->cell.code = abx_arena_str(&r->arena, cell->code);
    if (r->cell.code.ptr == NULL ||
        copy_variables(&r->arena, cell->own, cell->own_count, &r->cell.own) < 0) {
        abx_arena_done(&r->arena);
        free(r);
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "the code or its variables are too large");
    }
    abx_list_push(&c->runs, &r->node);
    c->run_count++;
    *ret = r;
    pump(c);
    return 0;
}

void abx_execution_set_variables(struct abx_execution *r, const struct abx_variable *list,
                                 size_t count, bool keep)
{
    struct abx_context *c = r->context;
    const struct abx_variable *copy = NULL;
    forget_variables(c);
    if (copy_variables(&c->variables.arena, list, count, &copy) < 0) {
        abx_log(ABX_LOG_WARN, "the sandbox's variables are over %d bytes and are left out",
                (int)VARIABLES_BYTES);
        count = 0;
    }
    c->variables.list = copy;
    c->variables.count = count;
    c->variables.is_known = keep;
    r->is_asking = false;
    r->was_told = true;
    pump(c);
}

void abx_execution_cancel(struct abx_execution *r)
{
    struct abx_context *c = r->context;
    r->ops = NULL;
    if (c->current == r) {
        interrupt(c);
        return;
    }
    end_run(r);
    pump(c);
}

bool abx_execution_is_running(const struct abx_execution *r)
{
    return r->context->current == r;
}

void abx_execution_pause(struct abx_execution *r)
{
    if (abx_execution_is_running(r))
        abx_kernel_pause(r->context->kernel);
}

void abx_execution_resume(struct abx_execution *r)
{
    if (abx_execution_is_running(r))
        abx_kernel_resume(r->context->kernel);
}

/* ---- contexts ---- */

static void make_id(char out[ABX_CONTEXT_ID + 1])
{
    unsigned char b[16];
    ssize_t n = getrandom(b, sizeof(b), 0); /* whole for so few bytes, once the pool is there */
    ABX_ASSERT(n == (ssize_t)sizeof(b));
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x40); /* RFC 9562: version 4, variant 1 */
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
    snprintf(out, ABX_CONTEXT_ID + 1,
             "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
             b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
             b[15]);
}

static int new_context(struct abx_contexts *cs, const struct abx_context_spec *spec,
                       struct abx_context **ret, struct abx_error *err)
{
    if (cs->count >= ABX_CONTEXTS_MAX)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED,
                           "there are %d contexts already; remove one first",
                           (int)ABX_CONTEXTS_MAX);
    struct abx_context *c = calloc(1, sizeof(*c));
    char *copy = abx_str_dup(spec->cwd);
    if (c == NULL || copy == NULL) {
        free(c);
        free(copy);
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory");
    }
    c->all = cs;
    c->language = spec->language;
    c->spec = *spec;
    c->cwd = copy;
    make_id(c->id);
    abx_list_init(&c->runs);
    abx_arena_init(&c->variables.arena, VARIABLES_BYTES);
    abx_timer_init(&c->interrupts, cs->loop, on_interrupts, c);
    abx_list_push(&cs->list, &c->node);
    cs->count++;
    *ret = c;
    return 0;
}

static void release_all(struct abx_contexts *cs)
{
    if (cs->is_closed && cs->count == 0 && cs->closing == 0)
        free(cs);
}

static void on_context_closed(void *owner)
{
    struct abx_context *c = owner;
    struct abx_contexts *cs = c->all;
    free(c->cwd);
    free(c);
    cs->closing--;
    release_all(cs);
}

static void end_cells(struct abx_context *c)
{
    if (c->current != NULL)
        fail_run(c->current, "UnexpectedEndOfExecution",
                 "Connection to the execution was closed before the execution was finished");
    fail_all(c, "ExecutionAborted", "Execution was aborted");
}

void abx_context_restart(struct abx_context *c)
{
    if (c->made != NULL)
        return; /* its kernel is just being started */
    drop_kernel(c);
    end_cells(c);
}

void abx_context_remove(struct abx_context *c)
{
    struct abx_contexts *cs = c->all;
    struct abx_error err = {.code = ABX_ABORTED, .msg = "the context was removed"};
    drop_kernel(c);
    end_cells(c);
    tell_made(c, &err);
    abx_defer_cancel(&c->pump);
    abx_arena_done(&c->variables.arena);
    if (cs->defaults[c->language] == c)
        cs->defaults[c->language] = NULL;
    abx_list_remove(&c->node);
    cs->count--;
    cs->closing++;
    abx_timer_close(&c->interrupts, on_context_closed);
}

int abx_context_create(struct abx_contexts *cs, const struct abx_context_spec *spec,
                       abx_context_made_fn *made, void *arg, struct abx_context **ret,
                       struct abx_error *err)
{
    struct abx_context *c;
    if (new_context(cs, spec, &c, err) < 0)
        return -1;
    if (start_kernel(c, err) < 0) {
        abx_context_remove(c);
        return -1;
    }
    c->made = made;
    c->made_arg = arg;
    *ret = c;
    return 0;
}

struct abx_context *abx_context_default(struct abx_contexts *cs, enum abx_language_id language,
                                        struct abx_error *err)
{
    const struct abx_context_spec spec = {.language = language, .cwd = abx_str(cs->config.cwd)};
    char program[ABX_PROGRAM_MAX];
    if (cs->defaults[language] != NULL)
        return cs->defaults[language];
    if (abx_language_program(abx_language(language), cs->config.path, program, err) < 0 ||
        new_context(cs, &spec, &cs->defaults[language], err) < 0)
        return NULL;
    return cs->defaults[language];
}

struct abx_context *abx_context_next(const struct abx_contexts *cs, const struct abx_context *c)
{
    struct abx_list *next = c == NULL ? cs->list.next : c->node.next;
    return next == &cs->list ? NULL : ABX_CONTAINER_OF(next, struct abx_context, node);
}

struct abx_context *abx_context_find(const struct abx_contexts *cs, struct abx_str id)
{
    struct abx_context *c = NULL;
    while ((c = abx_context_next(cs, c)) != NULL && !abx_str_is(id, c->id))
        ;
    return c;
}

const char *abx_context_id(const struct abx_context *c)
{
    return c->id;
}

const char *abx_context_language(const struct abx_context *c)
{
    return abx_language(c->language)->name;
}

enum abx_language_id abx_context_language_id(const struct abx_context *c)
{
    return c->language;
}

const char *abx_context_cwd(const struct abx_context *c)
{
    return c->cwd;
}

int abx_contexts_open(struct abx_loop *l, const struct abx_contexts_config *config,
                      struct abx_contexts **ret, struct abx_error *err)
{
    struct abx_contexts *cs = calloc(1, sizeof(*cs));
    if (cs == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "no memory");
    cs->loop = l;
    cs->config = *config;
    abx_list_init(&cs->list);
    *ret = cs;
    return 0;
}

void abx_contexts_close(struct abx_contexts *cs)
{
    if (cs == NULL)
        return;
    for (struct abx_context *c; (c = abx_context_next(cs, NULL)) != NULL;)
        abx_context_remove(c);
    cs->is_closed = true;
    release_all(cs);
}
