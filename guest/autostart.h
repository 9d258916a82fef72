/* guest/autostart.h: agent-sandbox-server among the services of PID 1, for platforms that run no
 * start command (base-image.md 1). */
#pragma once
#include <stdbool.h>

struct abx_error;

struct abx_autostart {
    bool has_policy;   /* the server finds it by itself (server.md 1) */
    bool has_commands; /* ABX_SERVER_COMMANDS_PATH */
};
/** Whether the environment asks for the server, and what there is for it below @root: 1 and *ret;
 * 0: not asked for; -1: asked for, but it could not serve, as @err says. */
int abx_autostart_look(const char *root, struct abx_autostart *ret, struct abx_error *err);
/** Becomes the server, as the account that a start command runs as. Returns only when that fails:
 *  an exit code. */
int abx_autostart_serve(const struct abx_autostart *a);
