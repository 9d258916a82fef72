/* guest/caps/tree_copy_test.c: copies, modes and additions where it is awkward: bounds, depth, what
 * is exchanged meanwhile, an end in the middle. */
#include "guest/caps/tree_rig_priv.h"
#include "tests/unit/alloc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static void make_folder(const char *name)
{
    assert_int_equal(mkdir(path(name).ptr, 0755), 0);
}

/* Entries of a folder of the rig. */
static unsigned count(const char *name)
{
    unsigned n = 0;
    DIR *dir = opendir(path(name).ptr);
    assert_non_null(dir);
    for (const struct dirent *d; (d = readdir(dir)) != NULL;)
        n += strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0;
    closedir(dir);
    return n;
}

static mode_t mode_of(const char *name)
{
    struct stat st;
    assert_int_equal(lstat(path(name).ptr, &st), 0);
    return st.st_mode & 07777;
}

/* What is done before each entry. */
struct hook {
    unsigned asked, acts_at; /* 0: never */
    int answers;             /* then: as abx_tree_copy.judge */
    void (*act)(void);
};

static int judge(void *ctx, const struct abx_tree_copy_entry *e)
{
    struct hook *h = ctx;
    assert_true(abx_str_starts(e->from, root) && abx_str_starts(e->to, root));
    assert_int_equal(e->is_top, h->asked == 0);
    assert_int_equal(e->target.ptr != NULL, S_ISLNK(e->st.st_mode));
    if (++h->asked != h->acts_at)
        return 1;
    if (h->act)
        h->act();
    return h->answers;
}

static int copy(const char *from, const char *to, struct hook h, struct abx_tree_copy bounds)
{
    struct abx_tree_copied n;
    bounds.from = path(from);
    bounds.to = path(to);
    bounds.judge = judge;
    bounds.ctx = &h;
    int rc = abx_tree_copy(&bounds, &n);
    assert_true(rc == 0 || n.failed.len > 0 || n.failed.failed);
    abx_buf_done(&n.failed);
    return rc;
}

#define BOUNDS .max_bytes = 1 << 20, .max_entries = 100
#define PLAIN  ((struct abx_tree_copy){BOUNDS})

static void fill(void)
{
    make_folder("t");
    make_folder("t/sub");
    make_file("t/sub/f", "content");
    make_file("t/g", "more");
    assert_int_equal(symlink("sub/f", path("t/link").ptr), 0);
}

TEST(d31_a_copy_that_ends_in_the_middle_leaves_nothing)
{
    static const struct {
        struct hook hook;
        struct abx_tree_copy bounds;
        int rc;
    } rows[] = {
        {{.acts_at = 4, .answers = -EPERM}, {BOUNDS}, -EPERM},
        {{0}, {.max_bytes = 10, .max_entries = 100}, -EFBIG},
        {{0}, {.max_bytes = 100, .max_entries = 4}, -E2BIG},
    };
    atomic_bool over = true;
    rig_open();
    fill();
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        assert_int_equal(copy("t", "u", rows[i].hook, rows[i].bounds), rows[i].rc);
        assert_int_equal(count(""), 1);
    }
    assert_int_equal(
        copy("t", "u", (struct hook){0}, (struct abx_tree_copy){BOUNDS, .cancel = &over}),
        -ECANCELED);
    assert_int_equal(count(""), 1);
    assert_int_equal(mkfifo(path("t/sub/fifo").ptr, 0600), 0);
    assert_int_equal(copy("t", "u", (struct hook){0}, PLAIN), -ENOTSUP);
    assert_int_equal(count(""), 1);
    rig_close();
}

TEST(d31_what_is_left_out_takes_its_tree_along)
{
    rig_open();
    fill();
    assert_int_equal(unlink(path("t/g").ptr), 0);
    assert_int_equal(unlink(path("t/link").ptr), 0);
    assert_int_equal(copy("t", "u", (struct hook){.acts_at = 2}, PLAIN), 0);
    assert_int_equal(count("u"), 0);
    rig_close();
}

static void swap_with_a_link(void)
{
    assert_int_equal(unlink(path("f").ptr), 0);
    assert_int_equal(symlink("secret", path("f").ptr), 0);
}

static void swap_with_a_fifo(void)
{
    assert_int_equal(unlink(path("f").ptr), 0);
    assert_int_equal(mkfifo(path("f").ptr, 0600), 0);
}

static void take_the_place(void)
{
    make_file("new", "theirs");
}

TEST(d31_what_is_exchanged_after_it_was_judged_is_not_copied)
{
    static const struct {
        void (*act)(void);
        int rc;
    } rows[] = {{swap_with_a_link, -ELOOP}, {swap_with_a_fifo, -ENOTSUP}};
    rig_open();
    make_file("secret", "secret");
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        make_file("f", "open");
        assert_int_equal(
            copy("f", "new", (struct hook){.acts_at = 1, .answers = 1, .act = rows[i].act}, PLAIN),
            rows[i].rc);
        assert_int_equal(count(""), 2);
        assert_int_equal(unlink(path("f").ptr), 0);
    }
    rig_close();
}

