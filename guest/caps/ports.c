/* guest/caps/ports.c: listening TCP ports and who holds them (system.h). */
#include "guest/caps/system.h"

#include "lib/base/fd.h"
#include "lib/base/parse.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum {
    TABLE_MAX = 16 << 20, /* of /proc/net/tcp */
    COLUMN_ADDRESS = 1,
    COLUMN_STATE = 3,
    COLUMN_INODE = 9,
    COLUMNS = 10,
    WORD_DIGITS = 8, /* of 32 bits */
};

/* The blank-separated columns of a line. */
static size_t split_columns(struct abx_str line, struct abx_str out[COLUMNS])
{
    size_t n = 0;
    struct abx_str word;
    while (n < COLUMNS && abx_str_split(&line, ' ', &word))
        if (word.len)
            out[n++] = word;
    return n;
}

/* 32-bit words as the kernel prints them: each in the byte order of the machine. */
static bool read_address(struct abx_str hex, bool is_v6, char out[ABX_PORT_ADDRESS])
{
    uint32_t words[4] = {0};
    size_t count = is_v6 ? 4 : 1;
    char text[INET6_ADDRSTRLEN];
    uint64_t value;
    if (hex.len != count * WORD_DIGITS)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (abx_parse_hex64(abx_str_sub(hex, i * WORD_DIGITS, WORD_DIGITS), &value) < 0)
            return false;
        words[i] = (uint32_t)value;
    }
    if (inet_ntop(is_v6 ? AF_INET6 : AF_INET, words, text, sizeof(text)) == NULL)
        return false;
    snprintf(out, ABX_PORT_ADDRESS, is_v6 ? "[%s]" : "%s", text);
    return true;
}

static bool read_row(struct abx_str line, bool is_v6, struct abx_system_port *ret)
{
    struct abx_str column[COLUMNS], address;
    uint64_t port;
    *ret = (struct abx_system_port){.is_v6 = is_v6};
    if (split_columns(line, column) < COLUMNS || !abx_str_is(column[COLUMN_STATE], "0A"))
        return false;
    struct abx_str rest = column[COLUMN_ADDRESS];
    if (!abx_str_split(&rest, ':', &address) || !read_address(address, is_v6, ret->address) ||
        abx_parse_hex64(rest, &port) < 0 || port > UINT16_MAX ||
        abx_parse_u64(column[COLUMN_INODE], &ret->inode) < 0)
        return false;
    ret->port = (uint16_t)port;
    return true;
}

void abx_system_ports_parse(struct abx_str text, bool is_v6, struct abx_system_port *out,
                            size_t *count)
{
    struct abx_str line;
    while (*count < ABX_PORTS_MAX && abx_str_split(&text, '\n', &line))
        if (read_row(line, is_v6, &out[*count]))
            ++*count;
}

static int read_table(const char *path, bool is_v6, struct abx_system_port *out, size_t *count)
{
    ABX_AUTO_FREE char *text = NULL;
    size_t len = 0;
    int rc = abx_fd_read_file(AT_FDCWD, path, TABLE_MAX, &text, &len);
    if (rc == -ENOENT)
        return 0; /* a kernel without that protocol */
    if (rc < 0)
        return rc;
    abx_system_ports_parse(abx_str_n(text, len), is_v6, out, count);
    return 0;
}

/* ---- who holds them ---- */

static int compare_inodes(const void *left, const void *right)
{
    const struct abx_system_port *const *a = left, *const *b = right;
    return ((*a)->inode > (*b)->inode) - ((*a)->inode < (*b)->inode);
}

static void note_holder(struct abx_system_port **sorted, size_t count, uint64_t inode, pid_t pid)
{
    struct abx_system_port key = {.inode = inode}, *wanted = &key;
    struct abx_system_port **found =
        bsearch(&wanted, sorted, count, sizeof(struct abx_system_port *), compare_inodes);
    if (found && ((*found)->pid == 0 || pid < (*found)->pid))
        (*found)->pid = pid; /* of several the first: it is the one that made it */
}

static void look_at_process(struct abx_system_port **sorted, size_t count, pid_t pid)
{
    char path[64], link[64];
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    if (dir == NULL)
        return;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        ssize_t n = readlinkat(dirfd(dir), e->d_name, link, sizeof(link));
        struct abx_str target = abx_str_n(link, n > 0 ? (size_t)n : 0);
        uint64_t inode;
        if (abx_str_starts(target, "socket:[") && abx_str_ends(target, "]") &&
            abx_parse_u64(abx_str_sub(target, 8, target.len - 9), &inode) == 0)
            note_holder(sorted, count, inode, pid);
    }
    closedir(dir);
}

static int find_holders(struct abx_system_port *ports, size_t count)
{
    struct abx_system_port **sorted = calloc(count + 1, sizeof(*sorted));
    DIR *dir = sorted ? opendir("/proc") : NULL;
    if (dir == NULL) {
        free(sorted);
        return sorted ? 0 : -ENOMEM; /* without /proc nobody is seen */
    }
    for (size_t i = 0; i < count; i++)
        sorted[i] = &ports[i];
    qsort(sorted, count, sizeof(*sorted), compare_inodes);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        uint32_t pid;
        if (abx_parse_u32(abx_str(e->d_name), &pid) == 0 && pid <= INT_MAX)
            look_at_process(sorted, count, (pid_t)pid);
    }
    closedir(dir);
    free(sorted);
    return 0;
}

int abx_system_ports(struct abx_system_port *out, size_t *ret_count)
{
    *ret_count = 0;
    int rc = read_table("/proc/net/tcp", false, out, ret_count);
    if (rc == 0)
        rc = read_table("/proc/net/tcp6", true, out, ret_count);
    return rc < 0 || *ret_count == 0 ? rc : find_holders(out, *ret_count);
}
