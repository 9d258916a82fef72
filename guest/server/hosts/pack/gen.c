/* guest/server/hosts/pack/gen.c: build tool: FILE deflated, as unpack.h expects it, to OUT. */
#include "lib/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "lib/base/banned.h"

enum { FILE_MAX = 1 << 20, HEAD = 4 };

static int pack(const char *from, const char *to)
{
    uLongf size = compressBound(FILE_MAX);
    unsigned char *in = malloc(FILE_MAX), *out = malloc(HEAD + size);
    ABX_AUTO_FD in_fd = open(from, O_RDONLY | O_CLOEXEC);
    ABX_AUTO_FD out_fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    int result = -EIO;
    ssize_t n = in && in_fd >= 0 ? abx_fd_read_all(in_fd, in, FILE_MAX) : -1;
    if (n > 0 && n < FILE_MAX && out && out_fd >= 0 &&
        compress2(out + HEAD, &size, in, (uLong)n, Z_BEST_COMPRESSION) == Z_OK) {
        for (int i = 0; i < HEAD; i++)
            out[i] = (unsigned char)((size_t)n >> (8 * i));
        result = abx_fd_write_all(out_fd, out, HEAD + size);
    }
    free(in);
    free(out);
    return result;
}

int main(int argc, char **argv)
{
    if (argc == 3 && pack(argv[1], argv[2]) == 0)
        return 0;
    fprintf(stderr, "usage: %s FILE OUT; FILE has 1 to 1048575 bytes\n", argv[0]);
    return 1;
}
