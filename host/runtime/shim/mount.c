/* host/runtime/shim/mount.c: the sandbox's file system, made by PID 1 in its own mount namespace
 * before its exec (security S50, S51, S52, S54).
 *
 * A scratch tmpfs on /tmp of the private namespace carries the stage, the detached trees and the
 * new root; what is not moved from the stage goes away with the old root. */
#include "host/runtime/shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum {
    TREE_CLONE = 1,
    EMPTY_PATH = 0x1000,
    RECURSIVE = 0x8000,
    MOUNTINFO_MAX = 256 * 1024,
    OPTIONS_MAX = 3072
};
static const char scratch[] = "/tmp";
static const unsigned long QUIET = MS_NOSUID | MS_NODEV | MS_NOEXEC;

static int neg(int r)
{
    return r < 0 ? -errno : 0;
}

static void fd_path(char out[64], int fd)
{
    char number[12];
    sys_number(number, (uint32_t)fd);
    (void)sys_join(out, 64, (const char *[]){"/proc/self/fd/", number, NULL});
}

static uint64_t attributes(unsigned flags)
{
    /* MOUNT_ATTR_* have the values of the first MS_* */
    uint64_t set = 0;
    static const struct {
        unsigned flag;
        uint64_t attr;
    } map[] = {{ABX_SHIM_RO, 1}, {ABX_SHIM_NOSUID, 2}, {ABX_SHIM_NODEV, 4}, {ABX_SHIM_NOEXEC, 8}};
    for (size_t i = 0; i < sizeof(map) / sizeof(map[0]); i++)
        if (flags & map[i].flag)
            set |= map[i].attr;
    return set;
}

static unsigned long legacy_flags(unsigned flags)
{
    return (unsigned long)attributes(flags);
}

/* Clones (@dir, @path) and puts it on the open target. */
static int bind_on(int dir, const char *path, int target, unsigned flags)
{
    unsigned how = O_CLOEXEC | TREE_CLONE | EMPTY_PATH;
    unsigned rec = flags & ABX_SHIM_RECURSIVE ? RECURSIVE : 0;
    int tree = sys_open_tree(dir, path, how | rec);
    if (tree < 0)
        return tree;
    int r = sys_mount_attr(tree, "", EMPTY_PATH | rec, attributes(flags), -1);
    if (r >= 0)
        r = sys_move_mount(tree, target);
    close(tree);
    return r < 0 ? r : 0;
}

static int fd_mount(int target, const char *type, unsigned long flags, const char *options)
{
    char path[64];
    fd_path(path, target);
    return neg(mount("abx", path, type, flags, options));
}

static int mask(int target)
{
    struct stat st;
    if (fstat(target, &st) < 0)
        return -errno;
    if (S_ISDIR(st.st_mode))
        return fd_mount(target, "tmpfs", QUIET | MS_RDONLY, "size=4k,nr_inodes=2,mode=0555");
    return bind_on(AT_FDCWD, "/dev/null", target, ABX_SHIM_NOSUID | ABX_SHIM_NOEXEC | ABX_SHIM_RO);
}

/* Read-only in place. Without open_tree(): the sandbox may have no mount namespaces left. */
static int seal(int root, const char *a, int target)
{
    char path[64];
    fd_path(path, target);
    if (mount(path, path, NULL, MS_BIND | MS_REC, NULL) < 0)
        return -errno;
    int top = sys_open_in_root(root, a, O_PATH); /* what is mounted there now */
    if (top < 0)
        return top;
    int r = sys_mount_attr(
        top, "", EMPTY_PATH | RECURSIVE,
        attributes(ABX_SHIM_RO | ABX_SHIM_NOSUID | ABX_SHIM_NODEV | ABX_SHIM_NOEXEC), -1);
    close(top);
    return r;
}

