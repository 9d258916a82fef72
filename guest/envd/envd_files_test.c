/* guest/envd/envd_files_test.c: GET and POST /files and filesystem.Filesystem over the wire. */
#include "guest/envd/envd_rig_priv.h"

static const struct abx_envd_options plain = {.tcp_port = 0};
static struct abx_buf got;

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

/* "%R" in @text becomes the scratch root. */
static const char *at_root(const char *text)
{
    static char out[4][2048];
    static unsigned turn;
    char *to = out[turn++ % 4];
    size_t n = 0;
    for (; *text; text++) {
        if (text[0] == '%' && text[1] == 'R') {
            n += (size_t)snprintf(to + n, sizeof(out[0]) - n, "%s", rig.dir);
            text++;
        } else
            to[n++] = *text;
        assert_true(n + 1 < sizeof(out[0]));
    }
    to[n] = '\0';
    return to;
}

static void expect(const char *what, const char *headers, struct abx_str body, int status,
                   const char *text)
{
    int answer = ask(at_root(what), headers, body, &got);
    if (answer != status || !has(&got, at_root(text)))
        print_error("%s\n wanted: %s\n got: %s\n", at_root(what), at_root(text), got.ptr);
    assert_int_equal(answer, status);
    assert_true(has(&got, at_root(text)));
}

static void expect_file(const char *name, const char *text)
{
    ABX_AUTO_FREE char *have = NULL;
    size_t len;
    assert_int_equal(abx_fd_read_file(AT_FDCWD, at_root(name), 1 << 20, &have, &len), 0);
    assert_string_equal(have, text);
}

#define OCTETS "Content-Type: application/octet-stream\r\n"
#define FORM   "Content-Type: multipart/form-data; boundary=b\r\n"
#define PART(params, data)                                                                         \
    "--b\r\nContent-Disposition: form-data; " params "\r\nContent-Type: "                          \
    "application/octet-stream\r\n\r\n" data "\r\n"
#define LAST "--b--\r\n"

TEST(get_error_rows)
{
    static const struct {
        const char *what, *headers;
        int status;
        const char *text;
    } rows[] = {
        {"GET /files?path=%R/none", "", 404,
         "{\"code\":404,\"message\":\"path '%R/none' does not exist\"}\n"},
        {"GET /files?path=none", "", 404, "path '%R/home/none' does not exist"},
        {"GET /files?path=%R/home", "", 400, "path '%R/home' is a directory"},
        {"GET /files", "", 400, "path '%R/home' is a directory"},
        {"GET /files?path=a&username=nobody", "", 401,
         "error looking up user 'nobody': user: unknown user nobody"},
        {"GET /files?path=~other/x", "", 400,
         "error expanding and resolving path '~other/x': failed to expand path '~other/x' for user "
         "'root': cannot expand user-specific home dir"},
        {"GET /files?path=%zz", "", 400, "malformed query"},
        {"GET /files?path=a.txt", "Accept-Encoding: identity;q=0\r\n", 406,
         "error parsing Accept-Encoding: no acceptable encoding found, supported: "},
        {"GET /files?path=a.txt", "Accept-Encoding: *;q=0\r\nRange: bytes=0-\r\n", 406,
         "identity encoding not acceptable for Range or conditional request"},
    };
    start();
    put_file("home/a.txt", "hello");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        expect(rows[i].what, rows[i].headers, NO_BODY, rows[i].status, rows[i].text);
    stop();
}

