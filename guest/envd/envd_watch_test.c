/* guest/envd/envd_watch_test.c: WatchDir and the watchers that are asked, over the wire (envd.md
 * 6.4, 6.5; traps 1, 4, 8). */
#include "guest/envd/envd_rig_priv.h"
#include "lib/base/assert.h"

static const struct abx_envd_options plain = {.tcp_port = 0};
static struct abx_buf got;

#define FS     "filesystem.Filesystem/"
#define OCTETS "Content-Type: application/octet-stream\r\n"

static void start(void)
{
    abx_buf_init(&got, 32 << 20);
    begin(&plain);
}

static void stop(void)
{
    end();
    abx_buf_done(&got);
}

static const char *home(const char *name)
{
    static char path[4][256];
    static unsigned turn;
    char *out = path[turn++ % 4];
    snprintf(out, sizeof(path[0]), "%s/home/%s", rig.dir, name);
    return out;
}

static void make_dir(const char *name)
{
    assert_int_equal(mkdir(home(name), 0755), 0);
}

static void upload(const char *name, const char *data)
{
    char what[128];
    snprintf(what, sizeof(what), "POST /files?path=%s", name);
    assert_int_equal(ask(what, OCTETS, abx_str(data), &got), 200);
}

/* The id, in a static buffer. */
static const char *create_watcher(const char *json)
{
    static char id[32];
    static const char key[] = "\"watcherId\":\"";
    assert_int_equal(call(FS "CreateWatcher", json, &got), 200);
    ptrdiff_t from = abx_str_find(abx_buf_str(&got), ABX_STR(key));
    assert_true(from > 0);
    snprintf(id, sizeof(id), "%.21s", got.ptr + from + sizeof(key) - 1);
    assert_int_equal(strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789"), 21);
    assert_int_equal(id[0], 'w');
    return id;
}

static int with_id(const char *method, const char *id)
{
    char json[128];
    snprintf(json, sizeof(json), "{\"watcherId\":\"%s\"}", id);
    return call(method, json, &got);
}

static size_t count(const char *text)
{
    size_t n = 0;
    struct abx_str rest = abx_buf_str(&got);
    for (ptrdiff_t at; (at = abx_str_find(rest, abx_str(text))) >= 0; n++)
        rest = abx_str_sub(rest, (size_t)at + 1, rest.len);
    return n;
}

TEST(trap_01_three_events_for_one_upload_by_polling)
{
    static const struct {
        const char *json, *file;
    } rows[] = {{"{\"path\":\"w\"}", "w/a"},
                {"{\"path\":\"w\",\"recursive\":true}", "w/b"},
                {"{\"path\":\"w\",\"recursive\":true}", "w/sub/c"}};
    start();
    make_dir("w");
    make_dir("w/sub");
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        char want[512];
        const char *id = create_watcher(rows[i].json), *name = rows[i].file + 2;
        upload(rows[i].file, "data");
        assert_int_equal(with_id(FS "GetWatcherEvents", id), 200);
        snprintf(want, sizeof(want),
                 "{\"events\":[{\"name\":\"%s\",\"type\":\"EVENT_TYPE_CREATE\"},"
                 "{\"name\":\"%s\",\"type\":\"EVENT_TYPE_CHMOD\"},"
                 "{\"name\":\"%s\",\"type\":\"EVENT_TYPE_WRITE\"}]}",
                 name, name, name);
        if (!has(&got, want))
            print_error("wanted %s\ngot %s\n", want, got.ptr);
        assert_true(has(&got, want));
        assert_int_equal(with_id(FS "GetWatcherEvents", id), 200);
        assert_true(has(&got, "\r\n\r\n{}"));
        assert_int_equal(with_id(FS "RemoveWatcher", id), 200);
        assert_int_equal(with_id(FS "GetWatcherEvents", id), 404);
        assert_true(has(&got, "{\"code\":\"not_found\",\"message\":\"watcher with id w"));
        assert_int_equal(with_id(FS "RemoveWatcher", id), 404);
    }
    stop();
}

TEST(trap_04_a_poll_includes_what_the_kernel_has_queued)
{
    start();
    make_dir("w");
    const char *id = create_watcher("{\"path\":\"w\",\"recursive\":true,\"includeEntry\":true}");
    for (int i = 0; i < 20; i++) {
        char name[64], want[160];
        snprintf(name, sizeof(name), "home/w/%d", i);
        snprintf(want, sizeof(want), "%s/%s", rig.dir, name);
        assert_int_equal(mkdir(want, 0755), 0);
        snprintf(name, sizeof(name), "home/w/%d/f", i);
        put_file(name, "text");
        assert_int_equal(with_id(FS "GetWatcherEvents", id), 200);
        snprintf(want, sizeof(want), "\"name\":\"%d/f\",\"type\":\"EVENT_TYPE_CREATE\",\"entry\"",
                 i);
        assert_true(has(&got, want));
    }
    stop();
}

