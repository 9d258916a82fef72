/* host/runtime/shim/cgroups.c: PID 1 into its cgroups, without waiting for anybody (ABX_SHIM_JOIN).
 */
#include "host/runtime/shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

static int open_one(struct shim_start *st, const struct shim_op *op)
{
    char path[ABX_SHIM_TEXT_MAX + 16];
    if (mkdir(op->a, 0755) < 0 && errno != EEXIST)
        return -errno;
    if (!*op->b) {
        st->into_fd = open(op->a, O_PATH | O_DIRECTORY | O_CLOEXEC);
        return st->into_fd < 0 ? -errno : 0;
    }
    if (st->join_count == ABX_SHIM_JOINS_MAX)
        return -E2BIG;
    if (!sys_join(path, sizeof(path), (const char *[]){op->a, "/", op->b, NULL}))
        return -ENAMETOOLONG;
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    st->join_fds[st->join_count++] = fd;
    return 0;
}

int shim_cgroups_open(struct shim_start *st, struct shim_failure *f)
{
    struct shim_records records = shim_stage_records(st);
    struct shim_op op;
    size_t pos = 0;
    st->into_fd = -1;
    while (shim_op_next(&records, &pos, &op) > 0) {
        int r = op.kind == ABX_SHIM_JOIN ? open_one(st, &op) : 0;
        if (r < 0)
            return shim_fail(f, r, "join", op.a);
    }
    return 0;
}

/* The kernel judges by who opened the files: the shim. */
int shim_cgroups_enter(struct shim_start *st, struct shim_failure *f)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < st->join_count; i++)
        if (write(st->join_fds[i], "0", 1) != 1)
            r = shim_fail(f, -errno, "join", "a cgroup");
    shim_cgroups_close(st);
    return r;
}

void shim_cgroups_close(struct shim_start *st)
{
    while (st->join_count > 0)
        close(st->join_fds[--st->join_count]);
    if (st->into_fd >= 0)
        close(st->into_fd);
    st->into_fd = -1;
}
