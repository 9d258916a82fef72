/* host/engine/fds.c: what the engine leaves open at its end: in sanitized builds only, as the leak
 * check of descriptors. Called before the first and after the last of them is opened. */
#include "host/engine/startup_priv.h"

#include "lib/base/log.h"
#include "lib/base/parse.h"

#ifdef ABX_SANITIZED
#include <dirent.h>
#include <unistd.h>
#include <uv.h>
#endif

#include "lib/base/banned.h"

#ifdef ABX_SANITIZED

static void walk(struct abx__fds *f, bool is_end)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *e;
    while (dir != NULL && (e = readdir(dir)) != NULL) {
        uint32_t fd;
        char target[128];
        if (abx_parse_u32(abx_str(e->d_name), &fd) < 0 || fd >= ABX__FDS_SEEN ||
            fd == (uint32_t)dirfd(dir))
            continue;
        if (!is_end) {
            f->is_inherited[fd] = true;
            continue;
        }
        if (f->is_inherited[fd])
            continue;
        ssize_t n = readlinkat(dirfd(dir), e->d_name, target, sizeof(target));
        abx_log(ABX_LOG_ERROR, "descriptor left open fd=%u target=%.*s", fd, n < 0 ? 0 : (int)n,
                target);
    }
    if (dir != NULL)
        closedir(dir);
}

void abx__fds_note(struct abx__fds *f)
{
    *f = (struct abx__fds){0};
    walk(f, false);
}

void abx__fds_report(struct abx__fds *f)
{
    uv_library_shutdown(); /* its signal pipe and pool belong to no loop */
    walk(f, true);
}

#else

void abx__fds_note(struct abx__fds *f)
{
    *f = (struct abx__fds){0};
}

void abx__fds_report(struct abx__fds *f)
{
    (void)f;
}

#endif
