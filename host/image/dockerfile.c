/* host/image/dockerfile.c: the text of a Dockerfile to instructions: directives, comments,
 * continuation lines, flags, exec and shell forms, here-documents. */
#include "host/image/dockerfile.h"
#include "host/image/dockerfile_priv.h"
#include "lib/base/assert.h"
#include "lib/base/near.h"

#include <stdarg.h>
#include <stdio.h>

#include "lib/base/banned.h"

enum trait {
    T_EXEC = 1,    /* may be a JSON array */
    T_COMMAND = 2, /* the shell form is one text */
    T_HEREDOC = 4,
    T_ONLY_EXEC = 8,
    T_ONE = 16 /* the whole text is one word */
};
struct keyword {
    const char *name;
    enum abx_df_kind kind;
    unsigned traits;
    const char *flags[3];
    const char *refused; /* why it is not taken, and what to do */
};
static const struct keyword keywords[] = {
    {"FROM", ABX_DF_FROM, 0, {"platform"}, NULL},
    {"ARG", ABX_DF_ARG, 0, {0}, NULL},
    {"ENV", ABX_DF_ENV, 0, {0}, NULL},
    {"RUN", ABX_DF_RUN, T_EXEC | T_COMMAND | T_HEREDOC, {0}, NULL},
    {"COPY", ABX_DF_COPY, T_EXEC | T_HEREDOC, {"chown", "chmod"}, NULL},
    {"ADD", ABX_DF_ADD, T_EXEC | T_HEREDOC, {"chown", "chmod"}, NULL},
    {"WORKDIR", ABX_DF_WORKDIR, T_ONE, {0}, NULL},
    {"USER", ABX_DF_USER, 0, {0}, NULL},
    {"EXPOSE", ABX_DF_EXPOSE, 0, {0}, NULL},
    {"LABEL", ABX_DF_LABEL, 0, {0}, NULL},
    {"CMD", ABX_DF_CMD, T_EXEC | T_COMMAND, {0}, NULL},
    {"ENTRYPOINT", ABX_DF_ENTRYPOINT, T_EXEC | T_COMMAND, {0}, NULL},
    {"SHELL", ABX_DF_SHELL, T_EXEC | T_ONLY_EXEC, {0}, NULL},
    {"HEALTHCHECK", ABX_DF_HEALTHCHECK, T_COMMAND, {0}, NULL},
    {"VOLUME", 0, 0, {0}, "sandboxes have no image volumes; make the folder with RUN mkdir -p"},
    {"ONBUILD", 0, 0, {0}, "write the instruction itself"},
    {"STOPSIGNAL", 0, 0, {0}, "a sandbox ends all its processes with SIGTERM, then SIGKILL"},
    {"MAINTAINER", 0, 0, {0}, "write LABEL authors=..."},
};

struct reader {
    struct abx_str text;
    size_t at;
    struct abx_arena *a;
    struct abx_dockerfile *df;
    struct abx_df_fault *fault;
    char *joined; /* logical lines, one after the other; never longer than the text and a bit */
    uint32_t *source;
    size_t joined_len;
    uint32_t *lines; /* offset of each line */
    size_t line_count;
};

int abx__df_fail(struct abx_df_fault *fault, struct abx_df_place at, const char *fmt, ...)
{
    va_list ap;
    fault->at = at;
    va_start(ap, fmt);
    vsnprintf(fault->text, sizeof(fault->text), fmt, ap);
    va_end(ap);
    return -1;
}

const char *abx_df_kind_name(enum abx_df_kind kind)
{
    return keywords[kind].name; /* the rows that are taken stand in the order of the enum */
}

