/* host/engine/blueprint_priv.h: what a sandbox is made of: an image, its commands, where it is
 * from.
 *
 * A ready build's row, an image's row and the state of an unfinished build hold one as JSON. */
#pragma once
#include "host/engine/engine_priv.h"
#include "host/engine/names_priv.h"
#include "host/image/image.h"
#include "lib/json/json.h"

enum {
    ABX__BLUEPRINT_JSON_MAX = 4 * 1024 * 1024,
    ABX__BASE_MAX = 192,
    ABX__COMMAND_MAX = 64 * 1024, /* a start or ready command */
    ABX__TOKEN_ENVS = 16,         /* variables of a policy that take a token */
    ABX__TOKEN_ENV_MAX = 64       /* bytes of the name of one */
};

struct abx__blueprint {
    char template_id[64]; /* "host", an image's name, or a template's id */
    char alias[ABX_STORE_NAME_MAX + 1];
    char build_id[ABX_STORE_BUILD_LEN + 1];
    struct abx_image *image; /* NULL: this machine's own folders */
    uint32_t cpu, memory_mb;
    char *start, *ready;      /* "" when there is none; never NULL in a decoded one */
    char base[ABX__BASE_MAX]; /* "base: stand-in for ..." */
    char envd_inject[8];      /* "true", "false", or "" when the builder did not say */
    bool proc_hidepid;        /* /proc of its sandboxes hides other users' processes (M18) */
    int64_t bytes;            /* of the imported layers, 0 when not known */
    char token_env[ABX__TOKEN_ENVS][ABX__TOKEN_ENV_MAX + 1];
    size_t token_env_count;
};
/** Zeroed but for empty commands. NULL without memory. */
struct abx__blueprint *abx__blueprint_new(void);
void abx__blueprint_free(struct abx__blueprint *bp);
void abx__blueprint_encode(const struct abx__blueprint *bp, struct abx_buf *out);
int abx__blueprint_decode(struct abx_str json, struct abx__blueprint **ret, struct abx_error *err);
/** NULL without memory. */
struct abx__blueprint *abx__blueprint_copy(const struct abx__blueprint *bp);
/** Replaces *field by a copy. */
int abx__blueprint_set(char **field, struct abx_str text, struct abx_error *err);

/** What a new sandbox of @text is made of: a template's ready build, an image, or "host". Errors:
 *  INVALID_ARGUMENT, PERMISSION_DENIED, NOT_FOUND with what to do. */
int abx__blueprint_find(struct abx__engine *e, struct abx_str text, struct abx__blueprint **ret,
                        struct abx_error *err);
/** The image @name of POST /abx/v1/images/NAME. */
int abx__blueprint_image(struct abx__engine *e, struct abx_str name, struct abx__blueprint **ret,
                         struct abx_error *err);
