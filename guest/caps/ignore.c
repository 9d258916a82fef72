/* guest/caps/ignore.c: globs as regular expressions; gitignore(5). */
#include "guest/caps/ignore.h"

#include "lib/base/buf.h"

#include <string.h>

#include "lib/base/banned.h"

enum { EXPRESSION_MAX = 3 * ABX_REGEX_PATTERN };

struct abx_path_glob {
    struct abx_regex_run *run;
};
struct abx_ignore_rule {
    struct abx_path_glob glob;
    bool is_exception, is_folder_only;
};

static void put_literal(struct abx_buf *out, char c)
{
    if (c && strchr("\\.[](){}*+?|^$", c))
        abx_buf_put_byte(out, '\\');
    abx_buf_put_byte(out, c);
}

/* The class that opens at @at; where it ends, or 0: then '[' is itself. */
static size_t put_class(struct abx_buf *out, struct abx_str glob, size_t at)
{
    size_t i = at + 1, first;
    bool is_negated = i < glob.len && (glob.ptr[i] == '!' || glob.ptr[i] == '^');
    i += is_negated;
    first = i;
    while (i < glob.len && (glob.ptr[i] != ']' || i == first))
        i += glob.ptr[i] == '\\' ? 2 : 1;
    if (i >= glob.len)
        return 0;
    abx_buf_put_c(out, is_negated ? "[^/" : "["); /* no class takes a slash */
    for (size_t k = first; k < i; k++) {
        char c = glob.ptr[k];
        bool is_range = c == '-' && k > first && k + 1 < i;
        if (c == '\\' && k + 1 < i)
            c = glob.ptr[++k];
        if (!is_range && c && strchr("\\]^-[", c))
            abx_buf_put_byte(out, '\\');
        abx_buf_put_byte(out, c);
    }
    abx_buf_put_byte(out, ']');
    return i;
}

/* "**" that is a whole component stands for any number of them. Where it ends, or 0. */
static size_t put_many(struct abx_buf *out, struct abx_str glob, size_t at)
{
    if (at + 1 >= glob.len || glob.ptr[at + 1] != '*')
        return 0;
    bool is_whole =
        (at == 0 || glob.ptr[at - 1] == '/') && (at + 2 == glob.len || glob.ptr[at + 2] == '/');
    if (!is_whole)
        return 0;
    if (at + 2 == glob.len) {
        abx_buf_put_c(out, ".+");
        return at + 1;
    }
    abx_buf_put_c(out, "(?:.*/)?");
    return at + 2; /* the slash is in it */
}

static void put_expression(struct abx_buf *out, struct abx_str glob, bool is_anywhere)
{
    abx_buf_put_c(out, is_anywhere ? "^(?:.*/)?" : "^");
    for (size_t i = 0; i < glob.len; i++) {
        char c = glob.ptr[i];
        size_t end = c == '*' ? put_many(out, glob, i) : c == '[' ? put_class(out, glob, i) : 0;
        if (end)
            i = end;
        else if (c == '*')
            abx_buf_put_c(out, "[^/]*");
        else if (c == '?')
            abx_buf_put_c(out, "[^/]");
        else if (c == '\\' && i + 1 < glob.len)
            put_literal(out, glob.ptr[++i]);
        else
            put_literal(out, c);
    }
    abx_buf_put_byte(out, '$');
}

static int compile(struct abx_str glob, bool is_anywhere, struct abx_arena *a,
                   struct abx_path_glob *ret, struct abx_error *err)
{
    struct abx_regex *re;
    ABX_AUTO_BUF text;
    abx_buf_init(&text, EXPRESSION_MAX);
    put_expression(&text, glob, is_anywhere);
    if (abx_buf_failed(&text))
        return abx_err_set(err, ABX_INVALID_ARGUMENT, "a glob is too long");
    if (abx_regex_compile(abx_buf_str(&text), false, a, &re, err) < 0)
        return -1;
    ret->run = abx_regex_run_new(re, a);
    return ret->run ? 0 : abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "too many patterns");
}

