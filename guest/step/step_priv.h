/* guest/step/step_priv.h: one order, and what its parts share. */
#pragma once
#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/contract/step.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum {
    ABX__STEP_LIST_MAX = 4096, /* arguments; variables */
    ABX__STEP_PATH = 4096,
    ABX__STEP_NAME = 256,
    ABX__STEP_GROUPS = 64
};

struct abx__step {
    int line_fd, root_fd;
    const char *root; /* "" or a folder */
    uint32_t verb;
    char *texts;
    const char *argv[ABX__STEP_LIST_MAX + 1], *env[ABX__STEP_LIST_MAX + 1];
    size_t argc, envc;
    /* "" when the order has none */
    const char *user, *workdir, *source, *dest, *owner, *mode, *name, *sudo;
};

/* ---- the line ---- */
/** Exactly @len bytes; -EPIPE at the end of the line. */
int abx__step_read(const struct abx__step *s, void *data, size_t len);
int abx__step_send(const struct abx__step *s, enum abx_step_frame_type type, const void *data,
                   size_t len);

/* ---- accounts and paths ---- */
struct abx__identity {
    uid_t uid;
    gid_t gid;
    gid_t groups[ABX__STEP_GROUPS];
    size_t group_count;
    char name[ABX__STEP_NAME], home[ABX__STEP_PATH];
};
/** "name", "name:group", or ids; a number need not be in passwd. NOT_FOUND. */
int abx__step_identity(const struct abx__step *s, const char *text, struct abx__identity *ret,
                       struct abx_error *err);
/** @path below @base when relative, without "." and "..": absolute. -1 when it is too long. */
int abx__step_clean(const char *base, const char *path, char ret[ABX__STEP_PATH]);
/** Opens (O_PATH) what @path is inside the root, links followed there. -errno. */
int abx__step_open(const struct abx__step *s, const char *path, uint64_t flags);
struct abx__owner {
    uid_t uid;
    gid_t gid;
};
/** mkdir -p inside the root: a descriptor (O_PATH) of the folder. New ones belong to @owner. */
int abx__step_make_dirs(const struct abx__step *s, const char *path,
                        const struct abx__owner *owner);

/* ---- the orders ---- */
/** Runs the command to its end and sends its output. */
int abx__step_run(const struct abx__step *s, struct abx_step_exit *ret, struct abx_error *err);
int abx__step_copy(const struct abx__step *s, struct abx_error *err);
int abx__step_workdir(const struct abx__step *s, struct abx_error *err);
int abx__step_user(const struct abx__step *s, struct abx_error *err);
