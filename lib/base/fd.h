/* lib/base/fd.h: owning and moving file descriptors. System leaf: >= 0 or -errno. */
#pragma once
#include "lib/base/str.h"

#include <stdint.h>
#include <stdlib.h>

/** Closes *fd if >= 0 and sets it to -1; keeps errno. */
void abx_fd_close(int *fd);
void abx_free_cleanup(void *pp);

#define ABX_AUTO_FD   __attribute__((cleanup(abx_fd_close))) int
#define ABX_AUTO_FREE __attribute__((cleanup(abx_free_cleanup)))
/* Moves ownership out of an ABX_AUTO_FREE pointer. */
#define ABX_TAKE(p)                                                                                \
    __extension__({                                                                                \
        __typeof__(p) taken_ = (p);                                                                \
        (p) = NULL;                                                                                \
        taken_;                                                                                    \
    })
static inline int abx_fd_take(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}
/** Opens /dev/null for each of 0, 1 and 2 that the caller left closed: else the first sockets get
 *  these numbers, and what is printed goes to a peer. For the start of a program. */
int abx_fd_open_standard(void);
int abx_fd_set_nonblock(int fd, bool on);
int abx_fd_set_cloexec(int fd, bool on);
/** Writes all of it to a blocking fd; restarts on EINTR. */
int abx_fd_write_all(int fd, const void *data, size_t len);
/** The same at @offset of a file, whose own position stays. */
int abx_fd_write_all_at(int fd, const void *data, size_t len, uint64_t offset);
/** Copies from @offset of the file @from, up to @end, to the position of the file @to: in the
 *  kernel where it can, else through memory. *inout_offset is where it stands, also on failure.
 *  -EIO: @from ends before @end. */
int abx_fd_copy(int from, uint64_t *inout_offset, uint64_t end, int to);
/** Reads up to @cap bytes of a blocking fd until EOF or full; the count. */
ssize_t abx_fd_read_all(int fd, void *data, size_t cap);
/** Reads the whole file @name below @dir_fd (AT_FDCWD allowed), regular or not, up to @max bytes,
 *  into heap memory with a terminator. -EFBIG beyond. */
int abx_fd_read_file(int dir_fd, const char *name, size_t max, char **ret_text, size_t *ret_len);
/** Writes @text to an existing file (a /proc or /sys knob, say) in one write. */
int abx_fd_write_file(int dir_fd, const char *name, struct abx_str text);
/** Replaces @name atomically: temporary file beside it, fsync, rename, fsync of the folder. */
int abx_fd_replace_file(int dir_fd, const char *name, struct abx_str text, uint32_t mode);
/** mkdir -p; existing is fine. */
int abx_fd_mkdir_p(const char *path, uint32_t mode);
/** rm -r of @name below @dir_fd without following links or crossing file systems; absent is fine.
 */
int abx_fd_remove_tree(int dir_fd, const char *name);
/** Sends @len bytes and up to 160 descriptors over a unix socket. */
ssize_t abx_fd_send(int sock, const void *data, size_t len, const int *fds, size_t fd_count);
/** Receives; descriptors are CLOEXEC. *inout_fd_count: room, then how many came. */
ssize_t abx_fd_recv(int sock, void *data, size_t cap, int *ret_fds, size_t *inout_fd_count);
/** Binds a unix socket at @name below @dir_fd through /proc/self/fd, so the 108-byte limit of
 *  sun_path does not bite. @type may carry SOCK_CLOEXEC and SOCK_NONBLOCK. Listens. */
int abx_fd_listen_unix(int dir_fd, const char *name, int type, int backlog);
int abx_fd_connect_unix(int dir_fd, const char *name, int type);
