/* guest/caps/upload_test.c: uploads: order of system calls, failures (T40), what they leave of a
 * file that was there. */
#include "guest/caps/transfer_rig_priv.h"

#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include "lib/base/banned.h"

static const char *event_names(int fd, char *out, size_t cap)
{
    static const struct {
        uint32_t mask;
        const char *name;
    } names[] = {{IN_CREATE, "CREATE"}, {IN_ATTRIB, "CHMOD"},      {IN_MODIFY, "WRITE"},
                 {IN_DELETE, "REMOVE"}, {IN_MOVED_FROM, "RENAME"}, {IN_MOVED_TO, "CREATE-TO"},
                 {IN_OPEN, "OPEN"},     {IN_CLOSE_WRITE, "CLOSE"}, {IN_ACCESS, "READ"}};
    _Alignas(struct inotify_event) char buf[4096];
    size_t len = 0;
    out[0] = '\0';
    for (ssize_t n; (n = read(fd, buf, sizeof(buf))) > 0;)
        for (char *p = buf; p < buf + n;) {
            struct inotify_event *e = (struct inotify_event *)(void *)p;
            for (size_t i = 0; i < ABX_COUNTOF(names); i++)
                if (e->mask & names[i].mask)
                    len += (size_t)snprintf(out + len, cap - len, "%s%s", len ? " " : "",
                                            names[i].name);
            p += sizeof(*e) + e->len;
        }
    return out;
}

/* Trap 1 */
TEST(trap_01_upload_of_a_small_new_file_is_create_chmod_write)
{
    set_up();
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    assert_true(inotify_add_watch(fd, dir,
                                  IN_CREATE | IN_MOVED_TO | IN_MODIFY | IN_DELETE | IN_MOVED_FROM |
                                      IN_ATTRIB) >= 0);
    static char data[65536];
    memset(data, 'x', sizeof(data));
    static const struct {
        const char *name;
        size_t len;
        const char *want;
    } rows[] = {
        {"new", 5, "CREATE CHMOD WRITE"},
        {"empty", 0, "CREATE CHMOD"},
        {"larger", sizeof(data), "CREATE CHMOD WRITE"},
        {"new", 7, "CHMOD WRITE"}, /* the kernel merges truncation and data */
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct transfer t;
        upload(at(rows[i].name), data, rows[i].len, &t);
        assert_int_equal(t.err.code, ABX_OK);
        char text[256];
        assert_string_equal(event_names(fd, text, sizeof(text)), rows[i].want);
    }
    /* in pieces over many turns: still one write */
    struct transfer t;
    struct abx_upload *u = start_upload(at("pieces"), &t);
    for (int i = 0; i < 100; i++) {
        assert_true(abx_upload_append(u, data, 100));
        uv_run(&loop.uv, UV_RUN_NOWAIT);
    }
    abx_upload_finish(u);
    run_until(&t.done);
    char text[256];
    assert_string_equal(event_names(fd, text, sizeof(text)), "CREATE CHMOD WRITE");
    close(fd);
    tear_down();
}

/* T40 */
TEST(t40_uploads_of_every_size_arrive_whole)
{
    static const size_t sizes[] = {0,     1,      4095,   4096,   18 * 1024,   65535,   65536,
                                   65537, 262143, 262144, 262145, 1024 * 1024, 20000000};
    set_up();
    char *data = malloc(20000000);
    assert_non_null(data);
    for (size_t i = 0; i < 20000000; i++)
        data[i] = (char)(i * 2654435761u >> 13);
    for (size_t i = 0; i < ABX_COUNTOF(sizes); i++) {
        struct transfer t;
        upload(at("new/deep/f"), data, sizes[i], &t);
        assert_int_equal(t.err.code, ABX_OK);
        char *back = NULL;
        size_t len = 0;
        assert_int_equal(abx_fd_read_file(AT_FDCWD, at("new/deep/f"), 30000000, &back, &len), 0);
        assert_int_equal(len, sizes[i]);
        assert_memory_equal(back, data, len);
        free(back);
    }
    free(data);
    tear_down();
}

