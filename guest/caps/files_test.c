/* guest/caps/files_test.c: entries, listings, mkdir, move, remove; every error text a row. */
#include "guest/caps/files_rig_priv.h"
#include "tests/unit/alloc.h"

#include "lib/base/banned.h"

/* What an operation answered, as text: "name type mode permissions size|..." or "code: msg". */
struct answer {
    bool done;
    enum abx_code code;
    char text[2048];
};

static void on_entries(void *arg, const struct abx_entry *entries, size_t count,
                       const struct abx_error *err)
{
    struct answer *a = arg;
    assert_false(a->done);
    a->done = true;
    a->code = err ? err->code : ABX_OK;
    if (err)
        snprintf(a->text, sizeof(a->text), "%s", err->msg);
    size_t len = 0;
    size_t skip = strlen(dir);
    for (size_t i = 0; i < count && len < sizeof(a->text); i++) {
        const struct abx_entry *e = &entries[i];
        len += (size_t)snprintf(a->text + len, sizeof(a->text) - len, "%s%s %u %s %o %lld%s%s",
                                i ? "|" : "", e->path.ptr + skip, e->type, e->permissions, e->mode,
                                (long long)(e->type == ABX_ENTRY_DIRECTORY ? 0 : e->size),
                                e->symlink_target.ptr ? " -> " : "",
                                e->symlink_target.ptr ? e->symlink_target.ptr : "");
    }
}

struct call {
    enum abx_files_verb verb;
    const char *path, *destination;
    uint32_t depth;
};
static void start_call(const struct call *c, struct answer *a)
{
    char path[ABX_FILES_PATH], destination[ABX_FILES_PATH];
    snprintf(path, sizeof(path), "%s", c->path[0] == '/' ? c->path : at(c->path));
    snprintf(destination, sizeof(destination), "%s", c->destination ? at(c->destination) : "");
    const struct abx_files_request r = {
        c->verb, path, c->destination ? destination : NULL, c->depth, &self, on_entries, a};
    struct abx_error err = {0};
    *a = (struct answer){0};
    if (abx_files_start(&loop, &r, NULL, &err) < 0)
        fail_msg("%s", err.msg);
    assert_false(a->done);
}

static void call(const struct call *c, struct answer *a)
{
    start_call(c, a);
    run_until(&a->done);
}

/* "DIR" in @want stands for the folder of the test. */
static void assert_answer(const struct call *c, enum abx_code code, const char *want)
{
    struct answer a;
    call(c, &a);
    char text[2048], *cut;
    snprintf(text, sizeof(text), "%s", a.text);
    while ((cut = strstr(text, dir)) != NULL) {
        memcpy(cut, "DIR", 3);
        memmove(cut + 3, cut + strlen(dir), strlen(cut + strlen(dir)) + 1);
    }
    assert_string_equal(text, want);
    assert_int_equal(a.code, code);
}

TEST(files_entries_by_the_table)
{
    set_up();
    put("f", "12345");
    make_dir("d");
    assert_int_equal(symlink("f", at("l")), 0);
    assert_int_equal(symlink("l", at("ll")), 0);
    assert_int_equal(symlink("d", at("ld")), 0);
    assert_int_equal(symlink("nowhere", at("dangling")), 0);
    assert_int_equal(symlink("loop", at("loop")), 0);
    assert_int_equal(mkfifo(at("p"), 0600), 0);
    put("s", "");
    assert_int_equal(chmod(at("s"), 04755), 0);
    assert_int_equal(chmod(at("d"), 01777), 0);
    static const struct {
        const char *name, *want;
    } rows[] = {
        {"f", "/f 1 -rw-r--r-- 644 5"},
        {"d", "/d 2 dtrwxrwxrwx 777 0"},
        {"l", "/l 1 Lrwxrwxrwx 644 1 -> DIR/f"},
        {"ll", "/ll 1 Lrwxrwxrwx 644 1 -> DIR/f"},
        {"ld", "/ld 2 Lrwxrwxrwx 777 0 -> DIR/d"},
        {"dangling", "/dangling 0 Lrwxrwxrwx 0 7 -> DIR/dangling"},
        {"loop", "/loop 0 Lrwxrwxrwx 0 4 -> DIR/loop"},
        {"p", "/p 0 prw------- 600 0"},
        {"s", "/s 1 urwxr-xr-x 755 0"},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++)
        assert_answer(&(struct call){ABX_FILES_STAT, rows[i].name}, ABX_OK, rows[i].want);
    tear_down();
}

static void on_owner(void *arg, const struct abx_entry *e, size_t count,
                     const struct abx_error *err)
{
    assert_null(err);
    assert_int_equal(count, 1);
    assert_string_equal(e->owner.ptr, "31337");
    assert_string_equal(e->group.ptr, "root");
    assert_string_equal(e->name.ptr, "f");
    assert_int_equal(e->mtime_ns, 1700000000123456789);
    *(bool *)arg = true;
}

