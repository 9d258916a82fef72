/* guest/caps/watch_test.c: what watchers report of changes to real folders (envd.md 6.4, 6.5, traps
 * 1, 3, 4; the watch line of the cases). */
#include "guest/caps/files_rig_priv.h"
#include "guest/caps/watch.h"
#include "tests/unit/alloc.h"

#include <pthread.h>
#include <sys/xattr.h>

#include "lib/base/banned.h"

struct seen {
    bool started, synced, has_news;
    struct abx_error err;
    struct abx_buf text; /* "CREATE a\n" ... */
};

static struct abx_watches *ws;

static void on_start(struct abx_watcher *w, const struct abx_error *err)
{
    struct seen *s = abx_watcher_owner(w);
    assert_false(s->started);
    s->started = true;
    if (err)
        s->err = *err;
}

static void on_events(struct abx_watcher *w)
{
    ((struct seen *)abx_watcher_owner(w))->has_news = true;
}

static void on_synced(struct abx_watcher *w)
{
    ((struct seen *)abx_watcher_owner(w))->synced = true;
}

static const struct abx_watch_ops ops = {on_start, on_events, on_synced};

static void begin(void)
{
    set_up();
    assert_int_equal(abx_watches_new(&loop, &ws, NULL), 0);
}

static void finish(void)
{
    abx_watches_close(ws);
    tear_down();
}

static struct abx_watcher *watch(const char *path, bool recursive, bool entries, struct seen *s)
{
    struct abx_watch_spec spec = {.path = path, .is_recursive = recursive, .has_entries = entries};
    struct abx_watcher *w = NULL;
    *s = (struct seen){0};
    abx_buf_init(&s->text, 64 << 20);
    assert_int_equal(abx_watcher_open(ws, &spec, &ops, s, &w, NULL), 0);
    run_until(&s->started);
    return w;
}

static void unwatch(struct abx_watcher *w, struct seen *s)
{
    abx_watcher_close(w);
    abx_buf_done(&s->text);
}

static const char *const names[] = {"CREATE", "RENAME", "CHMOD", "WRITE", "REMOVE"};

/* Everything up to now, as text. */
static const char *events(struct abx_watcher *w, struct seen *s)
{
    struct abx_watch_event e;
    s->synced = false;
    if (!abx_watcher_sync(w))
        run_until(&s->synced);
    abx_buf_clear(&s->text);
    abx_buf_put_c(&s->text, "");
    while (abx_watcher_take(w, &e)) {
        abx_buf_putf(&s->text, "%s %.*s", names[e.change], ABX_STR_FMT(e.name));
        if (e.entry)
            abx_buf_putf(&s->text, " %.*s %lld", ABX_STR_FMT(e.entry->path),
                         (long long)e.entry->size);
        abx_buf_put_c(&s->text, "\n");
    }
    return s->text.ptr ? s->text.ptr : "";
}

static bool reports(const struct seen *s, const char *line)
{
    char whole[300];
    snprintf(whole, sizeof(whole), "\n%s\n", line);
    return strncmp(s->text.ptr, whole + 1, strlen(line) + 1) == 0 || strstr(s->text.ptr, whole);
}

static void touch(const char *name)
{
    put(name, "");
}

static void on_upload_drain(struct abx_upload *u)
{
    (void)u;
}

static void on_upload_done(struct abx_upload *u, const struct abx_error *err)
{
    assert_null(err);
    *(bool *)abx_upload_owner(u) = true;
    abx_upload_close(u);
}

static const struct abx_upload_ops upload_ops = {on_upload_drain, on_upload_done};

static void upload(const char *name)
{
    struct abx_upload_spec spec = {.path = at(name), .user = &self};
    struct abx_upload *u = NULL;
    bool done = false;
    assert_int_equal(abx_upload_open(&loop, &spec, &upload_ops, &done, &u, NULL), 0);
    abx_upload_append(u, "data", 4);
    abx_upload_finish(u);
    run_until(&done);
}

