/* host/image/dockerfile_words.c: quotes, escapes and variables of a word. */
#include "host/image/dockerfile.h"
#include "host/image/dockerfile_priv.h"
#include "lib/base/fd.h"

#include "lib/base/banned.h"

enum { VALUE_MAX = 128 * 1024 };

int abx__df_bind(struct abx__df_scope *s, const struct abx__df_binding *b)
{
    if (s->count >= s->cap)
        return -1;
    s->items[s->count++] = *b;
    return 0;
}

const struct abx__df_binding *abx__df_find(const struct abx__df_scope *s, struct abx_str name)
{
    for (size_t i = s->count; i > 0; i--)
        if (abx_str_eq(s->items[i - 1].name, name))
            return &s->items[i - 1];
    return NULL;
}

size_t abx__df_name_length(struct abx_str s)
{
    size_t n = 0;
    while (n < s.len &&
           (s.ptr[n] == '_' || (s.ptr[n] >= 'a' && s.ptr[n] <= 'z') ||
            (s.ptr[n] >= 'A' && s.ptr[n] <= 'Z') || (n > 0 && s.ptr[n] >= '0' && s.ptr[n] <= '9')))
        n++;
    return n;
}

void abx__df_quote(struct abx_buf *b, struct abx_str word)
{
    abx_buf_put_byte(b, '\'');
    for (size_t i = 0; i < word.len; i++)
        if (word.ptr[i] == '\'')
            abx_buf_put_c(b, "'\\''");
        else
            abx_buf_put_byte(b, word.ptr[i]);
    abx_buf_put_byte(b, '\'');
}

struct expansion {
    const struct abx__df_scope *scope;
    const struct abx_df_word *word;
    enum abx__df_unknown unknown;
    struct abx_buf *out;
    struct abx_df_fault *fault;
    unsigned depth; /* of defaults in defaults */
};
static int expand_text(struct expansion *x, struct abx_str s);

static int fail_variable(struct expansion *x, struct abx_str name)
{
    return abx__df_fail(x->fault, x->word->at,
                        "variable %.*s is set by no ARG or ENV here (those of the base image are "
                        "known to RUN and ENV only)",
                        ABX_STR_FMT(abx_str_sub(name, 0, 60)));
}

/* $NAME or ${NAME} */
static int put_value(struct expansion *x, struct abx_str name)
{
    const struct abx__df_binding *b = abx__df_find(x->scope, name);
    if (b != NULL)
        abx_buf_put_str(x->out, b->is_set ? b->value : ABX_STR(""));
    else if (x->unknown == ABX__DF_UNKNOWN_KEPT)
        abx_buf_putf(x->out, "${%.*s}", ABX_STR_FMT(name));
    else
        return fail_variable(x, name);
    return 0;
}

/* Index of the brace that closes the one before @s; -1: none. */
static ptrdiff_t closing_brace(const struct expansion *x, struct abx_str s)
{
    unsigned open = 1;
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] == x->scope->escape)
            i++;
        else if (s.ptr[i] == '{' && i > 0 && s.ptr[i - 1] == '$')
            open++;
        else if (s.ptr[i] == '}' && --open == 0)
            return (ptrdiff_t)i;
    }
    return -1;
}

/* What stands in ${...}: NAME, NAME:-word, NAME-word, NAME:+word, NAME+word. */
static int put_braced(struct expansion *x, struct abx_str inner)
{
    struct abx_str name = abx_str_sub(inner, 0, abx__df_name_length(inner));
    struct abx_str rest = abx_str_sub(inner, name.len, SIZE_MAX);
    if (name.len == 0)
        return abx__df_fail(x->fault, x->word->at, "${%.*s}: no variable name",
                            ABX_STR_FMT(abx_str_sub(inner, 0, 60)));
    if (rest.len == 0)
        return put_value(x, name);
    bool colon = rest.ptr[0] == ':';
    char op = rest.len > (size_t)colon ? rest.ptr[colon] : '\0';
    const struct abx__df_binding *b = abx__df_find(x->scope, name);
    if (op != '-' && op != '+')
        return abx__df_fail(x->fault, x->word->at,
                            "${%.*s}: only :-, -, :+ and + are supported after a name",
                            ABX_STR_FMT(abx_str_sub(inner, 0, 60)));
    if (b == NULL && x->unknown == ABX__DF_UNKNOWN_KEPT)
        return fail_variable(x, name);
    bool is_set = b != NULL && b->is_set && (!colon || b->value.len > 0);
    if (is_set && op == '-')
        return put_value(x, name);
    if (is_set == (op == '+'))
        return expand_text(x, abx_str_sub(rest, (size_t)colon + 1, SIZE_MAX));
    return 0;
}

