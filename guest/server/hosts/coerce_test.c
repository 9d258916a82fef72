/* guest/server/hosts/coerce_test.c: the table of command-hosts.md 2.1, row by row. */
#include "guest/server/hosts/coerce.h"

#include "lib/base/assert.h"
#include "lib/json/json.h"
#include "lib/json/scan.h"
#include "tests/unit/test.h"

#include <stdio.h>

#include "lib/base/banned.h"

enum { BYTES = 1 << 20 };

/* What @body becomes under @declared (JSON of a hello), or "TYPE: text". */
static void expect(const char *declared, const char *body, const char *want)
{
    struct abx_arena a;
    struct abx_args args;
    struct abx_args_fault f;
    struct abx_error err = {0};
    struct json_t *list = NULL;
    ABX_AUTO_BUF out;
    char got[2048];
    abx_arena_init(&a, BYTES);
    abx_buf_init(&out, BYTES);
    assert_int_equal(abx_json_parse(abx_str(declared), NULL, &list, &err), 0);
    assert_int_equal(abx_args_read(list, &a, &args, &err), 0);
    if (abx_args_coerce(&args, abx_str(body), &a, &out, &f) < 0)
        snprintf(got, sizeof(got), "%s: %s", f.type, f.text);
    else
        snprintf(got, sizeof(got), "%s", out.ptr);
    if (strcmp(got, want))
        fail_msg("%s with %s: want %s, got %s", declared, body, want, got);
    if (strncmp(got, "{", 1) == 0)
        assert_true(abx_scan_is_json(abx_str(got)));
    abx_json_free(list);
    abx_arena_done(&a);
}

TEST(values_become_the_declared_type)
{
    static const char no[] = "refused";
    static const struct {
        const char *type, *value, *want;
    } rows[] = {
        {"string", "\"a\\u00e9\"", "\"a\\u00e9\""},
        {"string", "7.50", "\"7.50\""},
        {"string", "true", "\"true\""},
        {"string", "null", "\"null\""},
        {"string", "[\"a b\", 1 ]", "\"[\\\"a b\\\",1]\""},
        {"string", "{\"k\":\n 1}", "\"{\\\"k\\\":1}\""},
        {"integer", "123456789012345678901234567890", "123456789012345678901234567890"},
        {"integer", "-0", "0"},
        {"integer", "-7.9", "-7"},
        {"integer", "-0.5", "0"},
        {"integer", "1e3", "1000"},
        {"integer", "1e400", no},
        {"integer", "\" +1_000\\n\"", "1000"},
        {"integer", "\"-007\"", "-7"},
        {"integer", "\"-0\"", "0"},
        {"integer", "\"1__0\"", no},
        {"integer", "\"_1\"", no},
        {"integer", "\"1_\"", no},
        {"integer", "\"7.0\"", no},
        {"integer", "\"\"", no},
        {"integer", "\"+\"", no},
        {"integer", "true", no},
        {"integer", "null", no},
        {"integer", "[1]", no},
        {"integer", "{}", no},
        {"float", "3", "3"},
        {"float", "1.5e2", "1.5e2"},
        {"float", "true", "1.0"},
        {"float", "false", "0.0"},
        {"float", "\" .5 \"", "0.5"},
        {"float", "\"-1_0.25E1\"", "-102.5"},
        {"float", "\"5.\"", "5"},
        {"float", "\"nan\"", "\"nan\""},
        {"float", "\" -NaN \"", "\"nan\""},
        {"float", "\"inf\"", "\"inf\""},
        {"float", "\"+Infinity\"", "\"inf\""},
        {"float", "\"-inf\"", "\"-inf\""},
        {"float", "\"infinit\"", no},
        {"float", "\"--inf\"", no},
        {"float", "\"1nan\"", no},
        {"float", "\"1e400\"", "\"inf\""},
        {"integer", "\"inf\"", no},
        {"integer", "\"nan\"", no},
        {"float", "\"1e\"", no},
        {"float", "\".\"", no},
        {"float", "1e400", "\"inf\""},
        {"float", "-1e400", "\"-inf\""},
        {"float", "null", no},
        {"float", "\"\"", no},
        {"float", "[]", no},
        {"boolean", "true", "true"},
        {"boolean", "false", "false"},
        {"boolean", "1", "true"},
        {"boolean", "0", "false"},
        {"boolean", "\"YES\"", "true"},
        {"boolean", "\"No\"", "false"},
        {"boolean", "1.0", no},
        {"boolean", "2", no},
        {"boolean", "\"on\"", no},
        {"boolean", "\" true\"", no},
        {"boolean", "null", no},
        {"string_array", "[]", "[]"},
        {"string_array", "[ \"a ,\" , \"b\\\"]\" ]", "[\"a ,\",\"b\\\"]\"]"},
        {"string_array", "[\"a\",1]", no},
        {"string_array", "[[\"a\"]]", no},
        {"string_array", "\"a\"", no},
        {"string_array", "null", no},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        char declared[128], body[256], want[512];
        snprintf(declared, sizeof(declared), "[{\"name\":\"x\",\"type\":\"%s\"}]", rows[i].type);
        snprintf(body, sizeof(body), "{\"x\": %s}", rows[i].value);
        if (rows[i].want != no)
            snprintf(want, sizeof(want), "{\"x\":%s}", rows[i].want);
        else
            snprintf(want, sizeof(want), "TypeError: Cannot convert argument 'x' to %s: %s",
                     rows[i].type, rows[i].value);
        expect(declared, body, want);
    }
}

