/* guest/caps/transfer_test.c: uploads (order of system calls, failures, T40) and downloads (T11).
 */
#include "guest/caps/files_rig_priv.h"
#include "tests/unit/alloc.h"

#include <sys/inotify.h>
#include <sys/mount.h>

#include "lib/base/banned.h"

struct transfer {
    bool done, drained, opened;
    struct abx_error err;
    struct abx_download_info info;
    struct abx_buf got;
    size_t chunk;
    bool closes;
};

/* --- uploads --- */

static void on_drain(struct abx_upload *u)
{
    ((struct transfer *)abx_upload_owner(u))->drained = true;
}

static void on_upload_done(struct abx_upload *u, const struct abx_error *err)
{
    struct transfer *t = abx_upload_owner(u);
    assert_false(t->done);
    t->done = true;
    if (err)
        t->err = *err;
    abx_upload_close(u);
}

static const struct abx_upload_ops upload_ops = {on_drain, on_upload_done};

static struct abx_upload *start_upload(const char *path, struct transfer *t)
{
    struct abx_upload_spec spec = {.path = path, .user = &self};
    struct abx_upload *u = NULL;
    *t = (struct transfer){0};
    assert_int_equal(abx_upload_open(&loop, &spec, &upload_ops, t, &u, NULL), 0);
    return u;
}

static void upload(const char *path, const char *data, size_t len, struct transfer *t)
{
    struct abx_upload *u = start_upload(path, t);
    for (size_t done = 0; done < len && !t->done;) {
        size_t part = len - done < 65536 ? len - done : 65536;
        t->drained = false;
        bool goes_on = abx_upload_append(u, data + done, part);
        done += part;
        while (!goes_on && !t->drained && !t->done)
            uv_run(&loop.uv, UV_RUN_ONCE);
    }
    if (!t->done)
        abx_upload_finish(u);
    run_until(&t->done);
}

