/* guest/server/table_words.h: words with {arguments} in them, as tables of commands have them: read
 * once, filled at every call. Never a shell: what is filled in stays inside its word. Pure. Spec:
 * command-hosts.md 4 (YAML). */
#pragma once
#include "guest/server/hosts/coerce.h"

struct abx__word_part {
    struct abx_str literal;
    size_t arg; /* of the declared ones, SIZE_MAX: literal */
};
struct abx__word {
    struct abx__word_part *parts;
    size_t count;
};
/* One argument of a call. */
struct abx__word_value {
    struct abx_str text;   /* of a list: its JSON */
    struct abx_str *items; /* of a list */
    size_t count;
    bool is_set, is_list;
};

/** "{name}" stands for an argument, "{{name}}" is "{name}" itself, all else is literal. A name that
 * is not declared, or a list that does not stand alone, is an error. Memory is @a's. */
int abx__word_parse(struct abx_str text, const struct abx_args *declared, struct abx_arena *a,
                    struct abx__word *ret, struct abx_error *err);
/** Whether arguments are filled in. */
bool abx__word_varies(const struct abx__word *w);
/** One value for each declared argument out of the converted ones, a JSON object. -1: no memory, or
 * a text that holds a NUL (then *ret_nul is true). */
int abx__word_values(const struct abx_args *declared, struct abx_str args, struct abx_arena *a,
                     struct abx__word_value **ret, bool *ret_nul);
/** The word as one text; what is not set is nothing. ptr NULL: no memory. */
struct abx_str abx__word_text(const struct abx__word *w, const struct abx__word_value *values,
                              struct abx_arena *a);
/** Adds the words that @w becomes: one; one for each item of a list that stands alone; none for
 * another argument that stands alone and is not set. -1: no room, or no memory. */
int abx__word_add(const struct abx__word *w, const struct abx__word_value *values,
                  struct abx_arena *a, char **words, size_t *count, size_t room);
