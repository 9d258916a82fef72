/* lib/proc/hide.c: mount namespaces in which files and folders are hidden (confine.h): what
 * Landlock can not do, which only adds up what is allowed. Security S08.
 *
 * A child in a namespace of its own mounts an empty, closed, read-only file or folder over each
 * path and opens that namespace in our table of descriptors. It stands on the memory of this
 * thread, which waits: system calls only. Once the namespace is held nobody needs the child. */
#include "lib/proc/proc_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { STACK_BYTES = 64 * 1024, CWD_BYTES = 4096 };

/* Where the two covers are made; in the child's namespace alone, and gone again at the end. */
#define WORKSHOP     "/proc"
#define COVER_FOLDER WORKSHOP "/folder"
#define COVER_FILE   WORKSHOP "/file"
#define COVER_FLAGS  (MS_NOSUID | MS_NODEV | MS_NOEXEC)

struct hiding {
    const char *const *paths;
    size_t count;
    int fd; /* or -errno */
};

CHILD_CODE static int make_covers(void)
{
    if (mount("none", WORKSHOP, "tmpfs", COVER_FLAGS, "mode=0755,size=16k,nr_inodes=8") < 0 ||
        mkdir(COVER_FOLDER, 0) < 0)
        return -1;
    int fd = open(COVER_FILE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    close(fd);
    /* Whoever owns it in there, it stays closed: nothing on it can be changed. */
    return mount(NULL, WORKSHOP, NULL, MS_REMOUNT | MS_RDONLY | COVER_FLAGS, NULL);
}

CHILD_CODE static int cover(const char *path)
{
    struct stat st;
    if (fstatat(AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -1;
    if (S_ISLNK(st.st_mode)) {
        errno = ELOOP;
        return -1;
    }
    return mount(S_ISDIR(st.st_mode) ? COVER_FOLDER : COVER_FILE, path, NULL, MS_BIND, NULL);
}

CHILD_CODE static int hide_all(const struct hiding *h)
{
    /* What is mounted outside from now on appears in here; nothing of ours appears outside. */
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0 || make_covers() < 0)
        return -1;
    for (size_t i = 0; i < h->count; i++)
        if (cover(h->paths[i]) < 0)
            return -1;
    if (umount2(WORKSHOP, MNT_DETACH) < 0)
        return -1;
    return open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
}

CHILD_CODE static int hide_child(void *arg)
{
    struct hiding *h = arg;
    int fd = hide_all(h);
    h->fd = fd < 0 ? -errno : fd;
    syscall(SYS_exit_group, 0);
    return 0;
}

int abx_confine_hide(const char *const *paths, size_t count)
{
    struct hiding h = {paths, count, -EIO};
    char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    sigset_t old;
    if (stack == MAP_FAILED)
        return -errno;
    abx__proc_block_signals(&old); /* no handler of ours may run in the child */
    pid_t pid = abx__clone_vm(hide_child, stack + STACK_BYTES,
                              CLONE_NEWNS | CLONE_VM | CLONE_VFORK | CLONE_FILES | SIGCHLD, &h);
    int saved = errno;
    abx__proc_restore_signals(&old);
    munmap(stack, STACK_BYTES);
    if (pid < 0)
        return -saved;
    abx_proc_wait(pid, NULL);
    return h.fd;
}

/* The path of the current folder is looked up anew: a folder that stayed open would lead back out.
 */
CHILD_CODE int abx__confine_enter_mounts(int mounts_fd)
{
    char cwd[CWD_BYTES];
    long n = syscall(SYS_getcwd, cwd, sizeof(cwd));
    if (setns(mounts_fd, CLONE_NEWNS) < 0) /* leaves this process at its root */
        return -1;
    if (n > 0 && cwd[0] == '/' && chdir(cwd) < 0 && errno != EACCES && errno != ENOENT)
        return -1;
    return 0;
}
