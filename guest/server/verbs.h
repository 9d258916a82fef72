/* guest/server/verbs.h: the verbs of the program, one function each. argv[0] is the verb; the exit
 * code. */
#pragma once

int abx__serve_main(int argc, char **argv);       /* serve.c */
int abx__healthcheck_main(int argc, char **argv); /* healthcheck.c */
