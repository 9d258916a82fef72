/* lib/base/fd_test.c: descriptors of a program's start. */
#include "lib/base/fd.h"
#include "tests/unit/test.h"

#include <fcntl.h>
#include <unistd.h>

#include "lib/base/banned.h"

/* A program that was started without stdin and stderr: no socket of it may get their numbers. */
TEST(closed_standard_descriptors_are_filled)
{
    int saved[3];
    for (int fd = 0; fd < 3; fd++) {
        saved[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 10);
        assert_true(saved[fd] >= 10);
    }
    close(STDIN_FILENO);
    close(STDERR_FILENO);
    int result = abx_fd_open_standard(), again = abx_fd_open_standard();
    int in = fcntl(STDIN_FILENO, F_GETFD), err = fcntl(STDERR_FILENO, F_GETFD);
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (int fd = 0; fd < 3; fd++) {
        dup2(saved[fd], fd);
        close(saved[fd]);
    }
    close(next);
    assert_int_equal(result, 0);
    assert_int_equal(again, 0);
    assert_int_equal(in, 0); /* kept over exec */
    assert_int_equal(err, 0);
    assert_true(next > STDERR_FILENO);
}
