/* guest/server/lift_test.c: which strings leave an object while it comes, wherever it is cut. */
#include "guest/server/lift.h"
#include "lib/base/assert.h"
#include "tests/unit/test.h"

enum { TEXT_MAX = 4096 };

static const struct {
    const char *text, *rest, *value; /* of the value that came last; NULL: none did */
} rows[] = {
    {"{\"f\":\"abc\"}", "{\"f\":\"M\"}", "abc"},
    {"{\"f\":\"\"}", "{\"f\":\"M\"}", ""},
    {" {\n\"a\" : 1 , \"f\" : \"abc\" , \"b\":[\"x\"] } ",
     " {\n\"a\" : 1 , \"f\" : \"M\" , \"b\":[\"x\"] } ", "abc"},
    {"{\"path\":\"a\\\"b\",\"f\":\"abc\"}", "{\"path\":\"a\\\"b\",\"f\":\"M\"}", "abc"},
    {"{\"f\":\"a\\/b\\u002B\\u002f\\\\c\"}", "{\"f\":\"M\"}", "a/b+/\\c"},
    {"{\"f\":\"a\\nb\\u0000c\\u00e9\\uzz\"}", "{\"f\":\"M\"}",
     "a\x01"
     "b\x01"
     "c\x01\x01z"},
    {"{\"f\":\"1\",\"f\":\"2\"}", "{\"f\":\"M\",\"f\":\"M\"}", "2"},
    {"{\"f\":1,\"f\":[\"f\"],\"f\":{\"f\":\"x\"}}", "{\"f\":1,\"f\":[\"f\"],\"f\":{\"f\":\"x\"}}",
     NULL},
    {"{\"a\":{\"f\":\"x\"},\"f\":\"y\"}", "{\"a\":{\"f\":\"x\"},\"f\":\"M\"}", "y"},
    {"{\"a\":[{\"f\":\"x\"}],\"f\":\"y\"}", "{\"a\":[{\"f\":\"x\"}],\"f\":\"M\"}", "y"},
    {"{\"a\":\"f\",\"b\":\"x\"}", "{\"a\":\"f\",\"b\":\"x\"}", NULL},
    {"{\"ff\":\"x\",\"\":\"x\",\"\\u0066\":\"x\"}", "{\"ff\":\"x\",\"\":\"x\",\"\\u0066\":\"x\"}",
     NULL},
    {"[\"f\",\"x\"]", "[\"f\",\"x\"]", NULL},
    {"\"f\":\"x\"", "\"f\":\"x\"", NULL},
    {"{\"f\" 1 : \"x\"}", "{\"f\" 1 : \"x\"}", NULL},
    {"{\"f\": 1 \"x\"}", "{\"f\": 1 \"x\"}", NULL},
    {"{\"f\",\"x\"}", "{\"f\",\"x\"}", NULL},
    {"{\"f\":\"abc", "{\"f\":\"M", "abc"},
    {"{\"f\":\"abc\\", "{\"f\":\"M", "abc"},
    {"{\"f\"", "{\"f\"", NULL},
    {"", "", NULL},
};

struct seen {
    struct abx_buf value;
    unsigned begun;
};

static void on_begin(void *ctx)
{
    struct seen *s = ctx;
    abx_buf_clear(&s->value);
    s->begun++;
}

static void on_piece(void *ctx, struct abx_str piece)
{
    struct seen *s = ctx;
    assert_true(s->begun > 0 && piece.len > 0);
    abx_buf_put_str(&s->value, piece);
}

static const struct abx__lift_ops ops = {on_begin, on_piece};

static void check(const char *text, const char *rest, const char *value, size_t step)
{
    struct abx__lift l;
    struct seen s = {0};
    abx_buf_init(&s.value, TEXT_MAX);
    abx__lift_init(&l, "f", ABX_STR("M"), TEXT_MAX, &ops, &s);
    for (size_t at = 0; at < strlen(text); at += step)
        abx__lift_feed(&l, abx_str_sub(abx_str(text), at, step));
    if (!abx_str_is(abx_buf_str(&l.rest), rest))
        fail_msg("%s in steps of %zu leaves %.*s", text, step, ABX_STR_FMT(abx_buf_str(&l.rest)));
    if ((s.begun > 0) != (value != NULL) || (value && !abx_str_is(abx_buf_str(&s.value), value)))
        fail_msg("%s in steps of %zu: %u values, the last %.*s", text, step, s.begun,
                 ABX_STR_FMT(abx_buf_str(&s.value)));
    abx__lift_done(&l);
    abx_buf_done(&s.value);
}

TEST(a_member_leaves_the_object_wherever_it_is_cut)
{
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++)
        for (size_t step = 1; step <= strlen(rows[i].text) + 1; step++)
            check(rows[i].text, rows[i].rest, rows[i].value, step);
}

TEST(a_rest_that_is_too_long_is_told)
{
    struct abx__lift l;
    struct seen s = {0};
    abx_buf_init(&s.value, TEXT_MAX);
    abx__lift_init(&l, "f", ABX_STR("M"), 8, &ops, &s);
    abx__lift_feed(&l, ABX_STR("{\"f\":\"0123456789\"}"));
    assert_true(abx_buf_failed(&l.rest)); /* {"f":"M"} is one too many */
    assert_int_equal(s.value.len, 10);
    abx__lift_done(&l);
    abx_buf_done(&s.value);
}
