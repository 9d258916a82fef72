/* cli/client_home.c: ~/.abx and its .env (published-client.md 1.1, C60). */
#include "cli/client_home.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum { ENV_MAX = 1 << 20 };
static const char env_name[] = ".env";

int cli_client_home_open(struct abx_error *err)
{
    char path[PATH_MAX];
    const char *home = getenv("HOME");
    if (home == NULL || home[0] != '/' ||
        snprintf(path, sizeof(path), "%s/.abx", home) >= (int)sizeof(path))
        return abx_err_set(err, ABX_FAILED_PRECONDITION, "HOME names no folder");
    int r = abx_fd_mkdir_p(path, 0700);
    int fd = r < 0 ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 ? fd : abx_err_sys(err, r < 0 ? r : -errno, "open %s", path);
}

/* "NAME=..." and "export NAME=..." */
static bool is_about(struct abx_str line, const struct cli_export *exports, size_t count)
{
    static const char prefix[] = "export ";
    struct abx_str name;
    line = abx_str_trim(line);
    if (abx_str_starts(line, prefix))
        line = abx_str_trim(abx_str_sub(line, sizeof(prefix) - 1, SIZE_MAX));
    abx_str_split(&line, '=', &name);
    for (size_t i = 0; i < count; i++)
        if (line.ptr != NULL && abx_str_is(abx_str_trim(name), exports[i].name))
            return true;
    return false;
}

int cli_client_home_save(const struct cli_export *exports, size_t count, struct abx_error *err)
{
    ABX_AUTO_BUF b = {.max = ENV_MAX};
    ABX_AUTO_FREE char *text = NULL;
    size_t len = 0;
    ABX_AUTO_FD dir = cli_client_home_open(err);
    if (dir < 0)
        return -1;
    int r = abx_fd_read_file(dir, env_name, ENV_MAX, &text, &len);
    if (r < 0 && r != -ENOENT)
        return abx_err_sys(err, r, "read ~/.abx/%s", env_name);
    struct abx_str rest = abx_str_n(text, len), line;
    while (abx_str_split(&rest, '\n', &line)) {
        if (is_about(line, exports, count) || (rest.ptr == NULL && line.len == 0))
            continue;
        abx_buf_put_str(&b, line);
        abx_buf_put_byte(&b, '\n');
    }
    for (size_t i = 0; i < count; i++)
        abx_buf_putf(&b, "%s=%s\n", exports[i].name, exports[i].value);
    if (abx_buf_failed(&b))
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "~/.abx/%s has more than %d bytes",
                           env_name, ENV_MAX);
    r = abx_fd_replace_file(dir, env_name, abx_buf_str(&b), 0600);
    return r < 0 ? abx_err_sys(err, r, "write ~/.abx/%s", env_name) : 0;
}
