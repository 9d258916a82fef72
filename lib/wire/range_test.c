/* lib/wire/range_test.c */
#include "lib/wire/range.h"

#include "tests/unit/test.h"

#include "lib/base/banned.h"

TEST(range_rows)
{
    static const struct {
        const char *value;
        int count;
        struct abx_range first;
    } rows[] = {
        {"", 0, {0, 0}},
        {"lines=1-2", 0, {0, 0}},
        {"bytes=0-3", 1, {0, 4}},
        {"bytes=5-", 1, {5, 5}},
        {"bytes=-3", 1, {7, 3}},
        {"bytes=-30", 1, {0, 10}},
        {"bytes=9-99", 1, {9, 1}},
        {"bytes=0-0, 2-3 ,9-9", 3, {0, 1}},
        {"bytes=99-,0-1", 1, {0, 2}},
        {"bytes=0-9,0-9", 0, {0, 0}}, /* more than the file: all of it */
        {"bytes=10-", -1, {0, 0}},
        {"bytes=-0", -1, {0, 0}},
        {"bytes=3-2", -1, {0, 0}},
        {"bytes=a-b", -1, {0, 0}},
        {"bytes=", -1, {0, 0}},
        {"bytes=1", -1, {0, 0}},
        {"bytes=99999999999999999999-", -1, {0, 0}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct abx_range out[ABX_RANGES] = {{0, 0}};
        int count = abx_ranges_parse(abx_str(rows[i].value), 10, out);
        if (count != rows[i].count)
            print_error("%s\n", rows[i].value);
        assert_int_equal(count, rows[i].count);
        if (count > 0) {
            assert_int_equal(out[0].from, rows[i].first.from);
            assert_int_equal(out[0].len, rows[i].first.len);
        }
    }
}

TEST(content_range_rows)
{
    static const struct {
        const char *value;
        int rc;
        struct abx_content_range want;
    } rows[] = {
        {"bytes 0-3/10", 0, {0, 4, 10, true}},
        {"bytes 4-9/10", 0, {4, 6, 10, true}},
        {"bytes 4-9/*", 0, {4, 6, 0, false}},
        {"bytes 4-10/10", -1, {0}},
        {"bytes 5-4/10", -1, {0}},
        {"bytes */10", -1, {0}},
        {"bytes=0-3/10", -1, {0}},
        {"bytes 0-3", -1, {0}},
        {"bytes -3/10", -1, {0}},
        {"bytes 0-18446744073709551615/*", -1, {0}},
        {"", -1, {0}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct abx_content_range got = {0};
        int rc = abx_content_range_parse(abx_str(rows[i].value), &got);
        if (rc != rows[i].rc)
            print_error("%s\n", rows[i].value);
        assert_int_equal(rc, rows[i].rc);
        assert_int_equal(got.from, rows[i].want.from);
        assert_int_equal(got.len, rows[i].want.len);
        assert_int_equal(got.total, rows[i].want.total);
        assert_int_equal(got.has_total, rows[i].want.has_total);
    }
}