TEST(trap_01_an_upload_is_exactly_three_events)
{
    static const struct {
        bool recursive;
        const char *file, *want, *again;
    } rows[] = {
        {false, "w/a", "CREATE a\nCHMOD a\nWRITE a\n", "CHMOD a\nWRITE a\n"},
        {true, "w/b", "CREATE b\nCHMOD b\nWRITE b\n", "CHMOD b\nWRITE b\n"},
        {true, "w/s/c", "CREATE s/c\nCHMOD s/c\nWRITE s/c\n", "CHMOD s/c\nWRITE s/c\n"},
    };
    begin();
    make_dir("w");
    make_dir("w/s");
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct seen s;
        struct abx_watcher *w = watch(at("w"), rows[i].recursive, false, &s);
        upload(rows[i].file);
        assert_string_equal(events(w, &s), rows[i].want);
        upload(rows[i].file);
        assert_string_equal(events(w, &s), rows[i].again);
        unwatch(w, &s);
    }
    finish();
}

/* Also when the file has metadata of somebody else, and when there is some to clear. */
TEST(trap_02_clearing_no_metadata_is_no_event)
{
    struct seen s;
    begin();
    make_dir("w");
    touch("w/a");
    if (setxattr(at("w/a"), "user.other", "x", 1, 0) < 0 ||
        setxattr(at("w/a"), "user.e2b.k", "v", 1, 0) < 0) {
        finish();
        skip();
    }
    struct abx_watcher *w = watch(at("w"), false, false, &s);
    upload("w/a");
    assert_string_equal(events(w, &s), "CHMOD a\nWRITE a\nCHMOD a\n");
    upload("w/a");
    assert_string_equal(events(w, &s), "CHMOD a\nWRITE a\n");
    unwatch(w, &s);
    finish();
}

TEST(one_line_per_change)
{
    struct seen s;
    begin();
    make_dir("w");
    touch("w/old");
    struct abx_watcher *w = watch(at("w"), false, false, &s);
    touch("w/a");
    assert_int_equal(chmod(at("w/a"), 0600), 0);
    assert_int_equal(rename(at("w/a"), at("w/b")), 0);
    assert_int_equal(unlink(at("w/b")), 0);
    make_dir("w/d");
    touch("w/d/unseen");
    put("w/old", "x");
    assert_string_equal(events(w, &s), "CREATE a\nCHMOD a\nRENAME a\nCREATE b\nREMOVE b\nCREATE d\n"
                                       "WRITE old\n");
    assert_string_equal(events(w, &s), "");
    unwatch(w, &s);
    finish();
}

TEST(the_folder_itself_is_a_dot)
{
    struct seen s;
    begin();
    make_dir("w");
    struct abx_watcher *w = watch(at("w"), true, false, &s);
    assert_int_equal(chmod(at("w"), 0700), 0);
    assert_int_equal(rename(at("w"), at("v")), 0);
    assert_int_equal(rmdir(at("v")), 0);
    assert_string_equal(events(w, &s), "CHMOD .\nRENAME .\nREMOVE .\n");
    make_dir("w");
    touch("w/a");
    assert_string_equal(events(w, &s), "");
    unwatch(w, &s);
    finish();
}

TEST(trap_03_files_in_new_folders_are_seen)
{
    struct seen s;
    begin();
    make_dir("w");
    struct abx_watcher *w = watch(at("w"), true, false, &s);
    for (int i = 0; i < 30; i++) {
        static const char *const parts[] = {"", "/a", "/a/b", "/a/b/c"};
        char name[64], want[80];
        for (size_t p = 0; p < ABX_COUNTOF(parts); p++) {
            snprintf(name, sizeof(name), "w/%d%s", i, parts[p]);
            make_dir(name);
        }
        snprintf(name, sizeof(name), "w/%d/a/b/c/f", i);
        put(name, "x");
        events(w, &s);
        snprintf(want, sizeof(want), "CREATE %s", name + 2);
        assert_true(reports(&s, want));
        put(name, "more"); /* the watch is there now */
        events(w, &s);
        snprintf(want, sizeof(want), "WRITE %s", name + 2);
        assert_true(reports(&s, want));
    }
    unwatch(w, &s);
    finish();
}