static int write_text(int root, const struct shim_op *op)
{
    int fd = sys_open_in_root(root, op->a, O_WRONLY | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return fd;
    int r = write(fd, op->b, strlen(op->b)) < 0 ? -errno : 0;
    close(fd);
    return r;
}

/* An own sysfs; or, where the kernel refuses one (this machine's is hidden in part, or not
 * mounted), a read-only folder that shows the processors only. */
static int sysfs(int root, const char *a, int target)
{
    static const char *const dirs[] = {"devices", "devices/system", "devices/system/cpu"};
    int r = fd_mount(target, "sysfs", QUIET | MS_RDONLY, NULL);
    if (r != -EPERM)
        return r;
    r = fd_mount(target, "tmpfs", QUIET, "size=16k,nr_inodes=8,mode=0755");
    int top = r < 0 ? r : sys_open_in_root(root, a, O_PATH);
    if (top < 0)
        return top;
    for (size_t i = 0; r == 0 && i < sizeof(dirs) / sizeof(dirs[0]); i++)
        r = neg(mkdirat(top, dirs[i], 0755));
    int cpu = r < 0 ? r : sys_open_in_root(top, dirs[2], O_PATH);
    if (cpu >= 0) {
        r = bind_on(AT_FDCWD, "/sys/devices/system/cpu", cpu,
                    ABX_SHIM_RO | ABX_SHIM_NOSUID | ABX_SHIM_NODEV | ABX_SHIM_NOEXEC);
        close(cpu);
        r = r == -ENOENT ? 0 : r;
    }
    if (r == 0)
        r = sys_mount_attr(top, "", EMPTY_PATH, attributes(ABX_SHIM_RO), -1);
    close(top);
    return r;
}

/* A random UUID on the scratch tmpfs, bound read-only over the target (S54). */
static int boot_id(int target)
{
    unsigned char b[16];
    if (getrandom(b, sizeof(b), 0) != (ssize_t)sizeof(b))
        return -EIO;
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x40); /* RFC 9562 version 4 */
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
    static const char digits[] = "0123456789abcdef";
    char text[37];
    size_t n = 0;
    for (size_t i = 0; i < sizeof(b); i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            text[n++] = '-';
        text[n++] = digits[b[i] >> 4];
        text[n++] = digits[b[i] & 15];
    }
    text[n++] = '\n';
    int fd = open("/tmp/boot_id", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    if (fd < 0)
        return -errno;
    int r = write(fd, text, n) == (ssize_t)n ? 0 : -EIO;
    close(fd);
    return r < 0 ? r
                 : bind_on(AT_FDCWD, "/tmp/boot_id", target,
                           ABX_SHIM_RO | ABX_SHIM_NOSUID | ABX_SHIM_NODEV | ABX_SHIM_NOEXEC);
}

/* Splits "dir/name" into a descriptor of dir (inside the root) and the name. */
static int open_parent(int root, const char *path, const char **ret_name)
{
    char dir[ABX_SHIM_TEXT_MAX];
    const char *slash = strrchr(path, '/');
    if (slash == NULL || slash[1] == 0)
        return -EINVAL;
    *ret_name = slash + 1;
    size_t len = (size_t)(slash - path) + 1;
    memcpy(dir, path, len); /* a text of a record: shorter than dir */
    dir[len] = 0;
    return sys_open_in_root(root, dir, O_PATH | O_DIRECTORY);
}

static int make_node(int root, const struct shim_op *op)
{
    const char *name;
    int dir = open_parent(root, op->a, &name);
    if (dir < 0)
        return dir;
    int r = 0;
    if (op->kind == ABX_SHIM_DIR) {
        r = neg(mkdirat(dir, name, op->mode));
    } else if (op->kind == ABX_SHIM_LINK) {
        r = neg(symlinkat(op->b, dir, name));
    } else {
        int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, op->mode);
        r = neg(fd);
        if (fd >= 0)
            close(fd);
    }
    close(dir);
    return r == -EEXIST ? 0 : r;
}

/* From the stage, with all that is mounted below it. */
static int move_staged(const struct shim_start *st, const char *path, int target)
{
    int from = sys_open_in_root(st->stage_fd, path, O_PATH);
    if (from < 0)
        return from;
    int r = sys_move_mount(from, target);
    close(from);
    return r;
}

/* Operations on an existing target. */
static int on_target(const struct shim_start *st, int root, const struct shim_op *op, int t)
{
    switch (op->kind) {
    case ABX_SHIM_MOVE:
        return move_staged(st, op->a, t);
    case ABX_SHIM_BIND:
        return bind_on(AT_FDCWD, op->b, t, op->flags);
    case ABX_SHIM_BIND_EXTRA:
        if (!st->has_extra)
            return -EBADF;
        return sys_move_mount(st->tree_fds[SHIM_TREE_EXTRA], t);
    case ABX_SHIM_TMPFS:
        return fd_mount(t, "tmpfs", legacy_flags(op->flags), op->b);
    case ABX_SHIM_PROC:
        return fd_mount(t, "proc", QUIET, NULL);
    case ABX_SHIM_HIDE_PIDS:
        return fd_mount(t, NULL, QUIET | MS_REMOUNT, "hidepid=invisible");
    case ABX_SHIM_SYSFS:
        return sysfs(root, op->a, t);
    case ABX_SHIM_DEVPTS:
        return fd_mount(t, "devpts", MS_NOSUID | MS_NOEXEC, op->b);
    case ABX_SHIM_MASK:
        return mask(t);
    case ABX_SHIM_READONLY:
        return seal(root, op->a, t);
    case ABX_SHIM_BOOT_ID:
        return boot_id(t);
    default:
        return -EINVAL;
    }
}

