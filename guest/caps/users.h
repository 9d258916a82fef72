/* guest/caps/users.h: who exists in this sandbox, read from /etc/passwd and /etc/group.
 *
 * No NSS (the guest is static). Files are read anew for each look-up, since commands in the sandbox
 * change them. Hostile content is expected: sizes, fields and group counts are capped, bad lines
 * are skipped. Any thread. */
#pragma once
#include "lib/base/err.h"
#include "lib/base/str.h"

#include <sys/types.h>

enum {
    ABX_NAME_BYTES = 256,  /* bytes of a name with its terminator */
    ABX_NAME_GROUPS = 256, /* supplementary groups kept */
};

struct abx_user {
    char name[ABX_NAME_BYTES];
    uid_t uid;
    gid_t gid;
    char *home;    /* "/" when the line has none */
    char *shell;   /* "/bin/sh" when the line has none */
    gid_t *groups; /* the primary group first */
    size_t group_count;
};

/** Finds @name below @root ("" for the live system; a directory for tests and images).
 *  On success the caller owns *ret: abx_user_done(). NOT_FOUND "user: unknown user x". Where
 *  there is no /etc/passwd at all, root and user are the ids that we run as, at home in "/". */
int abx_user_by_name(const char *root, struct abx_str name, struct abx_user *ret,
                     struct abx_error *err);
/** NOT_FOUND "user: unknown userid 7". */
int abx_user_by_uid(const char *root, uid_t uid, struct abx_user *ret, struct abx_error *err);
/** Deep copy. RESOURCE_EXHAUSTED. */
int abx_user_copy(const struct abx_user *u, struct abx_user *ret, struct abx_error *err);
/** Accepts a zeroed user. */
void abx_user_done(struct abx_user *u);

/* Names of many ids at once (a listing): both files are read once, at open. */
struct abx_names;
/** Reads both files below @root; missing ones count as empty. NULL without memory. */
struct abx_names *abx_names_open(const char *root);
void abx_names_close(struct abx_names *n);
/** The name, or the decimal id, in @out. @out is returned. */
const char *abx_names_user(const struct abx_names *n, uid_t uid, char out[ABX_NAME_BYTES]);
const char *abx_names_group(const struct abx_names *n, gid_t gid, char out[ABX_NAME_BYTES]);
