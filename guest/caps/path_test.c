/* guest/caps/path_test.c: path resolution as a table (envd.md 3.1, traps 15 and 16). */
#include "guest/caps/files.h"
#include "lib/base/assert.h"
#include "tests/unit/test.h"

#include <stdlib.h>

#include "lib/base/banned.h"

static char home[] = "/home/user";
static const struct abx_user user = {.name = "user", .uid = 1000, .gid = 1000, .home = home};

TEST(path_resolves_by_the_table)
{
    static const struct {
        const char *raw, *workdir, *want;
    } rows[] = {
        {"a.txt", "", "/home/user/a.txt"},
        {"a/../b", "", "/home/user/b"},
        {"./x//y/", "", "/home/user/x/y"},
        {"../../../../etc/x", "", "/etc/x"},
        {"", "", "/home/user"},
        {"", "/work", "/work"},
        {"", "work", "/home/user/work"},
        {"a", "/work", "/home/user/a"}, /* relative never means the workdir */
        {"~", "", "/home/user"},
        {"~/", "", "/home/user"},
        {"~/a/../c", "", "/home/user/c"},
        {"~\\a", "", "/home/user/a"},
        {"/a/../b", "", "/a/../b"}, /* absolute: byte for byte */
        {"//x//", "", "//x//"},
        {"/", "", "/"},
        {"..", "", "/home"},
        {"a~", "", "/home/user/a~"},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        char out[ABX_FILES_PATH];
        struct abx_error err = {0};
        assert_int_equal(
            abx_path_resolve(abx_str(rows[i].raw), &user, abx_str(rows[i].workdir), out, &err), 0);
        assert_string_equal(out, rows[i].want);
    }
}

TEST(path_refuses_with_a_reason)
{
    char out[ABX_FILES_PATH];
    struct abx_error err = {0};
    assert_int_equal(abx_path_resolve(ABX_STR("~root/x"), &user, ABX_STR(""), out, &err), -1);
    assert_int_equal(err.code, ABX_INVALID_ARGUMENT);
    assert_string_equal(err.msg, "failed to expand path '~root/x' for user 'user': cannot expand "
                                 "user-specific home dir");
    assert_int_equal(abx_path_resolve(ABX_STR("/a\0b"), &user, ABX_STR(""), out, &err), -1);
    assert_string_equal(err.msg, "path holds a NUL byte");
    static char longest[ABX_FILES_PATH];
    memset(longest, 'x', sizeof(longest));
    for (int absolute = 0; absolute <= 1; absolute++) {
        longest[0] = absolute ? '/' : 'x';
        struct abx_str raw = {longest, ABX_FILES_PATH};
        assert_int_equal(abx_path_resolve(raw, &user, ABX_STR(""), out, &err), -1);
        assert_string_equal(err.msg, "path of 4096 bytes is too long: at most 4095 fit");
    }
    struct abx_str fits = {longest, ABX_FILES_PATH - 1};
    assert_int_equal(abx_path_resolve(fits, &user, ABX_STR(""), out, &err), 0);
}

TEST(path_base_is_the_last_part)
{
    static const char *const rows[][2] = {
        {"/a/b", "b"}, {"/a/b//", "b"}, {"/", "/"}, {"//", "/"}, {"x", "x"}, {"", ""},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_str base = abx_path_base(abx_str(rows[i][0]));
        assert_int_equal(base.len, strlen(rows[i][1]));
        assert_memory_equal(base.ptr, rows[i][1], base.len);
    }
}
