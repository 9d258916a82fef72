/* lib/json/json_test.c: field tables, caps, positions and the writer. */
#include "lib/base/fd.h"
#include "lib/json/json.h"
#include "tests/unit/alloc.h"
#include "tests/unit/test.h"

#include <jansson.h>
#include <math.h>

struct size {
    uint32_t cols, rows;
};
struct req {
    struct abx_str cmd;
    bool is_on, has_on;
    int64_t at;
    double ratio;
    struct size size;
    bool has_size;
    struct abx_json_array sizes, words;
    struct abx_json_map envs;
};
static const struct abx_json_field size_fields[] = {
    {"cols", ABX_JSON_U32, offsetof(struct size, cols), ABX_JSON_REQUIRED},
    {"rows", ABX_JSON_U32, offsetof(struct size, rows)},
    {0}};
static const struct abx_json_field req_fields[] = {
    {"cmd", ABX_JSON_STR, offsetof(struct req, cmd), ABX_JSON_REQUIRED},
    {"on", ABX_JSON_BOOL, offsetof(struct req, is_on), .has_offset = offsetof(struct req, has_on)},
    {"at", ABX_JSON_I64, offsetof(struct req, at)},
    {"ratio", ABX_JSON_F64, offsetof(struct req, ratio)},
    {"size", ABX_JSON_OBJECT, offsetof(struct req, size), .sub = size_fields,
     .has_offset = offsetof(struct req, has_size)},
    {"sizes", ABX_JSON_ARRAY, offsetof(struct req, sizes), .sub = size_fields,
     .sub_size = sizeof(struct size)},
    {"words", ABX_JSON_ARRAY, offsetof(struct req, words), .item = ABX_JSON_STR},
    {"envs", ABX_JSON_MAP, offsetof(struct req, envs)},
    {0}};

TEST(json_decodes_every_type_and_ignores_unknown_fields)
{
    struct abx_arena a;
    abx_arena_init(&a, 1 << 16);
    struct req r = {0};
    struct abx_error err = {0};
    assert_int_equal(
        abx_json_decode_text(ABX_STR("{\"cmd\":\"a\\u00e9\",\"on\":false,\"at\":\"-5\",\"ratio\":2,"
                                     "\"size\":{\"cols\":80},\"sizes\":[{\"cols\":1,\"rows\":2},"
                                     "{\"cols\":3}],\"words\":[\"x\",\"\"],\"envs\":{\"K\":\"v\"},"
                                     "\"other\":[{}]}"),
                             false, req_fields, &r, &a, &err),
        0);
    assert_true(abx_str_is(r.cmd, "a\xC3\xA9"));
    assert_true(r.has_on && !r.is_on && r.has_size);
    assert_int_equal(r.at, -5);
    assert_true(r.ratio == 2.0);
    assert_int_equal(r.size.cols, 80);
    assert_int_equal(r.sizes.count, 2);
    assert_int_equal(((struct size *)r.sizes.items)[1].cols, 3);
    assert_int_equal(r.words.count, 2);
    assert_true(abx_str_is(((struct abx_str *)r.words.items)[0], "x"));
    assert_int_equal(r.envs.count, 1);
    assert_true(abx_str_is(r.envs.pairs[0].value, "v"));
    abx_arena_done(&a);
}

TEST(json_null_is_absent_unless_required)
{
    struct abx_arena a;
    abx_arena_init(&a, 1 << 16);
    struct req r = {0};
    struct abx_error err = {0};
    assert_int_equal(abx_json_decode_text(ABX_STR("{\"cmd\":\"x\",\"on\":null,\"size\":null}"),
                                          false, req_fields, &r, &a, &err),
                     0);
    assert_false(r.has_on || r.has_size);
    abx_arena_done(&a);
}

