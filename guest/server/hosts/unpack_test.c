/* guest/server/hosts/unpack_test.c: what was packed comes out again, anything else is an error. */
#include "guest/server/hosts/unpack.h"

#include "lib/base/fd.h"
#include "tests/unit/test.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "lib/base/banned.h"

enum { SIZE = 50000, HEAD = 4 };

struct packed {
    unsigned char raw[SIZE], bytes[SIZE];
    size_t len;
};

static void set_size(struct packed *p, uint32_t size)
{
    for (int i = 0; i < HEAD; i++)
        p->bytes[i] = (unsigned char)(size >> (8 * i));
}

static void make(struct packed *p)
{
    uLongf len = SIZE - HEAD;
    for (int i = 0; i < SIZE; i++)
        p->raw[i] = (unsigned char)(i % 251 * (i / 5000));
    assert_int_equal(compress2(p->bytes + HEAD, &len, p->raw, SIZE, 9), Z_OK);
    p->len = HEAD + len;
    set_size(p, SIZE);
}

/* The bytes written; -1: refused. */
static ssize_t unpack(const struct packed *p, size_t len, unsigned char *out)
{
    struct abx_error err = {0};
    ABX_AUTO_FD fd = memfd_create("unpack-test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    int r = abx__host_unpack(fd, p->bytes, len, &err);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    ssize_t n = abx_fd_read_all(fd, out, SIZE);
    assert_true(r == 0 || n == 0); /* all of it or nothing */
    return r == 0 ? n : -1;
}

TEST(what_was_packed_comes_out)
{
    static struct packed p;
    static unsigned char out[SIZE];
    make(&p);
    assert_true(p.len < SIZE / 2);
    assert_int_equal(unpack(&p, p.len, out), SIZE);
    assert_memory_equal(out, p.raw, SIZE);
}

TEST(anything_else_is_refused)
{
    static struct packed p;
    static unsigned char out[SIZE];
    static const uint32_t sizes[] = {0,         1, SIZE - 1, SIZE + 1, ABX_HOST_UNPACKED_MAX + 1,
                                     UINT32_MAX};
    make(&p);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        set_size(&p, sizes[i]);
        assert_int_equal(unpack(&p, p.len, out), -1);
    }
    set_size(&p, SIZE);
    for (size_t len = 0; len < p.len; len += len < 16 ? 1 : 97)
        assert_int_equal(unpack(&p, len, out), -1);
    assert_int_equal(unpack(&p, p.len - 1, out), -1);
    p.bytes[p.len / 2] ^= 0x10;
    assert_int_equal(unpack(&p, p.len, out), -1);
}
