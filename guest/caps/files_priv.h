/* guest/caps/files_priv.h: what the file operations share. All of it runs on a pool thread unless
 * it says otherwise. */
#pragma once
#include "guest/caps/files.h"
#include "lib/base/arena.h"

#include <sys/stat.h>

enum { ABX__FILES_MEMORY = 96 * 1024 * 1024 }; /* strings and entries of one operation */

struct abx__entries {
    struct abx_arena arena;
    struct abx_entry *list;
    size_t count, cap;
    struct abx_names *names; /* opened at the first entry */
};

/* One operation: arguments are copies, results are its own. */
struct abx_files_op {
    struct abx_work work;
    int (*run)(struct abx_files_op *op);
    abx_entries_fn *fn; /* NULL: cancelled */
    void *arg;
    char path[ABX_FILES_PATH], destination[ABX_FILES_PATH];
    uint32_t depth;
    uid_t uid;
    gid_t gid;
    struct abx__entries out;
    struct abx_error err;
    bool failed;
};

/* "no such file or directory": a system error as Go words it. */
const char *abx__errno_text(int errnum, char out[96]);
/* err = code "what: operation path: errno text". Returns -1. */
int abx__file_error(struct abx_error *err, enum abx_code code, const char *what, const char *path);
/* envd.md 3.2: makes the missing directories above @path, mode 0755, each owned by uid:gid. */
int abx__make_parents(const char *path, uid_t uid, gid_t gid, struct abx_error *err);
/* Appends the entry of @path, from lstat. -errno when it can not be had, else 0. */
int abx__entry_add(struct abx__entries *out, const char *path);
void abx__entries_done(struct abx__entries *out);

/* The metadata of @path into @e, strings in @a; without memory or support: none. */
void abx__metadata_read(const char *path, struct abx_arena *a, struct abx_entry *e);
/* Makes @meta the whole of the file's metadata: 0 (also where that is not supported) or -errno. */
int abx__metadata_replace(int fd, const struct abx_meta *meta, size_t count);

int abx__list_run(struct abx_files_op *op); /* list.c */
