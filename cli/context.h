/* cli/context.h: what one COPY reads, as a tar.gz and its hash (control-plane.md 8.4). */
#pragma once
#include "cli/ignore.h"
#include "lib/base/err.h"

#include <stdint.h>

enum {
    CLI_CONTEXT_FILES_MAX = 100000,
    CLI_CONTEXT_DEPTH_MAX = 64,
};
#define CLI_CONTEXT_BYTES_MAX (8ULL << 30)

struct cli_pack {
    int fd; /* a file without a name, at its start; the caller closes it */
    char hash[65];
    size_t files;
    uint64_t bytes; /* of the files' content */
};
/** Packs what @src (a path or pattern, relative to @dir_fd) names, without what @ignore leaves out;
 *  the same files give the same bytes. Errors: NOT_FOUND, INVALID_ARGUMENT (outside of the context,
 *  no regular file, folder or link), RESOURCE_EXHAUSTED. */
int cli_context_pack(int dir_fd, struct abx_str src, struct abx_str dest,
                     const struct cli_ignore *ignore, struct cli_pack *ret, struct abx_error *err);
