/* guest/kernels/language.h: the languages of the code interpreter: names, programs, kernels. */
#pragma once
#include "guest/kernels/protocol.h"

enum abx_language_id { ABX_PYTHON, ABX_JAVASCRIPT, ABX_TYPESCRIPT, ABX_BASH, ABX_LANGUAGE__COUNT };
enum { ABX_LANGUAGE_ARGV_MAX = 8, ABX_PROGRAM_MAX = 1024 };

struct abx_language {
    const char *name;
    const char *programs[3];           /* tried in this order on PATH */
    char *argv[ABX_LANGUAGE_ARGV_MAX]; /* of the kernel */
    const char *script, *script_end;   /* the kernel itself: file on descriptor 0 */
    bool is_fed;                       /* the script is typed in on descriptor 0 instead */
    bool strips_types;
    void (*write)(struct abx_buf *out, const struct abx_cell *cell);
};
const struct abx_language *abx_language(enum abx_language_id id);

/** The language that a client means by @name (case folded, blanks trimmed, js and ts understood;
 *  empty: python). -1 with UNIMPLEMENTED for r and java, INVALID_ARGUMENT for what nobody knows. */
int abx_language_find(struct abx_str name, enum abx_language_id *ret, struct abx_error *err);
/** Its program on @path ("/bin:/usr/bin"). NOT_FOUND names what is missing. */
int abx_language_program(const struct abx_language *l, const char *path, char ret[ABX_PROGRAM_MAX],
                         struct abx_error *err);
