/* lib/base/pages_test.c: a program goes on after its pages were let go. */
#include "lib/base/assert.h"
#include "lib/base/pages.h"
#include "tests/unit/test.h"

#include <string.h>

static const char *const words[] = {"relocated", "once"}; /* pointers that the start wrote */
static int counter = 7;
static char *written;

TEST(what_was_written_stays_and_the_rest_comes_back)
{
    char heap[] = "heap";
    written = heap;
    counter = 8;
    for (int i = 0; i < 3; i++)
        abx_pages_let_go();
    assert_string_equal(words[0], "relocated");
    assert_string_equal(words[1], "once");
    assert_int_equal(counter, 8);
    assert_ptr_equal(written, heap);
}
