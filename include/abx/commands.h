/* abx/commands.h: commands of agent-sandbox-server in C: a shared object for `serve --commands
 * x.so`.
 *
 *     #include <abx/commands.h>
 *     static void greet(struct abx_call *call, const char *args, void *arg) { ... abx_reply(call,
 * "\"hi\""); } int abx_commands_register(struct abx_registry *r)
 *     {
 *         static const struct abx_command c = {.name = "greet", .run = greet};
 *         return abx_command_add(r, &c);
 *     }
 *
 *     cc -shared -fPIC -o commands.so commands.c
 *
 * The functions below are in the process that loads the object, one for each file of --commands: a
 * crash costs that process, which is started again. The object needs glibc 2.34 or newer. Calls run
 * at the same time, each in a thread of its own. Text is UTF-8, values are JSON. */
#ifndef ABX_COMMANDS_H
#define ABX_COMMANDS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct abx_registry; /* what abx_commands_register() fills */
struct abx_call;     /* one call; valid until its function returns */

/** Runs a command. @args: a JSON object of what the caller gave, converted to the declared types.
 * Answer by abx_reply(), abx_fail() or abx_fail_with(), once, before it returns. */
typedef void abx_command_fn(struct abx_call *call, const char *args, void *arg);

struct abx_command_arg {
    const char *name; /* NULL ends a list */
    const char *type; /* "string", "integer", "float", "boolean", "string_array"; NULL: string */
    int is_required;
    const char *default_value; /* its text (of a string_array: JSON); NULL: none */
    const char *description;
};
struct abx_command {
    const char *name, *description;
    const struct abx_command_arg *args; /* NULL: none */
    const char *const *scopes;          /* NULL-terminated; NULL: none */
    double timeout_s;                   /* 0: none of its own */
    int is_hidden;                      /* left out of GET /commands */
    abx_command_fn *run;
    void *arg; /* for run */
};

/** What the object defines: called once at start. Not 0: the server does not start. */
int abx_commands_register(struct abx_registry *registry);

/** Strings are copied. 0; -1: no name, no function, or no memory. */
int abx_command_add(struct abx_registry *registry, const struct abx_command *command);

/** Ends the call with a JSON value; NULL: null, or the end of what abx_chunk() began. 0; -1: the
 * call has its answer already, or the value is no JSON (then the caller gets a 500 that says so).
 */
int abx_reply(struct abx_call *call, const char *json);
/** Ends the call with an error: {"error": message, "type": type}. @status 400..599, else 500. */
int abx_fail(struct abx_call *call, int status, const char *type, const char *message);
/** As abx_fail(), and the members of @extra, a JSON object, stand in the body beside error and
 * type; a "retry_after" of whole seconds is the header Retry-After too. NULL: none. -1 also: it is
 * no object of at most 1 MiB (then the caller gets a 500 that says so). */
int abx_fail_with(struct abx_call *call, int status, const char *type, const char *message,
                  const char *extra);
/** One item, JSON, of a result that comes in pieces: an event where the caller asked for events,
 * else an element of the list that the call ends with. Waits while the caller is slow. 0; -1: no
 * JSON, or the call is over (cancelled): return soon. */
int abx_chunk(struct abx_call *call, const char *json);

/** Who calls and under which rule: {"endpoint","identity":{"id","scopes"},"rule":{...}}. */
const char *abx_call_context(const struct abx_call *call);
/** 1 when the caller is gone or the time is over. A call that goes on 5 s after its time costs the
 * process. */
int abx_call_is_cancelled(struct abx_call *call);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
