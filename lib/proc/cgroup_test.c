/* lib/proc/cgroup_test.c: which cgroup of v2 this process is in. What moves processes is tried in
 * host/runtime/cgroup_test.c, and by the kernel in tests/vm. */
#include "lib/proc/cgroup.h"

#include "lib/base/assert.h"
#include "tests/unit/test.h"

#include <errno.h>
#include <string.h>

#include "lib/base/banned.h"

#define SYSTEMD "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define HYBRID                                                                                     \
    "29 22 0:25 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"                            \
    "30 22 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
#define BOUND "30 22 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n"

TEST(the_own_cgroup_lies_below_its_mount)
{
    static const struct {
        const char *mounts, *cgroups, *want;
    } rows[] = {
        {SYSTEMD, "0::/user.slice/session-3.scope\n", "/sys/fs/cgroup/user.slice/session-3.scope"},
        {SYSTEMD, "0::/\n", "/sys/fs/cgroup"},
        {HYBRID, "4:memory:/a\n1:name=systemd:/b\n0::/c\n", "/sys/fs/cgroup/unified/c"},
        {BOUND, "0::/docker/abc/x\n", "/sys/fs/cgroup/x"},
        {BOUND, "0::/docker/abcd\n", NULL},
        {BOUND, "0::/elsewhere\n", NULL},
        {BOUND SYSTEMD, "0::/elsewhere\n", "/sys/fs/cgroup/elsewhere"},
        {SYSTEMD, "4:memory:/a\n", NULL},
        {SYSTEMD, "", NULL},
        {"22 1 0:21 / /proc rw - proc proc rw\n", "0::/a\n", NULL},
        {"", "0::/a\n", NULL},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        char path[128];
        int r =
            abx_cgroup_find(abx_str(rows[i].mounts), abx_str(rows[i].cgroups), path, sizeof(path));
        assert_int_equal(r, rows[i].want ? 0 : -EOPNOTSUPP);
        if (rows[i].want)
            assert_string_equal(path, rows[i].want);
    }
}

TEST(a_path_that_does_not_fit_is_an_error)
{
    char path[16];
    assert_int_equal(abx_cgroup_find(ABX_STR(SYSTEMD), ABX_STR("0::/a\n"), path, sizeof(path)),
                     -ENAMETOOLONG);
}