TEST(files_entry_names_owners_and_times)
{
    if (geteuid() != 0)
        skip();
    set_up();
    put("f", "");
    assert_int_equal(chown(at("f"), 31337, 0), 0);
    struct timespec times[2] = {{1, 0}, {1700000000, 123456789}};
    assert_int_equal(utimensat(AT_FDCWD, at("f"), times, 0), 0);
    bool done = false;
    const struct abx_files_request r = {
        .verb = ABX_FILES_STAT, .path = at("f"), .fn = on_owner, .arg = &done};
    assert_int_equal(abx_files_start(&loop, &r, NULL, NULL), 0);
    run_until(&done);
    tear_down();
}

TEST(files_errors_by_the_table)
{
    set_up();
    put("f", "x");
    make_dir("d");
    put("d/in", "");
    make_dir("other");
    assert_int_equal(symlink("loop", at("loop")), 0);
    static const struct {
        struct call call;
        enum abx_code code;
        const char *want;
    } rows[] = {
        {{ABX_FILES_STAT, "no"},
         ABX_NOT_FOUND,
         "file not found: lstat DIR/no: no such file or directory"},
        {{ABX_FILES_STAT, "f/x"},
         ABX_INTERNAL,
         "error getting file info: lstat DIR/f/x: not a directory"},
        {{ABX_FILES_MKDIR, "d"}, ABX_ALREADY_EXISTS, "directory already exists: DIR/d"},
        {{ABX_FILES_MKDIR, "f"},
         ABX_INVALID_ARGUMENT,
         "path already exists but it is not a directory: DIR/f"},
        {{ABX_FILES_MKDIR, "f/x"},
         ABX_INTERNAL,
         "error ensuring directories: path is a file: DIR/f"},
        {{ABX_FILES_MOVE, "no", "x/y"},
         ABX_NOT_FOUND,
         "source file not found: lstat DIR/no: no such file or directory"},
        {{ABX_FILES_MOVE, "other", "d"},
         ABX_INTERNAL,
         "error renaming: rename DIR/other DIR/d: directory not empty"},
        {{ABX_FILES_MOVE, "d", "d/in/x"},
         ABX_INTERNAL,
         "error ensuring directories: path is a file: DIR/d/in"},
        {{ABX_FILES_LIST, "no"},
         ABX_NOT_FOUND,
         "path not found: stat DIR/no: no such file or directory"},
        {{ABX_FILES_LIST, "f"}, ABX_INVALID_ARGUMENT, "path is not a directory: DIR/f"},
        {{ABX_FILES_LIST, "loop"},
         ABX_FAILED_PRECONDITION,
         "cyclic symlink or chain >255 links at \"DIR/loop\""},
        {{ABX_FILES_REMOVE, "f/x"},
         ABX_INTERNAL,
         "error removing file or directory: unlink DIR/f/x: not a directory"},
        {{ABX_FILES_REMOVE, "no"}, ABX_OK, ""},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++)
        assert_answer(&rows[i].call, rows[i].code, rows[i].want);
    assert_false(is_there("x")); /* no parents for a move that can not be */
    tear_down();
}

TEST(files_list_is_pre_order_in_byte_order)
{
    set_up();
    make_dir("b");
    make_dir("b/deep");
    put("b/deep/er", "1");
    put("b/a", "");
    put("B", "");
    put("b.txt", "");
    assert_int_equal(symlink("b", at("link")), 0);
    static const struct {
        struct call call;
        const char *want;
    } rows[] = {
        {{ABX_FILES_LIST, "", NULL, 0},
         "/B 1 -rw-r--r-- 644 0|/b 2 drwxr-xr-x 755 0|/b.txt 1 -rw-r--r-- 644 0|"
         "/link 2 Lrwxrwxrwx 755 0 -> DIR/b"},
        {{ABX_FILES_LIST, "b", NULL, 1}, "/b/a 1 -rw-r--r-- 644 0|/b/deep 2 drwxr-xr-x 755 0"},
        {{ABX_FILES_LIST, "b", NULL, 5},
         "/b/a 1 -rw-r--r-- 644 0|/b/deep 2 drwxr-xr-x 755 0|/b/deep/er 1 -rw-r--r-- 644 1"},
        {{ABX_FILES_LIST, "link", NULL, 1}, /* the root may be a link; paths stay under it */
         "/link/a 1 -rw-r--r-- 644 0|/link/deep 2 drwxr-xr-x 755 0"},
        {{ABX_FILES_LIST, "b/deep/", NULL, 2}, "/b/deep/er 1 -rw-r--r-- 644 1"},
    };
    size_t len = strlen(dir);
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        if (i == 0) { /* the folder itself, without the slash that at() adds */
            struct call whole = {ABX_FILES_LIST, dir, NULL, 0};
            assert_answer(&whole, ABX_OK, rows[i].want);
        } else {
            assert_answer(&rows[i].call, ABX_OK, rows[i].want);
        }
    }
    assert_true(len > 0);
    tear_down();
}

