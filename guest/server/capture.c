/* guest/server/capture.c: the newest output of a process, in numbered pieces (capture.h). Pure. */
#include "guest/server/capture.h"

#include "lib/base/banned.h"

enum { HEAD = 3 }; /* the length, low byte first; the stream */

void abx__capture_init(struct abx__capture *c, size_t max)
{
    *c = (struct abx__capture){.max = max};
    /* twice: what is dropped leaves the buffer when it is half of it */
    abx_buf_init(&c->records,
                 2 * (max + HEAD * (size_t)ABX__CAPTURE_EVENTS + HEAD + ABX__CAPTURE_PIECE));
}

void abx__capture_done(struct abx__capture *c)
{
    abx_buf_done(&c->records);
}

static size_t length_at(const struct abx__capture *c, size_t at)
{
    const unsigned char *head = (const unsigned char *)c->records.ptr + at;
    return (size_t)head[0] | (size_t)head[1] << 8;
}

static void drop_first(struct abx__capture *c)
{
    size_t len = length_at(c, c->start);
    c->start += HEAD + len;
    c->text_bytes -= len;
    c->count--;
    c->is_dropped = true;
    if (c->count == 0)
        abx_buf_clear(&c->records);
    else if (c->start > c->records.len / 2)
        abx_buf_consume(&c->records, c->start);
    else
        return;
    c->start = 0;
}

static void put_piece(struct abx__capture *c, unsigned stream, struct abx_str text)
{
    const char head[HEAD] = {(char)(text.len & 0xFF), (char)(text.len >> 8), (char)stream};
    c->next_seq++;
    abx_buf_put(&c->records, head, HEAD);
    abx_buf_put_str(&c->records, text);
    if (abx_buf_failed(&c->records)) {
        abx__capture_drop(c);
        return;
    }
    c->count++;
    c->text_bytes += text.len;
    while (c->count && (c->text_bytes > c->max || c->count > ABX__CAPTURE_EVENTS))
        drop_first(c);
}

/* At most a piece, cut between characters. */
static size_t piece_of(struct abx_str text)
{
    if (text.len <= ABX__CAPTURE_PIECE)
        return text.len;
    size_t whole = abx__text_whole(abx_str_sub(text, 0, ABX__CAPTURE_PIECE));
    return whole ? whole : ABX__CAPTURE_PIECE;
}

static void put_text(struct abx__capture *c, unsigned stream, struct abx_str text)
{
    while (text.len) {
        size_t n = piece_of(text);
        put_piece(c, stream, abx_str_sub(text, 0, n));
        text = abx_str_sub(text, n, text.len);
    }
}

void abx__capture_put(struct abx__capture *c, unsigned stream, struct abx_str data)
{
    struct abx_buf whole;
    abx_buf_init(&whole, data.len + sizeof(c->rest[stream].bytes));
    abx__text_feed(&c->rest[stream], data, &whole);
    if (abx_buf_failed(&whole)) {
        abx__capture_drop(c);
        c->is_dropped = true;
    } else {
        put_text(c, stream, abx_buf_str(&whole));
    }
    abx_buf_done(&whole);
}

void abx__capture_end(struct abx__capture *c)
{
    for (unsigned i = 0; i < ABX__CAPTURE_STREAMS; i++) {
        put_text(c, i, abx_str_n(c->rest[i].bytes, c->rest[i].len));
        c->rest[i].len = 0;
    }
}

void abx__capture_drop(struct abx__capture *c)
{
    abx_buf_done(&c->records);
    c->is_dropped = c->is_dropped || c->next_seq > 0;
    c->start = c->count = c->text_bytes = 0;
}

void abx__capture_seek(const struct abx__capture *c, uint64_t since,
                       struct abx__capture_cursor *cur)
{
    cur->at = c->start;
    cur->seq = c->next_seq - c->count;
    while (cur->seq < since && cur->seq < c->next_seq) {
        cur->at += HEAD + length_at(c, cur->at);
        cur->seq++;
    }
}

bool abx__capture_next(const struct abx__capture *c, struct abx__capture_cursor *cur,
                       struct abx__capture_event *ret)
{
    if (cur->seq >= c->next_seq)
        return false;
    size_t len = length_at(c, cur->at);
    *ret = (struct abx__capture_event){.seq = cur->seq,
                                       .stream = (unsigned char)c->records.ptr[cur->at + 2],
                                       .data = abx_str_n(c->records.ptr + cur->at + HEAD, len)};
    cur->at += HEAD + len;
    cur->seq++;
    return true;
}
