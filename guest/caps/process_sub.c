/* guest/caps/process_sub.c: subscriptions: each reads the journal at its own pace. */
#include "guest/caps/process_priv.h"

#include "lib/base/assert.h"

#include <stdlib.h>

#include "lib/base/banned.h"

enum { TURN_BYTES = 512 * 1024 }; /* to one subscriber in one turn of the loop */

struct abx_process_sub {
    struct abx_list node;
    struct abx_process *process;
    const struct abx_process_sub_ops *ops;
    void *owner;
    struct abx_journal_cursor cursor;
    uint64_t limit; /* the offset of its end, UINT64_MAX while there is none */
    struct abx_defer kick;
    bool is_paused, is_busy, is_dead, has_ended;
};

static void sub_free(struct abx_process_sub *s)
{
    struct abx_process *p = s->process;
    free(s);
    abx_process_unref(p);
}

/* Nobody listens any more: the journal gives back its memory. Not under a reader's hands. */
static void hush(struct abx_process *p)
{
    if (p->delivering > 0 || !abx_list_empty(&p->subs))
        return;
    abx_journal_set_heard(&p->journal, false);
    if (p->discards)
        abx_journal_forget(&p->journal);
}

/* False: nothing more to give now. */
static bool give_one(struct abx_process_sub *s, size_t *given)
{
    struct abx_process *p = s->process;
    struct abx_journal_chunk c;
    if (s->cursor.offset >= s->limit && p->state == ABX__ENDED) {
        s->has_ended = true;
        s->ops->on_end(s, &p->end);
        return false;
    }
    switch (abx_journal_peek(&p->journal, &s->cursor, p->table->scratch, &c)) {
    case ABX_JOURNAL_EMPTY:
        return false;
    case ABX_JOURNAL_GAP:
        if (s->ops->on_gap)
            s->ops->on_gap(s, c.offset, c.lost);
        return true;
    case ABX_JOURNAL_DATA:
        break;
    }
    abx_journal_advance(&s->cursor, c.data.len);
    *given += c.data.len;
    s->is_paused = !s->ops->on_data(s, (enum abx_output)c.kind, c.offset, c.data);
    return true;
}

static void on_kick(struct abx_defer *d)
{
    struct abx_process_sub *s = d->owner;
    struct abx_process *p = abx_process_ref(s->process);
    size_t given = 0;
    s->is_busy = true;
    p->delivering++;
    while (!s->is_dead && !s->is_paused && !s->has_ended && given < TURN_BYTES)
        if (!give_one(s, &given))
            break;
    s->is_busy = false;
    p->delivering--;
    if (s->is_dead)
        sub_free(s);
    else if (given >= TURN_BYTES && !s->is_paused)
        abx_defer_start(&s->kick, p->table->loop, on_kick, s);
    hush(p);
    abx__process_update_reading(p);
    abx_process_unref(p);
}

static void kick(struct abx_process_sub *s)
{
    if (!s->is_paused && !s->is_dead && !s->has_ended && !s->process->table->closing)
        abx_defer_start(&s->kick, s->process->table->loop, on_kick, s);
}

void abx__process_kick_subs(struct abx_process *p)
{
    struct abx_process_sub *s;
    abx_list_foreach(s, &p->subs, struct abx_process_sub, node)
    {
        kick(s);
    }
}

bool abx__process_lags(const struct abx_process *p, uint64_t bytes)
{
    struct abx_process_sub *s;
    abx_list_foreach(s, &p->subs, struct abx_process_sub, node)
    {
        uint64_t to = p->journal.end_offset < s->limit ? p->journal.end_offset : s->limit;
        if (!s->has_ended && to > s->cursor.offset && to - s->cursor.offset >= bytes)
            return true;
    }
    return false;
}

void abx__process_limit_subs(struct abx_process *p)
{
    struct abx_process_sub *s;
    abx_list_foreach(s, &p->subs, struct abx_process_sub, node)
    {
        s->limit = p->end_offset;
    }
}

int abx_process_subscribe(struct abx_process *p, uint64_t from,
                          const struct abx_process_sub_ops *ops, void *owner,
                          struct abx_process_sub **ret, struct abx_error *err)
{
    struct abx_process_sub *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "subscribe: out of memory");
    s->process = abx_process_ref(p);
    s->ops = ops;
    s->owner = owner;
    abx_journal_seek(&p->journal, from, &s->cursor);
    s->limit = p->state == ABX__ENDED ? p->journal.end_offset : UINT64_MAX;
    abx_list_push(&p->subs, &s->node);
    abx_journal_set_heard(&p->journal, true);
    abx__procs_unthrottle(p);
    abx__process_update_reading(p);
    kick(s);
    *ret = s;
    return 0;
}

void abx_process_unsubscribe(struct abx_process_sub *s)
{
    if (s == NULL || s->is_dead)
        return;
    struct abx_process *p = abx_process_ref(s->process);
    s->is_dead = true;
    abx_list_remove(&s->node);
    abx_defer_cancel(&s->kick);
    if (!s->is_busy)
        sub_free(s);
    hush(p);
    abx__process_update_reading(p);
    abx_process_unref(p);
}

void abx_process_resume(struct abx_process_sub *s)
{
    s->is_paused = false;
    kick(s);
}

void *abx_process_sub_owner(const struct abx_process_sub *s)
{
    return s->owner;
}

struct abx_process *abx_process_sub_process(const struct abx_process_sub *s)
{
    return s->process;
}