TEST(json_names_the_field_that_it_refuses)
{
    static const struct {
        const char *text, *msg;
    } rows[] = {
        {"{}", "cmd: missing"},
        {"{\"cmd\":null}", "cmd: expected a string, got null"},
        {"{\"cmd\":1}", "cmd: expected a string, got a number"},
        {"{\"cmd\":\"x\",\"on\":\"true\"}", "on: expected a boolean, got a string"},
        {"{\"cmd\":\"x\",\"at\":1.5}", "at: expected a whole number, got a fractional number"},
        {"{\"cmd\":\"x\",\"at\":\"1x\"}", "at: expected a whole number, got a string"},
        {"{\"cmd\":\"x\",\"ratio\":true}", "ratio: expected a number, got a boolean"},
        {"{\"cmd\":\"x\",\"size\":[]}", "size: expected an object, got an array"},
        {"{\"cmd\":\"x\",\"size\":{\"cols\":-1}}", "size.cols: -1 is not in 0..4294967295"},
        {"{\"cmd\":\"x\",\"size\":{\"cols\":4294967296}}",
         "size.cols: 4294967296 is not in 0..4294967295"},
        {"{\"cmd\":\"x\",\"sizes\":[{\"cols\":1},{}]}", "sizes[1].cols: missing"},
        {"{\"cmd\":\"x\",\"sizes\":{}}", "sizes: expected an array, got an object"},
        {"{\"cmd\":\"x\",\"words\":[\"a\",{}]}", "words[1]: expected a string, got an object"},
        {"{\"cmd\":\"x\",\"envs\":{\"K\":3}}", "envs[\"K\"]: expected a string, got a number"},
        {"[]", "value: expected an object, got an array"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct abx_arena a;
        abx_arena_init(&a, 1 << 16);
        struct req r = {0};
        struct abx_error err = {0};
        assert_int_equal(
            abx_json_decode_text(abx_str(rows[i].text), false, req_fields, &r, &a, &err), -1);
        assert_string_equal(err.msg, rows[i].msg);
        assert_int_equal(err.code, ABX_INVALID_ARGUMENT);
        abx_arena_done(&a);
    }
}

TEST(json_empty_text_is_an_object_only_when_allowed)
{
    struct abx_arena a;
    abx_arena_init(&a, 1 << 16);
    struct size s = {0};
    struct abx_error err = {0};
    static const struct abx_json_field optional[] = {
        {"cols", ABX_JSON_U32, offsetof(struct size, cols)}, {0}};
    assert_int_equal(abx_json_decode_text(ABX_STR(""), true, optional, &s, &a, &err), 0);
    assert_int_equal(abx_json_decode_text(ABX_STR(""), false, optional, &s, &a, &err), -1);
    assert_int_equal(err.code, ABX_INVALID_ARGUMENT);
    abx_arena_done(&a);
}

TEST(json_arena_cap_is_an_error_not_a_crash)
{
    struct abx_arena a;
    abx_arena_init(&a, 64);
    struct req r = {0};
    struct abx_error err = {0};
    assert_int_equal(abx_json_decode_text(ABX_STR("{\"cmd\":\"0123456789012345678901234567890123456"
                                                  "7890123456789012345678901234567890\"}"),
                                          false, req_fields, &r, &a, &err),
                     -1);
    assert_int_equal(err.code, ABX_RESOURCE_EXHAUSTED);
    assert_string_equal(err.msg, "cmd: too large");
    abx_arena_done(&a);
}

static enum abx_code parse_code(struct abx_str text, const struct abx_json_limits *limits)
{
    json_t *doc = NULL;
    struct abx_error err = {0};
    if (abx_json_parse(text, limits, &doc, &err) < 0)
        return err.code;
    abx_json_free(doc);
    return ABX_OK;
}

TEST(json_parse_keeps_to_its_caps)
{
    static const struct abx_json_limits small = {.max_bytes = 8, .max_depth = 2};
    assert_int_equal(parse_code(ABX_STR("[[1]]"), &small), ABX_OK);
    assert_int_equal(parse_code(ABX_STR("[[[1]]]"), &small), ABX_INVALID_ARGUMENT);
    assert_int_equal(parse_code(ABX_STR("[1,2,3,4,5]"), &small), ABX_RESOURCE_EXHAUSTED);
    assert_int_equal(parse_code(ABX_STR("\"[[[\""), &small), ABX_OK); /* brackets in a string */
    struct abx_buf many;
    abx_buf_init(&many, 1 << 20);
    abx_buf_put_byte(&many, '[');
    for (int i = 0; i < 200001; i++)
        abx_buf_put_c(&many, "0,");
    abx_buf_put_c(&many, "0]");
    assert_int_equal(parse_code(abx_buf_str(&many), NULL), ABX_RESOURCE_EXHAUSTED);
    abx_buf_done(&many);
}

TEST(json_parse_refuses_what_is_not_one_json_value)
{
    static const char *const rows[] = {"",       "{",   "{}x",      "[1,]",        "{'a':1}",
                                       "nul",    "01",  "\"\xFF\"", "\"\\u0000\"", "1e999",
                                       "\"\n\"", "[1}", "{} {}"};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(parse_code(abx_str(rows[i]), NULL), ABX_INVALID_ARGUMENT);
    assert_int_equal(parse_code(ABX_STR(" 12 "), NULL), ABX_OK);
}

TEST(json_parse_error_names_line_and_column)
{
    json_t *doc = NULL;
    struct abx_error err = {0};
    assert_int_equal(abx_json_parse(ABX_STR("{\n  \"a\": x\n}"), NULL, &doc, &err), -1);
    assert_memory_equal(err.msg, "line 2, column 8: ", 18);
}

TEST(json_locates_values)
{
    static const char text[] = "{\n"
                               " \"a\": [1, {\"b/c\": \"\\\"]\"} ],\n"
                               " \"\xC3\xA9\": 5, \"n\\u0061me\": true,\n"
                               " \"a2\": {\"\": null}\n"
                               "}";
    static const struct {
        const char *pointer;
        int rc;
        unsigned line, column;
    } rows[] = {
        {"", 0, 1, 1},          {"/a", 0, 2, 7},        {"/a/0", 0, 2, 8},  {"/a/1/b~1c", 0, 2, 19},
        {"/\xC3\xA9", 0, 3, 7}, {"/name", 0, 3, 23},    {"/a2/", 0, 4, 13}, {"/a/2", -1, 0, 0},
        {"/a/01", -1, 0, 0},    {"/missing", -1, 0, 0}, {"a", -1, 0, 0},    {"/a/0/x", -1, 0, 0},
        {"/a/1/b~2", -1, 0, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        unsigned line = 0, column = 0;
        assert_int_equal(abx_json_locate(abx_str(text), abx_str(rows[i].pointer), &line, &column),
                         rows[i].rc);
        assert_int_equal(line, rows[i].line);
        assert_int_equal(column, rows[i].column);
    }
}

TEST(json_locate_survives_broken_text)
{
    unsigned line, column;
    static const char *const rows[] = {"{\"a",      "{\"a\"", "{\"a\":", "[",
                                       "{\"a\":[{", "\"\\",   "{\"\\"};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ABX_AUTO_FREE char *exact = strdup(rows[i]);
        assert_int_equal(abx_json_locate(abx_str(exact), ABX_STR("/a/0/b"), &line, &column), -1);
    }
}

TEST(json_writer_nests_and_quotes)
{
    ABX_AUTO_BUF out;
    abx_buf_init(&out, 4096);
    struct abx_json_writer w;
    abx_json_writer_init(&w, &out);
    abx_json_begin_object(&w);
    abx_json_kv_str(&w, "s", ABX_STR("q\"\\\b\t\n\f\r\x01\x7F\xC3\xA9"));
    abx_json_kv_str(&w, "bad", ABX_STR("a\xFF\xE2\x82z\xC0\xAF"));
    abx_json_key(&w, ABX_STR("list"));
    abx_json_begin_array(&w);
    abx_json_i64(&w, INT64_MIN);
    abx_json_u64(&w, UINT64_MAX);
    abx_json_null(&w);
    abx_json_bool(&w, true);
    abx_json_begin_object(&w);
    abx_json_end_object(&w);
    abx_json_raw(&w, ABX_STR("[1]"));
    abx_json_end_array(&w);
    abx_json_kv_i64(&w, "i", -1);
    abx_json_kv_bool(&w, "b", false);
    abx_json_kv_c(&w, "c", "");
    abx_json_end_object(&w);
    assert_string_equal(
        out.ptr, "{\"s\":\"q\\\"\\\\\\b\\t\\n\\f\\r\\u0001\x7F\xC3\xA9\","
                 "\"bad\":\"a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDz\xEF\xBF\xBD\xEF\xBF\xBD\","
                 "\"list\":[-9223372036854775808,18446744073709551615,null,true,{},[1]],"
                 "\"i\":-1,\"b\":false,\"c\":\"\"}");
    assert_int_equal(w.depth, 0);
}

TEST(json_writer_doubles_read_back)
{
    static const double rows[] = {0.0,   -0.0,   0.1,     -1.5,
                                  1e300, 5e-324, 1.0 / 3, 123456789012345680.0};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ABX_AUTO_BUF out;
        abx_buf_init(&out, 64);
        struct abx_json_writer w;
        abx_json_writer_init(&w, &out);
        abx_json_f64(&w, rows[i]);
        double back = strtod(out.ptr, NULL);
        assert_memory_equal(&back, &rows[i], sizeof(back));
    }
    ABX_AUTO_BUF nan_out;
    abx_buf_init(&nan_out, 64);
    struct abx_json_writer w;
    abx_json_writer_init(&w, &nan_out);
    abx_json_f64(&w, (double)NAN);
    assert_string_equal(nan_out.ptr, "null");
}