struct abx_str abx_df_flag(const struct abx_df_instruction *in, const char *name)
{
    for (size_t i = 0; i < in->flag_count; i++) {
        struct abx_str f = abx_str_sub(in->flags[i].text, 2, SIZE_MAX);
        ptrdiff_t equals = abx_str_chr(f, '=');
        if (abx_str_is(abx_str_sub(f, 0, equals < 0 ? f.len : (size_t)equals), name))
            return abx_str_sub(f, equals < 0 ? f.len : (size_t)equals + 1, SIZE_MAX);
    }
    return (struct abx_str){0};
}

/* ---- places ---- */

static struct abx_df_place place_of_offset(const struct reader *r, size_t offset, size_t width)
{
    size_t low = 0, high = r->line_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (r->lines[middle] <= offset)
            low = middle;
        else
            high = middle;
    }
    return (struct abx_df_place){(unsigned)low + 1, (unsigned)(offset - r->lines[low]) + 1,
                                 width ? (unsigned)width : 1};
}

/* Where a slice of the joined text stands in the file. */
static struct abx_df_place place_of(const struct reader *r, struct abx_str s)
{
    size_t at = (size_t)(s.ptr - r->joined);
    struct abx_df_place p = place_of_offset(r, r->source[at], 1);
    struct abx_df_place end = s.len ? place_of_offset(r, r->source[at + s.len - 1], 1) : p;
    p.width = end.line == p.line && end.column >= p.column ? end.column - p.column + 1 : 1;
    return p;
}

static int index_lines(struct reader *r)
{
    size_t count = 1;
    for (size_t i = 0; i < r->text.len; i++)
        count += r->text.ptr[i] == '\n';
    r->lines = abx_arena_array(r->a, count, sizeof(*r->lines));
    r->joined = abx_arena_alloc(r->a, r->text.len + 2);
    r->source = abx_arena_array(r->a, r->text.len + 2, sizeof(*r->source));
    if (r->lines == NULL || r->joined == NULL || r->source == NULL)
        return abx__df_fail(r->fault, (struct abx_df_place){0}, "out of memory");
    r->line_count = 1;
    for (size_t i = 0; i < r->text.len; i++)
        if (r->text.ptr[i] == '\n')
            r->lines[r->line_count++] = (uint32_t)i + 1;
    return 0;
}

/* ---- lines ---- */

