/* cli/tar.h: a writer of tar.gz (POSIX.1-2001 pax), the same bytes for the same entries. */
#pragma once
#include "lib/base/str.h"

#include <stdint.h>

struct cli_tar;
struct cli_tar_entry {
    struct abx_str name; /* relative */
    uint32_t mode;       /* permission bits */
    char type;           /* '0' file, '2' link, '5' folder */
    uint64_t size;       /* of a file */
    struct abx_str link; /* of a link */
};
/** Writes to @fd (kept by the caller). NULL without memory. */
struct cli_tar *cli_tar_new(int fd);
/** The header of an entry; a file's content follows by cli_tar_data(). 0 or -errno, sticky. */
int cli_tar_entry(struct cli_tar *t, const struct cli_tar_entry *e);
int cli_tar_data(struct cli_tar *t, const void *data, size_t len);
/** Fills the last block of a file. */
int cli_tar_pad(struct cli_tar *t, uint64_t size);
/** The end of the archive; 0 or the first error. Frees @t. */
int cli_tar_end(struct cli_tar *t);
