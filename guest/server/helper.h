/* guest/server/helper.h: a program whose whole output a handler wants: git, an interpreter.
 * It ends with its call. Loop thread. */
#pragma once
#include "guest/caps/users.h"
#include "guest/server/server_priv.h"

struct abx__helper_spec { /* nothing of it is needed after the start */
    const char *program;  /* absolute, or searched in the server's PATH */
    char *const *argv;
    char *const *envp;                 /* NULL: that of the caller's programs */
    const char *cwd;                   /* NULL: the server's */
    const struct abx_confine *confine; /* where `confine` holds nothing; NULL: nothing does */
    uint64_t timeout_ms;
    size_t max;                  /* bytes kept of each stream; the rest is read and dropped */
    const struct abx_user *user; /* NULL: the server's */
    int exec_fd;                 /* a file for the child at number 3; 0: none */
};
struct abx__helper_result { /* texts live until the callback returns */
    struct abx_str out, errs;
    int exit_code; /* -N: killed by signal N */
    bool by_deadline, is_out_cut, is_errs_cut, is_output_open;
};
typedef void abx__helper_done_fn(struct abx__call *c, void *arg,
                                 const struct abx__helper_result *r);
/** Starts it for the call; @done comes once, unless the call ends before. When it can not start the
 * call is answered. The call must have no on_close of its own. */
void abx__helper_run(struct abx__call *c, const struct abx__helper_spec *spec,
                     abx__helper_done_fn *done, void *arg);
/** To all of them: the server stops. */
void abx__helpers_signal(struct abx__server *s, int signum);
/** Cut at most at the end of a whole character. */
struct abx_str abx__whole_characters(struct abx_str s, bool is_cut);
