/* lib/base/base_test.c: the lowest floor: strings, buffers, arena, map, numbers, time. */
#include "lib/base/arena.h"
#include "lib/base/assert.h"
#include "lib/base/err.h"
#include "lib/base/fd.h"
#include "lib/base/map.h"
#include "lib/base/near.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

TEST(buf_refuses_beyond_its_ceiling_and_stays_failed)
{
    ABX_AUTO_BUF b;
    abx_buf_init(&b, 5);
    abx_buf_put_c(&b, "hello");
    assert_false(abx_buf_failed(&b));
    abx_buf_put_c(&b, "!");
    assert_true(abx_buf_failed(&b));
    assert_string_equal(b.ptr, "hello");
    assert_null(abx_buf_take(&b));
}

TEST(buf_take_gives_a_terminated_string_even_when_empty)
{
    struct abx_buf b;
    abx_buf_init(&b, 10);
    ABX_AUTO_FREE char *p = abx_buf_take(&b);
    assert_string_equal(p, "");
    abx_buf_putf(&b, "%d-%s", 7, "x");
    abx_buf_consume(&b, 1);
    ABX_AUTO_FREE char *q = abx_buf_take(&b);
    assert_string_equal(q, "-x");
}

TEST(arena_zeroes_caps_and_keeps_large_blocks)
{
    struct abx_arena a;
    abx_arena_init(&a, 20000);
    char *small = abx_arena_alloc(&a, 10);
    char *large = abx_arena_alloc(&a, 9000);
    assert_non_null(small);
    assert_non_null(large);
    assert_int_equal(large[8999], 0);
    assert_null(abx_arena_alloc(&a, 20000));
    assert_null(abx_arena_array(&a, SIZE_MAX / 2, 4));
    assert_string_equal(abx_arena_printf(&a, "%s=%d", "k", 3), "k=3");
    abx_arena_done(&a);
}

TEST(map_survives_growth_and_removal)
{
    struct abx_map m;
    abx_map_init(&m, 1000);
    char key[16];
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        assert_int_equal(abx_map_set(&m, abx_str(key), (void *)(intptr_t)(i + 1), NULL), 0);
    }
    assert_int_equal(abx_map_set(&m, ABX_STR("one more"), &m, NULL), -1);
    for (int i = 0; i < 1000; i += 2) {
        snprintf(key, sizeof(key), "k%d", i);
        assert_int_equal((intptr_t)abx_map_remove(&m, abx_str(key)), i + 1);
    }
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        assert_int_equal((intptr_t)abx_map_get(&m, abx_str(key)), i % 2 ? i + 1 : 0);
    }
    size_t it = 0, seen = 0;
    while (abx_map_next(&m, &it, NULL, NULL))
        seen++;
    assert_int_equal(seen, 500);
    abx_map_done(&m);
}

TEST(map_churn_keeps_finding_free_slots)
{
    struct abx_map m;
    abx_map_init(&m, 8);
    char key[16];
    for (int i = 0; i < 10000; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        assert_int_equal(abx_map_set(&m, abx_str(key), &m, NULL), 0);
        assert_ptr_equal(abx_map_remove(&m, abx_str(key)), &m);
        assert_null(abx_map_get(&m, abx_str(key)));
    }
    assert_true(m.cap <= 64);
    abx_map_done(&m);
}

TEST(numbers_are_whole_strings_in_range)
{
    uint32_t u;
    int64_t i;
    uint64_t x;
    assert_int_equal(abx_parse_u32(ABX_STR("4294967295"), &u), 0);
    assert_int_equal(abx_parse_u32(ABX_STR("4294967296"), &u), -1);
    assert_int_equal(abx_parse_u32(ABX_STR(""), &u), -1);
    assert_int_equal(abx_parse_u32(ABX_STR("+1"), &u), -1);
    assert_int_equal(abx_parse_u32(ABX_STR("1 "), &u), -1);
    assert_int_equal(abx_parse_i64(ABX_STR("-9223372036854775808"), &i), 0);
    assert_true(i == INT64_MIN);
    assert_int_equal(abx_parse_i64(ABX_STR("9223372036854775808"), &i), -1);
    assert_int_equal(abx_parse_hex64(ABX_STR("fF"), &x), 0);
    assert_int_equal(x, 255);
    assert_int_equal(abx_parse_hex64(ABX_STR("0x1"), &x), -1);
}

