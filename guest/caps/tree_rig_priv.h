/* guest/caps/tree_rig_priv.h: a folder of its own for the tests of copies and moves. */
#pragma once
#include "guest/caps/tree.h"
#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "tests/unit/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char root[64];

static inline void rig_open(void)
{
    snprintf(root, sizeof(root), "/tmp/abx-tree-XXXXXX");
    assert_non_null(mkdtemp(root));
}

static inline void rig_close(void)
{
    assert_int_equal(abx_fd_remove_tree(AT_FDCWD, root), 0);
}

static inline struct abx_str path(const char *name)
{
    static char slots[8][512];
    static unsigned next;
    char *slot = slots[next++ % 8];
    snprintf(slot, sizeof(slots[0]), "%s/%s", root, name);
    return abx_str(slot);
}

static inline void make_file(const char *name, const char *text)
{
    ABX_AUTO_FD fd = open(path(name).ptr, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(abx_fd_write_all(fd, text, strlen(text)), 0);
}

static inline void expect_file(const char *name, const char *text)
{
    char *got = NULL;
    size_t len;
    assert_true(abx_fd_read_file(AT_FDCWD, path(name).ptr, 65536, &got, &len) >= 0);
    assert_string_equal(got, text);
    free(got);
}
