/* guest/caps/files.c: operations that give entries: stat, list, mkdir, move, remove (envd.md 6.3).
 *
 * The loop side copies arguments into an op, a pool thread runs it, the loop side calls back. */
#include "guest/caps/files_priv.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/banned.h"

const char *abx__errno_text(int errnum, char out[96])
{
    char buf[96];
    const char *text = strerror_r(errnum, buf, sizeof(buf));
    snprintf(out, 96, "%s", text);
    out[0] = (char)tolower((unsigned char)out[0]);
    return out;
}

int abx__file_error(struct abx_error *err, enum abx_code code, const char *what, const char *path)
{
    int errnum = errno;
    char text[96];
    abx_err_set(err, code, "%s %.150s: %s", what, path, abx__errno_text(errnum, text));
    if (err)
        err->sys = errnum;
    return -1;
}

/* --- on the pool --- */

static int make_dir(const char *path, uid_t uid, gid_t gid, struct abx_error *err)
{
    struct stat st;
    if (mkdir(path, 0755) == 0) {
        if (lchown(path, uid, gid) < 0)
            return abx__file_error(err, ABX_INTERNAL, "error ensuring directories: chown", path);
        return 0;
    }
    if (errno == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return 0; /* somebody was quicker */
    if (errno == ENOSPC || errno == EDQUOT)
        return abx__file_error(err, ABX_RESOURCE_EXHAUSTED, "not enough inodes available: mkdir",
                               path);
    return abx__file_error(err, ABX_INTERNAL, "error ensuring directories: mkdir", path);
}

int abx__make_parents(const char *path, uid_t uid, gid_t gid, struct abx_error *err)
{
    char part[ABX_FILES_PATH];
    struct stat st;
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        if (slash[-1] == '/')
            continue;
        size_t len = (size_t)(slash - path);
        memcpy(part, path, len);
        part[len] = '\0';
        if (stat(part, &st) == 0) {
            if (S_ISDIR(st.st_mode))
                continue;
            return abx_err_set(err, ABX_INTERNAL,
                               "error ensuring directories: path is a file: %.150s", part);
        }
        if (errno != ENOENT)
            return abx__file_error(err, ABX_INTERNAL, "error ensuring directories: stat", part);
        if (make_dir(part, uid, gid, err) < 0)
            return -1;
    }
    return 0;
}

static int add_entry(struct abx_files_op *op, const char *path)
{
    int rc = abx__entry_add(&op->out, path);
    if (rc == 0)
        return 0;
    errno = -rc;
    if (rc == -ENOENT)
        return abx__file_error(&op->err, ABX_NOT_FOUND, "file not found: lstat", path);
    return abx__file_error(&op->err, rc == -ENOMEM ? ABX_RESOURCE_EXHAUSTED : ABX_INTERNAL,
                           "error getting file info: lstat", path);
}

static int run_stat(struct abx_files_op *op)
{
    return add_entry(op, op->path);
}

static int run_mkdir(struct abx_files_op *op)
{
    struct stat st;
    if (stat(op->path, &st) == 0) {
        if (S_ISDIR(st.st_mode))
            return abx_err_set(&op->err, ABX_ALREADY_EXISTS, "directory already exists: %.150s",
                               op->path);
        return abx_err_set(&op->err, ABX_INVALID_ARGUMENT,
                           "path already exists but it is not a directory: %.150s", op->path);
    }
    if (errno != ENOENT && errno != ENOTDIR)
        return abx__file_error(&op->err, ABX_INTERNAL, "error getting file info: stat", op->path);
    char whole[ABX_FILES_PATH + 1];
    size_t len = strlen(op->path);
    while (len > 1 && op->path[len - 1] == '/')
        len--;
    memcpy(whole, op->path, len);
    whole[len] = '/'; /* so that the last part counts as a parent */
    whole[len + 1] = '\0';
    if (abx__make_parents(whole, op->uid, op->gid, &op->err) < 0)
        return -1;
    return add_entry(op, op->path);
}

static int run_move(struct abx_files_op *op)
{
    struct stat st;
    if (lstat(op->path, &st) < 0 && errno == ENOENT)
        return abx__file_error(&op->err, ABX_NOT_FOUND, "source file not found: lstat", op->path);
    if (abx__make_parents(op->destination, op->uid, op->gid, &op->err) < 0)
        return -1;
    if (rename(op->path, op->destination) < 0) {
        if (errno == ENOENT)
            return abx__file_error(&op->err, ABX_NOT_FOUND, "source file not found: rename",
                                   op->path);
        char text[96];
        int errnum = errno;
        return abx_err_set(&op->err, ABX_INTERNAL, "error renaming: rename %.90s %.90s: %s",
                           op->path, op->destination, abx__errno_text(errnum, text));
    }
    return add_entry(op, op->destination);
}

static int run_remove(struct abx_files_op *op)
{
    int rc = abx_fd_remove_tree(AT_FDCWD, op->path);
    if (rc >= 0 || rc == -ENOENT)
        return 0;
    errno = -rc;
    return abx__file_error(&op->err, ABX_INTERNAL, "error removing file or directory: unlink",
                           op->path);
}

/* --- on the loop --- */

static void op_free(struct abx_files_op *op)
{
    abx__entries_done(&op->out);
    free(op);
}

static void on_run(struct abx_work *w)
{
    struct abx_files_op *op = w->owner;
    op->failed = op->run(op) < 0;
}

static void on_done(struct abx_work *w)
{
    struct abx_files_op *op = w->owner;
    abx_entries_fn *fn = op->fn;
    if (fn && op->failed)
        fn(op->arg, NULL, 0, &op->err);
    else if (fn)
        fn(op->arg, op->out.list, op->out.count, NULL);
    op_free(op);
}

static int (*const runs[])(struct abx_files_op *op) = {
    [ABX_FILES_STAT] = run_stat, [ABX_FILES_LIST] = abx__list_run, [ABX_FILES_MKDIR] = run_mkdir,
    [ABX_FILES_MOVE] = run_move, [ABX_FILES_REMOVE] = run_remove,
};
_Static_assert(ABX_COUNTOF(runs) == ABX_FILES__COUNT, "one function per verb");

int abx_files_start(struct abx_loop *l, const struct abx_files_request *r,
                    struct abx_files_op **ret, struct abx_error *err)
{
    struct abx_files_op *op = calloc(1, sizeof(*op));
    if (op == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "%.150s: out of memory", r->path);
    op->run = runs[r->verb];
    op->fn = r->fn;
    op->arg = r->arg;
    op->depth = r->depth;
    op->uid = r->user ? r->user->uid : 0;
    op->gid = r->user ? r->user->gid : 0;
    abx_arena_init(&op->out.arena, ABX__FILES_MEMORY);
    struct abx_str destination = abx_str(r->destination ? r->destination : "");
    if (abx_str_to_c(abx_str(r->path), op->path, sizeof(op->path)) < 0 ||
        abx_str_to_c(destination, op->destination, sizeof(op->destination)) < 0) {
        free(op);
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "path is too long: at most %d bytes fit",
                           ABX_FILES_PATH - 1);
    }
    if (abx_work_start(&op->work, l, on_run, on_done, op, err) < 0) {
        free(op);
        return -1;
    }
    if (ret)
        *ret = op;
    return 0;
}

void abx_files_cancel(struct abx_files_op *op)
{
    if (op)
        op->fn = NULL;
}