TEST(json_writer_failure_is_sticky)
{
    ABX_AUTO_BUF out;
    abx_buf_init(&out, 4);
    struct abx_json_writer w;
    abx_json_writer_init(&w, &out);
    abx_json_begin_array(&w);
    abx_json_str(&w, ABX_STR("long text"));
    abx_json_end_array(&w);
    assert_true(abx_buf_failed(&out));
}

TEST(json_value_writes_a_document_back)
{
    static const char text[] = "{\"a\":[1,-2,1.5,true,false,null,\"x\\n\"],\"b\":{}}";
    json_t *doc = NULL;
    struct abx_error err = {0};
    assert_int_equal(abx_json_parse(ABX_STR(text), NULL, &doc, &err), 0);
    ABX_AUTO_BUF out;
    abx_buf_init(&out, 4096);
    struct abx_json_writer w;
    abx_json_writer_init(&w, &out);
    abx_json_value(&w, doc);
    assert_string_equal(out.ptr, text);
    abx_json_free(doc);
}

TEST(json_any_failed_allocation_is_reported)
{
    unsigned n = 1;
    for (; abx_alloc_fail(n); n++) {
        struct abx_arena a;
        struct req r = {0};
        struct abx_error err = {0};
        ABX_AUTO_BUF out;
        struct abx_json_writer w;
        abx_arena_init(&a, 1 << 16);
        abx_buf_init(&out, 1 << 16);
        int rc = abx_json_decode_text(
            ABX_STR("{\"cmd\":\"x\",\"words\":[\"a\"],\"envs\":{\"k\":\"v\"}}"), false, req_fields,
            &r, &a, &err);
        abx_json_writer_init(&w, &out);
        abx_json_str(&w, ABX_STR("a text that needs room"));
        if (abx_alloc_failed())
            assert_true((rc < 0 && err.code == ABX_RESOURCE_EXHAUSTED) || abx_buf_failed(&out));
        else
            assert_int_equal(rc, 0);
        abx_arena_done(&a);
    }
    assert_true(n > 2);
}

