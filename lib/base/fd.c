/* lib/base/fd.c: owning and moving file descriptors. */
#include "lib/base/fd.h"

#include "lib/base/buf.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { MAX_FDS = 160, MAX_TREE_DEPTH = 512, COPY_BYTES = 256 * 1024 };

void abx_fd_close(int *fd)
{
    int saved = errno;
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    errno = saved;
}

void abx_free_cleanup(void *pp)
{
    void **p = pp;
    free(*p);
    *p = NULL;
}

static int set_flag(int fd, int get, int set, int flag, bool on)
{
    int flags = fcntl(fd, get);
    if (flags < 0)
        return -errno;
    flags = on ? flags | flag : flags & ~flag;
    return fcntl(fd, set, flags) < 0 ? -errno : 0;
}

int abx_fd_open_standard(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0)
            continue;
        if (open("/dev/null", O_RDWR) != fd) /* the lowest that is free; kept by children */
            return -EBADF;
    }
    return 0;
}

int abx_fd_set_nonblock(int fd, bool on)
{
    return set_flag(fd, F_GETFL, F_SETFL, O_NONBLOCK, on);
}

int abx_fd_set_cloexec(int fd, bool on)
{
    return set_flag(fd, F_GETFD, F_SETFD, FD_CLOEXEC, on);
}

