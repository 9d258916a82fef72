/* guest/caps/tree_test.c: resolved paths, opens that meet links, folders, whole files. */
#include "guest/caps/tree.h"
#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

struct rig {
    char root[64];
    struct abx_buf text; /* of the last path() */
};

static void rig_open(struct rig *r)
{
    *r = (struct rig){.root = "/tmp/abx-tree-XXXXXX"};
    assert_non_null(mkdtemp(r->root));
    abx_buf_init(&r->text, 65536);
}

static void rig_close(struct rig *r)
{
    assert_int_equal(abx_fd_remove_tree(AT_FDCWD, r->root), 0);
    abx_buf_done(&r->text);
}

/* "ROOT/name" */
static struct abx_str path(struct rig *r, const char *name)
{
    static char slots[8][512];
    static unsigned next;
    char *slot = slots[next++ % 8];
    snprintf(slot, sizeof(slots[0]), "%s/%s", r->root, name);
    return abx_str(slot);
}

static void make_file(struct rig *r, const char *name, const char *text, mode_t mode)
{
    struct abx_str p = path(r, name);
    int fd = open(p.ptr, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(abx_fd_write_all(fd, text, strlen(text)), 0);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void expect_file(struct rig *r, const char *name, const char *text, mode_t mode)
{
    char *got = NULL;
    size_t len;
    struct stat st;
    struct abx_str p = path(r, name);
    assert_true(abx_fd_read_file(AT_FDCWD, p.ptr, 65536, &got, &len) >= 0);
    assert_string_equal(got, text);
    free(got);
    assert_int_equal(stat(p.ptr, &st), 0);
    assert_int_equal(st.st_mode & 07777, mode);
}

/* ---- resolving ---- */

static const struct {
    const char *given, *want; /* beneath the root */
    bool keep_last;
} resolutions[] = {
    {"a/b.txt", "a/b.txt", false},
    {"none/x/y", "none/x/y", false},
    {"in/b.txt", "a/b.txt", false},
    {"in", "a", false},
    {"in", "in", true},
    {"in/in2", "a/in2", true},
    {"in/in2", "a/b.txt", false},
    {"dangling", "none", false},
    {"loop", "loop", false},
    {"loop/x", "loop/x", false},
    {"a/b.txt/x", "a/b.txt/x", false},
    {"chain", "a/b.txt", false},
    {"up/../a/b.txt", "a/b.txt", false},
    {"deep/in/b.txt", "a/b.txt", false},
};

TEST(links_are_followed_and_missing_parts_kept)
{
    struct rig r;
    rig_open(&r);
    assert_int_equal(abx_tree_mkdirs(path(&r, "a")), 0);
    assert_int_equal(abx_tree_mkdirs(path(&r, "deep")), 0);
    make_file(&r, "a/b.txt", "b", 0644);
    static const char *const links[][2] = {
        {"a", "in"},         {"b.txt", "a/in2"}, {"none", "dangling"}, {"loop", "loop"},
        {"in/in2", "chain"}, {"a", "up"},        {"../in", "deep/in"}};
    for (size_t i = 0; i < ABX_COUNTOF(links); i++)
        assert_int_equal(symlink(links[i][0], path(&r, links[i][1]).ptr), 0);
    for (size_t i = 0; i < ABX_COUNTOF(resolutions); i++) {
        ABX_AUTO_BUF got;
        abx_buf_init(&got, 65536);
        struct abx_str given = path(&r, resolutions[i].given);
        assert_int_equal(abx_tree_resolve(given, resolutions[i].keep_last, &got), 0);
        assert_string_equal(got.ptr, path(&r, resolutions[i].want).ptr);
    }
    ABX_AUTO_BUF top;
    abx_buf_init(&top, 65536);
    assert_int_equal(abx_tree_resolve(ABX_STR("/../.."), false, &top), 0);
    assert_string_equal(top.ptr, "/");
    rig_close(&r);
}

/* ---- opening ---- */

TEST(an_open_that_meets_a_link_fails)
{
    struct rig r;
    struct stat st;
    rig_open(&r);
    assert_int_equal(abx_tree_mkdirs(path(&r, "a/c")), 0);
    make_file(&r, "a/b.txt", "b", 0644);
    assert_int_equal(symlink("a", path(&r, "in").ptr), 0);
    assert_int_equal(symlink("b.txt", path(&r, "a/l").ptr), 0);
    assert_int_equal(mkfifo(path(&r, "fifo").ptr, 0600), 0);
    int fd = abx_tree_open(path(&r, "a/b.txt"), O_RDONLY, 0);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(abx_tree_open(path(&r, "in/b.txt"), O_RDONLY, 0), -ELOOP);
    assert_int_equal(abx_tree_open(path(&r, "a/l"), O_RDONLY, 0), -ELOOP);
    assert_int_equal(abx_tree_open(ABX_STR("/proc/version"), O_RDONLY, 0), -EXDEV);
    assert_int_equal(abx_tree_open(ABX_STR("/sys/kernel"), O_RDONLY | O_DIRECTORY, 0), -EXDEV);
    fd = abx_tree_open(path(&r, "fifo"), O_RDONLY, 0); /* does not block */
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(abx_tree_stat(path(&r, "a/l"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(abx_tree_stat(path(&r, "none"), &st), -ENOENT);
    assert_int_equal(abx_tree_stat(path(&r, "in/b.txt"), &st), -ELOOP);
    assert_int_equal(abx_tree_stat(ABX_STR("/"), &st), 0);
    rig_close(&r);
}

TEST(folders_are_made_with_their_parents)
{
    struct rig r;
    rig_open(&r);
    make_file(&r, "file", "", 0644);
    assert_int_equal(symlink("/tmp", path(&r, "out").ptr), 0);
    assert_int_equal(abx_tree_mkdirs(path(&r, "x/y/z")), 0);
    assert_int_equal(abx_tree_mkdirs(path(&r, "x/y/z")), 1);
    assert_int_equal(abx_tree_mkdirs(path(&r, "file")), -EEXIST);
    assert_int_equal(abx_tree_mkdirs(path(&r, "file/x")), -ENOTDIR);
    assert_true(abx_tree_mkdirs(path(&r, "out/x")) < 0);
    assert_int_equal(abx_tree_mkdirs(ABX_STR("/proc/1")), -EXDEV);
    rig_close(&r);
}

/* ---- walking and removing ---- */

struct seen {
    struct abx_buf names;
    size_t max;
};

static bool take(void *ctx, const struct abx_tree_entry *e)
{
    struct seen *s = ctx;
    abx_buf_putf(&s->names, "%.*s%s ", ABX_STR_FMT(e->name), S_ISDIR(e->st.st_mode) ? "/" : "");
    return --s->max > 0;
}

static bool hides(void *ctx, const struct abx_tree_entry *e)
{
    (void)ctx;
    return !abx_str_is(e->name, "one");
}

static void expect_walk(struct rig *r, uint32_t depth, size_t max, bool is_hidden, const char *want)
{
    struct seen s = {.max = max};
    struct abx_tree_walk w = {.path = path(r, "t"),
                              .depth = depth,
                              .take = take,
                              .shows = is_hidden ? hides : NULL,
                              .ctx = &s};
    abx_buf_init(&s.names, 65536);
    assert_int_equal(abx_tree_walk(&w), 0);
    assert_string_equal(s.names.ptr ? s.names.ptr : "", want);
    abx_buf_done(&s.names);
}

TEST(a_walk_goes_as_deep_as_it_is_told)
{
    struct rig r;
    rig_open(&r);
    assert_int_equal(abx_tree_mkdirs(path(&r, "t/one/two/three")), 0);
    expect_walk(&r, 1, 100, false, "one/ ");
    expect_walk(&r, 2, 100, false, "one/ two/ ");
    expect_walk(&r, UINT32_MAX, 100, false, "one/ two/ three/ ");
    expect_walk(&r, UINT32_MAX, 2, false, "one/ two/ ");
    expect_walk(&r, UINT32_MAX, 100, true, "");
    assert_int_equal(symlink("/etc", path(&r, "t/one/link").ptr), 0);
    expect_walk(&r, 1, 100, false, "one/ ");
    struct abx_tree_walk w = {.path = path(&r, "t/one/link"), .depth = 1, .take = take};
    assert_int_equal(abx_tree_walk(&w), -ELOOP);
    assert_int_equal(abx_tree_remove(path(&r, "t")), 0);
    assert_int_equal(abx_tree_remove(path(&r, "t")), -ENOENT);
    assert_int_equal(access("/etc", F_OK), 0);
    rig_close(&r);
}

TEST(a_link_is_removed_itself)
{
    struct rig r;
    rig_open(&r);
    make_file(&r, "kept", "k", 0644);
    assert_int_equal(symlink("kept", path(&r, "link").ptr), 0);
    assert_int_equal(abx_tree_remove(path(&r, "link")), 0);
    expect_file(&r, "kept", "k", 0644);
    rig_close(&r);
}

/* ---- whole files ---- */

static int put(struct rig *r, const char *name, const char *text, bool must_be_new)
{
    struct abx_tree_put p = {
        .path = path(r, name), .content = abx_str(text), .must_be_new = must_be_new};
    return abx_tree_put(&p);
}

TEST(a_file_is_replaced_whole_and_keeps_its_mode)
{
    struct rig r;
    mode_t mask = umask(022);
    rig_open(&r);
    assert_int_equal(put(&r, "new", "1", false), 0);
    expect_file(&r, "new", "1", 0644);
    make_file(&r, "run", "old", 06755);
    int fd = open(path(&r, "run").ptr, O_RDONLY);
    assert_int_equal(put(&r, "run", "2", false), 0);
    expect_file(&r, "run", "2", 0755);
    char was[8] = "";
    assert_int_equal(pread(fd, was, sizeof(was), 0), 3); /* who has it open keeps what was there */
    assert_string_equal(was, "old");
    close(fd);
    assert_int_equal(put(&r, "run", "3", true), -EEXIST);
    assert_int_equal(put(&r, "fresh", "4", true), 0);
    make_file(&r, "hard", "5", 0600);
    assert_int_equal(link(path(&r, "hard").ptr, path(&r, "hard2").ptr), 0);
    assert_int_equal(put(&r, "hard", "both", false), 0);
    expect_file(&r, "hard2", "both", 0600);
    umask(mask);
    rig_close(&r);
}

TEST(a_file_takes_what_was_spooled)
{
    struct rig r;
    mode_t mask = umask(022);
    rig_open(&r);
    const char *const dirs[] = {r.root, "/proc", "/none"}; /* the last two: /tmp */
    for (size_t i = 0; i < ABX_COUNTOF(dirs); i++) {
        struct stat st;
        int fd = abx_tree_spool(abx_str(dirs[i]));
        assert_true(fd >= 0 && fstat(fd, &st) == 0);
        assert_int_equal(st.st_nlink, 0);
        assert_int_equal(write(fd, "spooled, and more", 17), 17);
        struct abx_tree_put p = {.path = path(&r, "f"), .from_fd = fd, .size = 7};
        assert_int_equal(abx_tree_put(&p), 0);
        expect_file(&r, "f", "spooled", 0644);
        p.path = path(&r, "g");
        p.must_be_new = true;
        p.size = 4;
        assert_int_equal(abx_tree_put(&p), i ? -EEXIST : 0);
        p.size = 18; /* more than there is */
        p.must_be_new = false;
        assert_int_equal(abx_tree_put(&p), -EIO);
        expect_file(&r, "g", "spoo", 0644);
        close(fd);
    }
    umask(mask);
    rig_close(&r);
}

TEST(what_is_in_memory_is_told_at_once)
{
    struct rig r;
    struct stat st;
    rig_open(&r);
    assert_int_equal(abx_tree_mkdirs(path(&r, "dir")), 0);
    make_file(&r, "dir/f", "four", 0640);
    assert_int_equal(symlink("f", path(&r, "dir/link").ptr), 0);
    assert_int_equal(symlink("dir", path(&r, "in").ptr), 0);
    assert_int_equal(abx_tree_stat(path(&r, "dir/f"), &st), 0);
    assert_int_equal(abx_tree_stat_cached(path(&r, "dir/f"), &st), 0);
    assert_int_equal(st.st_size, 4);
    assert_int_equal(st.st_mode, S_IFREG | 0640);
    assert_int_equal(abx_tree_stat_cached(path(&r, "dir"), &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    static const char *const others[] = {"dir/link", "in/f", "in", "none", "dir/f/x"};
    for (size_t i = 0; i < ABX_COUNTOF(others); i++)
        assert_int_equal(abx_tree_stat_cached(path(&r, others[i]), &st), -EAGAIN);
    assert_int_equal(abx_tree_stat_cached(ABX_STR("/proc/self/stat"), &st), -EAGAIN);
    rig_close(&r);
}

TEST(what_is_no_file_is_not_written)
{
    struct rig r;
    rig_open(&r);
    assert_int_equal(abx_tree_mkdirs(path(&r, "dir")), 0);
    assert_int_equal(mkfifo(path(&r, "fifo").ptr, 0600), 0);
    assert_int_equal(symlink("/etc/passwd", path(&r, "link").ptr), 0);
    assert_int_equal(symlink("dir", path(&r, "in").ptr), 0);
    assert_int_equal(put(&r, "dir", "x", false), -EISDIR);
    assert_int_equal(put(&r, "dir", "x", true), -EEXIST);
    assert_int_equal(put(&r, "fifo", "x", false), -EINVAL);
    assert_int_equal(put(&r, "link", "x", false), -ELOOP);
    assert_int_equal(put(&r, "in/x", "x", false), -ELOOP);
    assert_int_equal(put(&r, "none/x", "x", false), -ENOENT);
    char name[300] = "";
    memset(name, 'n', 256);
    assert_int_equal(put(&r, name, "x", false), -ENAMETOOLONG);
    rig_close(&r);
}
