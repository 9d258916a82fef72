/* guest/caps/environ.h: the environment of a started process (envd.md 5.3, case T36). */
#pragma once
#include "guest/caps/process.h"

struct abx_environ {
    char **vars; /* "NAME=value", NULL-terminated: what execve wants */
    size_t count;
};

/** Later entries win: PATH, HOME, USER, LOGNAME; PAGER and GIT_PAGER "cat" (a pty: TERM and LANG);
 *  globals; envs of the request. INVALID_ARGUMENT: a name that is empty or holds '=' or NUL, a
 *  value with NUL, too many or too large. The caller owns *ret: abx_environ_done(). */
int abx_environ_compose(const struct abx_process_spec *spec, const char *path,
                        struct abx_environ *ret, struct abx_error *err);
enum { ABX_ENVIRON_OF_USER = 3 };
/** What says who somebody is: HOME, USER and LOGNAME. Borrowed from @u. */
void abx_environ_of_user(const struct abx_user *u, struct abx_env_pair ret[ABX_ENVIRON_OF_USER]);
/** The value of @name, NULL if unset. */
const char *abx_environ_get(const struct abx_environ *e, const char *name);
/** Accepts a zeroed one. */
void abx_environ_done(struct abx_environ *e);
