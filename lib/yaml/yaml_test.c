/* lib/yaml/yaml_test.c: what is read, and what is refused where. */
#include "lib/yaml/yaml.h"

#include "lib/base/assert.h"
#include "lib/base/buf.h"
#include "tests/unit/test.h"

#include <string.h>

#include "lib/base/banned.h"

static void expect_json(const char *text, const char *want)
{
    struct abx_arena a;
    struct abx_yaml_fault fault = {0};
    struct abx_yaml *root;
    ABX_AUTO_BUF out;
    abx_arena_init(&a, 1 << 20);
    abx_buf_init(&out, 65536);
    if (abx_yaml_parse(abx_str(text), &a, &fault, &root) < 0)
        fail_msg("%s: %u:%u %s", text, fault.line, fault.column, fault.text);
    abx_yaml_to_json(root, &out);
    assert_string_equal(out.ptr, want);
    abx_arena_done(&a);
}

TEST(documents_become_json)
{
    expect_json("a: 1\nb: [x, \"2\", 1.5, true, null, ~]\n",
                "{\"a\":1,\"b\":[\"x\",\"2\",1.5,true,null,null]}");
    expect_json("z: {k: v}\na: |\n  two\n  lines\n",
                "{\"a\":\"two\\nlines\\n\",\"z\":{\"k\":\"v\"}}");
    expect_json("# only\r\nk: 'it''s'\r\n", "{\"k\":\"it's\"}");
    expect_json("\xef\xbb\xbf{\"a\":1,'b':[x:y, http://h/]}\n",
                "{\"a\":1,\"b\":[\"x:y\",\"http://h/\"]}");
    expect_json("a: &x >-\n  two\n  words\nb:\n- c\n-\n",
                "{\"a\":\"two words\",\"b\":[\"c\",null]}");
    expect_json("a: \"\\u00e9\\/\\L\"\nb: x\n  y\n",
                "{\"a\":\"\xc3\xa9/\xe2\x80\xa8\",\"b\":\"x y\"}");
    expect_json("a: -12\nb: 1e3\nc: 1.\n", "{\"a\":-12,\"b\":1e3,\"c\":\"1.\"}");
}

TEST(doubtful_documents_are_refused_at_their_place)
{
    static const struct {
        const char *text;
        unsigned line;
        const char *part;
    } rows[] = {
        {"a: yes\n", 1, "boolean"},
        {"a: 1\nb: 012\n", 2, "readers"},
        {"a: 1\na: 2\n", 2, "duplicate"},
        {"c: 1\nb: 2\nc: 3\nb: 4\n", 3, "duplicate"},
        {"a: 01.5\n", 1, "quotes"},
        {"a: -00e7\n", 1, "quotes"},
        {"a: &x 1\nb: *x\n", 2, "alias"},
        {"a: !!str 1\n", 1, "tag"},
        {"a: {<<: {b: 1}}\n", 1, "merge"},
        {"- a\n", 1, "mapping"},
        {"", 1, "mapping"},
        {"a: [1\n", 1, ""},
        {"a: 1\n---\nb: 2\n", 1, "more than one"},
        {"a: \xff\n", 1, "UTF-8"},
        {"a: 1\rb: 2\n", 1, "return"},
        {"? [a]\n: 1\n", 1, "key"},
        {"a: 2026-01-01\n", 1, "quotes"},
        {"a: \"x\\0y\"\n", 1, "text"},
        {"a: 1\nb: x\xe2\x80\xa8y\n", 2, "line's end"},
        {"a: 1\n!!str b: 2\n", 2, "tag"},
        {"*a : 1\n", 1, "alias"},
        {"a:\n\t- 1\n", 2, "spaces"},
        {"a: 1\nb: @x\n", 2, "quotes"},
        {"a: 1\nb: \"x\n\n", 4, "line 2"},
        {"a: 1\nb: \x01\n", 2, "control"},
        {"a: 1\n...\nb: 2\n", 3, "start"},
        {"%YAML 2.0\n---\na: 1\n", 1, "incompatible"},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_arena a;
        struct abx_yaml_fault f = {0};
        struct abx_yaml *root;
        abx_arena_init(&a, 1 << 20);
        if (abx_yaml_parse(abx_str(rows[i].text), &a, &f, &root) == 0)
            fail_msg("%s is read", rows[i].text);
        bool says = strstr(f.text, rows[i].part) || (f.advice && strstr(f.advice, rows[i].part));
        if ((rows[i].part[0] && (f.line != rows[i].line || !says)))
            fail_msg("%s: %u: %s, want %u: %s", rows[i].text, f.line, f.text, rows[i].line,
                     rows[i].part);
        abx_arena_done(&a);
    }
}

