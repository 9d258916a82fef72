/* guest/envd/envd_gzip_test.c: packed bodies of GET and POST /files over the wire
 * (envd.md 3.3, 3.4; case T43). */
#include "guest/envd/envd_rig_priv.h"
#include "lib/base/assert.h"

#include <zlib.h>

static const struct abx_envd_options plain = {.tcp_port = 0};
static struct abx_buf got;

#define OCTETS "Content-Type: application/octet-stream\r\n"
#define FORM   "Content-Type: multipart/form-data; boundary=b\r\n"
#define GZIP   "Content-Encoding: gzip\r\n"
#define PART(name, data)                                                                           \
    "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" name "\"\r\n\r\n" data     \
    "\r\n"

static void start(void)
{
    abx_buf_init(&got, 64 << 20);
    begin(&plain);
}

static void stop(void)
{
    end();
    abx_buf_done(&got);
}

/* Appends a gzip member. */
static void pack(struct abx_str data, struct abx_buf *out)
{
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    size_t cap = deflateBound(&z, data.len);
    z.next_in = (unsigned char *)(uintptr_t)data.ptr;
    z.avail_in = (unsigned)data.len;
    z.next_out = abx_buf_room(out, cap);
    z.avail_out = (unsigned)cap;
    assert_non_null(z.next_out);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    abx_buf_wrote(out, z.total_out);
    deflateEnd(&z);
}

/* The packed body of a chunked answer, unpacked into @out. */
static void unpack_answer(struct abx_buf *out)
{
    ABX_AUTO_BUF body;
    abx_buf_init(&body, 64 << 20);
    struct abx_str rest = abx_buf_str(&got);
    ptrdiff_t at = abx_str_find(rest, ABX_STR("\r\n\r\n"));
    assert_true(at > 0);
    rest = abx_str_sub(rest, (size_t)at + 4, rest.len);
    for (size_t len; (len = strtoul(rest.ptr, NULL, 16)) > 0;) {
        at = abx_str_find(rest, ABX_STR("\r\n"));
        abx_buf_put_str(&body, abx_str_sub(rest, (size_t)at + 2, len));
        rest = abx_str_sub(rest, (size_t)at + 2 + len + 2, rest.len);
    }
    z_stream z = {0};
    assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
    z.next_in = (unsigned char *)body.ptr;
    z.avail_in = (unsigned)body.len;
    z.next_out = abx_buf_room(out, 32 << 20);
    z.avail_out = 32 << 20;
    assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
    abx_buf_wrote(out, z.total_out);
    inflateEnd(&z);
}

static void expect_file(const char *name, struct abx_str want)
{
    char path[256];
    ABX_AUTO_FREE char *have = NULL;
    size_t len = 0;
    snprintf(path, sizeof(path), "%s/home/%s", rig.dir, name);
    assert_int_equal(abx_fd_read_file(AT_FDCWD, path, 64 << 20, &have, &len), 0);
    assert_int_equal(len, want.len);
    assert_memory_equal(have, want.ptr, len);
}

/* What was written is taken away beside the answer. */
static bool goes_away(const char *name)
{
    char path[256];
    int64_t until = abx_time_mono_ms() + GUARD_MS;
    snprintf(path, sizeof(path), "%s/home/%s", rig.dir, name);
    while (access(path, F_OK) == 0 && abx_time_mono_ms() < until)
        poll(NULL, 0, 5);
    return access(path, F_OK) != 0;
}

/* @size bytes, one half of them easy to pack. */
static void fill(struct abx_buf *b, size_t size)
{
    uint32_t x = 1;
    abx_buf_init(b, size + 1);
    char *at = abx_buf_room(b, size);
    for (size_t i = 0; i < size; i++) {
        x = x * 1664525 + 1013904223;
        at[i] = i < size / 2 ? 'a' : (char)(x >> 24);
    }
    abx_buf_wrote(b, size);
}

TEST(t43_packed_both_ways_at_every_size)
{
    static const size_t sizes[] = {0, 1, 4095, 65535, 65536, 65537, 262144, 262145, 20 << 20};
    start();
    for (size_t i = 0; i < ABX_COUNTOF(sizes); i++) {
        ABX_AUTO_BUF data;
        ABX_AUTO_BUF packed;
        ABX_AUTO_BUF back;
        fill(&data, sizes[i]);
        abx_buf_init(&packed, 64 << 20);
        abx_buf_init(&back, 64 << 20);
        pack(abx_buf_str(&data), &packed);
        assert_int_equal(ask("POST /files?path=f", OCTETS GZIP, abx_buf_str(&packed), &got), 200);
        expect_file("f", abx_buf_str(&data));
        assert_int_equal(ask("GET /files?path=f", "Accept-Encoding: gzip\r\n", NO_BODY, &got), 200);
        assert_true(has(&got, "Content-Encoding: gzip\r\n"));
        assert_true(has(&got, "Vary: Accept-Encoding\r\n"));
        assert_false(has(&got, "Accept-Ranges"));
        unpack_answer(&back);
        assert_int_equal(back.len, data.len);
        assert_memory_equal(back.ptr, data.ptr, data.len);
    }
    stop();
}

