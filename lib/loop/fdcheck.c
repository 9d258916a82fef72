/* lib/loop/fdcheck.c: compares /proc/self/fd at the end of a daemon with its beginning. */
#include "lib/loop/fdcheck.h"

#include "lib/base/log.h"
#include "lib/base/parse.h"

#include <dirent.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "lib/base/banned.h"

#ifdef ABX_SANITIZED
enum { IS_ACTIVE = 1 };
#else
enum { IS_ACTIVE = 0 };
#endif

static void report(uint32_t fd, int dir_fd, const char *name)
{
    char target[128];
    ssize_t n = readlinkat(dir_fd, name, target, sizeof(target));
    abx_log(ABX_LOG_ERROR, "descriptor left open fd=%u target=%.*s", fd, n < 0 ? 0 : (int)n,
            target);
}

/* Calls back through @note (the beginning) or reports against @known (the end). */
static void walk(struct abx_fdcheck *note, const struct abx_fdcheck *known)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *e;
    while (dir != NULL && (e = readdir(dir)) != NULL) {
        uint32_t fd;
        if (abx_parse_u32(abx_str(e->d_name), &fd) < 0 || fd >= ABX_FDCHECK_SEEN ||
            fd == (uint32_t)dirfd(dir))
            continue;
        if (note != NULL)
            note->was_open[fd] = true;
        else if (!known->was_open[fd])
            report(fd, dirfd(dir), e->d_name);
    }
    if (dir != NULL)
        closedir(dir);
}

void abx_fdcheck_note(struct abx_fdcheck *f)
{
    memset(f, 0, sizeof(*f));
    if (IS_ACTIVE)
        walk(f, NULL);
}

void abx_fdcheck_report(const struct abx_fdcheck *f)
{
    if (!IS_ACTIVE)
        return;
    uv_library_shutdown(); /* its signal pipe and pool belong to no loop */
    walk(NULL, f);
}
