/* guest/caps/snapshot_test.c: what became different between two looks. */
#include "guest/caps/snapshot.h"
#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "tests/unit/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static char root[64];

static void touch(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    ABX_AUTO_FD fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(abx_fd_write_all(fd, text, strlen(text)), 0);
}

static void make_folder(const char *name)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void empty(void)
{
    assert_int_equal(abx_fd_remove_tree(AT_FDCWD, root), 0);
    assert_int_equal(mkdir(root, 0700), 0);
}

static void look(struct abx_snapshot *s, uint32_t depth, size_t max)
{
    const struct abx_tree_walk walk = {.path = abx_str(root), .depth = depth};
    assert_int_equal(abx_snapshot_take(s, &walk, NULL, max), 0);
}

static void note(void *ctx, enum abx_snapshot_kind kind, const struct abx_snapshot_entry *e)
{
    struct abx_str name = abx_str_sub(e->path, strlen(root) + 1, e->path.len);
    abx_buf_putf(ctx, "%c%.*s%s ", "+~-"[kind], ABX_STR_FMT(name), e -> is_folder ? "/" : "");
}

static void expect(const struct abx_snapshot *old, const struct abx_snapshot *fresh,
                   const char *want)
{
    struct abx_buf said;
    abx_buf_init(&said, 4096);
    abx_buf_put_c(&said, "");
    abx_snapshot_diff(old, fresh, note, &said);
    assert_string_equal(said.ptr ? said.ptr : "", want);
    abx_buf_done(&said);
}

TEST(the_difference_of_two_looks_is_told_in_order)
{
    struct abx_snapshot a, b;
    snprintf(root, sizeof(root), "/tmp/abx-snap-XXXXXX");
    assert_non_null(mkdtemp(root));
    make_folder("d");
    touch("d/deep", "x");
    touch("b", "1");
    touch("z", "1");
    look(&a, 5, 100);
    expect(&a, &a, "");
    touch("z", "longer");
    touch("a", "1");
    look(&b, 5, 100);
    expect(&a, &b, "+a ~z ");
    expect(&b, &a, "~z -a ");
    abx_snapshot_done(&b);
    empty();
    look(&b, 5, 100);
    expect(&a, &b, "-b -d/ -d/deep -z ");
    abx_snapshot_done(&a);
    abx_snapshot_done(&b);
    assert_int_equal(rmdir(root), 0);
    look(&a, 5, 100); /* a folder that has gone is empty */
    assert_int_equal(a.count, 0);
    abx_snapshot_done(&a);
}

TEST(depth_and_number_are_bounded)
{
    struct abx_snapshot s;
    snprintf(root, sizeof(root), "/tmp/abx-snap-XXXXXX");
    assert_non_null(mkdtemp(root));
    make_folder("d");
    touch("d/deep", "x");
    touch("f", "x");
    look(&s, 1, 100);
    assert_int_equal(s.count, 2);
    abx_snapshot_done(&s);
    look(&s, 2, 2);
    assert_int_equal(s.count, 2);
    assert_true(s.is_cut);
    abx_snapshot_done(&s);
    look(&s, 2, 3);
    assert_false(s.is_cut);
    abx_snapshot_done(&s);
    assert_int_equal(abx_fd_remove_tree(AT_FDCWD, root), 0);
}
