/* guest/server/audit_file.h: the audit in a file of its own: appended to, rotated by size.
 * policy.md C4, security S25. Loop thread. */
#pragma once
#include "lib/base/err.h"
#include "lib/base/str.h"

#include <stdint.h>

struct abx__audit_file; /* opaque */
struct abx__audit_file_spec {
    struct abx_str path;
    uint64_t max_bytes; /* then it becomes PATH.1, that PATH.2, up to `keep` */
    uint64_t keep;
};
/** A regular file of mode 0600, never a link. FAILED_PRECONDITION: it is something else. */
int abx__audit_file_open(const struct abx__audit_file_spec *spec, struct abx__audit_file **ret,
                         struct abx_error *err);
/** One line with its end. False: it is lost (a full disk, say); the next one is tried again. */
bool abx__audit_file_write(struct abx__audit_file *f, struct abx_str line);
/** Another program has moved the file away: goes on in a new one. False: in the old one. */
bool abx__audit_file_reopen(struct abx__audit_file *f);
void abx__audit_file_close(struct abx__audit_file *f);