static bool matches(const struct abx_path_glob *g, struct abx_str path)
{
    struct abx_regex_match m;
    return abx_regex_search(g->run, path, NULL, &m) == 1;
}

int abx_path_glob_compile(struct abx_str glob, struct abx_arena *a, struct abx_path_glob **ret,
                          struct abx_error *err)
{
    struct abx_path_glob *g = abx_arena_alloc(a, sizeof(*g));
    if (g == NULL)
        return abx_err_set(err, ABX_RESOURCE_EXHAUSTED, "too many patterns");
    bool is_anywhere = abx_str_chr(glob, '/') < 0;
    if (glob.len > 0 && glob.ptr[0] == '/')
        glob = abx_str_sub(glob, 1, glob.len);
    if (compile(glob, is_anywhere, a, g, err) < 0)
        return -1;
    *ret = g;
    return 0;
}

bool abx_path_glob_matches(const struct abx_path_glob *g, struct abx_str path)
{
    return matches(g, path);
}

/* ---- .gitignore ---- */

/* Blanks at the end do not count unless the last is escaped. */
static struct abx_str trim_end(struct abx_str line)
{
    while (line.len > 0 && strchr(" \t\r", line.ptr[line.len - 1]) && line.ptr[line.len - 1] &&
           (line.len < 2 || line.ptr[line.len - 2] != '\\'))
        line.len--;
    return line;
}

/* 1: a rule, 0: none, -1: no memory. */
static int read_rule(struct abx_str line, struct abx_arena *a, struct abx_ignore_rule *ret)
{
    struct abx_error err = {0};
    *ret = (struct abx_ignore_rule){0};
    line = trim_end(line);
    if (line.len == 0 || line.ptr[0] == '#' || line.len > ABX_REGEX_PATTERN)
        return 0;
    if (line.ptr[0] == '!') {
        ret->is_exception = true;
        line = abx_str_sub(line, 1, line.len);
    }
    if (line.len > 0 && line.ptr[line.len - 1] == '/') {
        ret->is_folder_only = true;
        line.len--;
    }
    bool is_anywhere = abx_str_chr(line, '/') < 0;
    if (line.len > 0 && line.ptr[0] == '/')
        line = abx_str_sub(line, 1, line.len);
    if (line.len == 0)
        return 0;
    if (compile(line, is_anywhere, a, &ret->glob, &err) == 0)
        return 1;
    return err.code == ABX_RESOURCE_EXHAUSTED ? -1 : 0;
}

int abx_ignore_parse(struct abx_str text, struct abx_arena *a, struct abx_ignore *ret)
{
    struct abx_str line, rest = text;
    size_t lines = 0;
    while (abx_str_split(&rest, '\n', &line))
        lines++;
    *ret = (struct abx_ignore){0};
    if (lines > ABX_IGNORE_RULES)
        lines = ABX_IGNORE_RULES;
    ret->rules = abx_arena_array(a, lines + 1, sizeof(*ret->rules));
    if (ret->rules == NULL)
        return -1;
    while (ret->count < lines && abx_str_split(&text, '\n', &line)) {
        int rc = read_rule(line, a, &ret->rules[ret->count]);
        if (rc < 0)
            return -1;
        ret->count += (size_t)rc;
    }
    return abx_str_split(&text, '\n', &line) && lines == ABX_IGNORE_RULES ? -1 : 0;
}

enum abx_ignore_verdict abx_ignore_ask(const struct abx_ignore *g, struct abx_str path,
                                       bool is_folder)
{
    for (size_t i = g->count; i-- > 0;) {
        const struct abx_ignore_rule *r = &g->rules[i];
        if ((is_folder || !r->is_folder_only) && matches(&r->glob, path))
            return r->is_exception ? ABX_IGNORE_IN : ABX_IGNORE_OUT;
    }
    return ABX_IGNORE_NOTHING;
}
