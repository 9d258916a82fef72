/* guest/server/commands_priv.h: what a command host registered, and the calls to it. Loop thread.
 */
#pragma once
#include "guest/server/hosts/host.h"
#include "guest/server/server_priv.h"

enum {
    ABX__COMMANDS_MAX = 4096,
    ABX__ROUTES_MAX = 1024,
    ABX__COMMAND_NAME_MAX = 128,
};

struct abx__command {
    struct abx_str name, description;
    struct json_t *args; /* array, of the hello */
    struct abx_str_list scopes;
    uint32_t timeout_ms; /* 0: none */
    bool is_hidden;
};
struct abx__custom_route {
    struct abx__commands *commands;
    size_t n; /* in the host */
};

struct abx__commands {
    struct abx__server *server;
    struct abx_host *host;
    struct abx_arena arena; /* of what was registered */
    struct json_t *hello;
    struct abx__command *commands; /* in order of registration */
    size_t command_count;
    struct abx__custom_route *routes; /* one per server->custom */
    abx__commands_ready_fn *ready;
    struct abx_defer later; /* ready is called from the loop */
    struct abx_error failure;
    int exit_code;
    bool has_told, has_failed;
};

/* registered.c */

/** Takes what a hello registers: commands, server->custom, server->code_groups, policy, address. */
int abx__commands_take_hello(struct abx__commands *s, struct abx_str hello, struct abx_error *err);
/** A command by its name; NULL: none. */
const struct abx__command *abx__command_find(const struct abx__commands *s, struct abx_str name);

/* custom.c */

/** Runs the command for the call, which is answered now or later. */
void abx__command_call(struct abx__call *c, const struct abx__command *command);
/** Serves a custom route; @arg is its struct abx__custom_route. */
void abx__custom_serve(struct abx__call *c, void *arg);
/** Answers ServerPolicy's questions ("check", "explain") about a document in @m: JSON to @out.
 * policy_ask.c */
int abx__policy_answer(const struct abx_host_message *m, struct abx_buf *out,
                       struct abx_error *err);
/** Answers a question that the host asks about a call of it. */
void abx__commands_answer(struct abx__commands *s, const struct abx_host_message *m,
                          struct abx__call *c);
