/* cli/ignore.c: patterns of .dockerignore and of COPY. */
#include "cli/ignore.h"

#include <fnmatch.h>
#include <limits.h>
#include <stdint.h>

#include "lib/base/banned.h"

static bool part_matches(struct abx_str pattern, struct abx_str name)
{
    char p[NAME_MAX + 1], n[NAME_MAX + 1];
    if (abx_str_to_c(pattern, p, sizeof(p)) < 0 || abx_str_to_c(name, n, sizeof(n)) < 0)
        return false;
    return fnmatch(p, n, 0) == 0;
}

/* The first component of *rest; false at the end. */
static bool next_part(struct abx_str *rest, struct abx_str *ret)
{
    return rest->len > 0 && abx_str_split(rest, '/', ret);
}

bool cli_path_match(struct abx_str pattern, struct abx_str path)
{
    /* as fnmatch does '*': remember the last "**" and try again one component further */
    struct abx_str star = {0}, star_path = {0}, p = pattern, s = path;
    bool has_star = false;
    for (;;) {
        struct abx_str p_rest = p, s_rest = s, part, name;
        bool has_part = next_part(&p_rest, &part), has_name = next_part(&s_rest, &name);
        if (has_part && abx_str_is(part, "**")) {
            has_star = true;
            star = p = p_rest;
            star_path = s;
            if (p.len == 0)
                return true;
            continue;
        }
        if (!has_part && !has_name)
            return true;
        if (has_part && has_name && part_matches(part, name)) {
            p = p_rest;
            s = s_rest;
            continue;
        }
        if (!has_star || !next_part(&star_path, &name))
            return false;
        p = star;
        s = star_path;
    }
}

/* "./a/", "/a" and "a" are the same. */
static struct abx_str normal(struct abx_str s)
{
    while (abx_str_starts(s, "/") || abx_str_starts(s, "./"))
        s = abx_str_sub(s, abx_str_starts(s, "/") ? 1 : 2, SIZE_MAX);
    while (abx_str_ends(s, "/"))
        s.len--;
    return s;
}

int cli_ignore_read(struct abx_str text, struct cli_ignore *ret)
{
    struct abx_str line;
    ret->count = 0;
    while (abx_str_split(&text, '\n', &line)) {
        if (abx_str_ends(line, "\r"))
            line.len--;
        line = abx_str_trim(line);
        if (line.len == 0 || line.ptr[0] == '#')
            continue;
        struct cli_ignore_rule rule = {.is_exception = line.ptr[0] == '!'};
        rule.pattern = normal(abx_str_trim(abx_str_sub(line, rule.is_exception, SIZE_MAX)));
        if (rule.pattern.len == 0 || abx_str_is(rule.pattern, "."))
            continue;
        if (ret->count >= CLI_IGNORE_RULES_MAX)
            return -1;
        ret->rules[ret->count++] = rule;
    }
    return 0;
}

/* Whether the rule fits the path or a folder above it. */
static bool rule_fits(const struct cli_ignore_rule *rule, struct abx_str path)
{
    for (size_t i = 1; i <= path.len; i++)
        if ((i == path.len || path.ptr[i] == '/') &&
            cli_path_match(rule->pattern, abx_str_sub(path, 0, i)))
            return true;
    return false;
}

bool cli_ignore_match(const struct cli_ignore *ig, struct abx_str path)
{
    bool is_ignored = false;
    for (size_t i = 0; i < ig->count; i++)
        if (is_ignored == ig->rules[i].is_exception && rule_fits(&ig->rules[i], path))
            is_ignored = !ig->rules[i].is_exception;
    return is_ignored;
}
