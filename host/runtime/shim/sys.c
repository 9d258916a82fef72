/* host/runtime/shim/sys.c: system calls that musl does not wrap, and small leaves. -errno. */
#include "host/runtime/shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum {
    SYS_OPEN_TREE = 428, /* numbers of x86-64; musl 1.2.3 lacks some names */
    SYS_MOVE_MOUNT = 429,
    SYS_OPENAT2 = 437,
    SYS_MOUNT_SETATTR = 442,
    SYS_PIDFD_SEND_SIGNAL = 424,
    MOVE_MOUNT_F_EMPTY = 0x4,
    MOVE_MOUNT_T_EMPTY = 0x40,
    RESOLVE_NO_MAGIC = 0x02,
    RESOLVE_ROOT = 0x10,
    CAP_VERSION_3 = 0x20080522
};

struct mount_attr_v0 {
    uint64_t attr_set, attr_clr, propagation, userns_fd;
};
struct open_how_v0 {
    uint64_t flags, mode, resolve;
};
static const uint64_t ATTR_IDMAP = 0x00100000;
static const uint64_t PROPAGATION_PRIVATE = 1u << 18;

void sys_number(char out[12], uint32_t value)
{
    char digits[12];
    size_t n = 0, i = 0;
    do
        digits[n++] = (char)('0' + value % 10);
    while ((value /= 10) > 0);
    while (n > 0)
        out[i++] = digits[--n];
    out[i] = 0;
}

bool sys_join(char *out, size_t cap, const char *const *parts)
{
    size_t len = 0;
    for (; *parts != NULL; parts++) {
        size_t n = strlen(*parts);
        if (n >= cap - len)
            return false;
        memcpy(out + len, *parts, n);
        len += n;
        out[len] = 0;
    }
    return true;
}

static int result(long r)
{
    return r < 0 ? -errno : (int)r;
}

int sys_open_tree(int dir, const char *path, unsigned flags)
{
    return result(syscall(SYS_OPEN_TREE, dir, path, flags));
}

int sys_move_mount(int from, int to)
{
    return result(
        syscall(SYS_MOVE_MOUNT, from, "", to, "", MOVE_MOUNT_F_EMPTY | MOVE_MOUNT_T_EMPTY));
}

int sys_mount_attr(int fd, const char *path, unsigned flags, uint64_t set, int userns_fd)
{
    struct mount_attr_v0 attr = {.attr_set = set, .propagation = PROPAGATION_PRIVATE};
    if (userns_fd >= 0) {
        attr.attr_set |= ATTR_IDMAP;
        attr.userns_fd = (uint64_t)userns_fd;
    }
    return result(syscall(SYS_MOUNT_SETATTR, fd, path, flags, &attr, sizeof(attr)));
}

int sys_open_in_root(int root, const char *path, uint64_t flags)
{
    struct open_how_v0 how = {.flags = flags | O_CLOEXEC,
                              .resolve = RESOLVE_ROOT | RESOLVE_NO_MAGIC};
    return result(syscall(SYS_OPENAT2, root, path, &how, sizeof(how)));
}

int sys_pivot_root(void)
{
    return result(syscall(SYS_pivot_root, ".", "."));
}

int sys_pidfd_signal(int pidfd, int signum)
{
    return result(syscall(SYS_PIDFD_SEND_SIGNAL, pidfd, signum, NULL, 0));
}

int sys_write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t n = write(fd, text, strlen(text));
    int r = n < 0 ? -errno : 0;
    close(fd);
    return r;
}

int sys_set_caps(uint64_t permitted)
{
    struct {
        uint32_t version;
        int pid;
    } head = {CAP_VERSION_3, 0};
    struct {
        uint32_t effective, permitted, inheritable;
    } data[2] = {{(uint32_t)permitted, (uint32_t)permitted, 0},
                 {(uint32_t)(permitted >> 32), (uint32_t)(permitted >> 32), 0}};
    return result(syscall(SYS_capset, &head, data));
}

void sys_proc_path(char out[64], pid_t pid, const char *name)
{
    char number[12];
    sys_number(number, (uint32_t)pid);
    (void)sys_join(out, 64, (const char *[]){"/proc/", number, "/", name, NULL});
}

int shim_fail(struct shim_failure *f, int neg_errno, const char *step, const char *a)
{
    f->error = -neg_errno;
    if (!sys_join(f->step, sizeof(f->step), (const char *[]){step, *a ? " " : "", a, NULL}))
        (void)sys_join(f->step, sizeof(f->step), (const char *[]){step, NULL});
    return neg_errno;
}

/* A text of @len bytes with its NUL at *p, "" for none; NULL when it is not one. */
static const char *take_text(const unsigned char **p, size_t *left, size_t len)
{
    if (len == 0)
        return "";
    if (len > *left || len > ABX_SHIM_TEXT_MAX || (*p)[len - 1] != 0 ||
        memchr(*p, 0, len) != *p + len - 1)
        return NULL;
    const char *text = (const char *)*p;
    *p += len;
    *left -= len;
    return text;
}

int shim_op_next(const struct shim_records *r, size_t *pos, struct shim_op *ret)
{
    size_t left = r->len - *pos;
    if (left == 0)
        return 0;
    struct abx_shim_op op;
    if (left < sizeof(op))
        return -EINVAL;
    const unsigned char *p = r->bytes + *pos;
    memcpy(&op, p, sizeof(op));
    p += sizeof(op);
    left -= sizeof(op);
    ret->a = take_text(&p, &left, op.a_len);
    if (ret->a == NULL)
        return -EINVAL;
    ret->b = take_text(&p, &left, op.b_len);
    if (ret->b == NULL || op.kind >= ABX_SHIM_OP__COUNT)
        return -EINVAL;
    ret->kind = (enum abx_shim_op_kind)op.kind;
    ret->flags = op.flags;
    ret->mode = op.mode;
    *pos = (size_t)(p - r->bytes);
    return 1;
}
