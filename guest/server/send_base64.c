/* guest/server/send_base64.c: a file inside JSON, in pieces: nothing of it is held. */
#include "guest/server/send.h"

#include "lib/base/assert.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/banned.h"

enum {
    PIECE = 192 * 1024, /* a multiple of 3: base64 of pieces joins */
    HEAD_MAX = 1 << 20,
};

struct encoded {
    struct abx__source base;
    int fd;
    uint64_t offset, size;
    struct abx_buf head;
    char tail[48];
    char piece[PIECE];
};

static int pull(struct abx__source *source, struct abx_buf *out)
{
    struct encoded *e = ABX_CONTAINER_OF(source, struct encoded, base);
    uint64_t left = e->size - e->offset;
    size_t want = left < PIECE ? (size_t)left : (size_t)PIECE;
    ssize_t got = abx__read_at(e->fd, e->piece, want, e->offset);
    if (got != (ssize_t)want) /* it shrank: the length was said before */
        return got < 0 ? (int)got : -EIO;
    if (e->offset == 0)
        abx_buf_put_str(out, abx_buf_str(&e->head));
    abx_base64_encode(e->piece, want, true, out);
    e->offset += want;
    if (e->offset < e->size)
        return 1;
    abx_buf_put_c(out, e->tail);
    return 0;
}

static void encoded_free(struct abx__source *source)
{
    struct encoded *e = ABX_CONTAINER_OF(source, struct encoded, base);
    abx_fd_close(&e->fd);
    abx_buf_done(&e->head);
    free(e);
}

void abx__send_base64(struct abx__call *c, const struct abx__base64 *b)
{
    const struct abx_http_extra extra[] = {
        {"Content-Type", ABX_STR("application/json; charset=utf-8")}, {0}};
    struct encoded *e = calloc(1, sizeof(*e));
    if (e == NULL) {
        int fd = b->take_fd;
        abx_fd_close(&fd);
        abx__call_fail(c, 500, "MemoryError", "out of memory");
        return;
    }
    e->base = (struct abx__source){pull, encoded_free};
    e->fd = b->take_fd;
    e->size = b->size;
    abx_buf_init(&e->head, HEAD_MAX);
    abx_buf_put_str(&e->head, b->head);
    snprintf(e->tail, sizeof(e->tail), "\",\"bytes\":%llu}", (unsigned long long)b->size);
    uint64_t length = e->head.len + (b->size + 2) / 3 * 4 + strlen(e->tail);
    abx__send(c, 200, extra, (int64_t)length, &e->base);
}
