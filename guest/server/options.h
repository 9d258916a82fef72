/* guest/server/options.h: option rows of the verbs, read as the published command line reads them.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum abx__option_kind {
    ABX__OPTION_FLAG,   /* bool */
    ABX__OPTION_TEXT,   /* const char * */
    ABX__OPTION_NUMBER, /* int64_t */
    ABX__OPTION_REAL,   /* double */
    ABX__OPTION_LIST,   /* struct abx__option_list */
};
struct abx__option_list {
    const char **items;
    size_t count;
};
struct abx__option {
    const char *name; /* "--port"; NULL ends a table */
    enum abx__option_kind kind;
    size_t offset;
    const char *value, *help; /* for the usage text */
    size_t has_offset;        /* of a bool set when the option is given; 0: none */
};
enum { ABX__OPTIONS_OK = -1 };
/** Reads argv[1..] into @out: "--name value", "--name=value", unambiguous beginnings, -h. Lists are
 * filled with pointers into argv and are freed by the process's end. ABX__OPTIONS_OK, or the exit
 * code (2 after a usage error on stderr, 0 after help on stdout). */
int abx__options_read(const struct abx__option *rows, int argc, char **argv, void *out);