TEST(trap_08_start_comes_before_anything_happens)
{
    start();
    make_dir("w");
    ABX_AUTO_FD fd = stream(FS "WatchDir", "", "{\"path\":\"w\"}");
    read_until(fd, &got, "{\"start\":{}}");
    assert_true(has(&got, "HTTP/1.1 200"));
    assert_true(has(&got, "application/connect+json"));
    stop();
}

TEST(a_stream_tells_each_change_with_its_entry)
{
    start();
    make_dir("w");
    ABX_AUTO_FD fd =
        stream(FS "WatchDir", "", "{\"path\":\"w\",\"recursive\":true,\"include_entry\":true}");
    read_until(fd, &got, "{\"start\":{}}");
    put_file("home/w/a", "four");
    read_until(fd, &got,
               "{\"filesystem\":{\"name\":\"a\",\"type\":\"EVENT_TYPE_CREATE\",\"entry\":{");
    read_until(fd, &got, "\"type\":\"EVENT_TYPE_WRITE\",\"entry\":{");
    assert_int_equal(rename(home("w/a"), home("w/b")), 0);
    read_until(fd, &got, "{\"name\":\"a\",\"type\":\"EVENT_TYPE_RENAME\"}");
    assert_int_equal(unlink(home("w/b")), 0);
    read_until(fd, &got, "{\"name\":\"b\",\"type\":\"EVENT_TYPE_REMOVE\"}");
    stop();
}

TEST(a_stream_ends_with_its_reason)
{
    static const struct {
        const char *headers, *json, *text;
    } rows[] = {
        {"", "{\"path\":\"none\"}", "{\"error\":{\"code\":\"not_found\",\"message\":\"path "},
        {"", "{\"path\":\"file\"}",
         "{\"error\":{\"code\":\"invalid_argument\",\"message\":\"path "},
        {"Connect-Timeout-Ms: 300\r\n", "{\"path\":\"w\"}", "\"deadline_exceeded\""},
        {"Authorization: Basic bm9ib2R5Og==\r\n", "{\"path\":\"w\"}",
         "{\"error\":{\"code\":\"unauthenticated\",\"message\":\"invalid username: 'nobody'\"}}"},
    };
    start();
    make_dir("w");
    put_file("home/file", "");
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        ABX_AUTO_FD fd = stream(FS "WatchDir", rows[i].headers, rows[i].json);
        abx_buf_clear(&got);
        while (read_some(fd, &got) > 0)
            ;
        assert_true(has(&got, "HTTP/1.1 200"));
        if (!has(&got, rows[i].text))
            print_error("wanted %s\n", rows[i].text ? rows[i].text : "nothing");
        assert_true(has(&got, rows[i].text));
    }
    assert_int_equal(call(FS "CreateWatcher", "{\"path\":\"none\"}", &got), 404);
    assert_int_equal(call(FS "CreateWatcher", "{\"path\":\"file\"}", &got), 400);
    stop();
}

TEST(keepalive_comes_on_a_quiet_stream)
{
    start();
    make_dir("w");
    ABX_AUTO_FD fd = stream(FS "WatchDir", "Keepalive-Ping-Interval: 1\r\n", "{\"path\":\"w\"}");
    read_until(fd, &got, "{\"keepalive\":{}}");
    stop();
}

/* Nobody reads: events wait, then the stream says what was lost; the daemon serves on. */
TEST(a_reader_that_stops_costs_only_its_own_stream)
{
    start();
    make_dir("w");
    ABX_AUTO_FD fd = stream(FS "WatchDir", "", "{\"path\":\"w\"}");
    read_until(fd, &got, "{\"start\":{}}");
    for (int i = 0; i < 3000; i++) {
        char name[64];
        snprintf(name, sizeof(name), "home/w/%d", i);
        put_file(name, "x");
    }
    ABX_AUTO_BUF other;
    abx_buf_init(&other, 1 << 20);
    assert_int_equal(ask("GET /health", "", NO_BODY, &other), 204);
    read_until(fd, &got, "{\"name\":\"2999\",\"type\":\"EVENT_TYPE_WRITE\"}");
    assert_int_equal(count("EVENT_TYPE_CREATE"), 3000);
    stop();
}

/* Trap 26: a client that has gone takes its watcher along. More than the daemon may have at once.
 */
TEST(trap_26_a_client_that_goes_frees_its_watcher)
{
    start();
    make_dir("w");
    for (int i = 0; i < 1100; i++) {
        ABX_AUTO_FD fd = stream(FS "WatchDir", "", "{\"path\":\"w\"}");
        abx_buf_clear(&got);
        read_until(fd, &got, "{\"start\":{}}");
    }
    stop();
}
