/* cli/ids.c: subordinate ids of this account, read from the files themselves: the program is
 * static, so the C library's ways to accounts are not to be relied on. */
#include "cli/ids.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { FILE_MAX = 1 << 20, RANGE = 65536 };

/* The account of this process in /etc/passwd, else its number. */
static void own_name(char out[CLI_USER_NAME])
{
    ABX_AUTO_FREE char *text = NULL;
    struct abx_str rest, line, name, unused, number;
    uint32_t uid;
    snprintf(out, CLI_USER_NAME, "%u", (unsigned)geteuid());
    if (abx_fd_read_file(AT_FDCWD, "/etc/passwd", FILE_MAX, &text, NULL) < 0)
        return;
    rest = abx_str(text);
    while (abx_str_split(&rest, '\n', &line)) {
        if (!abx_str_split(&line, ':', &name) || !abx_str_split(&line, ':', &unused) ||
            !abx_str_split(&line, ':', &number) || abx_parse_u32(number, &uid) < 0 ||
            uid != geteuid() || name.len == 0 || name.len >= CLI_USER_NAME)
            continue;
        snprintf(out, CLI_USER_NAME, "%.*s", ABX_STR_FMT(name));
        return;
    }
}

static bool has_range(const char *path, const char *name)
{
    ABX_AUTO_FREE char *text = NULL;
    struct abx_str rest, line, who, start, count;
    char id[16];
    uint32_t n;
    if (abx_fd_read_file(AT_FDCWD, path, FILE_MAX, &text, NULL) < 0)
        return false;
    snprintf(id, sizeof(id), "%u", (unsigned)geteuid());
    rest = abx_str(text);
    while (abx_str_split(&rest, '\n', &line))
        if (abx_str_split(&line, ':', &who) && abx_str_split(&line, ':', &start) &&
            abx_str_split(&line, ':', &count) && abx_parse_u32(count, &n) == 0 && n >= RANGE &&
            (abx_str_is(who, name) || abx_str_is(who, id)))
            return true;
    return false;
}

bool cli_ids_have_range(char name[CLI_USER_NAME])
{
    own_name(name);
    return has_range("/etc/subuid", name) && has_range("/etc/subgid", name);
}
