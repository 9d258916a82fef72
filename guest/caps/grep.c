/* guest/caps/grep.c: line by line; a literal is looked for in the whole text at once. */
#include "guest/caps/grep.h"

#include "lib/base/buf.h"

#include <string.h>

#include "lib/base/banned.h"

enum { HEAD = 8192 };

struct abx_grep {
    struct abx_grep_spec spec;
    struct abx_regex_run *run; /* NULL: a literal */
};

static void put_escaped(struct abx_buf *out, struct abx_str literal)
{
    for (size_t i = 0; i < literal.len; i++) {
        if (literal.ptr[i] && strchr("\\.[](){}*+?|^$", literal.ptr[i]))
            abx_buf_put_byte(out, '\\');
        abx_buf_put_byte(out, literal.ptr[i]);
    }
}

int abx_grep_new(const struct abx_grep_spec *spec, struct abx_arena *a, struct abx_grep **ret,
                 struct abx_error *err)
{
    struct abx_regex *re;
    struct abx_grep *g = abx_arena_alloc(a, sizeof(*g));
    ABX_AUTO_BUF text;
    abx_buf_init(&text, 2 * ABX_REGEX_PATTERN + 1);
    if (g == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
    if (abx_str_chr(spec->pattern, '\n') >= 0)
        return abx_err_set(err, ABX_INVALID_ARGUMENT,
                           "a pattern is about one line: it has no newline");
    g->spec = *spec;
    *ret = g;
    if (!spec->is_regex && !spec->ignores_case)
        return 0;
    if (spec->is_regex)
        abx_buf_put_str(&text, spec->pattern);
    else
        put_escaped(&text, spec->pattern);
    if (abx_buf_failed(&text))
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "the pattern is longer than %d bytes",
                           (int)ABX_REGEX_PATTERN);
    if (abx_regex_compile(abx_buf_str(&text), spec->ignores_case, a, &re, err) < 0)
        return -1;
    g->run = abx_regex_run_new(re, a);
    return g->run ? 0 : abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "out of memory");
}

bool abx_grep_is_binary(struct abx_str head)
{
    return head.len && memchr(head.ptr, '\0', head.len < HEAD ? head.len : HEAD) != NULL;
}

/* ---- lines ---- */

static size_t line_begin(struct abx_str text, size_t at)
{
    while (at > 0 && text.ptr[at - 1] != '\n')
        at--;
    return at;
}

static size_t line_end(struct abx_str text, size_t at)
{
    const char *nl = at < text.len ? memchr(text.ptr + at, '\n', text.len - at) : NULL;
    return nl ? (size_t)(nl - text.ptr) : text.len;
}

static struct abx_str line_at(struct abx_str text, size_t begin, size_t end)
{
    if (end > begin && text.ptr[end - 1] == '\r')
        end--;
    return abx_str_sub(text, begin, end - begin);
}

static void add_before(const struct abx_grep *g, struct abx_str text, size_t begin,
                       struct abx_grep_line *l)
{
    size_t starts[ABX_GREP_CONTEXT], n = 0, at = begin;
    while (n < g->spec.context && at > 0) {
        at = line_begin(text, at - 1);
        starts[n++] = at;
    }
    l->before_count = n;
    for (size_t i = 0; i < n; i++)
        l->before[i] = line_at(text, starts[n - 1 - i], line_end(text, starts[n - 1 - i]));
}

static void add_after(const struct abx_grep *g, struct abx_str text, size_t end,
                      struct abx_grep_line *l)
{
    l->after_count = 0;
    while (l->after_count < g->spec.context && end + 1 < text.len) {
        size_t begin = end + 1;
        end = line_end(text, begin);
        l->after[l->after_count++] = line_at(text, begin, end);
    }
}

/* ---- searching ---- */

struct cursor {
    struct abx_str text;
    size_t at; /* of the line to come */
    uint64_t number;
    struct abx_grep_line line;
};

static void count_lines(struct cursor *c, size_t until)
{
    const char *nl, *p = c->text.ptr + c->at, *end = c->text.ptr + until;
    for (; p < end && (nl = memchr(p, '\n', (size_t)(end - p))) != NULL; p = nl + 1)
        c->number++;
    c->at = until;
}

/* The next line that matches: 1, 0, -1. Its bounds go to *begin and *end. */
static int next_literal(const struct abx_grep *g, struct cursor *c, size_t *begin, size_t *end)
{
    size_t len = g->spec.pattern.len, from = c->at;
    ptrdiff_t found;
    while (from < c->text.len &&
           (found = abx_str_find(abx_str_sub(c->text, from, c->text.len), g->spec.pattern)) >= 0) {
        size_t at = from + (size_t)found;
        *begin = line_begin(c->text, at);
        *end = line_end(c->text, at);
        from = at + 1;
        if (at + len > *begin + line_at(c->text, *begin, *end).len)
            continue; /* it takes in a carriage return that ends the line */
        count_lines(c, *begin);
        c->line.match = (struct abx_regex_match){at - *begin, at - *begin + len};
        return 1;
    }
    return 0;
}

static int next_regex(const struct abx_grep *g, struct cursor *c,
                      const struct abx_regex_patience *patience, size_t *begin, size_t *end)
{
    for (; c->at < c->text.len; c->at = *end + 1, c->number++) {
        *begin = c->at;
        *end = line_end(c->text, c->at);
        struct abx_str line = abx_str_sub(line_at(c->text, *begin, *end), 0, ABX_GREP_LINE);
        int rc = abx_regex_search(g->run, line, patience, &c->line.match);
        if (rc != 0)
            return rc;
    }
    return 0;
}

int abx_grep_text(const struct abx_grep *g, struct abx_str text,
                  const struct abx_regex_patience *patience, abx_grep_fn *fn, void *ctx)
{
    struct cursor c = {.text = text, .number = 1};
    size_t begin = 0, end = 0;
    int rc;
    while (c.at < text.len && (rc = g->run ? next_regex(g, &c, patience, &begin, &end)
                                           : next_literal(g, &c, &begin, &end)) != 0) {
        if (rc < 0 || (patience && !patience->goes_on(patience->ctx)))
            return -1;
        c.line.number = c.number;
        c.line.text = line_at(text, begin, end);
        add_before(g, text, begin, &c.line);
        add_after(g, text, end, &c.line);
        if (!fn(ctx, &c.line))
            return 0;
        c.at = end + 1;
        c.number++;
    }
    return 0;
}
