/* guest/server/hosts/coerce.h: the arguments of a command by their declarations, for hosts that do
 * not convert themselves (all but Python's). JSON text in, JSON text out: integers of any size
 * survive. Pure. Spec: command-hosts.md 2.1, without Python's spellings. */
#pragma once
#include "lib/base/arena.h"
#include "lib/base/buf.h"
#include "lib/base/err.h"

struct json_t;

enum abx_arg_type {
    ABX_ARG_STRING,
    ABX_ARG_INTEGER,
    ABX_ARG_FLOAT,
    ABX_ARG_BOOLEAN,
    ABX_ARG_STRING_ARRAY,
    ABX_ARG__TYPES
};
enum { ABX_ARGS_MAX = 256 };

struct abx_arg {
    struct abx_str name, default_text;
    enum abx_arg_type type;
    bool is_required, has_default;
};
struct abx_args {
    struct abx_arg *items;
    size_t count;
};
/** "string", "integer" ...; -1: none of them. */
int abx_arg_type_parse(struct abx_str name);
/** Reads the args of a hello: an array of {name, type, required, default}; NULL: none. In @a. */
int abx_args_read(struct json_t *list, struct abx_arena *a, struct abx_args *ret,
                  struct abx_error *err);

struct abx_args_fault {
    const char *type; /* "ValueError", "TypeError" */
    char text[512];
};
/** The object that the host gets for @body (JSON; whatever is no object counts as {}) to @out.
 * 0; -1 and what is wrong in *f: 400. */
int abx_args_coerce(const struct abx_args *declared, struct abx_str body, struct abx_arena *a,
                    struct abx_buf *out, struct abx_args_fault *f);