TEST(arguments_are_checked_in_their_order)
{
    static const char two[] = "[{\"name\":\"a\",\"type\":\"integer\",\"required\":true},"
                              "{\"name\":\"b\",\"type\":\"integer\",\"required\":true}]";
    expect(two, "{\"z\":1,\"y\":1,\"z\":2,\"a\":\"no\"}",
           "ValueError: Unexpected argument(s): ['y', 'z']; declared: ['a', 'b']");
    expect(two, "{\"a\":\"no\"}", "TypeError: Cannot convert argument 'a' to integer: \"no\"");
    expect(two, "{\"a\":1}", "ValueError: Required argument 'b' missing");
    expect(two, "{\"b\":2,\"a\":0,\"a\":1}", "{\"a\":1,\"b\":2}"); /* the last one counts */
    expect(two, "{\"\\u0061\":1,\"b\":2}", "{\"a\":1,\"b\":2}");
    expect("[]", "{\"x\":1}", "ValueError: Unexpected argument(s): ['x']; declared: (none)");
}

TEST(bodies_that_are_no_objects_are_empty)
{
    static const char *const bodies[] = {"", "null", "[]", "0", "\"\"", "{}", " {} "};
    for (size_t i = 0; i < ABX_COUNTOF(bodies); i++)
        expect("[{\"name\":\"x\"}]", bodies[i], "{}");
}

TEST(defaults_convert_like_values_or_are_passed_as_they_are)
{
    static const struct {
        const char *declared, *want;
    } rows[] = {
        {"[{\"name\":\"x\",\"type\":\"integer\",\"default\":\"3\"}]", "{\"x\":3}"},
        {"[{\"name\":\"x\",\"type\":\"integer\",\"default\":\"N/A\"}]", "{\"x\":\"N/A\"}"},
        {"[{\"name\":\"x\",\"type\":\"string\",\"default\":\"3\"}]", "{\"x\":\"3\"}"},
        {"[{\"name\":\"x\",\"type\":\"string_array\",\"default\":\"[\\\"a\\\"]\"}]",
         "{\"x\":[\"a\"]}"},
        {"[{\"name\":\"x\",\"type\":\"string_array\",\"default\":\"[1]\"}]", "{\"x\":\"[1]\"}"},
        {"[{\"name\":\"x\",\"type\":\"string_array\",\"default\":\"a\"}]", "{\"x\":\"a\"}"},
        {"[{\"name\":\"x\",\"type\":\"boolean\",\"default\":null}]", "{}"},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++)
        expect(rows[i].declared, "{}", rows[i].want);
}

TEST(declarations_that_are_none_are_refused)
{
    static const char *const bad[] = {"[{\"name\":\"x\",\"type\":\"int\"}]",
                                      "[{\"type\":\"string\"}]", "[1]", "{}",
                                      "[{\"name\":\"x\",\"default\":5}]"};
    for (size_t i = 0; i < ABX_COUNTOF(bad); i++) {
        struct abx_arena a;
        struct abx_args args;
        struct abx_error err = {0};
        struct json_t *list = NULL;
        abx_arena_init(&a, BYTES);
        assert_int_equal(abx_json_parse(abx_str(bad[i]), NULL, &list, &err), 0);
        assert_int_equal(abx_args_read(list, &a, &args, &err), -1);
        assert_true(err.msg[0]);
        abx_json_free(list);
        abx_arena_done(&a);
    }
}

TEST(long_names_do_not_make_long_texts)
{
    ABX_AUTO_BUF body;
    struct abx_arena a;
    struct abx_args args = {0};
    struct abx_args_fault f;
    ABX_AUTO_BUF out;
    abx_arena_init(&a, BYTES);
    abx_buf_init(&body, BYTES);
    abx_buf_init(&out, BYTES);
    abx_buf_put_byte(&body, '{');
    for (int i = 0; i < 500; i++)
        abx_buf_putf(&body, "%s\"%0100d\":1", i ? "," : "", i);
    abx_buf_put_byte(&body, '}');
    assert_int_equal(abx_args_coerce(&args, abx_buf_str(&body), &a, &out, &f), -1);
    assert_non_null(strstr(f.text, ", ...]"));
    abx_arena_done(&a);
}
