/* lib/json/tree_test.c: trees, places, refusals. */
#include "lib/json/tree.h"

#include "lib/base/assert.h"
#include "tests/unit/test.h"

#include <stdlib.h>

#include "lib/base/banned.h"

static struct abx_json_node *parse(const char *text, struct abx_arena *a)
{
    struct abx_json_node *root = NULL;
    struct abx_json_fault fault;
    abx_arena_init(a, 4 << 20);
    if (abx_json_tree_parse(abx_str(text), a, &root, &fault) < 0)
        fail_msg("%s: %s at %zu", text, fault.text, fault.at);
    return root;
}

TEST(a_tree_knows_where_everything_stands)
{
    static const char text[] = "{\n  \"a/b\": [1, {\"\xc3\xa9~\": -0.5e1}],\n \"c\": null}";
    struct abx_arena a;
    struct abx_json_node *root = parse(text, &a);
    const struct abx_json_node *list = abx_json_tree_get(root, "a/b"),
                               *inner = list->first->next->first;
    unsigned line, column;
    assert_string_equal(abx_json_tree_pointer(inner, &a), "/a~1b/1/\xc3\xa9~0");
    assert_string_equal(abx_json_tree_pointer(root, &a), "");
    abx_json_position(abx_str(text), inner->at, &line, &column);
    assert_int_equal(line, 2);
    assert_int_equal(column, 21);
    abx_json_position(abx_str(text), abx_json_tree_get(root, "c")->key_at, &line, &column);
    assert_int_equal(line, 3);
    assert_int_equal(column, 2);
    assert_int_equal(inner->kind, ABX_JSON_REAL_NODE);
    assert_true(abx_str_is(inner->text, "-0.5e1") && inner->number < -4.9);
    assert_int_equal(list->first->kind, ABX_JSON_INT_NODE);
    abx_arena_done(&a);
}

TEST(of_equal_keys_the_last_value_counts_in_the_first_place)
{
    struct abx_arena a;
    struct abx_json_node *root = parse("{\"a\":1,\"b\":2,\"a\":3}", &a);
    assert_int_equal(root->count, 2);
    assert_true(abx_str_is(root->first->text, "3") && abx_str_is(root->first->next->key, "b"));
    assert_null(root->first->next->next);
    abx_arena_done(&a);
}

TEST(strings_keep_nul_pairs_and_lone_surrogates)
{
    struct abx_arena a;
    struct abx_json_node *root = parse(
        "[\"\\u0000x\", \"\\ud83d\\ude00\", \"\\ud800\\u0041\", \"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]",
        &a);
    const struct abx_json_node *n = root->first;
    assert_true(abx_str_eq(n->text, abx_str_n("\0x", 2)));
    assert_true(abx_str_is((n = n->next)->text, "\xf0\x9f\x98\x80"));
    assert_true(abx_str_is((n = n->next)->text, "\xed\xa0\x80"
                                                "A"));
    assert_true(abx_str_is(n->next->text, "\"\\/\b\f\n\r\t"));
    abx_arena_done(&a);
}

TEST(what_is_no_json_is_refused_where_it_goes_wrong)
{
    static const struct {
        const char *text;
        size_t at;
    } rows[] = {
        {"", 0},         {"{", 1},         {"[1", 2},  {"[1,]", 3},      {"{\"a\":1,}", 7},
        {"{'a':1}", 1},  {"{\"a\" 1}", 5}, {"01", 2},  {"-", 1},         {"1.", 2},
        {"1e", 2},       {"+1", 0},        {"\"a", 2}, {"\"\\x\"", 2},   {"\"\\u12g4\"", 2},
        {"\"a\nb\"", 2}, {"nul", 0},       {"NaN", 0}, {"-Infinity", 1}, {"1e400", 0},
        {"/**/1", 0},    {"1 2", 2},       {"[1}", 2}, {"\xff", 0},      {"[\"\xc3\x28\"]", 2},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_arena a;
        struct abx_json_node *root;
        struct abx_json_fault fault;
        abx_arena_init(&a, 1 << 20);
        assert_int_equal(abx_json_tree_parse(abx_str(rows[i].text), &a, &root, &fault), -1);
        if (fault.text == NULL || fault.at != rows[i].at)
            fail_msg("%s: at %zu, wanted %zu (%s)", rows[i].text, fault.at, rows[i].at, fault.text);
        abx_arena_done(&a);
    }
}

TEST(depth_and_memory_are_bounded)
{
    enum { DEEP = ABX_JSON_TREE_DEPTH };
    char text[2 * DEEP + 3];
    struct abx_arena a;
    struct abx_json_node *root;
    struct abx_json_fault fault;
    memset(text, '[', DEEP);
    memset(text + DEEP, ']', DEEP);
    abx_arena_init(&a, 1 << 20);
    assert_int_equal(abx_json_tree_parse(abx_str_n(text, 2 * DEEP), &a, &root, &fault), 0);
    memset(text, '[', DEEP + 1);
    memset(text + DEEP + 1, ']', DEEP + 1);
    assert_int_equal(abx_json_tree_parse(abx_str_n(text, 2 * DEEP + 2), &a, &root, &fault), -1);
    abx_arena_done(&a);
    abx_arena_init(&a, 4096);
    assert_int_equal(abx_json_tree_parse(ABX_STR("[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,"
                                                 "20,21,22,23,24,25,26,27,28,29,30,31,32]"),
                                         &a, &root, &fault),
                     -1);
    assert_non_null(fault.text);
    abx_arena_done(&a);
}

TEST(a_member_can_be_put_in)
{
    struct abx_arena a;
    struct abx_json_node *root = parse("{\"a\":1,\"b\":2}", &a), two = {.text = ABX_STR("x")},
                         three = {.text = ABX_STR("y")};
    abx_json_tree_set(root, "a", &two);
    abx_json_tree_set(root, "c", &three);
    assert_int_equal(root->count, 3);
    assert_true(abx_str_is(root->first->text, "x") && abx_str_is(root->first->next->key, "b"));
    assert_true(abx_str_is(abx_json_tree_get(root, "c")->text, "y"));
    abx_arena_done(&a);
}
