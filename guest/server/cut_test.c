/* guest/server/cut_test.c: which strings are taken out of an object, and what is left. */
#include "guest/server/cut.h"
#include "lib/base/assert.h"
#include "tests/unit/test.h"

/* "%L": a long string; "%S": a short one; "%E": a long one with an escape. */
static void expand(const char *pattern, struct abx_buf *out)
{
    char text[ABX__CUT_MIN + 8];
    memset(text, 'a', sizeof(text));
    for (const char *p = pattern; *p; p++) {
        if (p[0] != '%') {
            abx_buf_put_byte(out, *p);
            continue;
        }
        p++;
        if (*p == 'E')
            abx_buf_put_c(out, "\\n");
        abx_buf_put(out, text, *p == 'S' ? ABX__CUT_MIN - 1 : ABX__CUT_MIN);
    }
}

static const struct {
    const char *text, *left; /* NULL: nothing is taken */
} rows[] = {
    {"{\"f\":\"%L\"}", "{\"f\":\"M\"}"},
    {" { \"a\" : 1 , \"f\" : \"%L\" , \"b\":[\"x\"] } ",
     " { \"a\" : 1 , \"f\" : \"M\" , \"b\":[\"x\"] } "},
    {"{\"f\":\"%S\"}", NULL},
    {"{\"f\":\"%E\"}", NULL},
    {"{\"g\":\"%L\"}", NULL},
    {"{\"f\":\"%L\",\"f\":1}", "{\"f\":\"M\",\"f\":1}"}, /* the parser says which one counts */
    {"{\"f\":\"%L\",\"f\":\"%L\"}", "{\"f\":\"%L\",\"f\":\"M\"}"},
    {"{\"a\":{\"f\":\"%L\"}}", NULL},
    {"[\"f\",\"%L\"]", NULL},
    {"{\"x\":\"f\",\"%L\":1}", NULL},
    {"{\"x\":\"\\\"f\\\":\",\"f\":\"%L\"}", "{\"x\":\"\\\"f\\\":\",\"f\":\"M\"}"},
    {"{\"x\\\\\":1,\"f\":\"%L\"}", "{\"x\\\\\":1,\"f\":\"M\"}"},
    {"{\"f\":\"%L", NULL},
    {"{\"f\"", NULL},
    {"{\"f\":", NULL},
    {"", NULL},
};

TEST(only_a_plain_long_member_is_taken_out)
{
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        ABX_AUTO_BUF text;
        ABX_AUTO_BUF want;
        ABX_AUTO_BUF out;
        struct abx_str value = {0};
        abx_buf_init(&text, 65536);
        abx_buf_init(&want, 65536);
        abx_buf_init(&out, 65536);
        expand(rows[i].text, &text);
        bool taken = abx__cut_member(abx_buf_str(&text), "f", ABX_STR("M"), &out, &value);
        if (taken != (rows[i].left != NULL))
            fail_msg("%s: taken %d", rows[i].text, taken);
        if (!taken)
            continue;
        expand(rows[i].left, &want);
        assert_string_equal(out.ptr, want.ptr);
        assert_int_equal(value.len, ABX__CUT_MIN);
    }
}
