/* tests/unit/alloc.h: makes an allocation of the code under test fail. Every test program is linked
 * with malloc, calloc and realloc wrapped (our own calls, not those inside shared libraries).
 *
 *     for (unsigned n = 1; abx_alloc_fail(n); n++)     ends once a run made fewer than n
 *         the_code_that_must_report_and_leak_nothing();
 */
#pragma once
#include <stdbool.h>

/** Arms: the @n-th allocation from now fails, once. False, and disarmed, when the last arming was
 *  never reached: all allocations have had their turn. Begin with n = 1. */
bool abx_alloc_fail(unsigned n);
/** Whether the armed failure happened. */
bool abx_alloc_failed(void);
