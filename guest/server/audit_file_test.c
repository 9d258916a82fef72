/* guest/server/audit_file_test.c: appending, rotating, reopening; what is no plain file is refused.
 */
#include "guest/server/audit_file.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "tests/unit/test.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

static char top[64], path[128];

static void begin(void)
{
    snprintf(top, sizeof(top), "/tmp/abx-audit-XXXXXX");
    assert_non_null(mkdtemp(top));
    snprintf(path, sizeof(path), "%s/audit", top);
}

static void end(void)
{
    assert_int_equal(abx_fd_remove_tree(AT_FDCWD, top), 0);
}

static void assert_text(const char *suffix, const char *want)
{
    char name[160];
    char *text = NULL;
    size_t len = 0;
    snprintf(name, sizeof(name), "%s%s", path, suffix);
    int rc = abx_fd_read_file(AT_FDCWD, name, 4096, &text, &len);
    if (want == NULL) {
        assert_true(rc < 0);
        return;
    }
    assert_int_equal(rc, 0);
    assert_string_equal(text, want);
    free(text);
}

static struct abx__audit_file *open_it(uint64_t max_bytes, uint64_t keep)
{
    struct abx_error err = {0};
    struct abx__audit_file *f = NULL;
    struct abx__audit_file_spec spec = {
        .path = abx_str(path), .max_bytes = max_bytes, .keep = keep};
    assert_int_equal(abx__audit_file_open(&spec, &f, &err), 0);
    return f;
}

TEST(audit_file_is_appended_to_and_rotated_by_size)
{
    struct stat st;
    begin();
    struct abx__audit_file *f = open_it(8, 2);
    static const char *const lines[] = {"one\n", "two\n", "three\n", "four\n", "five\n"};
    for (size_t i = 0; i < ABX_COUNTOF(lines); i++)
        assert_true(abx__audit_file_write(f, abx_str(lines[i])));
    assert_text("", "five\n");
    assert_text(".1", "four\n");
    assert_text(".2", "three\n");
    assert_text(".3", NULL); /* "one" and "two" are gone: two old files are kept */
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    abx__audit_file_close(f);
    f = open_it(100, 2);
    assert_true(abx__audit_file_write(f, ABX_STR("six\n")));
    assert_text("", "five\nsix\n");
    abx__audit_file_close(f);
    end();
}

TEST(audit_file_goes_on_in_a_new_one_after_it_was_moved)
{
    char moved[160];
    begin();
    struct abx__audit_file *f = open_it(1000, 1);
    snprintf(moved, sizeof(moved), "%s.moved", path);
    assert_true(abx__audit_file_write(f, ABX_STR("before\n")));
    assert_int_equal(rename(path, moved), 0);
    assert_true(abx__audit_file_write(f, ABX_STR("still\n")));
    assert_true(abx__audit_file_reopen(f));
    assert_true(abx__audit_file_write(f, ABX_STR("after\n")));
    assert_text(".moved", "before\nstill\n");
    assert_text("", "after\n");
    abx__audit_file_close(f);
    end();
}

TEST(audit_file_refuses_links_pipes_and_files_of_others)
{
    struct abx_error err = {0};
    struct abx__audit_file *f = NULL;
    char other[160];
    struct abx__audit_file_spec spec = {.path = abx_str(path), .max_bytes = 100, .keep = 1};
    begin();
    snprintf(other, sizeof(other), "%s.other", path);
    ABX_AUTO_FD fd = open(other, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    spec.path = abx_str(path);
    assert_int_equal(symlink(other, path), 0);
    assert_int_equal(abx__audit_file_open(&spec, &f, &err), -1);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(link(other, path), 0);
    assert_int_equal(abx__audit_file_open(&spec, &f, &err), -1);
    assert_int_equal(err.code, ABX_FAILED_PRECONDITION);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(abx__audit_file_open(&spec, &f, &err), -1);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(chmod(other, 0666), 0);
    assert_int_equal(rename(other, path), 0);
    assert_int_equal(abx__audit_file_open(&spec, &f, &err), -1);
    assert_non_null(strstr(err.msg, path));
    assert_null(f);
    end();
}
