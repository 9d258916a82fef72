/* tests/unit/test.h: TEST(name) { ... } registers a cmocka test; test_main.c runs them all.
 * A name is a sentence: TEST(files_read_rejects_dotdot). */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h> /* needs the four above */

void abx_test_register(const char *name, void (*fn)(void **));

#define TEST(name)                                                                                 \
    static void name(void **state);                                                                \
    __attribute__((constructor)) static void register_##name(void)                                 \
    {                                                                                              \
        abx_test_register(#name, name);                                                            \
    }                                                                                              \
    static void name(__attribute__((unused)) void **state)
