/* guest/caps/tree_move_test.c: renames, and the copy that stands for one between file systems. */
#include "guest/caps/tree_rig_priv.h"
#include "tests/unit/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/xattr.h>
#include <unistd.h>

static bool exists(const char *name)
{
    struct stat st;
    return lstat(path(name).ptr, &st) == 0;
}

typedef int move_fn(struct abx_str from, struct abx_str to);
static move_fn *const ways[] = {abx_tree_move, abx_tree_move_copying};

static void fill(void)
{
    const struct timespec times[] = {{1000, 5}, {2000, 7}};
    assert_int_equal(mkdir(path("t").ptr, 0750), 0);
    assert_int_equal(mkdir(path("t/sub").ptr, 0700), 0);
    make_file("t/sub/f", "content");
    assert_int_equal(chmod(path("t/sub/f").ptr, 0751), 0);
    assert_int_equal(utimensat(AT_FDCWD, path("t/sub/f").ptr, times, 0), 0);
    assert_int_equal(symlink("sub/f", path("t/link").ptr), 0);
    assert_int_equal(mkfifo(path("t/fifo").ptr, 0600), 0);
    (void)setxattr(path("t/sub/f").ptr, "user.note", "kept", 4, 0); /* where it is supported */
}

static void expect_moved(bool has_attribute)
{
    struct stat st;
    char text[16] = "";
    expect_file("new/sub/f", "content");
    assert_int_equal(stat(path("new/sub/f").ptr, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0751);
    assert_int_equal(st.st_mtim.tv_sec, 2000);
    assert_int_equal(st.st_mtim.tv_nsec, 7);
    assert_int_equal(stat(path("new").ptr, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0750);
    assert_int_equal(readlink(path("new/link").ptr, text, sizeof(text) - 1), 5);
    assert_string_equal(text, "sub/f");
    assert_int_equal(lstat(path("new/fifo").ptr, &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
    if (has_attribute)
        assert_int_equal(getxattr(path("new/sub/f").ptr, "user.note", text, sizeof(text)), 4);
    assert_false(exists("t"));
}

TEST(a_tree_moves_whole_by_rename_and_by_copy)
{
    rig_open();
    for (size_t i = 0; i < ABX_COUNTOF(ways); i++) {
        char note[8];
        fill();
        bool has_attribute = getxattr(path("t/sub/f").ptr, "user.note", note, sizeof(note)) == 4;
        assert_int_equal(ways[i](path("t"), path("new")), 0);
        expect_moved(has_attribute);
        assert_int_equal(abx_fd_remove_tree(AT_FDCWD, path("new").ptr), 0);
    }
    rig_close();
}

TEST(a_file_takes_the_place_of_a_file_or_a_link)
{
    rig_open();
    for (size_t i = 0; i < ABX_COUNTOF(ways); i++) {
        make_file("a", "new");
        make_file("b", "old");
        assert_int_equal(ways[i](path("a"), path("b")), 0);
        expect_file("b", "new");
        make_file("target", "kept");
        assert_int_equal(symlink("target", path("l").ptr), 0);
        assert_int_equal(ways[i](path("b"), path("l")), 0);
        expect_file("target", "kept");
        expect_file("l", "new");
        assert_false(exists("a") || exists("b"));
        assert_int_equal(unlink(path("l").ptr), 0);
    }
    rig_close();
}

TEST(what_can_not_be_moved_stays_as_it_was)
{
    rig_open();
    for (size_t i = 0; i < ABX_COUNTOF(ways); i++) {
        fill();
        make_file("f", "file");
        assert_int_equal(ways[i](path("t"), path("t/sub/t")), -EINVAL);
        assert_int_equal(ways[i](path("t"), path("f")), -ENOTDIR);
        assert_int_equal(ways[i](path("f"), path("t")), -EISDIR);
        assert_int_equal(ways[i](path("none"), path("x")), -ENOENT);
        assert_int_equal(ways[i](path("f"), path("f")), 0);
        assert_int_equal(ways[i](path("f"), path("none/x")), -ENOENT);
        assert_int_equal(symlink("t", path("way").ptr), 0);
        assert_int_equal(ways[i](path("way/sub/f"), path("x")), -ELOOP);
        assert_int_equal(ways[i](path("f"), path("way/x")), -ELOOP);
        expect_file("f", "file");
        expect_file("t/sub/f", "content");
        assert_int_equal(unlink(path("way").ptr), 0);
        assert_int_equal(abx_fd_remove_tree(AT_FDCWD, path("t").ptr), 0);
    }
    rig_close();
}

/* A copy that fails leaves nothing beside the destination and the source as it was. */
TEST(a_copy_without_memory_is_taken_back)
{
    rig_open();
    for (unsigned n = 1; abx_alloc_fail(n); n++) {
        fill();
        assert_int_equal(mkdir(path("to").ptr, 0700), 0);
        int rc = abx_tree_move_copying(path("t"), path("to/t"));
        if (abx_alloc_failed()) {
            assert_int_equal(rc, -ENOMEM);
            expect_file("t/sub/f", "content");
            assert_int_equal(rmdir(path("to").ptr), 0); /* it is empty */
            assert_int_equal(mkdir(path("to").ptr, 0700), 0);
        } else {
            assert_int_equal(rc, 0);
            assert_true(exists("to/t/sub/f") && !exists("t/sub/f"));
        }
        assert_int_equal(abx_fd_remove_tree(AT_FDCWD, path("t").ptr), 0); /* absent is fine */
        assert_int_equal(abx_fd_remove_tree(AT_FDCWD, path("to").ptr), 0);
    }
    rig_close();
}
