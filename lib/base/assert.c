/* lib/base/assert.c: says where a check of ours failed, then aborts. */
#include "lib/base/assert.h"

#include <stdio.h>
#include <stdlib.h>

void abx_assert_fail(const char *expr, const char *file, int line)
{
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, expr);
    abort();
}
