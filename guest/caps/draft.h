/* guest/caps/draft.h: a file that is written beside the one it will replace, in pieces; nobody sees
 * it before it is complete. A part is a draft that stays when its writer goes, to be gone on with.
 *
 * All of it blocks: pool threads. System leaf: >= 0 or -errno. */
#pragma once
#include "guest/caps/tree.h"

#include <limits.h>
#include <stdatomic.h>

enum { ABX_DRAFT_NAME = 40, ABX_DRAFT_HEX = 24 };
#define ABX_DRAFT_PREFIX ".abx-part-" /* then ABX_DRAFT_HEX digits: a part */

struct abx_draft {
    int dir_fd, fd;
    char name[NAME_MAX + 1], beside[ABX_DRAFT_NAME];
    bool is_part, must_be_new, sets_mode, replaces_links, has_old;
    mode_t new_mode;
    struct stat old; /* of the file that is there already */
    uint64_t size;   /* written so far */
};
struct abx_draft_spec {
    struct abx_str path; /* its folder is there */
    bool must_be_new;    /* else -EEXIST, at the latest when it is committed */
    mode_t new_mode;     /* of a file that was not there, */
    bool sets_mode;      /* or of any */
    bool replaces_links; /* a link that is there gives way; else -ELOOP */
    bool is_part;
    uint64_t from;        /* of a part: where its next bytes belong; 0 begins anew */
    struct abx_str owner; /* of a part: another one's is another part */
};
/** -EISDIR, -EINVAL (neither file nor folder), -ELOOP: as abx_tree_put(). -EBUSY: somebody else
 * writes this part. -ERANGE: the part has d->size bytes, not `from`. abx_draft_drop() in any case.
 */
int abx_draft_open(struct abx_draft *d, const struct abx_draft_spec *spec);
int abx_draft_write(struct abx_draft *d, struct abx_str piece);
/** Puts it in the place of the file, whose mode (less set-id bits) and owner it takes; a file of
 * several names is overwritten instead, unless sets_mode. -ESTALE: the file is not d->old any more.
 * The new file's state goes to *ret. */
int abx_draft_commit(struct abx_draft *d, struct stat *ret);
/** Removes what was not committed, but for a part, and closes. Accepts a zeroed one. */
void abx_draft_drop(struct abx_draft *d);

struct abx_draft_expiry {
    int64_t before_s; /* seconds since 1970: parts written to last before it go */
    uint32_t depth;
    size_t entries_max;  /* looked at */
    atomic_bool *cancel; /* set by another thread: enough */
};
/** Removes old parts beneath @root that nobody writes, and nothing else. 1: it ended at
 * entries_max. *ret_removed also on failure. */
int abx_draft_expire(struct abx_str root, const struct abx_draft_expiry *spec, size_t *ret_removed);