TEST(upload_sets_owner_and_mode)
{
    if (geteuid() != 0)
        skip();
    set_up();
    put("old", "before");
    assert_int_equal(chmod(at("old"), 0600), 0);
    self.uid = 1234;
    self.gid = 4321;
    static const struct {
        const char *name;
        mode_t mode;
    } rows[] = {{"old", 0600}, {"new", 0644}, {"sub/new", 0644}};
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct transfer t;
        struct stat st;
        upload(at(rows[i].name), "x", 1, &t);
        assert_int_equal(stat(at(rows[i].name), &st), 0);
        assert_int_equal(st.st_uid, 1234);
        assert_int_equal(st.st_gid, 4321);
        assert_int_equal(st.st_mode & 07777, rows[i].mode);
        assert_content(rows[i].name, "x");
    }
    tear_down();
}

TEST(upload_errors_by_the_table)
{
    set_up();
    make_dir("d");
    put("f", "");
    assert_int_equal(mkfifo(at("p"), 0600), 0);
    static const struct {
        const char *name;
        enum abx_code code;
        const char *want;
    } rows[] = {
        {"d", ABX_INVALID_ARGUMENT, "path is a directory: %s/d"},
        {"p", ABX_INVALID_ARGUMENT, "path is not a regular file: %s/p"},
        {"f/x", ABX_INTERNAL, "error ensuring directories: path is a file: %s/f"},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct transfer t;
        char want[256];
        const char *form = rows[i].want;
        size_t before = (size_t)(strstr(form, "%s") - form);
        snprintf(want, sizeof(want), "%.*s%s%s", (int)before, form, dir, form + before + 2);
        upload(at(rows[i].name), "x", 1, &t);
        assert_string_equal(t.err.msg, want);
        assert_int_equal(t.err.code, rows[i].code);
    }
    tear_down();
}

/* --- what becomes of a file that was there --- */

enum { LONG_BYTES = 300 * 1024 }; /* more than one job takes */
#define NO_SPOOL "/proc"          /* a folder without nameless files */

static char body[80 * 1024 * 1024];

static void fill_body(void)
{
    for (size_t i = 0; i < sizeof(body); i++)
        body[i] = (char)(i * 2654435761u >> 13);
}

static void assert_is_body(const char *name, size_t len)
{
    char *back = NULL;
    size_t got = 0;
    assert_int_equal(abx_fd_read_file(AT_FDCWD, at(name), sizeof(body) + 1, &back, &got), 0);
    assert_int_equal(got, len);
    assert_memory_equal(back, body, len);
    free(back);
}

TEST(upload_that_breaks_off_leaves_no_half_file)
{
    set_up();
    fill_body();
    static const struct {
        const char *name;
        size_t len;
        const char *spill, *before, *left; /* NULL: no file */
    } rows[] = {
        {"old", 1000, NULL, "content", "content"},
        {"old", LONG_BYTES, NULL, "content", "content"},
        {"old", LONG_BYTES, NO_SPOOL, "content", ""},
        {"old", LONG_BYTES, NULL, "", ""},
        {"new", 1000, NULL, NULL, NULL},
        {"new", LONG_BYTES, NULL, NULL, NULL},
        {"new", LONG_BYTES, NO_SPOOL, NULL, NULL},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        for (int turns = 0; turns < 2; turns++) {
            struct transfer t;
            if (rows[i].before)
                put(rows[i].name, rows[i].before);
            spill = rows[i].spill;
            struct abx_upload *u = start_upload(at(rows[i].name), &t);
            abx_upload_append(u, body, rows[i].len);
            for (int k = 0; turns && k < 20; k++)
                uv_run(&loop.uv, UV_RUN_NOWAIT);
            abx_upload_close(u);
            abx_loop_run(&loop);
            assert_false(t.done);
            if (rows[i].left)
                assert_content(rows[i].name, rows[i].left);
            assert_int_equal(is_there(rows[i].name), rows[i].left != NULL);
        }
    }
    spill = NULL;
    tear_down();
}

