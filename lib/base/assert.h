/* lib/base/assert.h: checks for our own bugs, in every build; never for data from a peer. */
#pragma once

#define ABX_COUNTOF(a)                      (sizeof(a) / sizeof((a)[0]))
#define ABX_CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

_Noreturn void abx_assert_fail(const char *expr, const char *file, int line);

#define ABX_ASSERT(expr) ((expr) ? (void)0 : abx_assert_fail(#expr, __FILE__, __LINE__))
