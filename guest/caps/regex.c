/* guest/caps/regex.c: the search: all states at once, each with where its match began. */
#include "guest/caps/regex_priv.h"

#include "lib/base/assert.h"

#include "lib/base/banned.h"

enum { NOWHERE = -1, STEPS_A_TURN = 4000000 };

/* States in order of coming; `mark` says in which round one was added. */
struct list {
    uint32_t *states;
    size_t *from; /* by state: where its match began */
    uint64_t *mark;
    uint32_t count;
};
struct abx_regex_run {
    const struct abx_regex *re;
    struct list now, next;
    uint32_t *stack; /* of the walk through steps that take nothing */
    uint64_t round;
};

static bool list_init(struct list *l, uint32_t count, struct abx_arena *a)
{
    l->states = abx_arena_array(a, count, sizeof(*l->states));
    l->from = abx_arena_array(a, count, sizeof(*l->from));
    l->mark = abx_arena_array(a, count, sizeof(*l->mark));
    return l->states && l->from && l->mark;
}

struct abx_regex_run *abx_regex_run_new(const struct abx_regex *r, struct abx_arena *a)
{
    struct abx_regex_run *run = abx_arena_alloc(a, sizeof(*run));
    if (run == NULL)
        return NULL;
    run->re = r;
    run->stack = abx_arena_array(a, 2 * (size_t)r->count + 2, sizeof(*run->stack));
    bool is_good =
        run->stack && list_init(&run->now, r->count, a) && list_init(&run->next, r->count, a);
    return is_good ? run : NULL;
}

static bool is_word(struct abx_str text, size_t at)
{
    if (at >= text.len)
        return false;
    char c = text.ptr[at];
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool holds(enum abx__regex_assert what, struct abx_str text, size_t at)
{
    bool is_edge = (at > 0 && is_word(text, at - 1)) != is_word(text, at);
    switch (what) {
    case ABX__RE_BEGIN:
        return at == 0;
    case ABX__RE_END:
        return at == text.len;
    case ABX__RE_WORD:
        return is_edge;
    case ABX__RE_NO_WORD:
        return !is_edge;
    }
    return false;
}

/* Adds @state and what can be reached from it without a byte. The earliest beginning comes first,
 * so a state that is there already has the better one. The count of steps looked at. */
static uint64_t add(struct abx_regex_run *run, struct list *l, uint32_t state, size_t from,
                    struct abx_str text, size_t at)
{
    uint64_t looked = 0;
    size_t depth = 0;
    run->stack[depth++] = state;
    while (depth > 0) {
        uint32_t s = run->stack[--depth];
        const struct abx__regex_step *step = &run->re->steps[s];
        looked++;
        if (l->mark[s] == run->round)
            continue;
        l->mark[s] = run->round;
        l->from[s] = from;
        if (step->op == ABX__RE_JUMP) {
            run->stack[depth++] = step->x;
        } else if (step->op == ABX__RE_SPLIT) {
            run->stack[depth++] = step->y;
            run->stack[depth++] = step->x;
        } else if (step->op == ABX__RE_ASSERT) {
            if (holds((enum abx__regex_assert)step->y, text, at))
                run->stack[depth++] = step->x;
        } else {
            l->states[l->count++] = s;
        }
    }
    return looked;
}

/* The next place where a match may begin. */
static size_t skip(const struct abx_regex *re, struct abx_str text, size_t at)
{
    while (re->has_first && at < text.len &&
           !abx__regex_has(&re->first, (unsigned char)text.ptr[at]))
        at++;
    return at;
}

struct best {
    ptrdiff_t from;
    size_t to;
};

/* Takes the byte at @at: the states of `now` become those of `next`. */
static uint64_t take(struct abx_regex_run *run, struct abx_str text, size_t at, struct best *best)
{
    uint64_t looked = 0;
    run->next.count = 0;
    run->round++;
    for (uint32_t i = 0; i < run->now.count; i++) {
        uint32_t s = run->now.states[i];
        const struct abx__regex_step *step = &run->re->steps[s];
        size_t from = run->now.from[s];
        looked++;
        if (best->from != NOWHERE && from > (size_t)best->from)
            continue; /* a match that began earlier is there */
        if (step->op == ABX__RE_MATCH)
            *best = (struct best){(ptrdiff_t)from, at};
        else if (at < text.len && abx__regex_has(&step->set, (unsigned char)text.ptr[at]))
            looked += add(run, &run->next, step->x, from, text, at + 1);
    }
    return looked;
}

static void swap(struct abx_regex_run *run)
{
    struct list l = run->now;
    run->now = run->next;
    run->next = l;
}

int abx_regex_search(struct abx_regex_run *run, struct abx_str text,
                     const struct abx_regex_patience *patience, struct abx_regex_match *ret)
{
    struct best best = {NOWHERE, 0};
    uint64_t looked = 0;
    run->now.count = 0;
    run->round++;
    for (size_t at = 0;; at++) {
        if (best.from == NOWHERE && run->now.count == 0)
            at = skip(run->re, text, at);
        if (best.from == NOWHERE) /* its mark is of the round that made `now` */
            looked += add(run, &run->now, 0, at, text, at);
        looked += take(run, text, at, &best);
        if (looked > STEPS_A_TURN) {
            looked = 0;
            if (patience && !patience->goes_on(patience->ctx))
                return -1;
        }
        swap(run);
        if (at >= text.len || (best.from != NOWHERE && run->now.count == 0))
            break;
    }
    if (best.from == NOWHERE)
        return 0;
    *ret = (struct abx_regex_match){(size_t)best.from, best.to};
    return 1;
}
