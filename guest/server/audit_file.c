/* guest/server/audit_file.c: the audit in a file (audit_file.h). Lines are short and go to the page
 * cache, so they are written from the loop. */
#include "guest/server/audit_file.h"

#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { KEEP_MAX = 100, NUMBER_TEXT = 24 };

struct abx__audit_file {
    int fd;
    char *path;
    uint64_t size, max_bytes, keep;
};

/* -errno; -EBUSY: it is no regular file, or others may write it. */
static int open_file(const char *path, uint64_t *ret_size)
{
    struct stat st;
    ABX_AUTO_FD fd = open(
        path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || st.st_nlink != 1 || (st.st_mode & 022))
        return -EBUSY;
    *ret_size = (uint64_t)st.st_size;
    return abx_fd_take(&fd);
}

int abx__audit_file_open(const struct abx__audit_file_spec *spec, struct abx__audit_file **ret,
                         struct abx_error *err)
{
    struct abx__audit_file *f = calloc(1, sizeof(*f));
    char *path = f ? abx_str_dup(spec->path) : NULL;
    if (path == NULL) {
        free(f);
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "audit: out of memory");
    }
    f->path = path;
    f->max_bytes = spec->max_bytes;
    f->keep = spec->keep < KEEP_MAX ? spec->keep : KEEP_MAX;
    f->fd = open_file(path, &f->size);
    if (f->fd >= 0) {
        *ret = f;
        return 0;
    }
    int rc = f->fd;
    rc = rc == -EBUSY
             ? abx_err_set(err, ABX_FAILED_PRECONDITION,
                           "audit file %s: must be a regular file with one name that nobody else "
                           "may write",
                           path)
             : abx_err_sys(err, rc, "audit file %s", path);
    abx__audit_file_close(f);
    return rc;
}

bool abx__audit_file_reopen(struct abx__audit_file *f)
{
    uint64_t size;
    int fd = open_file(f->path, &size);
    if (fd < 0)
        return false;
    abx_fd_close(&f->fd);
    f->fd = fd;
    f->size = size;
    return true;
}

/* PATH.N-1 becomes PATH.N, PATH becomes PATH.1; what is beyond goes. */
static bool rotate(struct abx__audit_file *f)
{
    char from[PATH_MAX], to[PATH_MAX];
    if (strlen(f->path) + NUMBER_TEXT >= PATH_MAX)
        return false;
    if (f->keep == 0)
        return unlink(f->path) == 0 && abx__audit_file_reopen(f);
    for (uint64_t n = f->keep; n > 0; n--) {
        snprintf(to, sizeof(to), "%s.%llu", f->path, (unsigned long long)n);
        if (n > 1)
            snprintf(from, sizeof(from), "%s.%llu", f->path, (unsigned long long)(n - 1));
        else
            snprintf(from, sizeof(from), "%s", f->path);
        if (rename(from, to) < 0 && (errno != ENOENT || n == 1))
            return false;
    }
    return abx__audit_file_reopen(f);
}

bool abx__audit_file_write(struct abx__audit_file *f, struct abx_str line)
{
    if (f->size > 0 && f->max_bytes > 0 && f->size + line.len > f->max_bytes && !rotate(f) &&
        f->size > 2 * f->max_bytes)
        return false; /* the folder does not let it be moved: a bound all the same */
    ssize_t n = write(f->fd, line.ptr, line.len);
    if (n > 0)
        f->size += (uint64_t)n;
    return n == (ssize_t)line.len;
}

void abx__audit_file_close(struct abx__audit_file *f)
{
    if (f == NULL)
        return;
    abx_fd_close(&f->fd);
    free(f->path);
    free(f);
}
