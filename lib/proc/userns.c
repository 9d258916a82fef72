/* lib/proc/userns.c: the switches of distributions that keep user namespaces from who would make
 * them (userns.h). */
#include "lib/proc/userns.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/banned.h"

static const struct {
    const char *file, *value; /* of that value it bars */
    bool bars_root;
    struct abx_userns_bar bar;
} bars[] = {
    {"user/max_user_namespaces",
     "0\n",
     true,
     {"user namespaces are off", "sysctl user.max_user_namespaces=65536"}},
    {"kernel/unprivileged_userns_clone", /* Debian */
     "0\n",
     false,
     {"user namespaces are for root only", "sysctl kernel.unprivileged_userns_clone=1"}},
    {"kernel/apparmor_restrict_unprivileged_userns", /* Ubuntu since 23.10 */
     "1\n",
     false,
     {"AppArmor keeps ordinary users from user namespaces",
      "sysctl kernel.apparmor_restrict_unprivileged_userns=0"}},
};

const struct abx_userns_bar *abx_userns_bar(const char *sys, bool is_root)
{
    for (size_t i = 0; i < ABX_COUNTOF(bars); i++) {
        char path[PATH_MAX];
        ABX_AUTO_FREE char *text = NULL;
        size_t len;
        snprintf(path, sizeof(path), "%s/%s", sys, bars[i].file);
        if ((bars[i].bars_root || !is_root) &&
            abx_fd_read_file(AT_FDCWD, path, 64, &text, &len) >= 0 &&
            abx_str_is(abx_str_n(text, len), bars[i].value))
            return &bars[i].bar;
    }
    return NULL;
}
