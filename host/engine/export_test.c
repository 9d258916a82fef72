/* host/engine/export_test.c: images and templates as archives: streamed, bounded, cut with the
 * client. Over the doubles of the test kit. */
#include "host/engine/page_priv.h"
#include "host/engine/testkit_priv.h"

#include "lib/base/banned.h"

static void setup(void)
{
    kit_export = (struct kit_export){0};
    kit_setup();
    assert_int_equal(kit_ask("POST", "/abx/v1/images/base?recipe=r1", NULL, "a tar"), 201);
}

/* Asks for the archive and leaves the connection open. */
static int ask_open(const char *path)
{
    char text[512];
    int fd = kit_connect();
    snprintf(text, sizeof(text),
             "GET %s HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: %s\r\n"
             "Connection: close\r\n\r\n",
             path, kit_key);
    kit_send(fd, text, strlen(text));
    return fd;
}

/* Reads to @want bytes of body, or to the end: how many came. A reset is an end. */
static size_t read_body(int fd, size_t want, bool *ret_is_whole)
{
    static char chunk[65536];
    size_t got = 0, head = 0;
    bool in_body = false, over = false;
    int64_t end = abx_time_mono_ms() + KIT_HANG_MS;
    while (!over && got < want && abx_time_mono_ms() < end) {
        ssize_t n = recv(fd, chunk, sizeof(chunk), MSG_DONTWAIT);
        bool is_empty = n < 0 && errno == EAGAIN;
        kit_turn();
        if (is_empty)
            continue;
        over = n <= 0;
        for (ssize_t i = 0; i < n; i++) {
            if (in_body) {
                assert_int_equal(chunk[i], got < 4 ? "head"[got] : 'L');
                got++;
            } else {
                head = chunk[i] == "\r\n\r\n"[head] ? head + 1 : chunk[i] == '\r';
                in_body = head == 4;
            }
        }
    }
    *ret_is_whole = got == 4 + KIT_LAYER_BYTES;
    return got;
}

TEST(export_streams_an_image)
{
    bool is_whole;
    setup();
    int fd = ask_open("/abx/v1/images/base/archive");
    read_body(fd, SIZE_MAX >> 1, &is_whole);
    close(fd);
    assert_true(is_whole);
    assert_int_equal(kit_export.layers, 1);
    KIT_UNTIL(kit.e.exports == 0 && kit.e.imports == 0);
    kit_teardown();
}

TEST(export_of_a_template_tells_its_commands)
{
    bool is_whole;
    char template_id[64], build_id[64], path[256];
    setup();
    assert_int_equal(kit_ask("POST", "/v3/templates", NULL, "{\"name\":\"hello:v1\"}"), 202);
    kit_member("templateID", template_id, sizeof(template_id));
    kit_member("buildID", build_id, sizeof(build_id));
    snprintf(path, sizeof(path), "/v2/templates/%s/builds/%s", template_id, build_id);
    assert_int_equal(kit_ask("POST", path, NULL,
                             "{\"fromImage\":\"e2bdev/"
                             "base\",\"startCmd\":\"serve\",\"readyCmd\":\"is ready\",\"steps\":["
                             "{\"type\":\"RUN\",\"args\":[\"a\"]}]}"),
                     202);
    snprintf(path, sizeof(path), "/templates/%s/builds/%s/status", template_id, build_id);
    KIT_UNTIL(kit_ask("GET", path, NULL, NULL) == 200 && kit_said("\"status\":\"ready\""));
    int fd = ask_open("/abx/v1/templates/local%2Fhello%3Av1/archive");
    read_body(fd, SIZE_MAX >> 1, &is_whole);
    close(fd);
    assert_true(is_whole);
    assert_string_equal(kit_export.label, "serve");
    assert_int_equal(kit_export.layers, 2);
    kit_teardown();
}

TEST(export_refusals)
{
    static const struct {
        const char *path;
        int status;
    } rows[] = {{"/abx/v1/images/none/archive", 404},
                {"/abx/v1/templates/none/archive", 404},
                {"/abx/v1/templates/a%20b/archive", 400},
                {"/abx/v1/templates/host/archive", 400}};
    setup();
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++)
        assert_int_equal(kit_ask("GET", rows[i].path, NULL, NULL), rows[i].status);
    kit_export.fail = true;
    assert_int_equal(kit_ask("GET", "/abx/v1/images/base/archive", NULL, NULL), 400);
    assert_true(kit_said("x is a device"));
    assert_int_equal(kit.e.exports + kit.e.imports, 0);
    kit_teardown();
}

TEST(export_has_a_bound_and_keeps_the_layers)
{
    bool is_whole;
    setup();
    kit_export.hold = true;
    int first = ask_open("/abx/v1/images/base/archive");
    KIT_UNTIL(kit.e.exports == 1);
    struct kit_export held = kit_export;
    int second = ask_open("/abx/v1/images/base/archive");
    KIT_UNTIL(kit.e.exports == 2);
    assert_int_equal(kit_ask("GET", "/abx/v1/images/base/archive", NULL, NULL), 503);
    size_t swept = kit.swept;
    abx__layers_sweep(&kit.e);
    assert_int_equal(kit.swept, swept); /* not while layers are read */
    close(first);
    for (int i = 0; i < 50; i++)
        kit_turn();
    assert_int_equal(kit.e.exports, 2); /* the worker still reads */
    kit_export_end();
    kit_export.done = held.done;
    kit_export.arg = held.arg;
    kit_export_end();
    read_body(second, SIZE_MAX >> 1, &is_whole);
    close(second);
    assert_true(is_whole);
    KIT_UNTIL(kit.e.exports == 0 && kit.e.imports == 0 && kit.swept == swept + 1);
    kit_teardown();
}

TEST(export_ends_with_its_client)
{
    bool is_whole;
    setup();
    int fd = ask_open("/abx/v1/images/base/archive");
    read_body(fd, 70000, &is_whole);
    close(fd);
    KIT_UNTIL(kit.e.exports == 0);
    kit_export.is_short = true; /* what is promised can not be sent: never a whole answer */
    fd = ask_open("/abx/v1/images/base/archive");
    read_body(fd, SIZE_MAX >> 1, &is_whole);
    close(fd);
    assert_false(is_whole);
    KIT_UNTIL(kit.e.exports == 0);
    kit_teardown();
}
