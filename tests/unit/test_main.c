/* tests/unit/test_main.c: runs the registered tests and prints "N passed, N failed, N skipped".
 * Usage: suite [-l | NAME...]. A suite that registers no test fails. */
#include "tests/unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TESTS = 512 };
static struct CMUnitTest tests[MAX_TESTS];
static size_t count;

void abx_test_register(const char *name, void (*fn)(void **))
{
    if (count == MAX_TESTS) {
        fprintf(stderr, "too many tests in one suite\n");
        abort();
    }
    tests[count].name = name;
    tests[count].test_func = fn;
    count++;
}

static int list_tests(void)
{
    for (size_t i = 0; i < count; i++)
        puts(tests[i].name);
    return 0;
}

static void keep_named(int argc, char **argv)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        for (int a = 1; a < argc; a++)
            if (strcmp(tests[i].name, argv[a]) == 0)
                tests[kept++] = tests[i];
    count = kept;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "-l") == 0)
        return list_tests();
    if (argc > 1)
        keep_named(argc, argv);
    if (count == 0) {
        fprintf(stderr, "no test ran\n");
        return 1;
    }
    return _cmocka_run_group_tests("suite", tests, count, NULL, NULL) == 0 ? 0 : 1;
}
