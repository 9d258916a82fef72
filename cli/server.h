/* cli/server.h: what the `abx server` commands share. */
#pragma once
#include "cli/cli.h"

struct cli_server {
    struct abx_sandbox *sb;
    struct abx_server *server;
    char *token_env; /* the variable whose token is used; NULL: --token, or none */
};
extern const struct cli_option cli_server_options[]; /* --port, --token, --token-env */

/** Connects to sandbox @id and takes a token: --token ("" for none), else the one that the engine
 *  made for --token-env, else the first it made. 0, or the exit code after a message. Closed by
 *  cli_server_close() in any case. */
int cli_server_open(struct cli *cli, const char *id, struct cli_server *s);
void cli_server_close(struct cli_server *s);