static const char *event_names(int fd, char *out, size_t cap)
{
    static const struct {
        uint32_t mask;
        const char *name;
    } names[] = {{IN_CREATE, "CREATE"}, {IN_ATTRIB, "CHMOD"},      {IN_MODIFY, "WRITE"},
                 {IN_DELETE, "REMOVE"}, {IN_MOVED_FROM, "RENAME"}, {IN_MOVED_TO, "CREATE-TO"}};
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
    static char body[65536];
    memset(body, 'x', sizeof(body));
    static const struct {
        const char *name;
        size_t len;
        const char *want;
    } rows[] = {
        {"new", 5, "CREATE CHMOD WRITE"},
        {"empty", 0, "CREATE CHMOD"},
        {"larger", sizeof(body), "CREATE CHMOD WRITE"},
        {"new", 7, "CHMOD WRITE"}, /* the kernel merges truncation and data */
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct transfer t;
        upload(at(rows[i].name), body, rows[i].len, &t);
        assert_int_equal(t.err.code, ABX_OK);
        char text[256];
        assert_string_equal(event_names(fd, text, sizeof(text)), rows[i].want);
    }
    /* in pieces over many turns: still one write */
    struct transfer t;
    struct abx_upload *u = start_upload(at("pieces"), &t);
    for (int i = 0; i < 100; i++) {
        assert_true(abx_upload_append(u, body, 100));
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

TEST(upload_that_breaks_off_leaves_no_half_file)
{
    set_up();
    put("old", "content");
    static char body[300 * 1024];
    memset(body, 'x', sizeof(body));
    static const struct {
        const char *name;
        size_t len;
        const char *left; /* NULL: no file */
    } rows[] = {
        {"old", 1000, "content"}, /* nothing was touched yet */
        {"new", 1000, NULL},
        {"new", sizeof(body), NULL},
        {"old", sizeof(body), ""},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        for (int turns = 0; turns < 2; turns++) {
            struct transfer t;
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
    tear_down();
}

TEST(t40_full_disk_is_507_and_no_partial_file)
{
    if (geteuid() != 0)
        skip();
    set_up();
    make_dir("small");
    if (mount("tmpfs", at("small"), "tmpfs", 0, "size=1m,nr_inodes=16") < 0) {
        tear_down();
        skip();
    }
    static char body[3000000];
    memset(body, 'x', sizeof(body));
    struct abx_upload_spec spec = {
        .path = at("small/f"), .user = &self, .has_total = true, .total = sizeof(body)};
    struct transfer t = {0};
    struct abx_upload *u = NULL;
    assert_int_equal(abx_upload_open(&loop, &spec, &upload_ops, &t, &u, NULL), 0);
    for (size_t done = 0; done < sizeof(body) && !t.done; done += 500000) {
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
    upload(at("small/f"), body, sizeof(body), &t);
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

/* --- downloads --- */

static void on_open(struct abx_download *d, const struct abx_download_info *info,
                    const struct abx_error *err)
{
    struct transfer *t = abx_download_owner(d);
    t->opened = true;
    t->info = *info;
    if (err) {
        t->err = *err;
        t->done = true;
        abx_download_close(d);
        return;
    }
    assert_int_equal(abx_download_read(d, 0, t->chunk, NULL), 0);
}

static void on_data(struct abx_download *d, struct abx_str data, const struct abx_error *err)
{
    struct transfer *t = abx_download_owner(d);
    if (err)
        t->err = *err;
    bool is_over = err != NULL || data.len == 0 || t->closes;
    if (!is_over) /* asked for before the bytes are used: they must stay */
        assert_int_equal(abx_download_read(d, t->got.len + data.len, t->chunk, NULL), 0);
    abx_buf_put_str(&t->got, data);
    if (is_over) {
        abx_download_close(d);
        t->done = true;
    }
}

static const struct abx_download_ops download_ops = {on_open, on_data};

static struct abx_download *start_download(const char *path, size_t chunk, struct transfer *t)
{
    struct abx_download *d = NULL;
    *t = (struct transfer){.chunk = chunk};
    abx_buf_init(&t->got, 64 * 1024 * 1024);
    assert_int_equal(abx_download_open(&loop, path, &download_ops, t, &d, NULL), 0);
    return d;
}

TEST(t11_downloads_give_the_bytes)
{
    set_up();
    static const char png[] = "\x89PNG\0\xff";
    static char big[1000003];
    for (size_t i = 0; i < sizeof(big); i++)
        big[i] = (char)(i * 31 + i / 251);
    const struct {
        const char *data;
        size_t len;
    } rows[] = {{png, sizeof(png)}, {"", 0}, {big, sizeof(big)}};
    static const size_t chunks[] = {ABX_FILES_CHUNK, 4096, 100};
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++)
        for (size_t k = 0; k < ABX_COUNTOF(chunks); k++) {
            struct transfer t;
            upload(at("f"), rows[i].data, rows[i].len, &t);
            start_download(at("f"), chunks[k], &t);
            run_until(&t.done);
            assert_int_equal(t.info.size, rows[i].len);
            assert_false(t.info.is_virtual);
            assert_int_equal(t.got.len, rows[i].len);
            if (rows[i].len)
                assert_memory_equal(t.got.ptr, rows[i].data, rows[i].len);
            abx_buf_done(&t.got);
        }
    tear_down();
}

TEST(download_reads_proc_files_whatever_their_size_says)
{
    set_up();
    struct transfer t;
    start_download("/proc/sys/kernel/random/boot_id", 4096, &t);
    run_until(&t.done);
    assert_int_equal(t.info.size, 0);
    assert_true(t.info.is_virtual);
    assert_int_equal(t.got.len, 37);
    abx_buf_done(&t.got);
    tear_down();
}

TEST(download_errors_by_the_table)
{
    set_up();
    put("f", "");
    make_dir("d");
    assert_int_equal(mkfifo(at("p"), 0600), 0);
    static const struct {
        const char *name;
        enum abx_code code;
        const char *before, *after;
    } rows[] = {
        {"no", ABX_NOT_FOUND, "path '", "' does not exist"},
        {"d", ABX_INVALID_ARGUMENT, "path '", "' is a directory"},
        {"p", ABX_INVALID_ARGUMENT, "path '", "' is not a regular file"},
        {"f/x", ABX_INTERNAL, "error checking if path exists '", "': not a directory"},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct transfer t;
        char want[256];
        snprintf(want, sizeof(want), "%s%s/%s%s", rows[i].before, dir, rows[i].name, rows[i].after);
        start_download(at(rows[i].name), 100, &t);
        run_until(&t.done);
        assert_string_equal(t.err.msg, want);
        assert_int_equal(t.err.code, rows[i].code);
    }
    tear_down();
}

TEST(download_may_be_closed_at_any_time)
{
    set_up();
    static char big[1000000];
    struct transfer t;
    upload(at("f"), big, sizeof(big), &t);
    struct abx_download *d = start_download(at("f"), 4096, &t);
    abx_download_close(d); /* before it is open */
    abx_loop_run(&loop);
    assert_false(t.opened);
    d = start_download(at("f"), 4096, &t);
    run_until(&t.opened);
    abx_download_close(d); /* a read is under way */
    abx_loop_run(&loop);
    assert_false(t.done);
    start_download(at("f"), 4096, &t);
    t.closes = true; /* from its callback */
    run_until(&t.done);
    assert_int_equal(t.got.len, 4096);
    abx_buf_done(&t.got);
    tear_down();
}

/* --- without memory --- */

static void transfer_without_memory(const char *body, size_t len)
{
    struct abx_upload_spec spec = {.path = at("f"), .user = &self};
    struct transfer t = {0};
    struct abx_upload *u = NULL;
    if (abx_upload_open(&loop, &spec, &upload_ops, &t, &u, &t.err) == 0) {
        abx_upload_append(u, body, len);
        if (!t.done)
            abx_upload_finish(u);
        run_until(&t.done);
    }
    assert_true(t.err.code == ABX_OK || t.err.code == ABX_RESOURCE_EXHAUSTED);
    struct stat st;
    bool is_whole = stat(at("f"), &st) == 0 && st.st_size == (off_t)len;
    assert_int_equal(is_whole, t.err.code == ABX_OK);
    struct abx_download *d = NULL;
    static char kept[2000000]; /* so that the test itself needs no memory */
    t = (struct transfer){.chunk = 4096, .closes = true};
    t.got = (struct abx_buf){.ptr = kept, .cap = sizeof(kept), .max = sizeof(kept) - 1};
    if (abx_download_open(&loop, at("f"), &download_ops, &t, &d, &t.err) == 0)
        run_until(&t.done);
    assert_true(is_whole ? t.err.code == ABX_OK || t.err.code == ABX_RESOURCE_EXHAUSTED
                         : t.err.code == ABX_NOT_FOUND || t.err.code == ABX_RESOURCE_EXHAUSTED);
    unlink(at("f"));
}

TEST(transfers_survive_any_failed_allocation)
{
    set_up();
    static char body[300000];
    unsigned n = 1;
    for (; abx_alloc_fail(n); n++)
        transfer_without_memory(body, n & 1 ? sizeof(body) : 10);
    assert_true(n > 3);
    tear_down();
}