TEST(get_rows)
{
    static const struct {
        const char *what, *headers;
        int status;
        const char *text;
    } rows[] = {
        {"GET /files?path=a.txt", "Accept-Encoding: gzip, deflate\r\n", 200, "\r\n\r\nhello"},
        {"GET /files?path=a.txt", "", 200, "Content-Length: 5\r\n"},
        {"GET /files?path=a.txt", "", 200, "Content-Type: text/plain; charset=utf-8\r\n"},
        {"GET /files?path=a.txt", "", 200, "Content-Disposition: inline; filename=a.txt\r\n"},
        {"GET /files?path=a.txt", "", 200, "Accept-Ranges: bytes\r\n"},
        {"GET /files?path=a.txt", "", 200, "Last-Modified: "},
        {"GET /files?path=a.txt", "", 200, "Vary: Accept-Encoding\r\n"},
        {"GET /files?path=~/a.txt&username=user", "", 200, "hello"},
        {"GET /files?path=%R/home/../home/a.txt", "", 200, "hello"},
        {"GET /files?path=x%20y%2bz", "", 200, "spaced"},
        {"GET /files?path=x+y%2Bz", "", 200, "spaced"},
        {"GET /files?path=empty", "", 200, "Content-Length: 0\r\n"},
        {"GET /files?path=a.txt", "Range: bytes=1-2\r\n", 206, "\r\n\r\nel"},
        {"GET /files?path=a.txt", "Range: bytes=1-2\r\n", 206, "Content-Range: bytes 1-2/5\r\n"},
        {"GET /files?path=a.bin", "Range: bytes=-2\r\n", 206, "Content-Range: bytes 1-2/3\r\n"},
        {"GET /files?path=a.bin", "Range: bytes=-2\r\n", 206, "application/octet-stream\r\n"},
        {"GET /files?path=a.txt", "Range: bytes=9-\r\n", 416, "Content-Range: bytes */5\r\n"},
        {"GET /files?path=a.txt", "Range: bytes=0-0,4-4\r\n", 206,
         "\r\nContent-Range: bytes 4-4/5\r\nContent-Type: text/plain; "
         "charset=utf-8\r\n\r\no\r\n--"},
        {"GET /files?path=a.txt", "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT\r\n", 304,
         "304"},
        {"GET /files?path=a.txt", "If-Modified-Since: Fri, 01 Jan 1999 00:00:00 GMT\r\n", 200,
         "hello"},
        {"GET /files?path=a.txt", "If-Unmodified-Since: Fri, 01 Jan 1999 00:00:00 GMT\r\n", 412,
         "412"},
        {"GET /files?path=a.txt", "If-None-Match: *\r\n", 304, "304"},
        {"GET /files?path=a.txt", "If-None-Match: \"x\"\r\n", 200, "hello"},
        {"GET /files?path=a.txt", "If-Match: \"x\"\r\n", 412, "412"},
        {"GET /files?path=a.txt", "Range: bytes=1-2\r\nIf-Range: Fri, 01 Jan 1999 00:00:00 GMT\r\n",
         200, "hello"},
        {"GET /files?path=/proc/sys/kernel/random/boot_id", "", 200, "-4"},
        {"GET /files?path=/proc/sys/kernel/random/boot_id", "", 200,
         "Transfer-Encoding: chunked\r\n"},
    };
    start();
    put_file("home/a.txt", "hello");
    put_file("home/a.bin", "\1\2\3");
    put_file("home/x y+z", "spaced");
    put_file("home/empty", "");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        expect(rows[i].what, rows[i].headers, NO_BODY, rows[i].status, rows[i].text);
    stop();
}

