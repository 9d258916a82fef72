/* host/image/dockerfile.h: a Dockerfile as instructions, and those as the build steps of the API
 * (control-plane.md 8.2). Pure: text in, tables out. What has no meaning here is refused by name
 * with its place; nothing is skipped in silence. */
#pragma once
#include "lib/base/arena.h"

#include <stdint.h>

enum {
    ABX_DF_TEXT_MAX = 1 << 20,
    ABX_DF_INSTRUCTIONS_MAX = 1000,
    ABX_DF_WORDS_MAX = 1000, /* of one instruction */
    ABX_DF_MEMORY_MAX = 32 << 20
};

enum abx_df_kind {
    ABX_DF_FROM,
    ABX_DF_ARG,
    ABX_DF_ENV,
    ABX_DF_RUN,
    ABX_DF_COPY,
    ABX_DF_ADD,
    ABX_DF_WORKDIR,
    ABX_DF_USER,
    ABX_DF_EXPOSE,
    ABX_DF_LABEL,
    ABX_DF_CMD,
    ABX_DF_ENTRYPOINT,
    ABX_DF_SHELL,
    ABX_DF_HEALTHCHECK,
    ABX_DF__COUNT
};

struct abx_df_place {
    unsigned line, column; /* 1-based; 0: unknown */
    unsigned width;        /* bytes to underline, at least 1 */
};
struct abx_df_fault {
    struct abx_df_place at;
    char text[240];
};
struct abx_df_word {
    struct abx_str text; /* as written; without quotes and escapes in the exec form */
    struct abx_df_place at;
};
struct abx_df_instruction {
    enum abx_df_kind kind;
    struct abx_df_place at;    /* of the keyword */
    unsigned last_line;        /* of the instruction, here-documents included */
    struct abx_str text;       /* all after the keyword, continuation lines joined */
    struct abx_str command;    /* RUN, CMD, ENTRYPOINT, HEALTHCHECK: the shell form's text */
    struct abx_df_word *words; /* arguments; exec form: the array's strings. No flags */
    size_t word_count;
    struct abx_df_word *flags; /* "--chown=a:b" */
    size_t flag_count;
    bool is_exec; /* ["a", "b"] */
};
struct abx_dockerfile {
    struct abx_df_instruction *items;
    size_t count;
    char escape; /* '\' or '`' */
};

/** Reads @text, which must outlive @ret; all else lives in @a (ABX_DF_MEMORY_MAX is enough).
 *  0, or -1 with the first fault. Checks: at least one FROM, first but for ARG. */
int abx_dockerfile_parse(struct abx_str text, struct abx_arena *a, struct abx_dockerfile *ret,
                         struct abx_df_fault *fault);
const char *abx_df_kind_name(enum abx_df_kind kind); /* "FROM" */
/** The value of flag --@name, or a slice with ptr NULL. */
struct abx_str abx_df_flag(const struct abx_df_instruction *in, const char *name);

/* ---- steps ---- */

struct abx_df_variable {
    struct abx_str name, value;
};
struct abx_df_step {
    const char *type;           /* RUN, COPY, ENV, WORKDIR, USER */
    const struct abx_str *args; /* as control-plane.md 8.2 has them */
    size_t arg_count;
    struct abx_df_place at; /* line 0: made by the translation */
    unsigned last_line;
    const struct abx_df_instruction *from; /* NULL: made by the translation */
};
struct abx_df_plan {
    struct abx_str image;    /* of FROM, variables replaced */
    struct abx_str platform; /* its --platform; ptr NULL: none */
    struct abx_df_place image_at;
    struct abx_df_step *steps;
    size_t count;
    bool sets_user, sets_workdir;
};
struct abx_df_options {
    const struct abx_df_variable *build_args; /* values for ARG */
    size_t build_arg_count;
    const char *workdir; /* where the base image stands; NULL: "/" */
};
/** What FROM names, with ARG values replaced: all that is needed to choose options. */
int abx_dockerfile_base(const struct abx_dockerfile *df, const struct abx_df_options *o,
                        struct abx_arena *a, struct abx_df_plan *ret, struct abx_df_fault *fault);
/** The whole translation: user root and the base's folder first, then each instruction, at the end
 *  user `user` and /home/user unless the file set them. EXPOSE, LABEL, CMD, ENTRYPOINT and
 *  HEALTHCHECK make no step. */
int abx_dockerfile_plan(const struct abx_dockerfile *df, const struct abx_df_options *o,
                        struct abx_arena *a, struct abx_df_plan *ret, struct abx_df_fault *fault);