/* The physical line at r->at, without its end; moves past it. */
static bool next_line(struct reader *r, struct abx_str *ret)
{
    if (r->at >= r->text.len)
        return false;
    struct abx_str rest = abx_str_sub(r->text, r->at, SIZE_MAX);
    ptrdiff_t end = abx_str_chr(rest, '\n');
    size_t len = end < 0 ? rest.len : (size_t)end;
    r->at += end < 0 ? len : len + 1;
    if (len > 0 && rest.ptr[len - 1] == '\r')
        len--;
    *ret = abx_str_n(rest.ptr, len);
    return true;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

static struct abx_str skip_blanks(struct abx_str s)
{
    while (s.len > 0 && is_blank(s.ptr[0]))
        s = abx_str_sub(s, 1, SIZE_MAX);
    return s;
}

static struct abx_str trim(struct abx_str s)
{
    s = skip_blanks(s);
    while (s.len > 0 && is_blank(s.ptr[s.len - 1]))
        s.len--;
    return s;
}

static void join(struct reader *r, struct abx_str piece)
{
    for (size_t i = 0; i < piece.len; i++) {
        r->source[r->joined_len] = (uint32_t)(piece.ptr + i - r->text.ptr);
        r->joined[r->joined_len++] = piece.ptr[i];
    }
}

/* Joins lines from @line on while they end in the escape character; comments and empty lines
 * between them are dropped. The slice of the joined text. */
static struct abx_str join_lines(struct reader *r, struct abx_str line)
{
    size_t start = r->joined_len;
    for (;;) {
        struct abx_str t = line;
        while (t.len > 0 && (t.ptr[t.len - 1] == ' ' || t.ptr[t.len - 1] == '\t'))
            t.len--;
        bool goes_on = t.len > 0 && t.ptr[t.len - 1] == r->df->escape;
        join(r, goes_on ? abx_str_n(t.ptr, t.len - 1) : line);
        if (!goes_on)
            break;
        struct abx_str seen;
        do {
            if (!next_line(r, &line))
                return abx_str_n(r->joined + start, r->joined_len - start);
            seen = skip_blanks(line);
        } while (seen.len == 0 || seen.ptr[0] == '#');
    }
    return abx_str_n(r->joined + start, r->joined_len - start);
}

/* "# escape=`" and its kind: only at the very top (each name once). */
static int read_directives(struct reader *r)
{
    static const char *const known[] = {"escape", "syntax", "check"};
    for (;;) {
        size_t before = r->at;
        struct abx_str line, name, value;
        if (!next_line(r, &line))
            return 0;
        struct abx_str t = trim(line);
        bool is_known = false;
        value = abx_str_sub(t, 1, SIZE_MAX);
        if (t.len > 0 && t.ptr[0] == '#' && abx_str_chr(t, '=') > 0) {
            (void)abx_str_split(&value, '=', &name);
            name = trim(name);
            value = trim(value);
            for (size_t i = 0; i < ABX_COUNTOF(known); i++)
                is_known = is_known || abx_str_is_nocase(name, known[i]);
        }
        if (!is_known) {
            r->at = before;
            return 0;
        }
        if (!abx_str_is_nocase(name, "escape"))
            continue;
        if (!abx_str_is(value, "\\") && !abx_str_is(value, "`"))
            return abx__df_fail(r->fault, place_of_offset(r, (size_t)(t.ptr - r->text.ptr), t.len),
                                "escape is \\ or `, not '%.*s'", ABX_STR_FMT(value));
        r->df->escape = value.ptr[0];
    }
}

/* ---- words ---- */

static int add_word(struct reader *r, struct abx_df_word **list, size_t *count,
                    const struct abx_df_word *word)
{
    if (*count >= ABX_DF_WORDS_MAX)
        return abx__df_fail(r->fault, word->at, "more than %d words", ABX_DF_WORDS_MAX);
    if (*count == 0 || (*count >= 8 && (*count & (*count - 1)) == 0)) {
        struct abx_df_word *grown = abx_arena_array(r->a, *count ? *count * 2 : 8, sizeof(*grown));
        if (grown == NULL)
            return abx__df_fail(r->fault, word->at, "out of memory");
        if (*count)
            memcpy(grown, *list, *count * sizeof(*grown));
        *list = grown;
    }
    (*list)[(*count)++] = *word;
    return 0;
}

/* One word as written, quotes kept. False at the end of @rest; *ret_open: a quote is not closed. */
static bool next_word(char escape, struct abx_str *rest, struct abx_str *ret, bool *ret_open)
{
    struct abx_str s = skip_blanks(*rest);
    char quote = '\0';
    size_t i = 0;
    for (; i < s.len && (quote || !is_blank(s.ptr[i])); i++) {
        char c = s.ptr[i];
        if (c == escape && quote != '\'' && i + 1 < s.len)
            i++;
        else if (quote && c == quote)
            quote = '\0';
        else if (!quote && (c == '"' || c == '\''))
            quote = c;
    }
    *ret = abx_str_sub(s, 0, i);
    *rest = abx_str_sub(s, i, SIZE_MAX);
    *ret_open = quote != '\0';
    return i > 0;
}

/* The rest of an instruction as words. A shell form's quotes are the shell's business. */
static int read_words(struct reader *r, const struct keyword *k, struct abx_df_instruction *in)
{
    struct abx_str rest = in->text, word;
    bool is_open;
    if (k->traits & T_ONE) {
        struct abx_df_word all = {trim(rest), place_of(r, trim(rest))};
        return all.text.len ? add_word(r, &in->words, &in->word_count, &all) : 0;
    }
    while (next_word(r->df->escape, &rest, &word, &is_open)) {
        struct abx_df_word w = {word, place_of(r, word)};
        if (is_open && !(k->traits & T_COMMAND))
            return abx__df_fail(r->fault, w.at, "a quote is not closed");
        if (add_word(r, &in->words, &in->word_count, &w) < 0)
            return -1;
    }
    return 0;
}

static int hex4(struct abx_str s, unsigned *ret)
{
    *ret = 0;
    for (size_t i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdef";
        const char *at = i < s.len && s.ptr[i] ? strchr(digits, s.ptr[i] | 0x20) : NULL;
        if (at == NULL || (s.ptr[i] >= 0x10 && s.ptr[i] < 0x20))
            return -1;
        *ret = *ret * 16 + (unsigned)(at - digits);
    }
    return 0;
}

static void put_utf8(struct abx_buf *b, unsigned c)
{
    if (c < 0x80)
        abx_buf_put_byte(b, (char)c);
    else if (c < 0x800) {
        abx_buf_put_byte(b, (char)(0xC0 | c >> 6));
        abx_buf_put_byte(b, (char)(0x80 | (c & 0x3F)));
    } else {
        abx_buf_put_byte(b, (char)(0xE0 | c >> 12));
        abx_buf_put_byte(b, (char)(0x80 | (c >> 6 & 0x3F)));
        abx_buf_put_byte(b, (char)(0x80 | (c & 0x3F)));
    }
}

/* One escape of a JSON string at @s (after the backslash); the bytes it took, 0: none such. */
static size_t json_escape(struct abx_str s, struct abx_buf *b)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    unsigned c;
    if (s.len == 0)
        return 0;
    const char *at = s.ptr[0] ? strchr(from, s.ptr[0]) : NULL;
    if (at != NULL) {
        abx_buf_put_byte(b, to[at - from]);
        return 1;
    }
    if (s.ptr[0] != 'u' || s.len < 5 || hex4(abx_str_sub(s, 1, 4), &c) < 0 || c == 0 ||
        (c >= 0xD800 && c < 0xE000))
        return 0;
    put_utf8(b, c);
    return 5;
}