TEST(files_mkdir_makes_parents_and_gives_the_entry)
{
    set_up();
    assert_answer(&(struct call){ABX_FILES_MKDIR, "a/b//c/"}, ABX_OK,
                  "/a/b//c/ 2 drwxr-xr-x 755 0");
    assert_true(is_there("a/b/c"));
    tear_down();
}

TEST(files_made_folders_belong_to_the_user_and_old_ones_do_not)
{
    if (geteuid() != 0)
        skip();
    set_up();
    make_dir("old");
    self.uid = 1234;
    self.gid = 4321;
    assert_answer(&(struct call){ABX_FILES_MKDIR, "old/n1/n2"}, ABX_OK,
                  "/old/n1/n2 2 drwxr-xr-x 755 0");
    static const struct {
        const char *name;
        uid_t uid;
        gid_t gid;
    } rows[] = {{"old", 0, 0}, {"old/n1", 1234, 4321}, {"old/n1/n2", 1234, 4321}};
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct stat st;
        assert_int_equal(stat(at(rows[i].name), &st), 0);
        assert_int_equal(st.st_uid, rows[i].uid);
        assert_int_equal(st.st_gid, rows[i].gid);
    }
    tear_down();
}

TEST(files_move_overwrites_and_makes_parents)
{
    set_up();
    put("f", "new");
    put("g", "old");
    assert_answer(&(struct call){ABX_FILES_MOVE, "f", "g"}, ABX_OK, "/g 1 -rw-r--r-- 644 3");
    assert_false(is_there("f"));
    assert_answer(&(struct call){ABX_FILES_MOVE, "g", "x/y/z"}, ABX_OK,
                  "/x/y/z 1 -rw-r--r-- 644 3");
    assert_content("x/y/z", "new");
    tear_down();
}

TEST(files_remove_takes_trees_and_leaves_link_targets)
{
    set_up();
    make_dir("d");
    make_dir("d/e");
    put("d/e/f", "");
    make_dir("target");
    put("target/keep", "");
    assert_int_equal(symlink(at("target"), at("d/link")), 0);
    assert_int_equal(symlink(at("target"), at("link")), 0);
    assert_answer(&(struct call){ABX_FILES_REMOVE, "d"}, ABX_OK, "");
    assert_answer(&(struct call){ABX_FILES_REMOVE, "link"}, ABX_OK, "");
    assert_false(is_there("d") || is_there("link"));
    assert_true(is_there("target/keep"));
    tear_down();
}

TEST(files_cancelled_operation_does_not_call_back)
{
    set_up();
    struct answer a = {0};
    struct abx_files_op *op = NULL;
    const struct abx_files_request r = {
        .verb = ABX_FILES_STAT, .path = dir, .fn = on_entries, .arg = &a};
    assert_int_equal(abx_files_start(&loop, &r, &op, NULL), 0);
    abx_files_cancel(op);
    abx_loop_run(&loop);
    assert_false(a.done);
    tear_down();
}

TEST(files_too_long_a_path_is_refused_at_once)
{
    set_up();
    static char longest[ABX_FILES_PATH + 10];
    memset(longest, 'x', sizeof(longest) - 1);
    longest[0] = '/';
    struct abx_error err = {0};
    const struct abx_files_request r = {.verb = ABX_FILES_STAT, .path = longest, .fn = on_entries};
    assert_int_equal(abx_files_start(&loop, &r, NULL, &err), -1);
    assert_string_equal(err.msg, "path is too long: at most 4095 bytes fit");
    assert_int_equal(err.code, ABX_INVALID_ARGUMENT);
    tear_down();
}

TEST(files_many_operations_at_once_all_answer)
{
    set_up();
    enum { MANY = 200 };
    static struct answer all[MANY];
    for (int i = 0; i < MANY; i++)
        start_call(&(struct call){i & 1 ? ABX_FILES_STAT : ABX_FILES_LIST, dir, NULL, 1}, &all[i]);
    for (int i = 0; i < MANY; i++) {
        run_until(&all[i].done);
        assert_int_equal(all[i].code, ABX_OK);
    }
    tear_down();
}

static void list_without_memory(void)
{
    struct answer a = {0};
    struct abx_error err = {0};
    const struct abx_files_request r = {
        .verb = ABX_FILES_LIST, .path = dir, .depth = 2, .fn = on_entries, .arg = &a};
    if (abx_files_start(&loop, &r, NULL, &err) < 0) {
        assert_int_equal(err.code, ABX_RESOURCE_EXHAUSTED);
        return;
    }
    run_until(&a.done);
    assert_true(a.code == ABX_OK || a.code == ABX_RESOURCE_EXHAUSTED);
}

TEST(files_survive_any_failed_allocation)
{
    set_up();
    make_dir("d");
    put("d/f", "");
    assert_int_equal(symlink("d", at("l")), 0);
    unsigned n = 1;
    for (; abx_alloc_fail(n); n++)
        list_without_memory();
    assert_true(n > 5);
    tear_down();
}
