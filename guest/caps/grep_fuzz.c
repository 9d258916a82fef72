/* guest/caps/grep_fuzz.c: how to look, a pattern, a newline, a text: what is told are lines of the
 * text, each once, in order, with its number; a match lies in its line; of a literal none is
 * missed. */
#include "guest/caps/grep.h"
#include "lib/base/assert.h"

#include <string.h>

enum { IS_REGEX = 1, IGNORES_CASE = 2, CONTEXT_SHIFT = 2, INPUT_MAX = 8192 };

struct seen {
    const struct abx_grep_spec *spec;
    struct abx_str text, rest; /* rest: behind the line told last */
    uint64_t number;           /* of the first line of rest */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Takes one line off the front of @rest, without what ends it. */
static bool next_line(struct abx_str *rest, struct abx_str *ret)
{
    if (rest->len == 0)
        return false;
    abx_str_split(rest, '\n', ret);
    if (abx_str_ends(*ret, "\r"))
        ret->len--;
    return true;
}

static bool has_literal(const struct seen *s, struct abx_str line)
{
    return !s->spec->is_regex && !s->spec->ignores_case &&
           abx_str_find(line, s->spec->pattern) >= 0;
}

static bool is_at(struct abx_str a, struct abx_str b)
{
    return a.ptr == b.ptr && a.len == b.len;
}

/* The lines around are those of the text, with nothing left out. */
static void check_around(const struct seen *s, const struct abx_grep_line *l)
{
    struct abx_str rest = s->text, line = {0};
    uint64_t first = l->number - l->before_count;
    ABX_ASSERT(l->before_count <= s->spec->context && l->after_count <= s->spec->context);
    ABX_ASSERT(l->before_count == s->spec->context || first == 1);
    for (uint64_t n = 1; n <= l->number + l->after_count; n++) {
        ABX_ASSERT(next_line(&rest, &line));
        if (n >= first && n < l->number)
            ABX_ASSERT(is_at(line, l->before[n - first]));
        else if (n > l->number)
            ABX_ASSERT(is_at(line, l->after[n - l->number - 1]));
    }
    ABX_ASSERT(l->after_count == s->spec->context || rest.len == 0);
}

static bool check_line(void *ctx, const struct abx_grep_line *l)
{
    struct seen *s = ctx;
    struct abx_str line = {0};
    for (; s->number <= l->number; s->number++) {
        ABX_ASSERT(next_line(&s->rest, &line));
        ABX_ASSERT(s->number == l->number || !has_literal(s, line));
    }
    ABX_ASSERT(is_at(line, l->text));
    ABX_ASSERT(l->match.from <= l->match.to && l->match.to <= line.len);
    if (!s->spec->is_regex && !s->spec->ignores_case)
        ABX_ASSERT(abx_str_find(line, s->spec->pattern) == (ptrdiff_t)l->match.from);
    check_around(s, l);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct abx_arena a;
    struct abx_error err = {0};
    struct abx_grep *g;
    if (size < 1 || size > INPUT_MAX)
        return 0;
    struct abx_str pattern, text = abx_str_n((const char *)data + 1, size - 1), line;
    if (!abx_str_split(&text, '\n', &pattern) || pattern.len == 0)
        return 0;
    const struct abx_grep_spec spec = {.pattern = pattern,
                                       .is_regex = data[0] & IS_REGEX,
                                       .ignores_case = data[0] & IGNORES_CASE,
                                       .context =
                                           (data[0] >> CONTEXT_SHIFT) % (ABX_GREP_CONTEXT + 1)};
    struct seen s = {&spec, text, text, 1};
    abx_arena_init(&a, 16 << 20);
    if (abx_grep_new(&spec, &a, &g, &err) == 0) {
        ABX_ASSERT(abx_grep_text(g, text, NULL, check_line, &s) == 0);
        while (next_line(&s.rest, &line))
            ABX_ASSERT(!has_literal(&s, line));
    } else {
        ABX_ASSERT(err.code != ABX_OK);
    }
    abx_arena_done(&a);
    return 0;
}