/* A variable at s[at] == '$'; the bytes it took, -1 on a fault. */
static ptrdiff_t put_variable(struct expansion *x, struct abx_str s)
{
    struct abx_str rest = abx_str_sub(s, 1, SIZE_MAX);
    size_t n = abx__df_name_length(rest);
    if (n > 0)
        return put_value(x, abx_str_sub(rest, 0, n)) < 0 ? -1 : (ptrdiff_t)n + 1;
    if (rest.len == 0 || rest.ptr[0] != '{') {
        abx_buf_put_byte(x->out, '$');
        return 1;
    }
    struct abx_str body = abx_str_sub(rest, 1, SIZE_MAX);
    ptrdiff_t end = closing_brace(x, body);
    if (end < 0)
        return abx__df_fail(x->fault, x->word->at, "${ is not closed");
    return put_braced(x, abx_str_sub(body, 0, (size_t)end)) < 0 ? -1 : end + 3;
}

/* A byte that stands for itself. The builder would expand a '$' in ENV once more. */
static int put_literal(struct expansion *x, struct abx_str s)
{
    struct abx_str after = abx_str_sub(s, 1, SIZE_MAX);
    bool is_variable =
        s.ptr[0] == '$' && (abx__df_name_length(after) > 0 || abx_str_starts(after, "{"));
    if (is_variable && x->unknown == ABX__DF_UNKNOWN_KEPT)
        return abx__df_fail(x->fault, x->word->at,
                            "a literal $ before a name can not be passed in ENV; set it in RUN");
    abx_buf_put_byte(x->out, s.ptr[0]);
    return 0;
}

static int expand_text(struct expansion *x, struct abx_str s)
{
    char quote = '\0';
    if (++x->depth > 8)
        return abx__df_fail(x->fault, x->word->at, "variables are nested too deeply");
    for (size_t i = 0; i < s.len; i++) {
        struct abx_str here = abx_str_sub(s, i, SIZE_MAX);
        char c = s.ptr[i], next = i + 1 < s.len ? s.ptr[i + 1] : '\0';
        bool is_escape = c == x->scope->escape && quote != '\'' && i + 1 < s.len &&
                         (!quote || next == '"' || next == '$' || next == x->scope->escape);
        if (is_escape) {
            if (put_literal(x, abx_str_sub(s, ++i, SIZE_MAX)) < 0)
                return -1;
        } else if (quote ? c == quote : c == '"' || c == '\'')
            quote = quote ? '\0' : c;
        else if (c == '$' && quote != '\'') {
            ptrdiff_t took = put_variable(x, here);
            if (took < 0)
                return -1;
            i += (size_t)took - 1;
        } else if (put_literal(x, here) < 0)
            return -1;
    }
    x->depth--;
    return 0;
}

int abx__df_expand(const struct abx__df_scope *s, const struct abx_df_word *word,
                   enum abx__df_unknown unknown, struct abx_arena *a, struct abx_str *ret,
                   struct abx_df_fault *fault)
{
    ABX_AUTO_BUF b;
    abx_buf_init(&b, VALUE_MAX);
    struct expansion x = {s, word, unknown, &b, fault, 0};
    if (expand_text(&x, word->text) < 0)
        return -1;
    *ret = abx_arena_str(a, abx_buf_str(&b));
    if (abx_buf_failed(&b) || ret->ptr == NULL)
        return abx__df_fail(fault, word->at, "the value is too long");
    return 0;
}
