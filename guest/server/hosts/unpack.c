/* guest/server/hosts/unpack.c: inflating what the binary brings along, into no more than it says.
 */
#include "guest/server/hosts/unpack.h"

#include "lib/base/fd.h"

#include <stdint.h>
#include <stdlib.h>
#include <zlib.h>

#include "lib/base/banned.h"

enum { HEAD = 4 };

int abx__host_unpack(int fd, const void *packed, size_t len, struct abx_error *err)
{
    const unsigned char *p = packed;
    size_t size = 0;
    for (size_t i = 0; i < HEAD && len >= HEAD; i++)
        size |= (size_t)p[i] << (8 * i);
    if (size == 0 || size > ABX_HOST_UNPACKED_MAX)
        return abx_err_set(err, ABX_INTERNAL,
                           "program of a command host: of no size, or too large");
    unsigned char *raw = malloc(size);
    if (raw == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "program of a command host: no memory");
    uLongf got = (uLongf)size;
    int z = uncompress(raw, &got, p + HEAD, (uLong)(len - HEAD));
    int r = z == Z_OK && got == size ? abx_fd_write_all(fd, raw, size) : 0;
    free(raw);
    if (z != Z_OK || got != size)
        return abx_err_set(err, ABX_INTERNAL, "program of a command host: not as it was packed");
    return r < 0 ? abx_err_sys(err, r, "memfd") : 0;
}
