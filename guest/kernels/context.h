/* guest/kernels/context.h: contexts: a kernel that is started when it is needed, and the queue of
 * cells before it.
 *
 * Cells of one context run one at a time, in order. A kernel that died gives its cell an error and
 * is started anew for the next one; its state is gone, its id and folder stay. Default contexts
 * (one a language) are made on first use and made again after a removal. No callback runs from
 * inside a call of the owner, but for those of abx_context_restart() and _remove(). Loop thread
 * only. */
#pragma once
#include "guest/kernels/language.h"
#include "lib/base/arena.h"
#include "lib/loop/loop.h"

enum { ABX_CONTEXT_ID = 36, ABX_CONTEXTS_MAX = 128, ABX_CONTEXT_QUEUE_MAX = 64 };

struct abx_confine;
struct abx_contexts;
struct abx_context;
struct abx_execution;

struct abx_contexts_config {
    const char *path;   /* where programs are looked for */
    char *const *envp;  /* of the kernels */
    const char *cwd;    /* of default contexts */
    uint32_t start_ms;  /* limits; 0: 60 s */
    uint32_t repeat_ms; /* between two interrupts of one cell; 0: 1 s */
    uint32_t kill_ms;   /* from the first interrupt to the end of the kernel; 0: 5 s */
};
/** Borrows what @config points to. */
int abx_contexts_open(struct abx_loop *l, const struct abx_contexts_config *config,
                      struct abx_contexts **ret, struct abx_error *err);
/** Ends all cells and kernels. Accepts NULL. */
void abx_contexts_close(struct abx_contexts *cs);

/** The context of @id, NULL: none. */
struct abx_context *abx_context_find(const struct abx_contexts *cs, struct abx_str id);
/** The default context of a language, made when there is none. */
struct abx_context *abx_context_default(struct abx_contexts *cs, enum abx_language_id language,
                                        struct abx_error *err);
/** In the order of their making: NULL gives the first one, then the next; NULL at the end. */
struct abx_context *abx_context_next(const struct abx_contexts *cs, const struct abx_context *c);
const char *abx_context_id(const struct abx_context *c);
const char *abx_context_language(const struct abx_context *c);
enum abx_language_id abx_context_language_id(const struct abx_context *c);
const char *abx_context_cwd(const struct abx_context *c);

/** @err NULL: its kernel is ready. Otherwise it is gone with this call. */
typedef void abx_context_made_fn(void *arg, struct abx_context *c, const struct abx_error *err);
/* What a context is to be; what is pointed to but @cwd must live as long as it. */
struct abx_context_spec {
    enum abx_language_id language;
    struct abx_str cwd;
    char *const *envp; /* of its kernel; NULL: that of all */
    const struct abx_confine *confine;
    uint32_t umask;
};
/** Makes a context and starts its kernel; @made tells. @ret is good until then, for _remove(). */
int abx_context_create(struct abx_contexts *cs, const struct abx_context_spec *spec,
                       abx_context_made_fn *made, void *arg, struct abx_context **ret,
                       struct abx_error *err);
/** The kernel goes, the context stays; cells get an error. */
void abx_context_restart(struct abx_context *c);
void abx_context_remove(struct abx_context *c);

struct abx_execution_ops {
    /** The context has no variables of the sandbox yet: abx_execution_set_variables() must follow.
     * NULL: it needs none. */
    void (*variables)(void *arg, struct abx_execution *r);
    /** One line for the client, without a newline. */
    void (*line)(void *arg, struct abx_str line);
    /** No line follows; the run is gone. */
    void (*end)(void *arg);
};
/** Queues a cell. Copies @cell's code and own variables. RESOURCE_EXHAUSTED: the queue is full. */
int abx_execution_start(struct abx_context *c, const struct abx_cell *cell,
                        const struct abx_execution_ops *ops, void *arg, struct abx_execution **ret,
                        struct abx_error *err);
/** The sandbox's variables, copied. @keep: they hold for the life of the kernel; otherwise the next
 *  cell asks again. */
void abx_execution_set_variables(struct abx_execution *r, const struct abx_variable *list,
                                 size_t count, bool keep);
/** Nobody listens any more: a queued cell is dropped, a running one interrupted. No callback. */
void abx_execution_cancel(struct abx_execution *r);
/** Whether its cell is in the kernel. */
bool abx_execution_is_running(const struct abx_execution *r);
/** Stops the kernel's output while this cell runs. */
void abx_execution_pause(struct abx_execution *r);
void abx_execution_resume(struct abx_execution *r);