TEST(get_streams_a_large_file_whole)
{
    enum { SIZE = 8 << 20 };
    ABX_AUTO_FREE char *data = malloc(SIZE);
    start();
    for (size_t i = 0; i < SIZE; i++)
        data[i] = (char)(i * 2654435761u >> 13);
    ABX_AUTO_FD fd = open(at_root("%R/home/big"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(abx_fd_write_all(fd, data, SIZE), 0);
    expect("GET /files?path=big", "", NO_BODY, 200, "Content-Length: 8388608\r\n");
    ptrdiff_t body = abx_str_find(abx_buf_str(&got), ABX_STR("\r\n\r\n")) + 4;
    assert_int_equal(got.len - (size_t)body, SIZE);
    assert_memory_equal(got.ptr + body, data, SIZE);
    stop();
}

TEST(post_rows)
{
    static const struct {
        const char *what, *headers, *body;
        int status;
        const char *text, *file, *content;
    } rows[] = {
        {"POST /files?path=raw.txt", OCTETS, "raw", 200,
         "[{\"path\":\"%R/home/raw.txt\",\"name\":\"raw.txt\",\"type\":\"file\"}]",
         "%R/home/raw.txt", "raw"},
        {"POST /files?path=raw.txt", OCTETS, "shorter", 200, "[{", "%R/home/raw.txt", "shorter"},
        {"POST /files?path=new/dir/x", OCTETS, "", 200, "\"name\":\"x\"", "%R/home/new/dir/x", ""},
        {"POST /files?path=%R/abs", OCTETS "Content-Encoding: identity\r\n", "y", 200,
         "\"path\":\"%R/abs\"", "%R/abs", "y"},
        {"POST /files?path=form.txt", FORM, PART("name=\"file\"; filename=\"other\"", "one") LAST,
         200, "[{\"path\":\"%R/home/form.txt\",\"name\":\"form.txt\",\"type\":\"file\"}]",
         "%R/home/form.txt", "one"},
        {"POST /files?path=nameless", FORM, PART("name=\"file\"", "two") LAST, 200, "nameless",
         "%R/home/nameless", "two"},
        {"POST /files", FORM,
         PART("name=\"file\"; filename=\"d/a\"", "A") PART("name=\"note\"", "ignored")
             PART("name=\"file\"; filename=\"b\"", "B") LAST,
         200,
         "[{\"path\":\"%R/home/d/a\",\"name\":\"a\",\"type\":\"file\"},{\"path\":\"%R/home/b\","
         "\"name\":\"b\",\"type\":\"file\"}]",
         "%R/home/d/a", "A"},
        {"POST /files", FORM, LAST, 200, "\r\n\r\n[]", NULL, NULL},
        {"POST /files", FORM,
         PART("name=\"file\"; filename=\"same\"", "1")
             PART("name=\"file\"; filename=\"./same\"", "2") LAST,
         400,
         "you cannot upload multiple files to the same path '%R/home/same' in one upload request, "
         "only the first specified file was uploaded",
         "%R/home/same", "1"},
        {"POST /files", FORM, PART("name=\"file\"", "x") LAST, 400,
         "error getting multipart custom part file name: filename not found in "
         "Content-Disposition header",
         NULL, NULL},
        {"POST /files", OCTETS, "x", 400, "path query parameter is required for raw body upload",
         NULL, NULL},
        {"POST /files?path=a", "Content-Type: text/plain\r\n", "x", 400,
         "unsupported content type: text/plain, expected multipart/form-data or "
         "application/octet-stream",
         NULL, NULL},
        {"POST /files?path=a", OCTETS "Content-Encoding: br\r\n", "x", 400,
         "error decompressing request body: unsupported Content-Encoding: br, supported: [gzip]",
         NULL, NULL},
        {"POST /files?path=a", OCTETS "Content-Encoding: gzip\r\n", "x", 400,
         "error decompressing request body: ", NULL, NULL},
        {"POST /files?path=a&username=nobody", OCTETS, "x", 401,
         "error looking up user 'nobody': user: unknown user nobody", NULL, NULL},
        {"POST /files?path=%R/home", OCTETS, "x", 400, "path is a directory: %R/home", NULL, NULL},
        {"POST /files?path=raw.txt/x", OCTETS, "x", 500,
         "error ensuring directories: path is a file: %R/home/raw.txt", NULL, NULL},
        {"POST /files?path=~other", OCTETS, "x", 400, "error resolving path: failed to expand path",
         NULL, NULL},
        {"POST /files?path=a", "Content-Type: multipart/form-data\r\n", "x", 500,
         "error reading the form", NULL, NULL},
        {"POST /files?path=cut", FORM,
         "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nx", 500,
         "error reading the form: it ends without its closing boundary", NULL, NULL},
    };
    start();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        expect(rows[i].what, rows[i].headers, abx_str(rows[i].body), rows[i].status, rows[i].text);
        if (rows[i].file)
            expect_file(rows[i].file, rows[i].content);
    }
    stop();
}

/* Chunked, in small pieces, so that a file ends and another begins within and between reads. */
TEST(post_takes_a_chunked_form_at_every_split)
{
    static const char form[] = PART("name=\"file\"; filename=\"one\"", "first")
        PART("name=\"file\"; filename=\"two\"", "second") LAST;
    start();
    for (size_t piece = 1; piece < sizeof(form); piece += 7) {
        ABX_AUTO_FD fd = dial();
        abx_buf_clear(&got);
        send_text(fd, ABX_STR("POST /files HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" FORM
                              "Transfer-Encoding: chunked\r\n\r\n"));
        for (size_t at = 0; at < sizeof(form) - 1; at += piece) {
            struct abx_str part = abx_str_sub(ABX_STR(form), at, piece);
            char head[32];
            snprintf(head, sizeof(head), "%zx\r\n", part.len);
            send_text(fd, abx_str(head));
            send_text(fd, part);
            send_text(fd, ABX_STR("\r\n"));
        }
        send_text(fd, ABX_STR("0\r\n\r\n"));
        read_until(fd, &got, "\"name\":\"two\",\"type\":\"file\"}]");
        expect_file("%R/home/one", "first");
        expect_file("%R/home/two", "second");
        assert_int_equal(unlink(at_root("%R/home/two")), 0);
    }
    stop();
}

/* A whole project in one request, as files.write with a list sends it. */
TEST(post_takes_a_form_of_many_files)
{
    enum { FILES = 5000 };
    ABX_AUTO_BUF body;
    char deep[201] = "";
    memset(deep, 'd', sizeof(deep) - 1); /* with the numbers more than a request's arena has */
    start();
    abx_buf_init(&body, 8 << 20);
    for (int i = 0; i < FILES; i++)
        abx_buf_putf(&body,
                     "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"many/%s/%d\""
                     "\r\n\r\n%d\r\n",
                     deep, i, i);
    abx_buf_put_c(&body, LAST);
    expect("POST /files", FORM, abx_buf_str(&body), 200, "\"name\":\"4999\",\"type\":\"file\"}]");
    assert_true(abx_str_find(abx_buf_str(&got), ABX_STR("\"name\":\"0\",")) > 0);
    char path[256];
    snprintf(path, sizeof(path), "%%R/home/many/%s/4999", deep);
    expect_file(path, "4999");
    stop();
}

TEST(post_and_get_eight_megabytes)
{
    enum { SIZE = 8 << 20 };
    static const char before[] = "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n";
    ABX_AUTO_BUF body;
    start();
    abx_buf_init(&body, SIZE + 4096);
    abx_buf_put_c(&body, before);
    char *data = abx_buf_room(&body, SIZE);
    for (size_t i = 0; i < SIZE; i++)
        data[i] = (char)(i * 2654435761u >> 11);
    abx_buf_wrote(&body, SIZE);
    abx_buf_put_c(&body, "\r\n" LAST);
    expect("POST /files?path=big", FORM, abx_buf_str(&body), 200, "\"name\":\"big\"");
    expect("GET /files?path=big", "", NO_BODY, 200, "Content-Length: 8388608\r\n");
    ptrdiff_t at = abx_str_find(abx_buf_str(&got), ABX_STR("\r\n\r\n")) + 4;
    assert_memory_equal(got.ptr + at, body.ptr + sizeof(before) - 1, SIZE);
    stop();
}

TEST(post_that_breaks_off_leaves_the_old_file)
{
    start();
    put_file("home/kept", "old");
    int fd = dial();
    send_text(fd, ABX_STR("POST /files?path=kept HTTP/1.1\r\nHost: x\r\n" OCTETS
                          "Content-Length: 1000\r\n\r\nnew"));
    close(fd);
    expect("GET /files?path=kept", "", NO_BODY, 200, "\r\n\r\nold");
    stop();
}

TEST(signed_urls_stand_in_for_the_token)
{
    static const struct {
        const char *what, *headers;
        int status;
        const char *text;
    } rows[] = {
        {"GET /files?path=hello.txt&username=user&signature="
         "v1_gUtH%2Fs9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E",
         "", 200, "hello"},
        {"GET /files?path=hello.txt&username=user&signature="
         "v1_gUtH%2Fs9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6F",
         "", 401, "{\"code\":401,\"message\":\"invalid signature\"}\n"},
        {"GET /files?path=hello.txt&username=user", "", 401,
         "{\"code\":401,\"message\":\"missing signature query parameter\"}\n"},
        {"GET /files?path=hello.txt", "X-Access-Token: x\r\n", 401,
         "{\"code\":401,\"message\":\"access token present in header but does not match\"}\n"},
        {"GET /files?path=hello.txt", "X-Access-Token: 0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0\r\n", 200,
         "hello"},
    };
    start();
    put_file("home/hello.txt", "hello");
    assert_int_equal(ask("POST /init", "",
                         ABX_STR("{\"accessToken\":\"0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0\"}"), &got),
                     204);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        expect(rows[i].what, rows[i].headers, NO_BODY, rows[i].status, rows[i].text);
    stop();
}

#define FS "filesystem.Filesystem/"

TEST(filesystem_rows)
{
    static const struct {
        const char *method, *json;
        int status;
        const char *text;
    } rows[] = {
        {FS "Stat", "{\"path\":\"a.txt\"}", 200,
         "{\"entry\":{\"name\":\"a.txt\",\"type\":\"FILE_TYPE_FILE\",\"path\":\"%R/home/a.txt\","
         "\"size\":\"5\",\"mode\":420,\"permissions\":\"-rw-r--r--\","},
        {FS "Stat", "{\"path\":\"a.txt\"}", 200, "\"modifiedTime\":\"20"},
        {FS "Stat", "{\"path\":\"%R/none\"}", 404,
         "{\"code\":\"not_found\",\"message\":\"file not found: lstat %R/none: no such file or "
         "directory\"}"},
        {FS "Stat", "{\"path\":\"a.txt/x\"}", 500, "\"code\":\"internal\""},
        {FS "Stat", "{\"path\":\"~other\"}", 400, "\"code\":\"invalid_argument\""},
        {FS "Stat", "{\"path\":7}", 400, "request: path: expected a string"},
        {FS "MakeDir", "{\"path\":\"d/e\"}", 200,
         "{\"entry\":{\"name\":\"e\",\"type\":\"FILE_TYPE_DIRECTORY\",\"path\":\"%R/home/d/e\""},
        {FS "MakeDir", "{\"path\":\"d/e\"}", 409,
         "{\"code\":\"already_exists\",\"message\":\"directory already exists: %R/home/d/e\"}"},
        {FS "MakeDir", "{\"path\":\"a.txt\"}", 400,
         "path already exists but it is not a directory: %R/home/a.txt"},
        {FS "Move", "{\"source\":\"a.txt\",\"destination\":\"m/b.txt\"}", 200,
         "\"path\":\"%R/home/m/b.txt\""},
        {FS "Move", "{\"source\":\"a.txt\",\"destination\":\"x\"}", 404, "source file not found: "},
        {FS "ListDir", "{\"path\":\"%R/home\",\"depth\":2}", 200, "\"name\":\"b.txt\""},
        {FS "ListDir", "{\"path\":\"\"}", 200, "{\"entries\":[{\"name\":\"d\""},
        {FS "ListDir", "{\"path\":\"none\"}", 404, "path not found: "},
        {FS "ListDir", "{\"path\":\"m/b.txt\"}", 400, "path is not a directory: %R/home/m/b.txt"},
        {FS "ListDir", "{\"path\":\"loop\"}", 400,
         "{\"code\":\"failed_precondition\",\"message\":\"cyclic symlink or chain >255 links at "
         "\\\""},
        {FS "Stat", "{\"path\":\"link\"}", 200, "\"permissions\":\"Lrwxrwxrwx\",\"owner\":"},
        {FS "Stat", "{\"path\":\"link\"}", 200, "\"symlinkTarget\":\"%R/home/m/b.txt\"}}"},
        {FS "Move", "{\"source\":\"m/b.txt\",\"destination\":\"d\"}", 500,
         "{\"code\":\"internal\",\"message\":\"error renaming: "},
        {FS "Remove", "{\"path\":\"m\"}", 200, "\r\n\r\n{}"},
        {FS "Remove", "{\"path\":\"m\"}", 200, "\r\n\r\n{}"},
    };
    start();
    put_file("home/a.txt", "hello");
    assert_int_equal(symlink("loop", at_root("%R/home/loop")), 0);
    assert_int_equal(symlink("m/b.txt", at_root("%R/home/link")), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int status = call(rows[i].method, at_root(rows[i].json), &got);
        if (status != rows[i].status || !has(&got, at_root(rows[i].text)))
            print_error("%s %s\n got: %s\n", rows[i].method, at_root(rows[i].json), got.ptr);
        assert_int_equal(status, rows[i].status);
        assert_true(has(&got, at_root(rows[i].text)));
    }
    stop();
}

#define META OCTETS "X-Metadata-Owner: me\r\nx-metadata-Run-Id: 7\r\nX-Metadata-owner: twice\r\n"

/* The second upload without headers clears what the first one set. */
TEST(metadata_is_kept_told_and_cleared)
{
    static const char both[] = "\"metadata\":{\"owner\":\"me\",\"run-id\":\"7\"}";
    start();
    expect(
        "POST /files?path=m", META, ABX_STR("x"), 200,
        "[{\"path\":\"%R/home/m\",\"name\":\"m\",\"type\":\"file\",\"metadata\":{\"owner\":\"me\","
        "\"run-id\":\"7\"}}]");
    assert_int_equal(call(FS "Stat", "{\"path\":\"m\"}", &got), 200);
    assert_true(has(&got, both) || has(&got, "\"metadata\":{\"run-id\":\"7\",\"owner\":\"me\"}"));
    assert_int_equal(call(FS "ListDir", "{\"path\":\"\"}", &got), 200);
    assert_true(has(&got, "\"owner\":\"me\""));
    expect("POST /files?path=m", OCTETS "X-Metadata-only: this\r\n", ABX_STR("x"), 200,
           "\"metadata\":{\"only\":\"this\"}");
    assert_int_equal(call(FS "Stat", "{\"path\":\"m\"}", &got), 200);
    assert_true(has(&got, "\"metadata\":{\"only\":\"this\"}"));
    expect("POST /files?path=m", OCTETS, ABX_STR("x"), 200, "\"type\":\"file\"}]");
    assert_int_equal(call(FS "Stat", "{\"path\":\"m\"}", &got), 200);
    assert_false(has(&got, "metadata"));
    expect("POST /files", FORM "X-Metadata-a: b\r\n",
           ABX_STR(PART("name=\"file\"; filename=\"1\"", "x")
                       PART("name=\"file\"; filename=\"2\"", "y") LAST),
           200, "\"name\":\"2\",\"type\":\"file\",\"metadata\":{\"a\":\"b\"}}]");
    stop();
}

TEST(metadata_that_is_refused)
{
    char large[5000], text[5100];
    start();
    memset(large, 'v', sizeof(large));
    large[4090] = '\0';
    snprintf(text, sizeof(text), OCTETS "X-Metadata-k: %s\r\n", large);
    expect("POST /files?path=m", text, ABX_STR("x"), 400, "invalid metadata: keys and values are");
    large[247] = '\0';
    snprintf(text, sizeof(text), OCTETS "X-Metadata-%s: v\r\n", large);
    expect("POST /files?path=m", text, ABX_STR("x"), 400, "invalid metadata: a key is longer");
    expect("POST /files?path=m", OCTETS "X-Metadata-k: \xc3\xa9\r\n", ABX_STR("x"), 400,
           "invalid metadata: k: only printable ASCII");
    expect("POST /files?path=m", OCTETS "X-Metadata-: v\r\n", ABX_STR("x"), 400,
           "invalid metadata: a key is empty");
    expect("GET /files?path=m", "", NO_BODY, 404, "does not exist");
    stop();
}

#define COMPOSE "POST /files/compose"
TEST(compose_joins_and_removes_the_parts)
{
    static const struct {
        const char *body;
        int status;
        const char *text;
    } rows[] = {
        {"{", 400, "invalid request body: "},
        {"{\"source_paths\":7}", 400, "invalid request body: source_paths"},
        {"{\"destination\":\"a\"}", 400, "\"source_paths must not be empty\""},
        {"{\"source_paths\":[\"1\"]}", 400, "\"destination is required\""},
        {"{\"source_paths\":[\"1\",\"./2\"],\"destination\":\"2\"}", 400,
         "cannot be the same as destination"},
        {"{\"source_paths\":[\"1\",\"none\"],\"destination\":\"a\"}", 404,
         "\"source file not found: %R/home/none\""},
        {"{\"source_paths\":[\"1\",\"%R/home\"],\"destination\":\"a\"}", 400,
         "source path is not a regular file: %R/home"},
        {"{\"source_paths\":[\"1\"],\"destination\":\"%R/home\"}", 400, "path is a directory"},
        {"{\"source_paths\":[\"1\"],\"destination\":\"~other/a\"}", 400, "error resolving path: "},
        {"{\"source_paths\":[\"1\"],\"destination\":\"a\",\"username\":\"nobody\"}", 401,
         "unknown user nobody"},
        {"{\"source_paths\":[\"1\",\"2\",\"%R/home/3\"],\"destination\":\"new/a\",\"username\":"
         "\"user\"}",
         200, "{\"path\":\"%R/home/new/a\",\"name\":\"a\",\"type\":\"file\"}"},
        {"{\"source_paths\":[\"1\"],\"destination\":\"new/a\"}", 404, "source file not found"},
    };
    start();
    put_file("home/1", "one,");
    put_file("home/2", "two,");
    put_file("home/3", "three");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        expect(COMPOSE, JSON_TYPE, abx_str(at_root(rows[i].body)), rows[i].status, rows[i].text);
    expect_file("%R/home/new/a", "one,two,three");
    assert_int_equal(access(at_root("%R/home/1"), F_OK), -1);
    assert_int_equal(access(at_root("%R/home/3"), F_OK), -1);
    assert_int_equal(call(FS "ListDir", "{\"path\":\"new\"}", &got), 200);
    assert_false(has(&got, "e2b-compose"));
    put_file("home/4", "again");
    expect(COMPOSE, JSON_TYPE, ABX_STR("{\"source_paths\":[\"4\"],\"destination\":\"new/a\"}"), 200,
           "\"type\":\"file\"}");
    expect_file("%R/home/new/a", "again");
    stop();
}
