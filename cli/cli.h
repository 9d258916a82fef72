/* cli/cli.h: the command table and what every command gets. One command, one file. */
#pragma once
#include "include/abx/abx.h"
#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/json/json.h"

#include <stdio.h>

enum { CLI_PAIRS_MAX = 64, CLI_ERROR_OF_ABX = 125 };

/* Values of every option of every command; a command reads the ones in its table. */
struct cli_values {
    bool json, quiet, verbose, help, is_version, man;
    const char *url, *api_key, *state;
    /* create */
    uint32_t timeout_s;
    struct abx_pair env[CLI_PAIRS_MAX + 1], metadata[CLI_PAIRS_MAX + 1];
    size_t env_count, metadata_count;
    /* exec */
    const char *cwd, *user, *shell;
    bool no_stdin, detach;
    uint32_t attach_pid, timeout_ms;
    int64_t replay_from;
    /* up, down, env, url, kill */
    const char *listen, *format, *form;
    bool keep, all, no_host_template, insecure_listen;
    /* template, image, server */
    struct abx_pair build_args[CLI_PAIRS_MAX + 1];
    size_t build_arg_count;
    const char *envd_inject, *name, *token, *token_env, *preset, *policy, *commands, *wheel;
    const char *from, *lang, *kind;
    bool no_cache, force, refresh, fix, save;
    uint32_t port;
};

struct cli {
    struct cli_values v;
    const char *group; /* "template" of a help that names no command of it; NULL: none */
    char **args;       /* positional */
    int arg_count;
    char **rest; /* after "--" (or after the fixed arguments), NULL-terminated; NULL: none */
    struct abx_client_error err;
    struct abx_client *client;
};

enum cli_option_type {
    CLI_FLAG,
    CLI_STR,
    CLI_U32,
    CLI_COUNT, /* a CLI_U32 of which 0 means nothing */
    CLI_I64,
    CLI_PAIR
};
struct cli_option {
    const char *name; /* "--timeout"; NULL ends */
    char letter;      /* 0: none */
    enum cli_option_type type;
    size_t offset;       /* in struct cli_values */
    size_t count_offset; /* of CLI_PAIR's counter */
    const char *value;   /* "SECONDS" */
    const char *help;
};
struct cli_command {
    const char *name; /* "create", "engine doctor" */
    const char *args; /* "ID -- COMMAND [ARG...]" */
    const char *help; /* one line */
    const struct cli_option *options;
    int min_args, max_args;
    bool takes_rest; /* words after the positional ones belong to the command */
    int (*run)(struct cli *cli);
};
#define CLI_VALUE(field) offsetof(struct cli_values, field)

extern const struct cli_command cmd_up, cmd_down, cmd_env, cmd_create, cmd_list, cmd_info, cmd_exec,
    cmd_kill, cmd_cp, cmd_url, cmd_doctor, cmd_gc, cmd_status, cmd_version, cmd_template_init,
    cmd_template_lint, cmd_template_build, cmd_template_deploy, cmd_template_list,
    cmd_template_info, cmd_template_delete, cmd_template_export, cmd_image_build, cmd_image_list,
    cmd_image_import, cmd_image_export, cmd_server_start, cmd_server_call, cmd_server_routes,
    cmd_server_policy, cmd_provider_serve;
extern const struct cli_command *const cli_commands[]; /* NULL ends */
extern const struct cli_option cli_global_options[];

/** Finds the command and fills the values; 0, or 2 after a message about the misuse. */
int cli_parse(int argc, char **argv, struct cli *cli, const struct cli_command **ret);
/** Of @cmd; of the commands whose first word is @group, without a @cmd; of all, without both. */
void cli_help(const struct cli_command *cmd, const char *group, FILE *out);
/** The man page, from the same tables. */
void cli_man(FILE *out);

/** Prints "abx: E2009 ...", the next step beneath; returns the exit code of cli->err. */
int cli_fail(struct cli *cli);
/** In place, @text of a sandbox for somebody's terminal: a control character that is no line break
 * or tabulator becomes '?' (it could write the clipboard, or what stands above). Gives it back. */
char *cli_plain(char *text);
/** A usage error: prints and returns 2. */
int cli_usage(const struct cli_command *cmd, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/** An error of this program itself: prints and returns its exit code. */
int cli_fail_base(const struct abx_error *err);
/** cli->client, opened on first use; starts the local engine when none is named or running. */
int cli_client(struct cli *cli);
/** Starts the local engine when it does not run (and --url names no other). */
int cli_engine_ensure(struct cli *cli);

/** Prints a JSON document as "key.key  value" lines, or as it is with --json; an exit code. */
int cli_print_json(const struct cli *cli, const char *json);

/* cli/engine.c */
/** State folder of the local engine; heap. */
char *cli_state_dir(const struct cli *cli);
/** cli->client on the engine of the state folder, whatever the environment names: for the commands
 *  that are about that engine itself. */
int cli_local_client(struct cli *cli);
/** Its domain; heap, NULL if unknown. */
char *cli_local_domain(const struct cli *cli);
/** pid of the engine that holds the state's lock; 0: none runs. */
pid_t cli_engine_pid(const char *state);
/** "[ADDR:]PORT" as --listen takes it; 0, or -1 for another shape. */
int cli_parse_listen(const char *listen, char *host, size_t cap, uint16_t *ret_port);
/** Starts the engine in the background and waits until it serves. */
int cli_engine_start(struct cli *cli, struct abx_error *err);
/** Runs it here until it ends; its exit code. */
int cli_engine_run(struct cli *cli, int ready_fd);