TEST(t40_a_long_upload_leaves_the_old_file_until_it_is_complete)
{
    set_up();
    fill_body();
    put("old", "content");
    struct transfer t;
    struct abx_upload *u = start_upload(at("old"), &t);
    for (size_t done = 0; done < sizeof(body) / 2; done += 65536) {
        t.drained = false;
        if (!abx_upload_append(u, body + done, 65536))
            run_until(&t.drained);
        assert_content("old", "content");
    }
    abx_upload_close(u);
    abx_loop_run(&loop);
    assert_content("old", "content");
    tear_down();
}

TEST(a_long_upload_is_poured_into_the_same_file)
{
    static const size_t sizes[] = {262145, LONG_BYTES, 1 << 20, (32 << 20) + 1, sizeof(body)};
    set_up();
    fill_body();
    put("old", "content");
    assert_int_equal(chmod(at("old"), 0640), 0);
    assert_int_equal(link(at("old"), at("other name")), 0);
    struct stat before, after;
    assert_int_equal(stat(at("old"), &before), 0);
    for (size_t i = 0; i < 2 * ABX_COUNTOF(sizes); i++) { /* longer each time, then shorter */
        size_t k = i < ABX_COUNTOF(sizes) ? i : 2 * ABX_COUNTOF(sizes) - 1 - i;
        struct transfer t;
        upload(at("old"), body, sizes[k], &t);
        assert_int_equal(t.err.code, ABX_OK);
        assert_is_body("other name", sizes[k]);
        assert_int_equal(stat(at("old"), &after), 0);
        assert_int_equal(after.st_ino, before.st_ino);
        assert_int_equal(after.st_nlink, 2);
        assert_int_equal(after.st_mode, before.st_mode);
        assert_int_equal(after.st_uid, before.st_uid);
    }
    tear_down();
}

/* As when the bytes are written as they come; nothing of the spool is seen. */
TEST(a_long_upload_gives_the_events_of_one_in_place)
{
    static const char *const spills[] = {NO_SPOOL, NULL};
    char text[ABX_COUNTOF(spills)][256];
    set_up();
    put("old", "content");
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    assert_true(inotify_add_watch(fd, dir, IN_ALL_EVENTS) >= 0);
    for (size_t i = 0; i < ABX_COUNTOF(spills); i++) {
        struct transfer t;
        spill = spills[i];
        upload(at("old"), body, 1 << 20, &t);
        assert_int_equal(t.err.code, ABX_OK);
        event_names(fd, text[i], sizeof(text[i]));
    }
    assert_string_equal(text[1], text[0]);
    /* Kernels differ in whether they tell of the opening or of its truncation first. */
    assert_int_equal(strncmp(text[0], "CHMOD ", 6), 0);
    assert_non_null(strstr(text[0], "OPEN WRITE CLOSE"));
    close(fd);
    spill = NULL;
    tear_down();
}

TEST(an_upload_that_is_closed_while_it_is_poured_is_whole_or_not_begun)
{
    set_up();
    fill_body();
    for (int turns = 0; turns < 12; turns++) {
        put("old", "content");
        struct transfer t;
        struct abx_upload *u = start_upload(at("old"), &t);
        for (size_t done = 0; done < sizeof(body); done += 65536) {
            t.drained = false;
            if (!abx_upload_append(u, body + done, 65536))
                run_until(&t.drained);
        }
        abx_upload_finish(u);
        for (int k = 0; k < turns && !t.done; k++)
            uv_run(&loop.uv, UV_RUN_ONCE);
        if (!t.done)
            abx_upload_close(u);
        abx_loop_run(&loop);
        struct stat st;
        assert_int_equal(stat(at("old"), &st), 0);
        if (st.st_size == (off_t)strlen("content") && !t.done)
            assert_content("old", "content");
        else
            assert_is_body("old", sizeof(body));
    }
    tear_down();
}