int shim_mount_op(const struct shim_start *st, int root, const struct shim_op *op)
{
    if (op->kind == ABX_SHIM_DIR || op->kind == ABX_SHIM_FILE || op->kind == ABX_SHIM_LINK)
        return make_node(root, op);
    int r;
    if (op->kind == ABX_SHIM_WRITE) {
        r = write_text(root, op);
    } else {
        r = sys_open_in_root(root, op->a, O_PATH);
        if (r >= 0) {
            int target = r;
            r = on_target(st, root, op, target);
            close(target);
        }
    }
    return r == -ENOENT && (op->flags & ABX_SHIM_OPTIONAL) ? 0 : r;
}

static int place_tree(int tree, const char *path)
{
    if (mkdir(path, 0700) < 0)
        return -errno;
    int at = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (at < 0)
        return -errno;
    int r = sys_move_mount(tree, at);
    close(at);
    return r;
}

/* The layers at /tmp/lN; @text becomes the overlay's option that names them. */
static int place_layers(const struct shim_start *st, char text[OPTIONS_MAX])
{
    size_t len = 0;
    for (uint32_t i = 0; i < st->lower_count; i++) {
        char path[32], number[12];
        sys_number(number, i);
        (void)sys_join(path, sizeof(path), (const char *[]){"/tmp/l", number, NULL});
        int r = place_tree(st->tree_fds[SHIM_TREE_LOWER0 + i], path);
        if (r < 0)
            return r;
        const char *before = i == 0 ? "lowerdir=" : ":";
        if (!sys_join(text + len, OPTIONS_MAX - len, (const char *[]){before, path, NULL}))
            return -ENAMETOOLONG;
        len += strlen(text + len);
    }
    return 0;
}

int shim_mount_stage(int *ret_stage)
{
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return -errno;
    if (mount("abx", scratch, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,nr_inodes=256,mode=0700") < 0)
        return -errno;
    if (mkdir("/tmp/stage", 0700) < 0)
        return -errno;
    *ret_stage = open("/tmp/stage", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return *ret_stage < 0 ? -errno : 0;
}

int shim_mount_root(const struct shim_start *st, const char *options, int *ret_root)
{
    char text[OPTIONS_MAX];
    int r = place_tree(st->tree_fds[SHIM_TREE_FS], "/tmp/fs");
    if (r == 0)
        r = place_layers(st, text);
    if (r < 0)
        return r;
    static const char own[] = ",upperdir=/tmp/fs/upper,workdir=/tmp/fs/work,";
    size_t len = strlen(text);
    if (!sys_join(text + len, sizeof(text) - len, (const char *[]){own, options, NULL}))
        return -ENAMETOOLONG;
    if (mkdir("/tmp/root", 0700) < 0 || mount("abx", "/tmp/root", "overlay", MS_NODEV, text) < 0)
        return -errno;
    struct statvfs vfs;
    if (statvfs("/tmp/root", &vfs) < 0)
        return -errno;
    if (vfs.f_flag & ST_RDONLY) /* overlayfs falls back silently (M25) */
        return -EROFS;
    *ret_root = open("/tmp/root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return *ret_root < 0 ? -errno : 0;
}

/* Whether @path (a mount point of mountinfo) is the target, or lies below the target, of one of
 * the records that mount. */
static bool is_expected(struct shim_records records, const char *path, size_t len)
{
    if (len == 1)
        return true;
    struct shim_op op;
    size_t pos = 0;
    while (shim_op_next(&records, &pos, &op) > 0) {
        size_t n = strlen(op.a);
        if (op.kind >= ABX_SHIM_MOVE && op.kind <= ABX_SHIM_BOOT_ID && n > 0 && n <= len &&
            memcmp(op.a, path, n) == 0 && (len == n || path[n] == '/'))
            return true;
    }
    return false;
}

/* Field 5 of each line of mountinfo is a mount point; none may be a stranger. */
static int check_mountinfo(struct shim_records records)
{
    static char text[MOUNTINFO_MAX];
    int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    size_t len = 0;
    ssize_t n;
    while (len < sizeof(text) && (n = read(fd, text + len, sizeof(text) - len)) > 0)
        len += (size_t)n;
    close(fd);
    if (len == sizeof(text))
        return -EFBIG;
    for (char *p = text, *end = text + len; p < end;) {
        char *line_end = memchr(p, '\n', (size_t)(end - p));
        for (int field = 1; field < 5 && p < end; field++)
            p = (char *)memchr(p, ' ', (size_t)(end - p)) + 1;
        char *stop = memchr(p, ' ', (size_t)(end - p));
        if (line_end == NULL || stop == NULL || !is_expected(records, p, (size_t)(stop - p)))
            return -EXDEV;
        p = line_end + 1;
    }
    return len > 0 ? 0 : -EIO;
}

int shim_mount_pivot(struct shim_records records, int root)
{
    if (fchdir(root) < 0)
        return -errno;
    int r = sys_pivot_root();
    if (r < 0)
        return r;
    if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return -errno;
    return check_mountinfo(records);
}
