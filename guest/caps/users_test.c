/* guest/caps/users_test.c: look-ups against small and hostile /etc trees. */
#include "guest/caps/users.h"
#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "tests/unit/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

static char root[] = "/tmp/abx-users-XXXXXX";

static void put(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/etc/%s", root, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(abx_fd_write_all(fd, text, strlen(text)), 0);
    close(fd);
}

static void set_up(const char *passwd, const char *group)
{
    memcpy(root + sizeof(root) - 7, "XXXXXX", 6);
    assert_non_null(mkdtemp(root));
    char path[128];
    snprintf(path, sizeof(path), "%s/etc", root);
    assert_int_equal(mkdir(path, 0755), 0);
    if (passwd)
        put("passwd", passwd);
    if (group)
        put("group", group);
}

static void tear_down(void)
{
    assert_int_equal(abx_fd_remove_tree(AT_FDCWD, root), 0);
}

static const char passwd_text[] = "root:x:0:0:root:/root:/bin/bash\n"
                                  "broken line\n"
                                  "nouid:x:abc:1::/:/bin/sh\n"
                                  ":x:5:5::/:\n"
                                  "user:x:1000:1001:,,,:/home/user:/bin/bash\n"
                                  "bare:x:7:8\n"
                                  "twin:x:1000:9::/twin:/bin/sh";
static const char group_text[] = "root:x:0:\nuser:x:1001:\nsudo:x:27:other,user\n"
                                 "dup:x:27:user\nx:y\nbig:x:99999999999:user\n"
                                 "users:x:100:user,bare\nprefix:x:101:user2\n";

TEST(users_finds_by_name_with_groups)
{
    set_up(passwd_text, group_text);
    struct abx_user u;
    struct abx_error err = {0};
    assert_int_equal(abx_user_by_name(root, ABX_STR("user"), &u, &err), 0);
    assert_string_equal(u.name, "user");
    assert_int_equal(u.uid, 1000);
    assert_int_equal(u.gid, 1001);
    assert_string_equal(u.home, "/home/user");
    assert_string_equal(u.shell, "/bin/bash");
    static const gid_t want[] = {1001, 27, 100};
    assert_int_equal(u.group_count, ABX_COUNTOF(want));
    assert_memory_equal(u.groups, want, sizeof(want));
    struct abx_user copy;
    assert_int_equal(abx_user_copy(&u, &copy, &err), 0);
    abx_user_done(&u);
    assert_string_equal(copy.home, "/home/user");
    assert_int_equal(copy.group_count, 3);
    abx_user_done(&copy);
    tear_down();
}

TEST(users_fills_missing_fields)
{
    set_up(passwd_text, NULL);
    struct abx_user u;
    assert_int_equal(abx_user_by_uid(root, 7, &u, NULL), 0);
    assert_string_equal(u.name, "bare");
    assert_string_equal(u.home, "/");
    assert_string_equal(u.shell, "/bin/sh");
    assert_int_equal(u.group_count, 1);
    abx_user_done(&u);
    tear_down();
}

TEST(users_reports_unknown_ones)
{
    set_up(passwd_text, group_text);
    struct abx_user u;
    struct abx_error err = {0};
    static const struct {
        const char *name, *msg;
    } rows[] = {
        {"x", "user: unknown user x"},         {"", "user: unknown user "},
        {"nouid", "user: unknown user nouid"}, {"broken line", "user: unknown user broken line"},
        {"use", "user: unknown user use"},     {"root:x", "user: unknown user root:x"},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        assert_int_equal(abx_user_by_name(root, abx_str(rows[i].name), &u, &err), -1);
        assert_int_equal(err.code, ABX_NOT_FOUND);
        assert_string_equal(err.msg, rows[i].msg);
    }
    assert_int_equal(abx_user_by_uid(root, 4242, &u, &err), -1);
    assert_string_equal(err.msg, "user: unknown userid 4242");
    tear_down();
}

/* T06: a single static binary; the default accounts are we ourselves, others are unknown. */
TEST(users_of_a_root_without_passwd)
{
    static const char *const names[] = {"root", "user"};
    struct abx_user u;
    struct abx_error err = {0};
    set_up(NULL, NULL);
    for (size_t i = 0; i < ABX_COUNTOF(names); i++) {
        assert_int_equal(abx_user_by_name(root, abx_str(names[i]), &u, &err), 0);
        assert_string_equal(u.name, names[i]);
        assert_int_equal(u.uid, geteuid());
        assert_int_equal(u.gid, getegid());
        assert_string_equal(u.home, "/");
        assert_int_equal(u.group_count, 1);
        abx_user_done(&u);
    }
    assert_int_equal(abx_user_by_name(root, ABX_STR("nobody"), &u, &err), -1);
    assert_int_equal(err.code, ABX_NOT_FOUND);
    tear_down();
    set_up("root:x:0:0::/root:/bin/sh\n", NULL); /* an account list without it is a decision */
    assert_int_equal(abx_user_by_name(root, ABX_STR("user"), &u, &err), -1);
    assert_int_equal(err.code, ABX_NOT_FOUND);
    tear_down();
}

TEST(names_map_ids_first_line_wins)
{
    set_up(passwd_text, group_text);
    struct abx_names *n = abx_names_open(root);
    assert_non_null(n);
    char out[ABX_NAME_BYTES];
    assert_string_equal(abx_names_user(n, 0, out), "root");
    assert_string_equal(abx_names_user(n, 1000, out), "user");
    assert_string_equal(abx_names_user(n, 31337, out), "31337");
    assert_string_equal(abx_names_group(n, 27, out), "sudo");
    assert_string_equal(abx_names_group(n, 4294967295u, out), "4294967295");
    abx_names_close(n);
    tear_down();
    n = abx_names_open("/nonexistent");
    assert_non_null(n);
    assert_string_equal(abx_names_group(n, 3, out), "3");
    abx_names_close(n);
}
