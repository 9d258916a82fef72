/* host/engine/lines.c: output of commands as lines, and the last of them. Pure. */
#include "host/engine/lines_priv.h"

#include <stdlib.h>

#include "lib/base/banned.h"

void abx__tail_add(struct abx__tail *t, struct abx_str line)
{
    free(t->lines[t->next]);
    t->lines[t->next] = abx_str_dup(abx_str_sub(line, 0, ABX__TAIL_LINE_MAX));
    t->next = (t->next + 1) % ABX__TAIL_LINES;
    t->count += t->count < ABX__TAIL_LINES ? 1 : 0;
}

void abx__tail_write(const struct abx__tail *t, struct abx_buf *out)
{
    for (size_t i = 0; i < t->count; i++) {
        size_t at = (t->next + ABX__TAIL_LINES - t->count + i) % ABX__TAIL_LINES;
        if (t->lines[at] == NULL)
            continue; /* memory was short */
        abx_buf_put_byte(out, '\n');
        abx_buf_put_c(out, t->lines[at]);
    }
}

void abx__tail_clear(struct abx__tail *t)
{
    for (size_t i = 0; i < ABX__TAIL_LINES; i++)
        free(t->lines[i]);
    *t = (struct abx__tail){0};
}

static void emit(struct abx__lines *l, abx__line_fn *fn, void *arg)
{
    struct abx_str line = abx_buf_str(&l->partial);
    if (abx_str_ends(line, "\r"))
        line.len--;
    fn(arg, line);
    abx_buf_clear(&l->partial);
}

void abx__lines_feed(struct abx__lines *l, struct abx_str text, abx__line_fn *fn, void *arg)
{
    if (l->partial.max == 0)
        abx_buf_init(&l->partial, ABX__LINE_MAX);
    while (text.len != 0) {
        ptrdiff_t at = abx_str_chr(text, '\n');
        size_t n = at < 0 ? text.len : (size_t)at;
        size_t room = ABX__LINE_MAX - l->partial.len;
        bool is_whole = at >= 0 && n <= room;
        n = n < room ? n : room;
        abx_buf_put(&l->partial, text.ptr, n);
        text = abx_str_sub(text, n + (is_whole ? 1 : 0), text.len);
        if (is_whole || l->partial.len == ABX__LINE_MAX || abx_buf_failed(&l->partial))
            emit(l, fn, arg);
    }
}

void abx__lines_end(struct abx__lines *l, abx__line_fn *fn, void *arg)
{
    if (l->partial.len != 0)
        emit(l, fn, arg);
}

void abx__lines_done(struct abx__lines *l)
{
    abx_buf_done(&l->partial);
}
