/* guest/caps/grep.h: the lines of a text that hold a literal or a regular expression. Pure. */
#pragma once
#include "guest/caps/regex.h"

enum {
    ABX_GREP_LINE = 1024 * 1024, /* of a line only so many bytes are looked at */
    ABX_GREP_CONTEXT = 20,
};
struct abx_grep_spec {
    struct abx_str pattern; /* outlives the grep; not empty */
    bool is_regex, ignores_case;
    uint32_t context; /* lines before and after, at most ABX_GREP_CONTEXT */
};
struct abx_grep; /* in the arena */
/** As abx_regex_compile(). One text at a time. */
int abx_grep_new(const struct abx_grep_spec *spec, struct abx_arena *a, struct abx_grep **ret,
                 struct abx_error *err);

struct abx_grep_line {
    uint64_t number; /* from 1 */
    struct abx_str text;
    struct abx_regex_match match;
    struct abx_str before[ABX_GREP_CONTEXT], after[ABX_GREP_CONTEXT]; /* in the text's order */
    size_t before_count, after_count;
};
/** False: enough. */
typedef bool abx_grep_fn(void *ctx, const struct abx_grep_line *line);
/** 0, or -1 when @patience ended. */
int abx_grep_text(const struct abx_grep *g, struct abx_str text,
                  const struct abx_regex_patience *patience, abx_grep_fn *fn, void *ctx);
/** Whether a text that begins so is none: it holds a NUL. */
bool abx_grep_is_binary(struct abx_str head);
