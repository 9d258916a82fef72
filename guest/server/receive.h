/* guest/server/receive.h: a body that is no JSON, used on the pool as it comes, at the speed of the
 * disk: the client is slowed down, nothing piles up. */
#pragma once
#include "guest/server/server_priv.h"

/* All on the pool, one at a time; false: the job's outcome is set. */
struct abx__receive_ops {
    bool (*open)(struct abx__job *j); /* judges, and begins */
    bool (*feed)(struct abx__job *j, struct abx_str piece);
    bool (*close)(struct abx__job *j); /* all has come: completes, and writes job->out */
    void (*undo)(
        struct abx__job *j); /* close() did not come, or failed; also after a failed open() */
};
struct abx__receive_spec {
    const struct abx__receive_ops *ops;
    const void *data; /* copied */
    size_t data_size;
    /** Loop thread: copies into job->arena what data's pointers lead to, for the job may outlive
     * the call. May be NULL. */
    void (*prepare)(struct abx__job *j);
    uint64_t limit; /* bytes of the body; beyond: 413 */
};
void abx__receive(struct abx__call *c, const struct abx__receive_spec *spec);
/** The copy of spec->data. */
void *abx__receive_data(struct abx__job *j);
