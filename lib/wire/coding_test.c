/* lib/wire/coding_test.c */
#include "lib/wire/coding.h"

#include "tests/unit/test.h"

#include "lib/base/banned.h"

TEST(coding_rows)
{
    static const struct {
        const char *value;
        enum abx_coding whole, part; /* part: of a range or conditional request */
    } rows[] = {
        {"", ABX_CODING_IDENTITY, ABX_CODING_IDENTITY},
        {"gzip", ABX_CODING_GZIP, ABX_CODING_IDENTITY},
        {"x-gzip", ABX_CODING_GZIP, ABX_CODING_IDENTITY},
        {"gzip, deflate, br", ABX_CODING_IDENTITY, ABX_CODING_IDENTITY},
        {"*", ABX_CODING_IDENTITY, ABX_CODING_IDENTITY},
        {"identity", ABX_CODING_IDENTITY, ABX_CODING_IDENTITY},
        {"deflate, br", ABX_CODING_IDENTITY, ABX_CODING_IDENTITY},
        {"gzip;q=1.0, identity;q=0.5", ABX_CODING_GZIP, ABX_CODING_IDENTITY},
        {"gzip;q=0.4, identity;q=0.5", ABX_CODING_IDENTITY, ABX_CODING_IDENTITY},
        {"gzip;q=0, br", ABX_CODING_IDENTITY, ABX_CODING_IDENTITY},
        {"*;q=0", ABX_CODING_NONE, ABX_CODING_NONE},
        {"identity;q=0", ABX_CODING_NONE, ABX_CODING_NONE},
        {"gzip, identity; q=0.00", ABX_CODING_GZIP, ABX_CODING_NONE},
        {"gzip, deflate, *;q=0", ABX_CODING_GZIP, ABX_CODING_NONE},
        {"*, identity;q=0", ABX_CODING_GZIP, ABX_CODING_NONE},
        {"*;q=0, identity", ABX_CODING_IDENTITY, ABX_CODING_IDENTITY},
        {"*;q=0, identity;q=0.1", ABX_CODING_IDENTITY, ABX_CODING_IDENTITY},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct abx_str value = abx_str(rows[i].value);
        if (abx_coding_pick(value, false) != rows[i].whole)
            print_error("%s\n", rows[i].value);
        assert_int_equal(abx_coding_pick(value, false), rows[i].whole);
        assert_int_equal(abx_coding_pick(value, true), rows[i].part);
    }
}
