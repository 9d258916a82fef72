/* guest/autostart_test.c: when PID 1 runs agent-sandbox-server. The service itself:
 * guest/program_test.c. */
#include "guest/autostart.h"

#include "lib/base/err.h"
#include "lib/base/fd.h"
#include "lib/contract/contract.h"
#include "tests/unit/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/banned.h"

static const char *const folders[] = {"etc",       "etc/agent-sandbox", "home",
                                      "home/user", "home/user/app",     "opt"};

static void put_file(int root_fd, const char *path)
{
    ABX_AUTO_FD fd = openat(root_fd, &path[1], O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
}

static void set(const char *name, const char *value)
{
    assert_int_equal(value ? setenv(name, value, 1) : unsetenv(name), 0);
}

#define POLICY   ABX_SERVER_POLICY_PATH
#define COMMANDS ABX_SERVER_COMMANDS_PATH

TEST(the_server_is_started_where_it_is_asked_for_and_has_something_to_serve)
{
    static const struct {
        const char *asked, *inline_policy, *policy_file;
        const char *files[2]; /* of the image */
        int result;
        bool has_policy, has_commands;
        const char *why; /* in the error */
    } rows[] = {
        {NULL, NULL, NULL, {POLICY, COMMANDS}, 0, false, false, NULL},
        {"", "{}", NULL, {POLICY}, 0, false, false, NULL},
        {"0", "{}", NULL, {POLICY}, 0, false, false, NULL},
        {"true", "{}", NULL, {POLICY}, 0, false, false, NULL},
        {"1", NULL, NULL, {POLICY}, 1, true, false, NULL},
        {"1", NULL, NULL, {COMMANDS}, 1, false, true, NULL},
        {"1", NULL, NULL, {POLICY, COMMANDS}, 1, true, true, NULL},
        {"1", "{}", NULL, {NULL}, 1, true, false, NULL},
        {"1", "{}", NULL, {COMMANDS}, 1, true, true, NULL},
        {"1", NULL, "/opt/p.yaml", {"/opt/p.yaml"}, 1, true, false, NULL},
        {"1", "{}", "/opt/none", {NULL}, 1, true, false, NULL}, /* the file is not read */
        {"1", "", "", {COMMANDS}, 1, false, true, NULL},
        {"1", NULL, NULL, {NULL}, -1, false, false, "needs a policy (" ABX_ENV_SERVER_POLICY},
        {"1", NULL, NULL, {NULL}, -1, false, false, ") or " COMMANDS},
        {"1", "", "", {NULL}, -1, false, false, POLICY},
        /* the wanted policy is missing: the others are not taken for it */
        {"1", NULL, "/opt/none", {POLICY, COMMANDS}, -1, false, false, "no file /opt/none"},
        {"1", NULL, "/opt", {POLICY}, -1, false, false, "no file /opt"},
        {"1", NULL, "opt/p.json", {POLICY}, -1, false, false, "an absolute path is needed"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char root[] = "/tmp/abx-autostart-XXXXXX";
        struct abx_autostart got = {0};
        struct abx_error err = {0};
        assert_non_null(mkdtemp(root));
        ABX_AUTO_FD fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        for (size_t k = 0; k < sizeof(folders) / sizeof(folders[0]); k++)
            assert_int_equal(mkdirat(fd, folders[k], 0755), 0);
        for (size_t k = 0; k < 2 && rows[i].files[k]; k++)
            put_file(fd, rows[i].files[k]);
        set(ABX_ENV_SERVER_AUTOSTART, rows[i].asked);
        set(ABX_ENV_SERVER_POLICY, rows[i].inline_policy);
        set(ABX_ENV_SERVER_POLICY_FILE, rows[i].policy_file);
        print_message("row %zu\n", i);
        assert_int_equal(abx_autostart_look(root, &got, &err), rows[i].result);
        assert_int_equal(got.has_policy, rows[i].has_policy);
        assert_int_equal(got.has_commands, rows[i].has_commands);
        if (rows[i].why && strstr(err.msg, rows[i].why) == NULL)
            fail_msg("no \"%s\" in: %s", rows[i].why, err.msg);
        assert_int_equal(abx_fd_remove_tree(AT_FDCWD, root), 0);
    }
}