/* What the path leads to counts when the body is complete. */
TEST(a_path_may_change_while_a_long_upload_comes)
{
    set_up();
    fill_body();
    static const struct {
        bool makes_dir;
        enum abx_code code;
    } rows[] = {{false, ABX_OK}, {true, ABX_INVALID_ARGUMENT}};
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        put("old", "content");
        struct transfer t;
        struct abx_upload *u = start_upload(at("old"), &t);
        abx_upload_append(u, body, LONG_BYTES);
        if (!abx_upload_append(u, body + LONG_BYTES, ABX_FILES_UPLOAD_BUFFER))
            run_until(&t.drained); /* so the job of the first bytes is over */
        assert_int_equal(unlink(at("old")), 0);
        if (rows[i].makes_dir)
            make_dir("old");
        abx_upload_finish(u);
        run_until(&t.done);
        assert_int_equal(t.err.code, rows[i].code);
        if (!rows[i].makes_dir)
            assert_is_body("old", LONG_BYTES + ABX_FILES_UPLOAD_BUFFER);
    }
    tear_down();
}

/* A folder of so many bytes, all in memory. False: may not be made. */
static bool mount_small(const char *name, const char *options)
{
    make_dir(name);
    return geteuid() == 0 && mount("tmpfs", at(name), "tmpfs", 0, options) == 0;
}

TEST(a_spool_that_is_full_gives_way_to_the_file)
{
    set_up();
    fill_body();
    if (!mount_small("spills", "size=2m")) {
        tear_down();
        skip();
    }
    char small[64];
    snprintf(small, sizeof(small), "%s", at("spills"));
    spill = small;
    put("old", "content");
    struct transfer t;
    upload(at("old"), body, 3000000, &t);
    assert_int_equal(t.err.code, ABX_OK);
    assert_is_body("old", 3000000);
    struct statvfs fs; /* nothing stays */
    assert_int_equal(statvfs(small, &fs), 0);
    assert_int_equal(fs.f_bfree, fs.f_blocks);
    spill = NULL;
    assert_int_equal(umount(small), 0);
    tear_down();
}

TEST(t40_no_space_for_a_long_upload_leaves_the_old_file)
{
    set_up();
    fill_body();
    if (!mount_small("small", "size=1m")) {
        tear_down();
        skip();
    }
    put("small/old", "content");
    struct transfer t;
    upload(at("small/old"), body, 3000000, &t);
    assert_string_equal(t.err.msg, "not enough disk space available");
    assert_int_equal(t.err.sys, ENOSPC);
    assert_content("small/old", "content");
    assert_int_equal(umount(at("small")), 0);
    tear_down();
}

enum { FULL_BYTES = 3000000 };

TEST(t40_full_disk_is_507_and_no_partial_file)
{
    set_up();
    if (!mount_small("small", "size=1m,nr_inodes=16")) {
        tear_down();
        skip();
    }
    struct abx_upload_spec spec = {
        .path = at("small/f"), .user = &self, .has_total = true, .total = FULL_BYTES};
    struct transfer t = {0};
    struct abx_upload *u = NULL;
    assert_int_equal(abx_upload_open(&loop, &spec, &upload_ops, &t, &u, NULL), 0);
    for (size_t done = 0; done < FULL_BYTES && !t.done; done += 500000) {
        t.drained = false;
        bool goes_on = abx_upload_append(u, body + done, 500000);
        while (!goes_on && !t.drained && !t.done)
            uv_run(&loop.uv, UV_RUN_ONCE);
    }
    if (!t.done)
        abx_upload_finish(u);
    run_until(&t.done);
    assert_string_equal(t.err.msg,
                        "attempted to write 3000000 bytes: not enough disk space available");
    assert_int_equal(t.err.code, ABX_RESOURCE_EXHAUSTED);
    assert_int_equal(t.err.sys, ENOSPC);
    assert_false(is_there("small/f"));
    upload(at("small/f"), body, FULL_BYTES, &t);
    assert_string_equal(t.err.msg, "not enough disk space available");
    for (int i = 0; i < 20; i++) {
        char name[32];
        snprintf(name, sizeof(name), "small/n%d", i);
        upload(at(name), "", 0, &t);
    }
    assert_int_equal(t.err.code, ABX_RESOURCE_EXHAUSTED);
    assert_true(strncmp(t.err.msg, "not enough inodes available: open ", 34) == 0);
    assert_int_equal(umount(at("small")), 0);
    tear_down();
}