TEST(names_follow_a_folder_that_is_renamed)
{
    struct seen s;
    begin();
    make_dir("w");
    make_dir("w/a");
    make_dir("w/a/sub");
    make_dir("w/b");
    make_dir("out");
    struct abx_watcher *w = watch(at("w"), true, false, &s);
    assert_int_equal(rename(at("w/a"), at("w/b/c")), 0);
    touch("w/b/c/sub/f");
    assert_string_equal(events(w, &s), "RENAME a\nCREATE b/c\nCREATE b/c/sub/f\n");
    assert_int_equal(rename(at("w/b/c"), at("out/c")), 0);
    touch("out/c/sub/g");
    assert_string_equal(events(w, &s), "RENAME b/c\n");
    touch("out/c/sub/h");
    assert_string_equal(events(w, &s), "");
    assert_int_equal(rename(at("out/c"), at("w/in")), 0);
    touch("w/in/sub/i");
    events(w, &s);
    assert_true(reports(&s, "CREATE in") && reports(&s, "CREATE in/sub"));
    assert_true(reports(&s, "CREATE in/sub/f") && reports(&s, "CREATE in/sub/i"));
    put("w/in/sub/i", "x");
    assert_string_equal(events(w, &s), "WRITE in/sub/i\n");
    unwatch(w, &s);
    finish();
}

TEST(a_link_is_not_followed)
{
    struct seen s;
    begin();
    make_dir("w");
    make_dir("other");
    assert_int_equal(symlink(at("other"), at("w/l")), 0);
    assert_int_equal(symlink(at("w"), at("root")), 0);
    struct abx_watcher *w = watch(at("root"), true, false, &s);
    touch("other/x");
    touch("w/y");
    assert_string_equal(events(w, &s), "CREATE y\n");
    unwatch(w, &s);
    finish();
}

TEST(what_can_not_be_watched)
{
    static const struct {
        const char *path;
        enum abx_code code;
        const char *text;
    } rows[] = {
        {"none", ABX_NOT_FOUND, " not found: "},
        {"file", ABX_INVALID_ARGUMENT, "/file not a directory"},
        {"file/below", ABX_INTERNAL, "not a directory"},
        {"loop", ABX_INTERNAL, "too many levels"},
    };
    begin();
    touch("file");
    assert_int_equal(symlink(at("loop"), at("loop")), 0);
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct seen s;
        struct abx_watcher *w = watch(at(rows[i].path), i % 2, false, &s);
        assert_int_equal(s.err.code, rows[i].code);
        assert_non_null(strstr(s.err.msg, rows[i].text));
        unwatch(w, &s);
    }
    finish();
}

TEST(entries_come_when_asked_for)
{
    struct seen s;
    char want[300];
    begin();
    make_dir("w");
    struct abx_watcher *w = watch(at("w"), false, true, &s);
    put("w/a", "four");
    assert_int_equal(rename(at("w/a"), at("w/b")), 0);
    snprintf(want, sizeof(want), "CREATE a\nWRITE a\nRENAME a\nCREATE b %s 4\n", at("w/b"));
    assert_string_equal(events(w, &s), want);
    unwatch(w, &s);
    finish();
}

TEST(watchers_of_one_folder_do_not_disturb_each_other)
{
    struct seen a, b;
    begin();
    make_dir("w");
    struct abx_watcher *first = watch(at("w"), true, false, &a);
    struct abx_watcher *second = watch(at("w"), true, false, &b);
    make_dir("w/d");
    touch("w/d/f");
    assert_string_equal(events(first, &a), "CREATE d\nCREATE d/f\n");
    assert_string_equal(events(second, &b), "CREATE d\nCREATE d/f\n");
    unwatch(first, &a);
    touch("w/d/g");
    assert_string_equal(events(second, &b), "CREATE d/g\n");
    unwatch(second, &b);
    first = watch(at("w"), true, false, &a);
    touch("w/d/h");
    assert_string_equal(events(first, &a), "CREATE d/h\n");
    unwatch(first, &a);
    finish();
}

enum { BURST = 10000 };