/* A JSON string at the front of *rest. */
static bool json_string(struct reader *r, struct abx_str *rest, struct abx_str *ret)
{
    ABX_AUTO_BUF b;
    abx_buf_init(&b, ABX_DF_TEXT_MAX);
    for (size_t i = 1; i < rest->len; i++) {
        char c = rest->ptr[i];
        if (c == '"') {
            *ret = abx_arena_str(r->a, abx_buf_str(&b));
            *rest = abx_str_sub(*rest, i + 1, SIZE_MAX);
            return ret->ptr != NULL && !abx_buf_failed(&b);
        }
        if (c != '\\') {
            abx_buf_put_byte(&b, c);
            continue;
        }
        size_t took = json_escape(abx_str_sub(*rest, i + 1, SIZE_MAX), &b);
        if (took == 0)
            return false;
        i += took;
    }
    return false;
}

/* Whether the text is a JSON array of strings; then they are the words. Anything else is the shell
 * form, as the format has it. */
static int read_exec(struct reader *r, struct abx_df_instruction *in)
{
    struct abx_str rest = trim(in->text);
    struct abx_df_word *words = NULL;
    size_t count = 0;
    if (rest.len < 2 || rest.ptr[0] != '[' || rest.ptr[rest.len - 1] != ']')
        return 0;
    rest = skip_blanks(abx_str_sub(rest, 1, rest.len - 2));
    while (rest.len > 0 && rest.ptr[0] == '"') {
        struct abx_df_word w = {.at = place_of(r, abx_str_sub(rest, 0, 1))};
        if (!json_string(r, &rest, &w.text))
            return 0;
        if (add_word(r, &words, &count, &w) < 0)
            return -1;
        rest = skip_blanks(rest);
        if (rest.len == 0 || rest.ptr[0] != ',')
            break;
        rest = skip_blanks(abx_str_sub(rest, 1, SIZE_MAX));
        if (rest.len == 0)
            return 0; /* a comma before the bracket is no JSON */
    }
    if (rest.len > 0)
        return 0;
    in->words = words;
    in->word_count = count;
    in->is_exec = true;
    return 0;
}

