/* guest/caps/ignore_test.c: gitignore(5), row by row. */
#include "guest/caps/ignore.h"
#include "lib/base/assert.h"
#include "tests/unit/test.h"

enum { FOLDER = 1 };

static const struct {
    const char *file, *path;
    int is_folder;
    enum abx_ignore_verdict want;
} rows[] = {
    {"*.o", "a.o", 0, ABX_IGNORE_OUT},
    {"*.o", "d/a.o", 0, ABX_IGNORE_OUT},
    {"*.o", "a.c", 0, ABX_IGNORE_NOTHING},
    {"*.o\n!keep.o", "keep.o", 0, ABX_IGNORE_IN},
    {"!keep.o\n*.o", "keep.o", 0, ABX_IGNORE_OUT},
    {"/build", "build", FOLDER, ABX_IGNORE_OUT},
    {"/build", "d/build", FOLDER, ABX_IGNORE_NOTHING},
    {"build/", "build", FOLDER, ABX_IGNORE_OUT},
    {"build/", "build", 0, ABX_IGNORE_NOTHING},
    {"build/", "d/build", FOLDER, ABX_IGNORE_OUT},
    {"a/b", "a/b", 0, ABX_IGNORE_OUT},
    {"a/b", "x/a/b", 0, ABX_IGNORE_NOTHING},
    {"**/foo", "x/y/foo", 0, ABX_IGNORE_OUT},
    {"**/foo", "foo", 0, ABX_IGNORE_OUT},
    {"foo/**", "foo/a/b", 0, ABX_IGNORE_OUT},
    {"foo/**", "foo", FOLDER, ABX_IGNORE_NOTHING},
    {"a/**/b", "a/b", 0, ABX_IGNORE_OUT},
    {"a/**/b", "a/x/y/b", 0, ABX_IGNORE_OUT},
    {"a/*/b", "a/x/y/b", 0, ABX_IGNORE_NOTHING},
    {"f?o", "foo", 0, ABX_IGNORE_OUT},
    {"f?o", "f/o", 0, ABX_IGNORE_NOTHING},
    {"[a-c].txt", "b.txt", 0, ABX_IGNORE_OUT},
    {"[!a-c].txt", "b.txt", 0, ABX_IGNORE_NOTHING},
    {"[!a-c].txt", "z.txt", 0, ABX_IGNORE_OUT},
    {"x[/]y", "x/y", 0, ABX_IGNORE_OUT}, /* the slash in it binds it to the folder */
    {"# comment", "# comment", 0, ABX_IGNORE_NOTHING},
    {"\\#file", "#file", 0, ABX_IGNORE_OUT},
    {"\\!file", "!file", 0, ABX_IGNORE_OUT},
    {"trail  ", "trail", 0, ABX_IGNORE_OUT},
    {"a.b", "axb", 0, ABX_IGNORE_NOTHING}, /* no character of a glob is one of expressions */
    {"a(b)+{c}|^$", "a(b)+{c}|^$", 0, ABX_IGNORE_OUT},
    {"[", "[", 0, ABX_IGNORE_OUT},
    {"a**b", "axxb", 0, ABX_IGNORE_OUT},
    {"\r\n*.o\r\n", "a.o", 0, ABX_IGNORE_OUT},
    {"", "a", 0, ABX_IGNORE_NOTHING},
};

TEST(the_last_rule_that_fits_decides)
{
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_arena a;
        struct abx_ignore g;
        abx_arena_init(&a, 1 << 20);
        assert_int_equal(abx_ignore_parse(abx_str(rows[i].file), &a, &g), 0);
        if (abx_ignore_ask(&g, abx_str(rows[i].path), rows[i].is_folder) != rows[i].want)
            fail_msg("row %zu: '%s' and %s", i, rows[i].file, rows[i].path);
        abx_arena_done(&a);
    }
}

TEST(globs_are_about_names_or_paths)
{
    static const struct {
        const char *glob, *path;
        bool matches;
    } globs[] = {
        {"*.c", "a/b.c", true},          {"*.c", "a/b.h", false},     {"src/*.c", "src/a.c", true},
        {"src/*.c", "x/src/a.c", false}, {"src/**", "src/a/b", true}, {"/a.c", "a.c", true},
        {"/a.c", "d/a.c", false},
    };
    for (size_t i = 0; i < ABX_COUNTOF(globs); i++) {
        struct abx_arena a;
        struct abx_error err = {0};
        struct abx_path_glob *g;
        abx_arena_init(&a, 1 << 20);
        assert_int_equal(abx_path_glob_compile(abx_str(globs[i].glob), &a, &g, &err), 0);
        if (abx_path_glob_matches(g, abx_str(globs[i].path)) != globs[i].matches)
            fail_msg("%s and %s", globs[i].glob, globs[i].path);
        abx_arena_done(&a);
    }
}

TEST(a_file_of_too_many_rules_is_refused)
{
    struct abx_arena a;
    struct abx_ignore g;
    char text[2 * (ABX_IGNORE_RULES + 1)];
    for (size_t i = 0; i < sizeof(text); i += 2) {
        text[i] = 'a';
        text[i + 1] = '\n';
    }
    abx_arena_init(&a, 64 << 20);
    assert_int_equal(abx_ignore_parse(abx_str_n(text, sizeof(text)), &a, &g), -1);
    abx_arena_done(&a);
}
