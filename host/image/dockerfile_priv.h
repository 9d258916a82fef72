/* host/image/dockerfile_priv.h: what the files of the Dockerfile reader share. */
#pragma once
#include "host/image/dockerfile.h"
#include "lib/base/buf.h"

/** Fills @fault; returns -1. */
int abx__df_fail(struct abx_df_fault *fault, struct abx_df_place at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Variables in force at an instruction; the latest row of a name holds. */
struct abx__df_scope {
    struct abx__df_binding {
        struct abx_str name, value;
        bool is_arg, is_set;
    } * items;
    size_t count, cap;
    char escape;
};
/** Sets @name; -1 at the limit. */
int abx__df_bind(struct abx__df_scope *s, const struct abx__df_binding *b);
const struct abx__df_binding *abx__df_find(const struct abx__df_scope *s, struct abx_str name);

enum abx__df_unknown {
    ABX__DF_UNKNOWN_FAILS, /* a variable that the file does not set is a fault */
    ABX__DF_UNKNOWN_KEPT   /* it stays "${NAME}": the builder knows the image's own */
};
/** A word without its quotes and escapes, variables replaced. */
int abx__df_expand(const struct abx__df_scope *s, const struct abx_df_word *word,
                   enum abx__df_unknown unknown, struct abx_arena *a, struct abx_str *ret,
                   struct abx_df_fault *fault);
/** Length of a variable name at the front of @s; 0: none. */
size_t abx__df_name_length(struct abx_str s);
/** @word as one shell word, in single quotes. */
void abx__df_quote(struct abx_buf *b, struct abx_str word);