/* ---- here-documents ---- */

struct heredoc {
    struct abx_str name;
    bool strips_tabs;
};

static bool is_heredoc(struct abx_str word, struct heredoc *ret)
{
    size_t i = 0;
    while (i < word.len && word.ptr[i] >= '0' && word.ptr[i] <= '9')
        i++;
    struct abx_str s = abx_str_sub(word, i, SIZE_MAX);
    if (!abx_str_starts(s, "<<") || abx_str_starts(s, "<<<"))
        return false;
    s = abx_str_sub(s, 2, SIZE_MAX);
    ret->strips_tabs = abx_str_starts(s, "-");
    s = abx_str_sub(s, ret->strips_tabs ? 1 : 0, SIZE_MAX);
    if (s.len >= 2 && (s.ptr[0] == '"' || s.ptr[0] == '\'') && s.ptr[s.len - 1] == s.ptr[0])
        s = abx_str_sub(s, 1, s.len - 2);
    ret->name = s;
    for (i = 0; i < s.len; i++)
        if (strchr("<>|&;()\"'`$\\", s.ptr[i]) != NULL)
            return false;
    return s.len > 0;
}

/* The lines up to the one that is @h's name; *ret is all of them, the name's line left out. */
static int read_heredoc(struct reader *r, const struct heredoc *h, const struct abx_df_word *word,
                        struct abx_str *ret)
{
    size_t start = r->at;
    struct abx_str line;
    for (;;) {
        size_t before = r->at;
        if (!next_line(r, &line))
            return abx__df_fail(r->fault, word->at, "the here-document has no line '%.*s'",
                                ABX_STR_FMT(h->name));
        while (h->strips_tabs && abx_str_starts(line, "\t"))
            line = abx_str_sub(line, 1, SIZE_MAX);
        if (!abx_str_eq(line, h->name))
            continue;
        *ret = abx_str_n(r->text.ptr + start, before - start);
        return 0;
    }
}

/* A RUN that is nothing but a here-document runs its text as a script. */
static int script_of(struct reader *r, struct abx_df_instruction *in, const struct heredoc *h,
                     struct abx_str body)
{
    ABX_AUTO_BUF b;
    abx_buf_init(&b, ABX_DF_TEXT_MAX);
    struct abx_str line;
    if (abx_str_starts(body, "#!"))
        return abx__df_fail(r->fault, in->words[0].at,
                            "a here-document with #! is not built; COPY the script and RUN it");
    if (abx_str_ends(body, "\n"))
        body.len--;
    while (abx_str_split(&body, '\n', &line)) {
        while (h->strips_tabs && abx_str_starts(line, "\t"))
            line = abx_str_sub(line, 1, SIZE_MAX);
        if (b.len > 0)
            abx_buf_put_byte(&b, '\n');
        abx_buf_put_str(&b, line);
    }
    in->command = abx_arena_str(r->a, abx_buf_str(&b));
    return in->command.ptr ? 0 : abx__df_fail(r->fault, in->at, "out of memory");
}

static int read_heredocs(struct reader *r, struct abx_df_instruction *in)
{
    size_t start = r->at;
    struct heredoc h;
    for (size_t i = 0; i < in->word_count; i++) {
        struct abx_str body;
        if (!is_heredoc(in->words[i].text, &h))
            continue;
        if (in->kind != ABX_DF_RUN)
            return abx__df_fail(r->fault, in->words[i].at,
                                "%s of a here-document is not built; put the text into a file",
                                abx_df_kind_name(in->kind));
        if (read_heredoc(r, &h, &in->words[i], &body) < 0)
            return -1;
        if (in->word_count == 1 && in->words[0].text.ptr[0] == '<')
            return script_of(r, in, &h, body);
    }
    if (r->at == start)
        return 0;
    in->command = abx_str_n(abx_arena_printf(r->a, "%.*s\n%.*s", ABX_STR_FMT(in->command),
                                             (int)(r->at - start), r->text.ptr + start),
                            0);
    if (in->command.ptr == NULL)
        return abx__df_fail(r->fault, in->at, "out of memory");
    in->command.len = strlen(in->command.ptr);
    return 0;
}

