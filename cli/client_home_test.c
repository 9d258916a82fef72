/* cli/client_home_test.c: what `abx env --save` leaves in ~/.abx/.env. */
#include "cli/client_home.h"
#include "lib/base/fd.h"
#include "tests/unit/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

TEST(own_lines_are_replaced_and_others_stay)
{
    static const struct cli_export exports[] = {{"A_URL", "http://x:1"}, {"A_KEY", "e2b_1"}};
    static const struct {
        const char *before, *after;
    } rows[] = {
        {NULL, "A_URL=http://x:1\nA_KEY=e2b_1\n"},
        {"", "A_URL=http://x:1\nA_KEY=e2b_1\n"},
        {"# mine\nB=1\n\nA_KEY=old\nexport A_URL = 'old'\nC=A_KEY=2",
         "# mine\nB=1\n\nC=A_KEY=2\nA_URL=http://x:1\nA_KEY=e2b_1\n"},
        {"A_KEY\nA_KEYS=1\n", "A_KEY\nA_KEYS=1\nA_URL=http://x:1\nA_KEY=e2b_1\n"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char home[] = "/tmp/abx-home-XXXXXX", path[64];
        struct abx_error err;
        struct stat st;
        assert_non_null(mkdtemp(home));
        setenv("HOME", home, 1);
        snprintf(path, sizeof(path), "%s/.abx/.env", home);
        if (rows[i].before) {
            int dir = cli_client_home_open(&err);
            assert_true(dir >= 0);
            assert_int_equal(abx_fd_replace_file(dir, ".env", abx_str(rows[i].before), 0644), 0);
            abx_fd_close(&dir);
        }
        assert_int_equal(cli_client_home_save(exports, 2, &err), 0);
        ABX_AUTO_FREE char *text = NULL;
        assert_int_equal(abx_fd_read_file(AT_FDCWD, path, 4096, &text, NULL), 0);
        if (strcmp(text, rows[i].after) != 0)
            fail_msg("row %zu: '%s'", i, text);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        abx_fd_remove_tree(AT_FDCWD, home);
    }
}

TEST(without_a_home_nothing_is_written)
{
    struct abx_error err;
    const struct cli_export one = {"A", "b"};
    setenv("HOME", "relative", 1);
    assert_int_equal(cli_client_home_save(&one, 1, &err), -1);
    assert_non_null(strstr(err.msg, "HOME"));
}
