/* guest/caps/ignore.h: patterns of a .gitignore, and globs over paths. Pure. A pattern becomes a
 * regular expression of linear time. */
#pragma once
#include "guest/caps/regex.h"

enum { ABX_IGNORE_FILE = 256 * 1024, ABX_IGNORE_RULES = 2000 };

struct abx_ignore_rule;
struct abx_ignore {
    struct abx_ignore_rule *rules;
    size_t count;
};
enum abx_ignore_verdict { ABX_IGNORE_NOTHING, ABX_IGNORE_OUT, ABX_IGNORE_IN };

/** The rules of a file's text, in @a. A line that can not be read is passed over, as git does. -1:
 * too many, or no memory. */
int abx_ignore_parse(struct abx_str text, struct abx_arena *a, struct abx_ignore *ret);
/** What the last rule that fits says of @path, relative to the folder of the file. */
enum abx_ignore_verdict abx_ignore_ask(const struct abx_ignore *g, struct abx_str path,
                                       bool is_folder);

/** A glob over a path beneath a folder: "*" within a component, "**" over several; without a slash
 * it is about the name alone. */
struct abx_path_glob;
int abx_path_glob_compile(struct abx_str glob, struct abx_arena *a, struct abx_path_glob **ret,
                          struct abx_error *err);
bool abx_path_glob_matches(const struct abx_path_glob *g, struct abx_str path);
