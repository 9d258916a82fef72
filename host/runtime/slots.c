/* host/runtime/slots.c: id ranges are the machine's: a slot (a range, a creator uid) that a sandbox
 * of any rootful engine lives in is locked in one file, a byte each. The lock belongs to the open
 * file, which the shim inherits: it lasts as long as the sandbox, whatever becomes of the engine.
 * The file goes when nobody holds a lock in it. */
#include "host/runtime/runtime_priv.h"

#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { LOCK_TRIES = 16 };
static const char file_name[] = "ids";

/* A folder of ours alone: nobody else opens the file, so nobody else can hold a lock in it. */
static int open_folder(const char *folder, bool make)
{
    if (make && mkdir(folder, 0700) < 0 && errno != EEXIST)
        return -errno;
    ABX_AUTO_FD fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (st.st_uid != geteuid() || (st.st_mode & 022) != 0)
        return -EPERM;
    return abx_fd_take(&fd);
}

static int lock(int fd, off_t at, off_t len)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = len};
    if (fcntl(fd, F_OFD_SETLK, &l) == 0)
        return 0;
    return errno == EACCES || errno == EAGAIN ? -EBUSY : -errno;
}

/* Another engine may have removed the file between our open and our lock. */
static bool is_current(int dir_fd, int fd)
{
    struct stat here, there;
    return fstat(fd, &here) == 0 && fstatat(dir_fd, file_name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           here.st_ino == there.st_ino && here.st_dev == there.st_dev;
}

int abx__slot_lock(const char *folder, uint32_t slot)
{
    for (int i = 0; i < LOCK_TRIES; i++) {
        ABX_AUTO_FD dir = open_folder(folder, true);
        if (dir == -ENOENT)
            continue;
        if (dir < 0)
            return dir;
        ABX_AUTO_FD fd =
            openat(dir, file_name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
        if (fd < 0 && errno == ENOENT) /* the folder has just gone */
            continue;
        int r = fd < 0 ? -errno : lock(fd, (off_t)slot, 1);
        if (r < 0)
            return r;
        if (is_current(dir, fd))
            return abx_fd_take(&fd);
    }
    return -ENOENT;
}

void abx__slots_tidy(const char *folder)
{
    ABX_AUTO_FD dir = open_folder(folder, false);
    ABX_AUTO_FD fd = dir < 0 ? dir : openat(dir, file_name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || lock(fd, 0, 0) < 0 || !is_current(dir, fd))
        return;
    (void)unlinkat(dir, file_name, 0);
    (void)rmdir(folder); /* stays while another engine makes a file in it */
}
