/* guest/caps/transfer_test.c: downloads (T11); uploads and downloads without memory. */
#include "guest/caps/transfer_rig_priv.h"
#include "tests/unit/alloc.h"

#include "lib/base/banned.h"

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