/* ---- instructions ---- */

static const struct keyword *find_keyword(struct reader *r, struct abx_str word)
{
    struct abx_df_place at = place_of(r, word);
    const char *near = NULL;
    for (size_t i = 0; i < ABX_COUNTOF(keywords); i++) {
        if (abx_str_is_nocase(word, keywords[i].name)) {
            if (keywords[i].refused == NULL)
                return &keywords[i];
            abx__df_fail(r->fault, at, "%s is not supported: %s", keywords[i].name,
                         keywords[i].refused);
            return NULL;
        }
        if (abx_str_is_near(word, keywords[i].name))
            near = keywords[i].name;
    }
    abx__df_fail(r->fault, at, "no instruction '%.40s'%s%s%s",
                 abx_arena_c(r->a, abx_str_sub(word, 0, 40)), near ? "; did you mean " : "",
                 near ? near : "", near ? "?" : "");
    return NULL;
}

static bool has_flag(const struct keyword *k, struct abx_str name)
{
    for (size_t i = 0; i < ABX_COUNTOF(k->flags) && k->flags[i]; i++)
        if (abx_str_is(name, k->flags[i]))
            return true;
    return false;
}

/* Takes "--name=value" words off the front of in->text. */
static int read_flags(struct reader *r, const struct keyword *k, struct abx_df_instruction *in)
{
    for (;;) {
        struct abx_str rest = in->text, word;
        bool is_open;
        if (!next_word(r->df->escape, &rest, &word, &is_open) || !abx_str_starts(word, "--") ||
            k->kind == ABX_DF_HEALTHCHECK || k->kind == ABX_DF_CMD || k->kind == ABX_DF_ENTRYPOINT)
            return 0;
        struct abx_df_word w = {word, place_of(r, word)};
        ptrdiff_t equals = abx_str_chr(word, '=');
        struct abx_str name = abx_str_sub(word, 2, equals < 0 ? SIZE_MAX : (size_t)equals - 2);
        if (abx_str_is(name, "from") && in->kind == ABX_DF_COPY)
            return abx__df_fail(r->fault, w.at,
                                "COPY --from needs another stage or image, which is not built; "
                                "copy the files into the context");
        if (!has_flag(k, name))
            return abx__df_fail(r->fault, w.at, "%s --%.*s is not supported", k->name,
                                ABX_STR_FMT(abx_str_sub(name, 0, 60)));
        if (equals < 0)
            return abx__df_fail(r->fault, w.at, "--%.*s needs a value: --%.*s=...",
                                ABX_STR_FMT(name), ABX_STR_FMT(name));
        if (add_word(r, &in->flags, &in->flag_count, &w) < 0)
            return -1;
        in->text = trim(rest);
    }
}

static int check_words(struct reader *r, const struct keyword *k, struct abx_df_instruction *in)
{
    if (in->word_count == 0)
        return abx__df_fail(r->fault, in->at, "%s needs an argument", k->name);
    if ((k->traits & T_ONLY_EXEC) && !in->is_exec)
        return abx__df_fail(r->fault, in->at, "%s is written [\"program\", \"argument\"]", k->name);
    if ((in->kind == ABX_DF_COPY || in->kind == ABX_DF_ADD) && in->word_count < 2)
        return abx__df_fail(r->fault, in->at, "%s needs a source and a destination", k->name);
    if (in->kind == ABX_DF_USER && in->word_count != 1)
        return abx__df_fail(r->fault, in->words[1].at, "USER takes one name");
    return 0;
}