TEST(d31_a_name_that_is_taken_meanwhile_stays)
{
    rig_open();
    make_file("f", "ours");
    const struct hook h = {.acts_at = 1, .answers = 1, .act = take_the_place};
    assert_int_equal(copy("f", "new", h, (struct abx_tree_copy){BOUNDS, .must_be_new = true}),
                     -EEXIST);
    expect_file("new", "theirs");
    assert_int_equal(unlink(path("new").ptr), 0);
    fill();
    assert_int_equal(copy("t", "new", h, PLAIN), -EEXIST); /* a folder takes nobody's place */
    expect_file("new", "theirs");
    assert_int_equal(count(""), 3);
    rig_close();
}

TEST(d31_folders_that_are_nested_too_deep_are_no_copy)
{
    char name[1024] = "t";
    rig_open();
    for (int i = 0; i < 140; i++) {
        make_folder(name);
        snprintf(name + strlen(name), sizeof(name) - strlen(name), "/d");
    }
    assert_int_equal(copy("t", "u", (struct hook){0},
                          (struct abx_tree_copy){.max_bytes = 1, .max_entries = 1000}),
                     -EOVERFLOW);
    assert_int_equal(count(""), 1);
    rig_close();
}

TEST(d31_a_copy_without_memory_leaves_nothing)
{
    rig_open();
    fill();
    make_folder("to");
    for (unsigned n = 1; abx_alloc_fail(n); n++) {
        int rc = copy("t", "to/t", (struct hook){0}, PLAIN);
        if (!abx_alloc_failed()) {
            assert_int_equal(rc, 0);
            assert_int_equal(count("to/t"), 3);
            continue;
        }
        assert_true(rc == -ENOMEM || rc == -ENAMETOOLONG);
        assert_int_equal(count("to"), 0);
    }
    rig_close();
}

/* ---- additions ---- */

static int append(const char *name, const char *text, uint64_t max, uint64_t *ret_size)
{
    const struct abx_tree_put put = {.path = path(name), .content = abx_str(text)};
    return abx_tree_append(&put, max, ret_size);
}

TEST(d31_an_addition_goes_in_whole_or_not_at_all)
{
    struct rlimit small = {10, RLIM_INFINITY}, all = {RLIM_INFINITY, RLIM_INFINITY};
    uint64_t size = 0;
    rig_open();
    assert_int_equal(append("f", "12345", 100, &size), 0);
    assert_int_equal(append("f", "67", 100, &size), 0);
    assert_int_equal(size, 7);
    assert_int_equal(append("f", "890", 9, &size), -EFBIG);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int rc = append("f", "890123456", 100, &size), made = append("g", "0123456789ab", 100, &size);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
    assert_int_equal(rc, -EFBIG);
    assert_int_equal(made, -EFBIG);
    expect_file("f", "1234567");
    assert_int_equal(count(""), 1);
    rig_close();
}

TEST(d31_an_addition_goes_into_a_file_alone)
{
    uint64_t size;
    rig_open();
    make_folder("d");
    assert_int_equal(mkfifo(path("fifo").ptr, 0600), 0);
    assert_int_equal(symlink("f", path("link").ptr), 0);
    assert_int_equal(append("d", "x", 100, &size), -EISDIR);
    assert_int_equal(append("fifo", "x", 100, &size), -EINVAL);
    assert_int_equal(append("link", "x", 100, &size), -ELOOP);
    assert_int_equal(append("none/f", "x", 100, &size), -ENOENT);
    make_file("f", "old");
    const struct abx_tree_put put = {
        .path = path("f"), .content = ABX_STR("x"), .must_be_new = true};
    assert_int_equal(abx_tree_append(&put, 100, &size), -EEXIST);
    expect_file("f", "old");
    rig_close();
}

/* ---- modes ---- */

static int agree(void *ctx, struct abx_str name, const struct stat *st)
{
    unsigned *left = ctx;
    assert_true(abx_str_starts(name, root) && !S_ISLNK(st->st_mode));
    return (*left)-- == 0 ? -EPERM : 0;
}

static int change(const char *name, bool is_recursive, unsigned ends_after, uint64_t *ret)
{
    const struct abx_tree_chmod spec = {.path = path(name),
                                        .file_mode = 0640,
                                        .folder_mode = 0711,
                                        .is_recursive = is_recursive,
                                        .max_entries = 4,
                                        .judge = agree,
                                        .ctx = &ends_after};
    return abx_tree_chmod(&spec, ret);
}

TEST(d31_modes_change_beneath_a_folder_and_through_no_link)
{
    uint64_t n;
    rig_open();
    fill();
    make_file("outside", "x");
    assert_int_equal(unlink(path("t/link").ptr), 0);
    assert_int_equal(symlink("../outside", path("t/link").ptr), 0);
    assert_int_equal(change("t", true, 100, &n), 0);
    assert_int_equal(n, 4);
    assert_int_equal(mode_of("t"), 0711);
    assert_int_equal(mode_of("t/sub"), 0711);
    assert_int_equal(mode_of("t/sub/f"), 0640);
    assert_int_equal(mode_of("outside"), 0600);
    assert_int_equal(change("t/link", false, 100, &n), -EINVAL);
    assert_int_equal(change("t/link/x", false, 100, &n), -ELOOP);
    assert_int_equal(change("t", true, 2, &n), -EPERM);
    make_file("t/h", "x");
    assert_int_equal(change("t", true, 100, &n), -E2BIG);
    assert_int_equal(change("t/h", false, 100, &n), 0);
    assert_int_equal(mode_of("t/h"), 0640);
    rig_close();
}
