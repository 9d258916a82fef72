/* host/runtime/cgroup_test.c: which hierarchies are used, and what is written to them, on folders
 * that look like cgroups. The kernel's own are in runtime_test.c and, v2, in tests/vm. */
#include "host/runtime/runtime_priv.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "tests/unit/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "lib/base/banned.h"

#define STATE "/state"
#define OURS  "abx-87517253f26a8523" /* FNV-1a of it */

static char top[64], mounts[256];

static void path_of(const char *name, char out[256])
{
    snprintf(out, 256, "%s/%s", top, name);
}

static void put(const char *name, const char *text)
{
    char path[256];
    path_of(name, path);
    ABX_AUTO_FD fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(abx_fd_write_all(fd, text, strlen(text)), 0);
}

static void folder(const char *name)
{
    char path[256];
    path_of(name, path);
    assert_int_equal(mkdir(path, 0755), 0);
}

static bool says(const char *name, const char *want)
{
    char path[256];
    ABX_AUTO_FREE char *text = NULL;
    size_t len;
    path_of(name, path);
    assert_true(abx_fd_read_file(AT_FDCWD, path, 4096, &text, &len) >= 0);
    return strcmp(text, want) == 0;
}

static void fill(const char *in, const char *controllers, const char *processes)
{
    const char *const files[][2] = {{"cgroup.subtree_control", ""},
                                    {"cgroup.procs", processes},
                                    {"cgroup.controllers", controllers}};
    for (size_t i = 0; i < ABX_COUNTOF(files); i++) {
        char name[256];
        snprintf(name, sizeof(name), "%s/%s", in, files[i][0]);
        put(name, files[i][1]);
    }
}

static void set_up(const char *type)
{
    static const char name[] = "/tmp/abx-cgroup-XXXXXX";
    memcpy(top, name, sizeof(name));
    assert_non_null(mkdtemp(top));
    snprintf(mounts, sizeof(mounts),
             "22 1 0:21 / /proc rw shared:1 - proc proc rw\n"
             "30 22 0:26 / %s rw,nosuid shared:4 - %s cgroup rw,memory\n",
             top, type);
}

static void tear_down(void)
{
    assert_int_equal(abx_fd_remove_tree(AT_FDCWD, top), 0);
}

static void find(const char *own, bool rootful, struct abx__cgroups *ret)
{
    char path[256];
    if (own != NULL)
        path_of(own, path);
    abx__cgroups_read(abx_str(mounts), own != NULL ? path : NULL, STATE, rootful, ret);
}

/* cpuset is not cpu. */
TEST(a_hierarchy_counts_with_all_its_controllers)
{
    static const struct {
        const char *controllers, *level;
    } rows[] = {{"cpuset cpu io memory hugetlb pids rdma misc\n", "cgroup-v2"},
                {"cpuset io memory pids\n", "per-process"},
                {"memory pids\n", "per-process"},
                {"", "per-process"}};
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx__cgroups cg;
        set_up("cgroup2");
        fill(".", rows[i].controllers, "1\n");
        find(NULL, true, &cg);
        assert_string_equal(cg.level, rows[i].level);
        assert_int_equal(cg.own[0], 0);
        assert_true(says("cgroup.procs", "1\n")); /* nobody was moved */
        find(NULL, false, &cg);
        assert_string_equal(cg.level, "per-process"); /* the top is root's */
        tear_down();
    }
}

TEST(limits_of_v2_leave_no_swap)
{
    struct abx__cgroups cg;
    struct abx__limits l = {.memory_mb = 64, .cpu_count = 2, .pids_max = 100};
    struct abx__knob k;
    static const char *const want[][2] = {{"memory.max", "67108864"},
                                          {"memory.swap.max", "0"},
                                          {"pids.max", "100"},
                                          {"cpu.max", "200000 100000"}};
    size_t i = 0;
    set_up("cgroup2");
    fill(".", "cpu memory pids\n", "");
    find(NULL, true, &cg);
    for (; abx__cgroups_knob(&cg, i, 7, &l, &k); i++) {
        char path[320];
        assert_true(i < ABX_COUNTOF(want));
        snprintf(path, sizeof(path), "%s/" OURS "/s7/%s", top, want[i][0]);
        assert_string_equal(k.path, path);
        assert_string_equal(k.text, want[i][1]);
    }
    assert_int_equal(i, ABX_COUNTOF(want));
    tear_down();
}

/* What this process may be in as a user: made room in, if only programs of ours are there. */
static void own_with(const char *processes, const char *controllers)
{
    set_up("cgroup2");
    folder("unit");
    fill("unit", controllers, processes);
    folder("unit/" OURS);
    fill("unit/" OURS, "", "");
    folder("unit/" OURS "/engine");
    fill("unit/" OURS "/engine", "", "");
}

TEST(an_engine_makes_room_in_the_cgroup_that_it_was_given)
{
    struct abx__cgroups cg;
    struct abx_error err;
    char pid[32], path[256];
    snprintf(pid, sizeof(pid), "%d\n", getpid());
    assert_int_equal(prctl(PR_SET_NAME, "abx-test"), 0);
    own_with(pid, "cpu memory pids\n");
    find("unit", false, &cg);
    assert_string_equal(cg.level, "cgroup-v2");
    path_of("unit/" OURS, path);
    assert_string_equal(cg.parents[ABX__CG_UNIFIED], path);
    snprintf(pid, sizeof(pid), "%d", getpid());
    assert_true(says("unit/" OURS "/engine/cgroup.procs", pid));
    assert_true(says("unit/cgroup.subtree_control", "+memory +pids +cpu"));
    assert_int_equal(abx__cgroups_open(&cg, &err), 0);
    assert_true(says("unit/" OURS "/cgroup.subtree_control", "+memory +pids +cpu"));
    abx__cgroups_close(&cg);
    assert_true(says("unit/cgroup.subtree_control", "-memory -pids -cpu"));
    snprintf(pid, sizeof(pid), "%d\n", getpid()); /* over what stood there */
    assert_true(says("unit/cgroup.procs", pid));
    tear_down();
}

TEST(an_engine_moves_nobody_else_and_nothing_for_half_the_controllers)
{
    static const struct {
        const char *processes, *controllers;
    } rows[] = {{"1\n", "cpu memory pids\n"}, {"0\n", "cpu memory pids\n"}, {"", "memory pids\n"}};
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx__cgroups cg;
        own_with(rows[i].processes, rows[i].controllers);
        find("unit", false, &cg);
        assert_string_equal(cg.level, "per-process");
        assert_int_equal(cg.own[0], 0);
        assert_int_equal(cg.parents[ABX__CG_UNIFIED][0], 0);
        assert_true(says("unit/cgroup.procs", rows[i].processes));
        assert_true(says("unit/cgroup.subtree_control", ""));
        tear_down();
    }
}

/* Root may write everywhere: what is its own to divide carries systemd's mark. */
TEST(an_engine_of_root_uses_its_own_cgroup_only_if_it_was_delegated)
{
    struct abx__cgroups cg;
    char path[256];
    own_with("", "cpu memory pids\n");
    fill(".", "cpu memory pids\n", "");
    find("unit", true, &cg);
    assert_string_equal(cg.level, "cgroup-v2");
    path_of(OURS, path);
    assert_string_equal(cg.parents[ABX__CG_UNIFIED], path);
    path_of("unit", path);
    if (setxattr(path, "user.delegate", "1", 1, 0) == 0) { /* a file system without: skipped */
        find("unit", true, &cg);
        path_of("unit/" OURS, path);
        assert_string_equal(cg.parents[ABX__CG_UNIFIED], path);
    }
    tear_down();
}