TEST(base64_gives_the_digits_of_the_rfc)
{
    /* Every digit in order, from the bytes that stand for it (RFC 4648 4), at each alignment. */
    static const char want[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned char bytes[48];
    for (unsigned i = 0; i < 16; i++) {
        uint32_t v = (4 * i) << 18 | (4 * i + 1) << 12 | (4 * i + 2) << 6 | (4 * i + 3);
        bytes[3 * i] = (unsigned char)(v >> 16);
        bytes[3 * i + 1] = (unsigned char)(v >> 8);
        bytes[3 * i + 2] = (unsigned char)v;
    }
    for (size_t from = 0; from < 48; from += 3)
        for (size_t to = from; to <= 48; to += 3) {
            ABX_AUTO_BUF text;
            abx_buf_init(&text, 100);
            abx_base64_encode(bytes + from, to - from, true, &text);
            assert_true(abx_str_eq(abx_buf_str(&text),
                                   abx_str_n(want + from / 3 * 4, (to - from) / 3 * 4)));
        }
    static const char *const rows[][2] = {
        {"f", "Zg=="}, {"fo", "Zm8="}, {"foobar!", "Zm9vYmFyIQ=="}};
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        ABX_AUTO_BUF text;
        abx_buf_init(&text, 100);
        abx_base64_encode(rows[i][0], strlen(rows[i][0]), true, &text);
        assert_string_equal(text.ptr, rows[i][1]);
    }
}

TEST(base64_round_trips_and_refuses_garbage)
{
    unsigned char data[64];
    for (size_t n = 0; n <= sizeof(data); n++) {
        for (size_t i = 0; i < n; i++)
            data[i] = (unsigned char)(i * 37 + n);
        for (int padded = 0; padded < 2; padded++) {
            ABX_AUTO_BUF text;
            ABX_AUTO_BUF back;
            abx_buf_init(&text, 1000);
            abx_buf_init(&back, 1000);
            abx_base64_encode(data, n, padded, &text);
            assert_int_equal(abx_base64_decode(abx_buf_str(&text), &back), 0);
            assert_int_equal(back.len, n);
            assert_memory_equal(back.ptr ? back.ptr : "", data, n);
        }
    }
    static const char *const bad[] = {"a", "a=", "ab=", "abc==", "a b=", "ab==c", "aGl=", "*aaa"};
    for (size_t i = 0; i < ABX_COUNTOF(bad); i++) {
        ABX_AUTO_BUF out;
        abx_buf_init(&out, 100);
        assert_int_equal(abx_base64_decode(abx_str(bad[i]), &out), -1);
    }
}

TEST(times_round_trip)
{
    int64_t ns;
    char text[ABX_TIME_TEXT];
    assert_int_equal(abx_time_parse(ABX_STR("2026-08-01T10:00:00.123456789Z"), &ns), 0);
    abx_time_format_min(ns, text);
    assert_string_equal(text, "2026-08-01T10:00:00.123456789Z");
    assert_int_equal(abx_time_parse(ABX_STR("2026-08-01T12:30:00+02:30"), &ns), 0);
    abx_time_format_min(ns, text);
    assert_string_equal(text, "2026-08-01T10:00:00Z");
    abx_time_format(ns + 5000000, 3, text);
    assert_string_equal(text, "2026-08-01T10:00:00.005Z");
    static const char *const bad[] = {"",
                                      "2026",
                                      "2026-13-01T00:00:00Z",
                                      "2026-08-01T10:00:00",
                                      "2026-08-01T10:00:00.Z",
                                      "2026-08-01T10:00:00Zx"};
    for (size_t i = 0; i < ABX_COUNTOF(bad); i++)
        assert_int_equal(abx_time_parse(abx_str(bad[i]), &ns), -1);
}

