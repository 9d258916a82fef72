/* guest/server/verbs.h: the verbs of the program, one function each. argv[0] is the verb; the exit
 * code. */
#pragma once
#include "guest/server/options.h"

int abx__serve_main(int argc, char **argv);       /* serve.c */
int abx__healthcheck_main(int argc, char **argv); /* healthcheck.c */
int abx__routes_main(int argc, char **argv);      /* describe.c */
int abx__token_main(int argc, char **argv);       /* describe.c */

/* What the man page says of them. */
const struct abx__option *abx__serve_rows(void);
const struct abx__option *abx__healthcheck_rows(void);
const struct abx__option *abx__routes_rows(void);
const char *abx__check_config_usage(void); /* check_config.c */

struct abx__verb {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
    const struct abx__option *(*rows)(void); /* NULL: none */
    const char *(*usage)(void);              /* its own text instead; NULL: none */
};
/** program.c */
const struct abx__verb *abx__verbs(size_t *ret_count);