static int read_instruction(struct reader *r, struct abx_str line, struct abx_df_instruction *in)
{
    struct abx_str logical = trim(join_lines(r, line));
    size_t n = 0;
    while (n < logical.len && !is_blank(logical.ptr[n]))
        n++;
    if (n == 0)
        return 0; /* nothing but continuation */
    struct abx_str word = abx_str_sub(logical, 0, n);
    const struct keyword *k = find_keyword(r, word);
    if (k == NULL)
        return -1;
    in->kind = k->kind;
    in->at = place_of(r, word);
    in->text = trim(abx_str_sub(logical, n, SIZE_MAX));
    if (in->text.len == 0)
        return abx__df_fail(r->fault, in->at, "%s needs an argument", k->name);
    if (read_flags(r, k, in) < 0)
        return -1;
    if ((k->traits & T_EXEC) && read_exec(r, in) < 0)
        return -1;
    if (!in->is_exec && read_words(r, k, in) < 0)
        return -1;
    if (k->traits & T_COMMAND)
        in->command = in->text;
    if (check_words(r, k, in) < 0)
        return -1;
    if ((k->traits & T_HEREDOC) && !in->is_exec && read_heredocs(r, in) < 0)
        return -1;
    in->last_line = place_of_offset(r, r->at ? r->at - 1 : 0, 1).line;
    return 1;
}

static int check_order(struct reader *r, const struct abx_df_instruction *in, bool *has_from)
{
    if (in->kind == ABX_DF_FROM && *has_from)
        return abx__df_fail(r->fault, in->at,
                            "a second FROM: builds of several stages are not built; "
                            "build the stage as a template of its own");
    if (in->kind != ABX_DF_FROM && in->kind != ABX_DF_ARG && !*has_from)
        return abx__df_fail(r->fault, in->at, "%s before FROM", abx_df_kind_name(in->kind));
    *has_from = *has_from || in->kind == ABX_DF_FROM;
    return 0;
}

int abx_dockerfile_parse(struct abx_str text, struct abx_arena *a, struct abx_dockerfile *ret,
                         struct abx_df_fault *fault)
{
    struct reader r = {.text = text, .a = a, .df = ret, .fault = fault};
    struct abx_str line;
    bool has_from = false;
    *ret = (struct abx_dockerfile){.escape = '\\'};
    *fault = (struct abx_df_fault){0};
    if (text.len > ABX_DF_TEXT_MAX)
        return abx__df_fail(fault, (struct abx_df_place){1, 1, 1}, "over %d bytes",
                            ABX_DF_TEXT_MAX);
    if (abx_str_starts(text, "\xEF\xBB\xBF"))
        r.at = 3;
    if (index_lines(&r) < 0 || read_directives(&r) < 0)
        return -1;
    ret->items = abx_arena_array(a, ABX_DF_INSTRUCTIONS_MAX, sizeof(*ret->items));
    if (ret->items == NULL)
        return abx__df_fail(fault, (struct abx_df_place){0}, "out of memory");
    while (next_line(&r, &line)) {
        struct abx_str seen = skip_blanks(line);
        if (seen.len == 0 || seen.ptr[0] == '#')
            continue;
        if (ret->count >= ABX_DF_INSTRUCTIONS_MAX)
            return abx__df_fail(fault, place_of_offset(&r, (size_t)(seen.ptr - text.ptr), 1),
                                "more than %d instructions", ABX_DF_INSTRUCTIONS_MAX);
        struct abx_df_instruction *in = &ret->items[ret->count];
        int n = read_instruction(&r, line, in);
        if (n < 0 || (n > 0 && check_order(&r, in, &has_from) < 0))
            return -1;
        ret->count += (size_t)n;
    }
    if (!has_from)
        return abx__df_fail(fault, (struct abx_df_place){1, 1, 1}, "no FROM");
    return 0;
}