TEST(strings_split_trim_and_check_utf8)
{
    struct abx_str rest = ABX_STR("a,,b"), part;
    assert_true(abx_str_split(&rest, ',', &part) && abx_str_is(part, "a"));
    assert_true(abx_str_split(&rest, ',', &part) && abx_str_is(part, ""));
    assert_true(abx_str_split(&rest, ',', &part) && abx_str_is(part, "b"));
    assert_false(abx_str_split(&rest, ',', &part));
    assert_true(abx_str_has_item(ABX_STR("cpu,pids"), ',', "pids"));
    assert_true(abx_str_has_item(ABX_STR("pids"), ',', "pids"));
    assert_false(abx_str_has_item(ABX_STR("pids2,cpupids"), ',', "pids"));
    assert_false(abx_str_has_item(ABX_STR(""), ',', "pids"));
    assert_true(abx_str_is(abx_str_trim(ABX_STR(" \tx y\t ")), "x y"));
    assert_true(abx_str_is_utf8(ABX_STR("\xe4\xb8\x96\xe7\x95\x8c \xf0\x9f\x98\x80")));
    static const char *const bad[] = {"\xff", "\xc0\xaf", "\xed\xa0\x80", "\xe4\xb8",
                                      "\xf5\x80\x80\x80"};
    for (size_t i = 0; i < ABX_COUNTOF(bad); i++)
        assert_false(abx_str_is_utf8(abx_str(bad[i])));
}

TEST(errors_carry_context_code_and_errno)
{
    struct abx_error err;
    assert_int_equal(abx_err_sys(&err, -ENOENT, "open %s", "x"), -1);
    assert_int_equal(err.code, ABX_NOT_FOUND);
    assert_int_equal(err.sys, ENOENT);
    abx_err_wrap(&err, "template %s", "t");
    assert_string_equal(err.msg, "template t: open x: No such file or directory");
    assert_int_equal(abx_code_parse("deadline_exceeded"), ABX_DEADLINE_EXCEEDED);
    assert_int_equal(abx_code_parse("nope"), -1);
    for (int c = 0; c < ABX_CODE__COUNT; c++)
        assert_int_equal(abx_code_parse(abx_code_name((enum abx_code)c)), c);
}

TEST(files_are_replaced_read_and_removed)
{
    char dir[] = "/tmp/abx-base-XXXXXX";
    assert_non_null(mkdtemp(dir));
    ABX_AUTO_FD fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(abx_fd_replace_file(fd, "f", ABX_STR("one"), 0600), 0);
    assert_int_equal(abx_fd_replace_file(fd, "f", ABX_STR("two"), 0600), 0);
    ABX_AUTO_FREE char *text = NULL;
    size_t len;
    assert_int_equal(abx_fd_read_file(fd, "f", 3, &text, &len), 0);
    assert_string_equal(text, "two");
    ABX_AUTO_FREE char *none = NULL;
    assert_int_equal(abx_fd_read_file(fd, "f", 2, &none, NULL), -EFBIG);
    assert_int_equal(abx_fd_replace_file(fd, "empty", ABX_STR(""), 0600), 0);
    assert_int_equal(abx_fd_read_file(fd, "empty", 2, &none, NULL), 0);
    assert_string_equal(none, "");
    char deep[64];
    snprintf(deep, sizeof(deep), "%s/a/b/c", dir);
    assert_int_equal(abx_fd_mkdir_p(deep, 0700), 0);
    assert_int_equal(symlinkat("/etc", fd, "a/link"), 0);
    assert_int_equal(abx_fd_remove_tree(AT_FDCWD, dir), 0);
    assert_int_equal(access(dir, F_OK), -1);
    assert_int_equal(access("/etc/passwd", F_OK), 0);
}

