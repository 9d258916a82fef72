/* cli/ignore.h: .dockerignore: which paths of a context are left out. Pure. */
#pragma once
#include "lib/base/str.h"

enum { CLI_IGNORE_RULES_MAX = 1000 };

struct cli_ignore {
    struct cli_ignore_rule {
        struct abx_str pattern; /* no leading or trailing '/' */
        bool is_exception;      /* "!pattern" */
    } rules[CLI_IGNORE_RULES_MAX];
    size_t count;
};
/** Reads @text, which must outlive @ret; 0, or -1 over the limit. */
int cli_ignore_read(struct abx_str text, struct cli_ignore *ret);
/** Whether @path ("a/b", relative, normal) is left out: the last rule that fits it or a folder
 *  above it decides. */
bool cli_ignore_match(const struct cli_ignore *ig, struct abx_str path);
/** Whether @pattern (components with * ? [...], "**" for any number of them) fits all of @path. */
bool cli_path_match(struct abx_str pattern, struct abx_str path);