int abx_fd_write_all(int fd, const void *data, size_t len)
{
    const char *p = data;
    while (len > 0) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

int abx_fd_write_all_at(int fd, const void *data, size_t len, uint64_t offset)
{
    const char *p = data;
    while (len > 0) {
        ssize_t n = pwrite(fd, p, len, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        p += n;
        offset += (uint64_t)n;
        len -= (size_t)n;
    }
    return 0;
}

static int copy_through(int from, uint64_t *inout_offset, uint64_t end, int to)
{
    ABX_AUTO_FREE char *piece = malloc(COPY_BYTES);
    if (piece == NULL)
        return -ENOMEM;
    while (*inout_offset < end) {
        uint64_t left = end - *inout_offset;
        ssize_t n = pread(from, piece, left < COPY_BYTES ? left : COPY_BYTES, (off_t)*inout_offset);
        if (n < 0 && errno == EINTR)
            continue;
        int rc = n <= 0 ? (n < 0 ? -errno : -EIO) : abx_fd_write_all(to, piece, (size_t)n);
        if (rc < 0)
            return rc;
        *inout_offset += (uint64_t)n;
    }
    return 0;
}

int abx_fd_copy(int from, uint64_t *inout_offset, uint64_t end, int to)
{
    while (*inout_offset < end) {
        off_t at = (off_t)*inout_offset;
        ssize_t n = copy_file_range(from, &at, to, NULL, end - *inout_offset, 0);
        if (n < 0 && (errno == ENOSPC || errno == EDQUOT))
            return -errno;
        if (n <= 0)
            return copy_through(from, inout_offset, end, to);
        *inout_offset += (uint64_t)n;
    }
    return 0;
}

ssize_t abx_fd_read_all(int fd, void *data, size_t cap)
{
    char *p = data;
    size_t got = 0;
    while (got < cap) {
        ssize_t n = read(fd, p + got, cap - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        got += (size_t)n;
    }
    return (ssize_t)got;
}

int abx_fd_read_file(int dir_fd, const char *name, size_t max, char **ret_text, size_t *ret_len)
{
    ABX_AUTO_FD fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    ABX_AUTO_BUF b;
    abx_buf_init(&b, max + 1);
    for (;;) {
        size_t room = b.max - b.len < 4096 ? b.max - b.len : 4096;
        if (room == 0)
            return -EFBIG;
        char *to = abx_buf_room(&b, room);
        if (to == NULL)
            return -ENOMEM;
        ssize_t n = read(fd, to, room);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        abx_buf_wrote(&b, (size_t)n);
    }
    if (b.len > max)
        return -EFBIG;
    if (ret_len)
        *ret_len = b.len;
    *ret_text = abx_buf_take(&b);
    return *ret_text ? 0 : -ENOMEM;
}

int abx_fd_write_file(int dir_fd, const char *name, struct abx_str text)
{
    ABX_AUTO_FD fd = openat(dir_fd, name, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t n = write(fd, text.ptr, text.len);
    if (n < 0)
        return -errno;
    return (size_t)n == text.len ? 0 : -EIO;
}

int abx_fd_replace_file(int dir_fd, const char *name, struct abx_str text, uint32_t mode)
{
    char tmp[NAME_MAX + 1];
    int n = snprintf(tmp, sizeof(tmp), ".%s.%d.tmp", name, (int)getpid());
    if (n < 0 || (size_t)n >= sizeof(tmp))
        return -ENAMETOOLONG;
    unlinkat(dir_fd, tmp, 0);
    ABX_AUTO_FD fd = openat(dir_fd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0)
        return -errno;
    int r = abx_fd_write_all(fd, text.ptr, text.len);
    if (r == 0 && fsync(fd) < 0)
        r = -errno;
    if (r == 0 && renameat(dir_fd, tmp, dir_fd, name) < 0)
        r = -errno;
    if (r < 0) {
        unlinkat(dir_fd, tmp, 0);
        return r;
    }
    ABX_AUTO_FD dir = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir >= 0)
        fsync(dir);
    return 0;
}

int abx_fd_mkdir_p(const char *path, uint32_t mode)
{
    char part[PATH_MAX];
    if (abx_str_to_c(abx_str(path), part, sizeof(part)) < 0 || part[0] == '\0')
        return -EINVAL;
    for (char *p = part + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        if (mkdir(part, mode) < 0 && errno != EEXIST)
            return -errno;
        *p = '/';
    }
    if (mkdir(part, mode) < 0 && errno != EEXIST)
        return -errno;
    return 0;
}

static int remove_entries(DIR *dir, dev_t dev, int depth)
{
    if (depth > MAX_TREE_DEPTH)
        return -ELOOP;
    int result = 0;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        int at = dirfd(dir);
        if (unlinkat(at, e->d_name, 0) == 0 || errno == ENOENT)
            continue;
        int fd = openat(at, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && errno == EACCES && fchmodat(at, e->d_name, 0700, 0) == 0) /* no read bit */
            fd = openat(at, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct stat st;
        if (fd < 0 || fstat(fd, &st) < 0 || st.st_dev != dev) {
            result = result ? result : (fd < 0 ? -errno : -EXDEV);
            abx_fd_close(&fd);
            continue;
        }
        (void)fchmod(fd, 0700);
        DIR *sub = fdopendir(fd);
        int r = sub ? remove_entries(sub, dev, depth + 1) : -ENOMEM;
        if (sub)
            closedir(sub);
        else
            close(fd);
        if (r == 0 && unlinkat(at, e->d_name, AT_REMOVEDIR) < 0)
            r = -errno;
        result = result ? result : r;
    }
    return result;
}

int abx_fd_remove_tree(int dir_fd, const char *name)
{
    if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
        return 0;
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    struct stat st;
    if (fstat(fd, &st) < 0) {
        abx_fd_close(&fd);
        return -errno;
    }
    DIR *dir = fdopendir(fd);
    if (dir == NULL) {
        abx_fd_close(&fd);
        return -ENOMEM;
    }
    int r = remove_entries(dir, st.st_dev, 0);
    closedir(dir);
    if (r == 0 && unlinkat(dir_fd, name, AT_REMOVEDIR) < 0)
        r = -errno;
    return r;
}

ssize_t abx_fd_send(int sock, const void *data, size_t len, const int *fds, size_t fd_count)
{
    union {
        char bytes[CMSG_SPACE(MAX_FDS * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    if (fd_count > MAX_FDS)
        return -EINVAL;
    struct iovec iov = {(void *)(uintptr_t)data, len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (fd_count > 0) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(c), fds, fd_count * sizeof(int));
    }
    ssize_t n;
    do
        n = sendmsg(sock, &msg, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

ssize_t abx_fd_recv(int sock, void *data, size_t cap, int *ret_fds, size_t *inout_fd_count)
{
    union {
        char bytes[CMSG_SPACE(MAX_FDS * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec iov = {data, cap};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    size_t room = inout_fd_count ? *inout_fd_count : 0, got = 0;
    ssize_t n;
    do
        n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c != NULL; c = CMSG_NXTHDR(&msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            if (got < room)
                ret_fds[got++] = fd;
            else
                close(fd);
        }
    }
    if (inout_fd_count)
        *inout_fd_count = got;
    return n;
}

/* sun_path "/proc/self/fd/N/name": short whatever the depth of the folder. */
static int unix_address(int dir_fd, const char *name, struct sockaddr_un *addr)
{
    *addr = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = dir_fd == AT_FDCWD ? snprintf(addr->sun_path, sizeof(addr->sun_path), "%s", name)
                               : snprintf(addr->sun_path, sizeof(addr->sun_path),
                                          "/proc/self/fd/%d/%s", dir_fd, name);
    return n > 0 && (size_t)n < sizeof(addr->sun_path) ? 0 : -ENAMETOOLONG;
}

int abx_fd_listen_unix(int dir_fd, const char *name, int type, int backlog)
{
    struct sockaddr_un addr;
    int r = unix_address(dir_fd, name, &addr);
    if (r < 0)
        return r;
    ABX_AUTO_FD fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (unlinkat(dir_fd, name, 0) < 0 && errno != ENOENT)
        return -errno;
    if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 || listen(fd, backlog) < 0)
        return -errno;
    return abx_fd_take(&fd);
}

int abx_fd_connect_unix(int dir_fd, const char *name, int type)
{
    struct sockaddr_un addr;
    int r = unix_address(dir_fd, name, &addr);
    if (r < 0)
        return r;
    ABX_AUTO_FD fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
        return -errno;
    return abx_fd_take(&fd);
}
