/* guest/server/hosts/inherited.c: whether children of a host hold its socket: they could answer for
 * it (security.md S33). */
#include "guest/server/hosts/host_priv.h"

#include "lib/base/fd.h"
#include "lib/base/parse.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { LINK_BYTES = 64, CHILDREN_BYTES = 4096 };

/* "socket:[123]" of descriptor 3; false: there is none. */
static bool read_link(uint32_t pid, char out[LINK_BYTES])
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%u/fd/3", pid);
    ssize_t n = readlink(path, out, LINK_BYTES - 1);
    out[n > 0 ? n : 0] = '\0';
    return n > 0;
}

int abx__host_heir(int pid)
{
    char path[64], text[CHILDREN_BYTES], own[LINK_BYTES], theirs[LINK_BYTES];
    struct abx_str rest, word;
    uint32_t child;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
    ABX_AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : abx_fd_read_all(fd, text, sizeof(text));
    if (n <= 0 || !read_link((uint32_t)pid, own))
        return 0;
    rest = abx_str_n(text, (size_t)n);
    while (abx_str_split(&rest, ' ', &word))
        if (abx_parse_u32(word, &child) == 0 && read_link(child, theirs) &&
            strcmp(own, theirs) == 0)
            return (int)child;
    return 0;
}
