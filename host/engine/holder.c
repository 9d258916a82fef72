/* host/engine/holder.c: who listens on a TCP port, for the error that says it is taken. Blocking.
 */
#include "host/engine/startup_priv.h"

#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { TABLE_MAX = 4 * 1024 * 1024, LISTENING = 0x0a };

/* The inode of the socket that listens on @port in a /proc/net/tcp table; 0: none. */
static uint64_t find_inode(const char *table, uint16_t port)
{
    ABX_AUTO_FREE char *text = NULL;
    size_t len = 0;
    if (abx_fd_read_file(AT_FDCWD, table, TABLE_MAX, &text, &len) < 0)
        return 0;
    struct abx_str rest = abx_str_n(text, len), line;
    while (abx_str_split(&rest, '\n', &line)) {
        char row[256];
        unsigned local = 0, state = 0;
        uint64_t inode = 0;
        if (abx_str_to_c(abx_str_sub(line, 0, sizeof(row) - 1), row, sizeof(row)) == 0 &&
            sscanf(row, " %*u: %*[0-9A-Fa-f]:%x %*s %x %*s %*s %*s %*u %*u %" SCNu64, &local,
                   &state, &inode) == 3 &&
            local == port && state == LISTENING)
            return inode;
    }
    return 0;
}

static bool holds(int fd_dir, const char *want)
{
    DIR *d = fdopendir(fd_dir); /* takes it */
    struct dirent *e;
    bool found = false;
    if (d == NULL) {
        close(fd_dir);
        return false;
    }
    while (!found && (e = readdir(d)) != NULL) {
        char link[64];
        ssize_t n = readlinkat(dirfd(d), e->d_name, link, sizeof(link) - 1);
        if (n <= 0)
            continue;
        link[n] = '\0';
        found = strcmp(link, want) == 0;
    }
    closedir(d);
    return found;
}

static void describe(const char *pid, char *out, size_t cap)
{
    char path[300];
    ABX_AUTO_FREE char *name = NULL;
    size_t len = 0;
    snprintf(path, sizeof(path), "/proc/%s/comm", pid);
    if (abx_fd_read_file(AT_FDCWD, path, 64, &name, &len) < 0)
        len = 0;
    snprintf(out, cap, "pid %s (%.*s)", pid, (int)(len > 0 ? len - 1 : 0), len > 0 ? name : "");
}

void abx__port_holder(uint16_t port, char *out, size_t cap)
{
    char want[64];
    uint64_t inode = find_inode("/proc/net/tcp", port);
    if (inode == 0)
        inode = find_inode("/proc/net/tcp6", port);
    snprintf(out, cap, "a process that is not ours to see");
    snprintf(want, sizeof(want), "socket:[%" PRIu64 "]", inode);
    DIR *proc = inode == 0 ? NULL : opendir("/proc");
    struct dirent *e;
    while (proc != NULL && (e = readdir(proc)) != NULL) {
        char path[300];
        uint32_t pid = 0;
        if (abx_parse_u32(abx_str(e->d_name), &pid) < 0)
            continue;
        snprintf(path, sizeof(path), "/proc/%s/fd", e->d_name);
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0 && holds(fd, want)) {
            describe(e->d_name, out, cap);
            break;
        }
    }
    if (proc != NULL)
        closedir(proc);
}
