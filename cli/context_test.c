/* cli/context_test.c: .dockerignore, what a COPY packs, the same bytes for the same files. */
#include "cli/context.h"
#include "lib/base/fd.h"
#include "tests/unit/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

TEST(patterns_fit_whole_paths)
{
    static const struct {
        const char *pattern, *path;
        bool fits;
    } rows[] = {
        {"a", "a", true},
        {"a", "a/b", false},
        {"*", "a", true},
        {"*", "a/b", false},
        {"*/b", "a/b", true},
        {"**", "a/b/c", true},
        {"**/c", "a/b/c", true},
        {"**/c", "c", true},
        {"a/**/c", "a/c", true},
        {"a/**/c", "a/x/y/c", true},
        {"a/**/c", "b/c", false},
        {"*.py[co]", "x.pyc", true},
        {"*.whl", ".abx/x.whl", false},
        {".abx/*.whl", ".abx/x.whl", true},
        {"**/b/**/d", "a/b/c/b/d", true},
        {"a?c", "abc", true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (cli_path_match(abx_str(rows[i].pattern), abx_str(rows[i].path)) != rows[i].fits)
            fail_msg("%s, %s", rows[i].pattern, rows[i].path);
}

TEST(the_last_rule_that_fits_decides)
{
    static struct cli_ignore ig;
    assert_int_equal(
        cli_ignore_read(ABX_STR("# no\n\n/build/\n*.log\n!keep.log\nsub\n!sub/in\r\n"), &ig), 0);
    assert_int_equal(ig.count, 5);
    assert_true(cli_ignore_match(&ig, ABX_STR("build/x/y")));
    assert_true(cli_ignore_match(&ig, ABX_STR("a.log")));
    assert_false(cli_ignore_match(&ig, ABX_STR("keep.log")));
    assert_false(cli_ignore_match(&ig, ABX_STR("x/a.log")));
    assert_true(cli_ignore_match(&ig, ABX_STR("sub/out")));
    assert_false(cli_ignore_match(&ig, ABX_STR("sub/in")));
}

struct tree {
    char dir[64];
    int fd;
};

static void put(const struct tree *t, const char *name, const char *text, mode_t mode)
{
    int fd = openat(t->fd, name, O_WRONLY | O_CREAT | O_TRUNC, mode);
    assert_true(fd >= 0);
    assert_int_equal(abx_fd_write_all(fd, text, strlen(text)), 0);
    fchmod(fd, mode);
    close(fd);
}

static struct tree make_tree(void)
{
    struct tree t;
    snprintf(t.dir, sizeof(t.dir), "/tmp/abx-context-XXXXXX");
    assert_non_null(mkdtemp(t.dir));
    t.fd = open(t.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(t.fd, "app", 0755), 0);
    assert_int_equal(mkdirat(t.fd, "app/sub", 0700), 0);
    put(&t, "app/b.py", "b", 0644);
    put(&t, "app/a.sh", "aa", 0755);
    put(&t, "app/sub/x.log", "log", 0644);
    put(&t, "one.whl", "1", 0644);
    put(&t, "two.whl", "2", 0644);
    assert_int_equal(symlinkat("/etc/passwd", t.fd, "app/link"), 0);
    return t;
}

static void drop_tree(struct tree *t)
{
    close(t->fd);
    abx_fd_remove_tree(AT_FDCWD, t->dir);
}

/* "name type mode size;" of each entry. */
static void list_archive(int fd, char *out, size_t cap)
{
    gzFile z = gzdopen(dup(fd), "r");
    unsigned char h[512];
    size_t n = 0;
    out[0] = '\0';
    while (gzread(z, h, sizeof(h)) == sizeof(h) && h[0] != 0) {
        size_t size = strtoul((char *)h + 124, NULL, 8);
        n += (size_t)snprintf(out + n, cap - n, "%.100s %c %lo %zu;", (char *)h, h[156],
                              strtoul((char *)h + 100, NULL, 8), size);
        for (size_t left = (size + 511) / 512; left > 0; left--)
            assert_int_equal(gzread(z, h, sizeof(h)), sizeof(h));
    }
    gzclose(z);
}

static int pack(const struct tree *t, const char *src, const char *ignore, struct cli_pack *ret,
                struct abx_error *err)
{
    static struct cli_ignore ig;
    assert_int_equal(cli_ignore_read(abx_str(ignore), &ig), 0);
    return cli_context_pack(t->fd, abx_str(src), ABX_STR("/x"), &ig, ret, err);
}

TEST(a_copy_packs_what_it_names)
{
    struct tree t = make_tree();
    static const struct {
        const char *src, *ignore, *entries;
    } rows[] = {
        {"app/", "",
         "app 5 755 0;app/a.sh 0 755 2;app/b.py 0 644 1;app/link 2 777 0;app/sub 5 700 0;"
         "app/sub/x.log 0 644 3;"},
        {"./app//b.py", "", "app/b.py 0 644 1;"},
        {"*.whl", "", "one.whl 0 644 1;two.whl 0 644 1;"},
        {"app", "**/*.log\napp/link\n",
         "app 5 755 0;app/a.sh 0 755 2;app/b.py 0 644 1;app/sub 5 700 0;"},
        {".", "app\n!app/b.py\n", "app/b.py 0 644 1;one.whl 0 644 1;two.whl 0 644 1;"},
        {"app/*/x.log", "", "app/sub/x.log 0 644 3;"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct cli_pack p;
        struct abx_error err;
        char text[2048];
        if (pack(&t, rows[i].src, rows[i].ignore, &p, &err) < 0)
            fail_msg("row %zu: %s", i, err.msg);
        list_archive(p.fd, text, sizeof(text));
        assert_string_equal(text, rows[i].entries);
        close(p.fd);
    }
    drop_tree(&t);
}

TEST(the_same_files_give_the_same_archive_and_others_do_not)
{
    struct tree t = make_tree();
    struct cli_pack p[4];
    struct abx_error err;
    char data[2][65536];
    ssize_t len[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pack(&t, "app", "", &p[i], &err), 0);
        len[i] = abx_fd_read_all(p[i].fd, data[i], sizeof(data[i]));
        put(&t, "app/b.py", "b", 0644); /* a new time is not seen */
    }
    assert_int_equal(len[0], len[1]);
    assert_memory_equal(data[0], data[1], (size_t)len[0]);
    assert_string_equal(p[0].hash, p[1].hash);
    put(&t, "app/b.py", "c", 0644);
    assert_int_equal(pack(&t, "app", "", &p[2], &err), 0);
    assert_string_not_equal(p[0].hash, p[2].hash);
    put(&t, "app/b.py", "b", 0755);
    assert_int_equal(pack(&t, "app", "", &p[3], &err), 0);
    assert_string_not_equal(p[0].hash, p[3].hash);
    for (int i = 0; i < 4; i++)
        close(p[i].fd);
    drop_tree(&t);
}

TEST(what_can_not_be_packed_is_an_error)
{
    struct tree t = make_tree();
    struct cli_pack p;
    struct abx_error err;
    assert_int_equal(mkfifoat(t.fd, "app/fifo", 0644), 0);
    assert_int_equal(pack(&t, "../x", "", &p, &err), -1);
    assert_non_null(strstr(err.msg, "leads out of the context"));
    assert_int_equal(pack(&t, "none", "", &p, &err), -1);
    assert_int_equal(err.code, ABX_NOT_FOUND);
    assert_int_equal(pack(&t, "app/link/x", "", &p, &err), -1);
    assert_int_equal(pack(&t, "app", "", &p, &err), -1);
    assert_non_null(strstr(err.msg, "app/fifo is no file"));
    assert_int_equal(pack(&t, "app", "app/fifo", &p, &err), 0);
    close(p.fd);
    drop_tree(&t);
}

TEST(long_names_go_into_pax_records)
{
    struct tree t = make_tree();
    struct cli_pack p;
    struct abx_error err;
    char name[160], text[4096];
    memset(name, 'n', sizeof(name));
    memcpy(name, "app/", 4);
    name[150] = '\0';
    put(&t, name, "x", 0644);
    assert_int_equal(pack(&t, name, "", &p, &err), 0);
    list_archive(p.fd, text, sizeof(text));
    assert_non_null(strstr(text, "PaxHeaders/entry x 644 160;"));
    close(p.fd);
    drop_tree(&t);
}
