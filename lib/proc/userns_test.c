/* lib/proc/userns_test.c: what bars user namespaces, on a folder that looks like /proc/sys. */
#include "lib/proc/userns.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "tests/unit/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/banned.h"

static void put(const char *dir, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    ABX_AUTO_FD fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(abx_fd_write_all(fd, text, strlen(text)), 0);
}

static void expect(const char *dir, bool is_root, const char *next)
{
    const struct abx_userns_bar *bar = abx_userns_bar(dir, is_root);
    assert_true((bar != NULL) == (next != NULL));
    if (next)
        assert_string_equal(bar->next, next);
}

TEST(what_bars_user_namespaces_is_named_with_what_lifts_it)
{
    static const char clone[] = "kernel/unprivileged_userns_clone",
                      apparmor[] = "kernel/apparmor_restrict_unprivileged_userns",
                      max[] = "user/max_user_namespaces";
    char dir[] = "/tmp/abx-userns-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    expect(dir, false, NULL); /* a kernel without any of the switches */
    static const char *const folders[] = {"kernel", "user"};
    for (size_t i = 0; i < ABX_COUNTOF(folders); i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, folders[i]);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    put(dir, clone, "1\n");
    put(dir, apparmor, "0\n");
    put(dir, max, "10\n");
    expect(dir, false, NULL);
    put(dir, apparmor, "1\n");
    expect(dir, false, "sysctl kernel.apparmor_restrict_unprivileged_userns=0");
    expect(dir, true, NULL);
    put(dir, clone, "0\n");
    expect(dir, false, "sysctl kernel.unprivileged_userns_clone=1");
    expect(dir, true, NULL);
    put(dir, max, "0\n");
    expect(dir, false, "sysctl user.max_user_namespaces=65536");
    expect(dir, true, "sysctl user.max_user_namespaces=65536");
    assert_int_equal(abx_fd_remove_tree(AT_FDCWD, dir), 0);
}