static void *write_burst(void *arg)
{
    const bool *ran = arg;
    (void)ran;
    for (int i = 0; i < BURST; i++) {
        char name[64];
        if (i % 500 == 0) {
            snprintf(name, sizeof(name), "w/d%d", i / 500);
            mkdir(at(name), 0755);
        }
        snprintf(name, sizeof(name), "w/d%d/%d", i / 500, i);
        int fd = open(at(name), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        close(fd);
    }
    return NULL;
}

/* No loss while the loop reads along, or the loss is told. */
TEST(a_burst_of_10000_files_loses_none_silently)
{
    struct seen s;
    pthread_t thread;
    struct abx_watch_event e;
    size_t created = 0;
    begin();
    make_dir("w");
    struct abx_watcher *w = watch(at("w"), true, false, &s);
    assert_int_equal(pthread_create(&thread, NULL, write_burst, NULL), 0);
    int64_t until = abx_time_mono_ms() + GUARD_MS;
    while (created < BURST && !abx_watcher_error(w) && abx_time_mono_ms() < until) {
        uv_run(&loop.uv, UV_RUN_ONCE);
        while (abx_watcher_take(w, &e))
            created += e.change == ABX_WATCH_CREATE && abx_str_chr(e.name, '/') > 0;
    }
    pthread_join(thread, NULL);
    assert_true(created == BURST || abx_watcher_error(w));
    unwatch(w, &s);
    finish();
}

/* Nobody reads: the kernel's queue is smaller than this. */
TEST(an_overflow_is_told)
{
    struct seen s;
    begin();
    make_dir("w");
    struct abx_watcher *w = watch(at("w"), false, false, &s);
    for (int i = 0; i < BURST; i++) {
        char name[64];
        snprintf(name, sizeof(name), "w/%d", i % 1000);
        int fd = open(at(name), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        close(fd);
        unlink(at(name));
    }
    events(w, &s);
    assert_non_null(abx_watcher_error(w));
    assert_non_null(strstr(abx_watcher_error(w)->msg, "overflow"));
    unwatch(w, &s);
    w = watch(at("w"), false, false, &s);
    touch("w/new");
    assert_string_equal(events(w, &s), "CREATE new\n");
    unwatch(w, &s);
    finish();
}

TEST(closing_at_any_moment_is_safe)
{
    begin();
    make_dir("w");
    for (int stage = 0; stage < 4; stage++) {
        struct abx_watch_spec spec = {.path = at("w"), .is_recursive = true, .has_entries = true};
        struct seen s = {0};
        struct abx_watcher *w = NULL;
        char name[32];
        assert_int_equal(abx_watcher_open(ws, &spec, &ops, &s, &w, NULL), 0);
        if (stage > 0)
            run_until(&s.started);
        snprintf(name, sizeof(name), "w/%d", stage);
        make_dir(name);
        if (stage > 1)
            abx_watcher_sync(w);
        if (stage > 2)
            run_until(&s.synced);
        abx_watcher_close(w);
        assert_int_equal(s.started, stage > 0);
    }
    finish();
}

TEST(without_memory_a_watcher_fails_and_leaks_nothing)
{
    char path[80];
    struct abx_watch_spec spec = {.path = path, .is_recursive = true, .has_entries = true};
    begin();
    snprintf(path, sizeof(path), "%s", at("w"));
    for (unsigned n = 1; abx_alloc_fail(n); n++) {
        struct seen s = {0};
        struct abx_watcher *w = NULL;
        assert_int_equal(mkdir(spec.path, 0755), 0);
        int rc = abx_watcher_open(ws, &spec, &ops, &s, &w, NULL);
        if (rc == 0) {
            run_until(&s.started);
            make_dir("w/a");
            touch("w/a/b");
            if (!abx_watcher_sync(w))
                run_until(&s.synced);
        }
        abx_watcher_close(w);
        assert_int_equal(abx_fd_remove_tree(AT_FDCWD, spec.path), 0);
    }
    finish();
}

static int gate[2];

static void wait_at_gate(struct abx_work *work)
{
    char byte;
    (void)work;
    assert_int_equal(read(gate[0], &byte, 1), 1);
}

static void on_through(struct abx_work *work)
{
    (void)work;
}

/* The pool is busy until all of it is closed: the end of the last watcher is that of the rest. */
TEST(closed_while_the_first_folder_waits_for_the_pool)
{
    enum { THREADS = 4 };
    struct abx_work busy[THREADS];
    struct abx_watch_spec spec = {.path = "/tmp", .is_recursive = false};
    struct abx_watcher *w = NULL;
    struct seen s = {0};
    assert_int_equal(pipe2(gate, O_CLOEXEC), 0);
    begin();
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(abx_work_start(&busy[i], &loop, wait_at_gate, on_through, NULL, NULL), 0);
    assert_int_equal(abx_watcher_open(ws, &spec, &ops, &s, &w, NULL), 0);
    abx_watcher_close(w);
    abx_watches_close(ws);
    for (size_t i = 0; i < THREADS; i++)
        uv_run(&loop.uv, UV_RUN_NOWAIT);
    assert_int_equal(write(gate[1], "1234", THREADS), THREADS);
    tear_down();
    close(gate[0]);
    close(gate[1]);
    assert_false(s.started);
}
