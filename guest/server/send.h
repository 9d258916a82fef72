/* guest/server/send.h: an answer that is made piece by piece on the pool, as fast as the client
 * takes it. */
#pragma once
#include "guest/server/server_priv.h"

enum { ABX__SEND_MAX = 8 * 1024 * 1024 }; /* of one piece; a good one is a few hundred KiB */

/* What makes the pieces. The maker embeds it. */
struct abx__source {
    /** Pool thread. Appends the next piece to @out (empty is fine): 1: more follow, 0: that was
     * all, -errno: the answer is broken off. */
    int (*pull)(struct abx__source *s, struct abx_buf *out);
    /** Loop thread, once, when no pull runs. */
    void (*free)(struct abx__source *s);
};
/** Begins the answer (@extra as in abx__call_answer_status(), X-Request-Id is added; @length as in
 * abx_http_begin()) and sends what @take_source makes; nothing of it for HEAD. */
void abx__send(struct abx__call *c, int status, const struct abx_http_extra *extra, int64_t length,
               struct abx__source *take_source);

/* A document whose one long member is a file as base64. */
struct abx__base64 {
    int take_fd; /* also when the call fails */
    uint64_t size;
    struct abx_str head; /* up to the opening quote; copied */
};
/** Answers 200 with head, base64 of the file, `","bytes":SIZE}`. */
void abx__send_base64(struct abx__call *c, const struct abx__base64 *b);

/** Reads @len bytes from @offset unless the file is shorter. Blocks. The count or -errno. */
ssize_t abx__read_at(int fd, char *to, size_t len, uint64_t offset);
