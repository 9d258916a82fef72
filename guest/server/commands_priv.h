/* guest/server/commands_priv.h: what command hosts registered, and the calls to them. Loop thread.
 */
#pragma once
#include "guest/server/hosts/coerce.h"
#include "guest/server/hosts/host.h"
#include "guest/server/hosts/launch.h"
#include "guest/server/server_priv.h"

enum {
    ABX__COMMANDS_MAX = 4096,
    ABX__ROUTES_MAX = 1024,
    ABX__COMMAND_NAME_MAX = 128,
    ABX__FILES_MAX = 64,
};

struct abx__table_row; /* table_priv.h */

/* One host: a process that serves some of the files, or a table of this process. */
struct abx__commands_host {
    struct abx__commands *all;
    enum abx_host_kind kind;
    const char **files; /* none: it runs already (--host-fd) */
    size_t file_count;
    struct abx_host *host; /* NULL: a table, not opened yet, or closed */
    struct json_t *hello;
};

struct abx__command {
    struct abx_str name, description;
    struct json_t *args; /* array, of the hello */
    struct abx_str_list scopes;
    uint32_t timeout_ms; /* 0: none */
    bool is_hidden;
    struct abx__commands_host *host;
    const struct abx_args *declared;  /* what this server converts by; NULL: the host does */
    const struct abx__table_row *row; /* of a table; NULL: of a process */
};
struct abx__custom_route {
    struct abx__commands_host *host;
    size_t n; /* in the host */
};

struct abx__commands {
    struct abx__server *server;
    struct abx_arena arena;           /* of what was registered */
    struct abx__commands_host *hosts; /* in the order of their first files */
    size_t host_count, next;          /* the next one to open */
    const char **files;
    size_t file_room;
    struct abx__command *commands; /* in order of registration */
    size_t command_count, command_room, custom_room;
    abx__commands_ready_fn *ready;
    struct abx_defer later;
    struct abx_error failure;
    int exit_code;
    size_t table_running; /* programs of tables */
    bool has_failed, is_stopping;
};

/* command_hosts.c */

/** The environment of hosts: the start's without secrets, in @a. NULL without memory. */
char **abx__hosts_environment(const struct abx__server *s, struct abx_arena *a);
/** Hosts load nothing of a user's own: they are confined, or callers of different power share them
 *  (S34). */
bool abx__hosts_are_isolated(const struct abx__server *s);

/** Opens the next host; what comes of it goes on from the loop. */
void abx__commands_open_next(struct abx__commands *s);

/* registered.c */

/** Takes what a hello registers: commands, server->custom, server->code_groups, policy, address. */
int abx__commands_take_hello(struct abx__commands_host *h, struct abx_str hello,
                             struct abx_error *err);
/** A group that user code turned on or off; the last word counts. */
void abx__commands_set_group(struct abx__commands *s, struct abx_policy_code_group group);
/** A command by its name; NULL: none. */
const struct abx__command *abx__command_find(const struct abx__commands *s, struct abx_str name);

/* table_load.c, table.c */

/** Reads a YAML file of commands and registers them. Blocks: before the server listens. */
int abx__table_load(struct abx__commands_host *h, struct abx_error *err);
/** Runs a command of a table; @args: the converted arguments, a JSON object. */
void abx__table_call(struct abx__call *c, const struct abx__command *command, struct abx_str args);

/* hand_over.c */

/** What user code gets of a request, each as a JSON object: names and lists of values, the parts of
 * the path, the first header of each name. Without what is a credential here. */
void abx__hand_over_query(struct abx_buf *out, const struct abx__call *c);
void abx__hand_over_params(struct abx_buf *out, const struct abx__call *c);
void abx__hand_over_headers(struct abx_buf *out, const struct abx__call *c);

/* custom.c */

/** {"endpoint","identity","rule"}: what a host is told of a call. */
void abx__call_context(struct abx_buf *out, const struct abx__call *c);
/** 429: as many calls run in a host as may. */
void abx__commands_too_many(struct abx__call *c);

/** Runs the command for the call, which is answered now or later. */
void abx__command_call(struct abx__call *c, const struct abx__command *command);
/** How long it may take: the smaller of its own time and the policy's; 0: for ever. */
uint32_t abx__command_deadline_ms(const struct abx__call *c, const struct abx__command *command);
/** Serves a custom route; @arg is its struct abx__custom_route. */
void abx__custom_serve(struct abx__call *c, void *arg);
/** Answers ServerPolicy's questions ("check", "explain") about a document in @m: JSON to @out.
 * policy_ask.c */
int abx__policy_answer(const struct abx_host_message *m, struct abx_buf *out,
                       struct abx_error *err);
/** Answers a question that the host asks about a call of it. */
void abx__commands_answer(struct abx__commands_host *h, const struct abx_host_message *m,
                          struct abx__call *c);
