/* guest/caps/files_rig_priv.h: loop, temporary folder and file helpers for the file tests. */
#pragma once
#include "guest/caps/files.h"
#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { GUARD_MS = 20000 };

static struct abx_loop loop;
static char dir[64];
static char home[] = "/root", shell_path[] = "/bin/sh";
static struct abx_user self;

static inline void set_up(void)
{
    assert_int_equal(abx_loop_init(&loop, NULL), 0);
    snprintf(dir, sizeof(dir), "/tmp/abx-files-XXXXXX");
    assert_non_null(mkdtemp(dir));
    self = (struct abx_user){
        .name = "self", .uid = geteuid(), .gid = getegid(), .home = home, .shell = shell_path};
}

static inline void tear_down(void)
{
    abx_loop_run(&loop);
    abx_loop_done(&loop);
    assert_int_equal(abx_fd_remove_tree(AT_FDCWD, dir), 0);
}

/* A path below the folder of the test; one of four buffers in turn. */
static inline const char *at(const char *name)
{
    static char paths[4][ABX_FILES_PATH];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    snprintf(path, ABX_FILES_PATH, "%s/%s", dir, name);
    return path;
}

static inline void put(const char *name, const char *text)
{
    int fd = open(at(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(abx_fd_write_all(fd, text, strlen(text)), 0);
    close(fd);
}

static inline void make_dir(const char *name)
{
    assert_int_equal(mkdir(at(name), 0755), 0);
}

static inline void assert_content(const char *name, const char *want)
{
    char *text = NULL;
    assert_int_equal(abx_fd_read_file(AT_FDCWD, at(name), 1 << 20, &text, NULL), 0);
    assert_string_equal(text, want);
    free(text);
}

static inline bool is_there(const char *name)
{
    struct stat st;
    return lstat(at(name), &st) == 0;
}

/* Turns the loop until *done. */
static inline void run_until(const bool *done)
{
    int64_t until = abx_time_mono_ms() + GUARD_MS;
    while (!*done) {
        if (abx_time_mono_ms() > until)
            fail_msg("nothing happened within %d ms", GUARD_MS);
        uv_run(&loop.uv, UV_RUN_ONCE);
    }
}