TEST(bytes_are_written_at_an_offset_and_copied_on)
{
    static char big[600000], got[sizeof(big)];
    int ends[2];
    ABX_AUTO_FD from = memfd_create("from", MFD_CLOEXEC);
    ABX_AUTO_FD to = memfd_create("to", MFD_CLOEXEC);
    memset(big, 'x', sizeof(big));
    assert_int_equal(abx_fd_write_all_at(from, big, sizeof(big), 3), 0);
    assert_int_equal(abx_fd_write_all_at(from, "abc", 3, 0), 0);
    assert_int_equal(lseek(from, 0, SEEK_CUR), 0);
    uint64_t at = 1;
    assert_int_equal(abx_fd_copy(from, &at, 3, to), 0); /* of a part, and on from there */
    assert_int_equal(at, 3);
    assert_int_equal(abx_fd_copy(from, &at, sizeof(big) + 3, to), 0);
    assert_int_equal(at, sizeof(big) + 3);
    assert_int_equal(pread(to, got, sizeof(got), 0), sizeof(got));
    assert_memory_equal(got, "bcxx", 4);
    assert_int_equal(lseek(to, 0, SEEK_END), sizeof(big) + 2);
    assert_int_equal(abx_fd_copy(from, &at, sizeof(big) + 4, to), -EIO); /* it ends before */
    /* a pipe: the kernel does not copy into it by itself */
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    at = 0;
    assert_int_equal(abx_fd_copy(from, &at, 5, ends[1]), 0);
    assert_int_equal(read(ends[0], got, sizeof(got)), 5);
    assert_memory_equal(got, "abcxx", 5);
    close(ends[0]);
    close(ends[1]);
    /* what fails tells where it stands */
    ABX_AUTO_FD full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    at = 2;
    assert_int_equal(abx_fd_copy(from, &at, 5, full), -ENOSPC);
    assert_int_equal(at, 2);
    assert_int_equal(abx_fd_write_all_at(-1, "a", 1, 0), -EBADF);
}

TEST(descriptors_travel_over_a_unix_socket_deep_in_a_tree)
{
    char dir[400] = "/tmp/abx-base-XXXXXX";
    assert_non_null(mkdtemp(dir));
    char root[32];
    assert_int_equal(abx_str_to_c(abx_str(dir), root, sizeof(root)), 0);
    for (int i = 0; i < 12; i++)
        snprintf(dir + strlen(dir), sizeof(dir) - strlen(dir), "/%024d", i);
    assert_int_equal(abx_fd_mkdir_p(dir, 0700), 0);
    ABX_AUTO_FD at = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    ABX_AUTO_FD listener = abx_fd_listen_unix(at, "s", SOCK_SEQPACKET, 4);
    assert_true(listener >= 0);
    ABX_AUTO_FD client = abx_fd_connect_unix(at, "s", SOCK_SEQPACKET);
    assert_true(client >= 0);
    ABX_AUTO_FD server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_int_equal(abx_fd_send(client, "hi", 2, &at, 1), 2);
    char got[8];
    int fds[1];
    size_t count = 1;
    assert_int_equal(abx_fd_recv(server, got, sizeof(got), fds, &count), 2);
    assert_int_equal(count, 1);
    assert_int_equal(fcntl(fds[0], F_GETFD), FD_CLOEXEC);
    close(fds[0]);
    abx_fd_remove_tree(AT_FDCWD, root);
}

TEST(near_words_are_one_slip_away)
{
    static const struct {
        const char *word, *name;
        bool near;
    } rows[] = {
        {"RNU", "RUN", true},      {"capabilites", "capabilities", true},
        {"run", "RUN", false},     {"ru", "run", true},
        {"xyz", "run", false},     {"enpdoints", "endpoints", true},
        {"grops", "groups", true}, {"gr", "groups", false},
        {"", "x", true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (abx_str_is_near(abx_str(rows[i].word), rows[i].name) != rows[i].near)
            fail_msg("%s, %s", rows[i].word, rows[i].name);
    assert_int_equal(abx_str_distance(ABX_STR("kitten"), ABX_STR("sitting")), 3);
}
