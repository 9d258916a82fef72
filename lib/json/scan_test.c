/* lib/json/scan_test.c: the grammar, case by case, and the walk over members. */
#include "lib/json/scan.h"

#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "tests/unit/test.h"

#include "lib/base/banned.h"

TEST(scan_takes_json)
{
    static const char *const good[] = {"0",
                                       "-0",
                                       "1.5e+10",
                                       "123456789012345678901234567890",
                                       "true",
                                       "false",
                                       "null",
                                       "\"\"",
                                       "\"a\\u00e9\\n\\\"\"",
                                       "[]",
                                       "[ ]",
                                       "{}",
                                       "{ }",
                                       " [1 , 2] ",
                                       "{\"a\":{\"b\":[{},[]]},\"c\":null}",
                                       "\"\\ud800\"",
                                       "\"\xC3\xA9\"",
                                       "[[[[]]]]",
                                       "{\"a\" : 1 , \"a\" : 2}"};
    for (size_t i = 0; i < ABX_COUNTOF(good); i++)
        if (!abx_scan_is_json(abx_str(good[i])))
            fail_msg("refused: %s", good[i]);
}

TEST(scan_refuses_what_is_none)
{
    static const char *const bad[] = {
        "",         " ",           "01",         "1.",       ".5",       "+1",        "1e",
        "--1",      "tru",         "nul",        "NaN",      "Infinity", "'a'",       "\"",
        "\"\\x\"",  "\"\\u12g4\"", "\"\n\"",     "\"\xFF\"", "[",        "[1",        "[1,",
        "[1,]",     "[,]",         "]",          "[}",       "{",        "{\"a\"",    "{\"a\":",
        "{\"a\":1", "{\"a\":1,",   "{\"a\":1,}", "{a:1}",    "{1:2}",    "{\"a\" 1}", "1 2",
        "[] []",    "{\"a\":1]",   "[\"a\":1]",  "\"\\\"",   "-"};
    for (size_t i = 0; i < ABX_COUNTOF(bad); i++)
        if (abx_scan_is_json(abx_str(bad[i])))
            fail_msg("taken: %s", bad[i]);
}

TEST(scan_bounds_depth_without_recursion)
{
    ABX_AUTO_BUF b;
    abx_buf_init(&b, 1 << 20);
    for (int i = 0; i < ABX_SCAN_DEPTH; i++)
        abx_buf_put_byte(&b, '[');
    for (int i = 0; i < ABX_SCAN_DEPTH; i++)
        abx_buf_put_byte(&b, ']');
    assert_true(abx_scan_is_json(abx_buf_str(&b)));
    abx_buf_clear(&b);
    for (int i = 0; i < 200000; i++)
        abx_buf_put_byte(&b, '[');
    assert_false(abx_scan_is_json(abx_buf_str(&b)));
}

TEST(scan_walks_members_and_leaves_their_bytes)
{
    struct abx_scan_object o;
    struct abx_str key, value, whole, rest;
    assert_int_equal(
        abx_scan_value(ABX_STR(" {\"a\" : 1e2, \"b\\n\":[1, 2] ,\"c\":{}} tail"), &whole, &rest),
        0);
    assert_true(abx_str_is(rest, "tail"));
    abx_scan_object_init(&o, whole);
    assert_true(abx_scan_object_next(&o, &key, &value));
    assert_true(abx_str_is(key, "a") && abx_str_is(value, "1e2"));
    assert_true(abx_scan_object_next(&o, &key, &value));
    assert_true(abx_str_is(key, "b\\n") && abx_str_is(value, "[1, 2]"));
    assert_true(abx_scan_object_next(&o, &key, &value));
    assert_true(abx_str_is(key, "c") && abx_str_is(value, "{}"));
    assert_false(abx_scan_object_next(&o, &key, &value));
    assert_false(o.failed);
    abx_scan_object_init(&o, ABX_STR("[1]"));
    assert_false(abx_scan_object_next(&o, &key, &value));
    assert_true(o.failed);
}
