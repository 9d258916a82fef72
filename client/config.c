/* client/config.c: the client configuration, a file of "key: value" lines written by the engine. */
#include "client/config.h"
#include "client/client_priv.h"
#include "lib/base/fd.h"
#include "lib/contract/contract.h"

#include <fcntl.h>
#include <stdio.h>

#include "lib/base/banned.h"

enum { CONFIG_MAX = 65536 };

char *abx_client_config_path(void)
{
    struct abx_buf b;
    abx_buf_init(&b, 4096);
    const char *state = getenv(ABX_ENV_STATE), *config = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    if (state && *state)
        abx_buf_putf(&b, "%s/client.yaml", state);
    else if (config && *config)
        abx_buf_putf(&b, "%s/abx/config.yaml", config);
    else
        abx_buf_putf(&b, "%s/.config/abx/config.yaml", home && *home ? home : "/root");
    return abx_buf_take(&b);
}

char *abx_config_value(const char *path, const char *key)
{
    ABX_AUTO_FREE char *text = NULL;
    if (abx_fd_read_file(AT_FDCWD, path, CONFIG_MAX, &text, NULL) < 0)
        return NULL;
    struct abx_str rest = abx_str(text), line;
    while (abx_str_split(&rest, '\n', &line)) {
        ptrdiff_t colon = abx_str_chr(line, ':');
        if (colon < 0 || !abx_str_is(abx_str_sub(line, 0, (size_t)colon), key))
            continue;
        return abx_str_dup(abx_str_trim(abx_str_sub(line, (size_t)colon + 1, line.len)));
    }
    return NULL;
}

char *abx__config_get(const char *key)
{
    ABX_AUTO_FREE char *path = abx_client_config_path();
    return path == NULL ? NULL : abx_config_value(path, key);
}