TEST(a_packed_form_and_two_members)
{
    ABX_AUTO_BUF packed;
    abx_buf_init(&packed, 1 << 20);
    start();
    pack(ABX_STR(PART("1", "one") PART("2", "two") PART("3", "") "--b--\r\n"), &packed);
    assert_int_equal(ask("POST /files", FORM GZIP, abx_buf_str(&packed), &got), 200);
    expect_file("1", ABX_STR("one"));
    expect_file("2", ABX_STR("two"));
    expect_file("3", ABX_STR(""));
    abx_buf_clear(&packed);
    pack(ABX_STR("first,"), &packed);
    pack(ABX_STR("second"), &packed);
    assert_int_equal(ask("POST /files?path=m", OCTETS GZIP, abx_buf_str(&packed), &got), 200);
    expect_file("m", ABX_STR("first,second"));
    stop();
}

TEST(a_packed_body_that_is_cut_or_broken_leaves_no_file)
{
    ABX_AUTO_BUF data;
    ABX_AUTO_BUF packed;
    fill(&data, 1 << 20);
    abx_buf_init(&packed, 4 << 20);
    start();
    pack(abx_buf_str(&data), &packed);
    struct abx_str whole = abx_buf_str(&packed);
    const struct {
        struct abx_str body;
        const char *text;
    } rows[] = {
        {abx_str_sub(whole, 0, whole.len - 9), "unexpected EOF"},
        {abx_str_sub(whole, 0, 20), "unexpected EOF"},
        {ABX_STR(""), "unexpected EOF"},
        {ABX_STR("plain text"), "incorrect header check"},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        assert_int_equal(ask("POST /files?path=f", OCTETS GZIP, rows[i].body, &got), 400);
        assert_true(has(&got, "error decompressing request body: "));
        assert_true(has(&got, rows[i].text));
        assert_true(goes_away("f"));
    }
    packed.ptr[packed.len - 6] ^= 1; /* the check sum */
    assert_int_equal(ask("POST /files?path=f", OCTETS GZIP, abx_buf_str(&packed), &got), 400);
    assert_true(has(&got, "incorrect data check"));
    assert_true(goes_away("f"));
    stop();
}

TEST(headers_of_packed_answers)
{
    static const struct {
        const char *file, *headers;
        int status;
        const char *text;
    } rows[] = {
        {"a.txt", "Accept-Encoding: gzip\r\n", 200, "Content-Type: text/plain; charset=utf-8\r\n"},
        {"bin", "Accept-Encoding: gzip\r\n", 200, "Content-Type: application/octet-stream\r\n"},
        {"a.txt", "Accept-Encoding: gzip, deflate\r\n", 200, "Content-Length: 5\r\n"},
        {"a.txt", "Accept-Encoding: gzip\r\nRange: bytes=1-2\r\n", 206, "\r\n\r\nel"},
        {"a.txt", "Accept-Encoding: gzip, identity;q=0\r\nRange: bytes=1-2\r\n", 406,
         "identity encoding not acceptable for Range or conditional request"},
        {"a.txt", "Accept-Encoding: gzip, identity;q=0\r\n", 200, "Content-Encoding: gzip\r\n"},
        {"none", "Accept-Encoding: gzip\r\n", 404, "does not exist"},
    };
    start();
    put_file("home/a.txt", "hello");
    put_file("home/bin", "hello");
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        char what[64];
        snprintf(what, sizeof(what), "GET /files?path=%s", rows[i].file);
        assert_int_equal(ask(what, rows[i].headers, NO_BODY, &got), rows[i].status);
        assert_true(has(&got, rows[i].text));
    }
    stop();
}

/* A few kilobytes that unpack to 64 MiB: the daemon keeps its size and serves others. */
TEST(a_bomb_is_written_slice_by_slice)
{
    ABX_AUTO_BUF zeros;
    ABX_AUTO_BUF member;
    ABX_AUTO_BUF bomb;
    abx_buf_init(&zeros, 16 << 20);
    abx_buf_init(&member, 16 << 20);
    abx_buf_init(&bomb, 1 << 20);
    memset(abx_buf_room(&zeros, 8 << 20), 0, 8 << 20);
    abx_buf_wrote(&zeros, 8 << 20);
    pack(abx_buf_str(&zeros), &member);
    for (int i = 0; i < 8; i++)
        abx_buf_put_str(&bomb, abx_buf_str(&member));
    start();
    ABX_AUTO_FD fd = dial();
    send_request(fd, "POST /files?path=f", OCTETS GZIP, abx_buf_str(&bomb));
    for (int i = 0; i < 20; i++)
        assert_int_equal(ask("GET /health", "", NO_BODY, &got), 204);
    abx_buf_clear(&got);
    read_until(fd, &got, "\"type\":\"file\"}]");
    struct stat st;
    char path[256];
    snprintf(path, sizeof(path), "%s/home/f", rig.dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 64 << 20);
    stop();
}
