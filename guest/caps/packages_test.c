/* guest/caps/packages_test.c: packages by their metadata; nothing is run (D61). */
#include "guest/caps/packages.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "tests/unit/test.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/banned.h"

struct tree {
    char top[64];
    struct abx_arena arena;
};

static void tree_open(struct tree *t)
{
    snprintf(t->top, sizeof(t->top), "/tmp/abx-packages-XXXXXX");
    assert_non_null(mkdtemp(t->top));
    abx_arena_init(&t->arena, 16 << 20);
}

static void tree_close(struct tree *t)
{
    abx_arena_done(&t->arena);
    assert_int_equal(abx_fd_remove_tree(AT_FDCWD, t->top), 0);
}

static void put(const struct tree *t, const char *name, const char *text)
{
    char path[PATH_MAX], folder[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", t->top, name);
    snprintf(folder, sizeof(folder), "%.*s", (int)abx_str_rchr(abx_str(path), '/'), path);
    assert_int_equal(abx_fd_mkdir_p(folder, 0755), 0);
    ABX_AUTO_FD fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
    assert_true(fd >= 0);
    assert_true(abx_fd_write_all(fd, text, strlen(text)) >= 0);
}

static void assert_package(const struct abx_packages *p, size_t i, const char *name,
                           const char *version)
{
    assert_true(i < p->count);
    assert_string_equal(p->items[i].name.ptr, name);
    assert_string_equal(p->items[i].version.ptr, version);
}

TEST(metadata_gives_name_and_version_of_the_head_only)
{
    static const struct {
        const char *text, *name, *version;
    } rows[] = {
        {"Metadata-Version: 2.1\nName: a.B\nVersion: 1.0\n\nName: no\n", "a.B", "1.0"},
        {"name: x\r\nVERSION: 2\r\n", "x", "2"},
        {"Summary: s\n Name: folded\nVersion: 3\n", NULL, "3"},
        {"", NULL, NULL},
        {"\nName: late\n", NULL, NULL},
    };
    for (size_t i = 0; i < ABX_COUNTOF(rows); i++) {
        struct abx_package p = abx_package_of_metadata(abx_str(rows[i].text));
        assert_true(rows[i].name ? abx_str_is(p.name, rows[i].name) : p.name.ptr == NULL);
        assert_true(rows[i].version ? abx_str_is(p.version, rows[i].version)
                                    : p.version.ptr == NULL);
    }
}

TEST(packages_d61_python_reads_what_the_interpreter_would_import)
{
    struct tree t;
    struct abx_packages found;
    char python[PATH_MAX], home[PATH_MAX];
    tree_open(&t);
    put(&t, "bin/python3.11", "#!/bin/sh\nexit 9\n"); /* running it would show */
    snprintf(python, sizeof(python), "%s/bin/python3", t.top);
    assert_int_equal(symlink("python3.11", python), 0);
    put(&t, "lib/python3.11/site-packages/Zed-2.dist-info/METADATA", "Name: Zed\nVersion: 2\n");
    put(&t, "lib/python3.11/site-packages/a_b-1.5.dist-info/METADATA", "no head at all\n");
    put(&t, "lib/python3.11/site-packages/old-0.1.egg-info", "Name: old\nVersion: 0.1\n");
    put(&t, "lib/python3.11/site-packages/egg.egg-info/PKG-INFO", "Name: egg\nVersion: 4\n");
    put(&t, "lib/python3.11/site-packages/evil.pth", "import os; os._exit(3)\n");
    put(&t, "home/.local/lib/python3.11/site-packages/zed-1.dist-info/METADATA",
        "Name: zed\nVersion: 1\n"); /* another place has it first */
    put(&t, "home/.local/lib/python3.11/site-packages/own-7.dist-info/METADATA",
        "Name: own\nVersion: 7\n");
    snprintf(home, sizeof(home), "%s/home", t.top);
    struct abx_packages_where w = {.interpreter = python, .home = home, .folder = "/"};
    assert_int_equal(abx_packages_python(&w, &t.arena, &found), 0);
    assert_int_equal(found.count, 5);
    assert_package(&found, 0, "a_b", "1.5");
    assert_package(&found, 1, "egg", "4");
    assert_package(&found, 2, "old", "0.1");
    assert_package(&found, 3, "own", "7");
    assert_package(&found, 4, "Zed", "2");
    put(&t, "pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = false\n");
    assert_int_equal(abx_packages_python(&w, &t.arena, &found), 0);
    assert_int_equal(found.count, 4); /* a virtual environment has no packages of the user */
    w.interpreter = NULL;
    assert_int_equal(abx_packages_python(&w, &t.arena, &found), 0);
    assert_int_equal(found.count, 0);
    tree_close(&t);
}

TEST(packages_npm_lists_the_project_of_the_folder)
{
    struct tree t;
    struct abx_packages found;
    char folder[PATH_MAX];
    tree_open(&t);
    put(&t, "p/node_modules/left/package.json", "{\"name\":\"left\",\"version\":\"1.0.0\"}");
    put(&t, "p/node_modules/@s/right/package.json",
        "{\"name\":\"@s/right\",\"version\":\"2.0.0\"}");
    put(&t, "p/node_modules/broken/package.json", "{\"name\":");
    put(&t, "p/node_modules/.package-lock.json", "{}");
    put(&t, "p/src/deep/x.js", "");
    put(&t, "alone/package.json", "{}");
    snprintf(folder, sizeof(folder), "%s/p/src/deep", t.top);
    struct abx_packages_where w = {.folder = folder};
    assert_int_equal(abx_packages_npm(&w, &t.arena, &found), 0);
    assert_int_equal(found.count, 2);
    assert_package(&found, 0, "@s/right", "2.0.0");
    assert_package(&found, 1, "left", "1.0.0");
    snprintf(folder, sizeof(folder), "%s/alone", t.top);
    assert_int_equal(abx_packages_npm(&w, &t.arena, &found), 0);
    assert_int_equal(found.count, 0);
    tree_close(&t);
}
