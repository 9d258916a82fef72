/* guest/server/hosts/protocol_test.c: lines at every split, messages, texts, what the server
 * writes. */
#include "guest/server/hosts/protocol.h"

#include "lib/base/assert.h"
#include "lib/json/scan.h"
#include "tests/unit/test.h"

#include <stdlib.h>

#include "lib/base/banned.h"

TEST(lines_come_out_whole_at_every_split)
{
    static const char in[] = "one\n\ntwo is longer\nrest";
    for (size_t step = 1; step < sizeof(in); step++) {
        struct abx_host_lines l;
        struct abx_str line;
        char seen[64] = "";
        abx_host_lines_init(&l);
        for (size_t at = 0; at < sizeof(in) - 1; at += step) {
            struct abx_str part = abx_str_sub(ABX_STR(in), at, step);
            assert_int_equal(abx_host_lines_feed(&l, part.ptr, part.len), 0);
            while (abx_host_lines_next(&l, &line)) {
                assert_true(strlen(seen) + line.len + 2 < sizeof(seen));
                memcpy(seen + strlen(seen) + 1 - 1, line.ptr, line.len);
                seen[strlen(seen)] = '|';
            }
        }
        assert_string_equal(seen, "one||two is longer|");
        abx_host_lines_done(&l);
    }
}

TEST(lines_over_the_limit_are_refused)
{
    struct abx_host_lines l;
    size_t part = 8 << 20;
    char *block = calloc(1, part);
    int r = 0;
    assert_non_null(block);
    abx_host_lines_init(&l);
    for (size_t sent = 0; r == 0 && sent <= (size_t)ABX_HOST_LINE_MAX + part; sent += part)
        r = abx_host_lines_feed(&l, block, part);
    assert_int_equal(r, -1);
    abx_host_lines_done(&l);
    free(block);
}

TEST(messages_keep_values_as_they_came)
{
    struct abx_host_message m;
    assert_int_equal(
        abx_host_message_parse(ABX_STR("{\"value\": {\"big\":123456789012345678901234567890} "
                                       ",\"op\":\"result\",\"id\":9007199254740991,\"x\":[1]}"),
                               &m, NULL),
        0);
    assert_int_equal(m.op, ABX_HOST_RESULT);
    assert_true(m.has_id && m.id == (UINT64_C(1) << 53) - 1);
    assert_true(abx_str_is(m.value, "{\"big\":123456789012345678901234567890}"));
    assert_int_equal(abx_host_message_parse(ABX_STR("{\"op\":\"later\"}"), &m, NULL), 0);
    assert_int_equal(m.op, ABX_HOST_UNKNOWN);
}

TEST(messages_that_are_none_are_refused)
{
    static const char *const bad[] = {
        "",      "[]",      "1", "{\"op\":\"end\",\"id\":\"1\"}", "{\"id\":-1}", "{\"id\":1.5}",
        "{} {}", "{\"op\"}"};
    for (size_t i = 0; i < ABX_COUNTOF(bad); i++) {
        struct abx_host_message m;
        struct abx_error err = {0};
        if (abx_host_message_parse(abx_str(bad[i]), &m, &err) == 0)
            fail_msg("taken: %s", bad[i]);
        assert_true(err.msg[0] != '\0');
    }
}

TEST(texts_are_unescaped)
{
    static const struct {
        const char *json, *want;
    } rows[] = {
        {"\"\"", ""},
        {"\"a\\n\\t\\\"\\\\\\/b\"", "a\n\t\"\\/b"},
        {"\"\\u00e9\\u4e2d\"", "\xC3\xA9\xE4\xB8\xAD"},
        {"\"\\ud83d\\ude00\"", "\xF0\x9F\x98\x80"},
        {"\"\\ud800x\"", "\xEF\xBF\xBDx"},
        {"\"\\ude00\"", "\xEF\xBF\xBD"},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        ABX_AUTO_BUF b;
        abx_buf_init(&b, 256);
        assert_int_equal(abx_host_text(abx_str(rows[i].json), &b), 0);
        assert_string_equal(b.len ? b.ptr : "", rows[i].want);
    }
    ABX_AUTO_BUF b;
    abx_buf_init(&b, 256);
    assert_int_equal(abx_host_text(ABX_STR("12"), &b), -1);
    assert_int_equal(abx_host_text((struct abx_str){0}, &b), -1);
}

TEST(calls_stay_on_one_line_whatever_the_body)
{
    ABX_AUTO_BUF b;
    abx_buf_init(&b, 4096);
    struct abx_host_call_text call = {.id = 7,
                                      .command = ABX_STR("a\n\"b"),
                                      .args = ABX_STR("{\r\n \"x\":\n1}"),
                                      .ctx = ABX_STR("{}"),
                                      .deadline_ms = 10};
    abx_host_write_call(&b, &call);
    assert_ptr_equal(memchr(b.ptr, '\n', b.len), b.ptr + b.len - 1);
    assert_true(abx_scan_is_json(abx_str_n(b.ptr, b.len - 1)));
    assert_non_null(strstr(b.ptr, "{\"op\":\"call\",\"id\":7,"));
    assert_non_null(strstr(b.ptr, "\"deadline_ms\":10"));
}