/* Columns are bytes. */
TEST(nodes_have_their_places)
{
    static const char text[] =
        "\xef\xbb\xbf\xc3\xa9: {k: '\xc3\xbc', l: [x, yes1]}\r\nb: |\n  x\nc:\n";
    static const struct {
        const char *pointer;
        unsigned line, column, width;
    } rows[] = {
        {"/\xc3\xa9", 1, 1, 2},
        {"/\xc3\xa9/k", 1, 9, 4},
        {"/\xc3\xa9/l", 1, 15, 1},
        {"/\xc3\xa9/l/0", 1, 19, 1},
        {"/\xc3\xa9/l/1", 1, 22, 4},
        {"/b", 2, 4, 1},
        {"/c", 4, 1, 1},
    };
    struct abx_arena a;
    struct abx_yaml_fault f = {0};
    struct abx_yaml *root;
    abx_arena_init(&a, 1 << 20);
    assert_int_equal(abx_yaml_parse(ABX_STR(text), &a, &f, &root), 0);
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        const struct abx_yaml *node = abx_yaml_at(root, abx_str(rows[i].pointer));
        if (node->line != rows[i].line || node->column != rows[i].column ||
            node->width != rows[i].width)
            fail_msg("%s: %u:%u, width %u", rows[i].pointer, node->line, node->column, node->width);
    }
    assert_int_equal(abx_yaml_get(root, "b")->key_column, 1);
    abx_arena_done(&a);
}

/* Each anchor would be nine times the one before it. */
TEST(anchors_multiply_nothing)
{
    ABX_AUTO_BUF text;
    struct abx_arena a;
    struct abx_yaml_fault f = {0};
    struct abx_yaml *root;
    abx_buf_init(&text, 1 << 16);
    abx_arena_init(&a, 1 << 16);
    abx_buf_put_c(&text, "a0: &a0 x\n");
    for (int i = 1; i < 10; i++) {
        abx_buf_putf(&text, "a%d: &a%d [", i, i);
        for (int k = 0; k < 9; k++)
            abx_buf_putf(&text, "*a%d,", i - 1);
        abx_buf_put_c(&text, "]\n");
    }
    assert_int_equal(abx_yaml_parse(abx_buf_str(&text), &a, &f, &root), -1);
    assert_int_equal(f.line, 2);
    assert_int_equal(f.column, 10);
    assert_string_equal(f.text, "aliases are not supported");
    abx_arena_done(&a);
}

TEST(bounds_of_size_and_depth_hold)
{
    ABX_AUTO_BUF text;
    struct abx_arena a;
    struct abx_yaml_fault f = {0};
    struct abx_yaml *root;
    abx_arena_init(&a, 64 << 20);
    abx_buf_init(&text, 1 << 20);
    for (int i = 0; i < 64; i++)
        abx_buf_put_c(&text, "{a: ");
    for (int i = 0; i < 64; i++)
        abx_buf_put_c(&text, "}");
    assert_int_equal(abx_yaml_parse(abx_buf_str(&text), &a, &f, &root), -1);
    abx_buf_clear(&text);
    abx_buf_put_c(&text, "a: [");
    for (int i = 0; i < ABX_YAML_NODES_MAX; i++)
        abx_buf_put_c(&text, "1,");
    abx_buf_put_c(&text, "1]\n");
    assert_int_equal(abx_yaml_parse(abx_buf_str(&text), &a, &f, &root), -1);
    abx_buf_clear(&text);
    for (int i = 0; i <= ABX_YAML_TEXT_MAX / 4; i++)
        abx_buf_put_c(&text, "# x\n");
    assert_int_equal(abx_yaml_parse(abx_buf_str(&text), &a, &f, &root), -1);
    assert_non_null(strstr(f.text, "256"));
    abx_arena_done(&a);
}

TEST(nodes_are_found_by_key_and_pointer)
{
    struct abx_arena a;
    struct abx_yaml_fault f;
    struct abx_yaml *root;
    abx_arena_init(&a, 1 << 20);
    assert_int_equal(abx_yaml_parse(ABX_STR("a:\n  - b\n  - c/d: 1\n    e~: 2\n"), &a, &f, &root),
                     0);
    assert_null(abx_yaml_get(root, "b"));
    assert_int_equal(abx_yaml_get(root, "a")->count, 2);
    assert_string_equal(abx_yaml_at(root, ABX_STR("/a/1/c~1d"))->text.ptr, "1");
    assert_string_equal(abx_yaml_at(root, ABX_STR("/a/1/e~0"))->text.ptr, "2");
    assert_int_equal(abx_yaml_at(root, ABX_STR("/a/1/none"))->type, ABX_YAML_MAP);
    assert_string_equal(abx_yaml_type_name(abx_yaml_get(root, "a")->type), "a list");
    abx_arena_done(&a);
}