static void expect_number(const char *text, double want)
{
    struct abx_json_limits wide = {.wide_numbers = true};
    struct json_t *doc = NULL;
    struct abx_error err = {0};
    assert_int_equal(abx_json_parse(abx_str(text), NULL, &doc, &err), -1);
    assert_int_equal(abx_json_parse(abx_str(text), &wide, &doc, &err), 0);
    double got = json_number_value(json_array_get(doc, 0));
    if (fabs(got - want) > fabs(want) * 1e-14)
        fail_msg("%s: %g, not %g", text, got, want);
    abx_json_free(doc);
}

TEST(numbers_beyond_64_bits_are_read_when_asked_for)
{
    char many[4100] = "[-";
    expect_number("[1e400]", 1e308);
    expect_number("[-1.5E+999, \"1e999\"]", -1e308);
    expect_number("[9223372036854775808]", 9223372036854775808.0);
    expect_number("[-12345678901234567890123]", -12345678901234567890123.0);
    memset(many + 2, '9', 4000);
    memcpy(many + 4002, "]", 2);
    expect_number(many, -1e308);
    struct abx_json_limits wide = {.wide_numbers = true};
    struct json_t *doc = NULL;
    assert_int_equal(abx_json_parse(ABX_STR("[01, 1e400]"), &wide, &doc, NULL), -1);
    assert_int_equal(abx_json_parse(ABX_STR("[1e400, 1.]"), &wide, &doc, NULL), -1);
}

TEST(a_nul_in_a_string_is_read_when_asked_for)
{
    struct abx_json_limits nul = {.allow_nul = true};
    struct json_t *doc = NULL;
    assert_int_equal(abx_json_parse(ABX_STR("\"a\\u0000b\""), NULL, &doc, NULL), -1);
    assert_int_equal(abx_json_parse(ABX_STR("\"a\\u0000b\""), &nul, &doc, NULL), 0);
    assert_int_equal(json_string_length(doc), 3);
    abx_json_free(doc);
}
