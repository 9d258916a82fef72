/* host/image/tar_fuzz.c: any bytes as an archive (S53): what comes out is clean and within limits.
 */
#include "host/image/unpack_priv.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/banned.h"

enum { INPUT_MAX = 256 * 1024 };

static void check(const struct abx__tar_entry *e)
{
    char again[ABX__TAR_PATH];
    ABX_ASSERT(abx__tar_clean(e->path, again, NULL) == 0 && strcmp(e->path, again) == 0);
    if (e->type == ABX__TAR_HARDLINK)
        ABX_ASSERT(abx__tar_clean(e->link, again, NULL) == 0 && strcmp(e->link, again) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct abx__tar *t;
    char chunk[4096];
    if (size < 1 || size > INPUT_MAX)
        return 0;
    ABX_AUTO_FD fd = memfd_create("tar", MFD_CLOEXEC);
    if (fd < 0 || abx_fd_write_all(fd, data + 1, size - 1) < 0 || lseek(fd, 0, SEEK_SET) < 0 ||
        abx__tar_open(fd, &t, NULL) < 0)
        return 0;
    struct abx__tar_entry *e = malloc(sizeof(*e));
    int more = e != NULL ? 1 : 0;
    while (more > 0 && (more = abx__tar_next(t, data[0] & 1, e, NULL)) > 0) {
        check(e);
        ssize_t n = 0;
        while ((data[0] & 2) && (n = abx__tar_data(t, chunk, sizeof(chunk), NULL)) > 0)
            ;
        more = n < 0 ? -1 : more;
    }
    struct abx_digest file, tar;
    if (more == 0)
        (void)abx__tar_finish(t, &file, &tar, NULL);
    free(e);
    abx__tar_close(t);
    return 0;
}
