/* guest/caps/compose.c: joins files into one (envd.md 3.6). The destination changes only when all
 * of it is written; then the sources go. Pool. */
#include "guest/caps/files_priv.h"

#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { COPY_BYTES = 256 * 1024, ID_BYTES = 16 };

struct abx_compose {
    struct abx_work work;
    abx_compose_fn *fn; /* NULL: cancelled */
    void *arg;
    struct abx_arena arena;
    char **sources;
    size_t count;
    char *destination;
    uid_t uid;
    gid_t gid;
    bool failed;
    struct abx_error err;
};

static int no_space_or(struct abx_compose *c, const char *what, const char *path)
{
    bool is_full = errno == ENOSPC || errno == EDQUOT;
    int errnum = errno;
    if (!is_full)
        return abx__file_error(&c->err, ABX_INTERNAL, what, path);
    abx_err_set(&c->err, ABX_RESOURCE_EXHAUSTED, "not enough disk space available");
    c->err.sys = errnum;
    return -1;
}

static int check_source(struct abx_compose *c, const char *path)
{
    struct stat st;
    if (strcmp(path, c->destination) == 0)
        return abx_err_set(&c->err, ABX_INVALID_ARGUMENT,
                           "source path \"%.150s\" cannot be the same as destination", path);
    if (stat(path, &st) < 0 && errno == ENOENT)
        return abx_err_set(&c->err, ABX_NOT_FOUND, "source file not found: %.150s", path);
    if (stat(path, &st) < 0)
        return abx__file_error(&c->err, ABX_INTERNAL, "error checking source: stat", path);
    if (!S_ISREG(st.st_mode))
        return abx_err_set(&c->err, ABX_INVALID_ARGUMENT,
                           "source path is not a regular file: %.150s", path);
    return 0;
}

static int append(struct abx_compose *c, int to, const char *path, char *bytes)
{
    ABX_AUTO_FD from = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (from < 0)
        return abx__file_error(&c->err, ABX_INTERNAL, "error opening source: open", path);
    for (;;) {
        ssize_t n = read(from, bytes, COPY_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return abx__file_error(&c->err, ABX_INTERNAL, "error reading source: read", path);
        if (n == 0)
            return 0;
        int rc = abx_fd_write_all(to, bytes, (size_t)n);
        if (rc < 0) {
            errno = -rc;
            return no_space_or(c, "error writing file: write", c->destination);
        }
    }
}

static int write_all(struct abx_compose *c, const char *temporary)
{
    ABX_AUTO_FREE char *bytes = malloc(COPY_BYTES);
    if (bytes == NULL)
        return abx_err_set(&c->err, ABX_RESOURCE_EXHAUSTED, "out of memory");
    ABX_AUTO_FD fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666 & ~022);
    if (fd < 0)
        return no_space_or(c, "error opening file: open", temporary);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < c->count; i++)
        rc = append(c, fd, c->sources[i], bytes);
    if (rc == 0 && fchown(fd, c->uid, c->gid) < 0)
        rc = abx__file_error(&c->err, ABX_INTERNAL, "error changing file ownership: chown",
                             temporary);
    if (rc == 0 && rename(temporary, c->destination) < 0)
        rc = abx__file_error(&c->err, ABX_INTERNAL, "error renaming", c->destination);
    if (rc < 0)
        unlink(temporary);
    return rc;
}

static int compose(struct abx_compose *c)
{
    struct stat st;
    char temporary[ABX_FILES_PATH + 64], id[2 * ID_BYTES + 1];
    unsigned char random[ID_BYTES];
    for (size_t i = 0; i < c->count; i++)
        if (check_source(c, c->sources[i]) < 0)
            return -1;
    if (stat(c->destination, &st) == 0 && S_ISDIR(st.st_mode))
        return abx_err_set(&c->err, ABX_INVALID_ARGUMENT, "path is a directory: %.150s",
                           c->destination);
    if (abx__make_parents(c->destination, c->uid, c->gid, &c->err) < 0)
        return -1;
    randombytes_buf(random, sizeof(random));
    sodium_bin2hex(id, sizeof(id), random, sizeof(random));
    snprintf(temporary, sizeof(temporary), "%s.e2b-compose.%s.tmp", c->destination, id);
    if (write_all(c, temporary) < 0)
        return -1;
    for (size_t i = 0; i < c->count; i++)
        unlink(c->sources[i]); /* one that two rows name is gone the second time */
    return 0;
}

static void on_run(struct abx_work *w)
{
    struct abx_compose *c = w->owner;
    c->failed = compose(c) < 0;
}

static void compose_free(struct abx_compose *c)
{
    abx_arena_done(&c->arena);
    free(c);
}

static void on_done(struct abx_work *w)
{
    struct abx_compose *c = w->owner;
    if (c->fn)
        c->fn(c->arg, c->failed ? &c->err : NULL);
    compose_free(c);
}

static int copy_arguments(struct abx_compose *c, const struct abx_compose_request *r)
{
    c->sources = abx_arena_array(&c->arena, r->count + 1, sizeof(*c->sources));
    c->destination = abx_arena_c(&c->arena, abx_str(r->destination));
    bool ok = c->sources && c->destination;
    for (size_t i = 0; ok && i < r->count; i++)
        ok = (c->sources[c->count++] = abx_arena_c(&c->arena, abx_str(r->sources[i]))) != NULL;
    return ok ? 0 : -1;
}

int abx_compose_start(struct abx_loop *l, const struct abx_compose_request *r,
                      struct abx_compose **ret, struct abx_error *err)
{
    struct abx_compose *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
    c->fn = r->fn;
    c->arg = r->arg;
    c->uid = r->user->uid;
    c->gid = r->user->gid;
    abx_arena_init(&c->arena, ABX__FILES_MEMORY);
    if (copy_arguments(c, r) < 0) {
        compose_free(c);
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
    }
    if (abx_work_start(&c->work, l, on_run, on_done, c, err) < 0) {
        compose_free(c);
        return -1;
    }
    *ret = c;
    return 0;
}

void abx_compose_cancel(struct abx_compose *c)
{
    if (c)
        c->fn = NULL;
}
