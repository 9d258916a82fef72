/* guest/caps/regex.h: regular expressions that take linear time, whatever the pattern: a set of
 * states is carried along the text, nothing is tried twice. Pure.
 *
 * Syntax: literals, ".", [a-z] [^a-z], \d \w \s \D \W \S \b \B, \t \n \r and any escaped
 * punctuation, ^ $ (of the text given), groups ( ) and (?: ), |, * + ? {m} {m,} {m,n}. "." and
 * negated classes take a whole UTF-8 character. No back references, no look-around. */
#pragma once
#include "lib/base/arena.h"
#include "lib/base/err.h"

#include <stdint.h>

enum { ABX_REGEX_PATTERN = 4096, ABX_REGEX_PROGRAM = 10000 };

struct abx_regex; /* in the arena */

/** INVALID_ARGUMENT with the place, RESOURCE_EXHAUSTED. @ignores_case: of ASCII letters. */
int abx_regex_compile(struct abx_str pattern, bool ignores_case, struct abx_arena *a,
                      struct abx_regex **ret, struct abx_error *err);

/* What a search needs; one at a time. */
struct abx_regex_run; /* in the arena */
struct abx_regex_run *abx_regex_run_new(const struct abx_regex *r, struct abx_arena *a);

struct abx_regex_match {
    size_t from, to;
};
/* Asked now and then: false ends a search that takes long. */
struct abx_regex_patience {
    bool (*goes_on)(void *ctx);
    void *ctx;
};
/** The first match in @text, the longest from there. 1, 0: none, -1: @patience (may be NULL) ended.
 */
int abx_regex_search(struct abx_regex_run *run, struct abx_str text,
                     const struct abx_regex_patience *patience, struct abx_regex_match *ret);
