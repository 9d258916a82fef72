/* guest/server/throttle_test.c: when a refusal is delayed. */
#include "guest/server/throttle.h"
#include "tests/unit/test.h"

TEST(the_first_refusals_of_a_second_are_free)
{
    static struct abx__throttle t;
    for (int i = 0; i < ABX__THROTTLE_FREE; i++)
        assert_false(abx__throttle_refused(&t, 7, 1000 + i));
    assert_true(abx__throttle_refused(&t, 7, 1100));
    assert_false(abx__throttle_refused(&t, 8, 1100)); /* another peer */
    assert_true(abx__throttle_refused(&t, 7, 1999));
    assert_false(abx__throttle_refused(&t, 7, 2000)); /* another second */
}
