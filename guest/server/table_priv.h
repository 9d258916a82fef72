/* guest/server/table_priv.h: one command of a YAML file, as table_load.c reads and table.c runs it.
 */
#pragma once
#include "guest/server/table_words.h"

enum abx__table_result {
    ABX__TABLE_RAW, /* {"stdout","stderr","exit_code"} */
    ABX__TABLE_TEXT,
    ABX__TABLE_JSON,
    ABX__TABLE_LINES,
    ABX__TABLE__RESULTS
};
struct abx__table_env {
    struct abx_str name;
    struct abx__word value;
};
struct abx__table_row {
    struct abx__word *argv; /* the first one is the program, always the same */
    struct abx__table_env *env;
    size_t argc, env_count;
    struct abx__word cwd, input;
    enum abx__table_result result;
    bool is_checked, has_input;
};
