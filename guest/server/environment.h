/* guest/server/environment.h: the environment of the start. Before there are threads, where nothing
 * else is said. security S15. */
#pragma once
#include "guest/server/server_priv.h"

/** Copies the environment and overwrites the original block, which /proc shows. 0 or -1. */
int abx__environment_take(void);
/** Forgets what must reach no child: the tokens' variables and those of the policy, when tokens
 * exist. */
void abx__environment_hide(const struct abx_policy *p);
/** Takes one variable out. Before there are threads. */
void abx__environment_drop(const char *name);
void abx__environment_free(void);
/** A variable of the server's own, copied; NULL: none, or no memory. On the pool getenv() would
 * read what the loop may be replacing. Any thread. */
char *abx__environment_copy(const char *name, struct abx_arena *a);
